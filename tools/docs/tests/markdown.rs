//! What Markdown files say about the sources is true: pieces of Rust are there, and links lead somewhere.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// All files below `folder` with this extension, but for those that were built or are hidden.
fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|other| other == extension) {
            found.push(path);
        }
    }
}

fn read_all(extension: &str) -> BTreeMap<PathBuf, String> {
    let mut paths = Vec::new();
    files(&root(), extension, &mut paths);
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// The fenced pieces of a Markdown text in a language, each with the line it starts in.
fn fences(text: &str, language: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut inside: Option<bool> = None;
    for (n, line) in text.lines().enumerate() {
        match (line.trim().strip_prefix("```"), inside) {
            (Some(info), None) => {
                let wanted = info.split_whitespace().next() == Some(language);
                inside = Some(wanted);
                if wanted {
                    found.push((n + 2, String::new()));
                }
            }
            (Some(_), Some(_)) => inside = None,
            (None, Some(true)) => {
                let piece = &mut found.last_mut().unwrap().1;
                piece.push_str(line);
                piece.push('\n');
            }
            _ => {}
        }
    }
    found
}

#[test]
fn every_piece_of_rust_is_found_in_a_source_file() {
    let sources = read_all("rs");
    let mut pieces = 0;
    for (path, text) in read_all("md") {
        for (line, piece) in fences(&text, "rust") {
            pieces += 1;
            let found = sources.values().any(|source| source.contains(&piece));
            assert!(found, "{}:{line}: this piece of Rust is in no source file:\n{piece}", path.display());
        }
    }
    assert!(pieces >= 3, "only {pieces} pieces were found");
}

/// The targets of links and pictures, `[text](target)`, outside fences.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut fenced = false;
    let mut found = Vec::new();
    for (n, line) in text.lines().enumerate() {
        if line.trim().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for piece in line.split("](").skip(1) {
            found.push((n + 1, piece.split(')').next().unwrap_or_default().to_owned()));
        }
    }
    found
}

/// The anchor that a heading gets.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let stays = |c: char| c.is_alphanumeric() || c == '-' || c == '_' || c == ' ';
    heading.chars().filter(|c| stays(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn links_lead_somewhere() {
    let texts = read_all("md");
    let mut checked = 0;
    for (path, text) in &texts {
        for (line, target) in links(text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, part) = target.split_once('#').unwrap_or((&target, ""));
            let goal = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let place = format!("{}:{line}: ({target})", path.display());
            assert!(goal.exists(), "{place} leads nowhere");
            if !part.is_empty() {
                let goal = std::fs::read_to_string(&goal).unwrap();
                let known = goal.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line) == part);
                assert!(known, "{place}: there is no such heading");
            }
            checked += 1;
        }
    }
    assert!(checked >= 20, "only {checked} links were found");
}

/// Sources as one text: strings that are broken over lines are joined, and quotes in them are plain.
fn joined(sources: &BTreeMap<PathBuf, String>) -> String {
    let mut text = String::new();
    for source in sources.values() {
        let mut lines = source.lines().peekable();
        while let Some(line) = lines.next() {
            match line.strip_suffix('\\') {
                Some(start) => {
                    text.push_str(start);
                    if let Some(next) = lines.peek_mut() {
                        *next = next.trim_start();
                    }
                }
                None => {
                    text.push_str(line);
                    text.push('\n');
                }
            }
        }
    }
    text.replace("\\\"", "\"")
}

/// Sentences that the program says are shown in pieces of words `text said`, with what differs in braces. The rest of
/// each must be found in the sources.
#[test]
fn sentences_are_those_that_the_program_says() {
    let sources = joined(&read_all("rs"));
    let mut sentences = 0;
    for (path, text) in read_all("md") {
        let said = text.replace("```text said", "```said");
        for (line, piece) in fences(&said, "said") {
            for sentence in piece.lines() {
                sentences += 1;
                let constant = sentence.split('{').map(|part| part.split_once('}').map_or(part, |(_, rest)| rest));
                for part in constant.flat_map(|part| part.split(": ")).map(str::trim).filter(|part| part.len() > 3) {
                    assert!(sources.contains(part), "{}:{line}: \"{part}\" is in no source", path.display());
                }
            }
        }
    }
    assert!(sentences >= 10, "only {sentences} were found");
}
