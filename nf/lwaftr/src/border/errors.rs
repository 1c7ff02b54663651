//! What sources of packets are told that can not go on.

use std::net::Ipv6Addr;

use weir_net::{icmp, icmp6};
use weir_wire::checksum::Sum;
use weir_wire::{Ipv4, Ipv6, View, ethernet, ipv4, ipv6};

use super::{Border, Frame, From4, HEADER, blank};
use crate::exit::Exit;
use crate::tally::Count;

/// TTL and hop limit of errors.
const HOPS: u8 = 255;

/// So many errors in each period, the first of which begins with the first error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    most: u32,
    period: u64,
    ends: u64,
    left: u32,
}

impl Window {
    pub(crate) fn new((most, period): (u32, u64)) -> Window {
        Window { most, period, ends: 0, left: 0 }
    }

    /// Whether another one may be sent now.
    pub(crate) fn pass(&mut self, now: u64) -> bool {
        if now >= self.ends {
            (self.ends, self.left) = (now.saturating_add(self.period), self.most);
        }
        let passes = self.left > 0;
        self.left = self.left.saturating_sub(1);
        passes
    }
}

impl Border {
    /// Tells the source of an IPv4 packet of a problem: in its tunnel, if it is a customer.
    pub(super) fn answer_four(
        &mut self,
        now: u64,
        problem: icmp::Problem,
        about: &[u8],
        from: From4,
        why: Exit,
    ) -> Option<(Frame, Exit)> {
        if !self.rules.four.icmp_errors {
            self.tally.one(Count::PolicyOutFour, 0);
            return None;
        }
        icmp::may_report(about, false, |_| false).ok()?;
        let [four, _] = &mut self.windows;
        if !four.pass(now) {
            self.tally.one(Count::RateFour, 0);
            return None;
        }
        let mut frame = blank(ethernet::IPV4, icmp::MAX_ERROR);
        let packet = frame.get_mut(HEADER..)?;
        let length = icmp::write_error(problem, about, self.rules.source, 0, packet)?;
        let header = Ipv4::view_mut(packet)?;
        (header.tos, header.ttl) = (0, HOPS);
        ipv4::write_checksum(packet);
        frame.truncate(HEADER + length);
        self.tally.one(Count::ErrorFour, frame.len() as u64);
        let made = match from {
            From4::Internet => {
                self.tally.one(Count::OutFour, frame.len() as u64);
                self.tally.one(Count::OutWholeFour, 0);
                frame
            }
            From4::Customer(softwire) => {
                let frame = self.wrap(frame.get(HEADER..)?, softwire);
                self.tally.one(Count::OutSix, frame.len() as u64);
                self.tally.one(Count::OutWholeSix, 0);
                frame
            }
        };
        Some((made, why))
    }

    /// Tells the source of an IPv6 packet of a problem.
    pub(super) fn answer_six(
        &mut self,
        now: u64,
        problem: icmp6::Problem,
        about: &[u8],
        source: Ipv6Addr,
        why: Exit,
    ) -> Option<(Frame, Exit)> {
        if !self.rules.six.icmp_errors {
            self.tally.one(Count::PolicyOutSix, 0);
            return None;
        }
        if !icmp6::may_report(problem, about, false) {
            return None;
        }
        let [_, six] = &mut self.windows;
        if !six.pass(now) {
            self.tally.one(Count::RateSix, 0);
            return None;
        }
        let mut frame = blank(ethernet::IPV6, icmp6::MAX_ERROR);
        let packet = frame.get_mut(HEADER..)?;
        let length = icmp6::write_error(problem, about, source, packet)?;
        Ipv6::view_mut(packet)?.hop_limit = HOPS;
        frame.truncate(HEADER + length);
        self.tally.one(Count::ErrorSix, frame.len() as u64);
        self.tally.one(Count::OutSix, frame.len() as u64);
        self.tally.one(Count::OutWholeSix, 0);
        Some((frame, why))
    }
}

/// Whether the checksum of an ICMPv6 message in the packet `packet` is right.
pub(super) fn is_valid_icmp6(packet: &[u8], message: &[u8]) -> bool {
    let (Some(ip), Ok(length)) = (Ipv6::view(packet), u16::try_from(message.len())) else { return false };
    let sum = Sum::new().bytes(&ip.source).bytes(&ip.destination).word(length).word(ipv6::ICMPV6.into());
    sum.bytes(message).fold() == u16::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_lets_so_many_through_and_no_more() {
        let mut window = Window::new((3, 100));
        let passed = |window: &mut Window, now| (0..10).filter(|_| window.pass(now)).count();
        assert_eq!(passed(&mut window, 50), 3);
        assert_eq!(passed(&mut window, 149), 0);
        assert_eq!(passed(&mut window, 150), 3);
        assert_eq!(passed(&mut Window::new((0, 100)), 0), 0);
    }
}
