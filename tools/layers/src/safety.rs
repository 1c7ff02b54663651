//! Where unsafe code may be, and how much of it there is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::scan::{Piece, files, has_word, pieces};
use crate::{Failure, Member};

/// The members that may hold unsafe code.
const ISLANDS: &[&str] = &[
    "crates/mem",
    "crates/simd",
    "crates/packet",
    "crates/lua",
    "crates/codegen",
    "crates/host",
    "crates/dpdk-sys",
    "ports/dpdk",
];

const LIST: &str = "SAFETY.md";

/// Safe members that do not forbid unsafe code, and islands that `SAFETY.md` counts wrongly. `write` corrects the
/// counts first.
pub(crate) fn faults(root: &Path, members: &[Member], write: bool) -> Result<Vec<String>, Failure> {
    let mut faults = Vec::new();
    let mut counts = BTreeMap::new();
    for member in members {
        if ISLANDS.contains(&member.folder.as_str()) {
            counts.insert(member.folder.clone(), count_folder(&root.join(&member.folder))?);
            continue;
        }
        let manifest = std::fs::read_to_string(root.join(&member.folder).join("Cargo.toml"))?;
        faults.extend(manifest_fault(&member.folder, &manifest));
        for path in &member.roots {
            let source = std::fs::read_to_string(root.join(path))?;
            faults.extend(root_fault(&path.to_string_lossy(), &source));
        }
    }
    let path = root.join(LIST);
    let mut list = std::fs::read_to_string(&path)?;
    if write {
        list = updated(&list, &counts);
        std::fs::write(&path, &list)?;
    }
    faults.extend(list_faults(&list, &counts));
    Ok(faults)
}

fn manifest_fault(folder: &str, manifest: &str) -> Option<String> {
    let mut lines = manifest.lines().map(str::trim).skip_while(|line| *line != "[lints]").skip(1);
    let inherits = lines.next() == Some("workspace = true");
    (!inherits).then(|| {
        format!("{folder}/Cargo.toml does not take the lints of the workspace: add `[lints]` and `workspace = true`")
    })
}

fn root_fault(path: &str, source: &str) -> Option<String> {
    let code: String = pieces(source)
        .into_iter()
        .filter_map(|(_, piece)| match piece {
            Piece::Code(code) => Some(code),
            Piece::Text(_) | Piece::Comment(_) => None,
        })
        .collect();
    (!code.contains("#![forbid(unsafe_code)]")).then(|| {
        format!(
            "{path}: lacks `#![forbid(unsafe_code)]`: add it below the crate's documentation. Unsafe code belongs on \
             the islands of {LIST}"
        )
    })
}

/// The unsafe lines below `folder`: in Rust sources those with the word `unsafe` in code, in C sources all that
/// are not blank.
fn count_folder(folder: &Path) -> Result<usize, Failure> {
    let mut count = 0;
    for path in files(&folder.join("src"), &["rs"])? {
        count += count_rust(&std::fs::read_to_string(path)?);
    }
    for path in files(folder, &["c", "h"])? {
        let source = std::fs::read_to_string(path)?;
        count += source.lines().filter(|line| !line.trim().is_empty()).count();
    }
    Ok(count)
}

fn count_rust(source: &str) -> usize {
    let mut lines = BTreeSet::new();
    for (line, piece) in pieces(source) {
        if matches!(piece, Piece::Code(code) if has_word(code, "unsafe")) {
            lines.insert(line);
        }
    }
    lines.len()
}

/// The folder and the count in a row of the table: `| `crates/mem` | 12 | why |`.
fn row(line: &str) -> Option<(&str, &str)> {
    let mut cells = line.strip_prefix("| `")?.split('|');
    let folder = cells.next()?.trim().strip_suffix('`')?;
    Some((folder, cells.next()?.trim()))
}

fn list_faults(list: &str, counts: &BTreeMap<String, usize>) -> Vec<String> {
    let rows: BTreeMap<&str, &str> = list.lines().filter_map(row).collect();
    let mut faults = Vec::new();
    for (folder, count) in counts {
        match rows.get(folder.as_str()) {
            None => faults.push(format!("{LIST} has no row for {folder}: add one and say why it needs unsafe code")),
            Some(listed) if *listed != count.to_string() => faults.push(format!(
                "{LIST} counts {listed} unsafe lines in {folder}, which has {count}: run \
                 `cargo run -p weir-layers -- --write`, and say in the commit why there are more, if there are"
            )),
            Some(_) => {}
        }
    }
    for folder in rows.keys().filter(|folder| !counts.contains_key(**folder)) {
        faults.push(format!("{LIST} has a row for {folder}, which is no island: remove the row"));
    }
    faults
}

fn updated(list: &str, counts: &BTreeMap<String, usize>) -> String {
    let lines = list.lines().map(|line| {
        let found = row(line).and_then(|(folder, listed)| Some((listed, counts.get(folder)?)));
        match found {
            Some((listed, count)) => line.replacen(&format!("| {listed} |"), &format!("| {count} |"), 1),
            None => line.to_owned(),
        }
    });
    lines.map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# Safety\n\n| Island | Unsafe lines | Why |\n|---|---|---|\n| `crates/mem` | 3 | rings |\n";

    fn counts(entries: &[(&str, usize)]) -> BTreeMap<String, usize> {
        entries.iter().map(|&(folder, count)| (folder.to_owned(), count)).collect()
    }

    #[test]
    fn only_code_counts() {
        let source =
            "// unsafe\nunsafe fn a() { unsafe { b() } }\nlet c = \"unsafe\";\n#![deny(unsafe_code)]\nunsafe\n";
        assert_eq!(count_rust(source), 2);
    }

    #[test]
    fn wrong_missing_and_idle_rows_are_faults() {
        assert!(list_faults(TABLE, &counts(&[("crates/mem", 3)])).is_empty());
        assert!(list_faults(TABLE, &counts(&[("crates/mem", 4)]))[0].contains("counts 3 unsafe lines in crates/mem"));
        let faults = list_faults(TABLE, &counts(&[("crates/mem", 3), ("crates/codegen", 0)]));
        assert!(faults[0].contains("no row for crates/codegen"), "{faults:?}");
        assert!(list_faults(TABLE, &counts(&[]))[0].contains("no island"));
    }

    #[test]
    fn writing_corrects_the_counts_and_nothing_else() {
        let counts = counts(&[("crates/mem", 14)]);
        let list = updated(TABLE, &counts);
        assert_eq!(list, TABLE.replace("| 3 |", "| 14 |"));
        assert!(list_faults(&list, &counts).is_empty());
    }

    #[test]
    fn a_safe_crate_says_so() {
        assert!(root_fault("crates/x/src/lib.rs", "//! X\n#![forbid(unsafe_code)]\n").is_none());
        assert!(root_fault("crates/x/src/lib.rs", "//! X\n// #![forbid(unsafe_code)]\n").is_some());
        assert!(manifest_fault("crates/x", "[lints]\nworkspace = true\n").is_none());
        assert!(manifest_fault("crates/x", "[lints.rust]\nunsafe_code = \"warn\"\n").is_some());
    }
}
