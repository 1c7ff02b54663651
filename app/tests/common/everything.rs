//! A configuration with every function of the catalogue, and every key that names a file.

use super::{Folder, Running, frames, pcap};

/// Under the virtual clock all workers are one thread: none is too late for an answer where the machine is busy.
const SCRIPT: &str = r#"
    engine { clock = "virtual", control = { threads = 3, functions = { router = 3 } } }
    local function null(...)
        for _, name in ipairs { ... } do port { name = name, device = "mem:null" } end
    end
    null("qos-in", "qos-out", "idle", "quiet", "lua-in", "lua-out", "wired-in", "wired-out", "wired-six", "access", "core", "gen",
         "left", "right", "of-1", "of-2", "vx-1")
    port { name = "internet", device = "mem:null", address = "198.51.100.1/24" }
    port { name = "tunnels", device = "mem:null", address = "2001:db8:f::1/64" }
    port { name = "lan", device = "mem:null", address = "198.18.0.254/24" }
    port { name = "wan", device = "mem:null", address = "192.0.2.1/24" }
    port { name = "under", device = "mem:null", address = "203.0.113.1/24" }
    vxlan { ports = { "under" }, tunnels = { ["vx-1"] = { vni = 7, source = "203.0.113.1", remote = "203.0.113.9" } }, limits = { routes = 64 } }
    bridge { ports = { left = { acl_in = "known" }, right = { acl_out = "known" } }, acls = { known = { default = "permit", rules_csv = "known.csv" } }, macs = { { mac = "02:00:00:00:00:09", port = "left" } } }
    switch { ports = { "of-1", "of-2" }, fail = "standalone",
             tls = { certificate = "switch.pem", private_key = "switch.key", ca = "ca.pem" } }
    forward { paths = { "idle -> quiet" } }
    router { ports = { "lan", "wan" }, routes_csv = "router.csv", limits = { routes = 64 }, table = "packed",
             vrfs = { blue = { routes_csv = "blue.csv" } },
             acls = { edge = { default = "permit", rules_csv = "edge.csv" } }, acl_in = { wan = "edge" } }
    lua { file = "function.lua", paths = { "lua-in -> lua-out" }, tables = {
        routes = { prefixes_csv = "prefixes.csv" }, users = { numbers_csv = "numbers.csv" },
    } }
    wiring { receive = { ["wired-in"] = "check", ["wired-six"] = "check6" }, stages = {
        check = { kind = "ipv4-check", ways = { out = "script", options = "drop", arp = "drop" } },
        script = { kind = "lua", file = "stage.lua", ways = { out = "route" }, tables = {
            routes = { prefixes_csv = "stage-prefixes.csv" }, users = { numbers_csv = "stage-numbers.csv" },
        } },
        route = { kind = "ipv4-route", next_hops = { "192.0.2.9", "192.0.2.8" }, routes_csv = "stage.csv",
                  ways = { ["way[0]"] = "port wired-out", ["way[1]"] = "port wired-out", ["no-route"] = "drop" } },
        check6 = { kind = "ipv6-check", ways = { out = "route6", options = "drop", nd = "drop", link = "drop" } },
        route6 = { kind = "ipv6-route", next_hops = { "fe80::9", "fe80::8" }, routes_csv = "stage6.csv",
                   ways = { ["way[0]"] = "port wired-out", ["way[1]"] = "port wired-out", ["no-route"] = "drop" } },
    } }
    bng { access = { "access" }, core = { "core" }, core_encapsulation = "ip", subscribers = "subscribers.csv",
          gateways = { one = { port = "core", address = "192.0.2.9" } }, routes_csv = "bng.csv",
          vrfs = { management = { routes_csv = "management.csv" } },
          limits = { subscribers = 64, routes = 64 } }
    lwaftr { ports = { "internet", "tunnels" }, aftr = "2001:db8:a::1", softwires = "softwires.csv", routes_csv = "relay.csv",
             vrfs = { green = { routes_csv = "green.csv" } }, limits = { routes = 64 },
             table_limits = { softwires = 64, addresses = 64 } }
    gen { streams = {
        { port = "gen", table = "table.csv", count = 1, layers = { { ethernet = {} }, { ipv4 = { ttl = "column" } } } },
        { port = "gen", replay = "replay.pcap", count = 1 },
    } }
    qos { from = "qos-in", to = "qos-out", users_csv = "users.csv",
          scheduler = { rate = "1 Gbit/s", users = 8, buffers = 64, profiles = { one = { tb_rate = "1 Mbit/s" }, two = { tb_rate = "1 Mbit/s", classes = { { codel = { ecn = true }, flows = "fair" }, { l4s = { coupling = 2 } } } } } } }
"#;

/// A certificate or a key that tests use.
macro_rules! pem {
    ($name:literal) => {
        include_bytes!(concat!("../../../crates/tls/tests/keys/", $name))
    };
}

/// Starts it in a folder of its own.
pub(crate) fn start(name: &str) -> (Folder, Running) {
    let folder = Folder::new(name);
    let files: [(&str, &[u8]); 24] = [
        ("router.csv", b"prefix,via\n203.0.113.0/24,192.0.2.9\n"),
        ("blue.csv", b"prefix,via\n203.0.113.0/24,192.0.2.9%wan\n"),
        ("known.csv", b"rule\ndeny from 02:00:00:00:00:67\n"),
        ("edge.csv", b"rule\ndeny from 203.0.113.66/32\n"),
        ("function.lua", b"function run() end"),
        ("prefixes.csv", b"prefix,value\n10.0.0.0/8,1\n"),
        ("numbers.csv", b"number,value\n10,1\n"),
        ("stage.lua", b"function run() end"),
        ("stage-prefixes.csv", b"prefix,value\n10.0.0.0/8,1\n"),
        ("stage-numbers.csv", b"number,value\n10,1\n"),
        ("stage.csv", b"prefix,via\n10.0.0.0/8,192.0.2.9\n"),
        ("stage6.csv", b"prefix,via\n2001:db8::/32,fe80::9\n"),
        ("subscribers.csv", b"svlan,cvlan,ipv4,profile\n1,2,10.0.0.2,home\n"),
        ("bng.csv", b"prefix,gateway\n10.9.0.0/16,one\n"),
        ("management.csv", b"prefix,via\n10.7.0.0/16,blackhole\n"),
        ("softwires.csv", b"ipv4,b4\n203.0.113.9,2001:db8:c::9\n"),
        ("relay.csv", b"prefix,via\n0.0.0.0/0,198.51.100.9\n"),
        ("green.csv", b"prefix,via\n10.7.0.0/16,blackhole\n"),
        ("table.csv", b"ipv4.ttl\n7\n"),
        ("replay.pcap", &pcap(&frames(2))),
        ("users.csv", b"user,profile\n1.2,one\n"),
        ("switch.pem", pem!("switch.pem")),
        ("switch.key", pem!("switch.key")),
        ("ca.pem", pem!("ca.pem")),
    ];
    files.iter().for_each(|(file, content)| drop(folder.write(file, content)));
    let running = Running::start(&folder, SCRIPT, &["--allow-lua-stages"]);
    (folder, running)
}
