//! The kinds of stage `ipv4-rewrite` and `ipv6-rewrite`.

mod recipient;
mod stages;

use std::marker::PhantomData;
use std::sync::Arc;

use weir_config::{ConfigError, ErrorKind, PortName, Schema, config};
use weir_stage::{
    Declaration, DescribeStage, Env, FollowedNeighbor, GraphError, MakeStage, NamedInterface, Prepared, Settings,
    Stage, StageKind,
};
use weir_wire::MacAddr;

use super::check_first;
use crate::fast::classify::Family;
use crate::fast::rewrite::{Four, Header, Six};
use crate::{Egress, Tags};
pub use recipient::Recipient;
use recipient::{check_neighbor, check_station};
use stages::{Following, Rewriting};

config! {
    /// Sends IPv4 packets a hop on: takes one off the TTL, mends the checksum, and writes the Ethernet header to a next hop. Those whose TTL
    /// ends here leave by `expired`, those that the port cannot carry by `too-big`, and those to a neighbour that is not known at the moment by
    /// `unresolved`.
    pub struct RewriteConfig {
        /// The port that packets are to leave by: they get its MAC address as their source, and must fit its MTU.
        pub from: PortName = required, rebuild;
        /// The next hop: its MAC address; or a neighbour on the link of an interface of a router, such as 10.0.0.2%lan, whose MAC address is what
        /// that router knows at the moment.
        pub to: Recipient = required, rebuild;
    }
}

config! {
    /// Sends IPv6 packets a hop on: takes one off the hop limit, and writes the Ethernet header to a next hop. Those whose hop limit ends here
    /// leave by `expired`, those that the port cannot carry by `too-big`, and those to a neighbour that is not known at the moment by `unresolved`.
    pub struct Rewrite6Config {
        /// The port that packets are to leave by: they get its MAC address as their source, and must fit its MTU.
        pub from: PortName = required, rebuild;
        /// The next hop: its MAC address; or a neighbour on the link of an interface of a router, such as fe80::2%lan, whose MAC address is what
        /// that router knows at the moment.
        pub to: Recipient = required, rebuild;
    }
}

/// The key that says whom packets go to.
const TO: &str = "to";

/// The interface of another function that whom packets go to is on the link of.
fn interface_of(to: Result<Recipient, Vec<ConfigError>>, settings: &Settings<'_>) -> Vec<NamedInterface> {
    match to {
        Ok(Recipient::Neighbor(_, interface)) => vec![settings.interface(TO, interface)],
        Ok(Recipient::Station(_)) | Err(_) => Vec::new(),
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

    fn neighbors_on(&self, settings: &Settings<'_>) -> Vec<NamedInterface> {
        interface_of(settings.read::<RewriteConfig>().map(|config| config.to), settings)
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

    fn neighbors_on(&self, settings: &Settings<'_>) -> Vec<NamedInterface> {
        interface_of(settings.read::<Rewrite6Config>().map(|config| config.to), settings)
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

/// Whom stages send to.
enum Target {
    Station(MacAddr),
    Neighbor(Arc<FollowedNeighbor>),
}

impl Target {
    fn of<H: Header>(to: Recipient, settings: &Settings<'_>, env: &Env<'_>) -> Result<Target, Vec<ConfigError>> {
        let (checked, target) = match to {
            Recipient::Station(mac) => {
                let mac = MacAddr(mac.octets());
                (check_station(mac), Target::Station(mac))
            }
            Recipient::Neighbor(address, interface) => {
                let checked = check_neighbor(address, &interface, H::FAMILY == Family::Six, env);
                (checked, Target::Neighbor(Arc::new(FollowedNeighbor::new(interface, address))))
            }
        };
        checked
            .map(|()| target)
            .map_err(|(problem, remedy)| vec![settings.error(ErrorKind::OutOfRange, TO, problem).remedy(remedy)])
    }
}

/// Makes stages that send packets of one family to one next hop.
struct Make<H> {
    from: PortName,
    target: Target,
    egress: Arc<Egress>,
    of: PhantomData<fn() -> H>,
}

impl<H: Header> Make<H> {
    fn new(from: PortName, to: Recipient, settings: &Settings<'_>, env: &Env<'_>) -> Result<Make<H>, Vec<ConfigError>> {
        let target = Target::of::<H>(to, settings, env)?;
        let egress = Arc::new(Egress::default());
        fill(&egress, &from, env);
        Ok(Make { from, target, egress, of: PhantomData })
    }
}

impl<H: Header + 'static> MakeStage for Make<H> {
    fn declare(&self) -> Declaration {
        match self.target {
            Target::Station(_) => Rewriting::<H>::declaration(),
            Target::Neighbor(_) => Following::<H>::declaration(),
        }
    }

    fn stage(&self, _replica: usize) -> Result<Box<dyn Stage>, GraphError> {
        Ok(match &self.target {
            Target::Station(mac) => Box::new(Rewriting::<H>::new(*mac, &self.egress)),
            Target::Neighbor(neighbor) => Box::new(Following::<H>::new(neighbor, &self.egress)),
        })
    }

    /// The port may have been opened anew, with another address.
    fn prepare(&self, _settings: &Settings<'_>, env: &Env<'_>) -> Result<Prepared, Vec<ConfigError>> {
        let (egress, fresh) = (Arc::clone(&self.egress), Egress::default());
        fill(&fresh, &self.from, env);
        Ok(Box::new(move |_| egress.become_like(&fresh)))
    }

    fn followed(&self) -> Vec<Arc<FollowedNeighbor>> {
        match &self.target {
            Target::Station(_) => Vec::new(),
            Target::Neighbor(neighbor) => vec![Arc::clone(neighbor)],
        }
    }
}
