//! What is measured of `forward`.

use weir_stage::{Case, case};

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    let script = |swap| format!("forward {{ paths = {{ \"in -> out\" }}, swap_macs = {swap} }}");
    let chained = |name, help, functions, device| {
        let declare =
            |n, from: &str, to: &str| format!("forward {{ name = \"f{n}\", paths = {{ \"{from} -> {to}\" }} }}");
        Case::plain(name, help, case::chain(functions, device, declare))
    };
    vec![
        Case::plain("forward", "64-byte UDP packets from port to port, untouched", script(false)),
        Case::plain("swap-macs", "the same, with the MAC addresses exchanged", script(true)),
        chained("joints-2", "from port to port through 2 functions with a joint between them", 2, "joint:"),
        chained("joints-4", "through 4 functions with joints between them", 4, "joint:"),
        chained("joints-8", "through 8 functions with joints between them", 8, "joint:"),
        chained("cables-2", "through 2 functions with a cable in memory between them", 2, "mem:cable="),
        chained("cables-8", "through 8 functions with cables in memory between them", 8, "mem:cable="),
    ]
}
