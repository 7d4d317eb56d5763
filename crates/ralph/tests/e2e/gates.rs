//! Gates and the attribution of their results: dirty trees, weakened tests and changed gates cannot change them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::harness::Place;
use crate::support::process::Finished;

/// A repository with a gate `tests` that runs `./check`.
pub(crate) struct Gated {
    pub(crate) place: Place,
}

pub(crate) const GATE: &str = "[[gate]]\nname = \"tests\"\nrun = [\"./check\"]\n";

impl Gated {
    /// Creates `./check` with this shell script, commits it, and configures `more` settings in addition to the gate.
    pub(crate) fn new(check: &str, more: &str) -> Gated {
        let gated = Gated { place: Place::new() };
        gated.place.configure(&format!("{more}\n{GATE}"));
        fs::write(gated.file(".gitignore"), "/ralph.toml\n").unwrap();
        gated.script("check", check);
        gated.commit("base");
        gated
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.place.env.repo().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.file(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Writes an executable shell script.
    pub(crate) fn script(&self, name: &str, text: &str) {
        self.write(name, &format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(self.file(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Commits everything, as an agent would; returns the commit.
    pub(crate) fn commit(&self, message: &str) -> String {
        self.place.env.git(&["add", "--all"]);
        self.place.env.git(&["commit", "--quiet", "--allow-empty", "--message", message]);
        self.head()
    }

    pub(crate) fn head(&self) -> String {
        self.place.env.git(&["rev-parse", "HEAD"])
    }

    /// Runs the gates; returns the exit code and the report.
    pub(crate) fn gates(&self, args: &[&str]) -> (i32, Value) {
        let mut all = vec!["gates", "run", "--json"];
        all.extend_from_slice(args);
        let finished = self.place.ralph(&all);
        let json = serde_json::from_str(&finished.stdout)
            .unwrap_or_else(|error| panic!("no report ({error})\n{finished}"));
        (finished.status.code().unwrap(), json)
    }

    /// Runs the gates against a base; returns what the only gate's result is attributed to.
    pub(crate) fn attribution(&self, base: &str) -> String {
        attribution(&self.gates(&["--base", base]).1)
    }

    /// The directory of Ralph's private files for this repository.
    pub(crate) fn private(&self) -> PathBuf {
        let mut found = self.place.path("state/ralph");
        for name in ["repo-", "repositories", "repo-"] {
            let mut entries = fs::read_dir(&found).unwrap().map(|entry| entry.unwrap().path());
            found = entries
                .find(|path| path.file_name().unwrap().to_string_lossy().starts_with(name))
                .unwrap();
        }
        found
    }
}

pub(crate) fn attribution(report: &Value) -> String {
    report["gates"][0]["attribution"].as_str().unwrap().to_owned()
}

pub(crate) fn log(report: &Value) -> String {
    fs::read_to_string(report["gates"][0]["log"].as_str().unwrap()).unwrap()
}

/// Returns cargo's output for this many passed tests.
pub(crate) fn cargo_says(passed: u32) -> String {
    format!(
        "echo 'test result: ok. {passed} passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s'"
    )
}

#[test]
fn gates_are_listed_with_what_they_run_and_where_they_come_from() {
    let gated = Gated::new("true", "");
    let listed = gated.place.ralph(&["gates"]);
    assert_eq!(listed.status.code(), Some(0), "{listed}");
    assert!(listed.stdout.contains("./check") && listed.stdout.contains("ralph.toml:"), "{listed}");
    let rows: Value =
        serde_json::from_str(&gated.place.ralph(&["gates", "list", "--json"]).stdout).unwrap();
    assert_eq!(rows[0]["name"], "tests");
    assert_eq!(rows[0]["timeout_ms"], 1_800_000);
    gated.place.configure("");
    for command in ["list", "run"] {
        let none = gated.place.ralph(&["gates", command]);
        assert_eq!(none.status.code(), Some(2), "{none}");
        assert!(none.to_string().contains("no gates are configured"), "{none}");
    }
}

#[test]
fn a_file_that_only_the_dirty_tree_has_makes_no_gate_pass_and_the_dirt_stays() {
    let gated = Gated::new("test -f needed && test ! -f unwanted", "");
    gated.write("needed", "here, but in no commit");
    gated.write(".gitignore", "/ralph.toml\nmine\n");
    gated.write("mine", "the person's");
    let status = gated.place.env.git(&["status", "--porcelain", "--ignored"]);
    let (code, report) = gated.gates(&[]);
    assert_eq!((code, attribution(&report).as_str()), (1, "failed"), "{report}");
    assert_eq!(gated.place.env.git(&["status", "--porcelain", "--ignored"]), status);
    gated.commit("with the file");
    gated.write("unwanted", "in the tree only");
    let (code, report) = gated.gates(&[]);
    assert_eq!((code, attribution(&report).as_str()), (0, "passed"), "{report}");
    assert_eq!(report["commit"], gated.head());
    assert_eq!(report["level"], "gates_passed");
}

#[test]
fn the_last_lines_of_a_failed_gate_are_shown_and_its_output_is_kept() {
    let gated = Gated::new("seq 1 100; echo to stderr >&2; exit 3", "");
    let finished = gated.place.ralph(&["gates", "run"]);
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    assert!(finished.stderr.contains("to stderr") && finished.stderr.contains("    100"));
    assert!(!finished.stderr.contains("    50\n"), "{finished}");
    assert!(finished.stdout.contains("failed") && finished.stdout.contains(".log"), "{finished}");
    let (_, report) = gated.gates(&[]);
    assert_eq!(log(&report).lines().count(), 101);
    assert_eq!(report["gates"][0]["run"]["status"]["exit"], json!({ "code": 3 }));
    let digest = report["gates"][0]["run"]["output"]["sha256"].as_str().unwrap();
    let path = report["gates"][0]["log"].as_str().unwrap();
    let told = std::process::Command::new("sha256sum").arg(path).output().unwrap();
    assert!(String::from_utf8_lossy(&told.stdout).starts_with(digest));
}

#[test]
fn a_gate_that_was_red_before_is_told_from_one_that_went_red() {
    let gated = Gated::new("test ! -f src/broken", "");
    let green = gated.head();
    gated.write("src/broken", "");
    let red = gated.commit("break it");
    gated.write("more", "");
    gated.commit("more");
    assert_eq!(gated.attribution(&green), "regressed");
    assert_eq!(gated.attribution(&red), "red_before_and_after");
    fs::remove_file(gated.file("src/broken")).unwrap();
    gated.commit("repair it");
    let (code, report) = gated.gates(&["--base", &red]);
    assert_eq!((code, attribution(&report).as_str()), (0, "passed"));
}

#[test]
fn what_a_gate_said_at_the_base_is_asked_once() {
    let gated = Gated::new("echo ran; test ! -f broken", "");
    let base = gated.head();
    gated.write("broken", "");
    gated.commit("break it");
    let said = |finished: &Finished| finished.stderr.matches("(on base)").count();
    let first = gated.place.ralph(&["gates", "run", "--base", &base]);
    let second = gated.place.ralph(&["gates", "run", "--base", &base]);
    assert_eq!((said(&first), said(&second)), (2, 0), "{first}{second}");
    assert!(second.stdout.contains("regressed"), "{second}");
}

#[test]
fn a_gate_that_fails_and_passes_at_one_commit_is_flaky() {
    let gated = Gated::new("true", "");
    let beside = gated.place.path("beside");
    fs::create_dir(&beside).unwrap();
    gated.place.configure(&format!("writable = [{beside:?}]\n{GATE}"));
    let count = |path: &str| format!("echo x >> {path}; test $(wc -l < {path}) -ge 2");
    gated.script("check", &count(&format!("{}/count", beside.display())));
    gated.commit("a count");
    let (code, report) = gated.gates(&[]);
    assert_eq!((code, attribution(&report).as_str()), (1, "flaky"), "{report}");
    // What the first run leaves in the cache of a toolchain is not there for the second.
    gated.script("check", &count("$npm_config_cache/count"));
    gated.commit("a count in a cache");
    let (code, report) = gated.gates(&[]);
    assert_eq!((code, attribution(&report).as_str()), (1, "failed"), "{report}");
}

#[test]
fn fewer_tests_than_at_the_base_and_none_at_all_are_no_proof() {
    let gated = Gated::new(". ./src/runner.sh", "");
    gated.write("src/runner.sh", &cargo_says(5));
    let base = gated.commit("five");
    gated.write("src/runner.sh", &cargo_says(4));
    gated.commit("four");
    let (_, report) = gated.gates(&["--base", &base]);
    assert_eq!(attribution(&report), "fewer_tests");
    assert_eq!(
        (&report["gates"][0]["base"], &report["gates"][0]["candidate"]),
        (&json!(5), &json!(4))
    );
    gated.write("src/runner.sh", &cargo_says(0));
    gated.commit("none");
    let (code, report) = gated.gates(&[]);
    assert_eq!((code, attribution(&report).as_str()), (1, "proved_nothing"));
    assert_eq!(report["level"], "not_proven");
    gated.write("src/runner.sh", &cargo_says(6));
    gated.commit("six");
    assert_eq!(gated.attribution(&base), "passed");
}

#[test]
fn tests_that_were_deleted_or_skipped_are_named() {
    let gated = Gated::new("true", "");
    let tests = "#[test]\nfn adds() {\n    assert_eq!(1 + 1, 2);\n}\n\n#[test]\nfn takes() {\n    assert_eq!(2 - 1, 1);\n}\n";
    gated.write("tests/sums.rs", tests);
    gated.write("tests/test_more.py", "def test_a():\n    assert f() == 1\n");
    let base = gated.commit("tests");
    gated.write(
        "tests/sums.rs",
        &tests.replace("#[test]\nfn takes", "#[test]\n#[ignore]\nfn takes"),
    );
    fs::remove_file(gated.file("tests/test_more.py")).unwrap();
    gated.commit("quieter");
    let (code, report) = gated.gates(&["--base", &base]);
    // Nothing fails with the original tests, so the change is only reported.
    assert_eq!((code, attribution(&report).as_str()), (0, "passed"));
    let told = |key: &str| -> Vec<String> {
        let found = report["checks"][key].as_array().unwrap();
        found.iter().map(|one| one["path"].as_str().or(one.as_str()).unwrap().to_owned()).collect()
    };
    assert_eq!(told("changed"), ["tests/sums.rs", "tests/test_more.py"]);
    let hints = told("hints").join("\n");
    assert!(hints.contains("deleted") && hints.contains("takes"), "{hints}");
}

#[test]
fn a_candidate_cannot_change_the_gate_by_its_own_configuration() {
    let gated = Gated::new("exit 1", "");
    gated.write(".gitignore", "");
    let base = gated.commit("with the configuration");
    let theirs = fs::read_to_string(gated.file("ralph.toml")).unwrap();
    gated.write("ralph.toml", &theirs.replace("./check", "true"));
    gated.commit("no more checks");
    // The person's version is in the working tree; the boundary restores it after an agent's run.
    gated.write("ralph.toml", &theirs);
    let (code, report) = gated.gates(&["--base", &base]);
    assert_eq!((code, attribution(&report).as_str()), (1, "red_before_and_after"));
    assert_eq!(report["gates"][0]["argv"], json!(["./check"]));
}

#[test]
fn a_script_that_is_a_gate_cannot_be_changed_unseen() {
    let gated = Gated::new("exit 1", "");
    let base = gated.head();
    gated.script("check", "exit 0");
    gated.commit("a better check");
    let (code, report) = gated.gates(&["--base", &base]);
    assert_eq!((code, attribution(&report).as_str()), (1, "passed"), "{report}");
    assert_eq!(report["checks"]["changed"][0]["path"], "check");
    assert_eq!(
        (&report["checks"]["holds"], &report["level"]),
        (&json!(false), &json!("checks_changed"))
    );
    gated.place.configure(&format!("[protect]\nallow = [\"check\"]\n{GATE}"));
    assert_eq!(gated.gates(&["--base", &base]).0, 0);
}

#[test]
fn a_gate_that_the_candidate_takes_away_is_broken_and_not_passed() {
    let gated = Gated::new("true", "");
    let base = gated.head();
    fs::remove_file(gated.file("check")).unwrap();
    gated.commit("no check");
    let (code, report) = gated.gates(&["--base", &base]);
    assert_eq!((code, attribution(&report).as_str()), (1, "broken"), "{report}");
    assert_eq!(report["gates"][0]["obstacle"]["kind"], "no_program");
    assert_eq!(attribution(&gated.gates(&[]).1), "could_not_run");
}

/// The base's result is kept, so it may be older than the change of the machine.
#[test]
fn a_gate_whose_program_is_gone_from_the_machine_is_not_broken_by_the_candidate() {
    let gated = Gated::new("true", "");
    let tool = gated.place.path("tool");
    gated.script(tool.to_str().unwrap(), "true");
    let gate = format!("[[gate]]\nname = \"tool\"\nrun = [{tool:?}]\n");
    gated.place.configure(&gate);
    let base = gated.head();
    gated.write("work", "1");
    gated.commit("work");
    assert_eq!(gated.attribution(&base), "passed");
    fs::remove_file(&tool).unwrap();
    gated.write("work", "2");
    gated.commit("more work");
    assert_eq!(gated.attribution(&base), "could_not_run");
    gated.script(tool.to_str().unwrap(), "true");
    assert_eq!(gated.attribution(&base), "passed");
}

#[test]
fn a_program_that_setup_needs_and_that_is_missing_is_named_and_not_tried_twice() {
    let gated = Gated::new("true", "[checkout]\nsetup = [[\"no-such-runner\", \"ci\"]]\n");
    let finished = gated.place.ralph(&["gates", "run"]);
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    assert!(finished.stdout.contains("program `no-such-runner` not found"), "{finished}");
    assert_eq!(finished.stderr.matches("[setup] no-such-runner ci").count(), 1, "{finished}");
}

#[test]
fn gates_can_be_picked_by_name_and_commits_by_any_name_git_knows() {
    let gated = Gated::new("true", "");
    let base = gated.head();
    gated.script("check", "exit 1");
    gated.commit("break it");
    let other = "[[gate]]\nname = \"other\"\nrun = [\"false\"]\n";
    gated.place.configure(&format!("{GATE}{other}"));
    let (code, report) = gated.gates(&["--gate", "tests", "--commit", "HEAD~1"]);
    assert_eq!(
        (code, &report["commit"], report["gates"].as_array().unwrap().len()),
        (0, &json!(base), 1)
    );
    for args in [["--gate", "nope"], ["--commit", "nope"], ["--base", "--all"]] {
        let mut all = vec!["gates", "run"];
        all.extend(args);
        let finished = gated.place.ralph(&all);
        assert_eq!(finished.status.code(), Some(2), "{finished}");
    }
}
