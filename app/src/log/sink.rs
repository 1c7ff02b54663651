//! Where the lines of the log go. Those that are not taken at once wait, up to a bound: nobody who tells something waits for who reads it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Stderr, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Bytes of lines that wait at most.
pub(super) const MOST: usize = 1 << 20;

/// What is written at once: a pipe that takes anything takes so much (`PIPE_BUF`).
const PIECE: usize = 4096;

/// Where lines go.
pub(super) struct Sink {
    to: To,
    waiting: VecDeque<Vec<u8>>,
    bytes: usize,
    lost: u64,
}

enum To {
    Error(Stderr),
    File(File),
}

impl Default for Sink {
    /// The standard error output.
    fn default() -> Sink {
        Sink { to: To::Error(io::stderr()), waiting: VecDeque::new(), bytes: 0, lost: 0 }
    }
}

impl Sink {
    /// One that leads to a file.
    pub(super) fn to(file: File) -> Sink {
        Sink { to: To::File(file), ..Sink::default() }
    }

    /// Takes a line, or loses it where too much waits.
    pub(super) fn put(&mut self, line: String) {
        if self.bytes + line.len() > MOST {
            self.lost += 1;
            return;
        }
        self.bytes += line.len();
        self.waiting.push_back(line.into_bytes());
    }

    /// Writes so many pieces as far as they are taken, each within `patience`. Where there is nobody to take any there is nowhere to say so:
    /// the line is gone.
    pub(super) fn go_on(&mut self, pieces: usize, patience: Duration) {
        for _ in 0..pieces {
            let Some(line) = self.waiting.front() else { return };
            if !self.takes(patience) {
                return;
            }
            let written = match self.write(line.get(..PIECE).unwrap_or(line)) {
                Ok(written) => written,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return,
                Err(_) => line.len(),
            };
            self.bytes = self.bytes.saturating_sub(written);
            if let Some(line) = self.waiting.front_mut() {
                drop(line.drain(..written));
            }
            if self.waiting.front().is_some_and(Vec::is_empty) {
                self.waiting.pop_front();
            }
        }
    }

    /// Bytes that wait.
    pub(super) fn waiting(&self) -> usize {
        self.bytes
    }

    /// How many lines were lost since this was asked last, once no more wait.
    pub(super) fn lost(&mut self) -> u64 {
        if self.waiting.is_empty() { std::mem::take(&mut self.lost) } else { 0 }
    }

    fn write(&self, piece: &[u8]) -> io::Result<usize> {
        match &self.to {
            To::Error(stderr) => stderr.lock().write(piece),
            To::File(file) => (&*file).write(piece),
        }
    }

    /// Whether it takes a piece now, or is broken.
    fn takes(&self, patience: Duration) -> bool {
        let patience = Timespec::try_from(patience).ok();
        poll(&mut [PollFd::new(self, PollFlags::OUT)], patience.as_ref()).is_ok_and(|ready| ready > 0)
    }
}

impl AsFd for Sink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.to {
            To::Error(stderr) => stderr.as_fd(),
            To::File(file) => file.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// A sink that leads into a pipe, and the pipe's other end.
    fn piped() -> (Sink, File) {
        let (reads, writes) = rustix::pipe::pipe().unwrap();
        (Sink::to(File::from(writes)), File::from(reads))
    }

    #[test]
    fn who_does_not_read_holds_nobody_up() {
        let (mut sink, mut reader) = piped();
        let line = |n: usize| format!("{n:0>9999}\n");
        let fits = MOST / 10_000;
        let mut told = 0;
        // Far more than the pipe holds: it would wait for ever.
        while sink.lost == 0 {
            sink.put(line(told));
            sink.go_on(usize::MAX, Duration::ZERO);
            told += 1;
        }
        (0..9).for_each(|n| sink.put(line(n)));
        assert!(sink.waiting() > MOST - 10_000 && sink.waiting() <= MOST && told > fits);
        assert_eq!(sink.lost(), 0, "that is told when lines go out again");
        let reading = std::thread::spawn(move || {
            let mut all = String::new();
            reader.read_to_string(&mut all).unwrap();
            all
        });
        while sink.waiting() > 0 {
            sink.go_on(usize::MAX, Duration::from_secs(60));
        }
        assert_eq!((sink.lost(), sink.lost()), (10, 0));
        drop(sink);
        let all = reading.join().unwrap();
        assert!(all.lines().map(|line| line.parse::<usize>().unwrap()).eq(0..told - 1), "in order, each once, whole");
    }

    #[test]
    fn where_nobody_reads_any_more_lines_are_gone() {
        let (mut sink, reader) = piped();
        drop(reader);
        sink.put("one\n".to_owned());
        sink.put("two\n".to_owned());
        sink.go_on(usize::MAX, Duration::ZERO);
        assert_eq!((sink.waiting(), sink.lost()), (0, 0));
    }
}
