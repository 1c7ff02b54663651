//! Machine code that changes frames against the definition: set-field, tags, TTL, by flows and by groups, behind code and behind searches.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod pipelines;

use pipelines::carried::{arp_or_icmp, below_labels, of_neighbours};
use pipelines::changed::{behind_a_search, flow, flow_of, groups, groups_below, kinds, packet};
use pipelines::series::until;
use pipelines::{Became, Buffer, Copied, by_definition, counted, out, set, switch_with};
use proptest::prelude::*;
use weir_flow_tables::{Forwarded, Frame, Frames, Packet, Switch, Worker};
use weir_openflow::flow::FlowMod;
use weir_openflow::group::{self, Bucket, GroupCommand, GroupKind, GroupMod};
use weir_openflow::{Action, Field, Instruction, Match, Oxm};

/// Takes a frame the short way, or else the longer one; whether it was the short one.
fn take(switch: &mut Switch, port: u32, bytes: &[u8], now: u64) -> (Option<Became>, bool) {
    let (mut known, mut copies, mut frame) = (Frames::new(1, Worker::default()), Copied::default(), Buffer::of(bytes));
    switch.begin(&mut known);
    switch.looking(&mut known).look(&mut frame, port);
    switch.approach(&mut known);
    // Code that tries flows may have changed it.
    let looked = frame.bytes().to_vec();
    let hastened = switch.short_way(&mut known, now).take(0, &mut frame);
    if hastened.is_none() {
        assert_eq!(frame.bytes(), looked, "it gave up, and changed something");
    }
    let became = match hastened {
        Some(port) => Some(Forwarded::Sent(port)),
        None => switch.forward(0, &mut frame, &mut known, &mut copies, now),
    };
    switch.settle(&mut known, now);
    // It may have moved, where a tag came off, and a short one was filled up; on the longer way, another frame may have taken its place.
    let untouched = Buffer::of(bytes);
    let may_be_another = hastened.is_none() && frame.bytes().len() != bytes.len();
    if frame.behind().len() == untouched.behind().len() && !may_be_another {
        assert_eq!(frame.behind(), untouched.behind(), "something changed behind the frame");
    }
    (became.map(|became| copies.became(became, frame.bytes())), hastened.is_some())
}

/// How many frames went the short way before there was code for what they met, and with it.
#[derive(Clone, Copy, Debug, Default)]
struct Short {
    all: u64,
    without: u64,
    with: u64,
    /// Of all, those that went through the last table.
    through_last: u64,
    /// Of those with code, frames without tags whose MPLS entries, ARP, and type or code of ICMP are other ones now: nothing else changes these on the short way.
    mpls: u64,
    arp: u64,
    icmp: u64,
    /// Those that came with a label and left without, and whose IP is another one now beside its TTL.
    below: u64,
    /// The same of the targets of neighbour discovery, and of the addresses in their options.
    targets: u64,
    addresses: u64,
}

impl std::ops::Add for Short {
    type Output = Short;

    fn add(self, other: Short) -> Short {
        Short {
            all: self.all + other.all,
            without: self.without + other.without,
            with: self.with + other.with,
            through_last: self.through_last + other.through_last,
            mpls: self.mpls + other.mpls,
            arp: self.arp + other.arp,
            icmp: self.icmp + other.icmp,
            below: self.below + other.below,
            targets: self.targets + other.targets,
            addresses: self.addresses + other.addresses,
        }
    }
}

impl Short {
    /// A frame that went the short way with code, and as what it left.
    fn changed(before: &[u8], after: &[u8]) -> Short {
        let differ = |from: usize, to: usize| before.get(from..to) != after.get(from..to);
        let kind = |bytes: &[u8]| bytes.get(12..14).map_or(0, |kind| u16::from_be_bytes([kind[0], kind[1]]));
        let (is, becomes) = (kind(before), kind(after));
        let is_mpls = [is, becomes].iter().any(|kind| matches!(kind, 0x8847 | 0x8848));
        let same = is == becomes;
        Short {
            mpls: u64::from(is_mpls && (is != becomes || differ(14, 18))),
            arp: u64::from(same && is == 0x0806 && differ(20, 42)),
            icmp: u64::from(same && is == 0x0800 && before.get(23) == Some(&1) && differ(34, 36))
                + u64::from(same && is == 0x86dd && before.get(20) == Some(&58) && differ(54, 56)),
            below: u64::from(is == 0x8847 && below_one_label(before, after)),
            targets: u64::from(same && is == 0x86dd && before.get(20) == Some(&58) && differ(62, 78)),
            addresses: u64::from(same && is == 0x86dd && before.get(20) == Some(&58) && differ(80, 86)),
            ..Short::default()
        }
    }
}

