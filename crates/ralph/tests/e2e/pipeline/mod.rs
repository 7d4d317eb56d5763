//! The pipeline through the real binary: specs as input, a scripted agent, markers and commits as output.
//!
//! [`Stage`] is the environment of a test: it sets specs, gates and the agents' script, runs `ralph pipeline`, and
//! reads the results. A run's prompts, events and counts come from Ralph's own records.
//!
//! Earlier tools of this kind had defects that must not recur. They are numbered, and these are their regression tests:
//!
//! | defect | shown by |
//! |---|---|
//! | A12.1 an echoed prompt invalidates the plan | `story::markers_in_an_echoed_prompt_claim_nothing` |
//! | A12.2 a half-written plan is taken for one by hand | `markers::a_half_written_plan_is_not_taken_for_a_plan_by_hand` |
//! | A12.3 a verifier that broke costs the candidate | `trouble::an_agent_that_exits_with_a_failure_claims_nothing_and_costs_nothing` |
//! | A12.4 a rejected candidate is verified again, its feedback lost | `attempts::naming_a_spec_or_retry_gives_it_a_fresh_budget`, `story::an_invalid_plan_is_archived_and_another_one_is_made` |
//! | A12.5 work without a plan | `markers::an_active_plan_without_its_text_is_made_again` |
//! | A12.6 verified, but done again after a crash | `markers::a_done_marker_without_its_candidate_marked_is_done_and_healed`, `restart` |
//! | A12.7 torn files, two runs at once | `markers::a_second_pipeline_in_the_same_home_is_refused`, `restart` |
//! | A12.8 logs that overwrite each other | `markers::the_same_name_in_two_areas_is_two_specs` |
//! | A12.9 the same stem in two areas | `markers::the_same_name_in_two_areas_is_two_specs` |
//! | A12.10 limits that burn attempts, waits without bounds | `trouble::a_usage_limit_in_any_phase_is_waited_for_and_the_same_attempt_goes_on`, `trouble::pauses_grow_with_failures_in_a_row` |
//! | A12.11 two ways of counting plans | `story::an_invalid_plan_is_archived_and_another_one_is_made` |
//! | A12.12 events of several lines | `markers::every_event_is_one_line_of_the_text_log` |
//! | A12.13 two ways of naming archives | `markers::the_same_name_in_two_areas_is_two_specs` |
//! | A12.14 a verifier with a memory, a planner that repeats itself | `story::a_rejected_implementer_goes_on_with_its_session_and_a_verifier_never_does`, `story::an_invalid_plan_is_archived_and_another_one_is_made` |
//! | A12.15 read-only by request | `everyday::a_planner_that_writes_into_the_tree_has_failed_and_the_paths_are_named`, `everyday::a_verifier_moves_neither_the_persons_branch_nor_their_files` |
//! | A12.16 markers of a run that broke | `trouble::a_usage_limit_in_any_phase_is_waited_for_and_the_same_attempt_goes_on`, `trouble::an_agent_that_exits_with_a_failure_claims_nothing_and_costs_nothing` |
//! | A12.17 a detached head for the person | `everyday::a_verifier_moves_neither_the_persons_branch_nor_their_files` |

mod attempts;
mod bounds;
mod everyday;
mod leftovers;
mod locks;
mod markers;
mod people;
mod restart;
mod siblings;
mod story;
mod trouble;
mod verifiers;

use ralph_model::role::Role;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::clones::wait_for_slot;
use crate::harness::Place;
use crate::support::process::Finished;

/// The completion phrase of agents.
pub(crate) const PHRASE: &str = "I AM HYPER SURE I AM DONE!";

/// A planner that always does what it is asked.
pub(crate) const PLANS: &str = "[planner]\nsession plan-${INVOCATION}\noutbox plan.md <<END\n\
    # Plan ${INVOCATION}\n\nWrite the greeting.\nEND\nfinal I AM HYPER SURE I AM DONE!\n";

