//! Configuration of `wiring`, and what is said when it is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use weir_config::{
    ConfigError, Element, ErrorKind, Errors, Key, KeySchema, Length, NAME, Path, PortName, Presence, Schema, Setting,
    Table, Type, Value, config, nearest,
};
use weir_stage::{Case, DescribeStage, Env, Function, Given, NamedInterface, Settings, Show, StageKind, Verb};

use crate::cases;
use crate::running::{COLUMNS, Described, Part, TABLE, Wires};
use crate::target::{Names, Target, is_taken, port_of};

config! {
    /// Wires stages by hand, for experiments: where packets enter, which stages they pass, and where each way leads.
    pub struct WiringConfig {
        /// The stage at which the packets of each port enter. What comes in by a port that others only lead to is dropped as
        /// `discarded`.
        pub receive: BTreeMap<PortName, String> = required, rebuild, length(1..=64);
    }
}

config! {
    /// What every stage has, whatever its kind.
    pub(crate) struct Common {
        /// What its ways lead to: the name of a stage, `"port NAME"`, or `"drop"`. A way that is not named is dropped too, with
        /// a warning.
        pub ways: BTreeMap<String, String> = empty, rebuild;
        /// The section that it belongs to when `layout = "pipeline"` spreads sections over workers: none may lead back to a
        /// lower one.
        pub section: u8 = default(0), rebuild, range(0..=62);
    }
}

/// The key that holds the stages.
pub(crate) const STAGES: &str = "stages";
const KIND: &str = "kind";

/// The function `wiring`, over some kinds of stages.
pub struct Wiring {
    kinds: &'static [&'static dyn StageKind],
    verbs: OnceLock<&'static [Verb]>,
    shows: OnceLock<&'static [Show]>,
}

impl Wiring {
    /// The function over these kinds.
    pub const fn new(kinds: &'static [&'static dyn StageKind]) -> Wiring {
        Wiring { kinds, verbs: OnceLock::new(), shows: OnceLock::new() }
    }

    /// What all kinds have of something. It stays for ever: the function is one of the program's.
    fn of_kinds<T: Copy>(&self, of: impl Fn(&dyn StageKind) -> &'static [T]) -> &'static [T] {
        self.kinds.iter().flat_map(|kind| of(*kind)).copied().collect::<Vec<T>>().leak()
    }

    fn stages_schema(&self) -> KeySchema {
        let case = |kind: &&'static dyn StageKind| {
            let mut schema = kind.schema();
            schema.keys.extend(Common::schema().keys);
            (kind.kind(), schema)
        };
        let holds = Type::Map {
            key: Box::new(Type::Text { length: Length::ANY, pattern: Some(&NAME) }),
            value: Box::new(Type::Tagged { tag: KIND, cases: self.kinds.iter().map(case).collect() }),
            length: Length { min: 1, max: 64 },
        };
        let doc = "The stages by their names. `kind` says what a stage is, and its other keys depend on that.";
        KeySchema::new(STAGES, holds, Presence::Required, weir_config::Change::Rebuild, doc)
    }

    /// Hands `visit` each stage of a checked configuration: its name, its kind, and its settings.
    fn each<'e>(&self, element: &'e Element, mut visit: impl FnMut(&'e str, &'static dyn StageKind, &Settings<'_>)) {
        let root = element.path();
        let path = root.field(STAGES);
        for (name, value) in stages(element) {
            let word = value.as_table().and_then(|table| table.get(KIND)).and_then(Value::as_text);
            if let Some(kind) = self.kinds.iter().find(|kind| word == Some(kind.kind())) {
                visit(name, *kind, &Settings { element, path: path.field(name), value });
            }
        }
    }
}

/// The stages of a checked configuration.
fn stages(element: &Element) -> impl Iterator<Item = (&str, &Value)> {
    let table = element.value().as_table().and_then(|table| table.get(STAGES)).and_then(Value::as_table);
    let entries = table.into_iter().flat_map(|Table(entries)| entries);
    entries.filter_map(|(key, value)| match key {
        Key::Name(name) => Some((name.as_str(), value)),
        Key::Index(_) => None,
    })
}

impl Function for Wiring {
    type Config = WiringConfig;
    type Description = Described;

