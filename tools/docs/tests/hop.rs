//! The function that the documentation shows does what the documentation says.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use weir_config::{Catalogue, Checked, Declaration, Document, Kind, Place, Table, Value};
use weir_docs::Hop;
use weir_docs::hop::HopConfig;
use weir_mem::Domain;
use weir_stage::{AnyFunction, Env, Ground, PortConfig, PortFacts, PortInfo, To, rehearsal};

fn checked(hop: &[(&str, Value)]) -> Result<Checked, Vec<String>> {
    let declare = |kind: &str, line, keys: &[(&str, Value)]| Declaration {
        kind: kind.to_owned(),
        table: Value::Table(keys.iter().map(|(key, value)| ((*key).into(), value.clone())).collect::<Table>()),
        place: Place::line("hop.lua", line),
        incomplete: false,
    };
    let port = |name: &str, line| declare("port", line, &[("name", name.into()), ("device", "null".into())]);
    let declarations = vec![port("a", 1), port("b", 2), declare("hop", 3, hop)];
    let kinds: Catalogue =
        [Kind::named("port", PortConfig::schema()), Kind::function(Hop.kind(), Hop.schema())].into_iter().collect();
    let document = Document { declarations, ..Document::default() };
    document.check(&kinds, None).map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

fn port(name: &str, index: u16) -> PortInfo {
    let facts = PortFacts {
        device: "null".to_owned(),
        mac: weir_stage::local_mac(name),
        mtu: 1500,
        max_rx_queues: 1,
        max_tx_queues: 1,
        rss: false,
        offloads: Vec::new(),
    };
    PortInfo { name: name.to_owned(), index, facts, addresses: Vec::new(), vrf: None, link_up: true }
}

#[test]
fn its_graph_leads_from_port_to_port() {
    assert_eq!(HopConfig::schema().defects(), Vec::<String>::new());
    let checked = checked(&[("from", "a".into()), ("to", "b".into())]).unwrap();
    let element = checked.get("hop", "hop").unwrap();
    let configured = Hop.configure(element).unwrap();
    assert_eq!(configured.ports().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(configured.placement().workers, [0]);
    let (ports, domain) = ([port("a", 4), port("b", 7)], Domain::new());
    let env = Env { ports: &ports, interfaces: &[], folder: None, running: None };
    let ground = Ground { domain: &domain, now: 0 };
    let graph = rehearsal::build(&Hop, element, &env, &ground).unwrap().graph(0).unwrap();
    graph.check().unwrap();
    let [node] = graph.nodes() else { panic!("one stage") };
    assert_eq!(node.name, "hop.ttl");
    assert_eq!(node.targets, [Some(To::Port(7)), None, None]);
    assert_eq!(graph.entries()[0].0, 4);
}

#[test]
fn a_wrong_name_is_told_as_the_documentation_says() {
    let document = include_str!("../../../docs/adding-a-function.md");
    let [error] = checked(&[("from", "a".into()), ("to", "c".into())]).unwrap_err().try_into().unwrap();
    assert!(document.contains(&error), "{error}");
}
