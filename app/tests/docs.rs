//! What the documentation says about the program is true: configurations in it are checked, mistakes are told as it shows, commands
//! exist, and the parts made by the program are those it makes now.
//!
//! `tools/docs.sh` writes the parts that the program makes; it runs these tests with `WEIR_DOCS=write`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

mod common;

use common::{Folder, Running, WEIR, text, weir};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// All Markdown files but those of what others built.
fn documents() -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                walk(&path, found);
            } else if name.ends_with(".md") {
                found.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    walk(&root(), &mut paths);
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// A fenced piece of a document: the words behind the back-ticks, and what is in it.
struct Piece {
    place: String,
    words: String,
    text: String,
}

fn pieces() -> Vec<Piece> {
    let mut found: Vec<Piece> = Vec::new();
    for (path, text) in documents() {
        let shown = path.strip_prefix(root()).unwrap().display().to_string();
        let mut inside = false;
        for (n, line) in text.lines().enumerate() {
            match (line.trim().strip_prefix("```"), inside) {
                (Some(words), false) => {
                    let place = format!("{shown}:{}", n + 1);
                    found.push(Piece { place, words: words.trim().to_owned(), text: String::new() });
                    inside = true;
                }
                (Some(_), true) => inside = false,
                (None, true) => {
                    let piece = &mut found.last_mut().unwrap().text;
                    piece.push_str(line);
                    piece.push('\n');
                }
                (None, false) => {}
            }
        }
    }
    found
}

/// What `weir check` says to a script that lies in a folder with the files of `configs/`.
fn check(folder: &Folder, script: &str) -> Output {
    for (file, name) in [("table.csv", "table.csv"), ("lua/count.lua", "count.lua")] {
        folder.write(name, std::fs::read_to_string(root().join("configs").join(file)).unwrap());
    }
    let keys = root().join("crates/tls/tests/keys");
    for (file, name) in [("switch.pem", "switch.pem"), ("switch.key", "switch.key"), ("ca.pem", "controllers-ca.pem")] {
        folder.write(name, std::fs::read_to_string(keys.join(file)).unwrap());
    }
    // What `weir save` has written, before anything was added.
    folder.write("added.lua", "return {}");
    weir(&["check", "--allow-lua-stages", folder.write("script.lua", script).to_str().unwrap()])
}

#[test]
fn every_configuration_in_the_documents_is_right() {
    let folder = Folder::new("fences");
    let scripts: Vec<Piece> = pieces().into_iter().filter(|piece| piece.words == "lua").collect();
    assert!(scripts.len() >= 5, "only {} were found", scripts.len());
    for piece in scripts {
        let output = check(&folder, &piece.text);
        assert!(output.status.success(), "{}: {}{}", piece.place, text(&output.stdout), text(&output.stderr));
    }
}

#[test]
fn every_configuration_in_the_folder_is_right() {
    let mut count = 0;
    for entry in std::fs::read_dir(root().join("configs")).unwrap().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "lua") {
            let output = weir(&["check", "--allow-lua-stages", path.to_str().unwrap()]);
            assert!(output.status.success(), "{}: {}{}", path.display(), text(&output.stdout), text(&output.stderr));
            assert!(!text(&output.stdout).contains("warning"), "{}: {}", path.display(), text(&output.stdout));
            count += 1;
        }
    }
    assert!(count >= 4, "only {count} were found");
}

/// A piece of words `lua wrong` is followed by one of what is said to it; the file's name there is `FILE`.
#[test]
fn mistakes_are_told_as_the_documents_show() {
    let folder = Folder::new("mistakes");
    let pieces = pieces();
    let mut count = 0;
    for pair in pieces.windows(2) {
        let [wrong, said] = pair else { continue };
        if wrong.words != "lua wrong" {
            continue;
        }
        let output = check(&folder, &wrong.text);
        assert!(!output.status.success(), "{}: nothing is wrong", wrong.place);
        let all = text(&output.stdout) + &text(&output.stderr);
        for line in said.text.lines() {
            let expected = line.replace("FILE", "script.lua");
            assert!(all.contains(&expected), "{}: expected {expected}\nin {all}", said.place);
        }
        count += 1;
    }
    assert!(count >= 2, "only {count} were found");
}

