//! Invariants of every story, and of a disturbed one compared with the same story undisturbed.

use std::collections::{BTreeMap, BTreeSet};

use ralph_model::journal::{JournalEvent, StepResult};
use ralph_model::pipeline::records::PlanRecord;
use ralph_model::plan::Plan;
use ralph_model::prd::{PRD_FILE, Prd};
use ralph_model::role::Role;
use ralph_model::run::{RunOutcome, Trouble};

use super::agents::{Performance, progress_line};
use super::git::Tree;
use super::meanwhile::Meanwhile;
use super::repository::is_broken;
use super::story::{Answers, Branching, Committing, Ending, Kind, LOOP_TASK};
use super::world::{MAILBOX, MOST_TROUBLES, ProcessEnd, World, own_paths};
use crate::files::simulated::{Fault, each_file_below, get};
use crate::git::Head;
use crate::repository::GitAccess;
use crate::validate;
use crate::workflow::build::BuildEnd;
use crate::workflow::driver::Ended;
use crate::workflow::phased::PhasedEnd;
use crate::workflow::pipeline::SpecEnd;
use crate::workflow::stories::StoriesEnd;

/// The outcome of a story, independent of interruptions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) end: String,
    /// The finished runs without trouble: subject, role, and sequence number of its kind.
    pub(super) runs: Vec<(String, Role, usize)>,
    /// The failed attempts of each spec.
    pub(super) tries: BTreeMap<String, Vec<String>>,
    /// The files outside home.
    pub(super) files: BTreeMap<String, String>,
    /// The content of the plan.
    pub(super) plan: BTreeSet<String>,
}

/// Replaces variable parts: ids of commits and of runs. A commit without any work existed before, or is Ralph's own,
/// depending on the order of the specs.
fn anonymous(text: &str) -> String {
    const EMPTY: [&str; 2] =
        ["which existed before it began", "contains no changes by the agent outside"];
    if EMPTY.iter().any(|empty| text.contains(empty)) {
        return "a commit without work".to_owned();
    }
    let mut words = Vec::new();
    for word in text.split(' ') {
        let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let is_id = bare.len() >= 10 && bare.bytes().all(|byte| byte.is_ascii_hexdigit());
        words.push(if is_id { "#" } else { word });
    }
    words.join(" ")
}

impl Summary {
    pub(super) fn of(world: &World) -> Summary {
        let mut summary = Summary { end: end_of(world), ..Summary::default() };
        for known in world.performances.iter().filter(|known| known.is_kept == Some(true)) {
            if !known.act.ending.is_trouble() {
                summary.runs.push((known.key.clone(), known.role, known.number));
            }
        }
        for (spec, record) in plan_records(world) {
            let tries = record.tries.iter();
            let tries = tries.map(|one| format!("{:?}: {}", one.phase, anonymous(&one.outcome)));
            summary.tries.insert(spec, tries.collect());
        }
        each_file_below(&world.workspace.root, |path, content, _| {
            let is_ralphs = path.starts_with("ralph/") || path.starts_with(MAILBOX);
            if !is_ralphs && !Meanwhile::is_persons(path) {
                let text = String::from_utf8_lossy(content).into_owned();
                summary.files.insert(path.to_owned(), text);
            }
        });
        let bytes = get(&world.home.path.join("plan.jsonl")).unwrap_or_default();
        let plan = Plan::parse(&bytes);
        let tasks = plan.tasks_view();
        let pending = tasks.pending.iter().map(|task| format!("pending {}", task.name));
        let done = tasks.done.iter().map(|task| format!("done {}", task.name));
        let issues = plan.issues().map(|issue| format!("issue {}", issue.desc));
        let passing = passing(world).into_iter().map(|id| format!("passes {id}"));
        summary.plan = pending.chain(done).chain(issues).chain(passing).collect();
        summary
    }
}

