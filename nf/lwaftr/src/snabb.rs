//! Reads the configuration of Snabb's lwAFTR (container `softwire-config` of its YANG model `snabb-softwire-v3`), and writes it as one of Weir's.
//!
//! What is there is kept, also where this relay does otherwise by itself: everything that comes in belongs to the binding table, and echo messages
//! have their ports as there. Two things can not be kept: MAC addresses are those of the devices, and ports below 2^(16-a) are nobody's where a port
//! set has reserved ports (RFC 7597 section 5.1; there it is those below 2^a).

mod tree;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Map, Value, json};

use tree::{Node, Problems};

/// The port towards the Internet, and that towards the customers.
const PORTS: [&str; 2] = ["internet", "access"];

/// Addresses that stand for next hops of which nothing but a MAC address is known: the dummy address of RFC 7600, and a link-local one.
const NEXT: [&str; 2] = ["192.0.0.8", "fe80::8"];

/// A configuration that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// Declarations, each with its kind.
    pub declarations: Vec<(&'static str, Value)>,
    /// The MAC addresses that the ports `internet` and `access` had.
    pub macs: [Option<String>; 2],
}

/// Reads a configuration.
///
/// # Errors
///
/// Everything in it that makes no sense, each with its line.
pub fn import(text: &str) -> Result<Imported, Vec<String>> {
    let mut problems = Problems::default();
    let tree = tree::read(text, &mut problems);
    let imported = tree.map(|tree| Reader { problems: &mut problems }.config(&tree));
    match (imported, problems.0) {
        (Some(imported), problems) if problems.is_empty() => Ok(imported),
        (_, problems) => Err(problems),
    }
}

/// One side of a queue.
struct Side {
    interface: String,
    declarations: Vec<(&'static str, Value)>,
    route: Option<(String, Option<String>)>,
}

struct Reader<'p> {
    problems: &'p mut Problems,
}

