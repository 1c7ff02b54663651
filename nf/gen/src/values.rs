//! The values that a field takes from packet to packet: what a configuration writes, and the sequence it stands for.

use std::fmt;
use std::marker::PhantomData;
use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};
use weir_config::{Length, MacAddress, Malformed, Scalar, Setting, Type, Value};

/// What a field holds: how its values are written.
pub(crate) trait Kind: fmt::Debug + Clone + PartialEq {
    /// What a single value is, with its article.
    const WHAT: &'static str;
    /// Some values that are right.
    const EXAMPLE: &'static str;
    /// Bits that a value has.
    const BITS: u32;
    /// Whether values may be written as numbers.
    const NUMERIC: bool;
    /// Whether values are ports, of which a row of a table may have a set.
    const PORTS: bool = false;

    /// One value.
    fn parse(text: &str) -> Option<u128>;

    /// The value in text.
    fn show(value: u128) -> String;

    /// The values of a prefix, first and last.
    fn prefix(_text: &str) -> Option<(u128, u128)> {
        None
    }
}

/// A number of so many bits, at most 32.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Number<const BITS: u32>;

/// A port of UDP or TCP, or what stands in its place: the identifier of an ICMP echo.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Port;

/// An Ethernet address.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mac;

/// An IPv4 address.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct V4;

/// An IPv6 address.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct V6;

impl<const BITS: u32> Kind for Number<BITS> {
    const WHAT: &'static str = "a number, a range of numbers, either with \"random\", or \"column\"";
    const EXAMPLE: &'static str = "1-4 random";
    const BITS: u32 = BITS;
    const NUMERIC: bool = true;

    fn parse(text: &str) -> Option<u128> {
        match text.strip_prefix("0x") {
            Some(hex) => u128::from_str_radix(hex, 16).ok(),
            None => text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?,
        }
    }

    fn show(value: u128) -> String {
        value.to_string()
    }
}

impl Kind for Port {
    const WHAT: &'static str = "a port, a range of ports, either with \"random\", \"column\", or \"port set\"";
    const EXAMPLE: &'static str = "1024-65535 random";
    const BITS: u32 = 16;
    const NUMERIC: bool = true;
    const PORTS: bool = true;

    fn parse(text: &str) -> Option<u128> {
        Number::<16>::parse(text)
    }

    fn show(value: u128) -> String {
        value.to_string()
    }
}

impl Kind for Mac {
    const WHAT: &'static str = "an Ethernet address, a range of them, either with \"random\", or \"column\"";
    const EXAMPLE: &'static str = "02:00:00:00:00:01";
    const BITS: u32 = 48;
    const NUMERIC: bool = false;

    fn parse(text: &str) -> Option<u128> {
        let [a, b, c, d, e, f] = <MacAddress as Scalar>::parse(text).ok()?.octets();
        Some(u128::from(u64::from_be_bytes([0, 0, a, b, c, d, e, f])))
    }

    fn show(value: u128) -> String {
        let [.., a, b, c, d, e, f] = (value as u64).to_be_bytes();
        weir_wire::MacAddr([a, b, c, d, e, f]).to_string()
    }
}

impl Kind for V4 {
    const WHAT: &'static str = "an IPv4 address, prefix or range, any with \"random\", or \"column\"";
    const EXAMPLE: &'static str = "198.18.0.0/16 random";
    const BITS: u32 = 32;
    const NUMERIC: bool = false;

    fn parse(text: &str) -> Option<u128> {
        text.parse().ok().map(|address: Ipv4Addr| u128::from(address.to_bits()))
    }

    fn show(value: u128) -> String {
        Ipv4Addr::from_bits(value as u32).to_string()
    }

    fn prefix(text: &str) -> Option<(u128, u128)> {
        let net = <Ipv4Net as Scalar>::parse(text).ok()?;
        let (first, last) = (u128::from(net.network().to_bits()), u128::from(net.broadcast().to_bits()));
        // The first and last address of a network are no host's (RFC 3021 has the exception of /31).
        Some(if net.prefix_len() < 31 { (first + 1, last - 1) } else { (first, last) })
    }
}

impl Kind for V6 {
    const WHAT: &'static str = "an IPv6 address, prefix or range, any with \"random\", or \"column\"";
    const EXAMPLE: &'static str = "2001:db8::/64 random";
    const BITS: u32 = 128;
    const NUMERIC: bool = false;

    fn parse(text: &str) -> Option<u128> {
        text.parse().ok().map(|address: Ipv6Addr| address.to_bits())
    }

