//! Who ends scripts that never come to an end.
//!
//! Compiled code counts nothing. A thread looks at all virtual machines from time to time, and sets a hook in one that has been in the same
//! call ever since it last looked: compiled loops see that, where LuaJIT was built to look (`LUAJIT_ENABLE_CHECKHOOK`), and go on interpreted,
//! where the hook bounds them.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use mlua::{Function, HookTriggers, Lua, LuaOptions, StdLib, VmState, ffi};

/// How often it looks.
const EVERY: Duration = Duration::from_millis(50);

/// Every virtual machine that runs compiled.
static WATCHED: Mutex<Vec<Weak<Watched>>> = Mutex::new(Vec::new());

/// A virtual machine that is watched, until this is dropped: so before the machine is.
#[derive(Debug)]
pub(crate) struct Watch(Arc<Watched>);

#[derive(Debug)]
struct Watched {
    /// Calls begun and ended: odd within one.
    calls: AtomicU64,
    /// Whether the hook is set.
    is_set: AtomicBool,
    hook: Mutex<Hook>,
}

/// What is set in which machine.
#[derive(Debug)]
struct Hook {
    /// Null once the machine may be gone.
    state: *mut ffi::lua_State,
    hook: Option<ffi::lua_Hook>,
    every: c_int,
    /// The calls when it was last looked at.
    seen: u64,
}

// SAFETY: the state is used only to set a hook, which LuaJIT lets any thread do at any time while the machine is there.
unsafe impl Send for Hook {}

impl Watch {
    /// Watches a machine. Its hook is the one that it has now; it is taken out, and set again when it is needed.
    pub(crate) fn new(lua: &Lua, every: u32) -> mlua::Result<Watch> {
        let mut found = Hook { state: std::ptr::null_mut(), hook: None, every: every.try_into().unwrap_or(1), seen: 0 };
        let take = |state| {
            found.state = state;
            // SAFETY: a state in use by this thread.
            found.hook = unsafe { ffi::lua_gethook(state) };
        };
        // SAFETY: reads a pointer.
        unsafe { lua.exec_raw::<()>((), take) }?;
        found.set(false);
        let watched = Watched { calls: AtomicU64::new(0), is_set: AtomicBool::new(false), hook: Mutex::new(found) };
        let watched = Arc::new(watched);
        begin_to_look();
        let mut all = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&watched));
        Ok(Watch(watched))
    }

    /// Runs a call of the machine's.
    #[inline]
    pub(crate) fn during<T>(&self, call: impl FnOnce() -> T) -> T {
        let calls = self.0.calls.load(Ordering::Relaxed);
        self.0.calls.store(calls.wrapping_add(1), Ordering::Relaxed);
        let result = call();
        self.0.calls.store(calls.wrapping_add(2), Ordering::Relaxed);
        // Set after this look, it is taken out after the next call, which it does not hurt.
        if self.0.is_set.load(Ordering::Relaxed) {
            self.0.lock().set(false);
            self.0.is_set.store(false, Ordering::Relaxed);
        }
        result
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.lock().state = std::ptr::null_mut();
    }
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, Hook> {
        self.hook.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self) {
        let mut hook = self.lock();
        let calls = self.calls.load(Ordering::Relaxed);
        if calls % 2 == 1 && calls == hook.seen {
            hook.set(true);
            self.is_set.store(true, Ordering::Relaxed);
        }
        hook.seen = calls;
    }
}

impl Hook {
    fn set(&self, is_set: bool) {
        if self.state.is_null() {
            return;
        }
        let (hook, mask) = if is_set { (self.hook, ffi::LUA_MASKCOUNT) } else { (None, 0) };
        // SAFETY: the machine is there, for its `Watch` empties `state` before it goes, under the lock that is held here.
        unsafe { ffi::lua_sethook(self.state, hook, mask, self.every) };
    }
}

/// Starts the thread, once.
fn begin_to_look() {
    static THREAD: OnceLock<()> = OnceLock::new();
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
    THREAD.get_or_init(|| {
        // Without the thread a script that never ends is one of the worker's that never end: the engine tells of those.
        drop(std::thread::Builder::new().name("lua-watch".to_owned()).spawn(look));
    });
}

/// Whether compiled loops see a hook: LuaJIT was built to look for it.
pub(crate) fn compiled_code_sees_hooks() -> bool {
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
mod tests {
    use super::*;

    /// The build sets what it takes: `.cargo/config.toml`.
    #[test]
    fn scripts_are_compiled_here() {
        assert!(compiled_code_sees_hooks());
    }
}
