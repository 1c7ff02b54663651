//! Traffic by a binding table, from either side of a lwAFTR: what is in a packet is looked up in the table, by the definition of port sets.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use crate::common;

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use common::{checksum, errors_in, frames_in};
use serde_json::{Value, json};

/// A softwire.
#[derive(Clone, Debug, PartialEq)]
struct Softwire {
    b4: Ipv6Addr,
    aftr: Ipv6Addr,
    ipv4: Ipv4Addr,
    psid: u16,
    length: u32,
    offset: u32,
}

impl Softwire {
    /// Whether a port is one of its ports (RFC 7597 section 5.1).
    fn has(&self, port: u16) -> bool {
        let (front, behind) = (u32::from(port) >> (16 - self.offset), 16 - self.offset - self.length);
        let psid = u32::from(port) >> behind & ((1 << self.length) - 1);
        (self.offset == 0 || front > 0) && psid == u32::from(self.psid)
    }

    fn line(&self) -> String {
        let Softwire { b4, aftr, ipv4, psid, length, offset } = self;
        format!("home {psid},{b4},{ipv4},{psid},{length},{offset},{aftr}\n")
    }
}

/// Softwires of addresses that are shared in several ways, their tunnels' ends all over the address space.
fn softwires() -> Vec<Softwire> {
    let shapes = [(6, 0), (4, 4), (0, 0), (8, 8), (1, 15)];
    let all = shapes.into_iter().zip(1..).flat_map(|((length, offset), address)| {
        (0..1_u32 << length).map(move |psid| Softwire {
            b4: Ipv6Addr::new(0x2001, 0xdb8, psid as u16, address, 0x1111 * address, 0, 0, 1 + psid as u16),
            aftr: Ipv6Addr::new(0x2001, 0xdb9, 0, 0, 0, 0, 0, address),
            ipv4: Ipv4Addr::new(192, 0, 2, address as u8),
            psid: psid as u16,
            length,
            offset,
        })
    });
    all.collect()
}

/// A folder that goes away at the end.
struct Folder(PathBuf);

