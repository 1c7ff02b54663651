//! CSV files, right and wrong.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::io::{BufReader, Read};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use proptest::prelude::*;
use weir_config::{ErrorKind, Errors, Rows};

type Routes = Vec<(Ipv4Net, Vec<Ipv4Addr>, String)>;

fn read(input: impl Read) -> (Routes, Vec<String>) {
    let mut errors = Errors::new();
    let mut routes = Vec::new();
    match Rows::new("r.csv", BufReader::new(input), &["prefix", "via"], &["label"]) {
        Ok(mut rows) => {
            while let Some(row) = rows.next(&mut errors) {
                let prefix = row.read(0, &mut errors);
                let via = row.read_list(1, ';', &mut errors);
                if let (Some(prefix), Some(via)) = (prefix, via) {
                    routes.push((prefix, via, row.text(2).into_owned()));
                }
            }
        }
        Err(found) => errors.extend(found),
    }
    (routes, errors.into_result(()).err().unwrap_or_default().iter().map(ToString::to_string).collect())
}

#[test]
fn rows_are_read_in_any_order_of_columns() {
    let text = "\u{feff}label,via, prefix \r\n# a comment\r\n\r\n\"a \"\"b\"\", c\",192.0.2.1; 192.0.2.2,10/8\r\n x ,192.0.2.3,\"11.0.0.0/8\"";
    let (routes, errors) = read(text.as_bytes());
    assert_eq!(errors, Vec::<String>::new());
    let expected =
        [("10.0.0.0/8", vec!["192.0.2.1", "192.0.2.2"], "a \"b\", c"), ("11.0.0.0/8", vec!["192.0.2.3"], "x")];
    for ((prefix, via, label), (expected, hops, text)) in routes.iter().zip(&expected) {
        assert_eq!(prefix.to_string(), *expected);
        assert_eq!(via.iter().map(ToString::to_string).collect::<Vec<_>>(), *hops);
        assert_eq!(label, text);
    }
    assert_eq!(routes.len(), expected.len());
}

#[test]
fn an_absent_optional_column_is_empty() {
    let (routes, errors) = read(&b"prefix,via\n10/8,192.0.2.1\n"[..]);
    assert_eq!((routes.len(), routes[0].2.as_str(), errors.len()), (1, "", 0));
}

#[test]
fn wrong_rows_are_told_with_line_and_column() {
    let text = "prefix,via,label\n\n# x\n10.0.0.1/8,192.0.2.1,\n10/8\n\u{fc}\u{fc},1;192.0.2.1;2,\n11/8,\"192.0.2.1,\n\"12/8\"x,1,\n13/8,192.0.2.1,ok\n";
    let (routes, errors) = read(text.as_bytes());
    assert_eq!(routes.len(), 1);
    assert_eq!(
        errors,
        [
            r#"r.csv:4:1: prefix: "10.0.0.1/8" has host bits set; expected an IPv4 prefix, e.g. "192.0.2.0/24"; write "10.0.0.0/8""#,
            "r.csv:5:1: has 1 columns; expected 3 as in the first line",
            "r.csv:6:1: prefix: \"\u{fc}\u{fc}\" is not an IPv4 prefix; expected an IPv4 prefix, e.g. \"192.0.2.0/24\"",
            r#"r.csv:6:4: via: "1" is not an IPv4 address; expected an IPv4 address, e.g. "192.0.2.9""#,
            r#"r.csv:6:4: via: "2" is not an IPv4 address; expected an IPv4 address, e.g. "192.0.2.9""#,
            "r.csv:7:6: opens a quote that the line does not close before the next comma",
            "r.csv:8:1: opens a quote that the line does not close before the next comma",
        ]
    );
}

