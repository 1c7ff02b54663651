//! Addresses, ports and protocol numbers with the words that qualify them.

use super::Parser;
use crate::ast::{Carrier, Direction, Expression, Primitive, Protocol};
use crate::error::FilterError;
use crate::lexer::{Kind, Symbol};
use crate::names;

/// What kind of thing the identifier behind the qualifiers names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// `host`, also when only a direction was given.
    Host,
    Net,
    Port,
    PortRange,
    Number,
}

/// The words before an address, a port or a protocol number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Qualifiers {
    over: Option<Protocol>,
    direction: Direction,
    what: What,
}

impl Parser {
    /// The qualifiers that stand next, if there are any.
    pub(super) fn qualifiers(&mut self, over: Option<Protocol>) -> Result<Option<Qualifiers>, FilterError> {
        let direction = self.direction();
        let what = match self.word() {
            Some("host") => Some(What::Host),
            Some("net") => Some(What::Net),
            Some("port") => Some(What::Port),
            Some("portrange") => Some(What::PortRange),
            Some("proto") => Some(What::Number),
            _ => None,
        };
        if what == Some(What::Number) && direction.is_some() {
            return Err(
                self.error("`host`, `net`, `port` or an address", "leave the direction out: a protocol has none")
            );
        }
        if what.is_some() {
            self.advance();
        }
        if what.is_none() && direction.is_none() {
            return Ok(None);
        }
        Ok(Some(Qualifiers {
            over,
            direction: direction.unwrap_or(Direction::Either),
            what: what.unwrap_or(What::Host),
        }))
    }

    fn direction(&mut self) -> Option<Direction> {
        let (first, other) = match self.word()? {
            "src" => (Direction::Source, "dst"),
            "dst" => (Direction::Destination, "src"),
            _ => return None,
        };
        self.advance();
        let both = match self.symbol() {
            Some(Symbol::Or) => Direction::Either,
            Some(Symbol::And) => Direction::Both,
            _ => return Some(first),
        };
        let second = self.peek_at(self.next + 1);
        // `src or dst port 80` has one direction; `src 1.2.3.4 or dst 5.6.7.8` never gets here.
        if second.kind == Kind::Word && second.text == other {
            self.next += 2;
            return Some(both);
        }
        Some(first)
    }

    /// An identifier, or several in parentheses: `port (80 or 443)`.
    pub(super) fn identifier(&mut self, qualifiers: Qualifiers) -> Result<Expression, FilterError> {
        if self.take(Symbol::Not) {
            let inner = self.nested(|parser| parser.identifier(qualifiers))?;
            return Ok(Expression::Not(Box::new(inner)));
        }
        if self.take(Symbol::Open) {
            let inner = self.nested(|parser| parser.chain(&mut (), |parser, ()| parser.identifier(qualifiers)))?;
            self.close()?;
            return Ok(inner);
        }
        let column = self.peek().column;
        let primitive = match qualifiers.what {
            What::Host | What::Net => self.address(qualifiers)?,
            What::Port | What::PortRange => self.ports(qualifiers)?,
            What::Number => self.protocol_number(qualifiers.over)?,
        };
        Ok(Expression::Primitive { column, primitive })
    }

    fn address(&mut self, qualifiers: Qualifiers) -> Result<Primitive, FilterError> {
        let Qualifiers { over, direction, what } = qualifiers;
        if let Kind::Mac(address) = self.peek().kind {
            if over != Some(Protocol::Link) || what != What::Host {
                let remedy = format!("write `ether host {}`", self.peek().text);
                return Err(self.error("an IP address", remedy));
            }
            self.advance();
            return Ok(Primitive::Mac { direction, address });
        }
        if over == Some(Protocol::Link) {
            return Err(
                self.error("a MAC address behind `ether`", "write one like 02:00:00:00:00:01, or leave `ether` out")
            );
        }
        match self.peek().kind {
            Kind::Ipv6(address) => self.address6(qualifiers, address),
            Kind::Ipv4 { address, mask } => self.address4(qualifiers, address, mask),
            Kind::Number(number) => {
                let (address, mask) = if what == What::Net { justify(number) } else { (number, u32::MAX) };
                self.check_over4(over)?;
                self.advance();
                Ok(Primitive::Address4 { over, direction, address, mask })
            }
            _ => Err(self.error("an IP address", "write one like 10.0.0.1 or 2001:db8::1; names are not looked up")),
        }
    }

    /// IPv4 addresses occur in IPv4, ARP and RARP only.
    fn check_over4(&self, over: Option<Protocol>) -> Result<(), FilterError> {
        match over {
            None | Some(Protocol::Ip | Protocol::Arp | Protocol::Rarp) => Ok(()),
            Some(_) => Err(self.error(
                "no protocol, or `ip`, `arp` or `rarp`, before an IPv4 address",
                format!("write `host {0}`, or `tcp and host {0}`", self.peek().text),
            )),
        }
    }

    fn address4(&mut self, qualifiers: Qualifiers, address: u32, given: u32) -> Result<Primitive, FilterError> {
        self.check_over4(qualifiers.over)?;
        let start = self.next;
        self.advance();
        let mask = if self.take(Symbol::Slash) {
            Some(self.prefix_length(32).map(mask4)?)
        } else if self.take_word("mask") {
            Some(self.mask()?)
        } else {
            None
        };
        if let Some(mask) = mask {
            self.check_net(start, qualifiers.what, address & !mask == 0)?;
        }
        Ok(Primitive::Address4 {
            over: qualifiers.over,
            direction: qualifiers.direction,
            address,
            mask: mask.unwrap_or(given),
        })
    }

