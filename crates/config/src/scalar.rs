//! Values that are written as one piece of text: addresses, prefixes, MAC addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::error::ErrorKind;

/// Why a text is not the value asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// The sort of mistake.
    pub kind: ErrorKind,
    /// What is wrong, as a phrase that follows the text: `has host bits set`.
    pub problem: String,
    /// What to do, as an imperative; may be empty.
    pub remedy: String,
    /// The text that the remedy says to write, if it names one: it is only given where that would be right.
    pub instead: Option<String>,
}

impl Malformed {
    /// The text has not the form of this type.
    pub fn not<T: Scalar>() -> Self {
        Self::because(format!("is not {}", T::WHAT))
    }

    /// Something particular is wrong.
    pub fn because(problem: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Malformed, problem: problem.into(), remedy: String::new(), instead: None }
    }

    /// Adds what to do.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }

    /// Says to write this text instead.
    #[must_use]
    pub fn write(self, text: impl fmt::Display) -> Self {
        let text = text.to_string();
        Self { remedy: format!("write {text:?}"), instead: Some(text), ..self }
    }

    /// Adds to what to do.
    #[must_use]
    pub fn or(mut self, other: &str) -> Self {
        self.remedy = format!("{} or {other}", self.remedy);
        self
    }
}

/// A type whose values are written as one piece of text. `Display` must write what `parse` reads.
///
/// Declare the type with [`scalar!`](crate::scalar) to use it in a configuration.
pub trait Scalar: Sized + fmt::Display {
    /// What a value is, with its article: `an IPv4 address`.
    const WHAT: &'static str;
    /// A value that is right: `192.0.2.9`.
    const EXAMPLE: &'static str;

    /// Reads a value.
    ///
    /// # Errors
    /// What is wrong with the text.
    fn parse(text: &str) -> Result<Self, Malformed>;
}

/// A scalar type as the schema holds it.
#[derive(Debug, Clone, Copy)]
pub struct ScalarType {
    /// What a value is, with its article.
    pub what: &'static str,
    /// A value that is right.
    pub example: &'static str,
    /// Reads a text and writes it back in the one form that equal values share.
    pub canonical: fn(&str) -> Result<String, Malformed>,
}

impl ScalarType {
    /// The description of a scalar type.
    pub fn of<T: Scalar>() -> Self {
        Self { what: T::WHAT, example: T::EXAMPLE, canonical: |text| T::parse(text).map(|value| value.to_string()) }
    }
}

macro_rules! address {
    ($type:ty, $what:literal, $example:literal) => {
        impl Scalar for $type {
            const WHAT: &'static str = $what;
            const EXAMPLE: &'static str = $example;

            fn parse(text: &str) -> Result<Self, Malformed> {
                <$type>::from_str(text).map_err(|_| match text.split_once('/') {
                    Some((address, _)) if <$type>::from_str(address).is_ok() => {
                        Malformed::because(concat!("has a prefix length, and ", $what, " has none")).write(address)
                    }
                    _ => Malformed::not::<Self>(),
                })
            }
        }
    };
}

address!(Ipv4Addr, "an IPv4 address", "192.0.2.9");
address!(Ipv6Addr, "an IPv6 address", "2001:db8::9");
address!(IpAddr, "an IP address", "192.0.2.9");

/// Splits `address/length`, the length in decimal digits only.
fn split_length<T: Scalar>(text: &str) -> Result<(&str, u8), Malformed> {
    let Some((address, length)) = text.split_once('/') else {
        return Err(if IpAddr::from_str(text).is_ok() {
            let longest = if text.contains(':') { 128 } else { 32 };
            Malformed::because("has no prefix length").write(format_args!("{text}/{longest}")).or("another length")
        } else {
            Malformed::not::<T>()
        });
    };
    if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Malformed::not::<T>());
    }
    // A length that does not fit is as much too long as 255 is.
    Ok((address, length.parse().unwrap_or(u8::MAX)))
}

fn too_long(length: u8, most: u8) -> Malformed {
    let problem = format!("has a prefix length of {length}, and the longest is {most}");
    Malformed { kind: ErrorKind::OutOfRange, ..Malformed::because(problem) }
}

/// An IPv4 prefix; left-out trailing octets are zero, as in `10/8`.
impl Scalar for Ipv4Net {
    const WHAT: &'static str = "an IPv4 prefix";
    const EXAMPLE: &'static str = "192.0.2.0/24";

    fn parse(text: &str) -> Result<Self, Malformed> {
        let (address, length) = split_length::<Self>(text)?;
        let address = match Ipv4Addr::from_str(address) {
            Ok(address) => address,
            Err(_) => short_address(address).ok_or_else(Malformed::not::<Self>)?,
        };
        let prefix = Self::new(address, length).map_err(|_| too_long(length, 32))?;
        let fixed = prefix.trunc();
        if fixed == prefix { Ok(prefix) } else { Err(host_bits(&fixed)) }
    }
}

