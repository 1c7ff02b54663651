//! Scripts run in the child process: what they declare, what they may not do, and what is said to them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;
use weir_config::{ConfigError, Document, Key, Table, Value};
use weir_lua::{Limits, evaluate};

const KINDS: [&str; 4] = ["port", "engine", "router", "forward"];

/// A folder of scripts that goes when the test is over.
struct Scripts(PathBuf);

impl Scripts {
    fn new(files: &[(&str, &str)]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("weir-lua-{}-{number}", std::process::id()));
        for (name, text) in files {
            let path = folder.join("below").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join("below").join(name)
    }

    fn run(&self, limits: &Limits) -> Result<Document, Vec<ConfigError>> {
        evaluate(Path::new(env!("CARGO_BIN_EXE_weir-lua-child")), &self.path("main.lua"), &KINDS, limits)
    }

    /// The lines of the errors, with the folder's name left out.
    fn lines(&self, errors: &[ConfigError]) -> Vec<String> {
        let folder = format!("{}/", self.0.join("below").display());
        errors.iter().map(|error| error.to_string().replace(&folder, "")).collect()
    }
}

impl Drop for Scripts {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn document(script: &str) -> Document {
    let scripts = Scripts::new(&[("main.lua", script)]);
    scripts.run(&Limits::default()).unwrap_or_else(|errors| panic!("{script}\n{errors:#?}"))
}

/// The mistakes in a script, whether they stopped it or not.
fn said(script: &str) -> Vec<String> {
    said_within(script, &Limits::default())
}

fn said_within(script: &str, limits: &Limits) -> Vec<String> {
    let scripts = Scripts::new(&[("main.lua", script)]);
    let errors = scripts.run(limits).map_or_else(|errors| errors, |document| document.errors);
    scripts.lines(&errors)
}

#[test]
fn a_script_declares_plain_data_with_places() {
    let document = document(
        "local mtu = 1000 + 500\n\
         port { name = 'wan', address = { '192.0.2.1/24' } }\n\
         for i = 1, 2 do\n  port {\n    name = 'p' .. i, index = i, half = i / 4,\n  }\nend\n\
         router { ports = {}, mtu = mtu, routes = { ['10/8'] = '192.0.2.9', [5] = true }, }\n\
         print('ports', 2, nil, {})\n",
    );
    let seen: Vec<(&str, u64)> =
        document.declarations.iter().map(|made| (made.kind.as_str(), made.place.line)).collect();
    assert_eq!(seen, [("port", 2), ("port", 4), ("port", 4), ("router", 8)]);
    let table = |index: usize| document.declarations[index].table.to_string();
    assert_eq!(table(0), r#"{ address = { "192.0.2.1/24" }, name = "wan" }"#);
    assert_eq!(table(2), r#"{ half = 0.5, index = 2, name = "p2" }"#);
    assert_eq!(table(3), r#"{ mtu = 1500, ports = {}, routes = { [5] = true, ["10/8"] = "192.0.2.9" } }"#);
    assert_eq!(document.messages, ["ports\t2\tnil\ttable"]);
    assert_eq!(document.errors, []);
}

#[test]
fn the_line_is_that_of_the_declaring_call() {
    let document = document(
        "local function make(name)\n  port { name = name }\nend\nmake('a')\n\
         local function tail(name) return port { name = name } end\n\
         pcall(port, { name = 'c' })\n",
    );
    let lines: Vec<u64> = document.declarations.iter().map(|made| made.place.line).collect();
    assert_eq!(lines, [2, 6]);
}

#[test]
fn lists_and_tables_are_told_apart() {
    let document = document(
        "local reverse = {}\nfor i = 5, 1, -1 do reverse[i] = i end\n\
         router { list = { 1, 2, 3 }, reverse = reverse, hole = { 1, nil, 3 }, mixed = { 1, a = 2 }, zero = { [0] = 1 } }\n",
    );
    let table = document.declarations[0].table.as_table().unwrap();
    assert_eq!(table.get("list").unwrap(), &Value::from([1, 2, 3]));
    assert_eq!(table.get("reverse").unwrap(), &Value::from([1, 2, 3, 4, 5]));
    for name in ["hole", "mixed", "zero"] {
        assert!(matches!(table.get(name), Some(Value::Table(_))), "{name}");
    }
}

#[test]
fn what_is_no_plain_data_is_refused_with_its_path() {
    let cases = [
        ("local t = {}\nt.t = t\nrouter { a = t }", "main.lua:3: router.a.t: is a table that contains itself"),
        ("router { a = { print } }", "main.lua:1: router.a[1]: is a function, which is no plain data"),
        ("router { x = 0/0 }", "main.lua:1: router.x: is NaN, which is no finite number"),
        ("router { x = -1/0 }", "main.lua:1: router.x: is -inf, which is no finite number"),
        ("router { x = '\\255' }", "main.lua:1: router.x: is a string that is not UTF-8"),
        ("router { [true] = 1 }", "main.lua:1: router: has a boolean as a key, not a string or an integer"),
        ("router { [1.5] = 1 }", "main.lua:1: router: has a number as a key, not a string or an integer"),
        ("router { ['\\255'] = 1 }", "main.lua:1: router: has a key that is not UTF-8"),
        ("router 'x'", "main.lua:1: router: is called without a table; write router { ... }"),
        ("router()", "main.lua:1: router: is called without a table; write router { ... }"),
    ];
    for (script, line) in cases {
        assert_eq!(said(script), [line], "{script}");
    }
    let deep = "local t = 1\nfor i = 1, 40 do t = { t } end\nrouter { t }";
    let lines = said(deep);
    assert_eq!(lines.len(), 1);
    assert!(lines[0].ends_with("[1]: lies more than 32 tables deep"), "{lines:?}");
    let shallow = document("local t = 1\nfor i = 1, 31 do t = { t } end\nrouter { t }");
    assert_eq!(shallow.errors, []);
}

#[test]
fn every_mistake_is_told_at_once() {
    let lines = said(
        "ruoter { a = 1 }\nport { name = 'a', f = print }\nrouter { x = 0/0, y = 1/0 }\nprot {}\nlocal x = unset\n",
    );
    assert_eq!(
        lines,
        [
            "main.lua:1: ruoter: is nothing that can be declared, nor a variable; expected one of port, engine, router, forward; did you mean router?",
            "main.lua:2: port.f: is a function, which is no plain data",
            "main.lua:3: router.x: is NaN, which is no finite number",
            "main.lua:3: router.y: is inf, which is no finite number",
            "main.lua:4: prot: is nothing that can be declared, nor a variable; expected one of port, engine, router, forward; did you mean port?",
            "main.lua:5: unset: is nothing that can be declared, nor a variable; expected one of port, engine, router, forward",
        ]
    );
}

#[test]
fn scripts_that_fail_say_where() {
    let cases = [
        ("router {", "main.lua:1: unexpected symbol near '<eof>'"),
        ("\nx = = 1", "main.lua:2: unexpected symbol near '='"),
        ("\n\nlocal t = nil\nt.x = 1", "main.lua:4: attempt to index local 't' (a nil value)"),
        ("error('no such site')", "main.lua:1: no such site"),
        ("error({})", ""),
        (
            "local x = nowhere.there",
            "main.lua:1: nowhere: is nothing that can be declared, nor a variable; expected one of port, engine, router, forward",
        ),
        ("local function f() return 1 + f() end\nf()", "main.lua: stack overflow"),
        ("\u{1b}LJ", ""),
    ];
    for (script, line) in cases {
        let lines = said(script);
        assert_eq!(lines.len(), 1, "{script}: {lines:?}");
        assert!(lines[0].starts_with(line), "{script}: {lines:?}");
        assert!(lines[0].starts_with("main.lua"), "{script}: {lines:?}");
    }
}

#[test]
fn nothing_of_the_host_is_within_reach() {
    // Whatever of these were there would be declared by its name.
    let document = document(
        "local names = { 'load', 'loadstring', 'loadfile', 'dofile', 'require', 'package', 'module', 'io', 'os', 'debug',\n\
         'ffi', 'jit', 'coroutine', 'collectgarbage', 'gcinfo', 'getfenv', 'setfenv', 'newproxy', 'arg' }\n\
         local found = {}\n\
         for _, name in ipairs(names) do if rawget(_G, name) ~= nil then found[#found + 1] = name end end\n\
         if string.dump then found[#found + 1] = 'string.dump' end\n\
         router { found = found }\n",
    );
    let expected = Value::Table(Table::from_iter([(Key::from("found"), Value::List(vec![]))]));
    assert_eq!(document.declarations[0].table, expected);
}

#[test]
fn only_the_known_globals_are_there() {
    let document = document(
        "local names = {}\nfor name in pairs(_G) do names[#names + 1] = name end\ntable.sort(names)\nrouter { names = names }",
    );
    let table = document.declarations[0].table.as_table().unwrap();
    let names: Vec<&str> = table.get("names").unwrap().as_list().unwrap().iter().filter_map(Value::as_text).collect();
    assert_eq!(
        names,
        [
            "_G",
            "_VERSION",
            "assert",
            "bit",
            "engine",
            "error",
            "forward",
            "getmetatable",
            "include",
            "ipairs",
            "math",
            "next",
            "pairs",
            "pcall",
            "port",
            "print",
            "rawequal",
            "rawget",
            "rawset",
            "router",
            "select",
            "setmetatable",
            "string",
            "table",
            "tonumber",
            "tostring",
            "type",
            "unpack",
            "xpcall",
        ]
    );
}

#[test]
fn tricks_with_metatables_do_not_reach_out() {
    let document = document(
        "local trap = setmetatable({ name = 'a' }, { __index = function() error('index') end,\n\
         __pairs = function() error('pairs') end, __len = function() error('len') end,\n\
         __tostring = function() error('tostring') end, __gc = function() error('gc') end })\n\
         port(trap)\nprint(trap)\n\
         local ok = pcall(setmetatable, _G, {})\n\
         engine { changed = ok, meta = tostring(getmetatable(_G)) }\n\
         getmetatable('').__index = function() return function() return 'fooled' end end\n\
         router { text = ('x'):upper() }\n",
    );
    let tables: Vec<String> = document.declarations.iter().map(|made| made.table.to_string()).collect();
    assert_eq!(tables, [r#"{ name = "a" }"#, r#"{ changed = false, meta = "false" }"#, r#"{ text = "fooled" }"#]);
}

#[test]
fn files_are_included_from_below_the_folder() {
    let scripts = Scripts::new(&[
        (
            "main.lua",
            "local sites = include 'sites/all.lua'\nfor _, site in ipairs(sites) do port { name = site } end\n",
        ),
        ("sites/all.lua", "-- all\n\nengine { from = 'below' }\ninclude './sites/more.lua'\nreturn { 'a', 'b' }\n"),
        ("sites/more.lua", "\nrouter {}\n"),
    ]);
    let document = scripts.run(&Limits::default()).unwrap();
    let prefix = format!("{}/", scripts.0.join("below").display());
    let places: Vec<String> =
        document.declarations.iter().map(|made| made.place.to_string().replace(&prefix, "")).collect();
    assert_eq!(places, ["sites/all.lua:3", "sites/more.lua:2", "main.lua:2", "main.lua:2"]);
}

#[test]
fn nothing_else_is_included() {
    let scripts = Scripts::new(&[
        (
            "main.lua",
            "include '../secret.lua'\ninclude '/etc/hosts'\ninclude 'link.lua'\ninclude 'none.lua'\ninclude '.'\n\
             include(5)\ninclude 'device.lua'\ninclude 'bad.lua'\n",
        ),
        ("bad.lua", "\nport {\n"),
        ("../secret.lua", "port { name = 'secret' }"),
    ]);
    std::os::unix::fs::symlink("../secret.lua", scripts.path("link.lua")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", scripts.path("device.lua")).unwrap();
    let errors = scripts.run(&Limits::default()).unwrap_err();
    let folder = scripts.0.join("below").display().to_string();
    let lines: Vec<String> = scripts.lines(&errors).iter().map(|line| line.replace(&folder, "FOLDER")).collect();
    assert_eq!(
        lines,
        [
            r#"main.lua:1: include: "../secret.lua" leads out of the folder of the script"#,
            r#"main.lua:2: include: "/etc/hosts" is an absolute path"#,
            r#"main.lua:3: include: "link.lua" leads out of the folder FOLDER by a symbolic link"#,
            r#"main.lua:4: include: "none.lua" does not exist in the folder FOLDER"#,
            r#"main.lua:5: include: "." is not the path of a file"#,
            r#"main.lua:6: include: is called without a string; expected the path of a file, as in include "file.lua""#,
            r#"main.lua:7: include: "device.lua" leads out of the folder FOLDER by a symbolic link"#,
            "bad.lua:3: unexpected symbol near '<eof>'",
        ]
    );
}

#[test]
fn inclusions_are_bounded() {
    assert_eq!(
        said("include 'main.lua'"),
        [r#"main.lua:1: include: "main.lua" lies more than 16 files deep; look for files that include each other"#]
    );
    let scripts = Scripts::new(&[("main.lua", "for i = 1, 300 do include 'a.lua' end"), ("a.lua", "")]);
    let document = scripts.run(&Limits::default()).unwrap();
    let lines = scripts.lines(&document.errors);
    assert_eq!(lines.len(), 44);
    assert_eq!(lines[0], "main.lua:1: include: is called more than 256 times");
}

#[test]
fn endless_scripts_are_ended_where_they_are() {
    let few = Limits { million_instructions: 20, ..Limits::default() };
    let line = "is still running after 20 million instructions; look for an endless loop";
    for script in ["\nwhile true do end", "\nwhile true do pcall(function() while true do end end) end"] {
        assert_eq!(said_within(script, &few), [format!("main.lua:2: {line}")]);
    }
    // A pattern that backtracks runs no instructions, and catching the error does not help.
    let script = "local s = ('a'):rep(60)\nwhile true do pcall(s.find, s, ('a-'):rep(30) .. 'b') end";
    assert_eq!(said_within(script, &few), [format!("main.lua:2: {line}")]);
    let script = "local s = ('a'):rep(60)\nlocal x = s:find(('a-'):rep(30) .. 'b')";
    let spent = "is still running; look for an endless loop, long texts, or a pattern that repeats in many ways";
    assert_eq!(said_within(script, &few), [format!("main.lua:2: {spent}")]);
    // Neither does what copies a text that is long. It is short beside the memory that scripts may use: however much a fast machine copies
    // before the time is over, what was copied has been collected by then.
    let short = Limits { milliseconds: 500, ..Limits::default() };
    let script = "local s = ('a'):rep(2^25)\nwhile true do local t = s .. 'b' end";
    assert_eq!(said_within(script, &short), ["main.lua: is still running after 0.5 s"]);
}

#[test]
fn memory_is_bounded() {
    let little = Limits { memory: 64 << 20, ..Limits::default() };
    let grow = "local t = {}\nfor i = 1, 1e9 do t[i] = { i } end";
    let double = "local s = 'x'\nwhile true do s = s .. s end";
    for script in [grow, double, "local s = ('x'):rep(2^30)"] {
        let lines = said_within(script, &little);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("needs more memory than"), "{script}: {lines:?}");
    }
}

#[test]
fn output_is_bounded() {
    let limits = Limits { values: 1_000, output: 100_000, ..Limits::default() };
    let shared = "local t = {}\nfor i = 1, 20 do t = { t, t } end\nrouter { t }";
    let lines = said_within(shared, &limits);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].ends_with("makes more values than a script may declare"), "{lines:?}");
    let many = "for i = 1, 2000 do port {} end";
    assert_eq!(said_within(many, &limits), ["main.lua:1: port: makes more values than a script may declare"]);
    let long = "router { ('x'):rep(200000) }";
    assert_eq!(said_within(long, &limits), ["main.lua: declares more than 100000 bytes"]);
    let errors = said("for i = 1, 1e5 do router() end");
    assert_eq!(errors.len(), weir_config::Errors::KEPT);
    let printed = document("for i = 1, 1e5 do print(('y'):rep(5000)) end").messages;
    assert_eq!((printed.len(), printed[0].len()), (1_000, 1_000));
}

#[test]
fn scripts_that_cannot_be_read_are_told() {
    let scripts = Scripts::new(&[("main.lua", "x")]);
    let program = Path::new(env!("CARGO_BIN_EXE_weir-lua-child"));
    let said = |file: &Path, limits: &Limits| {
        let errors = evaluate(program, file, &KINDS, limits).unwrap_err();
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let none = scripts.path("none.lua");
    assert_eq!(
        said(&none, &Limits::default()),
        [format!("{}: cannot be read: No such file or directory (os error 2)", none.display())]
    );
    assert_eq!(said(Path::new("/dev/zero"), &Limits::default()), ["/dev/zero: is not a regular file"]);
    let pipe = std::env::temp_dir().join(format!("weir-lua-pipe-{}", std::process::id()));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert_eq!(said(&pipe, &Limits::default()), [format!("{}: is not a regular file", pipe.display())]);
    std::fs::remove_file(&pipe).unwrap();
    let main = scripts.path("main.lua");
    std::fs::write(&main, [0xff]).unwrap();
    assert_eq!(said(&main, &Limits::default()), [format!("{}: is not UTF-8 text", main.display())]);
    std::fs::write(&main, "-- long").unwrap();
    let small = Limits { file: 6, ..Limits::default() };
    assert_eq!(said(&main, &small), [format!("{}: is larger than 6 bytes", main.display())]);
    let errors = evaluate(Path::new("/no/such/program"), &main, &KINDS, &Limits::default()).unwrap_err();
    assert!(errors[0].problem.starts_with("cannot be run: /no/such/program: "), "{errors:?}");
    let errors = evaluate(Path::new("/bin/true"), &main, &KINDS, &Limits::default()).unwrap_err();
    assert_eq!(errors[0].problem, "ended its process before it was done");
}

#[test]
fn a_printed_value_is_read_again() {
    let text = "a\u{1}7\"\\\n\té end";
    let value = Value::Table(Table::from_iter([
        (Key::from("end"), Value::text(text)),
        (Key::from("10/8"), Value::from([1, 2])),
        (Key::from(7), Value::Number(0.1)),
        (Key::from("large"), Value::Integer(1 << 53)),
        (Key::from("none"), Value::List(vec![])),
    ]));
    assert_eq!(document(&format!("router {value}")).declarations[0].table, value);
}

#[test]
fn many_values_pass() {
    let document =
        document("local t = {}\nfor i = 1, 100000 do t['10.' .. i] = { via = i } end\nrouter { routes = t }");
    let routes = document.declarations[0].table.as_table().unwrap().get("routes").unwrap().as_table().unwrap();
    assert_eq!(routes.0.len(), 100_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever stands in the file, there is an answer, and an error has a place in it.
    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        answered(&bytes);
    }

    /// The same for texts that are near to scripts.
    #[test]
    fn any_script_is_answered(words in proptest::collection::vec(proptest::sample::select(WORDS.to_vec()), 0..40)) {
        answered(words.join(" ").as_bytes());
    }
}

const WORDS: [&str; 28] = [
    "router", "port", "{", "}", "(", ")", "=", "'a'", "1", "nil", "include", "local", "x", "function", "end", "return",
    "for", "do", "while", "if", "then", "..", ",", "[", "]", "print", "pcall", "\n",
];

fn answered(bytes: &[u8]) {
    let scripts = Scripts::new(&[("main.lua", "")]);
    std::fs::write(scripts.path("main.lua"), bytes).unwrap();
    let limits = Limits { million_instructions: 5, ..Limits::default() };
    let errors = scripts.run(&limits).map_or_else(|errors| errors, |document| document.errors);
    let file = scripts.path("main.lua").display().to_string();
    assert!(errors.iter().all(|error| error.place.file == file), "{errors:?}");
}
