//! Why packets are dropped by what they are, wherever they are checked: each reason once, for all stages that check.

/// Hands the reasons to a macro, behind what it is given: those of a link, then those of IPv4, then those of IPv6.
macro_rules! with_reasons {
    ($then:ident { $($given:tt)* }) => {
        $then! {
            { $($given)* }
            {
                /// Shorter than an Ethernet header.
                TooShort "too-short",
                /// Its destination MAC address is another station's.
                NotForUs "not-for-us",
                /// No interface of its port has its VLAN tags; `weir show interfaces` tells those that came last.
                UnknownTag "unknown-tag",
                /// The interface that it belongs to is set down.
                InterfaceDown "interface-down",
                /// Its EtherType is none that is routed or answered.
                UnknownEthertype "unknown-ethertype",
            }
            {
                /// Fewer than the 20 bytes of an IPv4 header arrived.
                IpTooShort "ip-too-short",
                /// The version field is not 4.
                IpVersion "ip-version",
                /// The header length field is below 5 words.
                IpHeaderLength "ip-header-length",
                /// The IPv4 header checksum is wrong.
                IpChecksum "ip-checksum",
                /// The total length is less than the header length.
                IpTotalLength "ip-total-length",
                /// The total length is more than what arrived.
                IpTruncated "ip-truncated",
                /// Its source address is one that no host has (RFC 1812 section 5.3.7).
                MartianSource "martian-source",
                /// Its destination address is one that no packet may carry (RFC 1812 section 5.3.7).
                MartianDestination "martian-destination",
                /// From or to a link-local address, which a router must not forward (RFC 3927 section 7).
                LinkLocal "link-local",
                /// To a multicast address; multicast is not routed.
                Multicast "multicast",
                /// To 255.255.255.255, where nothing in this router listens.
                Broadcast "broadcast",
                /// Sent to all stations of the link though its IPv4 destination is a single host (RFC 1812 section 5.3.4).
                LinkBroadcast "link-broadcast",
            }
            {
                /// Fewer than the 40 bytes of an IPv6 header arrived.
                Ip6TooShort "ip6-too-short",
                /// The version field of what should be IPv6 is not 6.
                Ip6Version "ip6-version",
                /// The payload length is more than what arrived.
                Ip6Truncated "ip6-truncated",
                /// Its source address is one that nobody has on a link (RFC 4291 section 2.7, RFC 6890).
                Ip6MartianSource "ip6-martian-source",
                /// Its destination address is one that no packet on a link may carry (RFC 4291 section 2.7, RFC 6890).
                Ip6MartianDestination "ip6-martian-destination",
                /// To a multicast address beyond the link; multicast is not routed.
                Ip6Multicast "ip6-multicast",
                /// Sent to a group of stations of the link though its IPv6 destination is a single host.
                Ip6LinkBroadcast "ip6-link-broadcast",
            }
        }
    };
}

macro_rules! declare {
    (
        {}
        { $( $(#[doc = $help:expr])+ $bad:ident $text:literal, )+ }
        { $( $(#[doc = $help4:expr])+ $bad4:ident $text4:literal, )+ }
        { $( $(#[doc = $help6:expr])+ $bad6:ident $text6:literal, )+ }
    ) => {
        /// What is wrong with a frame.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Bad {
            $( $(#[doc = $help])+ $bad ),+
        }

        /// What is wrong with an IPv4 packet.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Bad4 {
            $( $(#[doc = $help4])+ $bad4 ),+
        }

        /// What is wrong with an IPv6 packet.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(clippy::enum_variant_names, reason = "they stand among those of IPv4")]
        pub(crate) enum Bad6 {
            $( $(#[doc = $help6])+ $bad6 ),+
        }
    };
}

with_reasons!(declare {});

/// The ways out of a stage that checks packets of both families: those of the first list, the reasons of [`Bad`], [`Bad4`] and [`Bad6`], those
/// of the second list.
macro_rules! ways_of_checks {
    ({ $($ways:tt)* } { $($link:tt)* } { $($four:tt)* } { $($six:tt)* }) => {
        $crate::fast::bad::ways_of! { { $($ways)* } Bad { $($link)* } Bad4 { $($four)* } Bad6 { $($six)* } }
    };
}

/// The same for a stage that checks IPv4 only.
macro_rules! ways_of_checks4 {
    ({ $($ways:tt)* } { $($link:tt)* } { $($four:tt)* } { $($six:tt)* }) => {
        $crate::fast::bad::ways_of! { { $($ways)* } Bad { $($link)* } Bad4 { $($four)* } }
    };
}

/// The same for a stage that checks IPv6 only.
macro_rules! ways_of_checks6 {
    ({ $($ways:tt)* } { $($link:tt)* } { $($four:tt)* } { $($six:tt)* }) => {
        $crate::fast::bad::ways_of! { { $($ways)* } Bad { $($link)* } Bad6 { $($six)* } }
    };
}

/// Declares ways with reasons of these enumerations among them.
macro_rules! ways_of {
    (
        {
            $(#[$meta:meta])*
            $vis:vis enum $name:ident { $($before:tt)* } { $($after:tt)* }
        }
        $( $why:ident { $( $(#[doc = $help:expr])+ $bad:ident $text:literal, )+ } )+
    ) => {
        weir_stage::ways! {
            $(#[$meta])*
            $vis enum $name {
                $($before)*
                $( $( $(#[doc = $help])+ $bad => drop $text, )+ )+
                $($after)*
            }
        }

        $(
            impl From<$crate::fast::bad::$why> for $name {
                fn from(bad: $crate::fast::bad::$why) -> $name {
                    match bad {
                        $( $crate::fast::bad::$why::$bad => $name::$bad ),+
                    }
                }
            }
        )+
    };
}

pub(crate) use {ways_of, ways_of_checks, ways_of_checks4, ways_of_checks6, with_reasons};
