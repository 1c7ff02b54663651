//! Stage `NAME.tables`, on each worker: packets go through the flow tables, one after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_flow_tables::agent::Beside;
use weir_flow_tables::{Agent, Copies, Forwarded, Frame, Frames, Packet, Report, ShortWay, Why, Worker};
use weir_packet::{BATCH, Batch, HEADROOM, Held, LaneId, Lanes, REACH, Slot, Slots};
use weir_stage::{Declaration, Out, PortInfo, Stage};

use crate::core::{Core, Shared};
use crate::told::Told;

weir_stage::ways! {
    /// Ways out of [`Forward`].
    pub(crate) enum Exit {
        /// Not decided: a defect, as every packet leaves by a port or for a reason.
        Undecided => way "undecided",
        /// Shorter than an Ethernet header.
        Short => drop "short",
        /// No flow of a table matched it, and the table has no flow for misses.
        Miss => drop "table-miss",
        /// The flows that it met send it nowhere.
        NoAction => drop "no-action",
        /// It came faster than a meter lets through.
        Meter => drop "meter",
        /// Its TTL, or hop limit, is used up.
        Ttl => drop "ttl-ended",
        /// No bucket of its group may be used now.
        NoBucket => drop "no-bucket",
        /// The port that a flow sends it to does not exist.
        NoPort => drop "no-such-port",
        /// The port that a flow sends it to is switched off by a controller, or has no link; or all ports that it was flooded to.
        PortDown => drop "port-down",
        /// A flow sends it to the port that it came in by, which only `IN_PORT` may say; or a station is there.
        SamePort => drop "same-port",
        /// A controller wants nothing to come in by its port.
        PortOff => drop "port-takes-nothing",
        /// It is a fragment, and a controller wants those dropped.
        Fragment => drop "fragment",
        /// A flow sends it to controllers, and one of them wants none from its port.
        NotTold => drop "no-packet-in",
        /// A flow sends it to controllers, and none is connected that wants it.
        NoController => drop "no-controller",
        /// A flow sends it to controllers, and more waits for them than they have taken.
        ControllerBusy => drop "controller-busy",
        /// More copies became of it than may.
        TooMany => drop "too-many-copies",
        /// To an address that bridges keep to themselves (01:80:c2:00:00:00 to 0f), and to be switched as by a bridge.
        ControlFrame => drop "control-frame",
        /// Tags and labels made it longer than a buffer.
        TooLong => drop "too-long",
        /// It went to controllers, and nowhere else.
        ToController => consume "to-controller",
        /// A copy for a further port.
        Copied => create "copied",
    }
}

/// What [`Forward`] declares.
pub(crate) fn declaration(ports: usize) -> Declaration {
    Declaration::of::<Exit>().indexed("port", ports).reads(&[LaneId::Port])
}

/// The reason under which a packet is dropped that nothing became of.
const fn dropped(why: Why) -> Exit {
    match why {
        Why::NoAction => Exit::NoAction,
        Why::PortTakesNothing => Exit::PortOff,
        Why::Fragment => Exit::Fragment,
        Why::Miss => Exit::Miss,
        Why::Metered => Exit::Meter,
        Why::TtlEnded => Exit::Ttl,
        Why::NoBucket => Exit::NoBucket,
        Why::NoPort => Exit::NoPort,
        Why::PortDown => Exit::PortDown,
        Why::SamePort => Exit::SamePort,
        Why::NotTold => Exit::NotTold,
        Why::TooManyCopies => Exit::TooMany,
    }
}

/// The reason under which a packet ends that left by no port, of which this became beside.
const fn beside_exit(beside: Beside) -> Exit {
    match beside {
        Beside::Nothing(why) => dropped(why),
        Beside::Told => Exit::ToController,
        Beside::NotWanted => Exit::NoController,
        Beside::NoRoom => Exit::ControllerBusy,
    }
}

/// Takes packets through the tables.
pub(crate) struct Forward {
    shared: Arc<Shared>,
    ports: Ports,
    /// What is known of the packets of a batch.
    frames: Frames,
    /// And what of them is for controllers.
    told: Told,
    /// Under which it counts: nobody else does, as long as this holds it.
    _worker: Arc<Worker>,
}

/// The ports of the switch, as packets come in and go out by them.
struct Ports {
    /// Numbers of ports by their index; 0 for those of others.
    numbers: Vec<u32>,
    count: usize,
}

