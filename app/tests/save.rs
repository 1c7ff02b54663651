//! `weir save`: everything that was added, whatever its size, in a file that is whole or is not there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use common::{Folder, Running, check_account, text, weir};
use serde_json::Value;

/// A router, and where its routes stand.
const ROUTER: &str = r#"
    port { name = "lan", device = "mem:null", address = "198.18.0.254/24" }
    port { name = "wan", device = "mem:null", address = "192.0.2.1/24" }
    router { ports = { "lan", "wan" }, routes = ROUTES, neighbors = NEIGHBORS }
"#;

fn script(routes: &str, neighbors: &str) -> String {
    ROUTER.replace("ROUTES", routes).replace("NEIGHBORS", neighbors)
}

/// Prefix and next hops of all routes that somebody stated.
fn routes(running: &Running) -> BTreeSet<String> {
    let table = running.json(&["show", "routes"]);
    let stated = |row: &&Value| matches!(row["source"].as_str(), Some("cli" | "config"));
    let rows = table["rows"].as_array().unwrap().iter().filter(stated);
    rows.map(|row| format!("{} {}", row["prefix"], row["via"])).collect()
}

/// What interfaces are to be.
fn interfaces(running: &Running) -> BTreeSet<String> {
    let table = running.json(&["show", "interfaces"]);
    let said =
        |row: &Value| ["name", "port", "tags", "state", "mtu", "addresses", "vrf"].map(|key| row[key].to_string());
    table["rows"].as_array().unwrap().iter().map(|row| said(row).join(" ")).collect()
}

#[test]
fn what_is_loaded_again_is_what_ran() {
    // More than LuaJIT takes in one function.
    const ROUTES: usize = 70_000;
    let folder = Folder::new("save-again");
    let first = Running::start(&folder, &script("{}", "{}"), &[]);
    let prefix = |n: usize| format!("{}.{}.{}.0/24", 10 + n / 65_536, n / 256 % 256, n % 256);
    let line = |n: usize| format!("{} via 192.0.2.9 192.0.2.{}\n", prefix(n), 10 + n % 200);
    let lines: String = (0..ROUTES).map(line).collect();
    let file = folder.write("routes.txt", format!("{lines}203.0.113.7/32 via 192.0.2.9\n"));
    first.say(&["route", "add", "--from", file.to_str().unwrap()]);
    first.say(&["neighbor", "add", "192.0.2.9", "mac", "02:00:00:00:00:09"]);
    let tagged =
        ["on", "wan", "vlan", "7", "inner_vlan", "9", "tpid", "0x9100", "address", "10.7.9.1/30", "mtu", "1400"];
    first.say(&[&["interface", "add", "wan.7.9"][..], &tagged, &["state", "down"]].concat());
    first.say(&["interface", "add", "lo", "address", "203.0.113.8/32", "2001:db8::8/128"]);
    first.say(&["save", "-w", &folder.path("added.lua")]);
    let other = Folder::new("save-other");
    std::fs::copy(folder.path("added.lua"), other.path("added.lua")).unwrap();
    let included = format!(
        "local added = include \"added.lua\"\nfor _, one in ipairs(added.router.interface) do interface(one) end\n{}",
        script("added.router.routes", "added[\"router\"].neighbors")
    );
    let second = Running::start(&other, &included, &[]);
    let (ran, runs) = (routes(&first), routes(&second));
    assert_eq!(ran.len(), ROUTES + 1);
    assert!(ran == runs, "{:?}", ran.symmetric_difference(&runs).take(5).collect::<Vec<_>>());
    assert!(second.say(&["show", "neighbors"]).contains("02:00:00:00:00:09"));
    assert_eq!(interfaces(&first).len(), 4);
    assert_eq!(interfaces(&first), interfaces(&second));
    assert_eq!(second.say(&["save"]).lines().last(), Some("return added"), "nothing was added to that one");
    check_account(&second.json(&["show", "stats"]));
}

/// A script that stands between ports and one that is wired, and where entries of their tables stand.
const SCRIPTED: &str = r#"
    for _, name in ipairs { "in", "out", "wired-in", "wired-out" } do port { name = name, device = "mem:null" } end
    lua {
      script = "function run() end", paths = { "in -> out" },
      tables = {
        routes = { prefixes = PREFIXES },
        users  = { numbers = NUMBERS },
        limits = { meters = 256, rate = "1 Mbit/s", burst = "10 kB", own = METERS },
      },
    }
    wiring {
      receive = { ["wired-in"] = "mark" },
      stages = { mark = {
        kind = "lua", script = "function run() end", ways = { out = "port wired-out" }, tables = { routes = { prefixes = WIRED } },
      } },
    }
"#;

