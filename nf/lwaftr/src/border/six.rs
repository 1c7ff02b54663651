//! IPv4 packets out of tunnels, and what routers on the way of tunnels tell.

use std::net::Ipv6Addr;

use weir_net::icmp::Problem;
use weir_net::icmp6;
use weir_wire::{Ipv4, Ipv6, View, ethernet, ipv4, ipv6, validity};

use super::errors::is_valid_icmp6;
use super::ports::{End as Whose, Port, port_of};
use super::{Border, End, From4, HEADER, Verdict, clamp, framed};
use crate::exit::Exit;
use crate::table::{Direction, Ends, Softwire};
use crate::tally::Count;

/// The ECN field (RFC 3168), and what it says.
const ECN: u8 = 3;
const NOT_CAPABLE: u8 = 0;
const CAPABLE_1: u8 = 1;
const CAPABLE_0: u8 = 2;
const CONGESTED: u8 = 3;

/// Kinds of ICMPv6 (RFC 4443).
const UNREACHABLE: u8 = 1;
const TOO_BIG: u8 = 2;
const TIME_EXCEEDED: u8 = 3;
const PARAMETER: u8 = 4;

/// Bytes of the header of an ICMPv6 error.
const ICMP6_LEN: usize = 8;

/// What stands around a packet in a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outer {
    pub(crate) source: Ipv6Addr,
    pub(crate) destination: Ipv6Addr,
    pub(crate) class: u8,
}

impl Outer {
    pub(crate) fn of(ip: &Ipv6) -> Outer {
        Outer { source: ip.source_addr(), destination: ip.destination_addr(), class: ip.traffic_class() }
    }
}

impl Border {
    /// What becomes of the IPv4 packet `inner` that came in a tunnel; `whole` is what its sender is told about, and `l2` the bytes of its frame.
    pub(crate) fn receive_tunneled(&mut self, now: u64, outer: Outer, inner: &[u8], whole: &[u8], l2: u64) -> Verdict {
        self.tally.one(Count::InSix, l2);
        let total = Ipv4::view(inner).map_or(0, Ipv4::total_len);
        let Some(inner) = inner.get(..total).filter(|inner| validity::check_slice(inner).is_ok()) else {
            return self.stop_six(Exit::BadInner, l2);
        };
        let softwire = match self.source_of(outer, inner) {
            Ok(softwire) => softwire,
            Err(Exit::NoSource) => return self.no_source(now, outer, inner, whole, l2),
            Err(exit) => return self.stop_six(exit, l2),
        };
        let mut packet = framed(ethernet::IPV4, [inner, &[]]);
        if !mark(packet.get_mut(HEADER..).unwrap_or_default(), outer.class & ECN) {
            return self.stop_six(Exit::Congestion, l2);
        }
        self.count(softwire, Direction::Up, inner);
        let verdict = self.onward_from(now, packet, softwire);
        if matches!(verdict.end, End::Stop(_)) {
            self.tally.one(Count::DropSix, l2);
        }
        verdict
    }

    /// The softwire that a packet is from: "the source IPv4 address and port" must be its, and both ends of the tunnel (RFC 7596 section 6.2).
    fn source_of(&self, outer: Outer, inner: &[u8]) -> Result<Softwire, Exit> {
        let ends = Ends { b4: outer.source, aftr: outer.destination };
        self.owner_of(inner, Whose::Source)?.filter(|found| found.ends == ends).ok_or(Exit::NoSource)
    }

    /// Whose one end of a packet is.
    fn owner_of(&self, packet: &[u8], whose: Whose) -> Result<Option<Softwire>, Exit> {
        let ip = Ipv4::view(packet).ok_or(Exit::PortsMissing)?;
        let port = match port_of(packet, whose, &self.rules.echo) {
            Port::Is(port) => Some(port),
            Port::None => None,
            Port::Missing => return Err(Exit::PortsMissing),
        };
        let address = if whose == Whose::Source { ip.source_addr() } else { ip.destination_addr() };
        Ok(self.softwires.owner(address, port))
    }

    fn no_source(&mut self, now: u64, outer: Outer, inner: &[u8], whole: &[u8], l2: u64) -> Verdict {
        self.tally.one(Count::NoSource, l2);
        // "ICMPv6 type 1, code 5 (source address failed ingress/egress policy)"; from the end that the packet should have gone to.
        let known = self.owner_of(inner, Whose::Source).ok().flatten().map(|softwire| softwire.ends.aftr);
        let source = known.unwrap_or(outer.destination);
        let answer = self.answer_six(now, icmp6::Problem::SourcePolicy, whole, source, Exit::SourcePolicy);
        self.tally.one(Count::DropSix, l2);
        Verdict { end: End::Stop(Exit::NoSource), answer }
    }

