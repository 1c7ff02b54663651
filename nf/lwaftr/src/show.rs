//! The tables that a running relay shows.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::{Bound, RangeInclusive};
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use ipnet::IpNet;
use serde_json::{Value, json};
use weir_net::RouteSource;
use weir_stage::{Entry as _, PIECE, RequestError, Show, ShowRows, columns, entries, whole};

use crate::config::SoftwireConfig;
use crate::registry::{Key, Registry, Softwire};
use crate::state::lock;
use crate::tally::Tallies;

/// What can be shown.
pub(crate) static SHOWS: &[Show] = &[
    Show {
        what: "softwires",
        columns: columns!(SoftwireConfig, "source", "path_mtu", "up_packets", "up_bytes", "down_packets", "down_bytes"),
        help: "Softwires; bytes of the longest packet that their tunnels carry, where routers on the way told; IPv4 packets and bytes of each: up from the \
               customer, down to it. Filter: an IPv4 address, ADDRESS:PORT for \
               whose a port is, an IPv4 or IPv6 prefix, the address of either end, psid=PSID, or a source",
    },
    Show {
        what: "relay",
        columns: &["count", "packets", "bytes"],
        help: "What the relay counted in all, by the names of Snabb's counters; bytes are those of Ethernet frames without tags. Filter: a part \
               of a name",
    },
];

/// Which softwires are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filter {
    All,
    Port(Ipv4Addr, u16),
    Net(IpNet),
    Psid(u16),
    Source(RouteSource),
}

impl Filter {
    fn parse(word: Option<&str>) -> Result<Filter, RequestError> {
        let Some(word) = word else { return Ok(Filter::All) };
        let refused = || {
            RequestError(format!(
                "\"{word}\" selects no softwires; write an IPv4 address, ADDRESS:PORT, a prefix, the address of an end, psid=PSID, or a source: \
                 cli, config"
            ))
        };
        if let Some(psid) = word.strip_prefix("psid=") {
            return psid.parse().map(Filter::Psid).map_err(|_| refused());
        }
        if let Ok(address) = word.parse::<IpAddr>() {
            return Ok(Filter::Net(address.into()));
        }
        if let Ok(net) = word.parse::<IpNet>() {
            return Ok(Filter::Net(net));
        }
        if let Some((address, port)) = word.split_once(':')
            && let (Ok(address), Ok(port)) = (address.parse(), port.parse())
        {
            return Ok(Filter::Port(address, port));
        }
        RouteSource::from_str(word).map(Filter::Source).map_err(|_| refused())
    }

    fn selects(self, registry: &Registry, (ipv4, psid): Key, one: &Softwire) -> bool {
        match self {
            Filter::All => true,
            Filter::Port(address, port) => {
                ipv4 == address && registry.resolved(one).is_some_and(|(sets, _)| sets.psid(port) == Some(psid))
            }
            Filter::Net(IpNet::V4(net)) => net.contains(&ipv4),
            Filter::Net(IpNet::V6(net)) => {
                let ends = registry.resolved(one).map(|(_, ends)| ends);
                ends.is_some_and(|ends| net.contains(&ends.b4) || net.contains(&ends.aftr))
            }
            Filter::Psid(meant) => psid == meant,
            Filter::Source(source) => one.source() == source.name(),
        }
    }

    /// The addresses that are meant.
    fn addresses(self) -> RangeInclusive<Ipv4Addr> {
        match self {
            Filter::Port(address, _) => address..=address,
            Filter::Net(IpNet::V4(net)) => net.network()..=net.broadcast(),
            _ => Ipv4Addr::UNSPECIFIED..=Ipv4Addr::BROADCAST,
        }
    }
}

/// The rows of a table.
pub(crate) fn rows(
    shared: &Arc<Mutex<Registry>>,
    tallies: &Tallies,
    (what, filter): (&str, Option<&str>),
    now: u64,
) -> Result<Box<dyn ShowRows>, RequestError> {
    if what == "relay" {
        let mut sums = tallies.sums();
        sums.retain(|(name, ..)| filter.is_none_or(|part| name.contains(part)));
        if let Some(part) = filter.filter(|_| sums.is_empty()) {
            return Err(RequestError(format!("\"{part}\" is part of no counter's name; write one such as hairpin")));
        }
        let row = |(name, packets, bytes)| json!({ "count": name, "packets": packets, "bytes": bytes });
        return Ok(whole(sums.into_iter().map(row).collect()));
    }
    let (filter, shared) = (Filter::parse(filter)?, Arc::clone(shared));
    Ok(entries::in_order(move |last| look(&lock(&shared), (filter, now), last)))
}

/// The rows of some softwires, and the last of them that was looked at.
fn look(registry: &Registry, (filter, now): (Filter, u64), last: Option<&Key>) -> (Vec<Value>, Option<Key>) {
    let (addresses, mut rows, mut seen) = (filter.addresses(), Vec::new(), None);
    let from = last.map_or(Bound::Included((*addresses.start(), 0)), |last| Bound::Excluded(*last));
    let all = registry.ledger().from(from).take_while(|(key, _)| addresses.contains(&key.0));
    for (key, one) in all.take(PIECE) {
        seen = Some(*key);
        if filter.selects(registry, *key, one) {
            rows.extend(row(registry, (*key, one), now));
        }
    }
    (rows, seen)
}

fn row(registry: &Registry, ((ipv4, psid), one): (Key, &Softwire), now: u64) -> Option<Value> {
    let ((sets, ends), sums) = (registry.resolved(one)?, registry.sums(&one.state));
    let (psid_length, psid_offset) = (Some(sets.length()), Some(sets.offset()));
    let whole = SoftwireConfig { ipv4, psid, b4: ends.b4, aftr: Some(ends.aftr), psid_length, psid_offset };
    Some(whole.row(json!({
        "source": one.source(),
        "path_mtu": registry.path(&one.state, now),
        "up_packets": sums.up_packets,
        "up_bytes": sums.up_bytes,
        "down_packets": sums.down_packets,
        "down_bytes": sums.down_bytes,
    })))
}

/// What is measured of it as a whole.
pub(crate) fn gauges(registry: &Registry) -> Vec<(&'static str, &'static str, f64)> {
    vec![("softwires", "Softwires in the binding table", f64::from(registry.writer().len()))]
}
