//! From two captures to a report.

use weir_filter::Filter;

use crate::gather::{Gatherer, Progress};
use crate::hash::Hasher;
use crate::matching::{Learned, Matching, Tally};
use crate::notes::Around;
use crate::options::{Clock, Options};
use crate::packet::{Side, Source};
use crate::report::{CaptureReport, ClockReport, FORM, Report, Total};
use crate::spool::Spool;
use crate::streams::Streams;
use crate::summary::Summary;
use crate::ways::Ways;

/// Finds out what became of the packets of `sent`, of which `received` has what came out of the device. `progress` is told how much
/// was read.
///
/// # Errors
///
/// Why nothing can be said, in a sentence: temporary files cannot be written, or there is more than can be told apart.
pub fn analyse<S: Source, R: Source>(
    options: &Options,
    sent: &mut S,
    received: &mut R,
    progress: Progress<'_>,
) -> Result<Report, String> {
    // Captures have many packets.
    [&options.filter_sent, &options.filter_received].into_iter().flatten().for_each(Filter::compile);
    let hasher = Hasher::random();
    let (mut streams, mut ways) = (Streams::new(options.profile), Ways::default());
    let gatherer = |side, filter| Gatherer { side, model: options.model.as_ref(), filter, hasher };
    // A quarter each for what was sent, what was received, the table of the one and what is known of the other.
    let room = options.memory / 4;
    let mut was_sent = Spool::new(1, room, &options.temp);
    let mut before = gatherer(Side::Sent, options.filter_sent.as_ref()).sent(
        sent,
        &options.by,
        (&mut streams, &mut ways),
        &mut was_sent,
        progress,
    )?;
    let mut was_received = Spool::new(was_sent.parts(), room, &options.temp);
    let (mut behind, places) =
        gatherer(Side::Received, options.filter_received.as_ref()).received(received, &mut was_received, progress)?;
    let mut matching = Matching {
        sent: was_sent,
        received: was_received,
        streams: &mut streams,
        ways: &mut ways,
        window: options.window,
        clock: options.clock,
        renames: options.model.renames(),
        trim: options.trim,
        memory: room,
        temp: &options.temp,
    };
    let learned = matching.learn()?;
    let tally = matching.run(&learned)?;
    drop(matching);
    before.outside = tally.outside_sent;
    behind.outside = tally.outside_received;
    before.settle();
    behind.settle();
    let mut total = total(&before, &behind, &tally, u64::from(places) - tally.outside_received);
    total.bindings = options.model.renames().then(|| learned.bindings.count());
    let summary = Summary { by: &options.by, clock: options.clock, order: options.order };
    let told = summary.streams(&streams, &mut total);
    let around = Around { learned: &learned, other_way: ways.filter() };
    let notes = crate::notes::notes(options, (&before, &behind), &total, &around, &told);
    Ok(Report {
        version: FORM,
        partial: before.damage.iter().chain(&behind.damage).cloned().collect(),
        model: options.model.name().to_owned(),
        by: options.by.names(),
        clock: clock(options.clock, &learned, streams.zero()),
        window_ns: options.window,
        sent: before,
        received: behind,
        total,
        order: options.order.name().to_owned(),
        stream_count: told.len() as u64,
        streams: told,
        notes,
    })
}

fn total(before: &CaptureReport, behind: &CaptureReport, tally: &Tally, received: u64) -> Total {
    let sent = before.counted;
    let lost = sent - tally.matched.min(sent);
    Total {
        sent,
        received,
        matched: tally.matched,
        ambiguous: tally.ambiguous,
        lost,
        loss_ratio: if sent == 0 { 0.0 } else { lost as f64 / sent as f64 },
        duplicated: tally.duplicated,
        unmatched: tally.unknown + tally.too_old + tally.too_early,
        too_old: tally.too_old,
        too_early: tally.too_early,
        filtered_sent: before.filtered + before.elsewhere,
        filtered_received: behind.filtered + behind.elsewhere,
        ..Total::default()
    }
}

fn clock(mode: Clock, learned: &Learned, zero: i64) -> ClockReport {
    let line = learned.line;
    let found = learned.compared.is_some_and(|packets| packets > 0);
    // What the line says of the time when the first packet was sent.
    let moved = (zero.wrapping_sub(line.origin) as f64 * line.drift).round() as i64;
    ClockReport {
        mode: match mode {
            Clock::Same => "same",
            Clock::Offset => "offset",
            Clock::Drift => "drift",
        },
        synchronised: mode == Clock::Same,
        offset_ns: found.then(|| line.offset.wrapping_add(moved)),
        drift_ppm: (found && mode == Clock::Drift).then_some(line.drift * 1e6),
        packets: learned.compared,
    }
}
