//! Files and folders are made in one place, which sees to it that nobody else has a say in it.

use std::path::Path;

use crate::scan::{Piece, files, pieces};
use crate::{Failure, Member};

const PLACE: &str = "crates/host/src/files.rs";

/// What makes a file or a folder, empties a file, or replaces one.
const MAKERS: &[&str] = &[
    "File::create",
    "create_new(",
    ".create(true)",
    ".truncate(true)",
    "fs::write(",
    "fs::copy(",
    "create_dir",
    "DirBuilder",
    "hard_link(",
    "symlink(",
    "tempfile::NamedTempFile",
];

/// Where a file is made elsewhere. Tests do as they like, and so do tools that write into the sources, and build scripts.
pub(crate) fn faults(root: &Path, members: &[Member]) -> Result<Vec<String>, Failure> {
    const AT_HOME: [&str; 4] = ["tools/layers", "tools/panic-check", "tools/docs", "fuzz/stable"];
    let mut faults = Vec::new();
    for member in members.iter().filter(|member| !AT_HOME.contains(&member.folder.as_str())) {
        for path in files(&root.join(&member.folder).join("src"), &["rs"])? {
            let shown = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            if shown != PLACE && !shown.ends_with("tests.rs") && !shown.contains("/tests/") {
                faults.extend(in_source(&shown, &std::fs::read_to_string(&path)?));
            }
        }
    }
    Ok(faults)
}

fn in_source(path: &str, source: &str) -> Vec<String> {
    let tests = source.find("#[cfg(test)]\nmod ").unwrap_or(source.len());
    let found = pieces(source.get(..tests).unwrap_or(source));
    let runs = runs(&found);
    let makers = runs.iter().flat_map(|(line, code)| {
        MAKERS.iter().filter_map(move |maker| {
            let before = code.get(..code.find(maker)?)?;
            Some((line + before.matches('\n').count(), *maker))
        })
    });
    makers
        .map(|(line, maker)| {
            format!(
                "{path}:{line}: `{maker}` makes or replaces a file: only {PLACE} may, which follows no link where others can \
                 write. Call weir_host::files::create, own, output, append or folder"
            )
        })
        .collect()
}

/// The code between texts and comments, each with its line. Pieces of code are words; what makes a file is several.
fn runs(found: &[(usize, Piece<'_>)]) -> Vec<(usize, String)> {
    let mut runs: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (at, (line, piece)) in found.iter().enumerate() {
        match (piece, runs.last_mut()) {
            (Piece::Code(code), Some((_, run))) if goes_on => run.push_str(code),
            (Piece::Code(code), _) => runs.push((*line, (*code).to_owned())),
            // What the kernel answers for is no file.
            (Piece::Text(_), _) if is_of_the_kernel(found.get(at)) => drop(runs.pop()),
            _ => {}
        }
        goes_on = matches!(piece, Piece::Code(_));
    }
    runs
}

fn is_of_the_kernel(next: Option<&(usize, Piece<'_>)>) -> bool {
    matches!(next, Some((_, Piece::Text(text))) if text.starts_with("/proc/") || text.starts_with("/sys/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_a_file_is_found() {
        let lines = |source: &str| -> Vec<String> {
            in_source("app/src/x.rs", source).iter().map(|fault| fault.split(':').nth(1).unwrap().to_owned()).collect()
        };
        assert_eq!(lines("fn f() {\n    std::fs::write(path, text)\n}"), ["2"]);
        assert_eq!(lines("fn f() {\n    OpenOptions::new()\n        .create(true)\n}"), ["3"]);
        assert_eq!(lines("File::create(path); File::create_new(path)"), ["1", "1"]);
        assert_eq!(lines("fs::create_dir_all(path)"), ["1"]);
    }

    #[test]
    fn what_makes_none_is_not() {
        for source in [
            "File::open(path)",
            "// fs::write(path)",
            "let text = \"fs::write(path)\";",
            "fs::write(\"/proc/self/clear_refs\", \"5\")",
            "fn f() {}\n#[cfg(test)]\nmod tests {\n    fs::write(path)\n}",
        ] {
            assert_eq!(in_source("app/src/x.rs", source), [""; 0], "{source}");
        }
    }
}
