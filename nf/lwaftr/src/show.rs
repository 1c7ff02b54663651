//! The tables that a running relay shows.

use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use ipnet::IpNet;
use serde_json::{Value, json};
use weir_net::RouteSource;
use weir_stage::{PIECE, RequestError, Show, ShowRows, whole};

use crate::registry::{Entry, Registry};
use crate::state::lock;
use crate::table::Key;
use crate::tally::Tallies;

/// What can be shown.
pub(crate) static SHOWS: &[Show] = &[
    Show {
        what: "softwires",
        columns: &[
            "ipv4",
            "psid",
            "psid_length",
            "psid_offset",
            "b4",
            "aftr",
            "source",
            "up_packets",
            "up_bytes",
            "down_packets",
            "down_bytes",
        ],
        help: "Softwires, and IPv4 packets and bytes of each: up from the customer, down to it. Filter: an IPv4 address, ADDRESS:PORT for \
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

    fn selects(self, registry: &Registry, key: Key, entry: &Entry) -> bool {
        match self {
            Filter::All => true,
            Filter::Port(address, port) => {
                key.ipv4 == address
                    && registry.resolved(key, entry).is_some_and(|(sets, _)| sets.psid(port) == Some(key.psid))
            }
            Filter::Net(IpNet::V4(net)) => net.contains(&key.ipv4),
            Filter::Net(IpNet::V6(net)) => {
                let ends = registry.resolved(key, entry).map(|(_, ends)| ends);
                ends.is_some_and(|ends| net.contains(&ends.b4) || net.contains(&ends.aftr))
            }
            Filter::Psid(psid) => key.psid == psid,
            Filter::Source(source) => entry.source() == source,
        }
    }

    /// Where the first one can be, and the last address.
    fn bounds(self) -> (Key, Ipv4Addr) {
        match self {
            Filter::Port(address, _) => (Key { ipv4: address, psid: 0 }, address),
            Filter::Net(IpNet::V4(net)) => (Key { ipv4: net.network(), psid: 0 }, net.broadcast()),
            _ => (Key::LEAST, Ipv4Addr::BROADCAST),
        }
    }
}

/// The rows of a table.
pub(crate) fn rows(
    shared: &Arc<Mutex<Registry>>,
    tallies: &Tallies,
    what: &str,
    filter: Option<&str>,
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
    let filter = Filter::parse(filter)?;
    let (first, last) = filter.bounds();
    Ok(Box::new(Rows { shared: Arc::clone(shared), filter, next: Some(first), last }))
}

/// The softwires, piece by piece.
struct Rows {
    shared: Arc<Mutex<Registry>>,
    filter: Filter,
    next: Option<Key>,
    last: Ipv4Addr,
}

impl ShowRows for Rows {
    fn piece(&mut self) -> Vec<Value> {
        let mut piece = Vec::new();
        // Where nothing of a piece is meant, the next is looked at: an empty one would be the end.
        while let Some(next) = self.next.filter(|_| piece.is_empty()) {
            let registry = lock(&self.shared);
            let mut last = None;
            for (key, entry) in registry.from(next).take_while(|(key, _)| key.ipv4 <= self.last).take(PIECE) {
                last = Some(key);
                if self.filter.selects(&registry, key, entry) {
                    piece.extend(row(&registry, key, entry));
                }
            }
            self.next = last.and_then(Key::next);
        }
        piece
    }
}

fn row(registry: &Registry, key: Key, entry: &Entry) -> Option<Value> {
    let ((sets, ends), sums) = (registry.resolved(key, entry)?, registry.sums(entry));
    Some(json!({
        "ipv4": key.ipv4.to_string(),
        "psid": key.psid,
        "psid_length": sets.length(),
        "psid_offset": sets.offset(),
        "b4": ends.b4.to_string(),
        "aftr": ends.aftr.to_string(),
        "source": entry.source().to_string(),
        "up_packets": sums.up_packets,
        "up_bytes": sums.up_bytes,
        "down_packets": sums.down_packets,
        "down_bytes": sums.down_bytes,
    }))
}

/// What is measured of it as a whole.
pub(crate) fn gauges(registry: &Registry) -> Vec<(&'static str, &'static str, f64)> {
    vec![("softwires", "Softwires in the binding table", f64::from(registry.writer().len()))]
}
