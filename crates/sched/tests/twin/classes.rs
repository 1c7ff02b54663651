//! Subports whose classes have rates, and what happens to them.

use proptest::prelude::*;
use weir_sched::rate::Bucket;

use super::model::{CLASSES, ModelSubport};
use super::{Begin, SUBPORTS, Step, USERS, begin, below, step};

/// One with rates of some classes, and some that are guaranteed something.
pub(crate) fn classed() -> impl Strategy<Value = ModelSubport> {
    let rate = prop_oneof![
        1 => Just(Bucket::UNLIMITED),
        2 => (1..400_u64, 100..20_000_u64).prop_map(|(rate, size)| Bucket::new(rate * 10_000_000, size)),
    ];
    let guarantee = (1..200_u64, 100..20_000_u64).prop_map(|(rate, size)| Bucket::new(rate * 10_000_000, size));
    let promises = prop_oneof![
        1 => Just(vec![None; CLASSES]),
        1 => prop::collection::vec(prop::option::weighted(0.5, guarantee), CLASSES),
    ];
    (below(), prop::collection::vec(rate, CLASSES), promises)
        .prop_map(|(subport, classes, promises)| subport.with_classes(classes, promises))
}

/// Classes of subports that have rates, and users some of whom share in faster ones.
pub(crate) fn classed_begin() -> impl Strategy<Value = Begin> {
    let of = |(begin, all, rates): (Begin, Vec<ModelSubport>, [u64; 3])| {
        let with =
            |subport: &ModelSubport, with: ModelSubport| subport.clone().with_classes(with.classes, with.promises);
        let subports = begin.subports.iter().zip(all).map(|(subport, all)| with(subport, all));
        let mut begin = Begin { subports: subports.collect(), port: Bucket::new(4_000_000_000, 9_000), ..begin };
        for (profile, rate) in begin.profiles.iter_mut().zip(rates) {
            profile.bucket = Bucket::new(rate * 10_000_000, 4_000);
        }
        begin
    };
    (begin(), prop::collection::vec(classed(), SUBPORTS), prop::array::uniform3(1..400_u64)).prop_map(of)
}

/// Many packets, most of them of users of the same two subports, and rates of classes that change.
pub(crate) fn classed_step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![Just(88_u16), 88..1600_u16];
    prop_oneof![
        8 => step(),
        12 => (0..USERS as u32, 0..4_u8, length, any::<bool>()).prop_map(|(user, class, length, passes)| {
            Step::Enqueue { user, class, queue: 0, length, flow: 0, passes }
        }),
        6 => (1..6_usize).prop_map(|room| Step::DequeueWhenDue { room }),
        1 => (0..USERS as u32, 0..3_usize, 0..2_usize).prop_map(|(user, profile, subport)| {
            Step::Assign { user, to: Some((profile, subport)) }
        }),
        1 => (0..SUBPORTS, classed()).prop_map(|(number, to)| Step::SetSubport { number, to: to.below(None) }),
    ]
}

/// The same where users are at the ends of two branches, whose subports move, too.
pub(crate) fn classed_tree_step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![Just(88_u16), 88..1600_u16];
    prop_oneof![
        12 => (0..USERS as u32, 0..2_u8, length, any::<bool>()).prop_map(|(user, class, length, passes)| {
            Step::Enqueue { user, class: 3 * class, queue: 0, length, flow: 0, passes }
        }),
        6 => (1..6_usize).prop_map(|room| Step::DequeueWhenDue { room }),
        2 => step(),
        1 => (0..USERS as u32, 0..3_usize, 3..SUBPORTS).prop_map(|(user, profile, subport)| {
            Step::Assign { user, to: Some((profile, subport)) }
        }),
        1 => (0..SUBPORTS, classed()).prop_map(|(number, to)| Step::SetSubport { number, to }),
    ]
}

/// Subports with such rates below others: three below one that is below another, or all below one.
pub(crate) fn classed_tree() -> impl Strategy<Value = Begin> {
    let deep = [None, Some(0), Some(1), Some(1), Some(1)];
    let parents = prop_oneof![2 => Just(deep), 1 => Just([None, Some(0), Some(0), Some(0), Some(0)])];
    (classed_begin(), parents).prop_map(|(begin, parents)| {
        let subports = begin.subports.iter().zip(parents).map(|(subport, parent)| subport.clone().below(parent));
        Begin { subports: subports.collect(), ..begin }
    })
}