    fn kind(&self) -> &'static str {
        "wiring"
    }

    fn schema(&self) -> Schema {
        let mut schema = WiringConfig::schema();
        schema.keys.insert(1, self.stages_schema());
        schema
    }

    fn permissions(&self, given: &Given<'_, WiringConfig>) -> Vec<&'static str> {
        let mut all = BTreeSet::new();
        self.each(given.element, |_, kind, settings| all.extend(kind.permissions(settings)));
        all.into_iter().collect()
    }

    fn ports(&self, given: &Given<'_, WiringConfig>) -> Vec<String> {
        let mut names: BTreeSet<String> = given.config.receive.keys().map(ToString::to_string).collect();
        let commons = stages(given.element).filter_map(|(_, value)| Common::read(value));
        names.extend(
            commons.flat_map(|common| common.ways.into_values()).filter_map(|to| Some(port_of(&to)?.to_owned())),
        );
        names.into_iter().collect()
    }

    fn holds(&self, given: &Given<'_, WiringConfig>) -> usize {
        let mut each = 0;
        self.each(given.element, |_, kind, settings| each += kind.holds(settings));
        each * given.placement.workers.len()
    }

    fn neighbors_on(&self, given: &Given<'_, WiringConfig>) -> Vec<NamedInterface> {
        let mut all = Vec::new();
        self.each(given.element, |_, kind, settings| all.extend(kind.neighbors_on(settings)));
        all
    }

    fn describe(&self, given: &Given<'_, WiringConfig>, env: &Env<'_>) -> Result<Described, Vec<ConfigError>> {
        let element = given.element;
        let names = Names { element, stages: stages(element).map(|(name, _)| name).collect(), ports: env.ports };
        let mut errors = Errors::new();
        let mut parts = Vec::new();
        self.each(element, |name, kind, settings| match part(name, kind, settings, env, &names, &mut errors) {
            Ok(part) => parts.push(part),
            Err(more) => errors.extend(more),
        });
        let entries = entries(given.config, &names, env, &mut errors);
        errors.into_result(())?;
        let mut wires = Wires { name: given.name().to_owned(), parts, entries, unreceived: Vec::new() };
        wires.find_unreceived(env.ports);
        let described = Described { element: Arc::clone(element), wires };
        let checked = described.declared().and_then(|graph| graph.check());
        checked.map_err(|error| {
            error.0.iter().map(|sentence| placed(sentence, element, &described.wires.parts)).collect::<Vec<_>>()
        })?;
        Ok(described)
    }

    fn cases(&self) -> Vec<Case> {
        cases::all()
    }

    fn verbs(&self) -> &'static [Verb] {
        self.verbs.get_or_init(|| self.of_kinds(|kind| kind.verbs()))
    }

    fn shows(&self) -> &'static [Show] {
        let own = Show { what: TABLE, columns: COLUMNS, help: "stages wired by hand, and what has gone wrong in them" };
        self.shows.get_or_init(|| [&[own], self.of_kinds(|kind| kind.shows())].concat().leak())
    }
}

/// A stage with its wires. What is wrong with the wires goes to `errors`.
fn part(
    name: &str,
    kind: &'static dyn StageKind,
    settings: &Settings<'_>,
    env: &Env<'_>,
    names: &Names<'_>,
    errors: &mut Errors,
) -> Result<Part<dyn DescribeStage>, Vec<ConfigError>> {
    if is_taken(name) {
        let error = settings.element.error(ErrorKind::Conflict, &settings.path, "is a word for something else");
        errors.push(error.remedy("give the stage another name"));
    }
    let common: Common = settings.read()?;
    let make = kind.describe(settings, env)?;
    let known: Vec<String> = make.declares().ways_out().map(|(_, way)| way).collect();
    let ways_path = settings.path.field("ways");
    let mut wires: Vec<(String, Target)> = Vec::new();
    for (way, to) in common.ways {
        let path = ways_path.field(&way);
        if !known.contains(&way) {
            errors.push(unknown_way(settings.element, &path, kind.kind(), &way, &known));
        }
        let target = names.target(&to, &path, errors);
        wires.extend(target.map(|target| (way.clone(), target)));
    }
    Ok(Part { name: name.to_owned(), kind, make, section: common.section, wires })
}

fn unknown_way(element: &Element, path: &Path<'_>, kind: &str, way: &str, known: &[String]) -> ConfigError {
    let error = element.error(ErrorKind::Unknown, path, format!("is no way out of a stage of kind \"{kind}\""));
    let near = nearest(way, known.iter().map(String::as_str));
    error
        .allowed(format!("one of {}", known.join(", ")))
        .remedy(near.map_or_else(String::new, |near| format!("did you mean {near}?")))
}

/// Where packets enter: (index of the port, place of the stage).
fn entries(config: &WiringConfig, names: &Names<'_>, env: &Env<'_>, errors: &mut Errors) -> Vec<(u16, usize)> {
    let root = names.element.path();
    let receive = root.field("receive");
    let mut entries = Vec::new();
    for (port, stage) in &config.receive {
        let at = names.stage(stage, &receive.field(port.as_str()), errors);
        entries.extend(env.port(port).zip(at).map(|(info, at)| (info.index, at)));
    }
    entries
}

/// How the check of the graph begins when a stage lacks what one before it should have found out.
const LACKS: &str = "reads lane ";

/// What the check of the graph says, at the stage that it speaks of.
fn placed(sentence: &str, element: &Element, parts: &[Part<dyn DescribeStage>]) -> ConfigError {
    let root = element.path();
    let path = root.field(STAGES);
    let after = sentence.strip_prefix(element.name()).and_then(|rest| rest.strip_prefix('.'));
    let stage = after.and_then(|rest| rest.split([':', '.']).next());
    let found = stages(element).map(|(name, _)| name).find(|name| Some(*name) == stage);
    match (found, sentence.split_once(": ")) {
        (Some(name), Some((_, problem))) => {
            let lacks = problem.starts_with(LACKS);
            let part = parts.iter().find(|part| lacks && part.name == name);
            let error = element.error(ErrorKind::Conflict, &path.field(name), problem);
            error.remedy(part.map_or("", |part| part.kind.upstream()))
        }
        _ => element.error(ErrorKind::Conflict, &path, sentence),
    }
}
