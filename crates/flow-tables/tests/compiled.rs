//! Machine code against the definition: the same frames leave by the same ports, for the same reasons none does, and everything
//! has counted the same, whatever frames look like and wherever they break off.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod pipelines;

use pipelines::series::until;
use pipelines::simple::{flows, frame, pipelines as several};
use pipelines::{Became, Buffer, Copied, PORTS, by_definition, counted, out, set};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use weir_flow_tables::{CodeState, Frame, Frames, Packet, Role, Switch, Why, Worker};
use weir_openflow::flow::{FlowCommand, FlowMod};
use weir_openflow::group::{self, Bucket, GroupCommand, GroupKind, GroupMod};
use weir_openflow::message::Config;
use weir_openflow::port::number;
use weir_openflow::{Action, Field, Instruction, Match, Oxm};

/// Makes the code that a switch wants.
fn compile(switch: &mut Switch) {
    let recipe = switch.recipe().expect("nothing to compile");
    assert_eq!(switch.code_state(), CodeState::Wanted);
    switch.install(recipe.compile());
    assert_eq!(switch.code_state(), CodeState::InUse);
    assert!(switch.recipe().is_none());
}

/// Takes a frame by the fast path, where that goes.
fn forward(switch: &mut Switch, port: u32, bytes: &[u8], now: u64) -> Option<Became> {
    let (mut known, mut copies) = (Frames::new(1, Worker::default()), Copied::default());
    let mut frame = Buffer::of(bytes);
    switch.begin(&mut known);
    switch.looking(&mut known).look(&mut frame, port);
    switch.approach(&mut known);
    let became = pipelines::take(switch, 0, &mut frame, &mut known, &mut copies, now);
    if frame.bytes().len() == bytes.len() {
        assert_eq!(frame.behind(), Buffer::of(bytes).behind(), "something changed behind the frame");
    }
    if became.is_none() {
        assert_eq!(frame.bytes(), bytes, "it gave up, and changed something");
    }
    became.map(|became| copies.became(became, frame.bytes()))
}

/// Takes frames through a switch with code and through one that follows the definition; how many the code decided about.
fn both_ways(groups: Vec<GroupMod>, flows: &[FlowMod], packets: &[(u32, Vec<u8>)]) -> Result<u64, TestCaseError> {
    let [mut compiled, mut definition] = [0, 1].map(|_| pipelines::switch_with(groups.clone(), flows));
    pipelines::compile(&mut compiled);
    for ((port, bytes), now) in packets.iter().zip((0..).step_by(1_000_000)) {
        match forward(&mut compiled, *port, bytes, now) {
            Some(became) => prop_assert_eq!(became, by_definition(&mut definition, *port, bytes, now), "{:x?}", bytes),
            None => {
                let [mut one, mut other] = [&mut compiled, &mut definition];
                let [one, other] =
                    [&mut one, &mut other].map(|switch| switch.judge(Packet::new(*port, bytes.clone()), now));
                prop_assert_eq!(one, other);
            }
        }
    }
    prop_assert_eq!(counted(&compiled, 0), counted(&definition, 0));
    Ok(compiled.decided_by_code())
}

