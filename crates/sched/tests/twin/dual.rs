//! Queues with two lines, and what happens to them.

use proptest::prelude::*;
use weir_sched::l4s::L4s;
use weir_sched::rate::Bucket;

use super::{Begin, Step, begin, l4s};

/// Two users, one of whom is slow, in queues with two lines that are nearly always full, or about to be something else.
pub(crate) fn dual_begin() -> impl Strategy<Value = Begin> {
    let plain = |(mut begin, duals, buffers, sizes, rates): (Begin, [Option<L4s>; 3], usize, [usize; 3], [u64; 3])| {
        begin.buffers = buffers;
        (begin.port, begin.subports[0].bucket) = (Bucket::UNLIMITED, Bucket::UNLIMITED);
        let profiles = begin.profiles.iter_mut();
        for (((profile, dual), queue_size), rate) in profiles.zip(duals).zip(sizes).zip(rates) {
            (profile.bucket, profile.sharing) = (Bucket::new(rate * 1_000_000, 1_600), None);
            for class in &mut profile.classes {
                (class.cap, class.queue_size) = (Bucket::UNLIMITED, queue_size);
                if let Some(dual) = dual {
                    (class.dual, class.fair, class.manage) = (Some(dual), false, None);
                    class.weights.clear();
                }
            }
        }
        begin
    };
    let duals = prop::array::uniform3(prop::option::weighted(0.8, l4s()));
    let sizes = prop::array::uniform3(4..24_usize);
    let buffers = prop_oneof![4..12_usize, 20..60_usize];
    (begin(), duals, buffers, sizes, prop::array::uniform3(10..400_u64)).prop_map(plain)
}

/// Packets of two users for the same two queues, one by one, with pauses.
pub(crate) fn dual_step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![Just(88_u16), Just(400), Just(1_600), 88..9_300_u16];
    prop_oneof![
        10 => (0..2_u32, 2..4_u8, length, any::<bool>()).prop_map(|(user, class, length, passes)| {
            Step::Enqueue { user, class, queue: 0, length, flow: 0, passes }
        }),
        6 => (1..4_usize).prop_map(|room| Step::DequeueWhenDue { room }),
        2 => (0..3_000_000_u64, 0..4_usize).prop_map(|(wait, room)| Step::Dequeue { wait, room }),
        1 => (0..2_u32, 0..3_usize).prop_map(|(user, profile)| Step::Assign { user, to: Some((profile, 0)) }),
    ]
}
