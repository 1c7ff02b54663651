//! The models: what devices do to packets, one file each.

mod identity;
mod signature;

pub use identity::Identity;
pub use signature::Signature;

use crate::model::Model;

/// The model that is taken when nobody says which.
pub const DEFAULT: &str = "identity";

/// What models are made from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Bytes of each packet that are looked at; `None`: all.
    pub bytes: Option<usize>,
}

/// The names of all models.
pub fn names() -> Vec<&'static str> {
    vec!["identity", "signature"]
}

/// The model of a name.
///
/// # Errors
///
/// What is wrong, a sentence each.
pub fn make(name: &str, sources: &Sources) -> Result<Box<dyn Model>, Vec<String>> {
    match name {
        "identity" => Ok(Box::new(Identity { bytes: sources.bytes })),
        "signature" => Ok(Box::new(Signature)),
        other => Err(vec![format!("\"{other}\" is no model; there are {}", names().join(", "))]),
    }
}
