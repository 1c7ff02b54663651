//! The whole program on capture files and on ports in memory: what crosses, what is told while it runs, what is changed, and
//! what is left at the end. No root, huge pages or network card.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{Folder, REPLAY, Running, check_account, frames, pcap, read_pcap, text, weir};
use serde_json::{Value, json};

/// Forwards a file to a file under the virtual clock.
fn forward() -> String {
    r#"
    engine { clock = "virtual" }
    port { name = "in", device = "pcap:in.pcap," }
    port { name = "out", device = "pcap:,out.pcap" }
    forward { paths = { "in -> out" } }
    "#
    .to_owned()
}

fn replay(name: &str) -> (Folder, Running) {
    common::replay(name, REPLAY, &["--json"])
}

fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {value:#}"))
}

/// The account that it prints at its end.
fn last_account(mut running: Running) -> Value {
    let (printed, status) = running.rest();
    assert_eq!(status, Some(0), "{}", running.log());
    let stats = serde_json::from_str(&printed).unwrap();
    check_account(&stats);
    assert_eq!(stats["missing_buffers"], json!(0));
    stats
}

#[test]
fn files_are_forwarded_to_the_last_frame() {
    let folder = Folder::new("files");
    let sent = frames(5000);
    folder.write("in.pcap", pcap(&sent));
    let running = Running::start(&folder, &forward(), &["--until-drained", "--json"]);
    let stats = last_account(running);
    assert_eq!((number(&stats, "/account/received"), number(&stats, "/account/transmitted")), (5000, 5000));
    assert_eq!(number(&stats, "/ports/out/tx_packets"), 5000);
    assert_eq!(read_pcap(&folder.0.join("out.pcap")), sent);
}

#[test]
fn the_account_is_printed_for_people_too() {
    let folder = Folder::new("people");
    folder.write("in.pcap", pcap(&frames(7)));
    let mut running = Running::start(&folder, &forward(), &["--until-drained"]);
    let (printed, status) = running.rest();
    assert_eq!(status, Some(0));
    assert!(printed.contains("  received     7\n") && printed.contains("  unaccounted  0\n"), "{printed}");
    assert!(!printed.contains('\x1b'), "no colour where nobody looks");
}

#[test]
fn numbers_are_told_while_it_runs() {
    let (_folder, running) = replay("numbers");
    let stats = running.wait_for(&["show", "stats"], |stats| number(stats, "/ports/wan/tx_packets") > 100);
    check_account(&stats);
    assert_eq!(stats["version"], json!(1));
    for worker in stats["workers"].as_array().unwrap() {
        let cycles = worker["cycles"].as_object().unwrap().values().map(|part| part.as_u64().unwrap());
        let (sum, elapsed) = (cycles.sum::<u64>() as f64, worker["elapsed"].as_u64().unwrap() as f64);
        assert!((sum / elapsed - 1.0).abs() < 0.001, "{sum} cycles of {elapsed}");
    }
    assert!(running.say(&["show", "stats"]).contains("unaccounted"));
    for what in ["cycles", "stages", "links", "drops", "ports", "graph", "version", "routes", "neighbors"] {
        assert!(!running.say(&["show", what]).is_empty(), "{what}");
        assert_eq!(running.json(&["show", what])["version"], json!(1), "{what}");
    }
    let stages = running.json(&["show", "stages"]);
    assert!(stages["stages"].as_array().unwrap().iter().any(|stage| number(stage, "/packets") > 0));
    assert!(running.say(&["show", "graph", "--dot"]).starts_with("digraph"));
    let refused = running.ask(&["show", "routes", "--function", "nobody"]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("nobody"));
}

#[test]
fn a_signal_in_the_middle_of_a_burst_loses_nothing() {
    for signal in ["TERM", "INT"] {
        let (_folder, running) = replay(&format!("signal-{signal}"));
        running.wait_for(&["show", "stats"], |stats| number(stats, "/account/received") > 2000);
        let socket = running.socket.clone();
        let (printed, status) = running.stop_by(signal);
        assert_eq!(status, Some(0));
        let stats: Value = serde_json::from_str(&printed).unwrap();
        check_account(&stats);
        assert_eq!((number(&stats, "/account/held"), &stats["missing_buffers"]), (0, &json!(0)));
        assert!(!std::path::Path::new(&socket).exists(), "its socket is gone");
    }
}

