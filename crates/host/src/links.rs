//! The kernel's network interfaces: a snapshot of all, and a watch on what changes.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::netlink::{self, Message};

/// Room for one datagram of a dump. The kernel sends at most this much at once (`NLMSG_GOODSIZE`
/// grows to 32 KiB for readers that ask with a buffer of that size).
const DATAGRAM: usize = 32 << 10;
/// Length of `struct ifinfomsg`, and of `struct ifaddrmsg`.
const LINK_FIXED: usize = 16;
const ADDRESS_FIXED: usize = 8;
/// `RTMGRP_LINK`.
const GROUP_LINK: u32 = 1;

/// What the kernel knows about one interface.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Interface {
    /// Its number in this network namespace; a re-created interface gets another.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its Ethernet address; `None` for kinds of link that have none.
    pub mac: Option<[u8; 6]>,
    /// Largest payload of a frame, in bytes.
    pub mtu: u32,
    /// Switched on (`IFF_UP`).
    pub up: bool,
    /// Able to carry packets (`IFF_RUNNING`): the carrier is there, for a veth its peer is up.
    pub running: bool,
    /// The kernel's name for what it is: `veth`, `tun`, `bridge`. `None` for hardware.
    pub kind: Option<String>,
    /// The number of the XDP program that is attached.
    pub xdp: Option<u32>,
    /// The number of the interface that it ends at, for a veth its peer's; `None` where that is in another network namespace.
    pub ends_at: Option<u32>,
    /// The same, of an interface in another network namespace, by its number there.
    pub ends_elsewhere: Option<u32>,
    /// Its addresses, each with the length of its prefix.
    pub addresses: Vec<(IpAddr, u8)>,
}

/// Something that happened to an interface.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LinkEvent {
    /// Its number.
    pub index: u32,
    /// Its name at that time.
    pub name: String,
    /// Whether it carries packets now: switched on, with a carrier.
    pub up: bool,
    /// It is gone; `up` is false.
    pub deleted: bool,
}

/// All interfaces of the calling thread's network namespace, in the order of their numbers.
///
/// # Errors
///
/// When the kernel refuses a netlink socket or answers with an error.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let socket = open(0)?;
    let mut found = BTreeMap::new();
    dump(&socket, netlink::GET_LINK, |message| {
        if let Some(interface) = link(message) {
            found.insert(interface.index, interface);
        }
    })?;
    dump(&socket, netlink::GET_ADDRESS, |message| {
        if let Some((index, address)) = address(message)
            && let Some(interface) = found.get_mut(&index)
        {
            interface.addresses.push(address);
        }
    })?;
    Ok(found.into_values().collect())
}

/// Takes the XDP program off an interface, however it was attached.
///
/// # Errors
///
/// When the kernel refuses to.
pub fn remove_xdp(index: u32) -> io::Result<()> {
    // XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE: only one of both can have one.
    const MODES: [u32; 2] = [1 << 2, 1 << 1];
    let socket = open(0)?;
    let done = MODES.map(|mode| {
        let request = netlink::remove_xdp_request(index, mode);
        rustix::net::send(&socket, &request, SendFlags::empty())?;
        let mut buffer = vec![0; DATAGRAM];
        let (length, _) =
            rustix::io::retry_on_intr(|| rustix::net::recv(&socket, buffer.as_mut_slice(), RecvFlags::empty()))?;
        let answer = netlink::messages(buffer.get(..length).unwrap_or_default()).next();
        // An answer without an error is one whose number is 0.
        match answer.map(refusal) {
            Some(error) if error.raw_os_error() != Some(0) => Err(error),
            _ => Ok(()),
        }
    });
    let [by_driver, by_stack] = done;
    by_driver.or(by_stack)
}

/// Listens to what happens to the interfaces of the network namespace that it was made in.
#[derive(Debug)]
pub struct Watch {
    socket: OwnedFd,
    known: BTreeMap<u32, LinkEvent>,
    buffer: Vec<u8>,
}

impl Watch {
    /// Starts to listen. What happened before is not told; [`interfaces`] or [`Watch::links`] have
    /// the state at the start.
    ///
    /// # Errors
    ///
    /// When the kernel refuses a netlink socket.
    pub fn new() -> io::Result<Watch> {
        // Listening first, so that nothing falls between the snapshot and the first event.
        let socket = open(GROUP_LINK)?;
        Ok(Watch { socket, known: snapshot()?, buffer: vec![0; DATAGRAM] })
    }

    /// The last known state of every interface.
    pub fn links(&self) -> impl Iterator<Item = &LinkEvent> {
        self.known.values()
    }

