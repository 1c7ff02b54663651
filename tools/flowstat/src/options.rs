//! What is to be found out, and how.

use std::path::PathBuf;

use weir_filter::Filter;

use crate::fields::Fields;
use crate::model::Model;
use crate::streams::Profile;

/// What is done about the clocks of the two captures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// They are the same: latency is what they say.
    #[default]
    Same,
    /// One is ahead of the other: found from the packets; only delay variation is told.
    Offset,
    /// One is ahead of the other and runs faster: found from the packets; only delay variation is told.
    Drift,
}

/// By what the worst streams are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The share of lost packets.
    #[default]
    Loss,
    /// Lost packets.
    Lost,
    /// The median of latency, or of PDV if the clocks differ.
    P50,
    /// Its 99th percentile.
    P99,
    /// Its maximum.
    Max,
    /// Reordered packets.
    Reordered,
    /// Further copies.
    Duplicated,
    /// Bytes sent.
    Sent,
    /// Bytes received.
    Received,
    /// Packets sent that exceed the rate and the burst.
    Exceeding,
    /// What the packets have in common, from the least up.
    Key,
}

impl Order {
    /// All of them, by their names.
    pub const NAMES: [(&'static str, Order); 11] = [
        ("loss", Order::Loss),
        ("lost", Order::Lost),
        ("p50", Order::P50),
        ("p99", Order::P99),
        ("max", Order::Max),
        ("reordered", Order::Reordered),
        ("duplicated", Order::Duplicated),
        ("sent", Order::Sent),
        ("received", Order::Received),
        ("exceeding", Order::Exceeding),
        ("key", Order::Key),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Order::NAMES.iter().find(|(_, order)| *order == self).map_or("", |(name, _)| name)
    }
}

/// What is to be found out, and how.
pub struct Options {
    /// What the device does to packets.
    pub model: Box<dyn Model>,
    /// What streams are told apart by.
    pub by: Fields,
    /// Which of the packets sent count.
    pub filter_sent: Option<Filter>,
    /// Which of the packets received count.
    pub filter_received: Option<Filter>,
    /// A packet that takes longer is not taken for the one that was sent, ns.
    pub window: u64,
    /// What is done about clocks.
    pub clock: Clock,
    /// Whether only what both captures cover counts.
    pub trim: bool,
    /// A rate that streams are held to.
    pub profile: Option<Profile>,
    /// By what streams are put in order, the worst first.
    pub order: Order,
    /// Bytes of memory that packets may take; beyond, they go to files.
    pub memory: u64,
    /// The folder of these files.
    pub temp: PathBuf,
}
