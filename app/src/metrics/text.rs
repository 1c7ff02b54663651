//! The numbers in the text format of Prometheus.

use std::fmt::Write;

use crate::services::{ServiceState, ServiceStats};
use crate::stats::Stats;

/// All numbers as metrics.
pub(crate) fn text(stats: &Stats) -> String {
    let mut out = Exposition::default();
    out.family("weir_uptime_seconds", GAUGE, "Time since the engine started, by its clock.");
    out.sample(&[], stats.time as f64 / 1e9);
    account(stats, &mut out);
    ports(stats, &mut out);
    workers(stats, &mut out);
    stages(stats, &mut out);
    fates(stats, &mut out);
    links(stats, &mut out);
    services(stats, &mut out);
    gauges(stats, &mut out);
    out.text
}

const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";

/// Metrics, family by family.
#[derive(Default)]
struct Exposition {
    text: String,
    name: String,
}

impl Exposition {
    /// Begins a family; its samples follow.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.name = name.to_owned();
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// A sample of the last family.
    fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(&self.name);
        for (n, (key, value)) in labels.iter().enumerate() {
            let open = if n == 0 { '{' } else { ',' };
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{open}{key}=\"{value}\"");
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{close} {value}");
    }
}

fn account(stats: &Stats, out: &mut Exposition) {
    let account = stats.account;
    for (name, help, packets) in [
        ("received", "Packets that ports handed over.", account.received),
        ("created", "Packets that stages made.", account.created),
        ("transmitted", "Packets that ports accepted.", account.transmitted),
        ("dropped", "Packets dropped for a named reason.", account.dropped),
        ("consumed", "Packets used up for a named reason.", account.consumed),
    ] {
        out.family(&format!("weir_account_{name}_packets_total"), COUNTER, help);
        out.sample(&[], packets as f64);
    }
    out.family("weir_account_held_packets", GAUGE, "Packets in queues, transmit buffers and links.");
    out.sample(&[], account.held as f64);
    let help = "Packets that the account misses or has twice: 0 unless there is a bug.";
    out.family("weir_account_unaccounted_packets", GAUGE, help);
    out.sample(&[], account.unaccounted as f64);
}

