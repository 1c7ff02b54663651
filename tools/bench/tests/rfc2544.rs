//! The experiments of RFC 2544 on a simulated device, of which it is known what they must find.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use weir_bench::rfc2544::{Config, Device, FRAME_SIZES, Outage, Report, Search, Test, frame_rate, run};
use weir_bench::search::{Latency, Stop, Trial, Trials};
use weir_bench::{FORM, Machine, Record, page, table};
use weir_measure::Spread;

/// Forwards `rate` frames per second of any size, and stores `queue` more.
struct Router {
    rate: f64,
    queue: f64,
    link: f64,
    /// The most that its generator sends per second.
    most: f64,
    size: u32,
    trials: usize,
    stop_after: usize,
    disturbed_every: usize,
    /// Seconds that a restart takes; 0 if it never ends.
    outage: f64,
}

impl Router {
    fn new(rate: f64, queue: f64) -> Router {
        let (most, stop_after, disturbed_every) = (f64::INFINITY, usize::MAX, usize::MAX);
        Router { rate, queue, link: 10e9, most, size: 0, trials: 0, stop_after, disturbed_every, outage: 0.25 }
    }

    fn send(&mut self, load: f64, duration: f64, frames: u64) -> Result<Trial, Stop> {
        if self.trials == self.stop_after {
            return Err(Stop::Interrupted);
        }
        self.trials += 1;
        let offered = (frames as f64).min(self.most * duration);
        let lost = (offered - self.rate * duration - self.queue).max(0.0).ceil() as u64;
        let disturbed = self.trials.is_multiple_of(self.disturbed_every).then(|| "a stall of 300 us".to_owned());
        let all = Spread { count: 1, p50: 1_000 + i64::from(self.size), ..Spread::default() };
        let latency = Some(Latency { all, calm: None, set_aside: 0.25 });
        Ok(Trial {
            load,
            duration,
            intended: frames,
            offered: offered as u64,
            lost,
            elapsed: duration,
            disturbed,
            latency,
        })
    }
}

impl Trials for Router {
    fn measure(&mut self, load: f64, duration: f64) -> Result<Trial, Stop> {
        self.send(load, duration, (load * duration) as u64)
    }
}

impl Device for Router {
    fn frame_size(&mut self, bytes: u32) -> Result<f64, Stop> {
        self.size = bytes;
        Ok(frame_rate(self.link, bytes))
    }

    fn burst(&mut self, frames: u64) -> Result<Trial, Stop> {
        let rate = frame_rate(self.link, self.size);
        self.send(rate, frames as f64 / rate, frames)
    }

    fn restart(&mut self, load: f64) -> Result<Outage, Stop> {
        let mut trial = self.measure(load, 1.0)?;
        trial.lost = (load * self.outage) as u64;
        Ok(Outage { trial, gap: Some(self.outage), recovered: self.outage > 0.0 })
    }
}

fn all() -> Config {
    let tests = vec![Test::Throughput, Test::Latency, Test::FrameLoss, Test::BackToBack, Test::Reset];
    Config { tests, ..Config::default() }
}

/// A record without anything in it.
fn record() -> Record {
    Record {
        version: FORM,
        title: "test".to_owned(),
        command: Vec::new(),
        started: String::new(),
        seconds: 0.0,
        partial: None,
        verdict: Vec::new(),
        machine: Machine::here(1),
        versions: Default::default(),
        settings: Default::default(),
        configurations: Default::default(),
        parameters: Vec::new(),
        points: Vec::new(),
        plots: Vec::new(),
        remarks: Vec::new(),
    }
}

fn carry_out(config: &Config, device: &mut Router) -> Report {
    run(config, device, &mut |line| assert!(line.contains("bytes"), "{line}")).unwrap()
}

fn close(value: f64, expected: f64, share: f64) -> bool {
    (value - expected).abs() <= expected * share
}

#[test]
fn line_rates_are_those_of_rfc_2544_appendix_b() {
    // "Ethernet (10 Mb/s): 64: 14880, 128: 8445, 256: 4528, 512: 2349, 768: 1586, 1024: 1197, 1280: 961, 1518: 812".
    let table = [(64, 14_880), (128, 8_445), (256, 4_528), (512, 2_349), (768, 1_586), (1024, 1_197), (1280, 961)];
    for (bytes, rate) in table.into_iter().chain([(1518, 812)]) {
        assert_eq!(frame_rate(10e6, bytes) as u64, rate, "{bytes}");
    }
}

