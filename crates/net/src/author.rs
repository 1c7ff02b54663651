//! Who made an entry: each author changes only its own.

use std::fmt;
use std::str::FromStr;

/// The maker of a route or neighbour. The order is the preference: where several authors have an entry for the same
/// key, the first of them wins, and the next one takes over when it goes.
///
/// What is attached to the router is the truth; after it comes what a person typed just now, then what a person wrote down,
/// then what others say: a command takes effect, and what it covered comes back when it is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Author {
    /// Follows from the address of a port.
    Connected,
    /// Came by command at run time.
    Cli,
    /// Stands in the configuration.
    Config,
    /// Was taken over from the Linux kernel.
    Linux,
    /// Was learned from packets.
    Learned,
}

impl Author {
    /// All authors, the most preferred first.
    pub const ALL: [Author; 5] = [Author::Connected, Author::Cli, Author::Config, Author::Linux, Author::Learned];

    /// The name in lower case, as commands and output use it.
    pub const fn name(self) -> &'static str {
        match self {
            Author::Connected => "connected",
            Author::Config => "config",
            Author::Cli => "cli",
            Author::Linux => "linux",
            Author::Learned => "learned",
        }
    }
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The text names no author.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownAuthor;

impl fmt::Display for UnknownAuthor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an author; write connected, config, cli, linux or learned")
    }
}

impl std::error::Error for UnknownAuthor {}

impl FromStr for Author {
    type Err = UnknownAuthor;

    fn from_str(text: &str) -> Result<Self, UnknownAuthor> {
        Author::ALL.into_iter().find(|author| author.name() == text).ok_or(UnknownAuthor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_in_order_of_preference() {
        assert!(Author::ALL.is_sorted());
        for author in Author::ALL {
            assert_eq!(author.to_string().parse(), Ok(author));
        }
        assert_eq!("Config".parse::<Author>(), Err(UnknownAuthor));
    }
}
