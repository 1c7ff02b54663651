//! Taking every privilege and every means from the child before it reads a script.

use std::io;

use rustix::process::{Gid, Resource, Rlimit, Uid, getrlimit, getuid, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

use crate::limits::Limits;

/// The user and group that own nothing, by convention.
const NOBODY: u32 = 65_534;

/// Leaves this process no way to act on anything but its standard streams. It must have one thread only.
///
/// # Errors
/// Which step failed; the script must not be run then.
pub(crate) fn confine(limits: &Limits) -> Result<(), String> {
    close_inherited();
    let step = |what: &'static str| move |error: rustix::io::Errno| format!("cannot {what}: {error}");
    set_no_new_privs(true).map_err(step("renounce new privileges"))?;
    bound(limits).map_err(|error| format!("cannot bound its resources: {error}"))?;
    if getuid().is_root() {
        drop_root().map_err(step("drop root"))?;
    }
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).map_err(step("drop capabilities"))
}

/// Becomes nobody. In a user namespace that does not map nobody there is none to become: root is no more than
/// its owner there, and loses its capabilities all the same.
fn drop_root() -> rustix::io::Result<()> {
    use rustix::io::Errno;
    let become_nobody = || {
        let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        set_thread_groups(&[])?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)
    };
    match become_nobody() {
        Err(Errno::INVAL | Errno::PERM) => Ok(()),
        other => other,
    }
}

/// Bounds memory and time; forbids files, processes and core dumps. With every descriptor number that it may use in
/// use, the process can open no file and no socket either. Where it was given less (`ulimit`), less it is.
fn bound(limits: &Limits) -> io::Result<()> {
    let memory = used_memory()?.saturating_add(limits.memory);
    let seconds = limits.milliseconds.div_ceil(1_000);
    let bounds = [
        (Resource::As, memory),
        (Resource::Cpu, seconds.saturating_add(1)),
        (Resource::Nofile, 3),
        (Resource::Fsize, 0),
        (Resource::Nproc, 0),
        (Resource::Core, 0),
        (Resource::Memlock, 0),
    ];
    for (resource, most) in bounds {
        let most = getrlimit(resource).maximum.map_or(most, |given| given.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

/// The address space that the process has in use already, in bytes.
fn used_memory() -> io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let unreadable = || io::Error::other("/proc/self/status has no line VmSize");
    kilobytes.and_then(|kilobytes| kilobytes.checked_mul(1024)).ok_or_else(unreadable)
}

/// Closes whatever the parent left open by mistake: libraries do not always mark theirs close-on-exec.
fn close_inherited() {
    // SAFETY: descriptors above the standard streams are closed before this process has opened any of its own, so
    // no owner of one exists that would use or close it later. An old kernel's refusal leaves them open, as they were.
    unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
}
