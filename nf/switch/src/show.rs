//! The tables that are shown: the switch, its flows, tables, groups, meters, ports and controllers.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use weir_flow_tables::flow::Flow;
use weir_flow_tables::table::{FlowTable, Place};
use weir_flow_tables::{CodeState, Role, SampleFrame, Used};
use weir_openflow::meter::{Band, BandKind};
use weir_openflow::port::number;
use weir_openflow::{group, meter};
use weir_stage::{PIECE, RequestError, Show, ShowRows, whole};

use crate::core::{Core, Shared};

/// What can be shown.
pub(crate) static SHOWS: &[Show] = &[
    Show {
        what: "switches",
        columns: &[
            "switch",
            "datapath",
            "mode",
            "tables",
            "flows",
            "groups",
            "meters",
            "ports",
            "controllers",
            "stations",
        ],
        help: "What a switch is to controllers, whether one is connected, and how much it holds",
    },
    Show {
        what: "flows",
        columns: &[
            "table",
            "priority",
            "match",
            "instructions",
            "path",
            "packets",
            "bytes",
            "age_s",
            "idle_s",
            "cookie",
        ],
        help: "Flows in the order of their priorities, and whether their instructions are for the fast path. Filter: a table's number",
    },
    Show {
        what: "flow-tables",
        columns: &[
            "table",
            "flows",
            "search",
            "code",
            "code_packets",
            "lookup_ns",
            "lookup_packets",
            "matched_packets",
        ],
        help: "Flow tables that hold flows or were looked at, how flows are found in them now, by machine code or why not, how many packets that decided about, and how long it takes to find a flow, measured when it is asked. Filter: a table's number",
    },
    Show {
        what: "flow-groups",
        columns: &["group", "kind", "buckets", "packets", "bytes", "age_s"],
        help: "Groups and their buckets. Filter: a group's number",
    },
    Show {
        what: "flow-meters",
        columns: &["meter", "bands", "packets", "bytes", "banded_packets", "age_s"],
        help: "Meters, and what their bands dropped or marked. Filter: a meter's number",
    },
    Show {
        what: "switch-ports",
        columns: &[
            "number",
            "port",
            "link",
            "config",
            "rx_packets",
            "rx_bytes",
            "tx_packets",
            "tx_bytes",
            "rx_drops",
            "tx_drops",
        ],
        help: "Ports by the numbers that controllers know them by, and what controllers want of them. Filter: a number",
    },
    Show {
        what: "controllers",
        columns: &["channel", "peer", "state", "role", "told_packets", "dropped"],
        help: "Controllers that are connected, and channels that have none, with the reason",
    },
];

/// The rows of a table of a switch.
pub(crate) fn rows(
    shared: &Arc<Shared>,
    (name, what): (&str, &str),
    filter: Option<&str>,
    now: u64,
) -> Result<Box<dyn ShowRows>, RequestError> {
    let asked = filter.map(|word| numbered(what, word)).transpose()?;
    if what == "flows" {
        let table = asked.map(|table| u8::try_from(table).unwrap_or(u8::MAX));
        return Ok(Box::new(Flows { shared: Arc::clone(shared), only: table, at: (table.unwrap_or(0), None), now }));
    }
    let core = shared.core();
    let is_asked = |number: u32| asked.is_none_or(|asked| asked == number);
    let rows = match what {
        "switches" => vec![switch(&core, name)],
        "flow-tables" => {
            tables(&core).into_iter().filter(|(number, _)| is_asked(*number)).map(|(_, row)| row).collect()
        }
        "flow-groups" => groups(&core, asked.unwrap_or(group::ALL), now),
        "flow-meters" => meters(&core, asked.unwrap_or(meter::ALL), now),
        "switch-ports" => ports(&core, asked.unwrap_or(number::ANY), now),
        "controllers" => controllers(&core),
        _ => return Err(RequestError(format!("there is no table '{what}'"))),
    };
    Ok(whole(rows))
}

/// The number that a filter asks for.
fn numbered(what: &str, word: &str) -> Result<u32, RequestError> {
    let known = match what {
        "flows" | "flow-tables" => "a table's number, 0 to 254",
        "flow-groups" => "a group's number",
        "flow-meters" => "a meter's number",
        "switch-ports" => "a port's number",
        _ => {
            return Err(RequestError(format!(
                "\"{word}\" selects nothing: the table '{what}' is shown whole; leave the word out"
            )));
        }
    };
    word.parse().map_err(|_| RequestError(format!("\"{word}\" selects nothing in the table '{what}'; write {known}")))
}

fn seconds(from: u64, to: u64) -> u64 {
    to.saturating_sub(from) / 1_000_000_000
}

/// Words with something between them.
fn joined<T: Display>(all: impl IntoIterator<Item = T>, between: &str) -> String {
    all.into_iter().map(|one| one.to_string()).collect::<Vec<_>>().join(between)
}

