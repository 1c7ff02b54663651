//! What became of one subscriber's packets lately, in each direction, as `show history` says it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use serde_json::{Value, json};
use weir_wire::ethernet;

use crate::common;

use common::*;

const CUSTOMER: &str = "10.0.0.7";
const FAR: &str = "203.0.113.5";

/// A gateway at which each subscriber has 1 Mbit/s either way, and room for 40 packets.
fn config() -> Value {
    let class = json!({ "queue_size": 40 });
    let profile = json!({ "tb_rate": "1 Mbit/s", "tb_size": "200 B", "classes": [{}, {}, {}, class] });
    let scheduler = json!({ "rate": "1 Gbit/s", "users": 16, "buffers": 2048, "profiles": { "home": profile } });
    let mut config = plain();
    config["limits"] = json!({ "subscribers": 16 });
    config["subscribers"][0]["mac"] = json!(host(1).to_string());
    config["qos"] = json!({ "up": scheduler, "down": scheduler, "usual": "home" });
    config
}

fn ask(rig: &Rig, filter: Option<&str>) -> Result<Vec<Value>, String> {
    rig.instance.show("history", filter, rig.engine.now()).map(all_rows).map_err(|refused| refused.0)
}

/// A second in which so many frames go to the customer, and as many from it.
fn second(rig: &mut Rig, frames: u32) {
    let gateway = rig.mac(CPE);
    for _ in 0..frames {
        rig.send(CPE, tagged(gateway, host(1), 1, ethernet::IPV4, &udp(CUSTOMER, FAR, 100)));
        rig.send(CORE, rig.untunneled(&udp(FAR, CUSTOMER, 100)));
    }
    rig.run(SECOND);
}

#[test]
fn both_directions_are_told_from_the_first_question_on() {
    let mut rig = rig(config());
    rig.run(SECOND / 2);
    // It is watched from when its row was looked at.
    assert_eq!(all_rows(rig.instance.show("subscribers", Some(CUSTOMER), rig.engine.now()).unwrap()).len(), 1);
    assert_eq!(ask(&rig, Some(CUSTOMER)).unwrap(), Vec::<Value>::new(), "no second was whole");
    rig.run(SECOND / 2 + SECOND / 100);
    second(&mut rig, 30);
    second(&mut rig, 60);
    let rows = ask(&rig, Some(CUSTOMER)).unwrap();
    let tags: Vec<&Value> = rows.iter().map(|row| &row["port"]).collect();
    assert!(rows.len() == 4 && tags.iter().all(|port| **port == json!("cpe")), "{rows:?}");
    for (direction, rows) in ["up", "down"].into_iter().zip(rows.chunks(2)) {
        let column = |name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
        assert_eq!((column("direction"), column("ago")), (vec![json!(direction); 2], vec![json!(1), json!(2)]));
        let [lost, sent] = ["dropped", "packets"].map(|name| rows[0][name].as_u64().unwrap());
        assert!((15..=20).contains(&lost) && sent + lost == 60, "{direction}: {lost} of {}", sent + lost);
        assert_eq!((&rows[0]["drops"], &rows[1]["dropped"]), (&json!({ "queue-full": lost }), &json!(0)));
        assert_eq!(rows[1]["packets"], 30);
        // One goes at once; of the others, each waits longer than the one before it by a frame's time, of 122 bytes and what is on the wire, 1.168 ms.
        let [half, most] = ["p50_ms", "p99_ms"].map(|name| rows[1][name].as_f64().unwrap());
        assert!((14.0 * 1.12..15.0 * 1.17 * 1.13).contains(&half), "{direction}: {half}");
        assert!((28.0 * 1.12..29.0 * 1.17 * 1.13).contains(&most), "{direction}: {most}");
    }
    let user = rows[0]["user"].as_u64().unwrap();
    for same in [format!("user={user}"), "100.1".to_owned()] {
        assert_eq!(ask(&rig, Some(&same)).unwrap(), rows, "{same}");
    }
    rig.finish();
}

#[test]
fn who_asks_for_less_or_more_than_one_is_told_how() {
    let rig = rig(config());
    for filter in [None, Some("cpe"), Some("svlan=100"), Some("config"), Some("4000.4000"), Some("10.9.9.9"), Some("?")]
    {
        let told = ask(&rig, filter).unwrap_err();
        assert!(told.contains("write SVLAN.CVLAN"), "{filter:?}: {told}");
    }
    let mut unshaped = config();
    unshaped.as_object_mut().unwrap().remove("qos");
    assert!(ask(&common::rig(unshaped), Some(CUSTOMER)).unwrap_err().contains("`qos`"));
}
