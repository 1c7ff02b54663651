//! Files that a configuration names: a reload sees what has changed in them, and takes it over.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{check_account, everything, frames, pcap, text, weir};

/// A certificate or a key that tests use.
macro_rules! pem {
    ($name:literal) => {
        include_bytes!(concat!("../../crates/tls/tests/keys/", $name))
    };
}
/// A file, what stands in it later, the key that names it, and what that change takes.
type Case = (&'static str, Vec<u8>, &'static str, &'static str);

fn cases() -> Vec<Case> {
    let case = |file, then: &str, key, takes| (file, then.into(), key, takes);
    vec![
        case("router.csv", "prefix,via\n203.0.113.0/25,192.0.2.9\n", "router.routes_csv", "live"),
        case("blue.csv", "prefix,via\n203.0.113.0/25,192.0.2.9%wan\n", "router.vrfs.blue.routes_csv", "live"),
        case("edge.csv", "rule\ndeny from 203.0.113.67/32\n", "router.acls.edge.rules_csv", "live"),
        case("known.csv", "rule\ndeny from 02:00:00:00:00:66\n", "bridge.acls.known.rules_csv", "live"),
        case("function.lua", "function run(b) end", "lua.file", "live"),
        case("stage.lua", "function run(b) end", "wiring.stages.script.file", "live"),
        case("prefixes.csv", "prefix,value\n10.0.0.0/8,2\n", "lua.tables.routes.prefixes_csv", "live"),
        case("numbers.csv", "number,value\n10,2\n", "lua.tables.users.numbers_csv", "live"),
        case(
            "stage-prefixes.csv",
            "prefix,value\n10.0.0.0/8,2\n",
            "wiring.stages.script.tables.routes.prefixes_csv",
            "live",
        ),
        case("stage-numbers.csv", "number,value\n10,2\n", "wiring.stages.script.tables.users.numbers_csv", "live"),
        case("stage.csv", "prefix,via\n10.0.0.0/8,192.0.2.8\n", "wiring.stages.route.routes_csv", "live"),
        case("stage6.csv", "prefix,via\n2001:db8::/32,fe80::8\n", "wiring.stages.route6.routes_csv", "live"),
        case("subscribers.csv", "svlan,cvlan,ipv4\n1,3,10.0.0.2\n", "bng.subscribers", "live"),
        case("bng.csv", "prefix,gateway\n10.8.0.0/16,one\n", "bng.routes_csv", "live"),
        case("management.csv", "prefix,via\n10.7.0.0/16,prohibit\n", "bng.vrfs.management.routes_csv", "live"),
        case("softwires.csv", "ipv4,b4\n203.0.113.9,2001:db8:c::8\n", "lwaftr.softwires", "live"),
        case("relay.csv", "prefix,via\n0.0.0.0/0,198.51.100.8\n", "lwaftr.routes_csv", "live"),
        case("green.csv", "prefix,via\n10.7.0.0/16,prohibit\n", "lwaftr.vrfs.green.routes_csv", "live"),
        case("table.csv", "ipv4.ttl\n8\n", "gen.streams[1].table", "rebuild"),
        ("replay.pcap", pcap(&frames(3)), "gen.streams[2].replay", "rebuild"),
        case("users.csv", "user,profile\n1.2,two\n", "qos.users_csv", "live"),
        ("switch.pem", more(pem!("switch.pem")), "switch.tls.certificate", "live"),
        ("switch.key", more(pem!("switch.key")), "switch.tls.private_key", "live"),
        ("ca.pem", pem!("other-ca.pem").to_vec(), "switch.tls.ca", "live"),
    ]
}

/// The same with a remark behind it: PEM may have other text around it (RFC 7468 section 2).
fn more(text: &[u8]) -> Vec<u8> {
    [text, b"a remark\n"].concat()
}

/// That no element is told to change.
fn unchanged(said: &str) {
    assert!(!said.lines().any(|line| line.starts_with(['~', '+', '-'])), "{said}");
}

#[test]
fn a_reload_tells_every_changed_file_and_takes_it_over() {
    let (folder, running) = everything::start("changed-files");
    unchanged(&running.say(&["reload", "--dry-run"]));
    for (file, then, key, takes) in cases() {
        let function = key.split(['.', '[']).next().unwrap();
        let told =
            format!("~ {function}: changed ({takes})\n    {key}: \"{file}\" as it was -> as it is now ({takes})\n");
        // The same once more is no change.
        folder.write(file, std::fs::read(folder.path(file)).unwrap());
        unchanged(&running.say(&["reload", "--dry-run"]));
        folder.write(file, &then);
        for arguments in [&["reload", "--dry-run"][..], &["reload"]] {
            let said = running.say(arguments);
            assert!(said.contains(&told), "{told}is not in\n{said}");
            assert_eq!(said.lines().filter(|line| line.starts_with('~')).count(), 1, "{said}");
        }
        unchanged(&running.say(&["reload"]));
    }
    let routes = running.say(&["show", "routes", "config", "--function", "router"]);
    assert!(routes.contains("203.0.113.0/25") && !routes.contains("203.0.113.0/24"), "{routes}");
    let lists = running.say(&["show", "acls", "--function", "router"]);
    assert!(lists.contains("203.0.113.67") && !lists.contains("203.0.113.66"), "{lists}");
    let lists = running.say(&["show", "acls", "--function", "bridge"]);
    assert!(lists.contains("00:66") && !lists.contains("00:67"), "{lists}");
    let routes = running.say(&["show", "routes", "config", "--function", "bng"]);
    assert!(routes.contains("10.8.0.0/16"), "{routes}");
    let subscribers = running.json(&["show", "subscribers"]);
    assert_eq!((&subscribers["rows"][0]["cvlan"], subscribers["rows"].as_array().unwrap().len()), (&3.into(), 1));
    let softwires = running.say(&["show", "softwires"]);
    assert!(softwires.contains("2001:db8:c::8") && !softwires.contains("2001:db8:c::9"), "{softwires}");
    let users = running.say(&["show", "users", "1.2"]);
    assert!(users.contains("two") && !users.contains("one"), "{users}");
    let stats = running.json(&["show", "stats"]);
    check_account(&stats);
    check_threads(&stats);
}

/// All functions' stages on the control side stand on three threads, the router's on the last.
fn check_threads(stats: &serde_json::Value) {
    let slow = |worker: &serde_json::Value| worker.as_str().filter(|id| id.starts_with("control")).map(str::to_owned);
    let ids: Vec<String> =
        stats["workers"].as_array().unwrap().iter().filter_map(|worker| slow(&worker["id"])).collect();
    assert_eq!(ids, ["control", "control-2", "control-3"]);
    let stages = stats["stages"].as_array().unwrap();
    let on = |name: &str| stages.iter().find(|stage| stage["name"] == name).and_then(|stage| slow(&stage["worker"]));
    assert_eq!(on("router.control").as_deref(), Some("control-3"));
    let used: std::collections::BTreeSet<String> = stages.iter().filter_map(|stage| slow(&stage["worker"])).collect();
    assert_eq!(used.into_iter().collect::<Vec<_>>(), ids, "each has some");
}

#[test]
fn no_key_that_names_a_file_is_forgotten() {
    let manual = text(&weir(&["manual"]).stdout);
    let keys = manual.lines().filter(|line| line.contains("| a file below the folder of the script"));
    let mut keys: Vec<&str> = keys.filter_map(|line| line.split('`').nth(1)).collect();
    let mut tried: Vec<&str> = cases().iter().map(|case| case.2.rsplit('.').next().unwrap()).collect();
    keys.sort_unstable();
    tried.sort_unstable();
    assert_eq!(keys, tried);
}

#[test]
fn a_file_that_is_wrong_now_changes_nothing() {
    let (folder, running) = everything::start("changed-wrong");
    let before = std::fs::read(folder.path("router.csv")).unwrap();
    folder.write("router.csv", "prefix,via\n203.0.113.0/25,192.0.2.9\n203.0.113.0/24,300.0.0.1\n");
    let refused = running.ask(&["reload"]);
    assert!(text(&refused.stderr).contains("router.csv:3") && !refused.status.success(), "{}", text(&refused.stderr));
    assert!(running.say(&["show", "routes", "config", "--function", "router"]).contains("203.0.113.0/24"));
    folder.write("router.csv", before);
    unchanged(&running.say(&["reload", "--dry-run"]));
}
