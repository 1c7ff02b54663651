//! The words of a change, `PREFIX via ADDRESS...`, and the arguments they stand for.

use serde_json::{Map, Value};
use weir_stage::{Argument, Verb};

/// How the words of a verb are written: `PREFIX via ADDRESS...`.
pub(crate) fn usage(verb: &Verb) -> String {
    verb.arguments.iter().map(argument_usage).collect::<Vec<_>>().join(" ")
}

fn argument_usage(argument: &Argument) -> String {
    let name = argument.name.to_uppercase();
    let dots = if argument.many { "..." } else { "" };
    let words = match argument.keyword {
        Some(keyword) => format!("{keyword} {name}{dots}"),
        None => format!("{name}{dots}"),
    };
    if argument.required { words } else { format!("[{words}]") }
}

/// What each argument is, a line each, for help.
pub(crate) fn help(verb: &Verb) -> String {
    let width = verb.arguments.iter().map(|argument| argument.name.len()).max().unwrap_or(0);
    let line = |argument: &Argument| format!("  {:width$}  {}\n", argument.name.to_uppercase(), argument.help);
    verb.arguments.iter().map(line).collect()
}

/// Takes words apart into the arguments of a verb, by name.
///
/// Words that are no keyword and follow none are the positional arguments, in order. After a keyword comes one value, or,
/// where the argument takes many, as many as there are; the keyword may also stand before each.
pub(crate) fn arguments(verb: &Verb, words: &[String]) -> Result<Value, String> {
    let mut found = Map::new();
    let mut positional = verb.arguments.iter().filter(|argument| argument.keyword.is_none()).peekable();
    let mut words = words.iter().peekable();
    let mut current: Option<&Argument> = None;
    while let Some(word) = words.next() {
        let keyword = verb.arguments.iter().find(|argument| argument.keyword == Some(word.as_str()));
        let (argument, value) = match (keyword, current, positional.peek()) {
            (Some(argument), ..) => match words.next() {
                Some(value) if !is_keyword(verb, value) => (argument, value),
                _ => return Err(wrong(verb, &format!("\"{word}\" must be followed by a value"))),
            },
            (None, Some(argument), _) => (argument, word),
            (None, None, Some(argument)) => (*argument, word),
            (None, None, None) => return Err(unexpected(verb, word)),
        };
        if argument.keyword.is_none() && !argument.many {
            positional.next();
        }
        current = argument.many.then_some(argument);
        add(&mut found, argument, value).map_err(|problem| wrong(verb, &problem))?;
    }
    let missing = verb.arguments.iter().find(|argument| argument.required && !found.contains_key(argument.name));
    match missing {
        Some(argument) => Err(wrong(verb, &format!("{} is missing", argument.name.to_uppercase()))),
        None => Ok(Value::Object(found)),
    }
}

fn is_keyword(verb: &Verb, word: &str) -> bool {
    verb.arguments.iter().any(|argument| argument.keyword == Some(word))
}

fn add(found: &mut Map<String, Value>, argument: &Argument, value: &str) -> Result<(), String> {
    let value = Value::String(value.to_owned());
    if argument.many {
        let list = found.entry(argument.name).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(list) = list {
            list.push(value);
        }
    } else if found.insert(argument.name.to_owned(), value).is_some() {
        return Err(format!("{} is given twice", argument.name.to_uppercase()));
    }
    Ok(())
}

/// The words that stand for arguments: what [`arguments`] takes apart, put together again.
pub(crate) fn text(verb: &Verb, arguments: &Value) -> String {
    let mut words: Vec<String> = Vec::new();
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    for argument in verb.arguments {
        let Some(value) = arguments.get(argument.name) else { continue };
        words.extend(argument.keyword.map(str::to_owned));
        match value {
            Value::Array(values) => words.extend(values.iter().map(word)),
            value => words.push(word(value)),
        }
    }
    words.join(" ")
}

fn unexpected(verb: &Verb, word: &str) -> String {
    let keywords = verb.arguments.iter().filter_map(|argument| argument.keyword);
    match weir_config::nearest(word, keywords) {
        Some(near) => wrong(verb, &format!("\"{word}\" is not expected; did you mean {near}?")),
        None => wrong(verb, &format!("\"{word}\" is not expected")),
    }
}

