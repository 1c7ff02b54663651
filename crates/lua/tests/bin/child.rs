//! The child process for the tests of this crate.

fn main() -> std::process::ExitCode {
    weir_lua::child_main()
}
