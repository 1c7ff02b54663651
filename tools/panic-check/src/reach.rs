//! Ways from stages and tables to a panic.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::asm::Graph;

/// Functions that see packets: methods of these traits, in whatever type implements them.
const ROOTS: &[(&str, &[&str])] =
    &[("::Stage", &["run", "poll", "held"]), ("::Lookup4", &["lookup", "lookup_first", "lookup_rest"])];

/// Functions that see packets or keys, of no trait: these and what is in these modules.
const PATHS: &[&str] = &["weir_panic_check::"];

/// Whether a function is one that must not panic.
pub(crate) fn is_root(function: &str) -> bool {
    let Some((path, method)) = function.rsplit_once("::") else {
        return false;
    };
    let of_trait = ROOTS.iter().any(|(name, methods)| {
        let ours = path.strip_suffix('>').and_then(|path| path.rsplit_once(" as ")).map(|(_, name)| name);
        ours.is_some_and(|ours| ours.starts_with("weir_") && ours.ends_with(name)) && methods.contains(&method)
    });
    of_trait || PATHS.iter().any(|start| function.starts_with(start))
}

/// Whether a function of the standard library panics. Growing a vector does when memory is short; what is called only
/// while a panic is under way does not count.
fn panics(function: &str) -> bool {
    let function = function.trim_start_matches('<');
    let library = ["core::", "alloc::", "std::"].iter().any(|name| function.starts_with(name));
    let last = function.rsplit("::").next().unwrap_or_default();
    let aftermath = ["panic_in_cleanup", "panic_cannot_unwind"].contains(&last) || function.contains("::panic_count::");
    let named = function.contains("::panicking::")
        || function.starts_with("alloc::raw_vec::")
        || last.contains("panic")
        || last.ends_with("_fail")
        || last.ends_with("_failed")
        || ["handle_error", "handle_alloc_error", "capacity_overflow"].contains(&last);
    library && named && !aftermath
}

/// Functions that may panic all the same, with reasons.
#[derive(Debug, Default)]
pub(crate) struct Allowed {
    functions: BTreeSet<String>,
}

impl Allowed {
    /// Reads `FUNCTION: REASON` lines; `#` begins a comment line.
    pub(crate) fn parse(list: &str) -> Result<Self, String> {
        let mut functions = BTreeSet::new();
        for (index, line) in list.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let (function, reason) = line.split_once(": ").unwrap_or((line, ""));
            if reason.trim().is_empty() {
                return Err(format!("allow.txt:{}: lacks a reason: write `FUNCTION: REASON`", index + 1));
            }
            functions.insert(function.trim().to_owned());
        }
        Ok(Self { functions })
    }
}

/// A shortest way from each function that must not panic to each that does, and the entries of `allowed` that
/// nothing needs.
pub(crate) fn faults(graph: &Graph, allowed: &Allowed) -> Vec<String> {
    let mut faults = Vec::new();
    let mut needed = BTreeSet::new();
    for root in graph.functions().filter(|function| is_root(function)) {
        for way in ways(graph, allowed, &mut needed, root) {
            faults.push(format!(
                "{root} can panic:\n{way}    take elements with get(), iterators or fixed windows, and compute with \
                 checked or wrapping operations; or say in tools/panic-check/allow.txt why it cannot happen"
            ));
        }
    }
    for function in allowed.functions.difference(&needed) {
        faults.push(format!("allow.txt: nothing needs `{function}` any more: remove the line"));
    }
    faults
}

