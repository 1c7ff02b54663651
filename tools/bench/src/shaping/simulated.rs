//! What the scheduler promises, in simulated time: nothing here depends on the machine but how long it takes.

use weir_sched::simulation::{SMALL, Simulation, Source, World, gap, holding};

use super::Finding;
use crate::record::{Better, Value};
use crate::search::Stop;

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// The rate of a user, bit/s.
const RATE: u64 = 1_000_000;

/// The port's rate for each user, bit/s: 40 Gbit/s for 32,768.
const PORT_PER_USER: u64 = 40_000_000_000 / 32_768;

/// The longest that one packet in a thousand of a user who conforms may wait, nanoseconds.
const WAIT: u64 = MS;

/// For a moment after the beginning all buckets are full, and nobody can be told from those who conform, nanoseconds.
const SETTLE: u64 = 10 * MS;

/// Users who conform while all others do not.
const FEW: u32 = 64;

/// How large and how long.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Users.
    pub users: u32,
    /// How long users are offered twice their rates, nanoseconds.
    pub rates: u64,
    /// How long those who conform are watched, nanoseconds.
    pub conforming: u64,
    /// Packets of which it is seen how many are held.
    pub holding: u64,
}

impl Scale {
    /// What the promises are made for.
    pub const WHOLE: Scale = Scale { users: 32_768, rates: 10 * SECOND, conforming: SECOND, holding: 56_000_000 };

    /// The same of fewer users.
    pub fn of_users(users: u32) -> Scale {
        let whole = Scale::WHOLE;
        Scale { users, holding: whole.holding * u64::from(users) / u64::from(whole.users) + 1_000_000, ..whole }
    }

    fn port(&self) -> u64 {
        PORT_PER_USER * u64::from(self.users)
    }
}

/// Told how far a check is: a sentence. Whether to go on.
pub type Watch<'a> = &'a mut dyn FnMut(&str) -> bool;

/// Lets it run, and says now and then how far it is.
fn run(simulation: &mut Simulation, end: u64, what: &str, watch: Watch<'_>) -> Result<(), Stop> {
    for part in 1..=10 {
        let seconds = |time: u64| time as f64 / SECOND as f64;
        if !watch(&format!("{what}: {:.2} of {:.2} s", seconds(end * (part - 1) / 10), seconds(end))) {
            return Err(Stop::Interrupted);
        }
        simulation.run(end * part / 10);
    }
    Ok(())
}

fn judge_windows(finding: &mut Finding, simulation: &Simulation) {
    let early: u64 = simulation.windows().map(|windows| windows.early).sum();
    let late: u64 = simulation.windows().map(|windows| windows.late).sum();
    finding.judge(
        "no window T has more of a user than tb_size + rate T",
        format!("{early} packets of all users left too early"),
        early == 0,
    );
    finding.judge(
        "nor less than rate T - tb_size - a frame while it has packets waiting",
        format!("{late} packets left too late"),
        late == 0,
    );
}

/// Every user is offered twice its rate, and gets it within 0.5 %.
///
/// # Errors
///
/// It was interrupted.
pub fn rates(scale: &Scale, watch: Watch<'_>) -> Result<Finding, Stop> {
    let sources = vec![Source::constant(gap(RATE, 2.0)); scale.users as usize];
    let (port, buffers) = (scale.port(), 2 * scale.users);
    let mut simulation = Simulation::new(World { port, rate: RATE, buffers, minimum: 1, sources, seed: 1, late: WAIT });
    run(&mut simulation, scale.rates, "rates", watch)?;
    let seconds = scale.rates as f64 / SECOND as f64;
    let mbit = simulation.seen().map(|seen| (seen.sent * u64::from(SMALL) * 8) as f64 / seconds / 1e6);
    let (least, most) = mbit.fold((f64::INFINITY, 0.0_f64), |(least, most), rate| (least.min(rate), most.max(rate)));
    let off = (least - 1.0).abs().max((most - 1.0).abs());
    let mut finding =
        Finding::new("rates", "Every user is offered twice its rate of 1 Mbit/s in frames of 64 bytes, evenly.");
    finding.figure("least rate", "Mbit/s", Better::Neither, least);
    finding.figure("greatest rate", "Mbit/s", Better::Neither, most);
    let packets: u64 = simulation.seen().map(|seen| seen.sent).sum();
    finding.detail("packets sent", "million", Better::Neither, packets as f64 / 1e6);
    let found = format!("{least:.4} to {most:.4} Mbit/s, {:.3} % off at most", off * 100.0);
    finding.judge("every user gets its rate within 0.5 %", found, off <= 0.005);
    judge_windows(&mut finding, &simulation);
    Ok(finding)
}

/// How many send too much, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greedy {
    /// One user.
    One,
    /// One in a hundred.
    Hundredth,
    /// All but a few.
    Others,
}

impl Greedy {
    /// All there are.
    pub const ALL: [Greedy; 3] = [Greedy::One, Greedy::Hundredth, Greedy::Others];

    fn name(self) -> &'static str {
        match self {
            Greedy::One => "one user",
            Greedy::Hundredth => "1 %",
            Greedy::Others => "all others",
        }
    }

    /// Users who conform.
    fn conforming(self, users: u32) -> u32 {
        match self {
            Greedy::One => users.saturating_sub(1),
            Greedy::Hundredth => users - users.div_ceil(100),
            Greedy::Others => FEW.min(users / 2),
        }
    }
}