/// A packet that is changed where it lies.
struct InPlace<'p>(&'p mut weir_packet::Packet);

impl Frame for InPlace<'_> {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }

    #[inline]
    fn window(&mut self) -> Option<&mut [u8; 128]> {
        Some(self.0.window_mut(0))
    }

    /// As much as where frames are copied: what is longer is dropped there, by name.
    #[inline]
    fn has_room(&self, back: usize, forward: usize) -> bool {
        let packet = &self.0;
        let (headroom, room) = (packet.headroom(), packet.room());
        let longest = (headroom + room).saturating_sub(HEADROOM);
        headroom >= back && packet.len() + back <= longest && room >= forward + REACH
    }

    #[inline]
    fn prepend(&mut self, bytes: usize) {
        // It goes: there is room.
        let _ = self.0.prepend(bytes);
    }

    #[inline]
    fn trim_front(&mut self, bytes: usize) {
        let _ = self.0.trim_front(bytes);
    }

    #[inline]
    fn lengthen(&mut self, length: usize) {
        let _ = self.0.set_len(length);
    }

    #[inline]
    fn replace(&mut self, bytes: &[u8]) {
        let _ = self.0.fill(bytes);
    }
}

/// What sends copies of a packet by further ports.
struct Copying<'c, 'o> {
    out: &'c mut Out<'o>,
    /// What is known of the packet in this slot.
    lanes: &'c Lanes,
    slot: Slot,
    /// How many ports there are.
    ports: usize,
    /// Copies that were not made.
    missed: &'c AtomicU64,
}

/// The same, and what is for controllers.
struct Telling<'c, 'o> {
    copying: Copying<'c, 'o>,
    agent: &'c Agent,
    told: &'c mut Told,
}

impl Copies for Telling<'_, '_> {
    #[inline]
    fn send(&mut self, port: u32, bytes: &[u8]) {
        self.copying.send(port, bytes);
    }

    fn tell(&mut self, report: Report, bytes: &[u8]) {
        self.told.take(self.agent, self.copying.slot, report, bytes);
    }
}

/// Packets of a batch that leave by ports, which are answered for together.
struct Leaving {
    /// Those for whose port there is no way, which are answered for.
    lost: u64,
    ways: [u8; BATCH],
    /// The port that the last of them leaves by, and its way.
    port: u32,
    way: Option<u8>,
    /// How many ports there are.
    ports: usize,
}

impl Leaving {
    /// None yet; there are so many ports.
    #[inline(always)]
    fn by(ports: usize) -> Leaving {
        Leaving { lost: 0, ways: [0; BATCH], port: 0, way: None, ports }
    }

    /// A packet leaves by a port, if there is one.
    #[inline(always)]
    fn leaves(&mut self, slot: Slot, port: u32, out: &mut Out<'_>) {
        if port != self.port {
            (self.port, self.way) = (port, way_of(port, self.ports));
        }
        match self.way {
            Some(way) => self.ways[slot.index()] = way,
            None => {
                self.lost |= slot.bit();
                out.answer(slot, Exit::NoPort);
            }
        }
    }

    /// Answers for those in `mask` that leave.
    #[inline(always)]
    fn answer(self, mask: u64, out: &mut Out<'_>) {
        out.answer_indexed_each(mask & !self.lost, &self.ways);
    }
}

impl Copying<'_, '_> {
    #[inline]
    fn send(&mut self, port: u32, bytes: &[u8]) {
        let copied = way_of(port, self.ports).and_then(|way| Some((way, copy_of(bytes, self.out)?)));
        match copied {
            Some((way, copy)) => self.out.emit_indexed(Held::like(copy, self.lanes, self.slot), way, Exit::Copied),
            None => _ = self.missed.fetch_add(1, Ordering::Relaxed),
        }
    }
}

impl Forward {
    pub(crate) fn new(shared: Arc<Shared>, ports: &[PortInfo]) -> Forward {
        let worker = shared.add_worker();
        let (frames, told) = (Frames::new(BATCH, *worker), Told::new());
        Forward { shared, ports: Ports::new(ports), frames, told, _worker: worker }
    }

