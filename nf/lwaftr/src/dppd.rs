//! Reads the binding table of the lwAFTR of DPPD-BNG and PROX (`ipv6_tun_bind.csv`: the B4's IPv6 address, the MAC address of the next hop, the public IPv4
//! address, a port), and writes it as a configuration of Weir's.
//!
//! Which bits of a port tell customers apart stands not in the table but in the configuration of the cores, and so do the relay's own address and the
//! next hop on the Internet's side: `lookup port mask`, `local ipv6`, `dst mac`. So what is read is both, one behind the other; of the
//! configuration, other keys mean nothing here.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Map, Value, json};
use weir_wire::MacAddr;

use crate::snabb::Imported;

/// The addresses of the ports where nothing is said, and of what stands for next hops of which a MAC address alone is known.
const OWN4: &str = "192.0.0.8/32";
const NEXT4: &str = "192.0.0.9%internet";

/// A row of the table.
struct Binding {
    b4: Ipv6Addr,
    mac: MacAddr,
    ipv4: Ipv4Addr,
    port: u16,
}

/// What the configuration says.
#[derive(Default)]
struct Said {
    mask: Option<u16>,
    aftr: Option<Ipv6Addr>,
    internet: Option<MacAddr>,
}

/// Reads lines of the configuration, and the table.
///
/// # Errors
///
/// Everything in it that makes no sense, each with its line.
pub(crate) fn import(text: &str) -> Result<Imported, Vec<String>> {
    let (mut said, mut rows, mut problems) = (Said::default(), Vec::new(), Vec::new());
    for (n, line) in (1_usize..).zip(text.lines()) {
        let line = line.split(['#', ';']).next().unwrap_or_default().trim();
        let read = match line.split_once('=') {
            _ if line.is_empty() || line.starts_with('[') => Ok(()),
            Some((key, value)) => said.read(key.trim(), value.trim()),
            None => binding(line).map(|row| rows.push((n, row))),
        };
        problems.extend(read.err().map(|problem| format!("line {n}: {problem}")));
    }
    let missing = |key: &str, example: &str| {
        format!("{key} is missing: put that line of the configuration in front of the table, such as {key}={example}")
    };
    problems.extend(said.mask.is_none().then(|| missing("lookup port mask", "0xffc0")));
    problems.extend(said.aftr.is_none().then(|| missing("local ipv6", "2001:db8:a::1")));
    let (Some(mask), Some(aftr)) = (said.mask, said.aftr) else { return Err(problems) };
    let bits = mask.leading_ones();
    let mut seen: BTreeMap<(Ipv4Addr, u16), usize> = BTreeMap::new();
    let mut softwires = Vec::with_capacity(rows.len());
    for (n, row) in &rows {
        let psid = (u32::from(row.port) >> (16 - bits)) as u16;
        if let Some(first) = seen.insert((row.ipv4, psid), *n) {
            problems.push(format!("line {n}: port {} of {} is in the set of line {first}", row.port, row.ipv4));
        }
        softwires.push(json!({ "ipv4": row.ipv4.to_string(), "psid": psid, "b4": row.b4.to_string() }));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Imported { declarations: declarations(&said, (aftr, bits), &rows, softwires), macs: [None, None] })
}

impl Said {
    fn read(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "lookup port mask" => self.mask = Some(mask(value)?),
            "local ipv6" => self.aftr = Some(parsed(key, value, "an IPv6 address")?),
            // That of the core that encapsulates is "packet", or the table's.
            "dst mac" => self.internet = value.parse().ok().or(self.internet),
            _ => {}
        }
        Ok(())
    }
}

fn parsed<T: std::str::FromStr>(what: &str, text: &str, kind: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{what}: \"{text}\" is not {kind}"))
}

/// A mask whose bits all stand in front: others have port sets that no standard knows.
fn mask(text: &str) -> Result<u16, String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let mask = digits.map_or_else(|| text.parse(), |digits| u16::from_str_radix(digits, 16));
    let mask = mask.map_err(|_| format!("lookup port mask: \"{text}\" is not a number such as 0xffc0"))?;
    match mask.leading_ones() == mask.count_ones() {
        true => Ok(mask),
        false => Err(format!(
            "lookup port mask: {text} does not begin at the first bit of a port; by RFC 7597 ports below {} would be nobody's then, which were \
             somebody's by the mask. Write port sets by hand (psid_length, psid_offset)",
            1_u32 << (16 - mask.leading_zeros())
        )),
    }
}

fn binding(line: &str) -> Result<Binding, String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [b4, mac, ipv4, port] = fields.as_slice() else {
        return Err(format!(
            "{} fields stand here, not four: B4 address, MAC address, IPv4 address, port",
            fields.len()
        ));
    };
    Ok(Binding {
        b4: parsed("B4", b4, "an IPv6 address")?,
        mac: parsed("MAC", mac, "a MAC address")?,
        ipv4: parsed("IPv4", ipv4, "an IPv4 address")?,
        port: parsed("port", port, "a number from 0 to 65535")?,
    })
}

