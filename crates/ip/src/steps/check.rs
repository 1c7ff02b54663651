//! The kind of stage `ipv4-check`.

use std::sync::Arc;

use weir_config::{ConfigError, Schema, config};
use weir_packet::{Batch, LaneId, Packet};
use weir_simd::Kernel;
use weir_stage::{
    Declaration, DescribeStage, Env, GraphError, MakeStage, Out, PortInfo, Prepared, Settings, Stage, StageKind,
};
use weir_wire::{Ethernet, MacAddr, View};

use crate::Ingress;
use crate::fast::bad::{Bad, ways_of_checks4, with_reasons};
use crate::fast::checker::{Checker, common_port, reach};
use crate::fast::classify::{Family, Finding, Frame, classify};

with_reasons! { ways_of_checks4 {
    /// Ways out of [`Checking`].
    pub(crate) enum Exit {
        /// A valid IPv4 packet without options, whatever its TTL.
        Out => way "out",
        /// A valid IPv4 packet with options.
        Options => way "options",
        /// ARP.
        Arp => way "arp",
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

/// Checks IPv4 packets.
struct Checking {
    checker: Checker,
    /// Whom packets must be for; `None`: for any single station.
    ingress: Option<Arc<Ingress>>,
}

impl Checking {
    /// Says of the packets in `mask`, which the kernel refused, what they are.
    #[inline(never)]
    fn sort_out(&self, batch: &mut Batch, mask: u64, out: &mut Out<'_>) {
        batch.each_in(mask, |slot, packet, lanes| {
            out.answer(slot, find_out(packet, lanes.port[slot], self.ingress.as_deref()));
        });
    }
}

fn find_out(packet: &Packet, port: u16, ingress: Option<&Ingress>) -> Exit {
    let frame = match ingress.map_or_else(|| Frame::for_anybody(packet), |ingress| Frame::of(packet, port, ingress)) {
        // What follows reads packets without tags.
        Ok(frame) if frame.l3 != Ethernet::LEN => return Exit::UnknownTag,
        Ok(frame) => frame,
        Err(bad) => return bad.into(),
    };
    match classify(packet, frame) {
        // Whether it may go another hop is asked where it loses one.
        Ok(Family::Four) | Err(Finding::LastHop(Family::Four)) => Exit::Out,
        Err(Finding::Bad(bad)) => bad.into(),
        Err(Finding::Arp) => Exit::Arp,
        Err(Finding::Options) if frame.is_four() => Exit::Options,
        _ => Bad::UnknownEthertype.into(),
    }
}

impl Stage for Checking {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>().reads(&[LaneId::Port]).writes(&[LaneId::L3])
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        batch.lanes.l3.all_mut().fill(Ethernet::LEN as u8);
        let (of, port) = ((batch.live(), reach(batch)), common_port(&batch.lanes.port));
        let good = self.checker.check(batch, of, (self.ingress.as_deref(), port), |_| {}, |_| {}).good;
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
        let indices = env.ports.iter().map(|port| usize::from(port.index) + 1).max().unwrap_or(0);
        let ingress = (!config.any_station).then(|| Arc::new(Ingress::untagged(indices)));
        fill(ingress.as_deref(), env.ports);
        Ok(Box::new(Make { ingress }))
    }
}

/// Notes the MAC addresses of all ports.
fn fill(ingress: Option<&Ingress>, ports: &[PortInfo]) {
    for (ingress, port) in ingress.into_iter().flat_map(|ingress| ports.iter().map(move |port| (ingress, port))) {
        ingress.set(port.index, Some(MacAddr(port.facts.mac)));
    }
}

struct Make {
    ingress: Option<Arc<Ingress>>,
}

impl Make {
    fn make(&self) -> Checking {
        Checking { checker: Checker::new(Kernel::detect()), ingress: self.ingress.clone() }
    }
}

impl MakeStage for Make {
    fn declare(&self) -> Declaration {
        self.make().declare()
    }

    fn stage(&self, _replica: usize) -> Result<Box<dyn Stage>, GraphError> {
        Ok(Box::new(self.make()))
    }

    /// A port may have been opened anew, with another address.
    fn prepare(&self, _settings: &Settings<'_>, env: &Env<'_>) -> Result<Prepared, Vec<ConfigError>> {
        let (ingress, ports) = (self.ingress.clone(), env.ports.to_vec());
        Ok(Box::new(move |_| fill(ingress.as_deref(), &ports)))
    }
}
