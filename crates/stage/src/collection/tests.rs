use std::net::Ipv4Addr;

use serde_json::json;
use weir_config::{Declaration, Document, FilePath, Folder, Kind, OneOrMany, Place, config};

use super::*;

crate::entry! {
    /// A host that has a name.
    pub(crate) struct Host by (name: String, vlan: Option<u16>) {
        /// What it is called.
        pub(crate) name: String = required, live;
        /// The VLAN that it is in.
        pub(crate) vlan: Option<u16> = optional, live, range(1..=4094);
        /// Its addresses.
        pub(crate) addresses: OneOrMany<Ipv4Addr> = empty, live;
        /// How many seconds the name counts.
        pub(crate) seconds: u32 = default(300), live;
    }
}

pub(crate) const HOSTS: Collection = Collection::of::<Host>("host", "hosts").in_file("hosts_csv");

const PREFIX: Argument = Argument { name: "prefix", keyword: None, required: true, many: false, help: "" };
const ROUTES: Collection = Collection {
    noun: "route",
    key: "routes",
    is_list: false,
    file_key: "routes_csv",
    fields: &[
        PREFIX,
        Argument { name: "via", keyword: Some("via"), many: true, ..PREFIX },
        Argument { name: "mtu", keyword: Some("mtu"), required: false, ..PREFIX },
    ],
    has_labels: true,
};

crate::entry! {
    /// A line of a port.
    struct Line by (port: Option<String>, outer: u16, inner: u16) {
        /// Its port.
        port: Option<String> = optional, live;
        /// Its outer VLAN.
        outer: u16 = required, live;
        /// Its inner VLAN.
        inner: u16 = required, live;
        /// What is said of it.
        note: String = required, live;
    }
}

fn of_request(arguments: &Value, before: Option<&Host>) -> Result<Host, String> {
    let mut source = HOSTS.arguments(arguments);
    let host = Host::read_from(&mut source, before);
    source.finish(host)
}

#[test]
fn rows_and_requests_say_the_same_of_an_entry() {
    let text = "addresses,name,seconds\n192.0.2.1;192.0.2.2,a,\n,b,7\n192.0.2,c,x\n";
    let (required, optional): (Vec<_>, Vec<_>) = (HOSTS.names(true).collect(), HOSTS.names(false).collect());
    let mut rows = Rows::new("h.csv", text.as_bytes(), &required, &optional).unwrap();
    let (mut errors, mut found) = (Errors::new(), Vec::new());
    while let Some(row) = rows.next(&mut errors) {
        found.push(Host::read_from(&mut HOSTS.row(&row, &mut errors), None));
    }
    let asked =
        [json!({ "name": "a", "addresses": ["192.0.2.1", "192.0.2.2"] }), json!({ "name": "b", "seconds": "7" })];
    assert_eq!(found[..2], asked.map(|asked| of_request(&asked, None).ok()));
    assert_eq!(found[2..], [None]);
    let told: Vec<String> = errors.into_result(()).unwrap_err().iter().map(ToString::to_string).collect();
    assert!(told[0].starts_with("h.csv:4:1: addresses: ") && told[1].starts_with("h.csv:4:11: seconds: "), "{told:?}");
    assert_eq!((told.len(), HOSTS.column("name"), HOSTS.column("seconds")), (2, 0, 3));
}

#[test]
fn what_a_request_says_of_a_field_goes_over_what_was() {
    let addresses = |of: &[Ipv4Addr]| OneOrMany(of.to_vec());
    let before = Host { name: "a".to_owned(), vlan: Some(7), addresses: addresses(&[Ipv4Addr::LOCALHOST]), seconds: 9 };
    let said = |field: &str, value: Value| of_request(&json!({ "name": "a", (field): value }), Some(&before));
    assert_eq!(said("vlan", Value::Null), Ok(before.clone()));
    assert_eq!(said("vlan", json!("none")), Ok(Host { vlan: None, ..before.clone() }));
    assert_eq!(said("seconds", json!("none")), Ok(Host { seconds: 300, ..before.clone() }));
    for none in [json!("none"), json!(["none"])] {
        assert_eq!(said("addresses", none), Ok(Host { addresses: addresses(&[]), ..before.clone() }));
    }
    let other = addresses(&[Ipv4Addr::new(192, 0, 2, 1)]);
    assert_eq!(said("addresses", json!("192.0.2.1")), Ok(Host { addresses: other, ..before.clone() }));
    assert_eq!(said("vlan", json!([1])), Err("vlan: [1] is not an integer from 1 to 4094".to_owned()));
    let wrong = "addresses: \"192.0.2\" is not an IPv4 address; write it as in 192.0.2.9";
    assert_eq!(said("addresses", json!("192.0.2")), Err(wrong.to_owned()));
    assert_eq!(of_request(&json!({}), None), Err("name is missing".to_owned()));
}

