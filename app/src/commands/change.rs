//! Changes that functions know: `weir route add ...`.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};

use serde_json::{Value, json};
use weir_stage::Verb;

use super::{connect, print, print_json};
use crate::cli;
use crate::client::Client;
use crate::failure::Failed;
use crate::words;
use weir_protocol::Request;

/// Changes that go in one request.
const BATCH: usize = 8192;

/// The longest line of a batch, bytes.
const MAX_LINE: u64 = 65_536;

/// Carries out one change, or those of a file.
pub(crate) fn change(change: &cli::Change) -> Result<(), Failed> {
    let mut client = connect(&change.target)?;
    let Some(file) = &change.from else {
        let arguments = words::arguments(change.verb, &change.words)?;
        let answer = send(&mut client, change, vec![arguments])?;
        return if change.json { print_json(answer) } else { Ok(()) };
    };
    let input: Box<dyn Read + Send> = if file == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        let opened = std::fs::File::open(file);
        Box::new(opened.map_err(|error| format!("cannot open {}: {error}", file.display()))?)
    };
    let done = batches(BufReader::new(input), &file.display().to_string(), change.verb, |batch| {
        let count = batch.len();
        send(&mut client, change, batch).map(|_| count)
    })?;
    if change.json { print_json(json!({ "done": done })) } else { print(&format!("{done} done\n")) }
}

fn send(client: &mut Client, change: &cli::Change, changes: Vec<Value>) -> Result<Value, Failed> {
    Ok(client.data(Request::Change { verb: change.verb.name(), function: change.function.clone(), changes })?)
}

/// Reads lines and hands them over by the batch; the next is read while one is carried out. A wrong line stops it: what
/// stands before it in the file is done, and it says so. Returns the number of changes.
fn batches(
    input: impl BufRead + Send,
    file: &str,
    verb: &'static Verb,
    mut send: impl FnMut(Vec<Value>) -> Result<usize, Failed>,
) -> Result<usize, Failed> {
    let (ready, batches) = sync_channel(2);
    std::thread::scope(|scope| {
        scope.spawn(move || read(input, file, verb, &ready));
        let mut done = 0;
        for batch in batches {
            match batch {
                Ok(batch) => match send(batch) {
                    Ok(count) => done += count,
                    Err(error) if done > 0 => {
                        return Err(Failed::from(format!("{}; {done} before are done", bare(&error))));
                    }
                    Err(error) => return Err(error),
                },
                Err(problem) => {
                    return Err(Failed::from(format!("{file}:{problem}; {done} changes before it are done")));
                }
            }
        }
        Ok(done)
    })
}

/// What went wrong, without the name of the program and the line end.
fn bare(error: &Failed) -> String {
    error.to_string().trim_end().trim_start_matches("weir: ").to_owned()
}

/// Reads lines and puts batches of changes into `ready`, or what is wrong with a line, which is the last then.
fn read(mut input: impl BufRead, file: &str, verb: &'static Verb, ready: &SyncSender<Result<Vec<Value>, String>>) {
    let (mut batch, mut line, mut number) = (Vec::new(), Vec::new(), 0_u64);
    let last = loop {
        line.clear();
        number += 1;
        match std::io::Read::take(&mut input, MAX_LINE).read_until(b'\n', &mut line) {
            Ok(0) => break None,
            Ok(_) => match change_of(&line, verb) {
                Ok(arguments) => batch.extend(arguments),
                Err(problem) => break Some(format!("{number}: {problem}")),
            },
            Err(error) => break Some(format!("{number}: cannot read {file}: {error}")),
        }
        // Nobody receives any more when a batch was refused.
        if batch.len() == BATCH && ready.send(Ok(std::mem::take(&mut batch))).is_err() {
            return;
        }
    };
    let whole = if batch.is_empty() { Ok(()) } else { ready.send(Ok(batch)) };
    if let (Ok(()), Some(problem)) = (whole, last) {
        let _ = ready.send(Err(problem));
    }
}

/// The change that a line asks for, if it asks for any.
fn change_of(line: &[u8], verb: &Verb) -> Result<Option<Value>, String> {
    let text = std::str::from_utf8(line).map_err(|_| "is not UTF-8".to_owned())?;
    words::of_line(text).map(|words| words::arguments(verb, &words)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::tests::ADD;

    #[test]
    fn lines_go_in_batches() {
        let text: String = (0..BATCH + 10).map(|n| format!("10.0.{}.0/24 via 192.0.2.1 # {n}\n\n", n % 256)).collect();
        let mut all = Vec::new();
        let done = batches(text.as_bytes(), "x", &ADD, |batch| {
            all.push(batch);
            Ok(all[all.len() - 1].len())
        });
        assert_eq!((done.unwrap(), all.len(), all[1].len()), (BATCH + 10, 2, 10));
        assert_eq!(all[0][1], json!({ "prefix": "10.0.1.0/24", "via": ["192.0.2.1"] }));
    }

    #[test]
    fn a_wrong_line_is_named_and_what_is_before_it_done() {
        let error = |text: &[u8]| batches(text, "r.txt", &ADD, |batch| Ok(batch.len())).unwrap_err().to_string();
        let said = error(b"10.0.0.0/8 via 192.0.2.1\n\n10.0.0.0/8\n");
        assert!(
            said.starts_with("weir: r.txt:3: VIA is missing") && said.ends_with("1 changes before it are done\n"),
            "{said}"
        );
        assert!(error(b"\xff\n").starts_with("weir: r.txt:1: is not UTF-8"));
        assert_eq!(batches(&b"# nothing"[..], "x", &ADD, |batch| Ok(batch.len())).unwrap(), 0);
    }

    #[test]
    fn a_refused_batch_ends_it() {
        let text = "10.0.0.0/8 via 192.0.2.1\n".repeat(BATCH * 5);
        let mut sent = 0;
        let said = batches(text.as_bytes(), "x", &ADD, |batch| {
            sent += 1;
            if sent == 2 { Err(Failed::from("no room".to_owned())) } else { Ok(batch.len()) }
        });
        assert_eq!(said.unwrap_err().to_string(), format!("weir: no room; {BATCH} before are done\n"));
        assert_eq!(sent, 2);
    }
}
