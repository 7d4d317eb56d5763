//! Holds the lines that the compiler cannot: what ARCHITECTURE.md promises to be absent, and that it names everything.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The project's Rust sources below a directory, with their text.
fn sources(below: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut open = vec![root().join(below)];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    assert!(!found.is_empty(), "{below}");
    found
}

/// A source without its tests.
fn code(path: &Path, text: &str) -> String {
    let name = path.file_name().unwrap().to_string_lossy();
    if name.ends_with("_tests.rs") || name == "test_place.rs" {
        return String::new();
    }
    text.split("#[cfg(test)]\nmod tests").next().unwrap().to_owned()
}

#[test]
fn what_the_architecture_promises_to_be_absent_is_absent() {
    for (crates, word, allowed) in [
        ("crates/ralph-model/src", "Command::new", &[][..]),
        ("crates/ralph-git/src", "Command::new", &[]),
        ("crates/ralph-engine/src", "Command::new", &[]),
        ("crates/ralph/src", "Command::new", &[]),
        ("crates/ralph-engine/src", "Timestamp::now", &["clock.rs"]),
        ("crates/ralph-engine/src", "SystemTime::now", &["clock.rs"]),
        ("crates/ralph-git/src", "Timestamp::now", &["signature.rs"]),
        ("crates/ralph-git/src", "SystemTime::now", &[]),
        ("crates/ralph/src", "Timestamp::now", &[]),
        ("crates/ralph-git/src", "println!", &[]),
        ("crates/ralph-engine/src", "println!", &[]),
        ("crates/ralph-engine/src", "clap", &[]),
        ("crates/ralph/src", "println!", &["mod.rs"]),
    ] {
        for (path, text) in sources(crates) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let found = code(&path, &text).contains(word) && !allowed.contains(&name.as_str());
            assert!(!found, "{} has `{word}`", path.display());
        }
    }
}

#[test]
fn every_module_says_what_it_is_for() {
    for crates in ["ralph-model", "ralph-proc", "ralph-git", "ralph-engine", "ralph", "xtask"] {
        for (path, text) in sources(&format!("crates/{crates}/src")) {
            let tests = path.to_string_lossy().ends_with("_tests.rs");
            assert!(tests || text.starts_with("//! "), "{} has no header", path.display());
        }
    }
}

#[test]
fn the_architecture_names_every_module() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for crates in ["ralph-model", "ralph-proc", "ralph-git", "ralph-engine"] {
        let lib = fs::read_to_string(root().join(format!("crates/{crates}/src/lib.rs"))).unwrap();
        let lines = lib.lines().filter_map(|line| line.trim_end_matches(';').split_once("mod "));
        for (before, module) in lines {
            if !before.trim_start().starts_with("//")
                && !["millis", "test_place", "testing"].contains(&module)
            {
                assert!(
                    map.contains(&format!("`{module}`")),
                    "{crates}::{module} is not on the map"
                );
            }
        }
    }
    assert!(map.lines().count() <= 200, "a map that is longer than 200 lines is not read");
}
