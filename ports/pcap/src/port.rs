//! The port: a capture file in, another out.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_packet::{MAX_FRAME, Pool};
use weir_stage::{DeviceStats, DeviceText, Port, PortError, PortFacts, Queues, Rx, Tx, local_mac};

use crate::frames;
use crate::rx::{Empty, PcapRx};
use crate::tx::{PcapTx, Void};
use crate::writer::Writer;

/// The options that a device text may have.
const OPTIONS: &[&str] = &["timing", "snapped", "mac"];

/// When packets of the input file are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timing {
    /// As fast as they are asked for.
    Ignore,
    /// At the distance from the first one that their stamps have.
    Keep,
    /// When the engine's clock shows their stamps.
    Clock,
}

/// A port that receives the packets of one capture file and writes what it transmits to another.
pub struct PcapPort {
    device: String,
    input: Option<PathBuf>,
    output: Option<PathBuf>,
    timing: Timing,
    /// Whether snapped packets are received as far as they were captured.
    snapped: bool,
    mac: [u8; 6],
    figures: Arc<Figures>,
}

/// What the queues tell the port.
#[derive(Default)]
pub(crate) struct Figures {
    /// Records that were not received.
    pub(crate) rx_errors: AtomicU64,
    /// Packets that could not be written.
    pub(crate) tx_errors: AtomicU64,
    /// Whether the output cannot be written any more.
    pub(crate) broken: AtomicBool,
}

impl PcapPort {
    /// The port called `name` with device `pcap:IN,OUT`, either of which may be empty; relative paths are below `base_dir`.
    ///
    /// Options follow after commas: `timing=keep` receives packets at the pace of their stamps (`timing=ignore`, the
    /// default, as fast as possible), `timing=clock` when the engine's clock, which starts at 0, shows their stamps, so that
    /// files made for each other keep their common time; `snapped=keep` receives packets that were cut when they were captured as they are
    /// (`snapped=drop`, the default, leaves them out and counts them); `mac=02:00:00:00:00:01` is the port's Ethernet address
    /// (made from its name otherwise). A path cannot hold a comma.
    ///
    /// # Errors
    ///
    /// The text is wrong. No file is touched.
    pub fn new(name: &str, device: &str, base_dir: &Path) -> Result<PcapPort, PortError> {
        let text = DeviceText::parse(device, 2, OPTIONS)?;
        let timing = text.option_as("timing", |value| match value {
            "keep" => Ok(Timing::Keep),
            "ignore" => Ok(Timing::Ignore),
            "clock" => Ok(Timing::Clock),
            _ => Err(("is not known".to_owned(), "write timing=keep, timing=clock or timing=ignore".to_owned())),
        })?;
        let snapped = text.option_as("snapped", |value| match value {
            "keep" => Ok(true),
            "drop" => Ok(false),
            _ => Err(words("snapped", "keep", "drop")),
        })?;
        let mac = text.mac()?;
        let input = text.argument(0).map(|path| base_dir.join(path));
        let output = text.argument(1).map(|path| base_dir.join(path));
        if text.kind != "pcap" {
            return Err(text.wrong(text.kind, "is not pcap", "write it as in pcap:in.pcap,out.pcap"));
        }
        if input.is_none() && output.is_none() {
            return Err(text.wrong(
                "",
                "names neither a file to read nor one to write",
                "write it as in pcap:in.pcap,out.pcap",
            ));
        }
        if input == output {
            return Err(text.wrong(text.argument(1).unwrap_or(""), "is read and written", "write to another file"));
        }
        Ok(PcapPort {
            device: device.to_owned(),
            input,
            output,
            timing: timing.unwrap_or(Timing::Ignore),
            snapped: snapped.unwrap_or(false),
            mac: mac.unwrap_or_else(|| local_mac(name)),
            figures: Arc::default(),
        })
    }

    fn open_rx(&self, pool: &dyn Pool) -> Result<Box<dyn Rx>, PortError> {
        let Some(path) = &self.input else { return Ok(Box::new(Empty)) };
        let reader = frames::open(path)?;
        let longest = pool.data_room().min(MAX_FRAME);
        let rx = PcapRx::new(reader, path, self.timing, self.snapped, longest, Arc::clone(&self.figures));
        Ok(Box::new(rx))
    }

    fn open_tx(&self) -> Result<Box<dyn Tx>, PortError> {
        let Some(path) = &self.output else { return Ok(Box::new(Void)) };
        Ok(Box::new(PcapTx::new(Writer::create(path)?, path, Arc::clone(&self.figures))))
    }

    /// Whether both paths lead to one file, by links.
    fn same_file(&self) -> bool {
        let identity = |path: &Option<PathBuf>| {
            let metadata = path.as_ref()?.metadata().ok()?;
            metadata.is_file().then(|| (metadata.dev(), metadata.ino()))
        };
        identity(&self.input).is_some_and(|input| identity(&self.output) == Some(input))
    }
}

/// The MTU of Ethernet, which holds unless the port's configuration names another: a file has none.
const USUAL_MTU: u16 = 1500;

fn words(key: &str, one: &str, other: &str) -> (String, String) {
    ("is not known".to_owned(), format!("write {key}={one} or {key}={other}"))
}

impl Port for PcapPort {
    fn facts(&self) -> PortFacts {
        PortFacts {
            device: self.device.clone(),
            mac: self.mac,
            mtu: USUAL_MTU,
            max_rx_queues: 1,
            max_tx_queues: 1,
            rss: false,
            offloads: Vec::new(),
        }
    }

    fn open(&mut self, rx_queues: u16, tx_queues: u16, pool: &dyn Pool) -> Result<Queues, PortError> {
        if rx_queues > 1 || tx_queues > 1 {
            return Err(PortError(format!(
                "{}: {rx_queues} receive and {tx_queues} transmit queues were asked for; a capture file has one of each; \
                 let one worker own the port",
                self.device
            )));
        }
        if self.same_file() {
            return Err(PortError(format!("{}: both paths lead to the same file; write to another", self.device)));
        }
        let mut queues: Queues = (Vec::new(), Vec::new());
        if rx_queues == 1 {
            queues.0.push(self.open_rx(pool)?);
        }
        if tx_queues == 1 {
            queues.1.push(self.open_tx()?);
        }
        Ok(queues)
    }

    fn stats(&self) -> DeviceStats {
        DeviceStats {
            missed: Some(0),
            no_buffer: Some(0),
            rx_errors: Some(self.figures.rx_errors.load(Ordering::Relaxed)),
            tx_errors: Some(self.figures.tx_errors.load(Ordering::Relaxed)),
            in_rings: Some(0),
        }
    }

    fn link_up(&mut self) -> bool {
        !self.figures.broken.load(Ordering::Relaxed)
    }

    fn close(&mut self) {}
}
