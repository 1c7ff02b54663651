//! What the program consists of, one line each: functions, kinds of port, and the stages the program itself puts into graphs.

use std::path::Path;
use std::sync::Arc;

use weir_config::{Catalogue, INTERFACE_NAME, Kind};
use weir_stage::{
    AnyFunction, Import, InterfaceConfig, InterfaceSet, JOINT, Port, PortConfig, PortError, SpreadBy, Stage, StageKind,
};

use crate::supervisor::{EngineConfig, JointPort, PORT_NAME};

/// The network functions.
pub(crate) static FUNCTIONS: &[&dyn AnyFunction] = &[
    &weir_forward::Forward,
    &weir_router::Router,
    &weir_lua::LuaFunction,
    &WIRING,
    &GENERATOR,
    &weir_bng::Bng,
    &weir_qos::Qos,
    &weir_bridge::Bridge,
    &weir_lwaftr::Lwaftr::USUAL,
    &weir_switch::Switch,
    &weir_vxlan::Vxlan,
];

/// The stages that a configuration may wire by hand.
static STAGES: &[&dyn StageKind] = &[
    &weir_forward::KINDS[0],
    &weir_forward::KINDS[1],
    &weir_distribute::Spread,
    &weir_wiring::Match,
    &weir_wiring::Copy,
    &weir_wiring::Discard,
    &weir_ip::steps::Ipv4Check,
    &weir_ip::steps::Ipv4Route,
    &weir_ip::steps::Ipv4Rewrite,
    &weir_ip::steps::Ipv6Check,
    &weir_ip::steps::Ipv6Route,
    &weir_ip::steps::Ipv6Rewrite,
    &weir_lua::LuaStageKind,
];

/// The function that wires those.
static WIRING: weir_wiring::Wiring = weir_wiring::Wiring::new(STAGES);

/// The function that the command for generating traffic runs.
pub(crate) static GENERATOR: weir_gen::Gen = weir_gen::Gen {
    captures: |path| {
        let recording = weir_port_pcap::read_recording(path, weir_port_pcap::Bound::USUAL);
        let recording = recording.map_err(|error| error.to_string())?;
        Ok(weir_gen::Capture { frames: recording.frames, remark: recording.remark })
    },
};

pub(crate) use weir_gen::{Report as GeneratorReport, StreamResult};

/// Opens ports that need no driver of DPDK's: (prefix of the device, constructor).
#[allow(clippy::type_complexity, reason = "a table of constructors")]
static PORTS: &[(&str, fn(&str, &str, &Path) -> Result<Box<dyn Port>, PortError>)] = &[
    ("pcap", |name, device, base| Ok(Box::new(weir_port_pcap::PcapPort::new(name, device, base)?))),
    ("mem", |name, device, base| {
        Ok(Box::new(weir_port_mem::MemPort::new(name, device, base, weir_port_pcap::read_frames)?))
    }),
    (JOINT, |name, device, _| Ok(Box::new(JointPort::new(name, device)?))),
];

/// The port of a device that needs no driver of DPDK's; `None` if it needs one.
pub(crate) fn port(name: &str, device: &str, base: &Path) -> Option<Result<Box<dyn Port>, PortError>> {
    let word = device.split(':').next().unwrap_or_default();
    let (_, open) = PORTS.iter().find(|(prefix, _)| *prefix == word)?;
    Some(open(name, device, base))
}

/// The words that devices of [`port`] begin with.
pub(crate) fn port_words() -> impl Iterator<Item = &'static str> {
    PORTS.iter().map(|(word, _)| *word)
}

/// The stage that spreads packets over replicas.
pub(crate) fn distributor(by: SpreadBy, replicas: u8) -> Box<dyn Stage> {
    weir_distribute::distributor(by, replicas)
}

/// The stage that parts the packets of a port among functions with these interfaces.
pub(crate) fn demultiplexer(functions: Vec<Arc<dyn InterfaceSet>>) -> Box<dyn Stage> {
    Box::new(weir_ip::Demultiplex::new(functions))
}

/// Everything that a configuration may declare.
pub(crate) fn kinds() -> Catalogue {
    let fixed = [
        Kind::named_by("port", &PORT_NAME, PortConfig::schema()),
        Kind::named_by("interface", &INTERFACE_NAME, InterfaceConfig::schema()),
        Kind::single("engine", EngineConfig::schema()),
    ];
    let functions = FUNCTIONS.iter().map(|function| Kind::function(function.kind(), function.schema()));
    fixed.into_iter().chain(functions).collect()
}

/// The formats of other programs that configurations can be made of.
pub(crate) fn imports() -> impl Iterator<Item = Import> {
    FUNCTIONS.iter().flat_map(|function| function.imports()).copied()
}

/// The function of a kind.
pub(crate) fn function(kind: &str) -> Option<&'static dyn AnyFunction> {
    FUNCTIONS.iter().find(|function| function.kind() == kind).copied()
}