/// Lines of shell that begin with `weir` (or `sudo weir`): the words up to the first that is a value must be a command.
#[test]
fn commands_in_the_documents_exist() {
    let mut count = 0;
    for piece in pieces().into_iter().filter(|piece| piece.words == "sh" || piece.words == "console") {
        for line in piece.text.lines() {
            let line = line.trim().trim_start_matches("$ ").trim_start_matches("sudo ");
            let Some(rest) = line.strip_prefix("weir ").or_else(|| line.strip_prefix("target/release/weir ")) else {
                continue;
            };
            let in_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            let is_word = |word: &&str| !word.is_empty() && !word.starts_with('-') && word.bytes().all(in_word);
            let mut command: Vec<&str> = rest.split(' ').take_while(is_word).take(2).collect();
            // The second word may be a table or a file's name: then the first is the command.
            let known = |command: &[&str]| weir(&[command, &["--help"]].concat()).status.success();
            if command.len() == 2 && !known(&command) {
                command.pop();
            }
            assert!(!command.is_empty() && known(&command), "{}: {line}", piece.place);
            let unknown = options(rest).into_iter().find(|option| !help(&command).contains(option));
            assert_eq!(unknown, None, "{}: {line}", piece.place);
            count += 1;
        }
    }
    assert!(count >= 10, "only {count} were found");
}

fn help(command: &[&str]) -> String {
    text(&weir(&[command, &["--help"]].concat()).stdout)
}

/// The options in a line of shell, up to a comment, a pipe or a redirection.
fn options(line: &str) -> Vec<String> {
    let words = line.split(' ').take_while(|word| !["#", "|", ">", "&"].contains(word));
    words.filter(|word| word.starts_with("--")).map(|word| word.split('=').next().unwrap().to_owned()).collect()
}

