//! The functions of the library that work long on one call, so that what they do is bounded like instructions.
#![forbid(unsafe_code)]

use mlua::{Error, Lua, LuaString, MultiValue, Result, Table, Value};

use crate::message::LIBRARY;
use crate::pattern::{Captured, Match, Matcher, Stop, is_pattern};
use crate::work::Work;

/// Puts the bounded functions in place of the library's own.
pub(crate) fn bound(lua: &Lua, work: &Work) -> Result<()> {
    let string: Table = lua.globals().get("string")?;
    let searching = |find: bool| {
        let work = work.clone();
        lua.create_function(move |lua, arguments: MultiValue| {
            let call = Call { lua, name: if find { "find" } else { "match" }, arguments, work: &work };
            call.search(find)
        })
    };
    string.raw_set("find", searching(true)?)?;
    string.raw_set("match", searching(false)?)?;
    let ours = work.clone();
    let gsub = move |lua: &Lua, arguments: MultiValue| Call { lua, name: "gsub", arguments, work: &ours }.substitute();
    string.raw_set("gsub", lua.create_function(gsub)?)?;
    let ours = work.clone();
    let scan = move |lua: &Lua, arguments: MultiValue| Call { lua, name: "gmatch", arguments, work: &ours }.scan();
    let ours = work.clone();
    let charge = move |_: &Lua, bytes: u64| if ours.take_bytes(bytes) { Ok(()) } else { Err(spent()) };
    let (charge, scan) = (lua.create_function(charge)?, lua.create_function(scan)?);
    lua.load(include_str!("library.lua")).set_name(format!("={LIBRARY}")).call::<()>((charge, scan))
}

/// That a function did more than the script may do.
fn spent() -> Error {
    Error::runtime("is still running; look for an endless loop, long texts, or a pattern that repeats in many ways")
}

/// A call of one of the functions.
struct Call<'a> {
    lua: &'a Lua,
    name: &'static str,
    arguments: MultiValue,
    work: &'a Work,
}