impl Reader<'_> {
    fn config(&mut self, root: &Node) -> Imported {
        let config = match root.children.as_slice() {
            [one] if one.name == "softwire-config" => one,
            _ => root,
        };
        self.problems.known(config, &["binding-table", "external-interface", "internal-interface", "instance", "name"]);
        let mut relay = Map::new();
        let queue = config.child("instance").and_then(|instance| instance.child("queue"));
        let device = config.child("instance").and_then(|instance| instance.text("device"));
        let sides = [("external-interface", 0), ("internal-interface", 1)].map(|(name, n)| {
            let side = queue.and_then(|queue| queue.child(name));
            self.side(config, side, device.filter(|_| n == 1), n)
        });
        let [external, internal] = [config.child("external-interface"), config.child("internal-interface")];
        relay.insert("ports".to_owned(), json!(PORTS));
        let own: Option<Ipv6Addr> =
            queue.and_then(|queue| queue.child("internal-interface")).and_then(|side| self.problems.value(side, "ip"));
        let (softwires, aftr) = self.softwires(config.child("binding-table"), own);
        relay.insert("aftr".to_owned(), json!(aftr));
        relay.insert("prefixes".to_owned(), json!(["0.0.0.0/0", "::/0"]));
        relay.insert("echo_port".to_owned(), json!("zero"));
        if let Some(hairpinning) = internal.and_then(|side| self.problems.value::<bool>(side, "hairpinning")) {
            relay.insert("hairpinning".to_owned(), json!(hairpinning));
        }
        if let Some(label) = internal.and_then(|side| self.problems.value::<u32>(side, "flow-label")) {
            relay.insert("flow_label".to_owned(), json!(label));
        }
        // Those that are usual there.
        relay.insert("ipv4".to_owned(), self.rules(external, &sides[0].interface, 1460));
        relay.insert("ipv6".to_owned(), self.rules(internal, &sides[1].interface, 1500));
        let (mut routes, mut neighbors) = (Map::new(), Map::new());
        for (side, all) in sides.iter().zip(["0.0.0.0/0", "::/0"]) {
            let Some((next, mac)) = &side.route else { continue };
            let via = format!("{next}%{}", side.interface);
            if let Some(mac) = mac {
                neighbors.insert(via.clone(), json!(mac));
            }
            routes.insert(all.to_owned(), json!(via));
        }
        relay.insert("routes".to_owned(), Value::Object(routes));
        relay.insert("neighbors".to_owned(), Value::Object(neighbors));
        relay.insert("softwires".to_owned(), Value::Array(softwires));
        let mut declarations: Vec<_> = sides.into_iter().flat_map(|side| side.declarations).collect();
        declarations.push(("lwaftr", Value::Object(relay)));
        let macs = ["external-interface", "internal-interface"].map(|name| {
            let mac = queue.and_then(|queue| queue.child(name)).and_then(|side| side.text("mac"));
            mac.map(str::to_owned)
        });
        Imported { declarations, macs }
    }

    /// The port and interface of a side.
    fn side(&mut self, config: &Node, side: Option<&Node>, device: Option<&str>, n: usize) -> Side {
        let port = PORTS[n % 2];
        let Some(side) = side else {
            let part = if n == 0 { "external-interface" } else { "internal-interface" };
            self.problems.tell(config.line, format!("instance has no queue with an {part}"));
            return Side { interface: port.to_owned(), declarations: Vec::new(), route: None };
        };
        self.problems.known(side, &["ip", "mac", "vlan-tag", "next-hop", "device"]);
        let address: Option<std::net::IpAddr> = self.problems.value(side, "ip");
        let address = address.map(|address| json!(ipnet::IpNet::from(address).to_string()));
        if address.is_none() {
            self.problems.tell(side.line, "ip is missing".to_owned());
        }
        let device = side.text("device").or(device).filter(|device| device.contains(':'));
        let device = device.map_or("null".to_owned(), |device| format!("pci:{device}"));
        let mut first = Map::new();
        first.insert("name".to_owned(), json!(port));
        first.insert("device".to_owned(), json!(device));
        let tag: Option<u16> = self.problems.value(side, "vlan-tag");
        let (mut declarations, mut interface) = (Vec::new(), port.to_owned());
        match tag {
            Some(tag) => {
                interface = format!("{port}.{tag}");
                declarations.push(("port", Value::Object(first)));
                let tagged = json!({ "name": interface, "on": port, "of": "lwaftr", "vlan": tag, "address": address });
                declarations.push(("interface", tagged));
            }
            None => {
                first.insert("address".to_owned(), json!(address));
                declarations.push(("port", Value::Object(first)));
            }
        }
        let next = side.child("next-hop");
        let route = next.and_then(|next| {
            self.problems.known(next, &["ip", "mac", "resolved-mac"]);
            let mac = next.text("mac").map(str::to_owned);
            match next.text("ip") {
                Some(ip) => Some((ip.to_owned(), mac)),
                None => mac.map(|mac| (NEXT[n % 2].to_owned(), Some(mac))),
            }
        });
        if route.is_none() {
            self.problems.tell(side.line, "next-hop is missing, or has neither ip nor mac".to_owned());
        }
        Side { interface, declarations, route }
    }

    /// What is different between the sides.
    fn rules(&mut self, side: Option<&Node>, interface: &str, mtu: u16) -> Value {
        let mut rules = Map::new();
        rules.insert("interfaces".to_owned(), json!([interface]));
        rules.insert("mtu".to_owned(), json!(mtu));
        let Some(side) = side else { return Value::Object(rules) };
        self.problems.known(
            side,
            &[
                "allow-incoming-icmp",
                "generate-icmp-errors",
                "mtu",
                "error-rate-limiting",
                "reassembly",
                "ingress-filter",
                "egress-filter",
                "hairpinning",
                "flow-label",
            ],
        );
        let mut put = |key: &str, value: Option<Value>| value.map(|value| rules.insert(key.to_owned(), value));
        put("mtu", self.problems.value::<u16>(side, "mtu").map(Value::from));
        put("allow_icmp", self.problems.value::<bool>(side, "allow-incoming-icmp").map(Value::from));
        put("icmp_errors", self.problems.value::<bool>(side, "generate-icmp-errors").map(Value::from));
        put("ingress_filter", side.text("ingress-filter").map(Value::from));
        put("egress_filter", side.text("egress-filter").map(Value::from));
        if let Some(limits) = side.child("error-rate-limiting") {
            self.problems.known(limits, &["packets", "period"]);
            let packets: Option<u32> = self.problems.value(limits, "packets");
            let period: Option<u32> = self.problems.value(limits, "period");
            put(
                "error_rate",
                Some(json!({ "packets": packets, "period": period.map(|period| format!("{period} s")) })),
            );
        }
        if let Some(limits) = side.child("reassembly") {
            self.problems.known(limits, &["max-fragments-per-packet", "max-packets"]);
            let one: Option<u32> = self.problems.value(limits, "max-fragments-per-packet");
            let all: Option<u32> = self.problems.value(limits, "max-packets");
            // Room is counted in fragments here: two for each packet.
            let all = all.map(|all| all.saturating_mul(2).min(262_144));
            put("reassembly", Some(json!({ "per_packet": one, "fragments": all })));
        }
        Value::Object(rules)
    }

    /// The softwires, and all addresses of the relay.
    fn softwires(&mut self, table: Option<&Node>, own: Option<Ipv6Addr>) -> (Vec<Value>, Vec<String>) {
        let (mut softwires, mut aftr) = (Vec::new(), BTreeSet::new());
        if let Some(table) = table {
            self.problems.known(table, &["softwire", "version"]);
        }
        for softwire in table.iter().flat_map(|table| &table.children).filter(|child| child.name == "softwire") {
            self.problems.known(softwire, &["ipv4", "psid", "b4-ipv6", "br-address", "port-set", "padding"]);
            let ipv4: Option<Ipv4Addr> = self.problems.required(softwire, "ipv4");
            let b4: Option<Ipv6Addr> = self.problems.required(softwire, "b4-ipv6");
            let br: Option<Ipv6Addr> = self.problems.required(softwire, "br-address");
            let psid: u16 = self.problems.value(softwire, "psid").unwrap_or(0);
            let (mut length, mut reserved) = (0, 0);
            if let Some(sets) = softwire.child("port-set") {
                self.problems.known(sets, &["psid-length", "reserved-ports-bit-count"]);
                length = self.problems.value::<u8>(sets, "psid-length").unwrap_or(0);
                reserved = self.problems.value::<u8>(sets, "reserved-ports-bit-count").unwrap_or(0);
            }
            let (Some(ipv4), Some(b4), Some(br)) = (ipv4, b4, br) else { continue };
            aftr.insert(br);
            let mut entry =
                json!({ "ipv4": ipv4.to_string(), "psid": psid, "b4": b4.to_string(), "aftr": br.to_string() });
            if let Some(entry) = entry.as_object_mut() {
                entry.insert("psid_length".to_owned(), json!(length));
                if reserved > 0 {
                    entry.insert("psid_offset".to_owned(), json!(reserved));
                }
            }
            softwires.push(entry);
        }
        let others = aftr.into_iter().filter(|address| Some(*address) != own);
        (softwires, own.into_iter().chain(others).map(|address| address.to_string()).collect())
    }
}