/// An implementer that always commits a new file.
pub(crate) const BUILDS: &str = "[implementer]\nsession impl-${INVOCATION}\n\
    write greeting.txt <<END\nhello ${INVOCATION}\nEND\ncommit \"work ${INVOCATION}\" greeting.txt\n\
    final <<END\n${COMMIT}\nI AM HYPER SURE I AM DONE!\nEND\n";

/// A verifier that always agrees.
pub(crate) const AGREES: &str = "[verifier]\nsession verify-${INVOCATION}\n\
    final <<END\nIt holds.\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND\n";

/// One block of a script: the role, which of its runs, and its steps.
pub(crate) fn on(role: &str, run: u32, steps: &str) -> String {
    format!("[{role} {run}]\n{steps}\n")
}

/// The final message of an agent that claims a commit.
pub(crate) fn claims(commit: &str) -> String {
    format!("final <<END\n{commit}\n{PHRASE}\nEND\n")
}

/// Agents that all do what they are asked, except for the blocks in `also`.
pub(crate) fn willing(also: &[String]) -> String {
    format!("{PLANS}{BUILDS}{AGREES}{}", also.concat())
}

/// A gate that passes unless the greeting is a farewell.
pub(crate) const GREETS: &str =
    "[[gate]]\nname = \"greets\"\nrun = [\"sh\", \"-c\", \"! grep -q adieu greeting.txt\"]\n";

const SETTINGS: &str = "agent = \"rehearsal\"\n[agents.rehearsal]\nscript = \"../script\"\n";

/// A repository with specs and agents that play a script.
pub(crate) struct Stage {
    pub(crate) place: Place,
}

impl Stage {
    /// One spec, `0001-greeting.md`, no gates, and agents that play `script`.
    pub(crate) fn new(script: &str) -> Stage {
        Stage::with(script, "", &["0001-greeting.md"])
    }

    /// These specs, and `settings` in addition to those of every stage.
    pub(crate) fn with(script: &str, settings: &str, specs: &[&str]) -> Stage {
        let stage = Stage { place: Place::new() };
        stage.settings(settings);
        stage.script(script);
        for spec in specs {
            stage.spec(spec);
        }
        stage.place.env.git(&["add", "--all"]);
        stage.place.env.git(&["commit", "--quiet", "--message=specs"]);
        stage
    }

    pub(crate) fn settings(&self, more: &str) {
        let (plain, tables) = more.split_at(more.find('[').unwrap_or(more.len()));
        let pauses = if more.contains("limits.backoff") { "" } else { "limits.backoff = \"0s\"\n" };
        self.place.configure(&format!("{plain}{pauses}{SETTINGS}{tables}"));
    }

    pub(crate) fn script(&self, script: &str) {
        fs::write(self.place.path("script"), script).unwrap();
    }

    /// Writes a spec with a heading and some text.
    pub(crate) fn spec(&self, name: &str) {
        self.write(&format!("ralph/specs/{name}"), &format!("# The spec {name}\n\nDo it.\n"));
    }

    pub(crate) fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.place.env.repo().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.file(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        let path = self.file(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.file(name).exists()
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).unwrap()
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        self.place.env.git(args)
    }

    /// Runs `ralph pipeline`.
    pub(crate) fn pipeline(&self, args: &[&str]) -> Ended {
        let mut all = vec!["pipeline"];
        all.extend_from_slice(args);
        Ended { finished: self.place.ralph(&all) }
    }

    pub(crate) fn ralph(&self, args: &[&str]) -> Ended {
        Ended { finished: self.place.ralph(args) }
    }

    /// The entry of one spec in `ralph specs --json`.
    pub(crate) fn row(&self, spec: &str) -> Value {
        let listed = self.place.ralph(&["specs", "--json"]);
        let rows: Value =
            serde_json::from_str(&listed.stdout).unwrap_or_else(|_| panic!("{listed}"));
        let found = rows.as_array().unwrap().iter().find(|row| row["spec"] == spec);
        found.unwrap_or_else(|| panic!("no {spec} in {rows}")).clone()
    }

