//! A typed tree in, tests of bytes at offsets out.
//!
//! Which bytes a word looks at depends on the `vlan`, `mpls` and `pppoes` written before it; this is where
//! that dependence ends. Tests are put in the order in which libpcap puts them, because a test that
//! runs off the end of a frame rejects it, and constant offsets wrap around as libpcap's do
//! (`ip[-2:2]` is the EtherType).

use crate::ast::{Arithmetic, Carrier, Cast, Direction, Expression, Operator, Primitive, Protocol, Relation, Width};
use crate::error::FilterError;
use crate::names;
use crate::test::{Place, Test, Value};

mod address;
mod link;

/// Lowers a whole expression.
pub(crate) fn lower(expression: &Expression) -> Result<Test, FilterError> {
    Layers::new().expression(expression)
}

/// What is below the network layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Ethernet,
    /// A PPP frame in a PPPoE session.
    Ppp,
}

/// Where headers are, as far as the expression has been read. Offsets are from the start of the frame.
#[derive(Debug)]
struct Layers {
    link: Link,
    /// The link header.
    header: u32,
    /// The EtherType (or length), or the PPP protocol.
    kind: u32,
    /// What follows the EtherType or the PPP protocol.
    payload: u32,
    /// The network header.
    network: u32,
    /// MPLS labels so far.
    labels: u32,
}

impl Layers {
    fn new() -> Self {
        Self { link: Link::Ethernet, header: 0, kind: 12, payload: 14, network: 14, labels: 0 }
    }

    fn expression(&mut self, expression: &Expression) -> Result<Test, FilterError> {
        Ok(match expression {
            Expression::Chain { first, rest } => {
                let first = Box::new(self.expression(first)?);
                let rest =
                    rest.iter().map(|(join, part)| Ok((*join, self.expression(part)?))).collect::<Result<_, _>>()?;
                Test::Chain { first, rest }
            }
            Expression::Not(inner) => Test::Not(Box::new(self.expression(inner)?)),
            Expression::Primitive { column, primitive } => self.primitive(*column, primitive)?,
        })
    }

    fn primitive(&mut self, column: usize, primitive: &Primitive) -> Result<Test, FilterError> {
        match primitive {
            Primitive::Protocol(protocol) => self.protocol(column, *protocol),
            Primitive::Address4 { over, direction, address, mask } => {
                self.address4(column, *over, *direction, (*address, *mask))
            }
            Primitive::Address6 { direction, address, mask } => self.address6(column, *direction, (*address, *mask)),
            Primitive::Mac { direction, address } => self.mac(column, *direction, *address),
            Primitive::Ports { transport, direction, low, high } => {
                self.ports(column, *transport, *direction, (*low, *high))
            }
            Primitive::Number { carrier, number } => self.number(column, *carrier, *number),
            Primitive::Broadcast(cast) => self.broadcast(column, *cast),
            Primitive::Multicast(cast) => self.multicast(column, *cast),
            Primitive::AtMost(length) => Ok(length_test(Relation::LessOrEqual, *length)),
            Primitive::AtLeast(length) => Ok(length_test(Relation::GreaterOrEqual, *length)),
            Primitive::Vlan(identifier) => self.vlan(column, *identifier),
            Primitive::Mpls(label) => self.mpls(column, *label),
            Primitive::PppoeDiscovery => self.link_type(column, link::TYPE_PPPOE_DISCOVERY),
            Primitive::PppoeSession(session) => self.pppoe_session(column, *session),
            Primitive::Relation { left, relation, right } => self.relation(left, *relation, right),
        }
    }

    /// `ip`, `tcp` and the like.
    fn protocol(&self, column: usize, protocol: Protocol) -> Result<Test, FilterError> {
        match protocol {
            Protocol::Link => Err(FilterError::new(
                column,
                "`ether` alone",
                "what of the Ethernet header is tested",
                "write `ether host`, `ether proto` or `ether[0]`",
            )),
            Protocol::Ip => self.link_type(column, names::TYPE_IP),
            Protocol::Ip6 => self.link_type(column, names::TYPE_IP6),
            Protocol::Arp => self.link_type(column, names::TYPE_ARP),
            Protocol::Rarp => self.link_type(column, names::TYPE_RARP),
            Protocol::Type(number) | Protocol::Sap(number) => self.link_type(column, number),
            Protocol::Osi(number) => self.osi(column, number),
            Protocol::AboveIp(number) => self.number(column, Carrier::Ip, number),
            Protocol::AboveBoth(number) | Protocol::Extension(number) => self.number(column, Carrier::Any, number),
            Protocol::Icmp6 => self.number(column, Carrier::Ip6, names::ICMP6),
        }
    }

    /// The number of the protocol that `carrier` carries.
    fn number(&self, column: usize, carrier: Carrier, number: u32) -> Result<Test, FilterError> {
        match carrier {
            Carrier::Link => self.link_type(column, number),
            Carrier::Ip => Ok(self.link_type(column, names::TYPE_IP)?.and(self.network(9, Width::One, number))),
            Carrier::Ip6 => {
                // One fragment header is looked behind, and no other extension header.
                let fragment =
                    self.network(6, Width::One, names::IP6_FRAGMENT).and(self.network(40, Width::One, number));
                let next = self.network(6, Width::One, number);
                Ok(self.link_type(column, names::TYPE_IP6)?.and(next.or(fragment)))
            }
            Carrier::Any => {
                Ok(self.number(column, Carrier::Ip, number)?.or(self.number(column, Carrier::Ip6, number)?))
            }
        }
    }

    /// The number at `offset` of the network header equals `value`.
    fn network(&self, offset: u32, width: Width, value: u32) -> Test {
        field(self.network + offset, width, u32::MAX, value)
    }