fn end_of(world: &World) -> String {
    match world.ends.last() {
        Some(ProcessEnd::Pipeline(ends)) => {
            let tell = |(spec, end): &(String, SpecEnd)| {
                let how = match end {
                    SpecEnd::Done { .. } | SpecEnd::Skipped(_) => "done",
                    SpecEnd::Failed { .. } => "failed",
                    SpecEnd::Stopped(stop) => stop.name(),
                    other => other.name(),
                };
                format!("{spec} {how}")
            };
            ends.iter().map(tell).collect::<Vec<_>>().join(", ")
        }
        Some(ProcessEnd::Build(Ended::By(end))) => end.name().to_owned(),
        Some(ProcessEnd::Stories(Ended::By(end))) => end.name().to_owned(),
        Some(ProcessEnd::Loop(Ended::By(end))) => end.name().to_owned(),
        Some(
            ProcessEnd::Build(Ended::Stopped(stop))
            | ProcessEnd::Planning(Ended::Stopped(stop))
            | ProcessEnd::Stories(Ended::Stopped(stop))
            | ProcessEnd::Loop(Ended::Stopped(stop)),
        ) => stop.name().to_owned(),
        Some(ProcessEnd::Planning(Ended::By(_))) => "not planned".to_owned(),
        Some(other) => format!("{other:?}"),
        None => "nothing was run".to_owned(),
    }
}

/// The passing stories of the PRD.
fn passing(world: &World) -> Vec<String> {
    let bytes = get(&world.home.path.join(PRD_FILE)).unwrap_or_default();
    let prd = Prd::parse(&bytes).ok();
    let stories = prd.map(|prd| prd.user_stories).unwrap_or_default();
    stories.into_iter().filter(|story| story.passes).map(|story| story.id).collect()
}

fn plan_records(world: &World) -> Vec<(String, PlanRecord)> {
    let mut records = Vec::new();
    each_file_below(&world.home.path.join("specs/plans"), |name, content, _| {
        // Temporary files of dead writers are not records.
        if !name.starts_with('.')
            && let Ok(record) = serde_json::from_slice::<PlanRecord>(content)
        {
            records.push((name.to_owned(), record));
        }
    });
    records
}

/// Returns the violations of a story that was played to its end.
pub(super) fn check(world: &World) -> Vec<String> {
    let mut wrong = Vec::new();
    check_ends(world, &mut wrong);
    if !wrong.is_empty() {
        return wrong;
    }
    if world.story.in_clones {
        wrong.extend(world.brought.iter().cloned());
        wrong.extend(world.meanwhile.check());
        check_checkout(world, &mut wrong);
    }
    check_persons_work(world, &mut wrong);
    check_home(world, &mut wrong);
    check_results(world, &mut wrong);
    check_candidates(world, &mut wrong);
    check_waits(world, &mut wrong);
    check_runs(world, &mut wrong);
    check_bounds(world, &mut wrong);
    wrong
}

/// Returns how a disturbed story differs from the same story undisturbed.
pub(super) fn compare(expected: &Summary, disturbed: &World) -> Vec<String> {
    let found = Summary::of(disturbed);
    if disturbed.meanwhile.has_withdrawn() {
        return Vec::new();
    }
    if disturbed.story.is_hopeless() {
        let is_done = |summary: &Summary| {
            ["complete", "completed"].contains(&summary.end.as_str())
                || summary.end.split(", ").all(|end| end.ends_with("done"))
        };
        return if is_done(expected) == is_done(&found) {
            Vec::new()
        } else {
            vec![format!("it ended as `{}` and not as `{}`", found.end, expected.end)]
        };
    }
    let in_place = !disturbed.story.in_clones;
    if in_place
        && (disturbed.story.sweeps_up_broken_work()
            || disturbed.story.meets_broken_work()
            || disturbed.story.stops_with_broken_work())
    {
        return Vec::new();
    }
    // What such an agent asked for stands, although its run was cut short and is no round: the loop gets further.
    let is_round = |role| matches!(role, Role::Verifier | Role::Investigator | Role::Decomposer);
    let is_cut_short = |known: &Performance| is_round(known.role) && known.is_kept != Some(true);
    if expected.end == "no_gain" && disturbed.performances.iter().any(is_cut_short) {
        return Vec::new();
    }
    let mut wrong = Vec::new();
    let mut differ = |what: &str, expected: String, found: String| {
        if expected != found {
            wrong.push(format!("{what} differ\n  undisturbed: {expected}\n  disturbed:   {found}"));
        }
    };
    // A person who adds a task and declines another try does not always decline it at the same place.
    let is_mixed = disturbed.story.answers != Answers::Strict;
    if !(is_mixed && disturbed.story.person_adds) {
        differ("ends", expected.end.clone(), found.end);
    }
    // What is planned first depends on the instant at which the person adds something; and what an agent of the loop wrote
    // into the mailbox before its run was cut short is there for the next one.
    let is_added_to =
        disturbed.story.person_adds && matches!(disturbed.story.kind, Kind::Build { .. });
    if is_added_to || disturbed.story.kind == Kind::Loop {
        return wrong;
    }
    // The same step continues where it hit its limit, but after a crash another begins on the person's branch.
    if in_place && disturbed.story.meets_limits_elsewhere() {
        return wrong;
    }
    differ("failed attempts", format!("{:?}", expected.tries), format!("{:?}", found.tries));
    // Work on another branch is kept there; where a run begins after a crash may differ.
    if !(in_place && disturbed.story.leaves_branches()) {
        differ("files", format!("{:?}", expected.files), format!("{:?}", found.files));
    }
    differ("plans", format!("{:?}", expected.plan), format!("{:?}", found.plan));
    compare_runs(expected, disturbed, &mut wrong);
    wrong
}

