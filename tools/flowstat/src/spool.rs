//! Records of one size, in memory as long as there is room and in files after that: [`Spool`].

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Parts of a spool that does not fit into memory.
pub(crate) const PARTS: usize = 128;

/// Records that are read from a file at once.
const CHUNK: usize = 4096;

/// Records that are written to a file at once.
const BATCH: usize = 1024;

/// What can be spooled.
pub(crate) trait Fixed: FromBytes + IntoBytes + Immutable + KnownLayout + Copy {}

impl<T: FromBytes + IntoBytes + Immutable + KnownLayout + Copy> Fixed for T {}

/// A list of records in one part or in [`PARTS`] parts, each in the order in which its records came.
///
/// Its files have no name: the system removes them when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Spool<T> {
    parts: Vec<Part<T>>,
    /// Records that may be in memory.
    room: usize,
    /// Records in memory, until they go to files.
    held: usize,
    on_disk: bool,
    folder: PathBuf,
}

#[derive(Debug)]
struct Part<T> {
    /// Those that are not in the file.
    records: Vec<T>,
    file: Option<File>,
    /// Records in the file.
    written: usize,
}

impl<T> Part<T> {
    fn new() -> Part<T> {
        Part { records: Vec::new(), file: None, written: 0 }
    }
}

impl<T: Fixed> Spool<T> {
    /// An empty one of so many parts, which may take so many bytes of memory before it goes to files in `folder`.
    pub(crate) fn new(parts: usize, bytes: u64, folder: &Path) -> Spool<T> {
        let room = usize::try_from(bytes / size_of::<T>().max(1) as u64).unwrap_or(usize::MAX);
        let parts = (0..parts.max(1)).map(|_| Part::new()).collect();
        Spool { parts, room, held: 0, on_disk: false, folder: folder.to_owned() }
    }

    /// How many parts it has.
    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Whether it is full: the next record goes to a file.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.held >= self.room
    }

    /// How many records there are in a part.
    pub(crate) fn len(&self, part: usize) -> usize {
        self.parts.get(part).map_or(0, |part| part.written + part.records.len())
    }

    /// Appends a record to the part that `spread`, evenly spread bits, stands for.
    #[inline]
    pub(crate) fn push(&mut self, record: T, spread: u64) -> Result<(), String> {
        let at = self.at(spread);
        let Some(part) = self.parts.get_mut(at) else { return Ok(()) };
        part.records.push(record);
        self.held += 1;
        if self.on_disk {
            if part.records.len() >= BATCH {
                self.held -= part.records.len();
                return part.flush(&self.folder).map_err(|error| trouble(&self.folder, &error));
            }
        } else if self.held > self.room {
            return self.unload();
        }
        Ok(())
    }

    fn at(&self, spread: u64) -> usize {
        (spread % self.parts.len().max(1) as u64) as usize
    }

    /// Makes it one of [`PARTS`] parts, by what `spread` says of each record.
    pub(crate) fn split(&mut self, spread: impl Fn(&T) -> u64) -> Result<(), String> {
        let whole = std::mem::replace(&mut self.parts, (0..PARTS).map(|_| Part::new()).collect());
        for record in whole.into_iter().flat_map(|part| part.records) {
            let at = self.at(spread(&record));
            self.parts.get_mut(at).into_iter().for_each(|part| part.records.push(record));
        }
        self.unload()
    }

    #[cold]
    fn unload(&mut self) -> Result<(), String> {
        self.on_disk = true;
        self.held = 0;
        for part in &mut self.parts {
            part.flush(&self.folder).map_err(|error| trouble(&self.folder, &error))?;
            part.records.shrink_to(BATCH);
        }
        Ok(())
    }

    /// Hands out the records of a part in order, many at a time.
    pub(crate) fn read(&mut self, part: usize, mut take: impl FnMut(&[T]) -> Result<(), String>) -> Result<(), String> {
        let folder = &self.folder;
        let Some(part) = self.parts.get_mut(part) else { return Ok(()) };
        if let Some(file) = &mut part.file {
            let unread = |error| format!("cannot read temporary files in {}: {error}", folder.display());
            file.rewind().map_err(unread)?;
            let mut records = vec![T::new_zeroed(); CHUNK.min(part.written)];
            let mut left = part.written;
            while left > 0 {
                let chunk = records.get_mut(..left.min(CHUNK)).unwrap_or_default();
                file.read_exact(chunk.as_mut_bytes()).map_err(unread)?;
                take(chunk)?;
                left -= chunk.len();
            }
        }
        take(&part.records)
    }

    /// Forgets a part.
    pub(crate) fn forget(&mut self, part: usize) {
        if let Some(part) = self.parts.get_mut(part) {
            *part = Part::new();
        }
    }

    /// The records of a part, one by one, for a merge of all parts.
    pub(crate) fn cursor(&mut self, part: usize) -> Result<Cursor<T>, String> {
        let folder = self.folder.clone();
        let Some(part) = self.parts.get_mut(part) else {
            return Ok(Cursor { file: None, left: 0, chunk: Vec::new(), next: 0, last: Vec::new(), folder });
        };
        let Part { records, file, written } = std::mem::replace(part, Part::new());
        if let Some(mut file) = file.as_ref() {
            file.rewind().map_err(|error| trouble(&folder, &error))?;
        }
        Ok(Cursor { file, left: written, chunk: Vec::new(), next: 0, last: records, folder })
    }
}