fn switch(core: &Core, name: &str) -> Value {
    let switch = &core.agent.switch;
    let mode = match (core.agent.has_controller(), core.agent.is_standalone()) {
        (true, _) => "controlled",
        (false, true) => "standalone",
        (false, false) => "secure",
    };
    let flows: usize = switch.tables.iter().map(|(_, table)| table.len()).sum();
    let ready = core.agent.connections().filter(|id| core.agent.is_ready(*id)).count();
    json!({
        "switch": name, "datapath": format!("{:016x}", switch.identity().datapath), "mode": mode, "tables": switch.tables.count(),
        "flows": flows, "groups": switch.groups.iter().count(), "meters": switch.meters.configs(meter::ALL).len(),
        "ports": switch.ports.iter().count(), "controllers": ready, "stations": core.stations.count(),
    })
}

/// Flows, by the piece: those that come and go meanwhile may be among them or not.
struct Flows {
    shared: Arc<Shared>,
    /// The only table that is asked for.
    only: Option<u8>,
    /// The table, and the place in it of the last flow that was shown.
    at: (u8, Option<Place>),
    now: u64,
}

impl ShowRows for Flows {
    fn piece(&mut self) -> Vec<Value> {
        let core = self.shared.core();
        let mut rows = Vec::new();
        while let Some(table) = core.agent.switch.tables.get(self.at.0) {
            for (place, flow) in table.after(self.at.1).take(PIECE - rows.len()) {
                let used = table.used(place).unwrap_or_default();
                rows.push(row(self.at.0, flow, used, self.now));
                self.at.1 = Some(place);
            }
            if rows.len() >= PIECE {
                break;
            }
            // None is behind the last one; where one table is asked for, there is none behind that.
            let next = self.at.0.checked_add(1).filter(|_| self.only.is_none());
            self.at = (next.unwrap_or(u8::MAX), None);
        }
        rows
    }
}

fn row(table: u8, flow: &Flow, used: Used, now: u64) -> Value {
    json!({
        "table": table, "priority": flow.priority, "match": flow.matches.to_string(),
        "instructions": joined(&flow.instructions, " "),
        "path": if flow.is_prepared() { "fast" } else { "interpreter" }, "packets": used.counted.packets, "bytes": used.counted.bytes,
        "age_s": seconds(flow.added, now), "idle_s": seconds(used.last_used, now),
        "cookie": format!("{:#x}", flow.cookie), "idle_timeout_s": flow.idle_timeout, "hard_timeout_s": flow.hard_timeout,
    })
}

fn tables(core: &Core) -> Vec<(u32, Value)> {
    let used = core.agent.switch.tables.iter().filter(|(_, table)| !table.is_empty() || table.passed().0 > 0);
    let switch = &core.agent.switch;
    let row = |(number, table): (u8, &FlowTable)| {
        let is_first = number == 0;
        let by_code = if is_first { switch.decided_by_code() } else { 0 };
        let samples = if is_first { switch.code_samples() } else { None };
        let code = code(switch, number);
        let lookup_ns = match samples {
            Some(frames) => code_ns(switch, &frames),
            None => lookup_ns(table),
        };
        let (lookups, matched) = table.passed();
        let row = json!({
            "table": number, "flows": table.len(), "search": table.search().to_string(), "code": code, "code_packets": by_code, "lookup_ns": lookup_ns, "lookup_packets": lookups, "matched_packets": matched,
        });
        (number.into(), row)
    };
    used.map(row).collect()
}

/// What machine code has to do with a table, and why nothing.
fn code(switch: &weir_flow_tables::Switch, table: u8) -> String {
    match (switch.code_state(), switch.code_role(table)) {
        (CodeState::InUse, Role::Searched) => "in use, and the table is searched".to_owned(),
        (CodeState::InUse, Role::Beside) => "no: no flow that code tries leads here and does nothing else".to_owned(),
        (state, _) => state.to_string(),
    }
}

/// How long code that tries the flows of the first table takes for a frame: nanoseconds, the least of a few rounds over one for each flow. It finds the flow and changes the frame.
#[allow(clippy::disallowed_methods, reason = "the clock is what is measured by; nothing depends on what it says")]
fn code_ns(switch: &weir_flow_tables::Switch, frames: &[SampleFrame]) -> Option<u64> {
    const ROUNDS: usize = 3;
    const REPEATED: usize = 64;
    let round = |_| {
        let mut copies = vec![frames.to_vec(); REPEATED].concat();
        let began = Instant::now();
        std::hint::black_box(switch.find_all_by_code(std::hint::black_box(&mut copies)));
        began.elapsed().as_nanos() as u64
    };
    (0..ROUNDS).map(round).min()?.checked_div((REPEATED * frames.len()) as u64)
}

