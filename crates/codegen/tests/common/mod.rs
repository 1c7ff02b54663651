//! What random programs of both kinds have in common.

use weir_codegen::{Builder, Value};

/// Kinds of values that are made of two others.
pub(crate) const KINDS: u8 = 10;

/// The value of a kind that is made of two others.
pub(crate) fn combine(builder: &mut Builder, kind: u8, one: Value, other: Value) -> Value {
    match kind {
        0 => builder.and(one, other),
        1 => builder.or(one, other),
        2 => builder.xor(one, other),
        3 => builder.subtract(one, other),
        4 => builder.multiply(one, other),
        5 => builder.divide(one, other),
        6 => builder.remainder(one, other),
        7 => builder.left_by(one, other),
        8 => builder.right_by(one, other),
        _ => builder.add(one, other),
    }
}
