//! What is wrong with a configuration is told, all at once.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use common::*;
use serde_json::json;

/// Each of these words is in one of the messages, and there are as many messages.
fn told(config: serde_json::Value, words: &[&str]) {
    let messages = messages(&config);
    assert_eq!(messages.len(), words.len(), "{messages:?}");
    for word in words {
        assert!(messages.iter().any(|message| message.contains(word)), "{word}: {messages:?}");
    }
}

#[test]
fn what_is_wrong_is_told_with_a_remedy() {
    told(json!({ "ports": ["a", "b"] }), &[]);
    told(json!({ "ports": ["a", "b", "a"] }), &["names the port \"a\" twice: as port 1 and as port 3"]);
    told(json!({ "ports": ["a"], "workers": [1, 2] }), &[]);
    told(json!({ "ports": ["a", "x"] }), &["x"]);
    told(json!({ "ports": [] }), &["ports"]);
    let wrong = json!({ "ports": ["a"], "controllers": ["ssl:192.0.2.9"], "listen": "6654", "datapath_id": "7", "fail": "open",
                        "tables": 255 });
    told(
        wrong,
        &["tcp: or tls: and its address", "a place to listen at", "16 hexadecimal digits", "standalone", "254"],
    );
}

#[test]
fn tls_needs_something_to_prove_oneself_by() {
    let missing = "switch.tls: is missing, and tls:192.0.2.9:6653 needs it";
    told(json!({ "ports": ["a"], "controllers": ["tls:192.0.2.9"] }), &[missing]);
    told(json!({ "ports": ["a"], "listen": ["127.0.0.1:6654", "tls:192.0.2.9"] }), &[missing]);
    let tls = json!({ "certificate": "a.pem", "private_key": "a.key" });
    told(json!({ "ports": ["a"], "tls": tls }), &["ca"]);
}

#[test]
fn a_switch_shows_what_it_is() {
    let rig = switch(json!({ "ports": ["b", "a"], "datapath_id": "00000000000000ff", "tables": 3 }));
    let mut controller = Controller::new(&*rig.instance);
    controller.send(weir_openflow::Body::FeaturesRequest);
    let heard = controller.heard();
    let [weir_openflow::Message { body: weir_openflow::Body::FeaturesReply(features), .. }] = &heard[..] else {
        panic!("{heard:?}")
    };
    assert_eq!((features.datapath, features.tables), (0xff, 3));
    let switch = rig.show("switches", None).remove(0);
    assert_eq!((&switch["datapath"], &switch["mode"]), (&json!("00000000000000ff"), &json!("controlled")));
    controller.leave();
    assert_eq!(rig.show("switches", None)[0]["mode"], "secure");
    rig.finish();
}
