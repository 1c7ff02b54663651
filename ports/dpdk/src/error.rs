//! Why a device or DPDK itself did not start: one sentence each, with what, where and what to do.

use std::fmt;
use std::path::PathBuf;

/// A start failure. `Display` is one sentence that ends in the remedy.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum DpdkError {
    /// This binary was built without the feature `dpdk`.
    NotBuilt,
    /// There is no such device, interface or socket.
    NoSuchDevice {
        /// The device as the configuration writes it.
        device: String,
        /// What is missing.
        missing: String,
        /// What to do.
        remedy: String,
    },
    /// Somebody else has it.
    Busy {
        /// The device as the configuration writes it.
        device: String,
        /// Who has it, as far as can be told.
        by: String,
        /// What to do.
        remedy: String,
    },
    /// The process lacks a right.
    NoPermission {
        /// What was to be done.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// The kernel still drives a PCI device.
    KernelDriver {
        /// The PCI address.
        address: String,
        /// The kernel's driver; `None` when no driver at all is bound.
        driver: Option<String>,
    },
    /// The buffers do not fit in what memory there is.
    TooLittleMemory {
        /// Megabytes that are needed.
        needed: u64,
        /// Megabytes that there are.
        free: u64,
        /// Of which kind: `huge pages`, `memory`.
        kind: &'static str,
    },
    /// A core that this process may not run on.
    WrongCore {
        /// The core that was asked for.
        core: u32,
        /// Those that it may run on.
        usable: Vec<u32>,
    },
    /// Another Weir has this name.
    NameTaken {
        /// The name.
        name: String,
        /// Its process, if it told.
        pid: Option<u32>,
    },
    /// The device cannot do what the configuration asks of it.
    Unsupported {
        /// The device as the configuration writes it.
        device: String,
        /// What it cannot do, and what it can.
        what: String,
    },
    /// DPDK has no driver of that kind on this machine.
    NoDriver {
        /// The device as the configuration writes it.
        device: String,
        /// The driver's name.
        driver: String,
    },
    /// EAL's log cannot be written.
    Log {
        /// Where it should be.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// DPDK was started before in this process: it starts once.
    Twice,
    /// Anything else that DPDK refused.
    Refused {
        /// What was being done.
        doing: String,
        /// The system's name for the error.
        reason: String,
        /// The last line that DPDK wrote about it, if any.
        said: Option<String>,
        /// Where DPDK wrote the rest.
        log: PathBuf,
    },
}

impl fmt::Display for DpdkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DpdkError::NotBuilt => write!(
                f,
                "a device needs DPDK, and this weir was built without it: build with the feature `dpdk` \
                 (apt-get install dpdk libdpdk-dev libclang-dev first)"
            ),
            DpdkError::NoSuchDevice { device, missing, remedy } => {
                write!(f, "{device}: {missing}: {remedy}")
            }
            DpdkError::Busy { device, by, remedy } => write!(f, "{device} is busy: {by}: {remedy}"),
            DpdkError::NoPermission { what, remedy } => write!(f, "no permission to {what}: {remedy}"),
            DpdkError::KernelDriver { address, driver } => kernel_driver(f, address, driver.as_deref()),
            DpdkError::TooLittleMemory { needed, free, kind } => {
                write!(f, "the buffers need {needed} MB of {kind} and {free} MB are free: {}", memory_remedy(kind))
            }
            DpdkError::WrongCore { core, usable } => {
                write!(f, "core {core} is not one that this process may run on: choose of {}", Cores(usable))
            }
            DpdkError::NameTaken { name, pid } => name_taken(f, name, *pid),
            DpdkError::Unsupported { device, what } => write!(f, "{device} {what}"),
            DpdkError::NoDriver { device, driver } => {
                write!(f, "{device}: DPDK has no driver {driver} here: install it (apt-get install librte-meta-net)")
            }
            DpdkError::Log { path, reason } => write!(
                f,
                "DPDK's log {} cannot be written ({reason}): make its folder writable or choose another",
                path.display()
            ),
            DpdkError::Twice => {
                write!(f, "DPDK starts once per process: restart weir to start it with other options")
            }
            DpdkError::Refused { doing, reason, said, log } => {
                write!(f, "{doing} failed ({reason})")?;
                if let Some(said) = said {
                    write!(f, ", for DPDK says \"{said}\"")?;
                }
                write!(f, ": see {}", log.display())
            }
        }
    }
}

impl std::error::Error for DpdkError {}

fn kernel_driver(f: &mut fmt::Formatter<'_>, address: &str, driver: Option<&str>) -> fmt::Result {
    match driver {
        Some(driver) => write!(
            f,
            "pci:{address} is still bound to the kernel's driver {driver}: take its interface down and \
             bind it to vfio-pci (dpdk-devbind.py -b vfio-pci {address})"
        ),
        None => write!(
            f,
            "pci:{address} has no driver that DPDK can use: bind it to vfio-pci \
             (modprobe vfio-pci; dpdk-devbind.py -b vfio-pci {address})"
        ),
    }
}

fn memory_remedy(kind: &str) -> &'static str {
    match kind {
        "huge pages" => {
            "reserve more (sysctl vm.nr_hugepages=N, 2 MB each), or configure fewer queues or \
             descriptors"
        }
        _ => "free some, or configure fewer queues or descriptors",
    }
}

fn name_taken(f: &mut fmt::Formatter<'_>, name: &str, pid: Option<u32>) -> fmt::Result {
    match pid {
        Some(pid) => write!(f, "another weir named {name} runs (process {pid})")?,
        None => write!(f, "another weir named {name} runs")?,
    }
    write!(f, ": stop it, or give this one a name of its own (--name)")
}

/// Core numbers as ranges: `0-3,8`.
struct Cores<'a>(&'a [u32]);

impl fmt::Display for Cores<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        let mut comma = "";
        while let Some((first, after)) = rest.split_first() {
            let run =
                after.iter().zip(first.saturating_add(1)..).take_while(|(core, expected)| *core == expected).count();
            match after.get(..run).and_then(|run| run.last()) {
                Some(last) => write!(f, "{comma}{first}-{last}")?,
                None => write!(f, "{comma}{first}")?,
            }
            rest = after.get(run..).unwrap_or_default();
            comma = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_written_as_ranges() {
        let write = |cores: &[u32]| Cores(cores).to_string();
        assert_eq!(write(&[]), "");
        assert_eq!(write(&[3]), "3");
        assert_eq!(write(&[0, 1]), "0-1");
        assert_eq!(write(&[0, 1, 2, 4, 6, 7]), "0-2,4,6-7");
    }

    #[test]
    fn sentences_say_what_where_and_what_to_do() {
        let error = DpdkError::KernelDriver { address: "0000:3b:00.0".into(), driver: Some("ixgbe".into()) };
        let text = error.to_string();
        for part in ["0000:3b:00.0", "ixgbe", "dpdk-devbind.py -b vfio-pci 0000:3b:00.0"] {
            assert!(text.contains(part), "{text}");
        }
        let text = DpdkError::NameTaken { name: "edge".into(), pid: Some(7) }.to_string();
        assert_eq!(
            text,
            "another weir named edge runs (process 7): stop it, or give this one a name of its own (--name)"
        );
        let text = DpdkError::WrongCore { core: 9, usable: vec![0, 1] }.to_string();
        assert_eq!(text, "core 9 is not one that this process may run on: choose of 0-1");
    }
}
