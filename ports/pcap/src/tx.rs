//! Transmitting into a capture file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_packet::{Burst, Pool};
use weir_stage::{Traffic, Tx};

use crate::frames::remedy;
use crate::port::Figures;
use crate::writer::{WriteError, Writer};

/// The transmit queue of a port without an output file: everything is accepted, nothing kept.
pub(crate) struct Void;

impl Tx for Void {
    fn transmit(&mut self, burst: &mut Burst, pool: &mut dyn Pool, _now: u64) -> Traffic {
        let traffic = traffic_of(burst);
        pool.free_burst(burst);
        traffic
    }
}

fn traffic_of(burst: &Burst) -> Traffic {
    let bytes = burst.packets().iter().map(|packet| packet.len() as u64).sum();
    Traffic { packets: burst.len() as u64, bytes }
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

    fn fail(&mut self, lost: &WriteError) {
        self.figures.tx_errors.fetch_add(lost.records, Ordering::Relaxed);
        self.figures.broken.store(true, Ordering::Relaxed);
        self.trouble = Some(format!(
            "cannot write the capture file {}: {} ({} packets are lost)",
            self.path.display(),
            remedy(&lost.error),
            lost.records
        ));
    }
}

impl Tx for PcapTx {
    fn transmit(&mut self, burst: &mut Burst, pool: &mut dyn Pool, now: u64) -> Traffic {
        let mut traffic = Traffic::default();
        burst.drain(|packet| {
            if self.trouble.is_some() {
                return Err(packet);
            }
            traffic.packets += 1;
            traffic.bytes += packet.len() as u64;
            let result = self.writer.add(now, packet.bytes());
            pool.free(packet);
            if let Err(lost) = result {
                self.fail(&lost);
            }
            Ok(())
        });
        traffic
    }

    fn room(&mut self) -> usize {
        if self.trouble.is_none() { Burst::ROOM } else { 0 }
    }

    fn alive(&mut self) -> bool {
        self.trouble.is_none()
    }

    fn flush(&mut self) {
        if self.trouble.is_none()
            && let Err(lost) = self.writer.flush()
        {
            self.fail(&lost);
        }
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.clone()
    }
}

impl Drop for PcapTx {
    fn drop(&mut self) {
        self.flush();
    }
}
