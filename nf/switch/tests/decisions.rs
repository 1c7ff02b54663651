//! What becomes of frames in the graph: the way, the name of a drop, and the account.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use crate::common;

use common::*;
use serde_json::json;
use weir_openflow::error::PortModFailed;
use weir_openflow::flow::{FlowMod, NO_BUFFER, PacketInReason, PacketOut};
use weir_openflow::group::{Bucket, GroupCommand, GroupKind, GroupMod};
use weir_openflow::message::Config;
use weir_openflow::meter::{Band, BandKind, MeterCommand, MeterMod};
use weir_openflow::port::{PortMod, PortReason, config, number};
use weir_openflow::{Action, Body, Field, Instruction, Message, Oxm, Reply, Request, group, meter};
use weir_stage::{LinkSpeed, Medium};

/// A switch with ports 1 to 4, and its controller.
fn controlled() -> (Rig, Controller) {
    let mut rig = switch(json!({ "ports": ["a", "b", "c", "d"], "tables": 4 }));
    rig.run(MS);
    let controller = Controller::new(&*rig.instance);
    (rig, controller)
}

const IN_1: Oxm = Oxm::exact(Field::InPort, 1);

#[test]
fn without_flows_all_is_dropped() {
    let (mut rig, _controller) = controlled();
    assert_eq!(rig.ways(0, udp(64)), "");
    assert_eq!(rig.ways(0, vec![1; 13]), "");
    assert_eq!(rig.drops(), [("switch.tables/short".to_owned(), 1), ("switch.tables/table-miss".to_owned(), 1)].into());
    rig.finish();
}