fn wrong(verb: &Verb, problem: &str) -> String {
    format!("{problem}; write {} {}", verb.name(), usage(verb))
}

/// The words of a line of a batch; `None` if there are none. Everything after a `#` is a comment.
pub(crate) fn of_line(line: &str) -> Option<Vec<String>> {
    let line = line.split('#').next().unwrap_or_default();
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    (!words.is_empty()).then_some(words)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    /// A verb with every kind of argument.
    pub(crate) static ADD: Verb = Verb {
        noun: "route",
        action: "add",
        arguments: &[
            Argument { name: "prefix", keyword: None, required: true, many: false, help: "Where to." },
            Argument { name: "via", keyword: Some("via"), required: true, many: true, help: "Next hops." },
            Argument { name: "metric", keyword: Some("metric"), required: false, many: false, help: "How far." },
        ],
        help: "Adds a route.",
        batch: true,
    };

    static TAG: Verb = Verb {
        noun: "tag",
        action: "set",
        arguments: &[
            Argument { name: "port", keyword: None, required: true, many: false, help: "The port." },
            Argument { name: "ids", keyword: None, required: false, many: true, help: "The tags." },
        ],
        help: "Sets tags.",
        batch: false,
    };

    fn parse(verb: &Verb, text: &str) -> Result<Value, String> {
        arguments(verb, &of_line(text).unwrap_or_default())
    }

    #[test]
    fn words_become_arguments() {
        assert_eq!(usage(&ADD), "PREFIX via VIA... [metric METRIC]");
        assert_eq!(usage(&TAG), "PORT [IDS...]");
        let both = json!({"prefix": "10.0.0.0/8", "via": ["192.0.2.1", "192.0.2.2"]});
        assert_eq!(parse(&ADD, "10.0.0.0/8 via 192.0.2.1 192.0.2.2").unwrap(), both);
        assert_eq!(parse(&ADD, "10.0.0.0/8 via 192.0.2.1 via 192.0.2.2 # two").unwrap(), both);
        let far = json!({"prefix": "::/0", "via": ["fe80::1"], "metric": "7"});
        assert_eq!(parse(&ADD, "::/0 via fe80::1 metric 7").unwrap(), far);
        assert_eq!(parse(&ADD, "metric 7 ::/0 via fe80::1").unwrap(), far);
        assert_eq!(parse(&TAG, "wan 1 2 3").unwrap(), json!({"port": "wan", "ids": ["1", "2", "3"]}));
        assert_eq!(parse(&TAG, "wan").unwrap(), json!({"port": "wan"}));
        assert_eq!(text(&ADD, &both), "10.0.0.0/8 via 192.0.2.1 192.0.2.2");
        assert_eq!(text(&ADD, &far), "::/0 via fe80::1 metric 7");
        assert_eq!(text(&TAG, &json!({"port": 7, "ids": []})), "7");
    }

    #[test]
    fn wrong_words_are_told() {
        let error = |text: &str| parse(&ADD, text).unwrap_err();
        let write = "write route add PREFIX via VIA... [metric METRIC]";
        assert_eq!(error(""), format!("PREFIX is missing; {write}"));
        assert_eq!(error("10/8"), format!("VIA is missing; {write}"));
        assert_eq!(error("10/8 via"), format!("\"via\" must be followed by a value; {write}"));
        assert_eq!(error("10/8 via metric 7"), format!("\"via\" must be followed by a value; {write}"));
        assert_eq!(error("10/8 vai 1.1.1.1"), format!("\"vai\" is not expected; did you mean via?; {write}"));
        assert_eq!(error("10/8 metric 1 metric 2"), format!("METRIC is given twice; {write}"));
        assert_eq!(error("10/8 metric 1 xyzzy"), format!("\"xyzzy\" is not expected; {write}"));
    }

    #[test]
    fn lines_have_comments() {
        assert_eq!(of_line("  # nothing"), None);
        assert_eq!(of_line(" \t "), None);
        assert_eq!(of_line("a\tb  c#d"), Some(vec!["a".into(), "b".into(), "c".into()]));
    }
}
