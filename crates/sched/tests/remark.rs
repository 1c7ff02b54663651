//! Remarking, held against its definition: the first rule that fits and sets a field says what that becomes, and nothing else changes.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::Arc;

use proptest::prelude::*;
use weir_config::OneOrMany;
use weir_mem::{Domain, Published};
use weir_packet::Slot;
use weir_sched::class::ClassQueue;
use weir_sched::classify::Dscp;
use weir_sched::remark::{ColourWord, Remark, RemarkConfig, Remarking};
use weir_stage::harness::Harness;
use weir_wire::{ethernet, ipv4};

/// What is in a frame.
#[derive(Clone, Debug)]
struct Contents {
    /// EtherType and control information of each tag.
    tags: Vec<(u16, u16)>,
    kind: Kind,
    /// DSCP and ECN.
    tos: u8,
    options: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Four,
    Six,
    Arp,
}

impl Contents {
    fn frame(&self) -> Vec<u8> {
        let mut bytes = vec![2; 12];
        for (ethertype, control) in &self.tags {
            bytes.extend([ethertype.to_be_bytes(), control.to_be_bytes()].concat());
        }
        let payload = [0xee; 20];
        match self.kind {
            Kind::Four => {
                let mut packet = vec![0x45 + self.options as u8, self.tos, 0, 60, 7, 7, 0x40, 0, 64, 17, 0, 0];
                packet.extend([198, 18, 0, 1, 203, 0, 113, 9]);
                packet.extend(vec![1; self.options * 4]);
                assert!(ipv4::write_checksum(&mut packet));
                bytes.extend(ethernet::IPV4.to_be_bytes());
                bytes.extend(packet);
            }
            Kind::Six => {
                bytes.extend(ethernet::IPV6.to_be_bytes());
                bytes.extend([0x60 | self.tos >> 4, self.tos << 4 | 0xa, 0xbc, 0xde, 0, 20, 17, 64]);
                bytes.extend(1..=32);
            }
            Kind::Arp => {
                bytes.extend(ethernet::ARP.to_be_bytes());
                bytes.extend([self.tos; 28]);
            }
        }
        bytes.extend(payload);
        bytes
    }

    /// What is in the frame once it was remarked: rule by rule, as the manual says it.
    fn remarked(&self, rules: &[RemarkConfig], class: u8, colour: u8) -> Contents {
        let mut after = self.clone();
        let (mut dscp_set, mut priority_set, mut eligible_set) = (false, false, false);
        for rule in rules {
            let is_colour = match rule.colour {
                None => true,
                Some(ColourWord::Green) => colour == 0,
                Some(ColourWord::Yellow) => colour == 1,
                Some(ColourWord::Red) => colour == 2,
            };
            let is_from = rule.from.0.is_empty()
                || self.kind != Kind::Arp && rule.from.0.iter().any(|from| from.0 == self.tos / 4);
            if rule.class.is_some_and(|wanted| wanted != class) || !is_colour || !is_from {
                continue;
            }
            if let Some(dscp) = rule.dscp.filter(|_| !dscp_set) {
                dscp_set = true;
                if self.kind != Kind::Arp {
                    after.tos = dscp.0 * 4 + self.tos % 4;
                }
            }
            let Some((_, control)) = after.tags.first_mut() else { continue };
            if let Some(priority) = rule.priority.filter(|_| !priority_set) {
                priority_set = true;
                *control = *control % 0x2000 + u16::from(priority) * 0x2000;
            }
            if let Some(eligible) = rule.drop_eligible.filter(|_| !eligible_set) {
                eligible_set = true;
                *control = *control / 0x2000 * 0x2000 + *control % 0x1000 + if eligible { 0x1000 } else { 0 };
            }
        }
        after
    }
}

const fn nothing() -> RemarkConfig {
    RemarkConfig {
        class: None,
        colour: None,
        from: OneOrMany(Vec::new()),
        dscp: None,
        priority: None,
        drop_eligible: None,
    }
}

fn rule() -> impl Strategy<Value = RemarkConfig> {
    let colour = prop::option::of(prop::sample::select(vec![ColourWord::Green, ColourWord::Yellow, ColourWord::Red]));
    let from = prop::collection::vec((0_u8..64).prop_map(Dscp), 0..40);
    let sets = (prop::option::of((0_u8..64).prop_map(Dscp)), prop::option::of(0_u8..8), any::<Option<bool>>());
    (prop::option::of(0_u8..8), colour, from, sets).prop_map(
        |(class, colour, from, (dscp, priority, drop_eligible))| RemarkConfig {
            class,
            colour,
            from: OneOrMany(from),
            dscp,
            priority,
            drop_eligible,
        },
    )
}

const TAGS: [&[u16]; 4] = [&[], &[0x8100], &[0x88a8, 0x8100], &[0x9100, 0x8100]];

