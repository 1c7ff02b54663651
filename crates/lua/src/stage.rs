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
//! | `batch:sum(i, offset, count)` | the sum of RFC 1071 over bytes; `batch:replace_u16(i, offset, number, checksum)` changes a number and the checksum over it |
//! | `batch:key(i, number)`, `batch:look_up(name)`, `batch:found(i)` | gives packets keys, looks all of them up in a table, tells what was found |
//! | `batch:set_length(i, length)` | cuts the packet, or lengthens it with zeros |
//! | `batch:drop(i)`, `batch:way(i, n)` | drops it, or sends it by the indexed way `n`, counted from 0; else it goes straight on |
//! | `batch:pointer(i)` | the address of its bytes, valid until `run` returns; only with [`Access::Raw`] |
//!
//! An error in the script drops the batch's packets as `lua-error`; after [`ERRORS_ALLOWED`] of them the stage is disabled,
//! and drops all packets as `lua-disabled`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_config::ConfigError;
use weir_packet::{Batch, LaneId};
use weir_stage::{Declaration, Out, Stage};

use crate::machine::Machine;
use crate::message::translate;
use crate::tables::Tables;

pub use crate::machine::Access;

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

/// What has gone wrong in a stage, for whoever looks from another thread.
#[derive(Debug, Default)]
pub struct Failures {
    count: AtomicU64,
    disabled: AtomicBool,
    /// Whether that it is disabled was told.
    told: AtomicBool,
    last: Mutex<Option<ConfigError>>,
}

impl Failures {
    /// How many batches failed.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether the script is not called any more.
    pub fn disabled(&self) -> bool {
        self.disabled.load(Ordering::Relaxed)
    }

    /// Whether the script is not called any more, and that was not told before.
    pub(crate) fn is_news(&self) -> bool {
        let disabled = self.disabled();
        !self.told.swap(disabled, Ordering::Relaxed) && disabled
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

/// What a stage shares with the control side.
#[derive(Default)]
pub(crate) struct Seat {
    pub(crate) failures: Arc<Failures>,
    /// Whether `machine` is newer than the stage's own.
    waiting: AtomicBool,
    /// The next machine, and, once the stage has taken it, the one it had before: it is not dropped on the fast path.
    machine: Mutex<Option<Machine>>,
}

impl Seat {
    /// Hands the stage a machine to run from its next batch on.
    pub(crate) fn hand(&self, machine: Machine) {
        *self.machine.lock().unwrap_or_else(PoisonError::into_inner) = Some(machine);
        // Pairs with the load in `LuaStage::adopt`, so that the lock is looked at no earlier than it is filled.
        self.waiting.store(true, Ordering::Release);
    }
}

/// A stage written in Lua, with a virtual machine of its own: each worker has another.
pub struct LuaStage {
    machine: Machine,
    /// Batches that failed since the script was loaded.
    errors: u64,
    seat: Arc<Seat>,
}

impl LuaStage {
    /// Loads a script. `file` is its name for messages, `indexed` the number of its indexed ways, `way[0]` and so on.
    ///
    /// # Errors
    /// That the script is no Lua, fails while it is loaded, or defines no function `run`.
    pub fn new(file: &str, text: &str, access: Access, indexed: u8) -> Result<Self, Vec<ConfigError>> {
        Self::with_tables(file, text, access, indexed, &Arc::default())
    }

    /// The same for a script that looks packets up in tables.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_tables(
        file: &str,
        text: &str,
        access: Access,
        indexed: u8,
        tables: &Arc<Tables>,
    ) -> Result<Self, Vec<ConfigError>> {
        Ok(Self::seated(Machine::load(file, text, access, indexed, tables)?, Arc::default()))
    }

    /// A stage that can be handed another machine, with as many indexed ways, by way of its seat.
    pub(crate) fn seated(machine: Machine, seat: Arc<Seat>) -> Self {
        Self { machine, errors: 0, seat }
    }

    /// What has gone wrong, now and later.
    pub fn failures(&self) -> Arc<Failures> {
        Arc::clone(&self.seat.failures)
    }

    /// Goes on with the machine that waits in the seat, if one does and nobody is busy there just now.
    fn adopt(&mut self) {
        if !self.seat.waiting.load(Ordering::Acquire) {
            return;
        }
        if let Ok(mut seated) = self.seat.machine.try_lock()
            && let Some(next) = seated.as_mut()
        {
            std::mem::swap(&mut self.machine, next);
            self.seat.waiting.store(false, Ordering::Relaxed);
            self.seat.failures.disabled.store(false, Ordering::Relaxed);
            self.errors = 0;
        }
    }
}

/// What a stage with so many indexed ways declares.
pub(crate) fn declaration(indexed: u8) -> Declaration {
    Declaration::of::<Ways>().indexed("way", indexed.into()).reads(&[LaneId::Port, LaneId::Time])
}

impl Stage for LuaStage {
    fn declare(&self) -> Declaration {
        declaration(self.machine.indexed)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        self.adopt();
        if self.errors >= ERRORS_ALLOWED {
            out.answer_all(batch.live(), Ways::Disabled);
            return;
        }
        if let Err(error) = self.machine.call(batch, out) {
            self.errors += 1;
            self.seat.failures.note(translate(&error, std::slice::from_ref(&self.machine.file)));
            self.seat.failures.disabled.store(self.errors >= ERRORS_ALLOWED, Ordering::Relaxed);
            out.answer_all(batch.live(), Ways::Error);
        }
    }
}
