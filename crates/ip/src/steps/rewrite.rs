//! The kind of stage `ipv4-rewrite`.

use std::sync::Arc;

use weir_config::{ConfigError, ErrorKind, MacAddress, PortName, Schema, config};
use weir_packet::{Batch, LaneId, Packet};
use weir_stage::{Declaration, DescribeStage, Env, GraphError, MakeStage, Out, Prepared, Settings, Stage, StageKind};
use weir_wire::{Ethernet, Ipv4, MacAddr, View};

use super::CHECK_FIRST;
use crate::fast::classify::Family;
use crate::fast::rewrite::{Four, rewrite, source_word, trim};
use crate::tables::fib::Adjacency;
use crate::{Egress, Tags};

weir_stage::ways! {
    /// Ways out of [`Rewriting`].
    pub(crate) enum Exit {
        /// One hop less to live, and the next hop's Ethernet header.
        Out => way "out",
        /// Its TTL ends here; it is as it was.
        Expired => way "expired",
        /// Longer than the port's MTU; it is as it was, but for bytes that follow the IP packet.
        TooBig => way "too-big",
    }
}

config! {
    /// Sends IPv4 packets a hop on: takes one off the TTL, mends the checksum, and writes the Ethernet header to a next hop. Those whose TTL
    /// ends here leave by `expired`, those that the port cannot carry by `too-big`.
    pub struct RewriteConfig {
        /// The port that packets are to leave by: they get its MAC address as their source, and must fit its MTU.
        pub from: PortName = required, rebuild;
        /// MAC address of the next hop.
        pub to: MacAddress = required, rebuild;
    }
}

/// Sends packets to one next hop.
struct Rewriting {
    adjacency: Adjacency,
    egress: Arc<Egress>,
}

impl Rewriting {
    fn step(&self, packet: &mut Packet) -> Exit {
        if Ipv4::view(packet.window::<20>(Ethernet::LEN)).is_none_or(|ip| ip.ttl <= 1) {
            return Exit::Expired;
        }
        let longest = Ethernet::LEN + self.egress.shape().longest();
        if packet.len() > longest {
            trim(packet, Ethernet::LEN, Family::Four);
        }
        if packet.len() > longest {
            return Exit::TooBig;
        }
        rewrite::<Four>(packet, self.adjacency, source_word::<Four>(&self.egress));
        Exit::Out
    }
}

impl Stage for Rewriting {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>().reads(&[LaneId::L3])
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        out.each(batch, |_, packet, _| self.step(packet));
    }
}

/// The kind of stage `ipv4-rewrite`.
#[derive(Debug)]
pub struct Ipv4Rewrite;

impl StageKind for Ipv4Rewrite {
    fn kind(&self) -> &'static str {
        "ipv4-rewrite"
    }

    fn schema(&self) -> Schema {
        RewriteConfig::schema()
    }

    fn upstream(&self) -> &'static str {
        CHECK_FIRST
    }

    fn describe(&self, settings: &Settings<'_>, env: &Env<'_>) -> Result<Box<dyn DescribeStage>, Vec<ConfigError>> {
        let config: RewriteConfig = settings.read()?;
        let to = MacAddr(config.to.octets());
        if !to.is_unicast() {
            let error = settings.error(ErrorKind::OutOfRange, "to", format!("{to} is not the address of one station"));
            return Err(vec![error.remedy("write that of the next hop on the port's link")]);
        }
        let egress = Arc::new(Egress::default());
        fill(&egress, &config, env);
        Ok(Box::new(Make { adjacency: Adjacency::forward(0, to), egress }))
    }
}

/// Notes what packets that leave by the port carry.
fn fill(egress: &Egress, config: &RewriteConfig, env: &Env<'_>) {
    if let Some(port) = env.port(&config.from) {
        egress.set(0, MacAddr(port.facts.mac), Tags::NONE, port.facts.mtu);
    }
}

struct Make {
    adjacency: Adjacency,
    egress: Arc<Egress>,
}

impl Make {
    fn make(&self) -> Rewriting {
        Rewriting { adjacency: self.adjacency, egress: Arc::clone(&self.egress) }
    }
}

impl MakeStage for Make {
    fn declare(&self) -> Declaration {
        self.make().declare()
    }

    fn stage(&self, _replica: usize) -> Result<Box<dyn Stage>, GraphError> {
        Ok(Box::new(self.make()))
    }

    /// The port may have been opened anew, with another address.
    fn prepare(&self, settings: &Settings<'_>, env: &Env<'_>) -> Result<Prepared, Vec<ConfigError>> {
        let config: RewriteConfig = settings.read()?;
        let (egress, fresh) = (Arc::clone(&self.egress), Egress::default());
        fill(&fresh, &config, env);
        Ok(Box::new(move |_| egress.become_like(&fresh)))
    }
}
