//! What the contract gives a function: its keys, its workers, one reading of its configuration, a graph that is drawn without tables.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_config::{Catalogue, ConfigError, Declaration, Document, Element, Kind, Place as Line, Table, Value, config};
use weir_mem::Domain;
use weir_packet::Batch;
use weir_stage::{
    AnyFunction, Declaration as Declared, Description, Env, Function, Given, Graph, GraphError, Ground, Instance,
    Layout, Out, Place, Prepared, Stage,
};

weir_stage::ways! {
    /// Ways out of [`Nothing`].
    enum Exit {
        /// Goes on.
        Out => way "out",
    }
}

/// Does nothing, and has some indexed ways.
struct Nothing(usize);

impl Stage for Nothing {
    fn declare(&self) -> Declared {
        Declared::of::<Exit>().indexed("way", self.0)
    }

    fn run(&mut self, _batch: &mut Batch, _out: &mut Out<'_>) {}
}

config! {
    /// A function of a test.
    struct ToyConfig {
        /// How many ways its stage has.
        ways: u8 = default(2), rebuild;
        /// How many ways its description says it has.
        described: u8 = default(2), rebuild;
        /// Its name in the graph.
        told: String = required, live;
    }
}

/// Has layouts or not.
struct Toy(bool);

static SPREAD: Toy = Toy(true);
static ALONE: Toy = Toy(false);

/// How often what was done.
static BUILT: AtomicUsize = AtomicUsize::new(0);

impl Function for Toy {
    type Config = ToyConfig;
    type Description = Described;

    fn kind(&self) -> &'static str {
        "toy"
    }

    fn has_layouts(&self) -> bool {
        self.0
    }

    fn ports(&self, given: &Given<'_, ToyConfig>) -> Vec<String> {
        ["b", "a", "b"].map(|port| format!("{port}{}", given.config.ways)).to_vec()
    }

    fn in_front(&self, _given: &Given<'_, ToyConfig>, port: &str) -> u16 {
        if port.starts_with('a') { 8 } else { 0 }
    }

    fn holds(&self, given: &Given<'_, ToyConfig>) -> usize {
        given.placement.workers.len() * 10
    }

    fn describe(&self, given: &Given<'_, ToyConfig>, _env: &Env<'_>) -> Result<Described, Vec<ConfigError>> {
        Ok(Described(Arc::clone(given.config)))
    }
}

struct Described(Arc<ToyConfig>);

fn draw(config: &ToyConfig, ways: Option<&usize>) -> Result<Graph, GraphError> {
    let mut graph = Graph::new();
    let declared = Declared::of::<Exit>().indexed("way", config.described.into());
    let place = Place::Worker { section: 0 };
    let stage = graph.add_of("toy.stage", declared, place, ways, |ways| Ok(Box::new(Nothing(*ways))))?;
    graph.receive(0, stage);
    Ok(graph)
}

impl Description for Described {
    type Running = Running;

    fn sketch(&self, _replica: usize) -> Result<Graph, GraphError> {
        draw(&self.0, None)
    }

    fn instantiate(self, _ground: &Ground<'_>, old: Option<&Running>) -> Result<Running, Vec<ConfigError>> {
        BUILT.fetch_add(1, Ordering::Relaxed);
        Ok(Running { ways: self.0.ways.into(), before: old.map(|old| old.config.told.clone()), config: self.0 })
    }

    fn change(self, running: &Running, _env: &Env<'_>) -> Result<Prepared, Vec<ConfigError>> {
        assert_ne!(self.0.told, running.config.told);
        Ok(Box::new(|_| {}))
    }
}

struct Running {
    config: Arc<ToyConfig>,
    ways: usize,
    /// What the one was told whose place it takes.
    before: Option<String>,
}

impl Instance for Running {
    fn graph(&self, _replica: usize) -> Result<Graph, GraphError> {
        draw(&self.config, Some(&self.ways))
    }

    fn sketch(&self, _replica: usize) -> Result<Graph, GraphError> {
        draw(&self.config, None)
    }
}