/// `10`, `172.16` or `192.0.2`: the first octets of an address whose others are zero.
fn short_address(text: &str) -> Option<Ipv4Addr> {
    let missing = 3_usize.checked_sub(text.matches('.').count())?;
    let full = format!("{text}{}", ".0".repeat(missing));
    Ipv4Addr::from_str(&full).ok()
}

fn host_bits(fixed: &impl fmt::Display) -> Malformed {
    Malformed::because("has host bits set").write(fixed)
}

impl Scalar for Ipv6Net {
    const WHAT: &'static str = "an IPv6 prefix";
    const EXAMPLE: &'static str = "2001:db8::/32";

    fn parse(text: &str) -> Result<Self, Malformed> {
        let (address, length) = split_length::<Self>(text)?;
        let address = Ipv6Addr::from_str(address).map_err(|_| Malformed::not::<Self>())?;
        let prefix = Self::new(address, length).map_err(|_| too_long(length, 128))?;
        let fixed = prefix.trunc();
        if fixed == prefix { Ok(prefix) } else { Err(host_bits(&fixed)) }
    }
}

impl Scalar for IpNet {
    const WHAT: &'static str = "a prefix";
    const EXAMPLE: &'static str = "192.0.2.0/24";

    fn parse(text: &str) -> Result<Self, Malformed> {
        if text.contains(':') { Ipv6Net::parse(text).map(Self::V6) } else { Ipv4Net::parse(text).map(Self::V4) }
    }
}

/// An address of the device itself, with the length of the prefix that is reached directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceAddress(IpNet);

impl InterfaceAddress {
    /// An address with its length.
    ///
    /// # Errors
    /// No device can have it.
    pub fn of(net: IpNet) -> Result<Self, Malformed> {
        if net.prefix_len() == 0 {
            return Err(Malformed::because("has a prefix length of 0, so that every address would be its neighbour"));
        }
        if net.addr().is_multicast() || net.addr().is_unspecified() {
            return Err(Malformed::because("is not the address of a host"));
        }
        match net {
            IpNet::V4(v4) => no_host(&v4).map_or(Ok(Self(net)), Err),
            IpNet::V6(_) => Ok(Self(net)),
        }
    }

    /// The address.
    pub fn address(self) -> IpAddr {
        self.0.addr()
    }

    /// The prefix length in bits, at least 1.
    pub fn length(self) -> u8 {
        self.0.prefix_len()
    }

    /// The prefix that is reached directly, host bits cleared.
    pub fn prefix(self) -> IpNet {
        self.0.trunc()
    }

    /// The address and its length, host bits kept.
    pub fn net(self) -> IpNet {
        self.0
    }
}

impl fmt::Display for InterfaceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Scalar for InterfaceAddress {
    const WHAT: &'static str = "an interface address";
    const EXAMPLE: &'static str = "192.0.2.1/24";

    fn parse(text: &str) -> Result<Self, Malformed> {
        let (address, length) = split_length::<Self>(text)?;
        let address = IpAddr::from_str(address).map_err(|_| Malformed::not::<Self>())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        Self::of(IpNet::new(address, length).map_err(|_| too_long(length, most))?)
    }
}

/// Why no host may have this address: it stands for the subnet itself or for all of its hosts (RFC 1122
/// section 3.2.1.3). In a /31 both addresses are hosts' (RFC 3021), and a /32 has but one.
fn no_host(net: &Ipv4Net) -> Option<Malformed> {
    let address = net.addr();
    if address.is_broadcast() {
        return Some(Malformed::because("is not the address of a host"));
    }
    if net.prefix_len() > 30 {
        return None;
    }
    let what = if address == net.network() {
        "network"
    } else if address == net.broadcast() {
        "broadcast"
    } else {
        return None;
    };
    let host = net.hosts().next()?;
    Some(
        Malformed::because(format!("is the {what} address of {}", net.trunc())).remedy(format!(
            "write an address between the first and the last, such as \"{host}/{}\"",
            net.prefix_len()
        )),
    )
}

/// A MAC address, written `02:00:00:00:00:01`; dashes are read too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MacAddress([u8; 6]);

impl MacAddress {
    /// An address from its octets in the order in which they are sent.
    pub const fn new(octets: [u8; 6]) -> Self {
        Self(octets)
    }