    /// All log entries, in order.
    pub(crate) fn events(&self) -> Vec<Value> {
        let log = self.read("ralph/ralph.log");
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The log entries of one name.
    pub(crate) fn told(&self, name: &str) -> Vec<Value> {
        let events = self.events().into_iter().filter(|event| event["event"] == name);
        events.map(|mut event| event["data"].take()).collect()
    }

    /// The roles of all started runs, in order, by their first letters: `pipv` and so on.
    pub(crate) fn runs(&self) -> String {
        let started = self.told("run_started");
        started.iter().map(|run| &run["role"].as_str().unwrap()[..1]).collect()
    }

    /// The sessions that the runs resumed, in order.
    pub(crate) fn resumed(&self) -> Vec<Value> {
        self.told("run_started").iter().map(|run| run["resumed_session"].clone()).collect()
    }

    /// The prompt of a role's nth run, counted from 1.
    pub(crate) fn prompt(&self, role: &str, nth: usize) -> String {
        self.kept(role, nth, ".prompt.md")
    }

    /// The output of a role's nth run.
    pub(crate) fn log(&self, role: &str, nth: usize) -> String {
        self.kept(role, nth, ".log")
    }

    fn kept(&self, role: &str, nth: usize, end: &str) -> String {
        let started = self.told("run_started");
        let mut of_role = started.iter().filter(|run| run["role"] == role);
        let run = of_role.nth(nth - 1).unwrap_or_else(|| panic!("no run {nth} of the {role}"));
        let attempt = &run["attempt"];
        let name = format!("{}-attempt-{attempt}{end}", role.parse::<Role>().unwrap().log_name());
        let path = Path::new(run["dir"].as_str().unwrap()).join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Makes agents work in the person's own working tree.
    pub(crate) fn in_place(self) -> Stage {
        self.place.env.in_place();
        self
    }

    /// Waits until an agent has created a file in the first clone.
    pub(crate) fn wait_in_slot(&self, name: &str) {
        wait_for_slot(&self.place, name);
    }

    /// Returns the steps with which an agent waits for the test: [`Stage::go`] releases it.
    pub(crate) fn waiting(&self) -> String {
        format!("run until test -e {}; do sleep 0.01; done\n", self.place.path("go").display())
    }

    pub(crate) fn go(&self) {
        fs::write(self.place.path("go"), "").unwrap();
    }

    /// The directory of private state.
    pub(crate) fn private(&self) -> PathBuf {
        let base = self.place.path("state/ralph");
        let mut found = files_in(&base).into_iter().filter(|path| path.join("state.json").exists());
        found.next().unwrap_or_else(|| panic!("no private state in {}", base.display()))
    }
}

/// The result of a finished `ralph`.
pub(crate) struct Ended {
    pub(crate) finished: Finished,
}

impl Ended {
    #[track_caller]
    pub(crate) fn exits(&self, code: i32) -> &Ended {
        assert_eq!(self.finished.status.code(), Some(code), "{}", self.finished);
        self
    }

    /// Asserts that stderr contains this.
    #[track_caller]
    pub(crate) fn says(&self, text: &str) -> &Ended {
        assert!(self.finished.stderr.contains(text), "not said: {text}\n{}", self.finished);
        self
    }

    /// Asserts that stdout contains this.
    #[track_caller]
    pub(crate) fn prints(&self, text: &str) -> &Ended {
        assert!(self.finished.stdout.contains(text), "not printed: {text}\n{}", self.finished);
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.finished.stdout).unwrap_or_else(|_| panic!("{}", self.finished))
    }
}

/// Everything below a directory: names, kinds and contents.
pub(crate) fn files_below(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for path in files_in(dir) {
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            found.extend(files_below(&path));
            found.insert(path, b"a directory".to_vec());
        } else if kind.is_symlink() {
            let target = fs::read_link(&path).unwrap();
            found.insert(path, target.into_os_string().into_encoded_bytes());
        } else {
            let content = fs::read(&path).unwrap();
            found.insert(path, content);
        }
    }
    found
}

fn files_in(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}
