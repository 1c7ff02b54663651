//! The checks that take an engine.

use std::sync::Arc;
use std::time::Duration;

use weir_bench::search::Stop;
use weir_bench::shaping::Finding;
use weir_bench::shaping::engine::{self, RATE, RealTime, SIZE};
use weir_bench::shaping::users::{self, Users};
use weir_mem::Clock;
use weir_packet::buffers_needed;
use weir_port_mem::Loop;
use weir_stage::Case;
use weir_stage::case::{HEADER, Knob, Traffic};

use super::super::cpp;
use super::super::rig::{Rig, Setup};
use super::ShapingOptions;
use super::probe::{Watch, Watched};

/// Told how far it is; whether to go on.
type Go<'a> = &'a mut dyn FnMut(&str) -> bool;

const KNOBS: &[Knob] = &[Knob { name: "users", help: "users", usual: 1, least: 1, most: users::MOST as u64 }];

/// Users that are shaped, in turn.
fn case(name: &'static str, shaped: &Users) -> Case {
    let prepare = |_: &dyn weir_stage::Instance, _: &[weir_stage::PortInfo], chosen: &weir_stage::Chosen| {
        let all = chosen.number("users");
        let frame = move |n: u64, bytes: &mut [u8; HEADER]| users::write((n % all) as u32, bytes);
        let check = move |bytes: &[u8]| match users::user_of(bytes) {
            user if u64::from(user) < all && bytes.len() == users::FRAME => Ok(()),
            user => Err(format!("{} bytes came out of user {user}", bytes.len())),
        };
        Ok(Traffic { frame: Box::new(frame), frames: all, check: Box::new(check) })
    };
    Case { name, help: "users in turn", needs: &[], script: shaped.script(), port_keys: "", knobs: KNOBS, prepare }
}

fn setup(options: &ShapingOptions, users: u32) -> Setup {
    let mut setup = Setup::on(options.core.unwrap_or_else(weir_engine::last_core));
    setup.numbers.insert("users".to_owned(), u64::from(users));
    setup
}

/// Frames of 64 bytes per second at so many times the rate of all users.
fn packets(users: u32, rate: u64, times: u64) -> u64 {
    u64::from(users) * rate * times / (8 * (users::FRAME as u64 + 24))
}

/// Whether a rig still does what it should, and waits so long.
fn pause(go: Go<'_>, what: &str, time: Duration) -> Result<(), Stop> {
    if !go(what) {
        return Err(Stop::Interrupted);
    }
    cpp::pause(time);
    Ok(())
}

/// Users at twice their rates, second by second.
pub(super) fn real_time(options: &ShapingOptions, go: Go<'_>) -> Result<Finding, Stop> {
    let count = options.users.min(1024);
    let shaped = Users {
        users: count,
        rate: RATE,
        bucket: SIZE,
        port: 40_000_000_000 / u64::from(users::MOST) * u64::from(count),
        buffers: 8192,
    };
    let setup = Setup { rate: Some(packets(count, RATE, 2)), ..setup(options, count) };
    let seconds = options.time.as_secs().max(1);
    let room = (packets(count, RATE, 1) * (seconds + 3) * 11 / 10) as usize;
    let watched = Arc::new(Watched::default());
    let around = |name: &str, port| {
        let watch = if name == "out" { Watch::Sent { room, user_of: users::user_of } } else { Watch::Count };
        watched.around(port, watch)
    };
    let mut rig = Rig::around(&case("users-in-real-time", &shaped), &setup, &around).map_err(Stop::Failed)?;
    pause(go, "real time: warming up", Duration::from_millis(500))?;
    let clock = Clock::calibrate();
    let mut pieces = Vec::new();
    // The engine's own clock, by the last packet that left.
    let now = || watched.last_sent();
    watched.longest_loop();
    let mut from = now();
    for second in 1..=seconds {
        pause(go, &format!("real time: second {second} of {seconds}"), Duration::from_secs(1))?;
        let to = now();
        pieces.push((from, to, clock.span_nanos(watched.longest_loop())));
        from = to;
    }
    rig.feed(false);
    rig.verdict().map_err(Stop::Failed)?;
    drop(rig);
    Ok(engine::real_time(&RealTime { users: count, left: watched.sent(), pieces }))
}