/// How long it takes to find the flow of a packet, as batches find them: nanoseconds, the least of a few rounds over packets for up to 1,024 flows from
/// all over the table. Nothing in a table without flows.
#[allow(clippy::disallowed_methods, reason = "the clock is what is measured by; nothing depends on what it says")]
fn lookup_ns(table: &FlowTable) -> Option<u64> {
    const ROUNDS: u32 = 3;
    const SAMPLES: usize = 1024;
    let packets = table.samples(SAMPLES);
    let round = |_| {
        let began = Instant::now();
        std::hint::black_box(table.find_all(std::hint::black_box(&packets)));
        began.elapsed().as_nanos() as u64
    };
    (0..ROUNDS).map(round).min()?.checked_div(packets.len() as u64)
}

fn groups(core: &Core, asked: u32, now: u64) -> Vec<Value> {
    let groups = &core.agent.switch.groups;
    let row = |stats: group::GroupStats| {
        let described = groups.get(stats.group)?;
        let buckets = described.buckets.iter().map(|bucket| format!("({})", joined(&bucket.actions, ",")));
        let kind = match described.kind {
            group::GroupKind::All => "all",
            group::GroupKind::Select => "select",
            group::GroupKind::Indirect => "indirect",
            group::GroupKind::FastFailover => "fast-failover",
        };
        Some(json!({
            "group": stats.group, "kind": kind, "buckets": joined(buckets, " "), "packets": stats.counted.packets,
            "bytes": stats.counted.bytes, "age_s": stats.duration.seconds,
        }))
    };
    groups.stats(asked, |_| 0, now).into_iter().filter_map(row).collect()
}

fn meters(core: &Core, asked: u32, now: u64) -> Vec<Value> {
    let meters = &core.agent.switch.meters;
    let row = |stats: meter::MeterStats| {
        let config = meters.configs(stats.meter).pop()?;
        let unit = if config.flags & meter::flags::PKTPS != 0 { "packet/s" } else { "kbit/s" };
        let band = |band: &Band| match band.kind {
            BandKind::Drop => format!("drop above {} {unit}", band.rate),
            BandKind::DscpRemark(level) => format!("mark by {level} above {} {unit}", band.rate),
            BandKind::Experimenter(..) => "experimenter".to_owned(),
        };
        let banded: u64 = stats.bands.iter().map(|band| band.packets).sum();
        Some(json!({
            "meter": stats.meter, "bands": joined(config.bands.iter().map(band), ", "), "packets": stats.counted.packets,
            "bytes": stats.counted.bytes, "banded_packets": banded, "age_s": stats.duration.seconds,
        }))
    };
    meters.stats(asked, |_| 0, now).into_iter().filter_map(row).collect()
}

fn ports(core: &Core, asked: u32, now: u64) -> Vec<Value> {
    use weir_openflow::port::{config, state};
    let ports = &core.agent.switch.ports;
    const WORDS: [(u32, &str); 4] = [
        (config::PORT_DOWN, "down"),
        (config::NO_RECV, "no-receive"),
        (config::NO_FWD, "no-forward"),
        (config::NO_PACKET_IN, "no-packet-in"),
    ];
    let row = |stats: weir_openflow::port::PortStats| {
        let port = ports.get(stats.port)?;
        let words = WORDS.iter().filter(|(bit, _)| port.config & bit != 0).map(|(_, word)| word);
        let [rx, tx, rx_bytes, tx_bytes, rx_drops, tx_drops, ..] = stats.counters;
        Some(json!({
            "number": stats.port, "port": port.name, "link": if port.state & state::LINK_DOWN == 0 { "up" } else { "down" },
            "config": joined(words, " "), "rx_packets": rx, "rx_bytes": rx_bytes, "tx_packets": tx, "tx_bytes": tx_bytes,
            "rx_drops": rx_drops, "tx_drops": tx_drops,
        }))
    };
    ports.stats(asked, now).unwrap_or_default().into_iter().filter_map(row).collect()
}

fn controllers(core: &Core) -> Vec<Value> {
    use weir_openflow::message::Role;
    let connected = core.peers.iter().map(|(id, peer)| {
        let told = core.agent.statistics(*id).unwrap_or_default();
        let role = match core.agent.role(*id) {
            Some(Role::Master) => "master",
            Some(Role::Slave) => "slave",
            _ => "equal",
        };
        let state = if core.agent.is_ready(*id) { "connected" } else { "greeting" };
        json!({
            "channel": peer.channel.to_string(), "peer": peer.name, "state": state, "role": role,
            "told_packets": told.packets, "dropped": told.packets_dropped,
        })
    });
    let without = core.states.iter().map(|(channel, state)| {
        json!({
            "channel": channel.to_string(), "peer": null, "state": state, "role": null, "told_packets": 0, "dropped": 0,
        })
    });
    connected.chain(without).collect()
}
