//! What is wrong with a configuration, and what is said about it: all at once, each with its place.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use common::errors;
use serde_json::{Value, json};

/// The errors of one stream on port `a`.
fn of(stream: Value) -> Vec<String> {
    let mut stream = stream;
    stream["port"] = "a".into();
    errors(&json!({ "streams": [stream] }))
}

fn only(stream: Value) -> String {
    let mut found = of(stream);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn rates_that_cannot_be_reached_or_mean_nothing() {
    assert!(only(json!({ "rate": "2 Gpps" })).contains("more than a packet per nanosecond; expected"));
    assert!(only(json!({ "rate": "0 pps" })).contains("no rate at which anything would be sent"));
    assert!(only(json!({ "rate": "-1 Mpps" })).contains("is not a packet rate"));
    assert!(only(json!({ "rate": "5" })).contains("has no unit"));
    assert!(only(json!({ "rate": "101 %" })).contains("not a percentage from 0 to 100"));
    assert!(only(json!({ "rate": "2 Tbit/s" })).contains("more than 1 Tbit/s"));
    let percent = only(json!({ "rate": "50 %" }));
    assert!(percent.contains("streams[1].rate: 50 % of a link whose speed is not known"), "{percent}");
    assert!(percent.ends_with("add link_speed = \"10 Gbit/s\", or write a rate of packets or bits"), "{percent}");
    assert!(only(json!({ "gaps": "poisson" })).contains("no meaning without a rate"));
    assert_eq!(errors(&json!({ "link_speed": "1 Gbit/s", "streams": [{ "port": "a", "rate": "50 %" }] })), [""; 0]);
}

#[test]
fn times_and_counts_below_zero() {
    assert!(only(json!({ "duration": "-1 s" })).contains("duration: \"-1 s\" is not a time"));
    assert!(only(json!({ "duration": "0 s" })).contains("out of range"));
    assert!(only(json!({ "after": "-5 ms" })).contains("is not a time"));
    assert!(only(json!({ "count": -1 })).contains("out of range"));
    assert!(only(json!({ "count": 0 })).contains("out of range"));
}

#[test]
fn streams_that_do_not_fit_the_packet() {
    let deep = json!([
        { "ethernet": {} }, { "ipv6": {} }, { "udp": {} }, { "vxlan": {} }, { "ethernet": {} }, { "ipv6": {} }, { "udp": {} },
    ]);
    let short = only(json!({ "layers": deep, "size": "64" }));
    assert!(short.contains("size: 64 is too short: the layers take 132 bytes, and the check sequence 4"), "{short}");
    assert!(short.ends_with("write at least 136, or leave layers out"), "{short}");
    let no_room = only(json!({ "layers": deep, "size": "140", "signature": true }));
    assert!(no_room.contains("signature: does not fit: behind the layers there are 4 bytes"), "{no_room}");
    assert!(no_room.ends_with("write size = \"146\" or more"), "{no_room}");
    let long = only(json!({ "size": "1519" }));
    assert!(long.contains("has frames of 1519 bytes; port \"a\" carries 1518 at most"), "{long}");
    assert_eq!(
        of(json!({ "size": "1522", "layers": [{ "ethernet": {} }, { "vlan": {} }] })),
        [""; 0],
        "tags do not count"
    );
}

#[test]
fn layers_that_make_no_packet() {
    assert!(
        only(json!({ "layers": [{ "udp": {} }] }))
            .contains("layers[1]: puts udp behind nothing; it may stand behind ipv4, ipv6")
    );
    assert!(only(json!({ "layers": [{ "ethernet": {} }, { "vxlan": {} }] })).contains("puts vxlan behind ethernet"));
    assert!(
        only(json!({ "layers": [{ "ethernet": {}, "ipv4": {} }] })).contains("has ethernet and ipv4 of the layers")
    );
    assert!(
        only(json!({ "layers": [{ "ethernet": {} }, { "raw": { "bytes": "abc" } }] }))
            .contains("pairs of hexadecimal digits")
    );
    let varied = json!([{ "ethernet": { "ethertype": "random" } }, { "ipv4": {} }]);
    assert!(only(json!({ "layers": varied })).contains("varies ethernet.ethertype, which says what the next layer is"));
}

#[test]
fn fields_that_hold_something_else() {
    let ttl = |value: Value| only(json!({ "layers": [{ "ethernet": {} }, { "ipv4": { "ttl": value } }] }));
    assert!(ttl(json!(256)).contains("ipv4.ttl"));
    assert!(ttl(json!("9-3")).contains("a range that ends (3) before it begins (9)"));
    assert!(ttl(json!("often")).contains("is not a number"));
    let unknown = only(json!({ "layers": [{ "ethernet": {} }, { "ipv4": { "tll": 1 } }] }));
    assert!(unknown.contains("did you mean") && unknown.contains("ttl"), "{unknown}");
    let column = only(json!({ "layers": [{ "ethernet": {} }, { "ipv4": { "ttl": "column" } }] }));
    assert!(column.contains("ipv4.ttl is to be a column, and there is no table"), "{column}");
}

#[test]
fn next_hops_and_files() {
    let via = only(json!({ "via": "2001:db8::1" }));
    assert!(via.contains("via: 2001:db8::1 cannot be asked for: port \"a\" has no address of its kind"), "{via}");
    assert!(errors(&json!({})).remove(0).contains("nothing to send and nowhere to receive"));
    let ports = errors(&json!({ "streams": [{ "port": "b" }] }));
    assert!(ports[0].contains("\"b\" names no port"), "{ports:?}");
    let all = of(json!({ "rate": "50 %", "size": "1519", "timing": "recorded" }));
    assert_eq!(all.len(), 3, "all are told at once: {all:?}");
}
