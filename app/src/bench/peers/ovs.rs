//! Open vSwitch with DPDK: its datapath in user space, with a database, sockets and a network namespace of its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use weir_bench::peers::{configurations, generator, openvswitch};
use weir_bench::search::Stop;

use super::contest::{Contest, Count, Peer, Restless, Work};
use super::lab::Lab;
use super::ours::Ours;
use super::program::{Program, found};

const NAME: &str = "open-vswitch";

/// Where Debian has the switch that was built with DPDK.
const WITH_DPDK: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";

/// The database's schema.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// Memory without huge pages, MiB: more than its buffers take.
const MEMORY: u32 = 512;

/// The Ethernet address of the first `net_pcap` device of a process: packets to route must be for it.
const PCAP_MAC: &str = "02:70:63:61:70:00";

/// The share of what it receives that it must send for its figures to count: a little is lost before its flows are there.
const SENT: f64 = 0.95;

/// Over how long that is looked at.
const VERDICT: Duration = Duration::from_millis(200);

const WORKS: &[Work] = &[
    Work {
        name: "port-to-port",
        help: "64-byte frames from one of DPDK's null devices to the other and back; Open vSwitch by a flow for each input port. Either \
               keeps counters.",
    },
    Work {
        name: "ipv4-prefix",
        help: "2,048 destinations under one prefix, from a capture file in memory (DPDK's net_pcap, which copies each packet) to a null \
               device: TTL and checksum, both MAC addresses. Weir looks up a routing table and checks what RFC 1812 asks for; Open \
               vSwitch matches the prefix and finds each flow in its cache of exact matches.",
    },
    Work { name: "ipv4-64-prefixes", help: "The same with 64 prefixes in place of the one, of /22 each." },
];

pub(super) struct OpenVSwitch;

impl Peer for OpenVSwitch {
    fn name(&self) -> &'static str {
        NAME
    }

    fn absent(&self, _lab: &Lab) -> Option<String> {
        if !cfg!(feature = "dpdk") {
            return Some("this Weir was built without DPDK, so there is nothing to compare with it".to_owned());
        }
        let missing = ["ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl", "ovs-appctl"];
        let there = Path::new(WITH_DPDK).exists() && missing.iter().all(|program| found(program).is_some());
        if !there {
            return Some("it is not installed with DPDK (apt-get install openvswitch-switch-dpdk)".to_owned());
        }
        let root = rustix::process::geteuid().is_root();
        (!root).then(|| "it makes interfaces in a network namespace of its own, which takes root".to_owned())
    }

    fn works(&self) -> &'static [Work] {
        WORKS
    }

    fn version(&self, lab: &Lab) -> Option<String> {
        let text = lab.tool(Command::new(WITH_DPDK).arg("--version")).ok()?;
        Some(text.lines().next()?.to_owned())
    }

    fn start(&self, work: &Work, lab: &Lab) -> Result<Contest, Stop> {
        let plan = plan(work, lab)?;
        let mut switch = Switch::start(lab, &plan)?;
        switch.program.rest()?;
        let ours = Ours::start(lab, plan.ours, &plan.variables, &[])?.resting()?;
        Ok(Contest {
            configurations: vec![("Weir", ours.configuration.clone()), (NAME, plan.shown())],
            ours: Box::new(ours),
            theirs: Box::new(switch),
        })
    }
}

