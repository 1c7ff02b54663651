//! The forwarding plane manager's protocol of FRR: messages of route netlink over TCP, each behind four bytes (version, kind, length).

use std::collections::VecDeque;

use crate::kernel::{News, decode_daemon};
use crate::netlink;

/// Version of the protocol.
const VERSION: u8 = 1;

/// The kind of message that holds route netlink.
const NETLINK: u8 = 1;

/// Bytes in front of a message.
const HEADER: usize = 4;

/// What came by a connection and is not a whole message yet.
#[derive(Debug, Default)]
pub struct Stream {
    bytes: VecDeque<u8>,
    strange: u64,
}

/// The peer does not speak the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotFpm;

impl Stream {
    /// Takes in what came, and hands what whole messages tell to `each`.
    ///
    /// # Errors
    ///
    /// The peer speaks something else: nothing behind it can be understood.
    pub fn take(&mut self, came: &[u8], mut each: impl FnMut(News)) -> Result<(), NotFpm> {
        self.bytes.extend(came);
        loop {
            let bytes = self.bytes.make_contiguous();
            let [version, kind, high, low, ..] = *bytes else { return Ok(()) };
            let length = usize::from(u16::from_be_bytes([high, low]));
            if version != VERSION || length < HEADER {
                return Err(NotFpm);
            }
            let Some(message) = bytes.get(HEADER..length) else { return Ok(()) };
            if kind == NETLINK {
                for message in netlink::messages(message) {
                    match decode_daemon(message.kind, message.flags, message.body) {
                        Ok(news) => news.into_iter().for_each(&mut each),
                        Err(_) => self.strange += 1,
                    }
                }
            }
            self.bytes.drain(..length);
        }
    }

    /// Messages that could not be understood.
    pub fn strange(&self) -> u64 {
        self.strange
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A route of IPv4 to 198.51.100.0/24 by 192.0.2.9 on link 7, metric 20, in the main table, as FRR tells it.
    fn route(kind: u16) -> Vec<u8> {
        let attribute = |kind: u16, value: &[u8]| {
            let mut bytes = ((value.len() + 4) as u16).to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(value);
            bytes
        };
        let mut body = vec![2, 24, 0, 0, 254, 186, 0, 1, 0, 0, 0, 0];
        body.extend(attribute(1, &[198, 51, 100, 0]));
        body.extend(attribute(6, &20_u32.to_ne_bytes()));
        body.extend(attribute(5, &[192, 0, 2, 9]));
        body.extend(attribute(4, &7_u32.to_ne_bytes()));
        let mut netlink = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
        netlink.extend(kind.to_ne_bytes());
        netlink.extend([0; 10]);
        netlink.extend(body);
        let mut message = vec![VERSION, NETLINK];
        message.extend(((HEADER + netlink.len()) as u16).to_be_bytes());
        message.extend(netlink);
        message
    }

    #[test]
    fn messages_are_told_however_they_are_cut() {
        let bytes = [route(24), vec![VERSION, 9, 0, 6, 1, 2], route(25)].concat();
        for cut in 1..bytes.len() {
            let (mut stream, mut told) = (Stream::default(), Vec::new());
            for part in bytes.chunks(cut) {
                assert_eq!(stream.take(part, |news| told.push(news)), Ok(()));
            }
            let [News::Route { gone: false, table: 254, told: first, .. }, News::Route { gone: true, .. }] = &told[..]
            else {
                panic!("{told:?}");
            };
            assert_eq!((first.prefix.to_string().as_str(), first.metric), ("198.51.100.0/24", 20));
        }
    }

    #[test]
    fn another_protocol_is_noticed() {
        assert_eq!(Stream::default().take(b"GET / HTTP/1.1", |_| ()), Err(NotFpm));
        assert_eq!(Stream::default().take(&[VERSION, NETLINK, 0, 3], |_| ()), Err(NotFpm));
    }
}
