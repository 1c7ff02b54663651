//! Frames in the flow tables of an OpenFlow switch.

use weir_flow_tables::{Forwarded, Frames, Identity, Outcome, Packet, Switch};
use weir_openflow::flow::FlowMod;
use weir_openflow::port::{Port, number};
use weir_openflow::{Action, Field, Instruction, Match, Oxm};

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "pipeline",
    help: "frames that every action of OpenFlow is tried on, by the fast path too",
    run,
    tokens: &[
        b"\x81\x00\x20\x64",
        b"\x88\xa8\x00\x01",
        b"\x88\x47\x00\x01\x01\x40",
        b"\x08\x00\x45\x00",
        b"\x86\xdd\x60\x00\x00\x00",
        b"\x08\x06\x00\x01\x08\x00\x06\x04\x00\x01",
        b"\x3a\xff",
        b"\x2b\x02",
        b"\x2c\x00",
        b"\x87\x00",
        b"\x01\x01",
    ],
    text: false,
    inputs: 20_000,
    deep: 30,
};

fn run(input: &[u8]) -> bool {
    let mut switch = Switch::new(Identity::default());
    switch.set_port(Port { number: 1, ..Port::default() }, 0);
    let before = Packet::new(number::CONTROLLER, input.to_vec());
    let fields = before.fields();
    for field in Field::ALL.iter().copied().filter(|field| field.is_settable()) {
        let value = u128::from_be_bytes([0xa5; 16]) & field.ones();
        let action = Action::SetField(Oxm::exact(field, value));
        let after = apply(&mut switch, &before, action.clone());
        forward(input, action, after.as_ref());
        let Some(after) = after else { continue };
        assert_eq!(after.bytes.len(), input.len());
        let kept = fields.get(field).is_none() || (field == Field::VlanVid && fields.get(field) == Some(0));
        if kept {
            assert_eq!(after.bytes, input, "{} was not there", field.name());
        }
    }
    let others = [
        (Action::PushVlan(0x88a8), 4),
        (Action::PopVlan, 0),
        (Action::PushMpls(0x8847), 4),
        (Action::PopMpls(0x0800), 0),
        (Action::CopyTtlIn, 0),
        (Action::CopyTtlOut, 0),
        (Action::SetMplsTtl(7), 0),
        (Action::DecMplsTtl, 0),
        (Action::SetNwTtl(7), 0),
        (Action::DecNwTtl, 0),
    ];
    for (action, grows) in others {
        let after = apply(&mut switch, &before, action.clone());
        forward(input, action, after.as_ref());
        if let Some(after) = after {
            assert!(after.bytes.len() <= input.len() + grows);
        }
    }
    fields.get(Field::IpProto).is_some() || fields.get(Field::ArpOp).is_some() || fields.get(Field::MplsLabel).is_some()
}

/// What an action makes of a frame; nothing if it ends there.
fn apply(switch: &mut Switch, packet: &Packet, action: Action) -> Option<Packet> {
    let actions = [action, Action::Output { port: 1, max_len: 0 }];
    let outcomes = switch.packet_out(packet.clone(), &actions, 0).ok()?;
    outcomes.into_iter().find_map(|outcome| match outcome {
        Outcome::Sent { bytes, .. } => Some(Packet::new(1, bytes)),
        _ => None,
    })
}

/// The fast path does with a frame what the definition made of it, or leaves it alone.
fn forward(input: &[u8], action: Action, after: Option<&Packet>) {
    if input.len() < 14 {
        return;
    }
    let mut switch = Switch::new(Identity { tables: 1, ..Identity::default() });
    switch.set_port(Port { number: 1, ..Port::default() }, 0);
    let actions = vec![action, Action::Output { port: 1, max_len: 0 }];
    // Some actions need a match that says what the packet is.
    let fields = Packet::new(2, input.to_vec()).fields();
    let said = [Field::VlanVid, Field::EthType, Field::IpProto, Field::Icmpv6Type];
    let said = said.into_iter().filter_map(|field| Some(Oxm::exact(field, fields.get(field)?)));
    let Ok(matches) = Match::new(said.collect()) else { return };
    let flow = FlowMod::add(0, 1, matches, vec![Instruction::ApplyActions(actions)]);
    if switch.flow_mod(&flow, 0).is_err() {
        return;
    }
    let mut frame = input.to_vec();
    let mut known = Frames::new(1);
    switch.approach(std::iter::once((input, 2)), &mut known);
    let mut copies = Vec::new();
    match switch.forward(0, &mut frame, &mut known, &mut copies, 0) {
        None => assert_eq!(frame, input, "it was left to the interpreter"),
        Some(became) => {
            assert_eq!(became, Forwarded::Sent(1));
            assert_eq!(Some(&frame), after.map(|after| &after.bytes));
        }
    }
}
