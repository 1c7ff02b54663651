//! The journal of an experiment: finished samples, a line each, so that what was interrupted can go on.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::experiment::Combination;
use crate::record::Figure;
use weir_page::cannot_write;

/// Version of the form of a journal.
const FORM: u32 = 1;

/// The first line: which experiment it belongs to.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Head {
    version: u32,
    /// What the experiment was when it began; samples of another one are no use.
    experiment: String,
}

/// One measurement of one combination.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The parameters.
    pub parameters: Combination,
    /// Which of the runs, from 0.
    pub run: u32,
    /// What was measured; empty if it failed.
    pub figures: Vec<Figure>,
    /// The configuration that ran.
    pub configuration: String,
    /// Why it failed, if it did.
    pub failed: Option<String>,
}

/// A journal that is open.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// What is finished.
    pub samples: Vec<Sample>,
}

/// Largest journal that is read, bytes.
const LARGEST: u64 = 1 << 30;

impl Journal {
    /// Opens the journal at `path`, or begins one. `experiment` is a text that is the same if and only if samples fit together.
    /// A last line that was cut off, as by a power failure, is as if it had not been begun.
    ///
    /// # Errors
    ///
    /// A sentence: what is there belongs to another experiment, or cannot be read or written, and what to do.
    pub fn open(path: &Path, experiment: &str) -> Result<Journal, String> {
        let cannot = |error: std::io::Error| cannot_write(path, &error);
        let head = Head { version: FORM, experiment: experiment.to_owned() };
        let mut file = weir_host::files::append(path).map_err(cannot)?;
        let (samples, whole) = read(&file, path, &head)?;
        // What comes next goes behind the last whole line.
        file.set_len(whole).map_err(cannot)?;
        std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).map_err(cannot)?;
        let mut journal = Journal { path: path.to_owned(), file, samples };
        if whole == 0 {
            journal.write(&head)?;
        }
        Ok(journal)
    }

    /// Whether this run of a combination is finished.
    pub fn has(&self, parameters: &Combination, run: u32) -> bool {
        self.samples.iter().any(|sample| sample.run == run && sample.parameters == *parameters)
    }

    /// Adds a sample; it is on disk when this returns.
    ///
    /// # Errors
    ///
    /// A sentence that says what to do: the disk is full, for example. The journal then ends with the sample before.
    pub fn add(&mut self, sample: Sample) -> Result<(), String> {
        self.write(&sample)?;
        self.samples.push(sample);
        Ok(())
    }

    fn write(&mut self, value: &impl Serialize) -> Result<(), String> {
        let mut line = serde_json::to_vec(value).map_err(|error| format!("cannot write as JSON: {error}"))?;
        line.push(b'\n');
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        written.map_err(|error| cannot_write(&self.path, &error))
    }
}

/// The samples of a journal, and how many bytes of it are whole lines.
fn read(file: &File, path: &Path, head: &Head) -> Result<(Vec<Sample>, u64), String> {
    let wrong = |problem: &str| {
        Err(format!("{} {problem}; remove it to begin anew, or name another folder with --report", path.display()))
    };
    let mut lines = BufReader::new(file.take(LARGEST));
    let mut samples = Vec::new();
    let mut whole = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = lines.read_until(b'\n', &mut line).map_err(|error| cannot_write(path, &error))?;
        if !line.ends_with(b"\n") {
            return Ok((samples, whole));
        }
        if whole == 0 {
            match serde_json::from_slice::<Head>(&line) {
                Ok(found) if found == *head => {}
                Ok(_) => return wrong("belongs to another experiment, or to another version of this one"),
                Err(_) => return wrong("is no journal of an experiment"),
            }
        } else {
            match serde_json::from_slice(&line) {
                Ok(sample) => samples.push(sample),
                Err(_) => return wrong("has a line that is no sample"),
            }
        }
        whole += length as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Better, Value};

    fn sample(run: u32) -> Sample {
        Sample {
            parameters: Combination::from([("a".to_owned(), Value::Number(1.5))]),
            run,
            figures: vec![Figure::new("f", "u", Better::Less, vec![0.1 + f64::from(run)])],
            configuration: "x\ny".to_owned(),
            failed: None,
        }
    }

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("weir-journal-{name}-{}", std::process::id()))
    }

    #[test]
    fn what_was_finished_is_there_again() {
        let path = path("again");
        let mut journal = Journal::open(&path, "e").unwrap();
        journal.add(sample(0)).unwrap();
        journal.add(sample(1)).unwrap();
        drop(journal);
        // The last line was cut off, wherever that was.
        let text = std::fs::read(&path).unwrap();
        let second = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(1).unwrap().0 + 1;
        for cut in second..text.len() {
            std::fs::write(&path, &text[..cut]).unwrap();
            let mut journal = Journal::open(&path, "e").unwrap();
            assert_eq!(journal.samples, [sample(0)]);
            assert!(journal.has(&sample(0).parameters, 0) && !journal.has(&sample(1).parameters, 1));
            journal.add(sample(1)).unwrap();
            drop(journal);
            assert_eq!(std::fs::read(&path).unwrap(), text);
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn what_does_not_belong_is_refused_and_left_alone() {
        let path = path("other");
        Journal::open(&path, "e").unwrap();
        let before = std::fs::read(&path).unwrap();
        assert!(Journal::open(&path, "f").unwrap_err().contains("another experiment"));
        assert_eq!(std::fs::read(&path).unwrap(), before);
        for text in ["nonsense\n", "{}\n"] {
            std::fs::write(&path, text).unwrap();
            assert!(Journal::open(&path, "e").unwrap_err().contains("no journal"));
            assert_eq!(std::fs::read(&path).unwrap(), text.as_bytes());
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_full_disk_is_a_clear_error() {
        let mut journal = Journal::open(&path("full"), "e").unwrap();
        journal.file = File::options().write(true).open("/dev/full").unwrap();
        let error = journal.add(sample(0)).unwrap_err();
        assert!(error.contains("make room") && journal.samples.is_empty(), "{error}");
        std::fs::remove_file(&journal.path).unwrap();
    }
}
