//! Goal-driven work with a scripted person and the rehearsal agent: from a one-sentence goal to a PRD, a map and a run.
//!
//! Earlier tools of this kind had defects that must not recur. They are numbered, and these are their regression tests:
//!
//! | defect | shown by |
//! |---|---|
//! | C10.1 the files of the interview stop the mapper | `exec::understanding_right_after_planning_changes_the_map_alone` |
//! | C10.2 the last run escapes the guard | `understand::whatever_else_a_mapper_changes_aborts_the_command`, `run::work_outside_the_allowed_paths_is_rejected` |
//! | C10.3 the guard ignores commits | the same |
//! | C10.4 names that the guard cannot match | the same, `run::allowed_paths_are_named_from_the_workspace` |
//! | C10.5 branches are switched over uncommitted files | `exec::understanding_right_after_planning_changes_the_map_alone`, `run::stories_pass_on_the_prds_branch_one_per_run_and_the_checkout_does_not_switch` |
//! | C10.6 a map is never missing | `exec::each_step_is_asked_about_and_no_prints_what_to_do_next` |
//! | C10.7 dates in brackets, headings with more words | `ralph_model`: `the_last_entry_is_the_most_recent_date_of_a_heading`, `topics_are_the_boxes_of_the_first_section` |
//! | C10.8 without a terminal nothing can be approved | `interview::without_anybody_to_ask_what_is_missing_is_named_and_the_interview_goes_on_with_it` |
//! | C10.9 retries without a bound | `interview::an_interviewer_that_never_answers_in_form_is_asked_six_times` |
//! | C10.10 a draft with and without its envelope | `ralph_model`: `the_envelope_has_exactly_its_keys_and_types` |
//! | C10.11 `true` is a priority | `ralph_model`: `every_error_of_the_schema_has_its_words` |
//! | C10.12 a map is stale every morning | `ralph_model`: `the_reasons_name_age_topics_and_what_the_planner_says` |
//! | C10.13 a cap without room for failures | `run::exec_goes_on_into_the_run_with_its_cap`, `exec::caps_are_shown_and_bound_what_follows` |
//! | C10.14 failures look like progress | `interview::an_interviewer_that_fails_or_takes_too_long_has_not_answered`, `understand::trouble_costs_no_iteration`, `run::iterations_are_bounded_and_the_rest_goes_on_later` |
//! | C10.15 an interviewer may write | `interview::the_interviewer_writes_nothing` |

mod crashes;
mod exec;
mod guide;
mod interview;
mod names;
mod prd;
mod run;
mod siblings;
mod starts;
mod stuck;
mod terminal;
mod understand;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::crash;
use crate::harness::Place;
use crate::support::process::{Finished, run};

const GOAL: &str = "add dark mode";

/// A workspace with an agent that plays a script; without a home.
struct Desk {
    place: Place,
}

impl Desk {
    fn new(script: &str) -> Desk {
        let desk = Desk { place: Place::rehearsing(script) };
        let path = desk.path("ralph.toml");
        let settings = fs::read_to_string(&path).unwrap();
        fs::write(path, format!("limits.backoff = \"0s\"\n{settings}")).unwrap();
        fs::write(desk.path("Makefile"), "test:\n\ttrue\n").unwrap();
        desk.commit_all("a project");
        desk
    }