/// Compares a document with what the program makes now, or writes it if asked to.
fn compare(file: &str, made: &str) {
    let path = root().join("docs").join(file);
    if std::env::var_os("WEIR_DOCS").is_some_and(|value| value == "write") {
        std::fs::write(&path, made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let difference = kept.lines().zip(made.lines()).enumerate().find(|(_, (kept, made))| kept != made);
    let difference = difference.map(|(n, (kept, made))| format!("line {}:\n- {kept}\n+ {made}", n + 1));
    assert!(kept == made, "docs/{file} is out of date; run tools/docs.sh. {}", difference.unwrap_or_default());
}

#[test]
fn the_reference_is_what_the_schemas_say() {
    let output = weir(&["manual"]);
    assert!(output.status.success());
    let head = "# Reference: what a configuration may say\n\nMade from the program by `tools/docs.sh`; `weir manual` prints the \
                same. How it is written is in\n[configuration](configuration.md).\n\n";
    compare("reference.md", &format!("{head}{}\n", text(&output.stdout).trim_end()));
}

/// Whether there is a test `FILE::NAME`, or a scenario, as `conformance.md` names it.
fn test_exists(named: &str) -> bool {
    let (file, name) = named.split_once("::").unwrap_or((named, ""));
    let folder = match file.rsplit('.').next() {
        _ if file.contains('/') => "",
        Some("py") => "scenarios/system",
        Some("scenario") => "nf/router/scenarios",
        _ => "nf/router/tests",
    };
    let text = std::fs::read_to_string(root().join(folder).join(file)).unwrap_or_default();
    match name {
        "" => !text.is_empty(),
        name => ["fn", "def"].iter().any(|word| text.contains(&format!("{word} {name}("))),
    }
}

/// Each clause of `conformance.md` names tests that exist, or says that there is none.
#[test]
fn tests_that_show_conformance_exist() {
    let text = std::fs::read_to_string(root().join("docs/conformance.md")).unwrap();
    let mut count = 0;
    for (n, line) in text.lines().enumerate().filter(|(_, line)| line.starts_with("| ")) {
        let place = format!("docs/conformance.md:{}", n + 1);
        let cells: Vec<&str> = line.trim_matches(['|', ' ']).split(" | ").collect();
        let &[_, _, does, shown] = cells.as_slice() else { panic!("{place}: these are not four cells") };
        let is_test = |word: &&str| word.contains("::") || word.ends_with(".scenario");
        let named: Vec<&str> = shown.split('`').filter(is_test).collect();
        let is_said = matches!(shown, "test" | "untested") || shown == "-" && does.starts_with("not");
        assert!(!named.is_empty() || is_said, "{place}: neither a test nor \"untested\"");
        assert_eq!(named.iter().find(|test| !test_exists(test)), None, "{place}: there is no such test");
        count += named.len();
    }
    assert!(count >= 200, "only {count} were found");
}

const ROUTER: &str = r#"
engine { clock = "virtual" }
port { name = "wan", device = "mem:null", address = "192.0.2.1/24" }
port { name = "lan", device = "mem:null", address = "10.0.0.1/24" }
router { ports = { "wan", "lan" } }
"#;

/// The picture is drawn from the running graph, so that it cannot show another; `tools/docs.sh` renders it.
#[test]
fn the_picture_of_the_router_is_the_running_graph() {
    let folder = Folder::new("picture");
    let running = Running::start(&folder, ROUTER, &[]);
    compare("router.dot", &running.say(&["show", "graph", "--dot"]));
}

/// A table of all reasons of a stage, with their sentences.
#[test]
fn the_list_of_reasons_is_that_of_the_running_stages() {
    let folder = Folder::new("reasons");
    let running = Running::start(&folder, ROUTER, &[]);
    let graph: serde_json::Value = serde_json::from_str(&running.say(&["show", "graph", "--json"])).unwrap();
    let mut page = String::from(
        "# What becomes of packets in the router\n\nEvery way out of every stage. Made from a running Weir by \
         `tools/docs.sh`; `weir show graph` and `weir show drops`\nshow the same of yours.\n",
    );
    for stage in graph["stages"].as_array().unwrap() {
        let control = if stage["place"] == "control" { ", on the control side" } else { "" };
        page += &format!(
            "\n## `{}`{control}\n\n| way or reason | fate | meaning |\n|---|---|---|\n",
            stage["name"].as_str().unwrap()
        );
        for way in stage["ways"].as_array().unwrap() {
            let word = |key: &str| way[key].as_str().unwrap_or_default();
            let fate = match word("to") {
                "" => word("fate").to_owned(),
                to => format!("goes to `{to}`"),
            };
            page += &format!("| `{}` | {fate} | {} |\n", word("name"), word("help").replace('|', "\\|"));
        }
    }
    compare("reasons.md", &page);
}

/// Pieces of words `text demo` show lines of what `make demo` prints.
#[test]
fn the_demo_prints_what_the_documents_show() {
    if !Command::new("/usr/bin/python3").args(["-c", "import scapy"]).output().is_ok_and(|done| done.status.success()) {
        println!("skipped: the demo reports by python3-scapy, which is missing");
        return;
    }
    let output = Command::new(root().join("scenarios/demo.sh")).env("WEIR", WEIR).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let plain = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let printed: Vec<String> = text(&output.stdout).lines().map(plain).collect();
    let mut count = 0;
    for piece in pieces().into_iter().filter(|piece| piece.words == "text demo") {
        for line in piece.text.lines() {
            assert!(printed.contains(&plain(line)), "{}: {line}: is not in\n{}", piece.place, printed.join("\n"));
            count += 1;
        }
    }
    assert!(count >= 5, "only {count} lines were found");
}
