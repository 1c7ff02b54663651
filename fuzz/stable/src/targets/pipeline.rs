//! Frames in the flow tables of an OpenFlow switch.

use std::cell::RefCell;

use weir_flow_tables::{
    CodeState, Copies, ForController, Forwarded, Frame, Frames, Identity, Outcome, Packet, Report, Switch, Verdict,
    Worker,
};
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
    SWITCHES.with_borrow_mut(|(compiled, definition)| by_code(input, compiled, definition));
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

thread_local! {
    /// A switch whose first table is machine code, and one that follows the definition: flows for all kinds of frames, which look at all of them.
    static SWITCHES: RefCell<(Switch, Switch)> = RefCell::new(switches());
}

fn switches() -> (Switch, Switch) {
    let out = |port| Action::Output { port, max_len: 0 };
    let set = |field| Action::SetField(Oxm::exact(field, 0x0202_0202_0202));
    let kind = |kind: u128| Oxm::exact(Field::EthType, kind);
    let flows = [
        (vec![kind(0x0800), Oxm::exact(Field::IpProto, 6), Oxm::exact(Field::TcpDst, 0)], vec![out(3)]),
        (
            vec![kind(0x0800), Oxm::masked(Field::Ipv4Dst, 0, 0x8000_0000)],
            vec![Action::DecNwTtl, set(Field::EthDst), set(Field::EthSrc), out(2)],
        ),
        (vec![Oxm::masked(Field::VlanVid, 0x1001, 0x1001)], vec![set(Field::EthSrc), out(1)]),
        (vec![kind(0x86dd), Oxm::masked(Field::Ipv6Src, 0, 1)], vec![Action::DecNwTtl, out(3)]),
        (vec![kind(0x86dd), Oxm::exact(Field::IpProto, 17), Oxm::exact(Field::UdpSrc, 53)], vec![out(2)]),
        (vec![kind(0x86dd), Oxm::masked(Field::Ipv6Exthdr, 0, 1)], vec![out(3)]),
        (vec![kind(0x0806), Oxm::masked(Field::ArpTpa, 0, 1)], vec![out(2)]),
        (vec![kind(0x8847), Oxm::exact(Field::MplsBos, 1)], vec![out(3)]),
        (vec![Oxm::masked(Field::EthDst, 0, 1)], vec![out(2)]),
    ];
    let mut switch = Switch::new(Identity { tables: 1, ..Identity::default() });
    for number in 1..=3 {
        switch.set_port(Port { number, ..Port::default() }, 0);
    }
    for ((fields, actions), priority) in flows.into_iter().zip((1..=u16::MAX).rev()) {
        let Ok(matches) = Match::new(fields) else { continue };
        let flow = FlowMod::add(0, priority, matches, vec![Instruction::ApplyActions(actions)]);
        assert!(switch.flow_mod(&flow, 0).is_ok());
    }
    let definition = switch.clone();
    if let Some(recipe) = switch.recipe() {
        switch.install(recipe.compile());
    }
    assert_eq!(switch.code_state(), CodeState::InUse);
    (switch, definition)
}

/// A frame in a buffer that goes on behind its end.
struct InBuffer(Vec<u8>, usize);

impl Frame for InBuffer {
    fn bytes(&self) -> &[u8] {
        self.0.get(..self.1).unwrap_or_default()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.get_mut(..self.1).unwrap_or_default()
    }

    fn window(&mut self) -> Option<&mut [u8; 128]> {
        self.0.first_chunk_mut()
    }

    fn has_room(&self, _: usize, _: usize) -> bool {
        false
    }

    fn prepend(&mut self, _: usize) {}
    fn trim_front(&mut self, _: usize) {}
    fn lengthen(&mut self, _: usize) {}
    fn replace(&mut self, _: &[u8]) {}
}

/// Machine code does with a frame what the definition makes of it, or leaves it alone.
fn by_code(input: &[u8], compiled: &mut Switch, definition: &mut Switch) {
    if input.len() < 14 {
        return;
    }
    let mut frame = InBuffer([input, &[0x45; 128]].concat(), input.len());
    let (mut known, mut copies) = (Frames::new(1, Worker::default()), Copied::default());
    compiled.begin(&mut known);
    compiled.looking(&mut known).look(&mut frame, 2);
    compiled.approach(&mut known);
    let became = compiled.forward(0, &mut frame, &mut known, &mut copies, 0);
    assert_eq!(frame.0.get(input.len()..), Some(&[0x45; 128][..]), "something changed behind the frame");
    let verdict = definition.judge(Packet::new(2, input.to_vec()), 0);
    agrees(became, (input, frame.bytes()), copies, verdict);
}

/// What became of a frame that came in like this, and is like that now, is what the definition says.
fn agrees(became: Option<Forwarded>, (input, frame): (&[u8], &[u8]), mut copies: Copied, verdict: Verdict) {
    match became {
        None => {
            assert_eq!(frame, input, "it was left to the interpreter");
            return assert_eq!(copies, Copied::default(), "it was left to the interpreter");
        }
        Some(Forwarded::Dropped(why)) => assert_eq!(why, verdict.why),
        Some(Forwarded::Told) => assert!(copies.sent.is_empty() && !copies.told.is_empty(), "{copies:?}"),
        // The frame goes before its copies.
        Some(Forwarded::Sent(by)) => copies.sent.insert(0, (by, frame.to_vec())),
    }
    assert_eq!(copies, Copied::of(verdict.outcomes));
}

/// What leaves, and what controllers are told.
#[derive(Debug, Default, PartialEq)]
struct Copied {
    sent: Vec<(u32, Vec<u8>)>,
    told: Vec<ForController>,
}

impl Copied {
    /// All that becomes of a packet by definition.
    fn of(outcomes: Vec<Outcome>) -> Copied {
        let mut all = Copied::default();
        for outcome in outcomes {
            match outcome {
                Outcome::Sent { port, bytes, .. } => all.sent.push((port, bytes)),
                Outcome::Controller(packet) => all.told.push(packet),
                Outcome::Normal(packet) => all.sent.push((number::NORMAL, packet.bytes)),
            }
        }
        all
    }
}

impl Copies for Copied {
    fn send(&mut self, port: u32, bytes: &[u8]) {
        self.sent.push((port, bytes.to_vec()));
    }

    fn tell(&mut self, report: Report, bytes: &[u8]) {
        self.told.push(report.with(bytes));
    }
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
    let mut known = Frames::new(1, Worker::default());
    switch.begin(&mut known);
    switch.looking(&mut known).look(&mut frame, 2);
    switch.approach(&mut known);
    let mut copies = Copied::default();
    let became = switch.forward(0, &mut frame, &mut known, &mut copies, 0);
    if let Some(after) = after {
        // The packet goes on, and no further.
        let is_sent = became.as_ref().is_none_or(|became| *became == Forwarded::Sent(1) && frame == after.bytes);
        assert!(is_sent && copies == Copied::default(), "{became:?} {copies:?}");
    }
    let verdict = switch.judge(Packet::new(2, input.to_vec()), 0);
    agrees(became, (input, &frame), copies, verdict);
}
