//! Why a command failed, as the user is told: a sentence for people, or, with `--json`, an object for programs.

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use serde_json::{Value, json};
use weir_config::{ConfigError, Shown};
use weir_protocol::VERSION;

use crate::client::ClientError;
use crate::socket::SocketError;
use crate::supervisor::Failure;

/// The exit status of a wrong command line.
const MISUSED: u8 = 2;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failed {
    /// One sentence each.
    Sentences(Vec<String>),
    /// The configuration is wrong.
    Config(Vec<ConfigError>),
    /// The running Weir refuses.
    Refused {
        /// What is wrong and what to do.
        message: String,
        /// What is wrong with a configuration.
        errors: Vec<ConfigError>,
    },
    /// The command line is wrong, as can be told only by what runs.
    Misused(String),
    /// What was asked for was printed, yet it is not whole, or not as it should be: a sentence each, for people beside it.
    Incomplete(Vec<String>),
    /// The exit status says it all; what there is to say was printed.
    Silent,
}

impl Failed {
    /// Tells it, as JSON if that was asked for, and says with what status the program ends.
    pub(crate) fn tell(&self, json: bool) -> ExitCode {
        // Where nothing can be written there is nobody to tell.
        let _ = match self.data().filter(|_| json) {
            Some(data) => writeln!(std::io::stdout(), "{data}"),
            None => write!(std::io::stderr(), "{self}"),
        };
        match self {
            Failed::Misused(_) => ExitCode::from(MISUSED),
            _ => ExitCode::FAILURE,
        }
    }

    /// The failure as data; `None` where data was printed already.
    fn data(&self) -> Option<Value> {
        let (message, errors) = match self {
            Failed::Sentences(sentences) => (sentences.join("\n"), &[][..]),
            Failed::Config(errors) => (mistakes(errors.len()), &errors[..]),
            Failed::Refused { message, errors } => (message.clone(), &errors[..]),
            Failed::Misused(sentence) => (sentence.clone(), &[][..]),
            Failed::Incomplete(_) | Failed::Silent => return None,
        };
        Some(json!({ "version": VERSION, "error": { "message": message, "errors": errors } }))
    }
}

fn mistakes(count: usize) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} mistake{s} in the configuration")
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Sentences(sentences) | Failed::Incomplete(sentences) => {
                sentences.iter().try_for_each(|sentence| writeln!(f, "weir: {}", Shown::lines(sentence)))
            }
            Failed::Config(errors) => {
                errors.iter().try_for_each(|error| writeln!(f, "{error}"))?;
                writeln!(f, "weir: {}", mistakes(errors.len()))
            }
            Failed::Refused { message, errors } => {
                writeln!(f, "weir: {}", Shown::lines(message))?;
                errors.iter().try_for_each(|error| writeln!(f, "  {error}"))
            }
            Failed::Misused(sentence) => writeln!(f, "weir: {sentence}"),
            Failed::Silent => Ok(()),
        }
    }
}

impl From<String> for Failed {
    fn from(sentence: String) -> Failed {
        Failed::Sentences(vec![sentence])
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        match failure {
            Failure::Config(errors) => Failed::Config(errors),
            Failure::Start(sentences) => Failed::Sentences(sentences),
            closed @ Failure::Closed { .. } => Failed::from(closed.to_string()),
        }
    }
}

impl From<SocketError> for Failed {
    fn from(error: SocketError) -> Failed {
        Failed::from(error.to_string())
    }
}

impl From<ClientError> for Failed {
    fn from(error: ClientError) -> Failed {
        match error {
            ClientError::Refused { message, errors } => Failed::Refused { message, errors },
            other => Failed::from(other.to_string()),
        }
    }
}

impl From<Vec<ConfigError>> for Failed {
    fn from(errors: Vec<ConfigError>) -> Failed {
        Failed::Config(errors)
    }
}

/// Tells what is wrong with a command line, or the help that was asked for, and says with what status the program ends.
pub(crate) fn misused(error: &clap::Error, json: bool) -> ExitCode {
    if json && error.use_stderr() {
        let text = error.render().to_string();
        return Failed::Misused(text.trim_start_matches("error: ").trim_end().to_owned()).tell(true);
    }
    // Where nothing can be written there is nobody to tell.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(MISUSED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_config::{ErrorKind, Place};

    #[test]
    fn every_failure_has_the_same_form() {
        let mistake = || ConfigError::new(ErrorKind::Malformed, &Place::line("x.lua", 3), "a", "is wrong");
        let said = |failed: Failed| (failed.data(), failed.to_string());
        let refused = Failed::Refused { message: "no".to_owned(), errors: vec![mistake()] };
        let (data, text) = said(refused);
        let data = data.unwrap();
        assert_eq!((&data["version"], &data["error"]["message"]), (&json!(1), &json!("no")));
        assert_eq!(data["error"]["errors"][0]["place"]["line"], json!(3));
        assert_eq!(text, "weir: no\n  x.lua:3: a: is wrong\n");
        let (data, text) = said(Failed::Config(vec![mistake(), mistake()]));
        assert_eq!(data.unwrap()["error"]["message"], json!("2 mistakes in the configuration"));
        assert!(text.ends_with("weir: 2 mistakes in the configuration\n"));
        let (data, text) = said(Failed::Sentences(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(data.unwrap()["error"], json!({ "message": "a\nb", "errors": [] }));
        assert_eq!(text, "weir: a\nweir: b\n");
        let (data, text) = said(Failed::Incomplete(vec!["the result is partial".to_owned()]));
        assert_eq!((data, text.as_str()), (None, "weir: the result is partial\n"), "data was printed before");
    }
}
