//! The kinds of stage `ipv4-check` and `ipv6-check`.

use std::marker::PhantomData;
use std::sync::Arc;

use weir_config::{ConfigError, Schema, config};
use weir_packet::{Batch, LaneId, Packet};
use weir_simd::Kernel;
use weir_stage::{
    Declaration, DescribeStage, Env, GraphError, MakeStage, Out, PortInfo, Prepared, Settings, Stage, StageKind, Ways,
};
use weir_wire::{Ethernet, MacAddr, View};

use super::checked;
use crate::Ingress;
use crate::fast::bad::{Bad, ways_of_checks4, ways_of_checks6, with_reasons};
use crate::fast::checker::{Checker, common_port, reach, singles};
use crate::fast::classify::{Family, Finding, Frame, classify};
use crate::fast::examine::whose;
use crate::fast::six;

with_reasons! { ways_of_checks4 {
    /// Ways out of [`Checking`] of IPv4.
    pub(crate) enum Exit4 {
        /// A valid IPv4 packet without options, whatever its TTL.
        Out => way "out",
        /// A valid IPv4 packet with options.
        Options => way "options",
        /// ARP.
        Arp => way "arp",
    } {}
} }

with_reasons! { ways_of_checks6 {
    /// Ways out of [`Checking`] of IPv6.
    pub(crate) enum Exit6 {
        /// A valid IPv6 packet that a router may forward, whatever its hop limit.
        Out => way "out",
        /// The same with hop-by-hop options.
        Options => way "options",
        /// Neighbour discovery for its link.
        Nd => way "nd",
        /// Anything else to or from an address of its link, beyond which it must not go.
        Link => way "link",
    } {}
} }

config! {
    /// Lets valid IPv4 packets pass that a router may forward, by the rules of RFC 1812 section 5.2.2. ARP leaves by `arp`, packets with IP
    /// options by `options`; all others are dropped, each by the name of the rule that it breaks.
    pub struct CheckConfig {
        /// Whether frames to any single station pass, and not only those to the MAC address of the port that they came in by.
        pub any_station: bool = default(false), rebuild;
    }
}

config! {
    /// Lets valid IPv6 packets pass that a router may forward, by the rules of RFC 8200 and RFC 4291. Neighbour discovery leaves by `nd`, what else
    /// has an address of its link (RFC 4007 section 9) by `link`, packets with hop-by-hop options by `options`; all others are dropped, each by
    /// the name of the rule that it breaks.
    pub struct Check6Config {
        /// Whether frames to any single station pass, and not only those to the MAC address of the port that they came in by.
        pub any_station: bool = default(false), rebuild;
    }
}

/// What differs between the families.
trait Examine: Send + Sized + 'static {
    /// Ways out.
    type Exit: Ways + From<Bad>;

    /// Whose packets pass.
    const FAMILY: Family;

    /// Without packets.
    fn new(kernel: Kernel) -> Self;

    /// The mask of packets of this family that may be forwarded without a second look: those for the port that they came in by, or without
    /// `ingress` for any single station.
    fn good(&mut self, batch: &Batch, ingress: Option<&Ingress>) -> u64;

    /// By which way a packet leaves of which this was found.
    fn exit(found: Result<Family, Finding>, frame: Frame) -> Self::Exit;
}

/// IPv4.
struct Four(Checker);

/// IPv6.
struct Six {
    kernel: Kernel,
    six: six::Six,
}

impl Examine for Four {
    type Exit = Exit4;

    const FAMILY: Family = Family::Four;

    fn new(kernel: Kernel) -> Four {
        Four(Checker::new(kernel))
    }

    fn good(&mut self, batch: &Batch, ingress: Option<&Ingress>) -> u64 {
        let (of, port) = ((batch.live(), reach(batch)), common_port(&batch.lanes.port));
        self.0.check(batch, of, (ingress, port), |_| {}, |_| {}).good
    }

    fn exit(found: Result<Family, Finding>, frame: Frame) -> Exit4 {
        match found {
            // Whether it may go another hop is asked where it loses one.
            Ok(Family::Four) | Err(Finding::LastHop(Family::Four)) => Exit4::Out,
            Err(Finding::Bad4(bad)) => bad.into(),
            Err(Finding::Arp) => Exit4::Arp,
            Err(Finding::Options) if frame.is_four() => Exit4::Options,
            _ => Exit4::UnknownEthertype,
        }
    }
}

impl Examine for Six {
    type Exit = Exit6;

    const FAMILY: Family = Family::Six;

    fn new(kernel: Kernel) -> Six {
        Six { kernel, six: six::Six::new(kernel) }
    }

    fn good(&mut self, batch: &Batch, ingress: Option<&Ingress>) -> u64 {
        let whose = match ingress {
            Some(ingress) => whose(batch, common_port(&batch.lanes.port), ingress),
            None => (None, singles(batch)),
        };
        self.six.check::<false>(self.kernel, batch, batch.live(), whose).good
    }

