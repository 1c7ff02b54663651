//! Who calls whom, from x86-64 assembly as LLVM writes it.

use std::collections::{BTreeMap, BTreeSet};

use rustc_demangle::demangle;

/// A call: the function called, and the line of source that calls it, if the assembly tells.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    pub(crate) to: String,
    pub(crate) place: Option<String>,
}

/// Functions by their demangled names without hashes, and what they call.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    calls: BTreeMap<String, BTreeSet<Call>>,
}

impl Graph {
    /// Adds the functions of one assembly file.
    pub(crate) fn read(&mut self, assembly: &str) {
        let defined: BTreeSet<&str> = assembly.lines().filter_map(function_type).collect();
        let mut files: BTreeMap<&str, String> = BTreeMap::new();
        let mut place = None;
        let mut current: Option<String> = None;
        for line in assembly.lines() {
            if let Some(label) = line.strip_suffix(':') {
                if defined.contains(label) {
                    current = Some(readable(label));
                    self.calls.entry(readable(label)).or_default();
                }
                continue;
            }
            let mut words = line.split_whitespace();
            match words.next() {
                Some(".file") => {
                    if let Some((number, name)) = file(line) {
                        files.insert(number, name);
                    }
                }
                Some(".loc") => place = location(words, &files),
                Some(operation) => {
                    if let (Some(from), Some(to)) = (&current, target(operation, words.next())) {
                        let calls = self.calls.entry(from.clone()).or_default();
                        calls.insert(Call { to: readable(to), place: place.clone() });
                    }
                }
                None => {}
            }
        }
    }

    /// The names of all functions that are defined.
    pub(crate) fn functions(&self) -> impl Iterator<Item = &str> {
        self.calls.keys().map(String::as_str)
    }

    /// What a function calls; nothing for one that is defined elsewhere.
    pub(crate) fn calls(&self, function: &str) -> impl Iterator<Item = &Call> {
        self.calls.get(function).into_iter().flatten()
    }
}

fn readable(symbol: &str) -> String {
    format!("{:#}", demangle(symbol))
}

/// The symbol that a `.type SYMBOL,@function` line declares.
fn function_type(line: &str) -> Option<&str> {
    line.trim().strip_prefix(".type")?.trim().strip_suffix(",@function")
}

/// Number and name in a `.file 3 "folder" "name"` line.
fn file(line: &str) -> Option<(&str, String)> {
    let rest = line.trim().strip_prefix(".file")?.trim();
    let (number, names) = rest.split_once(char::is_whitespace)?;
    let name = names.split('"').filter(|part| !part.trim().is_empty()).nth(1).or_else(|| names.split('"').nth(1))?;
    number.chars().all(|c| c.is_ascii_digit()).then(|| (number, name.to_owned()))
}

/// File and line in what follows `.loc`.
fn location<'a>(mut words: impl Iterator<Item = &'a str>, files: &BTreeMap<&str, String>) -> Option<String> {
    let file = files.get(words.next()?)?;
    Some(format!("{file}:{}", words.next()?))
}

/// The symbol that an instruction calls or jumps to, if it names one.
fn target<'a>(operation: &str, operand: Option<&'a str>) -> Option<&'a str> {
    if !operation.starts_with("call") && !operation.starts_with('j') {
        return None;
    }
    let symbol = operand?.trim_start_matches('*');
    let symbol = symbol.strip_suffix("@GOTPCREL(%rip)").or(symbol.strip_suffix("@PLT")).unwrap_or(symbol);
    // Older names of generic code have dollar signs within.
    let names = !symbol.starts_with(['$', '%']) && !symbol.starts_with(".L") && !symbol.contains(['%', '(']);
    names.then_some(symbol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_jumps_and_places_are_read() {
        let mut graph = Graph::default();
        graph.read(concat!(
            "\t.file\t1 \"/src\" \"lib.rs\" md5 0x0\n",
            "\t.type\tone,@function\n\t.type\ttwo,@function\n\t.type\ttable,@object\n",
            "one:\n\t.loc\t1 7 3 is_stmt 0\n\tcallq\t*three@GOTPCREL(%rip)\n",
            ".LBB0_1:\n\tjne\t.LBB0_1\n\tjne\tfour\n\tcallq\t*%rax\n\tcallq\t*8(%rax)\n\tjmp\tfive@PLT # TAILCALL\n",
            "table:\n\t.quad\tsix\n",
            "two:\n\t.loc\t9 1 1\n\tcallq\tone\n",
        ));
        let calls = |function: &str| -> Vec<(String, Option<String>)> {
            graph.calls(function).map(|call| (call.to.clone(), call.place.clone())).collect()
        };
        let place = Some("lib.rs:7".to_owned());
        assert_eq!(
            calls("one"),
            [("five".to_owned(), place.clone()), ("four".to_owned(), place.clone()), ("three".to_owned(), place)]
        );
        assert_eq!(calls("two"), [("one".to_owned(), None)]);
        assert_eq!(graph.functions().collect::<Vec<_>>(), ["one", "two"]);
    }
}
