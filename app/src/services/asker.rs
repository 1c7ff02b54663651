//! How a service asks what the command line can ask, without waiting for the answer.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};

use weir_protocol::{Request, Rights};

use super::bell::Bell;
use crate::server::{Answer, Job};

/// Where an answer goes. Who waits on a bell for it is woken when it has come, and when none will.
pub(crate) struct ReplyTo {
    /// `None` at the very end.
    sender: Option<SyncSender<Answer>>,
    bell: Option<Bell>,
}

impl ReplyTo {
    /// Answers. Whoever asked may have gone, which is their affair.
    pub(crate) fn send(self, answer: Answer) {
        if let Some(sender) = &self.sender {
            let _ = sender.send(answer);
        }
    }
}

impl From<SyncSender<Answer>> for ReplyTo {
    fn from(sender: SyncSender<Answer>) -> ReplyTo {
        ReplyTo { sender: Some(sender), bell: None }
    }
}

impl Drop for ReplyTo {
    fn drop(&mut self) {
        // In this order: who is woken finds the answer, or that there will be none.
        self.sender = None;
        self.bell.iter().for_each(Bell::ring);
    }
}

/// Asks on behalf of a service.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    jobs: SyncSender<Job>,
    bell: Bell,
}

/// What became of a request.
pub(crate) enum Progress {
    /// It waits.
    Waits,
    /// It was answered.
    Answered(Answer),
    /// Nobody will answer: Weir stops.
    Nobody,
}

/// A request that was made.
pub(crate) struct Pending(Receiver<Answer>);

impl Pending {
    /// What became of it.
    pub(crate) fn look(&self) -> Progress {
        match self.0.try_recv() {
            Ok(answer) => Progress::Answered(answer),
            Err(TryRecvError::Empty) => Progress::Waits,
            Err(TryRecvError::Disconnected) => Progress::Nobody,
        }
    }
}

impl Asker {
    /// Asks the loop that does `jobs`.
    ///
    /// # Errors
    ///
    /// The process has no descriptors left.
    pub(crate) fn new(jobs: SyncSender<Job>) -> io::Result<Asker> {
        Ok(Asker { jobs, bell: Bell::new()? })
    }

    /// Makes a request. `Ok(None)`: too many wait, so it was not made.
    ///
    /// # Errors
    ///
    /// Nobody takes any: Weir stops.
    pub(crate) fn ask(&self, request: Request, rights: Rights) -> Result<Option<Pending>, ()> {
        let (sender, answer) = sync_channel(1);
        let reply = ReplyTo { sender: Some(sender), bell: Some(self.bell.clone()) };
        match self.jobs.try_send(Job::Ask { request, rights, reply }) {
            Ok(()) => Ok(Some(Pending(answer))),
            Err(TrySendError::Full(_)) => Ok(None),
            Err(TrySendError::Disconnected(_)) => Err(()),
        }
    }

    /// Takes in that answers have come.
    pub(crate) fn hush(&self) {
        self.bell.hush();
    }
}

impl AsFd for Asker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
