//! What is told of followed packets beside what workers tell: what a packet was when a stage took it out of sight, and what stages
//! decided about it.

use std::collections::HashMap;

use weir_protocol::Step;

use crate::trace::{Decision, Seen};

/// The packets of one trace.
#[derive(Default)]
pub(super) struct Following {
    /// What each was last, in words.
    last: HashMap<u32, String>,
}

impl Following {
    /// The steps as the client is told them; `explain` says what was decided.
    pub(super) fn steps(
        &mut self,
        seen: Vec<Seen>,
        explain: impl FnOnce(Vec<Decision>) -> Vec<Option<String>>,
    ) -> Vec<Step> {
        let (mut steps, mut asked, mut decisions) = (Vec::new(), Vec::new(), Vec::new());
        for Seen { mut step, decided } in seen {
            if step.bytes.is_empty() {
                step.bytes = self.last.get(&step.packet).cloned().unwrap_or_default();
            } else {
                self.last.insert(step.packet, step.bytes.clone());
            }
            if let Some(decision) = decided {
                asked.push(steps.len());
                decisions.push(decision);
            }
            steps.push(step);
        }
        if !decisions.is_empty() {
            for (at, explanation) in asked.into_iter().zip(explain(decisions)) {
                if let Some(step) = steps.get_mut(at) {
                    step.why = explanation.unwrap_or_default();
                }
            }
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(packet: u32, event: &str, bytes: &str) -> Seen {
        let decided =
            (event == "left").then(|| Decision { stage: "a".into(), way: "out".into(), then: 0, packet: vec![1] });
        let text = |text: &str| text.to_owned();
        let step = Step {
            packet,
            time: 0,
            event: text(event),
            place: text("a"),
            way: text("out"),
            fate: String::new(),
            why: String::new(),
            bytes: text(bytes),
        };
        Seen { step, decided }
    }

    #[test]
    fn what_is_held_is_what_it_was_before() {
        let mut following = Following::default();
        let first = vec![seen(1, "received", "one"), seen(2, "received", "two"), seen(1, "taken", "")];
        let steps = following.steps(first, |_| panic!("nothing was decided"));
        assert_eq!(steps[2].bytes, "one");
        let steps = following.steps(
            vec![seen(2, "taken", ""), seen(2, "left", "two, changed"), seen(1, "left", "one")],
            |asked| {
                assert_eq!(asked.len(), 2);
                vec![Some("by the first".to_owned()), None]
            },
        );
        assert_eq!(
            (steps[0].bytes.as_str(), steps[1].why.as_str(), steps[2].why.as_str()),
            ("two", "by the first", "")
        );
    }
}
