//! Tables of scripts that are changed by commands while packets flow, against what is said of them.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicBool, Ordering};

use ipnet::IpNet;
use serde_json::{Value, json};
use weir_mem::Domain;
use weir_stage::harness::{Boxed, Harness};
use weir_stage::{Random, ShowRows};

use super::*;

/// Byte 0 says which table is asked, and what stands from byte 4 on is the key: 0 and 1 the prefixes of either family, 2 the numbers, 3 the meters. What
/// is found goes to byte 24.
const ASK: &str = "local function ask(b, table, kinds)\n\
    for i = 1, b:count() do\n\
        local kind = kinds[b:u8(i, 0)]\n\
        if kind == 4 then b:key(i, b:u32(i, 4)) elseif kind == 6 then b:key6(i, 4) end\n\
    end\n\
    b:look_up(table)\n\
    for i = 1, b:count() do if kinds[b:u8(i, 0)] then b:set_u32(i, 24, b:found(i) or 0xffffffff) end end\n\
end\n\
function run(b)\n\
    ask(b, 'users', { [2] = 4 }) ask(b, 'limits', { [3] = 4 }) ask(b, 'routes', { [0] = 4, [1] = 6 })\n\
end";

const NOTHING: u32 = u32::MAX;

fn packet(table: u8, key: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 300];
    packet[0] = table;
    packet[4..4 + key.len()].copy_from_slice(key);
    packet
}

fn found(packet: &[u8]) -> u32 {
    u32::from_be_bytes(packet[24..28].try_into().unwrap())
}

/// A configuration with three tables.
fn configuration(place: &Place, prefixes: &BTreeMap<IpNet, u32>, numbers: &BTreeMap<u64, u32>) -> std::path::PathBuf {
    place.write("ask.lua", ASK);
    let prefixes: Vec<String> = prefixes.iter().map(|(prefix, value)| format!("['{prefix}'] = {value}")).collect();
    let numbers: String = numbers.iter().map(|(number, value)| format!("{number},{value}\n")).collect();
    place.write("numbers.csv", &format!("number,value\n{numbers}"));
    let tables = format!(
        "routes = {{ prefixes = {{ {} }}, max_added = 20 }}, users = {{ numbers_csv = 'numbers.csv', max_added = 20 }},\n\
         limits = {{ meters = 8, rate = '8 bit/s', burst = '1000 B', own = {{ {{ meter = 1, rate = '8 bit/s', burst = '600 B' }} }} }}",
        prefixes.join(", ")
    );
    place.write(
        "config.lua",
        &format!("{PORTS}lua {{ file = 'ask.lua', paths = {{ 'a -> b' }}, tables = {{ {tables} }} }}"),
    )
}

/// All rows of a table of tables.
fn rows(instance: &dyn weir_stage::Instance, what: &str, filter: Option<&str>) -> Vec<Value> {
    all(instance.show(what, filter, 0).unwrap())
}

fn all<R>(mut rows: Box<dyn ShowRows<R>>) -> Vec<R> {
    std::iter::from_fn(|| Some(rows.piece()).filter(|piece| !piece.is_empty())).flatten().collect()
}

fn ask(rig: &Rig, verb: &str, arguments: Value) -> Result<Value, String> {
    rig.instance.request(verb, &arguments, 0).map_err(|error| error.0)
}

/// What is said of a table, in the plainest way: two lists, of which that of commands counts.
#[derive(Clone, Default)]
struct Twin {
    config: BTreeMap<String, u32>,
    said: BTreeMap<String, u32>,
}

impl Twin {
    fn counts(&self) -> BTreeMap<String, u32> {
        self.config.iter().chain(&self.said).map(|(key, value)| (key.clone(), *value)).collect()
    }

    /// Whether a request is right, and what it says.
    fn ask(&mut self, verb: &str, key: &str, value: u32) -> bool {
        let there = self.counts().contains_key(key);
        let added = self.said.keys().filter(|key| !self.config.contains_key(*key)).count();
        let fits = self.counts().contains_key(key) || added < 20;
        match verb {
            "table add" if there || !fits => false,
            "table set" if !fits => false,
            "table del" => self.said.remove(key).is_some(),
            _ => {
                self.said.insert(key.to_owned(), value);
                true
            }
        }
    }
}