/// Finished work is not repeated, and unfinished work is.
fn compare_runs(expected: &Summary, disturbed: &World, wrong: &mut Vec<String>) {
    let mut found = Summary::of(disturbed).runs;
    for run in &expected.runs {
        if let Some(at) = found.iter().position(|known| known == run) {
            found.remove(at);
            continue;
        }
        // An agent's requests took effect at once, so an interrupted run may have saved a later one.
        let is_cut_short = |known: &Performance| {
            (&known.key, known.role) == (&run.0, run.1) && known.is_kept != Some(true)
        };
        // Work on an abandoned branch is redone, and then has no fault to find.
        let is_left_behind = |known: &Performance| {
            known.act.branching == Branching::Branch && known.is_kept != Some(true)
        };
        let is_spared =
            run.1 == Role::Verifier && disturbed.performances.iter().any(is_left_behind);
        if !is_spared && !disturbed.performances.iter().any(is_cut_short) {
            wrong.push(format!("{} {} {} was not run", run.0, run.1, run.2 + 1));
        }
    }
    for (key, role, number) in found {
        // The branch that a run which was cut short had made no longer follows the person's, which has Ralph's commits since:
        // work that goes on there cannot be taken in, and is done again, so that a verifier finds other work to reject.
        let is_left_behind = |known: &Performance| {
            known.act.branching == Branching::Branch && known.is_kept != Some(true)
        };
        // An interrupted investigator had added a task, which is built and verified before the others.
        let is_halved =
            |known: &Performance| known.role == Role::Investigator && known.is_kept != Some(true);
        let is_verified_apart = (key.as_str(), role) == ("verify", Role::Verifier)
            && disturbed.performances.iter().any(is_halved);
        if is_verified_apart || disturbed.performances.iter().any(is_left_behind) {
            continue;
        }
        wrong.push(format!("{key} {role} {} was run, and would not have been", number + 1));
    }
}

/// The story ends, and a process fails only if its machine does.
fn check_ends(world: &World, wrong: &mut Vec<String>) {
    for (number, end) in world.ends.iter().enumerate() {
        let faults = world.story.faults.get(number).map(Vec::as_slice).unwrap_or_default();
        let machine_fails = faults
            .iter()
            .any(|planned| matches!(planned.fault, Fault::Full { .. } | Fault::Failing));
        match end {
            ProcessEnd::Panicked(text) => wrong.push(format!("it panicked: {text}")),
            ProcessEnd::TooManyRuns => {
                wrong.push(format!("it does not end: {} runs", world.performances.len()));
            }
            ProcessEnd::Failed(text) if !machine_fails => {
                wrong.push(format!("process {} failed: {text}", number + 1));
            }
            _ => {}
        }
    }
    if matches!(world.ends.last(), Some(ProcessEnd::Died | ProcessEnd::Failed(_)) | None) {
        wrong.push(format!("it does not end: {} processes", world.ends.len()));
    }
}

