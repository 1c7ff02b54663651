//! Quantities with units: rates, packet rates, times and sizes. A number without a unit is never taken.

use std::fmt;

use crate::error::{ErrorKind, nearest};
use crate::scalar::Malformed;

/// A kind of quantity: its units and the words for it.
#[derive(Debug, Clone, Copy)]
pub struct Units {
    /// What a quantity is, with its article: `a rate`.
    pub what: &'static str,
    /// A quantity that is right: `10 Mbit/s`.
    pub example: &'static str,
    /// The units and their factors, the base unit (factor 1) first, rising.
    pub units: &'static [(&'static str, u64)],
    /// Units that are read too, yet never written.
    pub also: &'static [(&'static str, u64)],
}

impl Units {
    fn factor(&self, unit: &str) -> Option<u64> {
        let all = self.units.iter().chain(self.also);
        all.clone().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
    }

    /// The names of all units, as in `ns, us, ms`.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.units.iter().map(|(name, _)| *name).collect();
        names.join(", ")
    }

    /// Reads a number and a unit, such as `2.5 Gbit/s`, in base units. The result is exact or an error.
    ///
    /// # Errors
    /// What is wrong with the text: no number, no unit, an unknown unit, too fine or too large.
    pub fn parse(&self, text: &str) -> Result<u64, Malformed> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit = unit.trim_start();
        if number.is_empty() {
            return Err(Malformed::because(format!("is not {}", self.what)));
        }
        if unit.is_empty() {
            let advised = self.wrong_unit("has no unit".to_owned(), format!("write it as in \"{}\"", self.example));
            return Err(Malformed { instead: Some(self.example.to_owned()), ..advised });
        }
        let factor = self.factor(unit).ok_or_else(|| self.unknown_unit(unit))?;
        let (units, rest) = decimal(number).ok_or_else(|| Malformed::because(format!("is not {}", self.what)))?;
        let scaled = units.checked_mul(u128::from(factor)).ok_or_else(too_large)?;
        if scaled % rest != 0 {
            return Err(Malformed::because(format!("is no whole number of {}", self.base())));
        }
        u64::try_from(scaled / rest).map_err(|_| too_large())
    }

    fn unknown_unit(&self, unit: &str) -> Malformed {
        let remedy = match nearest(unit, self.units.iter().map(|(name, _)| *name)) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("use one of {}", self.names()),
        };
        self.wrong_unit(format!("has the unit {unit:?}, which {} cannot have", self.what), remedy)
    }

    fn wrong_unit(&self, problem: String, remedy: String) -> Malformed {
        Malformed { kind: ErrorKind::WrongUnit, ..Malformed::because(problem).remedy(remedy) }
    }

    fn base(&self) -> &'static str {
        self.units.first().map_or("", |(name, _)| name)
    }

    /// Writes an amount in the largest unit that leaves no fraction.
    pub fn format(&self, amount: u64) -> String {
        let unit = self.units.iter().rev().find(|(_, factor)| amount >= *factor && amount.is_multiple_of(*factor));
        match unit {
            Some((name, factor)) => format!("{} {name}", amount / factor),
            None => format!("{amount} {}", self.base()),
        }
    }
}

fn too_large() -> Malformed {
    Malformed { kind: ErrorKind::OutOfRange, ..Malformed::because("is too large") }
}

/// `12.50` as 1250 hundredths: the digits, and the power of ten to divide by.
fn decimal(text: &str) -> Option<(u128, u128)> {
    const DIGITS: usize = 20;
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return None,
        None => (text, ""),
    };
    if whole.is_empty() || whole.len().max(fraction.len()) > DIGITS || fraction.contains('.') {
        return None;
    }
    let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let fraction = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().ok()? };
    let digits = whole.parse::<u128>().ok()?.checked_mul(scale)?.checked_add(fraction)?;
    Some((digits, scale))
}

/// A quantity: an amount in base units.
pub trait Quantity: Copy + fmt::Display {
    /// Its units.
    const UNITS: &'static Units;

    /// The quantity of so many base units.
    fn from_base(amount: u64) -> Self;

    /// How many base units it is.
    fn base(self) -> u64;
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $base:ident, $base_doc:literal, $what:literal, $example:literal,
     $units:expr, $also:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(u64);

        impl $name {
            #[doc = concat!("A quantity from ", $base_doc, ".")]
            pub const fn new($base: u64) -> Self {
                Self($base)
            }

            #[doc = concat!("The quantity in ", $base_doc, ".")]
            pub const fn $base(self) -> u64 {
                self.0
            }
        }

        impl Quantity for $name {
            const UNITS: &'static Units = &Units {
                what: $what,
                example: $example,
                units: $units,
                also: $also,
            };

            fn from_base(amount: u64) -> Self {
                Self(amount)
            }

            fn base(self) -> u64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&Self::UNITS.format(self.0))
            }
        }
    };
}

