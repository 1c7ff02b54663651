//! Malformed requests get the type and code of OpenFlow 1.3.5 section 7.4.4.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use weir_openflow::error::*;
use weir_openflow::{Error, Message, Request};

/// A message of this type and body.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (8 + body.len() as u16).to_be_bytes();
    [&[4, kind], &length[..], &[0, 0, 0, 1], body].concat()
}

#[track_caller]
fn refused(bytes: &[u8], error: impl Into<Error>) {
    assert_eq!(Message::read(bytes).map(|_| ()), Err(error.into()));
}

/// A flow modification with these bytes from its match on.
fn flow(rest: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 40];
    body.extend_from_slice(rest);
    message(14, &body)
}

/// A match of these fields, with its padding.
fn matching(fields: &[u8]) -> Vec<u8> {
    let length = 4 + fields.len();
    let mut bytes = vec![0, 1];
    bytes.extend_from_slice(&(length as u16).to_be_bytes());
    bytes.extend_from_slice(fields);
    bytes.resize(length.next_multiple_of(8), 0);
    bytes
}

/// A flow with an empty match and these instructions.
fn instructions(bytes: &[u8]) -> Vec<u8> {
    flow(&[&matching(&[])[..], bytes].concat())
}

/// A flow that applies these actions.
fn actions(bytes: &[u8]) -> Vec<u8> {
    let length = (8 + bytes.len() as u16).to_be_bytes();
    instructions(&[&[0, 4], &length[..], &[0; 4], bytes].concat())
}