/// Nothing of the person's, and nothing acknowledged to be in the plan, is lost.
fn check_persons_work(world: &World, wrong: &mut Vec<String>) {
    let sweeps = world.story.scripts.values().flat_map(|script| &script.acts);
    let is_swept = sweeps.clone().any(|act| act.committing == Committing::Everything);
    for (name, text) in &world.story.dirt {
        let found = get(&world.workspace.root.join(name));
        let is_there = found.as_deref() == Some(text.as_bytes());
        let is_kept = || {
            let state = world.git.state();
            state.commits.iter().any(|commit| {
                commit.tree.get(name.as_str()).is_some_and(|blob| *blob.content == *text.as_bytes())
            })
        };
        let is_safe = is_there || (!world.story.in_clones && is_swept && is_kept());
        if !is_safe {
            wrong.push(format!("the person's `{name}` is lost: {found:?}"));
        }
    }
    let plan = get(&world.home.path.join("plan.jsonl")).unwrap_or_default();
    for name in &world.acknowledged {
        let is_planned = memchr::memmem::find(&plan, name.as_bytes()).is_some();
        let is_built = world.performances.iter().any(|known| known.key == *name);
        if !is_planned && !is_built {
            wrong.push(format!("the person's task `{name}` is lost"));
        }
    }
}

/// Agents in clones leave nothing in the person's checkout.
fn check_checkout(world: &World, wrong: &mut Vec<String>) {
    let dirt = world.git.dirt(&own_paths()).expect("it answers");
    for dirty in dirt.paths {
        let name = dirty.entry.path.display().to_string();
        if !world.story.dirt.iter().any(|(known, _)| *known == name) {
            wrong.push(format!("`{name}` is in the person's checkout, and is not theirs"));
        }
    }
}

/// Home is valid, and completely committed.
fn check_home(world: &World, wrong: &mut Vec<String>) {
    let known = |id: &str| world.git.state().plan_ids.contains(id);
    for problem in validate::examine(&world.home.path, &known).problems {
        wrong.push(format!("home is not sound: {}: {}", problem.path, problem.message));
    }
    // The note of which files to commit does not survive a power failure: the next run's commit contains them.
    let is_noted = !world.story.has_fault(|fault| fault == Fault::PowerLoss);
    let status = world.git.status_within("ralph".as_ref()).expect("it answers");
    for entry in status.into_iter().filter(|_| is_noted) {
        wrong.push(format!("`{}` is not committed", entry.path.display()));
    }
}

/// Everything marked as done exists and passes its gates, and nothing else is left behind.
fn check_results(world: &World, wrong: &mut Vec<String>) {
    let tree = world.git.state().head_tree();
    let all_done = match (world.ends.last(), world.story.kind) {
        (Some(ProcessEnd::Pipeline(ends)), _) => {
            for (spec, end) in ends {
                let is_done = matches!(end, SpecEnd::Done { .. } | SpecEnd::Skipped(_));
                let id = spec.trim_end_matches(".md");
                let marker = get(&world.home.path.join(format!("specs/done/{spec}")));
                if !is_done || world.agreed.contains(id) {
                    continue;
                }
                let Some(marker) = marker else {
                    wrong.push(format!("`{spec}` is done and has no marker"));
                    continue;
                };
                let text = String::from_utf8_lossy(&marker).into_owned();
                let state = world.git.state();
                let commit = state.commits.iter().find(|commit| text.contains(commit.id.as_str()));
                let Some(commit) = commit else { continue };
                let work = commit.tree.get(format!("work/{id}.txt").as_str());
                if work.is_none_or(|blob| is_broken(&blob.content)) {
                    wrong.push(format!("`{spec}` is done and its commit has not the work"));
                }
                if !state.notes.contains_key(&commit.id) {
                    wrong.push(format!("`{spec}` is done and its commit has no receipt"));
                }
            }
            ends.iter().all(|(_, end)| matches!(end, SpecEnd::Done { .. } | SpecEnd::Skipped(_)))
        }
        (Some(ProcessEnd::Build(Ended::By(BuildEnd::Complete))), Kind::Build { .. }) => {
            let is_built = |name: &String| {
                world.performances.iter().any(|known| known.key == *name)
                    && !world.agreed.contains(name)
                    && !world.meanwhile.has_withdrawn_item(name)
            };
            for name in world.story.task_names().into_iter().filter(is_built) {
                let has_good = |name: &str| {
                    let found = tree.get(format!("work/{name}.txt").as_str());
                    found.is_some_and(|blob| !is_broken(&blob.content))
                };
                let parts = [format!("{name}.1"), format!("{name}.2")];
                let was_split = parts.iter().all(|part| has_good(part));
                if !has_good(&name) && !was_split {
                    wrong.push(format!("all is complete and `{name}` is not in the work"));
                }
            }
            true
        }
        (Some(ProcessEnd::Stories(Ended::By(StoriesEnd::Complete))), _) => true,
        (Some(ProcessEnd::Loop(Ended::By(PhasedEnd::Done { .. }))), _) => {
            check_work(world, &tree, LOOP_TASK, wrong);
            let path = world.workspace.root.join(MAILBOX).join("task-history.md");
            let history = get(&path).unwrap_or_default();
            let entries = memchr::memmem::find_iter(&history, b"**Task ").count();
            // Mailboxes are not exchanged with simulated clones: the history is there.
            if entries != 1 && !world.story.in_clones {
                wrong.push(format!("the task is done, and the history tells of {entries} tasks"));
            }
            true
        }
        _ => false,
    };
    for id in passing(world) {
        check_work(world, &tree, &id, wrong);
    }
    check_progress(world, wrong);
    let head = world.git.head().expect("it answers");
    if !matches!(&head, Head::Branch { name, .. } if name == "refs/heads/main") {
        wrong.push(format!("the person was on `main`, and is left on {head:?}"));
    }
    // The person was asked with what such a run left before their eyes, and said that nothing has to change.
    let is_agreed = |name: &&String| {
        let mut agreed = world.agreed.iter();
        !agreed.any(|key| **name == format!("work/{key}.txt"))
    };
    for name in world.misattributed.iter().filter(is_agreed) {
        wrong.push(format!("`{name}`, which a run left, is taken for the person's"));
    }
    // A spec is judged by its commit; what else its runs left is known as theirs. What a run left that was to change nothing
    // stays as it is.
    if !all_done || !world.agreed.is_empty() || matches!(world.story.kind, Kind::Pipeline { .. }) {
        return;
    }
    let dirt = world.git.dirt(&own_paths()).expect("it answers");
    for dirty in dirt.paths {
        let name = dirty.entry.path.display().to_string();
        if !world.story.dirt.iter().any(|(known, _)| *known == name) {
            wrong.push(format!("`{name}`, which a run left, is still uncommitted"));
        }
    }
}

