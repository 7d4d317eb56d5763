//! Sessions survive: whatever interrupted a run, the next run of its item resumes the agent's session in the same slot,
//! and is told about unfinished work.

use std::fs;
use std::path::Path;

use rustix::process::Signal;

use crate::clones::{ONE, isolated, wait_for_slot};
use crate::harness::{PATIENCE, Place, wait_until};
use crate::pipeline::{on, willing};

/// The steps of an interrupted agent.
const HALF: &str = "session s-half\nwrite half.txt half\nrun touch begun; sleep 600";

/// The steps when it resumes.
const REST: &str = "expect-prompt - `half.txt`\nexpect-run test -e half.txt && rm -f begun\nwrite greeting.txt hello";

/// Waits until an agent has created a file, and until the session of the run is in its events, where the successor of a
/// killed Ralph finds it.
pub(crate) fn wait_for_session(place: &Place, begun: &str) {
    wait_for_slot(place, begun);
    let runs = place.env.repo().join("ralph/runs");
    wait_until(PATIENCE, "the session", || has_session(&runs));
}

fn has_session(directory: &Path) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        let is_log = path.to_string_lossy().ends_with(".events.jsonl");
        path.is_dir() && has_session(&path)
            || is_log && fs::read_to_string(&path).is_ok_and(|text| text.contains("s-half"))
    })
}

/// The sessions that the runs of a role resumed.
pub(crate) fn resumed(place: &Place, role: &str) -> Vec<String> {
    let runs = place.logged("run_started").into_iter().filter(|run| run["role"] == role);
    runs.map(|run| run["resumed_session"].as_str().unwrap_or("-").to_owned()).collect()
}

/// A run whose agent had ended when the person stopped Ralph, while what it left behind was being ended, is over.
#[test]
fn a_run_that_had_ended_by_itself_when_ralph_is_stopped_is_not_repeated() {
    // What it leaves behind tells when it is asked to end, and does not: for a moment the run is neither at work nor over.
    let leaves = "write greeting.txt hello\ncommit \"work\" greeting.txt\n\
        run (trap 'touch asked' TERM; touch ready; while :; do sleep 0.01; done) </dev/null >/dev/null 2>&1 & \
        until [ -e ready ]; do sleep 0.01; done; rm ready\n\
        final <<END\n${COMMIT}\nI AM HYPER SURE I AM DONE!\nEND";
    for signal in [Signal::INT, Signal::HUP] {
        let stage = isolated(&willing(&[on("implementer", 1, leaves)]), "", ONE);
        let running = stage.place.start(&["pipeline"]);
        wait_for_slot(&stage.place, "asked");
        running.signal(signal);
        let (code, said) = running.finish();
        assert!(matches!(code, Some(0 | 130)), "{signal:?}: {code:?} {said}");
        stage.pipeline(&[]).exits(0);
        let implementers = resumed(&stage.place, "implementer");
        assert_eq!(implementers.len(), 1, "{signal:?}: {said}");
        stage.place.assert_nothing_left();
    }
}

#[test]
fn a_spec_goes_on_with_its_session_after_ctrl_c_a_closed_terminal_and_a_kill() {
    for (signal, code) in [(Signal::INT, Some(130)), (Signal::HUP, Some(130)), (Signal::KILL, None)]
    {
        let rest = format!(
            "{REST}\nrun git add -A; git commit -qm work\n\
             final <<END\n${{HEAD}}\nI AM HYPER SURE I AM DONE!\nEND"
        );
        let blocks = [on("implementer", 1, HALF), on("implementer", 2, &rest)];
        let stage = isolated(&willing(&blocks), "", ONE);
        let running = stage.place.start(&["pipeline"]);
        wait_for_session(&stage.place, "begun");
        running.signal(signal);
        assert_eq!(running.finish().0, code, "{signal:?}");
        stage.pipeline(&[]).exits(0);
        assert_eq!(resumed(&stage.place, "implementer"), ["-", "s-half"], "{signal:?}");
        assert_eq!(resumed(&stage.place, "verifier"), ["-"]);
        assert_eq!(stage.json("ralph/specs/plans/0001-greeting.json")["attempts_used"], 0);
        assert_eq!((stage.read("half.txt"), stage.read("greeting.txt")), lines("half", "hello"));
        stage.place.assert_nothing_left();
    }
}

fn succeeds(place: &Place, args: &[&str]) {
    let finished = place.ralph(args);
    assert!(finished.status.success(), "{finished}");
}

