//! What was added at run time, as a piece of configuration.

use std::fmt::Write;

use serde_json::Value;
use weir_stage::{Saved, ShowRows, Verb};

/// What was added to one function.
pub(crate) struct Part {
    /// The function's name.
    pub(crate) name: String,
    /// What adds to it: an entry's key is the first argument of the change that would add it again.
    pub(crate) verbs: &'static [Verb],
    /// What was added.
    pub(crate) entries: Box<dyn ShowRows<Saved>>,
}

/// Before the entries. LuaJIT has room for 65,536 constants in one function, so that each piece is a function of its own.
const HEAD: &str = r#"-- Added at run time, as written by `weir save`. To keep it, put the entries into the configuration, or write
--   local added = include "FILE.lua"
-- there and use, for example, added["NAME"].KEY.
local added = {}

local function of(...)
  local at = added
  for _, key in ipairs { ... } do
    at[key] = at[key] or {}
    at = at[key]
  end
  return at
end

local function entries(all, piece)
  for at, entry in pairs(piece()) do all[at] = entry end
end

local function items(all, piece)
  for _, item in ipairs(piece()) do all[#all + 1] = item end
end

"#;

/// The key of interfaces, which are declared beside functions.
const INTERFACE: &str = "interface";

/// After the entries: a script that was cut off returns nothing.
const TAIL: &str = "return added\n";

/// A script that returns what was added: by the function's name, by the key of its configuration, entry by entry. It comes in
/// pieces, each as long as a piece of entries makes it.
pub(crate) struct Script {
    parts: std::vec::IntoIter<Part>,
    state: State,
}

/// What comes next of a script.
enum State {
    Head,
    Part(Part),
    Tail,
    End,
}

impl Script {
    /// The script of some functions.
    pub(crate) fn new(parts: Vec<Part>) -> Script {
        Script { parts: parts.into_iter(), state: State::Head }
    }

    /// Goes on with the next function.
    fn next_part(&mut self) {
        self.state = self.parts.next().map_or(State::Tail, State::Part);
    }
}

impl Iterator for Script {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        loop {
            match &mut self.state {
                State::Head => {
                    self.next_part();
                    return Some(HEAD.to_owned());
                }
                State::Part(part) => {
                    let entries = part.entries.piece();
                    if !entries.is_empty() {
                        return Some(calls(part, &entries));
                    }
                    self.next_part();
                }
                State::Tail => {
                    self.state = State::End;
                    return Some(TAIL.to_owned());
                }
                State::End => return None,
            }
        }
    }
}

/// A piece of entries: a call for each run of those of one key.
fn calls(part: &Part, entries: &[Saved]) -> String {
    let mut text = String::new();
    let is_alike = |one: &Saved, next: &Saved| path(one) == path(next) && is_item(one) == is_item(next);
    for run in entries.chunk_by(is_alike) {
        let Some(first) = run.first() else { continue };
        let word = if is_item(first) { "items" } else { "entries" };
        let keys = [part.name.as_str()].into_iter().chain(path(first)).map(quoted);
        let keys = keys.collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "{word}(of({keys}), function() return {{");
        run.iter().for_each(|change| text.extend(["  ", &entry(change, part), ",\n"]));
        text.push_str("} end)\n\n");
    }
    text
}

/// Whether it stands in a list.
fn is_item(change: &Saved) -> bool {
    change.entry.is_some() && change.under.is_none()
}

/// The keys of the configuration that lead to where an entry stands.
fn path(change: &Saved) -> Vec<&str> {
    let table = change.within.and_then(|within| Some([within.key, change.arguments.get(within.argument)?.as_str()?]));
    table.into_iter().flatten().chain(change.key.split('.')).collect()
}

/// `["10.0.0.0/8"] = "192.0.2.1"`, or an item of a list.
fn entry(change: &Saved, part: &Part) -> String {
    if let Some(item) = &change.entry {
        let key = change.under.as_deref().map(|key| format!("[{}] = ", quoted(key)));
        return key.unwrap_or_default() + &lua(&declared(item.clone(), &change.key, &part.name));
    }
    let verb = part.verbs.iter().find(|verb| verb.name() == change.verb);
    let said = change.within.map(|within| within.argument);
    let arguments = verb.map_or(&[][..], |verb| verb.arguments).iter();
    let mut arguments = arguments.filter(|argument| Some(argument.name) != said).filter_map(|argument| {
        let value = change.arguments.get(argument.name)?;
        (!value.is_null()).then_some(value)
    });
    let key = arguments.next().map_or_else(String::new, lua);
    let values: Vec<String> = arguments.map(lua).collect();
    match values.as_slice() {
        [] => key,
        [one] => format!("[{key}] = {one}"),
        several => format!("[{key}] = {{ {} }}", several.join(", ")),
    }
}

/// An item as its key is declared: what stands beside functions, as interfaces do, says whose it is, for several may share a port.
fn declared(mut item: Value, key: &str, function: &str) -> Value {
    if let Some(table) = item.as_object_mut().filter(|_| key == INTERFACE) {
        table.insert("of".to_owned(), function.into());
    }
    item
}

