//! A million routes, while the slow path has its turn: what is done at once is counted.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use common::*;
use serde_json::{Value, json};
use weir_config::Folder;
use weir_router::Router;
use weir_stage::{Env, rehearsal};

const ROUTES: u32 = 1_000_000;

/// The most changes of routes that the slow path has to wait for.
const MOST: f64 = 256.0;

fn prefix(n: u32) -> String {
    format!("{}.{}.{}.0/24", 11 + n / 65_536, n / 256 % 256, n % 256)
}

fn longest(rig: &Rig) -> f64 {
    rig.instance.gauges().iter().find(|gauge| gauge.0 == "longest_hold").unwrap().2
}

fn routes(rig: &Rig) -> f64 {
    rig.instance.gauges().iter().find(|gauge| gauge.0 == "routes").unwrap().2
}

/// Asks for a change of all routes, as many at once as the command line does.
fn change(rig: &Rig, verb: &str, entry: impl Fn(u32) -> Value) {
    for first in (0..ROUTES).step_by(8192) {
        let list: Vec<Value> = (first..ROUTES.min(first + 8192)).map(&entry).collect();
        rig.request(verb, list.into()).unwrap();
    }
}

/// Reloads with the routes of a file.
fn reload(rig: &Rig, folder: &std::path::Path, step: u32) {
    let lines: String =
        (0..ROUTES).step_by(step as usize).map(|n| format!("{},10.0.1.{}\n", prefix(n), 8 + step)).collect();
    std::fs::write(folder.join("routes.csv"), format!("prefix,via\n{lines}")).unwrap();
    let folder = Folder::open(folder).unwrap();
    let env = Env { ports: &rig.infos, interfaces: &[], folder: Some(&folder), running: Some(&*rig.instance) };
    let config = element(&["left", "right"], &json!({ "routes_csv": "routes.csv", "table": "dir24" })).unwrap();
    rehearsal::change(&Router, &config, &env).unwrap()(rig.engine.now());
}

#[test]
fn a_million_routes_come_and_go_by_the_piece() {
    let mut rig = Rig::new(TWO, json!({ "table": "dir24" }));
    let few = routes(&rig);
    change(&rig, "route add", |n| json!({ "prefix": prefix(n), "via": "10.0.1.7" }));
    assert_eq!((routes(&rig) - few, longest(&rig)), (f64::from(ROUTES), MOST));
    // A list that is refused at its end is taken back by the piece, too.
    let mut list: Vec<Value> = (0..8191).map(|n| json!({ "prefix": prefix(n), "via": "10.0.1.8" })).collect();
    list.push(json!({ "prefix": "11.0.0.0/8", "via": "203.0.113.1" }));
    assert!(rig.request("route add", list.into()).unwrap_err().starts_with("entry 8192: "));
    // An instance that takes over what was added, while the old one runs.
    rig.rebuild(&json!({ "table": "dir24" }));
    assert_eq!((routes(&rig) - few, longest(&rig)), (f64::from(ROUTES), MOST));
    change(&rig, "route del", |n| json!({ "prefix": prefix(n) }));
    assert_eq!((routes(&rig), longest(&rig)), (few, MOST));
    let folder = std::env::temp_dir().join(format!("weir-million-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (step, left) in [(1, ROUTES), (2, ROUTES / 2), (1, ROUTES)] {
        reload(&rig, &folder, step);
        assert_eq!((routes(&rig) - few, longest(&rig)), (f64::from(left), MOST));
    }
    std::fs::remove_dir_all(&folder).unwrap();
    rig.settle();
    rig.finish();
}
