//! A child that has got out of its sandbox: whatever it says, the parent answers in time and does no more than that.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use weir_lua::{Limits, evaluate};

/// A program that does what a shell script says in place of the child.
struct Impostor(PathBuf);

impl Impostor {
    fn new(name: &str, script: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("weir-hostile-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("main.lua"), "").unwrap();
        let program = folder.join("child");
        std::fs::write(&program, format!("#!/bin/sh\nPATH=/usr/bin:/bin\ncd {}\n{script}\n", folder.display()))
            .unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self(folder)
    }

    fn problem(&self) -> String {
        let limits = Limits { milliseconds: 1_000, output: 1 << 20, includes: 10, ..Limits::default() };
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
        ("garbage", "echo hello; sleep 9", garbled),
        ("nested", nested, garbled),
        ("asking", "while :; do echo '{\"Include\":\"main.lua\"}'; done", garbled),
        ("endless", "cat /dev/zero", "declares more than 1048576 bytes"),
        ("unended", "printf '{\"Done\"'", "ended its process before it was done"),
        ("failing", "exit 3", "ended its process before it was done"),
        ("silent", "exec sleep 9", "is still running after 1 s"),
        ("empty", "echo '{\"Failed\":[]}'", "ended its process before it was done"),
    ];
    for (name, script, problem) in cases {
        assert_eq!(Impostor::new(name, script).problem(), problem, "{name}");
    }
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
