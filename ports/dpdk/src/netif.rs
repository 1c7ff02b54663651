//! What the kernel says about an interface, by ioctl (netdevice(7)): in the network namespace of the
//! caller, which sysfs need not be.

mod features;
mod speed;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// An interface, looked at when it was opened.
#[derive(Debug)]
pub(crate) struct Interface {
    socket: OwnedFd,
    name: [libc::c_char; libc::IFNAMSIZ],
    index: u32,
}

/// What became of an interface.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Presence {
    /// It is there.
    Same,
    /// Another one has its name.
    Another,
    /// It was deleted, or moved to another network namespace.
    Gone,
}

/// `struct ethtool_channels` of `linux/ethtool.h`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    max_rx: u32,
    max_tx: u32,
    max_other: u32,
    max_combined: u32,
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// `ETHTOOL_GGRO` and `ETHTOOL_SGRO`, `ETHTOOL_GFLAGS` and `ETHTOOL_SFLAGS`.
const GRO: (u32, u32) = (0x2b, 0x2c);
const FLAGS: (u32, u32) = (0x25, 0x26);
/// `ETH_FLAG_LRO`.
const LRO: u32 = 1 << 15;
/// Tags of IEEE 802.1Q beside a frame that is sent, and those of 802.1ad.
const C_TAGS_BESIDE: &str = "tx-vlan-hw-insert";
const S_TAGS_BESIDE: &str = "tx-vlan-stag-hw-insert";

/// What puts received segments together into longer ones.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Merging {
    /// The kernel (generic receive offload).
    pub(crate) gro: bool,
    /// The device (large receive offload).
    pub(crate) lro: bool,
}

/// Tags that are beside a frame rather than in it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Beside {
    /// Those of IEEE 802.1Q.
    pub(crate) c_tags: bool,
    /// Those of IEEE 802.1ad.
    pub(crate) s_tags: bool,
}

impl Interface {
    /// Finds an interface by its name.
    pub(crate) fn find(name: &str) -> io::Result<Interface> {
        let text = CString::new(name)?;
        // SAFETY: a C string.
        let index = unsafe { libc::if_nametoindex(text.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: takes numbers, gives a descriptor or -1.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, so nobody else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut field = [0; libc::IFNAMSIZ];
        for (place, byte) in field.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.bytes()) {
            *place = byte.cast_signed();
        }
        Ok(Interface { socket, name: field, index })
    }

    /// Its name.
    pub(crate) fn name(&self) -> String {
        self.name.iter().take_while(|byte| **byte != 0).map(|byte| char::from(byte.cast_unsigned())).collect()
    }

    /// Its number.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Its Ethernet address.
    pub(crate) fn mac(&self) -> io::Result<[u8; 6]> {
        let mut request = self.request();
        self.ioctl(libc::SIOCGIFHWADDR, &mut request)?;
        // SAFETY: this request fills in the address.
        let address = unsafe { request.ifr_ifru.ifru_hwaddr }.sa_data;
        let mut mac = [0; 6];
        mac.iter_mut().zip(address).for_each(|(to, from)| *to = from.cast_unsigned());
        Ok(mac)
    }

    /// Changes its Ethernet address.
    pub(crate) fn set_mac(&self, mac: [u8; 6]) -> io::Result<()> {
        let mut address = libc::sockaddr { sa_family: libc::ARPHRD_ETHER, sa_data: [0; 14] };
        address.sa_data.iter_mut().zip(mac).for_each(|(to, from)| *to = from.cast_signed());
        let mut request = self.request();
        request.ifr_ifru.ifru_hwaddr = address;
        self.ioctl(libc::SIOCSIFHWADDR, &mut request)
    }

    /// What puts segments together on it; nothing where the driver cannot tell.
    pub(crate) fn merging(&self) -> Merging {
        let read = |command| self.ethtool(command, 0).unwrap_or(0);
        Merging { gro: read(GRO.0) != 0, lro: read(FLAGS.0) & LRO != 0 }
    }

    /// Which tags of what it sends may be beside the frame, for a device that puts them in.
    pub(crate) fn tags_beside(&self) -> Beside {
        let is_on = |name| self.feature(name).unwrap_or(false);
        Beside { c_tags: is_on(C_TAGS_BESIDE), s_tags: is_on(S_TAGS_BESIDE) }
    }

    /// Changes that, where it is different.
    pub(crate) fn set_tags_beside(&self, wanted: Beside) -> io::Result<()> {
        let now = self.tags_beside();
        if now.c_tags != wanted.c_tags {
            self.set_feature(C_TAGS_BESIDE, wanted.c_tags)?;
        }
        if now.s_tags != wanted.s_tags {
            self.set_feature(S_TAGS_BESIDE, wanted.s_tags)?;
        }
        Ok(())
    }

    /// Changes that, where it is different.
    pub(crate) fn set_merging(&self, wanted: Merging) -> io::Result<()> {
        let now = self.merging();
        if now.gro != wanted.gro {
            self.ethtool(GRO.1, u32::from(wanted.gro))?;
        }
        if now.lro != wanted.lro {
            let others = self.ethtool(FLAGS.0, 0)? & !LRO;
            self.ethtool(FLAGS.1, others | if wanted.lro { LRO } else { 0 })?;
        }
        Ok(())
    }

    fn ethtool(&self, command: u32, data: u32) -> io::Result<u32> {
        let mut value = Value { command, data };
        let mut request = self.request();
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        self.ioctl(libc::SIOCETHTOOL, &mut request)?;
        Ok(value.data)
    }

    /// Its MTU.
    pub(crate) fn mtu(&self) -> io::Result<u16> {
        let mut request = self.request();
        self.ioctl(libc::SIOCGIFMTU, &mut request)?;
        // SAFETY: this request fills in the MTU.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        Ok(u16::try_from(mtu).unwrap_or(u16::MAX))
    }

    /// Changes its MTU.
    pub(crate) fn set_mtu(&self, mtu: u16) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_mtu = i32::from(mtu);
        self.ioctl(libc::SIOCSIFMTU, &mut request)
    }