#[test]
fn a_second_weir_of_that_name_is_refused() {
    let (folder, running) = replay("second");
    let file = folder.path("weir.lua");
    let second = weir(&["run", &file, "--socket", &running.socket]);
    assert_eq!(second.status.code(), Some(1));
    assert!(text(&second.stderr).contains("another Weir of that name is running"), "{}", text(&second.stderr));
    assert!(second.stdout.is_empty());
    assert!(running.ask(&["show", "version"]).status.success(), "the first goes on");
}

#[test]
fn routes_change_while_packets_flow() {
    let (folder, running) = replay("routes");
    running.say(&["route", "add", "203.0.113.0/24", "via", "192.0.2.9", "192.0.2.10"]);
    let has = |prefix: &str| running.say(&["show", "routes"]).contains(prefix);
    assert!(has("203.0.113.0/24"));
    let lines: String = (0..20_000).map(|n| format!("10.{}.{}.0/24 via 192.0.2.9\n", n / 250, n % 250)).collect();
    let file = folder.write("many.txt", format!("# many\n{lines}"));
    assert_eq!(running.say(&["route", "add", "--from", file.to_str().unwrap()]), "20000 done\n");
    let rows = running.json(&["show", "routes"]);
    assert!(rows["rows"].as_array().unwrap().len() > 20_000);
    let wrong = running.ask(&["route", "add", "10.0.0.0/8", "via", "300.0.0.1"]);
    assert!(!wrong.status.success() && text(&wrong.stderr).contains("300.0.0.1"), "{}", text(&wrong.stderr));
    let saved = running.say(&["save"]);
    assert!(saved.contains("[\"203.0.113.0/24\"] = { \"192.0.2.9\", \"192.0.2.10\" }"), "{}", &saved[..400]);
    running.say(&["route", "del", "203.0.113.0/24"]);
    assert!(!has("203.0.113.0/24"));
    let stats = running.json(&["show", "stats"]);
    check_account(&stats);
}

#[test]
fn a_file_of_changes_is_done_whole_or_told_by_its_line() {
    let (folder, running) = replay("lines");
    let refused = |name: &str, lines: &str| {
        let file = folder.write(name, lines);
        let output = running.ask(&["route", "add", "--from", file.to_str().unwrap()]);
        assert!(!output.status.success());
        text(&output.stderr).replace(file.to_str().unwrap(), name)
    };
    let added = || running.json(&["show", "routes", "cli"])["rows"].as_array().unwrap().len();
    // What cannot be understood, each line of it; what the router refuses; the same in a table.
    let said = refused("a.txt", "10.0.0.0/8 via 192.0.2.9\n10.1.0.0/16\n# nothing\n10.2.0.0/16 by 192.0.2.9\n");
    assert!(said.contains("a.txt:2: VIA is missing") && said.contains("a.txt:4: "), "{said}");
    assert!(said.ends_with("weir: nothing of a.txt is done\n"), "{said}");
    let said = refused("b.txt", "10.0.0.0/8 via 192.0.2.9\n\n10.1.0.0/16 via 203.0.113.1\n10.2.0.0/16 via 192.0.2.9\n");
    assert!(
        said.contains("b.txt:3: 203.0.113.1 is on no network") && said.ends_with("; nothing of b.txt is done\n"),
        "{said}"
    );
    let said = refused("c.csv", "prefix,via\n10.0.0.0/8,192.0.2.9\n10.1.0.0/160,192.0.2.9\n");
    assert!(said.contains("c.csv:3: \"10.1.0.0/160\""), "{said}");
    assert_eq!(added(), 0, "nothing of them");
    let table = folder.write("d.csv", "prefix,via\n10.0.0.0/8,192.0.2.9\n10.1.0.0/16,192.0.2.9;192.0.2.10\n");
    assert_eq!(running.say(&["route", "add", "--from", table.to_str().unwrap()]), "2 done\n");
    assert_eq!(added(), 2);
    // The second batch is refused: the first is done, and it is said from where on nothing is.
    let many: String = (0..8192).map(|n| format!("11.{}.{}.0/24 via 192.0.2.9\n", n / 250, n % 250)).collect();
    let said = refused("e.txt", &format!("{many}12.0.0.0/8 via 192.0.2.9\n12.1.0.0/16 via 203.0.113.1\n"));
    assert!(said.contains("e.txt:8194: 203.0.113.1 is on no network"), "{said}");
    assert!(said.contains("the 8192 changes before line 8193 are done, nothing from there on"), "{said}");
    assert_eq!(added(), 2 + 8192);
}

