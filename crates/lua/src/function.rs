//! The function `lua`: a stage written in Lua between ports.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use weir_config::{Change, ConfigError, Element, ErrorKind, Errors, FilePath, PortName, Schema, config, nearest};
use weir_stage::{Env, Function, Instance, Layout, Placement, Show};

use crate::running::{COLUMNS, Running, TABLE};
use crate::script::Script;
use crate::stage::Access;

/// The switch of `weir run` that allows stages written in Lua.
pub const ALLOW_STAGES: &str = "--allow-lua-stages";

/// The switch of `weir run` that allows them LuaJIT's `ffi` beside.
pub const ALLOW_FFI: &str = "--allow-lua-ffi";

config! {
    /// Runs a script on packets, to try an idea before it becomes Rust: what comes in by one port passes the script's
    /// function `run(batch)` and goes out by another. `weir run` refuses it without `--allow-lua-stages`.
    pub struct LuaConfig {
        /// The script. `weir reload` takes over a changed one without losing packets; what it remembered is lost.
        pub file: FilePath = required, rebuild, contents(Change::Live);
        /// Where packets that the script lets pass go, by the port they came in: `{ "a -> b", "b -> a" }`. A port is the
        /// start of one path at most.
        pub paths: Vec<String> = required, rebuild, length(1..=64);
        /// The ports behind `batch:way(i, 0)`, `batch:way(i, 1)` and so on.
        pub ways: Vec<PortName> = empty, rebuild, length(0..=64);
        /// Whether the script gets LuaJIT's `ffi` and the packets' addresses, and is compiled. It can then do whatever the
        /// program can, crash it included; `weir run` refuses it without `--allow-lua-ffi`.
        pub raw_ffi: bool = default(false), rebuild;
        /// Cores of the workers. Each has a virtual machine of its own, which shares nothing with the others.
        pub workers: Vec<u16> = default(vec![0]), rebuild, length(1..=63);
        /// How the stages are spread over the workers.
        pub layout: Layout = default(Layout::RunToCompletion), rebuild;
    }
}

/// The function `lua`.
#[derive(Debug)]
pub struct LuaFunction;

impl Function for LuaFunction {
    fn kind(&self) -> &'static str {
        "lua"
    }

    fn schema(&self) -> Schema {
        LuaConfig::schema()
    }

    fn permissions(&self, element: &Element) -> Vec<&'static str> {
        switches(element.read::<LuaConfig>().ok().map(|config| config.raw_ffi))
    }

    fn placement(&self, element: &Element) -> Placement {
        let (workers, layout) = element
            .read::<LuaConfig>()
            .map_or((vec![0], Layout::RunToCompletion), |config| (config.workers, config.layout));
        Placement { layout, workers }
    }

    fn ports(&self, element: &Element) -> Vec<String> {
        let Ok(config) = element.read::<LuaConfig>() else { return Vec::new() };
        let ends = config.paths.iter().filter_map(|text| ends(text)).flat_map(|(from, to)| [from, to]);
        let names: BTreeSet<&str> = ends.chain(config.ways.iter().map(PortName::as_str)).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    fn build(
        &self,
        element: &Element,
        env: &Env<'_>,
        _old: Option<&dyn Instance>,
    ) -> Result<Box<dyn Instance>, Vec<ConfigError>> {
        let config: LuaConfig = element.read()?;
        let mut errors = Errors::new();
        let paths = wired(&config, element, env, &mut errors);
        let ways = config.ways.iter().filter_map(|name| Some(env.port(name)?.index)).collect();
        let script = script(&config, element, env).map_err(|more| errors.extend(more)).ok();
        let running = script.map(|script| Running::new(element.name(), paths, ways, script));
        errors.into_result(())?;
        // A script that was not read has left an error.
        running.map_or_else(|| Err(Vec::new()), |running| Ok(Box::new(running) as Box<dyn Instance>))
    }

    fn shows(&self) -> &'static [Show] {
        &[Show {
            what: TABLE,
            columns: COLUMNS,
            help: "stages written in Lua: how many batches failed on each worker, and why the last one did",
        }]
    }
}

/// The names of the ports of a path: `a -> b`.
fn ends(path: &str) -> Option<(&str, &str)> {
    let (from, to) = path.split_once("->")?;
    Some((from.trim(), to.trim()))
}

/// The paths as indexes of ports: from, to. What is wrong with them goes to `errors`.
fn wired(config: &LuaConfig, element: &Element, env: &Env<'_>, errors: &mut Errors) -> Vec<(u16, u16)> {
    let mut wired: Vec<(u16, u16)> = Vec::new();
    for (text, n) in config.paths.iter().zip(1..) {
        let wrong = |kind, problem: String| element.error(kind, &element.path().field("paths").index(n), problem);
        let Some((from, to)) = ends(text) else {
            errors.push(wrong(ErrorKind::Malformed, format!("\"{text}\" is not a path; write it \"from -> to\"")));
            continue;
        };
        let mut found = |name: &str| {
            let port = env.ports.iter().find(|port| port.name == name);
            if port.is_none() {
                let error = wrong(ErrorKind::Dangling, format!("\"{name}\" names no port"));
                errors.push(with_names(error, name, env));
            }
            port.map(|port| port.index)
        };
        let Some((from_index, to_index)) = Option::zip(found(from), found(to)) else { continue };
        if wired.iter().any(|(other, _)| *other == from_index) {
            let problem = format!("port \"{from}\" is the start of two paths; a packet leaves by one");
            errors.push(wrong(ErrorKind::Conflict, problem));
        }
        wired.push((from_index, to_index));
    }
    wired
}

/// An error about the name of a port, with those that there are.
fn with_names(error: ConfigError, name: &str, env: &Env<'_>) -> ConfigError {
    let names: Vec<&str> = env.ports.iter().map(|port| port.name.as_str()).collect();
    let error = error.allowed(format!("one of {}", names.join(", ")));
    match nearest(name, names) {
        Some(near) => error.remedy(format!("did you mean \"{near}\"?")),
        None => error.remedy(format!("declare it with port {{ name = \"{name}\", ... }}")),
    }
}

/// Reads the script of a configuration.
pub(crate) fn script(config: &LuaConfig, element: &Element, env: &Env<'_>) -> Result<Script, Vec<ConfigError>> {
    let wrong = |problem| element.error(ErrorKind::File, &element.path().field("file"), problem);
    Script::read(&config.file, access(config.raw_ffi), config.ways.len(), env, wrong)
}

/// What a script may do, from its key `raw_ffi`.
pub(crate) fn access(raw_ffi: bool) -> Access {
    if raw_ffi { Access::Raw } else { Access::Checked }
}

/// The switches that a script takes. What cannot be read (`None`) needs all of them, so that no mistake elsewhere opens a door.
pub(crate) fn switches(raw_ffi: Option<bool>) -> Vec<&'static str> {
    if raw_ffi.unwrap_or(true) { vec![ALLOW_STAGES, ALLOW_FFI] } else { vec![ALLOW_STAGES] }
}
