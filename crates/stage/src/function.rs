//! What a network function is to the program: its configuration, what it comes to on its ports, and the tables that are built of that.
//!
//! A function that is declared goes through three hands. [`Given`]: its configuration, read once. [`Description`]: what that comes to on the
//! ports there are, with all that is wrong told at once, and the graph drawn; no table is built for it. [`Instance`]: tables, state, and stages
//! that run.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_config::{
    ConfigError, Element, Folder, InterfaceAddress, Nanos, OneOrMany, Pattern, PortName, Schema, Setting, Table, Type,
    choice, config,
};
use weir_mem::Domain;

use crate::case::Case;
use crate::graph::{Graph, GraphError};
use crate::instance::Instance;
use crate::interface::InterfaceInfo;
use crate::kind::Prepared;
use crate::neighbor::NamedInterface;
use crate::port::PortFacts;
use crate::request::{Show, Verb};
use crate::service::Need;
use crate::share::Switched;

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
        /// The name of the function that its untagged packets belong to, where several share the port by their interfaces; the first of them when
        /// absent, if the port has no address.
        pub of: Option<String> = optional, live;
        /// The VRF that its untagged packets belong to, one of those that its function has; the default one when absent.
        pub vrf: Option<String> = optional, live;
        /// The largest IP packet the port carries, in bytes; that of the device when absent.
        pub mtu: Option<u16> = optional, restart_port, range(68..=9198);
        /// Packets that each of its queues has room for, where the driver lets us choose (`pci`, `vdev`, `tap`); what the device cannot have is
        /// adjusted. More outlast longer pauses, fewer stay in the cache. 512 when absent.
        pub descriptors: Option<u16> = optional, restart_port, range(32..=16384);
        /// Packets that are taken from a receive queue at once, at most, of devices of DPDK's and Linux interfaces: fewer make a packet wait less for
        /// those before it, and cost more each. 64 when absent.
        pub burst: Option<u16> = optional, restart_port, range(1..=64);
        /// How long a packet may wait, while others come, for more that are handed to the device by the same call; of the devices that `burst` is for.
        /// "100 us" when absent; "0 ns" lets none wait.
        pub flush: Option<Nanos> = optional, restart_port, range(Nanos::new(0)..=Nanos::new(100_000_000));
    }
}

impl PortConfig {
    /// The keys that say how its device is driven, of those that were given.
    pub fn tuning(&self) -> impl Iterator<Item = &'static str> {
        let given = [self.descriptors.map(|_| "descriptors"), self.burst.map(|_| "burst"), self.flush.map(|_| "flush")];
        given.into_iter().flatten()
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

choice! {
    /// What packets have in common that go to the same worker. Those that lack it are told apart by their addresses, and what has no addresses
    /// (ARP) goes to the first worker.
    pub enum SpreadBy {
        /// Addresses, protocol and ports, in IPv6 the flow label, too. Fragments have no ports.
        Flow = "flow",
        /// Both addresses, whichever is the source: both directions of a conversation, and all fragments of its packets, go to one worker.
        Addresses = "addresses",
        /// The source address.
        Source = "source",
        /// The destination address.
        Destination = "destination",
        /// The identifiers of up to two VLAN tags.
        Tags = "tags",
        /// The key of a GRE tunnel.
        GreKey = "gre-key",
        /// The flow inside the outermost tunnel (GRE, IP in IP); the flow of what is in none.
        Inner = "inner",
    }
}

config! {
    /// Where a function runs. Every function has these keys, and none reads them by itself.
    pub struct Placement {
        /// Cores of the workers, in order.
        pub workers: Vec<u16> = default(vec![0]), rebuild, length(1..=63);
        /// How the stages are spread over the workers.
        pub layout: Layout = default(Layout::RunToCompletion), rebuild;
        /// What decides, in the layout `distributor`, which worker a packet goes to.
        pub spread_by: SpreadBy = default(SpreadBy::Flow), rebuild;
    }
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
    /// The name of the VRF of its untagged interface; `None`: the default one.
    pub vrf: Option<String>,
    /// Whether its link is up.
    pub link_up: bool,
}

/// What a configuration is described on.
pub struct Env<'a> {
    /// All ports of the configuration. When a configuration is only checked, their facts are those of a usual device.
    pub ports: &'a [PortInfo],
    /// All declared interfaces of the configuration.
    pub interfaces: &'a [InterfaceInfo],
    /// The configuration's folder, below which its files lie.
    pub folder: Option<&'a Folder>,
    /// The instance of the same name that runs, if any: what others than the configuration told it has to go together with this one.
    pub running: Option<&'a dyn Instance>,
}

