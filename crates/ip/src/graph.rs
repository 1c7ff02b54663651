//! The graph of the network layer: which stages it has, and where their ways lead.

use weir_net::{DEFAULT_VRF, VrfId};
use weir_packet::Key;
use weir_stage::{Graph, GraphError, NodeId, Place, To};

use crate::acl;
use crate::config::{Function, Limits, Settings, TableKind};
use crate::fast::check::Keys;
use crate::fast::inlet::{InletKeys, Teller};
use crate::fast::punt::{PuntPolicer, PuntReason};
use crate::fast::scope::Chosen;
use crate::fast::untag::{self, Untagged};
use crate::fast::{check, forward, hairpin, send};
use crate::flows;
use crate::layer::Running;
use crate::load::vrf_names;
use crate::slow;
use crate::urpf;

/// Where the stages are.
const FIRST: Place = Place::Worker { section: 0 };

/// What looks at packets before they are forwarded, and as they leave: only where a configuration asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Guards {
    /// An access list judges what comes in.
    pub(crate) acl_in: bool,
    /// One judges what is for the router itself.
    pub(crate) acl_own: bool,
    /// One judges what leaves.
    pub(crate) acl_out: bool,
    /// Sources are looked up.
    pub(crate) urpf: bool,
    /// Samples are taken of what comes in.
    pub(crate) samples: bool,
}

/// What the stages of a layer are drawn from, and its tables made by.
#[derive(Clone, Debug)]
pub struct Stages {
    pub(crate) name: String,
    pub(crate) redirects: bool,
    pub(crate) punt_rate: u64,
    pub(crate) seed: u64,
    pub(crate) table: TableKind,
    pub(crate) limits: Limits,
    /// Indices of its ports, by position.
    pub(crate) ports: Vec<u16>,
    /// Whether packets are checked by one worker and forwarded by another.
    pub(crate) is_parted: bool,
    /// What stands around the stages that forward.
    pub(crate) guards: Guards,
    /// What routes may lead into.
    pub(crate) function: Function,
    /// The VRFs in which the function sends IPv4 and IPv6.
    pub(crate) vrfs: [VrfId; 2],
}

/// Stages of a layer to which the function before it hands packets.
#[derive(Clone, Copy, Debug)]
pub struct Doors {
    /// For those whose tags were taken off, if they had any.
    pub tag: NodeId,
    /// For those that are as they came.
    pub layer: NodeId,
    /// The stage that forwards them, whose way `function` leads to a stage of a function on the control side that routes may lead into, as does that
    /// of the slow path.
    pub forward: NodeId,
    /// The slow path, for those of [lines](crate::lines) that the function hands on: what goes on by them leaves it by the way `line`, which
    /// the function wires.
    pub slow: NodeId,
}

/// The inlets of a function that has any, as its stages read them. Its stages are handed packets by the ways `function` of the stages that
/// [`Below`] names.
#[derive(Clone, Copy, Debug)]
pub struct Inlets {
    /// By whom the fast path sends packets.
    pub workers: InletKeys,
    /// The same of the slow path.
    pub control: InletKeys,
}

/// Where a function hands packets on that looks at them first.
#[derive(Clone, Copy, Debug)]
pub struct Below {
    /// What it does not take.
    pub first: NodeId,
    /// The fast path, whose way `function` leads to a stage on workers.
    pub forward: NodeId,
    /// The slow path, whose way `function` leads to a stage on the control side. Nothing else leads from there back to here but by ways that go round.
    pub control: NodeId,
    /// What the function is told of packets, if routes may lead into it.
    pub inlets: Option<Inlets>,
    /// What it made and does not know how to send: any 14 bytes, and an IP packet behind them. The slow path asks for the neighbour.
    pub send: NodeId,
    /// The same for what came by way of the fast path, as routes lead it.
    pub send_led: NodeId,
}

/// The stages of a layer in a graph.
struct Added {
    /// To which packets come first that came in by the ports.
    first: NodeId,
    forward: NodeId,
    control: NodeId,
}

