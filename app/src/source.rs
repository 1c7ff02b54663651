//! Where a configuration comes from, and reading it.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_config::ConfigError;
use weir_protocol::Script;

use crate::supervisor::{self, Loaded, Next, Sides};

/// Where a configuration comes from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The script, as this process opens it.
    pub(crate) path: PathBuf,
    /// The script, as the user named it; differs where a client passed its folder as a descriptor.
    pub(crate) named: PathBuf,
    /// That descriptor: it stays open as long as the configuration runs.
    _folder: Option<Arc<OwnedFd>>,
}

impl Source {
    /// A script that this process was told on its command line.
    pub(crate) fn own(path: &Path) -> Source {
        Source { path: path.to_owned(), named: path.to_owned(), _folder: None }
    }

    /// A script of a client, opened by way of the folder that it passed.
    pub(crate) fn of_client(script: Script) -> Result<Source, String> {
        let named = PathBuf::from(&script.file);
        let (Some(folder), Some(file)) = (script.folder, named.file_name()) else {
            return Err("a script must come with its name and, as a descriptor, its folder".to_owned());
        };
        let number = AsRawFd::as_raw_fd(&*folder);
        let path = PathBuf::from(format!("/proc/self/fd/{number}")).join(file);
        Ok(Source { path, named, _folder: Some(folder) })
    }

    /// Reads and checks it. `switches` are those given for what it may do, `sides` those for interfaces that were added to what runs.
    pub(crate) fn load(&self, switches: &[&str], next: Next, sides: &Sides) -> Result<Loaded, Vec<ConfigError>> {
        let loaded = supervisor::load_with_sides(&self.path, Some(switches), next, sides);
        loaded.map_err(|errors| errors.into_iter().map(|error| self.rename(error)).collect())
    }

    /// Tells the place of a mistake by the names that the user knows.
    pub(crate) fn rename(&self, mut error: ConfigError) -> ConfigError {
        let folder = |path: &Path| path.parent().map_or_else(String::new, |folder| folder.display().to_string());
        let (from, to) = (folder(&self.path), folder(&self.named));
        if from != to {
            let (from, to) = (format!("{from}/"), if to.is_empty() { to } else { format!("{to}/") });
            error.place.file = error.place.file.replace(&from, &to);
            error.problem = error.problem.replace(&from, &to);
        }
        error
    }
}
