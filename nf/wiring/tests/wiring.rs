//! Stages wired by hand: what is said when they are wired wrong, and what becomes of packets when they are wired right.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value as Json, json};
use weir_config::{Catalogue, ConfigError, Declaration, Document, Element, Key, Kind, Place, Schema, Table, Value};
use weir_mem::Domain;
use weir_packet::Batch;
use weir_stage::{
    AnyFunction, Argument, DescribeStage, Env, Graph, Ground, Instance, MakeStage, Notice, Out, Plain, PortConfig,
    PortFacts, PortInfo, RequestError, Saved, Settings, Show, ShowRows, Stage, StageKind, TakeBack, To, Verb,
    local_mac, rehearsal,
};
use weir_wiring::{Copy, Discard, Match, Wiring};

weir_stage::ways! {
    /// Ways out of [`Nothing`].
    enum Exit {
        /// Goes on.
        Out => way "out",
        /// Goes elsewhere.
        Up => way "up",
        /// Too old.
        Expired => drop "expired",
    }
}

struct Nothing;

impl Stage for Nothing {
    fn declare(&self) -> weir_stage::Declaration {
        weir_stage::Declaration::of::<Exit>()
    }

    fn run(&mut self, _batch: &mut Batch, _out: &mut Out<'_>) {}
}

/// A stage that reads a lane which nobody writes.
struct Needy;

impl Stage for Needy {
    fn declare(&self) -> weir_stage::Declaration {
        weir_stage::Declaration::of::<Exit>().reads(&[weir_packet::LaneId::Colour])
    }

    fn run(&mut self, _batch: &mut Batch, _out: &mut Out<'_>) {}
}

static NOTHING: Plain = Plain { kind: "nothing", doc: "Does nothing.", make: || Box::new(Nothing) };
/// The kind of [`Needy`], which says what it needs.
struct NeedyKind;

impl StageKind for NeedyKind {
    fn kind(&self) -> &'static str {
        "needy"
    }

    fn schema(&self) -> Schema {
        Schema::new("Needs a hash.", Vec::new())
    }

    fn upstream(&self) -> &'static str {
        "put one that colours before it"
    }

    fn describe(&self, _settings: &Settings<'_>, _env: &Env<'_>) -> Result<Box<dyn DescribeStage>, Vec<ConfigError>> {
        Ok(Box::new(|| Box::new(Needy) as Box<dyn Stage>))
    }
}

/// A kind whose stages have something to tell.
struct Telling;

impl StageKind for Telling {
    fn kind(&self) -> &'static str {
        "telling"
    }

    fn schema(&self) -> Schema {
        Schema::new("Tells.", Vec::new())
    }

    fn describe(&self, _settings: &Settings<'_>, _env: &Env<'_>) -> Result<Box<dyn DescribeStage>, Vec<ConfigError>> {
        Ok(Box::new(Telling))
    }
}

impl MakeStage for Telling {
    fn declare(&self) -> weir_stage::Declaration {
        Nothing.declare()
    }

    fn stage(&self, _replica: usize) -> Result<Box<dyn Stage>, weir_stage::GraphError> {
        Ok(Box::new(Nothing))
    }

    fn notices(&self) -> Vec<Notice> {
        vec![Notice { message: "something went wrong", facts: vec![("replica", "0".to_owned())] }]
    }
}

/// A kind whose stages keep numbers by names, below 10, which requests set.
struct Keeping;

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<BTreeMap<String, u64>>>);

const NAME: Argument = Argument { name: "thing", keyword: None, required: true, many: false, help: "Its name" };

impl StageKind for Keeping {
    fn kind(&self) -> &'static str {
        "keeping"
    }

    fn schema(&self) -> Schema {
        Schema::new("Keeps.", Vec::new())
    }

    fn verbs(&self) -> &'static [Verb] {
        const VERB: Verb = Verb { noun: "thing", action: "set", arguments: &[NAME], help: "Sets it", batch: true };
        &[VERB]
    }

    fn shows(&self) -> &'static [Show] {
        &[Show { what: "things", columns: &["thing", "number"], help: "What is kept" }]
    }

    fn describe(&self, _settings: &Settings<'_>, _env: &Env<'_>) -> Result<Box<dyn DescribeStage>, Vec<ConfigError>> {
        Ok(Box::new(Kept::default()))
    }
}

impl DescribeStage for Kept {
    fn declares(&self) -> weir_stage::Declaration {
        Nothing.declare()
    }

