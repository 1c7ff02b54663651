//! The yardstick that machine code is held against: a plain interpreter of the router of [`paper`](super::paper), as the switch there is without code generation
//! ("generic if-then-case and function call based action handling", deliverable D5.4, section 2.2).
//!
//! It takes the same flows and groups. Of each frame it reads what any of them may ask, finds the flow of a table by the table's template, walks the instructions of that flow, then the set
//! of actions and the list of the bucket that it leads to, and counts at flows, tables, groups, buckets and ports. What has nothing to do with code generation is done as the switch does
//! it: the longest prefixes of a batch are looked up together in the same table, and the lines where flows are counted are asked for ahead.
//!
//! Whoever changes it changes what figures of other times mean. Nothing but the bench makes one.

use std::hint::black_box;
use std::sync::Arc;

use weir_mem::prefetch::prefetch_slice;
use weir_mem::{Domain, HugeSlice};
use weir_openflow::Field;
use weir_openflow::flow::FlowMod;
use weir_openflow::group::GroupMod;
use weir_packet::{BATCH, Batch, Packet};
use weir_stage::{Declaration, Out, Stage};
use weir_table::lpm4::{Config, Lookup4, Lpm4, MAX_VALUE, Packed};
use weir_wire::{Ipv4, View};

use crate::forward::{Exit, declaration, way_of};

mod lists;
mod seen;
#[cfg(test)]
mod tests;

use lists::{Act, Instruct, Lists};
use seen::Seen;

/// No flow.
const NONE: u32 = MAX_VALUE;

/// The port `out`.
const OUT: u32 = 2;

/// The lines of flows are asked for so many packets ahead, as by the switch.
const AHEAD: usize = 16;

/// What of its work the interpreter does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// All of it.
    Whole,
    /// It reads frames, looks their prefixes up, reads which list the flow has, and sends them as they are: the rest is what hashes, instructions, actions and counters take.
    LookUps,
}

/// What it interprets.
pub(crate) struct Router {
    work: Work,
    lists: Lists,
    longest: Packed,
}

/// A flow of the second table, in half a line: packets, bytes, when it was used last, and its list.
type Row = [u64; 4];

/// Packets and bytes.
type Counted = [u64; 2];

fn count(counted: &mut Counted, bytes: usize) {
    counted[0] = counted[0].wrapping_add(1);
    counted[1] = counted[1].wrapping_add(bytes as u64);
}

impl Router {
    /// The router of these groups and flows.
    ///
    /// # Errors
    ///
    /// What of them it does not know.
    pub(crate) fn new(work: Work, groups: &[GroupMod], flows: &[FlowMod]) -> Result<Router, String> {
        let lists = Lists::new(groups, flows)?;
        let config = Config { max_groups: 1 << 17, ..Config::new(NONE) };
        let mut longest = Packed::new(&config, &Domain::new()).map_err(|error| error.to_string())?;
        for (prefix, number) in lists.prefixes.iter().zip(0..) {
            longest.insert(*prefix, number).map_err(|error| error.to_string())?;
        }
        Ok(Router { work, lists, longest })
    }
}

/// The stage that takes packets through a [`Router`].
pub(crate) struct Yardstick {
    router: Arc<Router>,
    ports: usize,
    /// What was read of the packets of a batch, and what they meet in the second table.
    seen: [Seen; BATCH],
    found: [u32; BATCH],
    /// What is counted: of flows of the first table and of the second one, of tables, groups with their buckets, and of what came and what left by each port.
    first: Vec<Row>,
    second: HugeSlice<Row>,
    tables: [u64; 2],
    groups: Vec<[Counted; 2]>,
    came: Vec<Counted>,
    left: Vec<Counted>,
}

impl Yardstick {
    /// One of its own, with so many ports.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub(crate) fn new(router: Arc<Router>, ports: usize) -> Result<Yardstick, String> {
        let Lists { first, second, groups, .. } = &router.lists;
        let row = |list: u32| [0, 0, 0, u64::from(list)];
        let rows = HugeSlice::from_fn(second.len(), |n| row(second.get(n).copied().unwrap_or_default()));
        Ok(Yardstick {
            ports,
            seen: [Seen::default(); BATCH],
            found: [NONE; BATCH],
            first: first.lists.iter().map(|list| row(*list)).collect(),
            second: rows.map_err(|error| error.to_string())?,
            tables: [0; 2],
            groups: vec![[[0; 2]; 2]; groups.len()],
            came: vec![[0; 2]; ports + 1],
            left: vec![[0; 2]; ports + 1],
            router,
        })
    }

    /// Looks up what all packets of a batch meet in the second table.
    fn find_all(&mut self, packets: usize) {
        let mut addresses = [0; BATCH];
        let seen = self.seen.iter().take(packets);
        addresses.iter_mut().zip(seen.clone()).for_each(|(address, seen)| *address = seen.destination);
        let (Some(addresses), Some(found)) = (addresses.get(..packets), self.found.get_mut(..packets)) else { return };
        self.router.longest.reader().lookup_batch(addresses, found);
        let template = &self.router.lists.rest;
        for (found, seen) in found.iter_mut().zip(seen) {
            if !seen.has(Field::Ipv4Dst) || !template.is_met(seen) {
                *found = NONE;
            }
        }
    }

    /// Takes a packet through both tables, and carries out what it comes to: the port that it leaves by.
    fn interpret(&mut self, nth: usize, packet: &mut Packet, now: u64) -> Result<u32, Exit> {
        let (seen, bytes) = (*self.seen.get(nth).ok_or(Exit::Undecided)?, packet.len());
        let (mut table, mut written) = (0, None);
        loop {
            if let Some(passed) = self.tables.get_mut(table) {
                *passed += 1;
            }
            let found = if table == 0 { self.router.lists.first.find(&seen) } else { self.found.get(nth).copied() };
            let rows = if table == 0 { &mut self.first[..] } else { &mut self.second };
            let row = found.and_then(|found| rows.get_mut(found as usize)).ok_or(Exit::Miss)?;
            let [packets, octets, used, list] = row;
            (*packets, *octets, *used) = (*packets + 1, *octets + bytes as u64, now.max(*used));
            let mut next = None;
            for instruction in self.router.lists.instructions(*list as usize) {
                match instruction {
                    Instruct::Goto(to) => next = Some(usize::from(*to)),
                    Instruct::Write(actions) => written = Some(*actions),
                }
            }
            match next {
                Some(to) if to > table => table = to,
                _ => break,
            }
        }
        let Yardstick { router, groups, .. } = self;
        let actions = written.map_or(&[][..], |written| router.lists.actions(written));
        carry_out(&router.lists, groups, actions, (&seen, packet, bytes))
    }
}