/// Whether a frame without tags lost one label, and its addresses of IPv4, or what they carry, are other ones.
fn below_one_label(before: &[u8], after: &[u8]) -> bool {
    let is_four = after.get(12..15) == Some(&[8, 0, 0x45]);
    is_four && before.get(30..44).zip(after.get(26..40)).is_some_and(|(before, after)| before != after)
}

/// Takes frames twice through a switch with code, which gets that of changes in between, and through one that follows the definition.
fn both_ways(groups: &[GroupMod], flows: &[FlowMod], packets: &[(u32, Vec<u8>)]) -> Result<Short, TestCaseError> {
    let [mut compiled, mut definition] = [0, 1].map(|_| switch_with(groups.to_vec(), flows));
    let (mut short, mut through_last, mut changed) = ([0, 0], 0, Short::default());
    let lookups = |switch: &Switch| switch.tables.stats()[2].lookups;
    for (round, short) in (0..).zip(&mut short) {
        pipelines::compile(&mut compiled);
        for ((port, bytes), now) in packets.iter().zip((round * 1_000_000..).step_by(1000)) {
            let before = lookups(&compiled);
            let (became, was_short) = take(&mut compiled, *port, bytes, now);
            *short += u64::from(was_short);
            through_last += u64::from(was_short && lookups(&compiled) > before);
            if let (1.., true, Some(Ok(sent))) = (round, was_short, &became) {
                changed = changed + Short::changed(bytes, &sent[0].1);
            }
            match became {
                Some(became) => {
                    prop_assert_eq!(became, by_definition(&mut definition, *port, bytes, now), "{:x?}", bytes);
                }
                None => {
                    let [one, other] = [&mut compiled, &mut definition]
                        .map(|switch| switch.judge(Packet::new(*port, bytes.clone()), now));
                    prop_assert_eq!(one, other);
                }
            }
        }
    }
    prop_assert_eq!(counted(&compiled, 0), counted(&definition, 0));
    let [without, with] = short;
    Ok(Short { all: packets.len() as u64, without, with, through_last, ..changed })
}

/// Takes such packets through such tables, until enough have gone the short way.
fn run(
    cases: u32,
    tables: impl Strategy<Value = Vec<FlowMod>>,
    packet: impl Strategy<Value = (u32, Vec<u8>)>,
    enough: impl Fn(&Short) -> bool,
) {
    run_with(cases, (tables, groups()), packet, enough);
}

/// The same with such groups.
fn run_with(
    cases: u32,
    tables: impl Strategy<Value = (Vec<FlowMod>, Vec<GroupMod>)>,
    packet: impl Strategy<Value = (u32, Vec<u8>)>,
    enough: impl Fn(&Short) -> bool,
) {
    let packets = proptest::collection::vec(packet, 20..60);
    let both_ways = |((flows, groups), packets): ((Vec<FlowMod>, Vec<GroupMod>), Vec<_>), met: &mut Short| {
        *met = *met + both_ways(&groups, &flows, &packets)?;
        Ok(())
    };
    until((file!(), cases), (tables, packets), both_ways, enough);
}

/// Random changes of random frames, by flows that code tries, and by such that are searched.
#[test]
fn code_changes_frames_as_the_definition_does() {
    let flows = proptest::collection::vec(flow(), 3..12);
    let tables = (flows, any::<bool>())
        .prop_map(|(flows, is_searched)| if is_searched { behind_a_search(flows) } else { flows });
    // What goes the short way only with code was changed by it.
    run(80, tables, packet(), |short| (short.with - short.without) * 20 > short.all && short.mpls > 10);
}