#[test]
fn what_was_saved_can_be_included() {
    let (folder, running) = replay("saved");
    running.say(&["route", "add", "203.0.113.0/24", "via", "192.0.2.9"]);
    running.say(&["save", "-w", &folder.path("added.lua")]);
    let script = format!(
        "local added = include \"added.lua\"\n{}",
        REPLAY.replace("routes = { [\"198.19.0.0/16\"] = \"192.0.2.9\" }", "routes = added[\"router\"].routes",)
    );
    let file = folder.write("next.lua", script);
    let checked = weir(&["check", file.to_str().unwrap()]);
    assert!(checked.status.success(), "{}", text(&checked.stderr));
}

#[test]
fn a_reload_is_planned_checked_and_carried_out() {
    let (folder, running) = replay("reload");
    running.wait_for(&["show", "stats"], |stats| number(stats, "/account/received") > 100);
    assert!(
        running.say(&["reload", "--dry-run"]).contains("nothing changes")
            || running.json(&["reload", "--dry-run"])["done"] == json!(false)
    );
    folder.write("weir.lua", REPLAY.replace("198.19.0.0/16", "198.19.0.0/17"));
    let plan = running.say(&["reload", "--dry-run"]);
    assert!(plan.contains("198.19.0.0/17"), "{plan}");
    let routes = || running.say(&["show", "routes"]);
    assert!(routes().contains("198.19.0.0/16"));
    assert_eq!(running.json(&["reload"])["done"], json!(true));
    assert!(routes().contains("198.19.0.0/17") && !routes().contains("198.19.0.0/16"));
    let before = running.json(&["show", "stats"]);
    assert!(number(&before, "/account/received") > 100, "counters are kept");
    folder.write("weir.lua", REPLAY.replace("wan\", device", "wan\", devcie"));
    let wrong = running.ask(&["reload"]);
    let said = text(&wrong.stderr);
    assert!(!wrong.status.success() && said.contains("nothing has changed"), "{said}");
    assert!(said.contains("devcie") && said.contains("weir.lua:3"), "{said}");
    assert!(routes().contains("198.19.0.0/17"));
    check_account(&running.json(&["show", "stats"]));
}

/// The process that a process has started and that runs.
fn child_of(process: u32) -> Option<u32> {
    let numbers =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    numbers.into_iter().find(|number: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        fields.next() != Some("Z") && fields.next() == Some(process.to_string().as_str())
    })
}

#[test]
fn others_are_answered_while_a_script_runs() {
    let (folder, running) = replay("endless");
    let endless = folder.write("endless.lua", "while true do end");
    std::thread::scope(|scope| {
        let reload = scope.spawn(|| running.ask(&["reload", endless.to_str().unwrap()]));
        let script = loop {
            assert!(!reload.is_finished(), "the script never ran");
            match child_of(running.process()) {
                Some(script) => break script,
                None => std::thread::park_timeout(Duration::from_millis(10)),
            }
        };
        running.say(&["show", "stats"]);
        assert_eq!(child_of(running.process()), Some(script), "the script had to end first");
        assert!(Command::new("kill").args(["-KILL", &script.to_string()]).status().unwrap().success());
        let said = text(&reload.join().unwrap().stderr);
        assert!(said.contains("nothing has changed"), "{said}");
    });
    check_account(&running.json(&["show", "stats"]));
}

#[test]
fn another_script_is_read_below_its_own_folder() {
    let (folder, running) = replay("other");
    let other = Folder::new("other-script");
    other.write("in.pcap", pcap(&frames(10)));
    let file = other.write("new.lua", REPLAY.replace("198.19.0.0/16", "198.19.0.0/18"));
    assert_eq!(running.json(&["reload", file.to_str().unwrap()])["done"], json!(true));
    assert!(running.say(&["show", "routes"]).contains("198.19.0.0/18"));
    let wrong = other.write("wrong.lua", "port { nmae = \"x\" }");
    let said = text(&running.ask(&["reload", wrong.to_str().unwrap()]).stderr);
    assert!(said.contains(wrong.to_str().unwrap()) && !said.contains("/proc/self/fd"), "{said}");
    let again = running.ask(&["reload", "--dry-run"]);
    assert!(again.status.success(), "the last script is read again: {}", text(&again.stderr));
    drop(folder);
}