/// Carries out actions one after the other: the port that the packet leaves by.
fn carry_out(
    lists: &Lists,
    groups: &mut [[Counted; 2]],
    actions: &[Act],
    (seen, packet, bytes): (&Seen, &mut Packet, usize),
) -> Result<u32, Exit> {
    for action in actions {
        match *action {
            Act::Destination(address) => write(packet, 0, address),
            Act::Source(address) => write(packet, 6, address),
            Act::DecrementTtl => decrement_ttl(seen, packet)?,
            Act::Group(number) => {
                let number = usize::from(number);
                let bucket = *lists.groups.get(number).ok_or(Exit::NoBucket)?;
                if let Some([all, only]) = groups.get_mut(number) {
                    count(all, bytes);
                    count(only, bytes);
                }
                return carry_out(lists, &mut [], lists.actions(bucket), (seen, packet, bytes));
            }
            Act::Output(port) if port == seen.in_port => return Err(Exit::SamePort),
            Act::Output(port) => return Ok(port),
        }
    }
    Err(Exit::NoAction)
}

fn write(packet: &mut Packet, at: usize, address: [u8; 6]) {
    if let Some(place) = packet.bytes_mut().get_mut(at..at + 6) {
        place.copy_from_slice(&address);
    }
}

/// Takes one off the TTL, which does not end by it.
fn decrement_ttl(seen: &Seen, packet: &mut Packet) -> Result<(), Exit> {
    let at = seen.ip.ok_or(Exit::Undecided)?;
    let ip = packet.bytes_mut().get_mut(usize::from(at)..).and_then(Ipv4::view_mut).ok_or(Exit::Undecided)?;
    // Nobody is to be told.
    if ip.ttl <= 1 {
        return Err(Exit::NoController);
    }
    ip.decrement_ttl();
    Ok(())
}

impl Stage for Yardstick {
    fn declare(&self) -> Declaration {
        declaration(self.ports)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let (now, mut packets) = (out.now(), 0);
        batch.each(|slot, packet, lanes| {
            let seen = Seen::of(u32::from(lanes.port[slot]) + 1, packet.bytes());
            self.router.longest.reader().prefetch(seen.destination);
            if let Some(place) = self.seen.get_mut(packets) {
                *place = seen;
            }
            packets += 1;
        });
        self.find_all(packets);
        for found in self.found.iter().take(AHEAD) {
            prefetch_slice(&self.second, *found as usize);
        }
        let mut nth = 0;
        batch.each(|slot, packet, _| {
            if let Some(ahead) = self.found.get(nth + AHEAD) {
                prefetch_slice(&self.second, *ahead as usize);
            }
            let (in_port, length) = (self.seen.get(nth).map_or(0, |seen| seen.in_port), packet.len());
            if let Some(counted) = self.came.get_mut(in_port as usize) {
                count(counted, length);
            }
            let became = match self.router.work {
                _ if length < 14 => Err(Exit::Short),
                Work::Whole => self.interpret(nth, packet, now),
                Work::LookUps => self.look_up(nth),
            };
            match became.map(|port| (port, way_of(port, self.ports))) {
                Ok((port, Some(way))) => {
                    if let Some(counted) = self.left.get_mut(port as usize) {
                        count(counted, packet.len());
                    }
                    out.answer_indexed(slot, way);
                }
                Ok(_) => out.answer(slot, Exit::NoPort),
                Err(exit) => out.answer(slot, exit),
            }
            nth += 1;
        });
    }
}

impl Yardstick {
    /// Reads which list the flow has that a packet meets in the second table, and sends it by the port that all of the router's groups send by.
    fn look_up(&self, nth: usize) -> Result<u32, Exit> {
        let found = self.found.get(nth).copied().unwrap_or(NONE);
        let [.., list] = self.second.get(found as usize).ok_or(Exit::Miss)?;
        black_box(*list);
        Ok(OUT)
    }
}
