//! Next hops are asked for before anything is sent, and questions for one's own addresses are answered.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use crate::common;

use common::Rig;
use serde_json::json;
use weir_port_mem::MemPort;
use weir_wire::arp::{ArpFields, Operation};
use weir_wire::{MacAddr, nd};

const ROUTER: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x77]);

#[test]
fn arp_is_asked_and_nothing_is_sent_before() {
    let (port, handle) = MemPort::fed("a");
    let config = json!({ "streams": [{ "port": "a", "via": "192.0.2.1", "count": 10, "rate": "1 Mpps" }] });
    let mut rig = Rig::new(vec![("a", port)], &config);
    let own = MacAddr(rig.infos[0].facts.mac);
    rig.run(1_600_000_000);
    let asked = handle.received();
    assert_eq!(asked.len(), 4, "every half second");
    let question = ArpFields::parse(&asked[0][14..]).unwrap();
    assert_eq!((&asked[0][..6], question.operation), (&[0xff; 6][..], Operation::Request));
    assert_eq!(
        (question.sender_mac, question.sender.to_string(), question.target.to_string()),
        (own, "192.0.2.2".into(), "192.0.2.1".into())
    );
    let report = rig.report_after(0);
    assert_eq!((report.started, report.unresolved), (false, vec![("a".to_owned(), "192.0.2.1".to_owned())]));
    let reply = ArpFields {
        operation: Operation::Reply,
        sender_mac: ROUTER,
        sender: question.target,
        target_mac: own,
        target: question.sender,
    };
    let mut frame = vec![0; 60];
    reply.write(own, &mut frame).unwrap();
    handle.received();
    handle.send(frame);
    let report = rig.report_after(10_000_000);
    assert!(report.started && report.unresolved.is_empty() && report.done);
    let sent = handle.received();
    assert_eq!(sent.len(), 10);
    assert!(sent.iter().all(|frame| frame[..6] == ROUTER.0 && frame[6..12] == own.0));
}

#[test]
fn neighbour_discovery_is_asked() {
    let (port, handle) = MemPort::fed("a");
    let layers = json!([{ "ethernet": {} }, { "ipv6": {} }, { "udp": {} }]);
    let config =
        json!({ "streams": [{ "port": "a", "via": "2001:db8::1", "count": 3, "size": "70", "layers": layers }] });
    let mut rig = Rig::new(vec![("a", port)], &config);
    let own = MacAddr(rig.infos[0].facts.mac);
    rig.run(1_000_000);
    let asked = handle.received();
    let Some(nd::Message { source: from, body: nd::Body::Solicitation { target, .. }, .. }) =
        nd::parse(&asked[0][14..])
    else {
        panic!("{asked:?}")
    };
    let mut frame = vec![0; nd::FRAME_LEN];
    nd::Message::advertisement(target, ROUTER, from, true).write(&mut frame, ROUTER, own).unwrap();
    handle.send(frame);
    rig.run(10_000_000);
    let sent = handle.received();
    assert_eq!((sent.len(), &sent[0][..6]), (3, &ROUTER.0[..]));
}

#[test]
fn questions_for_a_range_are_answered() {
    let (port, handle) = MemPort::fed("a");
    let config = json!({ "receive": "a", "answer": { "a": ["198.51.100.0/24", "2001:db8:1::/64"] } });
    let mut rig = Rig::new(vec![("a", port)], &config);
    let own = MacAddr(rig.infos[0].facts.mac);
    let ask = |target: &str| {
        let question = ArpFields {
            operation: Operation::Request,
            sender_mac: ROUTER,
            sender: "192.0.2.1".parse().unwrap(),
            target_mac: MacAddr::ZERO,
            target: target.parse().unwrap(),
        };
        let mut frame = vec![0; 60];
        question.write(MacAddr::BROADCAST, &mut frame).unwrap();
        frame
    };
    for (target, answered) in [("198.51.100.7", true), ("192.0.2.2", true), ("198.51.101.7", false), ("0.0.0.0", false)]
    {
        handle.send(ask(target));
        rig.run(1_000_000);
        let answers = handle.received();
        assert_eq!(answers.len(), usize::from(answered), "{target}");
        if let Some(answer) = answers.first() {
            let fields = ArpFields::parse(&answer[14..]).unwrap();
            assert_eq!((&answer[..6], fields.operation, fields.sender_mac), (&ROUTER.0[..], Operation::Reply, own));
            assert_eq!(
                (fields.sender.to_string(), fields.target.to_string()),
                (target.to_owned(), "192.0.2.1".to_owned())
            );
        }
    }
    let mut frame = vec![0; nd::FRAME_LEN];
    let target = "2001:db8:1::99".parse().unwrap();
    nd::write_solicitation(&mut frame, ROUTER, "2001:db8::1".parse().unwrap(), target).unwrap();
    handle.send(frame);
    rig.run(1_000_000);
    let answer = nd::parse(&handle.received()[0][14..]);
    let asker = "2001:db8::1".parse().unwrap();
    assert_eq!(answer, Some(nd::Message::advertisement(target, own, asker, false)));
    assert_eq!(rig.report_after(0).unsigned, 5, "what is no packet of a stream is counted");
}