    /// Takes a batch through the tables, packet by packet.
    #[inline(never)]
    fn take(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let Forward { shared, ports, frames, told, .. } = self;
        let core = shared.read();
        let mut left = batch.live();
        // Without a controller it may be a bridge, which looks into no table.
        if !core.agent.is_standalone() {
            core.agent.switch.begin(frames);
            left = match frames.is_led() {
                true => ports.lead(shared, &core, batch, (frames, told), out),
                false => ports.forward_all(shared, &core, batch, (frames, told), out),
            };
        }
        drop(core);
        if left != 0 || told.is_used() {
            ports.take_rest(shared, batch, (left, told), out);
        }
    }
}

impl Ports {
    fn new(ports: &[PortInfo]) -> Ports {
        let most = ports.iter().map(|port| usize::from(port.index).saturating_add(1)).max().unwrap_or(0);
        let mut numbers = vec![0; most];
        for (port, number) in ports.iter().zip(1..) {
            if let Some(place) = numbers.get_mut(usize::from(port.index)) {
                *place = number;
            }
        }
        Ports { numbers, count: ports.len() }
    }

    /// The number of the port that a packet came in by.
    #[inline]
    fn number(&self, lanes: &Lanes, slot: Slot) -> u32 {
        self.numbers.get(usize::from(lanes.port[slot])).copied().unwrap_or(0)
    }

    /// Takes a batch by code, packet by packet; answers which ones are left for the interpreter.
    #[inline]
    fn lead(
        &self,
        shared: &Shared,
        core: &Core,
        batch: &mut Batch,
        (frames, told): (&mut Frames, &mut Told),
        out: &mut Out<'_>,
    ) -> u64 {
        let (now, live, mut others, mut left) = (out.now(), batch.live(), 0, 0);
        let mut leaving = Leaving::by(self.count);
        batch.each(|slot, packet, lanes| {
            let led = match packet.len() {
                14.. => core.agent.switch.lead(&mut InPlace(packet), self.number(lanes, slot), frames, now),
                _ => None,
            };
            match led {
                Some(port) => return leaving.leaves(slot, port, out),
                None => others |= slot.bit(),
            }
            if !self.forward((shared, core), (slot, packet, lanes), (0, &mut *frames, &mut *told), out) {
                left |= slot.bit();
            }
        });
        leaving.answer(live & !others, out);
        core.agent.switch.settle(frames, now);
        left
    }

    /// Looks into all packets of a batch, and takes those by the fast path for which that goes; answers which ones are left for the interpreter.
    #[inline]
    fn forward_all(
        &self,
        shared: &Shared,
        core: &Core,
        batch: &mut Batch,
        (frames, told): (&mut Frames, &mut Told),
        out: &mut Out<'_>,
    ) -> u64 {
        let (switch, now) = (&core.agent.switch, out.now());
        let mut looking = switch.looking(frames);
        batch.each(|slot, packet, lanes| looking.look(&mut InPlace(packet), self.number(lanes, slot)));
        drop(looking);
        switch.approach(frames);
        let left = self.hasten(switch.short_way(frames, now), batch, out);
        let mut more = 0;
        if left != 0 {
            let live = batch.live();
            batch.each_in(left, |slot, packet, lanes| {
                let nth = (live & (slot.bit() - 1)).count_ones() as usize;
                if !self.forward((shared, core), (slot, packet, lanes), (nth, &mut *frames, &mut *told), out) {
                    more |= slot.bit();
                }
            });
        }
        switch.settle(frames, now);
        more
    }

    /// Takes those of a batch that go the short way; answers which ones are left.
    #[inline]
    fn hasten(&self, mut short: ShortWay<'_>, batch: &mut Batch, out: &mut Out<'_>) -> u64 {
        let (live, mut nth, mut left) = (batch.live(), 0, 0);
        let mut leaving = Leaving::by(self.count);
        batch.each(|slot, packet, _| {
            let taken = match packet.len() {
                14.. => short.take(nth, &mut InPlace(packet)),
                _ => None,
            };
            match taken {
                Some(port) => leaving.leaves(slot, port, out),
                None => left |= slot.bit(),
            }
            nth += 1;
        });
        leaving.answer(live & !left, out);
        left
    }

