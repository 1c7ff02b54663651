//! What a service is to the program: work beside packets, done in short steps on a thread that is in no packet's way.
//!
//! The program waits on a service's behalf, tells and rebuilds one that fails, panics or hangs, and lists all of them in
//! `weir show services`.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use weir_config::{FilePath, Nanos, Pattern, config};

use crate::channel::Channel;
use crate::flows::FlowExport;

/// The form of a file's path, whether or not it is there.
static FILE: Pattern = Pattern {
    what: "the path of a file below the folder of the script",
    example: "usage.jsonl",
    matches: |text| FilePath::parse(text).is_ok() && !text.contains(char::is_control),
};

config! {
    /// What was counted of each user, written to a file from time to time.
    pub struct UsageConfig {
        /// The file, below the folder of the script; lines are added to it. It may be moved away at any time: the next round begins another.
        pub file: String = required, live, pattern(FILE);
        /// How long it is from one round to the next.
        pub every: Nanos = default(Nanos::new(300_000_000_000)), live, range(Nanos::new(100_000_000)..=Nanos::new(86_400_000_000_000));
    }
}

/// Something that a function needs done beside packets. It says what; the program opens what it takes, and does it by a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// The rows of one of its tables, written to a file from time to time.
    Export {
        /// The table: `users`.
        table: &'static str,
        /// The file, below the configuration's folder.
        file: PathBuf,
        /// From one round to the next, nanoseconds.
        every: u64,
    },
    /// A TAP for each interface of one of its VRFs in a Linux network namespace, through which frames go both ways.
    Taps {
        /// The VRF.
        vrf: String,
        /// The namespace's name, as `ip netns` has it; `None`: that of the program.
        netns: Option<String>,
    },
    /// Routes, addresses and neighbours of a Linux network namespace, for one of its VRFs.
    Routes {
        /// The VRF.
        vrf: String,
        /// The namespace's name, as `ip netns` has it; `None`: that of the program.
        netns: Option<String>,
        /// The number of the kernel's routing table.
        table: u32,
        /// The TCP port, on loopback, at which a routing daemon may tell routes too.
        fpm: Option<u16>,
    },
    /// Connections with controllers.
    Channel(Channel),
    /// Samples of its packets and counters of its interfaces, sent to collectors.
    Flows(FlowExport),
}

impl Need {
    /// The rows of a table, written as a configuration says.
    pub fn export(table: &'static str, usage: &UsageConfig) -> Need {
        Need::Export { table, file: PathBuf::from(&usage.file), every: usage.every.nanos() }
    }
}

/// What an instance of a service waits for before its next step.
#[derive(Clone, Debug, Default)]
pub struct Waits<'a> {
    /// Descriptors that something is to be read from, or a client taken from.
    pub readable: Vec<BorrowedFd<'a>>,
    /// Descriptors that something is to be written to.
    pub writable: Vec<BorrowedFd<'a>>,
    /// When it steps at the latest, nanoseconds of the clock that [`Service::step`] is given; `None` where only descriptors matter.
    pub until: Option<u64>,
}

/// How full a service is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// What is counted: `clients`.
    pub unit: &'static str,
    /// How many there are.
    pub now: u64,
    /// How many there are at most.
    pub most: u64,
}

/// A running instance of a service.
pub trait Service: Send {
    /// What to wait for before the next step.
    fn waits(&self) -> Waits<'_>;

    /// Does what is due at `now`, nanoseconds of a clock that only goes forward, and waits for nothing: one that takes seconds is taken for
    /// hung.
    ///
    /// # Errors
    ///
    /// Why it cannot go on, as a sentence. The instance is dropped then, and another made.
    fn step(&mut self, now: u64) -> Result<(), String>;

    /// How full it is.
    fn load(&self) -> Load;
}

/// What makes a service, and makes it anew when it failed. What outlives an instance, such as the socket that it listens on, is kept here.
pub trait MakeService: Send + Sync {
    /// Its name, of which there is one: `metrics`.
    fn name(&self) -> &str;

    /// Whose it is: `weir`, or the function's name.
    fn owner(&self) -> &str {
        "weir"
    }

    /// Makes an instance. It is bounded in time as a step is, and may find another instance alive: one that hangs.
    ///
    /// # Errors
    ///
    /// Why there can be none now, as a sentence; it is tried again.
    fn make(&self, now: u64) -> Result<Box<dyn Service>, String>;
}
