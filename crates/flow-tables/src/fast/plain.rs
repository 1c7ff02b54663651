//! What becomes of most packets: flows lead on until one changes the packet and sends it, by itself or by one bucket of a group.

use weir_openflow::group::Counted;

use super::frame::Frame;
use super::program::{Act, Edit, End};
use super::{Forwarded, Parsed};
use crate::compiled::{Met, Target, Then};
use crate::counts::Worker;
use crate::groups::GroupSlot;
use crate::pipeline::Why;
use crate::switch::Switch;

/// What a packet meets where flows that only lead on have led it.
enum Located {
    At(Met),
    /// No flow of this table.
    Miss(u8),
}

/// A bucket that a packet goes to.
#[derive(Clone, Copy)]
struct InGroup {
    slot: GroupSlot,
    bucket: u16,
    edit: Edit,
}

impl Switch {
    /// Takes a frame from where it was found to be, if that goes plainly; nothing, and nothing happened, if not.
    #[inline]
    pub(super) fn go_plainly(
        &self,
        worker: Worker,
        target: &Target,
        frame: &mut impl Frame,
        parsed: &mut Parsed,
        now: u64,
    ) -> Option<Forwarded> {
        let bytes = frame.bytes().len();
        let (table, slot) = match self.locate(target, parsed)? {
            Located::At(met) => met,
            Located::Miss(table) => {
                self.ports.received(worker, parsed.in_port, bytes, true);
                self.meet(worker, target.met(), bytes, now);
                self.tables.miss(worker, table);
                return Some(Forwarded::Dropped(Why::Miss));
            }
        };
        let Switch { tables, groups, ports, .. } = self;
        let last = tables.get(table)?;
        let flow = last.in_slot(slot)?;
        let Act { changes, end } = flow.program.as_deref()?.plain.as_ref()?;
        let (edit, mut end) = (changes.edit?, *end);
        let mut in_group = None;
        if let End::Group(number) = end {
            // What a group chooses by is what the packet is by then.
            if !changes.is_nothing {
                return None;
            }
            let chosen = groups.find(number, &parsed.fields, ports)?;
            let [Some(leg)] = chosen.legs else { return None };
            in_group = Some(InGroup { slot: chosen.slot, bucket: chosen.first, edit: leg.act.changes.edit? });
            end = leg.act.end;
        }
        let at = &mut parsed.at;
        // With a group, the flow itself changes nothing.
        let all = in_group.map_or(edit, |group| group.edit);
        if matches!(end, End::Group(_) | End::Others(_) | End::Controllers(_)) || !at.try_edit(frame, &all) {
            return None;
        }
        last.meet(worker, slot, Counted::one(bytes), now);
        ports.received(worker, parsed.in_port, bytes, true);
        if let Some(group) = in_group {
            groups.take(worker, group.slot, group.bucket, bytes);
        }
        let leading = target.parts().0;
        if !leading.is_empty() {
            self.meet(worker, leading, bytes, now);
        }
        Some(self.send(worker, end, parsed.in_port, frame.bytes().len()))
    }

    /// The flow that a packet meets behind those that only lead on, or the table where it meets none; nothing if another table is known to be met later.
    #[inline]
    fn locate(&self, target: &Target, parsed: &mut Parsed) -> Option<Located> {
        let number = match target.then {
            Then::Search(number) => number,
            Then::Go(met) => return Some(Located::At(met)),
            Then::Leave(_) => return None,
        };
        if let Some((table, slot)) = parsed.known {
            return (table == number).then_some(Located::At((table, slot)));
        }
        let Some(slot) = self.tables.get(number)?.find_slot(&parsed.fields) else {
            return Some(Located::Miss(number));
        };
        parsed.known = Some((number, slot));
        Some(Located::At((number, slot)))
    }
}
