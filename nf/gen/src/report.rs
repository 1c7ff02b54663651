//! What a generator has to say: numbers with units, for people and programs.

use serde::{Deserialize, Serialize};
use weir_measure::{Spread, StreamReport};

use crate::shared::{Content, Received, Stalls};
use crate::stream::{Sent, SentReport};

/// All of a generator's numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The streams, in the order of the configuration.
    pub streams: Vec<StreamResult>,
    /// Loops of its workers that took longer than 5 us.
    pub stalls: Stalls,
    /// Next hops whose Ethernet address nobody told, each with its port.
    pub unresolved: Vec<(String, String)>,
    /// Packets received that carried no signature.
    pub unsigned: u64,
    /// Packets received with the signature of an unknown stream.
    pub unknown: u64,
    /// Whether all schedules have come to their end.
    pub done: bool,
    /// Whether the schedules have started: before, next hops are asked for.
    pub started: bool,
    /// Whether all workers gave their numbers when they were asked: else some are older.
    pub current: bool,
}

/// One stream's numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StreamResult {
    /// Its name.
    pub name: String,
    /// The port that it leaves by.
    pub port: String,
    /// How fast it was to be sent, as the configuration says.
    pub rate: String,
    /// Packets per second that it was to be sent with; null for as fast as possible.
    pub asked_pps: Option<f64>,
    /// What was sent.
    pub sent: SentReport,
    /// What came back of it; null where its packets carry no signature.
    pub received: Option<StreamReport>,
    /// Latency of the packets on whose way no stall was seen, nanoseconds.
    pub calm_latency_ns: Option<Spread>,
    /// The share of packets with a latency that are left out there, from 0 to 1.
    pub set_aside: f64,
    /// What its signature has no room to tell.
    pub gives_up: Vec<String>,
    /// What is odd about the stamps of its capture file, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

/// What is known about a stream before it is sent.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) name: String,
    pub(crate) port: String,
    pub(crate) rate: String,
    pub(crate) asked_pps: Option<f64>,
    pub(crate) signed: bool,
    pub(crate) gives_up: Vec<String>,
    pub(crate) remark: Option<String>,
}

/// Puts the numbers of all stages together.
pub(crate) fn report(
    streams: &[About],
    (contents, current): (Vec<Content>, bool),
    unresolved: Vec<(String, String)>,
    started: bool,
) -> Report {
    let mut sent: Vec<Sent> = vec![Sent::default(); streams.len()];
    let mut received: Option<Received> = None;
    let mut stalls = Stalls::default();
    for content in contents {
        stalls.count += content.stalls.count;
        stalls.total_ns += content.stalls.total_ns;
        stalls.longest_ns = stalls.longest_ns.max(content.stalls.longest_ns);
        for (number, part) in content.sent {
            if let Some(place) = sent.get_mut(number) {
                *place = part;
            }
        }
        if let Some(part) = content.received {
            match &mut received {
                Some(all) => all.merge(&part),
                None => received = Some(part),
            }
        }
    }
    let counts: Vec<Option<u64>> = sent.iter().map(|sent| Some(sent.packets)).collect();
    let reports = received.as_ref().map_or_else(Vec::new, |received| received.receiver.report(&counts));
    let result = |(number, about): (usize, &About)| {
        let own = received.as_ref();
        let calm = own.and_then(|own| own.calm.get(number)).and_then(weir_measure::Distribution::spread);
        let aside = own.and_then(|own| own.set_aside.get(number)).copied().unwrap_or(0);
        let seen = aside + calm.map_or(0, |calm| calm.count);
        StreamResult {
            name: about.name.clone(),
            port: about.port.clone(),
            rate: about.rate.clone(),
            asked_pps: about.asked_pps,
            sent: sent.get(number).map_or_else(|| Sent::default().report(), Sent::report),
            received: reports.get(number).filter(|_| about.signed).cloned(),
            calm_latency_ns: calm.filter(|_| about.signed),
            set_aside: if seen == 0 { 0.0 } else { aside as f64 / seen as f64 },
            gives_up: about.gives_up.clone(),
            remark: about.remark.clone(),
        }
    };
    Report {
        streams: streams.iter().enumerate().map(result).collect(),
        stalls,
        unresolved,
        unsigned: received.as_ref().map_or(0, |received| received.receiver.unsigned),
        unknown: received.as_ref().map_or(0, |received| received.receiver.unknown),
        done: sent.iter().all(|sent| sent.done),
        started,
        current,
    }
}
