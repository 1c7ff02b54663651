//! Stages that a configuration wires by hand: what a kind of stage says of itself, and what makes stages of it.

use std::any::Any;
use std::sync::Arc;

use weir_config::{ConfigError, Element, ErrorKind, Path, Schema, Setting, Value};

use crate::function::{Env, Ground};
use crate::graph::GraphError;
use crate::instance::Notice;
use crate::neighbor::{FollowedNeighbor, NamedInterface};
use crate::request::{RequestError, Saved, Show, ShowRows, Verb, whole};
use crate::stage::{Declaration, Stage};

/// A kind of stage that a configuration can name. The catalogue of the program lists one value for each.
pub trait StageKind: Sync {
    /// Its name in a configuration: `swap-macs`.
    fn kind(&self) -> &'static str;

    /// What it does, and its settings.
    fn schema(&self) -> Schema;

    /// What to do where the stage lacks what one before it should have found out, as a remedy in messages; empty if it needs nothing.
    fn upstream(&self) -> &'static str {
        ""
    }

    /// See [`Function::permissions`](crate::Function::permissions).
    fn permissions(&self, _settings: &Settings<'_>) -> Vec<&'static str> {
        Vec::new()
    }

    /// Packets that a stage may hold for long; see [`Function::holds`](crate::Function::holds).
    fn holds(&self, _settings: &Settings<'_>) -> usize {
        0
    }

    /// See [`Function::neighbors_on`](crate::Function::neighbors_on).
    fn neighbors_on(&self, _settings: &Settings<'_>) -> Vec<NamedInterface> {
        Vec::new()
    }

    /// The changes that can be asked of its stages while they run. The first argument of each is a name among those of one stage, such as that of a
    /// table; among those of a whole configuration it stands behind the name of the stage and a point.
    fn verbs(&self) -> &'static [Verb] {
        &[]
    }

    /// The tables that its stages show. The first column of each, which is what may be filtered by, is a name as the first argument of
    /// [changes](Self::verbs) is.
    fn shows(&self) -> &'static [Show] {
        &[]
    }

    /// Says what stages of these settings are, without building a table. Where there is none to be built, what makes them is the answer.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the settings beyond their schema, at once.
    fn describe(&self, settings: &Settings<'_>, env: &Env<'_>) -> Result<Box<dyn DescribeStage>, Vec<ConfigError>>;
}

/// What stages of one kind and the same settings are.
pub trait DescribeStage: Send {
    /// What its stages declare; made without running any code of the user's.
    fn declares(&self) -> Declaration;

    /// Builds the tables that its stages are made from, without touching anything that runs. From `old`, what makes the running stages of the same
    /// name and kind, it takes over what was told those at run time.
    ///
    /// # Errors
    ///
    /// What there is no room for.
    fn instantiate(
        self: Box<Self>,
        settings: &Settings<'_>,
        ground: &Ground<'_>,
        old: Option<&dyn MakeStage>,
    ) -> Result<Box<dyn MakeStage>, Vec<ConfigError>>;
}

impl<M: MakeStage + 'static> DescribeStage for M {
    fn declares(&self) -> Declaration {
        self.declare()
    }

    fn instantiate(
        self: Box<Self>,
        _settings: &Settings<'_>,
        _ground: &Ground<'_>,
        _old: Option<&dyn MakeStage>,
    ) -> Result<Box<dyn MakeStage>, Vec<ConfigError>> {
        Ok(self)
    }
}

/// A change that is ready to be put in place; it cannot fail. It is handed the engine's time, nanoseconds.
pub type Prepared = Box<dyn FnOnce(u64) + Send>;

/// What takes a change back. It is handed the engine's time, nanoseconds.
pub type TakeBack = Box<dyn FnOnce(u64) + Send>;

/// Makes stages of one kind and the same settings: one for each replica of the graph.
pub trait MakeStage: Any + Send + Sync {
    /// What its stages declare; made without running any code of the user's.
    fn declare(&self) -> Declaration;

    /// The stage of a replica.
    ///
    /// # Errors
    ///
    /// What a stage may lack: memory, a script that loads.
    fn stage(&self, replica: usize) -> Result<Box<dyn Stage>, GraphError>;

