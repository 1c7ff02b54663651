//! A child that has got out of its sandbox: whatever it says, the parent answers in time and does no more than that.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use weir_lua::{Limits, evaluate};

/// Runs the file `script` of its folder.
///
/// A program that this process has just written may still be open for writing in a child that another thread forked
/// meanwhile, and then cannot be run (ETXTBSY, execve(2)). So the program is a file of the sources, and only the script
/// that it reads is written.
const IMPOSTOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/impostor.sh");

/// A program that does what a shell script says in place of the child.
struct Impostor(PathBuf);

impl Impostor {
    fn new(name: &str, script: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("weir-hostile-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("main.lua"), "").unwrap();
        std::fs::write(folder.join("script"), script).unwrap();
        std::os::unix::fs::symlink(IMPOSTOR, folder.join("child")).unwrap();
        Self(folder)
    }

    /// What is said of it when it may take as long as a busy machine needs.
    fn problem(&self) -> String {
        self.problem_within(60_000)
    }

    fn problem_within(&self, milliseconds: u64) -> String {
        let limits = Limits { milliseconds, output: 1 << 20, includes: 10, ..Limits::default() };
        let errors = evaluate(&self.0.join("child"), &self.0.join("main.lua"), &[], &limits).unwrap_err();
        errors[0].problem.clone()
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_child_that_says_nonsense_is_told_so() {
    let garbled = "is answered by its process with what cannot be understood";
    let nested = "head -c 1000000 /dev/zero | tr '\\0' '['; echo";
    let cases = [
        ("garbage", "echo hello; sleep 99", garbled),
        ("nested", nested, garbled),
        ("asking", "while :; do echo '{\"Include\":\"main.lua\"}'; done", garbled),
        ("endless", "cat /dev/zero", "declares more than 1048576 bytes"),
        ("unended", "printf '{\"Done\"'", "ended its process before it was done"),
        ("failing", "exit 3", "ended its process before it was done"),
        ("empty", "echo '{\"Failed\":[]}'", "ended its process before it was done"),
    ];
    for (name, script, problem) in cases {
        assert_eq!(Impostor::new(name, script).problem(), problem, "{name}");
    }
}

#[test]
fn a_child_that_says_nothing_is_stopped() {
    let silent = Impostor::new("silent", "exec sleep 99");
    assert_eq!(silent.problem_within(1_000), "is still running after 1 s");
}

#[test]
fn a_child_cannot_make_the_parent_open_other_files() {
    let ask = |path: &str| {
        let script =
            format!("read run; echo '{{\"Include\":\"{path}\"}}'; read answer; printf '%s' \"$answer\" > said");
        let impostor = Impostor::new("reading", &script);
        impostor.problem();
        std::fs::read_to_string(impostor.0.join("said")).unwrap()
    };
    assert!(ask("main.lua").starts_with("{\"Text\""));
    for path in ["/etc/hosts", "../main.lua", "said/../../x", "/proc/self/mem", ""] {
        assert!(ask(path).starts_with("{\"Refused\""), "{path}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Any bytes in place of an answer.
    #[test]
    fn any_answer_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let impostor = Impostor::new("any", "cat answer");
        std::fs::write(Path::new(&impostor.0).join("answer"), &bytes).unwrap();
        prop_assert!(!impostor.problem().is_empty());
    }
}
