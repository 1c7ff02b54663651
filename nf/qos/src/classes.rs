//! What a subport may send of its traffic classes, as requests say it.

use std::fmt;

use weir_config::{ErrorKind, Malformed, Nanos, Quantity, Rate, Scalar, scalar};
use weir_sched::class::MAX_CLASSES;
use weir_sched::config::{LEAST, LONGEST, MOST, SHORTEST, SubportClassConfig};

/// What the users of a subport may send of one class together: `0=100 Mbit/s`, or `0=100 Mbit/s,5 ms` with the time over which that holds, or
/// `0=none` for as much as of all; and what the class is guaranteed before that, if anything: `0=20 Mbit/s..100 Mbit/s`, or `0=20 Mbit/s..none`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ClassRate {
    pub(crate) class: u8,
    /// Nothing where it is not said.
    guarantee: Option<Rate>,
    /// None for `none`.
    rate: Option<Rate>,
    /// As it was, or the usual one, where it is not said.
    period: Option<Nanos>,
}

impl fmt::Display for ClassRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.class, rates(self.guarantee, self.rate))?;
        self.period.map_or(Ok(()), |period| write!(f, ",{period}"))
    }
}

/// What a class is guaranteed, if anything, and its rate.
pub(crate) fn rates(guarantee: Option<Rate>, rate: Option<Rate>) -> String {
    let rate = rate.map_or_else(|| NONE.to_owned(), |rate| rate.to_string());
    guarantee.map_or(rate.clone(), |guarantee| format!("{guarantee}..{rate}"))
}

/// No rate.
const NONE: &str = "none";

impl Scalar for ClassRate {
    const WHAT: &'static str = "a class and its rate (\"0=100 Mbit/s\", \"0=100 Mbit/s,5 ms\" with its period, \"0=20 Mbit/s..100 Mbit/s\" with what it is guaranteed, or \"0=none\")";
    const EXAMPLE: &'static str = "0=100 Mbit/s";

    fn parse(text: &str) -> Result<Self, Malformed> {
        let (class, said) = text.split_once('=').ok_or_else(Malformed::not::<Self>)?;
        let class = class.trim().parse().map_err(|_| Malformed::not::<Self>())?;
        if usize::from(class) >= MAX_CLASSES {
            return Err(beyond(
                format!("has a class beyond {}", MAX_CLASSES - 1),
                "classes are 0 to 7, the highest first",
            ));
        }
        let (rates, period) = said.split_once(',').map_or((said, None), |(rates, period)| (rates, Some(period)));
        let (guarantee, rate) = rates.split_once("..").unwrap_or((NONE, rates));
        let (guarantee, rate) = (rate_of("guarantee", guarantee)?, rate_of("rate", rate)?);
        let period = period.map(|period| quantity::<Nanos>("period", period.trim())).transpose()?;
        if period.is_some() && guarantee.or(rate).is_none() {
            return Err(Malformed::not::<Self>());
        }
        if let Some(period) = period.filter(|period| !(SHORTEST..=LONGEST).contains(period)) {
            let remedy = format!("give one from {SHORTEST} to {LONGEST}");
            return Err(beyond(format!("has a period out of range: {period}"), &remedy));
        }
        Ok(ClassRate { class, guarantee, rate, period })
    }
}

scalar!(ClassRate);

/// A rate, or none.
fn rate_of(what: &str, text: &str) -> Result<Option<Rate>, Malformed> {
    if text.trim() == NONE {
        return Ok(None);
    }
    let rate = quantity::<Rate>(what, text.trim())?;
    match (LEAST..=MOST).contains(&rate) {
        true => Ok(Some(rate)),
        false => Err(beyond(format!("has a {what} out of range: {rate}"), &format!("give one from {LEAST} to {MOST}"))),
    }
}

/// A rate or a period; what is wrong with it names it.
fn quantity<Q: Quantity>(what: &str, text: &str) -> Result<Q, Malformed> {
    let told = |wrong: Malformed| Malformed {
        problem: format!("has a {what}, {text:?}, that {}", wrong.problem),
        instead: None,
        ..wrong
    };
    Q::UNITS.parse(text).map(Q::from_base).map_err(told)
}

fn beyond(problem: String, remedy: &str) -> Malformed {
    Malformed { kind: ErrorKind::OutOfRange, ..Malformed::because(problem).remedy(remedy) }
}

impl ClassRate {
    /// What counts for each class that has a rate, or is guaranteed anything.
    pub(crate) fn all(classes: &[SubportClassConfig]) -> Vec<ClassRate> {
        let one = |(class, config): (u8, &SubportClassConfig)| {
            let SubportClassConfig { tc_rate: rate, tc_guarantee: guarantee, tc_period: period } = *config;
            let says = rate.is_some() || guarantee.is_some();
            says.then_some(ClassRate { class, guarantee, rate, period: Some(period) })
        };
        (0..).zip(classes).filter_map(one).collect()
    }

