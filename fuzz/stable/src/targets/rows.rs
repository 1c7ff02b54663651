//! CSV files that configurations name.

use std::net::Ipv4Addr;

use ipnet::IpNet;
use weir_config::{Errors, MacAddress, Rows, Scalar};

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "rows",
    help: "CSV files of routes",
    run,
    tokens: &[
        b"prefix,via\n",
        b"via,prefix,note\n",
        b"\"",
        b"\"\"",
        b",",
        b";",
        b"\n",
        b"\r\n",
        b"#",
        b"10.0.0.0/8",
        b"0.0.0.0/0",
        b"2001:db8::/129",
        b"192.0.2.1",
        b"\xef\xbb\xbf",
        b"\xc3",
        b"\xf0\x9f\x90\x9f",
    ],
    text: true,
    inputs: 100_000,
    deep: 40,
};

fn run(input: &[u8]) -> bool {
    let mut rows = match Rows::new("fuzz.csv", input, &["prefix", "via"], &["note"]) {
        Ok(rows) => rows,
        Err(errors) => {
            assert!(!errors.is_empty(), "refused without a reason");
            return false;
        }
    };
    let mut errors = Errors::new();
    let mut lines = 0;
    let mut last = 1;
    while let Some(row) = rows.next(&mut errors) {
        lines += 1;
        assert!(row.line() > last, "line {} comes after line {last}", row.line());
        last = row.line();
        if let Some(prefix) = row.read::<IpNet>(0, &mut errors) {
            assert_eq!(IpNet::parse(&prefix.to_string()).ok(), Some(prefix));
        }
        let via = row.read_list::<Ipv4Addr>(1, ';', &mut errors);
        assert!(via.is_none_or(|via| !via.is_empty()), "a list without an address");
        let note = row.text(2);
        assert!(note.len() <= input.len());
        let _ = row.read::<MacAddress>(2, &mut errors);
    }
    assert!(lines <= input.len(), "more rows than bytes");
    if let Err(errors) = errors.into_result(()) {
        for error in errors {
            let said = error.to_string();
            assert!(said.starts_with("fuzz.csv:"), "{said}: the place is missing");
        }
    }
    lines > 0
}
