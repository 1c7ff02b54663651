//! Stage `NAME.distribute`, where several workers share the softwires and one of them receives (layout `distributor`): it brings each packet to the
//! owner of its softwire, so that packets of one keep their order.
//!
//! | packet | goes by |
//! |---|---|
//! | IPv4 to a shared address | address and PSID of its destination port; of ICMP by the identifier, or the port of what is quoted |
//! | IPv4 to other addresses | both addresses |
//! | IPv6 of TCP and UDP | both addresses |
//! | all other IPv6, tunnels among it | its source: the customer's end, which fragments have, too |
//! | ICMPv6 errors about a tunnel | the customer's end of that |
//! | all else | nothing: to the first |
//!
//! Fragments to an address that is shared by ports wait here until all of their packet are there, and go to their owner together, in order, where they are put
//! together at once. So a packet is whole at the owner when its last fragment came here, as it would be with one worker.

use std::sync::Arc;

use weir_ip::Ingress;
use weir_net::reassembly::join;
use weir_packet::{BATCH, Batch, Held, LaneId, Packet, Slots};
use weir_stage::{Declaration, Out, Stage};
use weir_table::exact::Hash;
use weir_wire::port_sets::PortSets;
use weir_wire::{Ethernet, Ipv4, Ipv6, View, ethernet, flow, ipv4, ipv6, spread, validity, validity6};

use crate::border::{Port, Whose as End, port_of, tunnel_of};
use crate::relay::fragments::{Fragment, Kept, Loss, Waiting};
use crate::rules::Rules;
use crate::table::Softwires;
use crate::tally::{Count, Tally};

weir_stage::ways! {
    /// Ways out of [`Spreader`], before those to the owners.
    pub enum Exit {
        /// To the first owner.
        First => way "first",
        /// A fragment that came before.
        Duplicate => drop "fragment-duplicate",
        /// Of a packet whose fragments overlap, or of one that was given up: all of it is dropped (RFC 5722).
        Overlap => drop "fragment-overlap",
        /// Of a packet in more fragments than one may have.
        TooMany => drop "fragments-too-many",
        /// A fragment; the others did not come within 60 seconds.
        Timeout => drop "fragment-timeout",
        /// A fragment that had waited longest when there was no room for others.
        Full => drop "fragment-queue-full",
    }
}

impl From<Loss> for Exit {
    fn from(loss: Loss) -> Exit {
        match loss {
            Loss::Duplicate => Exit::Duplicate,
            Loss::Overlap => Exit::Overlap,
            Loss::TooMany => Exit::TooMany,
            Loss::Full => Exit::Full,
        }
    }
}

/// Distinguishes this use of the hash from others that follow it, which would otherwise see a part of the flows only.
const SEED: u64 = 0x7765_6972_2d61_6674;

/// The IPv4 header and the ports behind it.
const FRONT: usize = Ipv4::LEN + 4;

/// The bits of a MAC address in a little-endian word.
const MAC_BITS: u64 = (1 << 48) - 1;

/// Says whose a packet is.
pub(crate) struct Whose {
    softwires: Arc<Softwires>,
    rules: Arc<Rules>,
    ingress: Arc<Ingress>,
    owners: u8,
}

/// Whose a packet is that is not as most are.
enum Owner {
    /// This one's.
    Is(u8),
    /// A fragment, whose packet says it as a whole.
    Waits(Fragment),
}

/// Packets that are for shared addresses most probably: by slot, what they are found by.
struct Shared {
    addresses: [u32; BATCH],
    ports: [u16; BATCH],
    hashes: [Hash; BATCH],
}

impl Whose {
    /// Among so many owners, at least 1.
    pub(crate) fn new(softwires: Arc<Softwires>, rules: Arc<Rules>, ingress: Arc<Ingress>, owners: u8) -> Whose {
        Whose { softwires, rules, ingress, owners: owners.max(1) }
    }

    /// The owner of what has a hash: the high part of the product is uniform below their number when the hash is uniform (Lemire 2016).
    #[inline(always)]
    fn of_hash(&self, hash: u32) -> u8 {
        ((u64::from(hash) * u64::from(self.owners)) >> 32) as u8
    }

    /// The owner of the softwire of an address and a PSID.
    #[inline(always)]
    fn of_part(&self, address: u32, psid: u16) -> u8 {
        self.of_hash(flow::one(u64::from(address) << 16 | u64::from(psid), SEED))
    }

    /// The owner of the softwires of a customer's end.
    #[inline(always)]
    fn of_end(&self, address: &[u8; 16]) -> u8 {
        self.of_hash(flow::one(flow::address6(address), SEED))
    }

