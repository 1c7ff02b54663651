//! The virtual machine in which a configuration script runs, and what the script finds there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mlua::{Function, HookTriggers, Lua, LuaOptions, StdLib, Table, Value as LuaValue, Variadic, VmState};
use weir_config::{ConfigError, Declaration, Document, ErrorKind, Path, Place, Value, nearest};

use crate::convert::Converter;
use crate::message::{chunk_name, chunk_number, translate};
use crate::protocol::{Included, Run};
use crate::strings;
use crate::work::Work;

/// What stays of the base library. Loading code, environments, coroutines and the collector go.
const BASE: [&str; 21] = [
    "_G",
    "_VERSION",
    "assert",
    "error",
    "getmetatable",
    "ipairs",
    "next",
    "pairs",
    "pcall",
    "rawequal",
    "rawget",
    "rawset",
    "select",
    "setmetatable",
    "tonumber",
    "tostring",
    "type",
    "unpack",
    "xpcall",
    "string",
    "table",
];
/// The other libraries that stay whole.
const LIBRARIES: [&str; 2] = ["math", "bit"];

/// How a sandbox reaches the world: by asking for files, and by giving up.
pub(crate) trait World {
    /// The text of a file below the script's folder.
    fn include(&mut self, path: &str) -> Included;

    /// Reports errors and ends the process: the script must not catch the end of its resources.
    fn give_up(&mut self, errors: Vec<ConfigError>) -> !;
}

/// What the functions of the sandbox share.
struct Shared<W> {
    world: W,
    document: Document,
    /// The files in the order in which they were read; see [`chunk_name`].
    files: Vec<String>,
    values_left: u64,
    includes_left: u32,
    include_depth: u32,
    run: Run,
}

impl<W> Shared<W> {
    fn error(&mut self, error: ConfigError) {
        // A loop that errs must not fill the memory; the excess is of no use to the reader either.
        if self.document.errors.len() < weir_config::Errors::KEPT {
            self.document.errors.push(error);
        }
    }
}

/// The virtual machine runs on one thread; the lock is there because its functions must be `Send`. It is never held
/// while Lua code runs.
type State<W> = Arc<Mutex<Shared<W>>>;

fn lock<W>(state: &State<W>) -> MutexGuard<'_, Shared<W>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a script and returns what it declares.
///
/// # Errors
/// What stopped the script, with the mistakes found before.
pub(crate) fn run<W: World + Send + 'static>(run: Run, world: W) -> Result<Document, Vec<ConfigError>> {
    let state = Arc::new(Mutex::new(Shared {
        world,
        document: Document { file: run.file.clone(), ..Document::default() },
        files: vec![run.file.clone()],
        values_left: run.limits.values,
        includes_left: run.limits.includes,
        include_depth: 0,
        run,
    }));
    let result = prepare(&state).and_then(|lua| {
        let text = std::mem::take(&mut lock(&state).run.text);
        lua.load(text).set_name(format!("={}", chunk_name(0))).set_mode(mlua::chunk::ChunkMode::Text).exec()
    });
    let mut shared = lock(&state);
    let document = std::mem::take(&mut shared.document);
    match result {
        Ok(()) => Ok(document),
        Err(error) => {
            let last = translate(&error, &shared.files);
            let mut errors = document.errors;
            // What follows from an unknown name on its own line is no second mistake.
            if !errors.iter().any(|error| error.kind == ErrorKind::Unknown && error.place == last.place) {
                errors.push(last);
            }
            Err(errors)
        }
    }
}

/// A virtual machine with the sandbox's globals only.
fn prepare<W: World + Send + 'static>(state: &State<W>) -> mlua::Result<Lua> {
    let work = {
        let limits = &lock(state).run.limits;
        let units = u64::from(limits.million_instructions).saturating_mul(MILLION.into());
        Work::new(units, usize::try_from(limits.memory).unwrap_or(usize::MAX))
    };
    let lua = bare(&work)?;
    let globals = lua.globals();
    globals.raw_set("print", printer(&lua, state)?)?;
    globals.raw_set("include", includer(&lua, state)?)?;
    let kinds = lock(state).run.kinds.clone();
    for kind in kinds {
        globals.raw_set(kind.as_str(), declarer(&lua, state, &kind)?)?;
    }
    refuse_unknown(&lua, &globals, state)?;
    count_instructions(&lua, state, work)?;
    Ok(lua)
}