    fn instantiate(
        self: Box<Self>,
        _settings: &Settings<'_>,
        _ground: &Ground<'_>,
        old: Option<&dyn MakeStage>,
    ) -> Result<Box<dyn MakeStage>, Vec<ConfigError>> {
        Ok(Box::new(MakeKept(old.and_then(|old| old.downcast_ref::<MakeKept>()).map_or(*self, |old| old.0.clone()))))
    }
}

struct MakeKept(Kept);

impl MakeStage for MakeKept {
    fn declare(&self) -> weir_stage::Declaration {
        Nothing.declare()
    }

    fn stage(&self, _replica: usize) -> Result<Box<dyn Stage>, weir_stage::GraphError> {
        Ok(Box::new(Nothing))
    }

    fn change(&self, verb: &str, arguments: &Json, _now: u64) -> Result<TakeBack, String> {
        assert_eq!(verb, "thing set");
        let number = arguments["number"].as_u64().filter(|number| *number < 10).ok_or("too much")?;
        let (kept, name) = (self.0.clone(), arguments["thing"].as_str().unwrap().to_owned());
        let before = kept.0.lock().unwrap().insert(name.clone(), number);
        Ok(Box::new(move |_| {
            let mut all = kept.0.lock().unwrap();
            all.remove(&name);
            all.extend(before.map(|number| (name, number)));
        }))
    }

    fn show(&self, what: &str, filter: Option<&str>) -> Result<Box<dyn ShowRows>, RequestError> {
        assert_eq!(what, "things");
        let all = self.0.0.lock().unwrap();
        let chosen = all.iter().filter(|(name, _)| filter.is_none_or(|word| word == *name));
        Ok(weir_stage::whole(chosen.map(|(name, number)| json!({ "thing": name, "number": number })).collect()))
    }

    fn save(&self) -> Box<dyn ShowRows<Saved>> {
        let saved = |(name, number): (&String, &u64)| Saved {
            verb: "thing set".to_owned(),
            arguments: json!({ "thing": name, "number": number }),
            key: "things".to_owned(),
            entry: Some(json!(number)),
            under: Some(name.clone()),
            within: None,
        };
        weir_stage::whole(self.0.0.lock().unwrap().iter().map(saved).collect())
    }
}

static KINDS: &[&dyn StageKind] = &[&NOTHING, &NeedyKind, &Telling, &Keeping, &Match, &Copy, &Discard];
static WIRING: Wiring = Wiring::new(KINDS);

fn value(json: &Json) -> Value {
    match json {
        Json::String(text) => Value::text(text),
        Json::Number(number) => Value::Integer(number.as_i64().unwrap()),
        Json::Object(object) => {
            Value::Table(object.iter().map(|(name, inner)| (Key::from(name.as_str()), value(inner))).collect::<Table>())
        }
        other => panic!("{other}"),
    }
}

fn element(table: &Json) -> Result<Arc<Element>, Vec<String>> {
    let kinds: Catalogue =
        [Kind::named("port", PortConfig::schema()), Kind::function("wiring", WIRING.schema())].into_iter().collect();
    let declare = |kind: &str, table: Json, line| Declaration {
        kind: kind.to_owned(),
        table: value(&table),
        place: Place::line("x.lua", line),
        incomplete: false,
    };
    let mut declarations: Vec<Declaration> =
        ["a", "b"].map(|name| declare("port", json!({"name": name, "device": "null"}), 1)).into();
    declarations.push(declare("wiring", table.clone(), 7));
    let document = Document { file: "x.lua".to_owned(), declarations, ..Document::default() };
    match document.check(&kinds, None) {
        Ok(checked) => Ok(checked.get("wiring", "wiring").unwrap().clone()),
        Err(errors) => Err(errors.iter().map(ToString::to_string).collect()),
    }
}

fn ports() -> Vec<PortInfo> {
    let info = |(index, name): (u16, &str)| PortInfo {
        name: name.to_owned(),
        index,
        facts: PortFacts {
            device: "null".to_owned(),
            mac: local_mac(name),
            mtu: 1500,
            max_rx_queues: 1,
            max_tx_queues: 1,
            rss: false,
            offloads: Vec::new(),
        },
        addresses: Vec::new(),
        vrf: None,
        link_up: true,
    };
    (0..).zip(["a", "b"]).map(info).collect()
}

fn build(table: &Json) -> Result<Box<dyn Instance>, Vec<String>> {
    build_from(table, None)
}

