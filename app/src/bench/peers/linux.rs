//! The Linux kernel's router, between two veth pairs.
//!
//! Namespaces: `weir-peers-PID-gen` has `g0` and `g1`, whose other ends are `r0` and `r1` in `weir-peers-PID-dut`. Weir's generator sends
//! by `g0`; what arrives at `g1` is counted by the kernel. In turns the kernel and Weir route from `r0` to `r1`.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use weir_bench::peers::{Measured, configurations, generator, linux};
use weir_bench::search::Stop;
use weir_mem::tsc;

use super::contest::{Contest, Peer, Side, WARM_UP, Work};
use super::lab::Lab;
use super::ours::Ours;
use super::program::{Program, found, words};

const NAME: &str = "linux";

/// The next hop's: nobody's, so that the kernel behind `g1` throws away what comes as soon as it has counted it.
const NEXT_HOP: &str = "02:00:00:00:00:02";

/// Where packets go.
const NETWORK: &str = "198.18.0.0/15";

const WORKS: &[Work] = &[Work {
    name: "veth",
    help: "64-byte UDP packets, one flow, from Weir's generator (AF_PACKET) through a router between two veth pairs: the kernel's, or Weir over \
           AF_XDP, with the same route and neighbour. The generator has a core of its own and sends as fast as it can; the router has the \
           other. Cycles are those of the router's core: for Weir those that its worker was not idle by its own account, calls of the \
           kernel included; for the kernel those that it books for interrupts (soft ones too), in steps of 10 ms. Not alike: the kernel \
           is handed what the generator sends by receive packet steering, while for AF_XDP that end of the veth works on the generator's \
           core; and Weir's packets are copied from and to the kernel.",
}];

pub(super) struct Linux;

impl Peer for Linux {
    fn name(&self) -> &'static str {
        NAME
    }

    fn absent(&self, lab: &Lab) -> Option<String> {
        if !cfg!(feature = "dpdk") {
            return Some("this Weir was built without DPDK, so it has no AF_XDP".to_owned());
        }
        if found("ip").is_none() {
            return Some(
                "network namespaces are made by ip, which is not installed (apt-get install iproute2)".to_owned(),
            );
        }
        if !rustix::process::geteuid().is_root() {
            return Some("network namespaces take root".to_owned());
        }
        if lab.cores < 2 {
            return Some(format!(
                "generator and router never wait, which takes two cores, and this machine has {}",
                lab.cores
            ));
        }
        None
    }

    fn works(&self) -> &'static [Work] {
        WORKS
    }

    fn start(&self, _work: &Work, lab: &Lab) -> Result<Contest, Stop> {
        let place = Rc::new(Place::new(lab)?);
        let shown = format!("{}\n", place.setup(lab).join("\n"));
        let script = format!("local core = {}\n\n{}", lab.core, configurations::VETH);
        Ok(Contest {
            ours: Box::new(Router { place: Rc::clone(&place), is_weir: true }),
            theirs: Box::new(Router { place, is_weir: false }),
            configurations: vec![("Weir", script), (NAME, shown)],
        })
    }
}

/// The namespaces and what is in them.
struct Place {
    sender: String,
    router: String,
}

impl Place {
    fn new(lab: &Lab) -> Result<Place, Stop> {
        remove_orphans();
        let id = std::process::id();
        let place = Place { sender: format!("weir-peers-{id}-gen"), router: format!("weir-peers-{id}-dut") };
        for name in [&place.sender, &place.router] {
            lab.tool(Command::new("ip").args(["netns", "add", name]))?;
        }
        for (near, far, mac) in [("g0", "r0", linux::R0), ("g1", "r1", "02:00:00:00:00:03")] {
            let mut command = Command::new("ip");
            command.args([
                "-n",
                &place.sender,
                "link",
                "add",
                near,
                "type",
                "veth",
                "peer",
                "name",
                far,
                "address",
                mac,
            ]);
            lab.tool(command.args(["netns", &place.router]))?;
            lab.tool(Command::new("ip").args(["-n", &place.sender, "link", "set", near, "up"]))?;
        }
        for line in place.setup(lab) {
            lab.tool(Command::new("ip").args(["netns", "exec", &place.router, "sh", "-c", &line]))?;
        }
        Ok(place)
    }

    /// What is told in the router's namespace, a shell command each.
    fn setup(&self, lab: &Lab) -> Vec<String> {
        vec![
            "ip link set lo up".to_owned(),
            "ip link set r0 up".to_owned(),
            "ip link set r1 up".to_owned(),
            "ip addr add 192.0.2.1/24 dev r0".to_owned(),
            "ip addr add 198.51.100.1/24 dev r1".to_owned(),
            format!("ip neigh add 198.51.100.2 lladdr {NEXT_HOP} dev r1 nud permanent"),
            format!("ip route add {NETWORK} via 198.51.100.2"),
            "echo 1 > /proc/sys/net/ipv4/ip_forward".to_owned(),
            format!("echo {} > /sys/class/net/r0/queues/rx-0/rps_cpus", cpu_mask(lab.core)),
        ]
    }

    fn inside(namespace: &str) -> Vec<OsString> {
        words(["ip", "netns", "exec", namespace])
    }