/// Every DSCP and ECN, every class and colour, every number of tags, both families and what is neither.
fn held_against_the_definition(rules: &[RemarkConfig], controls: [u16; 2], options: usize) {
    let remarking = Remarking::new(rules);
    for ethertypes in TAGS {
        let tags: Vec<(u16, u16)> = ethertypes.iter().copied().zip(controls).collect();
        for (kind, tos) in
            [Kind::Four, Kind::Six, Kind::Arp].into_iter().flat_map(|kind| (0..=255).map(move |tos| (kind, tos)))
        {
            let contents = Contents { tags: tags.clone(), kind, tos, options };
            let before = contents.frame();
            for (class, colour) in (0..8).flat_map(|class| (0..3).map(move |colour| (class, colour))) {
                let mut frame = before.clone();
                remarking.remark(&mut frame, ClassQueue::new(class, tos % 8), colour);
                assert_eq!(frame, contents.remarked(rules, class, colour).frame(), "{contents:?} {class} {colour}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn rules_do_what_they_say(
        rules in prop::collection::vec(rule(), 0..6),
        controls in any::<[u16; 2]>(),
        options in 0_usize..=10,
    ) {
        held_against_the_definition(&rules, controls, options);
    }
}

/// Assured forwarding as RFC 2597 has it: the drop precedence is the colour.
#[test]
fn colours_become_drop_precedences() {
    let of = |colour, dscp| RemarkConfig { class: Some(1), colour: Some(colour), dscp: Some(Dscp(dscp)), ..nothing() };
    let rules = [of(ColourWord::Green, 10), of(ColourWord::Yellow, 12), of(ColourWord::Red, 14)];
    let remarking = Remarking::new(&rules);
    let tos = |class, colour| {
        let mut frame = Contents { tags: vec![], kind: Kind::Four, tos: 0xb9, options: 0 }.frame();
        remarking.remark(&mut frame, ClassQueue::new(class, 0), colour);
        frame[15]
    };
    assert_eq!([tos(1, 0), tos(1, 1), tos(1, 2), tos(0, 1)], [0x29, 0x31, 0x39, 0xb9]);
}

#[test]
fn what_is_no_whole_packet_stays_as_it_is() {
    let all = RemarkConfig { dscp: Some(Dscp(63)), ..nothing() };
    let remarking = Remarking::new(&[all]);
    let whole = |kind| Contents { tags: vec![(0x8100, 7)], kind, tos: 1, options: 0 }.frame();
    for kind in [Kind::Four, Kind::Six, Kind::Arp] {
        let needed = 18 + if kind == Kind::Four { 20 } else { 40 };
        for end in 0..needed {
            let mut frame = whole(kind)[..end].to_vec();
            let before = frame.clone();
            remarking.remark(&mut frame, ClassQueue::new(0, 0), 0);
            assert_eq!(frame, before);
        }
        // Another version than its EtherType says.
        let mut frame = whole(kind);
        frame[18] ^= 0x20;
        let before = frame.clone();
        remarking.remark(&mut frame, ClassQueue::new(0, 0), 0);
        assert_eq!(frame, before);
    }
}

/// Lanes of other values than a policer writes change nothing.
#[test]
fn an_unknown_colour_fits_no_rule() {
    let remarking = Remarking::new(&[RemarkConfig { dscp: Some(Dscp(63)), ..nothing() }]);
    let mut frame = Contents { tags: vec![], kind: Kind::Four, tos: 0, options: 0 }.frame();
    let before = frame.clone();
    (3..=255).for_each(|colour| remarking.remark(&mut frame, ClassQueue::new(0, 0), colour));
    assert_eq!(frame, before);
}

#[test]
fn rules_that_say_nothing_or_name_no_class_are_refused() {
    let sets = RemarkConfig { priority: Some(0), ..nothing() };
    assert_eq!(sets.fault(4), None);
    assert!(nothing().fault(4).unwrap().contains("sets nothing"));
    let class = |class| RemarkConfig { class: Some(class), ..sets.clone() }.fault(4);
    assert_eq!(class(3), None);
    assert_eq!(class(4).unwrap(), "class: there is no class 4; the classes are 0 to 3");
}

#[test]
fn the_stage_reads_class_and_colour_and_follows_new_rules() {
    let domain = Domain::new();
    let rule = RemarkConfig { class: Some(2), colour: Some(ColourWord::Red), dscp: Some(Dscp(1)), ..nothing() };
    let remarking = Arc::new(Published::new(&domain, Box::new(Remarking::new(&[rule]))));
    let frame = Contents { tags: vec![], kind: Kind::Four, tos: 0, options: 0 }.frame();
    let tos = |harness: &mut Harness<Remark>, class, colour| {
        harness.lanes().class[Slot::new(0)] = ClassQueue::new(class, 0).to_lane();
        harness.lanes().colour[Slot::new(0)] = colour;
        harness.run(0, &[&frame]).way("out")[0][15]
    };
    let mut harness = Harness::reading(Remark::new(Arc::clone(&remarking)), &domain);
    assert_eq!([tos(&mut harness, 2, 2), tos(&mut harness, 2, 1), tos(&mut harness, 1, 2)], [4, 0, 0]);
    let rule = RemarkConfig { dscp: Some(Dscp(2)), ..nothing() };
    remarking.publish(Box::new(Remarking::new(&[rule])));
    assert_eq!(tos(&mut harness, 0, 0), 8);
}
