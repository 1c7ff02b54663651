//! Right documents: what is read, what equal means, what a change comes to, and what the manual says.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use std::net::Ipv4Addr;

use common::{Idle, PortConfig, RouterConfig, Target, catalogue, checked, document};
use proptest::prelude::*;
use serde_json::json;
use weir_config::{Change, Context, Key, Path, Place, Plan, Rate, Setting, Table, Value, What};

fn router(router: serde_json::Value) -> weir_config::Checked {
    checked(&[
        ("port", json!({"name": "wan", "device": "null", "address": "192.0.2.1/24"})),
        ("port", json!({"name": "lan", "device": "null", "address": ["10.0.0.1/24", "2001:db8::1/64"]})),
        ("router", router),
    ])
}

#[test]
fn a_right_document_is_read() {
    let checked = router(json!({
        "ports": ["wan", "lan"],
        "routes": {"0/0": "192.0.2.254", "10.1/16": {"via": ["10.0.0.2", "10.0.0.3"], "metric": 5}},
        "rate": "2.5 Gbit/s",
        "idle": "sleep",
        "costs": [7, 8],
    }));
    let element = checked.get("router", "router").unwrap();
    assert_eq!(element.place(), &Place::line("router.lua", 3));
    let config: RouterConfig = element.read().unwrap();
    assert_eq!(config.ports.iter().map(|port| port.as_str()).collect::<Vec<_>>(), ["wan", "lan"]);
    assert_eq!(config.rate, Some(Rate::new(2_500_000_000)));
    assert_eq!((config.mtu, config.idle, config.mac), (1500, Idle::Sleep, None));
    assert_eq!(config.costs.into_iter().collect::<Vec<_>>(), [(1, 7), (2, 8)]);
    assert_eq!(config.limits.icmp.packets_per_second(), 1_000);
    let default = config.routes.get(&"0.0.0.0/0".parse().unwrap()).unwrap();
    assert_eq!(default, &Target::Via(weir_config::OneOrMany(vec![Ipv4Addr::new(192, 0, 2, 254)])));
    let Some(Target::Detail(detail)) = config.routes.get(&"10.1.0.0/16".parse().unwrap()) else { panic!() };
    assert_eq!((detail.via.len(), detail.metric), (2, 5));

    let ports: Vec<PortConfig> = checked.of_kind("port").map(|port| port.read().unwrap()).collect();
    assert_eq!(ports.iter().map(|port| port.address.len()).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(checked.get("port", "lan").unwrap().path().field("device").to_string(), r#"port["lan"].device"#);
    assert!(checked.get("engine", "engine").is_some(), "the engine's defaults hold where it is not declared");
    element.read::<PortConfig>().unwrap_err();
    assert_eq!((element.read_key::<u32>("mtu"), element.read_key::<Idle>("idle")), (Some(1500), Some(Idle::Sleep)));
    assert_eq!((element.read_key::<Idle>("ports"), element.read_key::<u32>("nothing")), (None, None));
}

#[test]
fn what_means_the_same_is_equal() {
    let one = router(json!({"ports": ["wan"], "routes": {"10/8": "192.0.2.9"}, "rate": "10 Mbit/s", "mtu": 1500}));
    let two = router(json!({"ports": ["wan"], "routes": {"10.0.0.0/8": ["192.0.2.9"]}, "rate": "10000 kbit/s",
        "name": "router", "limits": {"ageing": "0.5 min"}}));
    let plan = Plan::between(&catalogue(), &one, &two);
    assert!(plan.is_empty(), "{plan}");
    assert_eq!(plan.strongest(), None);
}

#[test]
fn a_plan_names_each_change_and_what_it_takes() {
    let old = router(json!({"ports": ["wan"], "routes": {"10/8": "192.0.2.9", "11/8": {"via": "192.0.2.9"}}}));
    let new = checked(&[
        ("port", json!({"name": "wan", "device": "tap:w", "address": "192.0.2.1/24"})),
        ("port", json!({"name": "dmz", "device": "null"})),
        (
            "router",
            json!({"ports": ["wan", "dmz"], "mtu": 9000, "rate": "1 Gbit/s",
                "routes": {"11/8": {"via": "192.0.2.8", "metric": 1}, "12/8": "192.0.2.9"}}),
        ),
    ]);
    let plan = Plan::between(&catalogue(), &old, &new);
    assert_eq!(
        plan.to_string(),
        r#"- port["lan"]: removed
~ port["wan"]: changed (restart-port)
    port["wan"].device: "null" -> "tap:w" (restart-port)
+ port["dmz"]: added
~ router: changed (rebuild)
    router.ports: { "wan" } -> { "wan", "dmz" } (rebuild)
    router.routes["10.0.0.0/8"]: { "192.0.2.9" } -> absent (live)
    router.routes["11.0.0.0/8"].via[1]: "192.0.2.9" -> "192.0.2.8" (live)
    router.routes["11.0.0.0/8"].metric: 0 -> 1 (live)
    router.routes["12.0.0.0/8"]: absent -> { "192.0.2.9" } (live)
    router.mtu: 1500 -> 9000 (live)
    router.rate: absent -> "1 Gbit/s" (live)
= engine: unchanged
"#
    );
    assert_eq!(plan.strongest(), Some(Change::RestartPort));
    let json = serde_json::to_value(&plan).unwrap();
    assert_eq!(json["actions"][1]["action"], "changed");
    assert_eq!(json["actions"][1]["strongest"], "restart-port");
}

#[test]
fn a_long_plan_is_cut() {
    let routes = |via: &str| (0..30).map(|i| (format!("10.{i}/16"), json!(via))).collect::<serde_json::Map<_, _>>();
    let old = router(json!({"ports": ["wan"], "routes": routes("192.0.2.8")}));
    let new = router(json!({"ports": ["wan"], "routes": routes("192.0.2.9")}));
    let plan = Plan::between(&catalogue(), &old, &new);
    let What::Changed { keys, strongest } = &plan.actions[2].what else { panic!("{plan}") };
    assert_eq!((keys.len(), *strongest), (30, Change::Live));
    assert!(plan.to_string().contains("    and 10 more\n"), "{plan}");
}

#[test]
fn the_manual_tells_every_key() {
    let catalogue = catalogue();
    let engine = catalogue.kind("engine").unwrap();
    assert_eq!(
        engine.manual(),
        "## `engine`\n\nThe program as a whole.\n\n\
         | Key | Holds | If absent | A change takes | Meaning |\n|---|---|---|---|---|\n\
         | `buffers` | an integer from 64 to 1000000 | default 4096 | restart-process | How many buffers there are. |\n"
    );
    let router = catalogue.kind("router").unwrap();
    let (manual, help) = (router.manual(), router.help());
    for part in ["### `router.limits`", "### `router.routes[key]`", "\"sleep\": It sleeps.", "must be given"] {
        assert!(manual.contains(part), "{part}\n{manual}");
    }
    for key in router.schema().names() {
        assert!(manual.contains(&format!("| `{key}` |")), "{key}");
        assert!(help.contains(&format!("\nrouter.{key}\n")), "{key}");
    }
    assert!(help.contains("router.limits.ageing\n    How long a neighbour is believed.\n"), "{help}");
}

#[test]
fn what_is_written_is_read_again() {
    let config: RouterConfig = RouterConfig::read(&RouterConfig::schema().example_checked()).unwrap();
    let written = config.write();
    let checked = RouterConfig::schema().check_example(&written).unwrap();
    assert_eq!(RouterConfig::read(&checked).unwrap(), config);
}

/// The example in canonical form.
trait ExampleChecked {
    fn example_checked(&self) -> Value;
}

impl ExampleChecked for weir_config::Schema {
    fn example_checked(&self) -> Value {
        self.check_example(&self.example()).unwrap()
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Nil),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Integer),
        (-1e9..1e9).prop_map(Value::Number),
        "[a-z0-9./: ]{0,12}".prop_map(Value::Text),
        Just(Value::from("example")),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let key = prop_oneof![
            any::<i8>().prop_map(|index| Key::Index(index.into())),
            "[a-z]{1,4}".prop_map(Key::Name),
            proptest::sample::select(RouterConfig::schema().names().collect::<Vec<_>>()).prop_map(Key::from),
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::List),
            proptest::collection::btree_map(key, inner, 0..4).prop_map(|entries| Value::Table(Table(entries))),
        ]
    })
}

