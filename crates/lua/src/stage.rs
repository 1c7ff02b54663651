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
//! | `batch:key(i, number)`, `batch:key6(i, offset)`, `batch:look_up(name)`, `batch:found(i)` | gives packets keys, looks all of them up in a table, tells what was found |
//! | `batch:hash(seed)` | finds the flow hash of all packets |
//! | `batch:set_length(i, length)` | cuts the packet, or lengthens it with zeros |
//! | `batch:emit(i, bytes, n)`, `batch:copy(i, n)` | makes a new packet, or a copy, which goes by way `n`, or straight on |
//! | `batch:hold(i, nanoseconds)`, `batch:waited(i)` | keeps the packet and hands it to `run` again later; tells for how long it was kept |
//! | `batch:drop(i)`, `batch:way(i, n)` | drops it, or sends it by the indexed way `n`, counted from 0; else it goes straight on |
//! | `batch:pointer(i)` | the address of its bytes, valid until `run` returns; only with [`Access::Raw`] |
//!
//! An error in the script drops the batch's packets as `lua-error`; after [`ERRORS_ALLOWED`] of them the stage is disabled,
//! and drops all packets as `lua-disabled`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_config::ConfigError;
use weir_packet::{Batch, Held, LaneId, Slots};
use weir_stage::{Declaration, Out, Stage};

use crate::machine::{Machine, Terms};
use crate::message::translate;
use crate::tables::Tables;
use crate::view::Verdict;
use crate::waiting::Waiting;

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
        /// The script made it, of its own or as a copy.
        Made => create "lua-made",
    }
}

/// How many batches may fail before the stage is disabled.
pub const ERRORS_ALLOWED: u64 = 3;

/// What has gone wrong in a stage, for whoever looks from another thread.
#[derive(Debug, Default)]
pub struct Failures {
    count: AtomicU64,
    unmade: AtomicU64,
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

    /// How many packets the script made for which there was no buffer.
    pub fn unmade(&self) -> u64 {
        self.unmade.load(Ordering::Relaxed)
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
    /// What it holds; nothing where it may not.
    holding: Option<Holding>,
}

/// The packets that a script holds, and the batch in which they come back to it.
struct Holding {
    waiting: Waiting,
    back: Box<Batch>,
}

/// Batches of packets that come back in one poll.
const BATCHES_BACK: usize = 16;

impl LuaStage {
    /// Loads a script. `file` is its name for messages, `indexed` the number of its indexed ways, `way[0]` and so on.
    ///
    /// # Errors
    /// That the script is no Lua, fails while it is loaded, or defines no function `run`.
    pub fn new(file: &str, text: &str, access: Access, indexed: u8) -> Result<Self, Vec<ConfigError>> {
        Self::with_tables(file, text, access, indexed, &Tables::default())
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
        tables: &Tables,
    ) -> Result<Self, Vec<ConfigError>> {
        Self::with_terms(file, text, Terms { access, indexed, max_held: 0 }, tables)
    }

    /// The same for a script that may hold so many packets, which go through [`Stage::poll`].
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_held(
        file: &str,
        text: &str,
        access: Access,
        indexed: u8,
        max_held: u32,
    ) -> Result<Self, Vec<ConfigError>> {
        Self::with_terms(file, text, Terms { access, indexed, max_held }, &Tables::default())
    }

    fn with_terms(file: &str, text: &str, terms: Terms, tables: &Tables) -> Result<Self, Vec<ConfigError>> {
        Ok(Self::seated(Machine::load(file, text, terms, tables)?, Arc::default()))
    }

