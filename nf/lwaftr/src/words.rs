//! Values as they are written in configurations, files and commands.

use std::fmt;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use weir_config::{Malformed, Scalar, scalar};
use weir_filter::Filter;

/// IPv4 addresses that follow each other: one, a prefix, or a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Addresses4 {
    first: Ipv4Addr,
    last: Ipv4Addr,
}

impl Addresses4 {
    pub(crate) fn contains(self, address: Ipv4Addr) -> bool {
        self.first <= address && address <= self.last
    }

    /// How many there are, less one.
    pub(crate) fn width(self) -> u32 {
        self.last.to_bits() - self.first.to_bits()
    }
}

impl fmt::Display for Addresses4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, width) = (self.first, self.width());
        let length = 32 - (u64::from(width) + 1).trailing_zeros() as u8;
        match Ipv4Net::new(first, length) {
            _ if width == 0 => first.fmt(f),
            Ok(net) if net.addr() == net.network() && net.broadcast() == self.last => net.fmt(f),
            _ => write!(f, "{first}-{}", self.last),
        }
    }
}

impl Scalar for Addresses4 {
    const WHAT: &'static str = "an IPv4 address, prefix or range";
    const EXAMPLE: &'static str = "192.0.2.0/24";

    fn parse(text: &str) -> Result<Self, Malformed> {
        if text.contains('/') {
            let net = Ipv4Net::parse(text)?;
            return Ok(Addresses4 { first: net.network(), last: net.broadcast() });
        }
        let address = |text: &str| text.parse::<Ipv4Addr>().map_err(|_| Malformed::not::<Self>());
        let (first, last) = match text.split_once('-') {
            Some((first, last)) => (address(first)?, address(last)?),
            None => (address(text)?, address(text)?),
        };
        if first > last {
            return Err(Malformed::because("ends before it begins").write(format!("{last}-{first}")));
        }
        Ok(Addresses4 { first, last })
    }
}

/// A capture expression that was read.
#[derive(Debug, Clone)]
pub struct FilterText(pub(crate) Filter);

impl PartialEq for FilterText {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl fmt::Display for FilterText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Scalar for FilterText {
    const WHAT: &'static str = "a capture expression";
    const EXAMPLE: &'static str = "ip and not host 192.0.2.9";

    fn parse(text: &str) -> Result<Self, Malformed> {
        let told = |error: weir_filter::FilterError| {
            let problem = format!("is no capture expression: column {}: {}", error.column(), error.found());
            Malformed::because(format!("{problem}; expected {}", error.expected())).remedy(error.remedy())
        };
        Filter::parse(text).map(FilterText).map_err(told)
    }
}

scalar!(Addresses4, FilterText);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_written_as_they_are_read() {
        for text in ["192.0.2.1", "192.0.2.0/24", "0.0.0.0/0", "192.0.2.1-192.0.2.9", "192.0.2.4/30", "0.0.0.0-0.0.0.2"]
        {
            assert_eq!(Addresses4::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Addresses4::parse("192.0.2.4-192.0.2.7").unwrap().to_string(), "192.0.2.4/30");
        let all = Addresses4::parse("192.0.2.1-192.0.2.9").unwrap();
        let inside = |last| all.contains(Ipv4Addr::new(192, 0, 2, last));
        assert_eq!([0, 1, 9, 10].map(inside), [false, true, true, false]);
        for text in ["192.0.2.9-192.0.2.1", "192.0.2", "192.0.2.1/24", "a-b", ""] {
            assert!(Addresses4::parse(text).is_err(), "{text}");
        }
    }
}
