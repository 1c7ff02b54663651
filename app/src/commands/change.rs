//! Changes that functions know: `weir route add ...`.

use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::{Value, json};

use super::{connect, print, print_json};
use crate::cli;
use crate::client::Client;
use crate::failure::Failed;
use crate::protocol::Request;
use crate::words;

/// Changes that go in one request.
const BATCH: usize = 8192;

/// The longest line of a batch, bytes.
const MAX_LINE: u64 = 65_536;

/// Carries out one change, or those of a file.
pub(crate) fn change(change: &cli::Change) -> Result<(), Failed> {
    let answers = match &change.from {
        None => {
            let arguments = words::arguments(change.verb, &change.words)?;
            send(&mut connect(&change.target)?, change, vec![arguments])?
        }
        Some(file) => {
            let mut client = connect(&change.target)?;
            let input: Box<dyn BufRead> = if file == Path::new("-") {
                Box::new(std::io::stdin().lock())
            } else {
                let opened = std::fs::File::open(file);
                Box::new(BufReader::new(opened.map_err(|error| format!("cannot open {}: {error}", file.display()))?))
            };
            batches(input, &file.display().to_string(), change, |batch| send(&mut client, change, batch))?
        }
    };
    if change.json {
        return print_json(json!({ "done": answers.len(), "answers": answers }));
    }
    if change.from.is_some() { print(&format!("{} done\n", answers.len())) } else { Ok(()) }
}

fn send(client: &mut Client, change: &cli::Change, changes: Vec<Value>) -> Result<Vec<Value>, Failed> {
    let request = Request::Change { verb: change.verb.name(), function: change.function.clone(), changes };
    let mut answer = client.data(request)?;
    match answer.get_mut("answers").map(Value::take) {
        Some(Value::Array(answers)) => Ok(answers),
        _ => Ok(Vec::new()),
    }
}

/// Reads lines and hands them over by the batch. A wrong line stops it; the batches before it are done, and it says so.
fn batches(
    mut input: impl BufRead,
    file: &str,
    change: &cli::Change,
    mut send: impl FnMut(Vec<Value>) -> Result<Vec<Value>, Failed>,
) -> Result<Vec<Value>, Failed> {
    let (mut batch, mut answers) = (Vec::new(), Vec::new());
    let mut number = 0_u64;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = std::io::Read::take(&mut input, MAX_LINE).read_until(b'\n', &mut line);
        if read.map_err(|error| format!("cannot read {file}: {error}"))? == 0 {
            break;
        }
        number += 1;
        let parsed = std::str::from_utf8(&line)
            .map_err(|_| "is not UTF-8".to_owned())
            .and_then(|text| words::of_line(text).map(|words| words::arguments(change.verb, &words)).transpose());
        match parsed {
            Ok(arguments) => batch.extend(arguments),
            Err(problem) => {
                let done = answers.len();
                return Err(Failed::from(format!("{file}:{number}: {problem}; {done} changes before it are done")));
            }
        }
        if batch.len() == BATCH {
            answers.extend(send(std::mem::take(&mut batch))?);
        }
    }
    if !batch.is_empty() {
        answers.extend(send(batch)?);
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::tests::ADD;

    fn add() -> cli::Change {
        let target = cli::Target { name: "weir".into(), socket: None };
        cli::Change { verb: &ADD, words: Vec::new(), from: None, function: None, json: false, target }
    }

    #[test]
    fn lines_go_in_batches() {
        let text: String = (0..BATCH + 10).map(|n| format!("10.0.{}.0/24 via 192.0.2.1 # {n}\n\n", n % 256)).collect();
        let mut sizes = Vec::new();
        let answers = batches(text.as_bytes(), "x", &add(), |batch| {
            sizes.push(batch.len());
            Ok(batch)
        });
        assert_eq!(sizes, [BATCH, 10]);
        assert_eq!(answers.unwrap()[1], json!({ "prefix": "10.0.1.0/24", "via": ["192.0.2.1"] }));
    }

    #[test]
    fn a_wrong_line_is_named() {
        let error = |text: &[u8]| batches(text, "r.txt", &add(), Ok).unwrap_err().to_string();
        assert!(error(b"10.0.0.0/8 via 192.0.2.1\n10.0.0.0/8\n").starts_with("weir: r.txt:2: VIA is missing"));
        assert!(error(b"\xff\n").starts_with("weir: r.txt:1: is not UTF-8"));
        assert!(batches(&b"# nothing"[..], "x", &add(), Ok).unwrap().is_empty());
    }
}
