//! `weir doctor`: looks at the host and says what to do. It changes nothing, and a file that is not there is an answer too.

mod checks;
mod devices;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::commands::{print, print_json};
use crate::failure::Failed;
use crate::render::{Style, clean};

/// What was found out about one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// What was looked at.
    pub(crate) name: String,
    /// How it looks.
    pub(crate) state: State,
    /// What is there.
    pub(crate) found: String,
    /// What to do about it; empty where nothing has to be done.
    pub(crate) remedy: String,
}

/// How a thing looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    /// As it should be.
    Ok,
    /// Something could be better.
    Attention,
    /// Nobody can tell.
    Unknown,
}

impl Finding {
    fn ok(name: &str, found: impl Into<String>) -> Finding {
        Finding { name: name.to_owned(), state: State::Ok, found: found.into(), remedy: String::new() }
    }

    fn attention(name: &str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { state: State::Attention, remedy: remedy.into(), ..Finding::ok(name, found) }
    }

    fn unknown(name: &str, found: impl Into<String>) -> Finding {
        Finding { state: State::Unknown, ..Finding::ok(name, found) }
    }
}

/// The files of a host, below a folder that is the root of the real one, or of one made up for tests, and its interfaces.
pub(crate) struct Host {
    root: PathBuf,
    links: Vec<Link>,
}

/// An interface of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Its name.
    pub(crate) name: String,
    /// The kernel's word for what it is; `None` for hardware.
    pub(crate) kind: Option<String>,
    /// Whether checksums of what is sent by it are left to be finished by who receives it; `None` where nobody can tell.
    pub(crate) leaves_checksums: Option<bool>,
}

/// Features of an interface by which the kernel leaves checksums of TCP and UDP unfinished.
const CHECKSUMS: [&str; 3] = ["tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"];

/// The interfaces of the network namespace that this runs in.
fn links() -> Vec<Link> {
    let link = |interface: weir_host::links::Interface| {
        let features = weir_host::features::active(interface.index).ok();
        Link {
            name: interface.name,
            kind: interface.kind,
            leaves_checksums: features.map(|on| on.iter().any(|name| CHECKSUMS.contains(&name.as_str()))),
        }
    };
    weir_host::links::interfaces().unwrap_or_default().into_iter().map(link).collect()
}

impl Host {
    /// The host that this runs on.
    pub(crate) fn here() -> Host {
        Host { root: PathBuf::from("/"), links: links() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A file's text without the line end; `None` if it cannot be read.
    fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.path(path)).ok().map(|text| text.trim().to_owned())
    }

    fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// The names in a folder, sorted; none if it cannot be read.
    fn names(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The last part of what a link leads to.
    fn link(&self, path: &str) -> Option<String> {
        let target = std::fs::read_link(self.path(path)).ok()?;
        Some(Path::new(&target).file_name()?.to_string_lossy().into_owned())
    }
}

/// Everything that is looked at.
pub(crate) fn examine(host: &Host) -> Vec<Finding> {
    let mut findings = vec![
        checks::cpu(host),
        checks::hypervisor(host),
        checks::memory(host),
        checks::huge_pages(host),
        checks::isolated_cores(host),
        checks::governor(host),
        checks::numa(host),
        checks::iommu(host),
        checks::xdp(host),
        checks::permissions(),
        checks::dpdk(),
        checks::scripts(),
    ];
    findings.extend(devices::network_cards(host));
    findings.extend(devices::veths(host));
    findings
}

/// Prints what was found.
pub(crate) fn doctor(json: bool) -> Result<(), Failed> {
    let findings = examine(&Host::here());
    if json {
        return print_json(serde_json::json!({ "findings": findings }));
    }
    print(&text(&findings, Style::of_stdout()))
}

fn text(findings: &[Finding], style: Style) -> String {
    let width = findings.iter().map(|finding| finding.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let mark = match finding.state {
            State::Ok => style.good("ok       "),
            State::Attention => style.warn("attention"),
            State::Unknown => style.dim("unknown  "),
        };
        text.push_str(&format!("{mark}  {:width$}  {}\n", finding.name, clean(&finding.found)));
        if !finding.remedy.is_empty() {
            text.push_str(&format!("{:9}  {:width$}  -> {}\n", "", "", clean(&finding.remedy)));
        }
    }
    let open = findings.iter().filter(|finding| finding.state == State::Attention).count();
    text.push_str(&match open {
        0 => "\nNothing stands in the way.\n".to_owned(),
        1 => "\nOne thing could be better; Weir runs all the same.\n".to_owned(),
        n => format!("\n{n} things could be better; Weir runs all the same.\n"),
    });
    text
}

#[cfg(test)]
mod tests;
