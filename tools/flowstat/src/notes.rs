//! What a reader must know to judge the figures.

use crate::matching::Learned;
use crate::options::{Clock, Options};
use crate::report::{CaptureReport, Stream, Total};

/// What is known beside the figures.
#[derive(Debug)]
pub(crate) struct Around<'a> {
    /// What was learned of the captures.
    pub(crate) learned: &'a Learned,
    /// The filter that leaves one direction of what was sent, if it seems to hold both.
    pub(crate) other_way: Option<String>,
}

/// Sentences about what looks wrong or could mislead.
pub(crate) fn notes(
    options: &Options,
    (sent, received): (&CaptureReport, &CaptureReport),
    total: &Total,
    around: &Around<'_>,
    streams: &[Stream],
) -> Vec<String> {
    let (mut notes, learned) = (Vec::new(), around.learned);
    for (side, capture) in [("sent", sent), ("received", received)] {
        notes.extend(of_side(options, side, capture));
    }
    if total.ambiguous > 0 {
        notes.push(format!(
            "{} of the packets found look like several that were sent within {}; each was taken for the first of them: latency, order \
             and loss are not certain to be of the right packets",
            total.ambiguous,
            nanos(options.window)
        ));
    }
    if let Some(filter) = &around.other_way {
        notes.push(format!(
            "what was sent seems to hold both directions: {} packets were received before they were sent, as answers are; what runs the other \
             way counts as lost and unmatched; say --filter-sent '{filter}'",
            total.too_early
        ));
    } else if total.too_early > 0 {
        notes.push(format!(
            "{} packets were received before what looks like them was sent; if the captures have different clocks, say --clock offset",
            total.too_early
        ));
    }
    if total.too_old > 0 {
        notes.push(format!(
            "{} packets were received more than {} after what looks like them was sent; if they may take longer, raise --window",
            total.too_old,
            nanos(options.window)
        ));
    }
    if learned.compared == Some(0) {
        notes.push("the clocks could not be compared: no packet was found whose like was sent only once".to_owned());
    }
    if options.clock != Clock::Same {
        notes.push(
            "the clocks differ by an unknown amount: only how delays vary can be told, not how long they are"
                .to_owned(),
        );
    }
    if learned.bindings.conflicts() > 0 {
        notes.push(format!(
            "{} flows had several names on the other side; their packets are known by what they carry alone",
            learned.bindings.conflicts()
        ));
    }
    if sent.outside + received.outside > 0 {
        notes.push(format!(
            "--trim left {} packets sent and {} received out, which are neither lost nor unmatched: the other capture does not cover their time",
            sent.outside, received.outside
        ));
    }
    if !options.trim && total.matched > 0 && total.lost > 0 && not_together(sent, received) {
        notes.push(
            "the captures do not seem to have run together: what only one of them covers counts as lost or unmatched; --trim leaves it out"
                .to_owned(),
        );
    }
    if total.sent > 0 && total.matched == 0 {
        notes.push(format!(
            "no packet was found again: is it the right --model? This one, {}, knows packets by other bytes than the device kept",
            options.model.name()
        ));
    }
    if streams.len() > 64 {
        notes.push(
            "there are many streams, so that the figures of each are kept in bounds: quantiles may be known to less than 0.1 %".to_owned(),
        );
    }
    notes
}

fn of_side(options: &Options, side: &str, capture: &CaptureReport) -> Vec<String> {
    let mut notes = Vec::new();
    if capture.cut > 0 {
        notes.push(format!(
            "of {} packets {side} too little was captured to know them; --bytes {} would make do with what there is, and raising the \
             snap length of the capture would be better",
            capture.cut, capture.shortest_cut
        ));
    }
    if capture.foreign > 0 {
        notes.push(format!(
            "{} packets {side} were not captured on Ethernet: filters look at Ethernet frames only, so that none of these matched; leave \
             --filter-{side} out, or filter when capturing",
            capture.foreign
        ));
    }
    if capture.unidentified > 0 {
        notes.push(format!("{} packets {side} {}", capture.unidentified, options.model.unidentified()));
    }
    if capture.misaddressed > 0 {
        let what = if side == "sent" {
            "are of no softwire with these addresses, and should be dropped"
        } else {
            "came out in a tunnel that is not theirs"
        };
        notes.push(format!("{} packets {side} {what}", capture.misaddressed));
    }
    if capture.corrupt > 0 {
        notes.push(format!("{} packets {side} were changed on their way, as their signature says", capture.corrupt));
    }
    notes
}

/// Whether one capture begins or ends well away from the other, by a tenth of what it covers.
fn not_together(sent: &CaptureReport, received: &CaptureReport) -> bool {
    let (Some(first), Some(last), Some(from), Some(to)) =
        (sent.first_ns, sent.last_ns, received.first_ns, received.last_ns)
    else {
        return false;
    };
    let tenth = last.saturating_sub(first) / 10;
    from.saturating_sub(first) > tenth || last.saturating_sub(to) > tenth
}

/// A time, from nanoseconds.
pub(crate) fn nanos(nanos: u64) -> String {
    match nanos {
        0..10_000 => format!("{nanos} ns"),
        10_000..10_000_000 => format!("{} us", nanos as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{} ms", nanos as f64 / 1e6),
        _ => format!("{} s", nanos as f64 / 1e9),
    }
}