/// While others send `times` their rates, no user who conforms loses a packet or waits longer than a millisecond for more than one packet
/// in a thousand.
///
/// # Errors
///
/// It was interrupted.
pub fn conforming(scale: &Scale, greedy: Greedy, times: u32, watch: Watch<'_>) -> Result<Finding, Stop> {
    let conforming = greedy.conforming(scale.users);
    let source = |n| {
        if n < conforming {
            Source::conforming(gap(RATE, 0.9), RATE)
        } else {
            Source::constant(gap(RATE, f64::from(times)))
        }
    };
    let sources = (0..scale.users).map(source).collect();
    // Whoever conforms may send four packets at once, and needs buffers for them.
    let (port, buffers) = (scale.port(), 8 * scale.users);
    let mut simulation = Simulation::new(World { port, rate: RATE, buffers, minimum: 4, sources, seed: 7, late: WAIT });
    simulation.run(SETTLE);
    simulation.watch(conforming);
    let what = format!("conforming, while {} at {times} times the rate", greedy.name());
    run(&mut simulation, scale.conforming, &what, watch)?;
    let help = "Users who conform to a bucket of 4 frames at their rate (at 90 % of it, at random), while others send more than theirs.";
    let mut finding = Finding::new("conforming", help)
        .with("others", greedy.name().into())
        .with("times", Value::Number(f64::from(times)));
    let own = || simulation.seen().take(conforming as usize);
    let lost: u64 = own().map(|seen| seen.lost).sum();
    let others: u64 = simulation.seen().skip(conforming as usize).map(|seen| seen.lost).sum();
    let late = own().filter(|seen| seen.late * 1000 > seen.sent).count();
    let micros = |share| simulation.waits().exceeded_by(share) as f64 / 1e3;
    let (p50, p999, longest) = (micros(0.5), micros(0.001), simulation.waits().longest as f64 / 1e3);
    finding.figure("wait p99.9", "us", Better::Less, p999);
    finding.figure("longest wait", "us", Better::Less, longest);
    finding.detail("wait p50", "us", Better::Less, p50);
    finding.detail("users who conform", "", Better::Neither, f64::from(conforming));
    finding.detail("lost by the others", "million packets", Better::Neither, others as f64 / 1e6);
    finding.judge("no user who conforms loses a packet", format!("{lost} are lost"), lost == 0 && others > 0);
    finding.judge(
        "none waits longer than 1 ms for more than one packet in a thousand",
        format!("{late} of {conforming} do; of all packets p99.9 is {p999:.0} us, the longest wait {longest:.0} us"),
        late == 0 && p999 > 0.0,
    );
    judge_windows(&mut finding, &simulation);
    Ok(finding)
}

/// While packets come one by one at 95 % of the port's rate and all conform, little is held.
///
/// # Errors
///
/// It was interrupted.
pub fn held(scale: &Scale, watch: Watch<'_>) -> Result<Finding, Stop> {
    let mut stopped = false;
    let found = holding(scale.port(), scale.users, scale.holding, &mut |packets| {
        stopped = !watch(&format!("holding: {packets} of {} packets", scale.holding));
        !stopped
    });
    if stopped {
        return Err(Stop::Interrupted);
    }
    let help = "Packets come one by one at random (Poisson) at 95 % of the port's rate, of users who conform and share 95 % of it.";
    let mut finding = Finding::new("holding", help);
    finding.figure("held", "packets", Better::Less, found.average);
    finding.figure("held p99.9", "packets", Better::Less, f64::from(found.p999));
    finding.detail("held at most", "packets", Better::Less, f64::from(found.most));
    let text = format!("{:.1} on average, {} at p99.9, {} at most", found.average, found.p999, found.most);
    finding.judge(
        "it holds fewer than 64 packets on average and 256 at p99.9",
        text,
        found.average < 64.0 && found.p999 < 256 && found.lost == 0,
    );
    Ok(finding)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALLER: Scale = Scale { users: 200, rates: SECOND * 3, conforming: SECOND / 2, holding: 100_000 };

    #[test]
    fn small_worlds_keep_their_promises() {
        let mut told = 0;
        let mut watch = |_: &str| {
            told += 1;
            true
        };
        let mut findings = vec![rates(&SMALLER, &mut watch).unwrap(), held(&SMALLER, &mut watch).unwrap()];
        for greedy in Greedy::ALL {
            findings.push(conforming(&SMALLER, greedy, 10, &mut watch).unwrap());
        }
        let verdicts = super::super::Verdicts::of(&findings);
        assert!(verdicts.kept, "{:?}", verdicts.lines());
        assert_eq!((findings.len(), verdicts.verdicts.len(), told), (5, 3 + 1 + 3 * 4, 10 + 1 + 30));
    }

    #[test]
    fn whoever_is_not_to_go_on_is_interrupted() {
        assert_eq!(rates(&SMALLER, &mut |_| false), Err(Stop::Interrupted));
        assert_eq!(held(&SMALLER, &mut |_| false), Err(Stop::Interrupted));
    }

    /// A criterion that cannot be missed would be none.
    #[test]
    fn promises_can_be_broken() {
        // Too short a time for what a bucket holds to be less than 0.5 % of it.
        let hasty = Scale { rates: SECOND / 100, ..SMALLER };
        assert!(!rates(&hasty, &mut |_| true).unwrap().verdicts[0].kept);
    }
}
