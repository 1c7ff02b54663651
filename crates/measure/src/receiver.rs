//! All streams of one receiver: [`Receiver`].

use crate::report::StreamReport;
use crate::signature::{Signature, read};
use crate::stream::{Rules, StreamStats};

/// Streams that one receiver tells apart at most.
pub const MAX_STREAMS: usize = 4096;

/// Numbers of packets within the windows of all streams together: 256 MiB in the worst case, when every other packet is lost.
const ALL_WINDOWS: usize = 1 << 24;

/// The statistics of all streams that come in at one place.
#[derive(Clone, Debug)]
pub struct Receiver {
    streams: Vec<StreamStats>,
    /// Packets that carry no signature.
    pub unsigned: u64,
    /// Packets with a signature of a stream that is not expected; those with a wrong check among them.
    pub unknown: u64,
}

impl Receiver {
    /// Of streams 0 to `streams` - 1, [`MAX_STREAMS`] at most, by default rules but for the window, which is smaller for more than 16
    /// streams.
    pub fn new(streams: usize) -> Receiver {
        let streams = streams.min(MAX_STREAMS);
        let window = (ALL_WINDOWS / streams.max(1)).min(Rules::default().window);
        Receiver::with_rules(vec![Rules { window, ..Rules::default() }; streams])
    }

    /// Of the streams 0, 1, ... that `rules` are for, [`MAX_STREAMS`] at most.
    pub fn with_rules(rules: Vec<Rules>) -> Receiver {
        let streams = rules.into_iter().take(MAX_STREAMS).map(StreamStats::new).collect();
        Receiver { streams, unsigned: 0, unknown: 0 }
    }

    /// Takes a packet (a frame, or any part of it that ends with the payload) that arrived at `now`, ns; says what it carried.
    #[inline]
    pub fn receive(&mut self, packet: &[u8], now: u64) -> Option<Signature> {
        let signature = read(packet);
        match &signature {
            Some(signature) => match self.streams.get_mut(usize::from(signature.stream)) {
                Some(stream) => stream.receive(signature, now),
                None => self.unknown += 1,
            },
            None => self.unsigned += 1,
        }
        signature
    }

    /// The streams, by number.
    pub fn streams(&self) -> &[StreamStats] {
        &self.streams
    }

    /// Adds what another receiver of the same streams found.
    pub fn merge(&mut self, other: &Receiver) {
        for (mine, other) in self.streams.iter_mut().zip(&other.streams) {
            mine.merge(other);
        }
        self.unsigned += other.unsigned;
        self.unknown += other.unknown;
    }

    /// What to say of each stream, if `sent` packets were sent of it; `None` where that is not known.
    pub fn report(&self, sent: &[Option<u64>]) -> Vec<StreamReport> {
        let sent = sent.iter().copied().chain(std::iter::repeat(None));
        self.streams.iter().zip(sent).map(|(stream, sent)| stream.report(sent)).collect()
    }
}
