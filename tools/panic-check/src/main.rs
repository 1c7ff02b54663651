//! Checks in the generated code that stages and tables cannot panic.
//!
//! Lints see the source; only the generated code tells whether the compiler could prove that an index is in range. So
//! this builds every network function and the crates below with the release profile and `--emit=asm`, draws
//! the graph of who calls whom from the assembly ([`asm`]), and looks from every stage and every table lookup for a
//! way to a function that panics ([`reach`]). Calls through pointers are not followed.
//!
//! What may panic all the same is listed with a reason in `allow.txt`.

#![forbid(unsafe_code)]

mod asm;
mod reach;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use cargo_metadata::{Message, MetadataCommand};

use crate::asm::Graph;
use crate::reach::Allowed;

type Failure = Box<dyn std::error::Error>;

/// What stages and tables are made of, and the lookups in this tool's own library.
const BELOW: &[&str] =
    &["crates/table", "crates/simd", "crates/net", "crates/wire", "crates/stage", "crates/ip", "tools/panic-check"];

/// Functions without stages of their own: all that they have is the network layer's.
const WITHOUT_STAGES: &[&str] = &["nf/router"];

/// Where stages are beside the folders of functions.
const WITH_STAGES: &[&str] = &["crates/ip"];

/// Assembly, also of what is so small that only crates that use it would hold its code, with names that say of which types
/// generic code is made.
const FLAGS: &[&str] = &["--emit=asm", "-Clink-dead-code", "-Csymbol-mangling-version=v0"];

/// Crates of others are optimised as in a release, as their checks of bounds are looked at, too; their lines are of no interest.
const OTHERS: &str = r#"profile.release.package."*".debug=false"#;

const ALLOWED: &str = "tools/panic-check/allow.txt";

fn main() -> ExitCode {
    match check() {
        Ok(faults) if faults.is_empty() => ExitCode::SUCCESS,
        Ok(faults) => {
            for fault in &faults {
                eprintln!("{fault}");
            }
            eprintln!("panic-check: {} faults", faults.len());
            ExitCode::FAILURE
        }
        Err(failure) => {
            eprintln!("panic-check: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn check() -> Result<Vec<String>, Failure> {
    let metadata = MetadataCommand::new().no_deps().exec()?;
    let root = metadata.workspace_root.clone().into_std_path_buf();
    let mut packages = Vec::new();
    let mut functions = Vec::new();
    for package in metadata.workspace_packages() {
        let folder = package.manifest_path.parent().and_then(|path| path.strip_prefix(&root).ok());
        let folder = folder.map(|path| path.as_str()).unwrap_or_default();
        if folder.starts_with("nf/") && !WITHOUT_STAGES.contains(&folder) || WITH_STAGES.contains(&folder) {
            functions.push(package.name.replace('-', "_"));
        }
        if folder.starts_with("nf/") || BELOW.contains(&folder) {
            packages.push(package.name.to_string());
        }
    }
    let mut graph = Graph::default();
    let mut with_stages = BTreeSet::new();
    for path in assembly(&root, &packages)? {
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        graph.read(&text);
        let mut own = Graph::default();
        own.read(&text);
        if own.functions().any(reach::is_root) {
            with_stages.extend(crate_of(&path));
        }
    }
    let list = std::fs::read_to_string(root.join(ALLOWED))?;
    let allowed = Allowed::parse(&list)?;
    let mut faults = reach::faults(&graph, &allowed);
    functions.retain(|function| !with_stages.contains(function));
    faults.extend(reach::idle(&graph, &functions));
    if faults.is_empty() {
        let roots = graph.functions().filter(|function| reach::is_root(function)).count();
        println!("panic-check: none of {roots} stages and lookups can panic");
    }
    Ok(faults)
}

/// Builds `packages` and everything below them; returns where their assembly is.
fn assembly(root: &Path, packages: &[String]) -> Result<Vec<PathBuf>, Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root).stdout(Stdio::piped());
    // With link-time optimisation the crates would hold no machine code yet.
    command.env("CARGO_PROFILE_RELEASE_LTO", "off").env("RUSTFLAGS", FLAGS.join(" "));
    command.args(["build", "--locked", "--release", "--lib", "--target-dir", "target/panics", "--config", OTHERS]);
    command.arg("--message-format=json-render-diagnostics");
    for package in packages {
        command.args(["-p", package]);
    }
    let output = command.output()?;
    if !output.status.success() {
        return Err("the build failed: see above".into());
    }
    let mut paths = Vec::new();
    for message in Message::parse_stream(output.stdout.as_slice()) {
        let Message::CompilerArtifact(artifact) = message? else { continue };
        let paths_of = artifact.filenames.iter().filter_map(|path| beside(path.as_std_path()));
        paths.extend(paths_of.take(1));
    }
    Ok(paths)
}

/// `deps/X-HASH.s` is of crate `X`.
fn crate_of(assembly: &Path) -> Option<String> {
    let (name, _) = assembly.file_stem()?.to_str()?.rsplit_once('-')?;
    Some(name.to_owned())
}

/// `deps/libX-HASH.rmeta` has its assembly in `deps/X-HASH.s`.
fn beside(library: &Path) -> Option<PathBuf> {
    let name = library.file_stem()?.to_str()?.strip_prefix("lib")?;
    let path = library.with_file_name(format!("{name}.s"));
    path.exists().then_some(path)
}