/// A prefix out of few, which lie in one another.
fn prefix(random: &mut Random) -> IpNet {
    let bits = random.below(8) as u32;
    let net = match random.below(2) {
        0 => {
            let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 | (bits & 1) << 20 | (bits >> 1 & 3) << 3);
            IpNet::new(address.into(), [0, 8, 12, 24, 29, 32][random.position(6)])
        }
        _ => {
            let address =
                Ipv6Addr::from_bits(0x2001_0db8_u128 << 96 | u128::from(bits & 1) << 80 | u128::from(bits >> 1));
            IpNet::new(address.into(), [0, 32, 48, 64, 127, 128][random.position(6)])
        }
    };
    net.unwrap().trunc()
}

/// The value of the longest of these prefixes that holds an address.
fn longest(prefixes: &BTreeMap<String, u32>, address: std::net::IpAddr) -> u32 {
    let all = prefixes.iter().map(|(prefix, value)| (prefix.parse::<IpNet>().unwrap(), *value));
    let holding = all.filter(|(prefix, _)| prefix.contains(&address));
    holding.max_by_key(|(prefix, _)| prefix.prefix_len()).map_or(NOTHING, |(_, value)| value)
}

/// What is found is what the twin says, for packets of all keys.
fn check(rig: &mut Rig, routes: &Twin, users: &Twin) {
    let mut packets = Vec::new();
    let mut due = Vec::new();
    for bits in 0..64_u32 {
        let four = std::net::Ipv4Addr::from_bits(0x0a00_0000 | (bits & 1) << 20 | (bits >> 1));
        let six = Ipv6Addr::from_bits(0x2001_0db8_u128 << 96 | u128::from(bits & 1) << 80 | u128::from(bits >> 1));
        packets.extend([packet(0, &four.octets()), packet(1, &six.octets()), packet(2, &bits.to_be_bytes())]);
        due.extend([longest(&routes.counts(), four.into()), longest(&routes.counts(), six.into())]);
        due.push(users.counts().get(&bits.to_string()).copied().unwrap_or(NOTHING));
    }
    rig.send(0, &packets);
    let got: Vec<u32> = rig.handles[1].received().iter().map(|packet| found(packet)).collect();
    assert_eq!(got, due);
    let shown: BTreeMap<(String, String), (u64, String)> = rows(&*rig.instance, "entries", None)
        .iter()
        .filter(|row| row["table"] != "limits")
        .map(|row| {
            let text = |column: &str| row[column].as_str().unwrap().to_owned();
            ((text("table"), text("key")), (row["value"].as_u64().unwrap(), text("source")))
        })
        .collect();
    let mut said = BTreeMap::new();
    for (name, twin) in [("routes", routes), ("users", users)] {
        for (key, value) in twin.counts() {
            let source = if twin.said.contains_key(&key) { "cli" } else { "config" };
            said.insert((name.to_owned(), key), (u64::from(value), source.to_owned()));
        }
    }
    assert_eq!(shown, said);
}

fn config_of(routes: &Twin, users: &Twin) -> (BTreeMap<IpNet, u32>, BTreeMap<u64, u32>) {
    let routes = routes.config.iter().map(|(prefix, value)| (prefix.parse().unwrap(), *value)).collect();
    (routes, users.config.iter().map(|(number, value)| (number.parse().unwrap(), *value)).collect())
}

#[test]
fn tables_are_as_the_twin_says_whatever_is_asked_and_reloaded() {
    let place = Place::new("commands");
    let mut random = Random::new(14);
    let (mut routes, mut users) = (Twin::default(), Twin::default());
    let configure = |random: &mut Random, routes: &mut Twin, users: &mut Twin| {
        routes.config =
            (0..random.below(6)).map(|_| (prefix(random).to_string(), random.below(1 << 31) as u32 / 2)).collect();
        users.config = (0..random.below(9)).map(|_| (random.below(40).to_string(), random.below(99) as u32)).collect();
        let (prefixes, numbers) = config_of(routes, users);
        configuration(&place, &prefixes, &numbers)
    };
    let file = configure(&mut random, &mut routes, &mut users);
    let mut rig = Rig::new(&file);
    let mut refused = 0;
    for step in 0..1500 {
        let verb = ["table add", "table add", "table set", "table del"][random.position(4)];
        let value = random.below(1 << 31) as u32 / 2;
        let (table, twin, key) = match random.below(2) {
            0 => ("routes", &mut routes, prefix(&mut random).to_string()),
            _ => ("users", &mut users, random.below(40).to_string()),
        };
        let done = ask(&rig, verb, json!({ "table": table, "key": key, "value": value }));
        let due = twin.ask(verb, &key, value);
        assert_eq!(done.is_ok(), due, "{verb} {table} {key}: {done:?}");
        refused += u32::from(!due);
        if step % 50 == 0 {
            check(&mut rig, &routes, &users);
        }
        if step % 300 == 299 {
            // What was added beyond what the next configuration has room for would be refused: it is less here.
            for (table, twin) in [("routes", &mut routes), ("users", &mut users)] {
                while twin.said.len() > 10 {
                    let (key, _) = twin.said.pop_first().unwrap();
                    ask(&rig, "table del", json!({ "table": table, "key": key })).unwrap();
                }
            }
            let file = configure(&mut random, &mut routes, &mut users);
            rig.reload(&file).unwrap();
            check(&mut rig, &routes, &users);
        }
    }
    assert!(refused > 100, "{refused}");
    assert_eq!(rig.drops(), BTreeMap::new());
    rig.stop();
}