#[test]
fn what_was_added_to_tables_of_scripts_is_loaded_again() {
    let scripted = |places: [&str; 4]| {
        let names = ["PREFIXES", "NUMBERS", "METERS", "WIRED"];
        names.iter().zip(places).fold(SCRIPTED.to_owned(), |text, (name, place)| text.replace(name, place))
    };
    let entries = |running: &Running, function: &str| {
        let table = running.json(&["show", "entries", "--function", function]);
        let rows = table["rows"].as_array().unwrap().iter();
        let row = |row: &Value| {
            let said = ["table", "key", "value", "rate", "burst"].map(|column| row[column].to_string());
            said.join(" ")
        };
        rows.map(row).collect::<BTreeSet<String>>()
    };
    let folder = Folder::new("save-tables");
    let first = Running::start(&folder, &scripted(["{}"; 4]), &["--allow-lua-stages"]);
    let many: String = (0..3000).map(|n| format!("users {n} value {}\n", n % 7)).collect();
    let file = folder.write("users.txt", many);
    let lua = ["--function", "lua"];
    let say = |words: &[&str], function: [&str; 2]| first.say(&[words, &function].concat());
    say(&["table", "add", "--from", file.to_str().unwrap()], lua);
    let csv = folder.write("routes.csv", "table,key,value\nroutes,10.0.0.0/8,1\nroutes,2001:db8::/32,2\n");
    say(&["table", "add", "--from", csv.to_str().unwrap()], lua);
    say(&["table", "set", "limits", "7", "rate", "2Mbit/s", "burst", "20kB"], lua);
    say(&["table", "add", "mark.routes", "10.1.0.0/16", "value", "9"], ["--function", "wiring"]);
    let refused = first.ask(&["table", "add", "routes", "10.1.0.0/16", "value", "9", "--function", "wiring"]);
    assert!(text(&refused.stderr).contains("write STAGE.TABLE, where STAGE is one of mark"), "{refused:?}");
    first.say(&["save", "-w", &folder.path("added.lua")]);
    let other = Folder::new("save-tables-other");
    std::fs::copy(folder.path("added.lua"), other.path("added.lua")).unwrap();
    let places = [
        "lua.tables.routes.prefixes",
        "lua.tables.users.numbers",
        "lua.tables.limits.own",
        "wiring.stages.mark.tables.routes.prefixes",
    ];
    let places = places.map(|place| format!("added.{place}"));
    let included = format!("local added = include \"added.lua\"\n{}", scripted(places.each_ref().map(String::as_str)));
    let second = Running::start(&other, &included, &["--allow-lua-stages"]);
    for (function, count) in [("lua", 3003), ("wiring", 1)] {
        let (ran, runs) = (entries(&first, function), entries(&second, function));
        assert_eq!(ran.len(), count);
        assert!(ran == runs, "{:?}", ran.symmetric_difference(&runs).take(5).collect::<Vec<_>>());
    }
    assert!(entries(&second, "wiring").first().unwrap().starts_with("\"mark.routes\" \"10.1.0.0/16\" 9"));
    assert_eq!(second.say(&["save"]).lines().last(), Some("return added"), "nothing was added to that one");
    check_account(&second.json(&["show", "stats"]));
}

/// A stand-in for a Weir that answers one request with some lines and leaves.
fn answering(path: &str, lines: &'static [&'static str]) -> std::thread::JoinHandle<()> {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        BufReader::new(&stream).read_line(&mut String::new()).unwrap();
        for line in lines {
            stream.write_all(line.as_bytes()).unwrap();
        }
    })
}

const PIECE: &str = "{\"version\":1,\"response\":{\"text\":{\"text\":\"local added = {}\\n\",\"more\":true}}}\n";
const LAST: &str = "{\"version\":1,\"response\":{\"text\":{\"text\":\"return added\\n\",\"more\":false}}}\n";

#[test]
fn a_save_that_breaks_off_leaves_the_file_as_it_was() {
    let folder = Folder::new("save-cut");
    let (file, socket) = (folder.write("added.lua", "return {}\n"), folder.path("weir.sock"));
    let serving = answering(&socket, &[PIECE, PIECE]);
    let cut = weir(&["save", "-w", file.to_str().unwrap(), "--socket", &socket]);
    serving.join().unwrap();
    let said = text(&cut.stderr);
    assert!(!cut.status.success() && said.contains("cannot write") && said.contains("closed the connection"), "{said}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "return {}\n");
    let mut left: Vec<_> = std::fs::read_dir(&folder.0).unwrap().map(|file| file.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["added.lua", "weir.sock"], "nothing else is left");
}

#[test]
fn a_file_is_replaced_and_a_pipe_written_to() {
    let folder = Folder::new("save-file");
    let file = folder.write("added.lua", "return {}\n");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink("added.lua", folder.path("link.lua")).unwrap();
    let expected = "local added = {}\nreturn added\n";
    let save = |to: &str, more: &[&str]| {
        let socket = folder.path("weir.sock");
        let serving = answering(&socket, &[PIECE, LAST]);
        let done = weir(&[&["save", "-w", to, "--socket", &socket], more].concat());
        serving.join().unwrap();
        std::fs::remove_file(socket).unwrap();
        assert!(done.status.success(), "{}", text(&done.stderr));
        text(&done.stdout)
    };
    assert!(save(&folder.path("link.lua"), &["--json"]).contains("link.lua"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "nobody else may read it now");
    assert!(std::fs::symlink_metadata(folder.path("link.lua")).unwrap().is_symlink());
    assert_eq!(save("/dev/stdout", &[]), expected);
}

/// The example of docs/cli.md.
fn example() -> String {
    let document = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli.md")).unwrap();
    let begins = document.find("local added = include").expect("the example is there");
    let piece = &document[begins..];
    piece[..piece.find("```").unwrap()].to_owned()
}

#[test]
fn the_example_loads_what_was_saved() {
    let folder = Folder::new("save-example");
    folder.write("added.lua", "return {}");
    let running = Running::start(&folder, &example(), &[]);
    running.say(&["route", "add", "203.0.113.0/24", "via", "192.0.2.9", "192.0.2.10"]);
    running.say(&["neighbor", "add", "192.0.2.9", "mac", "02:00:00:00:00:09"]);
    running.say(&["save", "-w", &folder.path("added.lua")]);
    running.say(&["reload"]);
    let routes = running.say(&["show", "routes", "config"]);
    assert!(routes.contains("203.0.113.0/24") && routes.contains("0.0.0.0/0"), "{routes}");
    let neighbors = running.say(&["show", "neighbors", "config"]);
    assert!(neighbors.contains("192.0.2.9"), "{neighbors}");
}
