//! Stage `NAME.control`, on the control side: stations age, and messages about multicast groups are read and passed on.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_packet::{Batch, Held, LaneId};
use weir_stage::{Declaration, Out, Stage};
use weir_wire::{Ethernet, View};

use crate::frame::{Admitted, TAG, Tag, admit, reshape};
use crate::plan::{NOWHERE, Plan, Ports, bit, ports_in};
use crate::snoop::{Asking, Heard, Message, Question, Times, frame, parse};
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
        /// The bridge asks who listens to groups.
        Asked => create "group-query",
    }
}

/// Buckets of the table that are looked through for old stations at once: 1 MiB.
const PIECE: usize = 16_384;

/// Time between two pieces, nanoseconds.
const PAUSE: u64 = 1_000_000;

/// Questions that are asked at once, each by up to 64 ports.
const QUESTIONS: usize = 16;

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
    /// When it is to be looked what there is to ask.
    asks: Cell<u64>,
}

impl Control {
    pub(crate) fn new(shared: Arc<Shared>, ports: usize, now: u64) -> Control {
        let swept = shared.table.buckets();
        Control { shared, ports, began: now, swept, ends: 0, asks: Cell::new(0) }
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
        self.answer(&message, (vlan, from), now);
        let heard = Heard { vlan, port: from, fast_leave: plan.port(from).fast_leave, now };
        let mut control = self.shared.control();
        let changed = control.listeners.take(&message, heard, snooping);
        let reach = plan.reach(vlan, from);
        // RFC 4541 section 2.1.1 (1) and (2): reports go to routers alone, queries to all.
        let to_routers = matches!(message, Message::Reports(..));
        let routers = control.listeners.router_ports(vlan, snooping);
        Ok((if to_routers { reach & routers } else { reach }, to_routers, changed))
    }

    /// What a querier makes of a message: another one asks, or somebody has left a group, and is asked for who else is there.
    fn answer(&self, message: &Message, (vlan, from): (u16, u8), now: u64) {
        let mut control = self.shared.control();
        let control = &mut *control;
        let Some(times) = control.asks() else { return };
        match message {
            Message::Query { source, .. } => control.queriers.heard(vlan, *source, now, &times),
            Message::Reports(reports, _) => {
                let most = control.config.limits.groups as usize;
                for group in reports.iter().filter(|report| !report.joined).map(|report| (vlan, report.group)) {
                    // RFC 2236 section 3: what nobody listens to is not asked for.
                    if control.listeners.has(group, from) && control.queriers.left(group, now, most) {
                        control.listeners.lower(group, now + times.last_member);
                        self.asks.set(now);
                    }
                }
            }
            Message::Router | Message::RouterGone | Message::Other => {}
        }
    }

    /// Asks what is due. Answers when it is to be looked again: VLANs may have come and gone by then.
    fn ask(&self, plan: &Plan, out: &mut Out<'_>) -> u64 {
        let now = out.now();
        if now < self.asks.get() {
            return self.asks.get();
        }
        let latest = now.saturating_add(ATTENTION);
        self.asks.set(latest);
        let mut control = self.shared.control();
        let control = &mut *control;
        let Some(times) = control.asks() else { return latest };
        let vlans = control.config.snooping.querier.vlans.as_ref();
        let is_said = |vlan| vlan == 0 || vlans.is_none_or(|vlans| vlans.has(vlan));
        let is_asked = |vlan| plan.vlan(vlan).members & control.up != 0 && is_said(vlan);
        let (due, next) = control.queriers.due(now, &times, is_asked, QUESTIONS);
        for question in &due {
            let (link, group, within) = match question {
                Question::General(link) => (*link, None, times.response),
                Question::Group((vlan, group)) => ((*vlan, group.is_ipv6()), Some(*group), times.last_member / 2),
            };
            let [four, six] = times.own;
            let source = if link.1 { six } else { four };
            let Times { robustness, interval, .. } = times;
            let frame = frame(&Asking { mac: control.mac.0, source, within, robustness, interval }, group);
            self.send_question(plan, &frame, (link.0, control.up), out);
        }
        // Where there were too many, the others follow soon.
        self.asks.set(if due.len() == QUESTIONS { now + PAUSE } else { next.min(latest) });
        self.asks.get()
    }

    /// Sends a question to all ports of a VLAN that have a link.
    fn send_question(&self, plan: &Plan, frame: &[u8], (vlan, up): (u16, Ports), out: &mut Out<'_>) {
        let known = plan.vlan(vlan);
        let admitted = Admitted { from: NOWHERE, vlan, tag: Tag::None };
        for port in ports_in(known.members & up) {
            let Some(mut packet) = out.alloc() else {
                self.shared.counts.missed.fetch_add(1, Ordering::Relaxed);
                return;
            };
            let is_untagged = known.untagged & bit(port) != 0;
            if packet.fill(frame) && reshape(&mut packet, plan.tag, &admitted, is_untagged) {
                out.emit_indexed(Held::fresh(packet, 0, out.now()), port, Exit::Asked);
            } else {
                out.unalloc(packet);
            }
        }
    }

    /// Passes a message on.
    fn send(&self, plan: &Plan, mut packet: Held, ports: Ports, admitted: &Admitted, out: &mut Out<'_>) {
        let untagged = plan.vlan(admitted.vlan).untagged;
        let (index, time) = (packet.port(), packet.time());
        let mut ports = ports_in(ports);
        let Some(first) = ports.next() else { return out.send(packet, Exit::Alone) };
        for port in ports {
            let Some(mut copy) = out.copy(packet.packet()) else {
                self.shared.counts.missed.fetch_add(1, Ordering::Relaxed);
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
        let next = next.min(self.ask(self.shared.plan.load(out.reader()), out));
        next.min(out.look_again(ATTENTION)).max(now + 1)
    }
}