    /// Weir's XDP programs may outlive it; where one is, the kernel sees nothing.
    fn take_programs_off(&self, lab: &Lab) -> Result<(), Stop> {
        for interface in ["r0", "r1"] {
            lab.tool(Command::new("ip").args(["-n", &self.router, "link", "set", interface, "xdp", "off"]))?;
        }
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for name in [&self.sender, &self.router] {
            // One that was never made is no loss.
            let removed = Command::new("ip").args(["netns", "del", name]).output();
            if Path::new("/run/netns").join(name).exists() {
                // Where nobody listens there is nobody to tell.
                let _ = writeln!(
                    std::io::stderr(),
                    "weir: cannot remove the network namespace {name}: {removed:?}; remove it with ip netns del {name}"
                );
            }
        }
    }
}

/// Removes the namespaces of runs that were killed.
fn remove_orphans() {
    let there = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    for name in there.filter_map(|entry| entry.file_name().into_string().ok()) {
        let id = name.strip_prefix("weir-peers-").and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if id.is_some_and(|id| !Path::new("/proc").join(id.to_string()).exists()) {
            // What another run removes at this moment is gone too.
            let _ = Command::new("ip").args(["netns", "del", &name]).output();
        }
    }
}

/// A core as the kernel's files take it: hexadecimal words of 32 bits, the highest first.
fn cpu_mask(core: usize) -> String {
    let mut text = format!("{:x}", 1u32 << (core % 32));
    text.push_str(&",00000000".repeat(core / 32));
    text
}

struct Router {
    place: Rc<Place>,
    is_weir: bool,
}

impl Side for Router {
    fn measure(&mut self, lab: &Lab, window: Duration) -> Result<Measured, Stop> {
        let inside = Place::inside(&self.place.router);
        let mut ours = if self.is_weir { Some(Ours::start(lab, configurations::VETH, &[], &inside)?) } else { None };
        let mut sender = Sender::start(lab, &self.place.sender)?;
        sender.wait_for_traffic(lab)?;
        lab.wait(WARM_UP)?;
        let before = (self.busy(lab, ours.as_mut())?, sender.count()?);
        lab.wait(window)?;
        // On a busy machine nobody may have had a turn yet; and the kernel's books are kept in steps.
        let (after, arrived) = lab.until("the packets' way through the router", || {
            let after = (self.busy(lab, ours.as_mut())?, sender.count()?);
            let arrived = after.1.arrived.saturating_sub(before.1.arrived);
            Ok((arrived > 0 && after.0 > before.0).then_some((after, arrived)))
        })?;
        sender.program.end();
        if let Some(ours) = ours {
            ours.end();
            self.place.take_programs_off(lab)?;
        }
        let elapsed = after.1.time.wrapping_sub(before.1.time) as f64;
        let busy = after.0 - before.0;
        Ok(Measured {
            cycles: busy / arrived as f64,
            rate: arrived as f64 / (elapsed / lab.clock.hz() as f64) / 1e6,
            busy: Some(busy / elapsed * 100.0),
            waited: None,
            held: None,
        })
    }
}

impl Router {
    /// TSC cycles that routing has taken so far on its core, as far as they are booked.
    fn busy(&self, lab: &Lab, ours: Option<&mut Ours>) -> Result<f64, Stop> {
        match ours {
            Some(ours) => ours.busy().map(|cycles| cycles as f64),
            None => {
                let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
                let ticks = linux::interrupts(&text, lab.core).map_err(Stop::Failed)?;
                Ok(ticks as f64 / linux::TICKS * lab.clock.hz() as f64)
            }
        }
    }
}

/// The generator.
struct Sender {
    program: Program,
}

/// What has arrived behind the router, and when.
struct Seen {
    arrived: u64,
    time: u64,
}

impl Sender {
    fn start(lab: &Lab, namespace: &str) -> Result<Sender, Stop> {
        let mut words = Place::inside(namespace);
        words.push(lab.weir.clone().into());
        words.extend(generator::FLOW.iter().map(OsString::from));
        words.extend(["--core", &lab.other.to_string()].map(OsString::from));
        Ok(Sender { program: Program::start(lab, "Weir's generator", &words, &[])? })
    }

    fn count(&mut self) -> Result<Seen, Stop> {
        self.program.check()?;
        // The process is in the namespace of what it sends by.
        let text = std::fs::read_to_string(format!("/proc/{}/net/dev", self.program.id()));
        let (time, text) =
            (tsc::now(), text.map_err(|error| self.program.failed(&format!("cannot be watched: {error}")))?);
        let arrived = linux::received(&text, "g1").map_err(Stop::Failed)?;
        Ok(Seen { arrived, time })
    }

    fn wait_for_traffic(&mut self, lab: &Lab) -> Result<(), Stop> {
        let mut first = None;
        lab.until("the first packets' way through the router", || {
            let text = std::fs::read_to_string(format!("/proc/{}/net/dev", self.program.id())).unwrap_or_default();
            self.program.check()?;
            // Before the process is in its namespace, there is no such interface.
            let Ok(arrived) = linux::received(&text, "g1") else { return Ok(None) };
            let first = *first.get_or_insert(arrived);
            // A few packets of the kernel's own arrive as well.
            Ok((arrived > first + 1000).then_some(()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_words_of_32_bits() {
        for (core, mask) in [(0, "1"), (1, "2"), (31, "80000000"), (32, "1,00000000"), (65, "2,00000000,00000000")] {
            assert_eq!(cpu_mask(core), mask);
        }
    }

    #[test]
    fn both_have_the_same_next_hop() {
        assert!(configurations::VETH.contains(NEXT_HOP) && configurations::VETH.contains(NETWORK));
    }
}
