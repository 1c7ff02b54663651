//! Only the catalogue names a function: adding one touches its own folder and one line there.

use std::path::Path;

use crate::scan::{Piece, files, has_word, pieces};
use crate::{Failure, Member};

const CATALOGUE: &str = "app/src/catalogue.rs";

/// Where the name of a function occurs and should not. English uses words like `forward` too, so only crate names,
/// paths, and string literals of exactly the name count; comments and the module of tests at the foot do not.
pub(crate) fn faults(root: &Path, members: &[Member]) -> Result<Vec<String>, Failure> {
    let functions: Vec<&str> = members.iter().filter_map(|member| member.folder.strip_prefix("nf/")).collect();
    let mut faults = Vec::new();
    for member in members.iter().filter(|member| member.folder == "app" || member.folder.starts_with("crates/")) {
        for path in files(&root.join(&member.folder).join("src"), &["rs"])? {
            let shown = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            if shown != CATALOGUE {
                faults.extend(in_source(&shown, &std::fs::read_to_string(&path)?, &functions));
            }
        }
    }
    Ok(faults)
}

fn in_source(path: &str, source: &str, functions: &[&str]) -> Vec<String> {
    let mut faults = Vec::new();
    let tests = source.find("#[cfg(test)]\nmod ").unwrap_or(source.len());
    for (line, piece) in pieces(source.get(..tests).unwrap_or(source)) {
        for function in functions {
            let named = match piece {
                Piece::Code(code) => has_word(code, &format!("weir_{}", function.replace('-', "_"))),
                Piece::Text(text) => text == *function || text.contains(&format!("nf/{function}/")),
                Piece::Comment(_) => false,
            };
            if named {
                faults.push(format!(
                    "{path}:{line}: names the function `{function}`: only {CATALOGUE} may. Ask the catalogue for it, \
                     or let the function say what is special about it through its trait"
                ));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(source: &str) -> Vec<String> {
        in_source("app/src/x.rs", source, &["forward", "lw-aftr"])
            .iter()
            .map(|fault| fault.split(':').nth(1).unwrap().to_owned())
            .collect()
    }

    #[test]
    fn names_are_found() {
        assert_eq!(
            lines("use weir_forward::Forward;\nmatch name { \"forward\" => 1 }\nweir_lw_aftr::new()"),
            ["1", "2", "3"]
        );
        assert_eq!(lines("include_str!(\"../../nf/forward/README.md\")"), ["1"]);
    }

    #[test]
    fn words_of_english_are_not() {
        assert!(lines("#[cfg(test)]\nmod tests { \"forward\" }").is_empty());
        assert!(lines("// weir_forward and \"forward\"\nlet forward = \"go forward\"; weir_forwarder").is_empty());
    }
}