/// A virtual machine with the base of the sandbox only. Its compiler is off: that leaves less to attack, and every
/// instruction is counted; what library functions do without any is taken from `work` too.
pub(crate) fn bare(work: &Work) -> mlua::Result<Lua> {
    let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::BIT | StdLib::JIT;
    let lua = Lua::new_with(libraries, LuaOptions::new())?;
    lua.load("jit.off() jit.flush()").exec()?;
    only_base(&lua, work)?;
    Ok(lua)
}

/// Leaves a virtual machine the base of the sandbox only.
pub(crate) fn only_base(lua: &Lua, work: &Work) -> mlua::Result<()> {
    let globals = lua.globals();
    remove_others(&globals)?;
    globals.get::<Table>("string")?.raw_set("dump", LuaValue::Nil)?;
    strings::bound(lua, work)
}

fn remove_others(globals: &Table) -> mlua::Result<()> {
    let mut others: Vec<LuaValue> = Vec::new();
    globals.for_each(|name: LuaValue, _: LuaValue| {
        let text = name.as_string().and_then(|name| name.to_str().ok());
        let stays = text.is_some_and(|text| BASE.contains(&&*text) || LIBRARIES.contains(&&*text));
        if !stays {
            others.push(name);
        }
        Ok(())
    })?;
    others.into_iter().try_for_each(|name| globals.raw_set(name, LuaValue::Nil))
}

/// The line of the script that is calling: the nearest frame that is Lua and not one of ours.
fn caller<W>(lua: &Lua, state: &State<W>) -> Place {
    let files = &lock(state).files;
    let frame = |level| {
        lua.inspect_stack(level, |debug| {
            let name = debug.source().short_src.map(|name| name.into_owned());
            let file = name.and_then(|name| files.get(chunk_number(&name)?).cloned());
            let line = debug.current_line().and_then(|line| u64::try_from(line).ok());
            file.zip(line).map(|(file, line)| Place::line(file, line))
        })
    };
    let frames = (0..).map_while(frame);
    frames.flatten().next().unwrap_or_else(|| Place::line(files.first().cloned().unwrap_or_default(), 0))
}

/// `port { ... }`: notes the table with the line of the call.
fn declarer<W: World + Send + 'static>(lua: &Lua, state: &State<W>, kind: &str) -> mlua::Result<Function> {
    let state = Arc::clone(state);
    let kind = kind.to_owned();
    lua.create_function(move |lua, argument: LuaValue| {
        let place = caller(lua, &state);
        let shared = &mut *lock(&state);
        let LuaValue::Table(_) = &argument else {
            let error = ConfigError::new(ErrorKind::WrongType, &place, &kind, "is called without a table")
                .remedy(format!("write {kind} {{ ... }}"));
            shared.error(error);
            return Ok(());
        };
        let mut converter = Converter::new(&place, shared.values_left, shared.run.limits.depth);
        let table = converter.value(&argument, &Path::root(&kind));
        shared.values_left = converter.values_left;
        let exhausted = converter.exhausted;
        let mut errors = converter.errors;
        // Lua's own order is that of a hash table.
        errors.sort_by(|one, other| one.path.cmp(&other.path));
        let incomplete = !errors.is_empty();
        errors.into_iter().for_each(|error| shared.error(error));
        if exhausted {
            let errors = std::mem::take(&mut shared.document.errors);
            shared.world.give_up(errors);
        }
        let table = table.unwrap_or(Value::Nil);
        shared.document.declarations.push(Declaration { kind: kind.clone(), table, place, incomplete });
        Ok(())
    })
}

/// `include "file.lua"`: runs a file from below the script's folder and returns what it returns.
fn includer<W: World + Send + 'static>(lua: &Lua, state: &State<W>) -> mlua::Result<Function> {
    let state = Arc::clone(state);
    lua.create_function(move |lua, path: LuaValue| {
        let place = caller(lua, &state);
        match ask(&state, &path) {
            Ok((text, number)) => {
                lock(&state).include_depth += 1;
                let name = format!("={}", chunk_name(number));
                let chunk = lua.load(text).set_name(name).set_mode(mlua::chunk::ChunkMode::Text);
                let result = chunk.call::<Variadic<LuaValue>>(());
                lock(&state).include_depth -= 1;
                result
            }
            Err(error) => {
                let error = ConfigError { place, ..*error };
                lock(&state).error(error);
                Ok(Variadic::new())
            }
        }
    })
}

