//! Frames between Linux and the links. On a link only Weir speaks ARP and neighbour discovery: what Linux asks for there is answered from
//! Weir's own table of neighbours, which asks the link if need be. All else that Linux sends leaves as it is.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weir_net::neighbor::{Protocol, Resolution};
use weir_net::nexthop::NextHop;
use weir_packet::Held;
use weir_stage::Frames;
use weir_wire::arp::{self, ArpFields, Operation};
use weir_wire::nd::{self, Body, Message};
use weir_wire::{Ethernet, MacAddr, View, ethernet};

use super::parcel::{Origin, Parcel};
use super::{Call, Exit, HEADER};
use crate::InterfaceId;
use crate::host::{ASKED, Asked};

/// Frames of Linux's that are sent in one call.
const AT_ONCE: usize = 256;

/// How long they wait for room behind a port, nanoseconds.
const PATIENCE: u64 = 5_000_000;

impl Call<'_, '_> {
    /// Whether Linux speaks for the VRF that a packet came in by. Of what comes by lines it sees nothing: they are the function's. Nor of what
    /// was redirected: it has no interface in the VRF that it came in by for addresses of another.
    pub(super) fn has_host(&self, origin: Origin) -> bool {
        let is_plain = !origin.is_own && origin.line.is_none() && origin.chosen.is_none();
        is_plain && self.control.hosts.frames(origin.vrf).is_some()
    }

    /// Hands a packet to Linux, by the interface that it came in by.
    pub(super) fn give_to_linux(&mut self, parcel: Parcel) {
        let Parcel { packet, origin } = parcel;
        let frames = self.control.hosts.frames(origin.vrf);
        let taken = frames.is_some_and(|frames| frames.hand_over(origin.interface, packet.packet().bytes()));
        self.out.send(packet, if taken { Exit::Delivered } else { Exit::HostFull });
    }

    /// Takes the frames of Linux's that wait, as many as one call sends. While there is no room behind the port of the first, it waits, so that Linux's
    /// own queues fill; but not for long, for others wait behind it.
    pub(super) fn hear_linux(&mut self) {
        if !self.control.hosts.are_any() {
            return;
        }
        let waiting: Vec<Arc<Frames>> =
            self.control.hosts.all_frames().filter(|frames| frames.has_of_linux()).map(Arc::clone).collect();
        let now = self.out.now();
        let is_patient = self.stuck.is_none_or(|since| now.saturating_sub(since) < PATIENCE);
        let (mut room, mut is_stuck) = (BTreeMap::new(), false);
        for frames in waiting {
            let (interfaces, out) = (&self.control.interfaces, &*self.out);
            let taken = frames.take_of_linux(AT_ONCE, |interface| {
                let Some(port) = interfaces.get(interface).and_then(|found| found.wanted.port) else { return true };
                let room = room.entry(port).or_insert_with(|| out.room_at_indexed(port));
                let has_room = *room > 0;
                *room = room.saturating_sub(1);
                is_stuck |= !has_room;
                has_room || !is_patient
            });
            for (interface, frame) in taken {
                self.take_in(&frames, interface, &frame);
            }
        }
        *self.stuck = is_stuck.then(|| self.stuck.unwrap_or(now));
    }

    fn take_in(&mut self, frames: &Frames, interface: InterfaceId, frame: &[u8]) {
        let Some(header) = Ethernet::view(frame) else { return frames.note_lost() };
        let (kind, from) = (header.ethertype.get(), header.source);
        let rest = frame.get(HEADER..).unwrap_or_default();
        match kind {
            ethernet::ARP => self.linux_asks_arp(interface, rest),
            ethernet::IPV6 if is_of_neighbours(rest) => self.linux_asks_nd(interface, from, rest),
            _ => self.send_for_linux(frames, interface, frame),
        }
    }

    fn send_for_linux(&mut self, frames: &Frames, interface: InterfaceId, frame: &[u8]) {
        let is_there = self.control.interfaces.get(interface).is_some_and(|found| found.up);
        let Some(mut packet) = Some(()).filter(|()| is_there).and_then(|()| self.fresh(frame.len())) else {
            return frames.note_lost();
        };
        packet.bytes_mut().copy_from_slice(frame);
        let held = Held::fresh(packet, 0, self.out.now());
        self.send_by(held, interface, Some(Exit::FromLinux));
    }

