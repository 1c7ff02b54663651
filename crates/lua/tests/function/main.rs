//! The function `lua` as a configuration declares it and as the engine runs it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod commands;
mod rig;

use std::collections::BTreeMap;
use std::path::Path;

use rig::*;
use serde_json::json;
use weir_config::Folder;
use weir_lua::{ALLOW_FFI, ALLOW_STAGES, LuaFunction};
use weir_port_mem::MemPort;
use weir_stage::AnyFunction;
use weir_stage::harness::{Boxed, Harness};

/// An IPv4 packet from 10.0.0.`source`, whose 40th byte is `what`.
fn frame(source: u8, what: u8) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[26..30].copy_from_slice(&[10, 0, 0, source]);
    frame[40] = what;
    frame
}

const PORTS: &str = "port { name = 'a', device = 'null' } port { name = 'b', device = 'null' }\
                     port { name = 'c', device = 'null' } ";

/// Byte 40: 1 is dropped, 2 leaves by way 0, 3 by way 1, 4 is an error; anything else passes.
const BY_BYTE: &str = "function run(b) for i = 1, b:count() do local what = b:u8(i, 40)\n\
    if what == 1 then b:drop(i) elseif what == 2 or what == 3 then b:way(i, what - 2)\n\
    elseif what == 4 then error('four') end end end";

#[test]
fn the_shipped_example_counts_senders() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/lua.lua");
    let element = element_of(&file).unwrap();
    assert_eq!(LuaFunction.configure(&element).unwrap().permissions(), [ALLOW_STAGES]);
    assert_eq!(LuaFunction.configure(&element).unwrap().ports().collect::<Vec<_>>(), ["east", "watch", "west"]);
    assert_eq!(LuaFunction.configure(&element).unwrap().placement().workers, [1]);
    let mut rig = Rig::new(&file);
    rig.send(0, &vec![frame(1, 0); 1300]);
    rig.send(1, &vec![frame(2, 0); 900]);
    assert_eq!(rig.received(), [900, 1000, 300], "west, east, watch");
    rig.send(0, &[vec![9; 60], vec![9; 20]]);
    assert_eq!(rig.received(), [0, 2, 0], "what is not IPv4 passes");
    assert_eq!(rig.drops(), BTreeMap::new());
    rig.stop();
}

#[test]
fn the_shipped_example_with_tables_meters_customers() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/lua-tables.lua");
    let mut rig = Rig::new(&file);
    let from = |address: [u8; 4]| {
        let mut frame = frame(0, 0);
        frame.resize(1000, 0);
        frame[26..30].copy_from_slice(&address);
        frame
    };
    // 64 kB at once, of two networks of one customer together.
    let frames: Vec<_> = [[198, 51, 100, 9], [203, 0, 113, 200]].iter().flat_map(|one| vec![from(*one); 40]).collect();
    rig.send(0, &frames);
    assert_eq!(rig.received(), [0, 64, 16], "west, east, watch");
    rig.send(0, &[from([203, 0, 113, 1]), from([192, 0, 2, 1]), vec![0; 60]]);
    assert_eq!(rig.received(), [0, 1, 0]);
    assert_eq!(rig.drops(), BTreeMap::from([("lua-drop".to_owned(), 2)]));
    rig.stop();
}

#[test]
fn the_shipped_example_of_a_bad_line_delays_loses_and_doubles() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/lua-impair.lua");
    let mut rig = Rig::new(&file);
    for _ in 0..50 {
        rig.send(0, &vec![frame(1, 0); 64]);
        rig.send(1, &vec![frame(2, 0); 64]);
    }
    let mut came = [0; 2];
    for _ in 0..20 {
        rig.send(0, &[]);
        rig.received().iter().zip(&mut came).for_each(|(more, all)| *all += more);
    }
    let lost = rig.drops();
    assert_eq!(lost.keys().collect::<Vec<_>>(), ["lua-drop"]);
    let made = created(&mut rig);
    assert_eq!(came[0] as u64 + came[1] as u64, 6400 + made - lost["lua-drop"]);
    // 64 expected of each; 40 is five standard deviations.
    assert!(made.abs_diff(64) < 40 && lost["lua-drop"].abs_diff(64) < 40, "{made} made, {lost:?}");
    rig.stop();
}