#[test]
fn code_changes_arp_and_icmp_as_the_definition_does() {
    let kinds: Vec<_> =
        kinds().into_iter().filter(|(_, fields)| fields.iter().any(|field| is_of_arp_or_icmp(*field))).collect();
    let tables = proptest::collection::vec(flow_of(kinds), 4..9);
    run(60, tables, arp_or_icmp(), |short| short.arp > 5 && short.icmp > 5);
}

/// Targets, and addresses in options, with the checksum of ICMPv6.
#[test]
fn code_changes_what_neighbours_say_as_the_definition_does() {
    let kinds: Vec<_> = kinds().into_iter().filter(|(_, fields)| fields.contains(&Field::Ipv6NdTarget)).collect();
    let tables = proptest::collection::vec(flow_of(kinds), 4..9);
    run(40, tables, of_neighbours(), |short| short.targets > 5 && short.addresses > 5);
}

/// Tags and labels come off, what is below them is changed, and others are put on.
#[test]
fn code_changes_what_is_below_labels_as_the_definition_does() {
    let to_group = (20_u32..26, any::<bool>(), 0_u16..4).prop_map(|(group, is_tagged, priority)| {
        let asked = is_tagged.then_some(Oxm::masked(Field::VlanVid, 0x1000, 0x1000));
        let made = vec![Instruction::ApplyActions(vec![Action::Group(group)])];
        FlowMod::add(0, priority, Match::new(asked.into_iter().collect()).unwrap(), made)
    });
    let tables = (proptest::collection::vec(to_group, 2..5), any::<bool>())
        .prop_map(|(flows, is_searched)| if is_searched { behind_a_search(flows) } else { flows });
    let enough = |short: &Short| (short.with - short.without) * 10 > short.all && short.below > 5;
    run_with(60, (tables, groups_below()), below_labels(), enough);
}

fn is_of_arp_or_icmp(field: Field) -> bool {
    matches!(field, Field::ArpOp | Field::Icmpv4Code | Field::Icmpv6Code)
}

/// Flows of a searched table lead on, and write metadata, by which the next flow is found.
#[test]
fn searches_lead_to_other_tables_as_the_definition_says() {
    let metadata = || (0_u64..4, prop_oneof![Just(3_u64), Just(1_u64), Just(1 << 40 | 1)]);
    let leads = (prop::sample::select(kinds()), proptest::option::of(metadata()), 0_u16..4);
    let leads = leads.prop_map(|((asked, _), metadata, priority)| {
        let metadata = metadata.map(|(metadata, mask)| Instruction::WriteMetadata { metadata, mask });
        let made = metadata.into_iter().chain([Instruction::GotoTable(2)]).collect();
        FlowMod::add(0, priority, Match::new(asked).unwrap(), made)
    });
    let behind = (flow(), proptest::option::of(metadata())).prop_map(|(flow, metadata)| {
        let asked = metadata.map(|(value, mask)| Oxm::masked(Field::Metadata, (value & mask).into(), mask.into()));
        let fields = asked.into_iter().chain(flow.matches.fields().iter().copied()).collect();
        FlowMod { table: 2, matches: Match::new(fields).unwrap(), ..flow }
    });
    let first = proptest::collection::vec(prop_oneof![3 => leads, 1 => flow()], 3..10);
    let tables = (first, proptest::collection::vec(behind, 3..12))
        .prop_map(|(first, behind)| [behind_a_search(first), behind].concat());
    run(80, tables, packet(), |short| short.through_last * 20 > short.all);
}