/// The same from an instance that runs.
fn build_from(table: &Json, running: Option<&dyn Instance>) -> Result<Box<dyn Instance>, Vec<String>> {
    let (domain, ports) = (Domain::new(), ports());
    let env = Env { ports: &ports, interfaces: &[], folder: None, running };
    let ground = Ground { domain: &domain, now: 0 };
    let built = rehearsal::build(&WIRING, &element(table)?, &env, &ground);
    built.map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

/// What is said to stages wired wrong.
fn said(receive: Json, stages: Json) -> Vec<String> {
    match build(&json!({"receive": receive, "stages": stages})) {
        Ok(_) => Vec::new(),
        Err(errors) => errors,
    }
}

fn graph(receive: Json, stages: Json) -> Graph {
    let instance = build(&json!({"receive": receive, "stages": stages})).unwrap_or_else(|errors| panic!("{errors:?}"));
    instance.graph(0).unwrap()
}

#[test]
fn the_schema_tells_every_mistake() {
    assert_eq!(WIRING.schema().defects(), Vec::<String>::new());
}

#[test]
fn stages_are_wired_as_the_configuration_says() {
    let graph = graph(
        json!({"a": "one"}),
        json!({
            "one": {"kind": "nothing", "ways": {"out": "two", "up": "drop"}},
            "two": {"kind": "copy", "ways": {"out": "port b", "copy": "port a"}},
        }),
    );
    graph.check().unwrap();
    let names: Vec<&str> = graph.nodes().iter().map(|node| node.name.as_str()).collect();
    // What comes in by b, which nothing receives, has a stage of its own.
    assert_eq!(names, ["wiring.one", "wiring.two", "wiring.from-b"]);
    let targets = |at: usize| graph.nodes()[at].targets.clone();
    assert_eq!(targets(0), [Some(To::Stage(weir_stage::NodeId(1))), None, None]);
    assert_eq!(targets(1)[..2], [Some(To::Port(1)), Some(To::Port(0))]);
    let entries: Vec<(u16, usize)> = graph.entries().iter().map(|(port, at)| (*port, at.0)).collect();
    assert_eq!(entries, [(0, 0), (1, 2)]);
    assert_eq!(graph.loose_ends().count(), 0);
}

#[test]
fn what_stages_have_to_tell_comes_with_their_names() {
    let stage = |to: &str| json!({"kind": "telling", "ways": {"out": to, "up": "drop"}});
    let stages =
        json!({"one": stage("two"), "two": stage("quiet"), "quiet": {"kind": "discard", "ways": {"out": "drop"}}});
    let instance =
        build(&json!({"receive": {"a": "one"}, "stages": stages})).unwrap_or_else(|errors| panic!("{errors:?}"));
    let notice = |stage: &str| Notice {
        message: "something went wrong",
        facts: vec![("stage", stage.to_owned()), ("replica", "0".to_owned())],
    };
    assert_eq!(instance.notices(0), [notice("one"), notice("two")]);
}

#[test]
fn ways_that_nobody_speaks_of_are_loose_ends() {
    let graph = graph(json!({"a": "one"}), json!({"one": {"kind": "nothing", "ways": {"up": "drop"}}}));
    let loose: Vec<(String, String)> = graph.loose_ends().map(|(node, way)| (node.name.clone(), way)).collect();
    assert_eq!(loose, [("wiring.one".to_owned(), "out".to_owned())]);
}

#[test]
fn wrong_wires_are_told_at_their_keys_and_all_at_once() {
    let stages = json!({
        "one": {"kind": "nothing", "ways": {"out": "twoo", "upp": "drop", "up": "port c"}},
        "two": {"kind": "match", "filter": "upd", "ways": {"out": "b"}},
    });
    let said = said(json!({"a": "tow"}), stages);
    let expected = [
        r#"x.lua:7: wiring.stages.one.ways.out: "twoo" names no stage; expected one of one, two; did you mean "two"?"#,
        r#"x.lua:7: wiring.stages.one.ways.up: "c" names no port; expected one of a, b; declare it with port { name = "c", ... }"#,
        r#"x.lua:7: wiring.stages.one.ways.upp: is no way out of a stage of kind "nothing"; expected one of out, up; did you mean up?"#,
        r#"x.lua:7: wiring.stages.two.filter: "upd": "#,
        r#"x.lua:7: wiring.receive.a: "tow" names no stage; expected one of one, two; did you mean "two"?"#,
    ];
    assert_eq!(said.len(), expected.len(), "{said:#?}");
    for (said, expected) in said.iter().zip(expected) {
        assert!(said.starts_with(expected), "{said}\nis not {expected}");
    }
}

#[test]
fn a_port_without_its_word_is_recognised() {
    let said = said(json!({"a": "one"}), json!({"one": {"kind": "nothing", "ways": {"out": "b", "up": "drop"}}}));
    assert_eq!(
        said,
        [
            r#"x.lua:7: wiring.stages.one.ways.out: "b" names no stage; expected one of one; write "port b" if you mean the port"#
        ]
    );
}

#[test]
fn what_the_check_of_the_graph_finds_comes_with_its_place() {
    let needy = json!({"one": {"kind": "needy", "ways": {"out": "port b", "up": "drop"}}});
    assert_eq!(
        said(json!({"a": "one"}), needy),
        [
            "x.lua:7: wiring.stages.one: reads lane colour, which nobody upstream writes on every path; put one that colours \
          before it"
        ]
    );
    let round = json!({
        "one": {"kind": "nothing", "ways": {"out": "two", "up": "drop"}},
        "two": {"kind": "nothing", "ways": {"out": "one", "up": "drop"}},
    });
    let said_of_round = said(json!({"a": "one"}), round);
    assert!(said_of_round[0].starts_with("x.lua:7: wiring.stages: the graph has a cycle"), "{said_of_round:?}");
    let back = json!({
        "one": {"kind": "nothing", "section": 1, "ways": {"out": "two", "up": "drop"}},
        "two": {"kind": "nothing", "ways": {"out": "port b", "up": "drop"}},
    });
    assert_eq!(said(json!({"a": "one"}), back), ["x.lua:7: wiring.stages.one: leads from section 1 back to section 0"]);
}

#[test]
fn the_word_for_dropping_names_no_stage() {
    let said = said(json!({"a": "drop"}), json!({"drop": {"kind": "discard", "ways": {"out": "drop"}}}));
    assert_eq!(said, ["x.lua:7: wiring.stages.drop: is a word for something else; give the stage another name"]);
}

#[test]
fn the_ports_of_a_wiring_are_those_it_speaks_of() {
    let table = json!({"receive": {"a": "one"}, "stages": {"one": {"kind": "discard", "ways": {"out": "port b"}}}});
    assert_eq!(WIRING.configure(&element(&table).unwrap()).unwrap().ports().collect::<Vec<_>>(), ["a", "b"]);
}

/// What stages have is named by the stage and a point before its name, in requests, tables and what is saved.
#[test]
fn what_stages_keep_is_asked_for_by_their_names() {
    let stage = |kind: &str| json!({"kind": kind, "ways": {"out": "port b", "up": "drop"}});
    let table = json!({"receive": {"a": "one"}, "stages": {"one": stage("keeping"), "two": stage("keeping"), "other": stage("nothing")}});
    let instance = build(&table).unwrap_or_else(|errors| panic!("{errors:?}"));
    let set = |thing: &str, number: u64| json!({"thing": thing, "number": number});
    let ask = |arguments: Json| instance.request("thing set", &arguments, 0).map_err(|error| error.0);
    let rows = |instance: &dyn Instance, filter| {
        let mut rows = instance.show("things", filter, 0).unwrap();
        std::iter::from_fn(|| Some(rows.piece()).filter(|piece| !piece.is_empty())).flatten().collect::<Vec<Json>>()
    };
    ask(json!([set("one.a", 1), set("two.a", 2), set("one.a", 3)])).unwrap();
    assert_eq!(rows(&*instance, None), [set("one.a", 3), set("two.a", 2)]);
    assert_eq!(rows(&*instance, Some("two.a")), [set("two.a", 2)]);
    // Of a list all or nothing, whichever stages it is about.
    assert_eq!(ask(json!([set("one.a", 4), set("two.b", 5), set("two.a", 10)])), Err("entry 3: too much".to_owned()));
    assert_eq!(rows(&*instance, None), [set("one.a", 3), set("two.a", 2)]);
    for wrong in ["a", "other.a", "three.a"] {
        let said = format!("there is no thing \"{wrong}\"; write STAGE.THING, where STAGE is one of one, two");
        assert_eq!(ask(set(wrong, 1)), Err(said.clone()));
        assert_eq!(instance.show("things", Some(wrong), 0).map(drop).unwrap_err().0, said);
    }
    assert_eq!(ask(json!({"number": 1})), Err("thing is missing".to_owned()));
    let mut saved = instance.save();
    let pieces: Vec<Saved> = [saved.piece(), saved.piece(), saved.piece()].concat();
    let told: Vec<(&str, &Json)> = pieces.iter().map(|saved| (saved.key.as_str(), &saved.arguments)).collect();
    assert_eq!(told, [("stages.one.things", &set("one.a", 3)), ("stages.two.things", &set("two.a", 2))]);
    // One that takes its place has what was said, stage by stage.
    let next = build_from(&table, Some(&*instance)).unwrap_or_else(|errors| panic!("{errors:?}"));
    assert_eq!(rows(&*next, None), rows(&*instance, None));
    assert_eq!(WIRING.verbs().iter().map(Verb::name).collect::<Vec<_>>(), ["thing set"]);
}