impl Imported {
    /// As a configuration script.
    pub fn to_lua(&self) -> String {
        let mut script = String::from("-- Ports have to be told their devices where this says null.\n");
        for (port, mac) in PORTS.iter().zip(&self.macs) {
            _ = mac.as_ref().map(|mac| writeln!(script, "-- The MAC address of {port} was {mac}."));
        }
        for (kind, value) in &self.declarations {
            script.push('\n');
            script.push_str(kind);
            script.push(' ');
            lua(&mut script, value, 0);
            script.push('\n');
        }
        script
    }
}

/// Writes a value as Lua does.
fn lua(script: &mut String, value: &Value, depth: usize) {
    let is_flat = |value: &Value| !value.is_object() && !value.is_array();
    match value {
        Value::Object(object) => {
            let fields: Vec<(&String, &Value)> = object.iter().filter(|(_, value)| !value.is_null()).collect();
            let one_line = depth > 0 && fields.iter().all(|(_, value)| is_flat(value));
            script.push('{');
            for (n, (key, value)) in fields.iter().enumerate() {
                separate(script, one_line, n, depth);
                let is_name =
                    key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
                        && !key.starts_with(|first: char| first.is_ascii_digit());
                _ = if is_name { write!(script, "{key} = ") } else { write!(script, "[{}] = ", quoted(key)) };
                lua(script, value, depth + 1);
                if !one_line {
                    script.push(',');
                }
            }
            close(script, one_line, fields.is_empty(), depth);
        }
        Value::Array(list) => {
            let one_line = list.iter().all(is_flat);
            script.push('{');
            for (n, value) in list.iter().enumerate() {
                separate(script, one_line, n, depth);
                lua(script, value, depth + 1);
                if !one_line {
                    script.push(',');
                }
            }
            close(script, one_line, list.is_empty(), depth);
        }
        Value::String(text) => script.push_str(&quoted(text)),
        other => _ = write!(script, "{other}"),
    }
}

fn separate(script: &mut String, one_line: bool, n: usize, depth: usize) {
    match (one_line, n) {
        (true, 0) => script.push(' '),
        (true, _) => script.push_str(", "),
        (false, _) => {
            script.push('\n');
            (0..=depth).for_each(|_| script.push_str("  "));
        }
    }
}

