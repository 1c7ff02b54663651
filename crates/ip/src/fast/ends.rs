//! What routes say of whom packets are from, or for.

use weir_packet::{Batch, Packet, Slots};
use weir_simd::frame_check::BATCH;
use weir_table::lpm4::Lookup4;
use weir_table::lpm6::Lookup6;
use weir_wire::{Ipv4, Ipv6, View, ethernet, martian, martian6};

use crate::tables::prefixes::{PrefixReader, Readers};

/// An end of a packet's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Whom it is from.
    Source,
    /// Whom it is for.
    Destination,
}

impl End {
    /// Whether an IPv4 address counts on a link only, so that no route says anything of it: that of a host that has none yet, or one of
    /// RFC 3927; a group of stations, or all.
    const fn is_of_link4(self, address: u32) -> bool {
        match self {
            End::Source => address == 0 || martian::is_link_local(address),
            End::Destination => martian::is_multicast(address) || martian::is_limited_broadcast(address),
        }
    }

    /// The same of IPv6 (RFC 4291 section 2.5.6).
    const fn is_of_link6(self, address: u128) -> bool {
        let is_other = match self {
            End::Source => address == 0,
            End::Destination => martian6::is_multicast(address),
        };
        is_other || martian6::is_link_local(address)
    }
}

/// Of which packets what is known, as masks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// Routes were asked for their addresses.
    pub(crate) routed: u64,
    /// Their addresses count on a link only.
    pub(crate) of_link: u64,
}

impl Known {
    /// The packets in `routed` of which `is` holds for what routes answered.
    pub(crate) fn those(self, answers: &[u32; BATCH], is: impl Fn(u32) -> bool) -> u64 {
        Slots(self.routed).filter(|slot| is(answers[slot.index()])).fold(0, |mask, slot| mask | slot.bit())
    }
}

/// Addresses of one family, in the order of the packets that have them.
struct Column<A> {
    slots: [u8; BATCH],
    addresses: [A; BATCH],
    count: usize,
}

impl<A: Copy + Default> Column<A> {
    fn new() -> Column<A> {
        Column { slots: [0; BATCH], addresses: [A::default(); BATCH], count: 0 }
    }

    #[inline(always)]
    fn add(&mut self, slot: usize, address: A) {
        self.slots[self.count % BATCH] = slot as u8;
        self.addresses[self.count % BATCH] = address;
        self.count += 1;
    }

    /// Has `look_up` write what is found for all addresses, and puts it at the slots of their packets.
    #[inline(always)]
    fn look_up(&self, answers: &mut [u32; BATCH], look_up: impl FnOnce(&[A], &mut [u32])) {
        let mut found = [0; BATCH];
        if let (Some(from), Some(to)) = (self.addresses.get(..self.count), found.get_mut(..self.count)) {
            look_up(from, to);
        }
        for (slot, found) in self.slots.iter().zip(found).take(self.count) {
            answers[usize::from(*slot) % BATCH] = found;
        }
    }
}

/// Looks up one end of packets.
pub(crate) struct Ends {
    end: End,
    four: Column<u32>,
    six: Column<u128>,
    /// What routes answered last, by slot.
    pub(crate) answers: [u32; BATCH],
}

impl Ends {
    pub(crate) fn new(end: End) -> Ends {
        Ends { end, four: Column::new(), six: Column::new(), answers: [0; BATCH] }
    }

    /// Looks up the packets in `of`, whose network headers begin at `l3`, in the tables of a VRF. What is not IP, or is cut short, is in neither
    /// mask of the answer.
    pub(crate) fn look_up(&mut self, batch: &Batch, of: u64, l3: &[u8; BATCH], readers: &Readers) -> Known {
        let mut known = Known::default();
        (self.four.count, self.six.count) = (0, 0);
        batch.each_ref_in(
            of,
            #[inline(always)]
            |slot, packet| {
                let l3 = usize::from(l3[slot.index()]);
                let length = packet.len().saturating_sub(l3);
                match u16::from_be_bytes(*packet.window(l3.wrapping_sub(2))) {
                    ethernet::IPV4 if length >= Ipv4::LEN => {
                        let address = four(packet, l3, self.end);
                        if self.end.is_of_link4(address) {
                            known.of_link |= slot.bit();
                        } else {
                            known.routed |= slot.bit();
                            self.four.add(slot.index(), address);
                        }
                    }
                    ethernet::IPV6 if length >= Ipv6::LEN => {
                        let address = six(packet, l3, self.end);
                        if self.end.is_of_link6(address) {
                            known.of_link |= slot.bit();
                        } else {
                            known.routed |= slot.bit();
                            self.six.add(slot.index(), address);
                        }
                    }
                    _ => {}
                }
            },
        );
        self.four.look_up(&mut self.answers, |from, to| match &readers.four {
            PrefixReader::Dir24(table) => table.lookup_batch(from, to),
            PrefixReader::Packed(table) => table.lookup_batch(from, to),
        });
        self.six.look_up(&mut self.answers, |from, to| readers.six.lookup_batch(from, to));
        known
    }
}

#[inline(always)]
fn four(packet: &Packet, l3: usize, end: End) -> u32 {
    let Some(ip) = Ipv4::view(packet.window::<{ Ipv4::LEN }>(l3)) else { return 0 };
    match end {
        End::Source => ip.source.get(),
        End::Destination => ip.destination.get(),
    }
}

#[inline(always)]
fn six(packet: &Packet, l3: usize, end: End) -> u128 {
    let Some(ip) = Ipv6::view(packet.window::<{ Ipv6::LEN }>(l3)) else { return 0 };
    u128::from_be_bytes(match end {
        End::Source => ip.source,
        End::Destination => ip.destination,
    })
}
