//! Several files as one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::problem::{Damage, Problem};
use crate::reader::{Reader, Record};

/// Several files, merged by the times of their records: one of each side of a device, or the pieces of a long capture.
///
/// Each file's records keep their order, also where its times go back; of equal times the file named first goes first. A file
/// that is damaged ends there, and the others go on.
pub struct Merged {
    files: Vec<(PathBuf, Reader)>,
    /// The times of the records at hand, and their files.
    heads: BinaryHeap<Reverse<(i64, usize)>>,
    /// Whether the first of `heads` was handed out, so that its file is to be read on.
    taken: bool,
    /// Files whose first record was not read yet, from here on.
    fresh: usize,
}

/// A file that ended before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDamage {
    /// Its number among the files, from 0.
    pub file: usize,
    /// Its path.
    pub path: PathBuf,
    /// Where and what.
    pub damage: Damage,
}

impl fmt::Display for FileDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the capture file {} is {}", self.path.display(), self.damage)
    }
}

impl Merged {
    /// Opens all files.
    ///
    /// # Errors
    ///
    /// The problems of all files that have one.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Merged, Vec<Problem>> {
        let mut files = Vec::new();
        let mut problems = Vec::new();
        for path in paths.iter().map(AsRef::as_ref) {
            match Reader::open(path) {
                Ok(reader) => files.push((path.to_owned(), reader)),
                Err(problem) => problems.push(problem),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Merged { heads: BinaryHeap::with_capacity(files.len()), files, taken: false, fresh: 0 })
    }

    /// The next record and the number of its file, from 0. `None` when all files have ended.
    ///
    /// # Errors
    ///
    /// A file is damaged: said once for each, when its turn comes. The others go on.
    #[allow(clippy::should_implement_trait, reason = "a record lies in the reader, which no iterator allows")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<(usize, Record<'_>)>, FileDamage> {
        while self.fresh < self.files.len() {
            let file = self.fresh;
            self.fresh += 1;
            if let Some(nanos) = self.advance(file)? {
                self.heads.push(Reverse((nanos, file)));
            }
        }
        if self.taken {
            self.taken = false;
            self.read_on()?;
        }
        let Some(&Reverse((_, file))) = self.heads.peek() else { return Ok(None) };
        self.taken = true;
        Ok(self.files.get(file).and_then(|(_, reader)| reader.record()).map(|record| (file, record)))
    }

    /// Reads the next record of the file whose record was handed out.
    #[inline]
    fn read_on(&mut self) -> Result<(), FileDamage> {
        let Some(mut head) = self.heads.peek_mut() else { return Ok(()) };
        let Reverse((_, file)) = *head;
        let Some((path, reader)) = self.files.get_mut(file) else { return Ok(()) };
        match reader.advance() {
            Ok(Some(nanos)) => *head = Reverse((nanos, file)),
            Ok(None) => drop(PeekMut::pop(head)),
            Err(damage) => {
                PeekMut::pop(head);
                return Err(FileDamage { file, path: path.clone(), damage });
            }
        }
        Ok(())
    }

    fn advance(&mut self, file: usize) -> Result<Option<i64>, FileDamage> {
        let Some((path, reader)) = self.files.get_mut(file) else { return Ok(None) };
        reader.advance().map_err(|damage| FileDamage { file, path: path.clone(), damage })
    }

    /// Bytes of all files that were read.
    pub fn position(&self) -> u64 {
        self.files.iter().map(|(_, reader)| reader.position()).sum()
    }

    /// Bytes of all files.
    pub fn size(&self) -> u64 {
        self.files.iter().map(|(_, reader)| reader.size()).sum()
    }
}