impl Env<'_> {
    /// The port of a name that the schema has checked.
    pub fn port(&self, name: &PortName) -> Option<&PortInfo> {
        self.ports.iter().find(|port| port.name == name.as_str())
    }
}

/// What tables are built on.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    /// Where tables are published.
    pub domain: &'a Domain,
    /// The engine's time, nanoseconds.
    pub now: u64,
}

/// A declared function whose configuration was read, once.
pub struct Given<'a, C> {
    /// The declaration, for messages that name a place in it.
    pub element: &'a Arc<Element>,
    /// What it says.
    pub config: &'a Arc<C>,
    /// Where it runs.
    pub placement: &'a Placement,
}

impl<C> Given<'_, C> {
    /// The name of the function.
    pub fn name(&self) -> &str {
        self.element.name()
    }
}

/// A format of another program, to be read as a configuration.
#[derive(Clone, Copy, Debug)]
pub struct Import {
    /// Its name: `snabb-lwaftr`.
    pub name: &'static str,
    /// A sentence of help.
    pub help: &'static str,
    /// Makes a configuration script of a text; or says everything in it that makes no sense, each with its line.
    pub read: fn(&str) -> Result<String, Vec<String>>,
}

/// A kind of network function. The catalogue of the program lists one value for each.
pub trait Function: Sync + 'static {
    /// Its configuration as [`config!`](weir_config::config) declares it, without what every function has: `name`, `workers`, `layout`.
    type Config: Setting + Send + Sync;

    /// What a configuration comes to.
    type Description: Description;

    /// The name of its declaration in a configuration: `router`.
    fn kind(&self) -> &'static str;

    /// Its configuration: keys, help, manual.
    fn schema(&self) -> Schema {
        match Self::Config::describe() {
            Type::Table(schema) => schema,
            _ => Schema::new("", Vec::new()),
        }
    }

    /// Whether its stages can be spread over workers in more than one way: then it has the key `layout`.
    fn has_layouts(&self) -> bool {
        true
    }

    /// Whether, in the layout `distributor`, there is one graph for all workers: the stages of section 0 balance, on the first
    /// worker, and those of section `n` are the `n`-th worker's. Stages of different sections may have the same name then. So do functions whose
    /// users have owners; for all others flows are spread over replicas of their graphs.
    fn balances(&self) -> bool {
        false
    }

    /// Whether it says itself, in the layout `distributor`, to which of the replicas of its graph packets go
    /// ([`Instance::spreader`](crate::Instance::spreader)): then it has no key `spread_by`.
    fn spreads(&self) -> bool {
        false
    }

    /// The switches of `weir run` without which a checked configuration is refused, for functions that run code of the user's
    /// own. Without them it may be described: that runs none of it.
    fn permissions(&self, _given: &Given<'_, Self::Config>) -> Vec<&'static str> {
        Vec::new()
    }

    /// Names of the ports that belong to it, in any order. A port belongs to one function, or to several that all have interfaces.
    fn ports(&self, given: &Given<'_, Self::Config>) -> Vec<String>;

    /// Bytes that may stand between the Ethernet header and the IP packet of frames on one of its ports: tags. A Linux interface counts
    /// them towards its MTU, so that its MTU is larger than the port's by as much.
    fn in_front(&self, _given: &Given<'_, Self::Config>, _port: &str) -> u16 {
        0
    }

    /// Whether one of its ports has to be promiscuous: the function takes frames to whatever Ethernet address. On other ports it takes those
    /// to the port's own address and to groups, and what a device lets through beside is dropped by name.
    fn promiscuous(&self, _given: &Given<'_, Self::Config>, _port: &str) -> bool {
        true
    }

    /// Whether interfaces may be declared on one of its ports: it tells packets apart by their VLAN tags.
    fn has_interfaces(&self, _given: &Given<'_, Self::Config>, _port: &str) -> bool {
        false
    }

    /// What it switches, if interfaces may be declared on it as a whole: `on = "bridge:lan"`. Then it is given a port by
    /// [`add_port`](Self::add_port), the other end of whose joint is a port of the function that the interfaces belong to. `keys` are those of a
    /// declaration as it is written.
    fn switched(&self, _keys: &Table) -> Option<Switched> {
        None
    }

    /// Whether interfaces on what others [switch](Self::switched) may belong to it: then it is given a port by [`add_port`](Self::add_port).
    fn routes(&self) -> bool {
        false
    }

    /// Writes one more port into a declaration: the end of a joint between one that switches and one that routes. `vlans` are those of
    /// the interfaces.
    fn add_port(&self, _keys: &mut Table, _port: &str, _vlans: &BTreeSet<u16>) {}

    /// Packets that an instance may hold for long: those of its schedulers. The process has so many buffers beside those that rings, links
    /// and batches need, so that what waits never starves what is received.
    fn holds(&self, _given: &Given<'_, Self::Config>) -> usize {
        0
    }

    /// The interfaces of other functions on whose links are neighbours that its stages send to, each where a key names it.
    fn neighbors_on(&self, _given: &Given<'_, Self::Config>) -> Vec<NamedInterface> {
        Vec::new()
    }

    /// What it needs done beside packets while it runs.
    fn needs(&self, _given: &Given<'_, Self::Config>) -> Vec<Need> {
        Vec::new()
    }

    /// Says what a configuration comes to, without building a table: checking it costs no more than reading it.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the configuration beyond its schema, at once.
    fn describe(&self, given: &Given<'_, Self::Config>, env: &Env<'_>) -> Result<Self::Description, Vec<ConfigError>>;

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

    /// Formats of other programs that configurations of the function can be made of.
    fn imports(&self) -> &'static [Import] {
        &[]
    }

    /// What `weir bench cpp` measures.
    fn cases(&self) -> Vec<Case> {
        Vec::new()
    }
}