    /// Takes the `nth` of the packets that were looked into by the fast path, if that goes.
    #[inline]
    fn forward(
        &self,
        (shared, core): (&Shared, &Core),
        (slot, packet, lanes): (Slot, &mut weir_packet::Packet, &Lanes),
        (nth, frames, told): (usize, &mut Frames, &mut Told),
        out: &mut Out<'_>,
    ) -> bool {
        if packet.len() < 14 {
            return false;
        }
        let now = out.now();
        let copying = Copying { out: &mut *out, lanes, slot, ports: self.count, missed: &shared.missed };
        let mut telling = Telling { copying, agent: &core.agent, told: &mut *told };
        match core.agent.switch.forward(nth, &mut InPlace(packet), frames, &mut telling, now) {
            Some(Forwarded::Told) => told.is_alone(slot),
            Some(Forwarded::Sent(port)) => answer_way(way_of(port, self.count), slot, out),
            Some(Forwarded::Dropped(why)) => out.answer(slot, dropped(why)),
            None => return false,
        }
        true
    }

    /// Tells controllers what waits for them, and takes the packets that are left by the interpreter: both with the switch to itself, unless there is nothing to be told.
    #[cold]
    #[inline(never)]
    fn take_rest(&self, shared: &Shared, batch: &mut Batch, (left, told): (u64, &mut Told), out: &mut Out<'_>) {
        if left != 0 || told.waits() {
            let mut core = shared.core();
            let mut has_told = told.tell(&mut core.agent);
            for slot in Slots(left) {
                has_told |= self.interpret((shared, &mut core), batch, slot, out);
            }
            drop(core);
            if has_told {
                shared.has_news.store(true, Ordering::Release);
            }
        }
        for slot in Slots(told.alone()) {
            out.answer(slot, beside_exit(told.beside(slot)));
        }
        told.clear();
    }

    /// Takes one packet by the interpreter. Whether a controller is told of it.
    fn interpret(
        &self,
        (shared, core): (&Shared, &mut Core),
        batch: &mut Batch,
        slot: Slot,
        out: &mut Out<'_>,
    ) -> bool {
        let in_port = self.number(&batch.lanes, slot);
        let Some(packet) = batch.get(slot) else { return false };
        if packet.len() < 14 {
            out.answer(slot, Exit::Short);
            return false;
        }
        let packet = Packet::new(in_port, packet.bytes().to_vec());
        let decided = core.decide(packet, out.now());
        // What a controller is told of need not go on; it has bytes of its own.
        let told = decided.beside == Beside::Told;
        let otherwise = match decided.beside {
            _ if decided.is_kept => Exit::ControlFrame,
            beside => beside_exit(beside),
        };
        let mut sends = decided.sends.iter();
        match sends.next() {
            None => out.answer(slot, otherwise),
            Some((port, bytes)) => {
                let (lanes, missed) = (&batch.lanes, &shared.missed);
                let mut copies = Copying { out: &mut *out, lanes, slot, ports: self.count, missed };
                sends.for_each(|(port, bytes)| copies.send(*port, bytes));
                let fits =
                    batch.get_mut(slot).is_some_and(|packet| packet.bytes() == bytes.as_slice() || packet.fill(bytes));
                match fits {
                    true => answer_way(way_of(*port, self.count), slot, out),
                    false => out.answer(slot, Exit::TooLong),
                }
            }
        }
        told
    }
}

/// A new packet with these bytes; `None` where there is no buffer, or none that long.
pub(crate) fn copy_of(bytes: &[u8], out: &mut Out<'_>) -> Option<weir_packet::Packet> {
    let mut copy = out.alloc()?;
    if copy.fill(bytes) {
        return Some(copy);
    }
    out.unalloc(copy);
    None
}

/// Answers that a packet leaves by the way to a port, if there is one.
#[inline]
fn answer_way(way: Option<u8>, slot: Slot, out: &mut Out<'_>) {
    match way {
        Some(way) => out.answer_indexed(slot, way),
        None => out.answer(slot, Exit::NoPort),
    }
}

/// The indexed way to the port of a number, where there are so many ports.
pub(crate) fn way_of(port: u32, ports: usize) -> Option<u8> {
    let way = u8::try_from(port.checked_sub(1)?).ok()?;
    (usize::from(way) < ports).then_some(way)
}

impl Stage for Forward {
    fn declare(&self) -> Declaration {
        declaration(self.ports.count)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        self.shared.set_now(out.now());
        self.take(batch, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_have_ways_in_their_order() {
        assert_eq!([0, 1, 2, 3, u32::MAX].map(|port| way_of(port, 2)), [None, Some(0), Some(1), None, None]);
    }
}
