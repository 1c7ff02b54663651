//! What a subport may send of its traffic classes, as requests say it.

use std::fmt;

use weir_config::{ErrorKind, Malformed, Nanos, Quantity, Rate, Scalar, scalar};
use weir_sched::class::MAX_CLASSES;
use weir_sched::config::{LEAST, LONGEST, MOST, SHORTEST, SubportClassConfig};

/// What the users of a subport may send of one class together: `0=100 Mbit/s`, or `0=100 Mbit/s,5 ms` with the time over which that holds, or
/// `0=none` for as much as of all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ClassRate {
    pub(crate) class: u8,
    /// None for `none`.
    rate: Option<Rate>,
    /// As it was, or the usual one, where it is not said.
    period: Option<Nanos>,
}

impl fmt::Display for ClassRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rate {
            Some(rate) => write!(f, "{}={rate}", self.class)?,
            None => write!(f, "{}=none", self.class)?,
        }
        self.period.map_or(Ok(()), |period| write!(f, ",{period}"))
    }
}

impl Scalar for ClassRate {
    const WHAT: &'static str =
        "a class and its rate (\"0=100 Mbit/s\", \"0=100 Mbit/s,5 ms\" with its period, or \"0=none\")";
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
        let (rate, period) = said.split_once(',').map_or((said, None), |(rate, period)| (rate, Some(period)));
        let (rate, period) = (rate.trim(), period.map(str::trim));
        if rate == "none" && period.is_none() {
            return Ok(ClassRate { class, rate: None, period: None });
        }
        let rate = quantity::<Rate>("rate", rate)?;
        let period = period.map(|period| quantity::<Nanos>("period", period)).transpose()?;
        if !(LEAST..=MOST).contains(&rate) {
            return Err(beyond(
                format!("has a rate out of range: {rate}"),
                &format!("give one from {LEAST} to {MOST}"),
            ));
        }
        if let Some(period) = period.filter(|period| !(SHORTEST..=LONGEST).contains(period)) {
            let remedy = format!("give one from {SHORTEST} to {LONGEST}");
            return Err(beyond(format!("has a period out of range: {period}"), &remedy));
        }
        Ok(ClassRate { class, rate: Some(rate), period })
    }
}

scalar!(ClassRate);

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
    /// What counts for each class that has a rate.
    pub(crate) fn all(classes: &[SubportClassConfig]) -> Vec<ClassRate> {
        let one = |(class, config): (u8, &SubportClassConfig)| {
            config.tc_rate.map(|rate| ClassRate { class, rate: Some(rate), period: Some(config.tc_period) })
        };
        (0..).zip(classes).filter_map(one).collect()
    }

    /// The same, and of each other class below so many that it has none.
    pub(crate) fn each(classes: &[SubportClassConfig], number: u8) -> Vec<ClassRate> {
        let all = ClassRate::all(classes);
        let of = |class| all.iter().find(|one| one.class == class).copied();
        (0..number).map(|class| of(class).unwrap_or(ClassRate { class, rate: None, period: None })).collect()
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
                *class = SubportClassConfig { tc_rate: one.rate, tc_period: one.period.unwrap_or(class.tc_period) };
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
        for (text, written) in
            [("0=100Mbit/s", "0=100 Mbit/s"), ("7 = 1 Gbit/s , 5ms", "7=1 Gbit/s,5 ms"), ("3=none", "3=none")]
        {
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
