//! The numbers of a service.

use serde::{Deserialize, Serialize};

/// Whether a service does its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ServiceState {
    /// It does.
    Running,
    /// It is about to be started, again where it failed.
    #[default]
    Waiting,
    /// It is not started again: too many of its threads hang.
    Failed,
}

impl ServiceState {
    /// Its name.
    pub(crate) fn word(self) -> &'static str {
        match self {
            ServiceState::Running => "running",
            ServiceState::Waiting => "waiting",
            ServiceState::Failed => "failed",
        }
    }
}

/// A service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServiceStats {
    /// Its name.
    pub(crate) name: String,
    /// Whose it is: `weir`, or a function's name.
    pub(crate) owner: String,
    /// Whether it does its work.
    pub(crate) state: ServiceState,
    /// How often it was started again.
    pub(crate) restarts: u64,
    /// Why it failed last.
    pub(crate) failure: Option<String>,
    /// When, as RFC 3339 writes it.
    pub(crate) failed_at: Option<String>,
    /// Steps it took; its starts and ends are steps, too.
    pub(crate) steps: u64,
    /// The longest of them, nanoseconds.
    pub(crate) longest_step: u64,
    /// What it holds: `clients`.
    pub(crate) unit: String,
    /// How many of them.
    pub(crate) occupancy: u64,
    /// How many at most.
    pub(crate) capacity: u64,
    /// Threads of its that hang and were given up.
    pub(crate) abandoned: u64,
}