#[test]
fn every_figure_is_what_the_device_was_made_for() {
    for search in [Search::Mlr, Search::MlrStrict, Search::Binary] {
        let report = carry_out(&Config { search, ..all() }, &mut Router::new(4e6, 1_000.0));
        assert_eq!(report.ended, None);
        assert_eq!(report.frames.iter().map(|frame| frame.frame_size).collect::<Vec<_>>(), FRAME_SIZES);
        for frame in &report.frames {
            let line = frame_rate(10e9, frame.frame_size);
            let expected = line.min(4e6);
            let throughput = frame.throughput.as_ref().unwrap();
            assert!(close(throughput.ndr.unwrap(), expected, 0.006), "{search:?} {frame:?}");
            assert_eq!(throughput.pdr.is_some(), search != Search::Binary);
            let bits = throughput.ndr.unwrap() * f64::from(frame.frame_size + 20) * 8.0;
            assert!(close(throughput.ndr_bits.unwrap(), bits, 1e-9));
            let latency = frame.latency.as_ref().unwrap();
            assert_eq!(latency.trials.len(), 20);
            assert_eq!(latency.mean_of_medians, 1_000.0 + f64::from(frame.frame_size));
            assert_eq!(latency.set_aside, 0.25);
            let bursts = frame.back_to_back.as_ref().unwrap();
            assert_eq!(bursts.runs.len(), 50);
            if line > 4e6 {
                let longest = 1_000.0 / (1.0 - 4e6 / line);
                assert!(close(bursts.frames, longest, 0.02) && !bursts.at_least, "{bursts:?} {longest}");
                assert!(close(bursts.buffered.unwrap(), 1_000.0, 0.05), "{bursts:?}");
            } else {
                assert!(bursts.at_least && close(bursts.frames, line * 2.0, 0.001));
            }
            let reset = frame.reset.as_ref().unwrap();
            assert!(close(reset.by_loss.unwrap(), 0.25, 0.001) && reset.by_time == Some(0.25));
            // The loss curve ends with two clean trials, and only there.
            let points = &frame.frame_loss;
            assert_eq!(points[0].share, 1.0);
            assert!(points.iter().rev().take(2).all(|point| point.trial.lost == 0));
            assert!(!points[..points.len() - 1].windows(2).any(|two| two.iter().all(|point| point.trial.lost == 0)));
            for point in points {
                let lost = (1.0 - 4e6 / (line * point.share)).max(0.0);
                assert!((point.loss_ratio - lost).abs() < 0.001, "{point:?} {lost}");
            }
        }
    }
}

/// What the generator did not send is not what the device lost: neither in what is told meanwhile, nor in the figures, and the verdict
/// says who was the limit.
#[test]
fn what_was_not_sent_is_not_lost() {
    let config = Config { frame_sizes: vec![64], ..all() };
    let found = |device: &mut Router| {
        let mut lines = Vec::new();
        let report = run(&config, device, &mut |line| lines.push(line.to_owned())).unwrap();
        (report.fill(record()), lines)
    };
    // It sends a twentieth of what is asked for, and the device loses nothing of it.
    let (limited, lines) = found(&mut Router { most: 1e4, ..Router::new(1e9, 0.0) });
    let short: Vec<&String> = lines.iter().filter(|line| line.contains("not sent by the generator")).collect();
    assert!(
        !short.is_empty()
            && lines.iter().filter(|line| line.contains("lost")).all(|line| line.contains(": 0.0000 % lost")),
        "{lines:#?}"
    );
    let verdict = limited.verdict.join("\n");
    assert!(verdict.starts_with("64 bytes: the generator was the limit: it sent 10000 packets/s at most"), "{verdict}");
    assert!(verdict.contains("; 0 of the "), "{verdict}");
    let point = limited.points.iter().find(|point| point.figure("not sent").is_some()).unwrap();
    assert_eq!(point.figure("loss").unwrap().samples, [0.0]);
    assert!(point.figure("not sent").unwrap().samples[0] > 99.0);
    // Page and table open with it, before any figure.
    let page = page(&limited).unwrap();
    assert!(
        page.find("the generator was the limit").unwrap()
            < page.find("<svg").unwrap().min(page.find("<table").unwrap())
    );
    assert!(table(&limited).lines().nth(2).unwrap().contains("the generator was the limit"));

    let (device, lines) = found(&mut Router::new(2e6, 0.0));
    assert!(lines.iter().all(|line| !line.contains("not sent")), "{lines:#?}");
    let verdict = device.verdict.join("\n");
    assert!(
        verdict.starts_with("64 bytes: the device forwards ") && verdict.ends_with(" packets/s without loss"),
        "{verdict}"
    );
}

