//! What tables can do: OpenFlow 1.3.5 section 7.3.5.5.

use weir_openflow::action::kind as action;
use weir_openflow::instruction::kind as instruction;
use weir_openflow::table::{Listed, TableFeatures, TableProperty, property};
use weir_openflow::{Field, Oxm};

use crate::tables::Tables;

/// The types of actions that are carried out.
pub(crate) fn action_kinds() -> impl Iterator<Item = u16> {
    [
        action::OUTPUT,
        action::COPY_TTL_OUT,
        action::COPY_TTL_IN,
        action::SET_MPLS_TTL,
        action::DEC_MPLS_TTL,
        action::PUSH_VLAN,
        action::POP_VLAN,
        action::PUSH_MPLS,
        action::POP_MPLS,
        action::SET_QUEUE,
        action::GROUP,
        action::SET_NW_TTL,
        action::DEC_NW_TTL,
        action::SET_FIELD,
    ]
    .into_iter()
}

/// The fields that can be matched.
fn fields() -> impl Iterator<Item = Field> {
    Field::ALL.iter().copied().filter(|field| *field != Field::PbbIsid)
}

/// What each table can do. All can do the same; only how far they can go on differs.
pub(crate) fn of(tables: &Tables, names: &[(u8, u32)]) -> Vec<TableFeatures> {
    let config = |table| names.iter().find(|(number, _)| *number == table).map_or(0, |(_, config)| *config);
    let features = tables.iter().map(|(table, _)| TableFeatures {
        table,
        name: format!("table {table}"),
        metadata_match: u64::MAX,
        metadata_write: u64::MAX,
        config: config(table),
        max_entries: u32::try_from(tables.max_flows()).unwrap_or(u32::MAX),
        properties: properties(table, tables.count()),
    });
    features.collect()
}

fn properties(table: u8, count: u8) -> Vec<TableProperty> {
    let later: Vec<u8> = (table.saturating_add(1)..count).collect();
    let has_later = !later.is_empty();
    let instructions = [
        instruction::GOTO_TABLE,
        instruction::WRITE_METADATA,
        instruction::WRITE_ACTIONS,
        instruction::APPLY_ACTIONS,
        instruction::CLEAR_ACTIONS,
        instruction::METER,
    ];
    let instructions: Vec<u16> =
        instructions.into_iter().filter(|kind| has_later || *kind != instruction::GOTO_TABLE).collect();
    let actions: Vec<u16> = action_kinds().collect();
    let matches: Vec<u32> = fields().map(|field| Oxm::header(field, field.has_mask())).collect();
    let wildcards: Vec<u32> = fields().map(|field| Oxm::header(field, false)).collect();
    let settable: Vec<u32> =
        fields().filter(|field| field.is_settable()).map(|field| Oxm::header(field, false)).collect();
    let property = |kind, listed| TableProperty { kind, listed };
    // The flow of a table that matches all can do what others can: the properties for misses need not be told
    // (section 7.3.5.5.2).
    vec![
        property(property::INSTRUCTIONS, Listed::Kinds(instructions)),
        property(property::NEXT_TABLES, Listed::Tables(later)),
        property(property::WRITE_ACTIONS, Listed::Kinds(actions.clone())),
        property(property::APPLY_ACTIONS, Listed::Kinds(actions)),
        property(property::MATCH, Listed::Fields(matches)),
        property(property::WILDCARDS, Listed::Fields(wildcards)),
        property(property::WRITE_SET_FIELD, Listed::Fields(settable.clone())),
        property(property::APPLY_SET_FIELD, Listed::Fields(settable)),
    ]
}