    /// Whether there is an interface of this name still, and whether it is the same one.
    pub(crate) fn presence(&self) -> Presence {
        let mut request = self.request();
        match self.ioctl(libc::SIOCGIFINDEX, &mut request) {
            Err(_) => Presence::Gone,
            // SAFETY: this request fills in the number.
            Ok(()) if unsafe { request.ifr_ifru.ifru_ifindex }.cast_unsigned() == self.index => Presence::Same,
            Ok(()) => Presence::Another,
        }
    }

    /// Whether it is switched on and has a carrier.
    pub(crate) fn is_running(&self) -> io::Result<bool> {
        let both = libc::IFF_UP | libc::IFF_RUNNING;
        self.flags().map(|flags| i32::from(flags) & both == both)
    }

    /// Switches it on, if it is not.
    pub(crate) fn bring_up(&self) -> io::Result<()> {
        let flags = self.flags()?;
        let up = i16::try_from(libc::IFF_UP).unwrap_or(1);
        if flags & up != 0 {
            return Ok(());
        }
        let mut request = self.request();
        request.ifr_ifru.ifru_flags = flags | up;
        self.ioctl(libc::SIOCSIFFLAGS, &mut request)
    }

    /// How many queues AF_XDP can bind: the channels that are in use both ways. One where the driver
    /// knows no such channels (veth: its queues are for one direction each).
    pub(crate) fn channels(&self) -> u16 {
        let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
        let mut request = self.request();
        request.ifr_ifru.ifru_data = (&raw mut channels).cast();
        match self.ioctl(libc::SIOCETHTOOL, &mut request) {
            Ok(()) if channels.max_combined > 0 => u16::try_from(channels.combined).unwrap_or(u16::MAX).max(1),
            _ => 1,
        }
    }

    fn flags(&self) -> io::Result<i16> {
        let mut request = self.request();
        self.ioctl(libc::SIOCGIFFLAGS, &mut request)?;
        // SAFETY: this request fills in the flags.
        Ok(unsafe { request.ifr_ifru.ifru_flags })
    }

    fn request(&self) -> libc::ifreq {
        // SAFETY: a structure of numbers and one pointer, for which null is a value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        request.ifr_name = self.name;
        request
    }

    fn ioctl(&self, number: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: every request used here takes an ifreq; where it has a pointer, to a live structure
        // of the right type.
        match unsafe { libc::ioctl(self.socket.as_raw_fd(), number, std::ptr::from_mut(request)) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_answers() {
        let lo = Interface::find("lo").unwrap();
        assert_eq!(lo.index(), 1);
        assert!(lo.mtu().unwrap() >= 1500);
        assert_eq!(lo.presence(), Presence::Same);
        assert_eq!(lo.channels(), 1);
        assert!(lo.is_running().is_ok());
    }

    #[test]
    fn a_missing_interface_is_an_error() {
        assert_eq!(Interface::find("no-such-if").unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }
}
