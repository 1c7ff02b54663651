//! Who made an entry: each source changes only its own.

use std::fmt;
use std::str::FromStr;

/// The maker of a route or neighbour. The order is the preference: where several sources have an entry for the same
/// key, the first of them wins, and the next one takes over when it goes.
///
/// What is attached to the router is the truth; after it comes what a person typed just now, then what a person wrote down, then what the
/// function owns, then what others say: a command takes effect, and what it covered comes back when it is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RouteSource {
    /// Follows from the address of a port.
    Connected,
    /// Came by command at run time.
    Cli,
    /// Stands in the configuration.
    Config,
    /// Is of the function whose network layer it is: what it owns.
    Function,
    /// Was taken over from the Linux kernel.
    Linux,
    /// Was learned from packets.
    Learned,
}

impl RouteSource {
    /// All sources, the most preferred first.
    pub const ALL: [RouteSource; 6] = [
        RouteSource::Connected,
        RouteSource::Cli,
        RouteSource::Config,
        RouteSource::Function,
        RouteSource::Linux,
        RouteSource::Learned,
    ];

    /// The name in lower case, as commands and output use it; of [`RouteSource::Function`] they use the function's own.
    pub const fn name(self) -> &'static str {
        match self {
            RouteSource::Connected => "connected",
            RouteSource::Config => "config",
            RouteSource::Cli => "cli",
            RouteSource::Function => "function",
            RouteSource::Linux => "linux",
            RouteSource::Learned => "learned",
        }
    }
}

impl fmt::Display for RouteSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The text names no source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownRouteSource;

impl fmt::Display for UnknownRouteSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a source; write connected, config, cli, function, linux or learned")
    }
}

impl std::error::Error for UnknownRouteSource {}

impl FromStr for RouteSource {
    type Err = UnknownRouteSource;

    fn from_str(text: &str) -> Result<Self, UnknownRouteSource> {
        RouteSource::ALL.into_iter().find(|source| source.name() == text).ok_or(UnknownRouteSource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_in_order_of_preference() {
        assert!(RouteSource::ALL.is_sorted());
        for source in RouteSource::ALL {
            assert_eq!(source.to_string().parse(), Ok(source));
        }
        assert_eq!("Config".parse::<RouteSource>(), Err(UnknownRouteSource));
    }
}
