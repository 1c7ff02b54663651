//! The kind of stage `discard`: the end of the way.

use weir_config::{ConfigError, Schema};
use weir_packet::Batch;
use weir_stage::{Declaration, DescribeStage, Env, Out, Settings, Stage, StageKind};

weir_stage::ways! {
    /// Ways out of [`Discarding`].
    pub(crate) enum Exit {
        /// Never taken.
        Out => way "out",
        /// The configuration leads it to a stage that discards, or receives it nowhere.
        Discarded => drop "discarded",
    }
}

/// The way of [`Discarding`] that no packet takes.
pub(crate) const NEVER: &str = "out";

/// Drops everything.
#[derive(Debug)]
pub(crate) struct Discarding;

impl Stage for Discarding {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        out.answer_all(batch.live(), Exit::Discarded);
    }
}

/// The kind of stage `discard`.
#[derive(Debug)]
pub struct Discard;

impl StageKind for Discard {
    fn kind(&self) -> &'static str {
        "discard"
    }

    fn schema(&self) -> Schema {
        Schema::new(
            "Drops everything, as `discarded`. Its way `out` is never taken: lead it to `\"drop\"`.",
            Vec::new(),
        )
    }

    fn describe(&self, _settings: &Settings<'_>, _env: &Env<'_>) -> Result<Box<dyn DescribeStage>, Vec<ConfigError>> {
        Ok(Box::new(|| Box::new(Discarding) as Box<dyn Stage>))
    }
}

#[cfg(test)]
mod tests {
    use weir_stage::harness::Harness;

    use super::*;

    #[test]
    fn everything_is_dropped_by_name() {
        assert_eq!(Harness::new(Discarding).run(0, &[[1; 60], [2; 60]]).way("discarded").len(), 2);
    }
}