fn declarations(
    said: &Said,
    (aftr, bits): (Ipv6Addr, u32),
    rows: &[(usize, Binding)],
    softwires: Vec<Value>,
) -> Vec<(&'static str, Value)> {
    let mut counts: BTreeMap<[u8; 6], usize> = BTreeMap::new();
    rows.iter().for_each(|(_, row)| *counts.entry(row.mac.0).or_default() += 1);
    // Most customers' next hop has all that no other has.
    let usual = counts.iter().max_by_key(|(_, count)| **count).map(|(mac, _)| *mac);
    let via = |n: usize| format!("fe80::8:{n:x}%access");
    let vias: BTreeMap<[u8; 6], String> = counts.keys().copied().zip((0..).map(via)).collect();
    let (mut routes, mut neighbors) = (Map::new(), Map::new());
    neighbors.extend(vias.iter().map(|(mac, via)| (via.clone(), json!(MacAddr(*mac).to_string()))));
    let others = rows.iter().filter(|(_, row)| Some(row.mac.0) != usual);
    routes.extend(others.filter_map(|(_, row)| Some((format!("{}/128", row.b4), json!(vias.get(&row.mac.0)?)))));
    routes.extend(usual.and_then(|mac| vias.get(&mac)).map(|via| ("::/0".to_owned(), json!(via))));
    if let Some(mac) = said.internet {
        routes.insert("0.0.0.0/0".to_owned(), json!(NEXT4));
        neighbors.insert(NEXT4.to_owned(), json!(mac.to_string()));
    }
    let port = |name: &str, address: String| json!({ "name": name, "device": "null", "address": address });
    let relay = json!({
        "ports": ["internet", "access"],
        "aftr": aftr.to_string(),
        "port_sets": { "0.0.0.0/0": { "psid_length": bits } },
        "routes": routes,
        "neighbors": neighbors,
        "softwires": softwires,
    });
    let ports = [("internet", OWN4.to_owned()), ("access", format!("{aftr}/128"))];
    ports.map(|(name, address)| ("port", port(name, address))).into_iter().chain([("lwaftr", relay)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "[core 1s0]\nname=decap\nlookup port mask=0xffc0\nlocal ipv6=2001:db8:a::1 ; ours\ndst mac=02:00:00:00:00:09\n\
                         fe80::1,fe:80:00:00:00:01,198.51.100.1,4097\n\
                         2001:db8::2, fe:80:00:00:00:02, 198.51.100.1, 64 # the second set\n\
                         2001:db8::3,fe:80:00:00:00:02,198.51.100.2,0\n";

    #[test]
    fn the_table_and_the_mask_are_softwires() {
        let imported = import(SMALL).unwrap();
        let (kind, relay) = &imported.declarations[2];
        assert_eq!(*kind, "lwaftr");
        assert_eq!(relay["port_sets"], json!({ "0.0.0.0/0": { "psid_length": 10 } }));
        assert_eq!(
            relay["softwires"],
            json!([
                { "ipv4": "198.51.100.1", "psid": 64, "b4": "fe80::1" },
                { "ipv4": "198.51.100.1", "psid": 1, "b4": "2001:db8::2" },
                { "ipv4": "198.51.100.2", "psid": 0, "b4": "2001:db8::3" },
            ])
        );
        let routes = json!({
            "0.0.0.0/0": "192.0.0.9%internet", "::/0": "fe80::8:1%access", "fe80::1/128": "fe80::8:0%access",
        });
        assert_eq!(relay["routes"], routes);
        assert_eq!(relay["neighbors"]["fe80::8:1%access"], "fe:80:00:00:00:02");
        assert_eq!(imported.declarations[1].1["address"], "2001:db8:a::1/128");
    }

    /// Whose a port is, is what the mask said: for each mask, and each port, by the keys of the predecessor's table.
    #[test]
    fn port_sets_are_those_of_the_mask() {
        for bits in 0..=16_u32 {
            let mask = (0xffff_0000_u32 >> bits) as u16;
            let sets = weir_wire::port_sets::PortSets::new(bits as u8, 0).unwrap();
            let of = |port: u16| (u32::from(port) >> (16 - bits)) as u16;
            assert!(
                (0..=u16::MAX).all(|port| sets.psid(port) == Some(of(port)) && of(port) == of(port & mask)),
                "{bits}"
            );
        }
    }

    #[test]
    fn what_makes_no_sense_is_told_with_its_line() {
        let wrong = |from: &str, to: &str| import(&SMALL.replace(from, to)).unwrap_err();
        assert!(wrong("lookup port mask=0xffc0\n", "")[0].starts_with("lookup port mask is missing"));
        assert!(wrong("local ipv6=2001:db8:a::1 ; ours\n", "")[0].starts_with("local ipv6 is missing"));
        assert!(wrong("0xffc0", "0x0fc0")[0].starts_with("line 3: lookup port mask: 0x0fc0 does not begin"));
        assert_eq!(
            wrong("198.51.100.2,0", "198.51.100.2,65536"),
            ["line 8: port: \"65536\" is not a number from 0 to 65535"]
        );
        assert_eq!(
            wrong(",0\n", "\n"),
            ["line 8: 3 fields stand here, not four: B4 address, MAC address, IPv4 address, port"]
        );
        assert_eq!(
            wrong("198.51.100.2,0", "198.51.100.1,127"),
            ["line 8: port 127 of 198.51.100.1 is in the set of line 7"]
        );
    }
}
