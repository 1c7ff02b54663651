//! Graphs that are built again and again, as for `weir show graph`, while one of them runs.

use std::sync::Arc;

use serde_json::{Value, json};
use weir_config::{Catalogue, Declaration, Document, Element, InterfaceAddress, Key, Kind, Place, Scalar, Table};
use weir_mem::Domain;
use weir_port_mem::MemPort;
use weir_stage::{AnyFunction, Env, Ground, Port, PortConfig, PortInfo};

use crate::Bng;
use crate::running::Running;
use crate::table::counters::Direction;

/// The names of the ports: towards customers, and towards the core.
pub(super) const PORTS: [&str; 2] = ["cpe", "core"];

fn script(value: &Value) -> weir_config::Value {
    match value {
        Value::Object(object) => {
            let entries = object.iter().map(|(key, value)| (Key::from(key.as_str()), script(value)));
            weir_config::Value::Table(entries.collect::<Table>())
        }
        Value::Array(list) => weir_config::Value::List(list.iter().map(script).collect()),
        Value::Number(number) => number.as_i64().unwrap().into(),
        text => text.as_str().unwrap().into(),
    }
}

pub(super) fn element(config: &Value) -> Arc<Element> {
    let declare = |kind: &str, table: &Value| Declaration {
        kind: kind.to_owned(),
        table: script(table),
        place: Place::line("test.lua", 1),
        incomplete: false,
    };
    let mut declarations = vec![declare("bng", config)];
    declarations.extend(PORTS.map(|name| declare("port", &json!({ "name": name, "device": "mem:" }))));
    let document = Document { declarations, ..Document::default() };
    let kinds = [Kind::named("port", PortConfig::schema()), Kind::function("bng", Bng.schema())];
    document.check(&kinds.into_iter().collect::<Catalogue>(), None).unwrap().get("bng", "bng").unwrap().clone()
}

/// With workers that each have some of the subscribers, one graph that runs, and others that come and go.
#[test]
fn looking_at_a_graph_costs_nothing_that_stays() {
    let config = json!({
        "access": ["cpe"], "core": ["core"], "core_encapsulation": "ip", "addresses": ["10.0.0.1/16"],
        "gateways": { "west": { "port": "core", "address": "192.0.2.2" } }, "routes": { "0.0.0.0/0": "west" },
        "subscribers": [{ "svlan": 100, "cvlan": 1, "ipv4": ["10.0.0.7"] }],
        "limits": { "subscribers": 8, "bindings": 16 }, "workers": [0, 1, 2], "layout": "distributor",
    });
    let info = |(index, name): (usize, &str)| PortInfo {
        name: name.to_owned(),
        index: index as u16,
        facts: MemPort::fed(name).0.facts(),
        addresses: (name == "core").then(|| InterfaceAddress::parse("192.0.2.1/30").unwrap()).into_iter().collect(),
        vrf: None,
        link_up: true,
    };
    let infos: Vec<PortInfo> = PORTS.into_iter().enumerate().map(info).collect();
    let domain = Domain::new();
    let env = Env { ports: &infos, interfaces: &[], folder: None, running: None };
    let configured = Bng.configure(&element(&config)).unwrap();
    let instance = configured.instantiate(&env, &Ground { domain: &domain, now: 0 }).unwrap();
    let counters = &instance.downcast_ref::<Running>().unwrap().counters;
    let runs = instance.graph(0).unwrap();
    let sets = counters.len();
    assert!(sets > 1);
    for _ in 0..1_000 {
        drop(instance.sketch(0).unwrap());
        assert_eq!(counters.len(), sets, "looking at it makes no stages");
    }
    for _ in 0..1_000 {
        drop(instance.graph(0).unwrap());
        // What a stage counted before it went.
        counters.acquire().unwrap().count(0, Direction::Up, 60);
    }
    // Those of the one that runs, and of one more.
    assert_eq!(counters.len(), 2 * sets);
    let sums = counters.sum(0);
    assert_eq!((sums.up_packets, sums.up_bytes), (1_000, 60_000));
    drop(runs);
}
