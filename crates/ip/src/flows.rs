//! Flow export: of the packets that come in by an interface one in so many is sampled, and collectors are told of them by sFlow or IPFIX.
//!
//! - [`FlowExportConfig`]: what a configuration says.
//! - `stage`: the stage `NAME.sample`, before all others, which takes samples. It is in a graph only where a configuration asks for it.
//! - `source`: what the service that sends them asks for: samples with where they go, and counters of interfaces.
//! - [`Discern`]: what a function knows of its packets that the layer does not.
//! - `show`: what became of it, for people.

mod discern;
mod show;
mod source;
mod stage;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use weir_config::{Element, ErrorKind, Errors, Nanos, OneOrMany, config};
use weir_mem::{Consumer, Domain, Published, arena, ring};
use weir_stage::flows::SAMPLES;
use weir_stage::{Collector, Exported, FlowExport, FlowProtocol, Need};

use crate::config::{NETNS, seconds};
use crate::tables::fib::Fib;
use crate::{InterfaceId, Interfaces};
use weir_table::counters::Counters;

pub use discern::{Discern, Discerned, Goes, Seen};
pub use show::FLOW_SHOWS;
pub(crate) use show::{gauges, rows};
pub(crate) use source::Source;
pub(crate) use stage::declaration;
use stage::{Entrance, Sampled, Sampler};

config! {
    /// Collectors of flows, and what they are told: of the packets that come in by each interface one in so many, before anything else is done with it.
    pub struct FlowExportConfig {
        /// The collector's address and UDP port, or several of them, which get the same.
        pub collector: OneOrMany<Collector> = required, live, length(1..=8);
        /// By what they are spoken to.
        pub protocol: FlowProtocol = required, live;
        /// Of how many packets that come in by an interface one is sampled: of each so many in a row, one at random.
        pub sample: u32 = default(1000), live, range(1..=16_777_216);
        /// The interfaces whose packets are sampled; all if none is named.
        pub interfaces: Vec<String> = empty, live;
        /// The network namespace from which datagrams leave, as `ip netns add` made it; the one that Weir runs in when absent.
        pub netns: Option<String> = optional, live, pattern(NETNS);
        /// The address that datagrams come from, which Linux has; it chooses one when absent.
        pub source: Option<IpAddr> = optional, live;
        /// The address by which collectors of sFlow know this router; the one that datagrams to the first collector come from when absent.
        pub agent: Option<IpAddr> = optional, live;
        /// The number of the observation domain (IPFIX) or of the sub-agent (sFlow): another one for each function that exports from the same address.
        pub domain: u32 = default(1), live;
        /// How long a flow goes on at most until it is told of (IPFIX).
        pub active: Nanos = default(seconds(60)), live, range(seconds(1)..=seconds(3600));
        /// How long no packet of a flow was sampled when it counts as ended (IPFIX).
        pub inactive: Nanos = default(seconds(15)), live, range(seconds(1)..=seconds(3600));
        /// Time from one round of templates, sampling rate and names to the next (IPFIX).
        pub templates_every: Nanos = default(seconds(60)), live, range(seconds(1)..=seconds(86_400));
        /// Time from one round of counters of all interfaces to the next (sFlow).
        pub counters_every: Nanos = default(seconds(20)), live, range(seconds(1)..=seconds(86_400));
    }
}

/// What a function needs done for its flows to be exported.
pub fn flow_needs(config: Option<&FlowExportConfig>) -> Option<Need> {
    let config = config?;
    Some(Need::Flows(FlowExport {
        protocol: config.protocol,
        collectors: collectors(config),
        netns: config.netns.clone(),
        source: config.source,
        agent: config.agent,
        domain: config.domain,
        sample: config.sample,
        active: config.active.nanos(),
        inactive: config.inactive.nanos(),
        templates_every: config.templates_every.nanos(),
        counters_every: config.counters_every.nanos(),
    }))
}

fn collectors(config: &FlowExportConfig) -> Vec<SocketAddr> {
    config.collector.iter().map(|Collector(address)| *address).collect()
}

/// Whether there are the interfaces that are named, among these, and the source can speak to all collectors; what is wrong goes to `errors`.
pub(crate) fn check(element: &Element, config: &FlowExportConfig, interfaces: &[&str], errors: &mut Errors) {
    let root = element.path();
    let path = root.field("flow_export");
    for (name, n) in config.interfaces.iter().zip(1..) {
        if !interfaces.contains(&name.as_str()) {
            let some = interfaces.iter().take(16).copied().collect::<Vec<_>>().join(", ");
            let problem = format!("there is no interface \"{name}\"");
            let (list, allowed) = (path.field("interfaces"), format!("one of {some}"));
            errors.push(element.error(ErrorKind::Dangling, &list.index(n), problem).allowed(allowed));
        }
    }
    let Some(source) = config.source else { return };
    if let Some(other) = collectors(config).iter().find(|collector| collector.is_ipv4() != source.is_ipv4()) {
        let problem = format!("{source} cannot speak to the collector {other}, which is of the other family");
        let error = element.error(ErrorKind::Conflict, &path.field("source"), problem);
        errors.push(error.remedy("name an address of the collector's family, or none".to_owned()));
    }
}

