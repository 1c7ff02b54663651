//! Configuration scripts, run as the program runs them: in a child process, which here is this program again.

use std::path::PathBuf;
use std::sync::OnceLock;

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

fn file() -> Option<&'static PathBuf> {
    static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let make = || {
        let folder = std::env::temp_dir().join(format!("weir-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).ok()?;
        Some(folder.join("script.lua"))
    };
    FILE.get_or_init(make).as_ref()
}

fn run(input: &[u8]) -> bool {
    let written = file().filter(|file| std::fs::write(file, input).is_ok());
    let program = std::env::current_exe();
    let (Some(file), Ok(program)) = (written, program) else {
        assert!(written.is_some(), "the folder for temporary files cannot be written");
        return false;
    };
    let limits = Limits { milliseconds: 2_000, million_instructions: 5, memory: 256 << 20, ..Limits::default() };
    match evaluate(&program, file, &["port", "router"], &limits) {
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
