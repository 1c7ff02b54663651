//! Changes that functions know: `weir route add ...`.

mod lines;

use std::path::Path;

use serde_json::{Value, json};
use weir_stage::{RequestError, Verb};

use super::{connect, print, print_json};
use crate::cli;
use crate::client::{Client, ClientError};
use crate::failure::Failed;
use crate::words;
use lines::{File, Line};
use weir_protocol::Request;

/// Changes that go in one request, which is carried out whole or not at all.
const BATCH: usize = 8192;

/// Wrong lines that are told at once.
const TOLD: usize = 20;

/// Carries out one change, or those of a file.
pub(crate) fn change(change: &cli::Change) -> Result<(), Failed> {
    let Some(file) = &change.from else {
        let mut client = connect(&change.target)?;
        let arguments = words::arguments(change.verb, &change.words)?;
        let answer = send(&mut client, change, vec![arguments])?;
        return if change.json { print_json(answer) } else { Ok(()) };
    };
    let file = if file == Path::new("-") {
        File::read("standard input".to_owned(), std::io::stdin())?
    } else {
        let opened = std::fs::File::open(file);
        File::read(
            file.display().to_string(),
            opened.map_err(|error| format!("cannot open {}: {error}", file.display()))?,
        )?
    };
    let count = understand(&file, change.verb)?;
    let mut client = connect(&change.target)?;
    carry_out(&file, change.verb, |batch| send(&mut client, change, batch).map(drop))?;
    if change.json { print_json(json!({ "done": count })) } else { print(&format!("{count} done\n")) }
}

fn send(client: &mut Client, change: &cli::Change, changes: Vec<Value>) -> Result<Value, ClientError> {
    client.data(Request::Change { verb: change.verb.name(), function: change.function.clone(), changes })
}

/// Reads all lines; answers how many changes they are.
///
/// # Errors
/// What is wrong with lines.
fn understand(file: &File, verb: &'static Verb) -> Result<usize, Failed> {
    let (mut count, mut wrong) = (0, Vec::new());
    file.changes(verb, &mut |line| match line {
        Ok(_) => count += 1,
        Err(problem) => wrong.push(problem),
    });
    if wrong.is_empty() {
        return Ok(count);
    }
    let more = wrong.len().saturating_sub(TOLD);
    wrong.truncate(TOLD);
    if more > 0 {
        wrong.push(format!("{more} more lines are wrong"));
    }
    wrong.push(format!("nothing of {} is done", file.name));
    Err(Failed::Sentences(wrong))
}

/// Hands the changes over by the batch.
///
/// # Errors
/// The first batch that is refused, of which nothing is done: with the line that is why, and what to do about the others.
fn carry_out(
    file: &File,
    verb: &'static Verb,
    mut send: impl FnMut(Vec<Value>) -> Result<(), ClientError>,
) -> Result<(), Failed> {
    let (mut batch, mut places) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
    let (mut done, mut refused) = (0, None);
    file.changes(verb, &mut |line| {
        let Ok((number, change)): Result<Line, _> = line else { return };
        if refused.is_some() {
            return;
        }
        if batch.len() == BATCH {
            match send(std::mem::replace(&mut batch, Vec::with_capacity(BATCH))) {
                Ok(()) => done += BATCH,
                Err(error) => return refused = Some(error),
            }
            places.clear();
        }
        batch.push(change);
        places.push(number);
    });
    let refused = match refused {
        None if batch.is_empty() => None,
        None => send(batch).err(),
        refused => refused,
    };
    refused.map_or(Ok(()), |error| Err(Failed::from(told(file, verb, &places, done, error))))
}

/// What is told of a batch that was refused, whose changes stand in these lines; so many before it are done.
fn told(file: &File, verb: &Verb, places: &[u64], done: usize, error: ClientError) -> String {
    let (name, first) = (&file.name, places.first().copied().unwrap_or(1));
    let ClientError::Refused { message, errors } = error else {
        // Whether the last batch was carried out nobody knows.
        return format!("{error}; the {done} changes before line {first} of {name} are done, perhaps more");
    };
    let refused = RequestError(message);
    let problem = match refused.entry().and_then(|(entry, problem)| Some((places.get(entry.checked_sub(1)?)?, problem)))
    {
        Some((line, problem)) => format!("{name}:{line}: {problem}"),
        None => format!("{name}: {}", ClientError::Refused { message: refused.0, errors }),
    };
    if done == 0 {
        return format!("{problem}; nothing of {name} is done");
    }
    let header = if file.is_table(verb) { ", below its first line" } else { "" };
    format!(
        "{problem}; the {done} changes before line {first} are done, nothing from there on: mend it, and give what stands from line \
         {first} on again{header}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::tests::ADD;

    fn file(text: &str) -> File {
        File::read("r.txt".to_owned(), text.as_bytes()).unwrap()
    }

    fn refused(message: &str) -> ClientError {
        ClientError::Refused { message: message.to_owned(), errors: Vec::new() }
    }

    #[test]
    fn lines_go_in_batches() {
        let text: String = (0..BATCH + 10).map(|n| format!("10.0.{}.0/24 via 192.0.2.1 # {n}\n\n", n % 256)).collect();
        let mut all = Vec::new();
        assert_eq!(understand(&file(&text), &ADD).unwrap(), BATCH + 10);
        carry_out(&file(&text), &ADD, |batch| {
            all.push(batch);
            Ok(())
        })
        .unwrap();
        assert_eq!((all.len(), all[0].len(), all[1].len()), (2, BATCH, 10));
        assert_eq!(all[0][1], json!({ "prefix": "10.0.1.0/24", "via": ["192.0.2.1"] }));
        assert!(carry_out(&file("# nothing"), &ADD, |_| Err(refused("not asked"))).is_ok());
    }

    #[test]
    fn all_wrong_lines_are_told_and_nothing_is_done() {
        let error = |text: &str| understand(&file(text), &ADD).unwrap_err().to_string();
        let said = error("10.0.0.0/8 via 192.0.2.1\n\n10.0.0.0/8\nhello\n");
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].starts_with("weir: r.txt:3: VIA is missing"), "{said}");
        assert!(lines[1].starts_with("weir: r.txt:4: ") && lines[2] == "weir: nothing of r.txt is done", "{said}");
        assert!(error(&"10.0.0.0/8\n".repeat(100)).contains("weir: 80 more lines are wrong\n"));
    }

    #[test]
    fn a_refused_change_is_told_by_its_line() {
        let text = format!("# many\n{}", "10.0.0.0/8 via 192.0.2.1\n".repeat(BATCH * 5));
        let mut sent = 0;
        let said = carry_out(&file(&text), &ADD, |_| {
            sent += 1;
            if sent == 2 { Err(refused("entry 3: no room")) } else { Ok(()) }
        });
        let said = said.unwrap_err().to_string();
        let expected =
            format!("weir: r.txt:{}: no room; the {BATCH} changes before line {} are done", BATCH + 4, BATCH + 2);
        assert!(said.starts_with(&expected), "{said}");
        assert_eq!(sent, 2);
        let said = carry_out(&file("\n10.0.0.0/8 via 192.0.2.1\n"), &ADD, |_| Err(refused("no function"))).unwrap_err();
        assert_eq!(said.to_string(), "weir: r.txt: no function; nothing of r.txt is done\n");
    }
}
