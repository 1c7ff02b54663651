//! Open vSwitch's `ovs-ofctl` drives the example switch.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

/// The example, which ends with its standard input.
struct Switch {
    child: Child,
    address: String,
    stdin: Option<ChildStdin>,
}

impl Drop for Switch {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

impl Switch {
    fn start() -> Option<Switch> {
        if Command::new("ovs-ofctl").arg("--version").stdout(Stdio::null()).status().is_err() {
            println!("skipped: ovs-ofctl is missing (package openvswitch-common)");
            return None;
        }
        // Tests are in target/PROFILE/deps, examples beside it.
        let here = std::env::current_exe().unwrap();
        let program: PathBuf = here.parent().unwrap().parent().unwrap().join("examples/openflow_switch");
        if !program.exists() {
            println!("skipped: {} was not built (cargo test builds it)", program.display());
            return None;
        }
        let mut child =
            Command::new(program).arg("127.0.0.1:0").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        let stdin = child.stdin.take();
        Some(Switch { child, address: format!("tcp:{}", address.trim()), stdin })
    }

    fn run(&self, command: &str, arguments: &[&str]) -> (bool, String) {
        let output = Command::new("timeout")
            .args(["20", "ovs-ofctl", "-O", "OpenFlow13", command, &self.address])
            .args(arguments)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.success(), text)
    }

    #[track_caller]
    fn ok(&self, command: &str, arguments: &[&str]) -> String {
        let (success, text) = self.run(command, arguments);
        assert!(success && !text.contains("OFPT_ERROR"), "{command} {arguments:?}: {text}");
        text
    }

    #[track_caller]
    fn says(&self, command: &str, arguments: &[&str], said: &[&str]) {
        let text = self.ok(command, arguments);
        for said in said {
            assert!(text.contains(said), "{command} {arguments:?}: {said:?} is missing from {text}");
        }
    }

    #[track_caller]
    fn refuses(&self, command: &str, arguments: &[&str], error: &str) {
        let (_, text) = self.run(command, arguments);
        assert!(text.contains(error), "{command} {arguments:?}: {error:?} is missing from {text}");
    }
}

#[test]
fn flows_are_added_changed_and_deleted() {
    let Some(switch) = Switch::start() else { return };
    switch.says("show", &[], &["dpid:0000000000000001", "n_tables:254, n_buffers:0", "1(p1): addr:02:00:00:00:00:01"]);
    let flows = [
        "table=0,priority=100,cookie=0x7,idle_timeout=60,send_flow_rem,tcp,nw_dst=10.0.0.0/8,tp_dst=80,actions=dec_ttl,output:2",
        "table=0,priority=0,actions=goto_table:1",
        "table=1,in_port=1,vlan_tci=0x1000/0x1000,actions=pop_vlan,set_field:02:00:00:00:00:09->eth_dst,output:3",
        "table=1,ipv6,ipv6_src=2001:db8::/32,actions=write_metadata:0x5/0xff,goto_table:2",
        "table=2,arp,actions=CONTROLLER:65535",
    ];
    for flow in flows {
        switch.ok("add-flow", &[flow]);
    }
    switch.says(
        "dump-flows",
        &["--no-stats"],
        &[
            "cookie=0x7, idle_timeout=60, send_flow_rem priority=100,tcp,nw_dst=10.0.0.0/8,tp_dst=80 actions=dec_ttl,output:2",
            "priority=0 actions=goto_table:1",
            "table=1, in_port=1,vlan_tci=0x1000/0x1000 actions=pop_vlan,set_field:02:00:00:00:00:09->eth_dst,output:3",
            "table=1, ipv6,ipv6_src=2001:db8::/32 actions=write_metadata:0x5/0xff,goto_table:2",
            "table=2, arp actions=CONTROLLER:65535",
        ],
    );
    switch.says("dump-aggregate", &["table=1"], &["flow_count=2"]);
    switch.says("dump-flows", &["table=0,out_port=2"], &["cookie=0x7"]);
    // Not strict: all that it covers; strict: the one of this priority.
    switch.ok("mod-flows", &["table=0,tcp,actions=output:4"]);
    switch.says("dump-flows", &["--no-stats", "table=0,tcp"], &["actions=output:4", "cookie=0x7"]);
    switch.ok("del-flows", &["--strict", "table=0,priority=99,tcp,nw_dst=10.0.0.0/8,tp_dst=80"]);
    switch.says("dump-aggregate", &["table=0"], &["flow_count=2"]);
    switch.ok("del-flows", &["--strict", "table=0,priority=100,tcp,nw_dst=10.0.0.0/8,tp_dst=80"]);
    switch.says("dump-aggregate", &["table=0"], &["flow_count=1"]);
    switch.ok("del-flows", &["table=1,ipv6"]);
    switch.says("dump-aggregate", &["table=1"], &["flow_count=1"]);
    switch.ok("del-flows", &[]);
    switch.says("dump-aggregate", &[], &["flow_count=0"]);
}

#[test]
fn long_replies_come_whole() {
    let Some(switch) = Switch::start() else { return };
    let flows: String = (0..5_000u32)
        .map(|n| format!("udp,nw_dst=10.0.{}.{},actions=output:{}\n", n >> 8, n & 255, n % 4 + 1))
        .collect();
    let file = std::env::temp_dir().join(format!("weir-flows-{}", std::process::id()));
    std::fs::write(&file, flows).unwrap();
    switch.ok("add-flows", &[file.to_str().unwrap()]);
    std::fs::remove_file(&file).unwrap();
    let text = switch.ok("dump-flows", &["--no-stats"]);
    let lines: std::collections::BTreeSet<&str> = text.lines().filter(|line| line.contains("nw_dst=")).collect();
    assert_eq!(lines.len(), 5_000);
}