/// Every checksum that a packet may come in with, of IPv4 and of UDP, of which 0 is none, and of TCP.
#[test]
fn every_checksum_is_updated_as_the_definition_does() {
    let is = |protocol: u8| vec![Oxm::exact(Field::EthType, 0x0800), Oxm::exact(Field::IpProto, protocol.into())];
    let udp = vec![set(Field::Ipv4Dst, 0x0a00_0001), set(Field::UdpDst, 99), Action::DecNwTtl, out(2)];
    let tcp = vec![set(Field::IpDscp, 9), set(Field::TcpSrc, 99), set(Field::Ipv4Src, 0x0a00_0009), out(2)];
    let flow = |protocol, actions| {
        FlowMod::add(0, 1, Match::new(is(protocol)).unwrap(), vec![Instruction::ApplyActions(actions)])
    };
    let flows = [flow(17, udp), flow(6, tcp)];
    let [mut compiled, mut definition] = [0, 1].map(|_| switch_with(Vec::new(), &flows));
    let frame = |protocol: u8, sum: u16| {
        let [high, low] = sum.to_be_bytes();
        let ip = [8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 9, protocol, high, low, 192, 0, 2, 1, 10, 0, 0, 2];
        let mut frame = [&[2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1][..], &ip, &[1, 1, 0, 53, 0, 26], &[7; 20]].concat();
        let at = if protocol == 17 { 40 } else { 50 };
        frame[at..at + 2].copy_from_slice(&[high, low]);
        frame
    };
    // What is wanted is known by frames.
    pipelines::compile(&mut compiled);
    for protocol in [6, 17] {
        assert!(!take(&mut compiled, 1, &frame(protocol, 1), 0).1);
    }
    pipelines::compile(&mut compiled);
    for protocol in [6, 17] {
        for sum in 0..=u16::MAX {
            let bytes = frame(protocol, sum);
            let (became, was_short) = take(&mut compiled, 1, &bytes, 0);
            assert!(was_short, "{protocol} {sum}");
            assert_eq!(became, Some(by_definition(&mut definition, 1, &bytes, 0)), "{protocol} {sum}");
        }
    }
}

/// The same of ICMPv6, where target and address of a solicitation are set.
#[test]
fn every_checksum_of_neighbours_is_updated_as_the_definition_does() {
    let asked = [(Field::EthType, 0x86dd), (Field::IpProto, 58), (Field::Icmpv6Type, 135)];
    let asked = asked.map(|(field, value)| Oxm::exact(field, value)).to_vec();
    let actions = vec![
        set(Field::Ipv6NdTarget, 0x2001_0db8_0000_ffff_0102_0304_0506_0708),
        set(Field::Ipv6NdSll, 0x0207_0809_0a0b),
        set(Field::Ipv6Src, 0xfe80_0000_0000_0000_0000_0000_ffff_0001),
        out(2),
    ];
    let flow = FlowMod::add(0, 1, Match::new(asked).unwrap(), vec![Instruction::ApplyActions(actions)]);
    let [mut compiled, mut definition] = [0, 1].map(|_| switch_with(Vec::new(), std::slice::from_ref(&flow)));
    let frame = |sum: u16| {
        let [high, low] = sum.to_be_bytes();
        let message = [&[135, 0, high, low, 0, 0, 0, 0][..], &[0xfd; 16], &[1, 1, 2, 0, 0, 0, 0, 7]].concat();
        let ip = [&[0x60, 0, 0, 0, 0, 32, 58, 255][..], &[0x20; 32]].concat();
        [&[2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0x86, 0xdd][..], &ip, &message].concat()
    };
    // What is wanted is known by frames.
    pipelines::compile(&mut compiled);
    assert!(!take(&mut compiled, 1, &frame(1), 0).1);
    pipelines::compile(&mut compiled);
    for sum in 0..=u16::MAX {
        let bytes = frame(sum);
        let (became, was_short) = take(&mut compiled, 1, &bytes, 0);
        assert!(was_short, "{sum}");
        assert_eq!(became, Some(by_definition(&mut definition, 1, &bytes, 0)), "{sum}");
    }
}