    /// The octets in the order in which they are sent.
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl Scalar for MacAddress {
    const WHAT: &'static str = "a MAC address";
    const EXAMPLE: &'static str = "02:00:00:00:00:01";

    fn parse(text: &str) -> Result<Self, Malformed> {
        let separator = if text.contains('-') { '-' } else { ':' };
        let octets: Option<Vec<u8>> = text.split(separator).map(hex_octet).collect();
        octets.and_then(|octets| <[u8; 6]>::try_from(octets).ok()).map(Self).ok_or_else(Malformed::not::<Self>)
    }
}

/// Two hexadecimal digits; `from_str_radix` alone would take a sign.
fn hex_octet(text: &str) -> Option<u8> {
    let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits.then(|| u8::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn problem<T: Scalar + fmt::Debug>(text: &str) -> String {
        let error = T::parse(text).unwrap_err();
        if error.remedy.is_empty() { error.problem } else { format!("{}; {}", error.problem, error.remedy) }
    }

    #[test]
    fn prefixes_have_no_host_bits() {
        assert_eq!(Ipv4Net::parse("10/8").unwrap().to_string(), "10.0.0.0/8");
        assert_eq!(Ipv4Net::parse("172.16/12").unwrap().to_string(), "172.16.0.0/12");
        assert_eq!(Ipv4Net::parse("0/0").unwrap().to_string(), "0.0.0.0/0");
        assert_eq!(problem::<Ipv4Net>("10.0.0.1/8"), "has host bits set; write \"10.0.0.0/8\"");
        assert_eq!(problem::<Ipv6Net>("2001:db8::1/64"), "has host bits set; write \"2001:db8::/64\"");
        assert_eq!(problem::<Ipv4Net>("10.0.0.0/33"), "has a prefix length of 33, and the longest is 32");
        assert_eq!(problem::<Ipv4Net>("10.0.0.0/999"), "has a prefix length of 255, and the longest is 32");
        assert_eq!(problem::<Ipv4Net>("10.0.0.1"), "has no prefix length; write \"10.0.0.1/32\" or another length");
        for wrong in ["", "/", "/8", "10/", "10/+8", "10.0.0.0.0/8", "1.2.3.4/8/8", "010/8", "ten/8", ".1/8"] {
            assert_eq!(problem::<Ipv4Net>(wrong), "is not an IPv4 prefix", "{wrong}");
        }
        assert_eq!(IpNet::parse("::/0").unwrap().to_string(), "::/0");
    }

    #[test]
    fn interface_addresses_are_hosts() {
        let address = InterfaceAddress::parse("192.0.2.1/24").unwrap();
        assert_eq!(address.address(), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)));
        assert_eq!(address.prefix().to_string(), "192.0.2.0/24");
        assert_eq!(address.net().to_string(), address.to_string());
        assert_eq!(address.length(), 24);
        for right in ["192.0.2.0/31", "192.0.2.1/31", "192.0.2.255/32", "2001:db8::1/64", "fe80::1/10"] {
            assert_eq!(InterfaceAddress::parse(right).unwrap().to_string(), right);
        }
        assert!(problem::<InterfaceAddress>("192.0.2.0/24").starts_with("is the network address of 192.0.2.0/24"));
        assert!(problem::<InterfaceAddress>("192.0.2.255/24").starts_with("is the broadcast address of 192.0.2.0/24"));
        for wrong in ["224.0.0.1/24", "0.0.0.0/8", "ff02::1/64", "::/64", "255.255.255.255/32"] {
            assert_eq!(problem::<InterfaceAddress>(wrong), "is not the address of a host", "{wrong}");
        }
        assert!(problem::<InterfaceAddress>("192.0.2.1/0").contains("length of 0"));
    }

    #[test]
    fn addresses_and_mac_addresses() {
        assert_eq!(problem::<Ipv4Addr>("192.0.2.999"), "is not an IPv4 address");
        assert_eq!(
            problem::<Ipv4Addr>("192.0.2.9/24"),
            "has a prefix length, and an IPv4 address has none; write \"192.0.2.9\""
        );
        assert_eq!(MacAddress::parse("02-00-00-00-00-fF").unwrap().to_string(), "02:00:00:00:00:ff");
        for wrong in ["", "02:00:00:00:00", "02:00:00:00:00:01:02", "2:0:0:0:0:1", "02:00:00:00:00:+1"] {
            assert_eq!(problem::<MacAddress>(wrong), "is not a MAC address", "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(address: u32, v6: u128, length in 0_u8..=32, long in 0_u8..=128, mac: [u8; 6]) {
            let net = Ipv4Net::new(Ipv4Addr::from_bits(address), length).unwrap().trunc();
            prop_assert_eq!(Ipv4Net::parse(&net.to_string()), Ok(net));
            let net = Ipv6Net::new(Ipv6Addr::from_bits(v6), long).unwrap().trunc();
            prop_assert_eq!(Ipv6Net::parse(&net.to_string()), Ok(net));
            let mac = MacAddress::new(mac);
            prop_assert_eq!(MacAddress::parse(&mac.to_string()), Ok(mac));
            prop_assert_eq!(Ipv6Addr::parse(&Ipv6Addr::from_bits(v6).to_string()), Ok(Ipv6Addr::from_bits(v6)));
        }

        #[test]
        fn any_text_is_answered(text in ".{0,24}") {
            let _ = Ipv4Net::parse(&text);
            let _ = IpNet::parse(&text);
            let _ = InterfaceAddress::parse(&text);
            let _ = MacAddress::parse(&text);
        }
    }
}
