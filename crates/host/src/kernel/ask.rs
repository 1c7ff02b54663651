//! Requests to the kernel about links and addresses.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::net::{RecvFlags, SendFlags};

use crate::{links, netlink};

/// What a link is to be; nothing changes of what is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Its Ethernet address.
    pub mac: Option<[u8; 6]>,
    /// Bytes of the longest packet.
    pub mtu: Option<u32>,
    /// Whether it is set up.
    pub up: Option<bool>,
    /// Whether there is somebody at the other end.
    pub carrier: Option<bool>,
}

/// A socket for requests, which the kernel answers at once.
#[derive(Debug)]
pub struct Requests {
    socket: OwnedFd,
    sequence: u32,
}

impl Requests {
    /// One in the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// The kernel refuses the socket.
    pub fn open() -> io::Result<Requests> {
        Ok(Requests { socket: links::open(0)?, sequence: 0 })
    }

    /// Lets a link be so.
    ///
    /// # Errors
    ///
    /// The kernel refuses it.
    pub fn set_link(&mut self, index: u32, settings: Settings) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        if let Some(up) = settings.up {
            message.header.change_mask = LinkFlags::Up;
            message.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
        }
        let mac = settings.mac.map(|mac| LinkAttribute::Address(mac.to_vec()));
        let carrier = settings.carrier.map(|carrier| LinkAttribute::Carrier(carrier.into()));
        message.attributes = [mac, settings.mtu.map(LinkAttribute::Mtu), carrier].into_iter().flatten().collect();
        self.ask(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Gives a link an address.
    ///
    /// # Errors
    ///
    /// The kernel refuses it.
    pub fn add_address(&mut self, index: u32, net: IpNet) -> io::Result<()> {
        self.ask(RouteNetlinkMessage::NewAddress(address(index, net)), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Takes an address from a link.
    ///
    /// # Errors
    ///
    /// The kernel refuses it.
    pub fn remove_address(&mut self, index: u32, net: IpNet) -> io::Result<()> {
        self.ask(RouteNetlinkMessage::DelAddress(address(index, net)), 0)
    }

    fn ask(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut message = NetlinkMessage::from(message);
        message.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        message.header.sequence_number = self.sequence;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        rustix::net::send(&self.socket, &bytes, SendFlags::empty())?;
        let mut buffer = [0; 4096];
        let (length, _) =
            rustix::io::retry_on_intr(|| rustix::net::recv(&self.socket, &mut buffer[..], RecvFlags::empty()))?;
        let answer = netlink::messages(buffer.get(..length).unwrap_or_default()).next();
        // An answer without an error is one whose number is 0.
        match answer.map(links::refusal) {
            Some(error) if error.raw_os_error() != Some(0) => Err(error),
            _ => Ok(()),
        }
    }
}

fn address(index: u32, net: IpNet) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.index = index;
    message.header.prefix_len = net.prefix_len();
    message.header.family = if net.addr().is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    message.attributes.push(AddressAttribute::Address(net.addr()));
    message.attributes.push(AddressAttribute::Local(net.addr()));
    if let (IpAddr::V4(_), IpNet::V4(net)) = (net.addr(), net)
        && net.prefix_len() < 31
    {
        message.attributes.push(AddressAttribute::Broadcast(net.broadcast()));
    }
    message
}
