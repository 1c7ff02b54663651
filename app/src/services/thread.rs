//! The thread of one service: it waits, has the service step, and makes it anew when it fails.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weir_stage::{Service, Waits};

use super::Common;
use super::guard::{guarded, suffer};
use super::slot::Slot;

/// How an instance came to its end.
enum End {
    /// It cannot go on.
    Failed(String),
    /// The thread was given up, or all services stop.
    Over,
}

/// Runs a service until all stop, or the thread is given up.
pub(super) fn run(slot: &Slot, turn: u64, common: &Common) {
    let thread = Thread { slot, turn, common };
    while thread.pause() {
        match thread.live() {
            End::Over => return,
            End::Failed(why) => slot.failed(&why, common.now()),
        }
    }
}

struct Thread<'a> {
    slot: &'a Slot,
    turn: u64,
    common: &'a Common,
}

impl Drop for Thread<'_> {
    /// However it ended, the watchdog hears of it.
    fn drop(&mut self) {
        self.slot.end(self.turn);
    }
}

impl Thread<'_> {
    /// Waits until an instance may be made. False where none is to be made any more.
    fn pause(&self) -> bool {
        while !self.common.stops() {
            match self.slot.wait(self.turn, self.common.now()) {
                None => return false,
                Some(0) => return true,
                // Only an end cuts it short.
                Some(left) => drop(self.poll(&Waits { until: Some(self.common.now() + left), ..Waits::default() })),
            }
        }
        false
    }

    /// An instance, from its making to its end.
    fn live(&self) -> End {
        let mut service = match self.bounded(|now| self.slot.maker.make(now)) {
            Ok(service) => service,
            Err(end) => return end,
        };
        self.slot.made(self.common.now());
        let end = self.serve(&mut *service);
        // Closing what it holds may take as long as a step, and panic as well.
        let closed = match &end {
            End::Failed(_) => self.bounded(|_| close(service)),
            End::Over => guarded(|| close(service)).map_err(End::Failed),
        };
        if matches!(closed, Err(End::Over)) { End::Over } else { end }
    }

    fn serve(&self, service: &mut dyn Service) -> End {
        loop {
            let waited = guarded(|| {
                self.slot.loaded(service.load());
                self.poll(&service.waits())
            });
            let stepped = match waited {
                _ if self.common.stops() => return End::Over,
                Ok(()) => self.bounded(|now| service.step(now)),
                Err(why) => Err(End::Failed(why)),
            };
            if let Err(end) = stepped {
                return end;
            }
        }
    }

    /// Has the service do something that may fail, panic, or never end.
    fn bounded<T>(&self, act: impl FnOnce(u64) -> Result<T, String>) -> Result<T, End> {
        let now = self.common.now();
        let fault = self.slot.begin(self.turn, now).ok_or(End::Over)?;
        let done = guarded(|| {
            fault.into_iter().for_each(suffer);
            act(now)
        });
        if self.slot.ended(self.turn, self.common.now()) { done.map_err(End::Failed) } else { Err(End::Over) }
    }

    /// Waits for what a service waits for, or for the bell.
    fn poll(&self, waits: &Waits<'_>) -> Result<(), String> {
        let mut all = vec![PollFd::new(&self.slot.bell, PollFlags::IN)];
        all.extend(waits.readable.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        all.extend(waits.writable.iter().map(|fd| PollFd::new(fd, PollFlags::OUT)));
        let left = waits.until.map(|until| until.saturating_sub(self.common.now()));
        let timeout = left.map(|left| Timespec {
            tv_sec: i64::try_from(left / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (left % 1_000_000_000) as _,
        });
        match poll(&mut all, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(format!("it cannot be waited for: {error}")),
        }
        self.slot.bell.hush();
        let is_closed = all.iter().any(|fd| fd.revents().contains(PollFlags::NVAL));
        if is_closed { Err("a descriptor that it waits on was closed".to_owned()) } else { Ok(()) }
    }
}

fn close(service: Box<dyn Service>) -> Result<(), String> {
    drop(service);
    Ok(())
}