fn checked(toy: &'static Toy, keys: &[(&str, Value)]) -> Result<Arc<Element>, Vec<String>> {
    let table = Value::Table(keys.iter().map(|(key, value)| ((*key).into(), value.clone())).collect::<Table>());
    let declaration = Declaration { kind: "toy".to_owned(), table, place: Line::line("toy.lua", 1), incomplete: false };
    let kinds: Catalogue = [Kind::function("toy", AnyFunction::schema(toy))].into_iter().collect();
    let document = Document { declarations: vec![declaration], ..Document::default() };
    let checked = document.check(&kinds, None);
    let checked = checked.map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<String>>())?;
    Ok(Arc::clone(checked.get("toy", "toy").unwrap()))
}

const ENV: Env<'_> = Env { ports: &[], interfaces: &[], folder: None, running: None };

#[test]
fn every_function_has_workers_without_declaring_them() {
    let keys =
        |toy: &'static Toy| -> Vec<&'static str> { AnyFunction::schema(toy).keys.iter().map(|key| key.name).collect() };
    assert_eq!(keys(&SPREAD), ["ways", "described", "told", "workers", "layout", "spread_by"]);
    assert_eq!(keys(&ALONE), ["ways", "described", "told", "workers"]);
    let workers = || ("workers", Value::List(vec![4_i64.into(), 2_i64.into()]));
    let element = checked(&SPREAD, &[("told", "x".into()), workers(), ("layout", "pipeline".into())]).unwrap();
    let configured = SPREAD.configure(&element).unwrap();
    assert_eq!((configured.placement().layout, &configured.placement().workers[..]), (Layout::Pipeline, &[4, 2][..]));
    assert_eq!((configured.holds(), configured.name()), (20, "toy"));
    let alone = ALONE.configure(&checked(&ALONE, &[("told", "x".into())]).unwrap()).unwrap();
    assert_eq!((alone.placement().layout, &alone.placement().workers[..]), (Layout::RunToCompletion, &[0][..]));
    let wrong = checked(&ALONE, &[("told", "x".into()), ("layout", "pipeline".into())]).unwrap_err();
    assert!(wrong[0].contains("toy.layout: is not a key here"), "{wrong:?}");
}

#[test]
fn ports_are_told_once_with_what_stands_in_front() {
    let configured = SPREAD.configure(&checked(&SPREAD, &[("told", "x".into())]).unwrap()).unwrap();
    assert_eq!(configured.ports().collect::<Vec<_>>(), ["a2", "b2"]);
    assert_eq!(["a2", "b2", "c2"].map(|port| configured.in_front(port)), [Some(8), Some(0), None]);
    assert!(configured.has_port("b2") && !configured.has_port("b"));
}

#[test]
fn describing_builds_nothing_and_the_description_holds() {
    let domain = Domain::new();
    let ground = Ground { domain: &domain, now: 0 };
    let configured = SPREAD.configure(&checked(&SPREAD, &[("told", "one".into())]).unwrap()).unwrap();
    let described = configured.describe(&ENV).unwrap();
    described.sketch(0).unwrap().check().unwrap();
    assert_eq!(BUILT.load(Ordering::Relaxed), 0);
    let one = described.instantiate(&ground, None).unwrap();
    assert_eq!(BUILT.load(Ordering::Relaxed), 1);
    one.graph(0).unwrap().check().unwrap();
    // Another in its place, and a live change of it.
    let next = SPREAD.configure(&checked(&SPREAD, &[("told", "two".into())]).unwrap()).unwrap();
    let env = Env { running: Some(&*one), ..ENV };
    next.describe(&env).unwrap().change(&env).unwrap()(0);
    let two = next.instantiate(&env, &ground).unwrap();
    assert_eq!(two.downcast_ref::<Running>().unwrap().before.as_deref(), Some("one"));
    // A stage that is not as it was described is refused, though its description was right.
    let element = checked(&SPREAD, &[("told", "x".into()), ("ways", 3_i64.into())]).unwrap();
    let described = SPREAD.configure(&element).unwrap().describe(&ENV).unwrap();
    described.sketch(0).unwrap().check().unwrap();
    let wrong = described.instantiate(&ground, None).unwrap().graph(0).unwrap().check().unwrap_err();
    assert_eq!(wrong.0, ["toy.stage: declares other ways or lanes than its description"]);
}
