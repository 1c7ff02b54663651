//! The kinds of stage `ipv4-rewrite` and `ipv6-rewrite`.

use std::marker::PhantomData;
use std::sync::Arc;

use weir_config::{ConfigError, ErrorKind, MacAddress, PortName, Schema, config};
use weir_packet::{Batch, Packet};
use weir_stage::{Declaration, DescribeStage, Env, GraphError, MakeStage, Out, Prepared, Settings, Stage, StageKind};
use weir_wire::{Ethernet, MacAddr, View};

use super::{check_first, checked};
use crate::fast::classify::Family;
use crate::fast::rewrite::{Four, Header, Six, rewrite, source_word, trim};
use crate::tables::fib::Adjacency;
use crate::{Egress, Tags};

weir_stage::ways! {
    /// Ways out of [`Rewriting`].
    pub(crate) enum Exit {
        /// One hop less to live, and the next hop's Ethernet header.
        Out => way "out",
        /// Its TTL or hop limit ends here; it is as it was.
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

config! {
    /// Sends IPv6 packets a hop on: takes one off the hop limit, and writes the Ethernet header to a next hop. Those whose hop limit ends here
    /// leave by `expired`, those that the port cannot carry by `too-big`.
    pub struct Rewrite6Config {
        /// The port that packets are to leave by: they get its MAC address as their source, and must fit its MTU.
        pub from: PortName = required, rebuild;
        /// MAC address of the next hop.
        pub to: MacAddress = required, rebuild;
    }
}

/// Sends packets of one family to one next hop.
struct Rewriting<H> {
    adjacency: Adjacency,
    egress: Arc<Egress>,
    of: PhantomData<fn() -> H>,
}

impl<H: Header> Rewriting<H> {
    fn step(&self, packet: &mut Packet) -> Exit {
        if H::hops(packet.window(Ethernet::LEN)) <= 1 {
            return Exit::Expired;
        }
        let longest = Ethernet::LEN + self.egress.shape().longest();
        if packet.len() > longest {
            trim(packet, Ethernet::LEN, H::FAMILY);
        }
        if packet.len() > longest {
            return Exit::TooBig;
        }
        rewrite::<H>(packet, self.adjacency, source_word::<H>(&self.egress));
        Exit::Out
    }
}

/// What [`Rewriting`] declares.
fn declaration<H: Header>() -> Declaration {
    Declaration::of::<Exit>().reads(&[checked(H::FAMILY)])
}

impl<H: Header + 'static> Stage for Rewriting<H> {
    fn declare(&self) -> Declaration {
        declaration::<H>()
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
        check_first(Family::Four)
    }

    fn describe(&self, settings: &Settings<'_>, env: &Env<'_>) -> Result<Box<dyn DescribeStage>, Vec<ConfigError>> {
        let RewriteConfig { from, to } = settings.read()?;
        Ok(Box::new(Make::<Four>::new(from, to, settings, env)?))
    }
}

/// The kind of stage `ipv6-rewrite`.
#[derive(Debug)]
pub struct Ipv6Rewrite;

impl StageKind for Ipv6Rewrite {
    fn kind(&self) -> &'static str {
        "ipv6-rewrite"
    }

    fn schema(&self) -> Schema {
        Rewrite6Config::schema()
    }

    fn upstream(&self) -> &'static str {
        check_first(Family::Six)
    }

    fn describe(&self, settings: &Settings<'_>, env: &Env<'_>) -> Result<Box<dyn DescribeStage>, Vec<ConfigError>> {
        let Rewrite6Config { from, to } = settings.read()?;
        Ok(Box::new(Make::<Six>::new(from, to, settings, env)?))
    }
}

/// Notes what packets that leave by the port carry.
fn fill(egress: &Egress, from: &PortName, env: &Env<'_>) {
    if let Some(port) = env.port(from) {
        egress.set(0, MacAddr(port.facts.mac), Tags::NONE, port.facts.mtu);
    }
}

/// Makes stages that send packets of one family to one next hop.
struct Make<H> {
    from: PortName,
    adjacency: Adjacency,
    egress: Arc<Egress>,
    of: PhantomData<fn() -> H>,
}

impl<H> Make<H> {
    fn new(
        from: PortName,
        to: MacAddress,
        settings: &Settings<'_>,
        env: &Env<'_>,
    ) -> Result<Make<H>, Vec<ConfigError>> {
        let to = MacAddr(to.octets());
        if !to.is_unicast() {
            let error = settings.error(ErrorKind::OutOfRange, "to", format!("{to} is not the address of one station"));
            return Err(vec![error.remedy("write that of the next hop on the port's link")]);
        }
        let egress = Arc::new(Egress::default());
        fill(&egress, &from, env);
        Ok(Make { from, adjacency: Adjacency::forward(0, to), egress, of: PhantomData })
    }
}

impl<H: Header + 'static> MakeStage for Make<H> {
    fn declare(&self) -> Declaration {
        declaration::<H>()
    }

    fn stage(&self, _replica: usize) -> Result<Box<dyn Stage>, GraphError> {
        let (adjacency, egress) = (self.adjacency, Arc::clone(&self.egress));
        Ok(Box::new(Rewriting::<H> { adjacency, egress, of: PhantomData }))
    }

    /// The port may have been opened anew, with another address.
    fn prepare(&self, _settings: &Settings<'_>, env: &Env<'_>) -> Result<Prepared, Vec<ConfigError>> {
        let (egress, fresh) = (Arc::clone(&self.egress), Egress::default());
        fill(&fresh, &self.from, env);
        Ok(Box::new(move |_| egress.become_like(&fresh)))
    }
}
