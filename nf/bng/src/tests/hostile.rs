//! Every truncation, every bit flipped, random frames: always what the twin says, on every kernel.

use proptest::prelude::*;
use weir_simd::Kernel;

use super::golden::{packet, tagged, wrapped};
use super::rig::*;
use super::twin;

fn check_up<const TUNNEL: bool>(rig: &mut Rig<TUNNEL>, frame: &[u8]) {
    let (way, bytes) = rig.up(frame);
    assert_eq!((way.as_str(), bytes), twin::up(TUNNEL, frame), "{frame:02x?}");
}

fn check_down<const TUNNEL: bool>(rig: &mut Rig<TUNNEL>, frame: &[u8]) {
    let (way, bytes) = rig.down(frame);
    assert_eq!((way.as_str(), bytes), twin::down(TUNNEL, frame), "{frame:02x?}");
}

/// Frames from customers of all kinds that go on.
fn customers() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for line in lines() {
        let source = line.learned.unwrap_or(line.source);
        for to in [[192, 0, 2, 1], [192, 0, 2, 129], [198, 51, 100, 1], [198, 51, 100, 7], [203, 0, 113, 1], OWN] {
            frames.push(tagged(line.svlan, line.cvlan, &packet(source, to, 5)));
        }
    }
    frames
}

/// Frames from the core of all kinds that go on.
fn cores() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for line in lines() {
        let to = line.learned.unwrap_or(if line.length == 32 { line.source } else { first_host(line.source) });
        for labels in [0, 1, 2, 8] {
            frames.push(wrapped(labels, line.key, &packet([192, 0, 2, 1], to, 5)));
        }
        let mut plain = [CORE.0, [2, 0, 0, 2, 0, 1]].concat();
        plain.extend([8, 0]);
        plain.extend(packet([192, 0, 2, 1], to, 5));
        frames.push(plain);
    }
    frames
}

#[test]
fn every_kind_of_frame_and_every_truncation_of_it() {
    fn all<const TUNNEL: bool>() {
        let mut rig = Rig::<TUNNEL>::new();
        for frame in customers() {
            (0..=frame.len()).rev().for_each(|len| check_up(&mut rig, &frame[..len]));
        }
        for frame in cores() {
            (0..=frame.len()).rev().for_each(|len| check_down(&mut rig, &frame[..len]));
        }
    }
    all::<true>();
    all::<false>();
}

#[test]
fn every_single_bit_flipped_on_every_kernel() {
    // Other kernels than the one in use are held against some of the frames; weir-simd has tests of all their rules.
    fn all<const TUNNEL: bool>(kernel: Kernel) {
        let step = if kernel == Kernel::detect() { 1 } else { 7 };
        let mut rig = Rig::<TUNNEL>::on(kernel, MANY);
        let flipped = |frame: &[u8], bit: usize| {
            let mut frame = frame.to_vec();
            frame[bit / 8] ^= 1 << (bit % 8);
            frame
        };
        for frame in customers().iter().step_by(step) {
            (0..frame.len() * 8).for_each(|bit| check_up(&mut rig, &flipped(frame, bit)));
        }
        for frame in cores().iter().step_by(step) {
            (0..frame.len() * 8).for_each(|bit| check_down(&mut rig, &flipped(frame, bit)));
        }
    }
    for kernel in Kernel::available() {
        all::<true>(kernel);
        all::<false>(kernel);
    }
}

/// What is done to a frame: bytes set, a length, and whether checksums are mended afterwards.
type Damage = (Vec<(usize, u8)>, Option<usize>, bool);

fn damage() -> impl Strategy<Value = Damage> {
    let byte = prop_oneof![any::<u8>(), Just(0), Just(0xff), Just(1), Just(0x45), Just(0x46)];
    (prop::collection::vec((0_usize..110, byte), 0..4), prop::option::weighted(0.3, 0_usize..2000), any::<bool>())
}

fn apply(frame: &[u8], (bytes, len, mend): &Damage, headers: &[usize]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    for (at, value) in bytes {
        if let Some(byte) = frame.get_mut(*at) {
            *byte = *value;
        }
    }
    if let Some(len) = len {
        frame.resize(*len, 0x5a);
    }
    for at in headers {
        if *mend && frame.len() >= at + 60 {
            twin::seal(&mut frame[*at..]);
        }
    }
    frame
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whole batches: packets of one do not touch each other.
    #[test]
    fn random_batches_go_as_the_twin_says(
        damages in prop::collection::vec((any::<prop::sample::Index>(), damage()), 1..64),
        tunnel: bool,
    ) {
        if tunnel { batch::<true>(&damages) } else { batch::<false>(&damages) }
    }
}

fn batch<const TUNNEL: bool>(damages: &[(prop::sample::Index, Damage)]) {
    let mut rig = Rig::<TUNNEL>::new();
    let (customers, cores) = (customers(), cores());
    let frames = |all: &[Vec<u8>], headers: &[usize]| -> Vec<Vec<u8>> {
        damages.iter().map(|(index, damage)| apply(&all[index.index(all.len())], damage, headers)).collect()
    };
    let expect = |frames: &[Vec<u8>], twin: fn(bool, &[u8]) -> (&'static str, Vec<u8>)| {
        let mut ways = std::collections::BTreeMap::<String, Vec<Vec<u8>>>::new();
        for frame in frames {
            let (way, bytes) = twin(TUNNEL, frame);
            ways.entry(way.to_owned()).or_default().push(bytes);
        }
        ways
    };
    let sent = frames(&customers, &[22]);
    assert_eq!(rig.up.run(0, &sent).ways, expect(&sent, twin::up));
    let sent = frames(&cores, &[18, 46]);
    assert_eq!(rig.down.run(0, &sent).ways, expect(&sent, twin::down));
}