/// Packets made so far.
fn created(rig: &mut Rig) -> u64 {
    account(&rig.engine.snapshot()).created
}

/// 10 packets wait for 5 ms; the script changes meanwhile, and 3 more wait when all ends.
#[test]
fn what_is_held_outlives_a_reload_of_its_script_and_is_counted_at_the_end() {
    let place = Place::new("held");
    let script = |way: u8| {
        format!(
            "function run(b) for i = 1, b:count() do if not b:waited(i) then b:hold(i, 5e6 + b:u8(i, 40) * 1e9) else b:way(i, {way}) end end end"
        )
    };
    place.write("hold.lua", &script(0));
    let lua = "lua { file = 'hold.lua', paths = { 'a -> b' }, ways = { 'b', 'c' }, max_held = 11 }";
    let file = place.write("config.lua", &format!("{PORTS}{lua}"));
    let element = element_of(&file).unwrap();
    assert_eq!(LuaFunction.configure(&element).unwrap().holds(), 11, "buffers beside those that are received");
    let mut rig = Rig::new(&file);
    rig.handles[0].send_all(vec![frame(1, 0); 10]);
    rig.engine.step();
    let held = |rig: &mut Rig| account(&rig.engine.snapshot()).held;
    assert_eq!((held(&mut rig), rig.received()), (10, vec![0, 0, 0]));
    place.write("hold.lua", &script(1));
    rig.reload(&file).unwrap();
    rig.send(0, &[]);
    assert_eq!((held(&mut rig), rig.received()), (0, vec![0, 0, 10]));
    rig.handles[0].send_all(vec![frame(1, 200); 3]);
    rig.engine.step();
    assert_eq!((held(&mut rig), rig.drops()), (3, BTreeMap::new()));
    rig.stop();
}

#[test]
fn packets_go_by_their_paths_and_ways_and_the_account_is_exact() {
    let place = Place::new("paths");
    place.write("by_byte.lua", BY_BYTE);
    let lua = "lua { file = 'by_byte.lua', paths = { 'a -> b', 'b->a', 'c -> b' }, ways = { 'c', 'a' } }";
    let file = place.write("config.lua", &format!("{PORTS}{lua}"));
    let mut rig = Rig::new(&file);
    rig.send(0, &[frame(1, 0), frame(1, 1), frame(1, 2), frame(1, 3), frame(1, 0)]);
    assert_eq!(rig.received(), [1, 2, 1]);
    rig.send(1, &[frame(1, 0)]);
    rig.send(2, &[frame(1, 0), frame(1, 2)]);
    assert_eq!(rig.received(), [1, 1, 1]);
    assert_eq!(rig.drops(), BTreeMap::from([("lua-drop".to_owned(), 1)]));
    rig.stop();
}

#[test]
fn one_target_needs_no_second_stage() {
    let place = Place::new("one");
    place.write("by_byte.lua", BY_BYTE);
    let lua = "lua { name = 'probe', file = 'by_byte.lua', paths = { 'a -> b', 'c -> b' }, ways = { 'c', 'a' } }";
    let file = place.write("config.lua", &format!("{PORTS}{lua}"));
    let mut rig = Rig::new(&file);
    let names: Vec<String> = rig.instance.graph(0).unwrap().nodes().iter().map(|node| node.name.clone()).collect();
    assert_eq!(names, ["probe.run"]);
    rig.send(0, &[frame(1, 0)]);
    rig.send(2, &[frame(1, 0)]);
    assert_eq!(rig.received(), [0, 2, 0]);
    rig.stop();
}