/// Asks the world for a file; its text and its number among the files.
fn ask<W: World>(state: &State<W>, path: &LuaValue) -> Result<(String, usize), Box<ConfigError>> {
    let error = |kind, problem: String| ConfigError::new(kind, &Place::default(), "include", problem);
    let Some(path) = path.as_string().and_then(|path| path.to_str().ok()) else {
        let allowed = "the path of a file, as in include \"file.lua\"";
        return Err(error(ErrorKind::WrongType, "is called without a string".to_owned()).allowed(allowed).into());
    };
    let shared = &mut *lock(state);
    if shared.include_depth >= shared.run.limits.include_depth {
        let problem = format!("lies more than {} files deep", shared.include_depth);
        let error = error(ErrorKind::Limit, problem).found(&Value::from(&*path));
        return Err(error.remedy("look for files that include each other").into());
    }
    let Some(left) = shared.includes_left.checked_sub(1) else {
        let problem = format!("is called more than {} times", shared.run.limits.includes);
        return Err(error(ErrorKind::Limit, problem).into());
    };
    shared.includes_left = left;
    match shared.world.include(&path) {
        Included::Text { file, text } => {
            shared.files.push(file);
            Ok((text, shared.files.len().saturating_sub(1)))
        }
        Included::Refused(problem) => Err(error(ErrorKind::File, problem).found(&Value::from(&*path)).into()),
    }
}

/// `print(...)`: plain values, one line per call.
fn printer<W: World + Send + 'static>(lua: &Lua, state: &State<W>) -> mlua::Result<Function> {
    const LONGEST: usize = 1_000;
    let state = Arc::clone(state);
    lua.create_function(move |_, values: Variadic<LuaValue>| {
        let shared = &mut *lock(&state);
        if shared.document.messages.len() < usize::try_from(shared.run.limits.messages).unwrap_or(usize::MAX) {
            let words: Vec<String> = values.iter().map(printed).collect();
            shared.document.messages.push(words.join("\t").chars().take(LONGEST).collect());
        }
        Ok(())
    })
}

/// The value as `print` shows it; no metamethod is called.
fn printed(value: &LuaValue) -> String {
    match value {
        LuaValue::Nil => "nil".to_owned(),
        LuaValue::Boolean(boolean) => boolean.to_string(),
        LuaValue::Integer(integer) => integer.to_string(),
        LuaValue::Number(number) => number.to_string(),
        LuaValue::String(text) => text.to_string_lossy(),
        other => other.type_name().to_owned(),
    }
}

/// A global that was never set is a mistake, most often a word that is misspelt. It is told, and the script goes on,
/// so that the other mistakes are told too: the name gives a function that does nothing.
fn refuse_unknown<W: World + Send + 'static>(lua: &Lua, globals: &Table, state: &State<W>) -> mlua::Result<()> {
    let state = Arc::clone(state);
    let nothing = lua.create_function(|_, _: Variadic<LuaValue>| Ok(()))?;
    let index = lua.create_function(move |lua, (_, name): (LuaValue, LuaValue)| {
        let place = caller(lua, &state);
        let name = printed(&name);
        let shared = &mut *lock(&state);
        let known =
            shared.run.kinds.iter().map(String::as_str).chain(BASE).chain(LIBRARIES).chain(["include", "print"]);
        let near = nearest(&name, known).map(|near| format!("did you mean {near}?"));
        let error =
            ConfigError::new(ErrorKind::Unknown, &place, &name, "is nothing that can be declared, nor a variable")
                .allowed(format!("one of {}", shared.run.kinds.join(", ")))
                .remedy(near.unwrap_or_default());
        shared.error(error);
        Ok(nothing.clone())
    })?;
    let metatable = lua.create_table()?;
    metatable.raw_set("__index", index)?;
    metatable.raw_set("__metatable", false)?;
    globals.set_metatable(Some(metatable))
}

/// Instructions between two looks at how many are left.
const MILLION: u32 = 1_000_000;

/// Ends the script when it has run its instructions, at the line where it is then.
fn count_instructions<W: World + Send + 'static>(lua: &Lua, state: &State<W>, work: Work) -> mlua::Result<()> {
    let state = Arc::clone(state);
    let triggers = HookTriggers::new().every_nth_instruction(MILLION);
    lua.set_hook(triggers, move |lua, _| {
        if !work.take(MILLION.into()) {
            let place = caller(lua, &state);
            let shared = &mut *lock(&state);
            let million = shared.run.limits.million_instructions;
            let problem = format!("is still running after {million} million instructions");
            let error = ConfigError::new(ErrorKind::Limit, &place, "", problem).remedy("look for an endless loop");
            let mut errors = std::mem::take(&mut shared.document.errors);
            errors.push(error);
            shared.world.give_up(errors);
        }
        Ok(VmState::Continue)
    })
}
