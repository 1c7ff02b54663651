//! A small registry for tests.

use weir_mem::Domain;
use weir_stage::ownership::Owners;
use weir_wire::ethernet;

use super::{Registry, Settings, Timing};
use crate::table::counters::Counters;
use crate::table::{Limits, Tables};

pub(crate) const SECOND: u64 = 1_000_000_000;
const TIMING: Timing = Timing { ageing: 100 * SECOND, retransmit: SECOND, questions: 3, failed: 5 * SECOND };

pub(crate) fn settings(has_keys: bool) -> Settings {
    Settings {
        ports: vec!["east".to_owned(), "west".to_owned()],
        tpid: ethernet::SVLAN,
        has_keys,
        subscribers: 8,
        bindings: 12,
        svlans: 3,
        addresses: 2,
        hosts6: 4,
        learn: vec!["10.0.0.0/16".parse().unwrap()],
        gateways: vec!["10.0.0.1/16".parse().unwrap()],
        timing: TIMING,
        shaping: None,
        owners: Owners::ONE,
    }
}

/// Two ports, east and west; room for 8 subscribers, 12 addresses, 2 learned of each; 10.0.0.0/16 is learned.
pub(crate) fn registry(has_keys: bool) -> (Domain, Registry) {
    let domain = Domain::new();
    let limits = Limits { subscribers: 8, bindings: 12, svlans: 3, prefix_length: 64, is_balanced: false, has_keys };
    let tables = Tables::new(limits, 2, &domain, 1).unwrap();
    (domain, Registry::new(settings(has_keys), tables, Counters::new(8, 0, &["a"], 0)))
}