#[test]
fn what_takes_a_restart_is_refused_unless_asked_for() {
    let (folder, mut running) = replay("restart");
    let process = running.process();
    folder.write("weir.lua", format!("engine {{ held = 5000 }}\n{REPLAY}"));
    let said = text(&running.ask(&["reload"]).stderr);
    assert!(said.contains("--allow-restart"), "{said}");
    assert_eq!(running.json(&["reload", "--allow-restart"])["needs_restart"], json!(true));
    let version = running.wait_until_answers();
    assert_eq!(number(&version, "/running/process"), u64::from(process), "it is the same process");
    assert!(
        running.say(&["reload", "--dry-run"]).contains("nothing")
            || running.json(&["reload", "--dry-run"])["needs_restart"] == json!(false)
    );
    running.say(&["show", "stats"]);
    drop(running);
}

#[test]
fn a_packet_is_followed_through_the_stages() {
    let (_folder, running) = replay("trace");
    let trace = running.say(&["trace", "-n", "2", "udp"]);
    assert!(trace.contains("#1") && trace.contains("#2"), "{trace}");
    assert!(trace.contains("received on lan") && trace.contains("transmitted on wan"), "{trace}");
    assert!(trace.contains("198.18.0.1 > 198.19.0.1"), "{trace}");
    let lines = running.say(&["trace", "--json"]);
    let steps: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(steps[0]["step"]["event"], json!("received"));
    assert_eq!(steps.last().unwrap()["end"], json!({ "packets": 1, "missed": 0 }));
    let wrong = running.ask(&["trace", "udp", "adn", "tcp"]);
    assert!(text(&wrong.stderr).contains("column 5"), "{}", text(&wrong.stderr));
}

#[test]
fn a_followed_packet_tells_its_route_and_what_is_held() {
    let folder = Folder::new("trace-route");
    folder.write("in.pcap", pcap(&frames(100)));
    // So slow that the slow path takes whatever comes.
    let running = Running::start(&folder, &REPLAY.replace("20 kpps", "50 pps"), &[]);
    let trace = running.say(&["trace", "udp"]);
    assert!(trace.contains("router.forward -> port[1], by route 198.19.0.0/16 via 192.0.2.9 on wan"), "{trace}");
    // Of several next hops it is the one to whose address the packet goes.
    running.say(&["neighbor", "add", "192.0.2.10", "mac", "02:00:00:00:00:0a"]);
    running.say(&["route", "add", "198.19.0.0/24", "via", "192.0.2.9", "192.0.2.10"]);
    // Those that pass right after the change are told with the remark that there was one, the last ones without.
    let trace = running.say(&["trace", "-n", "6", "udp"]);
    let lines: Vec<&str> = trace.lines().collect();
    let told = lines.windows(2).filter_map(|pair| {
        let hop = pair[0].split_once(", by route 198.19.0.0/24 via ")?.1.strip_suffix(" on wan")?;
        Some((hop, pair[1].contains("> 02:00:00:00:00:0a ")))
    });
    let told: Vec<(&str, bool)> = told.collect();
    assert!(!told.is_empty(), "{trace}");
    assert!(told.iter().all(|told| matches!(told, ("192.0.2.10", true) | ("192.0.2.9", false))), "{trace}");
    // Nobody answers for this one: the packet waits, and is known all the while.
    running.say(&["route", "add", "198.19.0.1/32", "via", "192.0.2.77"]);
    let trace = running.say(&["trace", "-n", "3", "udp"]);
    assert!(trace.contains("router.forward -> unresolved, by route 198.19.0.1/32 via 192.0.2.77 on wan"), "{trace}");
    assert!(trace.contains("router.control holds it") && !trace.contains("[short]"), "{trace}");
    running.say(&["route", "add", "198.19.0.1/32", "via", "192.0.2.78"]);
    let lines = running.say(&["trace", "--json", "-n", "3", "udp"]);
    let steps: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let taken = steps.iter().find(|line| line["step"]["event"] == "taken").unwrap();
    assert!(taken["step"]["bytes"].as_str().unwrap().contains("198.18.0.1 > 198.19.0.1"), "{taken}");
    check_account(&running.json(&["show", "stats"]));
}

