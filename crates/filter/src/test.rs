//! Tests of bytes at offsets: what an expression is lowered to, and its evaluator.
//!
//! `None` everywhere means that the frame does not have the bytes, or that something was divided by zero:
//! the frame is rejected, whatever the rest of the expression says.

use crate::ast::{Join, Operator, Relation, Width};

/// The bytes of a frame that were captured, and its length on the wire.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) length: u32,
    /// Bytes behind the two addresses that are passed over: tags that count as taken off.
    pub(crate) tags: u32,
}

/// Bytes of the two addresses that a frame begins with.
pub(crate) const ADDRESSES: u32 = 12;

impl Frame<'_> {
    /// The number of `width` bytes at `offset`, in network order.
    fn read(self, offset: u32, width: Width) -> Option<u32> {
        if self.tags > 0 {
            return (0..width.bytes()).try_fold(0, |number, index| {
                let at = offset.checked_add(index)?;
                let at = if at < ADDRESSES { at } else { at.checked_add(self.tags)? };
                Some(number << 8 | u32::from(*self.bytes.get(at as usize)?))
            });
        }
        let tail = self.bytes.get(usize::try_from(offset).ok()?..)?;
        match width {
            Width::One => tail.first().map(|&byte| u32::from(byte)),
            Width::Two => tail.first_chunk().map(|&b| u32::from(u16::from_be_bytes(b))),
            Width::Four => tail.first_chunk().map(|&b| u32::from_be_bytes(b)),
        }
    }

    /// The length in bytes of the IPv4 header that starts at `offset`, as its IHL says.
    fn ipv4_header_length(self, offset: u32) -> Option<u32> {
        self.read(offset, Width::One).map(|byte| (byte & 0xf) * 4)
    }
}

/// Where a number is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// At an offset from the start of the frame.
    Frame(u32),
    /// At an offset from the start of the frame plus the length of the IPv4 header that starts at
    /// `header`.
    BehindIpv4 { header: u32, offset: u32 },
}

impl Place {
    /// The place `bytes` further on.
    pub(crate) fn moved(self, bytes: u32) -> Self {
        match self {
            Self::Frame(offset) => Self::Frame(offset.wrapping_add(bytes)),
            Self::BehindIpv4 { header, offset } => Self::BehindIpv4 { header, offset: offset.wrapping_add(bytes) },
        }
    }

    /// The offset in `frame`, moved by `index`. As in libpcap, an index may reach back into the IPv4
    /// header (`tcp[len - 60]` may be negative) but not wrap around a constant offset.
    fn offset(self, frame: Frame<'_>, index: u32) -> Option<u32> {
        match self {
            Self::Frame(offset) => offset.checked_add(index),
            Self::BehindIpv4 { header, offset } => {
                offset.checked_add(frame.ipv4_header_length(header)?.wrapping_add(index))
            }
        }
    }
}

/// Something that is true of a frame or is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Test {
    /// The number at `place`, masked, stands in `relation` to `value`.
    Field {
        place: Place,
        width: Width,
        mask: u32,
        relation: Relation,
        value: u32,
    },
    Relation {
        left: Value,
        relation: Relation,
        right: Value,
    },
    Not(Box<Test>),
    /// `first`, then each of `rest` joined to what stands to its left.
    Chain {
        first: Box<Test>,
        rest: Vec<(Join, Test)>,
    },
}

impl Test {
    /// Both, the first one first.
    pub(crate) fn and(self, other: Self) -> Self {
        self.join(Join::And, other)
    }

    /// Either, the first one first.
    pub(crate) fn or(self, other: Self) -> Self {
        self.join(Join::Or, other)
    }

    fn join(self, join: Join, other: Self) -> Self {
        Self::Chain { first: Box::new(self), rest: vec![(join, other)] }
    }

    pub(crate) fn holds(&self, frame: Frame<'_>) -> Option<bool> {
        match self {
            Self::Field { place, width, mask, relation, value } => {
                let found = frame.read(place.offset(frame, 0)?, *width)?;
                Some(relation.holds(found & mask, *value))
            }
            Self::Relation { left, relation, right } => Some(relation.holds(left.of(frame)?, right.of(frame)?)),
            Self::Not(test) => test.holds(frame).map(|holds| !holds),
            Self::Chain { first, rest } => {
                let mut holds = first.holds(frame)?;
                for (join, test) in rest {
                    if holds == (*join == Join::And) {
                        holds = test.holds(frame)?;
                    }
                }
                Some(holds)
            }
        }
    }
}

/// A number computed from a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Number(u32),
    Length,
    /// The number at `place`, moved by `index`.
    Load {
        place: Place,
        index: Box<Value>,
        width: Width,
    },
    Negate(Box<Value>),
    Binary {
        operator: Operator,
        left: Box<Value>,
        right: Box<Value>,
    },
}

impl Value {
    fn of(&self, frame: Frame<'_>) -> Option<u32> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Length => Some(frame.length),
            Self::Load { place, index, width } => frame.read(place.offset(frame, index.of(frame)?)?, *width),
            Self::Negate(value) => value.of(frame).map(u32::wrapping_neg),
            Self::Binary { operator, left, right } => operator.apply(left.of(frame)?, right.of(frame)?),
        }
    }
}
