//! The virtual machine of a stage, with its script loaded.

use std::time::Duration;

use mlua::chunk::{Chunk, ChunkMode};
use mlua::{Function, HookTriggers, Lua, LuaOptions, LuaString, StdLib, Table, Value, VmState};
use weir_config::ConfigError;
use weir_packet::{Batch, MAX_FRAME};
use weir_stage::Out;

use crate::flows;
use crate::message::{chunk_name, chunk_number, translate};
use crate::sandbox::{bare, only_base};
use crate::tables::{Finder, Tables};
use crate::view::View;
use crate::watchdog::{Watchdog, compiled_code_sees_hooks};
use crate::work::Work;

/// How many instructions the script may run for one batch, unless it has raw access: some 0.1 s. What library functions do
/// counts too.
const INSTRUCTIONS: u64 = 10_000_000;

/// How long it may take of a processor's time all the same: few instructions on long texts take long.
const TIME: Duration = Duration::from_secs(1);

/// How much memory the virtual machine of a script may use, in bytes, unless it has raw access.
const MEMORY: usize = 64 << 20;

/// What a script may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Only what the accessors do. Its work, its time and its memory are bounded.
    Checked,
    /// Anything: it has LuaJIT's `ffi`, and can bring the process down as any native code can. Only for scripts that are trusted like the
    /// program itself, by a switch of its own.
    Raw,
}

/// What a stage has for its script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) access: Access,
    /// Indexed ways.
    pub(crate) indexed: u8,
    /// Packets that it may hold.
    pub(crate) max_held: u32,
}

/// A virtual machine that has loaded a script.
pub(crate) struct Machine {
    /// Of what runs compiled and is bounded.
    watchdog: Option<Watchdog>,
    /// Switches the compiler on.
    compiler_on: Function,
    run: Function,
    batch: Table,
    /// It has tables, so that there may be keys.
    has_tables: bool,
    lua: Lua,
    /// The accessors know where it lies.
    view: View,
    work: Work,
    /// The script's name, for messages.
    pub(crate) file: String,
    pub(crate) terms: Terms,
}

impl Machine {
    /// Loads a script, to run it.
    ///
    /// # Errors
    /// That the script is no Lua, fails while it is loaded, or defines no function `run`.
    pub(crate) fn load(file: &str, text: &str, terms: Terms, tables: &Tables) -> Result<Self, Vec<ConfigError>> {
        let told = |error: mlua::Error| vec![translate(&error, &[file.to_owned()])];
        let mut machine = Self::prepare(file, text, terms, tables).map_err(told)?;
        if terms.access == Access::Checked && compiled_code_sees_hooks() {
            machine.compile_from_now_on().map_err(told)?;
        }
        Ok(machine)
    }

    /// Sees that a script loads.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub(crate) fn try_load(file: &str, text: &str) -> Result<(), Vec<ConfigError>> {
        let terms = Terms { access: Access::Checked, indexed: 0, max_held: 0 };
        let loaded = Self::prepare(file, text, terms, &Tables::default());
        loaded.map(drop).map_err(|error| vec![translate(&error, &[file.to_owned()])])
    }

    /// Sees that a script is Lua, without running it.
    ///
    /// # Errors
    /// Where it is not.
    pub(crate) fn compile(file: &str, text: &str) -> Result<(), Vec<ConfigError>> {
        let compiled =
            bare(&Work::new(INSTRUCTIONS, MEMORY)).and_then(|lua| chunk(&lua, text).into_function().map(drop));
        compiled.map_err(|error| vec![translate(&error, &[file.to_owned()])])
    }

    /// A machine that has loaded the script; a bounded one interprets, and its hook is set.
    fn prepare(file: &str, text: &str, terms: Terms, tables: &Tables) -> mlua::Result<Self> {
        let work = Work::new(INSTRUCTIONS, MEMORY);
        let view = View::new();
        let lua = with_ffi();
        let batch = accessors(&lua, &view, terms, Finder::new(view.seen(), tables))?;
        let compiler_on = lua.load("return jit.on").eval()?;
        if terms.access == Access::Checked {
            confine(&lua, &work)?;
            bound(&lua, work.clone())?;
        }
        chunk(&lua, text).exec()?;
        let missing = |_| mlua::Error::runtime("defines no function run(batch)");
        let run = lua.globals().raw_get::<Function>("run").map_err(missing)?;
        let (has_tables, file) = (!tables.is_empty(), file.to_owned());
        Ok(Self { watchdog: None, compiler_on, run, batch, has_tables, lua, view, work, file, terms })
    }

    /// Compiled code counts no instructions: from now on it is watched instead.
    fn compile_from_now_on(&mut self) -> mlua::Result<()> {
        self.watchdog = Some(Watchdog::new(&self.lua, HOOK_EVERY)?);
        self.compiler_on.call(())
    }

    /// What the script sees.
    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// Runs the script on a batch. What it did to the packets does not count if it fails: none may be sent. What becomes of them is in the view then;
    /// new packets are sent. How many of those could not be made.
    pub(crate) fn call(&mut self, batch: &mut Batch, out: &mut Out<'_>) -> mlua::Result<u64> {
        self.view.load(batch, out.now());
        if self.has_tables || self.view.was_asked() {
            self.view.forget();
        }
        self.work.renew(INSTRUCTIONS);
        let call = || self.run.call::<()>(&self.batch);
        let called = match &self.watchdog {
            Some(watchdog) => watchdog.during(call),
            None => call(),
        };
        if let Err(error) = called {
            self.tidy(&error);
            self.view.unmake();
            return Err(error);
        }
        Ok(if self.view.has_made() { self.view.send_made(batch, out) } else { 0 })
    }

    /// Frees what a script left behind that ran out of memory: else the next batch would find none either, since LuaJIT collects
    /// by what is in use and not by what is left.
    fn tidy(&self, error: &mlua::Error) {
        if is_out_of_memory(error) {
            // What goes wrong while it collects is that there is no memory, which the next batch tells.
            drop(self.lua.gc_collect());
        }
    }
}