    fn exit(found: Result<Family, Finding>, frame: Frame) -> Exit6 {
        match found {
            Ok(Family::Six) | Err(Finding::LastHop(Family::Six)) => Exit6::Out,
            Err(Finding::Bad6(bad)) => bad.into(),
            Err(Finding::Nd) => Exit6::Nd,
            Err(Finding::Link | Finding::FromLink) => Exit6::Link,
            Err(Finding::Options) if !frame.is_four() => Exit6::Options,
            _ => Exit6::UnknownEthertype,
        }
    }
}

/// Checks packets of one family.
struct Checking<E> {
    examine: E,
    /// Whom packets must be for; `None`: for any single station.
    ingress: Option<Arc<Ingress>>,
}

impl<E: Examine> Checking<E> {
    /// Says of the packets in `mask`, which are not simply good, what they are.
    #[inline(never)]
    fn sort_out(&self, batch: &mut Batch, mask: u64, out: &mut Out<'_>) {
        batch.each_in(mask, |slot, packet, lanes| {
            out.answer(slot, find_out::<E>(packet, lanes.port[slot], self.ingress.as_deref()));
        });
    }
}

fn find_out<E: Examine>(packet: &Packet, port: u16, ingress: Option<&Ingress>) -> E::Exit {
    match ingress.map_or_else(|| Frame::for_anybody(packet), |ingress| Frame::of(packet, port, ingress)) {
        // What follows reads packets without tags.
        Ok(frame) if frame.l3 != Ethernet::LEN => Bad::UnknownTag.into(),
        Ok(frame) => E::exit(classify(packet, frame), frame),
        Err(bad) => bad.into(),
    }
}

/// What [`Checking`] declares.
fn declaration<E: Examine>() -> Declaration {
    Declaration::of::<E::Exit>().reads(&[LaneId::Port]).writes(&[LaneId::L3, checked(E::FAMILY)])
}

impl<E: Examine> Stage for Checking<E> {
    fn declare(&self) -> Declaration {
        declaration::<E>()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        batch.lanes.l3.all_mut().fill(Ethernet::LEN as u8);
        let good = self.examine.good(batch, self.ingress.as_deref());
        let rest = batch.live() & !good;
        if rest != 0 {
            self.sort_out(batch, rest, out);
        }
    }
}

/// The kind of stage `ipv4-check`.
#[derive(Debug)]
pub struct Ipv4Check;

impl StageKind for Ipv4Check {
    fn kind(&self) -> &'static str {
        "ipv4-check"
    }

    fn schema(&self) -> Schema {
        CheckConfig::schema()
    }

    fn describe(&self, settings: &Settings<'_>, env: &Env<'_>) -> Result<Box<dyn DescribeStage>, Vec<ConfigError>> {
        let config: CheckConfig = settings.read()?;
        Ok(Box::new(Make::<Four>::new(config.any_station, env)))
    }
}

/// The kind of stage `ipv6-check`.
#[derive(Debug)]
pub struct Ipv6Check;

impl StageKind for Ipv6Check {
    fn kind(&self) -> &'static str {
        "ipv6-check"
    }

    fn schema(&self) -> Schema {
        Check6Config::schema()
    }

    fn describe(&self, settings: &Settings<'_>, env: &Env<'_>) -> Result<Box<dyn DescribeStage>, Vec<ConfigError>> {
        let config: Check6Config = settings.read()?;
        Ok(Box::new(Make::<Six>::new(config.any_station, env)))
    }
}

/// Notes the MAC addresses of all ports.
fn fill(ingress: Option<&Ingress>, ports: &[PortInfo]) {
    for (ingress, port) in ingress.into_iter().flat_map(|ingress| ports.iter().map(move |port| (ingress, port))) {
        ingress.set(port.index, Some(MacAddr(port.facts.mac)));
    }
}

/// Makes stages that check packets of one family.
struct Make<E> {
    ingress: Option<Arc<Ingress>>,
    of: PhantomData<fn() -> E>,
}

impl<E: Examine> Make<E> {
    fn new(any_station: bool, env: &Env<'_>) -> Make<E> {
        let indices = env.ports.iter().map(|port| usize::from(port.index) + 1).max().unwrap_or(0);
        let ingress = (!any_station).then(|| Arc::new(Ingress::untagged(indices)));
        fill(ingress.as_deref(), env.ports);
        Make { ingress, of: PhantomData }
    }
}

impl<E: Examine> MakeStage for Make<E> {
    fn declare(&self) -> Declaration {
        declaration::<E>()
    }

    fn stage(&self, _replica: usize) -> Result<Box<dyn Stage>, GraphError> {
        Ok(Box::new(Checking::<E> { examine: E::new(Kernel::detect()), ingress: self.ingress.clone() }))
    }

    /// A port may have been opened anew, with another address.
    fn prepare(&self, _settings: &Settings<'_>, env: &Env<'_>) -> Result<Prepared, Vec<ConfigError>> {
        let (ingress, ports) = (self.ingress.clone(), env.ports.to_vec());
        Ok(Box::new(move |_| fill(ingress.as_deref(), &ports)))
    }
}
