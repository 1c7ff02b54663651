//! Segments of TCP that go to a kernel as one frame, which stands for all of them: what generic receive offload makes of frames that came in one
//! after the other. Only segments go together which segmentation of the one frame gives back. And segmentation itself: what a kernel sends as one is
//! [finished](finish).

mod finish;
#[cfg(test)]
mod tests;

pub use finish::{Left, finish};

use crate::checksum::Sum;
use crate::ipv4::MAX_LENGTH;
use crate::tcp::{ACK, PSH, Tcp};
use crate::{Ethernet, Ipv4, Ipv6, U16, View, ethernet, ipv4};
use zerocopy::IntoBytes;

/// Segments in one frame at most.
pub const MOST: usize = 64;

/// Flows whose trains are open at once.
const OPEN: usize = 16;

/// How a frame that stands for several segments of TCP is cut into them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Whether it is of IPv6.
    pub is_six: bool,
    /// Where the header of TCP begins, in bytes from the start of the frame.
    pub transport: u16,
    /// Bytes of all headers, which each segment has.
    pub headers: u16,
    /// Bytes of data of each segment but the last, which may have fewer.
    pub size: u16,
}

/// Frames that go as one; mostly a single one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Train {
    /// Their places among those that were looked at, in order.
    pub places: Vec<usize>,
    /// Bytes of data of the first.
    size: usize,
    /// Bytes of data of all.
    data: usize,
}

/// An IP header that precedes TCP.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ip<'f> {
    Four(&'f Ipv4),
    Six(&'f Ipv6),
}

/// A frame of TCP: a whole packet without IP options or extension headers.
#[derive(Clone, Copy)]
struct Segment<'f> {
    ethernet: &'f Ethernet,
    ip: Ip<'f>,
    tcp: &'f Tcp,
    options: &'f [u8],
    data: &'f [u8],
}

/// A train that may grow.
struct Open<'f> {
    interface: u16,
    /// Its place among the trains.
    train: usize,
    last: Segment<'f>,
}

impl Ip<'_> {
    /// The sum of the pseudo header of RFC 9293 section 3.1, of RFC 8200 section 8.1 for IPv6, over `length` bytes of TCP.
    fn pseudo_header(self, length: usize) -> Sum {
        let addresses = match self {
            Ip::Four(ip) => Sum::new().bytes(ip.source.as_bytes()).bytes(ip.destination.as_bytes()),
            Ip::Six(ip) => Sum::new().bytes(&ip.source).bytes(&ip.destination),
        };
        addresses.word(u16::from(ipv4::TCP)).word(length as u16)
    }

    fn has_valid_checksum(self) -> bool {
        match self {
            Ip::Four(ip) => Sum::new().bytes(ip.as_bytes()).fold() == 0xffff,
            Ip::Six(_) => true,
        }
    }

    fn has_addresses_of(self, other: Ip<'_>) -> bool {
        match (self, other) {
            (Ip::Four(one), Ip::Four(other)) => (one.source, one.destination) == (other.source, other.destination),
            (Ip::Six(one), Ip::Six(other)) => (one.source, one.destination) == (other.source, other.destination),
            _ => false,
        }
    }

    /// Whether a header is what segmentation makes of this one for the next segment: "the ID field" of what may be fragmented counts on; of
    /// what may not, "all devices that examine IPv4 headers MUST ignore the IPv4 ID field" (RFC 6864 section 4.1).
    fn goes_on_in(self, next: Ip<'_>) -> bool {
        match (self, next) {
            (Ip::Four(one), Ip::Four(next)) => {
                let counts_on = next.identification.get() == one.identification.get().wrapping_add(1);
                let like_one = Ipv4 {
                    total_length: one.total_length,
                    identification: one.identification,
                    checksum: one.checksum,
                    ..*next
                };
                like_one == *one && (one.dont_fragment() || counts_on)
            }
            (Ip::Six(one), Ip::Six(next)) => Ipv6 { payload_length: one.payload_length, ..*next } == *one,
            _ => false,
        }
    }
}

