//! Two ends that prove who they are to each other, or do not.

use std::io::{self, ErrorKind, Write};

use weir_tls::{Credentials, Session};

use crate::pipe::{Pipe, pair};
use crate::{controller, pem, switch};

struct End {
    session: Session,
    stream: Pipe,
}

fn ends(client: &Credentials, server: &Credentials, at_once: usize) -> (End, End) {
    let (one, other) = pair(at_once, 40_000);
    let client = End { session: Session::client(client).unwrap(), stream: one };
    (client, End { session: Session::server(server).unwrap(), stream: other })
}

/// What becomes of a handshake at both ends, as far as it goes; what comes behind it is read, since a server may refuse later.
fn outcome(client: &mut End, server: &mut End) -> [Result<(), String>; 2] {
    let mut outcomes = [None, None];
    for _ in 0..2000 {
        for (end, outcome) in [&mut *client, &mut *server].into_iter().zip(&mut outcomes) {
            match outcome {
                None => match end.session.greet(&mut end.stream) {
                    Ok(false) => {}
                    Ok(true) => *outcome = Some(Ok(())),
                    Err(error) => *outcome = Some(Err(error.to_string())),
                },
                Some(Ok(())) => match end.session.read(&mut end.stream, &mut [0; 10]) {
                    Err(error) if error.kind() == ErrorKind::InvalidData => *outcome = Some(Err(error.to_string())),
                    _ => {}
                },
                Some(Err(_)) => {}
            }
        }
    }
    outcomes.map(|outcome| outcome.unwrap_or_else(|| Err("goes on".to_owned())))
}

fn proved(at_once: usize) -> (End, End) {
    let (mut client, mut server) = ends(&switch(), &controller(), at_once);
    assert_eq!(outcome(&mut client, &mut server), [Ok(()), Ok(())]);
    (client, server)
}

#[test]
fn both_ends_prove_who_they_are_however_little_goes_at_once() {
    for at_once in [1, 7, 100_000] {
        proved(at_once);
    }
}

#[track_caller]
fn refused(client: &Credentials, server: &Credentials, client_says: &str, server_says: &str) {
    let (mut client, mut server) = ends(client, server, 100_000);
    let [client, server] = outcome(&mut client, &mut server).map(Result::unwrap_err);
    assert!(client.contains(client_says) && server.contains(server_says), "{client}\n{server}");
}

#[test]
fn who_is_not_to_be_trusted_is_refused_and_told() {
    let (ca, other) = (&pem!("ca.pem")[..], &pem!("other-ca.pem")[..]);
    let with = |certificate: &[u8], key: &[u8]| Credentials::new(certificate, key, ca).unwrap();
    let stranger = with(pem!("stranger.pem"), pem!("stranger.key"));
    refused(&switch(), &stranger, "not signed by the CA", "a CA that it does not trust");
    refused(&stranger, &controller(), "a CA that it does not trust", "not signed by the CA");
    let expired = with(pem!("expired.pem"), pem!("expired.key"));
    refused(&switch(), &expired, "has expired, or this clock is wrong", "that has expired");
    refused(&expired, &controller(), "that has expired", "has expired, or this clock is wrong");
    let mail = with(pem!("mail.pem"), pem!("mail.key"));
    refused(&switch(), &mail, "another purpose", "refuse");
    // One that trusts another CA.
    let picky = Credentials::new(pem!("switch.pem"), pem!("switch.key"), other).unwrap();
    refused(&picky, &controller(), "not signed by the CA", "a CA that it does not trust");
    refused(&controller(), &picky, "a CA that it does not trust", "not signed by the CA");
}

#[test]
fn who_speaks_something_else_is_refused() {
    let (mut plain, stream) = pair(100_000, 4000);
    let mut server = Session::server(&controller()).unwrap();
    plain.write_all(b"\x04\x00\x00\x08\x00\x00\x00\x01").unwrap();
    let mut stream = stream;
    let error = server.greet(&mut stream).unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::InvalidData, "what it sends is not TLS"));
    // And who says nothing more.
    let (gone, mut stream) = pair(100_000, 4000);
    drop(gone);
    let error = Session::server(&controller()).unwrap().greet(&mut stream).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn bytes_go_both_ways_in_order_and_an_end_is_told() {
    let (mut client, mut server) = proved(1500);
    let sent: Vec<u8> = (0..300_000u32).flat_map(|n| n.to_be_bytes()).collect();
    let (mut at, mut got, mut buffer) = (0, Vec::new(), [0; 5000]);
    while got.len() < sent.len() {
        match server.session.write(&mut server.stream, &sent[at..]) {
            Ok(count) => at += count,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        match client.session.read(&mut client.stream, &mut buffer) {
            Ok(count) => got.extend_from_slice(&buffer[..count]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    assert!(got == sent);
    client.session.end(&mut client.stream);
    assert_eq!(server.session.read(&mut server.stream, &mut buffer).unwrap(), 0);
    // One that has only gone is another thing.
    drop(server);
    let gone = client.session.read(&mut client.stream, &mut buffer).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::UnexpectedEof);
}

/// Nobody reads: what waits is bounded. Nobody takes what was read: neither is more read than that.
#[test]
fn what_waits_is_bounded() {
    let (mut client, mut server) = proved(100_000);
    let mut taken = 0;
    let full: io::Error = loop {
        match server.session.write(&mut server.stream, &[7; 10_000]) {
            Ok(count) => taken += count,
            Err(error) => break error,
        }
        assert!(taken < 200_000, "it takes whatever it is given");
    };
    assert!(full.kind() == ErrorKind::WouldBlock && server.session.is_full());
    assert!(!server.session.flush(&mut server.stream).unwrap());
    let before = client.stream.came();
    assert_eq!(client.session.read(&mut client.stream, &mut [0; 1]).unwrap(), 1);
    assert!(client.session.holds());
    let between = client.stream.came();
    assert!(between < before);
    // What it has it gives before it reads more.
    assert_eq!(client.session.read(&mut client.stream, &mut [0; 1]).unwrap(), 1);
    assert_eq!(client.stream.came(), between);
}