/// Controllers are told with the metadata where a TTL ends (section 7.4.1, `ofp_packet_in`: the packet's pipeline fields), though no flow asks for that.
#[test]
fn a_ttl_that_ends_is_told_with_the_metadata() {
    let metadata = Instruction::WriteMetadata { metadata: 5, mask: u64::MAX };
    let first = FlowMod::add(0, 1, matched(Vec::new()), vec![metadata, Instruction::GotoTable(1)]);
    for count in [2, 60] {
        let route = |n: u32| {
            let actions = vec![set(Field::EthDst, 7), Action::DecNwTtl, out(3)];
            FlowMod::add(1, 1, matched(to(10 << 24 | n, u32::MAX)), vec![Instruction::ApplyActions(actions)])
        };
        let flows: Vec<FlowMod> = std::iter::once(first.clone()).chain((0..count).map(route)).collect();
        let packets: Vec<(u32, Vec<u8>)> = [9, 1, 0, 2]
            .into_iter()
            .map(|ttl| {
                let mut frame = udp(1);
                frame[22] = ttl;
                weir_wire::ipv4::write_checksum(&mut frame[14..34]);
                (1, frame)
            })
            .collect();
        both_ways(Vec::new(), &flows, &packets).unwrap();
        let mut switch = pipelines::switch(&flows);
        pipelines::compile(&mut switch);
        let told = |frame: &[u8], switch: &mut Switch| forward(switch, 1, frame, 0).expect("on the fast path");
        assert!(packets.iter().all(|(_, frame)| !told(frame, &mut switch).unwrap().is_empty()));
    }
}

/// Where a table with many flows is searched, flows change no code, unless they ask for something else or do something else.
#[test]
fn flows_of_searched_tables_are_no_code() {
    let route = |n: u32, station: u128| add(1, to(n << 8, 0xffff_ff00), vec![set(Field::EthDst, station), out(3)]);
    let mut switch = pipelines::switch(&(0..30).map(|n| route(n, n.into())).collect::<Vec<_>>());
    compile(&mut switch);
    let sent = |switch: &mut Switch, third: u8| {
        let (before, mut frame) = (switch.decided_by_code(), udp(0));
        frame[30..33].copy_from_slice(&[0, 0, third]);
        let became = forward(switch, 1, &frame, 0).unwrap().map(|sent| sent[0].1[5]);
        (became, switch.decided_by_code() - before)
    };
    assert_eq!((sent(&mut switch, 7), sent(&mut switch, 77)), ((Ok(7), 1), (Err(Why::Miss), 1)));
    let lookups = |switch: &Switch| switch.tables.stats()[0].lookups;
    assert_eq!(lookups(&switch), 2);
    for n in 77..177 {
        switch.flow_mod(&route(n, 9), 0).unwrap();
        assert_eq!((switch.code_state(), sent(&mut switch, n as u8)), (CodeState::InUse, (Ok(9), 1)));
    }
    // A flow that is replaced or modified does what it is told now.
    let modify = FlowMod { command: FlowCommand::ModifyStrict, ..route(79, 12) };
    for (flow, n, station) in [(route(78, 11), 78, 11), (modify, 79, 12)] {
        switch.flow_mod(&flow, 0).unwrap();
        assert_eq!((switch.code_state(), sent(&mut switch, n)), (CodeState::InUse, (Ok(station), 1)));
    }
    let gone = FlowMod { command: FlowCommand::DeleteStrict, ..route(77, 9) };
    switch.flow_mod(&gone, 0).unwrap();
    assert_eq!((switch.code_state(), sent(&mut switch, 77)), (CodeState::InUse, (Err(Why::Miss), 1)));
    // It asks for something that was not looked at.
    let asks = vec![Oxm::exact(Field::EthType, 0x0800), Oxm::exact(Field::IpDscp, 0)];
    switch.flow_mod(&add(9, asks, vec![out(2)]), 0).unwrap();
    assert_eq!((switch.code_state(), sent(&mut switch, 77)), (CodeState::Wanted, (Ok(1), 0)));
    compile(&mut switch);
    assert_eq!(sent(&mut switch, 77), (Ok(1), 1));
    // And so does what a group does.
    switch.flow_mod(&add(10, to(7 << 8, 0xffff_ff00), vec![Action::Group(15)]), 0).unwrap_err();
    let bucket = Bucket {
        weight: 0,
        watch_port: number::ANY,
        watch_group: group::ANY,
        actions: vec![set(Field::UdpDst, 5), out(2)],
    };
    let add_group =
        GroupMod { command: GroupCommand::Add, kind: GroupKind::Indirect, group: 15, buckets: vec![bucket] };
    let mut fresh = pipelines::switch_with(Vec::new(), &(0..30).map(|n| route(n, n.into())).collect::<Vec<_>>());
    compile(&mut fresh);
    fresh.group_mod(&add_group, 0).unwrap();
    assert_eq!(fresh.code_state(), CodeState::Wanted);
    fresh.group_mod(&GroupMod { command: GroupCommand::Delete, ..add_group }, 0).unwrap();
    assert_eq!(fresh.code_state(), CodeState::InUse);
}

