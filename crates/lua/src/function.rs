//! The function `lua`: a stage written in Lua between ports.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use weir_config::{Change, ConfigError, Errors, FilePath, PortName, config};
use weir_stage::{Case, Env, Function, Given, Paths, Show, Verb, paths};

use crate::cases;
use crate::machine::Terms;
use crate::request;
use crate::running::{COLUMNS, Described, Shape, TABLE};
use crate::script::Source;
use crate::stage::Access;
use crate::table_config::{TableConfig, TableName};

/// The switch of `weir run` that allows stages written in Lua.
pub const ALLOW_STAGES: &str = "--allow-lua-stages";

/// The switch of `weir run` that allows them LuaJIT's `ffi` beside.
pub const ALLOW_FFI: &str = "--allow-lua-ffi";

config! {
    /// Runs a script on packets, to try an idea before it becomes Rust: what comes in by one port passes the script's
    /// function `run(batch)` and goes out by another. Each worker has a virtual machine of its own, which shares nothing with the
    /// others. `weir run` refuses it without `--allow-lua-stages`.
    pub struct LuaConfig {
        /// The file of the script. `weir reload` takes over a changed one without losing packets; what it remembered is lost.
        pub file: Option<FilePath> = optional, live, contents(Change::Live);
        /// The script itself, in place of a file: `script = [[ function run(batch) ... end ]]`.
        pub script: Option<String> = optional, live;
        /// Tables that `batch:look_up(NAME)` asks, by name.
        pub tables: BTreeMap<TableName, TableConfig> = empty, live;
        /// Where packets that the script lets pass go, by the port they came in: `{ "a -> b", "b -> a" }`. A port is the
        /// start of one path at most.
        pub paths: Vec<String> = required, rebuild, length(1..=64);
        /// The ports behind `batch:way(i, 0)`, `batch:way(i, 1)` and so on.
        pub ways: Vec<PortName> = empty, rebuild, length(0..=64);
        /// How many packets `batch:hold` may keep at once, on each worker.
        pub max_held: u32 = default(0), rebuild, range(0..=65_536);
        /// Whether the script gets LuaJIT's `ffi` and the packets' addresses, without bounds. It can then do whatever the
        /// program can, crash it included; `weir run` refuses it without `--allow-lua-ffi`.
        pub raw_ffi: bool = default(false), rebuild;
    }
}

/// The function `lua`.
#[derive(Debug)]
pub struct LuaFunction;

impl Function for LuaFunction {
    type Config = LuaConfig;
    type Description = Described;

    fn kind(&self) -> &'static str {
        "lua"
    }

    fn permissions(&self, given: &Given<'_, LuaConfig>) -> Vec<&'static str> {
        switches(Some(given.config.raw_ffi))
    }

    fn ports(&self, given: &Given<'_, LuaConfig>) -> Vec<String> {
        let ends = given.config.paths.iter().filter_map(|path| paths::ends_of(path)).flatten();
        ends.chain(given.config.ways.iter().map(PortName::as_str)).map(str::to_owned).collect()
    }

    fn holds(&self, given: &Given<'_, LuaConfig>) -> usize {
        given.config.max_held as usize * given.placement.workers.len()
    }

    fn describe(&self, given: &Given<'_, LuaConfig>, env: &Env<'_>) -> Result<Described, Vec<ConfigError>> {
        let (config, mut errors) = (given.config, Errors::new());
        let mut paths = Paths::new(given.element, env);
        paths.list("paths", &config.paths);
        let paths = paths.finish().map_err(|more| errors.extend(more));
        let wrong = |kind, key: &str, problem| given.element.error(kind, &given.element.path().field(key), problem);
        let source = Source { file: config.file.as_ref(), script: config.script.as_deref(), tables: &config.tables };
        let indexed = u8::try_from(config.ways.len()).unwrap_or(u8::MAX);
        let terms = Terms { access: access(config.raw_ffi), indexed, max_held: config.max_held };
        let script = source.read(terms, env, &wrong);
        let script = script.map_err(|more| errors.extend(more));
        errors.into_result(())?;
        // Whatever was not read has left an error.
        let (Ok(paths), Ok(script)) = (paths, script) else { return Err(Vec::new()) };
        let paths = paths.into_iter().map(|[from, to]| (from.index, to.index)).collect();
        let ways = config.ways.iter().filter_map(|name| Some(env.port(name)?.index)).collect();
        Ok(Described { shape: Shape { name: given.name().to_owned(), paths, ways, terms }, script })
    }

    fn cases(&self) -> Vec<Case> {
        cases::all()
    }

    fn verbs(&self) -> &'static [Verb] {
        request::VERBS
    }

    fn examples(&self) -> &'static [&'static str] {
        request::EXAMPLES
    }

    fn shows(&self) -> &'static [Show] {
        static ALL: LazyLock<Vec<Show>> = LazyLock::new(|| [SCRIPTS, request::SHOWS].concat());
        &ALL
    }
}

/// What is shown of scripts.
const SCRIPTS: &[Show] = &[Show {
    what: TABLE,
    columns: COLUMNS,
    help: "stages written in Lua: how many batches failed on each worker, and why the last one did",
}];

/// What a script may do, from its key `raw_ffi`.
pub(crate) fn access(raw_ffi: bool) -> Access {
    if raw_ffi { Access::Raw } else { Access::Checked }
}

/// The switches that a script takes. What cannot be read (`None`) needs all of them, so that no mistake elsewhere opens a door.
pub(crate) fn switches(raw_ffi: Option<bool>) -> Vec<&'static str> {
    if raw_ffi.unwrap_or(true) { vec![ALLOW_STAGES, ALLOW_FFI] } else { vec![ALLOW_STAGES] }
}