#[test]
fn wrong_headers_are_told() {
    let cases = [
        ("", r#"r.csv: is empty; expected a first line such as "prefix,via""#),
        ("# only\n", r#"r.csv: is empty; expected a first line such as "prefix,via""#),
        ("prefix\n", r#"r.csv: has no column "via"; expected a first line such as "prefix,via""#),
        ("prefix,vai\n", r#"r.csv:1:8: "vai" is no column; expected one of prefix, via, label; did you mean "via"?"#),
        (
            "10/8,192.0.2.1\n",
            r#"r.csv:1:1: "10/8" is no column; expected one of prefix, via, label; a first line such as "prefix,via""#,
        ),
        ("prefix,via,via\n", r#"r.csv:1:12: "via" is a column twice"#),
    ];
    for (text, line) in cases {
        assert_eq!(read(text.as_bytes()).1, [line]);
    }
    assert_eq!(read(&b"prefix,\xff\n"[..]).1, ["r.csv:1:1: is not UTF-8"]);
}

#[test]
fn what_cannot_be_a_table_ends_soon() {
    let endless = std::io::repeat(b'x');
    assert_eq!(read(endless).1, ["r.csv:1:1: is longer than 65536 bytes"]);
    let header = &b"prefix,via\n"[..];
    let (_, errors) = read(header.chain(std::io::repeat(b',')));
    assert_eq!(errors, ["r.csv:2:1: is longer than 65536 bytes"]);
    let wrong: String = std::iter::repeat_n("x,y\n", 1000).collect();
    let (_, errors) = read(header.chain(wrong.as_bytes()));
    assert_eq!(errors.len(), Errors::KEPT + 1);
    assert_eq!(errors[Errors::KEPT], "r.csv: has 1900 more errors, which are not shown");
}

#[test]
fn a_function_can_add_errors_of_its_own() {
    let mut rows = Rows::new("r.csv", &b"via,prefix\n192.0.2.1,10/8\n"[..], &["prefix", "via"], &[]).unwrap();
    let mut errors = Errors::new();
    let row = rows.next(&mut errors).unwrap();
    assert_eq!(row.line(), 2);
    let error = row.error(0, ErrorKind::Duplicate, "is there already");
    assert_eq!(error.to_string(), "r.csv:2:11: prefix: is there already");
    assert!(rows.next(&mut errors).is_none());
}

#[test]
fn columns_of_others_are_passed_over() {
    let text = "mac,b4,ipv4,note\n02:00:00:00:00:01,2001:db8::1,192.0.2.1,\"a, b\"\n";
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let mut rows = Rows::among_others("r.csv", text.as_bytes(), &names(&["ipv4"]), &names(&["b4", "psid"])).unwrap();
    let mut errors = Errors::new();
    let row = rows.next(&mut errors).unwrap();
    assert_eq!([0, 1, 2].map(|column| row.text(column).into_owned()), ["192.0.2.1", "2001:db8::1", ""]);
    let error = row.error(1, ErrorKind::Duplicate, "is there already");
    assert_eq!(error.to_string(), "r.csv:2:19: b4: is there already");
    let told = |names: &[String]| Rows::among_others("r.csv", text.as_bytes(), names, &[]).unwrap_err()[0].to_string();
    let near = told(&names(&["ipv6", "b4"]));
    assert!(near.contains("has no column \"ipv6\"") && near.ends_with("did you mean \"ipv4\"?"), "{near}");
    let far = told(&names(&["destination"]));
    assert!(far.ends_with("it has mac, b4, ipv4, note"), "{far}");
}

proptest! {
    /// Fields written as RFC 4180 has it come back as they were.
    #[test]
    fn quoted_fields_survive(fields in proptest::collection::vec("[ -~]{0,10}", 3)) {
        let quoted: Vec<String> = fields.iter().map(|field| format!("\"{}\"", field.replace('"', "\"\""))).collect();
        let text = format!("a,b,c\n{}\n", quoted.join(","));
        let mut rows = Rows::new("r.csv", text.as_bytes(), &["a", "b", "c"], &[]).unwrap();
        let mut errors = Errors::new();
        let row = rows.next(&mut errors).unwrap();
        for (column, field) in fields.iter().enumerate() {
            prop_assert_eq!(&row.text(column), field);
        }
        prop_assert!(errors.is_empty());
    }

    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read(&bytes[..]);
        read((&b"prefix,via\n"[..]).chain(&bytes[..]));
    }
}
