//! What EAL is started with, and a port attached with.

use std::path::PathBuf;

use weir_packet::BATCH;
use weir_stage::MAX_WAIT;

use crate::Megabytes;

/// Which memory the buffers live in.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Memory {
    /// Huge pages when enough of them are free, else ordinary memory.
    #[default]
    Auto,
    /// Huge pages, or no start.
    Huge,
    /// Ordinary memory.
    Ordinary,
}

/// What EAL is started with.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EalOptions {
    /// The name of this Weir; no two that run may share it.
    pub name: String,
    /// Which memory to use.
    pub memory: Memory,
    /// What buffers and rings need: see [`crate::memory_needed`]. Without huge pages this much is
    /// taken at once and is all there will ever be.
    pub megabytes: Megabytes,
    /// Addresses of the network cards to use; EAL looks at no other, and at none when this is empty.
    pub pci: Vec<String>,
    /// The cores that workers will run on, to be checked.
    pub cores: Vec<u32>,
    /// Where EAL and the drivers write their log. Appended to.
    pub log: PathBuf,
    /// The folder of the file that keeps the name; made when it is missing.
    pub run_dir: PathBuf,
}

/// Descriptors of each queue where nobody says otherwise.
pub const DESCRIPTORS: u16 = 512;

/// What a port is opened with.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PortConfig {
    /// Largest IP packet, bytes. `None`: as the interface has it, else 1500.
    pub mtu: Option<u16>,
    /// Bytes of tags and labels that a frame may have between its Ethernet header and an IP packet of the largest size: a Linux
    /// interface counts them towards its own MTU.
    pub in_front: u16,
    /// Its Ethernet address; `None`: its own. Given, it becomes the interface's, too.
    pub mac: Option<[u8; 6]>,
    /// Whether it receives frames for other addresses, too.
    pub promiscuous: bool,
    /// Descriptors of each queue, where the device lets us choose; adjusted to what it can.
    pub descriptors: u16,
    /// Packets that are taken from a receive queue at once, at most.
    pub burst: u16,
    /// How long packets may wait for more that are sent by the same call, nanoseconds.
    pub max_wait: u64,
    /// Queue pairs that it is attached with, where the driver wants to know their number before; it is attached again if others are asked for.
    pub pairs: u16,
}

impl Default for PortConfig {
    fn default() -> PortConfig {
        PortConfig {
            mtu: None,
            in_front: 0,
            mac: None,
            promiscuous: false,
            descriptors: DESCRIPTORS,
            burst: u16::try_from(BATCH).unwrap_or(u16::MAX),
            max_wait: MAX_WAIT,
            pairs: 1,
        }
    }
}

#[cfg(feature = "dpdk")]
impl EalOptions {
    /// EAL's arguments, in memory that is huge or not. `cpus` are those that this thread may run on:
    /// EAL pins the thread that starts it to what it is told is the main core, and is told them all.
    pub(crate) fn arguments(&self, huge: bool, cpus: &[u32]) -> Vec<String> {
        let mut arguments = vec!["weir".to_owned()];
        let mut add = |text: &str| arguments.push(text.to_owned());
        let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
        add(&format!("--lcores=0@({})", cpus.join(",")));
        add(&format!("--file-prefix=weir-{}", self.name));
        add("--no-telemetry");
        add("--log-level=lib.eal:4");
        if huge {
            add("--in-memory");
            // One file for all pages: a virtio_user's peer takes only few files.
            add("--single-file-segments");
        } else {
            add("--no-huge");
            add("--no-shconf");
            add(&format!("-m{}", self.megabytes.ordinary.max(1)));
        }
        if self.pci.is_empty() {
            // Else EAL probes, and may take, the machine's own network card.
            add("--no-pci");
            add("--iova-mode=va");
        }
        for address in &self.pci {
            add(&format!("--allow={address}"));
        }
        arguments
    }
}

#[cfg(all(test, feature = "dpdk"))]
mod tests {
    use super::*;

    fn options() -> EalOptions {
        EalOptions {
            name: "edge".into(),
            memory: Memory::Auto,
            megabytes: Megabytes { huge: 64, ordinary: 96 },
            pci: Vec::new(),
            cores: Vec::new(),
            log: "/dev/null".into(),
            run_dir: "/tmp".into(),
        }
    }

    #[test]
    fn without_huge_pages_memory_is_sized_and_nothing_is_shared() {
        let arguments = options().arguments(false, &[0, 1]);
        for wanted in ["--no-huge", "-m96", "--no-shconf", "--no-telemetry", "--no-pci", "--lcores=0@(0,1)"] {
            assert!(arguments.iter().any(|argument| argument == wanted), "{wanted} in {arguments:?}");
        }
        assert!(!arguments.contains(&"--in-memory".to_owned()), "a hard error beside --no-huge");
    }

    #[test]
    fn with_huge_pages_nothing_is_left_behind() {
        let arguments = options().arguments(true, &[3]);
        assert!(arguments.contains(&"--in-memory".to_owned()));
        assert!(!arguments.iter().any(|argument| argument.starts_with("-m")));
    }

    #[test]
    fn cards_are_allowed_one_by_one() {
        let options = EalOptions { pci: vec!["0000:3b:00.0".into()], ..options() };
        let arguments = options.arguments(true, &[0]);
        assert!(arguments.contains(&"--allow=0000:3b:00.0".to_owned()));
        assert!(!arguments.contains(&"--no-pci".to_owned()));
    }
}