    /// The same, and of each other class below so many that it has none.
    pub(crate) fn each(classes: &[SubportClassConfig], number: u8) -> Vec<ClassRate> {
        let all = ClassRate::all(classes);
        let of = |class| all.iter().find(|one| one.class == class).copied();
        (0..number)
            .map(|class| of(class).unwrap_or(ClassRate { class, guarantee: None, rate: None, period: None }))
            .collect()
    }

    /// What counts for classes once this has been said of some of them; the others stay as they were.
    ///
    /// # Errors
    ///
    /// A class of which two things are said, or which is not among those of the scheduler.
    pub(crate) fn over(
        before: &[SubportClassConfig],
        said: &[ClassRate],
        classes: u8,
    ) -> Result<Vec<SubportClassConfig>, String> {
        let mut all = before.to_vec();
        for (n, one) in said.iter().enumerate() {
            if one.class >= classes {
                let last = classes.saturating_sub(1);
                return Err(format!(
                    "classes: the scheduler has no class {}: name one from 0 to {last}, or raise scheduler.classes, and `weir reload`",
                    one.class
                ));
            }
            if said.iter().take(n).any(|other| other.class == one.class) {
                return Err(format!("classes: class {} is given twice: leave one out", one.class));
            }
            all.resize(all.len().max(usize::from(one.class) + 1), SubportClassConfig::OPEN);
            if let Some(class) = all.get_mut(usize::from(one.class)) {
                let tc_period = one.period.unwrap_or(class.tc_period);
                *class = SubportClassConfig { tc_rate: one.rate, tc_guarantee: one.guarantee, tc_period };
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(texts: &[&str]) -> Vec<ClassRate> {
        texts.iter().map(|text| ClassRate::parse(text).unwrap()).collect()
    }

    #[test]
    fn what_is_written_is_read_back() {
        for (text, written) in [
            ("0=100Mbit/s", "0=100 Mbit/s"),
            ("7 = 1 Gbit/s , 5ms", "7=1 Gbit/s,5 ms"),
            ("3=none", "3=none"),
            ("1=20Mbit/s .. 100Mbit/s", "1=20 Mbit/s..100 Mbit/s"),
            ("1=20Mbit/s..none,5ms", "1=20 Mbit/s..none,5 ms"),
            ("1=none..1 Mbit/s", "1=1 Mbit/s"),
        ] {
            let read = ClassRate::parse(text).unwrap();
            assert_eq!((read.to_string().as_str(), ClassRate::parse(written)), (written, Ok(read)));
        }
        for text in [
            "",
            "0",
            "0=",
            "a=1 Mbit/s",
            "8=1 Mbit/s",
            "0=1",
            "0=1 kbit/s",
            "0=1 Mbit/s,1 ns",
            "0=none,1 ms",
            "0=none..none,1 ms",
            "0=1 Mbit/s..",
            "0=..1 Mbit/s",
            "0=1 kbit/s..none",
            "0=1 Mbit/s,",
        ] {
            assert!(ClassRate::parse(text).is_err(), "{text}");
        }
        let told = ClassRate::parse("0=1 kbit/s").unwrap_err();
        assert_eq!(
            (told.problem.as_str(), told.remedy.as_str()),
            ("has a rate out of range: 1 kbit/s", "give one from 8 kbit/s to 1 Tbit/s")
        );
    }

    #[test]
    fn what_is_said_of_some_classes_leaves_the_others() {
        let before = ClassRate::over(&[], &said(&["0=1 Mbit/s,5 ms", "2=3 Mbit/s"]), 4).unwrap();
        let texts =
            |all: &[SubportClassConfig]| ClassRate::all(all).iter().map(ClassRate::to_string).collect::<Vec<_>>();
        assert_eq!(texts(&before), ["0=1 Mbit/s,5 ms", "2=3 Mbit/s,10 ms"]);
        let after = ClassRate::over(&before, &said(&["0=2 Mbit/s", "2=none", "3=9 Mbit/s"]), 4).unwrap();
        assert_eq!(texts(&after), ["0=2 Mbit/s,5 ms", "3=9 Mbit/s,10 ms"]);
        // Said again over anything else, all that counts is the same.
        let again = ClassRate::over(&before, &ClassRate::each(&after, 4), 4).unwrap();
        assert_eq!(texts(&again), texts(&after));
    }

    #[test]
    fn classes_that_are_not_there_or_are_said_twice_are_told() {
        let told = |texts: &[&str]| ClassRate::over(&[], &said(texts), 2).unwrap_err();
        assert!(told(&["2=1 Mbit/s"]).contains("no class 2: name one from 0 to 1"));
        assert!(told(&["1=1 Mbit/s", "1=none"]).contains("class 1 is given twice"));
    }
}