fn close(script: &mut String, one_line: bool, is_empty: bool, depth: usize) {
    if !is_empty && one_line {
        script.push(' ');
    } else if !is_empty {
        script.push('\n');
        (0..depth).for_each(|_| script.push_str("  "));
    }
    script.push('}');
}

/// A text between quotation marks, with whatever it holds.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => _ = write!(quoted, "\\{:03}", u32::from(letter).min(255)),
            letter => quoted.push(letter),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "softwire-config {
  // What customers have.
  binding-table {
    softwire { ipv4 192.0.2.1; psid 3; b4-ipv6 2001:db8::7; br-address 2001:db8:0:1::1;
      port-set { psid-length 6; reserved-ports-bit-count 4; } }
  }
  external-interface { mtu 1480; generate-icmp-errors false; ingress-filter \"ip and len < 100\"; }
  internal-interface { hairpinning false; error-rate-limiting { packets 7; period 3; } reassembly { max-fragments-per-packet 9; } }
  instance { device 0000:01:00.0; queue { id 0;
    external-interface { ip 10.0.0.1; mac 02:00:00:00:00:01; vlan-tag 5; next-hop { mac 02:00:00:00:00:09; } }
    internal-interface { ip 2001:db8::1; mac 02:00:00:00:00:02; next-hop { ip 2001:db8::9; } }
  } }
}";

    #[test]
    fn everything_that_is_said_is_kept() {
        let imported = import(SMALL).unwrap();
        let expected = [
            ("port", json!({ "name": "internet", "device": "null" })),
            (
                "interface",
                json!({ "name": "internet.5", "on": "internet", "of": "lwaftr", "vlan": 5, "address": "10.0.0.1/32" }),
            ),
            ("port", json!({ "name": "access", "device": "pci:0000:01:00.0", "address": "2001:db8::1/128" })),
            (
                "lwaftr",
                json!({
                    "ports": ["internet", "access"], "aftr": ["2001:db8::1", "2001:db8:0:1::1"],
                    "prefixes": ["0.0.0.0/0", "::/0"], "echo_port": "zero", "hairpinning": false,
                    "ipv4": { "interfaces": ["internet.5"], "mtu": 1480, "icmp_errors": false, "ingress_filter": "ip and len < 100" },
                    "ipv6": {
                        "interfaces": ["access"], "mtu": 1500, "error_rate": { "packets": 7, "period": "3 s" },
                        "reassembly": { "per_packet": 9, "fragments": null },
                    },
                    "routes": { "0.0.0.0/0": "192.0.0.8%internet.5", "::/0": "2001:db8::9%access" },
                    "neighbors": { "192.0.0.8%internet.5": "02:00:00:00:00:09" },
                    "softwires": [{
                        "ipv4": "192.0.2.1", "psid": 3, "b4": "2001:db8::7", "aftr": "2001:db8:0:1::1", "psid_length": 6, "psid_offset": 4,
                    }],
                }),
            ),
        ];
        assert_eq!(imported.declarations, expected);
        assert_eq!(imported.macs, ["02:00:00:00:00:01", "02:00:00:00:00:02"].map(|mac| Some(mac.to_owned())));
        let lua = imported.to_lua();
        assert!(
            lua.contains("[\"0.0.0.0/0\"] = \"192.0.0.8%internet.5\"") && lua.contains("hairpinning = false"),
            "{lua}"
        );
    }

    #[test]
    fn what_makes_no_sense_is_told_with_its_line() {
        let wrong = |from: &str, to: &str| import(&SMALL.replace(from, to)).unwrap_err();
        assert_eq!(wrong("psid 3;", "psid x;"), ["line 4: psid: \"x\" is not a number from 0 to 65535"]);
        assert_eq!(wrong("b4-ipv6 2001:db8::7;", ""), ["line 4: softwire: b4-ipv6 is missing"]);
        assert_eq!(wrong("mtu 1480;", "mut 1480;"), ["line 7: mut is not known in external-interface"]);
        assert_eq!(wrong("hairpinning false", "hairpinning no"), ["line 8: hairpinning: \"no\" is not true or false"]);
        assert_eq!(
            wrong("next-hop { ip 2001:db8::9; }", ""),
            ["line 11: next-hop is missing, or has neither ip nor mac"]
        );
        assert!(import("softwire-config {").unwrap_err()[0].starts_with("line 1: "));
        assert!(import("} {").is_err());
    }

    #[test]
    fn texts_are_quoted() {
        assert_eq!(quoted("a\"b\\c\n"), "\"a\\\"b\\\\c\\010\"");
    }
}
