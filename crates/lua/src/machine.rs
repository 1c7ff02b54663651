//! The virtual machine of a stage, with its script loaded.

use mlua::chunk::{Chunk, ChunkMode};
use mlua::{AnyUserData, Function, HookTriggers, Lua, LuaOptions, StdLib, VmState};
use weir_config::ConfigError;
use weir_packet::Batch;
use weir_stage::Out;

use crate::frames::Frames;
use crate::message::{chunk_name, translate};
use crate::sandbox::bare;

/// How many instructions the script may run for one batch, unless it has raw access: some 0.1 s.
const INSTRUCTIONS: u32 = 10_000_000;

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
        let compiled = bare().and_then(|lua| chunk(&lua, text).into_function().map(drop));
        compiled.map_err(|error| vec![translate(&error, &[file.to_owned()])])
    }

    fn prepare(file: &str, text: &str, access: Access, indexed: u8) -> mlua::Result<Self> {
        let lua = machine(access)?;
        bound(&lua, access)?;
        chunk(&lua, text).exec()?;
        let missing = |_| mlua::Error::runtime("defines no function run(batch)");
        let run = lua.globals().raw_get::<Function>("run").map_err(missing)?;
        let frames = lua.create_userdata(Frames::new(indexed, access == Access::Raw))?;
        Ok(Self { run, frames, lua, file: file.to_owned(), indexed })
    }

    /// Runs the script on a batch. Nothing of what it did to the packets counts if it fails.
    pub(crate) fn call(&mut self, batch: &mut Batch, out: &mut Out<'_>) -> mlua::Result<()> {
        self.frames.borrow_mut::<Frames>()?.load(batch, out.now());
        self.lua.set_app_data(InstructionsLeft(INSTRUCTIONS / HOOK_EVERY));
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

/// How many hooks the script may see until its next call is over.
struct InstructionsLeft(u32);

/// Instructions between two looks at the bound.
const HOOK_EVERY: u32 = 100_000;

fn machine(access: Access) -> mlua::Result<Lua> {
    if access == Access::Checked {
        let lua = bare()?;
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
fn bound(lua: &Lua, access: Access) -> mlua::Result<()> {
    if access == Access::Raw {
        return Ok(());
    }
    lua.set_app_data(InstructionsLeft(INSTRUCTIONS / HOOK_EVERY));
    lua.set_hook(HookTriggers::new().every_nth_instruction(HOOK_EVERY), |lua, debug| {
        let left = lua.app_data_mut::<InstructionsLeft>();
        let rest = left.and_then(|mut left| {
            left.0 = left.0.checked_sub(1)?;
            Some(())
        });
        match rest {
            Some(()) => Ok(VmState::Continue),
            None => {
                // A hook's error has no place of its own.
                let (file, line) = (debug.source().short_src.unwrap_or_default(), debug.current_line().unwrap_or(0));
                Err(mlua::Error::runtime(format!("{file}:{line}: is still running; look for an endless loop")))
            }
        }
    })
}
