//! What was added at run time, as a piece of configuration.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;
use weir_stage::{Saved, Verb};

/// What was added to each function, as a script that returns it: by the function's name, by the key of its configuration,
/// entry by entry. `verbs` tell which argument of a change is the entry's key: the first.
pub(crate) fn script(functions: &[(String, Vec<Saved>)], verbs: &[&Verb]) -> String {
    let mut text = String::from(
        "-- Added at run time, as written by `weir save`. To keep it, put the entries into the configuration, or write\n\
         --   local added = include \"FILE.lua\"\n\
         -- there and use, for example, added[\"NAME\"].KEY.\n\
         return {\n",
    );
    for (name, saved) in functions.iter().filter(|(_, saved)| !saved.is_empty()) {
        let mut keys: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for change in saved {
            keys.entry(&change.key).or_default().push(entry(change, verbs));
        }
        let _ = writeln!(text, "  [{}] = {{", quoted(name));
        for (key, entries) in keys {
            let _ = writeln!(text, "    {key} = {{");
            entries.iter().for_each(|entry| text.extend(["      ", entry, ",\n"]));
            text.push_str("    },\n");
        }
        text.push_str("  },\n");
    }
    text.push_str("}\n");
    text
}

/// `["10.0.0.0/8"] = "192.0.2.1"`, or an item of a list.
fn entry(change: &Saved, verbs: &[&Verb]) -> String {
    if let Some(item) = &change.entry {
        return lua(item);
    }
    let verb = verbs.iter().find(|verb| verb.name() == change.verb);
    let mut arguments = verb.map_or(&[][..], |verb| verb.arguments).iter().filter_map(|argument| {
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

    fn saved(prefix: &str, via: &[&str]) -> Saved {
        let arguments = json!({ "prefix": prefix, "via": via });
        Saved { verb: "route add".into(), arguments, key: "routes".into(), entry: None }
    }

    #[test]
    fn entries_are_lua() {
        let functions = [
            ("core".to_owned(), vec![saved("10.0.0.0/8", &["192.0.2.1"]), saved("::/0", &["a", "b\"\n"])]),
            ("idle".to_owned(), Vec::new()),
        ];
        let text = script(&functions, &[&ADD]);
        let (_, lua) = text.split_once("return ").unwrap();
        assert_eq!(
            lua,
            "{\n  [\"core\"] = {\n    routes = {\n      [\"10.0.0.0/8\"] = \"192.0.2.1\",\n      \
             [\"::/0\"] = { \"a\", \"b\\\"\\n\" },\n    },\n  },\n}\n"
        );
    }

    #[test]
    fn an_item_of_a_list_is_written_as_it_stands_there() {
        let item = Saved { entry: Some(json!({ "svlan": 7, "ipv4": ["a", "b"] })), ..saved("", &[]) };
        let text = script(&[("core".to_owned(), vec![item])], &[&ADD]);
        assert!(
            text.contains("    routes = {\n      { [\"ipv4\"] = { \"a\", \"b\" }, [\"svlan\"] = 7 },\n    },\n"),
            "{text}"
        );
    }

    #[test]
    fn nothing_is_an_empty_table() {
        assert!(script(&[], &[]).ends_with("return {\n}\n"));
    }
}
