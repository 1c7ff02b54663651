//! A network function that is built, and may run.

use std::any::Any;
use std::sync::Arc;

use serde_json::Value;
use weir_config::ConfigError;

use crate::channel::ChannelSide;
use crate::flows::FlowSource;
use crate::function::{Description, Ground};
use crate::graph::{Graph, GraphError};
use crate::host::HostSide;
use crate::neighbor::FollowedNeighbor;
use crate::port::LinkSpeed;
use crate::request::{RequestError, Saved, ShowRows, whole};
use crate::share::{Beyond, InterfaceSet, Others};
use crate::stage::Stage;

/// A configured network function. A thread of its own may build the next one from it while it runs.
pub trait Instance: Any + Send + Sync {
    /// The stages of one replica of its data path, and those of its control side, which all replicas share by their names.
    ///
    /// # Errors
    ///
    /// What a builder of graphs may run out of.
    fn graph(&self, replica: usize) -> Result<Graph, GraphError>;

    /// The same with stages that only [declare](Graph::add_of), to be looked at. Where stages cost nothing, it is the same.
    ///
    /// # Errors
    ///
    /// As [`graph`](Self::graph).
    fn sketch(&self, replica: usize) -> Result<Graph, GraphError> {
        self.graph(replica)
    }

    /// The stage before so many replicas of its graph in the layout `distributor`, of a function that
    /// [says itself](crate::Function::spreads) whose packets are: its indexed ways lead to them. `None`: what has `spread_by` in common stays together.
    fn spreader(&self, _replicas: u8) -> Option<Box<dyn Stage>> {
        None
    }

    /// Carries out a request: the verb's arguments by name, see [`Verb`](crate::Verb); of a verb of which many can be given at once, also a list of
    /// such, which is in the end carried out whole or not at all; others may meet a part of it meanwhile.
    ///
    /// # Errors
    ///
    /// What is wrong with the request, in a list [with the entry](RequestError::of_entry); nothing has changed then.
    fn request(&self, verb: &str, _arguments: &Value, _now: u64) -> Result<Value, RequestError> {
        Err(RequestError(format!("there is no request '{verb}'")))
    }

    /// The rows of a table, objects with the columns of [`Show`](crate::Show); those that `filter` (a word) selects. It is asked for between
    /// two other requests, so it takes no longer than one piece; small tables are [`whole`].
    ///
    /// # Errors
    ///
    /// An unknown table or a filter that means nothing.
    fn show(&self, what: &str, _filter: Option<&str>, _now: u64) -> Result<Box<dyn ShowRows>, RequestError> {
        Err(RequestError(format!("there is no table '{what}'")))
    }

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

    /// A port's link has another speed, as far as its device knows. Of a link that comes up this is said before.
    fn speed_changed(&self, _port: u16, _speed: LinkSpeed, _now: u64) {}

    /// Its interfaces, for the ports that it shares with other functions. One that has none shares no port.
    fn interfaces(&self) -> Option<Arc<dyn InterfaceSet>> {
        None
    }

    /// Whether an interface that was added at run time is on the port of this index. A [routed side](crate::Switched) is kept for those as it is for
    /// interfaces of the configuration.
    fn has_added_on(&self, _port: u16) -> bool {
        false
    }

    /// With whom it shares ports from now on: it adds no interface that one of them has, and gives up those that the configuration gives to
    /// others.
    fn share_with(&self, _others: Others, _now: u64) {}

    /// What lies beyond one of its ports that is an end of a joint: told whenever interfaces there may have come or gone.
    fn joined_to(&self, _port: u16, _beyond: &Beyond) {}

    /// The neighbours of other functions that its stages send to.
    fn followed(&self) -> Vec<Arc<FollowedNeighbor>> {
        Vec::new()
    }

    /// From now on stages of others send to these neighbours on links of its interfaces, and to none else: it publishes what it knows of them, and
    /// keeps those known to which there are packets.
    fn publish_neighbors(&self, _followed: Vec<Arc<FollowedNeighbor>>) {}

    /// Its side of what it has in common with the Linux network namespace that speaks for a VRF of this name.
    fn host_side(&self, _vrf: &str) -> Option<Arc<dyn HostSide>> {
        None
    }

    /// Where samples of its packets come from, if it takes any.
    fn flow_source(&self) -> Option<Arc<dyn FlowSource>> {
        None
    }

    /// Its side of the channels over which controllers drive it.
    fn channel_side(&self) -> Option<Arc<dyn ChannelSide>> {
        None
    }

    /// What a stage of its decided about a packet that left it by `way` at `then`, as it left, in a few words for whoever follows packets:
    /// the route it took. It is asked for a moment later, and says so where its tables may have been others then.
    fn explain(&self, _stage: &str, _way: &str, _packet: &[u8], _then: u64) -> Option<String> {
        None
    }

    /// Facts for metrics: (name, help, value), each a gauge.
    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        Vec::new()
    }
}

impl dyn Instance {
    /// Itself as what it is, if it is that.
    pub fn downcast_ref<T: Instance>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// An instance without tables and without a state: all there is to it is its graph. It is its own description.
pub struct Stateless(Box<DrawGraph>);

/// What a [`Stateless`] instance does.
type DrawGraph = dyn Fn(usize) -> Result<Graph, GraphError> + Send + Sync;

impl Stateless {
    /// One whose graph this draws, given the number of a replica.
    pub fn new(draw: impl Fn(usize) -> Result<Graph, GraphError> + Send + Sync + 'static) -> Stateless {
        Stateless(Box::new(draw))
    }
}

impl Instance for Stateless {
    fn graph(&self, replica: usize) -> Result<Graph, GraphError> {
        (self.0)(replica)
    }
}

impl Description for Stateless {
    type Running = Stateless;

    fn sketch(&self, replica: usize) -> Result<Graph, GraphError> {
        (self.0)(replica)
    }

    fn instantiate(self, _ground: &Ground<'_>, _old: Option<&Stateless>) -> Result<Stateless, Vec<ConfigError>> {
        Ok(self)
    }
}

/// A line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What happened, in the same words for all of its kind.
    pub message: &'static str,
    /// What it happened to, by names.
    pub facts: Vec<(&'static str, String)>,
}
