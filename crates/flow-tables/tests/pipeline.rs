//! What becomes of packets: OpenFlow 1.3.5 chapter 5.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use weir_flow_tables::{Identity, Outcome, Packet, Switch};
use weir_openflow::flow::{FlowMod, PacketInReason};
use weir_openflow::group::{self, Bucket, GroupCommand, GroupKind, GroupMod};
use weir_openflow::message::Config;
use weir_openflow::meter::{Band, BandKind, MeterCommand, MeterMod, flags};
use weir_openflow::port::{Port, PortMod, config, number, state};
use weir_openflow::{Action, Field, Instruction, Match, Oxm};
use weir_wire::checksum;

const SECOND: u64 = 1_000_000_000;

/// A switch with ports 1 to 4.
fn switch() -> Switch {
    let mut switch = Switch::new(Identity { tables: 8, ..Identity::default() });
    for number in 1..=4 {
        switch.set_port(Port { number, ..Port::default() }, 0);
    }
    switch
}

fn add(switch: &mut Switch, table: u8, priority: u16, fields: &[Oxm], instructions: Vec<Instruction>) {
    let flow = FlowMod {
        cookie: u64::from(table) << 16 | u64::from(priority),
        ..FlowMod::add(table, priority, Match::new(fields.to_vec()).unwrap(), instructions)
    };
    switch.flow_mod(&flow, 0).unwrap();
}

fn out(port: u32) -> Action {
    Action::Output { port, max_len: 100 }
}

fn set(field: Field, value: u128) -> Action {
    Action::SetField(Oxm::exact(field, value))
}

const IPV4: Oxm = Oxm::exact(Field::EthType, 0x0800);