    fn show(value: u128) -> String {
        Ipv6Addr::from_bits(value).to_string()
    }

    fn prefix(text: &str) -> Option<(u128, u128)> {
        let net = <Ipv6Net as Scalar>::parse(text).ok()?;
        Some((net.network().to_bits(), net.broadcast().to_bits()))
    }
}

/// Values from one to another, in steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// The first.
    pub(crate) first: u128,
    /// The last, which a step may leave out.
    pub(crate) last: u128,
    /// The distance of two neighbours, at least 1.
    pub(crate) step: u128,
}

impl Span {
    fn one(value: u128) -> Span {
        Span { first: value, last: value, step: 1 }
    }

    /// How many values it has.
    pub(crate) fn len(&self) -> u128 {
        ((self.last - self.first) / self.step).saturating_add(1)
    }
}

/// One entry of what a field may take.
#[derive(Debug, Clone, PartialEq)]
struct Entry<K> {
    what: Drawn,
    random: bool,
    kind: PhantomData<K>,
}

#[derive(Debug, Clone, PartialEq)]
enum Drawn {
    Span(Span),
    Cell(Cell),
}

/// What of a row of a table a field takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    /// A column: that of this name, or the one called as the field.
    Column(Option<String>),
    /// A random port of the row's port set.
    PortSet,
}

/// What a field says that takes a column, or a port of a port set.
const COLUMN: &str = "column";
const PORT_SET: &str = "port set";

impl<K: Kind> Entry<K> {
    fn of(text: &str) -> Result<Entry<K>, Malformed> {
        let text = text.trim();
        let (rest, random) = match text.strip_suffix("random") {
            Some(rest) => (rest.trim_end(), true),
            None => (text, false),
        };
        let most = if K::BITS == 128 { u128::MAX } else { (1 << K::BITS) - 1 };
        let named = rest.strip_prefix(COLUMN).filter(|name| !random && name.starts_with(' ')).map(str::trim);
        let what = match rest {
            COLUMN if !random => Drawn::Cell(Cell::Column(None)),
            PORT_SET if K::PORTS && !random => Drawn::Cell(Cell::PortSet),
            _ if named.is_some() => Drawn::Cell(Cell::Column(named.map(str::to_owned))),
            "" if random => Drawn::Span(Span { first: 0, last: most, step: 1 }),
            _ => Drawn::Span(span::<K>(rest)?),
        };
        if let Drawn::Span(span) = &what
            && span.last > most
        {
            let problem = format!("has more than the {} bits of this field", K::BITS);
            return Err(Malformed::because(problem).remedy(format!("write at most {}", K::show(most))));
        }
        Ok(Entry { what, random, kind: PhantomData })
    }
}

fn span<K: Kind>(text: &str) -> Result<Span, Malformed> {
    let wrong = || Malformed::because(format!("is not {}", K::WHAT));
    let (range, step) = match text.split_once(" step ") {
        Some((range, step)) => {
            (range.trim(), step.trim().parse::<u128>().ok().filter(|&step| step > 0).ok_or_else(wrong)?)
        }
        None => (text, 1),
    };
    if let Some(value) = K::parse(range) {
        return Ok(Span { step, ..Span::one(value) });
    }
    if let Some((first, last)) = K::prefix(range) {
        return Ok(Span { first, last, step });
    }
    let (first, last) = range.split_once('-').ok_or_else(wrong)?;
    let (first, last) = K::parse(first.trim()).zip(K::parse(last.trim())).ok_or_else(wrong)?;
    if first > last {
        let problem = format!("is a range that ends ({}) before it begins ({})", K::show(last), K::show(first));
        return Err(Malformed::because(problem).remedy("exchange its ends"));
    }
    Ok(Span { first, last, step })
}

impl<K: Kind> fmt::Display for Entry<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = match &self.what {
            Drawn::Span(span) => span,
            Drawn::Cell(Cell::Column(None)) => return f.write_str(COLUMN),
            Drawn::Cell(Cell::Column(Some(name))) => return write!(f, "{COLUMN} {name}"),
            Drawn::Cell(Cell::PortSet) => return f.write_str(PORT_SET),
        };
        f.write_str(&K::show(span.first))?;
        if span.last > span.first {
            write!(f, "-{}", K::show(span.last))?;
        }
        if span.step > 1 {
            write!(f, " step {}", span.step)?;
        }
        f.write_str(if self.random { " random" } else { "" })
    }
}

