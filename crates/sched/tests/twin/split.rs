//! Classes above the lowest with several queues, and what happens to them.

use std::sync::Arc;

use proptest::prelude::*;
use weir_sched::l4s::L4s;
use weir_sched::rate::Bucket;

use super::model::{CLASSES, ModelClass, ModelSubport};
use super::{Begin, Every, Step, begin, l4s};

/// Some of the classes above the lowest with several queues.
pub(crate) fn with_queues(mut classes: Vec<ModelClass>, heavy: &[bool; 8]) -> Vec<ModelClass> {
    for (n, class) in classes.iter_mut().take(CLASSES - 1).enumerate() {
        if heavy[n] {
            class.weights = heavy[..3 + n].iter().map(|heavy| 1 + 4 * u8::from(*heavy)).collect();
        }
    }
    classes
}

/// Weights of queues, how often their management drops or marks, how long they are, and how packets wait in them.
type Class = (Vec<u8>, Option<(u64, u64, bool)>, usize, Kind);

/// How packets wait in a queue: one behind the other, in flows, or in two lines.
#[derive(Clone, Debug)]
enum Kind {
    One,
    Fair,
    Lines(L4s),
}

/// Users whose class 0 has queues of different weights, some of them with a management that drops or marks, or one queue.
pub(crate) fn split_begin() -> impl Strategy<Value = Begin> {
    let weights = prop_oneof![4 => prop::collection::vec(prop_oneof![1..4_u8, Just(40)], 2..8), 1 => Just(Vec::new())];
    let manage = prop::option::of((2..9_u64, 2..9_u64, any::<bool>()));
    let kind = prop_oneof![2 => Just(Kind::One), 2 => Just(Kind::Fair), 2 => l4s().prop_map(Kind::Lines)];
    let class = (weights, manage, 1..12_usize, kind);
    let of = |(mut begin, classes, buffers, rates): (Begin, Vec<Class>, usize, [u64; 3])| {
        begin.buffers = buffers;
        // Whoever is guaranteed something has a ceiling.
        (begin.port, begin.subports[0]) = (Bucket::UNLIMITED, ModelSubport::new(Bucket::UNLIMITED, None, 1));
        for ((profile, (weights, manage, queue_size, kind)), rate) in begin.profiles.iter_mut().zip(classes).zip(rates)
        {
            profile.bucket = Bucket::new(rate * 1_000_000, 1_600);
            let class = &mut profile.classes[0];
            (class.cap, class.weights, class.queue_size) = (Bucket::UNLIMITED, weights, queue_size);
            class.manage = manage.map(|(coming, going, marks)| Arc::new(Every { coming, going, marks }) as Arc<_>);
            (class.fair, class.dual) = (false, None);
            match kind {
                Kind::One => {}
                Kind::Fair => class.fair = true,
                Kind::Lines(coupling) => (class.manage, class.dual) = (None, Some(coupling)),
            }
        }
        begin
    };
    let buffers = prop_oneof![4..12_usize, 20..60_usize];
    (begin(), prop::collection::vec(class, 3), buffers, prop::array::uniform3(10..400_u64)).prop_map(of)
}

/// Packets of three users, for all queues, one by one.
pub(crate) fn split_step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![Just(88_u16), Just(800), Just(1_600), 88..9_300_u16];
    let class = prop_oneof![6 => Just(0_u8), 1 => 1..4_u8];
    prop_oneof![
        10 => (0..3_u32, class, 0..8_u8, length, 0..6_u32, any::<bool>()).prop_map(
            |(user, class, queue, length, flow, passes)| Step::Enqueue { user, class, queue, length, flow, passes },
        ),
        6 => (1..4_usize).prop_map(|room| Step::DequeueWhenDue { room }),
        1 => (0..1_000_000_u64, 0..4_usize).prop_map(|(wait, room)| Step::Dequeue { wait, room }),
        1 => (0..3_u32, 0..3_usize).prop_map(|(user, profile)| Step::Assign { user, to: Some((profile, 0)) }),
    ]
}
