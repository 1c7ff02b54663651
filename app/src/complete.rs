//! What a shell may complete a command line with: commands, options and values of this program, and names of what runs.
//!
//! The scripts of `weir completion` ask the hidden command `weir complete`, so that all shells complete the same, and know the ports,
//! stages and functions of the running Weir that the line means.

mod running;
mod scripts;

use clap::{Arg, Command};
use weir_stage::AnyFunction;

pub(crate) use running::Asker;
pub(crate) use scripts::script;

/// A word that may stand there, and what it is.
pub(crate) type Candidate = (String, String);

/// What is known at run time only.
pub(crate) trait Names {
    /// The names of the Weirs that run.
    fn weirs(&mut self) -> Vec<String>;
    /// The names of one kind of thing in the Weir that `which` means: of a name, or at a socket.
    fn of(&mut self, which: &Which, kind: Kind) -> Vec<String>;
}

/// Which running Weir a line means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Which {
    /// The value of `--name`.
    pub(crate) name: Option<String>,
    /// The value of `--socket`.
    pub(crate) socket: Option<String>,
}

/// Kinds of things that have names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Ports.
    Ports,
    /// Stages.
    Stages,
    /// Workers.
    Workers,
    /// Links between workers.
    Links,
    /// Ways and reasons, `STAGE.WAY`.
    Ways,
    /// Functions.
    Functions,
}

/// A line up to where something is to be completed.
struct Line<'c> {
    /// The commands that it names.
    path: Vec<String>,
    /// The last of them.
    at: &'c Command,
    /// Words behind it that are no options.
    plain: Vec<String>,
    /// The option that waits for its value.
    open: Option<&'c Arg>,
    /// Whether the word before was an option that may have a number behind it.
    may_count: bool,
    which: Which,
}

/// The words that may stand in place of the last of `words`, which is what has been written of it so far.
pub(crate) fn candidates(
    mut command: Command,
    functions: &[&dyn AnyFunction],
    words: &[String],
    names: &mut dyn Names,
) -> Vec<Candidate> {
    let (last, before) = words.split_last().map_or(("", &[][..]), |(last, before)| (last.as_str(), before));
    // Before that options do not know how many values they take, nor words which comes when.
    command.build();
    let line = Line::read(&command, before);
    let (start, all) = match (line.open, last.split_once('=')) {
        (Some(option), _) => (last, line.values(option, functions, names)),
        (None, Some((option, _))) if option.starts_with("--") => {
            let values = line.option(option).map_or_else(Vec::new, |option| line.values(option, functions, names));
            let values = values.into_iter().map(|(word, help)| (format!("{option}={word}"), help)).collect();
            (last, values)
        }
        (None, _) if last.starts_with('-') => (last, line.options()),
        (None, _) => (last, line.plain_words(functions, names)),
    };
    all.into_iter().filter(|(word, _)| word.starts_with(start)).collect()
}

impl<'c> Line<'c> {
    fn read(command: &'c Command, words: &[String]) -> Line<'c> {
        let mut line = Line {
            path: Vec::new(),
            at: command,
            plain: Vec::new(),
            open: None,
            may_count: false,
            which: Which::default(),
        };
        // Some shells take `--name=lab` apart.
        for word in words.iter().filter(|word| *word != "=") {
            line.add(word);
        }
        line
    }

    fn add(&mut self, word: &str) {
        let may_count = std::mem::take(&mut self.may_count);
        if let Some(option) = self.open.take() {
            self.remember(option, word);
        } else if let Some((option, value)) = word.split_once('=').filter(|_| word.starts_with("--")) {
            if let Some(option) = self.option(option) {
                self.remember(option, value);
            }
        } else if word.len() > 1 && word.starts_with('-') {
            let option = self.option(word);
            let numbers = option.and_then(Arg::get_num_args).map_or((0, 0), |of| (of.min_values(), of.max_values()));
            self.open = option.filter(|_| numbers.0 > 0);
            self.may_count = numbers == (0, 1);
        } else if may_count && word.bytes().all(|byte| byte.is_ascii_digit()) {
            // As in `show --watch 2 stats`.
        } else if let Some(below) = self.at.find_subcommand(word) {
            self.path.push(word.to_owned());
            self.at = below;
            self.plain.clear();
        } else {
            self.plain.push(word.to_owned());
        }
    }

    fn remember(&mut self, option: &Arg, value: &str) {
        match option.get_id().as_str() {
            "name" => self.which.name = Some(value.to_owned()),
            "socket" => self.which.socket = Some(value.to_owned()),
            _ => {}
        }
    }

    /// The option that is written like this.
    fn option(&self, word: &str) -> Option<&'c Arg> {
        let is_it = |option: &&Arg| match word.strip_prefix("--") {
            Some(long) => option.get_long() == Some(long),
            None => option.get_short().is_some_and(|short| word.strip_prefix('-') == Some(short.to_string().as_str())),
        };
        self.at.get_arguments().find(is_it)
    }