/// A value as Lua source; a list of one as that one.
fn lua(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(list) => match list.as_slice() {
            [one] => lua(one),
            several => format!("{{ {} }}", several.iter().map(lua).collect::<Vec<_>>().join(", ")),
        },
        Value::Null => "nil".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Object(table) => {
            let entries = table.iter().map(|(key, value)| format!("[{}] = {}", quoted(key), lua(value)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}

/// A text as Lua source: Lua's own value notation has the same escapes as the configuration's.
fn quoted(text: &str) -> String {
    weir_config::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::tests::ADD;
    use serde_json::json;
    use weir_stage::PIECE;

    fn saved(prefix: &str, via: &[&str]) -> Saved {
        let arguments = json!({ "prefix": prefix, "via": via });
        Saved { verb: "route add".into(), arguments, key: "routes".into(), entry: None, under: None, within: None }
    }

    fn part(name: &str, entries: Vec<Saved>) -> Part {
        Part { name: name.to_owned(), verbs: std::slice::from_ref(&ADD), entries: weir_stage::whole(entries) }
    }

    /// What stands between the beginning and the end.
    fn entries(parts: Vec<Part>) -> String {
        let text: String = Script::new(parts).collect();
        text.strip_prefix(HEAD).unwrap().strip_suffix(TAIL).unwrap().to_owned()
    }

    #[test]
    fn entries_are_lua() {
        let core = vec![saved("10.0.0.0/8", &["192.0.2.1"]), saved("::/0", &["a", "b\"\n"])];
        assert_eq!(
            entries(vec![part("core", core), part("idle", Vec::new())]),
            "entries(of(\"core\", \"routes\"), function() return {\n  [\"10.0.0.0/8\"] = \"192.0.2.1\",\n  \
             [\"::/0\"] = { \"a\", \"b\\\"\\n\" },\n} end)\n\n"
        );
    }

    #[test]
    fn an_item_of_a_list_is_written_as_it_stands_there() {
        let item = Saved { entry: Some(json!({ "svlan": 7, "ipv4": ["a", "b"] })), ..saved("", &[]) };
        let text = entries(vec![part("core", vec![saved("::/0", &["a"]), item])]);
        let call = "items(of(\"core\", \"routes\"), function() return {\n  { [\"ipv4\"] = { \"a\", \"b\" }, [\"svlan\"] = 7 },\n} end)";
        assert!(text.contains(call), "{text}");
    }

    #[test]
    fn an_interface_says_whose_it_is() {
        let item =
            Saved { entry: Some(json!({ "name": "a.7", "vlan": 7 })), key: "interface".to_owned(), ..saved("", &[]) };
        let text = entries(vec![part("core", vec![item])]);
        let call = "items(of(\"core\", \"interface\"), function() return {\n  { [\"name\"] = \"a.7\", [\"of\"] = \"core\", [\"vlan\"] = 7 },\n} end)";
        assert!(text.contains(call), "{text}");
    }

    #[test]
    fn an_entry_of_a_table_of_tables_stands_in_its_own() {
        let within = Some(weir_stage::Within { key: "vrfs", argument: "vrf" });
        let red =
            Saved { arguments: json!({ "prefix": "::/0", "via": ["a"], "vrf": "red" }), within, ..saved("", &[]) };
        assert_eq!(
            entries(vec![part("core", vec![saved("::/0", &["b"]), red])]),
            "entries(of(\"core\", \"routes\"), function() return {\n  [\"::/0\"] = \"b\",\n} end)\n\n\
             entries(of(\"core\", \"vrfs\", \"red\", \"routes\"), function() return {\n  [\"::/0\"] = \"a\",\n} end)\n\n"
        );
    }

    #[test]
    fn an_entry_that_is_a_table_stands_under_its_key() {
        let entry = Some(json!({ "ceil": "1 Gbit/s", "weight": 2 }));
        let key = "scheduler.subports".to_owned();
        let north = Saved { key, entry, under: Some("north".to_owned()), ..saved("", &[]) };
        assert_eq!(
            entries(vec![part("shaper", vec![north])]),
            "entries(of(\"shaper\", \"scheduler\", \"subports\"), function() return {\n  \
             [\"north\"] = { [\"ceil\"] = \"1 Gbit/s\", [\"weight\"] = 2 },\n} end)\n\n"
        );
    }

    #[test]
    fn a_long_one_comes_in_pieces_of_bounded_length() {
        let many = (0..3 * PIECE + 1).map(|n| saved(&format!("n{n}"), &["192.0.2.1"])).collect();
        let pieces: Vec<String> = Script::new(vec![part("core", many)]).collect();
        assert_eq!(pieces.len(), 1 + 4 + 1);
        let lines = |piece: &String| piece.lines().filter(|line| line.starts_with("  [")).count();
        assert_eq!(pieces[1..5].iter().map(lines).collect::<Vec<_>>(), [PIECE, PIECE, PIECE, 1]);
    }

    #[test]
    fn nothing_is_an_empty_table() {
        assert_eq!(entries(Vec::new()), "");
        assert_eq!(entries(vec![part("idle", Vec::new())]), "");
    }
}
