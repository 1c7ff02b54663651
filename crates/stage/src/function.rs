//! What a network function is to the program: its configuration, its graph, its requests and shows, its measured cases.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_config::{
    ConfigError, Element, Folder, InterfaceAddress, OneOrMany, Pattern, PortName, Schema, choice, config,
};
use weir_mem::Domain;

use crate::graph::{Graph, GraphError};
use crate::interface::InterfaceInfo;
use crate::port::PortFacts;
use crate::service::Need;

/// The form of a device; which there are the program knows.
static DEVICE: Pattern = Pattern {
    what: "a device (its kind, and behind a colon what belongs to it)",
    example: "af_xdp:eth0",
    matches: |text| text.starts_with(|first: char| first.is_ascii_alphabetic()),
};

config! {
    /// A port: where packets enter and leave.
    pub struct PortConfig {
        /// What drives the port: `af_xdp:IF`, `af_packet:IF`, `tap:NAME`, `memif:...`, `vhost:PATH`, `virtio_user:PATH`,
        /// `pci:ADDRESS`, `vdev:ARGUMENTS`, `null`, `pcap:IN,OUT` or `mem:...`.
        pub device: String = required, restart_port, pattern(DEVICE);
        /// Addresses of the port, each with the length of its network: `"192.0.2.1/24"`.
        pub address: OneOrMany<InterfaceAddress> = empty, live;
        /// The largest IP packet the port carries, in bytes; that of the device when absent.
        pub mtu: Option<u16> = optional, restart_port, range(68..=9198);
    }
}

choice! {
    /// How a function's stages are spread over its workers.
    pub enum Layout {
        /// Every worker runs the whole graph, on receive queues of its own.
        RunToCompletion = "run-to-completion",
        /// The first worker receives and spreads flows (or users, where a user has one owner) over the others, each of which runs the whole
        /// graph.
        Distributor = "distributor",
        /// Each worker runs a section of the graph.
        Pipeline = "pipeline",
    }
}

/// The workers of a function, as its configuration names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// How the stages are spread.
    pub layout: Layout,
    /// Cores of the workers, in order.
    pub workers: Vec<u16>,
}

/// A port as functions see it.
#[derive(Clone, Debug)]
pub struct PortInfo {
    /// Its name in the configuration.
    pub name: String,
    /// Its index, by which graphs and the port lane refer to it. It stays the same as long as the port exists.
    pub index: u16,
    /// What is known about the device.
    pub facts: PortFacts,
    /// Its addresses.
    pub addresses: Vec<InterfaceAddress>,
    /// Whether its link is up.
    pub link_up: bool,
}

/// What a function may use while it is built.
pub struct Env<'a> {
    /// All ports of the configuration. When a configuration is only checked, their facts are those of a usual device.
    pub ports: &'a [PortInfo],
    /// All declared interfaces of the configuration.
    pub interfaces: &'a [InterfaceInfo],
    /// Where tables are published.
    pub domain: &'a Domain,
    /// The configuration's folder, below which its files lie.
    pub folder: Option<&'a Folder>,
    /// The engine's time, nanoseconds.
    pub now: u64,
}

impl Env<'_> {
    /// The port of a name that the schema has checked.
    pub fn port(&self, name: &PortName) -> Option<&PortInfo> {
        self.ports.iter().find(|port| port.name == name.as_str())
    }
}

/// A kind of network function. The catalogue of the program lists one value for each.
pub trait Function: Sync {
    /// The name of its declaration in a configuration: `router`.
    fn kind(&self) -> &'static str;

    /// Its configuration: keys, help, manual.
    fn schema(&self) -> Schema;

