//! Cores: which ones a thread may run on, and where it does.

use crate::engine::EngineError;

/// Lets the calling thread run on any core that it may use but those, if that leaves any: workers are not to be disturbed.
pub(crate) fn keep_off(busy: &[usize]) {
    let Ok(mut cores) = rustix::thread::sched_getaffinity(None) else { return };
    busy.iter().filter(|core| **core < rustix::thread::CpuSet::MAX_CPU).for_each(|core| cores.unset(*core));
    if cores.count() > 0 {
        // Where it is not allowed, the thread stays where it is, and the workers lose a little time to it.
        let _stays = rustix::thread::sched_setaffinity(None, &cores);
    }
}

/// The cores that the calling thread may run on, ascending; core 0 where that cannot be told. A container may have some of the
/// machine's cores only, and not the first ones.
pub fn usable_cores() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return vec![0] };
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect()
}

/// The last of the [`usable_cores`]: where tools measure, since the first ones serve the machine's interrupts.
pub fn last_core() -> usize {
    usable_cores().last().copied().unwrap_or(0)
}

/// Pins the calling thread to a core.
///
/// # Errors
///
/// There is no such core, or it may not be used.
pub fn pin(core: usize) -> Result<(), EngineError> {
    let wrong = |cause: String| EngineError::Core { core, cause };
    if core >= rustix::thread::CpuSet::MAX_CPU {
        return Err(wrong("there is no such core".to_owned()));
    }
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    rustix::thread::sched_setaffinity(None, &set).map_err(|error| wrong(error.to_string()))
}