    fn in_memory(self) -> Desk {
        Desk { place: crash::in_memory(self.place) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.env.repo().join(name)
    }

    fn git(&self, args: &[&str]) -> String {
        self.place.env.git(args)
    }

    fn commit_all(&self, message: &str) {
        self.place.commit_all(message);
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Adds to the top of the configuration.
    fn configure(&self, more: &str) {
        let text = self.read("ralph.toml");
        self.write("ralph.toml", &format!("{more}\n{text}"));
        self.commit_all("settings");
    }

    /// Runs `ralph` without a terminal and asserts its exit code.
    fn exits(&self, code: i32, args: &[&str]) -> Finished {
        let finished = self.place.ralph(args);
        assert_eq!(finished.status.code(), Some(code), "{finished}\n{}", self.transcript());
        finished
    }

    /// The same, with more variables.
    fn exits_with(&self, code: i32, args: &[&str], more: &[(&str, &str)]) -> Finished {
        let mut variables = self.place.variables();
        let more = more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        variables.extend(more);
        let (env, ralph) = (&self.place.env, Path::new(crate::harness::RALPH));
        let finished = run(env, ralph, args, &variables, "", crate::harness::PATIENCE);
        assert_eq!(finished.status.code(), Some(code), "{finished}");
        finished
    }

    /// Runs `ralph` at a terminal with this typed input, and asserts its exit code.
    fn typed(&self, code: i32, args: &[&str], typed: &str) -> String {
        let (found, said) = self.place.at_terminal(args, typed.as_bytes());
        assert_eq!(found, Some(code), "{said}\n{}", self.transcript());
        said
    }

    /// Writes a file of answers next to the repository; returns its path.
    fn answers(&self, answers: &Value) -> String {
        let path = self.place.path("answers.json");
        fs::write(&path, answers.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn transcript(&self) -> String {
        self.read("ralph/plan_transcript.md")
    }

    fn state(&self) -> Value {
        serde_json::from_str(&self.read("ralph/plan_state.json")).unwrap()
    }

    fn prd(&self) -> Value {
        serde_json::from_str(&self.read("ralph/prd.json")).unwrap()
    }

    /// Writes a PRD; each story is its id and whether it passes.
    fn write_prd(&self, stories: &[(&str, bool)]) {
        let stories: Vec<Value> = stories.iter().map(|(id, passes)| story(id, *passes)).collect();
        let prd = json!({"branchName": "ralph/old", "userStories": stories});
        self.write("ralph/prd.json", &format!("{prd:#}\n"));
    }

    /// The log entries of a name.
    fn logged(&self, name: &str) -> Vec<Value> {
        self.place.logged(name)
    }

    /// The roles of all runs, in order.
    fn roles(&self) -> Vec<String> {
        self.place.roles()
    }

    /// Everything outside home, by content: the tree, the index, refs, commits, git's configuration.
    fn outside(&self) -> BTreeMap<String, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut open = vec![self.place.env.repo()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(self.place.env.repo()).unwrap();
                let name = name.to_str().unwrap().to_owned();
                if [".git", "ralph", "scripts/ralph"].contains(&name.as_str()) {
                    continue;
                }
                if path.is_dir() {
                    open.push(path);
                } else {
                    found.insert(name, fs::read(&path).unwrap());
                }
            }
        }
        for args in [
            &["for-each-ref"][..],
            &["log", "--all", "--format=%H"],
            &["ls-files", "--stage"],
            &["config", "--local", "--list"],
            &["stash", "list"],
        ] {
            found.insert(args.join(" "), self.git(args).into_bytes());
        }
        let head = fs::read(self.path(".git/HEAD")).unwrap();
        found.insert("HEAD".to_owned(), head);
        found
    }
}

pub(crate) fn story(id: &str, passes: bool) -> Value {
    json!({
        "id": id,
        "title": format!("Do {id}"),
        "acceptanceCriteria": ["`make test` passes"],
        "priority": 1,
        "passes": passes,
        "notes": "",
    })
}

fn draft(ids: &[&str]) -> Value {
    let stories: Vec<Value> = ids.iter().map(|id| story(id, true)).collect();
    json!({"branchName": "ralph/dark", "userStories": stories})
}

/// An envelope of an interviewer without uncertainties.
fn envelope(questions: &[&str], draft: &Value) -> String {
    json!({
        "questions": questions,
        "uncertainties": [],
        "prdDraft": draft,
        "recommendUnderstand": {"shouldRun": false, "reasons": []},
    })
    .to_string()
}

/// A block of a script in which an agent prints this, and expects all of these in its prompt.
fn block(header: &str, expected: &[&str], said: &str) -> String {
    let expected: Vec<String> =
        expected.iter().map(|text| format!("expect-prompt {text}\n")).collect();
    format!("[{header}]\n{}final <<'END'\n{said}\nEND\n", expected.concat())
}

/// An interviewer that drafts at once.
fn drafts_at_once() -> String {
    block("interviewer", &[], &envelope(&[], &draft(&["US-001"])))
}

/// A mapper that does its work.
const MAPPER: &str = "[mapper]\nrun printf '\\n## 2026-11-18 - topic\\n\\nx\\n' >> $RALPH_OUT/codebase_map.md\nfinal done\n";

const NON_INTERACTIVE: [&str; 2] = ["--non-interactive", "--approve-prd"];

/// The arguments of a `plan` without any question.
const PLAN_UNASKED: [&str; 4] = ["plan", GOAL, NON_INTERACTIVE[0], NON_INTERACTIVE[1]];
