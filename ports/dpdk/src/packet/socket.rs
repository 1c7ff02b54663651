//! Packet sockets: their options, and sending through them.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// What a socket may hold of frames that wait for the interface, bytes.
const SEND_ROOM: libc::c_int = 4 << 20;
/// `PACKET_FANOUT_HASH` and `PACKET_FANOUT_FLAG_UNIQUEID` of `linux/if_packet.h`. Not `_DEFRAG`, which puts fragments together, nor
/// `_ROLLOVER`, which takes a flow from its worker.
const BY_HASH: u32 = 0;
const NEW_GROUP: u32 = 0x2000;

/// A socket of an interface. It receives nothing until it is [bound](bind) to a protocol.
pub(super) fn open() -> io::Result<OwnedFd> {
    // SAFETY: takes numbers, gives a descriptor or -1.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A socket that sends to an interface and receives nothing. `bypass`: past the kernel's queueing disciplines.
pub(super) fn sender(index: u32, bypass: bool) -> io::Result<OwnedFd> {
    let socket = open()?;
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &libc::c_int::from(bypass))?;
    // Where that is not allowed, the usual room has to do.
    let _as_it_is = set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_ROOM);
    bind(&socket, index, 0)?;
    Ok(socket)
}

/// Makes a socket that is not bound yet ready to hand frames over as they were on the wire: not its own side's, and with what the
/// kernel knows of a tag that it took off and of a checksum that is unfinished.
pub(super) fn prepare_receiver(socket: &OwnedFd) -> io::Result<()> {
    let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
    set_option(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
    set_option(socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)?;
    set_option(socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)?;
    mute(socket)
}

/// Lets nothing through any more, until [`unmute`].
pub(super) fn mute(socket: &OwnedFd) -> io::Result<()> {
    // BPF_RET | BPF_K, of no bytes.
    let mut nothing = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut nothing };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Lets everything through again.
pub(super) fn unmute(socket: &OwnedFd) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0)
}

/// Binds to an interface, for a protocol (`ETH_P_ALL`, or 0 for none).
pub(super) fn bind(socket: &OwnedFd, index: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: a structure of numbers.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index.cast_signed();
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: an address of the length that is said.
    checked(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })
}

/// Lets bound sockets share what comes, each flow with one of them.
pub(super) fn share(sockets: &[OwnedFd]) -> io::Result<()> {
    let Some((first, others)) = sockets.split_first().filter(|(_, others)| !others.is_empty()) else { return Ok(()) };
    set_option(first, libc::SOL_PACKET, libc::PACKET_FANOUT, &((BY_HASH | NEW_GROUP) << 16))?;
    let mut group: u32 = 0;
    get_option(first, libc::PACKET_FANOUT, &mut group)?;
    let join = (group & 0xffff) | (BY_HASH << 16);
    others.iter().try_for_each(|socket| set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &join))
}

/// Frames that found the ring full, since the last call.
pub(super) fn drops(socket: &OwnedFd) -> u64 {
    let mut counted = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    get_option(socket, libc::PACKET_STATISTICS, &mut counted).map_or(0, |()| u64::from(counted.tp_drops))
}

/// What frames an interface receives beside those to its own address: a wish for as long as this is there. The kernel counts who wants what,
/// and forgets who is gone, however that came.
#[derive(Debug)]
pub(crate) struct Wish {
    socket: OwnedFd,
    index: u32,
    promiscuous: bool,
}

impl Wish {
    /// For the frames to all groups; those to whatever address if `promiscuous`.
    pub(crate) fn new(index: u32, promiscuous: bool) -> io::Result<Wish> {
        let mut wish = Wish { socket: open()?, index, promiscuous: false };
        wish.member(libc::PACKET_ADD_MEMBERSHIP, libc::PACKET_MR_ALLMULTI)?;
        wish.set_promiscuous(promiscuous)?;
        Ok(wish)
    }

    /// Whether it is for frames to whatever address.
    pub(crate) fn promiscuous(&self) -> bool {
        self.promiscuous
    }

    /// Changes that.
    pub(crate) fn set_promiscuous(&mut self, promiscuous: bool) -> io::Result<()> {
        if promiscuous != self.promiscuous {
            let option = if promiscuous { libc::PACKET_ADD_MEMBERSHIP } else { libc::PACKET_DROP_MEMBERSHIP };
            self.member(option, libc::PACKET_MR_PROMISC)?;
            self.promiscuous = promiscuous;
        }
        Ok(())
    }

    fn member(&self, option: libc::c_int, of: libc::c_int) -> io::Result<()> {
        let member = libc::packet_mreq {
            mr_ifindex: self.index.cast_signed(),
            mr_type: of as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set_option(&self.socket, libc::SOL_PACKET, option, &member)
    }
}

/// Sends frames, in order, as many as go now. The first that does not go is the error, when it is the first of all.
pub(super) fn send(socket: &OwnedFd, frames: &mut [libc::mmsghdr]) -> io::Result<usize> {
    let n = u32::try_from(frames.len()).unwrap_or(u32::MAX);
    // SAFETY: so many headers, each with pieces of memory that live as long as the call.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), frames.as_mut_ptr(), n, libc::MSG_DONTWAIT) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Sets an option; `T` is what the kernel expects for it.
pub(super) fn set_option<T>(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: a value of the length that is said, to be read.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), length) })
}

/// Reads an option of packet sockets; `T` is a structure of numbers.
fn get_option<T>(socket: &OwnedFd, option: libc::c_int, value: &mut T) -> io::Result<()> {
    let mut length = size_of::<T>() as libc::socklen_t;
    let room = std::ptr::from_mut(value).cast();
    // SAFETY: room for the length that is said.
    checked(unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, room, &raw mut length) })
}

fn checked(rc: libc::c_int) -> io::Result<()> {
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
