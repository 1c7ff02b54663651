//! The action set, which a packet carries from table to table: OpenFlow 1.3.5 sections 5.10 and 5.11.

use std::collections::BTreeMap;

use weir_openflow::{Action, Field};

/// The actions that are carried out when the pipeline ends: at most one of each type, and one for each field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActionSet(BTreeMap<(u8, u8), Action>);

/// The place of an action in the order of section 5.10, and what tells it from others of that place.
fn place(action: &Action) -> Option<(u8, u8)> {
    Some(match action {
        Action::CopyTtlIn => (1, 0),
        Action::PopVlan => (2, 0),
        Action::PopMpls(_) => (2, 1),
        Action::PushMpls(_) => (3, 0),
        Action::PushVlan(_) => (5, 0),
        Action::CopyTtlOut => (6, 0),
        Action::DecMplsTtl => (7, 0),
        Action::DecNwTtl => (7, 1),
        Action::SetField(oxm) => (8, oxm.field.number()),
        Action::SetMplsTtl(_) => (8, Field::COUNT as u8),
        Action::SetNwTtl(_) => (8, Field::COUNT as u8 + 1),
        Action::SetQueue(_) => (9, 0),
        Action::Group(_) => (10, 0),
        Action::Output { .. } => (11, 0),
        Action::PushPbb(_) | Action::PopPbb | Action::Experimenter { .. } => return None,
    })
}

impl ActionSet {
    /// The set that a bucket is.
    pub fn of(actions: &[Action]) -> ActionSet {
        let mut set = ActionSet::default();
        set.write(actions);
        set
    }

    /// Merges `actions` in: each replaces the one of its type, or of its field.
    pub fn write(&mut self, actions: &[Action]) {
        for action in actions {
            if let Some(place) = place(action) {
                self.0.insert(place, action.clone());
            }
        }
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// What is carried out, in order: with a group, the output is not.
    pub fn in_order(&self) -> Vec<Action> {
        let has_group = self.0.values().any(|action| matches!(action, Action::Group(_)));
        let kept = self.0.values().filter(|action| !(has_group && matches!(action, Action::Output { .. })));
        kept.cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_openflow::Oxm;

    #[test]
    fn the_order_is_that_of_section_5_10() {
        let output = |port| Action::Output { port, max_len: 0 };
        let set_field = |field, value| Action::SetField(Oxm::exact(field, value));
        let written = [
            output(1),
            Action::SetQueue(4),
            set_field(Field::VlanVid, 5),
            Action::DecNwTtl,
            Action::CopyTtlOut,
            Action::PushVlan(0x8100),
            Action::PushMpls(0x8847),
            Action::PopVlan,
            Action::CopyTtlIn,
            set_field(Field::EthDst, 6),
            set_field(Field::EthDst, 7),
            output(2),
        ];
        let mut set = ActionSet::of(&written);
        let order = [
            Action::CopyTtlIn,
            Action::PopVlan,
            Action::PushMpls(0x8847),
            Action::PushVlan(0x8100),
            Action::CopyTtlOut,
            Action::DecNwTtl,
            set_field(Field::EthDst, 7),
            set_field(Field::VlanVid, 5),
            Action::SetQueue(4),
            output(2),
        ];
        assert_eq!(set.in_order(), order);
        // A group goes before an output, which is then left out.
        set.write(&[Action::Group(9)]);
        assert_eq!(set.in_order().last(), Some(&Action::Group(9)));
        set.clear();
        assert_eq!(set.in_order(), []);
    }
}