    /// A stage that can be handed another machine, on the same terms, by way of its seat.
    pub(crate) fn seated(machine: Machine, seat: Arc<Seat>) -> Self {
        let max_held = machine.terms.max_held;
        let holding = (max_held > 0).then(|| Holding { waiting: Waiting::new(max_held), back: Batch::new() });
        Self { machine, errors: 0, seat, holding }
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

/// What a stage on such terms declares.
pub(crate) fn declaration(terms: Terms) -> Declaration {
    let declared = Declaration::of::<Ways>().indexed("way", terms.indexed.into()).reads(&[LaneId::Port, LaneId::Time]);
    if terms.max_held > 0 { declared.polled() } else { declared }
}

impl LuaStage {
    /// Notes that the script failed.
    #[cold]
    fn fail(&mut self, error: &mlua::Error) {
        self.errors += 1;
        self.seat.failures.note(translate(error, std::slice::from_ref(&self.machine.file)));
        self.seat.failures.disabled.store(self.errors >= ERRORS_ALLOWED, Ordering::Relaxed);
    }

    /// Notes that new packets could not be made.
    fn note_unmade(&self, unmade: u64) {
        if unmade > 0 {
            self.seat.failures.unmade.fetch_add(unmade, Ordering::Relaxed);
        }
    }

    /// Takes packets out of the stage's own batch, to hold them. Where none are held, only a script with raw access can ask for it.
    #[cold]
    fn hold(&mut self, held: u64, batch: &mut Batch, out: &mut Out<'_>) {
        let live = batch.live();
        for slot in Slots(held) {
            let nanos = self.machine.view().span_in(slot, live);
            match (batch.hold(slot), &mut self.holding) {
                (Some(held), Some(holding)) => wait(held, nanos, &mut holding.waiting, out),
                (Some(held), None) => out.send(held, Ways::Error),
                (None, _) => {}
            }
        }
    }

    /// Hands the script a batch of packets that have come back. All of them leave, or are held again.
    fn run_back(&mut self, holding: &mut Holding, out: &mut Out<'_>) {
        let Holding { waiting, back } = holding;
        let now = out.now();
        while back.room() > 0
            && let Some(one) = waiting.pop(now)
        {
            match back.restore(one.held) {
                Ok(_) => self.machine.view().has_waited(back.len(), Some(now.saturating_sub(one.since))),
                // There is room.
                Err(held) => out.send(held, Ways::Out),
            }
        }
        let count = back.len();
        if self.errors >= ERRORS_ALLOWED {
            send_all(back, out, Ways::Disabled);
        } else {
            self.machine.view().has_places(waiting.room());
            let called = self.machine.call(back, out);
            match called {
                Ok(unmade) => {
                    self.note_unmade(unmade);
                    self.machine.view().store_back(back, |held, verdict, nanos| match verdict {
                        Verdict::Out => out.send(held, Ways::Out),
                        Verdict::Dropped => out.send(held, Ways::Dropped),
                        Verdict::Error => out.send(held, Ways::Error),
                        Verdict::Way(n) => out.send_indexed(held, n),
                        Verdict::Hold => wait(held, nanos, waiting, out),
                    });
                }
                Err(error) => {
                    self.fail(&error);
                    send_all(back, out, Ways::Error);
                }
            }
        }
        (1..=count).for_each(|n| self.machine.view().has_waited(n, None));
    }
}

/// Lets a packet wait for so many nanoseconds. The script is given no more places than there are, unless it has raw access.
fn wait(held: Held, nanos: u64, waiting: &mut Waiting, out: &mut Out<'_>) {
    if let Err(held) = waiting.push(held, out.now(), nanos) {
        out.send(held, Ways::Error);
    }
}

/// Sends all packets of a batch of held ones to the same reason.
fn send_all(batch: &mut Batch, out: &mut Out<'_>, reason: Ways) {
    for slot in batch.slots() {
        if let Some(held) = batch.hold(slot) {
            out.send(held, reason);
        }
    }
}

impl Stage for LuaStage {
    fn declare(&self) -> Declaration {
        declaration(self.machine.terms)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        self.adopt();
        if self.errors >= ERRORS_ALLOWED {
            out.answer_all(batch.live(), Ways::Disabled);
            return;
        }
        if let Some(holding) = &self.holding {
            self.machine.view().has_places(holding.waiting.room());
        }
        match self.machine.call(batch, out) {
            Ok(unmade) => {
                self.note_unmade(unmade);
                let held = self.machine.view().store(batch, out);
                if held != 0 {
                    self.hold(held, batch, out);
                }
            }
            Err(error) => {
                self.fail(&error);
                out.answer_all(batch.live(), Ways::Error);
            }
        }
    }

    fn poll(&mut self, out: &mut Out<'_>) -> u64 {
        let Some(mut holding) = self.holding.take() else { return u64::MAX };
        let mut batches = 0;
        while holding.waiting.next_at() <= out.now() && batches < BATCHES_BACK {
            self.adopt();
            self.run_back(&mut holding, out);
            batches += 1;
        }
        let next = holding.waiting.next_at();
        self.holding = Some(holding);
        next
    }

    fn held(&self) -> u64 {
        self.holding.as_ref().map_or(0, |holding| holding.waiting.len() as u64)
    }

    fn clear(&mut self, give: &mut dyn FnMut(Held)) {
        if let Some(holding) = &mut self.holding {
            holding.waiting.clear(give);
        }
    }
}
