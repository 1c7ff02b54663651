//! Tests run: where a member's integration tests are modules of one program, each file is one of them.

use std::path::Path;

use crate::{Failure, Member};

/// Files of tests that no program of tests names, so that their tests would never run.
pub(crate) fn faults(root: &Path, members: &[Member]) -> Result<Vec<String>, Failure> {
    let mut faults = Vec::new();
    for member in members {
        let folder = root.join(&member.folder).join("tests");
        let Ok(program) = std::fs::read_to_string(folder.join("main.rs")) else { continue };
        let manifest = std::fs::read_to_string(root.join(&member.folder).join("Cargo.toml"))?;
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "rs")
                && let Some(name) = path.file_stem()
            {
                names.push(name.to_string_lossy().into_owned());
            }
        }
        names.sort();
        let left_out = left_out(&names, &program, &manifest);
        faults.extend(left_out.map(|name| {
            format!(
                "{folder}/tests/{name}.rs: its tests do not run: add `mod {name};` to {folder}/tests/main.rs",
                folder = member.folder
            )
        }));
    }
    Ok(faults)
}

fn left_out<'n>(names: &'n [String], program: &str, manifest: &str) -> impl Iterator<Item = &'n String> {
    names.iter().filter(move |name| {
        let module = format!("mod {name};");
        let target = format!("path = \"tests/{name}.rs\"");
        !program.lines().any(|line| line == module) && !manifest.lines().any(|line| line == target)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_nobody_names_are_found() {
        let names = ["arp", "links", "main", "pipeline"].map(str::to_owned);
        let manifest = "[[test]]\npath = \"tests/main.rs\"\n[[test]]\npath = \"tests/pipeline.rs\"\n";
        assert_eq!(left_out(&names, "mod arp;\n// mod links;\n", manifest).collect::<Vec<_>>(), ["links"]);
        assert_eq!(left_out(&names, "mod arp;\nmod links;\n", manifest).count(), 0);
    }
}
