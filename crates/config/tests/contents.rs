//! Files that a configuration names, and what a reload is told of their contents.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use std::collections::BTreeMap;
use std::path::PathBuf;

use common::document;
use serde_json::{Value as Json, json};
use weir_config::{Catalogue, Change, Checked, FilePath, Folder, Kind, Plan, config, either};

config! {
    /// Something below.
    pub struct Part {
        /// A file of its own.
        pub file: FilePath = required, rebuild;
    }
}

either! {
    /// Where it comes from.
    pub enum Source {
        /// A file.
        File(FilePath),
        /// The things themselves.
        List(Vec<u8>),
    }
}

config! {
    /// Names files in every way.
    pub struct Namer {
        /// As it is.
        pub plain: Option<FilePath> = optional, rebuild;
        /// Of which contents take less than another file.
        pub script: Option<FilePath> = optional, rebuild, contents(Change::Live);
        /// In a list of tables.
        pub parts: Vec<Part> = empty, live;
        /// In a map.
        pub named: BTreeMap<String, FilePath> = empty, live;
        /// Or something else.
        pub source: Source = default(Source::List(Vec::new())), live;
    }
}

fn kinds() -> Catalogue {
    [Kind::single("namer", Namer::schema())].into_iter().collect()
}

/// A folder that is gone after the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("weir-contents-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.0.join(file), text).unwrap();
    }

    fn checked(&self, namer: &Json) -> Checked {
        let folder = Folder::open(&self.0).unwrap();
        document(&[("namer", namer.clone())]).check(&kinds(), Some(&folder)).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

#[test]
fn other_contents_are_a_change_of_their_key() {
    let place = Place::new("keys");
    let files = ["a", "b", "c", "d", "e"];
    files.iter().for_each(|file| place.write(file, "one"));
    let namer = json!({"plain": "a", "script": "b", "parts": [{"file": "c"}], "named": {"x": "d"}, "source": "e"});
    let keys = ["plain", "script", "parts[1].file", "named.x", "source"];
    let takes = [Change::Rebuild, Change::Live, Change::Rebuild, Change::Live, Change::Live];
    let before = place.checked(&namer);
    place.write("a", "one");
    assert!(Plan::between(&kinds(), &before, &place.checked(&namer)).is_empty(), "written anew, and the same");
    for ((file, key), takes) in files.iter().zip(keys).zip(takes) {
        place.write(file, "two");
        let plan = Plan::between(&kinds(), &before, &place.checked(&namer));
        let told =
            format!("~ namer: changed ({takes})\n    namer.{key}: \"{file}\" as it was -> as it is now ({takes})\n");
        assert_eq!((plan.to_string(), plan.strongest()), (told, Some(takes)));
        place.write(file, "one");
    }
    // Another file is another value, whatever stands in it.
    let other = json!({"plain": "b"});
    let plan = Plan::between(&kinds(), &place.checked(&json!({"plain": "a"})), &place.checked(&other));
    assert!(plan.to_string().contains("namer.plain: \"a\" -> \"b\" (rebuild)"), "{plan}");
}

#[test]
fn the_manual_tells_what_contents_take() {
    let kinds = kinds();
    let manual = kinds.kind("namer").unwrap().manual();
    assert!(manual.contains("| may be absent | rebuild; of its contents: live |"), "{manual}");
    assert_eq!(manual.matches("of its contents").count(), 1, "{manual}");
}