impl<'f> Segment<'f> {
    /// That of a frame; `None` if it holds anything else, or anything more.
    fn of(frame: &'f [u8]) -> Option<Segment<'f>> {
        let (ethernet, packet) = Ethernet::split(frame)?;
        let (ip, rest) = match ethernet.ethertype.get() {
            ethernet::IPV4 => {
                let (ip, rest) = Ipv4::split(packet)?;
                let is_plain = ip.version() == 4 && ip.header_len() == Ipv4::LEN && !ip.is_fragment();
                let is_tcp = ip.protocol == ipv4::TCP && ip.total_len() == packet.len();
                (is_plain && is_tcp).then_some((Ip::Four(ip), rest))?
            }
            ethernet::IPV6 => {
                let (ip, rest) = Ipv6::split(packet)?;
                let is_tcp = ip.next_header == ipv4::TCP && usize::from(ip.payload_length.get()) == rest.len();
                (ip.version() == 6 && is_tcp).then_some((Ip::Six(ip), rest))?
            }
            _ => return None,
        };
        let (tcp, rest) = Tcp::split(rest)?;
        let (options, data) = rest.split_at_checked(tcp.header_len().checked_sub(Tcp::LEN)?)?;
        Some(Segment { ethernet, ip, tcp, options, data })
    }

    fn is_of_flow_of(&self, other: &Segment<'_>) -> bool {
        let ports = |tcp: &Tcp| (tcp.source, tcp.destination);
        ports(self.tcp) == ports(other.tcp) && self.ip.has_addresses_of(other.ip)
    }

    /// Whether it is nothing but data and an acknowledgement, with or without a push: what segmentation makes.
    fn is_plain(&self) -> bool {
        let has_reserved_bits = self.tcp.data_offset & 0xf != 0;
        let is_urgent = self.tcp.urgent != U16::ZERO;
        self.tcp.flags & !PSH == ACK && !has_reserved_bits && !is_urgent && !self.data.is_empty()
    }

    fn has_valid_checksums(&self) -> bool {
        let length = Tcp::LEN + self.options.len() + self.data.len();
        let sum = self.ip.pseudo_header(length).bytes(self.tcp.as_bytes()).bytes(self.options).bytes(self.data);
        self.ip.has_valid_checksum() && sum.fold() == 0xffff
    }

    /// Whether others may follow in the same frame. "PSH" of that is the last segment's.
    fn may_go_on(&self) -> bool {
        self.is_plain() && self.tcp.flags & PSH == 0
    }

    /// Whether the headers of another are what segmentation makes of the same frame right behind this one, lengths and checksums aside.
    fn goes_on_in(&self, next: &Segment<'_>) -> bool {
        let (one, two) = (self.tcp, next.tcp);
        let sequence = one.sequence.get().wrapping_add(self.data.len() as u32);
        let like_one = Tcp { sequence: one.sequence, flags: one.flags, checksum: one.checksum, ..*two };
        self.may_go_on()
            && next.is_plain()
            && two.sequence.get() == sequence
            && like_one == *one
            && self.options == next.options
            && self.ethernet == next.ethernet
            && self.ip.goes_on_in(next.ip)
    }
}

/// Which frames go as one, by interface: those of a flow stay in order, flows among each other need not. Frames that are nothing like TCP are
/// not overtaken.
pub fn trains<F: AsRef<[u8]>>(frames: &[(u16, F)]) -> Vec<Train> {
    let mut trains: Vec<Train> = Vec::with_capacity(frames.len());
    let mut open: Vec<Open<'_>> = Vec::with_capacity(OPEN);
    for (place, (interface, frame)) in frames.iter().enumerate() {
        let Some(segment) = Segment::of(frame.as_ref()) else {
            open.clear();
            trains.push(Train { places: vec![place], size: 0, data: 0 });
            continue;
        };
        let same = |one: &Open<'_>| one.interface == *interface && one.last.is_of_flow_of(&segment);
        let found = open.iter().position(same);
        if let Some(one) = found.and_then(|at| open.get_mut(at))
            && let Some(train) = trains.get_mut(one.train)
            && train.takes(&one.last, &segment)
        {
            train.places.push(place);
            train.data += segment.data.len();
            one.last = segment;
            continue;
        }
        if let Some(at) = found.or((open.len() == OPEN).then_some(0)) {
            open.remove(at);
        }
        open.push(Open { interface: *interface, train: trains.len(), last: segment });
        let size = segment.data.len();
        trains.push(Train { places: vec![place], size, data: size });
    }
    trains
}

impl Train {
    /// Whether a segment may be the next one behind the last. What the kernel is told to be right must be.
    fn takes(&self, last: &Segment<'_>, next: &Segment<'_>) -> bool {
        let headers = Ipv6::LEN + Tcp::LEN + next.options.len();
        let has_room = self.places.len() < MOST && headers + self.data + next.data.len() <= MAX_LENGTH;
        // Of others it was seen when they came.
        let is_first_right = || self.places.len() > 1 || last.has_valid_checksums();
        let fits = last.data.len() == self.size && next.data.len() <= self.size;
        has_room && fits && last.goes_on_in(next) && is_first_right() && next.has_valid_checksums()
    }

    /// The headers of the one frame, which the data of all follow, and how it is cut; `None` for a single one, which goes as it is. `frames` are
    /// those of which the train was made. The checksum of TCP in them is that of the pseudo header alone, not inverted, for the kernel to go on
    /// from.
    pub fn joined<F: AsRef<[u8]>>(&self, frames: &[(u16, F)]) -> Option<(Vec<u8>, Cut)> {
        let segment = |place: &usize| Segment::of(frames.get(*place)?.1.as_ref());
        let (first, last) = (segment(self.places.first()?)?, segment(self.places.get(1..)?.last()?)?);
        let length = Tcp::LEN + first.options.len() + self.data;
        let mut headers = Vec::with_capacity(Ethernet::LEN + Ipv6::LEN + Tcp::LEN + first.options.len());
        headers.extend_from_slice(first.ethernet.as_bytes());
        match first.ip {
            Ip::Four(ip) => {
                let mut ip = Ipv4 { total_length: U16::new((Ipv4::LEN + length) as u16), checksum: U16::ZERO, ..*ip };
                ip.checksum = U16::new(Sum::new().bytes(ip.as_bytes()).checksum());
                headers.extend_from_slice(ip.as_bytes());
            }
            Ip::Six(ip) => {
                let ip = Ipv6 { payload_length: U16::new(length as u16), ..*ip };
                headers.extend_from_slice(ip.as_bytes());
            }
        }
        let transport = headers.len() as u16;
        let checksum = U16::new(first.ip.pseudo_header(length).fold());
        headers.extend_from_slice(Tcp { checksum, flags: last.tcp.flags, ..*first.tcp }.as_bytes());
        headers.extend_from_slice(first.options);
        let is_six = matches!(first.ip, Ip::Six(_));
        let cut = Cut { is_six, transport, headers: headers.len() as u16, size: self.size as u16 };
        Some((headers, cut))
    }
}