    /// The owner of a packet that is no softwire's.
    #[inline(always)]
    fn of_addresses(&self, packet: &Packet) -> u8 {
        let hash = spread::hash(spread::Key::Addresses, packet.window(0), packet.len(), SEED);
        self.of_hash(hash.unwrap_or(0))
    }

    /// Writes the owner of each packet to its slot; answers which have to be looked at one by one.
    #[inline(always)]
    fn owners(&self, batch: &Batch, owners: &mut [u8; BATCH]) -> u64 {
        let (mut shared, mut usual, mut others) =
            (Shared { addresses: [0; BATCH], ports: [0; BATCH], hashes: [Hash::from_bits(0); BATCH] }, 0, 0);
        batch.each_ref(
            #[inline(always)]
            |slot, packet| {
                let (at, port) = (slot.index(), batch.lanes.port[slot]);
                let word = u64::from_le_bytes(*packet.window(0));
                let mut l3 = Ethernet::LEN;
                let mut is_ours = word & MAC_BITS == self.ingress.mac_word(port);
                if self.ingress.port_has_tags(port) {
                    let entered = self.ingress.port(port).enter(packet.window(0));
                    (l3, is_ours) = (usize::from(entered.l3), entered.is_ours);
                }
                let front: &[u8; Ipv6::LEN] = packet.window(l3);
                match u16::from_be_bytes(*packet.window(l3.saturating_sub(2))) {
                    ethernet::IPV4 if is_ours && packet.len() >= l3 + Ipv4::LEN => {
                        let Some(ip) = Ipv4::view(front) else { return };
                        let is_plain = ip.version_ihl == 0x45 && !ip.is_fragment() && packet.len() >= l3 + FRONT;
                        if !is_plain || !matches!(ip.protocol, ipv4::TCP | ipv4::UDP) {
                            return others |= slot.bit();
                        }
                        let address = ip.destination.get();
                        let hash = self.softwires.hash_of_address(address);
                        self.softwires.prefetch_address(hash);
                        shared.ports[at] = u16::from_be_bytes(*packet.window(l3 + Ipv4::LEN + 2));
                        (shared.addresses[at], shared.hashes[at]) = (address, hash);
                        usual |= slot.bit();
                    }
                    ethernet::IPV6 if packet.len() >= l3 + Ipv6::LEN => {
                        let Some(ip) = Ipv6::view(front) else { return };
                        owners[at] = match ip.next_header {
                            ipv4::TCP | ipv4::UDP => self.of_addresses(packet),
                            ipv4::IPIP => self.of_end(&ip.source),
                            _ => return others |= slot.bit(),
                        };
                    }
                    _ => {}
                }
            },
        );
        for slot in Slots(usual) {
            let at = slot.index();
            owners[at] = match self.softwires.candidate_sets(shared.hashes[at]) {
                Some(sets) => self.of_part(shared.addresses[at], sets.psid(shared.ports[at]).unwrap_or(0)),
                None => batch.get(slot).map_or(0, |packet| self.of_addresses(packet)),
            };
        }
        others
    }

    /// Whose a packet is, by the letter.
    #[cold]
    fn owner(&self, packet: &Packet, port: u16) -> Owner {
        let entered = self.ingress.enter(port, packet.window(0));
        let l3 = usize::from(entered.l3);
        let bytes = packet.bytes().get(l3..).unwrap_or_default();
        match bytes.first().map(|first| first >> 4) {
            Some(4) if validity::check_slice(bytes).is_ok() => {
                self.owner_of_four(packet, bytes, (l3, self.rules.four.has(entered.interface)))
            }
            Some(6) if validity6::check_slice(bytes).is_ok() => Owner::Is(self.owner_of_six(bytes)),
            // What is not whole is nobody's.
            _ => Owner::Is(0),
        }
    }

    /// Whose a valid IPv4 packet is, whose fragments may wait if it is on its side.
    fn owner_of_four(&self, packet: &Packet, bytes: &[u8], (l3, may_wait): (usize, bool)) -> Owner {
        let Some(ip) = Ipv4::view(bytes) else { return Owner::Is(0) };
        let bytes = bytes.get(..ip.total_len()).unwrap_or_default();
        let address = ip.destination.get();
        let Some(sets) = self.sets(address) else { return Owner::Is(self.of_addresses(packet)) };
        if !ip.is_fragment() || sets == PortSets::WHOLE {
            return Owner::Is(self.owner_of_whole(bytes));
        }
        match Fragment::of_four(bytes, l3) {
            Some(fragment) if may_wait => Owner::Waits(fragment),
            _ => Owner::Is(self.of_part(address, 0)),
        }
    }

