//! Where a measurement was taken.

use std::fs::read_to_string;

use serde::{Deserialize, Serialize};

/// The facts about a machine that explain a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Cores that the process may use.
    pub cores: usize,
    /// Frequency of the time stamp counter, MHz: the unit of all cycles.
    pub tsc_mhz: u64,
    /// The hypervisor, if there is one.
    pub hypervisor: bool,
    /// The kernel's release.
    pub kernel: String,
    /// Caches of the first core, as `L1d 48K`, nearest first.
    pub caches: Vec<String>,
    /// Memory, MiB.
    pub memory_mib: u64,
    /// Huge pages of the usual size that are set aside.
    pub huge_pages: u64,
    /// What the kernel makes of large mappings without huge pages: `always`, `madvise` or `never`.
    pub transparent_huge_pages: String,
}

impl Machine {
    /// This machine, whose time stamp counter runs at `hz`.
    pub fn here(hz: u64) -> Machine {
        let cpuinfo = read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = read_to_string("/proc/meminfo").unwrap_or_default();
        Machine {
            cpu: field("model name").unwrap_or_else(|| "unknown".to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            tsc_mhz: hz / 1_000_000,
            hypervisor: field("flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            kernel: word("/proc/sys/kernel/osrelease"),
            caches: caches(),
            memory_mib: figure(&memory, "MemTotal:") / 1024,
            huge_pages: figure(&memory, "HugePages_Total:"),
            transparent_huge_pages: chosen(&word("/sys/kernel/mm/transparent_hugepage/enabled")).to_owned(),
        }
    }

    /// The facts as pairs of a name and a text.
    pub fn facts(&self) -> Vec<(String, String)> {
        let kind = if self.hypervisor { "virtual machine" } else { "bare metal" };
        let facts = [
            ("processor", self.cpu.clone()),
            ("cores", self.cores.to_string()),
            ("kind", kind.to_owned()),
            ("time stamp counter", format!("{} MHz", self.tsc_mhz)),
            ("kernel", format!("Linux {}", self.kernel)),
            ("caches", self.caches.join(", ")),
            ("memory", format!("{} MiB", self.memory_mib)),
            ("huge pages", self.huge_pages.to_string()),
            ("transparent huge pages", self.transparent_huge_pages.clone()),
        ];
        facts.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
    }
}

fn word(path: &str) -> String {
    read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// The number behind a name in a file like `/proc/meminfo`; 0 if there is none.
fn figure(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The word in brackets: `always [madvise] never`.
fn chosen(words: &str) -> &str {
    let chosen = words.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or("unknown", |(word, _)| word)
}

fn caches() -> Vec<String> {
    let cache = |n: usize| {
        let base = format!("/sys/devices/system/cpu/cpu0/cache/index{n}");
        let (level, kind, size) =
            (word(&format!("{base}/level")), word(&format!("{base}/type")), word(&format!("{base}/size")));
        let kind = match kind.as_str() {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        (!size.is_empty()).then(|| format!("L{level}{kind} {size}"))
    };
    (0..8).filter_map(cache).collect()
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.hypervisor { "virtual machine" } else { "bare metal" };
        write!(f, "{}, {} cores, {kind}, TSC {} MHz, Linux {}", self.cpu, self.cores, self.tsc_mhz, self.kernel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_from_the_kernels_files() {
        let text = "MemTotal:       24563456 kB\nHugePages_Total:      12\n";
        assert_eq!((figure(text, "MemTotal:"), figure(text, "HugePages_Total:")), (24_563_456, 12));
        assert_eq!(figure(text, "Absent:"), 0);
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen(""), "unknown");
    }
}
