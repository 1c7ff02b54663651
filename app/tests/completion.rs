//! What bash, zsh and fish complete a line with, by the scripts of `weir completion`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::path::Path;
use std::process::Command;

use common::{Folder, WEIR, everything, text, weir};

/// Completes the last word of a line as the shell does that somebody sits at, in a folder.
type Complete = fn(line: &str, folder: &Folder) -> Vec<String>;

/// The shells, each with what is run where it is installed.
const SHELLS: [(&str, Complete); 3] = [("bash", by_bash), ("zsh", by_zsh), ("fish", by_fish)];

/// Runs a script by a shell in which the program is called `weir`; it must end.
fn run(shell: &str, arguments: &[&str], folder: &Folder, environment: &[(&str, &str)]) -> String {
    let path = format!("{}:{}", Path::new(WEIR).parent().unwrap().display(), std::env::var("PATH").unwrap());
    let output = Command::new("timeout")
        .args(["-s", "KILL", "120", shell])
        .args(arguments)
        .envs(environment.iter().copied())
        .env("PATH", path)
        .env("HOME", &folder.0)
        .current_dir(&folder.0)
        .output()
        .unwrap();
    assert!(output.status.success(), "{shell}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

fn lines(text: &str) -> Vec<String> {
    let mut all: Vec<String> = text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    all.sort();
    all
}

/// What our function finds; where it finds nothing, the shell completes files, as it is told to.
fn by_bash(line: &str, folder: &Folder) -> Vec<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let script = format!(
        "eval \"$(weir completion bash)\"; [[ $(complete -p weir) == *'-o default'* ]] || exit 1
        COMP_WORDS=({}); COMP_CWORD={}; _weir weir '{}'
        [ ${{#COMPREPLY[@]}} -gt 0 ] || COMPREPLY=($(compgen -f -- '{3}')); printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
        words.len() - 1,
        words.last().unwrap(),
        words.last().unwrap(),
    );
    lines(&run("bash", &["-c", &script], folder, &[]))
}

/// An interactive shell at a terminal of its own, in which the tabulator key is pressed: what is found goes to a file.
const ZSH: &str = r#"
zmodload zsh/zpty
zpty weir zsh -f -i
zpty -w weir 'PROMPT=; unsetopt beep; autoload -Uz compinit; compinit -u -D; eval "$(weir completion zsh)"'
zpty -w weir 'compadd() {
    if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
    local -a hits; builtin compadd -A hits "$@"; print -l -- $hits >> found; }'
zpty -w weir 'comppostfuncs=(over); over() { print -- "=o""ver=" }; bindkey "^I" complete-word'
zpty -w -n weir "$LINE"$'\t'
zpty -r weir seen '*=over=*'
zpty -d weir
[ ! -e found ] || cat found
rm -f found
"#;

fn by_zsh(line: &str, folder: &Folder) -> Vec<String> {
    lines(&run("zsh", &["-f", "-c", ZSH], folder, &[("LINE", line)]))
}

fn by_fish(line: &str, folder: &Folder) -> Vec<String> {
    let script = "weir completion fish | source; complete -C $LINE";
    let found = run("fish", &["--no-config", "-c", script], folder, &[("LINE", line)]);
    lines(&found.lines().map(|line| line.split('\t').next().unwrap_or_default()).collect::<Vec<_>>().join("\n"))
}

#[test]
fn shells_complete_commands_names_of_what_runs_and_files() {
    let (_folder, running) = everything::start("completion");
    for (shell, complete) in SHELLS {
        if Command::new(shell).arg("--version").output().is_err() {
            println!("skipped: {shell} is missing (make deps)");
            continue;
        }
        let folder = Folder::new(&format!("completion-{shell}"));
        folder.write("edge.lua", "");
        folder.write("west.pcap", "");
        let found = |line: &str| complete(&line.replace("SOCKET", &running.socket), &folder);
        let has = |line: &str, words: &[&str]| {
            let all = found(line);
            assert!(words.iter().all(|word| all.iter().any(|other| other == word)), "{shell}: {line}: {all:?}");
            all
        };
        has("weir show ", &["stats", "routes", "subscribers"]);
        has("weir route ", &["add", "del"]);
        assert_eq!(has("weir run ", &["edge.lua", "west.pcap"]).len(), 2, "{shell}: files, and nothing else");
        for line in ["weir show ", "weir route ", "weir "] {
            assert!(!found(line).iter().any(|word| word.contains("edge")), "{shell}: {line}: no files");
        }
        assert!(!has("weir t", &["trace"]).contains(&"top".to_owned()), "{shell}");
        assert_eq!(found("weir neigh"), ["neighbor"], "{shell}");
        assert_eq!(
            found("weir show --socket SOCKET ports w"),
            ["wan", "wired-in", "wired-out", "wired-six"],
            "{shell}"
        );
        assert_eq!(found("weir capture --socket SOCKET la"), ["lan"], "{shell}");
        assert_eq!(found("weir show --socket SOCKET routes --function r"), ["router"], "{shell}");
        assert_eq!(found("weir show stats --sort d"), ["drops"], "{shell}");
        let nobody = found("weir capture --socket /nonexistent/s ed");
        assert_eq!(nobody, ["edge.lua"], "{shell}: nobody to ask, and nothing is said");
    }
}

#[test]
fn each_shell_has_a_script() {
    for (shell, _) in SHELLS {
        assert!(text(&weir(&["completion", shell]).stdout).contains(" complete -- "), "{shell}");
    }
}
