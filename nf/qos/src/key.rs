//! What users are known by: the tags of their frames, or their addresses.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use weir_config::{Malformed, Scalar, scalar};

/// What a user is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum UserKey {
    /// Outer and inner VLAN; 0 where there is no such tag.
    Tags(u16, u16),
    /// All addresses of a prefix.
    Prefix(IpNet),
}

impl fmt::Display for UserKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UserKey::Tags(outer, inner) => Tags::one(*outer, *inner).fmt(f),
            UserKey::Prefix(prefix) if prefix.prefix_len() == prefix.max_prefix_len() => prefix.addr().fmt(f),
            UserKey::Prefix(prefix) => prefix.fmt(f),
        }
    }
}

impl Scalar for UserKey {
    const WHAT: &'static str = "a user (VLANs such as \"100.7\", or an address or prefix)";
    const EXAMPLE: &'static str = "100.7";

    fn parse(text: &str) -> Result<Self, Malformed> {
        if let Ok(Tags { outer, inner }) = Tags::parse(text)
            && outer.0 == outer.1
            && inner.0 == inner.1
        {
            return Ok(UserKey::Tags(outer.0, inner.0));
        }
        AnyPrefix::parse(text).map(|prefix| UserKey::Prefix(prefix.0)).map_err(|_| Malformed::not::<UserKey>())
    }
}

scalar!(UserKey);

/// A prefix, or an address alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AnyPrefix(pub(crate) IpNet);

impl fmt::Display for AnyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        UserKey::Prefix(self.0).fmt(f)
    }
}

impl Scalar for AnyPrefix {
    const WHAT: &'static str = "an IPv4 or IPv6 address or prefix";
    const EXAMPLE: &'static str = "10.0.0.0/16";

    fn parse(text: &str) -> Result<Self, Malformed> {
        match text.trim().parse::<IpAddr>() {
            Ok(address) => Ok(AnyPrefix(IpNet::from(address))),
            Err(_) => <IpNet as Scalar>::parse(text).map(AnyPrefix),
        }
    }
}

scalar!(AnyPrefix);

/// The tags of one user, or of one user each: outer and inner VLANs, first and last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tags {
    outer: (u16, u16),
    inner: (u16, u16),
}

impl Tags {
    fn one(outer: u16, inner: u16) -> Tags {
        Tags { outer: (outer, outer), inner: (inner, inner) }
    }

    /// How many users that are.
    pub(crate) fn count(self) -> u32 {
        let length = |(first, last): (u16, u16)| u32::from(last - first) + 1;
        length(self.outer) * length(self.inner)
    }

    /// The keys of all of them, in order.
    pub(crate) fn keys(self) -> impl Iterator<Item = UserKey> {
        let (outer, inner) = (self.outer, self.inner);
        (outer.0..=outer.1).flat_map(move |outer| (inner.0..=inner.1).map(move |inner| UserKey::Tags(outer, inner)))
    }
}

impl fmt::Display for Tags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = |f: &mut fmt::Formatter<'_>, (first, last): (u16, u16)| {
            if first == last { write!(f, "{first}") } else { write!(f, "{first}-{last}") }
        };
        range(f, self.outer)?;
        if self.inner == (0, 0) {
            return Ok(());
        }
        f.write_str(".")?;
        range(f, self.inner)
    }
}

impl Scalar for Tags {
    const WHAT: &'static str = "an outer and an inner VLAN (\"100.7\"), an only one (\"100\"), or ranges with a user each (\"100-107.1-4094\")";
    const EXAMPLE: &'static str = "100.1-4094";

    fn parse(text: &str) -> Result<Self, Malformed> {
        let vlan = |text: &str| text.trim().parse::<u16>().ok().filter(|vlan| (1..=4094).contains(vlan));
        let range = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            vlan(first).zip(vlan(last)).filter(|(first, last)| first <= last)
        };
        let (outer, inner) = text.split_once('.').map_or((text, None), |(outer, inner)| (outer, Some(inner)));
        let inner = inner.map_or(Some((0, 0)), range);
        match (range(outer), inner) {
            (Some(outer), Some(inner)) => Ok(Tags { outer, inner }),
            _ => Err(Malformed::not::<Tags>().remedy("VLANs are 1 to 4094, the first of a range before the last")),
        }
    }
}

scalar!(Tags);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_and_written() {
        for (text, count) in [("100.7", 1), ("100", 1), ("1-8.1-4094", 8 * 4094), ("100-101", 2), ("4094.4094", 1)] {
            let tags = Tags::parse(text).unwrap();
            assert_eq!((tags.to_string().as_str(), tags.count()), (text, count));
            assert_eq!(tags.keys().count(), count as usize);
        }
        for text in ["", "0", "4095", "1.0", "8-1", "1.8-7", "1.2.3", "a"] {
            assert!(Tags::parse(text).is_err(), "{text}");
        }
        let keys: Vec<UserKey> = Tags::parse("1-2.7-8").unwrap().keys().collect();
        assert_eq!(keys, [(1, 7), (1, 8), (2, 7), (2, 8)].map(|(outer, inner)| UserKey::Tags(outer, inner)));
    }

    #[test]
    fn users_are_read_and_written() {
        for text in ["100.7", "100", "10.0.0.1", "10.0.0.0/24", "2001:db8::1", "2001:db8::/64"] {
            assert_eq!(UserKey::parse(text).unwrap().to_string(), text);
        }
        assert!(UserKey::parse(UserKey::EXAMPLE).is_ok() && AnyPrefix::parse(AnyPrefix::EXAMPLE).is_ok());
        for text in ["", "1-2", "10.0.0.1/24", "x"] {
            assert!(UserKey::parse(text).is_err(), "{text}");
        }
    }
}