#[test]
fn fields_that_tell_entries_apart_stand_alone_where_they_must_be_given() {
    let words =
        |all: &[Argument]| -> Vec<(&str, Option<&str>)> { all.iter().map(|one| (one.name, one.keyword)).collect() };
    let key = [("outer", None), ("inner", None), ("port", Some("port"))];
    assert_eq!(words(Line::KEYS), key);
    assert_eq!(words(Line::FIELDS), [&key[..], &[("note", Some("note"))]].concat());
    let required = |all: &[Argument]| all.iter().map(|one| one.required).collect::<Vec<bool>>();
    assert_eq!(required(Line::FIELDS), [true, true, false, true]);
    assert_eq!(required(Line::CHANGES), [true, true, false, false]);
    assert_eq!(crate::columns!(Line), ["port", "outer", "inner", "note"]);
    assert_eq!(Line::name_of(&(Some("a".to_owned()), 7, 8)), "a outer 7 inner 8");
}

#[test]
fn what_is_saved_names_the_request_and_the_key() {
    let arguments = json!({ "prefix": "10.0.0.0" });
    let saved = ROUTES.saved("add", arguments.clone());
    assert_eq!((&*saved.verb, &*saved.key, saved.entry), ("route add", "routes", None));
    assert_eq!(Collection { is_list: true, ..ROUTES }.saved("add", arguments.clone()).entry, Some(arguments));
}

#[test]
fn one_declaration_gives_schema_arguments_and_columns() {
    assert_eq!(Host::schema().defects(), Vec::<String>::new());
    let arguments = |all: &[Argument]| -> Vec<(&str, Option<&str>, bool, bool)> {
        all.iter().map(|one| (one.name, one.keyword, one.required, one.many)).collect()
    };
    let vlan = ("vlan", Some("vlan"), false, false);
    let (name, addresses, seconds) = (
        ("name", None, true, false),
        ("addresses", Some("addresses"), false, true),
        ("seconds", Some("seconds"), false, false),
    );
    assert_eq!(arguments(Host::FIELDS), [name, vlan, addresses, seconds]);
    assert_eq!((arguments(Host::KEYS), arguments(Host::CHANGES)), (vec![name, vlan], arguments(Host::FIELDS)));
    assert_eq!(Host::FIELDS[1].help, "The VLAN that it is in");
    assert_eq!(crate::columns!(Host, "source"), ["name", "vlan", "addresses", "seconds", "source"]);
    assert_eq!(HOSTS.verb("add", Host::FIELDS, "").name(), "host add");
    let host = Host { name: "a".to_owned(), vlan: None, addresses: OneOrMany(vec![Ipv4Addr::LOCALHOST]), seconds: 1 };
    assert_eq!(Value::from(host.to_json()), json!({ "name": "a", "addresses": ["127.0.0.1"], "seconds": 1 }));
    let row = json!({ "name": "a", "vlan": null, "addresses": ["127.0.0.1"], "seconds": 1, "source": "cli" });
    assert_eq!(host.row(json!({ "source": "cli" })), row);
}

config! {
    /// Hosts and their names.
    struct NamesConfig {
        /// The hosts.
        hosts: Vec<Host> = empty, live;
    }
}

fn document() -> Document {
    let table = weir_config::Value::Table(weir_config::Table::default());
    let place = Place::line("n.lua", 3);
    let declarations = vec![Declaration { kind: "names".to_owned(), table, place, incomplete: false }];
    Document { declarations, ..Document::default() }
}

#[test]
fn a_list_and_a_file_are_read_as_one_and_all_that_is_wrong_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let text = "# names\nvlan,name,addresses\n7,a,192.0.2.1; 192.0.2.2\n,b,\n4095,c,\n,a,192.0.2\n,d,\n";
    std::fs::write(folder.path().join("h.csv"), text).unwrap();
    let checked =
        document().check(&[Kind::function("names", NamesConfig::schema())].into_iter().collect(), None).unwrap();
    let element = &checked.elements()[0];
    let file = FilePath::parse("h.csv").unwrap();
    let listed = ["a", "d", "a", "e"].map(|name| Host {
        name: name.to_owned(),
        vlan: None,
        addresses: OneOrMany::default(),
        seconds: 300,
    });
    let mut errors = Errors::new();
    let opened = Folder::open(folder.path()).unwrap();
    let site = Site { element, path: element.path(), folder: Some(&opened) };
    let found = HOSTS.load(site, &listed, Some(&file), &mut errors, |host: &Host, stands| match host.name.as_str() {
        "e" => vec![Wrong::field("name", format!("is {stands}")).remedy("choose another")],
        _ => Vec::new(),
    });
    let named: Vec<String> = found.values().map(|host| Host::name_of(&host.key())).collect();
    assert_eq!(named, ["a", "a vlan 7", "b", "d"]);
    assert_eq!(found[&("a".to_owned(), Some(7))].addresses.len(), 2);
    let told: Vec<String> = errors.into_result(()).unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "n.lua:3: names.hosts[3]: a is number 1, too; leave one out",
            "n.lua:3: names.hosts[4].name: is number 4; choose another",
            "h.csv:5:1: vlan: \"4095\" is not an integer from 1 to 4094; expected an integer from 1 to 4094",
            "h.csv:6:4: addresses: \"192.0.2\" is not an IPv4 address; expected an IPv4 address, e.g. \"192.0.2.9\"",
            "h.csv:7:2: name: d is number 2, too; leave one out",
        ]
    );
}
