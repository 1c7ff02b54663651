//! What ends scripts that never come to an end.
//!
//! Compiled code counts nothing. A thread looks at all virtual machines from time to time, and sends a signal to the thread of one that has
//! been in the same call ever since it last looked. The signal's handler sets a hook in that machine: compiled loops see it, where LuaJIT was
//! built to look (`LUAJIT_ENABLE_CHECKHOOK`), and go on interpreted, where the hook bounds them.
//!
//! LuaJIT changes what `lua_sethook` changes while it runs, and neither side locks: set from another thread, one hook in ten was lost for good.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering, compiler_fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use mlua::{Function, HookTriggers, Lua, LuaOptions, StdLib, VmState, ffi};

/// How often it looks.
const EVERY: Duration = Duration::from_millis(50);

/// What a late thread is sent. It does nothing where nobody handles it, and means nothing to others: no socket here has urgent data.
const SIGNAL: c_int = libc::SIGURG;

/// Every virtual machine that runs compiled.
static WATCHED: Mutex<Vec<Weak<Calls>>> = Mutex::new(Vec::new());

thread_local! {
    /// The hook of the machine that this thread is in a call of; else null.
    static RUNNING: AtomicPtr<Hook> = const { AtomicPtr::new(std::ptr::null_mut()) };
    /// This thread's number in Linux, once it has been asked for; else 0.
    static THREAD: Cell<i32> = const { Cell::new(0) };
}

/// A virtual machine that is watched until this is dropped.
#[derive(Debug)]
pub(crate) struct Watchdog {
    calls: Arc<Calls>,
    hook: Box<Hook>,
}

/// What the thread that looks knows of a machine.
#[derive(Debug, Default)]
struct Calls {
    /// Begun and ended: odd within one.
    count: AtomicU64,
    /// The thread of the last one.
    thread: AtomicI32,
    /// The count when it was last looked at; for the thread that looks.
    seen: AtomicU64,
}

/// What is set in which machine.
#[derive(Debug)]
struct Hook {
    state: *mut ffi::lua_State,
    hook: Option<ffi::lua_Hook>,
    every: c_int,
    is_set: AtomicBool,
}

// SAFETY: the state is used by the thread alone that is in a call of its machine or has just ended one: by `during`, or by the handler that
// interrupts it.
unsafe impl Send for Hook {}

impl Watchdog {
    /// Watches a machine. Its hook is the one that it has now; it is taken out, and set again when it is needed.
    ///
    /// # Errors
    /// Where no signal can be sent, or the machine does not tell its hook.
    pub(crate) fn new(lua: &Lua, every: u32) -> mlua::Result<Watchdog> {
        begin_to_look()?;
        let every = every.try_into().unwrap_or(1);
        let mut hook = Hook { state: std::ptr::null_mut(), hook: None, every, is_set: AtomicBool::new(false) };
        let take = |state| {
            hook.state = state;
            // SAFETY: the state of a machine that is there, and that `exec_raw` has locked.
            hook.hook = unsafe { ffi::lua_gethook(state) };
            hook.unset();
        };
        // SAFETY: `take` leaves the stack as it is, and raises no error.
        unsafe { lua.exec_raw::<()>((), take) }?;
        let calls = Arc::new(Calls::default());
        let mut all = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&calls));
        Ok(Watchdog { calls, hook: Box::new(hook) })
    }

    /// Runs a call of the machine's.
    #[inline]
    pub(crate) fn during<T>(&self, call: impl FnOnce() -> T) -> T {
        let count = self.calls.count.load(Ordering::Relaxed);
        RUNNING.with(|running| running.store((&raw const *self.hook).cast_mut(), Ordering::Relaxed));
        self.calls.thread.store(this_thread(), Ordering::Relaxed);
        self.calls.count.store(count.wrapping_add(1), Ordering::Relaxed);
        let _ended = Ended(self);
        call()
    }
}

/// Ends a call when it is dropped, so also where the call panics.
struct Ended<'a>(&'a Watchdog);

impl Drop for Ended<'_> {
    #[inline]
    fn drop(&mut self) {
        let Watchdog { calls, hook } = self.0;
        calls.count.store(calls.count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        RUNNING.with(|running| running.store(std::ptr::null_mut(), Ordering::Relaxed));
        // From here on no handler sets it.
        compiler_fence(Ordering::SeqCst);
        if hook.is_set.load(Ordering::Relaxed) {
            hook.unset();
        }
    }
}

impl Calls {
    /// Sends a signal to the thread of a call that has been running since the last look.
    fn look(&self) {
        let count = self.count.load(Ordering::Relaxed);
        if count % 2 == 1 && count == self.seen.load(Ordering::Relaxed) {
            self.send_signal();
        }
        self.seen.store(count, Ordering::Relaxed);
    }

    fn send_signal(&self) {
        let thread = self.thread.load(Ordering::Relaxed);
        // SAFETY: numbers only. Should the thread be gone and its number be another's by now, then that one's handler does no harm: it makes
        // a call of its own, if there is one, go on interpreted.
        unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), thread, SIGNAL) };
    }
}

impl Hook {
    /// Taken out and set once more where it was set: the handler may have interrupted LuaJIT while it noted what hooks there are, and what
    /// it noted then is noted anew only when that changes.
    fn set(&self) {
        self.unset();
        // SAFETY: the machine of a call of this thread's, as in `unset`.
        unsafe { ffi::lua_sethook(self.state, self.hook, ffi::LUA_MASKCOUNT, self.every) };
        self.is_set.store(true, Ordering::Relaxed);
    }

