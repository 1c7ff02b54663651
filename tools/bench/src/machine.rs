//! Where a measurement was taken.

use serde::Serialize;

/// The facts about a machine that explain a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
}

impl Machine {
    /// This machine, whose time stamp counter runs at `hz`.
    pub fn here(hz: u64) -> Machine {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Machine {
            cpu: field("model name").unwrap_or_else(|| "unknown".to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            tsc_mhz: hz / 1_000_000,
            hypervisor: field("flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            kernel: kernel.trim().to_owned(),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.hypervisor { "virtual machine" } else { "bare metal" };
        write!(f, "{}, {} cores, {kind}, TSC {} MHz, Linux {}", self.cpu, self.cores, self.tsc_mhz, self.kernel)
    }
}