/// What both are told.
struct Plan {
    /// DPDK's devices: the first is port 1, the second port 2.
    devices: [String; 2],
    flows: Vec<String>,
    ours: &'static str,
    variables: Vec<(&'static str, String)>,
}

impl Plan {
    fn shown(&self) -> String {
        format!("ports: {}\nflows:\n{}\n", self.devices.join(" "), self.flows.join("\n"))
    }
}

fn plan(work: &Work, lab: &Lab) -> Result<Plan, Stop> {
    let prefixes: Vec<String> = match work.name {
        "ipv4-prefix" => vec!["198.18.0.0/15".to_owned()],
        "ipv4-64-prefixes" => (0..64).map(|n| format!("198.18.{}.0/22", n * 4)).collect(),
        _ => {
            let null = ["net_null0", "net_null1"].map(str::to_owned);
            let flows = vec!["in_port=1,actions=output:2".to_owned(), "in_port=2,actions=output:1".to_owned()];
            return Ok(Plan { devices: null, flows, ours: configurations::UNTOUCHED, variables: Vec::new() });
        }
    };
    let file = capture(lab)?;
    let file = file.display();
    let flow = |prefix: &String| {
        format!(
            "ip,in_port=1,nw_dst={prefix},actions=dec_ttl,mod_dl_src:02:00:00:00:00:01,mod_dl_dst:02:00:00:00:00:02,output:2"
        )
    };
    let quoted: Vec<String> = prefixes.iter().map(|prefix| format!("\"{prefix}\"")).collect();
    Ok(Plan {
        devices: [format!("net_pcap0,rx_pcap={file},infinite_rx=1"), "net_null0,no-rx=1".to_owned()],
        flows: prefixes.iter().map(flow).collect(),
        ours: configurations::IPV4,
        variables: vec![("capture", format!("\"{file}\"")), ("prefixes", format!("{{ {} }}", quoted.join(", ")))],
    })
}

/// A capture file with packets to route.
fn capture(lab: &Lab) -> Result<PathBuf, Stop> {
    let file = lab.folder.join("in.pcap");
    let mut weir = Command::new(&lab.weir);
    weir.args(generator::CAPTURE).args(["--dst-mac", PCAP_MAC]).arg("--port").arg(format!("pcap:,{}", file.display()));
    lab.tool(&mut weir)?;
    Ok(file)
}

/// The switch and its database.
struct Switch {
    program: Program,
    // Ends behind the switch.
    _database: Program,
    control: PathBuf,
    bridge: String,
    core: usize,
}

impl Switch {
    fn start(lab: &Lab, plan: &Plan) -> Result<Switch, Stop> {
        let folder = lab.fresh_folder("ovs")?;
        let at = |name: &str| folder.join(name);
        let names = ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"];
        let environment = names.map(|name| (name, OsString::from(&folder)));
        let (conf, socket) = (at("conf.db"), at("db.sock"));
        lab.tool(Command::new("ovsdb-tool").arg("create").arg(&conf).arg(SCHEMA))?;
        let database = format!("unix:{}", socket.display());
        let words = [
            "ovsdb-server".into(),
            conf.into(),
            OsString::from(format!("--remote=p{database}")),
            option("--unixctl", &at("ovsdb.ctl")),
            option("--pidfile", &at("ovsdb.pid")),
            "-vconsole:warn".into(),
        ];
        let mut server = Program::start(lab, "ovsdb-server", &words, &environment)?;
        lab.until("starting ovsdb-server", || server.check().map(|()| socket.exists().then_some(())))?;
        let control = at("switch.ctl");
        let vsctl = |words: &[String]| {
            let mut command = Command::new("ovs-vsctl");
            command.arg(format!("--db={database}")).arg("--no-wait").args(words);
            lab.tool(&mut command)
        };
        vsctl(&["init".to_owned()])?;
        vsctl(&settings(lab))?;
        let words = [
            "unshare".into(),
            "-n".into(),
            WITH_DPDK.into(),
            OsString::from(&database),
            option("--unixctl", &control),
            option("--pidfile", &at("switch.pid")),
            "-vconsole:warn".into(),
        ];
        let mut program = Program::start(lab, NAME, &words, &environment)?;
        vsctl(&add_ports(plan))?;
        let bridge = format!("unix:{}", at("br0.mgmt").display());
        let socket = at("br0.mgmt");
        lab.until("starting Open vSwitch", || program.check().map(|()| socket.exists().then_some(())))?;
        for flow in &plan.flows {
            lab.tool(Command::new("ovs-ofctl").args(["add-flow", &bridge, flow]))?;
        }
        let mut switch = Switch { program, _database: server, control, bridge, core: lab.core };
        // Its ports come one after the other, and a port that it could not have at first it tries again.
        lab.until("Open vSwitch's forwarding", || {
            switch.program.check()?;
            Ok(switch.sent(lab).ok().filter(|sent| *sent > 0))
        })
        .map_err(|stop| match stop {
            Stop::Interrupted => Stop::Interrupted,
            Stop::Failed(sentence) => switch.program.failed(&format!("forwards nothing: {sentence}")),
        })?;
        Ok(switch)
    }