/// Every candidate contains work of its own spec: all work for a spec is in its own file.
fn check_candidates(world: &World, wrong: &mut Vec<String>) {
    for entry in &world.journal {
        let JournalEvent::CandidateWritten(written) = &entry.event else { continue };
        let Some(commit) = &written.commit else { continue };
        let id = written.spec.trim_end_matches(".md");
        let found = world.git.state().find(commit).map(|commit| commit.tree.clone());
        if !found.is_some_and(|tree| tree.contains_key(format!("work/{id}.txt").as_str())) {
            wrong.push(format!("`{id}` has a candidate without any work of its own"));
        }
    }
}

/// The work on an item exists, and passes its gates. Without gates broken work is not detected.
fn check_work(world: &World, tree: &Tree, key: &str, wrong: &mut Vec<String>) {
    let work = tree.get(format!("work/{key}.txt").as_str());
    if world.agreed.contains(key) {
        return;
    }
    if work.is_none_or(|blob| world.story.has_gates && is_broken(&blob.content)) {
        wrong.push(format!("`{key}` is done and is not in the work"));
    }
}

/// The notes of implementers exist exactly once.
fn check_progress(world: &World, wrong: &mut Vec<String>) {
    if !matches!(world.story.kind, Kind::Stories { .. }) {
        return;
    }
    let progress = get(&world.home.path.join("progress.txt")).unwrap_or_default();
    for known in world.performances.iter().filter(|known| known.role == Role::Implementer) {
        let line = progress_line(&known.key, known.number);
        let times = memchr::memmem::find_iter(&progress, line.as_bytes()).count();
        let is_due = known.is_kept == Some(true) && known.act.ending.leaves_notes();
        if times > 1 || (is_due && times == 0) {
            wrong.push(format!("the note {line:?} is there {times} times"));
        }
    }
}

