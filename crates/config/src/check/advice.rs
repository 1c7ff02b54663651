//! What to do about a mistake: advice that names a value is given only where that value would be right.

use super::{Checker, check};
use crate::error::Errors;
use crate::path::Path;
use crate::scalar::Malformed;
use crate::types::{EXAMPLE_NAME, NAME, Type};
use crate::value::Value;

impl Checker<'_> {
    /// What to write in place of a value of the wrong type: the same in the right one where that is right, else an example.
    pub(super) fn other_type(&self, holds: &Type, value: &Value, path: &Path<'_>) -> String {
        let meant = match (holds, value) {
            (Type::Integer { .. }, Value::Text(text)) => text.parse().map(Value::Integer).ok(),
            (Type::Number { .. }, Value::Text(text)) => text.parse().map(Value::Number).ok(),
            (Type::Bool, Value::Text(text)) => text.parse().map(Value::Bool).ok(),
            (Type::Text { .. }, Value::Integer(_) | Value::Number(_)) => Some(Value::text(value)),
            (Type::Integer { .. }, Value::Number(_)) => return "write a whole number".to_owned(),
            _ => None,
        };
        match (meant, value) {
            (None, _) => String::new(),
            (Some(meant), _) if !self.allows(holds, &meant, path) => self.such_as(holds),
            (Some(_), Value::Text(text)) => format!("write {text} without quotes"),
            (Some(meant), _) => format!("write {meant}"),
        }
    }

    /// The remedy of a type, if what it says to write would be right here.
    pub(super) fn remedy_of(&self, malformed: &Malformed, holds: &Type, path: &Path<'_>) -> String {
        let instead = malformed.instead.as_ref().map(Value::text);
        match instead.is_some_and(|instead| !self.allows(holds, &instead, path)) {
            true => self.such_as(holds),
            false => malformed.remedy.clone(),
        }
    }

    /// A value that is right here: names are those that are declared, or, to declare, one that is free.
    pub(super) fn example(&self, holds: &Type) -> Value {
        match holds {
            Type::Reference { kind } => Value::from(self.context.names(kind).next().unwrap_or(EXAMPLE_NAME)),
            Type::List { of, length, .. } => Value::List(vec![self.example(of); length.min.max(1)]),
            Type::Text { pattern: Some(pattern), .. } if pattern.what == NAME.what => {
                let taken = |name: &str| self.context.names.values().any(|names| names.contains(name));
                let mut names = (2_u32..).map(|n| format!("{}{n}", NAME.example));
                let free = if taken(NAME.example) { names.find(|name| !taken(name)) } else { None };
                Value::Text(free.unwrap_or_else(|| NAME.example.to_owned()))
            }
            _ => holds.example(),
        }
    }

    fn such_as(&self, holds: &Type) -> String {
        format!("write one that is allowed, such as {}", self.example(holds))
    }

    /// Whether nothing would be wrong with a value here.
    fn allows(&self, holds: &Type, value: &Value, path: &Path<'_>) -> bool {
        check(holds, value, self.place, path, self.context, &mut Errors::new()).is_some()
    }
}

/// What to do about a name that is declared nowhere and like none that is.
pub(super) fn undeclared(kind: &str, name: &str) -> String {
    if (NAME.matches)(name) {
        return format!("declare it with {kind} {{ name = {name:?}, ... }}");
    }
    format!("name one that is declared: {name:?} can not be, for it is not {}", NAME.what)
}

/// `did you mean X?`, or nothing.
pub(crate) fn did_you_mean(near: Option<&str>) -> String {
    near.map_or_else(String::new, |near| format!("did you mean {near}?"))
}