#[test]
fn doubts_stand_beside_the_figures() {
    let doubts = |device: &mut Router| {
        let config = Config { frame_sizes: vec![64], ..all() };
        carry_out(&config, device).frames[0].doubts.join("\n")
    };
    assert_eq!(doubts(&mut Router::new(2e6, 1_000.0)), "");
    let limited = doubts(&mut Router { most: 1e6, ..Router::new(1e9, 0.0) });
    assert!(limited.contains("NDR: the generator could not send more"), "{limited}");
    assert!(limited.contains("frame loss: in"), "{limited}");
    let more = doubts(&mut Router::new(1e9, 0.0));
    assert!(more.contains("NDR: no greater load was tried") && more.contains("back-to-back: the longest"), "{more}");
    let stalls = doubts(&mut Router { disturbed_every: 2, ..Router::new(2e6, 1_000.0) });
    for test in ["NDR: the generator was disturbed", "latency: the generator", "frame loss: the generator"] {
        assert!(stalls.contains(test), "{stalls}");
    }
    let lasting = doubts(&mut Router { outage: 0.0, ..Router::new(2e6, 1_000.0) });
    assert!(lasting.contains("after 3 restarts"), "{lasting}");
}

#[test]
fn what_was_measured_before_an_interruption_is_reported() {
    let config = Config { frame_sizes: vec![64, 1518], latency_repeats: 2, burst_repeats: 2, ..all() };
    let mut whole = Router::new(2e6, 1_000.0);
    carry_out(&config, &mut whole);
    for stop_after in 0..whole.trials {
        let report = carry_out(&config, &mut Router { stop_after, ..Router::new(2e6, 1_000.0) });
        assert_eq!(report.ended.as_deref(), Some("interrupted"), "after {stop_after}");
    }
    let report = carry_out(&config, &mut Router { stop_after: whole.trials - 1, ..Router::new(2e6, 1_000.0) });
    assert_eq!(report.frames[1].reset.as_ref().unwrap().outages.len(), 2);
}

#[test]
fn a_device_that_takes_nothing_has_no_throughput_and_no_latency() {
    let report = carry_out(&Config { frame_sizes: vec![64], ..all() }, &mut Router::new(0.0, 0.0));
    let frame = &report.frames[0];
    assert_eq!(frame.throughput.as_ref().unwrap().ndr, None);
    assert!(frame.latency.is_none() && frame.reset.is_none());
    assert!(frame.doubts[0].starts_with("NDR: even 1000 packets/s were too much"), "{:?}", frame.doubts);
    assert_eq!(frame.frame_loss.len(), 10);
    assert_eq!(frame.back_to_back.as_ref().unwrap().frames, 0.0);
}

#[test]
fn all_mistakes_are_told_at_once() {
    let config = Config {
        frame_sizes: vec![63, 9_217],
        tests: vec![Test::Latency, Test::Throughput],
        duration: -1.0,
        relative_width: 1.0,
        burst_repeats: 0,
        loss_step: f64::NAN,
        ..Config::default()
    };
    let mut device = Router::new(1e6, 0.0);
    let mistakes = run(&config, &mut device, &mut |_| ()).unwrap_err();
    assert_eq!(mistakes.len(), 7, "{mistakes:#?}");
    assert_eq!(device.trials, 0);
}

#[test]
fn what_falls_short_of_the_rfc_is_said() {
    let strict = Config { search: Search::MlrStrict, ..all() };
    assert_eq!(strict.deviations(), ["no pause of 5 s between trials (RFC 2544 section 23 e)"]);
    assert_eq!(all().deviations().len(), 2);
    let (duration, latency_duration, burst_duration) = (1.0, 1.0, 0.1);
    let quick = Config { duration, latency_duration, burst_duration, latency_repeats: 1, burst_repeats: 1, ..strict };
    assert_eq!(Config { loss_step: 0.5, linger: 0.2, ..quick }.deviations().len(), 8);
}

#[test]
fn reports_have_a_point_for_each_size_and_each_step() {
    let config = Config { frame_sizes: vec![64, 1518], ..all() };
    let report = carry_out(&config, &mut Router::new(4e6, 1_000.0));
    let record = report.fill(record());
    let curves: usize = report.frames.iter().map(|frame| frame.frame_loss.len()).sum();
    assert_eq!(record.points.len(), 2 + curves);
    let first = &record.points[0];
    assert_eq!(first.figure("NDR").unwrap().samples, [report.frames[0].throughput.as_ref().unwrap().ndr.unwrap()]);
    assert_eq!(first.figure("latency p50").unwrap().samples, [1.064; 20]);
    assert_eq!(first.figure("back-to-back").unwrap().samples.len(), 50);
    assert_eq!(first.figure("reset by time").unwrap().samples, [0.25; 3]);
    assert!(record.points[1].trouble.as_ref().unwrap().contains("back-to-back: the longest"));
    assert_eq!(record.points[2].parameters["load_percent"], 100.0.into());
    assert!(record.points[2].figure("loss").unwrap().samples[0] > 70.0);
    assert!(table(&record).contains("NDR") && page(&record).unwrap().contains("Frame loss by load"));
    assert_eq!(record.remarks.len(), 2);
}
