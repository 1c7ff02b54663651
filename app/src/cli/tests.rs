use super::*;
use crate::words::tests::ADD;
use weir_config::{ConfigError, config};
use weir_stage::{Env, Function, Given, Graph, Show as Table, Stateless, Verb};

struct Toy;

static DELETE: Verb = Verb { noun: "route", action: "del", arguments: &[], help: "Removes all.", batch: false };

config! {
    /// A toy.
    struct ToyConfig {}
}

impl Function for Toy {
    type Config = ToyConfig;
    type Description = Stateless;

    fn kind(&self) -> &'static str {
        "toy"
    }

    fn ports(&self, _: &Given<'_, ToyConfig>) -> Vec<String> {
        Vec::new()
    }

    fn describe(&self, _: &Given<'_, ToyConfig>, _: &Env<'_>) -> Result<Stateless, Vec<ConfigError>> {
        Ok(Stateless::new(|_| Ok(Graph::new())))
    }

    fn verbs(&self) -> &'static [Verb] {
        static VERBS: std::sync::LazyLock<Vec<Verb>> = std::sync::LazyLock::new(|| vec![ADD, DELETE]);
        &VERBS
    }

    fn examples(&self) -> &'static [&'static str] {
        &["route add 10.0.0.0/8 via 192.0.2.1  # by one", "route del  # by none"]
    }

    fn shows(&self) -> &'static [Table] {
        &[Table { what: "routes", columns: &["prefix"], help: "the routes" }]
    }
}

static FUNCTIONS: &[&dyn AnyFunction] = &[&Toy];

fn words(line: &str) -> Vec<std::ffi::OsString> {
    std::iter::once("weir").chain(line.split_whitespace()).map(Into::into).collect()
}

fn ask(line: &str) -> Asked {
    parse(FUNCTIONS, words(line)).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn error(line: &str) -> String {
    parse(FUNCTIONS, words(line)).unwrap_err().to_string()
}

#[test]
fn the_declaration_is_sound() {
    command(FUNCTIONS).debug_assert();
}

#[test]
fn runs_and_reloads() {
    let Asked::Command(Commands::Run(run)) = ask("run a.lua --name lab --until-drained --metrics 127.0.0.1:9100")
    else {
        panic!("another command")
    };
    assert_eq!((run.file.to_str(), run.target.name.as_str(), run.until_drained), (Some("a.lua"), "lab", true));
    assert_eq!(run.metrics.map(|metrics| metrics.port()), Some(9100));
    let Asked::Command(Commands::Run(run)) = ask("run a.lua") else { panic!("another command") };
    assert_eq!((run.target.name.as_str(), run.metrics, run.log), (DEFAULT_NAME, None, None));
    let Asked::Command(Commands::Reload(reload)) = ask("reload --dry-run --socket /tmp/s") else {
        panic!("another command")
    };
    assert!(reload.file.is_none() && reload.dry_run && !reload.allow_restart);
    assert!(error("run").contains("FILE.lua"));
    assert!(error("run a.lua --metrics nine").contains("invalid socket address"));
}

#[test]
fn shows_are_those_of_the_functions_too() {
    let Asked::Command(Commands::Show(show)) = ask("show routes 10.0.0.0/8 --json") else { panic!("another command") };
    assert_eq!((show.what.as_str(), show.filter.as_deref(), show.json), ("routes", Some("10.0.0.0/8"), true));
    let Asked::Command(Commands::Show(show)) = ask("show stats --watch") else { panic!("another command") };
    assert_eq!(show.watch, Some(1));
    let Asked::Command(Commands::Show(show)) = ask("show stats --watch 5") else { panic!("another command") };
    assert_eq!(show.watch, Some(5));
    assert!(error("show rotues").contains("'routes'"), "{}", error("show rotues"));
    assert!(error("show stats --watch 0").contains("not in 1..=86400"));
}

#[test]
fn nouns_are_those_of_the_functions() {
    let Asked::Change(change) = ask("route add 10.0.0.0/8 via 192.0.2.1 192.0.2.2 --name lab") else {
        panic!("no change")
    };
    assert_eq!((change.verb.name().as_str(), change.target.name.as_str()), ("route add", "lab"));
    assert_eq!(change.words, ["10.0.0.0/8", "via", "192.0.2.1", "192.0.2.2"]);
    let Asked::Change(change) = ask("route add --from -") else { panic!("no change") };
    assert_eq!(change.from.as_deref(), Some(std::path::Path::new("-")));
    let Asked::Change(change) = ask("route del --function core") else { panic!("no change") };
    assert_eq!(change.function.as_deref(), Some("core"));
    assert!(error("route add 10.0.0.0/8").contains("VIA is missing; write route add PREFIX via VIA..."));
    assert!(error("route add x via y --from f").contains("cannot be used with"));
    assert!(error("route ad").contains("'add'"));
    assert!(error("route add --help").contains("  PREFIX  Where to."));
    assert!(
        error("route --help")
            .contains("Examples:\n  weir route add 10.0.0.0/8 via 192.0.2.1  by one\n  weir route del ")
    );
    let help = error("route add --help");
    assert!(help.contains("Examples:\n  weir route add 10.0.0.0/8") && !help.contains("weir route del"), "{help}");
}

#[test]
fn unknown_words_get_a_suggestion() {
    assert!(error("shwo").contains("'show'"));
    assert!(error("rout").contains("'route'"));
    assert!(error("run a.lua --nmae x").contains("'--name'"));
    assert!(error("bench cpp ty").contains("toy"));
}

#[test]
fn filters_are_words() {
    let Asked::Command(Commands::Trace(trace)) = ask("trace -n 3 host 10.0.0.1 and udp") else {
        panic!("another command")
    };
    assert_eq!((trace.count, trace.filter.join(" ").as_str()), (3, "host 10.0.0.1 and udp"));
    let Asked::Command(Commands::Capture(capture)) = ask("capture wan -w x.pcapng tcp port 80") else {
        panic!("another command")
    };
    assert_eq!(
        (capture.point.as_str(), capture.filter.join(" ").as_str(), capture.count),
        ("wan", "tcp port 80", None)
    );
    assert!(error("trace -n 0").contains("is not in 1..=10000"));
}

#[test]
fn unknown_commands_are_told_what_there_is() {
    let said = error("bench typo");
    assert!(
        said.contains("'typo'") && said.contains("there are compare, cpp, flowstat, peers, rfc2544, run, shaping\n"),
        "{said}"
    );
    assert!(!said.contains("sample"), "{said}");
    assert!(error("bench pears").contains("'peers'"));
    assert!(error("route replace").contains("there are add, del\n"), "{}", error("route replace"));
    assert!(error("top").contains("show, "), "{}", error("top"));
}

#[test]
fn json_may_be_asked_for_with_a_wrong_line() {
    let wants = |line: &str| wants_json(words(line));
    assert!(wants("shwo stats --json") && wants("--json"));
    assert!(!wants("show stats") && !wants("trace -- --json"));
}

#[test]
fn help_teaches_by_example() {
    for name in ["run", "check", "reload", "save", "show", "trace", "capture", "completion", "flowstat"] {
        let text = error(&format!("{name} --help"));
        assert!(text.contains("Example"), "{name}");
    }
}