    /// The switches of `weir run` without which a checked configuration is refused, for functions that run code of the user's
    /// own. Without them it may be built, to be checked, but its graph is not made: only that may do what they allow.
    fn permissions(&self, _element: &Element) -> Vec<&'static str> {
        Vec::new()
    }

    /// Its workers, from a checked configuration. It is asked for often, as are its ports: it reads the keys that it needs and not all of a
    /// configuration that may have a million routes.
    fn placement(&self, element: &Element) -> Placement;

    /// Names of the ports that belong to it, from a checked configuration. A port belongs to one function.
    fn ports(&self, element: &Element) -> Vec<String>;

    /// Bytes that may stand between the Ethernet header and the IP packet of frames on one of its ports, from a checked configuration:
    /// tags. A Linux interface counts them towards its MTU, so that its MTU is larger than the port's by as much.
    fn in_front(&self, _element: &Element, _port: &str) -> u16 {
        0
    }

    /// Whether interfaces may be declared on its ports: it tells packets apart by their VLAN tags.
    fn has_interfaces(&self) -> bool {
        false
    }

    /// Packets that an instance may hold for long, from a checked configuration: those of its schedulers. The process has so many
    /// buffers beside those that rings, links and batches need, so that what waits never starves what is received.
    fn holds(&self, _element: &Element) -> usize {
        0
    }

    /// What it needs done beside packets while it runs, from a checked configuration.
    fn needs(&self, _element: &Element) -> Vec<Need> {
        Vec::new()
    }

    /// Builds an instance, tables and all, without touching anything that runs. With `old`, the running instance of the same
    /// name, it takes over what is not the configuration's: entries of other authors, learned state.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the configuration beyond its schema, at once.
    fn build(
        &self,
        element: &Element,
        env: &Env<'_>,
        old: Option<&dyn Instance>,
    ) -> Result<Box<dyn Instance>, Vec<ConfigError>>;

    /// The changes that can be asked of a running instance; the command line is made from them.
    fn verbs(&self) -> &'static [Verb] {
        &[]
    }

    /// Command lines of those changes, each from the noun on and with a word on what it is for behind two spaces and a `#`, in an
    /// order in which they can be tried one after the other: `route del 10.1.0.0/16  # gives it up`.
    fn examples(&self) -> &'static [&'static str] {
        &[]
    }

    /// The tables that a running instance shows; the command line is made from them.
    fn shows(&self) -> &'static [Show] {
        &[]
    }

    /// What `weir bench cpp` measures.
    fn cases(&self) -> Vec<Case> {
        Vec::new()
    }
}

/// A configured network function. A thread of its own may build the next one from it while it runs.
pub trait Instance: Send + Sync {
    /// The stages of one replica of its data path, and those of its control side, which all replicas share by their names.
    ///
    /// # Errors
    ///
    /// What a builder of graphs may run out of.
    fn graph(&self, replica: usize) -> Result<Graph, GraphError>;

    /// Whether, in the layout `distributor`, [`Instance::graph`] is one graph for all workers: the stages of section 0 balance, on the first
    /// worker, and those of section `n` are the `n`-th worker's. Stages of different sections may have the same name then. So do functions whose
    /// users have owners; for all others flows are spread over replicas of their graphs.
    fn balances(&self) -> bool {
        false
    }

