//! Stage `NAME.PORT` of a port that paths only lead to: what comes in by it has nowhere to go.

use crate::stage::{Declaration, Out, Stage};
use weir_packet::Batch;

crate::ways! {
    /// Ways out of [`NoPath`].
    pub enum Exit {
        /// Never taken.
        Out => way "out",
        /// Came in by a port that no path starts from.
        NoPath => drop "no-path",
    }
}

/// Drops everything, by name: a port that nobody received from would hide what arrives there.
#[derive(Debug, Default)]
pub struct NoPath;

impl Stage for NoPath {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        out.answer_all(batch.live(), Exit::NoPath);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Harness;

    #[test]
    fn everything_is_dropped_by_name() {
        assert_eq!(Harness::new(NoPath).run(0, &[[1; 60], [2; 60]]).way("no-path").len(), 2);
    }
}
