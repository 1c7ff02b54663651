//! Why a start or a reload failed, as people read it.

use std::fmt;

use weir_config::ConfigError;

/// Why a start or a reload failed. Nothing has changed then, unless it says so.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The configuration is wrong.
    Config(Vec<ConfigError>),
    /// A device, the memory or the engine refuses: a sentence each.
    Start(Vec<String>),
    /// The same for a reload, and not everything is as it was: ports that were closed for it could not be opened again. They are tried
    /// again.
    Closed {
        /// Why the reload failed.
        cause: Box<Failure>,
        /// A sentence for each of those ports.
        still_closed: Vec<String>,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Config(errors) => f.write_str(&lines(errors)),
            Failure::Start(sentences) => f.write_str(&sentences.join("\n")),
            Failure::Closed { cause, still_closed } => write!(
                f,
                "{cause}\nthe functions run as before, but ports that had to be closed do not open again; \
                 they are tried again every second, and what is sent there until then is dropped as link-down:\n{}",
                still_closed.join("\n")
            ),
        }
    }
}

fn lines(errors: &[ConfigError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl Failure {
    pub(super) fn one(sentence: impl ToString) -> Failure {
        Failure::Start(vec![sentence.to_string()])
    }
}
