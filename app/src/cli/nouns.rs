//! The nouns that functions add to the command line: `weir route add PREFIX via ADDRESS...`.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use weir_stage::{AnyFunction, Verb};

use super::Target;
use crate::words;

/// A change that a function is asked for.
#[derive(Debug)]
pub(crate) struct Change {
    /// What is done.
    pub(crate) verb: &'static Verb,
    /// The words of one change; none if they come from a file.
    pub(crate) words: Vec<String>,
    /// The file of a batch, one change in each line; `-` is the standard input.
    pub(crate) from: Option<PathBuf>,
    /// The function's name, where several know the verb.
    pub(crate) function: Option<String>,
    /// Whether the answer is to be JSON.
    pub(crate) json: bool,
    /// Which Weir.
    pub(crate) target: Target,
}

/// The verbs of all functions, each name once.
fn verbs(functions: &[&dyn AnyFunction]) -> Vec<&'static Verb> {
    let mut found: Vec<&'static Verb> = Vec::new();
    for verb in functions.iter().flat_map(|function| function.verbs()) {
        if !found.iter().any(|other| other.noun == verb.noun && other.action == verb.action) {
            found.push(verb);
        }
    }
    found
}

/// The examples of what begins with `words`, for help: each in a line, with what it is for beside.
fn examples(functions: &[&dyn AnyFunction], words: &str) -> String {
    let all = functions.iter().flat_map(|function| function.examples());
    let parted = all.filter_map(|example| {
        let (line, what) = example.split_once("  # ").unwrap_or((*example, ""));
        line.starts_with(&format!("{words} ")).then_some((line, what))
    });
    let mut lines: Vec<(&str, &str)> = parted.collect();
    lines.dedup();
    let width = lines.iter().map(|(line, _)| line.len()).max().unwrap_or_default();
    let line = |(line, what): &(&str, &str)| format!("  weir {}\n", format!("{line:width$}  {what}").trim_end());
    match lines.is_empty() {
        true => String::new(),
        false => format!("Examples:\n{}", lines.iter().map(line).collect::<String>()),
    }
}

/// A subcommand for each noun, with one below it for each action.
pub(super) fn subcommands(functions: &[&dyn AnyFunction]) -> Vec<Command> {
    let verbs = verbs(functions);
    let mut nouns: Vec<&'static str> = verbs.iter().map(|verb| verb.noun).collect();
    nouns.dedup();
    let noun = |noun: &'static str| {
        let actions: Vec<&'static Verb> = verbs.iter().filter(|verb| verb.noun == noun).copied().collect();
        let names: Vec<&str> = actions.iter().map(|verb| verb.action).collect();
        Command::new(noun)
            .about(format!("Change at run time: {noun} {}", names.join(", ")))
            .subcommand_required(true)
            .arg_required_else_help(true)
            .after_help(examples(functions, noun))
            .subcommands(actions.iter().map(|verb| action(verb, &examples(functions, &verb.name()))))
    };
    nouns.into_iter().map(noun).collect()
}

fn action(verb: &'static Verb, examples: &str) -> Command {
    let usage = words::usage(verb);
    let target = "Which Weir";
    let mut command = Command::new(verb.action)
        .about(verb.help)
        .override_usage(format!("weir {} {usage}", verb.name()))
        .after_help(format!("Arguments:\n{}\n{examples}", words::help(verb)))
        .arg(Arg::new("words").value_name("WORDS").num_args(0..).hide(true))
        .arg(
            Arg::new("function")
                .long("function")
                .value_name("NAME")
                .help("The function's name, where several know this"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print the answer as JSON"))
        .arg(
            Arg::new("name")
                .long("name")
                .value_name("NAME")
                .default_value(crate::socket::DEFAULT_NAME)
                .help_heading(target)
                .help("Its name"),
        )
        .arg(
            Arg::new("socket")
                .long("socket")
                .value_name("PATH")
                .value_parser(value_parser!(PathBuf))
                .help_heading(target)
                .help("Its control socket, in place of the one that the name stands for"),
        );
    if verb.batch {
        let both = format!("weir {} {usage}\n       weir {} --from FILE", verb.name(), verb.name());
        command = command.override_usage(both).arg(
            Arg::new("from")
                .long("from")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .conflicts_with("words")
                .help("Read many, one in each line: the same words, or CSV below a line of names. - is the standard input"),
        );
    }
    command
}

/// The change that a command line asks for, if its noun is a function's.
pub(super) fn change(
    functions: &[&'static dyn AnyFunction],
    matches: &ArgMatches,
) -> Result<Option<Change>, clap::Error> {
    let Some((noun, below)) = matches.subcommand() else { return Ok(None) };
    let Some((action, given)) = below.subcommand() else { return Ok(None) };
    let found = verbs(functions).into_iter().find(|verb| verb.noun == noun && verb.action == action);
    let Some(verb) = found else { return Ok(None) };
    let text = |key: &str| given.get_one::<String>(key).cloned();
    let change = Change {
        verb,
        words: given.get_many::<String>("words").unwrap_or_default().cloned().collect(),
        from: if verb.batch { given.get_one::<PathBuf>("from").cloned() } else { None },
        function: text("function"),
        json: given.get_flag("json"),
        target: Target { name: text("name").unwrap_or_default(), socket: given.get_one::<PathBuf>("socket").cloned() },
    };
    if change.from.is_none() {
        words::arguments(verb, &change.words)
            .map_err(|problem| clap::Error::raw(ErrorKind::MissingRequiredArgument, format!("{problem}\n")))?;
    }
    Ok(Some(change))
}
