//! Stages written in Lua, for configurations that wire stages by hand.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use serde_json::Value;
use weir_config::{Change, ConfigError, FilePath, Schema, config};
use weir_stage::{
    Declaration, DescribeStage, Env, GraphError, Ground, MakeStage, Notice, Prepared, RequestError, Saved, Settings,
    Show, ShowRows, Stage, StageKind, TakeBack, Verb,
};

use crate::function::{access, switches};
use crate::machine::Terms;
use crate::request::{self, SHOWS, VERBS};
use crate::script::{Script, Seats, Source};
use crate::stage::declaration;
use crate::table_config::{TableConfig, TableName};

config! {
    /// Runs a script on packets. `weir run` refuses it without `--allow-lua-stages`.
    pub struct LuaStageConfig {
        /// The file of the script. `weir reload` takes over a changed one without losing packets; what it remembered is lost.
        pub file: Option<FilePath> = optional, live, contents(Change::Live);
        /// The script itself, in place of a file: `script = [[ function run(batch) ... end ]]`.
        pub script: Option<String> = optional, live;
        /// Tables that `batch:look_up(NAME)` asks, by name.
        pub tables: BTreeMap<TableName, TableConfig> = empty, live;
        /// How many ways it has beside `out`: `way[0]` is where `batch:way(i, 0)` leads, and so on.
        pub indexed: u8 = default(0), rebuild, range(0..=64);
        /// How many packets `batch:hold` may keep at once, on each worker.
        pub max_held: u32 = default(0), rebuild, range(0..=65_536);
        /// Whether the script gets LuaJIT's `ffi` and the packets' addresses, without bounds. It can then do whatever the
        /// program can, crash it included; `weir run` refuses it without `--allow-lua-ffi`.
        pub raw_ffi: bool = default(false), rebuild;
    }
}

/// The kind of stage `lua`.
#[derive(Debug)]
pub struct LuaStageKind;

impl StageKind for LuaStageKind {
    fn kind(&self) -> &'static str {
        "lua"
    }

    fn schema(&self) -> Schema {
        LuaStageConfig::schema()
    }

    fn permissions(&self, settings: &Settings<'_>) -> Vec<&'static str> {
        switches(settings.read::<LuaStageConfig>().ok().map(|config| config.raw_ffi))
    }

    fn holds(&self, settings: &Settings<'_>) -> usize {
        settings.read::<LuaStageConfig>().map_or(0, |config| config.max_held as usize)
    }

    fn describe(&self, settings: &Settings<'_>, env: &Env<'_>) -> Result<Box<dyn DescribeStage>, Vec<ConfigError>> {
        Ok(Box::new(Described(script(settings, env)?)))
    }

    fn verbs(&self) -> &'static [Verb] {
        VERBS
    }

    fn shows(&self) -> &'static [Show] {
        SHOWS
    }
}

fn script(settings: &Settings<'_>, env: &Env<'_>) -> Result<Script, Vec<ConfigError>> {
    let config: LuaStageConfig = settings.read()?;
    let wrong = |kind, key: &str, problem| settings.error(kind, key, problem);
    let source = Source { file: config.file.as_ref(), script: config.script.as_deref(), tables: &config.tables };
    let terms = Terms { access: access(config.raw_ffi), indexed: config.indexed, max_held: config.max_held };
    source.read(terms, env, &wrong)
}

/// A script that was read, and has no tables yet.
struct Described(Script);

impl DescribeStage for Described {
    fn declares(&self) -> Declaration {
        declaration(self.0.terms)
    }

    fn instantiate(
        self: Box<Self>,
        _settings: &Settings<'_>,
        ground: &Ground<'_>,
        old: Option<&dyn MakeStage>,
    ) -> Result<Box<dyn MakeStage>, Vec<ConfigError>> {
        let old = old.and_then(|old| old.downcast_ref::<Maker>()).map(|old| &old.0);
        Ok(Box::new(Maker(Seats::new(self.0, ground.domain, old)?)))
    }
}

struct Maker(Seats);

impl MakeStage for Maker {
    fn declare(&self) -> Declaration {
        declaration(self.0.terms())
    }

    fn change(&self, verb: &str, arguments: &Value, _now: u64) -> Result<TakeBack, String> {
        self.0.change(verb, arguments)
    }

    fn show(&self, what: &str, filter: Option<&str>) -> Result<Box<dyn ShowRows>, RequestError> {
        request::show(&self.0.book(), what, filter)
    }

    fn save(&self) -> Box<dyn ShowRows<Saved>> {
        request::save(&self.0.book())
    }

    fn stage(&self, replica: usize) -> Result<Box<dyn Stage>, GraphError> {
        Ok(Box::new(self.0.stage(replica)?))
    }

    fn prepare(&self, settings: &Settings<'_>, env: &Env<'_>) -> Result<Prepared, Vec<ConfigError>> {
        self.0.prepare(script(settings, env)?)
    }

    fn notices(&self) -> Vec<Notice> {
        self.0.notices()
    }

    fn troubles(&self) -> Vec<String> {
        let failed = self.0.failures().into_iter().filter(|(_, failures)| failures.count() > 0);
        let sentence = |(replica, failures): (usize, std::sync::Arc<crate::Failures>)| {
            let disabled = if failures.disabled() { ", and it is disabled" } else { "" };
            let last = failures.last().map_or_else(String::new, |error| error.to_string());
            format!("replica {replica}: {} batches failed{disabled}; the last: {last}", failures.count())
        };
        failed.map(sentence).collect()
    }
}