#[test]
fn headers() {
    refused(&[4, 5, 0, 8, 0, 0, 0], BadRequest::BadLen);
    refused(&[4, 5, 0, 9, 0, 0, 0, 0], BadRequest::BadLen);
    refused(&[1, 5, 0, 8, 0, 0, 0, 0], BadRequest::BadVersion);
    refused(&[5, 14, 0, 8, 0, 0, 0, 0], BadRequest::BadVersion);
    refused(&message(30, &[]), BadRequest::BadType);
    refused(&message(5, &[0]), BadRequest::BadLen);
    refused(&message(9, &[0, 0, 0]), BadRequest::BadLen);
    refused(&message(20, &[0; 8]), BadRequest::BadLen);
    refused(&message(24, &[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), RoleRequestFailed::BadRole);
    // A hello of any version is read.
    assert!(Message::read(&[6, 0, 0, 8, 0, 0, 0, 0]).is_ok());
}

#[test]
fn matches() {
    refused(&flow(&[0, 0, 0, 4, 0, 0, 0, 0]), BadMatch::BadType);
    refused(&flow(&[0, 1, 0, 3, 0, 0, 0, 0]), BadMatch::BadLen);
    refused(&flow(&[0, 1, 0, 9, 0, 0, 0, 0]), BadMatch::BadLen);
    // A port of four bytes that says two; of an unknown class; an unknown field; one that has no mask.
    refused(&flow(&matching(&[0x80, 0, 0, 2, 0, 0])), BadMatch::BadLen);
    refused(&flow(&matching(&[0x80, 0, 0, 4, 0, 0])), BadMatch::BadLen);
    refused(&flow(&matching(&[0x00, 1, 0, 4, 0, 0, 0, 1])), BadMatch::BadField);
    refused(&flow(&matching(&[0xff, 0xff, 0, 4, 0, 0, 0, 1])), BadMatch::BadField);
    refused(&flow(&matching(&[0x80, 0, 40 << 1, 4, 0, 0, 0, 1])), BadMatch::BadField);
    refused(&flow(&matching(&[0x80, 0, 1, 8, 0, 0, 0, 1, 255, 255, 255, 255])), BadMatch::BadMask);
    // A VLAN identifier of 14 bits; a mask of 14 bits; a value outside its mask.
    refused(&flow(&matching(&[0x80, 0, 6 << 1, 2, 0x20, 0])), BadMatch::BadValue);
    refused(&flow(&matching(&[0x80, 0, 6 << 1 | 1, 4, 0, 0, 0x20, 0])), BadMatch::BadMask);
    refused(&flow(&matching(&[0x80, 0, 6 << 1 | 1, 4, 0x10, 1, 0x10, 0])), BadMatch::BadWildcards);
    // The same field twice; a TCP port without TCP; the priority of a tag that is not there.
    let ipv4 = [0x80, 0, 5 << 1, 2, 8, 0];
    refused(&flow(&matching(&[ipv4, ipv4].concat())), BadMatch::DupField);
    refused(&flow(&matching(&[&ipv4[..], &[0x80, 0, 13 << 1, 2, 0, 80]].concat())), BadMatch::BadPrereq);
    refused(&flow(&matching(&[0x80, 0, 6 << 1, 2, 0, 0, 0x80, 0, 7 << 1, 1, 0])), BadMatch::BadPrereq);
    // What a field needs stands before it.
    let tcp = [0x80, 0, 10 << 1, 1, 6];
    let port = [0x80, 0, 13 << 1, 2, 0, 80];
    refused(&flow(&matching(&[&ipv4[..], &port, &tcp].concat())), BadMatch::BadPrereq);
    assert!(Message::read(&flow(&matching(&[&ipv4[..], &tcp, &port].concat()))).is_ok());
}

#[test]
fn instructions_of_flows() {
    refused(&instructions(&[0, 7, 0, 8, 0, 0, 0, 0]), BadInstruction::UnknownInst);
    refused(&instructions(&[0, 0, 0, 8, 0, 0, 0, 0]), BadInstruction::UnknownInst);
    refused(&instructions(&[0, 1, 0, 4]), BadInstruction::BadLen);
    refused(&instructions(&[0, 1, 0, 0, 0, 0, 0, 0]), BadInstruction::BadLen);
    refused(&instructions(&[0, 1, 0, 16, 0, 0, 0, 0]), BadInstruction::BadLen);
    refused(&instructions(&[0, 1, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), BadInstruction::BadLen);
    refused(&instructions(&[0, 2, 0, 8, 0, 0, 0, 0]), BadInstruction::BadLen);
}

#[test]
fn actions_of_flows() {
    refused(&actions(&[0, 1, 0, 8, 0, 0, 0, 0]), BadAction::BadType);
    refused(&actions(&[0, 0, 0, 8, 0, 0, 0, 0]), BadAction::BadLen);
    refused(&actions(&[0, 18, 0, 0, 0, 0, 0, 0]), BadAction::BadLen);
    refused(&actions(&[0, 18, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), BadAction::BadLen);
    refused(&actions(&[0, 18, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), BadAction::BadLen);
    refused(&actions(&[0, 18, 0, 16, 0, 0, 0, 0]), BadAction::BadLen);
    // Setting the port that a packet came in by; with a mask; with a wrong length; out of range.
    let set = |field: u8, rest: [u8; 9]| {
        let mut bytes = vec![0, 25, 0, 16, 0x80, 0, field];
        bytes.extend_from_slice(&rest);
        actions(&bytes)
    };
    refused(&set(0, [4, 0, 0, 0, 1, 0, 0, 0, 0]), BadAction::BadSetType);
    refused(&set(99 << 1, [4, 0, 0, 0, 1, 0, 0, 0, 0]), BadAction::BadSetType);
    refused(&set(6 << 1 | 1, [4, 0x10, 1, 0x1f, 0xff, 0, 0, 0, 0]), BadAction::BadSetType);
    refused(&set(6 << 1, [4, 0x10, 1, 0, 0, 0, 0, 0, 0]), BadAction::BadSetLen);
    refused(&set(6 << 1, [2, 0x20, 1, 0, 0, 0, 0, 0, 0]), BadAction::BadSetArgument);
    refused(&set(8 << 1, [1, 64, 0, 0, 0, 0, 0, 0, 0]), BadAction::BadSetArgument);
    assert!(Message::read(&set(8 << 1, [1, 63, 0, 0, 0, 0, 0, 0, 0])).is_ok());
}

#[test]
fn commands_and_flags() {
    let mut unknown = flow(&matching(&[]));
    unknown[8 + 17] = 5;
    refused(&unknown, FlowModFailed::BadCommand);
    let mut flags = flow(&matching(&[]));
    flags[8 + 37] = 0x20;
    refused(&flags, FlowModFailed::BadFlags);
    refused(&message(15, &[0, 3, 0, 0, 0, 0, 0, 1]), GroupModFailed::BadCommand);
    refused(&message(15, &[0, 0, 4, 0, 0, 0, 0, 1]), GroupModFailed::BadType);
    refused(&message(15, &[0, 0, 0, 0, 0, 0, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0]), GroupModFailed::BadBucket);
    refused(&message(29, &[0, 3, 0, 1, 0, 0, 0, 1]), MeterModFailed::BadCommand);
    refused(&message(29, &[0, 0, 0, 16, 0, 0, 0, 1]), MeterModFailed::BadFlags);
    refused(
        &message(29, &[0, 0, 0, 1, 0, 0, 0, 1, 0, 3, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        MeterModFailed::BadBand,
    );
}

#[test]
fn requests() {
    let refused = |kind, body: &[u8], error: Error| assert_eq!(Request::read(kind, body).map(|_| ()), Err(error));
    refused(14, &[], BadRequest::BadMultipart.into());
    refused(0, &[0], BadRequest::BadLen.into());
    refused(1, &[0; 31], BadRequest::BadLen.into());
    refused(4, &[0; 4], BadRequest::BadLen.into());
    refused(12, &[0, 8, 0, 0, 0, 0, 0, 0], TableFeaturesFailed::BadLen.into());
    let mut table = vec![0; 72];
    table[1] = 72;
    table[64..68].copy_from_slice(&[0, 9, 0, 4]);
    refused(12, &table, TableFeaturesFailed::BadType.into());
}
