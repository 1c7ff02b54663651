//! A stage that is written in Lua, for trying an idea before it becomes Rust.
//!
//! The script defines a function `run`, called for every batch with an object that stands for its packets, counted from 1:
//!
//! ```lua
//! local expired = 0
//! function run(batch)
//!   for i = 1, batch:count() do
//!     if batch:length(i) >= 34 and batch:u16(i, 12) == 0x0800 and batch:u8(i, 22) <= 1 then
//!       expired = expired + 1
//!       batch:way(i, 0)
//!     end
//!   end
//! end
//! ```
//!
//! | method | what it does |
//! |---|---|
//! | `batch:count()` | how many packets there are |
//! | `batch:now()`, `batch:time(i)` | the time, and when the packet came, in nanoseconds |
//! | `batch:length(i)`, `batch:port(i)` | the packet's bytes and where it came in |
//! | `batch:u8(i, offset)`, `u16`, `u32` | a number in network order |
//! | `batch:set_u8(i, offset, number)`, `set_u16`, `set_u32` | writes one |
//! | `batch:bytes(i, offset, count)`, `batch:set_bytes(i, offset, bytes)` | the same as a string |
//! | `batch:set_length(i, length)` | cuts the packet, or lengthens it with zeros |
//! | `batch:drop(i)`, `batch:way(i, n)` | drops it, or sends it by the indexed way `n`, counted from 0; else it goes straight on |
//! | `batch:pointer(i)` | the address of its bytes, valid until `run` returns; only with [`Access::Raw`] |
//!
//! An error in the script drops the batch's packets as `lua-error`; after [`ERRORS_ALLOWED`] of them the stage is disabled,
//! and drops all packets as `lua-disabled`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mlua::{AnyUserData, Function, HookTriggers, Lua, LuaOptions, StdLib, VmState};
use weir_config::ConfigError;
use weir_packet::Batch;
use weir_stage::{Declaration, Out, Stage};

use crate::frames::Frames;
use crate::message::{chunk_name, translate};
use crate::sandbox::bare;

weir_stage::ways! {
    /// Ways out of a stage written in Lua.
    pub enum Ways {
        /// The script let it pass.
        Out => way "out",
        /// The script dropped it.
        Dropped => drop "lua-drop",
        /// The script failed while it had this packet's batch, or made the packet longer than its buffer.
        Error => drop "lua-error",
        /// The script has failed too often and is not called any more.
        Disabled => drop "lua-disabled",
    }
}

/// How many batches may fail before the stage is disabled.
pub const ERRORS_ALLOWED: u64 = 3;

/// How many instructions the script may run for one batch, unless it has raw access: some 0.1 s.
const INSTRUCTIONS: u32 = 10_000_000;

/// What a script may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Only what the accessors do. It is interpreted, and its instructions are bounded.
    Checked,
    /// Anything: it has LuaJIT's `ffi` and the compiler, and can bring the process down as any native code can. Only for
    /// scripts that are trusted like the program itself, by a switch of its own.
    Raw,
}

/// What has gone wrong in a stage, for whoever looks from another thread.
#[derive(Debug, Default)]
pub struct Failures {
    count: AtomicU64,
    last: Mutex<Option<ConfigError>>,
}

impl Failures {
    /// How many batches failed.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The last failure.
    pub fn last(&self) -> Option<ConfigError> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, error: ConfigError) {
        self.count.fetch_add(1, Ordering::Relaxed);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }
}

/// A stage written in Lua, with a virtual machine of its own: each worker has another.
pub struct LuaStage {
    lua: Lua,
    run: Function,
    frames: AnyUserData,
    file: String,
    indexed: u8,
    failures: Arc<Failures>,
}

impl LuaStage {
    /// Loads a script. `file` is its name for messages, `indexed` the number of its indexed ways, `way[0]` and so on.
    ///
    /// # Errors
    /// That the script is no Lua, fails while it is loaded, or defines no function `run`.
    pub fn new(file: &str, text: &str, access: Access, indexed: u8) -> Result<Self, Vec<ConfigError>> {
        Self::load(file, text, access, indexed).map_err(|error| vec![translate(&error, &[file.to_owned()])])
    }

    fn load(file: &str, text: &str, access: Access, indexed: u8) -> mlua::Result<Self> {
        let lua = machine(access)?;
        bound(&lua, access)?;
        lua.load(text).set_name(format!("={}", chunk_name(0))).set_mode(mlua::chunk::ChunkMode::Text).exec()?;
        let missing = |_| mlua::Error::runtime("defines no function run(batch)");
        let run = lua.globals().raw_get::<Function>("run").map_err(missing)?;
        let frames = lua.create_userdata(Frames::new(indexed, access == Access::Raw))?;
        Ok(Self { run, frames, lua, file: file.to_owned(), indexed, failures: Arc::default() })
    }

    /// What has gone wrong, now and later.
    pub fn failures(&self) -> Arc<Failures> {
        Arc::clone(&self.failures)
    }

    /// Runs the script on a batch. Nothing of what it did to the packets counts if it fails.
    fn call(&mut self, batch: &mut Batch, out: &mut Out<'_>) -> mlua::Result<()> {
        self.frames.borrow_mut::<Frames>()?.load(batch, out.now());
        self.lua.set_app_data(InstructionsLeft(INSTRUCTIONS / HOOK_EVERY));
        self.run.call::<()>(&self.frames)?;
        self.frames.borrow::<Frames>()?.store(batch, out);
        Ok(())
    }
}

impl Stage for LuaStage {
    fn declare(&self) -> Declaration {
        Declaration::of::<Ways>().indexed("way", self.indexed.into())
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        if self.failures.count() >= ERRORS_ALLOWED {
            out.answer_all(batch.live(), Ways::Disabled);
            return;
        }
        if let Err(error) = self.call(batch, out) {
            self.failures.note(translate(&error, std::slice::from_ref(&self.file)));
            out.answer_all(batch.live(), Ways::Error);
        }
    }
}

/// How many hooks the script may see until its next call is over.
struct InstructionsLeft(u32);

/// Instructions between two looks at the bound.
const HOOK_EVERY: u32 = 100_000;

fn machine(access: Access) -> mlua::Result<Lua> {
    if access == Access::Checked {
        let lua = bare()?;
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
