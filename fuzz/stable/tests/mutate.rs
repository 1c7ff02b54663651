//! Inputs are what seed and number say, and are changed in all the ways that they should be.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::HashSet;

use weir_fuzz::mutate::{MAX_INPUT, Material, Random};
use weir_fuzz::targets::{TARGETS, target};

const TOKENS: &[&[u8]] = &[b"TOKEN"];

fn corpus() -> Vec<Vec<u8>> {
    vec![b"the first input of all".to_vec(), b"another one".to_vec(), Vec::new(), vec![7; MAX_INPUT]]
}

#[test]
fn the_same_number_is_the_same_input() {
    let corpus = corpus();
    let material = Material { corpus: &corpus, tokens: TOKENS, text: false };
    for number in 0..2000 {
        assert_eq!(material.input(1, number), material.input(1, number));
        assert!(material.input(1, number).len() <= MAX_INPUT);
    }
    let of_seed = |seed| (4..500).map(|number| material.input(seed, number)).collect::<Vec<_>>();
    assert_ne!(of_seed(1), of_seed(2));
}

#[test]
fn the_corpus_comes_first_as_it_is() {
    let corpus = corpus();
    let material = Material { corpus: &corpus, tokens: TOKENS, text: false };
    let first: Vec<Vec<u8>> = (0..4).map(|number| material.input(9, number)).collect();
    assert_eq!(first, corpus);
}

#[test]
fn inputs_are_changed_in_every_way() {
    let corpus = corpus();
    let material = Material { corpus: &corpus, tokens: TOKENS, text: false };
    let inputs: HashSet<Vec<u8>> = (4..4000).map(|number| material.input(1, number)).collect();
    assert!(inputs.len() > 3000, "only {} differ", inputs.len());
    let has = |what: &dyn Fn(&[u8]) -> bool| assert!(inputs.iter().any(|input| what(input)));
    let first = corpus[0].as_slice();
    has(&|input| input.windows(5).any(|piece| piece == b"TOKEN"));
    has(&|input| input.len() == first.len() && input.iter().zip(first).filter(|(a, b)| a != b).count() == 1);
    has(&|input| input.starts_with(b"the first") && input.ends_with(b"other one"));
    has(&|input| input.len() < 5 && first.starts_with(input) && !input.is_empty());
    has(&|input| input.windows(4).any(|piece| piece == [0xff; 4]));
    has(&|input| input.len() > 500 && !input.contains(&7));
}

#[test]
fn words_of_a_text_are_changed_as_a_whole() {
    let corpus = vec![b"rate = 10 Mbit/s".to_vec(), b"time = 5 ms".to_vec()];
    let material = Material { corpus: &corpus, tokens: TOKENS, text: true };
    let inputs: HashSet<Vec<u8>> = (2..20_000).map(|number| material.input(1, number)).collect();
    for wanted in ["rate = 65535 Mbit/s", "rate = TOKEN Mbit/s", "rate = 10 /s", "rate = 10 Mbit/time"] {
        assert!(inputs.contains(wanted.as_bytes()), "{wanted}");
    }
    let letter = |input: &Vec<u8>| input.starts_with(b"ra") && input.ends_with(b"e = 10 Mbit/s") && input.len() == 16;
    assert!(inputs.iter().filter(|input| letter(input)).count() > 1, "no letter was changed");
}

#[test]
fn numbers_are_those_of_splitmix64() {
    // The first of seed 1234567 in the reference implementation.
    let mut random = Random::new(1_234_567);
    assert_eq!(random.number(), 6_457_827_717_110_365_317);
    assert_eq!(random.number(), 3_203_168_211_198_807_973);
    assert!((0..1000).all(|_| random.below(3) < 3));
    assert_eq!(random.below(0), 0);
}

#[test]
fn every_target_has_a_corpus_that_gets_past_the_first_check() {
    for known in TARGETS {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(known.name);
        let files: Vec<_> = std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path()).collect();
        assert!(files.len() >= 3, "{} has {} inputs", known.name, files.len());
        assert_eq!(target(known.name).unwrap().help, known.help);
        // Scripts need the program as their child.
        if known.name != "script" {
            let deep = files.iter().filter(|file| (known.run)(&std::fs::read(file).unwrap())).count();
            assert!(deep * 2 > files.len(), "{}: only {deep} of {} are good", known.name, files.len());
        }
    }
}
