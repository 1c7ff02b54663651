//! What becomes of most packets: flows lead on until one changes the packet and sends it, by itself or by one bucket of a group.

use super::frame::{At, Frame, TAG};
use super::program::{Edit, End};
use super::{Forwarded, Parsed};
use crate::compiled::{Met, Target, Then};
use crate::groups::GroupSlot;
use crate::pipeline::Why;
use crate::switch::Switch;

/// What a packet meets where flows that only lead on have led it.
enum Located {
    At(Met),
    /// No flow of this table.
    Miss(u8),
}

/// Where a packet goes.
struct Plain {
    /// What the last flow that it meets changes.
    edit: Edit,
    /// The bucket that it goes to, and what that changes.
    bucket: Option<(GroupSlot, u16, Edit)>,
    end: End,
}

impl Switch {
    /// Takes a frame from where it was found to be, if that goes plainly; nothing, and nothing happened, if not.
    #[inline]
    pub(super) fn go_plainly(
        &mut self,
        target: &Target,
        frame: &mut impl Frame,
        parsed: &mut Parsed,
        now: u64,
    ) -> Option<Forwarded> {
        let (table, slot) = match self.locate(target, parsed)? {
            Located::At(met) => met,
            Located::Miss(table) => {
                let bytes = frame.bytes().len();
                self.ports.received(parsed.in_port, bytes, true);
                self.meet(target.met(), bytes, now);
                self.tables.miss(table);
                return Some(Forwarded::Dropped(Why::Miss));
            }
        };
        let Plain { edit, bucket, end } = self.find_plainly((table, slot), parsed)?;
        let at = &mut parsed.at;
        let second = bucket.map_or_else(Edit::default, |(.., edit)| edit);
        if !may_change(frame, at, edit, second) {
            return None;
        }
        let (leading, _) = target.parts();
        let bytes = frame.bytes().len();
        self.ports.received(parsed.in_port, bytes, true);
        self.meet(leading, bytes, now);
        self.meet(&[(table, slot)], bytes, now);
        at.edit(frame, edit);
        if let Some((group, bucket, edit)) = bucket {
            self.groups.take(group, bucket, frame.bytes().len());
            at.edit(frame, edit);
        }
        Some(self.send(end, parsed.in_port, frame.bytes().len()))
    }

    /// The flow that a packet meets behind those that only lead on, or the table where it meets none; nothing if another table is known to be met later.
    #[inline]
    fn locate(&self, target: &Target, parsed: &mut Parsed) -> Option<Located> {
        if let (_, Some(last)) = target.parts() {
            return Some(Located::At(last));
        }
        let Then::Search(number) = target.then else { return None };
        if let Some((table, slot)) = parsed.known {
            return (table == number).then_some(Located::At((table, slot)));
        }
        let Some((slot, _)) = self.tables.get(number)?.find(&parsed.fields, None) else {
            return Some(Located::Miss(number));
        };
        parsed.known = Some((number, slot));
        Some(Located::At((number, slot)))
    }

    #[inline]
    fn find_plainly(&self, (table, slot): Met, parsed: &Parsed) -> Option<Plain> {
        let (edit, end) = self.tables.get(table)?.in_slot(slot)?.program.as_ref()?.plain?;
        let plain = Plain { edit, bucket: None, end };
        match end {
            End::Nowhere | End::Port(_) | End::InPort => Some(plain),
            End::Others(_) => None,
            // What a group chooses by is what the packet is by then.
            End::Group(_) if !edit.is_nothing() => None,
            End::Group(number) => {
                let chosen = self.groups.find(number, &parsed.fields, &self.ports)?;
                let [Some(leg)] = chosen.legs else { return None };
                let bucket = Some((chosen.slot, chosen.first, leg.edit?));
                let goes_on = matches!(leg.end, End::Group(_) | End::Others(_));
                (!goes_on).then_some(Plain { bucket, end: leg.end, ..plain })
            }
        }
    }
}

/// Whether a frame may be changed so, and then so: its TTL does not end, and it has one tag where one is taken off, and room.
#[inline]
fn may_change(frame: &mut impl Frame, at: &At, one: Edit, other: Edit) -> bool {
    let taken = u8::from(one.decrements_ttl) + u8::from(other.decrements_ttl);
    if taken > 0 && at.ttl(frame.bytes()).is_some_and(|ttl| ttl <= taken) {
        return false;
    }
    if !(one.pops_vlan || other.pops_vlan) || at.tags == 0 {
        return true;
    }
    at.tags == 1 && frame.has_room(0, TAG) && !at.headers_may_grow(frame.bytes())
}
