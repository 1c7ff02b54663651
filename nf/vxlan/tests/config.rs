//! What is wrong with configurations, and how it is told.

use serde_json::{Value, json};

use crate::common::{usual, wrong};

fn with(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut config = usual();
    change(&mut config);
    wrong(&config)
}

#[test]
fn the_usual_configuration_is_fine() {
    assert_eq!(wrong(&usual()), Vec::<String>::new());
}

#[test]
fn each_mistake_is_told_with_what_is_allowed() {
    let cases: [(&str, Value, &str); 8] = [
        ("red", json!({ "vni": 0, "source": "192.0.2.1", "remote": "192.0.2.9" }), "1 to 16777215"),
        ("red", json!({ "vni": 16_777_216, "source": "192.0.2.1", "remote": "192.0.2.9" }), "1 to 16777215"),
        ("red", json!({ "vni": 7, "source": "192.0.2.1", "remote": "2001:db8::7" }), "of another family"),
        (
            "red",
            json!({ "vni": 7, "source": "192.0.2.1", "remote": "239.1.1.1" }),
            "239.1.1.1 can be no end of a tunnel",
        ),
        ("red", json!({ "vni": 7, "source": "fe80::1", "remote": "fe80::2" }), "fe80::1 can be no end"),
        ("red", json!({ "vni": 7, "source": "192.0.2.1", "remote": "192.0.2.1" }), "is an own end"),
        ("red", json!({ "vni": 0x00ab_cdef, "source": "192.0.2.1", "remote": "198.51.100.7" }), "already"),
        ("wan", json!({ "vni": 7, "source": "192.0.2.1", "remote": "192.0.2.9" }), "\"wan\" is one of `ports`, too"),
    ];
    for (port, tunnel, expected) in cases {
        let told = with(|config| config["tunnels"][port] = tunnel.clone()).join("\n");
        assert!(told.contains(expected), "{tunnel}: {told:?} has no {expected:?}");
    }
}