    /// How the ports of an address are divided, as it is asked for of all packets: most probably.
    fn sets(&self, address: u32) -> Option<PortSets> {
        self.softwires.candidate_sets(self.softwires.hash_of_address(address))
    }

    /// Whose the whole IPv4 packet `bytes` to a shared address is. What is for no port set is the first one's.
    fn owner_of_whole(&self, bytes: &[u8]) -> u8 {
        let address = Ipv4::view(bytes).map_or(0, |ip| ip.destination.get());
        let psid = self.sets(address).and_then(|sets| match port_of(bytes, End::Destination, &self.rules.echo) {
            Port::Is(port) => sets.psid(port),
            Port::None | Port::Missing => sets.portless(),
        });
        self.of_part(address, psid.unwrap_or(0))
    }

    /// Whose a valid IPv6 packet is that is no TCP and no UDP.
    fn owner_of_six(&self, bytes: &[u8]) -> u8 {
        let Some(ip) = Ipv6::view(bytes) else { return 0 };
        let upper = ipv6::upper(bytes).filter(|upper| upper.protocol == ipv6::ICMPV6 && upper.whole);
        let message = upper.filter(|upper| upper.fragment.is_none()).and_then(|upper| bytes.get(upper.at..));
        let told = message.and_then(tunnel_of).map(|outer| outer.destination.octets());
        self.of_end(&told.unwrap_or(ip.source))
    }
}

/// See the module.
pub(crate) struct Spreader {
    whose: Whose,
    waiting: Waiting,
    tally: Arc<Tally>,
}

impl Spreader {
    /// Packets that are lost here are counted in `tally`.
    pub(crate) fn new(whose: Whose, tally: Arc<Tally>) -> Spreader {
        let waiting = Waiting::new(&whose.rules);
        Spreader { whose, waiting, tally }
    }

    /// Looks at packets that are not as most are.
    #[inline(never)]
    fn one_by_one(&mut self, batch: &mut Batch, mask: u64, owners: &mut [u8; BATCH], out: &mut Out<'_>) {
        for slot in Slots(mask) {
            let Some(packet) = batch.get(slot) else { continue };
            match self.whose.owner(packet, batch.lanes.port[slot]) {
                Owner::Is(owner) => owners[slot.index()] = owner,
                Owner::Waits(fragment) => {
                    if let Some(held) = batch.hold(slot) {
                        self.keep(Kept { packet: held, at: fragment.at }, &fragment, out);
                    }
                }
            }
        }
    }

    /// A fragment came: all of its packet go to their owner when they are there.
    fn keep(&mut self, kept: Kept, fragment: &Fragment, out: &mut Out<'_>) {
        let (now, tally) = (out.now(), &self.tally);
        let pieces = self.waiting.take(now, fragment, kept, |kept, loss| lose(kept, loss.into(), tally, out));
        let Some(pieces) = pieces else { return };
        let whole = join(pieces.iter().map(Kept::bytes));
        let owner = whole.map_or(0, |whole| self.whose.owner_of_whole(&whole));
        pieces.into_iter().for_each(|kept| out.send_indexed(kept.packet, owner));
    }
}

/// A fragment is given up. Those that come to their owners are counted there.
fn lose(kept: Kept, exit: Exit, tally: &Tally, out: &mut Out<'_>) {
    tally.one(Count::FragmentInFour, 0);
    out.send(kept.packet, exit);
}

impl Stage for Spreader {
    fn declare(&self) -> Declaration {
        let owners = usize::from(self.whose.owners);
        Declaration::of::<Exit>().indexed("replica", owners).reads(&[LaneId::Port]).polled()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let mut owners = [0; BATCH];
        let others = self.whose.owners(batch, &mut owners);
        if others != 0 {
            self.one_by_one(batch, others, &mut owners, out);
        }
        out.answer_indexed_each(batch.live(), &owners);
    }

    fn poll(&mut self, out: &mut Out<'_>) -> u64 {
        let now = out.now();
        while let Some(kept) = self.waiting.expire(now) {
            kept.into_iter().for_each(|kept| lose(kept, Exit::Timeout, &self.tally, out));
        }
        self.waiting.next_deadline()
    }

    fn held(&self) -> u64 {
        self.waiting.held()
    }

    fn clear(&mut self, give: &mut dyn FnMut(Held)) {
        self.waiting.clear().into_iter().for_each(|kept| give(kept.packet));
    }
}
