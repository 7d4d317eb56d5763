//! Gates in their own checkout: what a dirty tree, a weakened test or a misbehaving command cannot do.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{PATIENCE, Place, wait_until};
use crate::support::process::{Finished, run};

/// A repository with a gate `tests` that runs `./check`.
pub(crate) struct Gated {
    pub(crate) place: Place,
}

pub(crate) const GATE: &str = "[[gate]]\nname = \"tests\"\nrun = [\"./check\"]\n";

impl Gated {
    /// Makes `./check` with this shell script, commits it, and configures `more` settings beside the gate.
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

    /// Writes a shell script that git will know as executable.
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

    /// Where Ralph keeps what belongs to this repository.
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

fn log(report: &Value) -> String {
    fs::read_to_string(report["gates"][0]["log"].as_str().unwrap()).unwrap()
}

/// Prints what cargo prints of this many passed tests.
fn cargo_says(passed: u32) -> String {
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
    assert_eq!(report["proven"], true);
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
    let gated = Gated::new("test ! -f broken", "");
    let green = gated.head();
    gated.write("broken", "");
    let red = gated.commit("break it");
    gated.write("more", "");
    gated.commit("more");
    assert_eq!(gated.attribution(&green), "regressed");
    assert_eq!(gated.attribution(&red), "red_before_and_after");
    fs::remove_file(gated.file("broken")).unwrap();
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
    let said = |finished: &Finished| finished.stderr.matches("(at the base)").count();
    let first = gated.place.ralph(&["gates", "run", "--base", &base]);
    let second = gated.place.ralph(&["gates", "run", "--base", &base]);
    assert_eq!((said(&first), said(&second)), (2, 0), "{first}{second}");
    assert!(second.stdout.contains("regressed"), "{second}");
}

#[test]
fn a_gate_that_fails_and_passes_at_one_commit_is_flaky() {
    // A cache of a toolchain is the one place outside the checkout that it can write.
    let check = "echo x >> \"$HOME/.npm/count\"; test $(wc -l < \"$HOME/.npm/count\") -ge 2";
    let gated = Gated::new(check, "");
    fs::create_dir(gated.place.env.home().join(".npm")).unwrap();
    let (code, report) = gated.gates(&[]);
    assert_eq!((code, attribution(&report).as_str()), (1, "flaky"), "{report}");
}

#[test]
fn fewer_tests_than_at_the_base_and_none_at_all_are_no_proof() {
    let gated = Gated::new("sh ./runner", "");
    gated.write("runner", &cargo_says(5));
    let base = gated.commit("five");
    gated.write("runner", &cargo_says(4));
    gated.commit("four");
    let (_, report) = gated.gates(&["--base", &base]);
    assert_eq!(attribution(&report), "fewer_tests");
    assert_eq!(
        (&report["gates"][0]["base"], &report["gates"][0]["candidate"]),
        (&json!(5), &json!(4))
    );
    gated.write("runner", &cargo_says(0));
    gated.commit("none");
    let (code, report) = gated.gates(&[]);
    assert_eq!((code, attribution(&report).as_str()), (1, "proved_nothing"));
    assert_eq!(report["proven"], false);
    gated.write("runner", &cargo_says(6));
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
    assert_eq!((code, attribution(&report).as_str()), (1, "passed"));
    let mut kinds: Vec<&str> = report["weakened"]
        .as_array()
        .unwrap()
        .iter()
        .map(|weakening| weakening["what"]["weakened"].as_str().unwrap())
        .collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["file_deleted", "test_skipped"], "{report}");
    gated.place.configure(&format!("[protect]\nallow = [\"tests/**\"]\n{GATE}"));
    let (code, report) = gated.gates(&["--base", &base]);
    assert_eq!((code, &report["weakened"]), (0, &json!([])));
}