#[test]
fn failures_are_shown_and_a_corrected_script_is_taken_over() {
    let place = Place::new("failures");
    place.write("by_byte.lua", BY_BYTE);
    let lua = "lua { file = 'by_byte.lua', paths = { 'a -> b' }, ways = { 'c', 'a' } }";
    let file = place.write("config.lua", &format!("{PORTS}{lua}"));
    let mut rig = Rig::new(&file);
    let row = |rig: &Rig| rig.instance.show("lua", None, 0).unwrap().piece();
    assert_eq!(row(&rig), [json!({"replica": 0, "failures": 0, "disabled": false, "unmade": 0, "last": null})]);
    for _ in 0..3 {
        rig.send(0, &[frame(1, 4), frame(1, 0)]);
    }
    rig.send(0, &[frame(1, 0)]);
    assert_eq!(rig.received(), [0, 0, 0]);
    assert_eq!(rig.drops(), BTreeMap::from([("lua-error".to_owned(), 6), ("lua-disabled".to_owned(), 1)]));
    let script = place.0.join("by_byte.lua").display().to_string();
    let failed = |disabled: bool| json!({"replica": 0, "failures": 3, "disabled": disabled, "unmade": 0, "last": format!("{script}:3: four")});
    assert_eq!(row(&rig), [failed(true)]);
    assert_eq!(rig.instance.show("lua", Some("0"), 0).unwrap().piece().len(), 1);
    assert!(rig.instance.show("lua", Some("1"), 0).err().unwrap().0.contains("no replica '1'"));
    assert!(rig.instance.show("routes", None, 0).err().unwrap().0.contains("has no table"));
    let told: Vec<_> = rig.instance.notices(0).into_iter().map(|notice| notice.facts).collect();
    assert_eq!(told, [vec![("replica", "0".to_owned()), ("last", format!("{script}:3: four"))]]);
    assert_eq!(rig.instance.notices(0), [], "told once");
    assert_eq!(rig.instance.gauges().iter().map(|gauge| gauge.2).collect::<Vec<_>>(), [3.0, 1.0, 0.0]);

    // A reload without a change changes nothing; neither does one whose script is wrong.
    rig.reload(&file).unwrap();
    place.write("by_byte.lua", "run = = 1");
    assert_eq!(rig.reload(&file).unwrap_err(), [format!("{script}:1: unexpected symbol near '='")]);
    rig.send(0, &[frame(1, 0)]);
    assert_eq!((rig.received(), row(&rig)), (vec![0, 0, 0], vec![failed(true)]));

    place.write("by_byte.lua", &BY_BYTE.replace("error('four')", "b:way(i, 0)"));
    rig.reload(&file).unwrap();
    rig.send(0, &[frame(1, 4), frame(1, 0)]);
    assert_eq!((rig.received(), row(&rig)), (vec![0, 1, 1], vec![failed(false)]));
    assert_eq!(rig.instance.notices(0), []);
    rig.stop();
}

#[test]
fn raw_access_takes_a_second_permission() {
    let place = Place::new("raw");
    place.write(
        "raw.lua",
        "local ffi = ffi or require 'ffi'\nfunction run(b) for i = 1, b:count() do\n\
                            ffi.cast('uint8_t *', b:pointer(i))[40] = 7 end end",
    );
    let lua = |raw| format!("{PORTS} lua {{ file = 'raw.lua', paths = {{ 'a -> b' }}, raw_ffi = {raw} }}");
    let file = place.write("config.lua", &lua(true));
    assert_eq!(LuaFunction.configure(&element_of(&file).unwrap()).unwrap().permissions(), [ALLOW_STAGES, ALLOW_FFI]);
    let mut rig = Rig::new(&file);
    rig.send(0, &[frame(1, 0)]);
    assert_eq!(rig.handles[1].received(), [frame(1, 7)]);
    let (infos, folder) = (rig.infos.clone(), rig.folder.clone());
    rig.stop();
    let file = place.write("config.lua", &lua(false));
    assert_eq!(LuaFunction.configure(&element_of(&file).unwrap()).unwrap().permissions(), [ALLOW_STAGES]);
    assert!(build(&file, &infos, &folder).err().unwrap()[0].contains("raw.lua:1: "), "there is no ffi");
}

