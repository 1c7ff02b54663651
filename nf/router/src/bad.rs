//! Why packets are dropped by what they are, wherever they are checked: each reason once, for all stages that check.

/// Hands the reasons to a macro, behind what it is given.
macro_rules! with_reasons {
    ($then:ident { $($given:tt)* }) => {
        $then! {
            { $($given)* }
            /// Shorter than an Ethernet header.
            TooShort "too-short",
            /// Its destination MAC address is another station's.
            NotForUs "not-for-us",
            /// No interface of its port has its VLAN tags; `weir show interfaces` tells those that came last.
            UnknownTag "unknown-tag",
            /// The interface that it belongs to is set down.
            InterfaceDown "interface-down",
            /// Its EtherType is neither IPv4 nor ARP.
            UnknownEthertype "unknown-ethertype",
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
    };
}

macro_rules! declare {
    ({} $( $(#[doc = $help:expr])+ $bad:ident $text:literal, )+) => {
        /// What is wrong with a packet.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Bad {
            $( $(#[doc = $help])+ $bad ),+
        }
    };
}

with_reasons!(declare {});

/// The ways out of a stage that checks: those of the first list, the reasons of [`Bad`], those of the second list.
macro_rules! ways_of_checks {
    (
        {
            $(#[$meta:meta])*
            $vis:vis enum $name:ident { $($before:tt)* } { $($after:tt)* }
        }
        $( $(#[doc = $help:expr])+ $bad:ident $text:literal, )+
    ) => {
        weir_stage::ways! {
            $(#[$meta])*
            $vis enum $name {
                $($before)*
                $( $(#[doc = $help])+ $bad => drop $text, )+
                $($after)*
            }
        }

        impl From<$crate::bad::Bad> for $name {
            fn from(bad: $crate::bad::Bad) -> $name {
                match bad {
                    $( $crate::bad::Bad::$bad => $name::$bad ),+
                }
            }
        }
    };
}

pub(crate) use {ways_of_checks, with_reasons};