/// Random tables of flows, and random frames, some of which break off.
#[test]
fn what_code_does_is_what_the_definition_does() {
    let broken = (frame(), prop::option::weighted(0.2, 0_usize..90)).prop_map(|(mut frame, length)| {
        frame.truncate(length.unwrap_or(usize::MAX).max(14));
        frame
    });
    let packets = proptest::collection::vec((1..=PORTS, broken), 1..30);
    let property = |(flows, packets): (Vec<_>, Vec<_>), (all, by_code): &mut (u64, u64)| {
        *all += packets.len() as u64;
        // Groups that choose by a hash make code look at everything.
        *by_code += both_ways(Vec::new(), &flows, &packets)?;
        Ok(())
    };
    until((file!(), 400), (flows(), packets), property, |(all, by_code)| by_code * 5 > *all);
}

/// Random tables that lead to each other, by flows of all kinds, to groups, and to a table with many flows.
#[test]
fn tables_that_lead_to_others_do_what_the_definition_does() {
    let broken = (frame(), prop::option::weighted(0.1, 0_usize..90)).prop_map(|(mut frame, length)| {
        frame.truncate(length.unwrap_or(usize::MAX).max(14));
        frame
    });
    let packets = proptest::collection::vec((1..=PORTS, broken), 1..30);
    let property = |(flows, packets, has_groups): (Vec<_>, Vec<_>, bool), (all, by_code): &mut (u64, u64)| {
        *all += packets.len() as u64;
        let groups = if has_groups { pipelines::groups() } else { Vec::new() };
        *by_code += both_ways(groups, &flows, &packets)?;
        Ok(())
    };
    let cases = (several(), packets, any::<bool>());
    until((file!(), 200), cases, property, |(all, by_code)| by_code * 5 > *all);
}

/// The same frames, cut off at every length.
#[test]
fn frames_that_break_off_anywhere_are_treated_by_definition() {
    let config = ProptestConfig { cases: 60, source_file: Some(file!()), ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&(flows(), frame()), |(flows, whole)| {
        let packets: Vec<(u32, Vec<u8>)> = (14..=whole.len()).map(|length| (1, whole[..length].to_vec())).collect();
        both_ways(Vec::new(), &flows, &packets).map(drop)
    });
    outcome.unwrap();
}