/// Pauses grow with every consecutive failure, and no run starts while a known limit is in force.
fn check_waits(world: &World, wrong: &mut Vec<String>) {
    const LONGEST: u64 = 60;
    // By item: what another one came to in between may have ended a row of failures.
    let mut last: BTreeMap<(Option<String>, bool), u64> = BTreeMap::new();
    let mut process = None;
    for entry in &world.journal {
        if entry.wf != process {
            process.clone_from(&entry.wf);
            last.clear();
        }
        match &entry.event {
            JournalEvent::BackoffWait(wait) => {
                let seconds = wait.wait_seconds.unwrap_or(0);
                let reason = wait.reason.as_deref().unwrap_or_default();
                let is_trouble = matches!(reason, "exception" | "nonzero_exit");
                if !is_trouble {
                    // The failure was judged: earlier troubles no longer count.
                    last.retain(|(_, is_trouble), _| !is_trouble);
                }
                let before = last.insert((wait.item.clone(), is_trouble), seconds);
                if before.is_some_and(|before| seconds <= before && seconds < LONGEST) {
                    wrong.push(format!(
                        "a pause of {seconds} s follows one of {} s",
                        before.unwrap_or(0)
                    ));
                }
            }
            // A run that continues after its usage limit has already reported the end of its iteration, even if it gets
            // far.
            JournalEvent::RunFinished(finished) if is_limited(&finished.outcome) => last.clear(),
            JournalEvent::RunFinished(finished) => {
                let is_trouble = matches!(
                    finished.outcome,
                    RunOutcome::Trouble { .. } | RunOutcome::Interrupted
                );
                if !is_trouble {
                    last.retain(|(_, is_trouble), _| !is_trouble);
                }
            }
            // Work that could not be measured at first was judged: that trouble no longer counts.
            JournalEvent::Verdict(_) | JournalEvent::CandidateWritten(_) => {
                last.retain(|(_, is_trouble), _| !is_trouble);
            }
            JournalEvent::IterationResult(step) if step.result == StepResult::Progress => {
                last.clear();
            }
            _ => {}
        }
    }
    let jumps = world.story.has_fault(|fault| matches!(fault, Fault::Jump { .. }));
    if !world.premature.is_empty() && !jumps {
        wrong.push(format!("runs were begun before the usage limit ended: {:?}", world.premature));
    }
}

const fn is_limited(outcome: &RunOutcome) -> bool {
    matches!(outcome, RunOutcome::Trouble { trouble: Trouble::UsageLimit { .. } })
}

/// An item with nothing but trouble is given up. A trouble that was not counted because of a crash does not count.
fn check_bounds(world: &World, wrong: &mut Vec<String>) {
    // Resuming the loop restores the task's whole budget.
    let starts = if world.story.kind == Kind::Loop { world.ends.len() } else { 1 };
    let most = MOST_TROUBLES * starts + world.story.faults.iter().flatten().count();
    let mut in_a_row: BTreeMap<(&str, Role), usize> = BTreeMap::new();
    for known in world.performances.iter().filter(|known| known.is_kept == Some(true)) {
        let troubles = in_a_row.entry((&known.key, known.role)).or_default();
        match known.act.ending {
            Ending::Silent | Ending::Crash => *troubles += 1,
            Ending::Limit { .. } => {}
            _ => *troubles = 0,
        }
        if *troubles > most {
            wrong.push(format!("{} had {troubles} troubles in a row", known.key));
            return;
        }
    }
}

/// Every started run has an end, and no attempt was charged for trouble.
fn check_runs(world: &World, wrong: &mut Vec<String>) {
    let mut open = BTreeSet::new();
    for entry in &world.journal {
        let Some(run) = entry.run.as_ref().map(|run| run.as_str().to_owned()) else { continue };
        match &entry.event {
            JournalEvent::RunStarted(_) => drop(open.insert(run)),
            JournalEvent::RunFinished(_) | JournalEvent::LeftoversEnded(_) => {
                open.remove(&run);
            }
            _ => {}
        }
    }
    // The record of a current run does not survive a power failure, and a disk that is full or fails may not take it:
    // the run goes on without. Views treat a run without a record and without an end as abandoned.
    let loses_records =
        |fault: Fault| matches!(fault, Fault::PowerLoss | Fault::Full { .. } | Fault::Failing);
    let is_told = !world.story.has_fault(loses_records);
    for run in open.into_iter().filter(|_| is_told) {
        wrong.push(format!("the run {run} has no end"));
    }
    for (spec, record) in plan_records(world) {
        let key = spec.trim_end_matches(".json");
        let real = world.performances.iter().filter(|known| {
            known.key == key
                && known.is_kept == Some(true)
                && !known.act.ending.is_trouble()
                && !matches!(known.act.ending, Ending::Limit { .. })
        });
        let (most, charged) = (real.count(), record.tries.len());
        if charged > most {
            wrong.push(format!("{key}: {charged} attempts are charged for {most} runs"));
        }
    }
}