#[test]
fn a_packet_goes_where_a_flow_says_and_copies_are_counted() {
    let (mut rig, mut controller) = controlled();
    let ttl = Action::SetField(Oxm::exact(Field::EthSrc, 0x0200_0000_0009));
    controller.does(Body::FlowMod(flow(0, 1, &[IN_1], apply(&[out(2), ttl, out(3), out(number::FLOOD)]))));
    let came = rig.pass(0, &[udp(64)]);
    let mut changed = udp(64);
    changed[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    assert_eq!((&came[0], &came[1]), (&vec![], &vec![udp(64), changed.clone()]));
    assert_eq!((&came[2], &came[3]), (&vec![changed.clone(), changed.clone()], &vec![changed]));
    let account = rig.finish();
    assert_eq!((account.received, account.created, account.transmitted), (1, 4, 5));
}

#[test]
fn every_drop_has_its_name() {
    let (mut rig, mut controller) = controlled();
    let set = |controller: &mut Controller, fields: &[Oxm], instructions| {
        controller.does(Body::FlowMod(flow(0, 1, fields, instructions)));
    };
    let dropped = |rig: &mut Rig, name: &str| {
        let before = rig.drops();
        assert_eq!(rig.ways(0, udp(1)), "", "{name}");
        let mut after = rig.drops();
        after.retain(|key, count| before.get(key) != Some(count));
        assert_eq!(after.keys().collect::<Vec<_>>(), [&format!("switch.tables/{name}")]);
    };
    dropped(&mut rig, "table-miss");
    set(&mut controller, &[IN_1], vec![]);
    dropped(&mut rig, "no-action");
    set(&mut controller, &[IN_1], vec![Instruction::GotoTable(2)]);
    dropped(&mut rig, "table-miss");
    set(&mut controller, &[IN_1], apply(&[out(9)]));
    dropped(&mut rig, "no-such-port");
    set(&mut controller, &[IN_1], apply(&[out(1)]));
    dropped(&mut rig, "same-port");
    set(&mut controller, &[IN_1], apply(&[Action::DecNwTtl, out(2)]));
    // By default a controller wants to hear of such a packet neither as master nor as slave (section 6.1.1).
    dropped(&mut rig, "no-controller");
    let mac = |number: usize| rig.infos[number].facts.mac;
    let port_mod =
        |port: u32, mac, config| Body::PortMod(PortMod { port, mac, config, mask: config::ALL, advertise: 0 });
    let (first, second) = (mac(0), mac(1));
    set(&mut controller, &[IN_1], apply(&[out(2)]));
    controller.send(port_mod(2, second, config::NO_FWD));
    dropped(&mut rig, "port-down");
    controller.send(port_mod(1, first, config::NO_RECV));
    dropped(&mut rig, "port-takes-nothing");
    controller.send(port_mod(1, first, config::NO_PACKET_IN));
    controller.heard();
    set(&mut controller, &[IN_1], apply(&[out(number::CONTROLLER)]));
    dropped(&mut rig, "no-packet-in");
    let group = GroupMod {
        command: GroupCommand::Add,
        kind: GroupKind::FastFailover,
        group: 1,
        buckets: vec![Bucket { weight: 0, watch_port: 2, watch_group: group::ANY, actions: vec![out(3)] }],
    };
    controller.does(Body::GroupMod(group));
    set(&mut controller, &[IN_1], apply(&[Action::Group(1)]));
    // A port that is not to forward is live still (section 7.2.1); one without a link is not.
    assert_eq!(rig.ways(0, udp(1)), "c");
    rig.instance.link_changed(1, false, rig.engine.now());
    controller.heard();
    dropped(&mut rig, "no-bucket");
    let bands = vec![Band { rate: 1, burst: 1, kind: BandKind::Drop }];
    let flags = meter::flags::PKTPS | meter::flags::BURST;
    controller.does(Body::MeterMod(MeterMod { command: MeterCommand::Add, flags, meter: 1, bands }));
    set(&mut controller, &[IN_1], [vec![Instruction::Meter(1)], apply(&[out(3)])].concat());
    assert_eq!(rig.ways(0, udp(1)), "c");
    dropped(&mut rig, "meter");
    controller.does(Body::SetConfig(Config { flags: 1, miss_send_len: 128 }));
    let mut fragment = udp(64);
    fragment[20] = 0x20;
    assert_eq!(rig.ways(0, fragment), "");
    assert_eq!(rig.drops()["switch.tables/fragment"], 1);
    set(&mut controller, &[IN_1], apply(&[out(number::NORMAL)]));
    assert_eq!(rig.ways(0, [&[1, 0x80, 0xc2, 0, 0, 3][..], &udp(1)[6..]].concat()), "");
    assert_eq!(rig.drops()["switch.tables/control-frame"], 1);
    // Pushed beyond the longest frame.
    set(&mut controller, &[IN_1], apply(&[Action::PushVlan(0x8100), out(3)]));
    let mut long = udp(64);
    long.resize(9216, 0);
    assert_eq!(rig.ways(0, long), "");
    assert_eq!(rig.drops()["switch.tables/too-long"], 1);
    rig.finish();
}

#[test]
fn controllers_get_packets_and_send_them() {
    let (mut rig, mut controller) = controlled();
    controller.does(Body::FlowMod(flow(0, 0, &[], apply(&[out(number::CONTROLLER)]))));
    assert_eq!(rig.ways(1, udp(64)), "");
    let heard = controller.heard();
    let [Message { body: Body::PacketIn(packet), .. }] = &heard[..] else { panic!("{heard:?}") };
    assert_eq!((packet.reason, packet.table, &packet.data), (PacketInReason::NoMatch, 0, &udp(64)));
    assert_eq!(packet.matches.get(Field::InPort), Some(&Oxm::exact(Field::InPort, 2)));
    let send = |controller: &mut Controller, in_port, actions, data| {
        controller.does(Body::PacketOut(PacketOut { buffer: NO_BUFFER, in_port, actions, data }));
    };
    send(&mut controller, 2, vec![out(number::ALL)], udp(64));
    rig.run(MS);
    let came: Vec<usize> = (0..4).map(|port| rig.sent(port).len()).collect();
    assert_eq!(came, [1, 0, 1, 1]);
    // Through the tables, and back to the controller.
    let again =
        PacketOut { buffer: NO_BUFFER, in_port: number::CONTROLLER, actions: vec![out(number::TABLE)], data: udp(9) };
    controller.send(Body::PacketOut(again));
    let heard = controller.heard();
    assert!(matches!(&heard[..], [Message { body: Body::PacketIn(packet), .. }] if packet.data == udp(9)), "{heard:?}");
    controller.leave();
    assert_eq!(rig.ways(1, udp(64)), "");
    assert_eq!(rig.drops(), [("switch.tables/no-controller".to_owned(), 1)].into());
    let account = rig.finish();
    assert_eq!((account.received, account.created, account.transmitted, account.consumed), (2, 3, 3, 1));
}

/// Packets that go to controllers and on, in one batch with others: each is told as it was then, and with the cookie of its flow.
#[test]
fn controllers_hear_of_packets_that_go_on() {
    let (mut rig, mut controller) = controlled();
    let to_controllers = || out(number::CONTROLLER);
    let from_nine = Action::SetField(Oxm::exact(Field::EthSrc, 0x0200_0000_0009));
    let metadata = Instruction::WriteMetadata { metadata: 5, mask: 7 };
    let applied = apply(&[to_controllers(), from_nine, out(2), to_controllers()]);
    let to = |last: u128| Oxm::exact(Field::EthDst, 0x0200_0000_0000 | last);
    let flows = [
        FlowMod { cookie: 77, ..flow(0, 2, &[to(2)], [applied, vec![metadata, Instruction::GotoTable(1)]].concat()) },
        FlowMod { cookie: 78, ..flow(1, 0, &[], apply(&[to_controllers()])) },
        FlowMod { cookie: 79, ..flow(0, 2, &[to(3)], apply(&[out(3)])) },
        FlowMod { cookie: 80, ..flow(0, 0, &[], apply(&[to_controllers()])) },
    ];
    flows.into_iter().for_each(|flow| controller.does(Body::FlowMod(flow)));
    let frames: Vec<Vec<u8>> = [2, 3, 4, 2].into_iter().zip(0..).map(|(to, n)| frame(to, 1, n)).collect();
    let came = rig.pass(0, &frames);
    let changed = |frame: &Vec<u8>| {
        let mut frame = frame.clone();
        frame[11] = 9;
        frame
    };
    assert_eq!(came[1], [changed(&frames[0]), changed(&frames[3])]);
    assert_eq!(came[2], [frames[1].clone()]);
    let heard = controller.heard().into_iter().map(|message| match message.body {
        Body::PacketIn(packet) => {
            let metadata = packet.matches.get(Field::Metadata).map_or(0, |oxm| oxm.value);
            (packet.reason, packet.table, packet.cookie, metadata, packet.data)
        }
        other => panic!("{other:?}"),
    });
    let (action, miss) = (PacketInReason::Action, PacketInReason::NoMatch);
    let of_first = |frame: &Vec<u8>| {
        [(action, 0, 77, 0, frame.clone()), (action, 0, 77, 0, changed(frame)), (miss, 1, 78, 5, changed(frame))]
    };
    let expected = [&of_first(&frames[0])[..], &[(miss, 0, 80, 0, frames[2].clone())], &of_first(&frames[3])].concat();
    assert_eq!(heard.collect::<Vec<_>>(), expected);
    // Nobody has to have the switch to itself for them: no flow takes the interpreter.
    assert!(rig.show("flows", None).iter().all(|flow| flow["path"] == "fast"));
    let account = rig.finish();
    assert_eq!((account.received, account.consumed, account.created), (4, 1, 0));
}

#[test]
fn in_fail_standalone_mode_it_is_a_bridge_until_a_controller_comes() {
    let mut rig = switch(json!({ "ports": ["a", "b", "c"], "fail": "standalone" }));
    rig.run(MS);
    assert_eq!(rig.ways(0, frame(2, 1, 0)), "bc");
    assert_eq!(rig.ways(1, frame(1, 2, 0)), "a");
    assert_eq!(rig.ways(0, frame(2, 1, 0)), "b");
    assert_eq!(rig.ways(1, frame(2, 3, 0)), "", "it is there already");
    assert_eq!(rig.drops(), [("switch.tables/same-port".to_owned(), 1)].into());
    let controller = Controller::new(&*rig.instance);
    assert_eq!(rig.ways(0, frame(2, 1, 0)), "");
    controller.leave();
    assert_eq!(rig.ways(0, frame(2, 1, 0)), "b");
    // The mode is changed while it runs.
    rig.reload(json!({ "ports": ["a", "b", "c"], "fail": "secure" }));
    assert_eq!(rig.ways(0, frame(2, 1, 0)), "");
    let ports = rig.show("switch-ports", None);
    assert_eq!((&ports[0]["rx_packets"], &ports[1]["tx_packets"]), (&json!(5), &json!(3)));
    rig.finish();
}

#[test]
fn a_tool_that_connects_ends_no_standalone_mode_where_controllers_are_named() {
    for (controllers, ways) in [(json!([]), ""), (json!(["tcp:192.0.2.9"]), "bc")] {
        let mut rig = switch(json!({ "ports": ["a", "b", "c"], "fail": "standalone", "controllers": controllers }));
        rig.run(MS);
        let tool = Controller::by(&*rig.instance, listening());
        assert_eq!(rig.ways(0, frame(2, 1, 0)), ways);
        let controller = Controller::new(&*rig.instance);
        assert_eq!(rig.ways(0, frame(2, 1, 0)), "");
        tool.leave();
        controller.leave();
        rig.finish();
    }
}

/// Section 7.2.1: `curr` has the bits of `ofp_port_features`, and the speeds are in kbit/s.
#[test]
fn controllers_are_told_how_fast_links_are() {
    use weir_openflow::port::feature;
    let (rig, mut controller) = controlled();
    let told = |controller: &mut Controller| -> Vec<(u32, u32, u32, u32)> {
        let status = |message: Message| match message.body {
            Body::PortStatus(status) => {
                let port = status.port;
                assert_eq!((port.advertised, port.supported, port.peer), (0, 0, 0));
                (port.number, port.current, port.current_speed, port.max_speed)
            }
            other => panic!("{other:?}"),
        };
        controller.heard().into_iter().map(status).collect()
    };
    let speed =
        LinkSpeed { now: 10_000, most: 25_000, medium: Some(Medium::Fiber), negotiated: true, half_duplex: false };
    rig.instance.speed_changed(1, speed, rig.engine.now());
    let fast = (2, feature::GB_10_FD | feature::FIBER | feature::AUTONEG, 10_000_000, 25_000_000);
    assert_eq!(told(&mut controller), [fast]);
    // Said again it is no news.
    rig.instance.speed_changed(1, speed, rig.engine.now());
    assert_eq!(told(&mut controller), []);
    // A link that is down has no speed.
    rig.instance.link_changed(1, false, rig.engine.now());
    assert_eq!(told(&mut controller), [(2, 0, 0, 25_000_000)]);
    rig.instance.link_changed(1, true, rig.engine.now());
    assert_eq!(told(&mut controller), [fast]);
    let bits = [
        (10, true, feature::MB_10_HD),
        (10, false, feature::MB_10_FD),
        (100, true, feature::MB_100_HD),
        (100, false, feature::MB_100_FD),
        (1_000, true, feature::GB_1_HD),
        (1_000, false, feature::GB_1_FD),
        (2_500, false, feature::OTHER),
        (25_000, false, feature::OTHER),
        (40_000, false, feature::GB_40_FD),
        (100_000, false, feature::GB_100_FD),
        (1_000_000, false, feature::TB_1_FD),
        (0, false, 0),
    ];
    for (now, half_duplex, bit) in bits {
        let speed = LinkSpeed { now, most: now, half_duplex, medium: Some(Medium::Copper), negotiated: false };
        rig.instance.speed_changed(1, speed, rig.engine.now());
        let bit = if now == 0 { 0 } else { bit | feature::COPPER };
        assert_eq!(told(&mut controller), [(2, bit, now * 1000, now * 1000)]);
    }
    // The description of all ports says the same: section 7.3.5.7.
    rig.instance.speed_changed(1, speed, rig.engine.now());
    told(&mut controller);
    controller.send(Body::MultipartRequest(Request::PortDesc.parts().remove(0)));
    let answer = controller.heard().remove(0).body;
    let Body::MultipartReply(part) = answer else { panic!("{answer:?}") };
    let Ok(Reply::PortDesc(ports)) = Reply::read(part.kind, &part.body) else { panic!("{part:?}") };
    assert_eq!((ports[1].current, ports[1].current_speed, ports[1].max_speed), (fast.1, fast.2, fast.3));
    assert_eq!((ports[0].current, ports[0].current_speed, ports[0].max_speed), (0, 0, 0));
    // Nobody can change what is not supported.
    let (port, mac) = (2, rig.infos[1].facts.mac);
    controller.send(Body::PortMod(PortMod { port, mac, config: 0, mask: 0, advertise: feature::GB_10_FD }));
    let Body::Error { error, .. } = controller.heard().remove(0).body else { panic!("it was taken") };
    assert_eq!(error, PortModFailed::BadAdvertise.into());
    controller.leave();
    rig.finish();
}

#[test]
fn controllers_are_told_of_links_and_of_ports_that_come_and_go() {
    let (mut rig, mut controller) = controlled();
    controller.does(Body::FlowMod(flow(0, 1, &[IN_1], apply(&[out(2)]))));
    rig.instance.link_changed(1, false, rig.engine.now());
    let news = |controller: &mut Controller| -> Vec<(PortReason, u32, u32)> {
        let status = |message: Message| match message.body {
            Body::PortStatus(status) => (status.reason, status.port.number, status.port.state),
            other => panic!("{other:?}"),
        };
        controller.heard().into_iter().map(status).collect()
    };
    assert_eq!(news(&mut controller), [(PortReason::Modify, 2, 1)]);
    assert_eq!(rig.ways(0, udp(64)), "");
    rig.instance.link_changed(1, true, rig.engine.now());
    assert_eq!(news(&mut controller), [(PortReason::Modify, 2, 4)]);
    assert_eq!(rig.ways(0, udp(64)), "b");
    // Built anew with other ports, it goes on with its flows and its controller; port 2 is another one, 4 is gone.
    let instance = rig.rebuilt(json!({ "ports": ["a", "c", "b"], "tables": 4 }));
    rig.replace(instance);
    rig.run(MS);
    let told = news(&mut controller);
    assert_eq!(
        told.iter().filter(|(reason, ..)| *reason == PortReason::Delete).map(|(_, port, _)| *port).collect::<Vec<_>>(),
        [4, 2, 3]
    );
    assert_eq!(
        told.iter().filter(|(reason, ..)| *reason == PortReason::Add).map(|(_, port, _)| *port).collect::<Vec<_>>(),
        [2, 3]
    );
    assert_eq!(rig.ways(0, udp(64)), "c");
    // With another number of tables it is another switch.
    let instance = rig.rebuilt(json!({ "ports": ["a", "b"], "tables": 5 }));
    assert_eq!(instance.show("flows", None, 0).unwrap().piece().len(), 0);
    rig.finish();
}

#[test]
fn flows_end_by_themselves_and_controllers_hear_of_it() {
    let (mut rig, mut controller) = controlled();
    let ends = weir_openflow::flow::FlowMod {
        idle_timeout: 10,
        flags: weir_openflow::flow::flags::SEND_FLOW_REM,
        ..flow(0, 1, &[IN_1], apply(&[out(2)]))
    };
    controller.does(Body::FlowMod(ends));
    for _ in 0..3 {
        rig.run(8 * SECOND);
        assert_eq!(rig.ways(0, udp(64)), "b", "it is used");
        // It answers echo requests meanwhile, or would be given up.
        controller.heard();
        controller.send(Body::EchoReply(vec![]));
    }
    rig.run(4 * SECOND);
    controller.send(Body::EchoReply(vec![]));
    rig.run(7 * SECOND);
    let heard = controller.heard();
    let removed = heard
        .iter()
        .find_map(|message| if let Body::FlowRemoved(removed) = &message.body { Some(removed) } else { None });
    assert_eq!(removed.unwrap().packets, 3);
    assert!(rig.show("flows", None).is_empty());
    // One that says nothing any more is given up.
    rig.run(20 * SECOND);
    assert!(controller.closing().unwrap().contains("silent"));
    rig.finish();
}

/// Code is made beside packets, and does what was done before; it can be switched off while they go.
#[test]
fn the_first_table_becomes_code_while_packets_go() {
    let keys = |compile: bool| json!({ "ports": ["a", "b", "c", "d"], "tables": 4, "compile": compile });
    let mut rig = switch(keys(true));
    rig.run(MS);
    let mut controller = Controller::new(&*rig.instance);
    let route = [Action::DecNwTtl, Action::SetField(Oxm::exact(Field::EthDst, 7)), out(2)];
    controller.does(Body::FlowMod(flow(0, 1, &[Oxm::exact(Field::EthType, 0x0800)], apply(&route))));
    controller.does(Body::FlowMod(flow(0, 0, &[], apply(&[Action::PushVlan(0x8100), out(3)]))));
    let code = |rig: &Rig| {
        let row = rig.show("flow-tables", Some("0")).remove(0);
        assert!(row["lookup_ns"].is_u64(), "{row}");
        (row["code"].as_str().unwrap().to_owned(), row["code_packets"].as_u64().unwrap())
    };
    assert_eq!(code(&rig), ("being made".to_owned(), 0));
    let frames = [udp(64), frame(1, 2, 3), udp(9)];
    let first = rig.pass(0, &frames);
    assert_eq!(first.iter().map(Vec::len).sum::<usize>(), 3);
    assert_eq!((first[1].len(), first[2].len()), (2, 1));
    rig.run(200 * MS);
    let (state, before) = code(&rig);
    assert_eq!(state, "in use");
    assert_eq!(rig.pass(0, &frames), first);
    assert_eq!(code(&rig), ("in use".to_owned(), before + 3));
    rig.reload(keys(false));
    assert_eq!(code(&rig), ("no: it is switched off".to_owned(), before + 3));
    assert_eq!(rig.pass(0, &frames), first);
    rig.reload(keys(true));
    assert_eq!(rig.pass(0, &frames), first);
    assert_eq!(code(&rig), ("in use".to_owned(), before + 6));
    rig.finish();
}