/// Ports of SCTP, in packets longer than what code sees of them, whose CRC is right or not.
#[test]
fn code_sets_ports_of_sctp_as_the_definition_does() {
    let flow = |version: u128, address| {
        let asked = vec![Oxm::exact(Field::EthType, version), Oxm::exact(Field::IpProto, 132)];
        let actions =
            vec![set(address, 9), set(Field::SctpSrc, 0x1234), Action::DecNwTtl, set(Field::SctpDst, 7), out(2)];
        FlowMod::add(0, 1, Match::new(asked).unwrap(), vec![Instruction::ApplyActions(actions)])
    };
    let flows = [flow(0x0800, Field::Ipv4Dst), flow(0x86dd, Field::Ipv6Src)];
    let [mut compiled, mut definition] = [0, 1].map(|_| switch_with(Vec::new(), &flows));
    let frame = |is_v6: bool, length: usize| {
        let [high, low] = (length as u16 + if is_v6 { 0 } else { 20 }).to_be_bytes();
        let four = [8, 0, 0x45, 0, high, low, 0, 0, 0, 0, 9, 132, 5, 5, 192, 0, 2, 1, 10, 0, 0, 2].to_vec();
        let six = [&[0x86, 0xdd, 0x60, 0, 0, 0, high, low, 132, 9][..], &[0x20; 32]].concat();
        let carried: Vec<u8> = (0..length).map(|at| (at * 37 % 251) as u8).collect();
        [&[2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1][..], if is_v6 { &six } else { &four }, &carried].concat()
    };
    // What is wanted is known by frames.
    pipelines::compile(&mut compiled);
    for is_v6 in [false, true] {
        assert!(!take(&mut compiled, 1, &frame(is_v6, 12), 0).1);
    }
    pipelines::compile(&mut compiled);
    for (length, is_v6) in (12..1480).step_by(3).flat_map(|length| [(length, false), (length, true)]) {
        let bytes = frame(is_v6, length);
        let (became, was_short) = take(&mut compiled, 1, &bytes, 0);
        assert!(was_short, "{length} {is_v6}");
        assert_eq!(became, Some(by_definition(&mut definition, 1, &bytes, 0)), "{length} {is_v6}");
    }
}

fn bucket(actions: Vec<Action>) -> Bucket {
    Bucket { weight: 0, watch_port: group::ANY, watch_group: group::ANY, actions }
}

fn group_of(kind: GroupKind, group: u32, buckets: Vec<Bucket>) -> GroupMod {
    GroupMod { command: GroupCommand::Add, kind, group, buckets }
}

/// A frame that each bucket of a group changes by itself is changed by code too.
#[test]
fn code_changes_what_the_buckets_of_a_group_of_all_send() {
    let buckets = [
        vec![set(Field::Ipv4Dst, 7), out(2)],
        vec![Action::PushVlan(0x8100), set(Field::VlanVid, 0x1003), out(3)],
        vec![Action::PushMpls(0x8847), out(2)],
        vec![set(Field::UdpDst, 9), out(3)],
    ];
    let all = group_of(GroupKind::All, 9, buckets.into_iter().map(bucket).collect());
    let flow = FlowMod::add(0, 1, Match::default(), vec![Instruction::ApplyActions(vec![Action::Group(9)])]);
    let [mut compiled, mut definition] = [0, 1].map(|_| switch_with(vec![all.clone()], std::slice::from_ref(&flow)));
    pipelines::compile(&mut compiled);
    let ip = [8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 9, 17, 1, 2, 192, 0, 2, 1, 10, 0, 0, 2];
    let bytes = [&[2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1][..], &ip, &[1, 1, 0, 53, 0, 26, 5, 5], &[7; 18]].concat();
    for has_code in [false, true] {
        let (became, _) = take(&mut compiled, 1, &bytes, 0);
        let sent = by_definition(&mut definition, 1, &bytes, 0);
        assert_eq!((became, sent.clone().unwrap().len()), (Some(sent), 4));
        // A frame has come for which all four are wanted.
        assert_eq!(compiled.recipe().is_none(), has_code);
        pipelines::compile(&mut compiled);
    }
    assert_eq!(counted(&compiled, 0), counted(&definition, 0));
}

/// Groups that lead to groups, four in a row behind the first, are on the short way, and one more is not.
#[test]
fn groups_lead_to_groups_the_short_way() {
    let ends = bucket(vec![set(Field::EthDst, 7), out(2)]);
    let leads = |number: u32| group_of(GroupKind::Indirect, number, vec![bucket(vec![Action::Group(number - 1)])]);
    let groups: Vec<GroupMod> =
        [group_of(GroupKind::All, 20, vec![ends])].into_iter().chain((21..=25).map(leads)).collect();
    let bytes = [&[2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0x88, 0xb5][..], &[7; 46]].concat();
    for (first, is_short) in [(20, true), (21, true), (24, true), (25, false)] {
        let flow = FlowMod::add(0, 1, Match::default(), vec![Instruction::WriteActions(vec![Action::Group(first)])]);
        let [mut compiled, mut definition] = [0, 1].map(|_| switch_with(groups.clone(), std::slice::from_ref(&flow)));
        pipelines::compile(&mut compiled);
        let (became, was_short) = take(&mut compiled, 1, &bytes, 0);
        assert_eq!(became, Some(by_definition(&mut definition, 1, &bytes, 0)));
        assert_eq!(was_short, is_short, "{first}");
        assert_eq!(counted(&compiled, 0), counted(&definition, 0));
    }
}

