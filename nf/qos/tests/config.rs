//! Configurations that are wrong: all of it at once.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use common::*;
use serde_json::json;
use weir_config::Folder;

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let told = messages(
        &config(json!({
            "to": "in",
            "workers": [0, 1],
            "others": "nobody",
            "classify": { "dscp": { "ef": "4" }, "usual": "0.1" },
            "police": { "user": { "cir": "1 Mbit/s", "cbs": "0 B" } },
            "users": [
                { "tags": "1.1-64", "profile": "user" },
                { "tags": "1.1", "profile": "user" },
                { "tags": "1.1", "profile": "user" },
                { "prefix": "10.0.0.1", "profile": "user" },
                { "tags": "2", "profile": "user", "subport": "north" },
            ],
            "scheduler": scheduler(json!({ "user": { "tb_rate": "1 Mbit/s", "weights": [0] } })),
        })),
        None,
    );
    let words = [
        "qos.to: \"in\" is where packets come from, too; name another port",
        "qos.workers: 2 workers that each take what their queues give them: packets of one user would come to several",
        "qos.classify: dscp.ef: there is no class 4; the classes are 0 to 3",
        "qos.classify: usual: class 0 has no queue 1",
        "qos.scheduler: profiles.user.weights",
        "qos.police: user:",
        "qos.others: there is no profile \"nobody\"",
        "qos.users[3]: user 1.1 is there twice; the other is number 2; leave one out",
        "qos.users[4]: users are known by tags here",
        "qos.users[5].subport: there is no subport \"north\"",
        "qos.scheduler: users is 64, which is too few",
    ];
    assert!(words.iter().all(|words| told.iter().any(|told| told.contains(words))), "{told:#?}");
    assert_eq!(told.len(), words.len(), "{told:#?}");
}

#[test]
fn several_queues_are_where_they_can_be() {
    let told = |class: usize, keys: serde_json::Value| {
        let mut classes = vec![json!({}); class];
        classes.push(keys);
        let profile = json!({ "tb_rate": "10 Mbit/s", "classes": classes });
        let keys = json!({ "classify": { "usual": format!("{class}.1") }, "scheduler": scheduler(json!({ "user": profile })) });
        messages(&config(keys), None)
    };
    for in_each in [json!({ "codel": {} }), json!({ "flows": "fair" }), json!({ "l4s": {} })] {
        let mut keys = in_each;
        keys["weights"] = json!([1, 2]);
        assert_eq!(told(1, keys), Vec::<String>::new());
    }
    for (class, keys, words) in [
        (
            1,
            json!({ "weights": [1] }),
            "class 1 has no queue 1; its queues are 0 to 0: name one of these, or give the class more `weights`",
        ),
        (1, json!({ "weights": [1, 0] }), "profiles.user.classes[2].weights: a weight is 1 to 255"),
        (
            3,
            json!({ "weights": [1, 2] }),
            "profiles.user.classes[4].weights: the lowest class has eight queues with the weights of the profile",
        ),
    ] {
        let told = told(class, keys.clone());
        assert!(told.len() == 1 && told[0].contains(words), "{keys}: {told:?}");
    }
}

#[test]
fn no_more_is_guaranteed_to_classes_than_there_is() {
    let told = |classes: serde_json::Value| {
        let profile = json!({ "tb_rate": "10 Mbit/s", "classes": classes });
        messages(&config(json!({ "scheduler": scheduler(json!({ "user": profile })) })), None)
    };
    let class = |rate: &str| json!({ "tc_guarantee": rate });
    assert_eq!(told(json!([class("6 Mbit/s"), {}, class("4 Mbit/s")])), Vec::<String>::new());
    let one = told(json!([class("6 Mbit/s"), {}, class("5 Mbit/s")]));
    let words = "profiles.user.tb_rate: 10 Mbit/s is less than what is guaranteed to its classes together, 11 Mbit/s: raise it, or lower their tc_guarantee";
    assert!(one.len() == 1 && one[0].contains(words), "{one:?}");
    let one = told(json!([{ "tc_rate": "1 Mbit/s", "tc_guarantee": "2 Mbit/s" }]));
    let words =
        "profiles.user.classes[1].tc_guarantee: 2 Mbit/s is more than the class may send, its tc_rate of 1 Mbit/s";
    assert!(one.len() == 1 && one[0].contains(words), "{one:?}");
}

#[test]
fn users_may_come_from_a_file() {
    let folder = tempfile();
    let write = |text: &str| std::fs::write(folder.join("users.csv"), text).unwrap();
    let told = || {
        let folder = Folder::open(&folder).unwrap();
        let keys = json!({
            "user_by": "source",
            "users": [{ "prefix": "10.0.0.0/30", "each": 32, "profile": "user" }],
            "users_csv": "users.csv",
            "scheduler": scheduler(json!({ "user": { "tb_rate": "1 Mbit/s" } })),
        });
        messages(&config(keys), Some(&folder))
    };
    write("user,profile\n10.0.0.1,user\n10.0.1.0/24;2001:db8::1,user\n");
    assert_eq!(told(), Vec::<String>::new());
    write(
        "user,profile,subport\n7.7,user,\n10.0.9.9,usr,\n10.0.0.9,user,north\n10.0.0.8,user,\n10.0.0.8,user,\nx,user,\n",
    );
    let told = told();
    let words = [
        "users.csv:2:1",
        "users.csv:3:10",
        "users.csv:4:15",
        "users.csv:6:1: user: user 10.0.0.8 is there twice; the other is line 5",
        "users.csv:7:1",
    ];
    assert!(words.iter().all(|words| told.iter().any(|told| told.contains(words))), "{told:#?}");
    assert_eq!(told.len(), words.len(), "{told:#?}");
    std::fs::remove_dir_all(&folder).unwrap();
}

fn tempfile() -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("weir-qos-users-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