#[test]
fn a_raw_script_is_not_run_before_its_graph_is_made() {
    let place = Place::new("early");
    let mark = place.0.join("mark").display().to_string();
    let script = |rest: &str| {
        format!(
            "local ffi = ffi or require 'ffi'\nffi.cdef 'int mkdir(const char *path, unsigned mode);'\n\
                 ffi.C.mkdir('{mark}', 448)\n{rest}"
        )
    };
    place.write("raw.lua", &script("function run() end"));
    let lua = "lua { file = 'raw.lua', paths = { 'a -> b' }, raw_ffi = true }";
    let file = place.write("config.lua", &format!("{PORTS}{lua}"));
    let infos = infos(&["a", "b", "c"].map(|name| (name.to_owned(), MemPort::fed(name).0)));
    let folder = Folder::of(&file).unwrap();
    let instance = build(&file, &infos, &folder).unwrap();
    instance.sketch(0).unwrap().check().unwrap();
    assert!(!Path::new(&mark).exists());
    instance.graph(0).unwrap();
    assert!(Path::new(&mark).exists());
    place.write("raw.lua", &script("run = = 5"));
    assert!(build(&file, &infos, &folder).err().unwrap()[0].contains("raw.lua:4: unexpected symbol"));
}

/// While it is loaded, a script is another process, which may do nothing.
#[test]
fn a_script_is_tried_where_it_can_do_nothing() {
    let place = Place::new("tried");
    let lua = "lua { file = 'try.lua', paths = { 'a -> b' } }";
    let file = place.write("config.lua", &format!("{PORTS}{lua}"));
    let infos = infos(&["a", "b", "c"].map(|name| (name.to_owned(), MemPort::fed(name).0)));
    let folder = Folder::of(&file).unwrap();
    let said = |text: &str| {
        let script = place.write("try.lua", text);
        let errors = build(&file, &infos, &folder).err().unwrap_or_default();
        errors.iter().map(|error| error.replace(&script.display().to_string(), "try.lua")).collect::<Vec<_>>()
    };
    assert_eq!(said("function run() end"), Vec::<String>::new());
    let spent = "is still running; look for an endless loop, long texts, or a pattern that repeats in many ways";
    let long = "local x = ('a'):rep(1e5):find(('a*'):rep(50) .. 'b')\nfunction run() end";
    assert_eq!(said(long), [format!("try.lua:1: {spent}")]);
    assert_eq!(
        said("error(('x'):rep(1e6) .. '\\27[2J')")[0].len(),
        "try.lua:1: ".len() + 4_000 + "... (cut: 1000004 bytes)".len()
    );
    assert_eq!(said("error('\\27[2J')"), [r"try.lua:1: \u{1b}[2J"]);
}

/// A script may stand in the configuration, in place of its file and not beside it.
#[test]
fn a_script_may_stand_in_the_configuration() {
    let place = Place::new("inline");
    place.write("pass.lua", "function run() end");
    let infos = infos(&["a", "b", "c"].map(|name| (name.to_owned(), MemPort::fed(name).0)));
    let tried = |keys: &str| {
        let file = place.write("config.lua", &format!("{PORTS}lua {{ {keys}paths = {{ 'a -> b' }} }}"));
        build(&file, &infos, &Folder::of(&file).unwrap()).map(drop).map_err(|errors| errors.join("\n"))
    };
    assert_eq!(tried("script = [[function run() end]], "), Ok(()));
    assert!(tried("script = [[\nrun = = 5]], ").unwrap_err().contains("script:1: unexpected symbol"));
    let without = tried("").unwrap_err();
    assert!(without.contains("is missing") && without.contains("script = [[ ... ]]"), "{without}");
    let both = tried("file = 'pass.lua', script = [[function run() end]], ").unwrap_err();
    assert!(both.contains("stands beside \"file\"") && both.contains("leave one of the two away"), "{both}");
}