    fn ports(&self, lab: &Lab) -> Result<String, Stop> {
        lab.tool(Command::new("ovs-ofctl").args(["dump-ports", &self.bridge]))
    }

    /// Packets that the second port has sent.
    fn sent(&self, lab: &Lab) -> Result<u64, Stop> {
        let port = openvswitch::port(&self.ports(lab)?, 2);
        port.map(|port| port.sent).map_err(|problem| self.program.failed(&format!("gives {problem}")))
    }

    /// Packets that both ports have received and sent.
    fn moved(&self, lab: &Lab) -> Result<(u64, u64), Stop> {
        let text = self.ports(lab)?;
        let (mut received, mut sent) = (0, 0);
        for number in [1, 2] {
            let port = openvswitch::port(&text, number);
            let port = port.map_err(|problem| self.program.failed(&format!("gives {problem}")))?;
            received += port.received;
            sent += port.sent;
        }
        Ok((received, sent))
    }
}

impl Restless for Switch {
    fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    fn count(&mut self, lab: &Lab) -> Result<Count, Stop> {
        self.program.check()?;
        let mut command = Command::new("ovs-appctl");
        command.arg("-t").arg(&self.control).arg("dpif-netdev/pmd-stats-show");
        let pmd = openvswitch::pmd(&lab.tool(&mut command)?, self.core);
        let pmd = pmd.map_err(|problem| self.program.failed(&format!("gives {problem}")))?;
        Ok(Count { packets: pmd.packets, cycles: pmd.cycles })
    }

    fn verdict(&mut self, lab: &Lab) -> Result<(), Stop> {
        let before = self.moved(lab)?;
        lab.wait(VERDICT)?;
        let after = self.moved(lab)?;
        let (received, sent) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
        if received > 0 && sent as f64 >= received as f64 * SENT {
            return Ok(());
        }
        Err(self.program.failed(&format!("sent only {sent} of {received} packets")))
    }
}

fn option(name: &str, path: &Path) -> OsString {
    format!("{name}={}", path.display()).into()
}

/// What the database is told before the switch starts.
fn settings(lab: &Lab) -> Vec<String> {
    let mut eal = lab.eal("ovs", MEMORY);
    // It asks for memory without files unless it is told this.
    eal.retain(|word| word != "--in-memory");
    if eal.iter().any(|word| word == "--no-huge") {
        eal.push("--legacy-mem".to_owned());
    }
    let mut words = ["set", "Open_vSwitch", ".", "other_config:dpdk-init=true"].map(str::to_owned).to_vec();
    words.push(format!("other_config:pmd-cpu-mask={:#x}", 1u128 << lab.core.min(127)));
    words.push(format!("other_config:dpdk-lcore-mask={:#x}", 1u128 << lab.other.min(127)));
    words.push(format!("other_config:dpdk-extra=\"{}\"", eal.join(" ")));
    words
}

fn add_ports(plan: &Plan) -> Vec<String> {
    let bridge = "add-br br0 -- set bridge br0 datapath_type=netdev fail-mode=secure";
    let mut words: Vec<String> = bridge.split(' ').map(str::to_owned).collect();
    for (number, device) in (1..).zip(&plan.devices) {
        let name = format!("dev{number}");
        words.extend(["--", "add-port", "br0", &name, "--", "set", "Interface", &name, "type=dpdk"].map(str::to_owned));
        words.extend([format!("options:dpdk-devargs=\"{device}\""), format!("ofport_request={number}")]);
    }
    words
}