#[test]
fn a_list_is_carried_out_whole_or_not_at_all() {
    let place = Place::new("whole");
    let rig = Rig::new(&configuration(&place, &BTreeMap::new(), &BTreeMap::from([(1, 10)])));
    let entry = |key: u32, value: &str| json!({ "table": "users", "key": key.to_string(), "value": value });
    let before = rows(&*rig.instance, "entries", None);
    // The first is changed twice on the way.
    let list = json!([entry(2, "20"), entry(1, "11"), entry(2, "21"), entry(3, "x")]);
    assert_eq!(
        ask(&rig, "table set", list),
        Err("entry 4: value: \"x\" is not an integer from 0 to 2147483646".to_owned())
    );
    assert_eq!(rows(&*rig.instance, "entries", None), before);
    let list = json!([entry(2, "20"), entry(1, "11")]);
    assert_eq!(ask(&rig, "table set", list), Ok(json!({ "changed": 2 })));
    let shown: Vec<(Value, Value)> = rows(&*rig.instance, "entries", Some("users"))
        .iter()
        .map(|row| (row["key"].clone(), row["value"].clone()))
        .collect();
    assert_eq!(shown, [(json!("1"), json!(11)), (json!("2"), json!(20))]);
    rig.stop();
}

/// All meters have 1000 bytes at once, and next to nothing afterwards.
#[test]
fn a_meter_has_a_rate_of_its_own_until_it_is_taken_back() {
    let place = Place::new("meters");
    let mut rig = Rig::new(&configuration(&place, &BTreeMap::new(), &BTreeMap::new()));
    // How many of four packets of 300 bytes keep to the rate.
    let pass = |rig: &mut Rig, meter: u32| {
        rig.send(0, &vec![packet(3, &meter.to_be_bytes()); 4]);
        rig.handles[1].received().iter().filter(|packet| found(packet) == 1).count()
    };
    assert_eq!((pass(&mut rig, 0), pass(&mut rig, 1)), (3, 2), "as all others, and 600 bytes by the configuration");
    let limit = |meter: u32, burst: &str| json!({ "table": "limits", "key": meter, "rate": "8bit/s", "burst": burst });
    ask(&rig, "table add", limit(2, "300B")).unwrap();
    assert_eq!(pass(&mut rig, 2), 1);
    ask(&rig, "table set", json!({ "table": "limits", "key": 3, "burst": "900B" })).unwrap();
    assert_eq!(pass(&mut rig, 3), 3);
    ask(&rig, "table set", limit(1, "1000B")).unwrap();
    assert_eq!(pass(&mut rig, 1), 0, "what it has left counts on");
    ask(&rig, "table add", limit(4, "300B")).unwrap();
    ask(&rig, "table del", json!({ "table": "limits", "key": 4 })).unwrap();
    assert_eq!(pass(&mut rig, 4), 3, "as all others again");
    let shown: Vec<Value> = rows(&*rig.instance, "entries", Some("limits"));
    let row = |key: &str, burst: &str| json!({ "table": "limits", "key": key, "value": null, "rate": "8 bit/s", "burst": burst, "source": "cli" });
    assert_eq!(shown, [row("1", "1000 B"), row("2", "300 B"), row("3", "900 B")]);
    let of = |table: &str, looks_up: &str, entries: u32, added: u32, most: u32| json!({ "table": table, "looks_up": looks_up, "entries": entries, "added": added, "max_added": most });
    assert_eq!(
        rows(&*rig.instance, "tables", None),
        [of("limits", "meters", 3, 3, 4096), of("routes", "prefixes", 0, 0, 20), of("users", "numbers", 0, 0, 20)]
    );
    rig.stop();
}

