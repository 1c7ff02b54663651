//! What is measured of `forward`.

use std::fmt::Write as _;

use weir_stage::Case;
use weir_stage::case::Traffic;

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    let case = |name, help, swap| Case {
        name,
        help,
        needs: &[],
        script: format!("forward {{ paths = {{ \"in -> out\" }}, swap_macs = {swap} }}"),
        port_keys: "",
        knobs: &[],
        prepare: |_, _, _| Ok(Traffic::plain()),
    };
    let chained =
        |name, help, functions, device| Case { name, help, script: chain(functions, device), ..case("", "", false) };
    vec![
        case("forward", "64-byte UDP packets from port to port, untouched", false),
        case("swap-macs", "the same, with the MAC addresses exchanged", true),
        chained("joints-2", "from port to port through 2 functions with a joint between them", 2, "joint:"),
        chained("joints-4", "through 4 functions with joints between them", 4, "joint:"),
        chained("joints-8", "through 8 functions with joints between them", 8, "joint:"),
        chained("cables-2", "through 2 functions with a cable in memory between them", 2, "mem:cable="),
        chained("cables-8", "through 8 functions with cables in memory between them", 8, "mem:cable="),
    ]
}

/// So many functions one behind the other, with devices of this kind between them.
fn chain(functions: usize, device: &str) -> String {
    let mut script = String::new();
    for n in 1..functions {
        let _ = writeln!(script, "port {{ name = \"a{n}\", device = \"{device}{n}\" }}");
        let _ = writeln!(script, "port {{ name = \"b{n}\", device = \"{device}{n}\" }}");
    }
    for n in 0..functions {
        let from = if n == 0 { "in".to_owned() } else { format!("b{n}") };
        let to = if n + 1 == functions { "out".to_owned() } else { format!("a{}", n + 1) };
        let _ = writeln!(script, "forward {{ name = \"f{n}\", paths = {{ \"{from} -> {to}\" }} }}");
    }
    script
}