#[test]
fn packets_are_copied_at_ports_and_ways() {
    let (folder, running) = replay("capture");
    let file = folder.path("lan.pcapng");
    running.say(&["capture", "lan", "-w", &file, "-n", "5", "udp"]);
    if let Ok(output) = Command::new("tshark").args(["-r", &file, "-T", "fields", "-e", "ip.dst"]).output() {
        assert_eq!(text(&output.stdout), "198.19.0.1\n".repeat(5));
    } else {
        eprintln!("skipped: tshark is not installed");
    }
    // What has no route is dropped from here on.
    folder.write("weir.lua", REPLAY.replace("198.19.0.0/16", "198.51.100.0/24"));
    running.say(&["reload"]);
    let drops = running.wait_for(&["show", "drops"], |drops| !drops["drops"].as_array().unwrap().is_empty());
    let drop = &drops["drops"][0];
    assert!(!drop["help"].as_str().unwrap().is_empty());
    let point = format!("{}.{}", drop["stage"].as_str().unwrap(), drop["reason"].as_str().unwrap());
    for point in [point.as_str(), "drops"] {
        running.say(&["capture", point, "-w", &folder.path("drop.pcapng"), "-n", "3"]);
        assert!(std::fs::metadata(folder.path("drop.pcapng")).unwrap().len() > 3 * 60, "{point}");
    }
    let said = text(&running.ask(&["capture", "lna", "-w", &folder.path("x")]).stderr);
    assert!(said.contains("did you mean lan?"), "{said}");
    assert!(!folder.0.join("x").exists(), "a refused capture makes no file");
    check_account(&running.json(&["show", "stats"]));
}

/// A `weir capture` that has written packets to a file.
fn capturing(running: &Running, port: &str, file: &str) -> Child {
    let mut command = Command::new(common::WEIR);
    command.args(["capture", port, "-w", file, "--socket", &running.socket]).stderr(Stdio::piped());
    let capture = command.spawn().unwrap();
    common::until("packets are in the file", || std::fs::metadata(file).is_ok_and(|data| data.len() > 4000));
    capture
}

/// That a capture ends, with all that it wrote.
fn ends_well(mut capture: Child) {
    let mut said = String::new();
    capture.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(capture.wait().unwrap().success(), "{said}");
    assert!(said.contains(" packets, "), "{said}");
}

#[test]
fn an_interrupted_capture_is_whole() {
    let (folder, running) = replay("interrupted");
    let file = folder.path("wan.pcapng");
    let capture = capturing(&running, "wan", &file);
    Command::new("kill").args(["-INT", &capture.id().to_string()]).status().unwrap();
    ends_well(capture);
    if let Ok(output) = Command::new("capinfos").args(["-c", "-M", &file]).output() {
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
}

#[test]
fn a_capture_is_whole_when_weir_stops() {
    let (folder, running) = replay("stopped");
    let file = folder.path("lan.pcapng");
    let capture = capturing(&running, "lan", &file);
    let (_, status) = running.stop_by("TERM");
    assert_eq!(status, Some(0));
    ends_well(capture);
}

#[test]
fn metrics_are_served_when_asked_for() {
    let folder = Folder::new("metrics");
    folder.write("in.pcap", pcap(&frames(10)));
    let running = Running::start(&folder, REPLAY, &["--metrics", "127.0.0.1:0"]);
    let mut address = String::new();
    for _ in 0..1000 {
        // Whole lines only: the last one may be half written.
        let log = running.log();
        let lines = log.rsplit_once('\n').map_or("", |(lines, _)| lines);
        if let Some((_, rest)) = lines.split_once("address=") {
            address = rest.split_whitespace().next().unwrap().to_owned();
            break;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains("weir_account_unaccounted_packets 0\n"), "{answer}");
}

#[test]
fn wrong_configurations_do_not_start() {
    let folder = Folder::new("wrong");
    let file = folder.write("wrong.lua", "port { name = \"a\" }\nruoter { }\n");
    for command in ["run", "check"] {
        let output = weir(
            &[command, file.to_str().unwrap(), "--socket", &folder.path("s")][..if command == "run" { 4 } else { 2 }],
        );
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        assert!(said.contains("wrong.lua:1") && said.contains("wrong.lua:2"), "all mistakes at once: {said}");
        assert!(output.stdout.is_empty());
    }
    let output = weir(&["check", "--json", file.to_str().unwrap()]);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &result["ok"], &result["version"]), (Some(1), &json!(false), &json!(1)));
    assert!(result["errors"].as_array().unwrap().len() >= 2);
}

#[test]
fn privileges_are_given_up() {
    let (_folder, running) = replay("privileges");
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.process())).unwrap();
    let field = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        u64::from_str_radix(line.trim_start_matches(':').trim(), 16).unwrap()
    };
    assert_eq!(field("NoNewPrivs"), 1);
    let (sys_module, sys_ptrace, dac_override) = (1 << 16, 1 << 19, 1 << 1);
    assert_eq!(field("CapEff") & (sys_module | sys_ptrace | dac_override), 0);
}
