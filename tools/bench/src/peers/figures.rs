//! Figures of Weir and a peer, side by side.

use serde::{Deserialize, Serialize};

use crate::record::{Better, Figure, Point, Value};
use crate::summary::Summary;

/// One sample of either.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// TSC cycles of the core for each packet or look-up.
    pub cycles: f64,
    /// Packets or look-ups, million per second.
    pub rate: f64,
    /// The share of the core that it took, percent, where a generator decides what there is to do.
    pub busy: Option<f64>,
    /// The share of the time that the program had to wait for its core, percent, where that is known.
    pub waited: Option<f64>,
    /// Packets that it held, where it holds any.
    pub held: Option<f64>,
}

/// Adds a sample of Weir and one of the peer, taken one after the other, to a point.
pub fn pair(point: &mut Point, ours: &Measured, theirs: &Measured) {
    let mut add = |name: &str, unit: &str, better, value: Option<f64>, detail: bool| {
        let Some(value) = value else { return };
        let figure = Figure::new(name, unit, better, vec![value]);
        point.add(if detail { figure.as_detail() } else { figure });
    };
    add("ratio", "", Better::Less, (theirs.cycles > 0.0).then(|| ours.cycles / theirs.cycles), false);
    add("ours", "cycles", Better::Less, Some(ours.cycles), false);
    add("theirs", "cycles", Better::Neither, Some(theirs.cycles), false);
    add("our rate", "M/s", Better::More, Some(ours.rate), false);
    add("their rate", "M/s", Better::Neither, Some(theirs.rate), false);
    add("we were busy", "%", Better::Neither, ours.busy, true);
    add("they were busy", "%", Better::Neither, theirs.busy, true);
    add("we waited", "%", Better::Neither, ours.waited, true);
    add("they waited", "%", Better::Neither, theirs.waited, true);
    add("we held", "packets", Better::Neither, ours.held, true);
    add("they held", "packets", Better::Neither, theirs.held, true);
}

/// Who takes less than this share of its core, percent, might have let more through.
const FULLY: f64 = 95.0;

/// A sentence on who was the limit of the rates of a point, where a generator decided what there was to do; `None` if it was always the
/// programs that are compared.
pub fn limit(point: &Point) -> Option<String> {
    let rested = |name: &str| {
        let busy = point.figure(name)?;
        Some((busy.samples.iter().filter(|share| **share < FULLY).count(), busy.samples.len()))
    };
    let ((ours, all), (theirs, _)) = (rested("we were busy")?, rested("they were busy")?);
    (ours + theirs > 0).then(|| {
        format!(
            "in {ours} of {all} samples Weir and in {theirs} of {all} the peer did not fully use its core: the generator, or the other \
             end of a link, was the limit there, so those rates are not theirs, and only the cycles are"
        )
    })
}

/// The figures of all points in short, beside those of the record: what most readers of the JSON look for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// Weir and one peer at one work each.
    pub peers: Vec<PairFigures>,
}

/// Weir and a peer at the same work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairFigures {
    /// The peer.
    pub peer: String,
    /// The work.
    pub work: String,
    /// Weir's cost over the peer's: below 1, Weir is cheaper.
    pub ratio: Summary,
    /// Weir's rate, million per second.
    pub our_rate: Summary,
    /// The peer's rate, million per second.
    pub their_rate: Summary,
    /// Whether the comparison came to its end.
    pub whole: bool,
}

impl Beside {
    /// The figures of a record's points; those without figures are left out.
    pub fn of(points: &[Point]) -> Beside {
        Beside { peers: points.iter().filter_map(PairFigures::of).collect() }
    }
}

impl PairFigures {
    fn of(point: &Point) -> Option<PairFigures> {
        let text = |name: &str| match point.parameters.get(name) {
            Some(Value::Text(text)) => Some(text.clone()),
            _ => None,
        };
        let summary = |name: &str| point.figure(name).map(|figure| figure.summary);
        Some(PairFigures {
            peer: text("peer")?,
            work: text("work")?,
            ratio: summary("ratio")?,
            our_rate: summary("our rate")?,
            their_rate: summary("their rate")?,
            whole: point.trouble.is_none(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(cycles: f64, rate: f64, busy: Option<f64>) -> Measured {
        Measured { cycles, rate, busy, waited: Some(1.0), held: None }
    }

    #[test]
    fn pairs_give_ratios() {
        let mut point = Point::default();
        point.parameters.insert("peer".to_owned(), "it".into());
        point.parameters.insert("work".to_owned(), "that".into());
        pair(&mut point, &measured(20.0, 100.0, None), &measured(40.0, 50.0, None));
        pair(&mut point, &measured(30.0, 70.0, None), &measured(40.0, 50.0, None));
        assert_eq!(point.figure("ratio").unwrap().samples, [0.5, 0.75]);
        assert_eq!(point.figure("ours").unwrap().summary.median, 25.0);
        assert!(point.figure("we were busy").is_none() && limit(&point).is_none());
        let short = Beside::of(&[point.clone(), Point::default()]);
        let [it] = short.peers.as_slice() else { panic!("{short:?}") };
        assert_eq!((it.peer.as_str(), it.work.as_str(), it.whole), ("it", "that", true));
        assert_eq!((it.ratio.median, it.their_rate.max), (0.625, 50.0));
        // What costs nothing gives no ratio.
        pair(&mut point, &measured(30.0, 70.0, None), &measured(0.0, 50.0, None));
        assert_eq!(point.figure("ratio").unwrap().samples.len(), 2);
    }

    #[test]
    fn a_generator_that_was_the_limit_is_told() {
        let mut point = Point::default();
        pair(&mut point, &measured(10.0, 1.0, Some(99.0)), &measured(10.0, 1.0, Some(97.5)));
        assert_eq!(limit(&point), None);
        pair(&mut point, &measured(10.0, 1.0, Some(40.0)), &measured(10.0, 1.0, Some(100.0)));
        let sentence = limit(&point).unwrap();
        assert!(sentence.starts_with("in 1 of 2 samples Weir and in 0 of 2 the peer"), "{sentence}");
    }
}
