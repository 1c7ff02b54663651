//! `weir bench rfc2544` in the whole program. Machines of tests are busy, so that nothing is asserted that depends on how fast anything was: bursts
//! that fit into a ring get through, whoever is late.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Folder, text, weir};
use serde_json::{Value, json};

const CABLE: &str = r#"
    port { name = "west", device = "mem:null" }
    port { name = "east", device = "mem:null" }
    forward { pairs = { { "west", "east" } }, workers = { 0 } }
"#;

fn refusal(arguments: &[&str]) -> String {
    let output = weir(&[&["bench", "rfc2544"], arguments].concat());
    assert!(!output.status.success());
    text(&output.stderr)
}

#[test]
fn bursts_that_fit_into_a_ring_get_through_a_configuration_in_this_process() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        println!("skipped: a device under test and its generator need two cores");
        return;
    }
    let folder = Folder::new("rfc2544");
    let file = folder.write("weir.lua", CABLE);
    let results = folder.path("results");
    let words = ["--sizes", "64,1518", "--test", "back-to-back", "--max-rate", "1 kpps", "--burst-duration", "100 ms"];
    let more = ["--burst-runs", "2", "--linger", "2 s", "--report", &results, "--json"];
    let begin = ["bench", "rfc2544", file.to_str().unwrap(), "--tx", "west", "--rx", "east"];
    let output = weir(&[&begin[..], &words, &more].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["partial"], Value::Null);
    let sizes: Vec<&Value> =
        record["points"].as_array().unwrap().iter().map(|point| &point["parameters"]["frame"]).collect();
    assert_eq!(sizes, [&json!(64.0), &json!(1518.0)]);
    for point in record["points"].as_array().unwrap() {
        let figures = point["figures"].as_array().unwrap();
        let bursts = figures.iter().find(|figure| figure["name"] == "back-to-back").unwrap();
        assert_eq!(bursts["samples"], json!([100.0, 100.0]));
        assert!(point["trouble"].as_str().unwrap().contains("the longest burst that was tried got through"));
    }
    let trials: Value =
        serde_json::from_slice(&std::fs::read(folder.0.join("results/rfc2544-trials.json")).unwrap()).unwrap();
    assert_eq!(trials["frames"][1]["back_to_back"]["at_least"], json!(true));
    assert!(folder.0.join("results/rfc2544.html").exists());
    let progress = text(&output.stderr);
    assert!(progress.contains("64 bytes: back-to-back, 1 of 2") && progress.contains("1518 bytes"), "{progress}");
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_is_sent() {
    let folder = Folder::new("rfc2544-refused");
    let cores = std::thread::available_parallelism().unwrap().get();
    let all = (0..cores).map(|core| core.to_string()).collect::<Vec<_>>().join(", ");
    let greedy = CABLE.replace("{ 0 }", &format!("{{ {all} }}"));
    let (file, greedy) = (folder.write("weir.lua", CABLE), folder.write("greedy.lua", greedy));
    let (file, greedy) = (file.to_str().unwrap(), greedy.to_str().unwrap());
    let ports = ["--tx", "west", "--rx", "east"];
    let with = |file: &str, more: &[&str]| refusal(&[&[file], &ports[..], more].concat());
    assert!(with(greedy, &[]).contains("the generator needs a core of its own"));
    assert!(with(file, &["--core", "0"]).contains("core 0 is one of the device's"));
    assert!(with(file, &["--core", "1000"]).contains("core 1000 is none that this process may run on"));
    assert!(refusal(&[file, "--tx", "west", "--rx", "north"]).contains("declares no port \"north\""));
    assert!(with(file, &["--test", "throughput,reset"]).contains("cannot be restarted alone"));
    let out = ["--tx", "mem:null", "--rx", "mem:null", "--test", "reset", "--sizes", "63", "--width", "0"];
    let told = refusal(&out);
    for mistake in
        ["frame size 63", "width 0", "reset needs the throughput", "needs the command that restarts the device"]
    {
        assert!(told.contains(mistake), "{told}");
    }
    assert!(with(file, &["--link-speed", "10 Mpps"]).contains("write it as in \"10 Gbit/s\""));
}
