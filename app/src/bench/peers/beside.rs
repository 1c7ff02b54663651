//! A peer beside the cases of a function, in `weir bench cpp`: measured alone, one run after the other, as they are.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_bench::{Better, Figure, Point, Record};

use super::super::cpp::{CYCLES, CppOptions, WINDOW};
use super::PEERS;
use super::contest::{Beside, Peer};
use super::lab::Lab;

/// How long a program may take to start, and to answer.
const PATIENCE: Duration = Duration::from_secs(60);

const REMARK: &str = "A peer beside the cases is a library in a loop: own and whole are the calls into it alone, and there is nothing \
                      bare. `weir bench peers` measures it in turns with Weir.";

/// The peers beside a function's cases.
fn all(function: &str) -> impl Iterator<Item = (&'static dyn Peer, Beside)> {
    let beside = PEERS.iter().filter_map(|peer| Some((*peer, peer.beside()?)));
    beside.filter(move |(_, beside)| beside.function == function)
}

/// The names of the peers beside a function's cases.
pub(in crate::bench) fn names(function: &str) -> Vec<&'static str> {
    all(function).map(|(_, beside)| beside.case).collect()
}

/// Measures those that `options` choose into a record. One that cannot be measured here is an error if it was chosen by its name,
/// and a remark else.
pub(in crate::bench) fn measure(
    options: &CppOptions,
    stop: &mut dyn FnMut() -> Result<Arc<AtomicBool>, String>,
    record: &mut Record,
    progress: &mut dyn FnMut(&str),
) -> Result<(), String> {
    let is_chosen = |beside: &Beside| options.cases.is_empty() || options.cases.iter().any(|name| name == beside.case);
    let chosen: Vec<_> = all(&options.function).filter(|(_, beside)| is_chosen(beside)).collect();
    if chosen.is_empty() {
        return Ok(());
    }
    let lab = Lab::new(options.core, options.data.clone(), PATIENCE, stop()?)?;
    for (peer, beside) in chosen {
        let Beside { case, work, .. } = beside;
        if let Some(why) = peer.absent(&lab) {
            if !options.cases.is_empty() {
                return Err(format!("case {case}: {why}"));
            }
            record.remarks.push(format!("{case} was skipped: {why}."));
            continue;
        }
        progress(&format!("{case}: {}", work.help));
        let mut contest = peer.start(work, &lab).map_err(|stop| format!("case {case}: {stop}"))?;
        let mut point = Point { help: work.help.to_owned(), ..Point::default() };
        point.parameters.insert("case".to_owned(), case.into());
        for _ in 0..options.runs.max(1) {
            let measured = contest.theirs.measure(&lab, WINDOW).map_err(|stop| format!("case {case}: {stop}"))?;
            let one = |name: &str, unit: &str, better, value| Figure::new(name, unit, better, vec![value]);
            point.add(one("own", CYCLES, Better::Less, measured.cycles));
            point.add(one("whole", CYCLES, Better::Less, measured.cycles));
            point.add(one("bare", CYCLES, Better::Neither, 0.0));
            point.add(one("rate", "Mpps", Better::More, measured.rate));
            measured.waited.into_iter().for_each(|waited| point.add(one("waited", "%", Better::Neither, waited)));
            let held = measured.held.into_iter().map(|held| one("held", "packets", Better::Neither, held).as_detail());
            held.for_each(|held| point.add(held));
        }
        record.points.push(point);
        let texts = contest.configurations.into_iter().filter(|(name, _)| *name == peer.name());
        record.configurations.extend(texts.map(|(_, text)| (case.to_owned(), text)));
        record.remarks.push(REMARK.to_owned());
    }
    Ok(())
}
