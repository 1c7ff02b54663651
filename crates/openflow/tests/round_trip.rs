//! What is written is read as the same, and written the same again.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use proptest::prelude::*;
use weir_openflow::multipart::{MAX_BODY, Part};
use weir_openflow::{Body, Framing, Message, Reassembly, Reply, Request};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn messages_come_back(message in common::message()) {
        let bytes = message.write().unwrap();
        prop_assert_eq!(usize::from(u16::from_be_bytes([bytes[2], bytes[3]])), bytes.len());
        let read = Message::read(&bytes).unwrap();
        prop_assert_eq!(&read, &message);
        prop_assert_eq!(read.write().unwrap(), bytes);
    }

    #[test]
    fn replies_come_back(reply in common::reply(4)) {
        let parts = reply.parts();
        prop_assert_eq!(parts.len(), 1);
        prop_assert_eq!(Reply::read(parts[0].kind, &parts[0].body).unwrap(), reply);
    }

    /// A stream that comes in pieces of any size is the same messages.
    #[test]
    fn streams_are_cut_into_messages(
        messages in proptest::collection::vec(common::message(), 1..5),
        sizes in proptest::collection::vec(1usize..200, 1..20),
    ) {
        let stream: Vec<u8> = messages.iter().flat_map(|message| message.write().unwrap()).collect();
        let mut framing = Framing::default();
        let mut found = Vec::new();
        let mut rest = stream.as_slice();
        for size in sizes.into_iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (mut piece, later) = rest.split_at(size.min(rest.len()));
            rest = later;
            while let Some(bytes) = framing.next(&mut piece).unwrap() {
                found.push(Message::read(&bytes).unwrap());
            }
            prop_assert!(piece.is_empty());
        }
        prop_assert_eq!(found, messages);
        prop_assert_eq!(framing.held(), 0);
    }

    /// Messages with some bytes changed, or cut, are refused or are messages that come back.
    #[test]
    fn damage_does_no_harm(
        message in common::message(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        whole in any::<bool>(),
    ) {
        let mut bytes = message.write().unwrap();
        if !whole {
            bytes.truncate(cut.index(bytes.len()));
        }
        for (at, value) in changes {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
        }
        // The length is put right, so that the change shows further in.
        let length = (bytes.len() as u16).to_be_bytes();
        if let Some(field) = bytes.get_mut(2..4) {
            field.copy_from_slice(&length);
        }
        if let Ok(read) = Message::read(&bytes) {
            let written = read.write().unwrap();
            prop_assert_eq!(Message::read(&written).unwrap(), read);
        }
    }
}

/// 200 ports of 64 bytes each fill one message; 2,000 need more, and each holds whole ports.
#[test]
fn long_replies_take_several_messages() {
    let port = weir_openflow::port::Port { name: "p".to_owned(), ..Default::default() };
    let reply = Reply::PortDesc(vec![port; 2_000]);
    let parts = reply.parts();
    assert_eq!(parts.len(), (2_000 * 64usize).div_ceil(MAX_BODY / 64 * 64));
    let mut reassembly = Reassembly::new(1 << 20);
    let mut whole = None;
    for (at, part) in parts.iter().enumerate() {
        assert_eq!(part.more, at + 1 < parts.len());
        assert!(part.body.len() <= MAX_BODY && part.body.len() % 64 == 0);
        Message::new(1, Body::MultipartReply(part.clone())).write().expect("it fits a message");
        assert!(whole.is_none());
        whole = reassembly.add(1, part.clone()).unwrap();
    }
    let whole = whole.expect("the last part ends it");
    assert_eq!(Reply::read(whole.kind, &whole.body).unwrap(), reply);
    assert_eq!(reassembly.held(), 0);
}

#[test]
fn parts_of_requests_are_kept_within_bounds() {
    let part = |more, body: usize| Part { kind: 12, more, body: vec![0; body] };
    let mut reassembly = Reassembly::new(100);
    assert_eq!(reassembly.add(1, part(true, 60)), Ok(None));
    assert_eq!(reassembly.add(2, part(true, 40)), Ok(None));
    let overflow = weir_openflow::error::BadRequest::MultipartBufferOverflow.into();
    assert_eq!(reassembly.add(3, part(true, 1)), Err(overflow));
    // What overflows is forgotten, and the other request goes on.
    assert_eq!(reassembly.add(1, part(false, 1)), Err(overflow));
    assert_eq!(reassembly.held(), 40);
    assert_eq!(reassembly.add(2, part(false, 10)), Ok(Some(part(false, 50))));
    // Empty parts cost memory too.
    for xid in 0..16 {
        assert_eq!(reassembly.add(xid, part(true, 0)), Ok(None));
    }
    assert_eq!(reassembly.add(16, part(true, 0)), Err(overflow));
    // All parts of a request are of one kind.
    let other = Part { kind: 1, more: false, body: Vec::new() };
    assert_eq!(reassembly.add(3, other), Err(weir_openflow::error::BadRequest::BadMultipart.into()));
}

#[test]
fn what_is_too_long_is_not_written() {
    let message = |size| Message::new(0, Body::EchoRequest(vec![0; size]));
    assert_eq!(message(65_527).write().map(|bytes| bytes.len()), Ok(65_535));
    assert!(message(65_528).write().is_err());
}

/// Names of others may be anything; what was made of one is read as the same again.
#[test]
fn names_that_are_no_text() {
    for bytes in [[0xff; 16], [b'x'; 16], *b"caf\xc3\xa9 caf\xc3\xa9 caf\xc3", [0; 16]] {
        let port = weir_openflow::port::Port::default();
        let mut body = Reply::PortDesc(vec![port]).parts().remove(0).body;
        body[16..32].copy_from_slice(&bytes);
        let read = Reply::read(13, &body).unwrap();
        let again = read.parts().remove(0);
        assert_eq!(Reply::read(13, &again.body).unwrap(), read);
    }
}

#[test]
fn a_header_shorter_than_itself_ends_the_stream() {
    let mut stream = &[4u8, 0, 0, 7, 0, 0, 0, 0][..];
    assert!(Framing::default().next(&mut stream).is_err());
}

#[test]
fn requests_come_back() {
    let requests = [
        Request::Desc,
        Request::Table,
        Request::PortStats(7),
        Request::Queue { port: 1, queue: 2 },
        Request::Group(3),
        Request::GroupDesc,
        Request::GroupFeatures,
        Request::Meter(4),
        Request::MeterConfig(5),
        Request::MeterFeatures,
        Request::TableFeatures(Vec::new()),
        Request::PortDesc,
        Request::Experimenter(6, 7, b"eight".to_vec()),
    ];
    for request in requests {
        let parts = request.parts();
        assert_eq!(parts.len(), 1);
        assert_eq!(Request::read(parts[0].kind, &parts[0].body), Ok(request));
    }
}
