//! Open vSwitch with DPDK: its datapath in user space, with a database, sockets and a network namespace of its own.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use weir_bench::peers::{configurations, generator, openvswitch};
use weir_bench::search::Stop;
use weir_stage::Random;

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
    Work { name: "flows-port-to-port", help: "As port-to-port, Weir by its OpenFlow switch with the same flows." },
    Work {
        name: "flows-prefix",
        help: "As ipv4-prefix, Weir by its OpenFlow switch with the same flow: TTL and checksum, both MAC addresses. 2,048 destinations.",
    },
    Work {
        name: "flows-prefix-16k",
        help: "The same with 16,384 destinations: more than Open vSwitch's cache of exact matches holds.",
    },
    Work { name: "flows-64-prefixes", help: "The same with 64 prefixes in place of the one, of /22 each." },
    Work {
        name: "flows-rules-1k",
        help: "1,000 rules over source, destination and port, below masks of 32 kinds and with a priority each, and one for the rest; \
               16,384 packets at random.",
    },
];

/// Rules of `flows-rules-1k`.
const RULES: u32 = 1_000;

/// Packets of a capture, each for a flow of Open vSwitch's, and many: more than its cache of exact matches holds.
const FEW: u32 = 2_048;
const MANY: u32 = 16_384;

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
        let mut ours = Ours::start(lab, plan.ours, &plan.variables, &[])?;
        if let Some(channel) = &plan.channel {
            // Its controllers' door opens a little after it forwards, and has its name before it opens.
            let opens = || UnixStream::connect(channel).is_ok().then_some(());
            lab.until("Weir's OpenFlow channel", || ours.program().check().map(|()| opens()))?;
            add_flows(lab, &format!("unix:{}", channel.display()), &plan.flows)?;
        }
        let ours = ours.resting()?;
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
    /// Where Weir takes the same flows.
    channel: Option<PathBuf>,
}

impl Plan {
    fn shown(&self) -> String {
        format!("ports: {}\nflows:\n{}\n", self.devices.join(" "), self.flows.join("\n"))
    }

    /// The same for Weir's switch, by the same flows.
    fn by_flows(self, lab: &Lab) -> Plan {
        let channel = lab.folder.join("ours.of");
        let devices =
            self.devices.iter().map(|device| format!("\"{}\"", as_ours(device))).collect::<Vec<_>>().join(", ");
        let variables =
            vec![("devices", format!("{{ {devices} }}")), ("channel", format!("\"unix:{}\"", channel.display()))];
        Plan { ours: configurations::SWITCH, variables, channel: Some(channel), ..self }
    }
}

/// A device as Weir's configuration has it: what the null device receives is left as it was in its buffer, as the driver has it.
fn as_ours(device: &str) -> String {
    match device {
        "net_null0" | "net_null1" => "null:blank=0".to_owned(),
        other => format!("vdev:{other}"),
    }
}

fn plan(work: &Work, lab: &Lab) -> Result<Plan, Stop> {
    let one = || vec!["198.18.0.0/15".to_owned()];
    let many = || (0..64).map(|n| format!("198.18.{}.0/22", n * 4)).collect();
    match work.name {
        "ipv4-prefix" => routed(lab, (generator::ONE_SENDER, FEW), one()),
        "ipv4-64-prefixes" => routed(lab, (generator::ONE_SENDER, FEW), many()),
        "flows-prefix" => Ok(routed(lab, (generator::ONE_SENDER, FEW), one())?.by_flows(lab)),
        "flows-prefix-16k" => Ok(routed(lab, (generator::ONE_SENDER, MANY), one())?.by_flows(lab)),
        "flows-64-prefixes" => Ok(routed(lab, (generator::ONE_SENDER, FEW), many())?.by_flows(lab)),
        "flows-rules-1k" => {
            let plan = routed(lab, (generator::MANY_SENDERS, MANY), Vec::new())?.by_flows(lab);
            Ok(Plan { flows: rules(), ..plan })
        }
        "flows-port-to-port" => Ok(port_to_port().by_flows(lab)),
        _ => Ok(port_to_port()),
    }
}

fn port_to_port() -> Plan {
    Plan {
        devices: ["net_null0", "net_null1"].map(str::to_owned),
        flows: vec!["in_port=1,actions=output:2".to_owned(), "in_port=2,actions=output:1".to_owned()],
        ours: configurations::UNTOUCHED,
        variables: Vec::new(),
        channel: None,
    }
}

/// What is done to a packet that goes on.
const ROUTE: &str = "actions=dec_ttl,mod_dl_src:02:00:00:00:00:01,mod_dl_dst:02:00:00:00:00:02,output:2";

/// The packets of a capture are routed by prefixes.
fn routed(lab: &Lab, packets: (&[&str], u32), prefixes: Vec<String>) -> Result<Plan, Stop> {
    let file = capture(lab, packets)?;
    let file = file.display();
    let quoted: Vec<String> = prefixes.iter().map(|prefix| format!("\"{prefix}\"")).collect();
    Ok(Plan {
        devices: [format!("net_pcap0,rx_pcap={file},infinite_rx=1"), "net_null0,no-rx=1".to_owned()],
        flows: prefixes.iter().map(|prefix| format!("ip,in_port=1,nw_dst={prefix},{ROUTE}")).collect(),
        ours: configurations::IPV4,
        variables: vec![("capture", format!("\"{file}\"")), ("prefixes", format!("{{ {} }}", quoted.join(", ")))],
        channel: None,
    })
}

/// Rules as access lists have them, of which each packet meets some at random, and one that all meet.
fn rules() -> Vec<String> {
    let mut random = Random::new(19);
    let mut prefix = |first: u32, lengths: [u32; 4]| {
        let length = lengths[random.position(lengths.len())];
        let address = (first << 24 | random.below(1 << 24) as u32) & !(u32::MAX >> length);
        (format!("{}/{length}", Ipv4Addr::from_bits(address)), random.below(16))
    };
    let mut all: Vec<String> = (0..RULES)
        .map(|n| {
            let ((source, choice), (destination, port)) = (prefix(20, [11, 12, 14, 16]), prefix(10, [11, 13, 14, 15]));
            let port = if choice % 2 == 0 { format!(",tp_dst={}", 5000 + port) } else { String::new() };
            format!("priority={},udp,in_port=1,nw_src={source},nw_dst={destination}{port},{ROUTE}", 60_000 - n)
        })
        .collect();
    all.push(format!("priority=1,ip,in_port=1,{ROUTE}"));
    all
}

/// Enters flows at a switch.
fn add_flows(lab: &Lab, switch: &str, flows: &[String]) -> Result<(), Stop> {
    let file = lab.file("flows.txt", flows.join("\n").as_bytes())?;
    lab.tool(Command::new("ovs-ofctl").args(["-O", "OpenFlow13", "add-flows", switch]).arg(file)).map(drop)
}

/// A capture file with so many packets to route.
fn capture(lab: &Lab, (addresses, count): (&[&str], u32)) -> Result<PathBuf, Stop> {
    let file = lab.folder.join("in.pcap");
    let mut weir = Command::new(&lab.weir);
    weir.args(generator::CAPTURE).args(["--count", &count.to_string()]).args(addresses);
    weir.args(["--dst-mac", PCAP_MAC]).arg("--port").arg(format!("pcap:,{}", file.display()));
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
        add_flows(lab, &bridge, &plan.flows)?;
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