    /// Prepares to run with what settings that did not change may refer to: a file whose contents are others now.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    fn prepare(&self, _settings: &Settings<'_>, _env: &Env<'_>) -> Result<Prepared, Vec<ConfigError>> {
        Ok(Box::new(|_| {}))
    }

    /// As [`Instance::followed`](crate::Instance::followed), of its stages.
    fn followed(&self) -> Vec<Arc<FollowedNeighbor>> {
        Vec::new()
    }

    /// As [`Instance::lacks`](crate::Instance::lacks), of its stages.
    fn lacks(&self) -> Vec<String> {
        Vec::new()
    }

    /// As [`Instance::notices`](crate::Instance::notices), of its stages.
    fn notices(&self) -> Vec<Notice> {
        Vec::new()
    }

    /// What has gone wrong in its stages, a sentence each.
    fn troubles(&self) -> Vec<String> {
        Vec::new()
    }

    /// Carries out one [change](StageKind::verbs) of its stages. Answers what takes it back.
    ///
    /// # Errors
    ///
    /// Why it is refused; nothing has changed then.
    fn change(&self, verb: &str, _arguments: &serde_json::Value, _now: u64) -> Result<TakeBack, String> {
        Err(format!("there is no request '{verb}'"))
    }

    /// As [`Instance::show`](crate::Instance::show), of its stages.
    ///
    /// # Errors
    ///
    /// An unknown table or a filter that means nothing.
    fn show(&self, what: &str, _filter: Option<&str>) -> Result<Box<dyn ShowRows>, RequestError> {
        Err(RequestError(format!("there is no table '{what}'")))
    }

    /// As [`Instance::save`](crate::Instance::save), of its stages. Keys are those of the stage's settings.
    fn save(&self) -> Box<dyn ShowRows<Saved>> {
        whole(Vec::new())
    }
}

impl dyn MakeStage {
    /// Itself as what it is, if it is that.
    pub fn downcast_ref<T: MakeStage>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// The checked settings of one stage, and where they stand.
pub struct Settings<'a> {
    /// The declaration that they are part of.
    pub element: &'a Element,
    /// The path of the table that holds them.
    pub path: Path<'a>,
    /// That table, in canonical form; it may have keys beside those of the kind's schema.
    pub value: &'a Value,
}

impl Settings<'_> {
    /// Reads them into the type whose schema they were checked against.
    ///
    /// # Errors
    ///
    /// That the type is not the one they were checked against, which only a wrong catalogue brings about.
    pub fn read<T: Setting>(&self) -> Result<T, Vec<ConfigError>> {
        let wrong = || self.element.error(ErrorKind::Malformed, &self.path, "cannot be read as its schema says");
        T::read(self.value).ok_or_else(|| vec![wrong()])
    }

    /// An interface that one of them names.
    pub fn interface(&self, key: &str, name: impl Into<String>) -> NamedInterface {
        NamedInterface { name: name.into(), path: self.path.field(key).to_string() }
    }

    /// An error about one of them.
    pub fn error(&self, kind: ErrorKind, key: &str, problem: impl Into<String>) -> ConfigError {
        self.element.error(kind, &self.path.field(key), problem)
    }
}

/// A kind of stage that has no settings.
pub struct Plain {
    /// Its name in a configuration.
    pub kind: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// Makes one.
    pub make: fn() -> Box<dyn Stage>,
}

impl Plain {
    /// The kind of these stages.
    pub const fn of<S: Stage + Default + 'static>(kind: &'static str, doc: &'static str) -> Plain {
        Plain { kind, doc, make: || Box::new(S::default()) }
    }
}

impl StageKind for Plain {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn schema(&self) -> Schema {
        Schema::new(self.doc, Vec::new())
    }

    fn describe(&self, _settings: &Settings<'_>, _env: &Env<'_>) -> Result<Box<dyn DescribeStage>, Vec<ConfigError>> {
        Ok(Box::new(self.make))
    }
}

impl<F: Fn() -> Box<dyn Stage> + Send + Sync + 'static> MakeStage for F {
    fn declare(&self) -> Declaration {
        self().declare()
    }

    fn stage(&self, _replica: usize) -> Result<Box<dyn Stage>, GraphError> {
        Ok(self())
    }
}