/// Users at ten times their rates, with buffers for receive and without. In simulated time, as fast as it goes.
pub(super) fn buffers(options: &ShapingOptions, go: Go<'_>) -> Result<Finding, Stop> {
    const LEAST_RATE: u64 = 8_000;
    // Fewer could not fill the buffers, however much they send.
    let count = options.users.max(1024);
    // Two for each user, of which what goes round and what batches need is kept.
    let pool = 2 * count.max(8192) as usize;
    let reserve = buffers_needed(2 * Loop::DEPTH, 0, 2, 0);
    let per_second = packets(count, LEAST_RATE, 10);
    let mut found = |reserved: usize, what: &str| -> Result<(u64, u64), Stop> {
        if !go(what) {
            return Err(Stop::Interrupted);
        }
        let held = (pool - reserved) as u32;
        // A port fast enough for all of them, and buckets of four frames.
        let port = u64::from(count) * LEAST_RATE * 40_000 / 32_768;
        let shaped = Users { users: count, rate: LEAST_RATE, bucket: SIZE, port: port.max(8_000), buffers: held };
        let mut setup = Setup { rate: Some(per_second), ..setup(options, count) };
        (setup.count, setup.buffers) = (Some((2 * per_second).max(4 * pool as u64)), Some(pool));
        let watched = Arc::new(Watched::default());
        let around = |_: &str, port| watched.around(port, Watch::Count);
        let case = case("users-and-buffers", &shaped);
        let mut rig = Rig::around(&case, &setup, &around).map_err(Stop::Failed)?;
        let most = rig.drain_watching();
        rig.verdict().map_err(Stop::Failed)?;
        Ok((watched.no_buffer(), most))
    };
    let (reserved, held) = found(reserve, "buffers: with a reserve for receive")?;
    let (not, _) = found(0, "buffers: without")?;
    Ok(engine::buffers(count, pool, reserved, not, held))
}

/// A packet alone, from customers and to them.
pub(super) fn lone_packet(options: &ShapingOptions, go: Go<'_>) -> Result<Vec<Finding>, Stop> {
    let (name, cases) = users::GATEWAY;
    let function = cpp::function(name).map_err(Stop::Failed)?;
    let clock = Clock::calibrate();
    let [gap, stall, patience] = [200_000, 5_000, 50_000_000].map(|nanos| clock.cycles(nanos));
    let mut findings = Vec::new();
    for (case, way) in cases.iter().zip(["from customers", "to customers"]) {
        let case = cpp::case(function, case, None).map_err(Stop::Failed)?;
        let mut setup = Setup::on(options.core.unwrap_or_else(weir_engine::last_core));
        setup.fill = 1;
        setup.keys.push(("engine".to_owned(), "idle".to_owned(), "\"spin\"".to_owned()));
        let watched = Arc::new(Watched::default());
        let around = |name: &str, port| {
            watched.around(port, if name == "in" { Watch::Lone { gap, stall, patience } } else { Watch::Took })
        };
        let mut rig = Rig::around(&case, &setup, &around).map_err(Stop::Failed)?;
        pause(go, &format!("lone packet {way}"), Duration::from_millis(200))?;
        // Subscribers are told to the schedulers bit by bit: whoever comes too early is unknown.
        let (warm, lost) = (watched.latencies().len(), watched.lost());
        pause(go, &format!("lone packet {way}, measuring"), options.time.min(Duration::from_secs(5)))?;
        rig.feed(false);
        rig.verdict().map_err(Stop::Failed)?;
        let took: Vec<(u64, bool)> =
            watched.latencies().into_iter().skip(warm).map(|(cycles, calm)| (clock.span_nanos(cycles), calm)).collect();
        findings.push(engine::lone_packet(way, &took, watched.lost() - lost));
    }
    Ok(findings)
}