impl<T: Fixed> Part<T> {
    #[cold]
    fn flush(&mut self, folder: &Path) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile_in(folder)?),
        };
        file.write_all(self.records.as_slice().as_bytes())?;
        self.written += self.records.len();
        self.records.clear();
        Ok(())
    }
}

/// Goes through a part that is read once more and no more.
#[derive(Debug)]
pub(crate) struct Cursor<T> {
    file: Option<File>,
    left: usize,
    chunk: Vec<T>,
    next: usize,
    /// What stands behind the file.
    last: Vec<T>,
    folder: PathBuf,
}

impl<T: Fixed> Cursor<T> {
    /// The next record.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<T>, String> {
        if self.next >= self.chunk.len() {
            self.refill()?;
        }
        self.next += 1;
        Ok(self.chunk.get(self.next - 1).copied())
    }

    #[cold]
    fn refill(&mut self) -> Result<(), String> {
        self.next = 0;
        match &mut self.file {
            Some(file) if self.left > 0 => {
                // As many parts are read at once as there are: less of each.
                self.chunk.resize(self.left.min(CHUNK / 4), T::new_zeroed());
                self.left -= self.chunk.len();
                file.read_exact(self.chunk.as_mut_slice().as_mut_bytes())
                    .map_err(|error| format!("cannot read temporary files in {}: {error}", self.folder.display()))
            }
            _ => {
                self.chunk = std::mem::take(&mut self.last);
                Ok(())
            }
        }
    }
}

/// What to say when a temporary file cannot be made or written.
fn trouble(folder: &Path, error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room there, name",
        _ => "name",
    };
    format!(
        "cannot write temporary files in {}: {error}; {remedy} another folder with --temp, or allow more memory with --memory",
        folder.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(spool: &mut Spool<u64>) -> Vec<Vec<u64>> {
        let mut found = Vec::new();
        for part in 0..spool.parts() {
            let mut records = Vec::new();
            let taken = spool.read(part, |chunk| {
                records.extend_from_slice(chunk);
                Ok(())
            });
            taken.unwrap();
            assert_eq!(records.len(), spool.len(part));
            found.push(records);
        }
        found
    }

    #[test]
    fn records_come_back_in_order_from_memory_and_from_files() {
        let numbers: Vec<u64> = (0..300_000).collect();
        for bytes in [u64::MAX, 8 * 100_000, 0] {
            let mut spool = Spool::new(1, bytes, &std::env::temp_dir());
            numbers.iter().for_each(|&number| spool.push(number, number).unwrap());
            assert_eq!(all(&mut spool), std::slice::from_ref(&numbers));
            assert_eq!(all(&mut spool), std::slice::from_ref(&numbers), "again");
            let mut cursor = spool.cursor(0).unwrap();
            assert!(numbers.iter().all(|&number| cursor.next().unwrap() == Some(number)));
            assert_eq!(cursor.next().unwrap(), None);
        }
    }

    #[test]
    fn a_full_one_can_be_split() {
        let mut spool = Spool::new(1, 8 * 1000, &std::env::temp_dir());
        for number in 0..200_000 {
            if spool.is_full() && spool.parts() == 1 {
                spool.split(|&number| number).unwrap();
            }
            spool.push(number, number).unwrap();
        }
        let parts = all(&mut spool);
        assert_eq!(parts.len(), PARTS);
        for (n, part) in parts.iter().enumerate() {
            assert!(part.iter().all(|number| number % PARTS as u64 == n as u64) && part.is_sorted());
        }
        assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), 200_000);
        spool.forget(0);
        assert_eq!(spool.len(0), 0);
    }

    #[test]
    fn a_folder_that_is_not_there_is_told() {
        let mut spool = Spool::new(1, 0, Path::new("/no/such/folder"));
        let told = spool.push(1u64, 1).unwrap_err();
        assert!(told.contains("/no/such/folder") && told.contains("--temp"), "{told}");
    }

    #[test]
    fn a_full_disk_is_told() {
        let told = trouble(Path::new("/t"), &io::Error::from(io::ErrorKind::StorageFull));
        assert!(told.contains("make room there") && told.contains("--memory"), "{told}");
    }
}