/// Tables of a configuration: found in, exchanged by a reload, and refused where they make no sense.
#[test]
fn a_script_looks_packets_up_in_the_tables_of_its_configuration() {
    let place = Place::new("tables");
    place.write("routes.csv", "prefix,value\n10.0.0.0/30,1\n");
    place.write("users.csv", "number,value\n7,2\n");
    let script = "function run(b) for i = 1, b:count() do b:key(i, b:u32(i, 26)) end b:look_up('routes')\n\
        for i = 1, b:count() do if b:found(i) then b:way(i, b:found(i)) end end\n\
        for i = 1, b:count() do b:key(i, b:u8(i, 40)) end b:look_up('users')\n\
        for i = 1, b:count() do if b:found(i) == 2 then b:drop(i) end end end";
    let configure = |tables: &str| {
        let keys = "paths = { 'a -> b' }, ways = { 'b', 'c' }";
        place.write("config.lua", &format!("{PORTS}lua {{ script = [[{script}]], {keys}, tables = {{ {tables} }} }}"))
    };
    let both = "routes = { prefixes = { ['10.0.0.4/32'] = 1 }, prefixes_csv = 'routes.csv' }, users = { numbers_csv = 'users.csv' }";
    let file = configure(both);
    let mut rig = Rig::new(&file);
    let frames: Vec<_> = (1..=5).map(|source| frame(source, 0)).chain([frame(9, 7)]).collect();
    rig.send(0, &frames);
    assert_eq!(rig.received(), [0, 1, 4], "10.0.0.1 to 3 by the file, 10.0.0.4 by the script, 10.0.0.5 passes");
    assert_eq!(rig.drops(), BTreeMap::from([("lua-drop".to_owned(), 1)]));
    place.write("routes.csv", "prefix,value\n10.0.0.5/32,1\n");
    rig.reload(&file).unwrap();
    rig.send(0, &frames);
    assert_eq!(rig.received(), [0, 3, 2], "10.0.0.4 and 10.0.0.5 to c now");
    rig.stop();
    let infos = infos(&["a", "b", "c"].map(|name| (name.to_owned(), MemPort::fed(name).0)));
    let folder = Folder::open(&place.0).unwrap();
    place.write("wrong.csv", "prefix,value\n10.0.0.1/8,1\n10.0.0.0/8,2147483647\n");
    place.write("twice.csv", "number,value\n7,2\n7,3\n");
    let cases = [
        (
            "t = {}",
            "has nothing to look up; give it prefixes, prefixes_csv, numbers, numbers_csv, or meters with a rate and a burst",
        ),
        ("t = { meters = 5 }", "has meters without both of rate and burst; give it both"),
        (
            "t = { meters = 5, rate = '1 Mbit/s', burst = '1 kB', numbers_csv = 'users.csv' }",
            "is of several kinds; choose",
        ),
        ("t = { numbers_csv = 'users.csv', rate = '1 Mbit/s' }", "is of several kinds; choose"),
        ("t = { numbers_csv = 'none.csv' }", "\"none.csv\" does not exist in the folder"),
        ("t = { numbers_csv = 'twice.csv' }", "has 7 twice"),
        ("t = { prefixes_csv = 'wrong.csv' }", "wrong.csv:2:1: prefix: \"10.0.0.1/8\" has host bits set"),
        (
            "t = { prefixes_csv = 'wrong.csv' }",
            "wrong.csv:3:12: value: \"2147483647\" is not a number from 0 to 2147483646",
        ),
        ("t = { prefixes = { ['10.0.0.0/8'] = 2147483647 } }", "the value 2147483647; it may be at most 2147483646"),
        ("t = { numbers = { { number = 7, value = 1 } }, numbers_csv = 'users.csv' }", "has 7 twice"),
        (
            "t = { numbers = {}, own = { { meter = 1, rate = '1 Mbit/s', burst = '1 kB' } } }",
            "is of several kinds; choose",
        ),
        (
            "t = { meters = 5, rate = '1 Mbit/s', burst = '1 kB', own = { { meter = 5, rate = '1 Mbit/s', burst = '1 kB' } } }",
            "says what the meter 5 does; it has 5, the first is 0",
        ),
        ("['a.b'] = { numbers = {} }", "\"a.b\" has the wrong form; expected a name"),
        ("t = { meters = 5, rate = '1 Mbit/s', burst = '0 B' }", "one of the burst sizes must be larger than 0"),
    ];
    for (tables, said) in cases {
        let file = configure(tables);
        let errors = build(&file, &infos, &folder).map(drop).unwrap_err().join("\n");
        assert!(errors.contains(said), "{tables}: {errors}");
    }
}

