//! Values that subscribers are described with, as they are written in files and commands.

use std::fmt;

use ipnet::{Ipv4Net, Ipv6Net};
use weir_config::{ErrorKind, Malformed, Scalar, scalar};

/// IPv4 addresses that a subscriber may use: one, or all of a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source4(pub Ipv4Net);

impl fmt::Display for Source4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.prefix_len() == 32 { self.0.addr().fmt(f) } else { self.0.fmt(f) }
    }
}

impl Scalar for Source4 {
    const WHAT: &'static str = "an IPv4 address or prefix";
    const EXAMPLE: &'static str = "192.0.2.9";

    fn parse(text: &str) -> Result<Self, Malformed> {
        if text.contains('/') {
            return Ipv4Net::parse(text).map(Source4);
        }
        let address: std::net::Ipv4Addr = text.parse().map_err(|_| Malformed::not::<Self>())?;
        Ok(Source4(address.into()))
    }
}

/// IPv6 addresses that a subscriber may use: all of a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source6(pub Ipv6Net);

impl fmt::Display for Source6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Scalar for Source6 {
    const WHAT: &'static str = "an IPv6 prefix";
    const EXAMPLE: &'static str = "2001:db8:0:7::/64";

    fn parse(text: &str) -> Result<Self, Malformed> {
        Ipv6Net::parse(text).map(Source6)
    }
}

scalar!(Source4, Source6);

/// A number without a sign, in decimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Number(pub(crate) u32);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Scalar for Number {
    const WHAT: &'static str = "a number from 0 to 4294967295";
    const EXAMPLE: &'static str = "7";

    fn parse(text: &str) -> Result<Self, Malformed> {
        digits(text).map(Number).ok_or_else(Malformed::not::<Self>)
    }
}

/// A VLAN identifier that a line may have (IEEE 802.1Q: 0 is none, 4095 is reserved).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Vlan(pub(crate) u16);

impl fmt::Display for Vlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Scalar for Vlan {
    const WHAT: &'static str = "a VLAN identifier from 1 to 4094";
    const EXAMPLE: &'static str = "100";

    fn parse(text: &str) -> Result<Self, Malformed> {
        match digits(text) {
            Some(id @ 1..=4094) => Ok(Vlan(id as u16)),
            Some(_) => Err(Malformed { kind: ErrorKind::OutOfRange, ..Malformed::not::<Self>() }),
            None => Err(Malformed::not::<Self>()),
        }
    }
}

/// A name of a profile: what can be a word on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Profile(pub(crate) String);

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Scalar for Profile {
    const WHAT: &'static str = "a name of up to 64 letters, digits, -, _ and .";
    const EXAMPLE: &'static str = "gold";

    fn parse(text: &str) -> Result<Self, Malformed> {
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_name = (1..=64).contains(&text.len()) && text.bytes().all(is_of_name);
        if is_name { Ok(Profile(text.to_owned())) } else { Err(Malformed::not::<Self>()) }
    }
}

/// Of decimal digits only: a sign is none.
fn digits(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for (text, written) in [("192.0.2.9", "192.0.2.9"), ("192.0.2.9/32", "192.0.2.9"), ("10/8", "10.0.0.0/8")] {
            let read = Source4::parse(text).unwrap();
            assert_eq!((read.to_string().as_str(), Source4::parse(written)), (written, Ok(read)));
        }
        assert_eq!(Source6::parse("2001:db8::/64").unwrap().to_string(), "2001:db8::/64");
        assert_eq!((Vlan::parse("4094"), Number::parse("4294967295")), (Ok(Vlan(4094)), Ok(Number(u32::MAX))));
        assert_eq!(Profile::parse("gold-1.x_").map(|name| name.0), Ok("gold-1.x_".to_owned()));
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in ["", "192.0.2", "192.0.2.256", "192.0.2.1/24", "2001:db8::1", "192.0.2.1/33", " 192.0.2.1"] {
            assert!(Source4::parse(text).is_err(), "{text}");
        }
        for text in ["", "0", "4095", "-1", "+1", "1.", "99999999999", "0x1"] {
            assert!(Vlan::parse(text).is_err(), "{text}");
        }
        assert!(["", "-1", "+7", "4294967296"].into_iter().all(|text| Number::parse(text).is_err()));
        assert!(["", "a b", "ä", "\"", &"x".repeat(65)].into_iter().all(|text| Profile::parse(text).is_err()));
    }
}