impl<K: Kind> Scalar for Entry<K> {
    const WHAT: &'static str = K::WHAT;
    const EXAMPLE: &'static str = K::EXAMPLE;

    fn parse(text: &str) -> Result<Self, Malformed> {
        Entry::of(text)
    }
}

/// What a field takes: one value, several, a range, in turn or at random, or a column of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field<K>(Vec<Entry<K>>);

impl<K: Kind> Field<K> {
    /// How many entries it has.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The sequence, for a reader that does not care how values are written.
    pub(crate) fn values(&self) -> Values {
        let spans = self.0.iter().filter_map(|entry| match entry.what {
            Drawn::Span(span) => Some(span),
            Drawn::Cell(_) => None,
        });
        let cell = self.0.iter().find_map(|entry| match &entry.what {
            Drawn::Cell(cell) => Some(cell.clone()),
            Drawn::Span(_) => None,
        });
        Values { spans: spans.collect(), random: self.0.iter().any(|entry| entry.random), cell }
    }
}

impl<K: Kind> Setting for Field<K> {
    fn describe() -> Type {
        let text = Type::scalar::<Entry<K>>();
        let of = if K::NUMERIC {
            let most = (1_i64 << K::BITS.min(53)) - 1;
            Type::Either(vec![Type::Integer { min: 0, max: most }, text])
        } else {
            text
        };
        Type::List { of: Box::new(of), length: Length { min: 1, max: 65_536 }, or_one: true }
    }

    fn read(value: &Value) -> Option<Self> {
        let entry = |value: &Value| match value {
            Value::Integer(integer) => Entry::of(&integer.to_string()).ok(),
            value => Entry::of(value.as_text()?).ok(),
        };
        value.as_list()?.iter().map(entry).collect::<Option<_>>().map(Field)
    }

    fn write(&self) -> Value {
        Value::List(self.0.iter().map(Value::text).collect())
    }
}

/// The values of a field, whatever it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Values {
    /// In order.
    pub(crate) spans: Vec<Span>,
    /// Whether they are drawn at random.
    pub(crate) random: bool,
    /// What of a row of a table they are, if they come from one.
    pub(crate) cell: Option<Cell>,
}

impl Values {
    /// One value.
    pub(crate) fn fixed(value: u128) -> Values {
        Values { spans: vec![Span::one(value)], random: false, cell: None }
    }

    /// The first value.
    pub(crate) fn first(&self) -> u128 {
        self.spans.first().map_or(0, |span| span.first)
    }

    /// Whether there is no other than the first.
    pub(crate) fn is_fixed(&self) -> bool {
        self.cell.is_none() && matches!(self.spans.as_slice(), [span] if span.len() == 1)
    }

    /// The upper 64 bits of 128, where all values have the same ones. Those of a column are not known.
    pub(crate) fn common_upper(&self) -> Option<u128> {
        let upper = self.first() >> 64;
        let is_alike = |span: &Span| span.first >> 64 == upper && span.last >> 64 == upper;
        (self.cell.is_none() && self.spans.iter().all(is_alike)).then_some(upper)
    }

