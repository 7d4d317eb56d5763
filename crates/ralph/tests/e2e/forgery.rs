//! Forged repositories: whatever an agent with write access to `.git` does, no gate's result changes undetected.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::gates::{GATE, Gated, attribution};

impl Gated {
    /// The file that contains an object.
    fn object(&self, name: &str) -> PathBuf {
        let id = self.place.env.git(&["rev-parse", "--verify", name]);
        self.file(".git/objects").join(&id[..2]).join(&id[2..])
    }

    /// Replaces an object's content with that of another, as git itself never would.
    fn overwrite_object(&self, name: &str, with: &str) {
        let (target, source) = (self.object(name), self.object(with));
        fs::remove_file(&target).unwrap();
        fs::copy(source, target).unwrap();
    }
}

/// A failing gate, and a forged commit with which it would pass.
fn failing() -> (Gated, String) {
    let gated = Gated::new("exit 1", "");
    gated.script("lenient", "exit 0");
    let commit = gated.commit("work");
    (gated, commit)
}

#[test]
fn an_object_overwritten_before_it_was_seen_is_a_forgery_and_no_result() {
    let (gated, _) = failing();
    gated.overwrite_object("HEAD:check", "HEAD:lenient");
    assert!(gated.place.env.git(&["show", "HEAD:check"]).contains("exit 0"), "git is fooled");
    let finished = gated.place.ralph(&["gates", "run"]);
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    assert!(finished.stderr.contains("forged"), "{finished}");
    assert!(!finished.stderr.contains("[passed]"), "{finished}");
}

#[test]
fn an_object_overwritten_after_it_was_seen_changes_nothing() {
    let (gated, _) = failing();
    assert_eq!(attribution(&gated.gates(&[]).1), "failed");
    gated.overwrite_object("HEAD:check", "HEAD:lenient");
    assert_eq!(attribution(&gated.gates(&[]).1), "failed");
}

#[test]
fn replace_refs_and_grafts_are_not_followed() {
    let (gated, commit) = failing();
    gated.place.env.git(&["replace", "HEAD:check", "HEAD:lenient"]);
    gated.write(".git/info/grafts", &format!("{commit}\n"));
    assert!(gated.place.env.git(&["show", "HEAD:check"]).contains("exit 0"), "git is fooled");
    let (code, report) = gated.gates(&["--base", "HEAD~1"]);
    assert_eq!((code, attribution(&report).as_str()), (1, "red_before_and_after"), "{report}");
}

#[test]
fn a_whole_commit_that_is_replaced_is_still_what_its_name_says() {
    let gated = Gated::new("exit 1", "");
    let honest = gated.head();
    gated.script("check", "exit 0");
    let lenient = gated.commit("lenient");
    gated.place.env.git(&["reset", "--quiet", "--hard", &honest]);
    gated.place.env.git(&["replace", &honest, &lenient]);
    let (code, report) = gated.gates(&[]);
    assert_eq!((code, &report["commit"]), (1, &json!(honest)), "{report}");
}

#[test]
fn a_repository_that_leads_elsewhere_is_another_repository() {
    let (gated, commit) = failing();
    assert_eq!(attribution(&gated.gates(&[]).1), "failed");
    let other = gated.place.path("other");
    let other_text = crate::support::text(&other);
    gated.place.env.git(&["clone", "--quiet", ".", &other_text]);
    fs::rename(gated.file(".git"), gated.place.path("real-git")).unwrap();
    let git = |args: &[&str]| {
        let mut all = vec!["-C", other_text.as_str()];
        all.extend_from_slice(args);
        gated.place.env.git(&all)
    };
    fs::write(gated.file(".git"), format!("gitdir: {other_text}/.git\n")).unwrap();
    fs::write(other.join("check"), "#!/bin/sh\nexit 0\n").unwrap();
    git(&["commit", "--quiet", "--all", "--message", "lenient"]);
    // The forged content may pass under its own name; the judged commit still fails.
    let (code, report) = gated.gates(&["--commit", &commit]);
    assert_eq!((code, attribution(&report).as_str()), (1, "failed"), "{report}");
    assert_ne!(gated.gates(&[]).1["commit"], commit);
}

#[test]
fn a_deleted_object_store_is_an_error_and_no_result() {
    let (gated, commit) = failing();
    assert_eq!(attribution(&gated.gates(&[]).1), "failed");
    fs::remove_dir_all(gated.file(".git/objects")).unwrap();
    let gone = gated.place.ralph(&["gates", "run", "--commit", &commit]);
    assert!(gone.status.code().is_some_and(|code| code == 1 || code == 2), "{gone}");
    fs::create_dir(gated.file(".git/objects")).unwrap();
    let empty = gated.place.ralph(&["gates", "run", "--commit", &commit]);
    assert!(empty.status.code().is_some_and(|code| code == 1 || code == 2), "{empty}");
    assert!(!format!("{gone}{empty}").contains("[passed]"));
}

#[test]
fn a_file_that_the_candidate_ignores_does_not_survive_to_the_next_gate() {
    let gated =
        Gated::new("test -f conftest.py && exit 0; touch conftest.py sub/conftest.py; exit 1", "");
    gated.write(".gitignore", "conftest.py\n/ralph.toml\n");
    gated.write("sub/x", "");
    gated.commit("hide what is planted");
    for _ in 0..2 {
        let (code, report) = gated.gates(&[]);
        assert_eq!((code, attribution(&report).as_str()), (1, "failed"), "{report}");
    }
}

#[test]
fn a_poisoned_cache_reaches_neither_the_base_nor_the_next_candidate_until_it_is_accepted() {
    let check = "test -f cache/poison && exit 0; mkdir -p cache; touch cache/poison; exit 1";
    let gated = Gated::new("mkdir -p cache; exit 1", "");
    let base = gated.head();
    gated.script("check", check);
    gated.commit("poison");
    let with =
        |cache: &str| gated.place.configure(&format!("[checkout]\ncache = [{cache}]\n{GATE}"));
    with("\"cache\"");
    let (_, first) = gated.gates(&["--base", &base]);
    assert_eq!(first["caches"], json!({ "state": "cold" }));
    assert_eq!(
        attribution(&first),
        "red_before_and_after",
        "its own leavings do not make it flaky"
    );
    let (_, second) = gated.gates(&["--base", &base]);
    assert_eq!(attribution(&second), "red_before_and_after", "nobody accepted what filled it");
    assert_eq!(second["caches"], json!({ "state": "cold" }));
    let at_base = |report: &Value| report["gates"][0]["at_base"]["status"]["status"].clone();
    assert_eq!((at_base(&first), at_base(&second)), (json!("failed"), json!("failed")));
    let base_checkout = gated.private().join("checkouts/base/tree/cache");
    assert!(base_checkout.is_dir() && !base_checkout.join("poison").exists());
    with("");
    assert_eq!(attribution(&gated.gates(&["--base", &base]).1), "red_before_and_after");
    // The history at the base was accepted, so its cache is used, which is reported.
    with("\"cache\"");
    gated.gates(&["--base", &base]);
    let (_, third) = gated.gates(&["--base", "HEAD"]);
    assert_eq!(third["caches"], json!({ "state": "warm", "paths": ["cache"] }));
}
