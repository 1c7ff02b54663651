//! The service that tells collectors of flows what a function sampled, by sFlow or IPFIX, in datagrams of UDP from a network namespace of choice.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weir_flows::{Cache, Ended, Ipfix, Limits, Names, Sflow};
use weir_host::namespace::Namespace;
use weir_stage::flows::{InterfaceCounters, SAMPLES};
use weir_stage::{Exported, FlowExport, FlowProtocol, FlowSource, Load, MakeService, Sample, Service, Waits};

use super::linux::enter;
use super::side::SideSlot;

/// How long the service rests where nobody waits, nanoseconds: as long may a sample be under way.
const REST: u64 = 20_000_000;

/// How often it is looked which flows have ended, and whether the namespace is still there, nanoseconds.
const LOOK: u64 = 1_000_000_000;

/// Pieces of samples that are told at the end at most.
const LAST_PIECES: usize = 64;

/// Nanoseconds of a millisecond.
const MILLISECOND: u64 = 1_000_000;

/// Flows that are under way at once.
const FLOWS: usize = 65_536;

/// Makes the service.
pub(super) struct Maker {
    name: String,
    function: String,
    export: FlowExport,
    slot: SideSlot<dyn FlowSource>,
}

impl Maker {
    /// That of a function's need.
    pub(super) fn new(function: &str, export: FlowExport, slot: SideSlot<dyn FlowSource>) -> Maker {
        Maker { name: format!("{function}.flows"), function: function.to_owned(), export, slot }
    }
}

impl MakeService for Maker {
    fn name(&self) -> &str {
        &self.name
    }

    fn owner(&self) -> &str {
        &self.function
    }

    fn make(&self, _now: u64) -> Result<Box<dyn Service>, String> {
        Ok(Box::new(Flows::new(self.export.clone(), self.slot.clone())?))
    }
}

/// A collector that is spoken to.
struct Spoken {
    socket: UdpSocket,
    told: Exported,
}

impl Spoken {
    fn new(collector: SocketAddr, source: Option<IpAddr>) -> Result<Spoken, String> {
        let any = if collector.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let source = source.unwrap_or(any);
        let wrong = |error: std::io::Error| format!("cannot speak to the collector {collector} from {source}: {error}");
        let socket = UdpSocket::bind((source, 0)).map_err(wrong)?;
        socket.connect(collector).map_err(wrong)?;
        socket.set_nonblocking(true).map_err(wrong)?;
        let told = Exported { collector, datagrams: 0, bytes: 0, unsent: 0, why: None };
        Ok(Spoken { socket, told })
    }

    fn send(&mut self, datagram: &[u8]) {
        let sent = match self.socket.send(datagram) {
            // What came back was about the one before, and says that nobody listened to that.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                self.told.why = Some("nobody listens there".to_owned());
                self.socket.send(datagram)
            }
            sent => sent,
        };
        match sent {
            Ok(bytes) => {
                self.told.datagrams += 1;
                self.told.bytes += bytes as u64;
            }
            Err(error) => {
                self.told.unsent += 1;
                self.told.why = Some(error.to_string());
            }
        }
    }
}

/// A protocol, and what it has to remember.
enum Speech {
    Sflow {
        sflow: Sflow,
        /// When counters are told next.
        due: u64,
        /// The interface with which they go on, while they are told.
        from: Option<u16>,
    },
    Ipfix {
        ipfix: Ipfix,
        cache: Cache,
        /// When templates and names are told next.
        due: u64,
    },
}

/// The service.
struct Flows {
    export: FlowExport,
    slot: SideSlot<dyn FlowSource>,
    namespace: Namespace,
    spoken: Vec<Spoken>,
    speech: Speech,
    /// When the next look is due.
    look: u64,
    /// When the last step began.
    now: u64,
    /// Whether more waited at the last step than was taken.
    is_behind: bool,
    /// The samples that the last step took.
    taken: usize,
}

impl Flows {
    fn new(export: FlowExport, slot: SideSlot<dyn FlowSource>) -> Result<Flows, String> {
        let namespace = enter(export.netns.as_deref())?;
        let spoken = export.collectors.iter().map(|collector| Spoken::new(*collector, export.source));
        let spoken: Vec<Spoken> = spoken.collect::<Result<_, String>>()?;
        let speech = match export.protocol {
            FlowProtocol::Sflow => {
                let local = spoken.first().and_then(|first| first.socket.local_addr().ok()).map(|local| local.ip());
                let agent = export.agent.or(local).unwrap_or(Ipv4Addr::UNSPECIFIED.into());
                Speech::Sflow { sflow: Sflow::new(agent, export.domain, export.sample), due: 0, from: None }
            }
            FlowProtocol::Ipfix => {
                let [active, inactive] = [export.active, export.inactive].map(|time| time / MILLISECOND);
                let cache = Cache::new(Limits { flows: FLOWS, active, inactive });
                Speech::Ipfix { ipfix: Ipfix::new(export.domain, export.sample), cache, due: 0 }
            }
        };
        Ok(Flows { export, slot, namespace, spoken, speech, look: 0, now: 0, is_behind: false, taken: 0 })
    }