/// UDP over IPv4, with right checksums: TTL, ports and eight bytes.
fn udp(ttl: u8) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let mut ip = vec![0x45, 0, 0, 36, 0, 0, 0, 0, ttl, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let sum = checksum::checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut datagram = vec![0, 53, 0x14, 0xe9, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let sum = checksum::Sum::new().bytes(&ip[12..20]).word(17).word(16).bytes(&datagram).checksum();
    datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    bytes.extend(ip);
    bytes.extend(datagram);
    bytes
}

/// Whether the checksums of IPv4 at `at`, and of UDP in it, are right.
fn is_right(bytes: &[u8], at: usize) -> bool {
    let ip = &bytes[at..at + 20];
    let datagram = &bytes[at + 20..at + 36];
    let sum = checksum::Sum::new().bytes(&ip[12..20]).word(17).word(16).bytes(datagram);
    checksum::is_valid(ip) && sum.fold() == 0xffff
}

/// Where copies of a packet were sent.
fn sent(outcomes: &[Outcome]) -> Vec<u32> {
    outcomes.iter().filter_map(|one| if let Outcome::Sent { port, .. } = one { Some(*port) } else { None }).collect()
}

#[track_caller]
fn bytes(outcomes: &[Outcome]) -> Vec<u8> {
    match outcomes {
        [Outcome::Sent { bytes, .. }] => bytes.clone(),
        other => panic!("not sent once: {other:?}"),
    }
}

/// What a list of applied actions makes of a packet.
#[track_caller]
fn applied(packet: Vec<u8>, fields: &[Oxm], mut actions: Vec<Action>) -> Vec<u8> {
    let mut switch = switch();
    actions.push(out(2));
    add(&mut switch, 0, 1, fields, vec![Instruction::ApplyActions(actions)]);
    bytes(&switch.process(Packet::new(1, packet), 0))
}

#[test]
fn without_a_flow_a_packet_is_dropped() {
    let mut switch = switch();
    assert_eq!(switch.process(Packet::new(1, udp(64)), 0), []);
    // A flow without instructions drops too, and counts.
    add(&mut switch, 0, 0, &[], vec![]);
    assert_eq!(switch.process(Packet::new(1, udp(64)), 0), []);
    let stats = switch.tables.stats();
    assert_eq!((stats[0].lookups, stats[0].matched, stats[1].lookups), (2, 1, 0));
}

#[test]
fn the_flow_of_the_highest_priority_is_used() {
    let mut switch = switch();
    add(&mut switch, 0, 10, &[], vec![Instruction::ApplyActions(vec![out(2)])]);
    add(&mut switch, 0, 20, &[IPV4], vec![Instruction::ApplyActions(vec![out(3)])]);
    add(&mut switch, 0, 30, &[Oxm::exact(Field::EthType, 0x86dd)], vec![Instruction::ApplyActions(vec![out(4)])]);
    assert_eq!(sent(&switch.process(Packet::new(1, udp(64)), 0)), [3]);
    let mut other = udp(64);
    other[12] = 0x12;
    assert_eq!(sent(&switch.process(Packet::new(1, other), 0)), [2]);
}

#[test]
fn tables_hand_on_metadata_and_the_action_set() {
    let mut switch = switch();
    let write = |actions| Instruction::WriteActions(actions);
    let metadata = Instruction::WriteMetadata { metadata: 0xab, mask: 0xff };
    add(&mut switch, 0, 1, &[], vec![write(vec![out(2), set(Field::EthDst, 5)]), metadata, Instruction::GotoTable(3)]);
    add(
        &mut switch,
        3,
        1,
        &[Oxm::masked(Field::Metadata, 0xa0, 0xf0)],
        vec![write(vec![out(3)]), Instruction::GotoTable(5)],
    );
    add(&mut switch, 5, 1, &[], vec![]);
    let outcomes = switch.process(Packet::new(1, udp(64)), 0);
    // The later output replaced the first, and the destination was set at the end.
    assert_eq!(sent(&outcomes), [3]);
    assert_eq!(bytes(&outcomes)[..6], [0, 0, 0, 0, 0, 5]);
    // A table without a flow for it ends the packet, action set and all.
    add(&mut switch, 5, 1, &[], vec![Instruction::GotoTable(6)]);
    assert_eq!(switch.process(Packet::new(1, udp(64)), 0), []);
    // Clearing goes before writing, in whichever order they were sent.
    add(&mut switch, 5, 1, &[], vec![write(vec![out(4)]), Instruction::ClearActions]);
    let outcomes = switch.process(Packet::new(1, udp(64)), 0);
    assert_eq!(sent(&outcomes), [4]);
    assert_eq!(bytes(&outcomes)[..6], [2, 0, 0, 0, 0, 1]);
}

#[test]
fn actions_that_are_applied_show_in_later_tables() {
    let mut switch = switch();
    let apply = vec![out(4), set(Field::UdpDst, 99), Action::PushVlan(0x8100), set(Field::VlanVid, 0x1007)];
    let fields = [IPV4, Oxm::exact(Field::IpProto, 17)];
    add(&mut switch, 0, 1, &fields, vec![Instruction::ApplyActions(apply), Instruction::GotoTable(1)]);
    let fields =
        [Oxm::exact(Field::VlanVid, 0x1007), IPV4, Oxm::exact(Field::IpProto, 17), Oxm::exact(Field::UdpDst, 99)];
    add(&mut switch, 1, 1, &fields, vec![Instruction::ApplyActions(vec![out(3)])]);
    let outcomes = switch.process(Packet::new(1, udp(64)), 0);
    assert_eq!(sent(&outcomes), [4, 3]);
    // What was sent first is as it was then.
    let Outcome::Sent { bytes: first, .. } = &outcomes[0] else { panic!() };
    let Outcome::Sent { bytes: second, .. } = &outcomes[1] else { panic!() };
    assert_eq!(*first, udp(64));
    assert_eq!(second[12..18], [0x81, 0, 0, 7, 8, 0]);
    assert!(is_right(second, 18));
}

#[test]
fn ports_with_a_meaning() {
    let mut switch = switch();
    let mut to = |port, in_port| {
        add(&mut switch, 0, 1, &[], vec![Instruction::ApplyActions(vec![out(port)])]);
        switch.process(Packet::new(in_port, udp(64)), 0)
    };
    assert_eq!(sent(&to(number::ALL, 2)), [1, 3, 4]);
    assert_eq!(sent(&to(number::FLOOD, 1)), [2, 3, 4]);
    assert_eq!(sent(&to(number::IN_PORT, 2)), [2]);
    // Never back by its number, nor by a port that is not there.
    assert_eq!(to(2, 2), []);
    assert_eq!(to(9, 2), []);
    assert_eq!(to(number::NORMAL, 3), [Outcome::Normal(Packet::new(3, udp(64)))]);
    let [Outcome::Controller(packet)] = &to(number::CONTROLLER, 3)[..] else { panic!() };
    // Priority 1 is no table-miss flow.
    assert_eq!((packet.reason, packet.table, packet.cookie, packet.max_len), (PacketInReason::Action, 0, 1, 100));
    assert_eq!(packet.matches(), Match::new(vec![Oxm::exact(Field::InPort, 3)]).unwrap());
}

#[test]
fn the_table_miss_flow_says_that_nothing_matched() {
    let mut switch = switch();
    add(&mut switch, 0, 0, &[], vec![Instruction::ApplyActions(vec![out(number::CONTROLLER)])]);
    let [Outcome::Controller(packet)] = &switch.process(Packet::new(1, udp(64)), 0)[..] else { panic!() };
    assert_eq!(packet.reason, PacketInReason::NoMatch);
}

#[test]
fn configuration_of_ports() {
    let mut switch = switch();
    add(&mut switch, 0, 1, &[], vec![Instruction::ApplyActions(vec![out(number::ALL), out(number::CONTROLLER)])]);
    let configure = |switch: &mut Switch, port, config| {
        let change = PortMod { port, mac: [0; 6], config, mask: config::ALL, advertise: 0 };
        switch.port_mod(&change).unwrap();
    };
    configure(&mut switch, 2, config::NO_FWD);
    configure(&mut switch, 3, config::PORT_DOWN);
    let outcomes = switch.process(Packet::new(1, udp(64)), 0);
    assert_eq!((sent(&outcomes), outcomes.len()), (vec![4], 2));
    assert_eq!(switch.process(Packet::new(3, udp(64)), 0), []);
    configure(&mut switch, 1, config::NO_RECV);
    assert_eq!(switch.process(Packet::new(1, udp(64)), 0), []);
    configure(&mut switch, 1, config::NO_PACKET_IN);
    assert_eq!(switch.process(Packet::new(1, udp(64)), 0).len(), 1);
    // Blocked ports are not flooded to; a link that is down carries nothing.
    let port = |number, state| Port { number, state, ..Port::default() };
    switch.set_port(port(4, state::BLOCKED), 0);
    assert_eq!(sent(&switch.process(Packet::new(1, udp(64)), 0)), [4]);
    add(&mut switch, 0, 1, &[], vec![Instruction::ApplyActions(vec![out(number::FLOOD)])]);
    assert_eq!(switch.process(Packet::new(1, udp(64)), 0), []);
    add(&mut switch, 0, 1, &[], vec![Instruction::ApplyActions(vec![out(4)])]);
    switch.set_port(port(4, state::LINK_DOWN), 0);
    assert_eq!(switch.process(Packet::new(1, udp(64)), 0), []);
    let stats = switch.ports.stats(1, 0).unwrap();
    assert_eq!((stats[0].counters[0], stats[0].counters[4]), (6, 1));
}

#[test]
fn fragments_are_dropped_when_asked() {
    let mut switch = switch();
    add(&mut switch, 0, 1, &[], vec![Instruction::ApplyActions(vec![out(2)])]);
    let mut fragment = udp(64);
    fragment[20] = 0x20;
    assert_eq!(switch.process(Packet::new(1, fragment.clone()), 0).len(), 1);
    switch.set_config(Config { flags: 1, miss_send_len: 0 }).unwrap();
    assert_eq!(switch.process(Packet::new(1, fragment), 0), []);
    assert_eq!(switch.process(Packet::new(1, udp(64)), 0).len(), 1);
    assert!(switch.set_config(Config { flags: 2, miss_send_len: 0 }).is_err());
    assert!(switch.set_config(Config { flags: 0, miss_send_len: 0xffe6 }).is_err());
}

#[test]
fn a_ttl_that_ends_goes_to_the_controller() {
    let mut switch = switch();
    add(&mut switch, 0, 1, &[IPV4], vec![Instruction::ApplyActions(vec![Action::DecNwTtl, out(2)])]);
    let sent = bytes(&switch.process(Packet::new(1, udp(2)), 0));
    assert!(sent[22] == 1 && is_right(&sent, 14));
    for ttl in [0, 1] {
        let [Outcome::Controller(packet)] = &switch.process(Packet::new(1, udp(ttl)), 0)[..] else { panic!() };
        assert_eq!((packet.reason, packet.packet.bytes[22]), (PacketInReason::InvalidTtl, ttl));
    }
}

#[test]
fn vlan_tags() {
    let tagged = |tags: &[[u8; 4]]| [&udp(64)[..12], tags.as_flattened(), &udp(64)[12..]].concat();
    assert_eq!(applied(udp(64), &[], vec![Action::PushVlan(0x8100)]), tagged(&[[0x81, 0, 0, 0]]));
    // Identifier and priority are copied from the tag outside.
    let one = [0x81, 0, 0x60, 5];
    assert_eq!(applied(tagged(&[one]), &[], vec![Action::PushVlan(0x88a8)]), tagged(&[[0x88, 0xa8, 0x60, 5], one]));
    assert_eq!(applied(tagged(&[one, [0x81, 0, 0, 6]]), &[], vec![Action::PopVlan]), tagged(&[[0x81, 0, 0, 6]]));
    assert_eq!(applied(udp(64), &[], vec![Action::PopVlan]), udp(64));
    // A frame of the least length stays one.
    let mut least = tagged(&[one]);
    least.resize(60, 7);
    let popped = applied(least, &[], vec![Action::PopVlan]);
    assert_eq!((popped.len(), &popped[50..56], &popped[56..]), (60, &[7; 6][..], &[0; 4][..]));
    let tag = Oxm::masked(Field::VlanVid, 0x1000, 0x1000);
    let set = vec![set(Field::VlanVid, 0x1fff), set(Field::VlanPcp, 1)];
    assert_eq!(applied(tagged(&[one]), &[tag], set), tagged(&[[0x81, 0, 0x2f, 0xff]]));
}

#[test]
fn mpls_entries() {
    let entry = |label: u32, bottom: bool, ttl: u8| {
        (label << 12 | 3 << 9 | u32::from(bottom) << 8 | u32::from(ttl)).to_be_bytes()
    };
    let labelled =
        |entries: &[[u8; 4]], kind: [u8; 2]| [&udp(64)[..12], &kind, entries.as_flattened(), &udp(64)[14..]].concat();
    let mpls = Oxm::exact(Field::EthType, 0x8847);
    // The first gets the TTL of IP, and is the bottom; another is a copy that is not.
    let first = applied(udp(64), &[], vec![Action::PushMpls(0x8847)]);
    assert_eq!(first, labelled(&[[0, 0, 1, 64]], [0x88, 0x47]));
    let second = applied(labelled(&[entry(7, true, 9)], [0x88, 0x47]), &[], vec![Action::PushMpls(0x8848)]);
    assert_eq!(second, labelled(&[entry(7, false, 9), entry(7, true, 9)], [0x88, 0x48]));
    assert_eq!(applied(second, &[], vec![Action::PopMpls(0x8847)]), labelled(&[entry(7, true, 9)], [0x88, 0x47]));
    assert_eq!(applied(first.clone(), &[], vec![Action::PopMpls(0x0800)]), udp(64));
    let changed = vec![set(Field::MplsLabel, 7), set(Field::MplsTc, 3), Action::SetMplsTtl(10), Action::DecMplsTtl];
    assert_eq!(applied(first.clone(), &[mpls], changed), labelled(&[entry(7, true, 9)], [0x88, 0x47]));
    // The TTL goes out and in, and the checksum with it.
    let mut inner = applied(labelled(&[entry(7, true, 9)], [0x88, 0x47]), &[], vec![Action::CopyTtlIn]);
    assert!(inner[26] == 9 && is_right(&inner, 18));
    inner = applied(labelled(&[entry(7, true, 9)], [0x88, 0x47]), &[], vec![Action::CopyTtlOut]);
    assert_eq!(inner, labelled(&[entry(7, true, 64)], [0x88, 0x47]));
    let two = labelled(&[entry(7, false, 9), entry(8, true, 5)], [0x88, 0x47]);
    assert_eq!(
        applied(two, &[], vec![Action::CopyTtlIn]),
        labelled(&[entry(7, false, 9), entry(8, true, 9)], [0x88, 0x47])
    );
    // Behind labels there is no IP to look at.
    assert_eq!(applied(first.clone(), &[], vec![Action::DecNwTtl]), first);
}

#[test]
fn a_checksum_of_zero_stays_none() {
    let mut packet = udp(64);
    packet[40..42].copy_from_slice(&[0, 0]);
    let fields = [IPV4, Oxm::exact(Field::IpProto, 17)];
    let sent = applied(packet, &fields, vec![set(Field::Ipv4Src, 1), set(Field::UdpSrc, 7)]);
    assert_eq!(sent[40..42], [0, 0]);
    // One that becomes zero is sent as all ones (RFC 768): found by trying all ports.
    let mut all_ones = 0;
    for port in 0..=u16::MAX {
        let mut packet = Packet::new(1, udp(64));
        let mut switch = switch();
        let outcomes = switch.packet_out(packet.clone(), &[set(Field::UdpSrc, port.into()), out(2)], 0).unwrap();
        packet.bytes = bytes(&outcomes);
        assert_ne!(packet.bytes[40..42], [0, 0], "port {port}");
        all_ones += u32::from(packet.bytes[40..42] == [0xff, 0xff]);
    }
    assert_eq!(all_ones, 1);
}

fn group(switch: &mut Switch, number: u32, kind: GroupKind, buckets: &[(u16, u32, Vec<Action>)]) {
    let bucket = |(weight, watch_port, actions): &(u16, u32, Vec<Action>)| Bucket {
        weight: *weight,
        watch_port: *watch_port,
        watch_group: group::ANY,
        actions: actions.clone(),
    };
    let buckets = buckets.iter().map(bucket).collect();
    switch.group_mod(&GroupMod { command: GroupCommand::Add, kind, group: number, buckets }, 0).unwrap();
}

#[test]
fn groups_give_each_bucket_a_packet_of_its_own() {
    let mut switch = switch();
    let any = number::ANY;
    group(&mut switch, 1, GroupKind::Indirect, &[(0, any, vec![out(4)])]);
    let buckets = [
        (0, any, vec![out(2), set(Field::EthDst, 9)]),
        (0, any, vec![out(3)]),
        (0, any, vec![Action::Group(1), out(2)]),
    ];
    group(&mut switch, 2, GroupKind::All, &buckets);
    add(&mut switch, 0, 1, &[], vec![Instruction::ApplyActions(vec![Action::Group(2), out(1), out(3)])]);
    let outcomes = switch.process(Packet::new(1, udp(64)), 0);
    // A bucket is an action set: the field is set before the output, and a group goes before an output.
    assert_eq!(sent(&outcomes), [2, 3, 4, 3]);
    let dst: Vec<u8> =
        outcomes.iter().map(|one| if let Outcome::Sent { bytes, .. } = one { bytes[5] } else { panic!() }).collect();
    assert_eq!(dst, [9, 1, 1, 1]);
    let group = switch.groups.get(2).unwrap();
    assert_eq!(group.bucket_counts().iter().map(|count| count.packets).collect::<Vec<_>>(), [1, 1, 1]);
    assert_eq!((group.counted().packets, switch.groups.get(1).unwrap().counted().bytes), (1, 50));
}

#[test]
fn select_groups_share_by_weight_and_keep_flows_together() {
    let mut switch = switch();
    let any = number::ANY;
    group(&mut switch, 1, GroupKind::Select, &[(1, any, vec![out(2)]), (0, any, vec![out(4)]), (3, any, vec![out(3)])]);
    let mut count = [0u32; 5];
    for flow in 0..4_000u16 {
        let mut packet = udp(64);
        packet[34..36].copy_from_slice(&flow.to_be_bytes());
        let ports = sent(&switch.packet_out(Packet::new(1, packet.clone()), &[Action::Group(1)], 0).unwrap());
        assert_eq!(sent(&switch.packet_out(Packet::new(1, packet), &[Action::Group(1)], 0).unwrap()), ports);
        count[ports[0] as usize] += 1;
    }
    assert_eq!(count[4], 0);
    assert!(count[2].abs_diff(1_000) < 120 && count[3].abs_diff(3_000) < 120, "{count:?}");
}

#[test]
fn fast_failover_takes_the_first_live_bucket() {
    let mut switch = switch();
    group(&mut switch, 1, GroupKind::FastFailover, &[(0, 2, vec![out(2)]), (0, 3, vec![out(3)])]);
    let sends =
        |switch: &mut Switch| sent(&switch.packet_out(Packet::new(1, udp(64)), &[Action::Group(1)], 0).unwrap());
    assert_eq!(sends(&mut switch), [2]);
    switch.set_port(Port { number: 2, state: state::LINK_DOWN, ..Port::default() }, 0);
    assert_eq!(sends(&mut switch), [3]);
    switch.ports.remove(3);
    assert_eq!(sends(&mut switch), []);
    switch.set_port(Port { number: 2, ..Port::default() }, 0);
    assert_eq!(sends(&mut switch), [2]);
}

/// Sixteen groups of two buckets each would make 65,536 packets of one.
#[test]
fn one_packet_does_not_become_countless() {
    let mut switch = switch();
    let any = number::ANY;
    group(&mut switch, 0, GroupKind::All, &[(0, any, vec![out(2)]), (0, any, vec![out(3)])]);
    for number in 1..16 {
        let next = vec![Action::Group(number - 1)];
        group(&mut switch, number, GroupKind::All, &[(0, any, next.clone()), (0, any, next)]);
    }
    let next = Bucket { weight: 0, watch_port: any, watch_group: group::ANY, actions: vec![Action::Group(15)] };
    let more = GroupMod { command: GroupCommand::Add, kind: GroupKind::All, group: 16, buckets: vec![next] };
    let refused = weir_openflow::error::GroupModFailed::ChainingUnsupported;
    assert_eq!(switch.group_mod(&more, 0), Err(refused.into()));
    let outcomes = switch.packet_out(Packet::new(1, udp(64)), &[Action::Group(15)], 0).unwrap();
    assert!(outcomes.len() > 1_000 && outcomes.len() <= weir_flow_tables::pipeline::MAX_COPIES);
}

fn meter(switch: &mut Switch, flags: u16, bands: Vec<Band>) {
    switch.meter_mod(&MeterMod { command: MeterCommand::Add, flags, meter: 1, bands }, 0).unwrap();
}

#[test]
fn meters_drop_what_is_above_their_rate() {
    let mut switch = switch();
    meter(&mut switch, flags::PKTPS | flags::BURST, vec![Band { rate: 10, burst: 5, kind: BandKind::Drop }]);
    add(&mut switch, 0, 1, &[], vec![Instruction::ApplyActions(vec![out(2)]), Instruction::Meter(1)]);
    let mut passed = |from: u64, count: u64, each: u64| {
        let times = (0..count).map(|at| from + at * each);
        times.filter(|at| !switch.process(Packet::new(1, udp(64)), *at).is_empty()).count()
    };
    // A burst of five, then ten in a second, of a hundred that come.
    assert_eq!(passed(0, 100, 0), 5);
    assert_eq!(passed(SECOND / 100, 100, SECOND / 100), 10);
    // At its rate all pass.
    assert_eq!(passed(10 * SECOND, 100, SECOND / 10), 100);
}

#[test]
fn meters_mark_and_the_highest_rate_that_is_exceeded_counts() {
    let mut switch = switch();
    let bands = vec![
        Band { rate: 1, burst: 1, kind: BandKind::DscpRemark(1) },
        Band { rate: 2, burst: 2, kind: BandKind::Drop },
    ];
    meter(&mut switch, flags::PKTPS | flags::BURST | flags::STATS, bands);
    add(&mut switch, 0, 1, &[IPV4], vec![Instruction::Meter(1), Instruction::ApplyActions(vec![out(2)])]);
    let mut packet = udp(64);
    // AF21 is 18: checksum and all.
    packet[15] = 18 << 2;
    let sum = u16::from_be_bytes([packet[24], packet[25]]);
    packet[24..26].copy_from_slice(&checksum::update(sum, 0x4500, 0x4548).to_be_bytes());
    let first = bytes(&switch.process(Packet::new(1, packet.clone()), 0));
    assert_eq!(first, packet);
    let second = bytes(&switch.process(Packet::new(1, packet.clone()), 0));
    assert!(second[15] == 20 << 2 && is_right(&second, 14));
    assert_eq!(switch.process(Packet::new(1, packet), 0), []);
    let stats = switch.meters.stats(1, |_| 1, 0);
    assert_eq!(stats[0].counted.packets, 3);
    assert_eq!(stats[0].bands.iter().map(|band| band.packets).collect::<Vec<_>>(), [1, 1]);
}

/// RFC 2597 section 6: only the twelve code points of assured forwarding have a drop precedence.
#[test]
fn drop_precedences_rise_to_three() {
    use weir_flow_tables::meters::remark;
    for dscp in 0..64u8 {
        let class = dscp >> 3;
        let assured = [10, 12, 14].iter().any(|low| (1..=4).any(|class| dscp == low + 8 * (class - 1)));
        for level in 1..=2 {
            let marked = remark(dscp, level);
            if assured {
                assert_eq!(marked >> 3, class);
                assert_eq!(marked >> 1 & 3, ((dscp >> 1 & 3) + level).min(3));
                assert_eq!(marked & 1, 0);
            } else {
                assert_eq!(marked, dscp);
            }
        }
    }
}

#[test]
fn a_controllers_packet_goes_through_the_tables() {
    let mut switch = switch();
    add(&mut switch, 0, 1, &[Oxm::exact(Field::InPort, 3)], vec![Instruction::ApplyActions(vec![out(4)])]);
    let outcomes = switch.packet_out(Packet::new(3, udp(64)), &[out(number::TABLE)], 0).unwrap();
    assert_eq!(sent(&outcomes), [4]);
    let controllers = Packet::new(number::CONTROLLER, udp(64));
    assert_eq!(switch.packet_out(controllers.clone(), &[out(number::TABLE)], 0), Ok(vec![]));
    assert_eq!(sent(&switch.packet_out(controllers, &[out(number::ALL)], 0).unwrap()), [1, 2, 3, 4]);
    let bad = weir_openflow::error::BadRequest::BadPort;
    for port in [0, 5, number::ANY] {
        assert_eq!(switch.packet_out(Packet::new(port, udp(64)), &[], 0), Err(bad.into()));
    }
    let bad = weir_openflow::error::BadRequest::BadPacket;
    assert_eq!(switch.packet_out(Packet::new(1, vec![0; 13]), &[], 0), Err(bad.into()));
}
