//! What the help and the manual of the command line say to type can be typed: each example, and `docs/cli.md` line by line.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{Folder, Running, WEIR, frames, pcap, text, weir};

/// How long anything may take that must happen at last.
const PATIENCE: Duration = Duration::from_secs(120);

/// Routes a capture that is replayed for ever; every other packet has no place to go.
const ROUTER: &str = r#"
port { name = "lan", device = "mem:replay=in.pcap,rate=20 kpps,mac=02:00:00:00:00:01", address = "198.18.0.254/24" }
port { name = "wan", device = "mem:null", address = "192.0.2.1/24" }
port { name = "far", device = "mem:null", address = "198.51.100.1/24", vrf = "blue" }
router { ports = { "lan", "wan", "far" }, neighbors = { ["192.0.2.9"] = "02:00:00:00:00:09" }, vrfs = { blue = {} } }
"#;

const SHAPER: &str = r#"
port { name = "access", device = "mem:null" }
port { name = "core",   device = "mem:null" }
qos {
  from = "access", to = "core", others = "basic",
  users = { { tags = "3.7-9", profile = "basic" } },
  scheduler = {
    rate = "1 Gbit/s", users = 16, buffers = 1024,
    subports = { north = {}, south = { parent = "north" } },
    profiles = { basic = { tb_rate = "1 Mbit/s" }, gold = { tb_rate = "10 Mbit/s" } },
  },
}
"#;

