//! IPv6 packets to the router's own addresses and groups: RFC 8200 section 4, RFC 4443.

use std::net::Ipv6Addr;

use weir_net::fragment::six::Fragments6;
use weir_net::icmp6::{self, Problem};
use weir_wire::extension::{self, Limits, UNKNOWN_NEXT_HEADER};
use weir_wire::ipv6::{FRAGMENT, ICMPV6, NO_NEXT};
use weir_wire::{Ipv6, View, ipv4, mld};

use super::super::parcel::Parcel;
use super::super::{Call, Exit};
use crate::slow::answer::Trouble;

/// Bytes of the longest packet that every link carries (RFC 8200 section 5): this router notes no MTU of paths, and so "may simply restrict
/// itself to sending packets no larger than 1280 octets".
const LEAST_MTU: u16 = 1280;

/// Types of ICMPv6 messages that somebody else here takes care of.
const QUERY: u8 = 130;
const FIRST_OF_DISCOVERY: u8 = 133;
const LAST_OF_DISCOVERY: u8 = 137;
const ECHO_REQUEST: u8 = 128;

impl Call<'_, '_> {
    /// A packet came for an own address or a group, or the first fragment of `whole`, which was put together.
    pub(super) fn deliver_six(&mut self, parcel: Parcel, whole: Option<&[u8]>) {
        let carried = match extension::at_destination(whole.unwrap_or(parcel.ip()), Limits::default()) {
            Ok(carried) => carried,
            Err(fault) => return self.refuse_fault(parcel, whole, fault),
        };
        match carried.protocol {
            FRAGMENT if whole.is_none() => self.reassemble(parcel),
            FRAGMENT => self.end(parcel, Exit::FragmentMalformed),
            ICMPV6 => self.deliver_icmp_six(parcel, whole),
            ipv4::UDP => self.refuse_whole(parcel, whole, Trouble::NoPort, Exit::NoPort),
            NO_NEXT => self.end(parcel, Exit::NoProtocol),
            _ => {
                let pointer = u32::try_from(carried.named_at).unwrap_or(0);
                let problem = Problem::Parameter { code: UNKNOWN_NEXT_HEADER, pointer };
                self.refuse_whole(parcel, whole, Trouble::Six(problem), Exit::NoProtocol);
            }
        }
    }

    fn deliver_icmp_six(&mut self, parcel: Parcel, whole: Option<&[u8]>) {
        let bytes = whole.unwrap_or(parcel.ip());
        let kind = icmp6::kind_of(bytes);
        let exit = match kind {
            None => Exit::IcmpMalformed,
            Some(ECHO_REQUEST) => self.echo_six(&parcel, whole).err().unwrap_or(Exit::EchoAnswered),
            Some(QUERY) => self.listeners_asked(&parcel, bytes),
            // RFC 6980: "Nodes MUST NOT employ IPv6 fragmentation for sending" them, and those who hear them ignore them.
            Some(FIRST_OF_DISCOVERY..=LAST_OF_DISCOVERY) if whole.is_some() => Exit::NdMalformed,
            Some(FIRST_OF_DISCOVERY..=LAST_OF_DISCOVERY) => return self.discovery(parcel),
            Some(_) => Exit::IcmpIgnored,
        };
        self.end(parcel, exit);
    }

    /// A router asks who listens to which groups (RFC 3810 section 6.2).
    fn listeners_asked(&mut self, parcel: &Parcel, bytes: &[u8]) -> Exit {
        let now = self.out.now();
        let query = mld::parse_query(bytes);
        match query.map(|query| self.control.listeners.asked(now, parcel.origin.interface, query)) {
            Some(true) => Exit::MldAnswered,
            Some(false) => Exit::MldIgnored,
            None => Exit::IcmpMalformed,
        }
    }

    /// Answers an echo request.
    fn echo_six(&mut self, parcel: &Parcel, whole: Option<&[u8]>) -> Result<(), Exit> {
        let request = whole.unwrap_or(parcel.ip());
        let ip = Ipv6::view(request).ok_or(Exit::IcmpMalformed)?;
        let (back, asked) = (ip.source_addr(), ip.destination_addr());
        // "a source address that does not uniquely identify a single node" is nobody to answer.
        if back.is_unspecified() {
            return Err(Exit::EchoUnanswered);
        }
        let source = self.source_to_six(parcel.origin, back, asked).ok_or(Exit::EchoUnanswered)?;
        let mut reply = request.to_vec();
        let length = icmp6::echo_reply(&mut reply, source).ok_or(Exit::IcmpMalformed)?;
        let reply = reply.get(..length).ok_or(Exit::IcmpMalformed)?;
        let mtu = self.mtu_towards(parcel.origin, back.into()).ok_or(Exit::EchoUnanswered)?.min(LEAST_MTU);
        if length > usize::from(mtu) {
            let identification = self.identification_of(source, back);
            let fragments = Fragments6::new(reply, mtu, identification).map_err(|_| Exit::EchoUnanswered)?;
            let pieces = fragments.map(|fragment| (fragment.total_len(), move |out: &mut [u8]| fragment.write(out)));
            return self.send_pieces(parcel.origin, pieces);
        }
        let reply = self.made_of(parcel, reply).ok_or(Exit::NoBuffer)?;
        if self.originate(reply, Exit::EchoReply) { Ok(()) } else { Err(Exit::EchoUnanswered) }
    }

    /// The identification of the next packet between two addresses that is sent in fragments: one that others cannot guess from those of
    /// theirs (RFC 7739 section 5.2).
    fn identification_of(&mut self, source: Ipv6Addr, destination: Ipv6Addr) -> u32 {
        *self.identification = self.identification.wrapping_add(1);
        let secret = std::hash::BuildHasher::hash_one(self.secret, (source, destination));
        self.identification.wrapping_add(secret as u32)
    }
}