#[test]
fn wrong_requests_say_what_to_do() {
    let place = Place::new("wrong-requests");
    let routes = BTreeMap::from([("10.0.0.0/8".parse().unwrap(), 1)]);
    let rig = Rig::new(&configuration(&place, &routes, &BTreeMap::new()));
    let told = |verb: &str, arguments: Value| ask(&rig, verb, arguments).unwrap_err();
    let of = |table: &str, key: &str| json!({ "table": table, "key": key, "value": 7 });
    assert_eq!(told("table add", of("rutes", "1")), "there is no table \"rutes\"; write one of limits, routes, users");
    assert_eq!(told("table add", of("routes", "10.0.0.0/8")), "routes has 10.0.0.0/8 already; `table set` changes it");
    assert_eq!(
        told("table del", of("routes", "10.0.0.0/8")),
        "10.0.0.0/8 of routes stands in the configuration; delete it there and reload"
    );
    assert_eq!(told("table del", of("users", "9")), "users has no 9; `show entries` lists what there is");
    assert_eq!(told("table add", of("limits", "2")), "value: limits has meters; write a rate and a burst");
    let rate = json!({ "table": "users", "key": 1, "rate": "1Mbit/s" });
    assert_eq!(told("table set", rate), "rate: users has no meters; write a value");
    assert_eq!(told("table set", json!({ "table": "users", "key": 1 })), "value is missing");
    assert_eq!(told("table add", json!({ "table": "limits", "key": 2, "rate": "1Mbit/s" })), "burst is missing");
    assert_eq!(told("table set", of("limits", "8")), "key: there is no meter 8; write a number from 0 to 7");
    assert!(told("table add", of("routes", "10.0.0.1/8")).contains("has host bits set"));
    assert!(told("table add", of("users", "-1")).contains("is not a number from 0 to 9007199254740991"));
    for n in 0..20 {
        ask(&rig, "table add", of("users", &n.to_string())).unwrap();
    }
    assert_eq!(
        told("table add", of("users", "20")),
        "20 entries were added to users already; for more, raise its max_added"
    );
    let unknown = rig.instance.show("entries", Some("x"), 0).map(drop).unwrap_err();
    assert_eq!(unknown.0, "there is no table \"x\"; write one of limits, routes, users");
    rig.stop();
}

/// What commands said is there when the function is built anew, and while a reload is on its way.
#[test]
fn what_was_said_outlives_a_rebuild() {
    let place = Place::new("rebuilt");
    let file = configuration(&place, &BTreeMap::new(), &BTreeMap::new());
    let rig = Rig::new(&file);
    let user = |key: u32| json!({ "table": "users", "key": key, "value": 7 });
    ask(&rig, "table add", user(1)).unwrap();
    let next = build_on(&Domain::new(), &file, (&rig.infos, &rig.folder), Some(&*rig.instance)).unwrap();
    // Both know what comes now, which the running one may still refuse.
    ask(&rig, "table add", user(2)).unwrap();
    assert!(ask(&rig, "table add", json!([user(3), user(2)])).is_err());
    let keys = |instance: &dyn weir_stage::Instance| -> Vec<Value> {
        rows(instance, "entries", Some("users")).iter().map(|row| row["key"].clone()).collect()
    };
    assert_eq!((keys(&*rig.instance), keys(&*next)), (vec![json!("1"), json!("2")], vec![json!("1"), json!("2")]));
    // Where another configuration has less room, it is refused there and here.
    let text = std::fs::read_to_string(&file)
        .unwrap()
        .replace("'numbers.csv', max_added = 20", "'numbers.csv', max_added = 2");
    let small = place.write("small.lua", &text);
    let next = build_on(&Domain::new(), &small, (&rig.infos, &rig.folder), Some(&*rig.instance)).unwrap();
    let said = ask(&rig, "table add", user(3)).unwrap_err();
    assert!(said.starts_with("the configuration that is being loaded refuses it: 2 entries were added"), "{said}");
    assert_eq!(keys(&*rig.instance), [json!("1"), json!("2")]);
    drop(next);
    ask(&rig, "table add", user(3)).unwrap();
    rig.stop();
}