#[test]
fn a_candidate_cannot_change_the_gate_by_its_own_configuration() {
    let gated = Gated::new("exit 1", "");
    gated.write(".gitignore", "");
    let base = gated.commit("with the configuration");
    let theirs = fs::read_to_string(gated.file("ralph.toml")).unwrap();
    gated.write("ralph.toml", &theirs.replace("./check", "true"));
    gated.commit("no more checks");
    // What the person has is in the work tree; the boundary puts it back after an agent's run.
    gated.write("ralph.toml", &theirs);
    let (code, report) = gated.gates(&["--base", &base]);
    assert_eq!((code, attribution(&report).as_str()), (1, "red_before_and_after"));
    assert_eq!(report["gates"][0]["argv"], json!(["./check"]));
    assert_eq!(report["weakened"][0]["what"]["weakened"], "gates_changed", "{report}");
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

#[test]
fn a_gate_that_hangs_is_ended_in_time_and_leaves_nothing() {
    let gated = Gated::new("echo $$; sleep 1000 & sleep 1000", "");
    gated.place.configure(&format!("{GATE}timeout = \"300ms\"\n"));
    let (code, report) = gated.gates(&[]);
    assert_eq!(
        (code, report["gates"][0]["run"]["status"]["status"].as_str().unwrap()),
        (1, "timed_out")
    );
    let pid = log(&report).trim().to_owned();
    assert!(!PathBuf::from("/proc").join(pid).exists());
}

#[test]
fn a_gate_that_leaves_a_daemon_leaves_nothing() {
    let check =
        "setsid sh -c 'echo $$; trap \"\" TERM HUP; while :; do sleep 1000; done' &\nsleep 0.2";
    let gated = Gated::new(check, "");
    let (code, report) = gated.gates(&[]);
    assert_eq!(code, 0, "{report}");
    let pid = log(&report).trim().to_owned();
    assert!(pid.parse::<u32>().is_ok(), "{pid:?}");
    assert!(!PathBuf::from("/proc").join(pid).exists());
}

#[test]
fn a_flood_of_output_is_kept_whole() {
    const SIZE: u64 = 1 << 28;
    let gated = Gated::new(&format!("head -c {SIZE} /dev/zero; {}", cargo_says(3)), "");
    let (code, report) = gated.gates(&[]);
    assert_eq!(code, 0, "{report}");
    let length = fs::metadata(report["gates"][0]["log"].as_str().unwrap()).unwrap().len();
    assert!(length > SIZE, "{length}");
}

#[test]
fn ctrl_c_ends_the_gates_and_everything_they_started() {
    let gated = Gated::new("echo $$ > \"$TMPDIR/../pid\"; sleep 1000", "");
    let running = gated.place.start(&["gates", "run"]);
    let tmp = gated.place.env.tmp();
    let pid_file = || {
        let scratches = fs::read_dir(&tmp).unwrap().map(|entry| entry.unwrap().path());
        scratches.map(|scratch| scratch.join("pid")).find(|pid| pid.exists())
    };
    wait_until(PATIENCE, "the gate runs", || {
        pid_file().is_some_and(|pid| fs::read_to_string(pid).unwrap().ends_with('\n'))
    });
    let pid = fs::read_to_string(pid_file().unwrap()).unwrap().trim().to_owned();
    running.signal(Signal::INT);
    let (code, said) = running.finish();
    assert_eq!(code, Some(130), "{said}");
    assert!(!PathBuf::from("/proc").join(pid).exists());
}

#[test]
fn a_gate_writes_its_checkout_and_nothing_else_and_has_no_network() {
    let check = r#"
touch inside && touch "$TMPDIR/scratch" || exit 9
for target in "$(git rev-parse --git-dir)/planted" "$OUTSIDE/planted" "$HOME/planted"; do
    if touch "$target" 2>/dev/null; then echo "wrote $target"; fi
done
git rev-parse HEAD
env | grep -E '^(RALPH_HOME|GIT_)' && exit 8
python3 - <<'PYTHON' || exit 7
import socket
server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen()
try:
    socket.create_connection(server.getsockname()); print("connected")
except PermissionError:
    print("refused")
try:
    socket.socket(socket.AF_UNIX); print("unix")
except PermissionError:
    print("no unix")
PYTHON
"#;
    let gated = Gated::new(check, "boundary = \"kernel\"");
    let mut variables = gated.place.variables();
    variables.push(("OUTSIDE".to_owned(), crate::support::text(&gated.place.env.repo())));
    variables.push(("GIT_DIR".to_owned(), "/nowhere".to_owned()));
    variables.push(("RALPH_HOME".to_owned(), "ralph".to_owned()));
    for (more, expected) in
        [("", "refused\nno unix\n"), ("net = true\nunix = true\n", "connected\nunix\n")]
    {
        gated.place.configure(&format!("boundary = \"kernel\"\n{GATE}{more}"));
        let ralph = std::path::Path::new(crate::harness::RALPH);
        let args = ["gates", "run", "--json"];
        let finished = run(&gated.place.env, ralph, &args, &variables, "", PATIENCE);
        let report: Value =
            serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{finished}"));
        assert_eq!(log(&report), format!("{}\n{expected}", gated.head()), "{finished}");
    }
}

#[test]
fn one_gate_leaves_nothing_for_the_next_but_what_is_named_as_a_cache() {
    let gated = Gated::new("test ! -f planted && test -f kept/planted", "");
    gated.script("first", "mkdir -p kept; touch planted ignored kept/planted");
    gated.write(".gitignore", "ignored\n/ralph.toml\n");
    gated.commit("two gates");
    let first = "[[gate]]\nname = \"first\"\nrun = [\"./first\"]\nfast = true\n";
    gated.place.configure(&format!("[checkout]\ncache = [\"kept\"]\n{GATE}{first}"));
    let (code, report) = gated.gates(&[]);
    assert_eq!(code, 0, "{report}");
    assert_eq!(report["gates"][0]["name"], "first", "fast ones first");
    assert_eq!(report["caches"], json!({ "state": "cold" }));
    assert_eq!(gated.gates(&[]).1["caches"], json!({ "state": "warm", "paths": ["kept"] }));
}

#[test]
fn setup_runs_when_it_must_and_its_failure_keeps_gates_from_running() {
    let gated = Gated::new("test -f deps/lib", "");
    gated.script("install", "mkdir -p deps; echo x >> deps/lib; test ! -f bad.lock");
    gated.write("Cargo.lock", "1");
    let base = gated.commit("setup");
    let with = |cache: &str| {
        gated.place.configure(&format!("[checkout]\nsetup = [[\"./install\"]]\n{cache}{GATE}"));
    };
    let setups = || {
        let finished = gated.place.ralph(&["gates", "run"]);
        assert_eq!(finished.status.code(), Some(0), "{finished}");
        finished.stderr.matches("[setup]").count()
    };
    with("cache = [\"deps\"]\n");
    assert_eq!((setups(), setups()), (1, 0), "kept in the cache");
    gated.write("Cargo.lock", "2");
    gated.commit("other dependencies");
    assert_eq!((setups(), setups()), (1, 0), "a lock file changed");
    with("");
    assert_eq!((setups(), setups()), (1, 1), "the reset takes it away");
    gated.write("bad.lock", "");
    gated.commit("setup fails");
    let (code, report) = gated.gates(&["--base", &base]);
    assert_eq!((code, attribution(&report).as_str()), (1, "broken"), "{report}");
    assert!(report["gates"][0]["obstacle"]["message"].as_str().unwrap().contains("./install"));
}

#[test]
fn submodules_and_large_files_that_nobody_filled_keep_gates_from_running() {
    let gated = Gated::new("true", "");
    let head = gated.head();
    gated.write(".gitmodules", "[submodule \"sub\"]\n\tpath = sub\n\turl = ../sub\n");
    let link = format!("160000,{head},sub");
    gated.place.env.git(&["update-index", "--add", "--cacheinfo", &link]);
    gated.place.env.git(&["add", ".gitmodules"]);
    gated.place.env.git(&["commit", "--quiet", "--message", "submodule"]);
    let (_, report) = gated.gates(&[]);
    assert_eq!(attribution(&report), "could_not_run", "{report}");
    assert!(report["gates"][0]["obstacle"]["message"].as_str().unwrap().contains("`sub`"));
    gated.place.env.git(&["rm", "--quiet", "--cached", "sub", ".gitmodules"]);
    fs::remove_file(gated.file(".gitmodules")).unwrap();
    gated.write(".gitattributes", "*.bin filter=lfs\n");
    gated.write("a.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
    gated.commit("large file");
    let (_, report) = gated.gates(&[]);
    assert_eq!(attribution(&report), "could_not_run", "{report}");
    let fill = "[checkout]\nsetup = [[\"sh\", \"-c\", \"echo content > a.bin\"]]\n";
    gated.place.configure(&format!("{fill}{GATE}"));
    assert_eq!(attribution(&gated.gates(&[]).1), "passed");
}

#[test]
fn a_workspace_in_a_subdirectory_runs_its_gates_there() {
    let gated = Gated::new("false", "");
    gated.script("part/check", "test -f only-here");
    gated.write("part/only-here", "");
    let base = gated.commit("a part");
    fs::rename(gated.file("ralph.toml"), gated.file("part/ralph.toml")).unwrap();
    gated.write(".gitignore", "ralph.toml\n");
    gated.write("part/src/x", "1");
    gated.commit("a change");
    let more = "paths = [\"src/**\"]\n";
    let config = fs::read_to_string(gated.file("part/ralph.toml")).unwrap();
    fs::write(gated.file("part/ralph.toml"), format!("{config}{more}")).unwrap();
    let root = crate::support::text(&gated.file("part"));
    let (code, report) = gated.gates(&["--root", &root, "--base", &base]);
    assert_eq!((code, attribution(&report).as_str()), (0, "passed"), "{report}");
    gated.write("elsewhere", "1");
    let later = gated.head();
    gated.commit("another change");
    let (_, report) = gated.gates(&["--root", &root, "--base", &later]);
    assert_eq!(report["unconcerned"], json!(["tests"]));
}

#[test]
fn two_ralphs_do_not_share_a_checkout() {
    let gated = Gated::new("touch \"$TMPDIR/../on\"; sleep 1000", "");
    let running = gated.place.start(&["gates", "run"]);
    let tmp = gated.place.env.tmp();
    wait_until(Duration::from_mins(1), "the gate runs", || {
        let scratches = fs::read_dir(&tmp).unwrap().map(|entry| entry.unwrap().path());
        scratches.into_iter().any(|scratch| scratch.join("on").exists())
    });
    let second = gated.place.ralph(&["gates", "run"]);
    assert_eq!(second.status.code(), Some(1), "{second}");
    assert!(second.stderr.contains("`ralph gates run` (pid"), "{second}");
    running.signal(Signal::INT);
    assert_eq!(running.finish().0, Some(130));
}

#[test]
fn without_the_kernel_gates_run_unconfined_and_the_report_says_so() {
    let gated = Gated::new("touch \"$HOME/written\"", "");
    gated.place.configure(&format!("boundary = \"detect\"\n{GATE}"));
    let (code, report) = gated.gates(&[]);
    assert_eq!((code, &report["boundary"]), (0, &json!("detect")), "{report}");
    assert!(gated.place.env.home().join("written").exists());
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