impl Stages {
    /// Of these `settings`, with ports of these indices.
    pub(crate) fn new(name: &str, settings: Settings<'_>, ports: Vec<u16>, is_parted: bool) -> Stages {
        let names = vrf_names(settings);
        // Those that there are not have been refused.
        let number = |name: &String| (0..).zip(&names).find(|(_, known)| *known == name).map(|(vrf, _)| vrf);
        let number = |name: &Option<String>| name.as_ref().and_then(number).unwrap_or(DEFAULT_VRF);
        let [four, six] = &settings.function.vrfs;
        Stages {
            name: name.to_owned(),
            redirects: settings.redirects,
            punt_rate: settings.punt_rate.packets_per_second(),
            seed: u64::from(settings.hash_seed),
            table: settings.table,
            limits: settings.limits.clone(),
            ports,
            is_parted,
            guards: Guards::default(),
            function: settings.function.clone(),
            vrfs: [number(four), number(six)],
        }
    }

    /// The graph of a layer that runs, or one to be looked at.
    pub(crate) fn draw(&self, running: Option<&Running>) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        let place = Place::Worker { section: u8::from(self.is_parted) };
        let first = self.add(&mut graph, (place, false), running)?;
        let first = self.add_sampler(&mut graph, FIRST, running, first)?;
        self.ports.iter().for_each(|&port| graph.receive(port, first));
        Ok(graph)
    }

    /// What is known of packets whose tags were taken off.
    ///
    /// # Errors
    ///
    /// What a builder of graphs may run out of.
    pub fn tags(graph: &mut Graph) -> Result<Key<Untagged>, GraphError> {
        graph.claim("interface whose tags were taken off")
    }

    /// Adds the stages to the graph of a function that has packets first, by [`Inward`](crate::Inward), and sends most itself. Those of the layer are
    /// on the control side then. Answers to which of them packets go that the function leaves to the layer: those whose tags were taken off,
    /// and [others](crate::Came::of_the_layer).
    ///
    /// # Errors
    ///
    /// What a builder of graphs may run out of.
    pub fn add_behind(&self, graph: &mut Graph, running: Option<&Running>) -> Result<Doors, GraphError> {
        let key = Stages::tags(graph)?;
        let Added { first: layer, forward, control: slow } = self.add_both(graph, (Place::Control, true), running)?;
        let declared = untag::retag_declaration(key);
        let tag =
            graph.add_of(self.stage(".tag"), declared, Place::Control, running, |running| Ok(running.retag(key)))?;
        graph.wire(tag, "out", To::Stage(layer));
        Ok(Doors { tag, layer, forward, slow })
    }

    /// Adds a stage at a `place` that takes tags off before a stage `next` of the function.
    ///
    /// # Errors
    ///
    /// What a builder of graphs may run out of.
    pub fn add_untag(
        &self,
        graph: &mut Graph,
        place: Place,
        running: Option<&Running>,
        (next, doors): (NodeId, Doors),
    ) -> Result<NodeId, GraphError> {
        let key = Stages::tags(graph)?;
        let declared = untag::untag_declaration(key);
        let untag = graph.add_of(self.stage(".untag"), declared, place, running, |running| running.untag(key))?;
        graph.wire(untag, "out", To::Stage(next));
        graph.wire(untag, "layer", To::Stage(doors.layer));
        Ok(untag)
    }

    /// Adds a stage at a `place` that takes samples before the stage `next`, which is the first to have what comes in by the layer's ports. Answers that stage, or
    /// `next` itself where nothing is sampled.
    ///
    /// # Errors
    ///
    /// What a builder of graphs may run out of.
    pub fn add_sampler(
        &self,
        graph: &mut Graph,
        place: Place,
        running: Option<&Running>,
        next: NodeId,
    ) -> Result<NodeId, GraphError> {
        self.sample(graph, (place, self.stage(".sample")), (running, false), next)
    }

    /// The same of ports on which [lines](crate::Lines) are, by the whole name of the stage.
    ///
    /// # Errors
    ///
    /// What a builder of graphs may run out of.
    pub fn add_line_sampler(
        &self,
        graph: &mut Graph,
        (place, name): (Place, String),
        running: Option<&Running>,
        next: NodeId,
    ) -> Result<NodeId, GraphError> {
        self.sample(graph, (place, name), (running, true), next)
    }

    fn sample(
        &self,
        graph: &mut Graph,
        (place, name): (Place, String),
        (running, have_lines): (Option<&Running>, bool),
        next: NodeId,
    ) -> Result<NodeId, GraphError> {
        if !self.guards.samples {
            return Ok(next);
        }
        let make = |running: &Running| running.sampler(have_lines);
        let sampler = graph.add_of(name, flows::declaration(), place, running, make)?;
        graph.wire(sampler, "out", To::Stage(next));
        Ok(sampler)
    }

    /// Adds the stages to the graph of a function that looks at packets on workers, first, counts them ([`Arrivals`](crate::Arrivals)), and
    /// leaves others to the layer.
    ///
    /// # Errors
    ///
    /// What a builder of graphs may run out of.
    pub fn add_below(&self, graph: &mut Graph, running: Option<&Running>) -> Result<Below, GraphError> {
        let Added { first, forward, control } = self.add_both(graph, (FIRST, true), running)?;
        let [workers, inlets] = [Teller::Workers, Teller::Control].map(|teller| self.told(graph, teller));
        let inlets = workers?.zip(inlets?).map(|(workers, control)| Inlets { workers, control });
        let kind = Stages::kind(graph)?;
        let mut add = |name: &str, is_behind: bool| {
            let make = move |running: &Running| Ok(running.sender(kind, is_behind));
            let declared = send::declaration(kind, is_behind);
            let send = graph.add_of(self.stage(name), declared, FIRST, running, make)?;
            graph.wire(send, "out", To::Stage(control));
            Ok(send)
        };
        let send = add(".send", false)?;
        let send_led = if inlets.is_some() { add(".send-led", true)? } else { send };
        Ok(Below { first, forward, control, inlets, send, send_led })
    }

    /// Adds a stage on the control side that takes back what a stage of the function there made and does not know how to send, as [`Below::send`] does on
    /// workers: it comes to the slow path in the next round.
    ///
    /// # Errors
    ///
    /// What a builder of graphs may run out of.
    pub fn add_back(&self, graph: &mut Graph, running: Option<&Running>, below: Below) -> Result<NodeId, GraphError> {
        let kind = Stages::kind(graph)?;
        let make = |running: &Running| Ok(running.back(kind));
        let back = graph.add_of(self.stage(".back"), send::back_declaration(kind), Place::Control, running, make)?;
        graph.wire(back, "again", To::Stage(below.control));
        graph.leave_open(back, "undecided"); // never taken
        Ok(back)
    }

    /// Adds the stages to a graph, the one that forwards at a `place`; answers to which packets come first that came in by the ports, and that
    /// `is_counted` by then or not.
    fn add(&self, graph: &mut Graph, at: (Place, bool), running: Option<&Running>) -> Result<NodeId, GraphError> {
        self.add_both(graph, at, running).map(|added| added.first)
    }

    fn told(&self, graph: &mut Graph, teller: Teller) -> Result<Option<InletKeys>, GraphError> {
        let inlets = if self.function.is_told { self.function.inlets.len() } else { 0 };
        InletKeys::claim(graph, inlets, teller)
    }

    /// Why packets go to the slow path; the lane has room for whose line they are of besides.
    ///
    /// # Errors
    ///
    /// What a builder of graphs may run out of.
    pub fn kind<T: From<u32> + Into<u32>>(graph: &mut Graph) -> Result<Key<T>, GraphError> {
        graph.claim("why it goes to the slow path")
    }

    fn add_both(
        &self,
        graph: &mut Graph,
        (place, is_counted): (Place, bool),
        running: Option<&Running>,
    ) -> Result<Added, GraphError> {
        let kind = Stages::kind(graph)?;
        let known = if self.is_parted { Some(graph.claim("its VRF and family")?) } else { None };
        let chosen = if self.guards.acl_in { Some(graph.claim("the VRF that a list chose")?) } else { None };
        let keys = Keys { kind, known, inlet: self.told(graph, Teller::Workers)?, chosen };
        let inlet = self.told(graph, Teller::Control)?;
        let count = self.ports.len();
        let declared = forward::declaration(self.is_parted, count, (keys, is_counted));
        let forward = graph
            .add_of(self.stage(".forward"), declared, place, running, |running| running.forward(keys, is_counted))?;
        let punt = Stages::kind(graph)?;
        let declared = slow::declaration(count, punt, inlet);
        let control = graph.add_of(self.stage(".control"), declared, Place::Control, running, |running| {
            Ok(running.slow_path(punt, inlet))
        })?;
        forward::TO_THE_SLOW_PATH.iter().for_each(|way| graph.wire(forward, way, To::Stage(control)));
        graph.wire(control, "again", To::Stage(control));
        graph.leave_open(control, "undecided"); // never taken
        if self.function.inlets.is_empty() {
            // No route leads there.
            [forward, control].into_iter().for_each(|stage| graph.leave_open(stage, "function"));
        }
        if !matches!(place, Place::Control) {
            graph.leave_open(control, "line"); // only taken where a function before the layer has lines, which wires it
        }
        for (position, &port) in self.ports.iter().enumerate() {
            let side = acl::Side::Out(port);
            for (stage, place, name) in [(forward, place, "out"), (control, Place::Control, "out-control")] {
                let mut to = To::Port(port);
                if self.guards.acl_out {
                    let name = format!(".acl-{name}-{position}");
                    let judge = self.judge(graph, (place, &name), running, (side, None))?;
                    graph.wire(judge, "out", to);
                    to = To::Stage(judge);
                }
                graph.wire(stage, &format!("port[{position}]"), to);
            }
        }
        let mut first = forward;
        if self.is_parted {
            let declared = check::declaration(keys);
            let check = graph.add_of(self.stage(".check"), declared, FIRST, running, |running| running.check(keys))?;
            graph.wire(check, "out", To::Stage(forward));
            check::TO_THE_SLOW_PATH.iter().for_each(|way| graph.wire(check, way, To::Stage(control)));
            first = check;
        }
        if self.redirects {
            first = self.look_for_redirects(graph, running, keys, [first, control])?;
        }
        first = self.guard(graph, running, first, chosen)?;
        Ok(Added { first, forward, control })
    }

    /// Puts a stage before `first` that looks for packets which turn round.
    fn look_for_redirects(
        &self,
        graph: &mut Graph,
        running: Option<&Running>,
        Keys { kind, chosen, .. }: Keys,
        [first, control]: [NodeId; 2],
    ) -> Result<NodeId, GraphError> {
        let declared = hairpin::declaration(chosen);
        let hairpin = graph
            .add_of(self.stage(".hairpin"), declared, FIRST, running, |running| Ok(running.hairpin(kind, chosen)))?;
        graph.wire(hairpin, "out", To::Stage(first));
        graph.wire(hairpin, "redirect", To::Stage(control));
        Ok(hairpin)
    }

    /// Puts the stages before `first` that look at what comes in: each packet meets the list of its interface, then its source is looked up, then it
    /// meets the list for what is for the router itself. Answers which is the first.
    fn guard(
        &self,
        graph: &mut Graph,
        running: Option<&Running>,
        mut first: NodeId,
        chosen: Option<Key<Chosen>>,
    ) -> Result<NodeId, GraphError> {
        if self.guards.acl_own {
            let judge = self.judge(graph, (FIRST, ".acl-own"), running, (acl::Side::Own, chosen))?;
            graph.wire(judge, "out", To::Stage(first));
            first = judge;
        }
        if self.guards.urpf {
            let declared = urpf::declaration();
            let urpf = graph.add_of(self.stage(".urpf"), declared, FIRST, running, |running| Ok(running.urpf()))?;
            graph.wire(urpf, "out", To::Stage(first));
            first = urpf;
        }
        if self.guards.acl_in {
            let judge = self.judge(graph, (FIRST, ".acl-in"), running, (acl::Side::In, chosen))?;
            graph.wire(judge, "out", To::Stage(first));
            first = judge;
        }
        Ok(first)
    }

    /// Adds a stage that judges packets by access lists.
    fn judge(
        &self,
        graph: &mut Graph,
        (place, name): (Place, &str),
        running: Option<&Running>,
        (side, chosen): (acl::Side, Option<Key<Chosen>>),
    ) -> Result<NodeId, GraphError> {
        let declared = acl::declaration(side, chosen);
        graph.add_of(self.stage(name), declared, place, running, |running| running.judge(side, chosen))
    }

    fn stage(&self, stage: &str) -> String {
        format!("{}{stage}", self.name)
    }

    pub(crate) fn policer(&self) -> PuntPolicer {
        PuntPolicer::shared(&PuntReason::OF_LAYER, self.punt_rate)
    }
}
