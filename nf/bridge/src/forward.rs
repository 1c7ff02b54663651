//! Stage `NAME.forward`: learns where frames come from, looks up where they go, and floods what is for many.
//!
//! A batch is gone through twice. First both addresses of every frame are read and the lines asked for in which they would stand in the
//! table; then frames go one after the other, so that each finds what the ones before it taught. Where frames between the same two stations come one after
//! the other, as those of one large transfer do, they are looked up once.

use std::sync::Arc;

use weir_packet::{BATCH, Batch, Held, LaneId, Packet, Slot};
use weir_stage::{Declaration, Out, Stage};
use weir_table::mac::{Entry, Place, Station};
use weir_wire::{Ethernet, View};

use crate::config::ControlFrames;
use crate::frame::{Admitted, Refused, TAG, Tag, admit, reshape};
use crate::learn::{Learned, Sender};
use crate::plan::{Kind, NOWHERE, Plan, Ports, bit, ports_in};
use crate::snoop::{Class, Forwarding, classify};
use crate::state::Shared;
use crate::storm::Bucket;

weir_stage::ways! {
    /// Ways out of [`Forward`].
    pub(crate) enum Exit {
        /// A message about multicast groups, or of a multicast router: the control side reads it, and passes it on.
        Snooped => way "snooped",
        /// Shorter than an Ethernet header, or than the tag that it begins with.
        Short => drop "short",
        /// From a group, or from address 0: no station has such an address.
        BadSource => drop "bad-source",
        /// To an address that bridges keep to themselves (01:80:c2:00:00:00 to 0f), and not passed by `control_frames`.
        ControlFrame => drop "control-frame",
        /// The port takes no frames without a tag, or none with one, or none without a VLAN in it.
        Tagging => drop "tag-not-accepted",
        /// The port that it came in by is not in its VLAN.
        NotMember => drop "not-in-vlan",
        /// From a station that is not learned because a limit is reached.
        MacLimit => drop "mac-limit",
        /// From a station that moved to this port, where stations do so too often.
        MoveLimit => drop "move-limit",
        /// To a station behind the port that it came in by.
        SamePort => drop "same-port",
        /// To a station behind a port that it must not go to: isolated as its own, without a link, or not in its VLAN.
        NotReached => drop "not-reached",
        /// To a station that is to be reached nowhere.
        Blackhole => drop "blackhole",
        /// To many, and there is no port that it may go to.
        Alone => drop "nobody-else",
        /// A broadcast beyond what its port takes in.
        StormBroadcast => drop "storm-broadcast",
        /// A frame to a group beyond what its port takes in.
        StormMulticast => drop "storm-multicast",
        /// To a station that is not known, beyond what its port takes in.
        StormUnknown => drop "storm-unknown",
        /// More messages about multicast groups than the control side reads from a worker.
        SnoopPoliced => drop "snoop-policed",
        /// There was no room in front of it for a tag.
        NoRoom => drop "no-room-for-tag",
        /// A copy for a further port.
        Copied => create "flooded",
    }
}

/// What [`Forward`] declares.
pub(crate) fn declaration(ports: usize) -> Declaration {
    Declaration::of::<Exit>().indexed("port", ports).reads(&[LaneId::Port])
}

/// What is known of a frame after the first look.
#[derive(Clone, Copy)]
struct Seen {
    source: Place,
    destination: Place,
    vlan: u16,
    /// The number of the port that it came in by.
    from: u8,
    has_tag: bool,
}

/// Switches frames.
pub(crate) struct Forward {
    shared: Arc<Shared>,
    ports: usize,
    seen: [Seen; BATCH],
    /// Messages about groups that the control side reads from this worker.
    snooped: Bucket,
}

/// One call of the stage.
struct Call<'a> {
    shared: &'a Shared,
    plan: &'a Plan,
    groups: &'a Forwarding,
    snooped: &'a Bucket,
    now: u64,
}

impl Forward {
    pub(crate) fn new(shared: Arc<Shared>, ports: usize) -> Forward {
        let nowhere = shared.table.place(Station::new(0, 0));
        let seen = Seen { source: nowhere, destination: nowhere, vlan: 0, from: 0, has_tag: false };
        Forward { shared, ports, seen: [seen; BATCH], snooped: Bucket::default() }
    }
}