    /// The transport header behind the IPv4 header.
    fn behind_ipv4(&self) -> Place {
        Place::BehindIpv4 { header: self.network, offset: self.network }
    }

    /// An IPv4 packet's transport header is there only in its first fragment.
    fn first_fragment(&self) -> Test {
        field(self.network + 6, Width::Two, 0x1fff, 0)
    }

    fn relation(&self, left: &Arithmetic, relation: Relation, right: &Arithmetic) -> Result<Test, FilterError> {
        let (left_check, left) = self.value(left)?;
        let (right_check, right) = self.value(right)?;
        let test = Test::Relation { left, relation, right };
        Ok(match both(left_check, right_check) {
            Some(check) => check.and(test),
            None => test,
        })
    }

    /// The value of an arithmetic expression, and the test for the headers that it reads.
    fn value(&self, arithmetic: &Arithmetic) -> Result<(Option<Test>, Value), FilterError> {
        Ok(match arithmetic {
            Arithmetic::Number(number) => (None, Value::Number(*number)),
            Arithmetic::Length => (None, Value::Length),
            Arithmetic::Load { column, protocol, index, width } => self.load(*column, *protocol, index, *width)?,
            Arithmetic::Negate(inner) => {
                let (check, value) = self.value(inner)?;
                let value = match value {
                    Value::Number(number) => Value::Number(number.wrapping_neg()),
                    value => Value::Negate(Box::new(value)),
                };
                (check, value)
            }
            Arithmetic::Binary { column, operator, left, right } => {
                // As in libpcap, the headers that the right operand reads are not tested for.
                let (check, left) = self.value(left)?;
                let (_, right) = self.value(right)?;
                (check, combine(*column, *operator, left, right)?)
            }
        })
    }

    fn load(
        &self,
        column: usize,
        protocol: Protocol,
        index: &Arithmetic,
        width: Width,
    ) -> Result<(Option<Test>, Value), FilterError> {
        let (inner, index) = self.value(index)?;
        let (check, place) = match protocol {
            Protocol::Link => (inner, Place::Frame(self.header)),
            Protocol::Ip | Protocol::Ip6 | Protocol::Arp | Protocol::Rarp | Protocol::Type(_) => {
                let check = self.protocol(column, protocol)?;
                (both(inner, Some(check)), Place::Frame(self.network))
            }
            Protocol::AboveIp(_) | Protocol::AboveBoth(_) => {
                let check = self.protocol(column, protocol)?.and(self.first_fragment());
                let check = both(inner, Some(check));
                let ip = self.link_type(column, names::TYPE_IP)?;
                (both(Some(ip), check), self.behind_ipv4())
            }
            Protocol::Icmp6 => {
                let check = both(inner, Some(self.link_type(column, names::TYPE_IP6)?));
                let next = self.network(6, Width::One, names::ICMP6);
                (both(check, Some(next)), Place::Frame(self.network + 40))
            }
            Protocol::Sap(_) | Protocol::Osi(_) | Protocol::Extension(_) => {
                return Err(FilterError::new(
                    column,
                    "an accessor",
                    "a protocol whose header can be indexed",
                    "index `ether`, `ip`, `ip6`, `arp`, `tcp`, `udp`, `sctp`, `icmp` or `icmp6`",
                ));
            }
        };
        Ok((check, indexed(place, index, width)))
    }
}

/// A load at a constant index is a load at another place.
fn indexed(place: Place, index: Value, width: Width) -> Value {
    let (place, index) = match index {
        Value::Number(index) => (place.moved(index), Value::Number(0)),
        index => (place, index),
    };
    Value::Load { place, index: Box::new(index), width }
}

/// Applies an operator; to constants at once.
fn combine(column: usize, operator: Operator, left: Value, right: Value) -> Result<Value, FilterError> {
    let impossible = match (operator, &right) {
        (Operator::Divide | Operator::Remainder, Value::Number(0)) => Some("a divisor other than 0"),
        (Operator::ShiftLeft | Operator::ShiftRight, Value::Number(32..)) => Some("a shift by at most 31 bits"),
        _ => None,
    };
    if let (Some(expected), Value::Number(number)) = (impossible, &right) {
        let remedy = "correct the number: the test could never match";
        return Err(FilterError::new(column, number.to_string(), expected, remedy));
    }
    if let (Value::Number(left), Value::Number(right)) = (&left, &right)
        && let Some(number) = operator.apply(*left, *right)
    {
        return Ok(Value::Number(number));
    }
    Ok(Value::Binary { operator, left: Box::new(left), right: Box::new(right) })
}

/// Both tests, or the one that there is.
fn both(first: Option<Test>, second: Option<Test>) -> Option<Test> {
    match (first, second) {
        (Some(first), Some(second)) => Some(first.and(second)),
        (first, second) => first.or(second),
    }
}

/// The number at `offset`, masked, equals `value`.
fn field(offset: u32, width: Width, mask: u32, value: u32) -> Test {
    Test::Field { place: Place::Frame(offset), width, mask, relation: Relation::Equal, value }
}

fn length_test(relation: Relation, length: u32) -> Test {
    Test::Relation { left: Value::Length, relation, right: Value::Number(length) }
}

/// Puts a test of one direction together with that of the other as `direction` says.
fn directed(direction: Direction, one: impl Fn(bool) -> Test) -> Test {
    let (source, destination) = (|| one(true), || one(false));
    match direction {
        Direction::Source => source(),
        Direction::Destination => destination(),
        Direction::Either => source().or(destination()),
        Direction::Both => source().and(destination()),
    }
}
