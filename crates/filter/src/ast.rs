//! The typed tree of an expression, as it was written.

/// How two expressions are joined. Equal precedence, to the left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Join {
    And,
    Or,
}

/// A whole expression or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expression {
    /// `first`, then each of `rest` joined to what stands to its left. Flat, so that a long expression
    /// is not a deep one.
    Chain {
        first: Box<Expression>,
        rest: Vec<(Join, Expression)>,
    },
    Not(Box<Expression>),
    Primitive {
        column: usize,
        primitive: Primitive,
    },
}

/// One test that the language names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Primitive {
    /// `ip`, `tcp`, ...
    Protocol(Protocol),
    /// `host`, `net` and the like with an IPv4 address; `over` is the protocol word before it.
    Address4 {
        over: Option<Protocol>,
        direction: Direction,
        address: u32,
        mask: u32,
    },
    /// The same with an IPv6 address.
    Address6 {
        direction: Direction,
        address: u128,
        mask: u128,
    },
    /// `ether host`.
    Mac {
        direction: Direction,
        address: [u8; 6],
    },
    /// `port` and `portrange`; without a transport: TCP, UDP and SCTP.
    Ports {
        transport: Option<u8>,
        direction: Direction,
        low: u16,
        high: u16,
    },
    /// `proto`.
    Number {
        carrier: Carrier,
        number: u32,
    },
    Broadcast(Cast),
    Multicast(Cast),
    /// `less` (at most so many bytes).
    AtMost(u32),
    /// `greater` (at least so many bytes).
    AtLeast(u32),
    Vlan(Option<u32>),
    Mpls(Option<u32>),
    PppoeDiscovery,
    PppoeSession(Option<u32>),
    Relation {
        left: Arithmetic,
        relation: Relation,
        right: Arithmetic,
    },
}

/// The words for protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// `ether` and `link`: the Ethernet header.
    Link,
    Ip,
    Ip6,
    Arp,
    Rarp,
    /// Another protocol right above Ethernet that has an EtherType and can be indexed.
    Type(u32),
    /// Another protocol right above Ethernet: an EtherType, or (up to 1,500) an LLC SAP.
    Sap(u32),
    /// An OSI network protocol by its NLPID.
    Osi(u32),
    /// A protocol above IPv4 only, whose header can be indexed.
    AboveIp(u32),
    /// A protocol above IPv4 and IPv6; its header can be indexed where it stands above IPv4.
    AboveBoth(u32),
    /// A header above IPv4 and IPv6 that cannot be indexed.
    Extension(u32),
    Icmp6,
}

/// Whose protocol number is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    Link,
    Ip,
    Ip6,
    /// IPv4 or IPv6.
    Any,
}

/// Whose destination address is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cast {
    Link,
    Ip,
    Ip6,
}

/// Which of the two addresses or ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Source,
    Destination,
    Either,
    Both,
}

/// A comparison of two unsigned 32-bit numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Relation {
    pub(crate) fn holds(self, left: u32, right: u32) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
        }
    }
}

/// How many bytes an accessor reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    One,
    Two,
    Four,
}

impl Width {
    /// The number of bytes.
    pub(crate) const fn bytes(self) -> u32 {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
        }
    }
}

/// An arithmetic expression over unsigned 32-bit numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Number(u32),
    Length,
    Load { column: usize, protocol: Protocol, index: Box<Arithmetic>, width: Width },
    Negate(Box<Arithmetic>),
    Binary { column: usize, operator: Operator, left: Box<Arithmetic>, right: Box<Arithmetic> },
}

/// An arithmetic operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}

impl Operator {
    /// The result, modulo 2^32; `None` for a division by zero, which rejects the frame.
    pub(crate) fn apply(self, left: u32, right: u32) -> Option<u32> {
        Some(match self {
            Self::Add => left.wrapping_add(right),
            Self::Subtract => left.wrapping_sub(right),
            Self::Multiply => left.wrapping_mul(right),
            Self::Divide => return left.checked_div(right),
            Self::Remainder => return left.checked_rem(right),
            Self::And => left & right,
            Self::Or => left | right,
            Self::Xor => left ^ right,
            Self::ShiftLeft => left.checked_shl(right).unwrap_or(0),
            Self::ShiftRight => left.checked_shr(right).unwrap_or(0),
        })
    }
}