    fn mask(&mut self) -> Result<u32, FilterError> {
        let Kind::Ipv4 { address, .. } = self.peek().kind else {
            return Err(self.error("a mask", "write one like 255.255.255.0"));
        };
        self.advance();
        Ok(address)
    }

    fn address6(&mut self, qualifiers: Qualifiers, address: u128) -> Result<Primitive, FilterError> {
        if !matches!(qualifiers.over, None | Some(Protocol::Ip6)) {
            return Err(self.error(
                "no protocol, or `ip6`, before an IPv6 address",
                format!("write `host {0}`, or `tcp and host {0}`", self.peek().text),
            ));
        }
        let start = self.next;
        self.advance();
        let mut mask = u128::MAX;
        if self.take(Symbol::Slash) {
            mask = mask6(self.prefix_length(128)?);
            let what = if mask == u128::MAX { What::Net } else { qualifiers.what };
            self.check_net(start, what, address & !mask == 0)?;
        }
        Ok(Primitive::Address6 { direction: qualifiers.direction, address, mask })
    }

    fn prefix_length(&mut self, max: u32) -> Result<u32, FilterError> {
        match self.peek().kind {
            Kind::Number(length) if length <= max => {
                self.advance();
                Ok(length)
            }
            _ => Err(self
                .error(format!("a prefix length from 0 to {max}"), "write the number of leading bits that must agree")),
        }
    }

    /// Masks are for nets, and a net has no bits behind its mask.
    fn check_net(&mut self, start: usize, what: What, clear: bool) -> Result<(), FilterError> {
        if what == What::Net && clear {
            return Ok(());
        }
        self.next = start;
        Err(if clear {
            self.error("an address without a mask", "write `net` before it")
        } else {
            self.error("no bits set behind the mask", "write those bits as zeros")
        })
    }

    fn ports(&mut self, qualifiers: Qualifiers) -> Result<Primitive, FilterError> {
        let range = qualifiers.what == What::PortRange;
        let asked = match qualifiers.over {
            None => None,
            Some(Protocol::AboveBoth(number)) => Some(
                u8::try_from(number)
                    .ok()
                    .filter(|number| [names::TCP, names::UDP, names::SCTP].contains(number))
                    .ok_or_else(|| self.no_ports())?,
            ),
            Some(_) => return Err(self.no_ports()),
        };
        let (low, high, own) = match &self.peek().kind {
            Kind::Number(number) => {
                let port = u16::try_from(*number).map_err(|_| self.not_a_port(range))?;
                (port, port, None)
            }
            Kind::Word | Kind::Name => {
                let named = if range { port_range } else { one_port };
                named(&self.peek().text).ok_or_else(|| self.not_a_port(range))?
            }
            _ => return Err(self.not_a_port(range)),
        };
        if own.is_some() && asked.is_some() && own != asked {
            return Err(self.error("a service of that protocol", "write the number of the port instead of its name"));
        }
        self.advance();
        Ok(Primitive::Ports {
            transport: asked.or(own),
            direction: qualifiers.direction,
            low: low.min(high),
            high: low.max(high),
        })
    }

    fn no_ports(&self) -> FilterError {
        self.error("`tcp`, `udp`, `sctp` or no protocol before a port", "only these have ports")
    }

    fn not_a_port(&self, range: bool) -> FilterError {
        if range {
            self.error("two ports from 0 to 65535", "write them like `portrange 6000-6063`")
        } else {
            self.error("a port from 0 to 65535", "write a number; only a few well-known names are understood")
        }
    }

    fn protocol_number(&mut self, over: Option<Protocol>) -> Result<Primitive, FilterError> {
        let carrier = match over {
            None => Carrier::Any,
            Some(Protocol::Link) => Carrier::Link,
            Some(Protocol::Ip) => Carrier::Ip,
            Some(Protocol::Ip6) => Carrier::Ip6,
            Some(_) => {
                return Err(self.error(
                    "`ether`, `ip`, `ip6` or no protocol before `proto`",
                    "only these carry a protocol number",
                ));
            }
        };
        let name = &self.peek().text;
        let number = match self.peek().kind {
            Kind::Number(number) => Some(number),
            Kind::Word | Kind::Name if carrier == Carrier::Link => names::link_protocol(name),
            Kind::Word | Kind::Name => names::ip_protocol(name),
            _ => None,
        };
        let Some(number) = number else {
            return Err(self.error("a protocol", "write its number; only a few well-known names are understood"));
        };
        self.advance();
        Ok(Primitive::Number { carrier, number })
    }
}

/// A port by the name of its service.
fn one_port(name: &str) -> Option<(u16, u16, Option<u8>)> {
    names::service(name).map(|(port, transport)| (port, port, transport))
}

/// Two ports by number or name, `low-high`. Names may contain dashes too.
fn port_range(text: &str) -> Option<(u16, u16, Option<u8>)> {
    let end = |text: &str| match text.parse() {
        Ok(port) => Some((port, None)),
        Err(_) => names::service(text),
    };
    text.match_indices('-').find_map(|(dash, _)| {
        let (low, low_own) = end(text.get(..dash)?)?;
        let (high, high_own) = end(text.get(dash + 1..)?)?;
        Some((low, high, low_own.filter(|_| low_own == high_own)))
    })
}

fn mask4(length: u32) -> u32 {
    !u32::MAX.checked_shr(length).unwrap_or(0)
}

fn mask6(length: u32) -> u128 {
    !u128::MAX.checked_shr(length).unwrap_or(0)
}

/// A net of one number is written by its leading bytes: 10 is 10.0.0.0/8.
fn justify(mut number: u32) -> (u32, u32) {
    let mut mask = u32::MAX;
    while number != 0 && number >> 24 == 0 {
        number <<= 8;
        mask <<= 8;
    }
    (number, mask)
}
