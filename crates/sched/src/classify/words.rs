//! Values of a classification as people write them: code points, classes, protocols, ranges of ports.

use std::fmt;

use weir_config::{Malformed, Scalar, scalar};
use weir_wire::ipv4;

use crate::class::{ClassQueue, MAX_CLASSES, MAX_QUEUES};

/// A DSCP: a number from 0 to 63, or its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dscp(pub u8);

/// Names of the code points of RFC 2474, 2597, 3246, 5865 and 8622.
const DSCP_NAMES: &[(&str, u8)] = &[
    ("cs0", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("voice-admit", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match DSCP_NAMES.iter().find(|(_, value)| *value == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

impl Scalar for Dscp {
    const WHAT: &'static str = "a DSCP (a number from 0 to 63, or a name such as ef, af41, cs1)";
    const EXAMPLE: &'static str = "ef";

    fn parse(text: &str) -> Result<Self, Malformed> {
        let lower = text.trim().to_ascii_lowercase();
        let named = DSCP_NAMES.iter().find(|(name, _)| *name == lower).map(|(_, value)| *value);
        named.or_else(|| number(&lower, 63)).map(Dscp).ok_or_else(Malformed::not::<Dscp>)
    }
}

scalar!(Dscp);

/// A traffic class, and a queue in it where there are several: `0`, `3.2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClassWord {
    /// The traffic class; 0 goes first.
    pub class: u8,
    /// The queue in it.
    pub queue: u8,
}

impl ClassWord {
    /// As the lane has it.
    pub const fn code(self) -> ClassQueue {
        ClassQueue::new(self.class, self.queue)
    }
}

impl fmt::Display for ClassWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.queue {
            0 => write!(f, "{}", self.class),
            queue => write!(f, "{}.{queue}", self.class),
        }
    }
}

impl Scalar for ClassWord {
    const WHAT: &'static str = "a traffic class (0 goes first), or a class and a queue in it (\"3.2\")";
    const EXAMPLE: &'static str = "0";

    fn parse(text: &str) -> Result<Self, Malformed> {
        let (class, queue) = text.trim().split_once('.').unwrap_or((text.trim(), "0"));
        match (number(class, MAX_CLASSES as u8 - 1), number(queue, MAX_QUEUES as u8 - 1)) {
            (Some(class), Some(queue)) => Ok(ClassWord { class, queue }),
            _ => Err(Malformed::not::<ClassWord>()),
        }
    }
}

scalar!(ClassWord);

/// An IP protocol: a number, or its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Protocol(pub u8);

/// Names that are understood beside those that are shown.
const PROTOCOLS: &[(&str, u8)] = &[
    ("icmp", 1),
    ("tcp", ipv4::TCP),
    ("udp", ipv4::UDP),
    ("gre", 47),
    ("esp", 50),
    ("icmpv6", 58),
    ("sctp", ipv4::SCTP),
];

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match PROTOCOLS.iter().find(|(_, value)| *value == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

impl Scalar for Protocol {
    const WHAT: &'static str = "an IP protocol (a number from 0 to 255, or icmp, icmpv6, tcp, udp, sctp, gre, esp)";
    const EXAMPLE: &'static str = "udp";

    fn parse(text: &str) -> Result<Self, Malformed> {
        let lower = text.trim().to_ascii_lowercase();
        let named = PROTOCOLS.iter().find(|(name, _)| *name == lower).map(|(_, value)| *value);
        named.or_else(|| number(&lower, u8::MAX)).map(Protocol).ok_or_else(Malformed::not::<Protocol>)
    }
}

scalar!(Protocol);

/// A port number, or a range of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortRange {
    /// The first.
    pub first: u16,
    /// The last, not before the first.
    pub last: u16,
}

impl PortRange {
    /// All ports.
    pub const ALL: PortRange = PortRange { first: 0, last: u16::MAX };

    /// Whether a port is one of them.
    #[inline]
    pub const fn holds(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last { write!(f, "{}", self.first) } else { write!(f, "{}-{}", self.first, self.last) }
    }
}

impl Scalar for PortRange {
    const WHAT: &'static str = "a port number, or a range of them (\"5060-5061\")";
    const EXAMPLE: &'static str = "53";

    fn parse(text: &str) -> Result<Self, Malformed> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let parsed = (first.trim().parse(), last.trim().parse());
        match parsed {
            (Ok(first), Ok(last)) if first <= last => Ok(PortRange { first, last }),
            (Ok(_), Ok(_)) => Err(Malformed::because("ends before it begins").remedy("write the lower port first")),
            _ => Err(Malformed::not::<PortRange>()),
        }
    }
}

scalar!(PortRange);

/// A number of digits only, up to `most`.
fn number(text: &str, most: u8) -> Option<u8> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits && *number <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back<T: Scalar>(text: &str) -> Option<String> {
        T::parse(text).ok().map(|value| value.to_string())
    }

    #[test]
    fn words_are_read_and_written() {
        for value in 0..64 {
            let text = Dscp(value).to_string();
            assert_eq!(Dscp::parse(&text).unwrap(), Dscp(value));
            assert_eq!(Dscp::parse(&value.to_string()).unwrap(), Dscp(value));
        }
        assert_eq!(back::<Dscp>("EF").as_deref(), Some("ef"));
        assert_eq!(back::<ClassWord>("3.2").as_deref(), Some("3.2"));
        assert_eq!(back::<ClassWord>("3.0").as_deref(), Some("3"));
        assert_eq!(back::<Protocol>("17").as_deref(), Some("udp"));
        assert_eq!(back::<Protocol>("200").as_deref(), Some("200"));
        assert_eq!(back::<PortRange>("5060 - 5061").as_deref(), Some("5060-5061"));
        assert_eq!(back::<PortRange>("53").as_deref(), Some("53"));
    }

    #[test]
    fn examples_are_right_and_others_are_not() {
        assert!(Dscp::parse(Dscp::EXAMPLE).is_ok() && ClassWord::parse(ClassWord::EXAMPLE).is_ok());
        assert!(Protocol::parse(Protocol::EXAMPLE).is_ok() && PortRange::parse(PortRange::EXAMPLE).is_ok());
        for text in ["", "64", "-1", "af14", "+5"] {
            assert!(Dscp::parse(text).is_err(), "{text}");
        }
        for text in ["", "8", "0.8", "1.2.3", ".1", "1."] {
            assert!(ClassWord::parse(text).is_err(), "{text}");
        }
        for text in ["", "256", "tpc"] {
            assert!(Protocol::parse(text).is_err(), "{text}");
        }
        for text in ["", "65536", "2-1", "1-", "a-b"] {
            assert!(PortRange::parse(text).is_err(), "{text}");
        }
    }
}