    /// Linux sends ARP: a question for a neighbour is answered; what it says of its own addresses Weir says itself.
    fn linux_asks_arp(&mut self, interface: InterfaceId, arp: &[u8]) {
        let Some(arp) = ArpFields::parse(arp) else { return };
        let is_question =
            arp.operation == Operation::Request && !arp.sender.is_unspecified() && arp.sender != arp.target;
        if is_question {
            let asked = Asked { address: arp.sender.into(), mac: arp.sender_mac };
            self.linux_asks(interface, arp.target.into(), asked);
        }
    }

    /// The same by neighbour discovery.
    fn linux_asks_nd(&mut self, interface: InterfaceId, from: MacAddr, packet: &[u8]) {
        let Some(message) = nd::parse(packet) else { return };
        if let Body::Solicitation { target, .. } = message.body
            && !message.source.is_unspecified()
        {
            let asked = Asked { address: message.source.into(), mac: from };
            self.linux_asks(interface, target.into(), asked);
        }
    }

    fn linux_asks(&mut self, interface: InterfaceId, neighbor: IpAddr, asked: Asked) {
        let now = self.out.now();
        let hop = NextHop { interface, gateway: Some(neighbor) };
        match self.control.resolve(now, hop, neighbor) {
            Resolution::Known(mac) => self.answer_linux(interface, neighbor, mac, asked),
            Resolution::Pending => {
                let waiting = &mut self.control.hosts.asked;
                if waiting.len() >= ASKED {
                    // Linux asks again.
                    waiting.pop_first();
                }
                waiting.insert((interface, neighbor), asked);
            }
            Resolution::Failed | Resolution::NoRoom | Resolution::NoPort => {}
        }
    }

    /// A neighbour's Ethernet address is known: whoever in Linux waits for it hears it.
    pub(super) fn tell_linux<A: Protocol>(&mut self, interface: InterfaceId, address: A, mac: Option<MacAddr>) {
        if self.control.hosts.asked.is_empty() {
            return;
        }
        let neighbor: IpAddr = address.into();
        if let Some(asked) = self.control.hosts.asked.remove(&(interface, neighbor))
            && let Some(mac) = mac
        {
            self.answer_linux(interface, neighbor, mac, asked);
        }
    }

    fn answer_linux(&mut self, interface: InterfaceId, neighbor: IpAddr, mac: MacAddr, asked: Asked) {
        let mut frame = [0; nd::FRAME_LEN];
        let length = match (neighbor, asked.address) {
            (IpAddr::V4(neighbor), IpAddr::V4(asker)) => {
                reply(neighbor, mac, asker, asked.mac).write(asked.mac, &mut frame)
            }
            (IpAddr::V6(neighbor), IpAddr::V6(asker)) => {
                advertisement(neighbor, mac, asker).write(&mut frame, mac, asked.mac)
            }
            _ => None,
        };
        let vrf = self.control.vrf_of(interface);
        if let (Some(frame), Some(frames)) =
            (length.and_then(|length| frame.get(..length)), self.control.hosts.frames(vrf))
        {
            // Where there is no room, Linux asks again.
            _ = frames.hand_over(interface, frame);
        }
    }
}

const _: () = assert!(arp::FRAME_LEN <= nd::FRAME_LEN);

fn reply(neighbor: Ipv4Addr, mac: MacAddr, asker: Ipv4Addr, to: MacAddr) -> ArpFields {
    ArpFields { operation: Operation::Reply, sender_mac: mac, sender: neighbor, target_mac: to, target: asker }
}

fn advertisement(neighbor: Ipv6Addr, mac: MacAddr, asker: Ipv6Addr) -> Message {
    Message::advertisement(neighbor, mac, asker, false)
}

/// Whether an IPv6 packet is a solicitation or advertisement of a neighbour: ICMPv6 of the types 135 and 136 right behind the header.
fn is_of_neighbours(packet: &[u8]) -> bool {
    const NEXT_HEADER: usize = 6;
    const KIND: usize = 40;
    const ICMPV6: u8 = 58;
    packet.get(NEXT_HEADER) == Some(&ICMPV6) && matches!(packet.get(KIND), Some(135 | 136))
}