/// Whether there are ports is for IP to say: its length may cut them off, or not be believed, and fragments have none; headers may be between.
#[test]
fn ports_are_there_where_ip_has_them() {
    let kinds = [0x0800, 0x86dd].map(|kind| Oxm::exact(Field::EthType, kind));
    let asks = [
        (6, Field::TcpSrc, 0..2),
        (17, Field::UdpSrc, 0..2),
        (132, Field::SctpSrc, 0..2),
        (1, Field::Icmpv4Code, 0..1),
        (58, Field::Icmpv6Code, 1..2),
    ];
    let mut flows: Vec<FlowMod> = Vec::new();
    for (protocol, field, versions) in asks {
        for kind in &kinds[versions] {
            let asked = vec![*kind, Oxm::exact(Field::IpProto, protocol), Oxm::exact(field, 53)];
            flows.push(add(2, asked, vec![out(2)]));
        }
    }
    flows.extend(kinds.map(|kind| add(1, vec![kind], vec![out(3)])));
    let start = [2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    let carried = [0, 53, 0, 53, 0, 8, 0, 0, 0, 53, 0, 53, 0, 53, 0, 53];
    let mut packets: Vec<Vec<u8>> = Vec::new();
    for protocol in [6, 17, 132, 1, 2] {
        for (total, fragment) in
            (0..48).flat_map(|total| [[0, 0], [0x20, 0], [0, 1], [0x40, 0]].map(|one| (total, one)))
        {
            let [high, low] = fragment;
            let ip = [8, 0, 0x45, 0, 0, total, 0, 0, high, low, 9, protocol, 0, 0, 192, 0, 2, 1, 10, 0, 0, 2];
            packets.push([&start[..], &ip, &carried].concat());
        }
    }
    for (protocol, next) in
        [0, 43, 44, 50, 51, 59, 60, 6, 17, 58, 132, 2].into_iter().flat_map(|one| [(one, 17), (one, 6)])
    {
        for length in 0..17 {
            let ip = [0x86, 0xdd, 0x60, 0, 0, 0, 0, length, protocol, 9];
            let headers = [next, 53, 0, 0, 0, 0, 0, 0];
            packets.push([&start[..], &ip, &[0x20; 32], &headers, &carried].concat());
        }
    }
    let cut = packets
        .iter()
        .flat_map(|packet| (packet.len() - 14..=packet.len()).map(|length| (1, packet[..length].to_vec())));
    let cut: Vec<(u32, Vec<u8>)> = cut.collect();
    let by_code = both_ways(Vec::new(), &flows, &cut).unwrap();
    assert!(by_code * 4 > cut.len() as u64, "{by_code} of {}", cut.len());
}

/// Neighbour discovery, whole and cut off, with options of any kind and length, as long as IP says or not.
#[test]
fn neighbour_discovery_is_found_where_it_is() {
    let of = |kind: u128, field: Field, value: u128| {
        let is = |field, value| Oxm::exact(field, value);
        let icmp = [is(Field::EthType, 0x86dd), is(Field::IpProto, 58), is(Field::Icmpv6Type, kind)];
        add(2, [&icmp[..], &[is(field, value)]].concat(), vec![out(2)])
    };
    let target = 0xfe80_u128 << 112 | 7;
    let flows = [
        of(135, Field::Ipv6NdTarget, target),
        of(136, Field::Ipv6NdTarget, target + 1),
        of(135, Field::Ipv6NdSll, 9),
        of(136, Field::Ipv6NdTll, 9),
        add(1, vec![Oxm::exact(Field::EthType, 0x86dd)], vec![out(3)]),
    ];
    let packet = |kind: u8, last: u64, said: u8, option: [u8; 2], station: u8| {
        let start = [2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0, 0, said, 58, 255];
        let target = (target + u128::from(last)).to_be_bytes();
        let behind = [option[0], option[1], 0, 0, 0, 0, 0, station, 1, 1, 0, 0, 0, 0, 0, 9];
        [&start[..], &[0x20; 32], &[kind, 0, 0, 0, 0, 0, 0, 0], &target, &behind].concat()
    };
    let option = |kind: u8| kind.saturating_sub(134).max(1);
    // What most are.
    let usual: Vec<(u32, Vec<u8>)> = [135, 136, 133]
        .into_iter()
        .flat_map(|kind| {
            [(24, [0, 0]), (32, [option(kind), 1]), (40, [option(kind), 1])].map(|(said, option)| (kind, said, option))
        })
        .flat_map(|(kind, said, option)| {
            [(0, 9), (1, 9), (3, 9), (3, 8)].map(|(last, station)| (1, packet(kind, last, said, option, station)))
        })
        .collect();
    assert_eq!(both_ways(Vec::new(), &flows, &usual).unwrap(), usual.len() as u64);
    let mut odd = Vec::new();
    for (kind, last) in [(135, 0), (135, 3), (136, 1), (136, 3), (0, 0)] {
        for option in [[1, 1], [2, 1], [1, 0], [2, 0], [1, 2], [5, 1]] {
            for said in [0, 3, 4, 8, 23, 24, 25, 26, 31, 32, 33, 40, 255] {
                let whole = packet(kind, last, said, option, 9);
                odd.extend((50..=whole.len()).map(|length| (1, whole[..length].to_vec())));
            }
        }
    }
    both_ways(Vec::new(), &flows, &odd).unwrap();
}

/// A packet to this address that left for this station.
fn forwarded(station: u8, to: u8) -> Option<Became> {
    let mut frame = udp(to);
    frame[..6].copy_from_slice(&[0, 0, 0, 0, 0, station]);
    Some(Ok(vec![(3, frame)]))
}

fn matched(fields: Vec<Oxm>) -> Match {
    Match::new(fields).unwrap()
}

fn add(priority: u16, fields: Vec<Oxm>, actions: Vec<Action>) -> FlowMod {
    FlowMod::add(0, priority, matched(fields), vec![Instruction::ApplyActions(actions)])
}

fn udp(to: u8) -> Vec<u8> {
    let ip = [8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 9, 17, 0xab, 0xcd, 192, 0, 2, 1, 10, 0, 0, to, 1, 1, 0, 53, 0, 26];
    [&[2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1][..], &ip, &[0; 20]].concat()
}

fn to(address: u32, mask: u32) -> Vec<Oxm> {
    vec![Oxm::exact(Field::EthType, 0x0800), Oxm::masked(Field::Ipv4Dst, (address & mask).into(), mask.into())]
}

/// Other values are other data: the code stays, and does what the flows say from then on. Another shape takes other code, and until then the usual way.
#[test]
fn only_another_shape_takes_other_code() {
    let mut switch = pipelines::switch(&[add(1, to(0x0a00_0002, u32::MAX), vec![set(Field::EthDst, 7), out(2)])]);
    assert_eq!(switch.code_state(), CodeState::Wanted);
    compile(&mut switch);
    let sent = |switch: &mut Switch, address| {
        let before = switch.decided_by_code();
        let became = forward(switch, 1, &udp(address), 0)
            .unwrap()
            .map(|sent| sent.into_iter().map(|(port, frame)| (port, frame[5])).collect::<Vec<_>>());
        (became, switch.decided_by_code() - before)
    };
    assert_eq!(sent(&mut switch, 2), (Ok(vec![(2, 7)]), 1));
    // Another address to match, another to set, another port, another flow in its slot.
    let gone = FlowMod { command: FlowCommand::Delete, ..add(1, vec![], vec![]) };
    switch.flow_mod(&gone, 0).unwrap();
    assert_eq!(switch.code_state(), CodeState::No("it has no flows"));
    assert_eq!(sent(&mut switch, 2), (Err(Why::Miss), 0));
    let other = add(1, to(0x0a00_0003, u32::MAX), vec![set(Field::EthDst, 9), out(3)]);
    switch.flow_mod(&other, 0).unwrap();
    assert_eq!(switch.code_state(), CodeState::InUse);
    assert_eq!(sent(&mut switch, 3), (Ok(vec![(3, 9)]), 1));
    assert_eq!(sent(&mut switch, 2), (Err(Why::Miss), 0));
    let modify = FlowMod { command: FlowCommand::Modify, ..add(1, vec![], vec![set(Field::EthDst, 8), out(2)]) };
    switch.flow_mod(&modify, 0).unwrap();
    assert_eq!((switch.code_state(), sent(&mut switch, 3)), (CodeState::InUse, (Ok(vec![(2, 8)]), 1)));
    // Another mask alone, and back.
    let strict = FlowMod { command: FlowCommand::DeleteStrict, ..other.clone() };
    switch.flow_mod(&strict, 0).unwrap();
    let wide = add(1, to(0x0a00_0000, 0xffff_ff00), vec![set(Field::EthDst, 6), out(3)]);
    switch.flow_mod(&wide, 0).unwrap();
    assert_eq!((switch.code_state(), forward(&mut switch, 1, &udp(9), 0)), (CodeState::Wanted, forwarded(6, 9)));
    switch.flow_mod(&FlowMod { command: FlowCommand::DeleteStrict, ..wide }, 0).unwrap();
    switch.flow_mod(&FlowMod { command: FlowCommand::Add, ..other }, 0).unwrap();
    switch.flow_mod(&modify, 0).unwrap();
    assert_eq!(switch.code_state(), CodeState::InUse);
    // Another mask; code of the shape before, made meanwhile, does no harm.
    let outdated = switch.clone().recipe().unwrap();
    switch.flow_mod(&add(2, to(0x0a00_0000, 0xff00_0000), vec![out(1)]), 0).unwrap();
    assert_eq!((switch.code_state(), sent(&mut switch, 3)), (CodeState::Wanted, (Err(Why::SamePort), 0)));
    switch.install(outdated.compile());
    assert_eq!((switch.code_state(), sent(&mut switch, 3)), (CodeState::Wanted, (Err(Why::SamePort), 0)));
    compile(&mut switch);
    assert_eq!(sent(&mut switch, 3), (Err(Why::SamePort), 1));
    // A flow that ends by itself.
    let short = FlowMod { hard_timeout: 1, ..add(3, to(0x0a00_0003, u32::MAX), vec![out(3)]) };
    switch.flow_mod(&short, 0).unwrap();
    compile(&mut switch);
    assert_eq!(sent(&mut switch, 3), (Ok(vec![(3, 1)]), 1));
    assert_eq!(switch.tables.expire(2_000_000_000, 9).len(), 0);
    assert_eq!((switch.code_state(), sent(&mut switch, 3)), (CodeState::Wanted, (Err(Why::SamePort), 0)));
}

/// What code has to do with tables is said, and why there is none.
#[test]
fn tables_say_what_code_does_for_them() {
    let flow = |n: u32, actions| add(1, to(n << 8, 0xffff_ff00), actions);
    let few = |count: u32| (0..count).map(|n| flow(n, vec![out(2)])).collect::<Vec<_>>();
    let state = |flows: &[FlowMod]| {
        let mut switch = pipelines::switch(flows);
        if switch.code_state() == CodeState::Wanted {
            compile(&mut switch);
        }
        (switch.code_state(), [0, 1, 2].map(|table| switch.code_role(table)))
    };
    let (tried, searched, beside) = (Role::Tried, Role::Searched, Role::Beside);
    assert_eq!(state(&[]), (CodeState::No("it has no flows"), [beside; 3]));
    assert_eq!(state(&few(24)), (CodeState::InUse, [tried, beside, beside]));
    assert_eq!(state(&few(25)), (CodeState::InUse, [searched, beside, beside]));
    // Flows that do more are tried all the same; what takes the interpreter needs no code.
    let others = [
        (vec![out(2), out(3)], true),
        (vec![Action::Group(1)], true),
        (vec![Action::PushVlan(0x8100), out(2)], true),
        (vec![Action::DecNwTtl, Action::DecNwTtl, out(2)], true),
        (vec![set(Field::EthDst, 1), set(Field::EthDst, 2), out(2)], true),
        (vec![set(Field::Ipv4Dst, 9), out(2)], true),
        (vec![out(number::CONTROLLER)], true),
        (vec![out(number::NORMAL)], false),
        (vec![Action::PushMpls(0x8847), out(2)], true),
        (vec![set(Field::IpProto, 17), out(2)], false),
    ];
    for (actions, is_for_code) in others {
        let wanted = match is_for_code {
            true => (CodeState::InUse, [tried, beside, beside]),
            false => (CodeState::No("its flows take the interpreter"), [tried, beside, beside]),
        };
        assert_eq!(state(&[flow(1, actions.clone())]), wanted, "{actions:?}");
        let with_miss = [add(0, vec![], actions), few(1).remove(0)];
        assert_eq!(state(&with_miss).0, CodeState::InUse);
    }
    // Tables that others lead to: by a flow that only leads on.
    let leads = |from, to, behind: Vec<Instruction>| {
        FlowMod::add(from, 1, Match::default(), [behind, vec![Instruction::GotoTable(to)]].concat())
    };
    let mark = Instruction::WriteMetadata { metadata: 1, mask: 3 };
    let in_last = |count: u32| few(count).into_iter().map(|flow| FlowMod { table: 2, ..flow }).collect::<Vec<_>>();
    let through = |behind: Vec<Instruction>, count| [vec![leads(0, 2, behind)], in_last(count)].concat();
    assert_eq!(state(&through(vec![], 9)).1, [tried, beside, tried]);
    assert_eq!(state(&through(vec![mark], 9)).1, [tried, beside, tried]);
    assert_eq!(state(&through(vec![], 25)).1, [tried, beside, searched]);
    let changes = Instruction::ApplyActions(vec![set(Field::EthDst, 1)]);
    assert_eq!(state(&through(vec![changes], 9)).1, [tried, beside, beside]);
    // On all ways together so many flows are tried.
    let twice: Vec<FlowMod> = [vec![leads(1, 2, vec![])], in_last(24)].concat();
    let both = |port: u32, next| {
        let asked = matched(vec![Oxm::exact(Field::InPort, port.into())]);
        FlowMod::add(0, 1, asked, vec![Instruction::GotoTable(next)])
    };
    assert_eq!(state(&[vec![both(1, 1), both(2, 2)], twice.clone()].concat()).1, [tried, tried, tried]);
    let second = [vec![leads(0, 1, vec![])], few(24).into_iter().map(|flow| FlowMod { table: 1, ..flow }).collect()];
    assert_eq!(state(&second.concat()).1, [tried, tried, beside]);
    // A flow more or less does not change it back and forth.
    let mut switch = pipelines::switch(&few(24));
    compile(&mut switch);
    let remove = |n| FlowMod { command: FlowCommand::DeleteStrict, ..flow(n, vec![]) };
    switch.flow_mod(&flow(24, vec![out(2)]), 0).unwrap();
    assert_eq!(switch.code_role(0), Role::Searched);
    for (n, wanted) in (16..25).rev().map(|n| (n, n == 16)) {
        switch.flow_mod(&remove(n), 0).unwrap();
        assert_eq!(switch.code_role(0) == Role::Tried, wanted, "{n} flows");
    }
    // Its cost is measured by a frame for each flow.
    let switch = {
        let flows = [add(2, to(9, 0xff), vec![out(1)]), add(1, vec![Oxm::exact(Field::EthType, 0x86dd)], vec![out(2)])];
        let mut switch = pipelines::switch(&flows);
        assert!(switch.code_samples().is_none());
        compile(&mut switch);
        switch
    };
    let mut frames = switch.code_samples().unwrap();
    assert_eq!((frames.len(), switch.find_all_by_code(&mut frames), switch.decided_by_code()), (2, 2, 0));
    // It may be switched off and on, and fragments be dropped.
    let mut switch = pipelines::switch(&few(2));
    compile(&mut switch);
    switch.allow_code(false);
    assert_eq!((switch.code_state(), switch.recipe().is_none()), (CodeState::No("it is switched off"), true));
    forward(&mut switch, 1, &udp(1), 0).unwrap().unwrap_err();
    assert_eq!(switch.decided_by_code(), 0);
    switch.allow_code(true);
    assert_eq!(switch.code_state(), CodeState::InUse);
    switch.set_config(Config { flags: 1, miss_send_len: 0 }).unwrap();
    assert_eq!(switch.code_state(), CodeState::No("fragments are dropped"));
    let mut fragment = udp(0);
    fragment[20] = 0x20;
    assert_eq!(forward(&mut switch, 1, &fragment, 0), None);
    switch.set_config(Config { flags: 0, miss_send_len: 0 }).unwrap();
    assert_eq!(switch.code_state(), CodeState::InUse);
}
