//! What subscribers send and get through one scheduler: rates are those of both directions together.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use crate::common;

use common::*;
use serde_json::{Value, json};
use weir_wire::ethernet;

const FAR: &str = "203.0.113.5";
/// The customers' addresses, by their CVLANs from 1.
const CUSTOMERS: [&str; 2] = ["10.0.0.7", "10.0.0.8"];
/// Bits that a packet of these tests counts: 100 bytes, two tags, an Ethernet header, and what is on the wire besides.
const BITS: u64 = 8 * 146;

/// Two subscribers who may send and get so many kbit/s each, together.
fn config(is_tunnel: bool, rates: [u64; 2], (layout, workers): (&str, usize)) -> Value {
    let mut config = if is_tunnel { tunnels() } else { plain() };
    config["limits"] = json!({ "subscribers": 16 });
    config["gateways"]["west"]["mac"] = json!(ROUTER_MAC.to_string());
    (config["layout"], config["workers"]) = (json!(layout), json!((0..workers).collect::<Vec<usize>>()));
    for (n, cvlan) in [1, 2].into_iter().enumerate() {
        config["subscribers"][n]["mac"] = json!(host(cvlan).to_string());
        config["subscribers"][n]["profile"] = json!(format!("p{n}"));
    }
    // Within a queue the directions are flows as others are: fair ones do not push each other out.
    let classes = json!([{}, {}, {}, { "flows": "fair" }]);
    let profile = |rate: u64| json!({ "tb_rate": format!("{rate} kbit/s"), "tb_size": "2 KiB", "classes": classes });
    let profiles = json!({ "p0": profile(rates[0]), "p1": profile(rates[1]) });
    config["qos"] = json!({ "both": { "rate": "10 Gbit/s", "users": 16, "buffers": 4096, "profiles": profiles } });
    config
}

fn up(rig: &Rig, cvlan: u16) -> Vec<u8> {
    let packet = udp(CUSTOMERS[usize::from(cvlan) - 1], FAR, 100);
    tagged(rig.mac(CPE), host(cvlan), cvlan, ethernet::IPV4, &packet)
}

fn down(rig: &Rig, is_tunnel: bool, cvlan: u16) -> Vec<u8> {
    let packet = udp(FAR, CUSTOMERS[usize::from(cvlan) - 1], 100);
    if is_tunnel { rig.tunneled(6 + u32::from(cvlan), &packet) } else { rig.untunneled(&packet) }
}

/// For a second, so many packets in each millisecond from a customer and to it; how many of each arrive.
fn second(rig: &mut Rig, is_tunnel: bool, cvlan: u16, [sends, gets]: [usize; 2]) -> [u64; 2] {
    let kind = if is_tunnel { ethernet::MPLS } else { ethernet::IPV4 }.to_be_bytes();
    let mut arrived = [0; 2];
    for _ in 0..1000 {
        (0..sends).for_each(|_| rig.send(CPE, up(rig, cvlan)));
        (0..gets).for_each(|_| rig.send(CORE, down(rig, is_tunnel, cvlan)));
        rig.settle();
        arrived[0] += rig.sent(CORE).iter().filter(|frame| frame[12..14] == kind).count() as u64;
        let tags = [0x88, 0xa8, 0, 100, 0x81, 0, 0, cvlan as u8, 8, 0];
        arrived[1] += rig.sent(CPE).iter().filter(|frame| frame[12..22] == tags).count() as u64;
    }
    arrived
}

/// Whether so many packets in a second are a rate in kbit/s, but for what was saved up or waits.
fn is_rate(packets: u64, rate: u64) -> bool {
    (rate * 97 / 100..=rate * 103 / 100 + 20).contains(&(packets * BITS / 1000))
}

