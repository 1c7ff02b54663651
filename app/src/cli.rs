//! The command line.
//!
//! Most of it is declared here; the nouns of functions (`weir route add ...`) and the tables that they show are added from the
//! catalogue when the program starts.

mod bench;
mod flowstat;
mod generate;
mod nouns;
mod packets;
mod peers;
mod rfc2544;
mod shaping;
mod show;

pub(crate) use bench::{Bench, BenchCommands, BenchRun, Compare, Cpp};
pub(crate) use flowstat::{Flowstat, FlowstatBench};
pub(crate) use generate::Generate;
pub(crate) use nouns::Change;
pub(crate) use peers::Peers;
pub(crate) use rfc2544::Rfc2544;
pub(crate) use shaping::Shaping;
pub(crate) use show::{OtherTable, SHOWS, Show, Sort};

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use weir_protocol::Level;
use weir_stage::AnyFunction;

use crate::socket::DEFAULT_NAME;

/// A software data plane for commodity servers: routes packets, and accounts for every packet and every cycle.
#[derive(Debug, Parser)]
#[command(
    name = "weir",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Start with:\n  weir check router.lua       is the configuration right?\n  weir run router.lua         \
                  run it in the foreground\n  weir show stats             in another terminal: what it does\n  \
                  weir doctor                 is the host ready?\n\n`weir help COMMAND` has examples of each."
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Commands,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Commands {
    /// Run a configuration in the foreground
    Run(Run),
    /// Check a configuration, without NIC, root or huge pages
    Check(Check),
    /// Make a configuration of another program's
    Import(Import),
    /// Replace the running configuration
    Reload(Reload),
    /// Write out what was added at run time, as a configuration
    Save(Save),
    /// Show numbers and tables
    Show(Show),
    /// Follow packets through the stages
    Trace(Trace),
    /// Copy packets at a port, a way or a drop to a file
    Capture(Capture),
    /// Say how much is logged, or change it
    Log(Log),
    /// Look at the host and say what to do
    Doctor(Doctor),
    /// Generate traffic, and measure what comes back
    Gen(Box<Generate>),
    /// Say what happened to every packet, from two captures
    Flowstat(Box<Flowstat>),
    /// Measure what functions cost
    Bench(Bench),
    /// Print the versions of this program and of what runs
    Version(Version),
    /// Print the completion of a shell
    Completion(Completion),
    /// A part of `completion`: prints what a line may go on with
    #[command(hide = true)]
    Complete(Complete),
    /// Print what a configuration may say: the manual of a kind of declaration
    Manual(Manual),
}

/// Which running Weir is meant.
#[derive(Clone, Debug, Args)]
pub(crate) struct Target {
    /// Its name
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAME, help_heading = "Which Weir")]
    pub(crate) name: String,
    /// Its control socket, in place of the one that the name stands for
    #[arg(long, value_name = "PATH", help_heading = "Which Weir")]
    pub(crate) socket: Option<PathBuf>,
}

/// What a configuration may do that takes a switch of the command line.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Allowed {
    /// Allow stages written in Lua: code of your own in the data path
    #[arg(long, help_heading = "Permissions")]
    pub(crate) allow_lua_stages: bool,
    /// Allow such stages everything that the program can do, crashing it included
    #[arg(long, help_heading = "Permissions")]
    pub(crate) allow_lua_ffi: bool,
}

impl Allowed {
    /// The switches that were given.
    pub(crate) fn switches(self) -> Vec<&'static str> {
        let all = [(self.allow_lua_stages, "--allow-lua-stages"), (self.allow_lua_ffi, "--allow-lua-ffi")];
        all.into_iter().filter(|(given, _)| *given).map(|(_, switch)| switch).collect()
    }
}

/// `weir run`.
#[derive(Debug, Args)]
#[command(
    after_help = "Prints `ready` alone on a line when all workers run. SIGTERM and SIGINT stop receiving, let what \
                        is on its way leave, print the account and exit with 0. SIGHUP reads the configuration again, as \
                        `weir reload` does. Other signals that can be caught change nothing; the log tells of them.\n\nExamples:\n  weir run router.lua\n  \
                        weir run lab.lua --name lab --metrics 127.0.0.1:9100\n  weir run demo.lua --until-drained    \
                        end when all input files are read"
)]
pub(crate) struct Run {
    /// The configuration
    #[arg(value_name = "FILE.lua")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) target: Target,
    /// End when all input has come to its end and nothing is on its way
    #[arg(long)]
    pub(crate) until_drained: bool,
    #[command(flatten)]
    pub(crate) allowed: Allowed,
    /// Serve metrics as Prometheus reads them, at http://ADDRESS:PORT/metrics
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) metrics: Option<std::net::SocketAddr>,
    /// Write the log to a file, not to stderr
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// What is logged: error, warn, info or debug, each with those before it; `weir log` changes it while Weir runs
    #[arg(long, value_name = "LEVEL", default_value = "info", hide_possible_values = true, value_parser = level_of())]
    pub(crate) log_level: Level,
    /// Print the account as JSON when it ends
    #[arg(long)]
    pub(crate) json: bool,
}

