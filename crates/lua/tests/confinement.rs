//! The child process while it runs a script: what the kernel says of its privileges and means.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::Path;
use std::time::Duration;

use weir_lua::{Limits, evaluate};

/// The processes whose parent is this one.
fn children() -> Vec<u32> {
    let us = std::process::id().to_string();
    let numbered = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let ours = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // After the name, which stands in parentheses: state, parent.
        stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)) == Some(&us)
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(numbered).filter(ours).collect()
}

fn field(status: &str, name: &str) -> Vec<String> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
#[allow(clippy::disallowed_methods, reason = "another process is waited for")]
fn the_child_has_no_privileges_and_no_means() {
    let script = std::env::temp_dir().join(format!("weir-confinement-{}.lua", std::process::id()));
    std::fs::write(&script, "while true do end").unwrap();
    let limits = Limits { milliseconds: 1_500, million_instructions: u32::MAX, ..Limits::default() };
    let file = script.clone();
    let program = Path::new(env!("CARGO_BIN_EXE_weir-lua-child"));
    let run = std::thread::spawn(move || evaluate(program, &file, &[], &limits));

    // Until it has confined itself; the script does not end before.
    let (pid, status) = (0..1_000)
        .find_map(|_| {
            std::thread::sleep(Duration::from_millis(1));
            let pid = *children().first()?;
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
            let last =
                field(&status, "CapPrm:") == ["0000000000000000"] && limits.contains("Max open files            3");
            last.then_some((pid, status))
        })
        .unwrap();
    assert_eq!(field(&status, "NoNewPrivs:"), ["1"]);
    assert_eq!(field(&status, "Threads:"), ["1"]);
    assert_eq!(field(&status, "CapEff:"), ["0000000000000000"]);
    if rustix::process::getuid().is_root() {
        assert_eq!(field(&status, "Uid:"), vec!["65534"; 4]);
        assert_eq!(field(&status, "Gid:"), vec!["65534"; 4]);
        assert_eq!(field(&status, "Groups:"), Vec::<String>::new());
    }
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    for line in ["Max open files            3", "Max processes             0", "Max file size             0"] {
        assert!(limits.contains(line), "{limits}");
    }
    assert_eq!(std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default(), b"");

    let errors = run.join().unwrap().unwrap_err();
    assert_eq!(errors[0].problem, "is still running after 1.5 s");
    assert_eq!(children(), Vec::<u32>::new());
    std::fs::remove_file(script).unwrap();
}