#[test]
fn a_rate_is_for_both_directions_together() {
    for is_tunnel in [true, false] {
        for layout in [("run-to-completion", 1), ("distributor", 2), ("distributor", 4)] {
            let mut rig = rig(config(is_tunnel, [2000, 1000], layout));
            for (cvlan, address) in [(1, CUSTOMERS[0]), (2, CUSTOMERS[1])] {
                rig.arp_request(cvlan, address, "10.0.0.1");
            }
            rig.settle();
            // Twice as much as may be, half of it each way: both have a part of what there is.
            let [sent, got] = second(&mut rig, is_tunnel, 1, [2, 2]);
            assert!(is_rate(sent + got, 2000) && sent.min(got) > (sent + got) / 4, "{sent} {got}");
            // Who sends alone has all of it, and so who gets.
            let [sent, got] = second(&mut rig, is_tunnel, 1, [4, 0]);
            assert!(is_rate(sent + got, 2000) && got < 80, "{sent} {got}");
            let [sent, got] = second(&mut rig, is_tunnel, 1, [0, 4]);
            assert!(is_rate(sent + got, 2000) && sent < 80, "{sent} {got}");
            // The other one has a rate of its own.
            let [sent, got] = second(&mut rig, is_tunnel, 2, [2, 2]);
            assert!(is_rate(sent + got, 1000), "{sent} {got}");
            let one = |what: &str| rig.instance.show(what, Some("100.2"), rig.engine.now()).map(all_rows).unwrap();
            let row = &one("subscribers")[0];
            assert_eq!((&row["up_held_by"], &row["down_held_by"]), (&json!("rate"), &json!("rate")));
            // Of what came by in a second that was whole.
            for _ in 0..2 {
                second(&mut rig, is_tunnel, 2, [1, 1]);
            }
            let one = |what: &str| rig.instance.show(what, Some("100.2"), rig.engine.now()).map(all_rows).unwrap();
            let history = one("history");
            assert!(!history.is_empty() && history.iter().all(|row| row["direction"] == "both"), "{history:?}");
            rig.run(SECOND);
            rig.finish();
        }
    }
}

/// What customers send each other, with plain IP, is of both: it passes the scheduler twice, and no more.
#[test]
fn what_customers_send_each_other_is_of_both() {
    for layout in [("run-to-completion", 1), ("distributor", 2)] {
        let mut rig = rig(config(false, [2000, 500], layout));
        for (cvlan, address) in [(1, CUSTOMERS[0]), (2, CUSTOMERS[1])] {
            rig.arp_request(cvlan, address, "10.0.0.1");
        }
        rig.settle();
        rig.sent(CPE);
        let packet = udp(CUSTOMERS[0], CUSTOMERS[1], 100);
        let frame = tagged(rig.mac(CPE), host(1), 1, ethernet::IPV4, &packet);
        let mut arrived = 0;
        for _ in 0..1000 {
            rig.send(CPE, frame.clone());
            rig.settle();
            for got in rig.sent(CPE).into_iter().filter(|got| got[20..22] == [8, 0]) {
                assert_eq!(
                    (&got[12..20], got[30], &got[34..42]),
                    (&[0x88, 0xa8, 0, 100, 0x81, 0, 0, 2][..], 63, &packet[12..20])
                );
                arrived += 1;
            }
        }
        // As fast as the slower of both may get.
        assert!(is_rate(arrived, 500), "{arrived}");
        assert_eq!(rig.sent(CORE).iter().filter(|frame| frame[12..14] == [8, 0]).count(), 0);
        // The sender has as much left as it did not send.
        let [sent, _] = second(&mut rig, false, 1, [4, 0]);
        assert!(is_rate(sent, 2000), "{sent}");
        rig.run(SECOND);
        rig.finish();
    }
}

#[test]
fn a_reload_changes_the_rate_while_packets_wait() {
    let alone = ("run-to-completion", 1);
    let mut rig = rig(config(true, [2000, 1000], alone));
    rig.arp_request(1, CUSTOMERS[0], "10.0.0.1");
    second(&mut rig, true, 1, [2, 2]);
    rig.reload(&config(true, [500, 1000], alone));
    let [sent, got] = second(&mut rig, true, 1, [2, 2]);
    // What waited before is among it.
    assert!(is_rate(sent + got, 500), "{sent} {got}");
    rig.run(2 * SECOND);
    rig.finish();
}

#[test]
fn what_can_not_be_is_said() {
    let said = |config: &Value| {
        let wrong = build(TWO, config).err().unwrap();
        wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let mut config = self::config(true, [1000, 1000], ("run-to-completion", 1));
    config["qos"]["down"] = config["qos"]["both"].clone();
    assert_eq!(
        said(&config),
        "test.lua:1: bng.qos.both: is for what goes either way, and down is there, too; leave one of them out"
    );
    let config = self::config(true, [1000, 1000], ("pipeline", 3));
    assert_eq!(
        said(&config),
        "test.lua:1: bng.layout: what goes either way would have to come back to the first of 3 workers, which a pipeline does not allow; \
         choose layout = \"distributor\" (the others share the subscribers), one worker, or qos.up and qos.down"
    );
}
