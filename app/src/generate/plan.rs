//! The configuration that a command line stands for.

use weir_config::{Declaration, Document, Key, Place, Table, Value};

use crate::catalogue;
use crate::cli::Generate;

/// Where declarations of the command line stand, in messages.
const PLACE: &str = "command line";

/// What the names of ports to send by begin with.
pub(crate) const SENDER: &str = "tx";

/// A table from names and values; absent ones are left out.
pub(crate) fn table<const N: usize>(entries: [(&str, Option<Value>); N]) -> Value {
    let present = entries.into_iter().filter_map(|(name, value)| Some((Key::from(name), value?)));
    Value::Table(present.collect::<Table>())
}

/// A declaration of the program's own.
pub(crate) fn declaration(kind: &str, table: Value) -> Declaration {
    Declaration { kind: kind.to_owned(), table, place: Place::line(PLACE, 0), incomplete: false }
}

fn texts(list: &[String]) -> Option<Value> {
    (!list.is_empty()).then(|| Value::List(list.iter().map(Value::text).collect()))
}

fn text(text: Option<&String>) -> Option<Value> {
    text.map(Value::text)
}

/// Values of a field: `random` behind the last of several belongs to all.
fn values(list: &[String]) -> Option<Value> {
    let random = list.last().is_some_and(|last| last.trim_end().ends_with("random"));
    let one = |value: &String| {
        let value = value.trim();
        if random && !value.ends_with("random") { Value::text(format!("{value} random")) } else { Value::text(value) }
    };
    (!list.is_empty()).then(|| Value::List(list.iter().map(one).collect()))
}

/// Whether files alone are sent to and received from: then nobody waits, and time may be virtual.
fn files_only(options: &Generate) -> bool {
    options.port.iter().chain(&options.rx).all(|device| device.starts_with("pcap:"))
}

/// The declarations.
pub(crate) fn document(options: &Generate, core: u16) -> Document {
    let mut declarations = Vec::new();
    let mtu = options.mtu.map(|mtu| Value::Integer(mtu.into()));
    let devices = options.port.iter().zip(1..).map(|(device, n)| (format!("{SENDER}{n}"), device));
    let devices: Vec<_> =
        devices.chain(options.rx.iter().zip(1..).map(|(device, n)| (format!("rx{n}"), device))).collect();
    for (n, (name, device)) in devices.iter().enumerate() {
        let keys = [
            ("name", Some(Value::text(name))),
            ("device", Some(Value::text(device))),
            ("address", text(options.address.get(n))),
            ("mtu", mtu.clone()),
        ];
        declarations.push(declaration("port", table(keys)));
    }
    if files_only(options) {
        declarations.push(declaration("engine", table([("clock", Some(Value::from("virtual")))])));
    }
    let names =
        |start: &str| devices.iter().map(|(name, _)| name).filter(|name| name.starts_with(start)).cloned().collect();
    let (senders, receivers): (Vec<String>, Vec<String>) = (names("tx"), names("rx"));
    let answer = devices
        .iter()
        .map(|(name, _)| (Key::from(name.as_str()), texts(&options.neighbors.answer).unwrap_or_default()));
    let answer = (!options.neighbors.answer.is_empty()).then(|| Value::Table(answer.collect::<Table>()));
    let streams = senders.iter().map(|name| stream(options, name)).collect();
    let keys = [
        ("streams", Some(Value::List(streams))),
        ("receive", texts(&receivers)),
        ("seed", Some(Value::Integer(i64::try_from(options.packets.seed).unwrap_or(i64::MAX)))),
        ("link_speed", text(options.link_speed.as_ref())),
        ("answer", answer),
        ("workers", Some(Value::List(vec![Value::Integer(core.into())]))),
    ];
    declarations.push(declaration(weir_stage::Function::kind(&catalogue::GENERATOR), table(keys)));
    Document { file: PLACE.to_owned(), declarations, ..Document::default() }
}

fn stream(options: &Generate, port: &str) -> Value {
    let replay = options.replay.as_ref();
    table([
        ("port", Some(Value::text(port))),
        ("layers", replay.is_none().then(|| layers(options))),
        ("replay", replay.map(|file| Value::text(file.display()))),
        ("timing", text(options.timing.as_ref())),
        ("size", text(options.size.as_ref())),
        ("rate", text(options.rate.as_ref())),
        ("gaps", text(options.gaps.as_ref())),
        ("burst", options.burst.map(|burst| Value::Integer(burst.into()))),
        ("count", options.count.map(|count| Value::Integer(i64::try_from(count).unwrap_or(i64::MAX)))),
        ("duration", text(options.duration.as_ref())),
        ("signature", options.signature.then_some(Value::Bool(true))),
        ("via", text(options.neighbors.via.as_ref())),
    ])
}

fn layers(options: &Generate) -> Value {
    let one = |name: &str, keys: Value| table([(name, Some(keys))]);
    let ethernet =
        table([("source", text(options.src_mac.as_ref())), ("destination", text(options.packets.dst_mac.as_ref()))]);
    let mut layers = vec![one("ethernet", ethernet)];
    for id in &options.packets.vlan {
        layers.push(one("vlan", table([("id", Some(Value::text(id)))])));
    }
    let ip = table([("source", values(&options.packets.src)), ("destination", values(&options.packets.dst))]);
    let is_ipv6 = options.packets.dst.iter().chain(&options.packets.src).any(|address| address.contains(':'));
    layers.push(one(if is_ipv6 { "ipv6" } else { "ipv4" }, ip));
    layers.push(one(
        "udp",
        table([("source", values(&options.packets.sport)), ("destination", values(&options.packets.dport))]),
    ));
    Value::List(layers)
}
