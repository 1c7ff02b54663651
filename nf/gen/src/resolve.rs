//! Asking for Ethernet addresses, and answering for one's own: ARP (RFC 826) and neighbour discovery (RFC 4861).

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use weir_packet::Packet;
use weir_wire::arp::{self, ArpFields, Operation};
use weir_wire::{Ethernet, MacAddr, View, ethernet, nd};

/// How often a next hop is asked, nanoseconds.
const AGAIN: u64 = 500_000_000;

/// Asks for one next hop.
#[derive(Debug)]
pub(crate) struct Asker {
    /// Its place in the shared list.
    pub(crate) hop: usize,
    next: u64,
}

impl Asker {
    pub(crate) fn new(hop: usize) -> Asker {
        Asker { hop, next: 0 }
    }

    /// Whether it is time to ask; then it is for the next time.
    pub(crate) fn is_due(&mut self, now: u64) -> bool {
        let due = now >= self.next;
        if due {
            self.next = now + AGAIN;
        }
        due
    }
}

/// Writes a question for the Ethernet address of `target`.
pub(crate) fn write_question(packet: &mut Packet, mac: [u8; 6], own: IpAddr, target: IpAddr) {
    let mut frame = [0; nd::FRAME_LEN];
    let len = match (own, target) {
        (IpAddr::V4(sender), IpAddr::V4(target)) => {
            let fields = ArpFields {
                operation: Operation::Request,
                sender_mac: MacAddr(mac),
                sender,
                target_mac: MacAddr::ZERO,
                target,
            };
            fields.write(MacAddr::BROADCAST, &mut frame)
        }
        (IpAddr::V6(own), IpAddr::V6(target)) => nd::write_solicitation(&mut frame, MacAddr(mac), own, target),
        _ => None,
    };
    packet.fill(frame.get(..len.unwrap_or(0)).unwrap_or_default());
}

/// What a packet that is none of ours means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Somebody says what his Ethernet address is.
    Tells(IpAddr, [u8; 6]),
    /// Somebody asks for ours: who, his Ethernet address, whom he means.
    Asks { who: IpAddr, mac: [u8; 6], whom: IpAddr },
    /// Nothing.
    Nothing,
}

/// What a frame means.
pub(crate) fn hear(frame: &[u8]) -> Heard {
    let Some((header, rest)) = Ethernet::split(frame) else { return Heard::Nothing };
    match header.ethertype.get() {
        ethernet::ARP => match ArpFields::parse(rest) {
            Some(fields) if fields.operation == Operation::Request => {
                Heard::Asks { who: fields.sender.into(), mac: fields.sender_mac.0, whom: fields.target.into() }
            }
            Some(fields) => Heard::Tells(fields.sender.into(), fields.sender_mac.0),
            None => Heard::Nothing,
        },
        ethernet::IPV6 => match nd::parse(rest).map(|message| (message.source, message.body)) {
            Some((from, nd::Body::Solicitation { target, link, .. })) => {
                Heard::Asks { who: from.into(), mac: link.unwrap_or(header.source).0, whom: target.into() }
            }
            Some((_, nd::Body::Advertisement { target, link, .. })) => {
                Heard::Tells(target.into(), link.unwrap_or(header.source).0)
            }
            None => Heard::Nothing,
        },
        _ => Heard::Nothing,
    }
}

/// Makes a packet the answer to a question: `whom` has the address `mac`.
pub(crate) fn write_answer(packet: &mut Packet, mac: [u8; 6], whom: IpAddr, who: IpAddr, asker: [u8; 6]) {
    let mut frame = [0; nd::FRAME_LEN];
    let len = match (whom, who) {
        (IpAddr::V4(sender), IpAddr::V4(target)) => {
            let fields = ArpFields {
                operation: Operation::Reply,
                sender_mac: MacAddr(mac),
                sender,
                target_mac: MacAddr(asker),
                target,
            };
            fields.write(MacAddr(asker), &mut frame)
        }
        (IpAddr::V6(target), IpAddr::V6(asking)) => {
            let answer = nd::Message::advertisement(target, MacAddr(mac), asking, false);
            let to = answer.group().unwrap_or(MacAddr(asker));
            answer.write(&mut frame, MacAddr(mac), to)
        }
        _ => None,
    };
    packet.fill(frame.get(..len.unwrap_or(0)).unwrap_or_default());
}

/// Whether one of these networks has the address. That nobody has, 0.0.0.0, is in none.
pub(crate) fn is_ours(networks: &[IpNet], address: IpAddr) -> bool {
    address != IpAddr::V4(Ipv4Addr::UNSPECIFIED) && networks.iter().any(|network| network.contains(&address))
}

const _: () = assert!(nd::FRAME_LEN >= arp::FRAME_LEN);
