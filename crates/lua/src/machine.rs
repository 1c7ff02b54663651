//! The virtual machine of a stage, with its script loaded.

use std::time::Duration;

use mlua::chunk::{Chunk, ChunkMode};
use mlua::{AnyUserData, Function, HookTriggers, Lua, LuaOptions, StdLib, VmState};
use weir_config::ConfigError;
use weir_packet::Batch;
use weir_stage::Out;

use crate::frames::Frames;
use crate::message::{chunk_name, chunk_number, translate};
use crate::sandbox::bare;
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
    /// Only what the accessors do. It is interpreted, and its instructions and its memory are bounded.
    Checked,
    /// Anything: it has LuaJIT's `ffi` and the compiler, and can bring the process down as any native code can. Only for
    /// scripts that are trusted like the program itself, by a switch of its own.
    Raw,
}

/// A virtual machine that has loaded a script.
pub(crate) struct Machine {
    lua: Lua,
    run: Function,
    frames: AnyUserData,
    work: Work,
    /// The script's name, for messages.
    pub(crate) file: String,
    /// How many indexed ways it knows.
    pub(crate) indexed: u8,
}

impl Machine {
    /// Loads a script.
    ///
    /// # Errors
    /// That the script is no Lua, fails while it is loaded, or defines no function `run`.
    pub(crate) fn load(file: &str, text: &str, access: Access, indexed: u8) -> Result<Self, Vec<ConfigError>> {
        let file = file.to_owned();
        Self::prepare(&file, text, access, indexed).map_err(|error| vec![translate(&error, &[file])])
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

    fn prepare(file: &str, text: &str, access: Access, indexed: u8) -> mlua::Result<Self> {
        let work = Work::new(INSTRUCTIONS, MEMORY);
        let lua = machine(access, &work)?;
        bound(&lua, access, work.clone())?;
        chunk(&lua, text).exec()?;
        let missing = |_| mlua::Error::runtime("defines no function run(batch)");
        let run = lua.globals().raw_get::<Function>("run").map_err(missing)?;
        let frames = lua.create_userdata(Frames::new(indexed, access == Access::Raw))?;
        Ok(Self { run, frames, work, lua, file: file.to_owned(), indexed })
    }

    /// Runs the script on a batch. Nothing of what it did to the packets counts if it fails.
    pub(crate) fn call(&mut self, batch: &mut Batch, out: &mut Out<'_>) -> mlua::Result<()> {
        self.frames.borrow_mut::<Frames>()?.load(batch, out.now());
        self.work.renew(INSTRUCTIONS);
        if let Err(error) = self.run.call::<()>(&self.frames) {
            self.tidy(&error);
            return Err(error);
        }
        self.frames.borrow::<Frames>()?.store(batch, out);
        Ok(())
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

/// Instructions between two looks at the bounds.
const HOOK_EVERY: u32 = 1_000;

fn machine(access: Access, work: &Work) -> mlua::Result<Lua> {
    if access == Access::Checked {
        let lua = bare(work)?;
        lua.set_memory_limit(MEMORY)?;
        // What catches errors would catch the one that ends an endless loop.
        for name in ["pcall", "xpcall"] {
            lua.globals().raw_set(name, mlua::Value::Nil)?;
        }
        return Ok(lua);
    }
    let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::BIT | StdLib::JIT | StdLib::FFI;
    // SAFETY: with `ffi` the script can break any rule of memory. Whoever asks for raw access vouches for the script, as
    // for a part of the program.
    Ok(unsafe { Lua::unsafe_new_with(libraries, LuaOptions::new()) })
}

/// Ends a call that runs too long. The compiler's code has no hooks, so that a script with raw access is not bound.
fn bound(lua: &Lua, access: Access, work: Work) -> mlua::Result<()> {
    if access == Access::Raw {
        return Ok(());
    }
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
