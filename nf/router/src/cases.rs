//! What `weir bench cpp router` measures.

use weir_stage::Case;

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    Vec::new()
}
