//! Stages wired by hand, in the whole program: what crosses, what is warned of, and a script that is exchanged.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Folder, Running, check_account, frames, pcap, read_pcap, text, weir};
use serde_json::{Value, json};

const PORTS: &str = r#"
    engine { clock = "virtual" }
    port { name = "in", device = "pcap:in.pcap," }
    port { name = "out", device = "pcap:,out.pcap" }
    port { name = "watch", device = "pcap:,watch.pcap" }
"#;

#[test]
fn what_is_wired_is_what_happens() {
    let folder = Folder::new("wired");
    let sent = frames(1000);
    folder.write("in.pcap", pcap(&sent));
    let wiring = r#"wiring { receive = { ["in"] = "copy" }, stages = {
        copy = { kind = "copy", ways = { out = "swap", copy = "port watch" } },
        swap = { kind = "swap-macs", ways = { out = "port out" } },
    } }"#;
    let mut running = Running::start(&folder, &format!("{PORTS}{wiring}"), &["--until-drained", "--json"]);
    let (printed, status) = running.rest();
    assert_eq!(status, Some(0), "{}", running.log());
    assert!(!running.log().contains("leads nowhere"), "{}", running.log());
    let stats: Value = serde_json::from_str(&printed).unwrap();
    check_account(&stats);
    assert_eq!((&stats["account"]["created"], &stats["account"]["transmitted"]), (&json!(1000), &json!(2000)));
    assert_eq!(read_pcap(&folder.0.join("watch.pcap")), sent);
    for (out, sent) in read_pcap(&folder.0.join("out.pcap")).iter().zip(&sent) {
        assert_eq!([&out[6..12], &out[..6], &out[12..]].concat(), *sent);
    }
}

#[test]
fn ways_that_lead_nowhere_are_warned_of() {
    let folder = Folder::new("loose");
    folder.write("in.pcap", pcap(&frames(10)));
    let wiring = |ways: &str| {
        format!(
            r#"{PORTS}wiring {{ receive = {{ ["in"] = "dns" }}, stages = {{
            dns = {{ kind = "match", filter = "udp port 53", ways = {{ {ways} }} }} }} }}"#
        )
    };
    let warning = "weir.lua:6: wiring: way other of stage wiring.dns leads nowhere: its packets are dropped as other; \
                   lead it somewhere, or to \"drop\" if that is meant";
    let file = folder.write("weir.lua", wiring(r#"out = "port out""#));
    let said = weir(&["check", file.to_str().unwrap()]);
    assert!(said.status.success());
    assert!(text(&said.stdout).contains(warning), "{}", text(&said.stdout));
    let said = weir(&["check", "--json", file.to_str().unwrap()]);
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!((&said["ok"], said["warnings"].as_array().unwrap().len()), (&json!(true), 1));
    let mut running = Running::start(&folder, &wiring(r#"out = "port out""#), &["--until-drained", "--json"]);
    let (printed, _) = running.rest();
    assert!(running.log().contains("way other of stage wiring.dns leads nowhere"), "{}", running.log());
    let stats: Value = serde_json::from_str(&printed).unwrap();
    check_account(&stats);
    assert_eq!((&stats["drops"][0]["reason"], &stats["drops"][0]["packets"]), (&json!("other"), &json!(10)));

    // What is said to be meant is not warned of.
    let file = folder.write("weir.lua", wiring(r#"out = "port out", other = "drop""#));
    assert!(!text(&weir(&["check", file.to_str().unwrap()]).stdout).contains("warning"));
}

#[test]
fn a_changed_script_is_taken_over() {
    let folder = Folder::new("script");
    folder.write("in.pcap", pcap(&frames(100)));
    folder.write("stage.lua", "function run(batch) local x = nil + 1 end");
    let script = r#"
        port { name = "in", device = "mem:replay=in.pcap,rate=20 kpps" }
        port { name = "out", device = "mem:null" }
        wiring { receive = { ["in"] = "script" }, stages = {
            script = { kind = "lua", file = "stage.lua", ways = { out = "port out" } } } }"#;
    let refused = weir(&["run", folder.write("refused.lua", script).to_str().unwrap()]);
    assert!(text(&refused.stderr).contains("--allow-lua-stages"), "{}", text(&refused.stderr));

    let running = Running::start(&folder, script, &["--json", "--allow-lua-stages"]);
    let disabled = |table: &Value| table["rows"][0]["troubles"].as_str().is_some_and(|said| said.contains("disabled"));
    let troubles = running.wait_for(&["show", "wiring"], disabled);
    assert!(troubles.to_string().contains("stage.lua:1"), "{troubles}");
    folder.write("stage.lua", "function run(batch) end");
    running.say(&["reload"]);
    let sent = |stats: &Value| stats["ports"]["out"]["tx_packets"].as_u64() > Some(100);
    check_account(&running.wait_for(&["show", "stats"], sent));
    let (printed, status) = running.stop_by("TERM");
    assert_eq!(status, Some(0));
    check_account(&serde_json::from_str(&printed).unwrap());
}
