//! Values where all that there is is text: columns of a file, arguments of a request.

use crate::check::{Context, check};
use crate::error::{ErrorKind, Errors};
use crate::path::Path;
use crate::place::Place;
use crate::scalar::Malformed;
use crate::setting::Setting;
use crate::types::{Length, Type};
use crate::value::Value;

impl Type {
    /// Reads a value of this type, or the values of a list of this type, from one text each: numbers in decimal digits, `true` and `false`, all
    /// else as a script has it between quotes. Names of other declarations are taken as they are. Each text that is wrong goes to `wrong`, with
    /// what is wrong with it, and then there is no value.
    pub fn read_texts<'t, T: Setting>(
        &self,
        texts: impl Iterator<Item = &'t str> + Clone,
        mut wrong: impl FnMut(&'t str, Malformed),
    ) -> Option<T> {
        let Type::List { of, .. } = self else {
            let text = texts.clone().next()?;
            return self.read_one(text).map_err(|malformed| wrong(text, malformed)).ok();
        };
        let mut values = Vec::with_capacity(1);
        let mut is_right = true;
        for text in texts.clone() {
            match of.text_as_value(text) {
                Ok(value) => values.push(value),
                Err(malformed) => {
                    wrong(text, malformed);
                    is_right = false;
                }
            }
        }
        let read = if is_right { T::read(&Value::List(values)) } else { None };
        // Texts with a form of their own are looked at once more only where one of them is wrong.
        if let (None, true, Type::Scalar(scalar)) = (&read, is_right, &**of) {
            texts.for_each(|text| drop((scalar.canonical)(text).map_err(|malformed| wrong(text, malformed))));
        }
        read
    }

    /// Reads a value that is no list.
    fn read_one<T: Setting>(&self, text: &str) -> Result<T, Malformed> {
        let wrong = || Malformed::because("is wrong");
        match self {
            Type::Scalar(scalar) => {
                T::read_text(text).ok_or_else(|| (scalar.canonical)(text).err().unwrap_or_else(wrong))
            }
            one => T::read(&one.text_as_value(text)?).ok_or_else(wrong),
        }
    }

    /// The type of one text: that of entries, where this is a list.
    pub fn of_each(&self) -> &Type {
        match self {
            Type::List { of, .. } => of,
            one => one,
        }
    }

    fn text_as_value(&self, text: &str) -> Result<Value, Malformed> {
        match self {
            Type::Integer { min, max } => {
                let hexadecimal = text.strip_prefix("0x");
                let digits = hexadecimal.or_else(|| text.strip_prefix('-')).unwrap_or(text);
                let is_digit = if hexadecimal.is_some() { u8::is_ascii_hexdigit } else { u8::is_ascii_digit };
                let is_number = !digits.is_empty() && digits.bytes().all(|byte| is_digit(&byte));
                let not = || Malformed::because(format!("is not {}", self.expected()));
                let number = hexadecimal.map_or_else(|| text.parse(), |digits| i64::from_str_radix(digits, 16));
                match number.ok().filter(|_| is_number) {
                    Some(number) if (min..=max).contains(&&number) => Ok(Value::Integer(number)),
                    None if !is_number => Err(not()),
                    _ => Err(Malformed { kind: ErrorKind::OutOfRange, ..not() }),
                }
            }
            Type::Number { .. } => self.checked(text.parse().map_or_else(|_| Value::from(text), Value::Number)),
            Type::Bool => self.checked(text.parse::<bool>().map_or_else(|_| Value::from(text), Value::from)),
            Type::Text { length, pattern: None } if *length == Length::ANY => Ok(Value::from(text)),
            // Whoever reads it looks at it.
            Type::Scalar(_) | Type::Reference { .. } => Ok(Value::from(text)),
            _ => self.checked(Value::from(text)),
        }
    }

    fn checked(&self, value: Value) -> Result<Value, Malformed> {
        let mut errors = Errors::new();
        let checked = check(self, &value, &Place::line("", 0), &Path::root(""), &Context::new(), &mut errors);
        checked.ok_or_else(|| match errors.into_result(()) {
            Err(errors) => errors.into_iter().next().map_or_else(
                || Malformed::because("is wrong"),
                |error| Malformed { kind: error.kind, ..Malformed::because(error.problem).remedy(error.remedy) },
            ),
            Ok(()) => Malformed::because("is wrong"),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::quantity::Rate;
    use crate::setting::{OneOrMany, Ranged};

    fn read<T: Setting>(holds: &Type, texts: &[&str]) -> Result<T, Vec<String>> {
        let mut wrong = Vec::new();
        let read = holds.read_texts(texts.iter().copied(), |text, malformed| {
            wrong.push(format!("{text}: {:?} {}", malformed.kind, malformed.problem));
        });
        read.ok_or(wrong)
    }

    #[test]
    fn texts_are_read_as_the_type_says() {
        let number = u16::within(u16::describe(), 1..=4094);
        assert_eq!(read::<u16>(&number, &["4094"]), Ok(4094));
        assert_eq!(read::<u16>(&number, &["0xFfe"]), Ok(4094), "as a script may write it");
        for text in ["", "+1", "x", "1.5", " 1", "-", "0x", "0x+1", "-0x1", "0xg", "ff"] {
            let told = vec![format!("{text}: Malformed is not an integer from 1 to 4094")];
            assert_eq!(read::<u16>(&number, &[text]), Err(told));
        }
        for text in ["0", "4095", "-1", "99999999999999999999", "0x1000", "0xffffffffffffffffff"] {
            let told = vec![format!("{text}: OutOfRange is not an integer from 1 to 4094")];
            assert_eq!(read::<u16>(&number, &[text]), Err(told));
        }
        assert_eq!(read::<Option<u16>>(&number, &["7"]), Ok(Some(7)));
        assert_eq!(read::<bool>(&bool::describe(), &["true"]), Ok(true));
        assert!(read::<bool>(&bool::describe(), &["yes"]).is_err());
        assert_eq!(read::<f64>(&f64::describe(), &["1.5"]), Ok(1.5));
        assert_eq!(read::<Rate>(&Rate::describe(), &["10 Mbit/s"]), Ok(Rate::new(10_000_000)));
        assert!(read::<Rate>(&Rate::describe(), &["10"]).is_err());
        assert_eq!(read::<String>(&String::describe(), &["10"]), Ok("10".to_owned()));
    }

    #[test]
    fn every_wrong_text_of_a_list_is_told() {
        let holds = OneOrMany::<Ipv4Addr>::describe();
        let address = Ipv4Addr::new(192, 0, 2, 1);
        assert_eq!(read::<OneOrMany<Ipv4Addr>>(&holds, &["192.0.2.1", "192.0.2.1"]), Ok(OneOrMany(vec![address; 2])));
        assert_eq!(read::<OneOrMany<Ipv4Addr>>(&holds, &[]), Ok(OneOrMany(vec![])));
        let told = ["192.0.2: Malformed is not an IPv4 address", "x: Malformed is not an IPv4 address"];
        let wrong = read::<OneOrMany<Ipv4Addr>>(&holds, &["192.0.2", "192.0.2.1", "x"]);
        assert_eq!(wrong, Err(told.map(str::to_owned).to_vec()));
        assert_eq!(read::<Ipv4Addr>(&Ipv4Addr::describe(), &["x"]), Err(vec![told[1].to_owned()]));
    }
}
