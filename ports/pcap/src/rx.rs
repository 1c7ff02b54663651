//! Receiving from a capture file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_capture::{LinkType, Reader, Record, Schedule};
use weir_packet::{Batch, Pool};
use weir_stage::{Rx, Traffic};

use crate::frames::stamp;
use crate::port::{Figures, Timing};

/// The receive queue of a port without an input file.
pub(crate) struct Empty;

impl Rx for Empty {
    fn receive(&mut self, _batch: &mut Batch, _pool: &mut dyn Pool, _now: u64) -> Traffic {
        Traffic::default()
    }

    fn exhausted(&self) -> bool {
        true
    }
}

/// Records that were not received.
#[derive(Clone, Copy, Debug, Default)]
struct Lost {
    empty: u64,
    too_long: u64,
    snapped: u64,
    link: u64,
    damaged: u64,
}

/// The receive queue of an input file. It is always one record ahead, so that it knows when the next is due and whether there
/// is one.
pub(crate) struct PcapRx {
    reader: Reader,
    path: PathBuf,
    timing: Timing,
    keep_snapped: bool,
    longest: usize,
    figures: Arc<Figures>,
    /// Makes times of stamps.
    schedule: Schedule,
    /// The next record's time, if there is a next record; its bytes are in `bytes`.
    next: Option<Option<u64>>,
    bytes: Vec<u8>,
    /// A time of the engine's and the stamp that belongs to it: of the first call and the first record.
    base: Option<(u64, u64)>,
    lost: Lost,
    trouble: Option<String>,
}

impl PcapRx {
    pub(crate) fn new(
        reader: Reader,
        path: &Path,
        timing: Timing,
        keep_snapped: bool,
        longest: usize,
        figures: Arc<Figures>,
    ) -> PcapRx {
        let mut rx = PcapRx {
            reader,
            path: path.to_owned(),
            timing,
            keep_snapped,
            longest,
            figures,
            schedule: Schedule::default(),
            next: None,
            bytes: Vec::new(),
            base: (timing == Timing::Clock).then_some((0, 0)),
            lost: Lost::default(),
            trouble: None,
        };
        rx.advance();
        rx
    }

    /// Reads up to the next record that can be received.
    fn advance(&mut self) {
        self.next = None;
        loop {
            match self.reader.next() {
                Ok(Some(record)) => match unfit(record, self.keep_snapped, self.longest, &mut self.lost) {
                    Some(count) => {
                        *count += 1;
                        self.figures.rx_errors.fetch_add(1, Ordering::Relaxed);
                    }
                    None => {
                        self.next = Some(record.timed.then(|| self.schedule.place(stamp(record.nanos))));
                        self.bytes.clear();
                        self.bytes.extend_from_slice(record.data);
                        return;
                    }
                },
                Ok(None) => return,
                Err(damage) => {
                    self.lost.damaged += 1;
                    self.trouble = Some(format!("the capture file {} is {damage}", self.path.display()));
                    self.figures.rx_errors.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
        }
    }

    /// When the next record is due, if the file's timing is kept and there is one.
    fn due(&self) -> Option<u64> {
        let stamp = self.next?;
        let (start, first) = self.base.filter(|_| self.timing != Timing::Ignore)?;
        // Without a stamp it is due at once.
        Some(start.saturating_add(stamp.unwrap_or(first).saturating_sub(first)))
    }

    /// Puts the next record into the batch, if there is a buffer for it; returns its length.
    fn put(&mut self, batch: &mut Batch, pool: &mut dyn Pool) -> Option<usize> {
        let mut packet = pool.alloc()?;
        if !packet.fill(&self.bytes) {
            // Only if a handle to another pool was given than at opening: then the record waits.
            pool.free(packet);
            return None;
        }
        match batch.push(packet) {
            Ok(_) => Some(self.bytes.len()),
            Err(packet) => {
                pool.free(packet);
                None
            }
        }
    }
}

/// What counts a record that cannot be received.
fn unfit<'l>(record: Record<'_>, keep_snapped: bool, longest: usize, lost: &'l mut Lost) -> Option<&'l mut u64> {
    let len = record.data.len();
    if record.link != LinkType::ETHERNET {
        Some(&mut lost.link)
    } else if len < record.length as usize && !keep_snapped {
        Some(&mut lost.snapped)
    } else if len == 0 {
        Some(&mut lost.empty)
    } else if len > longest {
        Some(&mut lost.too_long)
    } else {
        None
    }
}

impl Rx for PcapRx {
    fn receive(&mut self, batch: &mut Batch, pool: &mut dyn Pool, now: u64) -> Traffic {
        let mut traffic = Traffic::default();
        if self.base.is_none()
            && let Some(stamp) = self.next
        {
            self.base = Some((now, stamp.unwrap_or(0)));
        }
        while batch.room() > 0 && self.next.is_some() && self.due().is_none_or(|due| due <= now) {
            let Some(len) = self.put(batch, pool) else { break };
            traffic.packets += 1;
            traffic.bytes += len as u64;
            self.advance();
        }
        traffic
    }

    fn exhausted(&self) -> bool {
        self.next.is_none()
    }

    fn next_at(&self) -> Option<u64> {
        self.due()
    }

    fn lost(&self) -> Vec<(&'static str, &'static str, u64)> {
        vec![
            (
                "snapped",
                "The packet was cut when it was captured; snapped=keep receives what there is.",
                self.lost.snapped,
            ),
            (
                "too-long",
                "The frame is longer than a buffer, or than the 9,216 bytes of a jumbo frame.",
                self.lost.too_long,
            ),
            ("empty", "The record holds no bytes.", self.lost.empty),
            ("link-type", "The record is of an interface that is not Ethernet.", self.lost.link),
            ("damaged", "The file is damaged; nothing behind the damage can be read.", self.lost.damaged),
        ]
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.clone()
    }

    fn remark(&self) -> Option<String> {
        let odd = self.schedule.remark().filter(|_| self.timing != Timing::Ignore)?;
        Some(format!("of the capture file {} {odd}", self.path.display()))
    }
}
