//! Functions among ports in memory, under the virtual clock: what their tests have in common. Only tests use it.
//!
//! [`Rig`] is a function on one worker whose ports have no addresses. Functions that need more (interfaces, several workers, addresses) have rigs of their
//! own, made of the parts below.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::missing_panics_doc, reason = "a failed unwrap fails the test")]

mod rig;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use weir_config::{Catalogue, ConfigError, Declaration, Document, Element, Key, Kind, Place, Table};
use weir_engine::{Account, Engine, Idle, PortPart, Settings, WorkerSnapshot};
use weir_mem::Domain;
use weir_packet::{HeapPool, Pool};
use weir_port_mem::MemPort;
use weir_stage::{AnyFunction, Instance, Port, PortConfig, PortInfo, Sample, ShowRows};

pub use rig::{PORTS, Rig, messages};

/// A millisecond, in nanoseconds.
pub const MS: u64 = 1_000_000;

/// A second, in nanoseconds.
pub const SECOND: u64 = 1_000 * MS;

/// A value of a script. Keys that are numbers are indices, and what is null is not there, as in Lua.
pub fn script(value: &Value) -> weir_config::Value {
    match value {
        Value::Null => weir_config::Value::Nil,
        Value::Bool(boolean) => (*boolean).into(),
        Value::Number(number) => number.as_i64().unwrap().into(),
        Value::String(text) => text.as_str().into(),
        Value::Array(list) => weir_config::Value::List(list.iter().map(script).collect()),
        Value::Object(object) => {
            let number = |key: &str| key.parse::<i64>().map(Key::Index);
            let there = object.iter().filter(|(_, value)| !value.is_null());
            let entries =
                there.map(|(key, value)| (number(key).unwrap_or_else(|_| key.as_str().into()), script(value)));
            weir_config::Value::Table(entries.collect::<Table>())
        }
    }
}

/// A function's declaration beside those of ports, checked as the program checks it.
///
/// # Errors
///
/// Everything that is wrong with it.
pub fn declared(
    function: &'static dyn AnyFunction,
    ports: &[&str],
    config: &Value,
) -> Result<Arc<Element>, Vec<ConfigError>> {
    let kind = function.kind();
    let declare = |kind: &str, line, table| Declaration {
        kind: kind.to_owned(),
        table: script(&table),
        place: Place::line("test.lua", line),
        incomplete: false,
    };
    let mut declarations = vec![declare(kind, 1, config.clone())];
    declarations.extend(ports.iter().map(|name| declare("port", 2, json!({ "name": name, "device": "mem:" }))));
    let document = Document { declarations, ..Document::default() };
    let kinds = [Kind::named("port", PortConfig::schema()), Kind::function(kind, function.schema())];
    let catalogue: Catalogue = kinds.into_iter().collect();
    Ok(document.check(&catalogue, None)?.get(kind, kind).unwrap().clone())
}

/// Ports without addresses, as functions see them.
pub fn port_infos(names: &[&str], opened: &[MemPort]) -> Vec<PortInfo> {
    let info = |(index, (name, port)): (usize, (&&str, &MemPort))| PortInfo {
        name: (*name).to_owned(),
        index: index as u16,
        facts: port.facts(),
        addresses: Vec::new(),
        vrf: None,
        link_up: true,
    };
    names.iter().zip(opened).enumerate().map(info).collect()
}

/// Ports for an engine, of which the first worker receives and the worker `sender` sends. Their queues are opened, with buffers of `fresh`; without
/// one those that the engine has stay.
pub fn port_parts<'p>(
    ports: impl IntoIterator<Item = &'p mut MemPort>,
    infos: &[PortInfo],
    sender: usize,
    fresh: Option<&HeapPool>,
) -> Vec<PortPart> {
    let part = |(port, info): (&mut MemPort, &PortInfo)| {
        let (mut rx, mut tx) = (vec![(0, None)], vec![(sender, None)]);
        if let Some(pool) = fresh {
            let (opened_rx, opened_tx) = port.open(1, 1, pool).unwrap();
            rx = opened_rx.into_iter().map(|queue| (0, Some(queue))).collect();
            tx = opened_tx.into_iter().map(|queue| (sender, Some(queue))).collect();
        }
        PortPart { name: info.name.clone(), index: info.index, rx, tx }
    };
    ports.into_iter().zip(infos).map(part).collect()
}

/// Mistakes as people read them.
pub fn told<T>(outcome: Result<T, Vec<ConfigError>>) -> Vec<String> {
    outcome.err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

/// What was built; mistakes fail the test.
pub fn built<T>(outcome: Result<T, Vec<ConfigError>>) -> T {
    outcome.unwrap_or_else(|errors| panic!("{}", errors.iter().map(|error| format!("{error}\n")).collect::<String>()))
}

/// An engine of so many workers that never sleep, under the virtual clock.
pub fn engine(workers: usize, pool: &dyn Pool, domain: &Domain) -> Engine {
    let settings = Settings {
        cores: vec![None; workers],
        idle: Idle::Spin,
        virtual_clock: true,
        hook: None,
        sample_every: weir_engine::SAMPLE_EVERY,
    };
    Engine::start(settings, pool, domain).unwrap()
}

/// Lets time pass.
pub fn run(engine: &mut Engine, nanos: u64) {
    let until = engine.now() + nanos;
    // What was asked for or changed meanwhile is noticed at once, and time goes no further than it is let.
    engine.rouse();
    while engine.now() < until {
        engine.step_until(until);
    }
}

/// All rows of a table.
pub fn all_rows<T>(mut table: Box<dyn ShowRows<T>>) -> Vec<T> {
    let mut all = Vec::new();
    loop {
        match table.piece() {
            piece if piece.is_empty() => return all,
            piece => all.extend(piece),
        }
    }
}

/// All samples of flows that wait at a function.
pub fn waiting_samples(instance: &dyn Instance) -> Vec<Sample> {
    let source = instance.flow_source().unwrap();
    std::iter::from_fn(|| Some(source.take()).filter(|some| !some.is_empty())).flatten().collect()
}

/// The number of an interface in samples of flows.
pub fn interface_id(instance: &dyn Instance, name: &str) -> u16 {
    let all = instance.flow_source().unwrap().interfaces(0);
    all.iter().find(|one| one.name == name).unwrap_or_else(|| panic!("{name}: {all:?}")).id
}

/// Packets dropped, by stage and reason; reasons for which none was are among them.
pub fn drops(engine: &mut Engine) -> BTreeMap<String, u64> {
    let mut sum = BTreeMap::new();
    for drop in engine.snapshot().iter().flat_map(|worker| &worker.drops) {
        *sum.entry(format!("{}/{}", drop.stage, drop.reason)).or_default() += drop.packets;
    }
    sum
}

/// The account of all workers, each of which must be exact.
pub fn account(engine: &mut Engine) -> Account {
    sum(&engine.snapshot())
}

/// Stops an engine, in which nothing may be held; answers its last account.
pub fn stop(engine: Engine) -> Account {
    let all = sum(&engine.stop());
    assert_eq!(all.held, 0);
    all
}

/// Every buffer must have come home, and nothing have gone wrong with one.
pub fn assert_home(pool: &dyn Pool) {
    assert_eq!(weir_packet::defects(), 0);
    assert_eq!(pool.taken() - pool.at_hand(), 0, "buffers are missing");
}

fn sum(workers: &[WorkerSnapshot]) -> Account {
    let mut all = Account::default();
    for worker in workers {
        assert_eq!(worker.account.unaccounted(), 0, "{}: {:?}", worker.id, worker.account);
        all.add(&worker.account);
    }
    all
}