impl Stage for Forward {
    fn declare(&self) -> Declaration {
        declaration(self.ports)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let Forward { shared, seen, snooped, .. } = self;
        let (plan, groups) = (shared.plan.load(out.reader()), shared.groups.load(out.reader()));
        let call = Call { shared, plan, groups, snooped, now: out.now() };
        // Whether it is aware of tags is asked once for all frames, and whether some may be alike: where not, none is compared.
        match (plan.tag, has_train(batch)) {
            (0, false) => call.switch::<false, false>(batch, seen, out),
            (0, true) => call.switch::<false, true>(batch, seen, out),
            (_, false) => call.switch::<true, false>(batch, seen, out),
            (_, true) => call.switch::<true, true>(batch, seen, out),
        }
    }
}

/// Whether many frames of a batch may be between the same two stations: the first two are. Others are not looked at before their turn, as they would have to be
/// waited for.
#[inline(always)]
fn has_train(batch: &Batch) -> bool {
    let mut slots = batch.slots();
    let mut next = || slots.next().and_then(|slot| batch.get(slot)).map(addresses);
    let first = next();
    first.is_some() && next() == first
}

/// The address that begins at the first of these bytes.
#[inline(always)]
fn address(bytes: &[u8; 8]) -> u64 {
    u64::from_be_bytes(*bytes) >> 16
}

/// Whether an address is that of a group.
#[inline(always)]
const fn is_group(address: u64) -> bool {
    address >> 40 & 1 == 1
}

/// Both addresses of a frame, destination first.
#[inline(always)]
pub(crate) fn addresses(packet: &Packet) -> [u64; 2] {
    [address(packet.window::<8>(0)), address(packet.window::<8>(6))]
}

const BROADCAST: u64 = 0xffff_ffff_ffff;

/// The addresses that bridges keep to themselves: IEEE 802.1Q table 8-1.
const RESERVED: u64 = 0x0180_c200_0000;
const STP: u64 = RESERVED;
const PAUSE: u64 = RESERVED + 1;