    /// Prepares to run with a configuration that differs in `live` keys only, and in the contents of files that it names by such
    /// keys, or by others whose contents are said to be `live`. Nothing changes before the result is called, which cannot fail.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the configuration beyond its schema, at once.
    fn prepare(&self, element: &Element, env: &Env<'_>) -> Result<Box<dyn FnOnce(u64) + Send>, Vec<ConfigError>>;

    /// Carries out a request: the verb's arguments by name, see [`Verb`]; of a verb of which many can be given at once, also a list of
    /// such, which is in the end carried out whole or not at all; others may meet a part of it meanwhile.
    ///
    /// # Errors
    ///
    /// What is wrong with the request, in a list [with the entry](RequestError::of_entry); nothing has changed then.
    fn request(&self, verb: &str, arguments: &Value, now: u64) -> Result<Value, RequestError>;

    /// The rows of a table, objects with the columns of [`Show`]; those that `filter` (a word) selects. It is asked for between
    /// two other requests, so it takes no longer than one piece; small tables are [`whole`].
    ///
    /// # Errors
    ///
    /// An unknown table or a filter that means nothing.
    fn show(&self, what: &str, filter: Option<&str>, now: u64) -> Result<Box<dyn ShowRows>, RequestError>;

    /// What was added at run time by others than the configuration, as verbs that would add it again. What is there from the call
    /// to the last piece is in it exactly once, as it is at some moment in between; what comes or goes meanwhile may be in it or not.
    /// Like a table it is asked for between two other requests.
    fn save(&self) -> Box<dyn ShowRows<Saved>> {
        whole(Vec::new())
    }

    /// What is to be written to the log since the last call, in order. It is asked for often, and bounds how much it tells by itself.
    fn notices(&self, _now: u64) -> Vec<Notice> {
        Vec::new()
    }

    /// What is wanted and not in force for want of room, though it is tried again by itself: sentences for people, with what to do, the
    /// fewest that say it. Asked for after every reload.
    fn lacks(&self) -> Vec<String> {
        Vec::new()
    }

    /// A port's link went up or down.
    fn link_changed(&self, _port: u16, _up: bool, _now: u64) {}

    /// What a stage of its decided about a packet that left it by `way` at `then`, as it left, in a few words for whoever follows packets:
    /// the route it took. It is asked for a moment later, and says so where its tables may have been others then.
    fn explain(&self, _stage: &str, _way: &str, _packet: &[u8], _then: u64) -> Option<String> {
        None
    }

    /// Facts for metrics: (name, help, value), each a gauge.
    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        Vec::new()
    }

    /// Itself, for the next instance that takes over its state.
    fn as_any(&self) -> &dyn Any;
}

/// A line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What happened, in the same words for all of its kind.
    pub message: &'static str,
    /// What it happened to, by names.
    pub facts: Vec<(&'static str, String)>,
}

/// A change that can be asked of a running function: `weir route add PREFIX via ADDRESS...`.
#[derive(Clone, Copy, Debug)]
pub struct Verb {
    /// What it is about: `route`.
    pub noun: &'static str,
    /// What is done: `add`.
    pub action: &'static str,
    /// Its arguments, in order.
    pub arguments: &'static [Argument],
    /// A sentence of help.
    pub help: &'static str,
    /// Whether many can be given at once: one per line of a file or of the standard input.
    pub batch: bool,
}

impl Verb {
    /// Its name in requests: `route add`.
    pub fn name(&self) -> String {
        format!("{} {}", self.noun, self.action)
    }
}

/// An argument of a [`Verb`].
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// Its name in requests, and, in capitals, in help.
    pub name: &'static str,
    /// The word that stands before each value; `None` for a positional argument.
    pub keyword: Option<&'static str>,
    /// Whether it must be given.
    pub required: bool,
    /// Whether it may be given several times; the request then has a list.
    pub many: bool,
    /// A sentence of help.
    pub help: &'static str,
}

/// A table that a running function shows: `weir show routes`.
#[derive(Clone, Copy, Debug)]
pub struct Show {
    /// Its name.
    pub what: &'static str,
    /// The keys of its rows, in the order of display. `packets`, or what ends in `_packets`, counts from the start, and so do `bytes`
    /// of the same beginning, and `dropped` or `drops`: they are shown as rates when somebody watches.
    pub columns: &'static [&'static str],
    /// A sentence of help.
    pub help: &'static str,
}

/// Rows that one piece of a table holds at most.
pub const PIECE: usize = 1024;

/// The rows of a table, or the entries that are [`Saved`], on their way to whoever asked. They are handed out in pieces by a thread
/// that keeps nobody waiting, while the function goes on: each piece is as the table is then, and holds up others for no longer than
/// it takes.
pub trait ShowRows<T = Value>: Send {
    /// The next rows, at most [`PIECE`]; none when all were handed out.
    fn piece(&mut self) -> Vec<T>;
}

