//! The plots of a page.

use weir_page::{Axis, Chart, Curve, Shape};

use crate::report::{Piece, SeriesReport, Stream};

/// Bars of a histogram, at most.
const BARS: i64 = 120;

/// A plot, and what is said of it.
pub(crate) struct Figure {
    pub(crate) title: &'static str,
    pub(crate) beside: String,
    pub(crate) chart: Chart,
}

/// A distribution as counts of equal pieces of a range.
struct Histogram {
    from: i64,
    width: i64,
    counts: Vec<u64>,
    /// Values above the range.
    above: u64,
    all: u64,
    most: i64,
}

impl Histogram {
    /// From a cumulative distribution. Where a few values lie far above the others, they are left out.
    fn new(steps: &[(i64, u64)]) -> Option<Histogram> {
        let (&(least, _), &(most, all)) = (steps.first()?, steps.last()?);
        let nearly_all = all - all / 1000;
        let usual = steps.iter().find(|(_, count)| *count >= nearly_all).map_or(most, |(value, _)| *value);
        let outliers = most.saturating_sub(least) / 4 > usual.saturating_sub(least);
        Some(Histogram::of(steps, least, if outliers { usual } else { most }))
    }

    /// Of the values from `from` to `to`.
    fn of(steps: &[(i64, u64)], from: i64, to: i64) -> Histogram {
        let width = to.saturating_sub(from) / BARS + 1;
        let bars = (to.saturating_sub(from) / width + 1).clamp(1, BARS) as usize;
        let mut counts = vec![0; bars];
        let (mut above, mut before) = (0, 0);
        for &(value, so_far) in steps {
            let here = so_far - before;
            before = so_far;
            if value < from {
                continue;
            }
            match counts.get_mut((value.saturating_sub(from) / width) as usize).filter(|_| value <= to) {
                Some(count) => *count += here,
                None => above += here,
            }
        }
        let most = steps.last().map_or(to, |(value, _)| *value);
        Histogram { from, width, counts, above, all: before, most }
    }

    /// The range around the highest bar, three bars wide; `None` if there is nothing more to see there.
    fn peak(&self) -> Option<(i64, i64)> {
        let (highest, _) = self.counts.iter().enumerate().max_by_key(|(n, count)| (**count, usize::MAX - n))?;
        let start = self.from.saturating_add(self.width.saturating_mul(highest as i64));
        let from = start.saturating_sub(self.width).max(self.from);
        (self.width > 1).then(|| (from, start.saturating_add(self.width.saturating_mul(2))))
    }

    fn chart(&self, x: String, scale: f64) -> Chart {
        let at = |n: usize| (self.from as f64 + self.width as f64 * n as f64) / scale;
        let points = self.counts.iter().enumerate().map(|(n, count)| (at(n), *count as f64)).collect();
        let bars = Curve { name: String::new(), shape: Shape::Bars(self.width as f64 / scale), points };
        let range = Some((at(0), at(self.counts.len())));
        Chart { x: Axis { title: x, range }, y: Axis::of("packets"), curves: vec![bars] }
    }

    fn beside(&self, show: impl Fn(i64) -> String) -> String {
        if self.above == 0 {
            return String::new();
        }
        format!("{} of {} packets lie beyond, up to {}", self.above, self.all, show(self.most))
    }
}

/// The unit for times up to `nanos`: its name, and how many nanoseconds it has.
fn unit(nanos: f64) -> (&'static str, f64) {
    match nanos {
        nanos if nanos < 1e4 => ("ns", 1.0),
        nanos if nanos < 1e7 => ("us", 1e3),
        nanos if nanos < 1e10 => ("ms", 1e6),
        _ => ("s", 1e9),
    }
}