/// What a checked configuration wants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted(pub(crate) Option<FlowExportConfig>);

/// Of how many packets of each interface one is sampled, by its [place](Places); 0: none is.
type Rates = Vec<u32>;

/// Where interfaces stand in tables, whose numbers are below a limit, and all together.
#[derive(Clone, Copy, Debug)]
struct Places {
    limit: usize,
}

impl Places {
    /// How many there are.
    fn count(self) -> usize {
        self.limit + 1
    }

    /// That of all interfaces together.
    fn all(self) -> usize {
        self.limit
    }

    /// That of an interface; beyond all for none.
    #[inline(always)]
    fn of(self, interface: InterfaceId) -> usize {
        let interface = usize::from(interface);
        if interface < self.limit { interface } else { usize::MAX }
    }
}

/// Samples of one worker that wait to be taken at most.
const WAITING: usize = 4096;

/// The samples of a worker's stage, as long as there is the stage or any of them.
struct Samples {
    of: Weak<()>,
    ring: Consumer<Sampled>,
}

/// What the control side has of it.
#[derive(Default)]
struct Book {
    wanted: Wanted,
    rings: Vec<Samples>,
    /// Stages that there have been.
    made: u64,
    /// The ring from which samples are taken first the next time.
    next: usize,
    /// Samples that were taken out of them.
    taken: u64,
    exported: Vec<Exported>,
    flows: usize,
}

/// Samples of a function's packets, from its workers to whoever exports them.
pub(crate) struct Flows {
    rates: Arc<Published<Rates>>,
    /// Packets among which samples are taken, by interface.
    passed: Arc<Counters>,
    /// Samples that found no room, by interface.
    lost: Arc<Counters>,
    places: Places,
    seed: u64,
    book: Mutex<Book>,
}

impl Flows {
    /// Of a function that has so many interfaces at most; `seed` is that of the numbers that choose.
    pub(crate) fn new(domain: &Domain, limit: usize, seed: u64) -> Flows {
        let rates = Arc::new(Published::new(domain, Box::default()));
        let places = Places { limit };
        let [passed, lost] = [(); 2].map(|()| Counters::new(places.count()));
        Flows { rates, passed, lost, places, seed, book: Mutex::default() }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stage that takes samples of what comes in, by ports that `have_lines` or not.
    ///
    /// # Errors
    ///
    /// No memory.
    pub(crate) fn stage(&self, fib: &Arc<Fib>, have_lines: bool) -> Result<Sampler, arena::Error> {
        let (passed, lost) = (self.passed.acquire()?, self.lost.acquire()?);
        let (producer, consumer) = ring(WAITING);
        let alive = Arc::new(());
        let mut book = self.book();
        book.forget();
        book.made += 1;
        let seed = self.seed ^ book.made << 32;
        book.rings.push(Samples { of: Arc::downgrade(&alive), ring: consumer });
        let entrance = Entrance { fib: Arc::clone(fib), have_lines };
        let places = (self.places, passed, lost);
        Ok(Sampler::new((Arc::clone(&self.rates), entrance), places, (producer, alive), seed))
    }

    /// Becomes what a checked configuration wants; workers see it by [`Flows::publish`].
    pub(crate) fn reconcile(&self, wanted: &Wanted) {
        let mut book = self.book();
        book.wanted.clone_from(wanted);
        if wanted.0.is_none() {
            book.exported.clear();
        }
    }

    /// Lets workers see it, with the interfaces as they are now.
    pub(crate) fn publish(&self, interfaces: &Interfaces) {
        let book = self.book();
        let mut rates: Rates = Vec::new();
        if let Some(config) = &book.wanted.0 {
            rates.resize(self.places.count(), 0);
            let is_sampled =
                |name: &str| config.interfaces.is_empty() || config.interfaces.iter().any(|one| one == name);
            for interface in interfaces.iter().filter(|interface| is_sampled(interface.name())) {
                if let Some(rate) = rates.get_mut(self.places.of(interface.id)) {
                    *rate = config.sample;
                }
            }
        }
        self.rates.publish(Box::new(rates));
    }

    /// Takes samples, of each worker in turn.
    fn take(&self) -> Vec<Sampled> {
        let book = &mut *self.book();
        let mut taken = Vec::new();
        let count = book.rings.len();
        for n in 0..count {
            let at = (book.next + n) % count;
            let Some(samples) = book.rings.get_mut(at) else { continue };
            samples.ring.pop_into(SAMPLES - taken.len(), |sampled| taken.push(sampled));
            if taken.len() == SAMPLES {
                book.next = at + 1;
                break;
            }
        }
        book.taken += taken.len() as u64;
        book.forget();
        taken
    }

    /// Packets of an interface among which samples were taken, and samples of those that found no room; without one, of all together.
    fn counted(&self, interface: Option<InterfaceId>) -> [u64; 2] {
        let place = interface.map_or(self.places.all(), |interface| self.places.of(interface));
        [&self.passed, &self.lost].map(|counters| counters.sum(place as u32).0)
    }
}

impl Book {
    /// Forgets the samples of stages that are gone, once nothing is left of them.
    fn forget(&mut self) {
        self.rings.retain(|samples| samples.of.strong_count() > 0 || !samples.ring.is_empty());
    }
}