    /// Sends datagrams to all.
    fn send(&mut self, datagrams: &[Vec<u8>]) {
        for datagram in datagrams {
            self.spoken.iter_mut().for_each(|one| one.send(datagram));
        }
    }

    /// Says what was sampled, and what is due beside.
    fn say(&mut self, samples: &[Sample], source: &dyn FlowSource, looks: bool) {
        let (now, export) = (self.now, &self.export);
        let datagrams = match &mut self.speech {
            Speech::Sflow { sflow, due, from } => {
                samples.iter().for_each(|sample| sflow.sample(sample));
                if now >= *due {
                    *due = now.saturating_add(export.counters_every);
                    *from = Some(0);
                }
                if let Some(first) = *from {
                    let some = source.interfaces(first);
                    some.iter().for_each(|one| sflow.counters(one));
                    *from = behind(&some);
                }
                // Milliseconds in 32 bits, which wrap.
                sflow.take((now / MILLISECOND) as u32)
            }
            Speech::Ipfix { ipfix, cache, due } => {
                if now >= *due {
                    *due = now.saturating_add(export.templates_every);
                    ipfix.describe(&names(source));
                }
                let wall = wall_clock();
                let begin = millis(wall).saturating_sub(now / MILLISECOND);
                let no_room = samples.iter().filter_map(|sample| cache.add(sample, now / MILLISECOND));
                let mut ended: Vec<Ended> = no_room.collect();
                if looks {
                    ended.extend(cache.expire(now / MILLISECOND));
                }
                ended.into_iter().for_each(|flow| ipfix.flow(&since_1970(flow, begin)));
                ipfix.take(wall.as_secs() as u32)
            }
        };
        self.send(&datagrams);
    }

    fn flows(&self) -> (usize, usize) {
        match &self.speech {
            Speech::Sflow { .. } => (0, 0),
            Speech::Ipfix { cache, .. } => cache.load(),
        }
    }
}

impl Service for Flows {
    fn waits(&self) -> Waits<'_> {
        let rest = if self.is_behind { 0 } else { REST };
        Waits { until: Some(self.now.saturating_add(rest)), ..Waits::default() }
    }

    fn step(&mut self, now: u64) -> Result<(), String> {
        self.now = now;
        let source = self.slot.get()?;
        let looks = now >= self.look;
        if looks {
            self.look = now.saturating_add(LOOK);
            if !self.namespace.is_there() {
                return Err("its network namespace is gone".to_owned());
            }
        }
        let samples = source.take();
        self.taken = samples.len();
        self.say(&samples, &*source, looks);
        let counts = matches!(&self.speech, Speech::Sflow { from: Some(_), .. });
        self.is_behind = self.taken >= SAMPLES || counts;
        let told: Vec<Exported> = self.spoken.iter().map(|one| one.told.clone()).collect();
        source.set_exported(&told, self.flows().0);
        Ok(())
    }

    fn load(&self) -> Load {
        match self.export.protocol {
            FlowProtocol::Sflow => Load { unit: "samples", now: self.taken as u64, most: SAMPLES as u64 },
            FlowProtocol::Ipfix => Load { unit: "flows", now: self.flows().0 as u64, most: FLOWS as u64 },
        }
    }
}

impl Drop for Flows {
    /// What was sampled by now is told, and flows that have not ended are told of all the same.
    fn drop(&mut self) {
        for _ in 0..LAST_PIECES {
            let Ok(source) = self.slot.get() else { break };
            let samples = source.take();
            self.say(&samples, &*source, false);
            if samples.len() < SAMPLES {
                break;
            }
        }
        let wall = wall_clock();
        let begin = millis(wall).saturating_sub(self.now / MILLISECOND);
        let Speech::Ipfix { ipfix, cache, .. } = &mut self.speech else { return };
        cache.end().into_iter().for_each(|flow| ipfix.flow(&since_1970(flow, begin)));
        let datagrams = ipfix.take(wall.as_secs() as u32);
        self.send(&datagrams);
    }
}

/// The number behind some interfaces; `None` behind the last.
fn behind(some: &[InterfaceCounters]) -> Option<u16> {
    some.last().and_then(|last| last.id.checked_add(1))
}

/// The names of all interfaces and VRFs.
fn names(source: &dyn FlowSource) -> Names {
    let mut interfaces = Vec::new();
    let mut from = Some(0);
    while let Some(first) = from {
        let some = source.interfaces(first);
        from = behind(&some);
        interfaces.extend(some.into_iter().map(|one| (one.id, one.name)));
    }
    Names { interfaces, vrfs: source.vrfs() }
}

/// A flow with times since 1970, where the service's clock began at `begin`.
fn since_1970(flow: Ended, begin: u64) -> Ended {
    Ended { first: flow.first.saturating_add(begin), last: flow.last.saturating_add(begin), ..flow }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Since 1970: collectors are told in the time of the world.
#[allow(clippy::disallowed_methods, reason = "collectors are told when in the time of the world")]
fn wall_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