#[test]
fn groups_and_meters_are_added_changed_and_deleted() {
    let Some(switch) = Switch::start() else { return };
    switch.ok("add-group", &["group_id=1,type=all,bucket=output:1,bucket=dec_ttl,output:2"]);
    switch.ok("add-group", &["group_id=2,type=select,bucket=weight:3,output:1,bucket=weight:7,group:1"]);
    switch.ok("add-group", &["group_id=3,type=ff,bucket=watch_port:1,output:1,bucket=watch_port:2,output:2"]);
    switch.ok("add-flow", &["actions=group:2"]);
    switch.says(
        "dump-groups",
        &[],
        &[
            "group_id=1,type=all,bucket=actions=output:1,bucket=actions=dec_ttl,output:2",
            "group_id=2,type=select,bucket=weight:3,actions=output:1,bucket=weight:7,actions=group:1",
            "group_id=3,type=ff,bucket=watch_port:1,actions=output:1,bucket=watch_port:2,actions=output:2",
        ],
    );
    switch.says("dump-group-stats", &["group_id=2"], &["group_id=2", "ref_count=1", "bucket1:packet_count=0"]);
    switch.says(
        "dump-group-features",
        &[],
        &["Types:  0xf", "Capabilities:  0xf", "max_groups=0x10000", "actions: output group set_field"],
    );
    switch.refuses("add-group", &["group_id=1,type=all,bucket=output:1"], "OFPGMFC_GROUP_EXISTS");
    switch.refuses("mod-group", &["group_id=1,type=all,bucket=group:2"], "OFPGMFC_LOOP");
    switch.refuses("mod-group", &["group_id=9,type=all,bucket=output:2"], "OFPGMFC_UNKNOWN_GROUP");
    switch.refuses("del-groups", &["group_id=1"], "OFPGMFC_CHAINED_GROUP");
    switch.refuses("add-flow", &["actions=group:77"], "OFPBAC_BAD_OUT_GROUP");
    switch.ok("mod-group", &["group_id=1,type=indirect,bucket=output:4"]);
    // A group takes the flows that lead to it along.
    switch.ok("del-groups", &["group_id=2"]);
    switch.says("dump-aggregate", &[], &["flow_count=0"]);

    switch.ok("add-meter", &["meter=1,kbps,burst,stats,band=type=drop,rate=1000,burst_size=100"]);
    switch.ok("add-meter", &["meter=2,pktps,bands=type=dscp_remark,prec_level=1,rate=10"]);
    switch.ok("add-flow", &["ip,actions=meter:1,output:1"]);
    switch.says(
        "dump-meters",
        &[],
        &["meter=1 kbps burst stats bands=", "type=drop rate=1000 burst_size=100", "meter=2 pktps"],
    );
    switch.says("meter-stats", &["meter=1"], &["meter:1 flow_count:1 packet_in_count:0"]);
    switch.says("meter-features", &[], &["max_meter:65536"]);
    switch.refuses("add-meter", &["meter=1,kbps,band=type=drop,rate=5"], "OFPMMFC_METER_EXISTS");
    switch.refuses("mod-meter", &["meter=9,kbps,band=type=drop,rate=5"], "OFPMMFC_UNKNOWN_METER");
    switch.refuses("add-flow", &["actions=meter:7,output:1"], "OFPMMFC_UNKNOWN_METER");
    switch.ok("mod-meter", &["meter=1,kbps,band=type=drop,rate=77"]);
    switch.says("dump-meter", &["meter=1"], &["rate=77"]);
    switch.ok("del-meter", &["meter=1"]);
    switch.says("dump-aggregate", &[], &["flow_count=0"]);
}

#[test]
fn the_rest_of_what_is_asked_for_is_answered() {
    let Some(switch) = Switch::start() else { return };
    switch.says("dump-desc", &[], &["Manufacturer: Weir"]);
    switch.says("dump-ports", &["1"], &["port  1: rx pkts=0"]);
    switch.says("dump-ports-desc", &[], &["4(p4): addr:02:00:00:00:00:04", "LIVE"]);
    switch.says("dump-tables", &[], &["table 0", "active=0"]);
    switch.says("dump-table-features", &[], &["table 0", "metadata: match=0xffffffffffffffff"]);
    switch.says("queue-get-config", &["1"], &["OFPT_QUEUE_GET_CONFIG_REPLY"]);
    switch.ok("mod-port", &["2", "down"]);
    switch.says("dump-ports-desc", &[], &["PORT_DOWN"]);
    switch.ok("mod-port", &["2", "up"]);
    switch.says("get-frags", &[], &["normal"]);
    switch.ok("set-frags", &["drop"]);
    switch.says("get-frags", &[], &["drop"]);
    switch.says("probe", &[], &[]);
    switch.refuses("add-flow", &["table=3,actions=goto_table:2"], "OFPBIC_BAD_TABLE_ID");
    switch.refuses("add-flow", &["actions=output:300"], "OFPBAC_BAD_OUT_PORT");
    switch.refuses("dump-ports", &["77"], "OFPBRC_BAD_PORT");
}
