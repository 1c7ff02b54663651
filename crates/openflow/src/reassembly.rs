//! Putting the parts of a multipart request together, with a bound: OpenFlow 1.3.5 section 7.3.5.

use crate::Error;
use crate::error::BadRequest;
use crate::multipart::Part;

/// The unfinished requests of one connection.
#[derive(Debug)]
pub struct Reassembly {
    /// How many bytes of unfinished requests are kept, all together.
    limit: usize,
    /// Transaction identifier, kind, and body so far.
    open: Vec<(u32, u16, Vec<u8>)>,
}

/// How many requests may be unfinished at the same time.
const MAX_OPEN: usize = 16;

impl Reassembly {
    /// Keeps up to `limit` bytes of unfinished requests.
    pub fn new(limit: usize) -> Reassembly {
        Reassembly { limit, open: Vec::new() }
    }

    /// How many bytes are kept now.
    pub fn held(&self) -> usize {
        self.open.iter().map(|(_, _, body)| body.len()).sum()
    }

    /// Takes a part; gives the whole body if it was the last one.
    ///
    /// # Errors
    ///
    /// [`BadRequest::MultipartBufferOverflow`] if that would be more than is kept, [`BadRequest::BadMultipart`] if the
    /// parts are not of one kind. What was kept of that request is forgotten.
    pub fn add(&mut self, xid: u32, part: Part) -> Result<Option<Part>, Error> {
        let before = self.open.iter().position(|(open, _, _)| *open == xid).map(|at| self.open.swap_remove(at));
        let Some((_, kind, mut body)) = before else {
            if part.more {
                self.keep(xid, part.kind, part.body)?;
                return Ok(None);
            }
            return Ok(Some(part));
        };
        if kind != part.kind {
            return Err(BadRequest::BadMultipart.into());
        }
        if self.held() + body.len() + part.body.len() > self.limit {
            return Err(BadRequest::MultipartBufferOverflow.into());
        }
        body.extend_from_slice(&part.body);
        if part.more {
            self.keep(xid, kind, body)?;
            return Ok(None);
        }
        Ok(Some(Part { kind, more: false, body }))
    }

    fn keep(&mut self, xid: u32, kind: u16, body: Vec<u8>) -> Result<(), Error> {
        if self.open.len() >= MAX_OPEN || self.held() + body.len() > self.limit {
            return Err(BadRequest::MultipartBufferOverflow.into());
        }
        self.open.push((xid, kind, body));
        Ok(())
    }
}
