//! The kind of stage `copy`: packets go on, and copies of them go another way as long as there is room.

use weir_config::{ConfigError, Schema};
use weir_packet::{Batch, Held};
use weir_stage::{Declaration, DescribeStage, Env, Out, Settings, Stage, StageKind};

weir_stage::ways! {
    /// Ways out of [`Copying`].
    pub(crate) enum Exit {
        /// The packet itself.
        Out => way "out",
        /// Its copy.
        Copied => way "copy",
        /// A copy of a packet, for the way `copy`.
        Made => create "copied",
    }
}

/// Sends a copy of each packet by a way of its own. Where the copy would find no room, none is made: the packets themselves come
/// first.
#[derive(Debug)]
struct Copying;

impl Stage for Copying {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let room = out.room_at(Exit::Copied);
        for slot in batch.slots().take(room) {
            if let Some(copy) = batch.get(slot).and_then(|packet| out.copy(packet)) {
                out.emit(Held::like(copy, &batch.lanes, slot), Exit::Copied, Exit::Made);
            }
        }
    }
}

/// The kind of stage `copy`.
#[derive(Debug)]
pub struct Copy;

impl StageKind for Copy {
    fn kind(&self) -> &'static str {
        "copy"
    }

    fn schema(&self) -> Schema {
        Schema::new(
            "Passes packets on by `out`, and a copy of each by `copy`. Where a port or link has no room for a copy, none is made.",
            Vec::new(),
        )
    }

    fn describe(&self, _settings: &Settings<'_>, _env: &Env<'_>) -> Result<Box<dyn DescribeStage>, Vec<ConfigError>> {
        Ok(Box::new(|| Box::new(Copying) as Box<dyn Stage>))
    }
}

#[cfg(test)]
mod tests {
    use weir_stage::harness::Harness;

    use super::*;

    #[test]
    fn every_packet_goes_on_and_its_copy_the_other_way() {
        let packets: Vec<[u8; 60]> = (0..9).map(|n| [n; 60]).collect();
        let outcome = Harness::new(Copying).run(0, &packets);
        assert_eq!(outcome.way("out"), packets);
        assert_eq!(outcome.way("copy"), packets);
        assert_eq!(outcome.created["copied"], 9);
    }

    #[test]
    fn copies_are_made_only_where_there_is_room() {
        let mut harness = Harness::new(Copying);
        harness.set_room("copy", 4);
        let packets: Vec<[u8; 60]> = (0..9).map(|n| [n; 60]).collect();
        let outcome = harness.run(0, &packets);
        assert_eq!(outcome.way("out"), packets);
        assert_eq!(outcome.way("copy"), &packets[..4]);
    }
}