quantity!(
    /// A rate of data, written `10 Mbit/s`; prefixes are decimal.
    Rate, bits_per_second, "bits per second", "a rate", "10 Mbit/s",
    &[
        ("bit/s", 1),
        ("kbit/s", 1_000),
        ("Mbit/s", 1_000_000),
        ("Gbit/s", 1_000_000_000),
        ("Tbit/s", 1_000_000_000_000),
    ],
    &[]
);

quantity!(
    /// A rate of packets, written `1 Mpps`; prefixes are decimal.
    PacketRate, packets_per_second, "packets per second", "a packet rate", "1 Mpps",
    &[("pps", 1), ("kpps", 1_000), ("Mpps", 1_000_000), ("Gpps", 1_000_000_000)],
    &[]
);

quantity!(
    /// A length of time, written `5 ms`.
    Nanos, nanos, "nanoseconds", "a time", "5 ms",
    &[
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("min", 60_000_000_000),
        ("h", 3_600_000_000_000),
        ("d", 86_400_000_000_000),
    ],
    &[("\u{b5}s", 1_000), ("\u{3bc}s", 1_000)]
);

quantity!(
    /// A size of memory or data, written `64 KiB`; kB, MB and GB (powers of ten) are read too.
    Size, bytes, "bytes", "a size", "64 KiB",
    &[
        ("B", 1),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
    ],
    &[("kB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000), ("TB", 1_000_000_000_000)]
);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn problem(units: &Units, text: &str) -> (ErrorKind, String) {
        let error = units.parse(text).unwrap_err();
        (error.kind, format!("{}; {}", error.problem, error.remedy))
    }

    #[test]
    fn quantities_are_exact() {
        assert_eq!(Rate::UNITS.parse("10 Mbit/s"), Ok(10_000_000));
        assert_eq!(Rate::UNITS.parse("2.5Gbit/s"), Ok(2_500_000_000));
        assert_eq!(Size::UNITS.parse(" 64 KiB "), Ok(65_536));
        assert_eq!(Size::UNITS.parse("1.5 KiB"), Ok(1_536));
        assert_eq!(Size::UNITS.parse("9 kB"), Ok(9_000));
        assert_eq!(Nanos::UNITS.parse("0 ns"), Ok(0));
        assert_eq!(Nanos::UNITS.parse("0.5 us"), Ok(500));
        assert_eq!(Nanos::UNITS.parse("18446744073709551615 ns"), Ok(u64::MAX));
        assert_eq!(PacketRate::UNITS.parse("14.88 Mpps"), Ok(14_880_000));
    }

    #[test]
    fn wrong_quantities_are_told_apart() {
        let rate = Rate::UNITS;
        assert_eq!(problem(rate, "10"), (ErrorKind::WrongUnit, "has no unit; write it as in \"10 Mbit/s\"".to_owned()));
        assert_eq!(
            problem(rate, "10 mbit/s"),
            (
                ErrorKind::WrongUnit,
                "has the unit \"mbit/s\", which a rate cannot have; did you mean Mbit/s?".to_owned()
            )
        );
        assert_eq!(problem(rate, "10 ms").0, ErrorKind::WrongUnit);
        assert_eq!(problem(rate, "fast").0, ErrorKind::Malformed);
        assert_eq!(problem(rate, "-1 bit/s").0, ErrorKind::Malformed);
        assert_eq!(problem(rate, "1.2.3 bit/s").0, ErrorKind::Malformed);
        assert_eq!(problem(rate, "1. bit/s").0, ErrorKind::Malformed);
        assert_eq!(problem(rate, "0.5 bit/s").1, "is no whole number of bit/s; ");
        assert_eq!(problem(Nanos::UNITS, "18446744073709551616 ns").0, ErrorKind::OutOfRange);
        assert_eq!(problem(Nanos::UNITS, "99999999999999999999 d").0, ErrorKind::OutOfRange);
    }

    #[test]
    fn quantities_print_in_the_largest_whole_unit() {
        assert_eq!(Rate::new(10_000_000).to_string(), "10 Mbit/s");
        assert_eq!(Rate::new(10_000_001).to_string(), "10000001 bit/s");
        assert_eq!(Size::new(65_536).to_string(), "64 KiB");
        assert_eq!(Nanos::new(0).to_string(), "0 ns");
        assert_eq!(Nanos::new(120_000_000_000).to_string(), "2 min");
        assert_eq!(PacketRate::new(1_500).to_string(), "1500 pps");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(amount: u64) {
            for units in [Rate::UNITS, PacketRate::UNITS, Nanos::UNITS, Size::UNITS] {
                prop_assert_eq!(units.parse(&units.format(amount)), Ok(amount));
            }
        }

        #[test]
        fn any_text_is_answered(text in "[0-9.]{0,30} ?.{0,8}") {
            let _ = Nanos::UNITS.parse(&text);
        }
    }
}