impl<T: Send> ShowRows<T> for std::vec::IntoIter<T> {
    fn piece(&mut self) -> Vec<T> {
        self.take(PIECE).collect()
    }
}

/// The rows of a small table, all of the same moment.
pub fn whole<T: Send + 'static>(rows: Vec<T>) -> Box<dyn ShowRows<T>> {
    Box::new(rows.into_iter())
}

/// A change to be written to a configuration: a verb and the words of its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Saved {
    /// The verb's name: `route add`.
    pub verb: String,
    /// The request's arguments.
    pub arguments: Value,
    /// The key of the function's configuration that holds such entries: `routes`.
    pub key: String,
    /// The entry there, where that is a list; `None` where it is a table, whose key is the verb's first argument.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<Value>,
}

/// Why a request is refused: a sentence that says what, where, what is allowed, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestError(pub String);

impl RequestError {
    /// That of one entry of a list, counted from 1: of the list nothing is carried out.
    pub fn of_entry(entry: usize, problem: impl fmt::Display) -> RequestError {
        RequestError(format!("entry {entry}: {problem}"))
    }

    /// The entry of a list that it is about, counted from 1, and what is wrong with that.
    pub fn entry(&self) -> Option<(usize, &str)> {
        let (entry, problem) = self.0.strip_prefix("entry ")?.split_once(": ")?;
        Some((entry.parse().ok()?, problem))
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RequestError {}

/// One case that `weir bench cpp` measures: a configuration over memory ports, and the packets to send through it.
pub struct Case {
    /// Its name: `fib-410k`.
    pub name: &'static str,
    /// A sentence of help.
    pub help: &'static str,
    /// Files that it needs; the user says where they lie.
    pub needs: &'static [&'static str],
    /// The configuration, as a script without its `engine` declaration and those of the ports `in` and `out`. The first function is the
    /// one whose tables are prepared; others, and the joints or cables between them, are what it is chained to.
    pub script: String,
    /// Numbers that the measurer may choose.
    pub knobs: &'static [Knob],
    /// Makes the traffic, and whatever must be in the tables before it: given the instance, the ports, and what was chosen.
    pub prepare: Prepare,
}

/// A number of a [`Case`] that the measurer may choose: the size of a table, the length of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knob {
    /// Its name: `prefixes`.
    pub name: &'static str,
    /// A sentence of help.
    pub help: &'static str,
    /// Its value unless another is chosen.
    pub usual: u64,
    /// The least.
    pub least: u64,
    /// The greatest.
    pub most: u64,
}

/// What the measurer chose for a [`Case`].
#[derive(Clone, Debug, Default)]
pub struct Chosen {
    /// The folder of the needed files.
    pub folder: Option<PathBuf>,
    /// A number for each knob, within its bounds.
    pub numbers: BTreeMap<&'static str, u64>,
}

impl Chosen {
    /// The number chosen for a knob of the case; 0 for one that it does not have.
    pub fn number(&self, knob: &str) -> u64 {
        self.numbers.get(knob).copied().unwrap_or(0)
    }
}

/// See [`Case::prepare`].
pub type Prepare = fn(&dyn Instance, &[PortInfo], &Chosen) -> Result<Traffic, String>;

/// The packets of a [`Case`], and how to know that they came out right.
pub struct Traffic {
    /// The `n`-th frame: given its number, writes its bytes to a cleared 64-byte buffer and returns its length. Of a longer
    /// frame it writes the first 64 bytes; the others are what the buffer held.
    pub frame: MakeFrame,
    /// How many frames make a round; then they repeat.
    pub frames: u64,
    /// Whether a frame that came out is right.
    pub check: CheckFrame,
}

/// See [`Traffic::frame`].
pub type MakeFrame = Box<dyn FnMut(u64, &mut [u8; 64]) -> usize + Send>;

/// See [`Traffic::check`].
pub type CheckFrame = Box<dyn FnMut(&[u8]) -> Result<(), String> + Send>;