/// `weir check`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exits with 0 if nothing is wrong, else prints every mistake and exits with 1.\n\nExample:\n  weir \
                        check router.lua"
)]
pub(crate) struct Check {
    /// The configuration
    #[arg(value_name = "FILE.lua")]
    pub(crate) file: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// What it may do; only what `weir run` refuses without the same depends on it.
    #[command(flatten)]
    pub(crate) allowed: Allowed,
}

/// `weir import`.
#[derive(Debug, Args)]
#[command(
    after_help = "Prints a configuration, or every mistake in the file, and exits with 1 then.\n\nExample:\n  weir \
                        import snabb-lwaftr lwaftr.conf > lwaftr.lua"
)]
pub(crate) struct Import {
    /// What the file is
    #[arg(value_name = "FORMAT", value_parser = import_formats())]
    pub(crate) format: String,
    /// The file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print mistakes as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The formats that functions know.
fn import_formats() -> impl TypedValueParser<Value = String> {
    let formats = crate::catalogue::imports().map(|format| PossibleValue::new(format.name).help(format.help));
    PossibleValuesParser::new(formats)
}

/// `weir reload`.
#[derive(Debug, Args)]
#[command(
    after_help = "Without FILE, Weir reads its own file again. Everything is built aside first; if anything is wrong, \
                        nothing changes.\n\nExamples:\n  weir reload --dry-run         what would change?\n  weir \
                        reload                   take over the changed file\n  weir reload new.lua"
)]
pub(crate) struct Reload {
    /// The new configuration
    #[arg(value_name = "FILE.lua")]
    pub(crate) file: Option<PathBuf>,
    /// Print the plan and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Allow changes that take a restart of the whole process
    #[arg(long)]
    pub(crate) allow_restart: bool,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// `weir save`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weir save\n  weir save -w added.lua")]
pub(crate) struct Save {
    /// The file to write; the standard output when absent
    #[arg(short, long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// `weir trace`.
#[derive(Debug, Args)]
#[command(
    after_help = "FILTER is a filter expression as tcpdump has them, one word or several. Ctrl-C ends.\n\nExamples:\n  \
                        weir trace\n  weir trace -n 10 icmp\n  weir trace -n 3 dst host 192.0.2.9 and udp port 53"
)]
pub(crate) struct Trace {
    /// Packets to follow
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(crate::trace::MAX_PACKETS)))]
    pub(crate) count: u32,
    /// Which packets
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
    /// Print JSON, a line for each step
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// `weir capture`.
#[derive(Debug, Args)]
#[command(
    after_help = "POINT is a port, a way or reason STAGE.WAY (`weir show graph` lists them), PORT.REASON, a whole STAGE, \
                        or `drops`. Ctrl-C ends.\n\nExamples:\n  weir capture wan -w wan.pcapng\n  weir capture wan -w - \
                        icmp | tshark -r -\n  weir capture drops -w drops.pcapng -n 1000"
)]
pub(crate) struct Capture {
    /// Where to copy packets
    #[arg(value_name = "POINT")]
    pub(crate) point: String,
    /// The file to write, in the format pcapng; - for the standard output
    #[arg(short, long, value_name = "FILE.pcapng")]
    pub(crate) write: PathBuf,
    /// Stop after so many packets
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Bytes of each packet to copy
    #[arg(short, long, value_name = "BYTES", default_value_t = 65_535, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub(crate) snap: u32,
    /// Which packets: a filter expression as tcpdump has them
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// The names of the levels.
fn level_of() -> impl TypedValueParser<Value = Level> {
    let value = |level: Level| PossibleValue::new(level.word()).aliases((level == Level::Warn).then_some("warning"));
    PossibleValuesParser::new(Level::ALL.map(value)).map(|word| {
        let word = if word == "warning" { Level::Warn.word() } else { word.as_str() };
        Level::ALL.into_iter().find(|level| level.word() == word).unwrap_or(Level::Info)
    })
}

/// `weir log`.
#[derive(Debug, Args)]
#[command(
    after_help = "Each level has the lines of those before it: error, what does not work; warn, what somebody should look at; \
                        info, who changed what, links, signals; debug, every client and what it asked.\n\nExamples:\n  weir \
                        log                      the level now\n  weir log debug                until it is changed again, or Weir \
                        starts anew"
)]
pub(crate) struct Log {
    /// What is logged from now on: error, warn, info or debug
    #[arg(value_name = "LEVEL", hide_possible_values = true, value_parser = level_of())]
    pub(crate) level: Option<Level>,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// `weir doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Changes nothing. Exits with 0 whatever it finds.\n\nExample:\n  weir doctor")]
pub(crate) struct Doctor {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `weir version`.
#[derive(Debug, Args)]
pub(crate) struct Version {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// `weir completion`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  source <(weir completion bash)\n  weir completion zsh > ~/.zfunc/_weir\n  weir \
                        completion fish > ~/.config/fish/completions/weir.fish")]
pub(crate) struct Completion {
    /// The shell
    #[arg(value_name = "SHELL", value_parser = ["bash", "zsh", "fish"])]
    pub(crate) shell: String,
}

/// `weir complete`.
#[derive(Debug, Args)]
pub(crate) struct Complete {
    /// The words behind the program's name, up to the one that is being written
    #[arg(last = true)]
    pub(crate) words: Vec<String>,
}

/// `weir manual`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weir manual\n  weir manual port")]
pub(crate) struct Manual {
    /// The kind; all when absent
    #[arg(value_name = "KIND")]
    pub(crate) kind: Option<String>,
}

/// What the user asked for.
#[derive(Debug)]
pub(crate) enum Asked {
    /// A command that every Weir has.
    Command(Commands),
    /// A change that a function knows.
    Change(Change),
}

/// The whole command line, with what functions add to it.
pub(crate) fn command(functions: &[&dyn AnyFunction]) -> Command {
    let mut words: Vec<clap::builder::PossibleValue> = SHOWS.iter().map(|(what, help)| possible(what, help)).collect();
    for show in functions.iter().flat_map(|function| function.shows()) {
        if !words.iter().any(|word| word.get_name() == show.what) {
            words.push(possible(show.what, show.help));
        }
    }
    let kinds: Vec<&'static str> = functions.iter().map(|function| function.kind()).collect();
    let command = Cli::command()
        .mut_subcommand("show", |show| show.mut_arg("what", |what| what.value_parser(PossibleValuesParser::new(words))))
        .mut_subcommand("bench", |bench| {
            bench.mut_subcommand("cpp", |cpp| {
                cpp.mut_arg("function", |function| function.value_parser(PossibleValuesParser::new(kinds)))
            })
        })
        .mut_subcommand("bench", |bench| bench.mut_subcommand("peers", peers::with_names));
    nouns::subcommands(functions).into_iter().fold(command, Command::subcommand)
}

fn possible(word: &'static str, help: &'static str) -> clap::builder::PossibleValue {
    clap::builder::PossibleValue::new(word).help(help)
}

/// What the words of a command line ask for.
pub(crate) fn parse(
    functions: &[&'static dyn AnyFunction],
    words: impl IntoIterator<Item = std::ffi::OsString>,
) -> Result<Asked, clap::Error> {
    let mut command = command(functions);
    let words: Vec<std::ffi::OsString> = words.into_iter().collect();
    let matches = command.try_get_matches_from_mut(&words).map_err(|error| with_choice(error, &command, &words))?;
    asked(functions, &matches).map_err(|error| error.format(&mut command))
}

/// Whether the words ask for JSON, even where they are wrong otherwise.
pub(crate) fn wants_json(words: impl IntoIterator<Item = std::ffi::OsString>) -> bool {
    words.into_iter().take_while(|word| word != "--").any(|word| word == "--json")
}

/// Adds to the error of an unknown subcommand which there are.
fn with_choice(mut error: clap::Error, command: &Command, words: &[std::ffi::OsString]) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let known = |at: &'_ Command, word: &std::ffi::OsString| at.find_subcommand(word).cloned();
    let mut at = command.clone();
    // What follows `help` are the names of others.
    while let Some(below) = words.iter().filter(|word| *word != "help").find_map(|word| known(&at, word)) {
        at = below;
    }
    let shown = at.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help");
    let mut names: Vec<&str> = shown.map(Command::get_name).collect();
    names.sort_unstable();
    let mut tips = match error.remove(ContextKind::Suggested) {
        Some(ContextValue::StyledStrs(tips)) => tips,
        _ => Vec::new(),
    };
    tips.push(format!("there are {}", names.join(", ")).into());
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    error
}

fn asked(functions: &[&'static dyn AnyFunction], matches: &ArgMatches) -> Result<Asked, clap::Error> {
    if let Some(change) = nouns::change(functions, matches)? {
        return Ok(Asked::Change(change));
    }
    Cli::from_arg_matches(matches).map(|cli| Asked::Command(cli.command))
}

#[cfg(test)]
mod tests;