    /// A customer's packet goes on: to another customer, or to the Internet.
    fn onward_from(&mut self, now: u64, mut frame: Vec<u8>, softwire: Softwire) -> Verdict {
        let packet = frame.get_mut(HEADER..).unwrap_or_default();
        let Some(ip) = Ipv4::view(packet) else { return Exit::BadInner.into() };
        let (to, ttl, l2) = (ip.destination_addr(), ip.ttl, (HEADER + packet.len()) as u64);
        let must_fit = ip.dont_fragment();
        let from = From4::Customer(softwire);
        if self.rules.hairpinning && (self.softwires.sets_of(to).is_some()) {
            self.tally.one(Count::Hairpin, l2);
            return match self.destination_of(packet) {
                Ok(other) => self.send_tunneled(now, packet, other, from),
                Err(Exit::NoDestination) => self.no_destination(now, packet, from),
                Err(exit) => exit.into(),
            };
        }
        // RFC 1812 section 5.3.1; one with hops left loses none, for the tunnel counts as the customer's own link.
        if ttl == 0 {
            self.tally.one(Count::TtlZero, l2);
            let answer = self.answer_four(now, Problem::TtlExceeded, packet, from, Exit::TimeExceeded);
            return Verdict { end: End::Stop(Exit::TtlExpired), answer };
        }
        let longest = self.longest_four(to);
        if packet.len() > longest && must_fit {
            self.tally.one(Count::OverMtu, l2);
            let problem = Problem::FragmentationNeeded { mtu: longest as u16 };
            let answer = self.answer_four(now, problem, packet, from, Exit::FragmentationNeeded);
            return Verdict { end: End::Stop(Exit::MustNotFragment), answer };
        }
        if let Some(most) = self.rules.mss {
            clamp::clamp(packet, most);
        }
        self.leave_four(frame, longest).into()
    }

    /// An ICMPv6 error came about a tunnel, in the whole IPv6 packet `packet`, whose message begins at `at`.
    pub(crate) fn told_of_tunnel(&mut self, now: u64, packet: &[u8], at: usize, l2: u64) -> Verdict {
        self.tally.one(Count::InSix, l2);
        if !self.rules.six.allow_icmp {
            self.tally.one(Count::PolicyInSix, l2);
            return self.stop_six(Exit::IcmpRefused, l2);
        }
        let message = packet.get(at..).unwrap_or_default();
        if message.len() < ICMP6_LEN || !is_valid_icmp6(packet, message) {
            return self.stop_six(Exit::IcmpMalformed, l2);
        }
        let Some(problem) = translated(message) else {
            let count =
                if message.first() == Some(&TIME_EXCEEDED) { Count::NotHopLimit } else { Count::UnknownIcmpSix };
            self.tally.one(count, l2);
            return self.stop_six(Exit::IcmpIgnored, l2);
        };
        let Some((outer, inner)) = quoted_tunnel(message) else { return self.stop_six(Exit::IcmpIgnored, l2) };
        // What is quoted must be what is sent to a softwire: by its AFTR address, to its B4.
        let to = self.owner_of(inner, Whose::Destination).ok().flatten();
        let ends = Ends { b4: outer.destination, aftr: outer.source };
        let Some(to) = to.filter(|softwire| softwire.ends == ends) else {
            return self.stop_six(Exit::IcmpIgnored, l2);
        };
        if let [TOO_BIG, 0, _, _, mtu @ ..] = message {
            let mtu = mtu.first_chunk().map_or(0, |mtu| u32::from_be_bytes(*mtu));
            self.softwires.learn(to.place, u16::try_from(mtu).unwrap_or(u16::MAX), now);
        }
        let source = if self.rules.hairpinning { self.owner_of(inner, Whose::Source).ok().flatten() } else { None };
        let from = source.map_or(From4::Internet, From4::Customer);
        let answer = self.answer_four(now, problem, inner, from, Exit::FromTunnel);
        match answer {
            Some(_) => Verdict { end: End::Stop(Exit::Translated), answer },
            None => self.stop_six(Exit::IcmpIgnored, l2),
        }
    }
}

