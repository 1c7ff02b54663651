//! Stage `NAME.control`, on the control side: stations age, and messages about multicast groups are read and passed on.

use std::sync::Arc;

use weir_packet::{Batch, Held, LaneId};
use weir_stage::{Declaration, Out, Stage};
use weir_wire::{Ethernet, View};

use crate::frame::{Admitted, TAG, Tag, admit, reshape};
use crate::plan::{Plan, Ports, bit, ports_in};
use crate::snoop::{Heard, Message, parse};
use crate::state::{AGEING_PERIODS, Shared};

weir_stage::ways! {
    /// Ways out of [`Control`].
    pub(crate) enum Exit {
        /// Not decided: a defect of the control side, which never lets a frame go this way.
        Undecided => way "undecided",
        /// A report that was read; there is no port with a multicast router that it could go on to.
        Read => consume "report-read",
        /// A message about multicast groups that is cut short, has a wrong checksum, or is not valid.
        Malformed => drop "snoop-malformed",
        /// To many, and there is no port that it may go to.
        Alone => drop "nobody-else",
        /// The bridge was told meanwhile that the port is not in its VLAN, or that it need not read such messages.
        Gone => drop "not-in-vlan",
        /// There was no room in front of it for a tag.
        NoRoom => drop "no-room-for-tag",
        /// A copy for a further port.
        Copied => create "flooded",
    }
}

/// Buckets of the table that are looked through for old stations at once: 1 MiB.
const PIECE: usize = 16_384;

/// Time between two pieces, nanoseconds.
const PAUSE: u64 = 1_000_000;

/// The longest that a change of the times may wait until it counts, nanoseconds.
const ATTENTION: u64 = 100_000_000;

/// What [`Control`] declares.
pub(crate) fn declaration(ports: usize) -> Declaration {
    Declaration::of::<Exit>().indexed("port", ports).reads(&[LaneId::Port]).polled()
}

/// The control side of a bridge.
pub(crate) struct Control {
    shared: Arc<Shared>,
    ports: usize,
    /// When the period began.
    began: u64,
    /// The bucket from which on the table is to be looked through; all of it was, in this period, at the end.
    swept: usize,
    /// When the next member of a group, or router, ends.
    ends: u64,
}

impl Control {
    pub(crate) fn new(shared: Arc<Shared>, ports: usize, now: u64) -> Control {
        let swept = shared.table.buckets();
        Control { shared, ports, began: now, swept, ends: 0 }
    }

    /// Looks through a piece of the table. Answers when the next piece, or period, is due. A period does not end before all of the table was looked
    /// through: where that takes longer, stations stay longer.
    fn age(&mut self, now: u64, period: u64) -> u64 {
        let (buckets, next) = (self.shared.table.buckets(), self.began.saturating_add(period));
        if self.swept >= buckets {
            if now < next {
                return next;
            }
            self.shared.next_period();
            (self.began, self.swept) = (now, 0);
        }
        let piece = self.swept..self.swept.saturating_add(PIECE);
        let stamp = self.shared.period();
        self.shared.table.retain(piece.clone(), |station, entry| {
            let stays = entry.is_fixed() || entry.age(stamp) <= AGEING_PERIODS;
            if !stays {
                self.shared.counts.forget(station.vlan(), entry);
            }
            stays
        });
        self.swept = piece.end;
        if self.swept < buckets { now.saturating_add(PAUSE) } else { self.began.saturating_add(period) }
    }

    /// Ends what has not been heard of for long.
    fn expire(&mut self, now: u64) -> u64 {
        if now >= self.ends {
            let mut control = self.shared.control();
            let (ended, next) = control.listeners.expire(now);
            if ended {
                self.shared.groups.publish(Box::new(control.listeners.forwarding()));
            }
            self.ends = next;
        }
        self.ends
    }

    /// Reads a message. Answers which ports it goes to, and whether to routers alone.
    fn read(&self, plan: &Plan, packet: &Held, admitted: &Admitted, now: u64) -> Result<(Ports, bool, bool), Exit> {
        let Some(snooping) = plan.snooping.as_ref() else { return Err(Exit::Gone) };
        let tag = if admitted.tag == Tag::None { 0 } else { TAG };
        let from_type = packet.packet().bytes().get(Ethernet::LEN - 2 + tag..).unwrap_or_default();
        let message = parse(from_type).map_err(|_| Exit::Malformed)?;
        let Admitted { from, vlan, .. } = *admitted;
        let heard = Heard { vlan, port: from, fast_leave: plan.port(from).fast_leave, now };
        let mut control = self.shared.control();
        let changed = control.listeners.take(&message, heard, snooping);
        let reach = plan.reach(vlan, from);
        // RFC 4541 section 2.1.1 (1) and (2): reports go to routers alone, queries to all.
        let to_routers = matches!(message, Message::Reports(..));
        let routers = control.listeners.router_ports(vlan, snooping);
        Ok((if to_routers { reach & routers } else { reach }, to_routers, changed))
    }

    /// Passes a message on.
    fn send(&self, plan: &Plan, mut packet: Held, ports: Ports, admitted: &Admitted, out: &mut Out<'_>) {
        let untagged = plan.vlan(admitted.vlan).untagged;
        let (index, time) = (packet.port(), packet.time());
        let mut ports = ports_in(ports);
        let Some(first) = ports.next() else { return out.send(packet, Exit::Alone) };
        for port in ports {
            let Some(mut copy) = out.copy(packet.packet()) else {
                self.shared.counts.missed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                break;
            };
            let fits = reshape(&mut copy, plan.tag, admitted, untagged & bit(port) != 0);
            let copy = Held::fresh(copy, index, time);
            match fits {
                true => out.emit_indexed(copy, port, Exit::Copied),
                false => out.emit(copy, Exit::NoRoom, Exit::Copied),
            }
        }
        match reshape(packet.packet_mut(), plan.tag, admitted, untagged & bit(first) != 0) {
            true => out.send_indexed(packet, first),
            false => out.send(packet, Exit::NoRoom),
        }
    }
}

impl Stage for Control {
    fn declare(&self) -> Declaration {
        declaration(self.ports)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let plan = self.shared.plan.load(out.reader());
        let mut told = false;
        for slot in batch.slots() {
            let port = batch.lanes.port[slot];
            let Some(packet) = batch.hold(slot) else { continue };
            let bytes = packet.packet();
            let Ok(admitted) = admit(plan, port, bytes.window(0), bytes.len()) else {
                out.send(packet, Exit::Gone);
                continue;
            };
            match self.read(plan, &packet, &admitted, out.now()) {
                Err(exit) => out.send(packet, exit),
                Ok((ports, to_routers, changed)) => {
                    told |= changed;
                    match ports {
                        0 if to_routers => out.send(packet, Exit::Read),
                        ports => self.send(plan, packet, ports, &admitted, out),
                    }
                }
            }
        }
        if told {
            let control = self.shared.control();
            self.shared.groups.publish(Box::new(control.listeners.forwarding()));
        }
        // What was heard may end before all that was known.
        self.ends = 0;
    }

    fn poll(&mut self, out: &mut Out<'_>) -> u64 {
        let now = out.now();
        let period = self.shared.control().config.ageing.nanos() / u64::from(AGEING_PERIODS);
        let next = self.age(now, period).min(self.expire(now));
        next.min(out.look_again(ATTENTION)).max(now + 1)
    }
}