fn is_out_of_memory(error: &mlua::Error) -> bool {
    match error {
        mlua::Error::MemoryError(_) => true,
        mlua::Error::CallbackError { cause, .. } | mlua::Error::WithContext { cause, .. } => is_out_of_memory(cause),
        _ => false,
    }
}

fn chunk<'a>(lua: &Lua, text: &'a str) -> Chunk<'a> {
    lua.load(text).set_name(format!("={}", chunk_name(0))).set_mode(ChunkMode::Text)
}

/// Instructions between two looks at the bounds: few, for each may take milliseconds on long texts.
const HOOK_EVERY: u32 = 10;

/// A virtual machine with all that stages may have.
fn with_ffi() -> Lua {
    let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::BIT | StdLib::JIT | StdLib::FFI;
    // SAFETY: with `ffi` a script can break any rule of memory. Whoever asks for raw access vouches for the script, as for a part of the
    // program. From others `confine` takes it before they run: what they can reach of it then are the accessors, which see to every address
    // that they form (`accessors.lua`).
    unsafe { Lua::unsafe_new_with(libraries, LuaOptions::new()) }
}

/// What a script calls on a batch that it sees by the view.
fn accessors(lua: &Lua, view: &View, terms: Terms, mut finder: Finder) -> mlua::Result<Table> {
    let look_up = lua.create_function_mut(move |_, name: LuaString| {
        Ok(match name.to_str() {
            Ok(name) => finder.look_up(&name),
            Err(_) => finder.look_up(&name.to_string_lossy()),
        })
    })?;
    let seen = view.seen();
    let hash = lua.create_function(move |_, seed: f64| {
        flows::hash(&seen, seed as u64);
        Ok(())
    })?;
    let ffi: Value = lua.load("return ffi or require 'ffi'").eval()?;
    let loaded = lua.load(include_str!("accessors.lua")).set_name("=accessors").set_mode(ChunkMode::Text);
    let Terms { access, indexed, max_held } = terms;
    let described = view.described(lua)?;
    loaded.call((ffi, described, access == Access::Raw, indexed, MAX_FRAME, max_held > 0, look_up, hash))
}

/// Leaves a script what it may have, and nothing that catches errors: it would catch the one that ends an endless loop.
fn confine(lua: &Lua, work: &Work) -> mlua::Result<()> {
    lua.load("jit.off() jit.flush()").exec()?;
    only_base(lua, work)?;
    for name in ["pcall", "xpcall"] {
        lua.globals().raw_set(name, Value::Nil)?;
    }
    lua.set_memory_limit(MEMORY).map(drop)
}

/// Ends a call that runs too long.
fn bound(lua: &Lua, work: Work) -> mlua::Result<()> {
    lua.set_hook(HookTriggers::new().every_nth_instruction(HOOK_EVERY), move |lua, _| {
        if work.take(HOOK_EVERY.into()) && work.is_in_time(TIME) {
            return Ok(VmState::Continue);
        }
        // A hook's error has no place of its own.
        let (file, line) = script_line(lua).unwrap_or_default();
        Err(mlua::Error::runtime(format!("{file}:{line}: is still running; look for an endless loop")))
    })
}

/// The line of the script that runs, or that called what runs.
fn script_line(lua: &Lua) -> Option<(String, usize)> {
    let frame = |level| {
        lua.inspect_stack(level, |debug| {
            let name = debug.source().short_src.map(|name| name.into_owned());
            name.filter(|name| chunk_number(name).is_some()).zip(debug.current_line())
        })
    };
    (0..).map_while(frame).flatten().next()
}