impl Call<'_> {
    /// Switches the frames of a batch.
    #[inline(always)]
    fn switch<const AWARE: bool, const TRAIN: bool>(
        &self,
        batch: &mut Batch,
        seen: &mut [Seen; BATCH],
        out: &mut Out<'_>,
    ) {
        let (odd, alike) = self.look::<AWARE, TRAIN>(batch, seen);
        let period = self.shared.period();
        let (mut ways, mut straight) = ([0; BATCH], 0);
        let mut before = None;
        for slot in batch.slots() {
            let frame = &seen[slot.index()];
            let there = match odd & slot.bit() {
                // Nothing was learned in between.
                0 if TRAIN && alike & slot.bit() != 0 && before.is_some() => before,
                0 => self.known::<AWARE>(frame, Entry::learned(frame.from, period)),
                _ => None,
            };
            before = there;
            match there {
                Some(port) => {
                    ways[slot.index()] = port;
                    straight |= slot.bit();
                }
                None => self.unusual(batch, slot, out),
            }
        }
        out.answer_indexed_each(straight, &ways);
    }

    /// Reads all frames and asks for what will be looked up. Answers which of them are not from a station to a station, or need a closer look
    /// at their tags: [`admit`] has the rules; and, of a train, which ones came by the same port, from and to the same stations as the one before.
    #[inline(always)]
    fn look<const AWARE: bool, const TRAIN: bool>(&self, batch: &Batch, seen: &mut [Seen; BATCH]) -> (u64, u64) {
        let (table, plan) = (&self.shared.table, self.plan);
        let (mut odd, mut alike) = (0, 0);
        // No VLAN has this number.
        let (mut before, mut last) = (([0; 2], 0, u16::MAX, false), seen[0]);
        batch.each_ref(|slot, packet| {
            let [destination, source] = addresses(packet);
            let from = plan.number(batch.lanes.port[slot]);
            let mut is_odd = (destination | source) >> 40 & 1 == 1 || source == 0 || packet.len() < Ethernet::LEN;
            let (mut vlan, mut has_tag) = (0, false);
            if AWARE {
                let [t0, t1, c0, c1] = *packet.window::<4>(12);
                has_tag = u16::from_be_bytes([t0, t1]) == plan.tag;
                let usual = plan.usual(from);
                let named = u16::from_be_bytes([c0, c1]) & 0xfff;
                vlan = if has_tag { named } else { usual.untagged };
                // VLAN 0 is nobody's, so that a tag without a VLAN is looked at more closely.
                let is_in = plan.vlan(vlan).members & usual.takes[usize::from(has_tag)] != 0;
                is_odd |= !is_in || packet.len() < Ethernet::LEN + TAG;
            }
            odd |= u64::from(is_odd) << slot.index();
            if TRAIN {
                let frame = ([destination, source], from, vlan, has_tag);
                if frame == before {
                    alike |= slot.bit();
                    seen[slot.index()] = last;
                    return;
                }
                before = frame;
            }
            let source = table.place(Station::new(source, vlan));
            let destination = table.place(Station::new(destination, vlan));
            table.prefetch(source);
            table.prefetch(destination);
            last = Seen { source, destination, vlan, from, has_tag };
            seen[slot.index()] = last;
        });
        (odd, alike)
    }

    /// The port that a frame leaves by as it is: its station is known to be here and fresh, and the other one is known, may be reached, and has
    /// frames in this form.
    #[inline(always)]
    fn known<const AWARE: bool>(&self, frame: &Seen, here: Entry) -> Option<u8> {
        // One that stays where it is said to be is not learned, wherever its frames come in: all that a routed side sends is from such a station.
        if !self.shared.table.find(frame.source).is_some_and(|known| known == here || known.is_fixed()) {
            return None;
        }
        let there = self.shared.table.find(frame.destination)?.port();
        let mut may = self.plan.reaches(frame.from);
        if AWARE {
            let known = self.plan.vlan(frame.vlan);
            may &= known.members & if frame.has_tag { !known.untagged } else { known.untagged };
        }
        (there != NOWHERE && may & bit(there) != 0).then_some(there)
    }

    /// Whatever is not as usual.
    #[cold]
    #[inline(never)]
    fn unusual(&self, batch: &mut Batch, slot: Slot, out: &mut Out<'_>) {
        let port = batch.lanes.port[slot];
        let Some(packet) = batch.get(slot) else { return };
        let [destination, source] = addresses(packet);
        let admitted = match admit(self.plan, port, packet.window(0), packet.len()) {
            Err(Refused::Short) => return out.answer(slot, Exit::Short),
            _ if is_group(source) || source == 0 => return out.answer(slot, Exit::BadSource),
            _ if self.is_kept(destination) => return out.answer(slot, Exit::ControlFrame),
            Err(Refused::Tagging) => return out.answer(slot, Exit::Tagging),
            Err(Refused::Vlan) => return out.answer(slot, Exit::NotMember),
            Ok(admitted) => admitted,
        };
        let place = self.shared.table.place(Station::new(source, admitted.vlan));
        let sender = Sender { vlan: admitted.vlan, place, port: admitted.from };
        match self.shared.learn(self.plan, sender, self.now) {
            Learned::Limit if self.plan.drop_beyond => return out.answer(slot, Exit::MacLimit),
            Learned::Moved => return out.answer(slot, Exit::MoveLimit),
            Learned::Limit | Learned::Fine => {}
        }
        match self.goes(packet, destination, &admitted) {
            Ok(ports) => self.send(batch, slot, ports, &admitted, out),
            Err(exit) => out.answer(slot, exit),
        }
    }

    /// Whether frames to an address are not passed on.
    fn is_kept(&self, destination: u64) -> bool {
        let passed = match self.plan.control_frames {
            ControlFrames::Drop => false,
            ControlFrames::Stp => destination == STP,
            ControlFrames::All => destination != PAUSE,
        };
        destination & !0xf == RESERVED && !passed
    }

    /// The ports that a frame goes to.
    fn goes(&self, packet: &Packet, destination: u64, admitted: &Admitted) -> Result<Ports, Exit> {
        let Admitted { from, vlan, .. } = *admitted;
        let reach = self.plan.reach(vlan, from);
        let some = |ports: Ports| if ports == 0 { Err(Exit::Alone) } else { Ok(ports) };
        if is_group(destination) {
            return self.goes_to_group(packet, destination, admitted, reach).and_then(some);
        }
        match self.shared.table.find(self.shared.table.place(Station::new(destination, vlan))) {
            None => self.bounded(Kind::Unknown, packet, from).and_then(|()| some(reach)),
            Some(there) if there.port() == NOWHERE => Err(Exit::Blackhole),
            Some(there) if there.port() == from => Err(Exit::SamePort),
            Some(there) if reach & bit(there.port()) == 0 => Err(Exit::NotReached),
            Some(there) => Ok(bit(there.port())),
        }
    }

    fn goes_to_group(
        &self,
        packet: &Packet,
        destination: u64,
        admitted: &Admitted,
        reach: Ports,
    ) -> Result<Ports, Exit> {
        let kind = if destination == BROADCAST { Kind::Broadcast } else { Kind::Multicast };
        self.bounded(kind, packet, admitted.from)?;
        let Some(snooping) = self.plan.snooping.as_ref().filter(|_| kind == Kind::Multicast) else { return Ok(reach) };
        let tag = if admitted.tag == Tag::None { 0 } else { TAG };
        match classify(packet.bytes().get(Ethernet::LEN - 2 + tag..).unwrap_or_default()) {
            Class::All => Ok(reach),
            // Without ports it is meant for the control side.
            Class::Message if self.snooped.take(snooping.rate, self.now, 1) => Err(Exit::Snooped),
            Class::Message => Err(Exit::SnoopPoliced),
            Class::Group(group) => {
                let routers = self.groups.routers(admitted.vlan, snooping);
                match self.groups.group(admitted.vlan, group) {
                    None if snooping.floods => Ok(reach),
                    listeners => Ok((listeners.unwrap_or(0) | routers) & reach),
                }
            }
        }
    }

    /// Takes a frame in, if its port has not taken in too much of its kind.
    fn bounded(&self, kind: Kind, packet: &Packet, from: u8) -> Result<(), Exit> {
        let bounds = &self.plan.port(from).storm[kind as usize % crate::plan::KINDS];
        let counts = [1, 8 * packet.len() as u64];
        let mut all = bounds.iter().zip(self.shared.storm(from, kind)).zip(counts);
        let is_within = all.all(|((bound, bucket), count)| bound.is_none_or(|pace| bucket.take(pace, self.now, count)));
        if is_within {
            return Ok(());
        }
        Err(match kind {
            Kind::Broadcast => Exit::StormBroadcast,
            Kind::Multicast => Exit::StormMulticast,
            Kind::Unknown => Exit::StormUnknown,
        })
    }

    /// Sends a frame to the ports of a set: itself to the first, and a copy to each of the others.
    fn send(&self, batch: &mut Batch, slot: Slot, ports: Ports, admitted: &Admitted, out: &mut Out<'_>) {
        let untagged = self.plan.vlan(admitted.vlan).untagged;
        let has_tag = |port: u8| untagged & bit(port) == 0;
        let mut ports = ports_in(ports);
        let Some(first) = ports.next() else { return out.answer(slot, Exit::Alone) };
        for port in ports {
            let Some(mut copy) = batch.get(slot).and_then(|packet| out.copy(packet)) else {
                self.shared.counts.missed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                break;
            };
            let fits = reshape(&mut copy, self.plan.tag, admitted, !has_tag(port));
            let copy = Held::like(copy, &batch.lanes, slot);
            match fits {
                true => out.emit_indexed(copy, port, Exit::Copied),
                false => out.emit(copy, Exit::NoRoom, Exit::Copied),
            }
        }
        let Some(packet) = batch.get_mut(slot) else { return };
        match reshape(packet, self.plan.tag, admitted, !has_tag(first)) {
            true => out.answer_indexed(slot, first),
            false => out.answer(slot, Exit::NoRoom),
        }
    }
}
