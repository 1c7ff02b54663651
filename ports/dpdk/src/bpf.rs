//! BPF programs and maps that the process has open. libxdp opens more than it closes: of each AF_XDP socket a program and a map stay
//! open, and nobody knows their descriptors any more.

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The name of the program that libxdp loads for AF_XDP sockets.
pub(crate) const DEFAULT_PROGRAM: &str = "xsk_def_prog";
/// The name of the one that calls others, where there is a file system for BPF.
pub(crate) const DISPATCHER: &str = "xdp_dispatcher";

/// Descriptors of BPF programs and maps, each with what the kernel says it stands for: `prog_id` or `map_id` and a number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects(BTreeSet<(RawFd, String)>);

impl Objects {
    /// All that are open now.
    pub(crate) fn open() -> Objects {
        let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        let numbers = open.filter_map(|fd| fd.file_name().to_str()?.parse().ok());
        Objects(numbers.filter_map(|fd| Some((fd, identity(fd)?))).collect())
    }

    /// Those that were opened since `before` was taken.
    pub(crate) fn opened_since(before: &Objects) -> Objects {
        Objects(Objects::open().0.difference(&before.0).cloned().collect())
    }

    /// These and others.
    pub(crate) fn and(mut self, others: Objects) -> Objects {
        self.0.extend(others.0);
        self
    }

    /// Closes those that are open still.
    ///
    /// # Safety
    ///
    /// Nobody uses them, or closes them later.
    pub(crate) unsafe fn close(&self) {
        for (fd, what) in &self.0 {
            if identity(*fd).as_ref() == Some(what) {
                // SAFETY: the same object as before, and the caller says that nobody uses the descriptor.
                unsafe { libc::close(*fd) };
            }
        }
    }
}

/// What a descriptor of a BPF object stands for.
fn identity(fd: RawFd) -> Option<String> {
    let target = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    let key = match target.to_str()? {
        "anon_inode:bpf-prog" => "prog_id:",
        "anon_inode:bpf-map" => "map_id:",
        _ => return None,
    };
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    info.lines().find(|line| line.starts_with(key)).map(str::to_owned)
}

/// The name of a loaded program; `None` where it cannot be asked for.
pub(crate) fn name(program: u32) -> Option<String> {
    /// `BPF_PROG_GET_FD_BY_ID` and `BPF_OBJ_GET_INFO_BY_FD` of `linux/bpf.h`.
    const BY_ID: libc::c_long = 13;
    const INFO: libc::c_long = 15;
    /// Where the name is in `struct bpf_prog_info`.
    const NAME: std::ops::Range<usize> = 64..80;
    let fd = call(BY_ID, &mut [program, 0, 0, 0])?;
    // SAFETY: the descriptor is new, so nobody else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut info = [0_u8; 128];
    let room = info.as_mut_ptr().expose_provenance() as u64;
    let [low, high] = [room as u32, (room >> 32) as u32];
    call(INFO, &mut [fd.as_raw_fd().cast_unsigned(), NAME.end as u32, low, high])?;
    let name = info.get(NAME)?.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// Calls bpf(2). The attributes are those of one of the two commands above, whose pointer, if any, is to so much room as they say.
fn call(command: libc::c_long, attributes: &mut [u32; 4]) -> Option<RawFd> {
    // SAFETY: attributes of the length that is said, which the kernel reads and, for the second command, fills what they point to: live
    // memory of `name`, the only caller.
    let rc = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size_of_val(attributes)) };
    RawFd::try_from(rc).ok().filter(|rc| *rc >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_descriptors_are_left_alone() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
        assert_eq!(identity(fd), None);
        assert_eq!(identity(-1), None);
        let wrong = Objects([(fd, "prog_id:\t1".to_owned())].into());
        // SAFETY: there is no such object.
        unsafe { wrong.close() };
        assert!(file.metadata().is_ok());
    }
}
