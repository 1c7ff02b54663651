//! Checks the shape of the house, so that it keeps it: who imports whom, that nothing but the catalogue names a
//! function, that files are made in one place, that no file of tests is left out, and where unsafe code may be.
//!
//! `weir-layers` checks; `weir-layers --write` first brings the counts in `SAFETY.md` up to date.

#![forbid(unsafe_code)]

mod edges;
mod making;
mod names;
mod safety;
mod scan;
mod tests_run;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cargo_metadata::{DependencyKind, MetadataCommand};

/// One member of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Member {
    /// From the root of the workspace: `crates/mem`.
    folder: String,
    /// The roots of its library and programs, from the root of the workspace.
    roots: Vec<PathBuf>,
    /// The members that it sees.
    edges: Vec<Edge>,
}

/// A dependency on another member.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Edge {
    /// The folder of the member that is seen.
    to: String,
    /// Whether only tests see it.
    dev: bool,
}

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let write = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--write"] => true,
        _ => {
            eprintln!("usage: weir-layers [--write]   (--write updates the counts in SAFETY.md)");
            return ExitCode::from(2);
        }
    };
    match check(write) {
        Ok(faults) if faults.is_empty() => ExitCode::SUCCESS,
        Ok(faults) => {
            for fault in &faults {
                eprintln!("{fault}");
            }
            eprintln!("layers: {} faults", faults.len());
            ExitCode::FAILURE
        }
        Err(failure) => {
            eprintln!("layers: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// All faults of the workspace that the current folder is in.
fn check(write: bool) -> Result<Vec<String>, Failure> {
    let (root, members) = workspace()?;
    let mut faults = edges::faults(&members);
    faults.extend(names::faults(&root, &members)?);
    faults.extend(making::faults(&root, &members)?);
    faults.extend(tests_run::faults(&root, &members)?);
    faults.extend(safety::faults(&root, &members, write)?);
    if faults.is_empty() {
        let edges: usize = members.iter().map(|member| member.edges.len()).sum();
        println!("layers: {} members, {edges} edges, all in order", members.len());
    }
    Ok(faults)
}

fn workspace() -> Result<(PathBuf, Vec<Member>), Failure> {
    let metadata = MetadataCommand::new().no_deps().exec()?;
    let root = metadata.workspace_root.clone().into_std_path_buf();
    let members = metadata
        .workspace_packages()
        .into_iter()
        .map(|package| {
            let edges = package.dependencies.iter().filter_map(|dependency| {
                let to = relative(&root, dependency.path.as_ref()?.as_std_path())?;
                let dev = dependency.kind == DependencyKind::Development;
                Some(Edge { to: to.to_string_lossy().into_owned(), dev })
            });
            let roots = package.targets.iter().filter(|target| target.is_lib() || target.is_bin());
            let folder = package.manifest_path.parent().and_then(|path| relative(&root, path.as_std_path()));
            Member {
                folder: folder.unwrap_or_default().to_string_lossy().into_owned(),
                roots: roots.filter_map(|target| relative(&root, target.src_path.as_std_path())).collect(),
                edges: edges.collect(),
            }
        })
        .collect();
    Ok((root, members))
}

fn relative(root: &Path, path: &Path) -> Option<PathBuf> {
    path.strip_prefix(root).ok().map(Path::to_owned)
}