/// Marks a packet with the congestion that its tunnel met (RFC 6040 section 4.2, figure 4). False if it has to be dropped.
fn mark(packet: &mut [u8], outer: u8) -> bool {
    let Some(ip) = Ipv4::view_mut(packet) else { return false };
    let inner = ip.tos & ECN;
    let ecn = match (inner, outer) {
        (NOT_CAPABLE, CONGESTED) => return false,
        (CAPABLE_0 | CAPABLE_1, CONGESTED) => CONGESTED,
        (CAPABLE_0, CAPABLE_1) => CAPABLE_1,
        _ => inner,
    };
    if ecn != inner {
        ip.tos = ip.tos & !ECN | ecn;
        ipv4::write_checksum(packet);
    }
    true
}

/// What an ICMPv6 error about a tunnel means to the source of the IPv4 packet in it (RFC 2473 section 8.1): what goes wrong between the ends of
/// a tunnel is that the host behind it can not be reached.
fn translated(message: &[u8]) -> Option<Problem> {
    let [kind, code, _, _, rest @ ..] = message else { return None };
    match (*kind, *code) {
        (UNREACHABLE | PARAMETER, _) | (TIME_EXCEEDED, 0) => Some(Problem::HostUnreachable),
        (TOO_BIG, 0) => {
            let mtu = u32::from_be_bytes(*rest.first_chunk()?).saturating_sub(Ipv6::LEN as u32);
            Some(Problem::FragmentationNeeded { mtu: u16::try_from(mtu).unwrap_or(u16::MAX) })
        }
        _ => None,
    }
}

/// The tunnel that an ICMPv6 error quotes, and what there is of the IPv4 packet in it.
fn quoted_tunnel(message: &[u8]) -> Option<(Outer, &[u8])> {
    let quoted = message.get(ICMP6_LEN..)?;
    let upper = ipv6::upper(quoted).filter(|upper| upper.protocol == ipv4::IPIP && upper.whole && !upper.later)?;
    let inner = quoted.get(upper.at..)?;
    let header = ipv4::header(inner)?;
    (inner.len() >= header.len() + 4).then_some((Outer::of(Ipv6::view(quoted)?), inner))
}

/// The tunnel that an ICMPv6 message is about, if it is an error that quotes a packet in one.
pub(crate) fn tunnel_of(message: &[u8]) -> Option<Outer> {
    let is_error = message.first().is_some_and(|kind| (UNREACHABLE..=PARAMETER).contains(kind));
    quoted_tunnel(message).filter(|_| is_error).map(|(outer, _)| outer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6040 figure 4, by columns of the arriving outer header: Not-ECT, ECT(0), ECT(1), CE.
    #[test]
    fn congestion_goes_on_as_the_standard_says() {
        let figure = [
            (NOT_CAPABLE, [Some(NOT_CAPABLE), Some(NOT_CAPABLE), Some(NOT_CAPABLE), None]),
            (CAPABLE_0, [Some(CAPABLE_0), Some(CAPABLE_0), Some(CAPABLE_1), Some(CONGESTED)]),
            (CAPABLE_1, [Some(CAPABLE_1), Some(CAPABLE_1), Some(CAPABLE_1), Some(CONGESTED)]),
            (CONGESTED, [Some(CONGESTED); 4]),
        ];
        for (inner, row) in figure {
            for (outer, expected) in [NOT_CAPABLE, CAPABLE_0, CAPABLE_1, CONGESTED].into_iter().zip(row) {
                let mut packet = vec![0; 20];
                (packet[0], packet[1], packet[3], packet[8]) = (0x45, 0xb8 | inner, 20, 9);
                ipv4::write_checksum(&mut packet);
                let goes = mark(&mut packet, outer);
                assert_eq!(goes.then_some(packet[1]), expected.map(|ecn| 0xb8 | ecn), "{inner} in {outer}");
                assert!(validity::check_slice(&packet).is_ok());
            }
        }
    }

    #[test]
    fn errors_mean_what_the_standard_says() {
        let of = |kind, code| translated(&[kind, code, 0, 0, 0, 0, 3, 9, 0]);
        for code in 0..=255 {
            assert_eq!(of(1, code), Some(Problem::HostUnreachable));
            assert_eq!(of(4, code), Some(Problem::HostUnreachable));
            let exceeded = (code == 0).then_some(Problem::HostUnreachable);
            assert_eq!(of(3, code), exceeded);
            let too_big = (code == 0).then_some(Problem::FragmentationNeeded { mtu: 737 });
            assert_eq!(of(2, code), too_big);
        }
        assert!((5..=255).chain([0]).all(|kind| of(kind, 0).is_none()));
    }
}
