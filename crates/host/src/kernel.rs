//! What the kernel tells of links, addresses, neighbours, routes and next-hop objects, by route netlink: as it changes, and all of it when it is
//! asked for.

mod ask;
mod decode;
#[cfg(test)]
mod tests;

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ipnet::IpNet;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, sockopt};
use weir_net::mirror::{Object, Told};

use crate::links;
use crate::netlink;

pub use ask::{Requests, Settings};
pub use decode::{decode, decode_daemon};

/// Room for what the kernel tells before it is read, in bytes as the kernel counts them: some ten thousand changes of routes.
const BACKLOG: usize = 32 << 20;

/// Room for one datagram of a dump.
const DATAGRAM: usize = 64 << 10;

/// The groups of links, neighbours, addresses and routes of both families, and next-hop objects: RTNLGRP_LINK, NEIGH, IPV4_IFADDR, IPV4_ROUTE,
/// IPV6_IFADDR, IPV6_ROUTE, NEXTHOP.
const GROUPS: u32 = bit(1) | bit(3) | bit(5) | bit(7) | bit(9) | bit(11) | bit(32);

const fn bit(group: u32) -> u32 {
    1 << (group - 1)
}

/// Something that the kernel tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A link.
    Link {
        /// Its number.
        index: u32,
        /// Its name.
        name: String,
        /// Whether it is set up.
        up: bool,
        /// It is gone.
        gone: bool,
    },
    /// An address of a link.
    Address {
        /// The link's number.
        link: u32,
        /// The address, with the length of its network.
        net: IpNet,
        /// It is gone, or another station has it.
        gone: bool,
    },
    /// A neighbour.
    Neighbor {
        /// The link's number.
        link: u32,
        /// Its address.
        address: IpAddr,
        /// Its Ethernet address, if somebody entered it by hand; else nothing of it counts here.
        mac: Option<[u8; 6]>,
    },
    /// A route.
    Route {
        /// The number of its table.
        table: u32,
        /// What is told of it.
        told: Told,
        /// It is gone.
        gone: bool,
        /// It stands behind others of the same metric.
        behind: bool,
    },
    /// A next-hop object; `None`: it is gone.
    NextHop(u32, Option<Object>),
}

/// What became of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Something was read; there may be more.
    Some,
    /// There is nothing now.
    Nothing,
    /// The kernel had more to tell than there was room for: some is lost.
    Lost,
    /// All that was asked for has been told; whether it changed meanwhile in a way that something may be missing.
    Done {
        /// Something may be missing.
        interrupted: bool,
    },
}

/// What may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// All links.
    Links,
    /// All addresses.
    Addresses,
    /// All neighbours.
    Neighbors,
    /// All next-hop objects.
    NextHops,
    /// All routes of IPv4.
    Routes4,
    /// All routes of IPv6.
    Routes6,
}

impl Question {
    /// All of them, in an order in which each needs nothing that comes behind it.
    pub const ALL: [Question; 6] = [
        Question::Links,
        Question::Addresses,
        Question::Neighbors,
        Question::NextHops,
        Question::Routes4,
        Question::Routes6,
    ];

    /// The message's type, the family, and the bytes of its fixed part.
    const fn request(self) -> (u16, u8, usize) {
        const INET: u8 = 2;
        const INET6: u8 = 10;
        match self {
            Question::Links => (18, 0, 16),
            Question::Addresses => (22, 0, 8),
            Question::Neighbors => (30, 0, 12),
            Question::NextHops => (106, 0, 8),
            Question::Routes4 => (26, INET, 12),
            Question::Routes6 => (26, INET6, 12),
        }
    }
}

/// A socket that the kernel tells something by.
#[derive(Debug)]
pub struct Kernel {
    socket: OwnedFd,
    buffer: Vec<u8>,
    sequence: u32,
    interrupted: bool,
    /// Messages that could not be understood.
    strange: u64,
}

impl Kernel {
    /// One that tells what changes, in the network namespace of the calling thread, from here on.
    ///
    /// # Errors
    ///
    /// The kernel refuses the socket.
    pub fn changes() -> io::Result<Kernel> {
        let kernel = Kernel::open(GROUPS)?;
        // Without the privilege it has as much room as everybody may have.
        let forced = sockopt::set_socket_recv_buffer_size_force(&kernel.socket, BACKLOG);
        if forced.is_err() {
            sockopt::set_socket_recv_buffer_size(&kernel.socket, BACKLOG)?;
        }
        Ok(kernel)
    }

    /// One that answers questions.
    ///
    /// # Errors
    ///
    /// The kernel refuses the socket.
    pub fn answers() -> io::Result<Kernel> {
        Kernel::open(0)
    }

    fn open(groups: u32) -> io::Result<Kernel> {
        let socket = links::open(groups)?;
        Ok(Kernel { socket, buffer: vec![0; DATAGRAM], sequence: 0, interrupted: false, strange: 0 })
    }

    /// Asks for all of something; [`read`](Self::read) has it then, up to [`Read::Done`].
    ///
    /// # Errors
    ///
    /// The kernel does not take the question.
    pub fn ask(&mut self, question: Question) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        self.interrupted = false;
        let (kind, family, fixed) = question.request();
        let request = netlink::question(kind, family, fixed, self.sequence);
        rustix::net::send(&self.socket, &request, SendFlags::empty())?;
        Ok(())
    }

    /// Reads one datagram, and hands what it tells to `each`. Waits for nothing.
    ///
    /// # Errors
    ///
    /// The socket fails, or the kernel refuses the question.
    pub fn read(&mut self, mut each: impl FnMut(News)) -> io::Result<Read> {
        let length = match rustix::net::recv(&self.socket, self.buffer.as_mut_slice(), RecvFlags::DONTWAIT) {
            Ok((length, _)) => length,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Read::Nothing),
            Err(Errno::NOBUFS) => return Ok(Read::Lost),
            Err(error) => return Err(error.into()),
        };
        for message in netlink::messages(self.buffer.get(..length).unwrap_or_default()) {
            self.interrupted |= message.flags & netlink::INTERRUPTED != 0;
            match message.kind {
                netlink::DONE => return Ok(Read::Done { interrupted: self.interrupted }),
                netlink::ERROR => {
                    let error = links::refusal(message);
                    if error.raw_os_error() != Some(0) {
                        return Err(error);
                    }
                }
                _ => match decode(message.kind, message.flags, message.body) {
                    Ok(news) => news.into_iter().for_each(&mut each),
                    Err(_) => self.strange += 1,
                },
            }
        }
        Ok(Read::Some)
    }

    /// Messages that could not be understood.
    pub fn strange(&self) -> u64 {
        self.strange
    }
}

impl AsFd for Kernel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