/// How long packets took; by clocks that differ, how much longer than the quickest.
pub(crate) fn delays(stream: &Stream, synchronised: bool) -> Option<Figure> {
    let base = if synchronised { 0 } else { stream.delays.first()?.0 };
    let steps: Vec<(i64, u64)> =
        stream.delays.iter().map(|(delay, count)| (delay.saturating_sub(base), *count)).collect();
    let histogram = Histogram::new(&steps)?;
    let (name, scale) = unit(histogram.from as f64 + histogram.width as f64 * histogram.counts.len() as f64);
    let (title, axis) =
        if synchronised { ("Latency", "latency") } else { ("Packet delay variation", "more than the least delay") };
    let beside = histogram.beside(super::pages::time);
    Some(Figure { title, beside, chart: histogram.chart(format!("{axis}, {name}"), scale) })
}

/// How many packets of others came between those of a stream, and the highest peak of that from near.
pub(crate) fn gaps(stream: &Stream) -> Vec<Figure> {
    const AXIS: &str = "packets of others between two of the stream";
    let Some(histogram) = Histogram::new(&stream.gaps) else { return Vec::new() };
    let beside = histogram.beside(|gap| gap.to_string());
    let mut figures = vec![Figure { title: "Gaps", beside, chart: histogram.chart(AXIS.to_owned(), 1.0) }];
    if let Some((from, to)) = histogram.peak() {
        let near = Histogram::of(&stream.gaps, from, to);
        let beside = format!("from {from} to {to}");
        figures.push(Figure { title: "Gaps around the highest peak", beside, chart: near.chart(AXIS.to_owned(), 1.0) });
    }
    figures
}

/// When the packets of a stream came: the slope is the rate.
pub(crate) fn arrivals(stream: &Stream) -> Option<Figure> {
    let series = &stream.series;
    let (name, scale) = time_axis(series)?;
    let curve = |name: &str, shape, of: fn(&Piece) -> u32| {
        let mut sum = 0.0;
        let mut points = Vec::new();
        for piece in series.pieces.iter().filter(|piece| of(piece) > 0) {
            let (from, to) = (f64::from(piece.at), f64::from(piece.at) + 1.0);
            points.push((from * series.width_ns as f64 / scale, sum));
            sum += f64::from(of(piece));
            points.push((to * series.width_ns as f64 / scale, sum));
        }
        Curve { name: name.to_owned(), shape, points }
    };
    let curves =
        vec![curve("sent", Shape::Dashes, |piece| piece.sent), curve("received", Shape::Line, |piece| piece.received)];
    let slope = |bps: Option<f64>| bps.map_or_else(|| "-".to_owned(), super::pages::rate);
    let beside =
        format!("the slope is the rate: {} sent, {} received", slope(stream.sent_bps), slope(stream.received_bps));
    let axis = Axis::of(format!("since the first packet of all was sent, {name}"));
    Some(Figure {
        title: "Arrival of packets",
        beside,
        chart: Chart { x: axis, y: Axis::of("packets so far"), curves },
    })
}

/// Which of the packets sent were lost, by when they were sent.
pub(crate) fn losses(series: &SeriesReport) -> Option<Figure> {
    let (name, scale) = time_axis(series)?;
    if series.pieces.iter().all(|piece| piece.lost == 0) {
        return None;
    }
    let width = series.width_ns as f64 / scale;
    let points = series.pieces.iter().map(|piece| (f64::from(piece.at) * width, f64::from(piece.lost))).collect();
    let bars = Curve { name: String::new(), shape: Shape::Bars(width), points };
    let beside = format!("each bar is {}", super::pages::time(series.width_ns.cast_signed()));
    let axis = Axis::of(format!("sent since the first packet of all, {name}"));
    Some(Figure {
        title: "Loss over time",
        beside,
        chart: Chart { x: axis, y: Axis::of("packets lost"), curves: vec![bars] },
    })
}