#[test]
fn each_worker_has_a_machine_of_its_own() {
    let place = Place::new("replicas");
    place.write("count.lua", "local n = 0\nfunction run(b) n = n + b:count() b:set_u8(1, 0, n) end");
    let file = place.write("config.lua", &format!("{PORTS} lua {{ file = 'count.lua', paths = {{ 'a -> b' }} }}"));
    let rig = Rig::new(&file);
    let mut seen = Vec::new();
    for replica in [1, 2, 1] {
        let (mut nodes, _) = rig.instance.graph(replica).unwrap().into_parts();
        let mut harness = Harness::new(Boxed(nodes.remove(0).stage));
        for _ in 0..2 {
            seen.push(harness.run(0, &[[0; 60]]).way("out")[0][0]);
        }
    }
    assert_eq!(seen, [1, 2, 1, 2, 1, 2]);
    assert_eq!(rig.instance.show("lua", None, 0).unwrap().piece().len(), 3);
    rig.stop();
}

#[test]
fn mistakes_are_told_all_at_once_with_their_places() {
    let place = Place::new("mistakes");
    place.write("empty.lua", "");
    let port = |name: &str| {
        let (port, _) = MemPort::fed(name);
        (name.to_owned(), port)
    };
    let infos = infos(&[port("a"), port("b"), port("wan")]);
    let folder = Folder::open(&place.0).unwrap();
    let said = |lua: &str| {
        let ports = "port { name = 'a', device = 'null' } port { name = 'b', device = 'null' }\n";
        let file = place.write("config.lua", &format!("{ports}lua {{ {lua} }}"));
        let at = format!("{}:2: ", file.display());
        let errors = build(&file, &infos, &folder).err().unwrap();
        errors.iter().map(|error| error.replace(&at, "")).collect::<Vec<_>>()
    };
    assert_eq!(
        said("file = 'empty.lua', paths = { 'a b', 'a -> wam', 'a -> b', 'a -> a' }"),
        [
            "lua.paths[1]: \"a b\" is not a path; write it \"from -> to\"".to_owned(),
            "lua.paths[2]: \"wam\" names no port; expected one of a, b, wan; did you mean \"wan\"?".to_owned(),
            "lua.paths[4]: port \"a\" is the start of two paths; a packet leaves by one".to_owned(),
            format!("{}: defines no function run(batch)", place.0.join("empty.lua").display()),
        ]
    );
    assert!(said("file = 'none.lua', paths = { 'a -> b' }")[0].starts_with("lua.file: \"none.lua\" does not exist"));
    assert!(said("file = '../up.lua', paths = { 'a -> b' }")[0].contains("leads out of the folder"));
    assert!(said("file = 'empty.lua', paths = {}")[0].contains("lua.paths"));
    assert!(said("file = 'empty.lua', paths = { 'a -> b' }, ways = { 'z' }")[0].contains("lua.ways[1]"));
}