/// What a live change makes of the graph of a running instance.
pub enum Redrawn<I> {
    /// The graph stays.
    Same,
    /// It is this instance's from then on, which has all else of the running one.
    As(I),
    /// It cannot be had without building the instance anew.
    Anew,
}

/// What a configuration comes to on the ports there are.
pub trait Description: Send + Sized + 'static {
    /// What is built of it.
    type Running: Instance;

    /// The graph that [`Instance::graph`] is going to draw for a replica, of stages that only [declare](Graph::add_of).
    ///
    /// # Errors
    ///
    /// What a builder of graphs may run out of.
    fn sketch(&self, replica: usize) -> Result<Graph, GraphError>;

    /// Builds tables, without touching anything that runs. From `old`, the running instance of the same name, it takes over what is
    /// not the configuration's: entries of other sources, learned state.
    ///
    /// # Errors
    ///
    /// What there is no room for, with its place in the configuration.
    fn instantiate(self, ground: &Ground<'_>, old: Option<&Self::Running>) -> Result<Self::Running, Vec<ConfigError>>;

    /// The running instance with the graph of this description, where that has more ports than before, and nothing else that takes another
    /// instance: it has the tables and the state of `running`, and its stages stay if they are there by the same names. Nothing changes before it
    /// is put in place, and [`change`](Self::change) follows.
    fn redraw(&self, _running: &Self::Running) -> Redrawn<Self::Running> {
        Redrawn::Same
    }

    /// Prepares a running instance for this one, which differs from what it was built of in `live` keys only, and in the contents of files
    /// that it names by such keys, or by others whose contents are said to be `live`. Nothing changes before the result is called, which
    /// cannot fail.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it for that instance.
    fn change(self, _running: &Self::Running, _env: &Env<'_>) -> Result<Prepared, Vec<ConfigError>> {
        Ok(Box::new(|_now| {}))
    }
}
