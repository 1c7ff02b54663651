//! What a kernel leaves to the device that it sends a frame by: the checksum of the transport protocol, and cutting a long frame into segments.

use crate::checksum::Sum;
use crate::tcp::{FIN, PSH, Tcp};
use crate::{Ethernet, Ipv4, Ipv6, U16, U32, View, ethernet, ipv4, vlan};

/// Flag of TCP: the sender has reduced its congestion window (RFC 3168 section 6.1.2).
const CWR: u8 = 0x80;

/// Tags in front of the packet that are looked past.
const TAGS: usize = 2;

/// What is left to be done of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// From where on the checksum counts, in bytes from the start of the frame: the header of the transport protocol.
    pub start: u16,
    /// Where the checksum lies from there on. In it is the sum of the pseudo header, not inverted.
    pub offset: u16,
    /// Bytes of data of each segment of TCP into which the frame is cut; 0 if it is not.
    pub size: u16,
}

/// Does what is left of a frame, and hands out what comes of it, in order. False, and nothing comes of it, if the frame is not what it
/// is said to be.
pub fn finish(mut frame: Vec<u8>, left: Left, each: &mut dyn FnMut(Vec<u8>)) -> bool {
    if left.size > 0 {
        return Whole::of(&frame, left).and_then(|whole| whole.cut(each)).is_some();
    }
    let is_right = complete(&mut frame, left).is_some();
    if is_right {
        each(frame);
    }
    is_right
}

/// Completes the checksum. One that is 0 is written as all ones, which is the same number and says that there is one (RFC 768).
fn complete(frame: &mut [u8], left: Left) -> Option<()> {
    let covered = frame.get_mut(usize::from(left.start)..)?;
    let sum = match Sum::new().bytes(covered).checksum() {
        0 => 0xffff,
        sum => sum,
    };
    let offset = usize::from(left.offset);
    covered.get_mut(offset..offset + 2)?.copy_from_slice(&sum.to_be_bytes());
    Some(())
}

/// A frame that stands for several segments.
struct Whole<'f> {
    headers: &'f [u8],
    data: &'f [u8],
    /// Where the IP header begins, and where TCP.
    network: usize,
    transport: usize,
    size: usize,
    is_six: bool,
    tcp: &'f Tcp,
}

impl<'f> Whole<'f> {
    fn of(frame: &'f [u8], left: Left) -> Option<Whole<'f>> {
        let (transport, size) = (usize::from(left.start), usize::from(left.size));
        let (network, is_six) = network_of(frame)?;
        let tcp = Tcp::view(frame.get(transport..)?)?;
        let (headers, data) = frame.split_at_checked(transport + tcp.header_len())?;
        let least = network + if is_six { Ipv6::LEN } else { Ipv4::LEN };
        let is_right = transport >= least && tcp.header_len() >= Tcp::LEN && size > 0;
        is_right.then_some(Whole { headers, data, network, transport, size, is_six, tcp })
    }

    fn cut(&self, each: &mut dyn FnMut(Vec<u8>)) -> Option<()> {
        let count = self.data.len().div_ceil(self.size);
        for (n, data) in self.data.chunks(self.size).enumerate() {
            let mut segment = Vec::with_capacity(self.headers.len() + data.len());
            segment.extend_from_slice(self.headers);
            segment.extend_from_slice(data);
            self.tell_length(&mut segment, n)?;
            let mut clear = if n > 0 { CWR } else { 0 };
            if n + 1 < count {
                clear |= FIN | PSH;
            }
            self.go_on(&mut segment, n, clear)?;
            each(segment);
        }
        Some(())
    }

    /// Writes the length into the IP header, and what else is the segment's.
    fn tell_length(&self, segment: &mut [u8], n: usize) -> Option<()> {
        let packet = segment.get_mut(self.network..)?;
        let length = packet.len();
        if self.is_six {
            Ipv6::view_mut(packet)?.payload_length = U16::new(u16::try_from(length.checked_sub(Ipv6::LEN)?).ok()?);
            return Some(());
        }
        let ip = Ipv4::view_mut(packet)?;
        ip.total_length = U16::new(u16::try_from(length).ok()?);
        ip.identification = U16::new(ip.identification.get().wrapping_add(n as u16));
        ipv4::write_checksum(packet).then_some(())
    }

    /// Lets the header of TCP be that of the n-th segment. The sum of the pseudo header that the kernel wrote has the length of the whole in it, and
    /// addresses that may stand elsewhere than in the IP header (RFC 8200 section 8.1).
    fn go_on(&self, segment: &mut [u8], n: usize, clear: u8) -> Option<()> {
        let whole = self.headers.len() + self.data.len() - self.transport;
        let covered = segment.get_mut(self.transport..)?;
        let length = covered.len();
        let tcp = Tcp::view_mut(covered)?;
        tcp.sequence = U32::new(self.tcp.sequence.get().wrapping_add((n * self.size) as u32));
        tcp.flags &= !clear;
        tcp.checksum = U16::ZERO;
        let pseudo = Sum::new().word(self.tcp.checksum.get()).word(!(whole as u16)).word(length as u16);
        let sum = Sum::new().word(pseudo.fold()).bytes(covered).checksum();
        Tcp::view_mut(covered)?.checksum = U16::new(sum);
        Some(())
    }
}

/// Where the IP header of a frame begins, and whether it is IPv6.
fn network_of(frame: &[u8]) -> Option<(usize, bool)> {
    let mut at = Ethernet::LEN;
    for _ in 0..=TAGS {
        let kind: [u8; 2] = frame.get(at - 2..at)?.try_into().ok()?;
        match u16::from_be_bytes(kind) {
            ethernet::IPV4 => return Some((at, false)),
            ethernet::IPV6 => return Some((at, true)),
            kind if vlan::is_tag(kind) => at += 4,
            _ => return None,
        }
    }
    None
}
