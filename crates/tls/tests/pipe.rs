//! A connection in memory that takes so many bytes at once, and so many in all before somebody reads.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::rc::Rc;

#[derive(Default)]
struct Way {
    bytes: VecDeque<u8>,
    is_closed: bool,
}

/// One end of it.
pub(crate) struct Pipe {
    from: Rc<RefCell<Way>>,
    to: Rc<RefCell<Way>>,
    at_once: usize,
    room: usize,
}

/// Two ends.
pub(crate) fn pair(at_once: usize, room: usize) -> (Pipe, Pipe) {
    let (here, there) = (Rc::<RefCell<Way>>::default(), Rc::<RefCell<Way>>::default());
    let one = Pipe { from: Rc::clone(&here), to: Rc::clone(&there), at_once, room };
    (one, Pipe { from: there, to: here, at_once, room })
}

impl Pipe {
    /// Bytes that wait to be read at this end.
    pub(crate) fn came(&self) -> usize {
        self.from.borrow().bytes.len()
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.to.borrow_mut().is_closed = true;
    }
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut from = self.from.borrow_mut();
        let count = from.bytes.len().min(buffer.len()).min(self.at_once);
        if count == 0 && !from.is_closed {
            return Err(ErrorKind::WouldBlock.into());
        }
        for (to, byte) in buffer.iter_mut().zip(from.bytes.drain(..count)) {
            *to = byte;
        }
        Ok(count)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut to = self.to.borrow_mut();
        let count = bytes.len().min(self.at_once).min(self.room - to.bytes.len());
        if count == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        to.bytes.extend(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