    fn options(&self) -> Vec<Candidate> {
        let shown = self.at.get_arguments().filter(|option| !option.is_hide_set());
        let word = |option: &Arg| Some((format!("--{}", option.get_long()?), help(option.get_help())));
        shown.filter_map(word).collect()
    }

    /// Commands, and values of the argument whose turn it is.
    fn plain_words(&self, functions: &[&dyn AnyFunction], names: &mut dyn Names) -> Vec<Candidate> {
        let shown = self.at.get_subcommands().filter(|below| !below.is_hide_set());
        let commands = shown.map(|below| (below.get_name().to_owned(), help(below.get_about())));
        let mut all: Vec<Candidate> = commands.collect();
        let mut positionals: Vec<&Arg> = self.at.get_positionals().collect();
        positionals.sort_by_key(|argument| argument.get_index());
        let next = positionals.get(self.plain.len()).or_else(|| {
            positionals.last().filter(|last| last.get_num_args().is_some_and(|number| number.max_values() > 1))
        });
        all.extend(next.into_iter().flat_map(|argument| self.values(argument, functions, names)));
        all
    }

    /// What an argument or option may be.
    fn values(&self, argument: &Arg, functions: &[&dyn AnyFunction], names: &mut dyn Names) -> Vec<Candidate> {
        let bare = |words: Vec<String>| words.into_iter().map(|word| (word, String::new())).collect();
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        let mut known = |kind: Kind| names.of(&self.which, kind);
        match (path.as_slice(), argument.get_id().as_str()) {
            (_, "name") => bare(names.weirs()),
            (["show"] | [_, _], "function") => bare(known(Kind::Functions)),
            (["show"], "filter") => bare(self.filters(&mut known)),
            (["capture"], "point") => {
                let drops = ("drops".to_owned(), "every drop".to_owned());
                let kinds = [Kind::Ports, Kind::Stages, Kind::Ways];
                std::iter::once(drops).chain(bare(kinds.into_iter().flat_map(known).collect())).collect()
            }
            (["manual"], "kind") => bare(crate::catalogue::kinds().names().into_iter().map(str::to_owned).collect()),
            ([noun, action], "words") => keywords(functions, noun, action),
            _ => {
                let shown = argument.get_possible_values().into_iter().filter(|value| !value.is_hide_set());
                shown.map(|value| (value.get_name().to_owned(), help(value.get_help()))).collect()
            }
        }
    }

    /// What selects rows of what is shown.
    fn filters(&self, known: &mut dyn FnMut(Kind) -> Vec<String>) -> Vec<String> {
        match self.plain.first().map(String::as_str) {
            Some("ports") => known(Kind::Ports),
            Some("stages" | "graph") => known(Kind::Stages),
            Some("cycles") => known(Kind::Workers),
            Some("links") => known(Kind::Links),
            Some("drops") => known(Kind::Ways),
            Some("stats") => [known(Kind::Ports), known(Kind::Workers)].concat(),
            _ => Vec::new(),
        }
    }
}

/// The words that stand before values of a change.
fn keywords(functions: &[&dyn AnyFunction], noun: &str, action: &str) -> Vec<Candidate> {
    let verbs = functions.iter().flat_map(|function| function.verbs());
    let verb = verbs.into_iter().find(|verb| verb.noun == noun && verb.action == action);
    let arguments = verb.into_iter().flat_map(|verb| verb.arguments);
    arguments.filter_map(|argument| Some((argument.keyword?.to_owned(), argument.help.to_owned()))).collect()
}

/// A line of help.
fn help(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
