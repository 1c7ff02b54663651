//! Why a command failed, as the user is told.

use std::fmt;

use weir_config::{ConfigError, Shown};

use crate::client::ClientError;
use crate::socket::SocketError;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failed {
    /// One sentence each.
    Sentences(Vec<String>),
    /// The configuration is wrong.
    Config(Vec<ConfigError>),
    /// The exit status says it all; what there is to say was printed.
    Silent,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Sentences(sentences) => {
                sentences.iter().try_for_each(|sentence| writeln!(f, "weir: {}", Shown::lines(sentence)))
            }
            Failed::Config(errors) => {
                errors.iter().try_for_each(|error| writeln!(f, "{error}"))?;
                let s = if errors.len() == 1 { "" } else { "s" };
                writeln!(f, "weir: {} mistake{s} in the configuration", errors.len())
            }
            Failed::Silent => Ok(()),
        }
    }
}

impl From<String> for Failed {
    fn from(sentence: String) -> Failed {
        Failed::Sentences(vec![sentence])
    }
}

impl From<SocketError> for Failed {
    fn from(error: SocketError) -> Failed {
        Failed::from(error.to_string())
    }
}

impl From<ClientError> for Failed {
    fn from(error: ClientError) -> Failed {
        Failed::from(error.to_string())
    }
}

impl From<Vec<ConfigError>> for Failed {
    fn from(errors: Vec<ConfigError>) -> Failed {
        Failed::Config(errors)
    }
}