/// Configurations with functions that have commands, by a noun of theirs: one for each kind of function whose examples the help of the noun has.
const CONFIGURATIONS: &[(&str, &[&str])] = &[
    ("route", &[ROUTER]),
    ("neighbor", &[ROUTER]),
    ("interface", &[ROUTER]),
    (
        "subscriber",
        &[r#"
        port { name = "access", device = "mem:null" }
        port { name = "core",   device = "mem:null", address = "198.51.100.1/24" }
        bng {
          access = { "access" }, core = { "core" }, local_address = "21.22.23.24",
          subscribers = { { svlan = 100, cvlan = 1, key = 1, ipv4 = "10.0.0.9", mac = "02:00:00:00:01:01" } },
          gateways = { west = { port = "core", address = "198.51.100.2", mac = "02:00:00:00:01:02" } },
          routes = { ["0.0.0.0/0"] = "west" },
        }
        "#],
    ),
    (
        "mac",
        &[r#"
        port { name = "lan", device = "mem:null" }
        port { name = "far", device = "mem:null" }
        bridge { tagging = "802.1q", ports = { lan = { vlan = 10 }, far = { tagged = "10" } } }
        "#],
    ),
    (
        "softwire",
        &[r#"
        port { name = "internet", device = "mem:null", address = "192.0.2.1/24" }
        port { name = "access",   device = "mem:null", address = "2001:db8:f::1/64" }
        lwaftr {
          ports = { "internet", "access" }, aftr = "2001:db8:a::1",
          port_sets = { ["203.0.113.1"] = { psid_length = 4 } },
        }
        "#],
    ),
    (
        "acl",
        &[
            r#"
        port { name = "wan", device = "mem:null", address = "192.0.2.1/24" }
        router {
          ports = { "wan" }, acl_in = { wan = "edge" },
          acls = { edge = { default = "deny", rules = { "permit protocol icmp", "permit protocol udp to-port 53" } } },
        }
        "#,
            r#"
        port { name = "desk", device = "mem:null" }
        port { name = "up",   device = "mem:null" }
        bridge { ports = { desk = { acl_in = "guests" }, up = {} }, acls = { guests = { default = "permit", rules = { "permit vlan 10" } } } }
        "#,
        ],
    ),
    (
        "prefix-set",
        &[r#"
        port { name = "wan", device = "mem:null", address = "192.0.2.1/24" }
        router {
          ports = { "wan" }, acl_in = { wan = "edge" }, prefix_sets = { bogons = {} },
          acls = { edge = { default = "permit", rules = { "deny from @bogons" } } },
        }
        "#],
    ),
    ("user", &[SHAPER]),
    ("subport", &[SHAPER]),
    (
        "table",
        &[r#"
        port { name = "in",  device = "mem:null" }
        port { name = "out", device = "mem:null" }
        lua {
          script = "function run() end", paths = { "in -> out" },
          tables = {
            routes = { prefixes = { ["10.0.0.0/8"] = 1 } }, users = { numbers = {} },
            limits = { meters = 256, rate = "1 Mbit/s", burst = "10 kB" },
          },
        }
        "#],
    ),
];

/// A folder with what the examples need.
fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    let mut all = frames(100);
    for frame in all.iter_mut().step_by(2) {
        let to = weir_wire::build::UdpFrame {
            destination_mac: weir_wire::MacAddr([2, 0, 0, 0, 0, 1]),
            destination: [192, 0, 2, 9].into(),
            ..Default::default()
        };
        // To the host that the manual asks about.
        *frame = to.to_vec(&[0; 18]);
    }
    folder.write("in.pcap", pcap(&all));
    folder
}

/// The examples in a text of help: lines that begin with the program's name.
fn examples(help: &str) -> Vec<Vec<String>> {
    let lines = help.lines().filter_map(|line| line.strip_prefix("  weir "));
    // Behind two spaces is what it is for.
    lines.map(|line| line.split("  ").next().unwrap().split(' ').map(str::to_owned).collect()).collect()
}

#[test]
fn every_example_of_the_functions_commands_works() {
    for (noun, scripts) in CONFIGURATIONS {
        let folders: Vec<Folder> =
            (0..scripts.len()).map(|number| folder(&format!("followed-{noun}-{number}"))).collect();
        let running = folders
            .iter()
            .zip(*scripts)
            .map(|(folder, script)| Running::start(folder, script, &["--allow-lua-stages"]));
        let running: Vec<Running> = running.collect();
        let help = text(&weir(&["help", noun]).stdout);
        let found = examples(&help);
        assert!(found.len() >= 2 && found.iter().all(|words| words[0] == *noun), "{noun}: {help}");
        for words in found {
            let words: Vec<String> = words.iter().map(|word| with_file(&folders[0], word, &help)).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let outputs: Vec<Output> = running.iter().map(|running| running.ask(&words)).collect();
            let said: Vec<String> = outputs.iter().map(|output| text(&output.stderr)).collect();
            assert!(outputs.iter().any(|output| output.status.success()), "{words:?}: {said:?}");
        }
    }
}

/// A word as it is; the file of a batch is made of the line that the help shows.
fn with_file(folder: &Folder, word: &str, help: &str) -> String {
    if !word.ends_with(".txt") {
        return word.to_owned();
    }
    let line = help.lines().find(|line| line.contains(word)).unwrap();
    let (_, content) = line.split_once("in each line: ").unwrap();
    folder.write(word, format!("{content}\n")).to_str().unwrap().to_owned()
}

#[test]
fn every_command_of_functions_has_an_example() {
    let help = text(&weir(&["--help"]).stdout);
    let commands = help.lines().filter(|line| line.contains("Change at run time:"));
    let nouns: Vec<&str> = commands.map(|line| line.trim_start().split(' ').next().unwrap()).collect();
    assert_eq!(nouns.len(), CONFIGURATIONS.len(), "{nouns:?}");
    for noun in nouns {
        let actions = text(&weir(&["help", noun]).stdout);
        let lines = actions.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
        // Long sentences go on in further lines, which are set in deeper.
        let verbs = lines.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
        for verb in verbs.filter_map(|line| line.split(' ').next()) {
            let said = text(&weir(&["help", noun, verb]).stdout);
            assert!(
                verb == "help" || said.contains(&format!("Examples:\n  weir {noun} {verb} ")),
                "{noun} {verb}: {said}"
            );
        }
    }
}

/// A folder in which a new user stands: the project's configurations, their own, and a program called `weir` that talks to a socket of
/// this test's own.
struct Place {
    folder: Folder,
}

impl Place {
    fn new() -> Place {
        let folder = folder("followed-manual");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
        for name in ["scenarios", "tools"] {
            std::os::unix::fs::symlink(root.join(name), folder.0.join(name)).unwrap();
        }
        std::fs::create_dir(folder.0.join("configs")).unwrap();
        for entry in std::fs::read_dir(root.join("configs")).unwrap().flatten().filter(|entry| entry.path().is_file()) {
            std::fs::copy(entry.path(), folder.0.join("configs").join(entry.file_name())).unwrap();
        }
        folder.write("router.lua", ROUTER);
        folder.write("lab.lua", ROUTER);
        folder.write("routes.txt", "10.3.0.0/16 via 192.0.2.9\n");
        std::fs::create_dir(folder.0.join("bin")).unwrap();
        let socket = folder.path("weir.sock");
        let program = format!(
            "#!/bin/sh\ncase $1 in run) exec {WEIR} \"$@\" --socket {socket}.run;; \
             show|route|trace|capture|save|reload|log) exec {WEIR} \"$@\" --socket {socket};; *) exec {WEIR} \"$@\";; esac\n"
        );
        for (name, content) in [("weir", program.as_str()), ("sudo", "#!/bin/sh\nexec \"$@\"\n")] {
            let path = folder.write(&format!("bin/{name}"), content);
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        Place { folder }
    }

    /// Starts a line of the manual.
    fn start(&self, line: &str, out: Stdio) -> Child {
        let path = format!("{}:{}", self.folder.path("bin"), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec {line}")]).current_dir(&self.folder.0).env("PATH", path);
        command.stdout(out).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Follows a line that ends by itself.
    fn to_the_end(&self, line: &str) {
        let done = self.start(line, Stdio::piped()).wait_with_output().unwrap();
        assert!(done.status.success(), "{line}: {}{}", text(&done.stdout), text(&done.stderr));
    }

    /// Follows a line that goes on until Ctrl-C, up to its first sign of life.
    fn for_a_while(&self, line: &str) {
        let mut child = self.start(line, Stdio::piped());
        let mut out = BufReader::new(child.stdout.take().unwrap());
        assert!(!out.fill_buf().unwrap().is_empty(), "{line}: {}", text(&child.wait_with_output().unwrap().stderr));
        interrupt(&child);
        // Who captures has to be read to the end.
        std::io::copy(&mut out, &mut std::io::sink()).unwrap();
        ended(child, line);
    }

    /// Follows a capture, until its file is begun.
    #[allow(clippy::disallowed_methods, reason = "what must happen at last has a bound")]
    fn capture(&self, line: &str, file: &Path) {
        let mut child = self.start(line, Stdio::null());
        let begun = Instant::now();
        while !std::fs::metadata(file).is_ok_and(|data| data.len() > 0) {
            let ended = child.try_wait().unwrap().is_some_and(|status| !status.success());
            assert!(
                !ended && begun.elapsed() < PATIENCE,
                "{line}: {}",
                text(&child.wait_with_output().unwrap().stderr)
            );
            std::thread::park_timeout(Duration::from_millis(10));
        }
        interrupt(&child);
        ended(child, line);
    }
}

/// Does what Ctrl-C does.
fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

/// Looks at how what a line started ended.
fn ended(mut child: Child, line: &str) {
    let status = child.wait().unwrap();
    // A client that watches has no last word; it is ended by the signal.
    assert!(status.success() || line.contains("--watch"), "{line}: {status}");
}

/// The lines of shell of the manual, without what comes behind a pipe (other programs may be missing here) or goes to a file.
fn manual() -> Vec<String> {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cli.md");
    let manual = std::fs::read_to_string(path).unwrap();
    let pieces = manual.split("```").skip(1).step_by(2).filter_map(|piece| piece.strip_prefix("sh\n"));
    pieces.flat_map(str::lines).map(|line| line.split(" | ").next().unwrap().to_owned()).collect()
}

#[test]
fn the_manual_of_the_command_line_can_be_followed() {
    let place = Place::new();
    let running = Running::start(&place.folder, ROUTER, &[]);
    let lines = manual();
    assert!(lines.len() >= 25, "{lines:?}");
    for line in lines {
        // Others may have the port of the metrics.
        let line = line.replace("127.0.0.1:9100", "127.0.0.1:0");
        let endless = line.contains(" run ") && !line.contains("--until-drained");
        if endless || line.contains("--watch") || line.contains("-w -") {
            place.for_a_while(&line);
        } else if let Some((_, rest)) = line.split_once(" -w ").filter(|_| line.contains("capture")) {
            place.capture(&line, &place.folder.0.join(rest.split(' ').next().unwrap()));
        } else {
            place.to_the_end(&line);
        }
    }
    drop(running);
}
