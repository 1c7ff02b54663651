//! Transmitting into a capture file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_packet::{Burst, Packet, Pool};
use weir_stage::{Traffic, Tx};

use crate::frames::remedy;
use crate::port::Figures;
use crate::writer::{WriteError, Writer};

/// The transmit queue of a port without an output file: everything is accepted, nothing kept.
pub(crate) struct Void;

impl Tx for Void {
    fn transmit(&mut self, burst: &mut Burst, pool: &mut dyn Pool, _now: u64) -> Traffic {
        Traffic::drain(burst, usize::MAX, |packet| pool.free(packet))
    }
}

/// The transmit queue of an output file. When the file cannot be written any more the port is down for good.
pub(crate) struct PcapTx {
    writer: Writer,
    path: PathBuf,
    figures: Arc<Figures>,
    trouble: Option<String>,
}

impl PcapTx {
    pub(crate) fn new(writer: Writer, path: &Path, figures: Arc<Figures>) -> PcapTx {
        PcapTx { writer, path: path.to_owned(), figures, trouble: None }
    }

    /// Notes why no more can be written, which `lost` packets of this burst were the first to meet.
    fn fail(&mut self, failed: &WriteError, lost: usize) {
        self.figures.tx_errors.fetch_add(lost as u64, Ordering::Relaxed);
        self.figures.broken.store(true, Ordering::Relaxed);
        self.trouble = Some(format!(
            "cannot write the capture file {}: {}; packets for it are dropped as link-down from here on",
            self.path.display(),
            remedy(&failed.error)
        ));
    }
}

impl Tx for PcapTx {
    /// Only what the system has taken counts: what a disk has no room for stays in the burst.
    fn transmit(&mut self, burst: &mut Burst, pool: &mut dyn Pool, now: u64) -> Traffic {
        if self.trouble.is_some() || burst.is_empty() {
            return Traffic::default();
        }
        let written = match self.writer.write(now, burst.packets().iter().map(Packet::bytes)) {
            Ok(()) => burst.len(),
            Err(failed) => {
                self.fail(&failed, burst.len().saturating_sub(failed.written));
                failed.written
            }
        };
        Traffic::drain(burst, written, |packet| pool.free(packet))
    }

    fn room(&mut self) -> usize {
        if self.trouble.is_none() { Burst::ROOM } else { 0 }
    }

    fn alive(&mut self) -> bool {
        self.trouble.is_none()
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.clone()
    }
}
