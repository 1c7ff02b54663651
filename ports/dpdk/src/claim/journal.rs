//! A file that says what this process has changed of interfaces, for whoever starts after it was killed.
//!
//! A line for each: the network namespace, the interface's number and name, then what it was before and what was set, as MTU, GRO,
//! LRO, tags beside frames (of 802.1Q, of 802.1ad), and the number of the XDP program. An interface that is not the same any more, or that somebody has changed since, is left alone.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{Claimed, Settings};
use weir_host::files;

use crate::netif::{Beside, Interface, Merging};

/// Where it is; nowhere until EAL starts, which knows the name of this Weir.
static PLACE: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Puts back what a process that was killed has left, if the file is there, and writes there from here on.
pub(crate) fn begin(path: PathBuf) {
    recover(&path);
    *PLACE.lock().unwrap_or_else(PoisonError::into_inner) = Some(path);
}

/// Puts back what a file says, and removes it.
pub(crate) fn recover(path: &Path) {
    let mut text = String::new();
    if files::ours(path).and_then(|mut file| file.read_to_string(&mut text)).is_err() {
        return;
    }
    text.lines().filter_map(Line::parse).for_each(|line| line.put_back());
    // One that cannot be removed is written over, or read again: both do no harm.
    let _stays = std::fs::remove_file(path);
}

/// Writes down what is claimed. Without a file nothing is lost but what a killed process would have left to mend.
pub(super) fn write(claimed: &[Claimed]) {
    let place = PLACE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(path) = place.as_deref() else { return };
    let changed: Vec<String> = claimed.iter().filter_map(Line::of).map(|line| line.to_text()).collect();
    let _gone = std::fs::remove_file(path);
    if !changed.is_empty() {
        let _unwritten = files::create(path, 0o600).and_then(|mut file| file.write_all(changed.concat().as_bytes()));
    }
}

#[derive(Debug, Eq, PartialEq)]
struct Line {
    namespace: String,
    index: u32,
    name: String,
    before: Settings,
    set: Settings,
}

impl Line {
    /// `None` for an interface that nothing was changed of.
    fn of(claimed: &Claimed) -> Option<Line> {
        let (before, set) = (claimed.before, claimed.set());
        let namespace = namespace()?;
        (before != set).then(|| Line {
            namespace,
            index: claimed.interface.index(),
            name: claimed.interface.name(),
            before,
            set,
        })
    }

    fn to_text(&self) -> String {
        let of = |settings: Settings| {
            let Merging { gro, lro } = settings.merging;
            let Beside { c_tags, s_tags } = settings.tags_beside;
            let flags = [gro, lro, c_tags, s_tags].map(u8::from).map(|flag| flag.to_string()).join(" ");
            format!("{} {flags} {}", settings.mtu, settings.program)
        };
        format!("{} {} {} {} {}\n", self.namespace, self.index, self.name, of(self.before), of(self.set))
    }

    fn parse(text: &str) -> Option<Line> {
        let mut words = text.split(' ');
        let (namespace, index, name) =
            (words.next()?.to_owned(), words.next()?.parse().ok()?, words.next()?.to_owned());
        let mut settings = || {
            let mtu = words.next()?.parse().ok()?;
            let mut flag = || Some(words.next()? == "1");
            let merging = Merging { gro: flag()?, lro: flag()? };
            let tags_beside = Beside { c_tags: flag()?, s_tags: flag()? };
            Some(Settings { mtu, merging, tags_beside, program: words.next()?.parse().ok()? })
        };
        Some(Line { namespace, index, name, before: settings()?, set: settings()? })
    }

    fn put_back(&self) {
        let same = |interface: &Interface| {
            interface.index() == self.index && namespace().is_some_and(|here| here == self.namespace)
        };
        if let Some(interface) = Interface::find(&self.name).ok().filter(same) {
            self.before.put_back(self.set, &interface);
        }
    }
}

/// The network namespace that this process is in: `net:[4026531840]`.
fn namespace() -> Option<String> {
    Some(std::fs::read_link("/proc/self/ns/net").ok()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let settings = |mtu, on, program| Settings {
            mtu,
            merging: Merging { gro: on, lro: false },
            tags_beside: Beside { c_tags: false, s_tags: on },
            program,
        };
        let line = Line {
            namespace: "net:[4026531840]".into(),
            index: 7,
            name: "eth0".into(),
            before: settings(1500, true, 0),
            set: settings(1508, false, 77),
        };
        assert_eq!(line.to_text(), "net:[4026531840] 7 eth0 1500 1 0 0 1 0 1508 0 0 0 0 77\n");
        assert_eq!(Line::parse(line.to_text().trim_end()), Some(line));
        for wrong in
            ["", "net:[1] 7", "net:[1] x eth0 1 1 1 1 1 1 1 1 1 1 1 1", "net:[1] 7 eth0 1500 1 0 0 1 0 1508 0 0 0 0"]
        {
            assert_eq!(Line::parse(wrong), None, "{wrong}");
        }
    }
}
