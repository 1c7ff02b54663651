//! Values that subscribers are described with, as they are written in files and commands.

use std::fmt;
use std::sync::Arc;

use ipnet::{Ipv4Net, Ipv6Net};
use weir_config::{Malformed, Scalar, scalar};

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

/// A name of a profile: what can be a word on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile(pub Arc<str>);

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
        if is_name { Ok(Profile(text.into())) } else { Err(Malformed::not::<Self>()) }
    }
}

scalar!(Source4, Source6, Profile);

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
        assert_eq!(Profile::parse("gold-1.x_").map(|name| name.to_string()), Ok("gold-1.x_".to_owned()));
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in ["", "192.0.2", "192.0.2.256", "192.0.2.1/24", "2001:db8::1", "192.0.2.1/33", " 192.0.2.1"] {
            assert!(Source4::parse(text).is_err(), "{text}");
        }
        assert!(["", "a b", "ä", "\"", &"x".repeat(65)].into_iter().all(|text| Profile::parse(text).is_err()));
    }
}