    /// What happened since the last call, oldest first; empty when nothing did. Never waits. Tells
    /// changes of name and of being up, and deletion; not changes of addresses or counters.
    /// When more happened than the kernel could queue, tells the difference to a new snapshot.
    ///
    /// # Errors
    ///
    /// When the socket fails, other than by overflow.
    pub fn poll(&mut self) -> io::Result<Vec<LinkEvent>> {
        let mut events = Vec::new();
        loop {
            match rustix::net::recv(&self.socket, self.buffer.as_mut_slice(), RecvFlags::DONTWAIT) {
                Ok((length, _)) => {
                    let datagram = self.buffer.get(..length).unwrap_or_default();
                    for message in netlink::messages(datagram) {
                        events.extend(event(message).and_then(|event| note(&mut self.known, event)));
                    }
                }
                Err(Errno::AGAIN) => return Ok(events),
                Err(Errno::INTR) => {}
                Err(Errno::NOBUFS) => events.extend(difference(&mut self.known, snapshot()?)),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Watch {
    /// Readable when [`Watch::poll`] has something to tell.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Remembers an event, and passes it on when it changes what is known.
fn note(known: &mut BTreeMap<u32, LinkEvent>, event: LinkEvent) -> Option<LinkEvent> {
    let before = match event.deleted {
        true => Some(known.remove(&event.index)?),
        false => known.insert(event.index, event.clone()),
    };
    (before.as_ref() != Some(&event)).then_some(event)
}

/// The events that lead from what is known to `now`, which becomes known.
fn difference(known: &mut BTreeMap<u32, LinkEvent>, now: BTreeMap<u32, LinkEvent>) -> Vec<LinkEvent> {
    let gone: Vec<u32> = known.keys().filter(|index| !now.contains_key(index)).copied().collect();
    let deleted: Vec<_> = gone
        .iter()
        .filter_map(|index| known.remove(index))
        .map(|link| LinkEvent { up: false, deleted: true, ..link })
        .collect();
    let changed: Vec<_> = now.into_values().filter_map(|event| note(known, event)).collect();
    deleted.into_iter().chain(changed).collect()
}

fn snapshot() -> io::Result<BTreeMap<u32, LinkEvent>> {
    let mut found = BTreeMap::new();
    dump(&open(0)?, netlink::GET_LINK, |message| {
        if let Some(event) = event(message) {
            found.insert(event.index, event);
        }
    })?;
    Ok(found)
}

pub(crate) fn open(groups: u32) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // Netlink's protocol 0 is NETLINK_ROUTE.
        None,
    )?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// Asks for all objects of a kind, and hands each message to `each` until the kernel says it is done.
fn dump(socket: &OwnedFd, kind: u16, mut each: impl FnMut(Message<'_>)) -> io::Result<()> {
    rustix::net::send(socket, &netlink::question(kind, 0, 16, 1), SendFlags::empty())?;
    let mut buffer = vec![0; DATAGRAM];
    loop {
        let (length, _) =
            rustix::io::retry_on_intr(|| rustix::net::recv(socket, buffer.as_mut_slice(), RecvFlags::empty()))?;
        for message in netlink::messages(buffer.get(..length).unwrap_or_default()) {
            match message.kind {
                netlink::DONE => return Ok(()),
                netlink::ERROR => return Err(refusal(message)),
                _ => each(message),
            }
        }
    }
}

/// The error of a `struct nlmsgerr`: a negative error number.
pub(crate) fn refusal(message: Message<'_>) -> io::Error {
    let code = netlink::u32_at(message.body, 0).map_or(0, u32::cast_signed);
    io::Error::from_raw_os_error(code.saturating_neg())
}

fn event(message: Message<'_>) -> Option<LinkEvent> {
    let deleted = match message.kind {
        netlink::NEW_LINK => false,
        netlink::DEL_LINK => true,
        _ => return None,
    };
    // A bridge speaks of its ports by messages of its own family (AF_BRIDGE): not about the link.
    if message.body.first() != Some(&0) {
        return None;
    }
    let link = parse_link(message.body)?;
    let up = link.up && link.running && !deleted;
    Some(LinkEvent { index: link.index, name: link.name, up, deleted })
}

fn link(message: Message<'_>) -> Option<Interface> {
    (message.kind == netlink::NEW_LINK).then(|| parse_link(message.body)).flatten()
}

/// Reads a `struct ifinfomsg` and its attributes (rtnetlink(7)).
fn parse_link(body: &[u8]) -> Option<Interface> {
    const IFF_UP: u32 = 1;
    const IFF_RUNNING: u32 = 1 << 6;
    let flags = netlink::u32_at(body, 8)?;
    let mut interface = Interface {
        index: netlink::u32_at(body, 4)?,
        name: String::new(),
        mac: None,
        mtu: 0,
        up: flags & IFF_UP != 0,
        running: flags & IFF_RUNNING != 0,
        kind: None,
        xdp: None,
        ends_at: None,
        ends_elsewhere: None,
        addresses: Vec::new(),
    };
    let mut elsewhere = false;
    for (kind, payload) in netlink::attributes(body, LINK_FIXED) {
        match kind {
            // IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_LINKINFO, IFLA_XDP of linux/if_link.h.
            1 => interface.mac = payload.try_into().ok(),
            3 => interface.name = text(payload),
            4 => interface.mtu = netlink::u32_at(payload, 0)?,
            // IFLA_LINK, IFLA_LINK_NETNSID.
            5 => interface.ends_at = netlink::u32_at(payload, 0),
            37 => elsewhere = true,
            // IFLA_INFO_KIND.
            18 => interface.kind = nested(payload, 1).map(text),
            // IFLA_XDP_PROG_ID.
            43 => interface.xdp = nested(payload, 4).and_then(|id| netlink::u32_at(id, 0)),
            _ => {}
        }
    }
    if elsewhere {
        interface.ends_elsewhere = interface.ends_at.take();
    }
    interface.ends_at = interface.ends_at.filter(|index| *index != interface.index);
    (!interface.name.is_empty()).then_some(interface)
}

/// Reads a `struct ifaddrmsg`: the interface's number, the address and its prefix length.
fn address(message: Message<'_>) -> Option<(u32, (IpAddr, u8))> {
    /// `IFA_ADDRESS` is the peer's on a point-to-point link, where `IFA_LOCAL` is our own.
    const IFA_ADDRESS: u16 = 1;
    const IFA_LOCAL: u16 = 2;
    if message.kind != netlink::NEW_ADDRESS {
        return None;
    }
    let prefix = *message.body.get(1)?;
    let index = netlink::u32_at(message.body, 4)?;
    let find = |wanted| {
        netlink::attributes(message.body, ADDRESS_FIXED).find_map(|(kind, payload)| (kind == wanted).then_some(payload))
    };
    let bytes = find(IFA_LOCAL).or_else(|| find(IFA_ADDRESS))?;
    Some((index, (ip(bytes)?, prefix)))
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(four).into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|sixteen| Ipv6Addr::from(sixteen).into())
}

fn nested(payload: &[u8], wanted: u16) -> Option<&[u8]> {
    netlink::attributes(payload, 0).find_map(|(kind, inner)| (kind == wanted).then_some(inner))
}

/// A string attribute, which ends at its NUL.
fn text(payload: &[u8]) -> String {
    let end = payload.iter().position(|byte| *byte == 0).unwrap_or(payload.len());
    String::from_utf8_lossy(payload.get(..end).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(index: u32, name: &str, up: bool) -> LinkEvent {
        LinkEvent { index, name: name.into(), up, deleted: false }
    }

    #[test]
    fn loopback_is_found_with_its_address() {
        let all = interfaces().unwrap();
        let lo = all.iter().find(|interface| interface.name == "lo").unwrap();
        assert_eq!(lo.index, 1);
        assert_eq!(lo.mac, Some([0; 6]));
        assert!(lo.mtu >= 1500);
        if lo.up {
            assert!(lo.addresses.contains(&(Ipv4Addr::LOCALHOST.into(), 8)), "{:?}", lo.addresses);
        }
        assert!(all.is_sorted_by_key(|interface| interface.index));
    }

    #[test]
    fn only_what_changes_is_told() {
        let mut known = BTreeMap::new();
        assert_eq!(note(&mut known, state(3, "a", false)), Some(state(3, "a", false)));
        assert_eq!(note(&mut known, state(3, "a", false)), None);
        assert_eq!(note(&mut known, state(3, "a", true)), Some(state(3, "a", true)));
        let gone = LinkEvent { deleted: true, ..state(3, "a", false) };
        assert_eq!(note(&mut known, gone.clone()), Some(gone.clone()));
        assert_eq!(note(&mut known, gone), None, "unknown before, so nothing to tell");
    }

    #[test]
    fn an_overflow_is_made_up_for_by_the_difference() {
        let map = |links: &[LinkEvent]| links.iter().map(|l| (l.index, l.clone())).collect();
        let mut known: BTreeMap<u32, LinkEvent> =
            map(&[state(1, "lo", true), state(2, "a", true), state(3, "b", true)]);
        let now: BTreeMap<u32, LinkEvent> = map(&[state(1, "lo", true), state(3, "b", false), state(4, "a", true)]);
        let told = difference(&mut known, now.clone());
        let gone = LinkEvent { deleted: true, ..state(2, "a", false) };
        assert_eq!(told, [gone, state(3, "b", false), state(4, "a", true)]);
        assert_eq!(known, now);
    }

    #[test]
    fn a_quiet_watch_has_nothing_to_tell() {
        let mut watch = Watch::new().unwrap();
        assert!(watch.links().any(|link| link.name == "lo"));
        let told = watch.poll().unwrap();
        assert!(told.iter().all(|event| event.name != "lo"), "{told:?}");
    }

    #[test]
    fn any_bytes_are_read_without_a_panic() {
        let mut seed = 1_u32;
        for length in 0..200 {
            let body: Vec<u8> = (0..length)
                .map(|_| {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (seed >> 24) as u8 % 48
                })
                .collect();
            for kind in [netlink::NEW_LINK, netlink::NEW_ADDRESS] {
                let message = Message { kind, flags: 0, body: &body };
                let _ = (event(message), link(message), address(message));
            }
        }
    }
}
