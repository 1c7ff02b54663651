//! Reloads that there is no room for at once: what is not in force is told, and comes into force by itself.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use common::*;
use serde_json::json;
use weir_config::Folder;
use weir_router::Router;
use weir_stage::{Env, rehearsal};

fn gauge(rig: &Rig, name: &str) -> f64 {
    rig.instance.gauges().iter().find(|gauge| gauge.0 == name).unwrap().2
}

/// Routes whose next hops alternate: for a table that is run-length coded each is a run of its own.
fn striped(routes: u32) -> String {
    let line = |n: u32| format!("{}.{}.{}.0/24,10.0.1.{}\n", 20 + n / 65_536, n / 256 % 256, n % 256, 8 + n % 2);
    format!("prefix,via\n{}", (0..routes).map(line).collect::<String>())
}

#[test]
fn routes_that_the_packed_table_has_no_room_for_are_told_and_tried_again() {
    const ROUTES: u32 = 1_500_000;
    let mut rig = Rig::new(
        TWO,
        json!({ "table": "packed", "limits": { "routes": 2_000_000 }, "neighbor_timers": { "own_probes": 0 } }),
    );
    rig.settle();
    let (few, prefixes) = (gauge(&rig, "routes"), gauge(&rig, "fib_prefixes"));
    let folder = std::env::temp_dir().join(format!("weir-room-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("routes.csv"), striped(ROUTES)).unwrap();
    let opened = Folder::open(&folder).unwrap();
    let env = Env { ports: &rig.infos, interfaces: &[], folder: Some(&opened), running: Some(&*rig.instance) };
    let config =
        element(&["left", "right"], &json!({ "routes_csv": "routes.csv", "limits": { "routes": 2_000_000 } })).unwrap();
    // A reader that does not pass, so that what each route sets free is not free before the end.
    let reader = rig.domain.reader().unwrap();
    rehearsal::change(&Router, &config, &env).unwrap()(rig.engine.now());
    let lacks = rig.instance.lacks();
    let [told] = &lacks[..] else { panic!("{lacks:?}") };
    let missing: u32 = told.split(' ').next().unwrap().parse().unwrap();
    assert!(missing > 0 && gauge(&rig, "routes") == few + f64::from(ROUTES - missing), "{told}");
    assert!(told.contains(" routes had no room and are not in force: ") && told.contains(" more; "), "{told}");
    assert!(told.contains("until readers have passed") && told.contains("tried again"), "{told}");
    assert!(rig.instance.notices(rig.engine.now()).is_empty());
    rig.run(SECOND);
    assert_eq!(rig.instance.lacks().len(), 1, "as long as it does not pass");
    drop(reader);
    rig.run(SECOND);
    assert_eq!(gauge(&rig, "routes"), few + f64::from(ROUTES));
    assert_eq!(gauge(&rig, "fib_prefixes"), prefixes + f64::from(ROUTES));
    assert_eq!(rig.instance.lacks(), Vec::<String>::new());
    let notices = rig.instance.notices(rig.engine.now());
    assert_eq!(
        notices.iter().map(|notice| notice.message).collect::<Vec<_>>(),
        ["all routes that had no room are in force now"]
    );
    assert!(rig.instance.notices(rig.engine.now()).is_empty(), "told once");
    assert_eq!(gauge(&rig, "longest_hold"), 256.0);
    std::fs::remove_dir_all(&folder).unwrap();
    rig.finish();
}

#[test]
fn what_a_command_took_the_room_of_comes_when_it_is_taken_back() {
    let config = |gateways: std::ops::Range<u8>| {
        let routes: serde_json::Map<_, _> =
            gateways.map(|n| (format!("198.51.{n}.0/24"), json!(format!("10.0.1.{n}")))).collect();
        // Two next hops are those of the connected networks.
        json!({ "routes": routes, "limits": { "next_hops": 18 }, "neighbor_timers": { "own_probes": 0 } })
    };
    let mut rig = Rig::new(TWO, config(100..108));
    rig.settle();
    for n in 50..58 {
        rig.request("route add", json!({ "prefix": format!("203.0.{n}.0/24"), "via": format!("10.0.1.{n}") })).unwrap();
    }
    // As many gateways as before, all of them others: the places of those that go are free only when readers have passed.
    rig.reload(&config(110..118));
    let lacks = rig.instance.lacks();
    assert!(lacks.len() == 1 && lacks[0].starts_with("8 routes had no room"), "{lacks:?}");
    rig.run(SECOND);
    assert_eq!(rig.instance.lacks(), Vec::<String>::new());
    // Four more than there is room for.
    rig.reload(&config(110..122));
    rig.run(SECOND);
    let lacks = rig.instance.lacks();
    assert!(
        lacks.len() == 1 && lacks[0].starts_with("4 routes had no room and are not in force: 198.51."),
        "{lacks:?}"
    );
    assert!(lacks[0].contains("delete routes or configure more"), "{lacks:?}");
    for n in 50..54 {
        rig.request("route del", json!({ "prefix": format!("203.0.{n}.0/24") })).unwrap();
    }
    rig.run(SECOND);
    assert_eq!(rig.instance.lacks(), Vec::<String>::new());
    let active = rig.show("routes").iter().filter(|row| row["source"] == "config" && row["active"] == true).count();
    assert_eq!(active, 12);
    // What is no longer wanted is no longer tried.
    rig.request("route add", json!({ "prefix": "203.0.60.0/24", "via": "10.0.1.60" })).unwrap_err();
    rig.reload(&config(110..126));
    rig.reload(&config(110..122));
    assert_eq!(rig.instance.lacks(), Vec::<String>::new());
    rig.finish();
}

#[test]
fn routes_of_commands_that_a_smaller_table_has_no_room_for_are_kept() {
    let config = |limit: u32| json!({ "limits": { "routes": limit }, "neighbor_timers": { "own_probes": 0 } });
    let mut rig = Rig::new(TWO, config(64));
    for n in 0..40 {
        rig.request("route add", json!({ "prefix": format!("203.0.{n}.0/24"), "via": "10.0.1.9" })).unwrap();
    }
    rig.rebuild(&config(32));
    let lacks = rig.instance.lacks();
    assert!(lacks.len() == 1 && lacks[0].starts_with("10 routes had no room"), "{lacks:?}");
    // Which they are is known to nobody but the table, so all are deleted but the last.
    for n in 0..39 {
        rig.request("route del", json!({ "prefix": format!("203.0.{n}.0/24") })).unwrap();
    }
    rig.run(SECOND);
    assert_eq!(rig.instance.lacks(), Vec::<String>::new());
    assert_eq!(rig.show("routes").iter().filter(|row| row["source"] == "cli").count(), 1);
    rig.finish();
}
