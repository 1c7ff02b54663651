//! Configuration scripts, run as the program runs them: in a child process, which here is this program again.

use std::path::PathBuf;

use weir_lua::{Limits, evaluate};

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "script",
    help: "configuration scripts, each run in a child process",
    run,
    tokens: &[
        b"port { name = 'a' }",
        b"function f() return f() end f() ",
        b"for i = 1, 9 do ",
        b"while true do ",
        b" end ",
        b"setmetatable({}, { __index = function(t, k) return t[k] end })",
        b"string.rep('x', 1e8)",
        b"('x'):rep(1e9)",
        b"string.format('%s', {})",
        b"pcall(function() error() end)",
        b"include 'x.lua'",
        b"t[t] = t ",
        b"0/0",
        b"-1e999",
        b"{{{{",
        b"}}}}",
        b"..",
        b"[[",
        b"]]",
    ],
    text: true,
    inputs: 1_000,
    deep: 12,
};

/// A folder for one script, which is gone after it.
struct Place(PathBuf);

impl Place {
    fn with(script: &[u8]) -> Option<Place> {
        let place = Place(std::env::temp_dir().join(format!("weir-fuzz-{}", std::process::id())));
        std::fs::create_dir_all(&place.0).and_then(|()| std::fs::write(place.file(), script)).ok().map(|()| place)
    }

    fn file(&self) -> PathBuf {
        self.0.join("script.lua")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn run(input: &[u8]) -> bool {
    let place = Place::with(input);
    assert!(place.is_some(), "the folder for temporary files cannot be written");
    let (Some(place), Ok(program)) = (place, std::env::current_exe()) else { return false };
    let limits = Limits { milliseconds: 2_000, million_instructions: 5, memory: 256 << 20, ..Limits::default() };
    match evaluate(&program, &place.file(), &["port", "router"], &limits) {
        Ok(document) => !document.declarations.is_empty(),
        Err(errors) => {
            assert!(!errors.is_empty(), "a script failed without a reason");
            for error in &errors {
                let said = error.to_string();
                let broke = ["ended its process before", "what cannot be understood", "cannot be run"];
                assert!(!broke.iter().any(|words| said.contains(words)), "{said}");
            }
            false
        }
    }
}