proptest! {
    /// What passes the check can be read; what is read and written passes again and is the same.
    #[test]
    fn any_value_is_answered(value in any_value()) {
        let schema = RouterConfig::schema();
        let place = Place::line("any.lua", 1);
        let context = Context::new().name("port", "example");
        match schema.check(&value, &place, &Path::root("router"), &context) {
            Ok(checked) => {
                let config = RouterConfig::read(&checked).unwrap();
                prop_assert_eq!(schema.check_example(&config.write()).unwrap(), checked);
            }
            Err(errors) => {
                prop_assert!(!errors.is_empty());
                for error in errors {
                    prop_assert!(error.to_string().starts_with("any.lua:1: router"));
                }
            }
        }
    }

    /// The same from a right start: any one key of the example replaced.
    #[test]
    fn any_key_is_answered(
        name in proptest::sample::select(RouterConfig::schema().names().collect::<Vec<_>>()),
        value in any_value(),
    ) {
        let schema = RouterConfig::schema();
        let Value::Table(mut table) = schema.example() else { panic!() };
        table.set(name, value);
        if let Ok(checked) = schema.check_example(&Value::Table(table)) {
            let config = RouterConfig::read(&checked).unwrap();
            prop_assert_eq!(schema.check_example(&config.write()).unwrap(), checked);
        }
    }
}

#[test]
fn a_checked_document_prints_as_a_script() {
    let checked = checked(&[("port", json!({"name": "wan", "device": "null", "address": "192.0.2.1/24"}))]);
    assert_eq!(
        checked.to_string(),
        "port {\n  address = { \"192.0.2.1/24\" },\n  device = \"null\",\n  name = \"wan\",\n}\n\
         engine {\n  buffers = 4096,\n}\n"
    );
}

#[test]
fn a_document_survives_json() {
    let document = document(&[("port", json!({"name": "wan", "device": "null"}))]);
    let text = serde_json::to_string(&document).unwrap();
    assert_eq!(serde_json::from_str::<weir_config::Document>(&text).unwrap(), document);
}