/// The ways from `root` to panics, one for each, told call by call.
fn ways(graph: &Graph, allowed: &Allowed, needed: &mut BTreeSet<String>, root: &str) -> Vec<String> {
    if allowed.functions.contains(root) {
        needed.insert(root.to_owned());
        return Vec::new();
    }
    let mut ways = Vec::new();
    let mut told: BTreeMap<String, String> = BTreeMap::from([(root.to_owned(), String::new())]);
    let mut open = VecDeque::from([root.to_owned()]);
    while let Some(function) = open.pop_front() {
        let before = told.get(&function).cloned().unwrap_or_default();
        for call in graph.calls(&function) {
            if told.contains_key(&call.to) {
                continue;
            }
            if allowed.functions.contains(&call.to) {
                needed.insert(call.to.clone());
                continue;
            }
            let place = call.place.as_deref().unwrap_or("unknown place");
            let way = format!("{before}    calls {} ({place})\n", call.to);
            told.insert(call.to.clone(), way.clone());
            if panics(&call.to) {
                ways.push(way);
            } else {
                open.push_back(call.to.clone());
            }
        }
    }
    ways
}

/// What to say of functions in whose crates no stage was found, and of paths at which nothing was: then this check looks for
/// the wrong names, and proves nothing.
pub(crate) fn idle(graph: &Graph, without_stages: &[String]) -> Vec<String> {
    let roots: Vec<&str> = graph.functions().filter(|function| is_root(function)).collect();
    let mut faults: Vec<String> = without_stages
        .iter()
        .map(|function| {
            format!(
                "no stage was found in {function}: a stage that is generic is built only where it is used; otherwise \
                 correct the names in tools/panic-check/src/reach.rs"
            )
        })
        .collect();
    for path in PATHS.iter().filter(|path| !roots.iter().any(|root| root.starts_with(**path))) {
        faults.push(format!("no function {path} was found: correct the names in tools/panic-check/src/reach.rs"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::LazyLock;

    use super::*;

    /// A crate with a stage that cannot panic, and with stages that can, each in another way.
    const PLANTED: &str = r#"
        pub trait Stage { fn run(&mut self, bytes: &mut [u8], at: usize) -> u8; }
        pub trait Lookup4 { fn lookup(&self, key: usize) -> u32; }
        pub struct Good; pub struct Index; pub struct Below; pub struct Unwrap; pub struct Grow(Vec<u8>);
        pub struct Divide; pub struct Copy; pub struct Control;
        impl Stage for Good {
            fn run(&mut self, bytes: &mut [u8], at: usize) -> u8 { bytes.get(at).copied().unwrap_or(0) }
        }
        impl Stage for Index { fn run(&mut self, bytes: &mut [u8], at: usize) -> u8 { bytes[at] } }
        #[inline(never)] fn deeper(bytes: &[u8], at: usize) -> u8 { bytes[at..][0] }
        #[inline(never)] fn below(bytes: &[u8], at: usize) -> u8 { deeper(bytes, at) ^ 1 }
        impl Stage for Below { fn run(&mut self, bytes: &mut [u8], at: usize) -> u8 { below(bytes, at) ^ 2 } }
        pub trait Step { fn step(&self, bytes: &[u8], at: usize) -> u8; }
        pub struct Reader<T>(T);
        impl<T: Into<usize> + Clone> Step for Reader<T> {
            #[inline(never)] fn step(&self, bytes: &[u8], at: usize) -> u8 { bytes[at + self.0.clone().into()] }
        }
        pub struct Generic(Reader<u8>);
        impl Stage for Generic { fn run(&mut self, bytes: &mut [u8], at: usize) -> u8 { self.0.step(bytes, at) ^ 3 } }
        impl Stage for Unwrap {
            fn run(&mut self, bytes: &mut [u8], _: usize) -> u8 { *bytes.first().unwrap() }
        }
        impl Stage for Grow { fn run(&mut self, _: &mut [u8], at: usize) -> u8 { self.0.push(1); at as u8 } }
        impl Stage for Divide { fn run(&mut self, _: &mut [u8], at: usize) -> u8 { (7 / at) as u8 } }
        impl Stage for Copy {
            fn run(&mut self, bytes: &mut [u8], at: usize) -> u8 { bytes.copy_from_slice(&[0; 9]); at as u8 }
        }
        impl Control { pub fn add(&mut self, bytes: &[u8], at: usize) -> u8 { bytes[at] } }
        pub struct Table([u32; 8]);
        impl Lookup4 for Table { fn lookup(&self, key: usize) -> u32 { self.0[key] } }
        pub struct Masked([u32; 8]);
        impl Lookup4 for Masked { fn lookup(&self, key: usize) -> u32 { self.0[key & 7] } }
    "#;

    /// Compiled once: the tests run at the same time.
    static GRAPH: LazyLock<Graph> = LazyLock::new(compile);

    fn compile() -> Graph {
        let folder = std::env::temp_dir().join(format!("weir-panic-check-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let source = folder.join("lib.rs");
        std::fs::write(&source, PLANTED).unwrap();
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let status = Command::new(rustc)
            .args(["--edition=2024", "--crate-name=weir_planted", "--crate-type=lib", "-Copt-level=3"])
            .args(["-Cdebuginfo=line-tables-only", "-Ccodegen-units=1"])
            .args([crate::FLAGS, &["--out-dir"]].concat())
            .args([&folder, &source])
            .status()
            .unwrap();
        assert!(status.success());
        let mut graph = Graph::default();
        graph.read(&std::fs::read_to_string(folder.join("weir_planted.s")).unwrap());
        std::fs::remove_dir_all(&folder).unwrap();
        graph
    }

    #[test]
    fn planted_panics_are_found_and_nothing_else() {
        let graph = &*GRAPH;
        let faults = faults(graph, &Allowed::default());
        for (name, way) in [
            ("<weir_planted::Index as weir_planted::Stage>::run", "core::panicking::panic_bounds_check"),
            ("<weir_planted::Below as weir_planted::Stage>::run", "calls weir_planted::below"),
            (
                "<weir_planted::Generic as weir_planted::Stage>::run",
                "<weir_planted::Reader<u8> as weir_planted::Step>::step",
            ),
            ("<weir_planted::Unwrap as weir_planted::Stage>::run", "core::option::unwrap_failed"),
            ("<weir_planted::Grow as weir_planted::Stage>::run", "alloc::raw_vec"),
            ("<weir_planted::Divide as weir_planted::Stage>::run", "panic_const_div_by_zero"),
            ("<weir_planted::Copy as weir_planted::Stage>::run", "copy_from_slice"),
            ("<weir_planted::Table as weir_planted::Lookup4>::lookup", "panic_bounds_check"),
        ] {
            let found = faults.iter().filter(|fault| fault.starts_with(name)).any(|fault| fault.contains(way));
            assert!(found, "{name}: {faults:#?}");
        }
        for name in ["Good", "Control", "Masked"] {
            assert!(!faults.iter().any(|fault| fault.contains(&format!("weir_planted::{name}"))), "{faults:#?}");
        }
        assert!(faults.iter().any(|fault| fault.contains("(lib.rs:")), "{faults:#?}");
    }

    #[test]
    fn what_is_allowed_needs_a_reason_and_a_use() {
        let graph = &*GRAPH;
        let all = faults(graph, &Allowed::default()).len();
        let allowed = Allowed::parse("# comment\n\nweir_planted::deeper: never reached with packets\n").unwrap();
        let fewer = faults(graph, &allowed);
        assert!(fewer.len() < all && !fewer.iter().any(|fault| fault.contains("Below")), "{fewer:#?}");
        let stale = faults(graph, &Allowed::parse("weir_planted::gone: was needed once").unwrap());
        assert!(stale.iter().any(|fault| fault.contains("nothing needs `weir_planted::gone`")), "{stale:#?}");
        assert!(Allowed::parse("weir_planted::deeper").is_err());
    }

    #[test]
    fn a_crate_without_stages_is_noticed() {
        let graph = &*GRAPH;
        let without = idle(graph, &[]);
        assert_eq!(without.len(), PATHS.len(), "{without:#?}");
        let other = idle(graph, &["weir_other".to_owned()]);
        assert!(other[0].contains("no stage was found in weir_other"), "{other:#?}");
    }
}