fn lines(first: &str, second: &str) -> (String, String) {
    (format!("{first}\n"), format!("{second}\n"))
}

#[test]
fn a_task_goes_on_with_its_session_after_ctrl_c_and_a_kill() {
    for signal in [Signal::INT, Signal::KILL] {
        let script = format!(
            "[builder 1]\n{HALF}\n[builder 2]\n{REST}\nrun ralph task done\nfinal done\n\
             [verifier]\nrun ralph task accept\nfinal fine\n"
        );
        let place = Place::rehearsing(&script);
        place.env.isolate();
        succeeds(&place, &["init"]);
        fs::write(place.env.repo().join("ralph/specs/greet.md"), "# Greet\n\nDo it.\n").unwrap();
        place.commit_all("a spec");
        succeeds(&place, &["set-spec", "greet.md"]);
        succeeds(&place, &["task", "add", "Say hello"]);
        let running = place.start(&["build"]);
        wait_for_session(&place, "begun");
        running.signal(signal);
        running.finish();
        succeeds(&place, &["build"]);
        assert_eq!(resumed(&place, "builder"), ["-", "s-half"], "{signal:?}");
        let read = |name: &str| fs::read_to_string(place.env.repo().join(name)).unwrap();
        assert_eq!((read("half.txt"), read("greeting.txt")), lines("half", "hello"));
        place.assert_nothing_left();
    }
}

#[test]
fn a_plain_command_resumes_its_session_as_its_settings_say() {
    let place = Place::new();
    place.env.isolate();
    let script = place.path("agent.sh");
    let text = r#"cat >/dev/null
case "$RALPH_ROLE $*" in
"builder ") echo '{"session_id": "s-half"}'; echo half >half.txt; touch begun; sleep 600;;
"builder --resume s-half --quiet") rm -f begun; echo hello >greeting.txt; ralph task done;;
verifier*) ralph task accept;;
*) echo "not these arguments: $*"; exit 1;;
esac
"#;
    fs::write(&script, text).unwrap();
    place.configure(&format!(
        "agent = \"mine\"\n[agents.mine]\ncommand = [\"sh\", \"{}\"]\nsession = \"json:session_id\"\n\
         resume = [\"--resume\", \"{{session}}\", \"--quiet\"]\n",
        script.display()
    ));
    succeeds(&place, &["init"]);
    fs::write(place.env.repo().join("ralph/specs/greet.md"), "# Greet\n\nDo it.\n").unwrap();
    place.commit_all("a spec");
    succeeds(&place, &["set-spec", "greet.md"]);
    succeeds(&place, &["task", "add", "Say hello"]);
    let running = place.start(&["build"]);
    wait_for_session(&place, "begun");
    running.signal(Signal::KILL);
    running.finish();
    succeeds(&place, &["build"]);
    assert_eq!(resumed(&place, "builder"), ["-", "s-half"]);
    let read = |name: &str| fs::read_to_string(place.env.repo().join(name)).unwrap();
    assert_eq!((read("half.txt"), read("greeting.txt")), lines("half", "hello"));
}

#[test]
fn settings_that_cannot_resume_a_session_are_refused_with_their_place() {
    let place = Place::new();
    for (settings, reason) in [
        ("resume = [\"--resume\"]", "none of its arguments contains `{session}`"),
        ("session = \"last-line\"", "it is not `json:FIELD`"),
    ] {
        place.configure(&format!("[agents.mine]\ncommand = [\"true\"]\n{settings}\n"));
        let refused = place.ralph(&["config"]);
        assert_eq!(refused.status.code(), Some(2), "{refused}");
        assert!(refused.stderr.contains(reason), "{refused}");
    }
    place.configure("[agents.codex]\nresume = [\"{session}\"]\n");
    let refused = place.ralph(&["config"]);
    assert!(refused.stderr.contains("only a plain `command` has it"), "{refused}");
}

#[test]
fn a_session_is_not_resumed_where_its_slot_is_gone() {
    let blocks = [on("implementer", 1, HALF)];
    let stage = isolated(&willing(&blocks), "", ONE);
    let running = stage.place.start(&["pipeline"]);
    wait_for_session(&stage.place, "begun");
    running.signal(Signal::INT);
    running.finish();
    stage.ralph(&["slots", "prune", "--all"]).exits(0);
    stage.pipeline(&[]).exits(0);
    assert_eq!(resumed(&stage.place, "implementer"), ["-", "-"]);
    assert!(!stage.has("half.txt"));
}
