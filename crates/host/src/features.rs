//! What the kernel does for an interface beside moving its frames: the features that `ethtool -k` lists, by generic netlink.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::netlink::{self, attributes, u16_at};

/// Length of `struct nlmsghdr`, and of `struct genlmsghdr` behind it.
const HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;
/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
/// `NLA_F_NESTED`.
const NESTED: u16 = 0x8000;
/// Room for one answer: a few thousand bytes of names.
const ANSWER: usize = 32 << 10;

/// What finds the number of a family: `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY`, `CTRL_ATTR_FAMILY_ID` and `CTRL_ATTR_FAMILY_NAME` of
/// `linux/genetlink.h`.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// Of `linux/ethtool_netlink.h`.
const FEATURES_GET: u8 = 11;
const FEATURES_HEADER: u16 = 1;
const FEATURES_ACTIVE: u16 = 4;
const DEVICE_INDEX: u16 = 1;
const BITSET_BITS: u16 = 3;
const BIT: u16 = 1;
const BIT_NAME: u16 = 2;

/// The names of the features that are on at the interface of this index: `tx-checksum-ip-generic`.
///
/// # Errors
///
/// When the kernel refuses a netlink socket, knows no `ethtool` there, or has no such interface.
pub fn active(index: u32) -> io::Result<Vec<String>> {
    let socket =
        rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(GENERIC))?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    let family = ask(&socket, CONTROL, GET_FAMILY, &attribute(FAMILY_NAME, b"ethtool\0"))?;
    let number = attributes(&family, GENERIC_HEADER).find(|(kind, _)| *kind == FAMILY_ID);
    let number = number.and_then(|(_, value)| u16_at(value, 0)).ok_or(io::ErrorKind::InvalidData)?;
    let device = attribute(DEVICE_INDEX, &index.to_ne_bytes());
    Ok(names(&ask(&socket, number, FEATURES_GET, &attribute(FEATURES_HEADER | NESTED, &device))?))
}

/// The names in the answer about an interface: those of the set of active features, whose bits are all listed and set.
fn names(answer: &[u8]) -> Vec<String> {
    let of = |body: &[u8], wanted: u16| -> Vec<Vec<u8>> {
        attributes(body, 0).filter(|(kind, _)| *kind == wanted).map(|(_, value)| value.to_vec()).collect()
    };
    let inner = |bodies: Vec<Vec<u8>>, wanted: u16| bodies.iter().flat_map(|body| of(body, wanted)).collect();
    let answer = answer.get(GENERIC_HEADER..).unwrap_or_default();
    let found = [FEATURES_ACTIVE, BITSET_BITS, BIT, BIT_NAME].into_iter().fold(vec![answer.to_vec()], inner);
    found.iter().map(|name| String::from_utf8_lossy(name).trim_end_matches('\0').to_owned()).collect()
}

/// Sends a request, and returns what is behind the header of its answer.
fn ask(socket: &OwnedFd, family: u16, command: u8, attributes: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(HEADER + GENERIC_HEADER + attributes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut request = Vec::new();
    request.extend(length.to_ne_bytes());
    request.extend([family.to_ne_bytes(), REQUEST.to_ne_bytes()].concat());
    // Sequence and sender: one question at a time on a socket of its own needs neither.
    request.extend([0; 8]);
    request.extend([command, 1, 0, 0]);
    request.extend(attributes);
    rustix::net::send(socket, &request, SendFlags::empty())?;
    let mut buffer = vec![0; ANSWER];
    let (length, _) =
        rustix::io::retry_on_intr(|| rustix::net::recv(socket, buffer.as_mut_slice(), RecvFlags::empty()))?;
    let answer =
        netlink::messages(buffer.get(..length).unwrap_or_default()).next().ok_or(io::ErrorKind::InvalidData)?;
    match answer.kind {
        netlink::ERROR => {
            let code = netlink::u32_at(answer.body, 0).map_or(0, u32::cast_signed);
            Err(io::Error::from_raw_os_error(code.saturating_neg()))
        }
        _ => Ok(answer.body.to_vec()),
    }
}

/// An attribute: its length, kind and value, filled up to a multiple of 4.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_active_features() {
        let bit =
            |name: &[u8]| attribute(BIT | NESTED, &[attribute(1, &[7, 0, 0, 0]), attribute(BIT_NAME, name)].concat());
        let bits = |names: &[&[u8]]| {
            let all: Vec<u8> = names.iter().flat_map(|name| bit(name)).collect();
            attribute(BITSET_BITS | NESTED, &all)
        };
        let set = |kind: u16, names: &[&[u8]]| attribute(kind | NESTED, &bits(names));
        let answer =
            [vec![0; GENERIC_HEADER], set(2, &[b"hw\0"]), set(FEATURES_ACTIVE, &[b"tx-x\0", b"rx-y\0"])].concat();
        assert_eq!(names(&answer), ["tx-x", "rx-y"]);
        for end in 0..answer.len() {
            assert!(names(&answer[..end]).len() <= 2, "{end}");
        }
    }

    #[test]
    fn the_loopback_has_features_and_nobody_has_none() {
        let Ok(features) = active(1) else {
            println!("skipped: this kernel does not tell of features");
            return;
        };
        assert!(features.iter().any(|name| name == "loopback"), "{features:?}");
        assert!(active(u32::MAX >> 1).is_err());
    }
}
