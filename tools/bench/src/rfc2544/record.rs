//! What the experiments found, in the form that all reports share.

use super::verdict::verdict;
use super::{FrameReport, Report};
use crate::record::{Better, Figure, Form, Plot, Point, Record, Value};

/// The parameter that is the frame size, bytes with the frame check sequence.
const FRAME: &str = "frame";

/// The parameter of the loss curve: the load in percent of the greatest one.
const LOAD: &str = "load_percent";

impl Report {
    /// Puts the figures into `record`: a point for each frame size, then one for each step of the loss curves.
    #[must_use]
    pub fn fill(&self, record: Record) -> Record {
        let has_curve = self.frames.iter().any(|frame| !frame.frame_loss.is_empty());
        let mut parameters = vec![FRAME.to_owned()];
        parameters.extend(has_curve.then(|| LOAD.to_owned()));
        let mut plots = vec![plot("Throughput by frame size", "NDR", FRAME, None)];
        plots.extend(has_curve.then(|| plot("Frame loss by load", "loss", LOAD, Some(FRAME))));
        let points = self.frames.iter().map(headline).chain(self.frames.iter().flat_map(curve)).collect();
        let mut remarks = record.remarks.clone();
        remarks.extend(self.deviations.iter().map(|deviation| format!("Less than the RFC wants: {deviation}.")));
        let partial = record.partial.clone().or_else(|| self.ended.clone());
        let verdict = self.frames.iter().filter_map(verdict).collect();
        Record { partial, verdict, parameters, points, plots, remarks, ..record }
    }
}

fn plot(title: &str, y: &str, x: &str, by: Option<&str>) -> Plot {
    Plot { title: title.to_owned(), form: Form::Lines, x: x.to_owned(), y: y.to_owned(), by: by.map(str::to_owned) }
}

fn headline(frame: &FrameReport) -> Point {
    let mut figures = Vec::new();
    let mut add = |name: &str, unit: &str, better: Better, samples: Vec<f64>| {
        if !samples.is_empty() {
            figures.push(Figure::new(name, unit, better, samples));
        }
    };
    if let Some(throughput) = &frame.throughput {
        add("NDR", "packets/s", Better::More, throughput.ndr.into_iter().collect());
        add("PDR", "packets/s", Better::More, throughput.pdr.into_iter().collect());
        let wire = throughput.ndr_bits.map(|bits| bits / 1e9);
        add("NDR on the wire", "Gbit/s", Better::More, wire.into_iter().collect());
    }
    if let Some(latency) = &frame.latency {
        let of = |quantile: fn(&weir_measure::Spread) -> i64| {
            let latencies = latency.trials.iter().filter_map(|trial| trial.latency);
            latencies.map(|latency| quantile(&latency.calm.unwrap_or(latency.all)) as f64 / 1e3).collect()
        };
        add("latency p50", "us", Better::Less, of(|spread| spread.p50));
        add("latency p99", "us", Better::Less, of(|spread| spread.p99));
        add("set aside", "%", Better::Neither, vec![100.0 * latency.set_aside]);
    }
    if let Some(bursts) = &frame.back_to_back {
        let runs = bursts.runs.iter().map(|&frames| frames as f64).collect();
        add("back-to-back", "frames", Better::More, runs);
        add("buffered", "frames", Better::Neither, bursts.buffered.into_iter().collect());
    }
    if let Some(reset) = &frame.reset {
        let recovered = || reset.outages.iter().filter(|outage| outage.recovered);
        let by_loss = recovered().map(|outage| outage.trial.lost as f64 / reset.load).collect();
        add("reset by loss", "s", Better::Less, by_loss);
        add("reset by time", "s", Better::Less, recovered().filter_map(|outage| outage.gap).collect());
    }
    let trouble = (!frame.doubts.is_empty()).then(|| frame.doubts.join("; "));
    Point { parameters: size(frame), help: String::new(), trouble, figures }
}

fn curve(frame: &FrameReport) -> impl Iterator<Item = Point> {
    frame.frame_loss.iter().map(|point| {
        let mut parameters = size(frame);
        // A step of a tenth is no number that a computer has: 0.7 times 100 is 70.00000000000001.
        parameters.insert(LOAD.to_owned(), ((point.share * 1e6).round() / 1e4).into());
        let mut figures = vec![Figure::new("loss", "%", Better::Less, vec![100.0 * point.loss_ratio])];
        if point.trial.generator_limited() {
            figures.push(Figure::new("not sent", "%", Better::Less, vec![100.0 * point.trial.unsent_ratio()]));
        }
        Point { parameters, help: String::new(), trouble: None, figures }
    })
}

fn size(frame: &FrameReport) -> std::collections::BTreeMap<String, Value> {
    [(FRAME.to_owned(), f64::from(frame.frame_size).into())].into()
}
