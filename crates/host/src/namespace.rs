//! Network namespaces, as `ip netns` keeps them: which one the calling thread is in.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags, fstat, open, stat};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Where `ip netns` keeps them.
const FOLDER: &str = "/run/netns";

/// The network namespace that a thread has entered.
#[derive(Clone, Debug)]
pub struct Namespace {
    /// Its file, and the device and number that it had; `None`: that of the process.
    file: Option<(PathBuf, (u64, u64))>,
}

impl Namespace {
    /// Moves the calling thread into the namespace of a name, for good; without one it stays where it is.
    ///
    /// # Errors
    ///
    /// There is none of this name, or the process may not enter it.
    pub fn enter(name: Option<&str>) -> io::Result<Namespace> {
        let Some(name) = name else { return Ok(Namespace { file: None }) };
        let path = PathBuf::from(FOLDER).join(name);
        let file = open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let found = fstat(&file)?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(Namespace { file: Some((path, (found.st_dev, found.st_ino))) })
    }

    /// Whether the name still stands for the namespace that was entered.
    pub fn is_there(&self) -> bool {
        let Some((path, identity)) = &self.file else { return true };
        stat(path).is_ok_and(|found| (found.st_dev, found.st_ino) == *identity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_name_a_thread_stays_where_it_is() {
        assert!(Namespace::enter(None).unwrap().is_there());
        let missing = Namespace::enter(Some("weir-no-such-namespace"));
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