/// What was sent and received, over time.
pub(crate) fn rates(series: &SeriesReport) -> Option<Figure> {
    let (name, scale) = time_axis(series)?;
    let last = series.pieces.last()?.at;
    let curve = |name: &str, of: fn(&Piece) -> u64| {
        let mut values = vec![0; last as usize + 1];
        for piece in &series.pieces {
            values.get_mut(piece.at as usize).into_iter().for_each(|value| *value = of(piece));
        }
        let point = |(at, bytes): (usize, u64)| {
            (at as f64 * series.width_ns as f64 / scale, bytes as f64 * 8e3 / series.width_ns as f64)
        };
        Curve {
            name: name.to_owned(),
            shape: Shape::Steps,
            points: values.into_iter().enumerate().map(point).collect(),
        }
    };
    let curves = vec![curve("sent", |piece| piece.sent_bytes), curve("received", |piece| piece.received_bytes)];
    let beside = format!("means of {}", super::pages::time(series.width_ns.cast_signed()));
    let axis = Axis::of(format!("since the first packet was sent, {name}"));
    Some(Figure { title: "Rate", beside, chart: Chart { x: axis, y: Axis::of("Mbit/s"), curves } })
}

/// The unit of a series' time.
fn time_axis(series: &SeriesReport) -> Option<(&'static str, f64)> {
    let pieces = f64::from(series.pieces.last()?.at) + 1.0;
    Some(unit(pieces * series.width_ns as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cumulative distribution of values, and how often each comes.
    fn steps(values: &[(i64, u64)]) -> Vec<(i64, u64)> {
        let mut sum = 0;
        values
            .iter()
            .map(|&(value, times)| {
                sum += times;
                (value, sum)
            })
            .collect()
    }

    #[test]
    fn every_value_is_in_a_bar_or_above() {
        for values in [
            &[(5, 1)][..],
            &[(-3, 2), (4, 1)],
            &[(0, 500), (119, 1), (120, 7)],
            &[(1_000_000, 999), (1_000_001, 1), (9_000_000, 1)],
            &[(i64::MIN, 1), (i64::MAX, 1)],
        ] {
            let histogram = Histogram::new(&steps(values)).unwrap();
            let all: u64 = values.iter().map(|(_, times)| times).sum();
            assert_eq!(histogram.counts.iter().sum::<u64>() + histogram.above, all, "{values:?}");
            assert!(histogram.counts.len() <= BARS as usize);
        }
        assert!(Histogram::new(&[]).is_none());
    }

    #[test]
    fn bars_are_where_the_values_are() {
        let histogram = Histogram::of(&steps(&[(10, 1), (11, 2), (19, 4), (20, 8), (400, 16)]), 10, 20);
        assert_eq!((histogram.width, histogram.counts.len(), histogram.above), (1, 11, 16));
        assert_eq!((histogram.counts[0], histogram.counts[1], histogram.counts[9], histogram.counts[10]), (1, 2, 4, 8));
        let wide = Histogram::of(&steps(&[(0, 1), (9, 1), (10, 1), (1199, 1)]), 0, 1199);
        assert_eq!((wide.width, wide.counts[0], wide.counts[1], wide.counts[119]), (10, 2, 1, 1));
    }

    #[test]
    fn a_few_that_lie_far_away_are_left_out() {
        let histogram = Histogram::new(&steps(&[(100, 5000), (150, 5000), (1_000_000, 3)])).unwrap();
        assert_eq!((histogram.above, histogram.most, histogram.width), (3, 1_000_000, 1));
        assert_eq!(histogram.beside(|value| value.to_string()), "3 of 10003 packets lie beyond, up to 1000000");
        let near = Histogram::new(&steps(&[(100, 5000), (150, 5000), (300, 3)])).unwrap();
        assert_eq!(near.above, 0);
    }

    #[test]
    fn the_peak_is_seen_from_near() {
        let histogram = Histogram::new(&steps(&[(0, 1), (5000, 90), (5003, 80), (12_000, 10)])).unwrap();
        let (from, to) = histogram.peak().unwrap();
        assert!(from < 5000 && 5003 < to && to - from <= 3 * histogram.width, "{from} {to}");
        assert_eq!(Histogram::new(&steps(&[(0, 1), (50, 90)])).unwrap().peak(), None);
    }
}
