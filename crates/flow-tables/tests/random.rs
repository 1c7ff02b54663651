//! Random pipelines against a model that knows nothing of bytes: two numbers, lists of rules, and a loop.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use weir_flow_tables::{Identity, Outcome, Packet, Switch};
use weir_openflow::flow::{ALL_TABLES, FlowCommand, FlowMod};
use weir_openflow::port::Port;
use weir_openflow::{Action, Field, Instruction, Match, Oxm};

const TABLES: u8 = 4;

/// A rule: what it asks of metadata and tunnel (value and mask of four bits each), and what it does.
#[derive(Clone, Debug, PartialEq)]
struct Rule {
    priority: u16,
    metadata: (u8, u8),
    tunnel: (u8, u8),
    does: Does,
}

#[derive(Clone, Debug, PartialEq)]
struct Does {
    apply: Option<u32>,
    clear: bool,
    write: Option<u32>,
    metadata: (u8, u8),
    tunnel: Option<u8>,
    goto: Option<u8>,
}

impl Rule {
    fn meets(&self, metadata: u8, tunnel: u8) -> bool {
        (metadata ^ self.metadata.0) & self.metadata.1 == 0 && (tunnel ^ self.tunnel.0) & self.tunnel.1 == 0
    }

    /// Whether every packet that meets `other` meets this one: by trying them all.
    fn covers(&self, other: &Rule) -> bool {
        (0..=255u8).all(|both| !other.meets(both >> 4, both & 15) || self.meets(both >> 4, both & 15))
    }

    fn is_same(&self, other: &Rule) -> bool {
        self.priority == other.priority && self.covers(other) && other.covers(self)
    }
}

#[derive(Clone, Debug)]
struct Change {
    command: FlowCommand,
    table: u8,
    rule: Rule,
}

/// The tables as lists of rules, in the order in which they came.
#[derive(Default)]
struct Model([Vec<Rule>; TABLES as usize]);

impl Model {
    fn change(&mut self, change: &Change) {
        let rules = &mut self.0[usize::from(change.table)];
        let new = &change.rule;
        match change.command {
            FlowCommand::Add => match rules.iter_mut().find(|rule| rule.is_same(new)) {
                Some(rule) => *rule = new.clone(),
                None => rules.push(new.clone()),
            },
            FlowCommand::Modify => {
                rules.iter_mut().filter(|rule| new.covers(rule)).for_each(|rule| rule.does = new.does.clone());
            }
            FlowCommand::ModifyStrict => {
                rules.iter_mut().filter(|rule| rule.is_same(new)).for_each(|rule| rule.does = new.does.clone());
            }
            FlowCommand::Delete => rules.retain(|rule| !new.covers(rule)),
            FlowCommand::DeleteStrict => rules.retain(|rule| !rule.is_same(new)),
        }
    }

    /// The ports that a packet is sent by.
    fn send(&self, mut tunnel: u8) -> Vec<u32> {
        let (mut metadata, mut table, mut ports, mut written) = (0, 0, Vec::new(), None);
        loop {
            let met = self.0[usize::from(table)].iter().filter(|rule| rule.meets(metadata, tunnel));
            // The first of those with the highest priority.
            let Some(rule) = met.reduce(|best, rule| if rule.priority > best.priority { rule } else { best }) else {
                return ports;
            };
            ports.extend(rule.does.apply);
            tunnel = rule.does.tunnel.unwrap_or(tunnel);
            if rule.does.clear {
                written = None;
            }
            written = rule.does.write.or(written);
            metadata = metadata & !rule.does.metadata.1 | rule.does.metadata.0 & rule.does.metadata.1;
            match rule.does.goto {
                Some(next) if next > table => table = next,
                _ => break,
            }
        }
        ports.extend(written);
        ports
    }
}

fn flow_mod(change: &Change) -> FlowMod {
    let Rule { priority, metadata, tunnel, does } = &change.rule;
    let ask = |field, (value, mask): &(u8, u8)| Oxm::masked(field, (value & mask).into(), (*mask).into());
    let mut applied: Vec<Action> = does.apply.map(|port| Action::Output { port, max_len: 0 }).into_iter().collect();
    applied.extend(does.tunnel.map(|value| Action::SetField(Oxm::exact(Field::TunnelId, value.into()))));
    let mut instructions = vec![Instruction::ApplyActions(applied)];
    if does.clear {
        instructions.push(Instruction::ClearActions);
    }
    instructions.extend(does.write.map(|port| Instruction::WriteActions(vec![Action::Output { port, max_len: 0 }])));
    instructions.push(Instruction::WriteMetadata { metadata: does.metadata.0.into(), mask: does.metadata.1.into() });
    instructions.extend(does.goto.filter(|next| *next > change.table).map(Instruction::GotoTable));
    FlowMod {
        command: change.command,
        ..FlowMod::add(
            change.table,
            *priority,
            Match::new(vec![ask(Field::Metadata, metadata), ask(Field::TunnelId, tunnel)]).unwrap(),
            instructions,
        )
    }
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    use FlowCommand::{Add, Delete, DeleteStrict, Modify, ModifyStrict};
    let pair = || (0u8..16, prop::sample::select(vec![0u8, 0, 15, 12, 3, 8]));
    let port = || prop::option::of(2u32..6);
    let does = (port(), any::<bool>(), port(), pair(), prop::option::of(0u8..16), prop::option::of(1u8..TABLES))
        .prop_map(|(apply, clear, write, metadata, tunnel, goto)| Does { apply, clear, write, metadata, tunnel, goto });
    let rule = (0u16..4, pair(), pair(), does).prop_map(|(priority, metadata, tunnel, does)| Rule {
        priority,
        metadata,
        tunnel,
        does,
    });
    // Mostly additions: otherwise little is left.
    let command = prop::sample::select(vec![Add, Add, Add, Add, Add, Add, Modify, ModifyStrict, Delete, DeleteStrict]);
    proptest::collection::vec(
        (command, 0..TABLES, rule).prop_map(|(command, table, rule)| Change { command, table, rule }),
        1..60,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_pipelines_do_what_the_model_does(changes in changes()) {
        let mut switch = Switch::new(Identity { tables: TABLES, ..Identity::default() });
        for number in 1..=5 {
            switch.set_port(Port { number, ..Port::default() }, 0);
        }
        let mut model = Model::default();
        for change in &changes {
            model.change(change);
            switch.flow_mod(&flow_mod(change), 0).unwrap();
            let counts: Vec<usize> = switch.tables.iter().map(|(_, table)| table.len()).collect();
            prop_assert_eq!(counts, model.0.iter().map(Vec::len).collect::<Vec<_>>(), "after {:?}", change);
        }
        for tunnel in 0..16u8 {
            let packet = Packet { tunnel: tunnel.into(), ..Packet::new(1, vec![0; 60]) };
            let sent: Vec<u32> = switch
                .process(packet, 0)
                .into_iter()
                .map(|one| if let Outcome::Sent { port, .. } = one { port } else { u32::MAX })
                .collect();
            prop_assert_eq!(sent, model.send(tunnel), "tunnel {}", tunnel);
        }
        // Deleting everything leaves nothing.
        let nothing = Rule { priority: 0, metadata: (0, 0), tunnel: (0, 0), does: changes[0].rule.does.clone() };
        let all = Change { command: FlowCommand::Delete, table: 0, rule: nothing };
        switch.flow_mod(&FlowMod { table: ALL_TABLES, ..flow_mod(&all) }, 0).unwrap();
        prop_assert!(switch.tables.iter().all(|(_, table)| table.is_empty()));
    }
}