/// Other values are other data: 10,000 changes of flows make no code.
#[test]
fn other_values_take_no_other_code() {
    let asked = vec![Oxm::exact(Field::EthType, 0x0800)];
    let flow = |address: u128| {
        let actions = vec![Action::PushVlan(0x8100), set(Field::Ipv4Dst, address), out(2)];
        FlowMod::add(0, 1, Match::new(asked.clone()).unwrap(), vec![Instruction::ApplyActions(actions)])
    };
    let mut switch = switch_with(Vec::new(), &[flow(1)]);
    let ip = [8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 9, 17, 1, 2, 192, 0, 2, 1, 10, 0, 0, 2];
    let frame = [&[2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1][..], &ip, &[1, 1, 0, 53, 0, 26], &[7; 20]].concat();
    pipelines::compile(&mut switch);
    assert!(!take(&mut switch, 1, &frame, 0).1);
    pipelines::compile(&mut switch);
    for address in 0..10_000_u32 {
        switch.flow_mod(&flow(address.into()), 0).unwrap();
        assert!(switch.recipe().is_none());
        if address % 100 == 0 {
            let (became, was_short) = take(&mut switch, 1, &frame, 0);
            assert!(was_short);
            assert_eq!(became.unwrap().unwrap()[0].1[34..38], address.to_be_bytes());
        }
    }
    // Another list of changes takes other code, and the usual way until then; none where there is to be none.
    let other = vec![set(Field::Ipv4Dst, 7), Action::PushVlan(0x8100), out(2)];
    let other = FlowMod::add(0, 1, Match::new(asked.clone()).unwrap(), vec![Instruction::ApplyActions(other)]);
    switch.flow_mod(&other, 0).unwrap();
    assert!(switch.recipe().is_none() && !take(&mut switch, 1, &frame, 0).1);
    let recipe = switch.recipe().unwrap();
    switch.install(recipe.compile());
    assert!(take(&mut switch, 1, &frame, 0).1);
    switch.allow_code(false);
    assert!(!take(&mut switch, 1, &frame, 0).1 && switch.recipe().is_none());
}

/// Who cannot go the short way to its end goes the longer one with the metadata that it came with, and not with what flows wrote meanwhile.
#[test]
fn metadata_begins_anew_where_the_short_way_is_given_up() {
    let leads = |table, priority, asked, metadata: u64, mask, next| {
        let write = Instruction::WriteMetadata { metadata, mask };
        FlowMod::add(table, priority, Match::new(asked).unwrap(), vec![write, Instruction::GotoTable(next)])
    };
    let others = (0..30).map(|n| {
        let asked = Match::new(vec![Oxm::exact(Field::EthDst, 0xffff_0000 | n)]).unwrap();
        FlowMod::add(0, 9, asked, vec![])
    });
    let flows: Vec<FlowMod> = others
        .chain([
            leads(0, 1, vec![], 1, 1, 1),
            // It sees the bit of the first flow, and not its own.
            leads(1, 1, vec![Oxm::exact(Field::Metadata, 1)], 2, 2, 2),
            // A group of all takes the longer way.
            FlowMod::add(2, 1, Match::default(), vec![Instruction::ApplyActions(vec![Action::Group(9)])]),
        ])
        .collect();
    let all = group_of(GroupKind::All, 9, vec![bucket(vec![out(2)]), bucket(vec![out(3)])]);
    let [mut compiled, mut definition] = [0, 1].map(|_| switch_with(vec![all.clone()], &flows));
    pipelines::compile(&mut compiled);
    let bytes = [&[2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0x88, 0xb5][..], &[7; 46]].concat();
    let (became, was_short) = take(&mut compiled, 1, &bytes, 0);
    assert!(!was_short);
    let sent = by_definition(&mut definition, 1, &bytes, 0);
    assert_eq!((became, sent.clone().unwrap().len()), (Some(sent), 2));
    assert_eq!(counted(&compiled, 0), counted(&definition, 0));
}