impl Call<'_> {
    fn wrong(&self, n: usize, expected: &str) -> Error {
        let got = self.arguments.get(n - 1).map_or("no value", Value::type_name);
        Error::runtime(format!("bad argument #{n} to '{}' ({expected} expected, got {got})", self.name))
    }

    /// The n-th argument as a text, counted from 1.
    fn text(&self, n: usize) -> Result<LuaString> {
        let text = self.arguments.get(n - 1).map(|value| self.lua.coerce_string(value.clone())).transpose()?;
        text.flatten().ok_or_else(|| self.wrong(n, "string"))
    }

    /// The n-th argument as a number, if it is there.
    fn number(&self, n: usize) -> Result<Option<i64>> {
        match self.arguments.get(n - 1) {
            None | Some(Value::Nil) => Ok(None),
            // As the library does it: what lies between two whole numbers is cut.
            Some(value) => match self.lua.coerce_number(value.clone())? {
                Some(number) => Ok(Some(number as i64)),
                None => Err(self.wrong(n, "number")),
            },
        }
    }

    /// Looks for a match, and takes what that cost.
    fn look(&self, matcher: &mut Matcher<'_>, find: impl FnOnce(&mut Matcher<'_>) -> Looked) -> Result<Option<Match>> {
        let before = matcher.left;
        let found = find(matcher);
        self.work.take(before.saturating_sub(matcher.left));
        found.map_err(|stop| self.told(stop))
    }

    fn told(&self, stop: Stop) -> Error {
        match stop {
            Stop::Spent => {
                self.work.take(u64::MAX);
                spent()
            }
            Stop::Wrong(problem) => Error::runtime(problem),
        }
    }

    /// A capture, as the script gets it.
    fn value(&self, found: &Match, n: usize, text: &[u8]) -> Result<Value> {
        match found.capture(n).map_err(|stop| self.told(stop))? {
            Captured::Position(at) => Ok(Value::Integer(i64::try_from(at).unwrap_or(i64::MAX).saturating_add(1))),
            Captured::Text(from, to) => {
                self.copied(to - from)?;
                Ok(Value::String(self.lua.create_string(text.get(from..to).unwrap_or_default())?))
            }
        }
    }

    /// Takes what copying so many bytes costs.
    fn copied(&self, bytes: usize) -> Result<()> {
        if self.work.take_bytes(u64::try_from(bytes).unwrap_or(u64::MAX)) { Ok(()) } else { Err(spent()) }
    }

    fn values(&self, found: &Match, whole: bool, text: &[u8], into: &mut MultiValue) -> Result<()> {
        (0..found.count(whole)).try_for_each(|n| {
            into.push_back(self.value(found, n, text)?);
            Ok(())
        })
    }

    /// `string.find` and `string.match`.
    fn search(&self, find: bool) -> Result<MultiValue> {
        let (text, pattern) = (self.text(1)?, self.text(2)?);
        let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
        let from = start(self.number(3)?, text.len());
        let plain = find && (self.arguments.get(3).is_some_and(truth) || !is_pattern(&pattern));
        let mut matcher = Matcher::new(&text, &pattern, self.work.left());
        let found =
            self.look(&mut matcher, |matcher| if plain { matcher.plain(from) } else { matcher.search(from, true) })?;
        let mut answer = MultiValue::new();
        let Some(found) = found else {
            answer.push_back(Value::Nil);
            return Ok(answer);
        };
        if find {
            let place = |at: usize| Value::Integer(i64::try_from(at).unwrap_or(i64::MAX));
            answer.push_back(place(found.start + 1));
            answer.push_back(place(found.end));
        }
        self.values(&found, !find, &text, &mut answer)?;
        Ok(answer)
    }

    /// One step of `string.gmatch`: where the next one begins, and what was captured; nothing at the end.
    fn scan(&self) -> Result<MultiValue> {
        let (text, pattern) = (self.text(1)?, self.text(2)?);
        let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
        let from = start(self.number(3)?, usize::MAX);
        let mut matcher = Matcher::new(&text, &pattern, self.work.left());
        let found = self.look(&mut matcher, |matcher| matcher.search(from, false))?;
        let mut answer = MultiValue::new();
        if let Some(found) = found {
            // An empty match must not come again.
            let next = found.end + usize::from(found.end == found.start);
            answer.push_back(Value::Integer(i64::try_from(next).unwrap_or(i64::MAX).saturating_add(1)));
            self.values(&found, true, &text, &mut answer)?;
        }
        Ok(answer)
    }

    /// `string.gsub`.
    fn substitute(&self) -> Result<(LuaString, i64)> {
        let (text, pattern) = (self.text(1)?, self.text(2)?);
        let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
        let by = match self.arguments.get(2) {
            Some(by @ (Value::Table(_) | Value::Function(_))) => by.clone(),
            Some(Value::String(_) | Value::Integer(_) | Value::Number(_)) => Value::String(self.text(3)?),
            _ => return Err(self.wrong(3, "string/function/table")),
        };
        let most = self.number(4)?.unwrap_or(i64::MAX);
        let (mut made, mut count, mut at) = (Vec::new(), 0, 0);
        while count < most {
            let mut matcher = Matcher::new(&text, &pattern, self.work.left());
            let found = self.look(&mut matcher, |matcher| matcher.at(at, true))?;
            let end = found.as_ref().map_or(at, |found| found.end);
            if let Some(found) = &found {
                count += 1;
                self.replace(found, &by, &text, &mut made)?;
            }
            if end > at {
                at = end;
            } else if let Some(byte) = text.get(at) {
                made.push(*byte);
                at += 1;
            } else {
                break;
            }
            if pattern.first() == Some(&b'^') {
                break;
            }
        }
        self.add(&mut made, text.get(at..).unwrap_or_default())?;
        Ok((self.lua.create_string(&made)?, count))
    }

    fn add(&self, made: &mut Vec<u8>, bytes: &[u8]) -> Result<()> {
        if made.len().saturating_add(bytes.len()) > self.work.longest {
            return Err(Error::MemoryError("the text is too long".to_owned()));
        }
        self.copied(bytes.len())?;
        made.extend_from_slice(bytes);
        Ok(())
    }

    /// Adds what stands in place of a match.
    fn replace(&self, found: &Match, by: &Value, text: &[u8], made: &mut Vec<u8>) -> Result<()> {
        let value = match by {
            Value::String(by) => return self.fill_in(found, &by.as_bytes(), text, made),
            Value::Table(table) => table.get::<Value>(self.value(found, 0, text)?)?,
            Value::Function(function) => {
                let mut arguments = MultiValue::new();
                self.values(found, true, text, &mut arguments)?;
                function.call::<Value>(arguments)?
            }
            _ => Value::Nil,
        };
        match value {
            Value::Nil | Value::Boolean(false) => self.add(made, text.get(found.start..found.end).unwrap_or_default()),
            Value::String(_) | Value::Integer(_) | Value::Number(_) => {
                let value = self.lua.coerce_string(value)?;
                value.map_or(Ok(()), |value| self.add(made, &value.as_bytes()))
            }
            other => Err(Error::runtime(format!("invalid replacement value (a {})", other.type_name()))),
        }
    }

    /// A text with `%1` and the like in it, which stand for captures.
    fn fill_in(&self, found: &Match, by: &[u8], text: &[u8], made: &mut Vec<u8>) -> Result<()> {
        let mut bytes = by.iter();
        while let Some(byte) = bytes.next() {
            // At the end the library finds the zero behind its text.
            let byte = if *byte == b'%' {
                bytes.next().copied().unwrap_or_default()
            } else {
                self.add(made, &[*byte])?;
                continue;
            };
            match byte {
                b'0' => self.add(made, text.get(found.start..found.end).unwrap_or_default())?,
                b'1'..=b'9' => match found.capture(usize::from(byte - b'1')).map_err(|stop| self.told(stop))? {
                    Captured::Text(from, to) => self.add(made, text.get(from..to).unwrap_or_default())?,
                    Captured::Position(at) => self.add(made, (at + 1).to_string().as_bytes())?,
                },
                other => self.add(made, &[other])?,
            }
        }
        Ok(())
    }
}

type Looked = std::result::Result<Option<Match>, Stop>;

fn truth(value: &Value) -> bool {
    !matches!(value, Value::Nil | Value::Boolean(false))
}

/// Where a search begins, counted from 0: from 1 at the front, from -1 at the back.
fn start(number: Option<i64>, length: usize) -> usize {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let at = match number.unwrap_or(1) {
        back @ ..0 => length.saturating_add(back),
        front => front - 1,
    };
    usize::try_from(at.clamp(0, length)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