#[test]
fn what_is_saved_stands_in_the_configuration_as_it_is() {
    let place = Place::new("saved");
    let rig = Rig::new(&configuration(&place, &BTreeMap::new(), &BTreeMap::from([(1, 10)])));
    ask(&rig, "table set", json!({ "table": "users", "key": 4242, "value": 7 })).unwrap();
    ask(&rig, "table add", json!({ "table": "routes", "key": "10.0.0.0/8", "value": 7 })).unwrap();
    ask(&rig, "table add", json!({ "table": "limits", "key": 2, "rate": "2Mbit/s", "burst": "20kB" })).unwrap();
    let saved = all(rig.instance.save());
    let told: Vec<_> =
        saved.iter().map(|one| (one.key.as_str(), one.under.as_deref(), one.entry.clone().unwrap())).collect();
    assert_eq!(
        told,
        [
            ("tables.limits.own", None, json!({ "meter": 2, "rate": "2 Mbit/s", "burst": "20000 B" })),
            ("tables.routes.prefixes", Some("10.0.0.0/8"), json!(7)),
            ("tables.users.numbers", None, json!({ "number": 4242, "value": 7 })),
        ]
    );
    // And each is a request that says it again.
    let before = rows(&*rig.instance, "entries", None);
    saved.iter().for_each(|one| drop(ask(&rig, &one.verb, one.arguments.clone()).unwrap()));
    assert_eq!(rows(&*rig.instance, "entries", None), before);
    rig.stop();
}

/// Two workers look up while the control side changes tables as fast as it can. What is always there is always found, with a value that it had; and
/// nobody finds what is another's.
#[test]
fn workers_find_what_was_or_what_is() {
    let place = Place::new("workers");
    let numbers = BTreeMap::from([(1000, 1)]);
    let file = configuration(&place, &BTreeMap::from([("10.0.0.0/8".parse().unwrap(), 1)]), &numbers);
    let ports = infos(&["a", "b", "c"].map(|name| (name.to_owned(), MemPort::fed(name).0)));
    let (domain, folder) = (Domain::new(), Folder::open(&place.0).unwrap());
    let instance = build_on(&domain, &file, (&ports, &folder), None).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for replica in 0..2 {
            let (mut nodes, _) = instance.graph(replica).unwrap().into_parts();
            let stage = nodes.remove(0).stage;
            let (mut reader, done) = (domain.reader().unwrap(), &done);
            scope.spawn(move || {
                let mut harness = Harness::new(Boxed(stage));
                let mut packets: Vec<Vec<u8>> = (0..16_u32).map(|n| packet(2, &n.to_be_bytes())).collect();
                packets.push(packet(2, &1000_u32.to_be_bytes()));
                packets.push(packet(0, &[10, 1, 2, 3]));
                packets.push(packet(0, &[10, 9, 2, 3]));
                let mut batches = 0;
                while !done.load(Ordering::Relaxed) || batches < 100 {
                    let outcome = harness.run(0, &packets);
                    let found: Vec<u32> = outcome.way("out").iter().map(|packet| found(packet)).collect();
                    for (n, value) in (0..16).zip(&found) {
                        assert!(*value == NOTHING || value % 100 == n, "{n}: {value}");
                    }
                    assert!([1, 2].contains(&found[16]), "{}", found[16]);
                    assert!([1, 2, 3].contains(&found[17]), "{}", found[17]);
                    assert!([1, 2].contains(&found[18]), "{}", found[18]);
                    reader.quiescent();
                    batches += 1;
                }
            });
        }
        let say = |verb: &str, table: &str, key: String, value: u64| {
            instance.request(verb, &json!({ "table": table, "key": key, "value": value }), 0).is_ok()
        };
        for round in 0..3_000_u64 {
            assert!(say("table set", "users", "1000".to_owned(), 1 + round % 2));
            assert!(say("table set", "routes", "10.0.0.0/8".to_owned(), 1 + round % 2));
            // Refused where workers are late to pass what was freed.
            say("table set", "users", (round % 16).to_string(), round % 7 * 100 + round % 16);
            say("table del", "users", ((round + 5) % 16).to_string(), 0);
            say("table set", "routes", "10.1.2.0/24".to_owned(), 3);
            say("table del", "routes", "10.1.2.0/24".to_owned(), 0);
        }
        done.store(true, Ordering::Relaxed);
    });
}