    fn unset(&self) {
        // SAFETY: the machine is there: whoever calls has it, or is in a call of it on this thread. LuaJIT lets handlers that interrupt it
        // set hooks at any time.
        unsafe { ffi::lua_sethook(self.state, None, 0, 0) };
        self.is_set.store(false, Ordering::Relaxed);
    }
}

/// What the signal does to the thread that it interrupts.
fn interrupt() {
    RUNNING.with(|running| {
        // SAFETY: null, or the hook of the `Watchdog` that this very thread is in `during` of.
        if let Some(hook) = unsafe { running.load(Ordering::Relaxed).as_ref() } {
            hook.set();
        }
    });
}

/// This thread's number in Linux.
fn this_thread() -> i32 {
    if THREAD.get() == 0 {
        THREAD.set(rustix::thread::gettid().as_raw_nonzero().get());
    }
    THREAD.get()
}

/// Starts to handle the signal, and the thread that sends it: once.
fn begin_to_look() -> mlua::Result<()> {
    static BEGUN: OnceLock<Result<(), String>> = OnceLock::new();
    let look = || {
        loop {
            std::thread::park_timeout(EVERY);
            let all: Vec<_> = {
                let all = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
                all.iter().filter_map(Weak::upgrade).collect()
            };
            all.iter().for_each(|one| one.look());
        }
    };
    let begin = || {
        // SAFETY: `interrupt` reads a value that needs no destructor and is the thread's own, and writes a few fields of LuaJIT's: it neither
        // allocates, nor locks, nor panics.
        unsafe { signal_hook::low_level::register(SIGNAL, interrupt) }?;
        std::thread::Builder::new().name("lua-watchdog".to_owned()).spawn(look).map(drop)
    };
    let begun = BEGUN.get_or_init(|| begin().map_err(|error| format!("cannot watch for endless loops: {error}")));
    begun.clone().map_err(mlua::Error::runtime)
}

/// Whether compiled loops see a hook, so that stages in Lua may be compiled: LuaJIT was built to look for it (`LUAJIT_ENABLE_CHECKHOOK`).
pub fn compiled_code_sees_hooks() -> bool {
    static SEES: OnceLock<bool> = OnceLock::new();
    *SEES.get_or_init(|| try_hook().unwrap_or(false))
}

/// Counts how often a hook is called in a loop that was compiled before it was set.
fn try_hook() -> mlua::Result<bool> {
    const TURNS: u32 = 20_000;
    let lua = Lua::new_with(StdLib::JIT, LuaOptions::new())?;
    let function: Function = lua.load("return function(n) while n > 0 do n = n - 1 end end").eval()?;
    function.call::<()>(TURNS)?;
    let called = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&called);
    lua.set_hook(HookTriggers::new().every_nth_instruction(1), move |_, _| {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(VmState::Continue)
    })?;
    function.call::<()>(TURNS)?;
    Ok(called.load(Ordering::Relaxed) > u64::from(TURNS) / 2)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail by panicking")]
#[allow(clippy::disallowed_methods, reason = "it is about scripts that run too long")]
mod tests {
    use std::time::Instant;

    use super::*;

    /// The build sets what it takes: `.cargo/config.toml`.
    #[test]
    fn scripts_are_compiled_here() {
        assert!(compiled_code_sees_hooks());
    }

    /// Signals at any time, also while a loop is being compiled or the hook runs: each of these loops ends.
    #[test]
    fn no_hook_is_lost() {
        const LOOPS: [&str; 5] = [
            "while true do end",
            "for i = 1, 1 / 0 do local n = i end",
            "local function f(n) return n + 1 end local n = 0 while true do n = f(n) end",
            "local function f() return f() end f()",
            "local n = 0 repeat local t = { n } n = t[1] + 1 until n < 0",
        ];
        let hooks = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&hooks);
        let lua = Lua::new_with(StdLib::JIT, LuaOptions::new()).unwrap();
        let end = HookTriggers::new().every_nth_instruction(10);
        lua.set_hook(end, move |_, _| match counter.fetch_add(1, Ordering::Relaxed) {
            0..100 => Ok(VmState::Continue),
            _ => Err(mlua::Error::runtime("ended by the hook")),
        })
        .unwrap();
        let watchdog = Watchdog::new(&lua, 10).unwrap();
        let ended = AtomicU64::new(0);
        let total = 400 * LOOPS.len() as u64;
        let begun = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while ended.load(Ordering::Relaxed) < total {
                    watchdog.calls.send_signal();
                    std::thread::sleep(Duration::from_micros(20));
                    if begun.elapsed() > Duration::from_secs(60) {
                        eprintln!("a loop has not ended: {} of {total} have", ended.load(Ordering::Relaxed));
                        // What runs in there cannot be stopped otherwise.
                        std::process::abort();
                    }
                }
            });
            for text in LOOPS.iter().cycle().take(total as usize) {
                hooks.store(0, Ordering::Relaxed);
                // Compiled anew each time.
                let function = lua.load(*text).into_function().unwrap();
                let error = watchdog.during(|| function.call::<()>(())).unwrap_err();
                assert!(error.to_string().contains("ended by the hook"), "{text}: {error}");
                ended.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
}