/// A figure of each port: name, kind, help, and the value where the device can tell.
type PortFamily = (&'static str, &'static str, &'static str, fn(&crate::stats::PortStats) -> Option<u64>);

const PORT_FAMILIES: &[PortFamily] = &[
    ("weir_port_rx_packets_total", COUNTER, "Packets that the port handed over.", |port| Some(port.rx_packets)),
    ("weir_port_rx_bytes_total", COUNTER, "Bytes of packets that the port handed over.", |port| Some(port.rx_bytes)),
    ("weir_port_rx_missed_total", COUNTER, "Packets lost because the receive ring was full.", |port| port.rx_missed),
    ("weir_port_rx_nobuf_total", COUNTER, "Packets lost because no buffer was free.", |port| port.rx_nobuf),
    ("weir_port_rx_errors_total", COUNTER, "Frames received with errors.", |port| port.rx_errors),
    ("weir_port_tx_packets_total", COUNTER, "Packets that the port accepted.", |port| Some(port.tx_packets)),
    ("weir_port_tx_bytes_total", COUNTER, "Bytes of packets that the port accepted.", |port| Some(port.tx_bytes)),
    ("weir_port_tx_dropped_total", COUNTER, "Packets dropped because the port did not accept them.", |port| {
        Some(port.tx_dropped)
    }),
    ("weir_port_tx_errors_total", COUNTER, "Frames that could not be sent.", |port| port.tx_errors),
    ("weir_port_tx_held_packets", GAUGE, "Packets that wait to be accepted.", |port| Some(port.tx_held)),
    ("weir_port_link_up", GAUGE, "Whether the link is up: 1 or 0.", |port| Some(u64::from(port.link_up))),
];

fn ports(stats: &Stats, out: &mut Exposition) {
    for (name, kind, help, value) in PORT_FAMILIES {
        let samples: Vec<_> = stats.ports.iter().filter_map(|(port, figures)| Some((port, value(figures)?))).collect();
        if samples.is_empty() {
            continue;
        }
        out.family(name, kind, help);
        for (port, value) in samples {
            out.sample(&[("port", port)], value as f64);
        }
    }
    if stats.ports.values().any(|port| !port.rx_lost.is_empty()) {
        out.family(
            "weir_port_rx_lost_total",
            COUNTER,
            "Packets lost by software before they were received, by reason.",
        );
        for (port, figures) in &stats.ports {
            for (reason, packets) in &figures.rx_lost {
                out.sample(&[("port", port), ("reason", reason)], *packets as f64);
            }
        }
    }
}

fn workers(stats: &Stats, out: &mut Exposition) {
    out.family("weir_worker_cycles_total", COUNTER, "Cycles of the time stamp counter, by what they were spent on.");
    for worker in &stats.workers {
        for (spent, cycles) in worker.cycles.parts() {
            out.sample(&[("worker", &worker.id), ("spent", spent)], cycles as f64);
        }
    }
    out.family("weir_worker_packets_total", COUNTER, "Packets that entered the worker's graph.");
    for worker in &stats.workers {
        out.sample(&[("worker", &worker.id)], worker.packets as f64);
    }
    let help = "Times the worker did not receive because a link that must not drop was full.";
    out.family("weir_worker_backpressure_total", COUNTER, help);
    for worker in &stats.workers {
        out.sample(&[("worker", &worker.id)], worker.backpressure as f64);
    }
    out.family("weir_tsc_hertz", GAUGE, "Frequency of the time stamp counter.");
    out.sample(&[], stats.tsc_hz as f64);
}

/// A figure of each stage: name, kind, help and value.
type StageFamily = (&'static str, &'static str, &'static str, fn(&crate::stats::StageStats) -> u64);

const STAGE_FAMILIES: &[StageFamily] = &[
    ("weir_stage_packets_total", COUNTER, "Packets that the stage was given.", |stage| stage.packets),
    ("weir_stage_batches_total", COUNTER, "Batches that the stage was given.", |stage| stage.batches),
    ("weir_stage_cycles_total", COUNTER, "Cycles that the stage took, scaled up from samples.", |stage| stage.cycles),
    ("weir_stage_held_packets", GAUGE, "Packets that the stage holds.", |stage| stage.held),
];

fn stages(stats: &Stats, out: &mut Exposition) {
    if stats.stages.is_empty() {
        return;
    }
    for (name, kind, help, value) in STAGE_FAMILIES {
        out.family(name, kind, help);
        for stage in &stats.stages {
            out.sample(&[("stage", &stage.name), ("worker", &stage.worker)], value(stage) as f64);
        }
    }
}

fn fates(stats: &Stats, out: &mut Exposition) {
    if !stats.drops.is_empty() {
        out.family("weir_drop_packets_total", COUNTER, "Packets dropped, by place and reason.");
        for drop in &stats.drops {
            out.sample(&[("stage", &drop.stage), ("reason", &drop.reason)], drop.packets as f64);
        }
        out.family("weir_drop_bytes_total", COUNTER, "Bytes of packets dropped, by place and reason.");
        for drop in &stats.drops {
            out.sample(&[("stage", &drop.stage), ("reason", &drop.reason)], drop.bytes as f64);
        }
    }
    if !stats.fates.is_empty() {
        out.family("weir_fate_packets_total", COUNTER, "Packets consumed and created, by stage and reason.");
        for fate in &stats.fates {
            let labels = [("stage", fate.stage.as_str()), ("reason", &fate.reason), ("fate", &fate.fate)];
            out.sample(&labels, fate.packets as f64);
        }
    }
}

fn links(stats: &Stats, out: &mut Exposition) {
    if stats.links.is_empty() {
        return;
    }
    out.family("weir_link_packets_total", COUNTER, "Packets put into the link.");
    for link in &stats.links {
        out.sample(&[("link", &link.name)], link.packets as f64);
    }
    out.family("weir_link_occupancy_packets", GAUGE, "Packets in the link.");
    for link in &stats.links {
        out.sample(&[("link", &link.name)], link.occupancy as f64);
    }
}

/// A figure of each service: name, kind, help and value.
type ServiceFamily = (&'static str, &'static str, &'static str, fn(&ServiceStats) -> f64);

const SERVICE_FAMILIES: &[ServiceFamily] = &[
    ("weir_service_running", GAUGE, "Whether the service does its work: 1 or 0.", |service| {
        f64::from(u8::from(service.state == ServiceState::Running))
    }),
    ("weir_service_restarts_total", COUNTER, "Times the service failed and was started again.", |service| {
        service.restarts as f64
    }),
    ("weir_service_steps_total", COUNTER, "Steps that the service took.", |service| service.steps as f64),
    ("weir_service_longest_step_seconds", GAUGE, "The longest step of the service so far.", |service| {
        service.longest_step as f64 / 1e9
    }),
    ("weir_service_occupancy", GAUGE, "What the service holds: clients, requests.", |service| service.occupancy as f64),
    ("weir_service_capacity", GAUGE, "What the service can hold.", |service| service.capacity as f64),
    ("weir_service_abandoned_threads", GAUGE, "Threads of the service that hang and were given up.", |service| {
        service.abandoned as f64
    }),
];

fn services(stats: &Stats, out: &mut Exposition) {
    if stats.services.is_empty() {
        return;
    }
    for (name, kind, help, value) in SERVICE_FAMILIES {
        out.family(name, kind, help);
        for service in &stats.services {
            out.sample(&[("service", &service.name), ("owner", &service.owner)], value(service));
        }
    }
}

/// Facts of functions, those of one name together: a family must not be interrupted.
fn gauges(stats: &Stats, out: &mut Exposition) {
    let mut names: Vec<&str> = stats.gauges.iter().map(|gauge| gauge.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let mut same = stats.gauges.iter().filter(|gauge| gauge.name == name).peekable();
        let help = same.peek().map_or("", |gauge| gauge.help.as_str());
        out.family(&format!("weir_{}", metric_name(name)), GAUGE, help);
        for gauge in same {
            out.sample(&[("function", &gauge.function)], gauge.value);
        }
    }
}

fn metric_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Gauge;
    use crate::stats::tests::example;
    use std::collections::HashSet;

    /// The rules of the format, and those of `promtool check metrics` on names.
    fn check(text: &str) -> Result<usize, String> {
        let mut families = HashSet::new();
        let (mut family, mut kind, mut samples) = ("", "", HashSet::new());
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').ok_or("a HELP without help")?;
                if !families.insert(name) {
                    return Err(format!("{name} occurs twice"));
                }
                if help.trim().is_empty() {
                    return Err(format!("{name} has no help"));
                }
                family = name;
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, of) = rest.split_once(' ').ok_or("a TYPE without type")?;
                if name != family || !["counter", "gauge"].contains(&of) {
                    return Err(format!("a wrong type: {line}"));
                }
                if (of == "counter") != name.ends_with("_total") {
                    return Err(format!("counters and only they end in _total: {name}"));
                }
                kind = of;
            } else {
                let (series, value) = line.rsplit_once(' ').ok_or("a sample without value")?;
                let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
                if name != family || kind.is_empty() {
                    return Err(format!("a sample outside its family: {line}"));
                }
                if !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_') {
                    return Err(format!("a bad name: {name}"));
                }
                let value: f64 = value.parse().map_err(|_| format!("no number: {line}"))?;
                if kind == "counter" && value < 0.0 {
                    return Err(format!("a negative counter: {line}"));
                }
                check_labels(labels)?;
                if !samples.insert(series) {
                    return Err(format!("{series} occurs twice"));
                }
            }
        }
        Ok(samples.len())
    }

    fn check_labels(labels: &str) -> Result<(), String> {
        let mut rest = labels;
        while rest != "}" {
            let (key, after) = rest.split_once("=\"").ok_or_else(|| format!("no label: {rest}"))?;
            if key.is_empty() || !key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') {
                return Err(format!("a bad label: {key}"));
            }
            let mut escaped = false;
            let end = after.find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            rest = &after[end.ok_or("a label without end")? + 1..];
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        Ok(())
    }

    #[test]
    fn the_text_is_valid_and_complete() {
        let text = text(&example());
        assert!(check(&text).unwrap() > 50, "{text}");
        for line in [
            "weir_account_received_packets_total 100",
            "weir_account_unaccounted_packets 0",
            "weir_port_rx_packets_total{port=\"wan\"} 100",
            "weir_port_rx_lost_total{port=\"wan\",reason=\"torn\"} 2",
            "weir_worker_cycles_total{worker=\"2\",spent=\"idle\"} 900",
            "weir_stage_packets_total{stage=\"toy.ttl\",worker=\"1\"} 60",
            "weir_drop_packets_total{stage=\"toy.ttl\",reason=\"expired\"} 14",
            "weir_fate_packets_total{stage=\"toy.slow\",reason=\"reply\",fate=\"created\"} 4",
            "weir_link_occupancy_packets{link=\"1 -> control: toy.slow\"} 1",
            "weir_service_running{service=\"socket\",owner=\"weir\"} 1",
            "weir_service_running{service=\"metrics\",owner=\"weir\"} 0",
            "weir_service_restarts_total{service=\"metrics\",owner=\"weir\"} 2",
            "weir_service_longest_step_seconds{service=\"socket\",owner=\"weir\"} 0.000025",
            "weir_routes{function=\"toy\"} 7",
            "weir_uptime_seconds 2.5",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
        assert!(!text.contains("rx_nobuf"), "what no device can tell is left out");
    }

    #[test]
    fn nothing_at_all_is_valid_too() {
        check(&super::text(&Stats::default())).unwrap();
    }

    #[test]
    fn names_cannot_break_the_format() {
        let mut stats = example();
        stats.drops[0].stage = "a\"b\\c\nd".into();
        let gauge = |function: &str, name: &str| Gauge {
            function: function.into(),
            name: name.into(),
            help: "A\nfact.".into(),
            value: 0.5,
        };
        stats.gauges = vec![gauge("a", "free space"), gauge("a", "other"), gauge("b", "free space")];
        check(&text(&stats)).unwrap();
    }

    #[test]
    fn the_check_itself_fails() {
        for wrong in [
            "weir_x 1\n",
            "# HELP a_total x\n# TYPE a_total gauge\na_total 1\n",
            "# HELP a x\n# TYPE a gauge\na 1\na 2\n",
            "# HELP a x\n# TYPE a gauge\na{b=\"} 2\n",
            "# HELP a x\n# TYPE a gauge\na one\n",
        ] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }
}