impl Folder {
    fn with(name: &str, table: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("weir-gen-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("softwires.csv"), table).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn table() -> String {
    let lines: String = softwires().iter().map(Softwire::line).collect();
    format!("customer,b4,ipv4,psid,psid_length,psid_offset,aftr\n{lines}")
}

/// A stream of packets of the layers, a row for each.
fn stream(rows: &str, layers: &Value) -> Value {
    let stream = json!({ "port": "a", "size": "110", "table": "softwires.csv", "rows": rows, "layers": layers });
    json!({ "streams": [stream] })
}

fn from_b4s() -> Value {
    json!([
        { "ethernet": {} },
        { "ipv6": { "source": "column b4", "destination": "column aftr" } },
        { "ipv4": { "source": "column ipv4", "destination": "198.18.0.0/15 random" } },
        { "udp": { "source": "port set", "destination": 53 } },
    ])
}

fn to_b4s() -> Value {
    json!([
        { "ethernet": {} },
        { "ipv4": { "source": "198.18.0.0/15 random", "destination": "column ipv4" } },
        { "tcp": { "source": 443, "destination": "port set" } },
    ])
}

fn address(bytes: &[u8]) -> Ipv4Addr {
    Ipv4Addr::from(<[u8; 4]>::try_from(bytes).unwrap())
}

fn address6(bytes: &[u8]) -> Ipv6Addr {
    Ipv6Addr::from(<[u8; 16]>::try_from(bytes).unwrap())
}

fn port(bytes: &[u8]) -> u16 {
    u16::from_be_bytes(bytes.try_into().unwrap())
}

/// Whether the checksums of an IPv4 packet are right, by the definition.
fn is_right(packet: &[u8]) -> bool {
    let datagram = &packet[20..];
    let pseudo = [&packet[12..20], &[0, packet[9]], &(datagram.len() as u16).to_be_bytes(), datagram].concat();
    checksum(&packet[..20]) == 0 && checksum(&pseudo) == 0
}

/// The softwire of a packet from a B4, which all of the packet must agree with.
fn softwire_of(all: &[Softwire], frame: &[u8]) -> usize {
    let (outer, inner) = (&frame[14..54], &frame[54..]);
    assert!(is_right(inner), "{inner:02x?}");
    let (b4, aftr, source, port) =
        (address6(&outer[8..24]), address6(&outer[24..40]), address(&inner[12..16]), port(&inner[20..22]));
    let found = all.iter().position(|softwire| softwire.b4 == b4);
    let found = found.unwrap_or_else(|| panic!("{b4} is in no row"));
    let softwire = &all[found];
    assert_eq!((softwire.aftr, softwire.ipv4), (aftr, source), "row {found}");
    assert!(softwire.has(port), "port {port} is not one of {softwire:?}");
    found
}

#[test]
fn what_b4s_send_is_their_rows() {
    let (all, folder) = (softwires(), Folder::with("b4s", &table()));
    let frames = frames_in(&folder.0, &stream("in turn", &from_b4s()), 2 * all.len() + 9);
    for (n, frame) in frames.iter().enumerate() {
        assert_eq!(softwire_of(&all, frame), n % all.len());
    }
    let count = 40 * all.len();
    let frames = frames_in(&folder.0, &stream("random", &from_b4s()), count);
    let mut hits = vec![0_u32; all.len()];
    frames.iter().for_each(|frame| hits[softwire_of(&all, frame)] += 1);
    // Of 40 on average, six standard deviations of a binomial distribution.
    assert!(hits.iter().all(|hits| (2..=78).contains(hits)), "{hits:?}");
    let ports: std::collections::HashSet<&[u8]> = frames.iter().map(|frame| &frame[74..76]).collect();
    assert!(ports.len() > count / 3, "ports vary: {} of {count}", ports.len());
    assert!(frames.windows(2).any(|two| softwire_of(&all, &two[0]) > softwire_of(&all, &two[1])), "in no order");
}

#[test]
fn what_is_sent_to_softwires_is_theirs() {
    let (all, folder) = (softwires(), Folder::with("internet", &table()));
    let owner = |frame: &[u8]| {
        assert!(is_right(&frame[14..]));
        let (to, port) = (address(&frame[30..34]), port(&frame[36..38]));
        let mut owners = all.iter().enumerate().filter(|(_, softwire)| softwire.ipv4 == to && softwire.has(port));
        let (found, _) = owners.next().unwrap_or_else(|| panic!("{to} port {port} is nobody's"));
        assert!(owners.next().is_none());
        found
    };
    let frames = frames_in(&folder.0, &stream("in turn", &to_b4s()), 2 * all.len());
    for (n, frame) in frames.iter().enumerate() {
        assert_eq!(owner(frame), n % all.len());
    }
    let mut hits = HashMap::new();
    let frames = frames_in(&folder.0, &stream("random", &to_b4s()), 40 * all.len());
    frames.iter().for_each(|frame| *hits.entry(owner(frame)).or_insert(0) += 1);
    assert_eq!(hits.len(), all.len());
}

/// Where a table does not say how ports are divided, the stream does; and a table may have ranges of ports.
#[test]
fn port_sets_come_from_keys_and_from_ranges() {
    let lines = "ipv4,psid,psid_length,ports\n192.0.2.1,5,,5000-5009\n192.0.2.2,63,,80\n192.0.2.3,9,4,0-65535\n";
    let folder = Folder::with("keys", lines);
    let sent = |field: &str, kind: &Value| {
        let ip = json!({ "ipv4": { "source": "column" } });
        let mut layers = json!([{ "ethernet": {} }, ip, kind]);
        layers[1]["ipv4"]["source"] = "column ipv4".into();
        let mut config = stream("in turn", &layers);
        config["streams"][0]["port_sets"] = json!({ "psid_length": 6, "psid_offset": 2 });
        let frames = frames_in(&folder.0, &config, 300);
        let at = if field == "identifier" { 38 } else { 34 };
        frames.iter().map(|frame| (frame[29], port(&frame[at..at + 2]))).collect::<Vec<_>>()
    };
    let sets = [(5, 6, 2), (63, 6, 2), (9, 4, 2)].map(|(psid, length, offset)| Softwire {
        psid,
        length,
        offset,
        ..softwires()[0].clone()
    });
    for (field, kind) in [
        ("source", json!({ "udp": { "source": "port set" } })),
        ("identifier", json!({ "icmp": { "identifier": "port set" } })),
    ] {
        for (host, port) in sent(field, &kind) {
            assert!(sets[usize::from(host) - 1].has(port), "{host} {port}");
        }
    }
    let ranges = sent("source", &json!({ "tcp": { "source": "column ports" } }));
    for (n, (host, port)) in ranges.iter().enumerate() {
        assert_eq!(usize::from(*host), 1 + n % 3);
        assert!([5000..=5009, 80..=80, 0..=65_535][n % 3].contains(port), "{host} {port}");
    }
    assert!((5000..=5009).all(|port| ranges.contains(&(1, port))), "each port of a range comes");
    let folder = Folder::with("ports", "ports\n80\n443\n65535\n");
    let layers = json!([{ "ethernet": {} }, { "ipv4": {} }, { "udp": { "destination": "column ports" } }]);
    let single = frames_in(&folder.0, &stream("in turn", &layers), 90);
    assert!(single.iter().enumerate().all(|(n, frame)| port(&frame[36..38]) == [80, 443, 65_535][n % 3]));
}

#[test]
fn a_seed_gives_the_same_rows_and_ports() {
    let folder = Folder::with("seed", &table());
    let frames = |seed: u64, workers: &Path| {
        let mut config = stream("random", &from_b4s());
        config["seed"] = seed.into();
        frames_in(workers, &config, 200)
    };
    assert_eq!(frames(1, &folder.0), frames(1, &folder.0));
    assert_ne!(frames(1, &folder.0), frames(2, &folder.0));
}

#[test]
fn mistakes_in_tables_are_told_at_once() {
    let lines = "ipv4,psid,psid_length,b4,aftr\n192.0.2.1,64,6,2001:db8::1,::1\n192.0.2.2,1,17,nobody,::1\n192.0.2.3,,x,::2,::1\n";
    let folder = Folder::with("mistakes", lines);
    let told = errors_in(Some(&folder.0), &stream("random", &from_b4s()));
    let expected = [
        "softwires.csv:2:11: psid: \"64\" is no PSID of 6 bits behind 0 others",
        "softwires.csv:3:16: b4: \"nobody\" is no value of 128 bits",
        "softwires.csv:3:11: psid: \"1\" is no PSID of 17 bits behind 0 others",
        "softwires.csv:4:12: psid_length: \"x\" is no number of bits",
        "softwires.csv:4:11: psid: \"\" is no PSID of 0 bits behind 0 others",
    ];
    assert_eq!(told, expected);
    let told = |layers: Value| errors_in(Some(&folder.0), &stream("random", &layers)).join("\n");
    let ip = |source: Value| json!([{ "ethernet": {} }, { "ipv4": { "source": source } }, { "udp": {} }]);
    assert!(told(ip("column ipv6".into())).contains("has no column \"ipv6\""));
    let both = told(ip(json!(["column ipv4", "192.0.2.7"])));
    assert!(both.contains("layers[2]: takes ipv4.source from a table and from elsewhere"), "{both}");
    assert!(told(ip("192.0.2.7".into())).contains("no field is \"column\""));
    assert!(told(ip("port set".into())).contains("is not an IPv4 address"));
    let none = errors_in(None, &json!({ "streams": [{ "port": "a", "rows": "random" }] }));
    assert!(none[0].contains("table: has no table to take rows of"), "{none:?}");
    let empty = Folder::with("empty", "ipv4,psid,psid_length,b4,aftr\n");
    assert!(errors_in(Some(&empty.0), &stream("random", &to_b4s()))[0].contains("has no rows"));
}
