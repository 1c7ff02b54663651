//! Frames that machine code leads from port to port in a batch, against the definition.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod pipelines;

use pipelines::series::until;
use pipelines::simple::{flows, frame};
use pipelines::{Buffer, Copied, PORTS, Packets, by_definition, counted};
use proptest::prelude::*;
use weir_flow_tables::{Forwarded, Frame, Frames, Packet, Worker};
use weir_openflow::flow::FlowMod;
use weir_openflow::group::GroupMod;
use weir_openflow::{Action, Field, Instruction, Match, Oxm};

/// Takes batches of frames through a switch that leads them where it can, and through one that follows the definition; how many were led. Groups that
/// choose by a hash have all be known of each frame.
fn led_and_by_definition(
    groups: &[GroupMod],
    flows: &[FlowMod],
    packets: &[(u32, Vec<u8>)],
) -> Result<u64, TestCaseError> {
    let [mut leading, mut definition] = [0, 1].map(|_| pipelines::switch_with(groups.to_vec(), flows));
    pipelines::compile(&mut leading);
    let (mut known, mut led) = (Frames::new(1, Worker::default()), 0);
    for (batch, now) in packets.chunks(8).zip((0..).step_by(1_000_000)) {
        leading.begin(&mut known);
        if !known.is_led() {
            return Ok(0);
        }
        for (port, bytes) in batch {
            let (mut frame, mut copies) = (Buffer::of(bytes), Copied::default());
            let became = match leading.lead(&mut frame, *port, &mut known, now) {
                Some(port) => {
                    led += 1;
                    Some(Forwarded::Sent(port))
                }
                None => leading.forward(0, &mut frame, &mut known, &mut copies, now),
            };
            let ours = match became {
                Some(became) => copies.became(became, frame.bytes()),
                None => {
                    let [one, other] = [&mut leading, &mut definition]
                        .map(|switch| switch.judge(Packet::new(*port, bytes.clone()), now));
                    prop_assert_eq!(one, other);
                    continue;
                }
            };
            prop_assert_eq!(ours, by_definition(&mut definition, *port, bytes, now), "{:x?}", bytes);
        }
        leading.settle(&mut known, now);
        // Changes have their code as soon as a frame came that needs it.
        pipelines::compile(&mut leading);
    }
    prop_assert_eq!(counted(&leading, 0), counted(&definition, 0));
    Ok(led)
}

/// Packets of a batch that go the same way one after the other are counted together.
#[test]
fn what_is_led_is_counted_as_the_definition_counts() {
    // Most come several times in a row.
    let some = (1..=PORTS, frame(), 1..6_usize).prop_map(|(port, frame, times)| vec![(port, frame); times]);
    let packets = proptest::collection::vec(some, 1..12).prop_map(|packets| packets.concat());
    let property = |(flows, packets): (Vec<_>, Packets), (all, led): &mut (u64, u64)| {
        *all += packets.len() as u64;
        *led += led_and_by_definition(&pipelines::groups(), &flows, &packets)?;
        led_and_by_definition(&[], &flows, &packets)?;
        Ok(())
    };
    until((file!(), 100), (flows(), packets), property, |(all, led)| led * 25 > *all);
}

/// Where nothing is asked but the port, packets behind one that came by it are not looked at: they go as it did, unless something changes them.
#[test]
fn packets_that_came_by_a_port_go_as_the_one_before() {
    let by_port = |port: u32, actions: Vec<Action>| {
        let asked = Match::new(vec![Oxm::exact(Field::InPort, port.into())]).unwrap();
        FlowMod::add(0, 1, asked, vec![Instruction::ApplyActions(actions)])
    };
    let out = |port| Action::Output { port, max_len: 0 };
    let address = Action::SetField(Oxm::exact(Field::EthDst, 0x0200_0000_0009));
    let [plain, changed] = [vec![], vec![address]].map(|actions| [actions, vec![out(1)]].concat());
    let ports = [1, 2, 2, 2, 1, 1, 2, 2, 2, 2, 3, 2];
    let lengths = [60, 60, 14, 13, 1514, 61];
    let packets: Packets =
        ports.into_iter().zip(lengths.into_iter().cycle()).map(|(port, length)| (port, vec![7; length])).collect();
    for second in [plain, changed] {
        let flows = [by_port(1, vec![out(2)]), by_port(2, second), by_port(3, vec![out(3)])];
        let led = led_and_by_definition(&[], &flows, &packets).unwrap();
        let too_short = packets.iter().filter(|(_, bytes)| bytes.len() < 14).count() as u64;
        assert_eq!(led, packets.len() as u64 - too_short - 1, "all but short ones, and the one that would go back");
    }
}

/// Packets that code changes as it changed the one before are counted together: with as many bytes as they came, and as they left.
#[test]
fn packets_that_are_changed_alike_are_counted_as_they_came_and_as_they_left() {
    let flow = |port: u128, actions: Vec<Action>| {
        let asked = Match::new(vec![Oxm::exact(Field::InPort, port), Oxm::exact(Field::EthType, 0x0800)]).unwrap();
        FlowMod::add(0, 1, asked, vec![Instruction::ApplyActions(actions)])
    };
    let (out, vid) = (|port| Action::Output { port, max_len: 0 }, Action::SetField(Oxm::exact(Field::VlanVid, 0x1005)));
    let pushed = |port| flow(1, vec![Action::PushVlan(0x8100), vid.clone(), out(port)]);
    let set = flow(2, vec![Action::SetField(Oxm::exact(Field::Ipv4Dst, 9)), Action::DecNwTtl, out(1)]);
    // By turns in a row and alone, and one whose TTL ends.
    let frame = |ttl: u8, length: usize| {
        let mut bytes = [vec![2; 12], vec![8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, ttl, 47], vec![7; 10]].concat();
        bytes.resize(length, 1);
        bytes
    };
    let kinds = [(1, 64, 60), (1, 64, 61), (2, 64, 90), (2, 64, 60), (2, 1, 60), (2, 9, 60), (1, 1, 60), (2, 64, 60)];
    let packets: Packets = kinds.iter().map(|(port, ttl, length)| (*port, frame(*ttl, *length))).collect();
    let packets = [packets.clone(), packets.clone(), packets].concat();
    for (port, back) in [(2, 0), (1, 2 * 3)] {
        let led = led_and_by_definition(&[], &[pushed(port), set.clone()], &packets).unwrap();
        // Of the first batch, for which there is no code, all take longer; of the others those with such a TTL, and what would go back.
        assert!(led >= 2 * 7 - back, "{led} of {}, port {port}", packets.len());
    }
}