    /// How many values there are; `u128::MAX` for more.
    pub(crate) fn len(&self) -> u128 {
        self.spans.iter().fold(0, |sum: u128, span| sum.saturating_add(span.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::Part;
    use crate::random::Random;
    use crate::sequence::Sequence;

    fn values<K: Kind>(text: &str) -> Values {
        Field::<K>(vec![Entry::of(text).unwrap()]).values()
    }

    fn take(values: &Values, count: usize) -> Vec<u64> {
        let mut taken = vec![0; count];
        // In two pieces, as batches come.
        let (one, other) = taken.split_at_mut(count / 2);
        let mut sequence = Sequence::new(values, Random::new(1, 0));
        sequence.fill(one);
        sequence.fill(other);
        taken
    }

    #[test]
    fn texts_stand_for_sequences() {
        assert_eq!(take(&values::<Number<16>>("7"), 3), [7, 7, 7]);
        assert_eq!(take(&values::<Number<16>>("0x10-18"), 4), [16, 17, 18, 16]);
        assert_eq!(take(&values::<Number<16>>("1-6 step 2"), 4), [1, 3, 5, 1]);
        assert_eq!(take(&values::<V4>("192.0.2.0/30"), 3), [0xc000_0201, 0xc000_0202, 0xc000_0201], "hosts only");
        assert_eq!(take(&values::<V4>("192.0.2.0/31"), 2), [0xc000_0200, 0xc000_0201]);
        assert_eq!(
            take(&values::<Mac>("02:00:00:00:00:ff-02:00:00:00:01:00"), 2),
            [0x0200_0000_00ff, 0x0200_0000_0100]
        );
        assert_eq!(take(&values::<V6>("2001:db8::1-2001:db8::2"), 3), [1, 2, 1]);
        let list = Values { spans: vec![Span::one(5), Span { first: 1, last: 2, step: 1 }], random: false, cell: None };
        assert_eq!(take(&list, 5), [5, 1, 2, 5, 1]);
    }

    /// Values of 128 bits, put together of both halves, each by a sequence of its own.
    fn take_wide(values: &Values, count: usize) -> Vec<u128> {
        let half = |part| {
            let (mut sequence, mut taken) = (Sequence::of(values, part, Random::new(1, 0)), vec![0; count]);
            sequence.fill(&mut taken);
            taken.into_iter().map(u128::from).collect::<Vec<_>>()
        };
        half(Part::Upper).into_iter().zip(half(Part::Lower)).map(|(upper, lower)| upper << 64 | lower).collect()
    }

    #[test]
    fn long_values_differ_in_all_their_bits() {
        let address = |text: &str| V6::parse(text).unwrap();
        let first = address("2001:db8::");
        let networks = values::<V6>("2001:db8::-2001:db8:0:3:: step 18446744073709551616");
        assert_eq!(take_wide(&networks, 5), [0, 1, 2, 3, 0].map(|n| first + (n << 64)));
        assert_eq!(networks.common_upper(), None);
        let list = Values {
            spans: ["2001:db8:1::1", "fe80::2", "::3"].map(|text| Span::one(address(text))).into(),
            random: false,
            cell: None,
        };
        assert_eq!(take_wide(&list, 4), ["2001:db8:1::1", "fe80::2", "::3", "2001:db8:1::1"].map(address));
        let random = take_wide(&values::<V6>("2001:db8::/32 random"), 2000);
        let (mut ones, mut zeroes) = (0, 0);
        for value in random {
            assert_eq!(value >> 96, 0x2001_0db8);
            (ones, zeroes) = (ones | value, zeroes | !value);
        }
        assert_eq!((ones << 32, zeroes << 32), (u128::MAX << 32, u128::MAX << 32), "every other bit takes both values");
        let all = take_wide(&values::<V6>("random"), 2000);
        assert_eq!(all.iter().fold(0, |ones, value| ones | value), u128::MAX);
        assert_eq!(values::<V6>("2001:db8::/64 random").common_upper(), Some(first >> 64));
    }

    #[test]
    fn random_values_are_those_of_the_ranges() {
        let one = take(&values::<Number<8>>("10-12 random"), 300);
        assert!((10..=12).all(|value| one.iter().filter(|&&taken| taken == value).count() > 70));
        let spans = vec![Span { first: 0, last: 9, step: 1 }, Span { first: 90, last: 99, step: 1 }];
        let both = take(&Values { spans, random: true, cell: None }, 1000);
        assert!(both.iter().all(|value| (0..10).contains(value) || (90..100).contains(value)));
        assert!(both.iter().filter(|&&value| value < 10).count().abs_diff(500) < 60);
        assert_eq!(take(&values::<Number<8>>("random"), 100).iter().max().map(|&most| most <= 255), Some(true));
    }

    #[test]
    fn mistakes_are_told() {
        let problem = |text| Entry::<Number<8>>::of(text).unwrap_err().problem;
        assert_eq!(problem("256"), "has more than the 8 bits of this field");
        assert_eq!(problem("9-1"), "is a range that ends (1) before it begins (9)");
        assert!(problem("x").starts_with("is not a number"));
        assert!(problem("-5").starts_with("is not a number"));
        assert!(problem("1 step 0").starts_with("is not a number"));
        assert!(Entry::<V4>::of("192.0.2.1/24").unwrap_err().problem.starts_with("is not an IPv4 address"));
    }

    #[test]
    fn what_is_written_reads_back() {
        for text in ["7", "1-9", "1-9 step 2 random", "column", "column b4", "0-255 random"] {
            assert_eq!(Entry::<Number<8>>::of(text).unwrap().to_string(), text);
        }
        assert_eq!(Entry::<Port>::of("port set").unwrap().to_string(), "port set");
        assert!(Entry::<Number<16>>::of("port set").is_err() && Entry::<Port>::of("port set random").is_err());
    }
}
