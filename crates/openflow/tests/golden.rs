//! Messages of others: read with the meaning that they were written with, and written the same.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use weir_openflow::field::Field;
use weir_openflow::group::GroupKind;
use weir_openflow::meter::BandKind;
use weir_openflow::multipart::kind;
use weir_openflow::{Action, Body, Instruction, Message, Oxm, Request};

fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
}

fn golden(name: &str) -> Message {
    let (_, bytes) = all().find(|(found, _)| *found == name).unwrap_or_else(|| panic!("no message {name}"));
    Message::read(&bytes).unwrap()
}

fn all() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    let lines = include_str!("golden/os-ken.txt").lines();
    lines.map(|line| line.split_once(' ').unwrap()).map(|(name, bytes)| (name, hex(bytes)))
}

#[test]
fn messages_of_a_controller_are_written_the_same() {
    let mut count = 0;
    for (name, bytes) in all() {
        let message = Message::read(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(message.xid, 0x0102_0304, "{name}");
        assert_eq!(message.write().unwrap(), bytes, "{name}");
        if let Body::MultipartRequest(part) = &message.body {
            let request = Request::read(part.kind, &part.body).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(request.parts().first(), Some(part), "{name}");
            assert_eq!(request.parts().len(), 1, "{name}");
        }
        count += 1;
    }
    assert!(count >= 52, "only {count} messages");
}

fn fields(name: &str) -> Vec<Oxm> {
    let Body::FlowMod(flow) = golden(name).body else { panic!("{name} is no flow") };
    flow.matches.fields().to_vec()
}

#[test]
fn fields_have_the_values_they_were_written_with() {
    use Field::*;
    let e = Oxm::exact;
    let m = Oxm::masked;
    assert_eq!(
        fields("flow-mod-match-tcp"),
        [
            e(InPort, 1),
            m(EthDst, 0x0200_0000_0001, 0xffff_ff00_0001),
            e(EthSrc, 0x0200_0000_0002),
            e(EthType, 0x0800),
            e(VlanVid, 0x1064),
            e(VlanPcp, 5),
            e(IpDscp, 10),
            e(IpEcn, 1),
            e(IpProto, 6),
            m(Ipv4Src, 0x0a00_0000, 0xff00_0000),
            e(Ipv4Dst, 0xc000_0201),
            e(TcpSrc, 1000),
            e(TcpDst, 80),
        ]
    );
    let target = 0x2001_0db8_0000_0000_0000_0000_0000_0009;
    assert_eq!(
        fields("flow-mod-match-nd"),
        [
            e(EthType, 0x86dd),
            e(IpProto, 58),
            m(Ipv6Src, 0x2001_0db8 << 96, 0xffff_ffff << 96),
            e(Ipv6Dst, 0x2001_0db8_0000_0000_0000_0000_0000_0001),
            m(Ipv6Flabel, 0x12300, 0xfff00),
            e(Icmpv6Type, 135),
            e(Icmpv6Code, 0),
            e(Ipv6NdTarget, target),
            e(Ipv6NdSll, 0x0200_0000_0003),
            m(Ipv6Exthdr, 64, 64),
        ]
    );
    assert_eq!(fields("flow-mod-match-mpls"), [e(EthType, 0x8847), e(MplsLabel, 16), e(MplsTc, 3), e(MplsBos, 1)]);
    // Every field of the specification stands in one of these.
    let seen: std::collections::BTreeSet<Field> = all()
        .filter(|(name, _)| name.starts_with("flow-mod-match"))
        .flat_map(|(name, _)| fields(name))
        .map(|oxm| oxm.field)
        .collect();
    assert_eq!(seen.len(), Field::COUNT);
}

#[test]
fn actions_have_the_values_they_were_written_with() {
    let Body::FlowMod(flow) = golden("flow-mod-instructions").body else { panic!() };
    let actions = vec![
        Action::Output { port: 0xffff_fffd, max_len: 0xffff },
        Action::CopyTtlOut,
        Action::CopyTtlIn,
        Action::SetMplsTtl(9),
        Action::DecMplsTtl,
        Action::PushVlan(0x88a8),
        Action::PopVlan,
        Action::PushMpls(0x8848),
        Action::PopMpls(0x0800),
        Action::SetQueue(11),
        Action::Group(12),
        Action::SetNwTtl(13),
        Action::DecNwTtl,
        Action::SetField(Oxm::exact(Field::Ipv6Dst, 0x2001_0db8_0000_0000_0000_0000_0000_0001)),
        Action::SetField(Oxm::exact(Field::EthDst, 0x0200_0000_0005)),
        Action::SetField(Oxm::exact(Field::VlanVid, 0x1005)),
        Action::PushPbb(0x88e7),
        Action::PopPbb,
    ];
    assert_eq!(
        flow.instructions,
        [
            Instruction::Meter(1),
            Instruction::ApplyActions(actions.clone()),
            Instruction::ClearActions,
            Instruction::WriteActions(actions),
            Instruction::WriteMetadata { metadata: 0x1122_3344_5566_7788, mask: 0xffff_0000_ffff_0000 },
            Instruction::GotoTable(9),
        ]
    );
}

#[test]
fn groups_and_meters_have_the_values_they_were_written_with() {
    let Body::GroupMod(group) = golden("group-mod-3").body else { panic!() };
    assert_eq!((group.kind, group.group), (GroupKind::FastFailover, 77));
    assert_eq!(group.buckets.len(), 2);
    assert_eq!((group.buckets[0].weight, group.buckets[0].actions.len()), (10, 3));
    assert_eq!((group.buckets[1].watch_port, group.buckets[1].watch_group), (3, 4));
    let Body::MeterMod(meter) = golden("meter-mod").body else { panic!() };
    assert_eq!((meter.meter, meter.flags), (5, 0b110));
    assert_eq!((meter.bands[0].rate, meter.bands[0].burst, &meter.bands[0].kind), (100, 10, &BandKind::Drop));
    assert_eq!(meter.bands[1].kind, BandKind::DscpRemark(1));
}

#[test]
fn a_hello_lists_versions() {
    // Section 7.5.1: element type 1, length 8, and a bit for each of the versions 1 and 4.
    let bytes = [4, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0b10010];
    let message = Message::read(&bytes).unwrap();
    assert_eq!(message.write().unwrap(), bytes);
    let Body::Hello(hello) = message.body else { panic!() };
    assert_eq!(hello.agree(4), Some(4));
    assert_eq!(hello.agree(1), Some(1));
    assert_eq!(hello.agree(3), None);
    assert_eq!(hello.agree(200), None);
    // One without a list is taken at its word: every version up to its own.
    let old = |version| weir_openflow::message::Hello { version, versions: None };
    assert_eq!(old(1).agree(4), None);
    assert_eq!(old(6).agree(4), Some(4));
}

#[test]
fn all_kinds_of_requests_are_there() {
    let kinds: std::collections::BTreeSet<u16> = all()
        .filter_map(|(_, bytes)| match Message::read(&bytes).unwrap().body {
            Body::MultipartRequest(part) => Some(part.kind),
            _ => None,
        })
        .collect();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), (kind::DESC..=kind::PORT_DESC).collect::<Vec<_>>());
}
