use std::fmt::Write as _;

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::id::CommitId;

const BOUNDS: LoopBounds = LoopBounds { iterations: 20, failures: 2, idle: 2 };

fn run(nonce: u64) -> RunId {
    RunId::new(Timestamp::from_second(1_800_000_000).unwrap(), nonce)
}

fn mark(digest: &str) -> PlanMark {
    PlanMark { file: "plan.tsx".to_owned(), digest: digest.to_owned() }
}

fn task(number: u32) -> LoopTask {
    LoopTask { number, text: format!("Build page {number}") }
}

fn works() -> Vec<Work> {
    let commit: CommitId = "c".repeat(40).parse().unwrap();
    vec![Work { commit, repository: String::new() }]
}

fn acceptance() -> Acceptance {
    Acceptance {
        works: works(),
        done_at: Some(works()[0].commit.clone()),
        level: crate::proof::ProofLevel::GatesPassed,
    }
}

/// A run that ended with a signal, on a tree that it changed.
fn report(signal: LoopSignal, plan: Option<&str>) -> IterationReport {
    let plan = plan.map(mark);
    IterationReport {
        signal,
        documents: plan.clone().into_iter().collect(),
        plan,
        changed: true,
        no_change: None,
        touched: Vec::new(),
        trace: "t".to_owned(),
    }
}

fn ended(report: IterationReport) -> LoopFact {
    LoopFact::Ended { run: run(1), report }
}

fn checked(verdict: PlanVerdict) -> LoopFact {
    let documents = match &verdict {
        PlanVerdict::Absent => Vec::new(),
        PlanVerdict::Invalid { plan, .. } | PlanVerdict::Valid { plan, .. } => vec![plan.clone()],
    };
    LoopFact::PlanChecked { documents, verdict }
}

fn valid(digest: &str) -> LoopFact {
    checked(PlanVerdict::Valid { plan: mark(digest), report: String::new() })
}

fn invalid(digest: &str) -> LoopFact {
    let report = "FAIL [has-theme]: line 1: there is no Theme".to_owned();
    checked(PlanVerdict::Invalid { plan: mark(digest), report })
}

/// The simulated disk: applies one write, as far as the machine reads it back.
fn write(record: &mut Option<LoopRecord>, write: &LoopWrite) {
    if let LoopWrite::Record(new) = write {
        *record = Some((**new).clone());
    }
}

fn write_all(record: &mut Option<LoopRecord>, writes: &[LoopWrite]) {
    for one in writes {
        write(record, one);
    }
}

fn after(record: Option<&LoopRecord>, fact: &LoopFact) -> LoopRecord {
    let mut record = record.cloned();
    let writes = settle(record.as_ref(), fact, BOUNDS).unwrap();
    write_all(&mut record, &writes);
    record.unwrap()
}

fn after_all(facts: &[LoopFact]) -> LoopRecord {
    let mut record = None;
    for fact in facts {
        record = Some(after(record.as_ref(), fact));
    }
    record.unwrap()
}

fn started() -> LoopFact {
    LoopFact::Started { task: task(1), place: LoopPlace::Slot, present: Vec::new() }
}

fn feedback(record: &LoopRecord) -> &str {
    record.feedback.as_deref().unwrap_or("")
}

/// The seed's table "Scenarios traced", one row each: the phase before, the plan, the signal; then the result.
#[test]
fn every_traced_scenario_ends_as_the_table_says() {
    let plan = after_all(&[started()]);
    let build = after_all(&[started(), valid("a")]);
    let complete = || LoopSignal::Complete;
    let decided = |record: &LoopRecord, signal, plan| decide(record, &report(signal, plan));
    // New UI task, iteration 1: the agent researches and writes the plan.
    assert_eq!(decided(&plan, LoopSignal::GoOn, None), LoopDecision::GoOn);
    assert_eq!(decided(&plan, LoopSignal::GoOn, Some("a")), LoopDecision::GoOn);
    // New UI task, iteration 2: validated, and BUILD.
    assert_eq!((build.phase, build.validated.clone()), (LoopPhase::Build, Some(mark("a"))));
    assert!(feedback(&build).starts_with("# Plan Validated"));
    // Degenerate: plan and completion in the same batch. The plan is validated at the start of the next iteration.
    let not_validated = LoopDecision::Swallowed(decide::Swallowed::NotValidated);
    assert_eq!(decided(&plan, complete(), Some("a")), not_validated);
    let swallowed = after(Some(&plan), &ended(report(complete(), Some("a"))));
    assert_eq!((swallowed.phase, swallowed.failures), (LoopPhase::Plan, 0));
    assert_eq!(after(Some(&swallowed), &valid("a")).phase, LoopPhase::Build);
    // Build done: gates.
    assert_eq!(decided(&build, complete(), Some("a")), LoopDecision::Judge);
    // Bug fix, refactor, and a text-only completion without a plan: the phases are inert.
    assert_eq!(decided(&plan, complete(), None), LoopDecision::Judge);
    // A text-only completion with a plan is the same signal.
    let ending = RunEnding {
        status: "running",
        question: None,
        final_message: "I am done.",
        tool_calls: Some(0),
    };
    assert_eq!(decided(&plan, signal(ending), Some("a")), not_validated);
}

#[test]
fn an_invalid_plan_keeps_the_phase_and_is_told_what_is_wrong() {
    let record = after_all(&[started(), invalid("a")]);
    assert_eq!(record.phase, LoopPhase::Plan);
    assert!(feedback(&record).starts_with("# Plan Validation"), "{record:?}");
    assert!(feedback(&record).contains("FAIL [has-theme]"), "{record:?}");
}

#[test]
fn the_warnings_of_a_valid_plan_are_told() {
    let report = "WARN [missing-nav]: line 9: there is no Nav".to_owned();
    let record = after_all(&[started(), checked(PlanVerdict::Valid { plan: mark("a"), report })]);
    assert_eq!(record.phase, LoopPhase::Build);
    assert!(feedback(&record).starts_with("# Plan Validated"), "{record:?}");
    assert!(feedback(&record).contains("\nWARN [missing-nav]: line 9"), "{record:?}");
}

#[test]
fn a_plan_that_changes_during_build_is_validated_again_before_a_completion_counts() {
    let build = after_all(&[started(), valid("a")]);
    for (plan, why) in [(Some("b"), decide::Swallowed::Changed), (None, decide::Swallowed::Gone)] {
        let found = report(LoopSignal::Complete, plan);
        assert_eq!(decide(&build, &found), LoopDecision::Swallowed(why));
        assert_eq!(after(Some(&build), &ended(found)).failures, 0);
    }
    let changed = after(Some(&build), &valid("b"));
    assert_eq!((changed.phase, changed.validated), (LoopPhase::Build, Some(mark("b"))));
    assert_eq!(after(Some(&build), &invalid("b")).phase, LoopPhase::Plan);
    let gone = after(Some(&build), &checked(PlanVerdict::Absent));
    assert_eq!(gone.phase, LoopPhase::Plan);
    // Removing the plan does not skip the phases.
    let without = report(LoopSignal::Complete, None);
    let decision = decide(&gone, &without);
    assert_eq!(decision, LoopDecision::Swallowed(decide::Swallowed::Gone));
    let accepted =
        LoopFact::Accepted { run: Some(run(2)), acceptance: acceptance(), summary: String::new() };
    assert!(settle(Some(&gone), &accepted, BOUNDS).is_err());
}

#[test]
fn what_gates_said_survives_a_change_of_the_plan() {
    let failed = after_all(&[started(), valid("a"), gates_failed(false)]);
    let changed = after(Some(&failed), &valid("b"));
    assert!(feedback(&changed).starts_with("# Quality Gate Failures"), "{changed:?}");
    assert!(feedback(&changed).contains("# Plan Validated"), "{changed:?}");
}

/// Defect D8.1: a plan of an earlier task neither opens BUILD for the next one nor blocks it.
#[test]
fn a_plan_is_archived_when_the_next_task_starts_unless_it_is_another_one() {
    for first in [valid("a"), invalid("a")] {
        let done = after_all(&[started(), first]);
        let next = |digest| {
            let (task, place) = (task(2), LoopPlace::Slot);
            LoopFact::Started { task, place, present: vec![mark(digest)] }
        };
        let writes = settle(Some(&done), &next("a"), BOUNDS).unwrap();
        let archived = LoopWrite::ArchivePlans { task: 1, files: vec!["plan.tsx".to_owned()] };
        assert!(writes.contains(&archived), "{writes:?}");
        let writes = settle(Some(&done), &next("b"), BOUNDS).unwrap();
        let moves_any = writes.iter().any(|one| matches!(one, LoopWrite::ArchivePlans { .. }));
        assert!(!moves_any, "a plan that nobody saw before is the new task's: {writes:?}");
        let record = after(Some(&done), &next("b"));
        assert_eq!((record.phase, record.bound, record.feedback), (LoopPhase::Plan, vec![], None));
    }
}

#[test]
fn a_completion_without_a_change_is_a_claim_for_a_person_or_a_failure() {
    for (record, plan) in
        [(after_all(&[started()]), None), (after_all(&[started(), valid("a")]), Some("a"))]
    {
        let nothing = IterationReport { changed: false, ..report(LoopSignal::Complete, plan) };
        assert_eq!(decide(&record, &nothing), LoopDecision::NothingChanged);
        assert_eq!(after(Some(&record), &ended(nothing.clone())).failures, 1);
        let reason = Some("it is there".to_owned());
        let claimed = IterationReport { no_change: reason, ..nothing };
        let claimed = after(Some(&record), &ended(claimed));
        let opinion = LoopFact::OpinionGiven { opinion: "so it is".to_owned() };
        let reviewed = after(Some(&claimed), &opinion);
        let objected = LoopFact::Objected { answer: "no".to_owned() };
        assert_eq!(after(Some(&reviewed), &objected).standing, LoopStanding::Working);
    }
}

#[test]
fn too_many_gate_failures_in_a_row_abort_and_those_before_any_work_do_not_count() {
    let mut record = after_all(&[started(), valid("a")]);
    for _ in 0..9 {
        record = after(Some(&record), &gates_failed(true));
    }
    assert_eq!((record.failures, record.iterations), (0, 9));
    record = after(Some(&record), &gates_failed(false));
    assert_eq!(record.standing, LoopStanding::Working);
    record = after(Some(&record), &gates_failed(false));
    assert_eq!(record.standing, LoopStanding::Aborted { gates: vec!["tests".to_owned()] });
    let resumed = after(Some(&record), &LoopFact::Resumed);
    assert_eq!((resumed.failures, resumed.iterations), (0, 0));
    assert_eq!(resumed.phase, LoopPhase::Build);
}

/// A run that changes and claims nothing gets feedback about that, and after several of them the task stops. Any
/// change, a claim or a person's message resets the count.
#[test]
fn too_many_runs_in_a_row_that_bring_nothing_stop_the_task() {
    let idles = |record: &LoopRecord, signal, plan, trace: &str| {
        let trace = trace.to_owned();
        after(Some(record), &ended(IterationReport { trace, ..report(signal, plan) }))
    };
    for (signal, plan) in [
        (LoopSignal::GoOn, None),
        (LoopSignal::CommandsAsText, None),
        (LoopSignal::Complete, Some("invalid")),
    ] {
        let first = idles(&after_all(&[started()]), signal.clone(), plan, "one");
        assert_eq!(
            (first.idle, first.told().unwrap_or_default().contains("# No Progress")),
            (0, false)
        );
        let second = idles(&first, signal.clone(), plan, "one");
        assert_eq!((second.idle, &second.standing), (1, &LoopStanding::Working));
        assert!(second.told().unwrap().contains("# No Progress"));
        let other = idles(&second, signal.clone(), plan, "two");
        assert_eq!((other.idle, &other.standing), (0, &LoopStanding::Working));
        let third = idles(&second, signal, plan, "one");
        assert_eq!(third.standing, LoopStanding::Idle);
        let resumed = after(Some(&third), &LoopFact::Resumed);
        assert_eq!((resumed.idle, &resumed.standing), (0, &LoopStanding::Working));
    }
    // The first run is compared with the beginning of the task.
    let nothing = IterationReport { changed: false, ..report(LoopSignal::GoOn, None) };
    let first = after_all(&[started(), ended(nothing)]);
    assert_eq!(first.idle, 1);
    // A rejected claim is counted separately.
    let claim = IterationReport { changed: false, ..report(LoopSignal::Complete, None) };
    let claimed = after(Some(&first), &ended(claim));
    assert_eq!((claimed.idle, claimed.failures), (0, 1));
}

#[test]
fn a_plan_of_the_last_iteration_is_validated_and_the_task_can_go_on() {
    let bounds = LoopBounds { iterations: 1, ..BOUNDS };
    let record = after_all(&[started(), ended(report(LoopSignal::GoOn, Some("a")))]);
    assert!(record.is_spent(bounds));
    let record = after(Some(&record), &valid("a"));
    assert_eq!(record.phase, LoopPhase::Build);
    let writes = settle(Some(&record), &LoopFact::Resumed, bounds).unwrap();
    let mut resumed = Some(record);
    write_all(&mut resumed, &writes);
    assert!(!resumed.unwrap().is_spent(bounds));
}

#[test]
fn a_question_is_answered_in_the_feedback() {
    let question = "Which colour?".to_owned();
    let waiting = after_all(&[started(), ended(report(LoopSignal::Waiting { question }, None))]);
    assert!(settle(Some(&waiting), &valid("a"), BOUNDS).is_err());
    let answered = after(Some(&waiting), &LoopFact::Answered { answer: "Blue.".to_owned() });
    assert_eq!(answered.standing, LoopStanding::Working);
    // A plan found invalid before the next run does not replace the person's answer.
    let told = after(Some(&answered), &invalid("a")).told().unwrap();
    assert!(told.starts_with("# Answer") && told.contains("Blue."), "{told}");
    assert!(told.contains("FAIL [has-theme]"), "{told}");
    let worked = IterationReport { trace: "u".to_owned(), ..report(LoopSignal::GoOn, None) };
    let next = after(Some(&answered), &ended(worked));
    assert_eq!(next.told(), None, "the answer is for one run");
}

/// Accepted work that no longer fits the branch is sent back at no cost; if that happens too often, a person is asked.
#[test]
fn a_landing_that_is_refused_costs_no_iteration_and_keeps_the_phase() {
    let build = after_all(&[started(), valid("a")]);
    let [LoopWrite::Record(accepted), ..] =
        &settle(Some(&build), &fact("accepted"), BOUNDS).unwrap()[..]
    else {
        panic!("the verdict is written first");
    };
    let back = after(Some(accepted), &fact("landing refused"));
    assert_eq!((back.iterations, back.failures, back.landings_refused), (0, 0, 1));
    assert_eq!((back.phase, &back.standing), (LoopPhase::Build, &LoopStanding::Working));
    assert!(feedback(&back).contains("a conflict"), "{back:?}");
    let stuck = after(Some(accepted), &fact("landing stuck"));
    assert!(matches!(stuck.standing, LoopStanding::Undecided { .. }), "{stuck:?}");
    assert_eq!(stuck.landings_refused, 0, "a person lets it be tried anew");
}

#[test]
fn escalation_grows_with_the_failures() {
    assert_eq!(escalation(0, 5), None);
    assert!(escalation(1, 5).unwrap().starts_with("ACTION REQUIRED"));
    let third = escalation(2, 5).unwrap();
    assert!(third.starts_with("CRITICAL") && third.contains("attempt 3 of 5"), "{third}");
}

#[test]
fn files_that_the_run_touched_are_put_back_and_named() {
    let build = after_all(&[started(), valid("a")]);
    let files = mailbox::mirror(&build);
    let of = |name: &str| files.iter().find(|(known, _)| *known == name).unwrap().1.clone();
    assert_eq!(of("phase.txt").as_deref(), Some("build"));
    assert_eq!(of("status.txt").as_deref(), Some("running"));
    assert_eq!(mailbox::touched(&build, of), Vec::<String>::new());
    let edited = |name: &str| match name {
        "phase.txt" => Some("plan".to_owned()),
        "task.md" => None,
        other => of(other),
    };
    let touched = mailbox::touched(&build, edited);
    assert_eq!(touched, ["task.md", "phase.txt"]);
    let found = IterationReport { touched, ..report(LoopSignal::GoOn, Some("a")) };
    let once = after(Some(&build), &ended(found.clone()));
    assert_eq!(once.phase, LoopPhase::Build);
    let told = |record: &LoopRecord| record.told().unwrap_or_default();
    let says =
        |record: &LoopRecord| told(record).matches("phase.txt is owned by the harness").count();
    assert_eq!(says(&once), 1, "{once:?}");
    let again = IterationReport { trace: "u".to_owned(), ..found };
    let twice = after(Some(&once), &ended(again.clone()));
    assert_eq!(told(&twice), told(&once), "it is said once, however often it is done");
    // A plan that is checked before the next run, and gates that fail, have their own feedback.
    for then in [valid("b"), invalid("b"), checked(PlanVerdict::Absent)] {
        assert_eq!(says(&after(Some(&once), &then)), 1, "{then:?}");
    }
    let LoopFact::GatesFailed { run, gates, feedback, before_work, .. } = gates_failed(false)
    else {
        panic!("it is one");
    };
    let touched = again.touched;
    let failed = LoopFact::GatesFailed { run, gates, feedback, before_work, touched };
    assert_eq!(says(&after(Some(&build), &failed)), 1);
    // It is about the last run.
    let worked = IterationReport { trace: "v".to_owned(), ..report(LoopSignal::GoOn, Some("a")) };
    assert_eq!(says(&after(Some(&twice), &ended(worked))), 0);
}

#[test]
fn origin_and_history_grow_by_one_line_a_task_however_often_they_are_written() {
    let first = mailbox::origin(None, &task(1));
    assert_eq!(mailbox::origin(Some(&first), &task(1)), first);
    let second = mailbox::origin(Some(&first), &task(2));
    assert!(second.ends_with("- Task 2: Build page 2\n"), "{second}");
    assert_eq!(mailbox::origin(Some(&second), &task(2)), second);
    let long = format!("# {}\nmore", "é".repeat(200));
    let line = format!("- **Task 1**: {}\n", "é".repeat(100));
    let history = mailbox::history("", 1, &long);
    assert_eq!(history, line);
    assert_eq!(mailbox::history(&history, 1, &long), line);
    assert_eq!(mailbox::history("", 2, " \n"), "- **Task 2**: (no summary)\n");
}

fn gates_failed(before_work: bool) -> LoopFact {
    LoopFact::GatesFailed {
        run: Some(run(1)),
        gates: vec!["tests".to_owned()],
        feedback: "# Quality Gate Failures\n".to_owned(),
        before_work,
        touched: Vec::new(),
    }
}

fn facts() -> Vec<(&'static str, LoopFact)> {
    let complete = |plan| report(LoopSignal::Complete, plan);
    let accepted =
        |run| LoopFact::Accepted { run, acceptance: acceptance(), summary: "A page.".to_owned() };
    let undecided = |run| LoopFact::Undecided { run, works: works(), question: "Done?".to_owned() };
    let text = |text: &str| text.to_owned();
    let asks = LoopSignal::Waiting { question: text("Blue?") };
    let nothing = IterationReport { changed: false, ..complete(None) };
    let no_change = IterationReport { no_change: Some(text("it is there")), ..nothing.clone() };
    let by_a_person = LoopFact::GatesFailed {
        run: None,
        gates: vec![],
        feedback: text("no"),
        before_work: false,
        touched: vec![],
    };
    vec![
        (
            "started",
            LoopFact::Started { task: task(2), place: LoopPlace::Slot, present: vec![mark("a")] },
        ),
        ("no plan", checked(PlanVerdict::Absent)),
        ("plan invalid", invalid("a")),
        ("plan valid", valid("a")),
        ("another plan valid", valid("b")),
        ("went on", ended(report(LoopSignal::GoOn, Some("a")))),
        ("complete with plan", ended(complete(Some("a")))),
        ("complete with another plan", ended(complete(Some("b")))),
        ("complete without plan", ended(complete(None))),
        ("complete, nothing changed", ended(nothing)),
        ("complete, no change claimed", ended(no_change)),
        ("commands as text", ended(report(LoopSignal::CommandsAsText, None))),
        ("asked", ended(report(asks, None))),
        ("cut short", LoopFact::CutShort { run: run(1), reason: text("it took too long") }),
        ("gates failed", gates_failed(false)),
        ("gates failed again", by_a_person),
        ("undecided", undecided(Some(run(1)))),
        ("undecided again", undecided(None)),
        ("accepted", accepted(Some(run(1)))),
        ("accepted by a person", accepted(None)),
        ("landing refused", LoopFact::LandingRefused { why: text("a conflict") }),
        ("landing stuck", LoopFact::LandingStuck { question: text("Again?") }),
        ("landing unsettled", LoopFact::LandingUnsettled { question: text("Fine?") }),
        ("opinion given", LoopFact::OpinionGiven { opinion: text("it is") }),
        ("answered", LoopFact::Answered { answer: text("yes") }),
        ("objected", LoopFact::Objected { answer: text("no") }),
        ("resumed", LoopFact::Resumed),
        ("rolled back", LoopFact::RolledBack),
    ]
}

fn fact(name: &str) -> LoopFact {
    facts().into_iter().find(|(known, _)| *known == name).unwrap().1
}

/// Every state, including those that only a crash can produce.
fn situations() -> Vec<(&'static str, Option<LoopRecord>)> {
    let begun = after_all(&[started()]);
    let build = after(Some(&begun), &valid("a"));
    let first_write = |record: Option<&LoopRecord>, fact: &LoopFact| {
        let LoopWrite::Record(first) = settle(record, fact, BOUNDS).unwrap().swap_remove(0) else {
            panic!("a list begins with a record");
        };
        Some(*first)
    };
    let told = |name: &str| Some(after(Some(&begun), &fact(name)));
    let went_on = || fact("went on");
    let no_change = told("complete, no change claimed");
    let spent = LoopRecord { iterations: BOUNDS.iterations, ..build.clone() };
    let failed_once = after(Some(&build), &fact("gates failed"));
    vec![
        ("no task", None),
        ("beginning", first_write(None, &started())),
        ("beginning after another", first_write(Some(&build), &fact("started"))),
        ("plan", Some(begun.clone())),
        ("plan, invalid", told("plan invalid")),
        ("build", Some(build.clone())),
        ("build, plan gone", Some(after(Some(&build), &fact("no plan")))),
        ("build, failed once", Some(failed_once.clone())),
        ("iterations used", Some(spent)),
        ("waiting", told("asked")),
        ("no change claimed", no_change.clone()),
        ("no change reviewed", Some(after(no_change.as_ref(), &fact("opinion given")))),
        ("undecided", Some(after(Some(&build), &fact("undecided")))),
        ("aborted", Some(after(Some(&failed_once), &fact("gates failed")))),
        ("idle", Some(after_all(&[started(), went_on(), went_on(), went_on()]))),
        ("accepted, writes cut short", first_write(Some(&build), &fact("accepted"))),
        ("done", Some(after(Some(&build), &fact("accepted")))),
        ("rolling back", first_write(Some(&build), &fact("rolled back"))),
        ("rolled back", Some(after(Some(&build), &fact("rolled back")))),
    ]
}

fn short(record: &LoopRecord) -> String {
    let standing = match &record.standing {
        LoopStanding::Beginning { .. } => "beginning",
        LoopStanding::Working => "working",
        LoopStanding::Waiting { .. } => "waiting",
        LoopStanding::NoChange { .. } => "no change",
        LoopStanding::NoChangeReviewed { .. } => "no change reviewed",
        LoopStanding::Undecided { .. } => "undecided",
        LoopStanding::Aborted { .. } => "aborted",
        LoopStanding::Idle => "idle",
        LoopStanding::Accepted { .. } => "accepted",
        LoopStanding::Done { .. } => "done",
        LoopStanding::RollingBack => "rolling back",
        LoopStanding::RolledBack => "rolled back",
    };
    let LoopRecord { phase, iterations, failures, validated, .. } = record;
    let plan = validated.as_ref().map_or("-", |plan| plan.digest.as_str());
    format!("{standing} {} plan={plan} runs={iterations} failures={failures}", phase.name())
}

fn name(write: &LoopWrite) -> String {
    match write {
        LoopWrite::Record(record) => format!("record({})", short(record)),
        LoopWrite::ArchivePlans { .. } => "archive-plans".to_owned(),
        LoopWrite::BeginMailbox { .. } => "begin-mailbox".to_owned(),
        LoopWrite::Snapshot { point, .. } => format!("snapshot-{point:?}").to_lowercase(),
        LoopWrite::AdvanceBranches { .. } => "advance".to_owned(),
        LoopWrite::AppendHistory { .. } => "history".to_owned(),
        LoopWrite::ForgetBeginning { .. } => "forget-beginning".to_owned(),
        LoopWrite::RollBack { .. } => "roll-back".to_owned(),
    }
}

#[test]
fn the_whole_table_of_states_and_facts_is_known() {
    let mut table = String::new();
    for (situation, record) in situations() {
        let healing: Vec<String> = record.iter().flat_map(heal).map(|one| name(&one)).collect();
        let healing = if healing.is_empty() {
            String::new()
        } else {
            format!(", heals {}", healing.join(" "))
        };
        let state = record.as_ref().map_or("-".to_owned(), short);
        writeln!(table, "{situation}: {state}{healing}").unwrap();
        for (told, fact) in facts() {
            let Ok(writes) = settle(record.as_ref(), &fact, BOUNDS) else { continue };
            let names: Vec<String> = writes.iter().map(name).collect();
            writeln!(table, "  {told}: {}", names.join(" ")).unwrap();
        }
    }
    let known = include_str!("phase_table.txt");
    assert!(table == known, "the table is now:\n{table}");
}

/// A task interrupted after any write, healed, and concluded again unless its run is settled, reaches the same end
/// state.
#[test]
fn a_crash_between_two_writes_changes_nothing_in_the_end() {
    for (situation, record) in situations() {
        for (told, fact) in facts() {
            let Ok(writes) = settle(record.as_ref(), &fact, BOUNDS) else { continue };
            let mut undisturbed = record.clone();
            write_all(&mut undisturbed, &writes);
            // A refused landing is established by the landing, which healing repeats.
            let is_landing = told.starts_with("landing");
            for cut in usize::from(is_landing)..=writes.len() {
                let mut found = record.clone();
                write_all(&mut found, &writes[..cut]);
                let healing: Vec<_> = found.iter().flat_map(heal).collect();
                // The writes before the crash plus those of healing are the whole list.
                if cut > 0 {
                    let missing = &writes[cut..];
                    assert!(healing.ends_with(missing), "{situation}/{told}/{cut}");
                }
                write_all(&mut found, &healing);
                if cut == 0 {
                    let again = settle(found.as_ref(), &fact, BOUNDS);
                    write_all(&mut found, &again.unwrap_or_default());
                }
                assert_eq!(found, undisturbed, "{situation}/{told}/{cut}");
            }
        }
    }
}

proptest! {
    /// For any sequence of facts: work with a plan is accepted only in BUILD, a completion in PLAN never counts, every
    /// count is bounded, and healing terminates.
    #[test]
    fn no_history_gets_past_the_phases(choices in prop::collection::vec(0_usize..27, 0..60)) {
        let facts = facts();
        let mut record: Option<LoopRecord> = None;
        for choice in choices {
            let (_, fact) = &facts[choice];
            let Ok(writes) = settle(record.as_ref(), fact, BOUNDS) else { continue };
            if let (LoopFact::Accepted { run: Some(_), .. }, Some(before)) = (fact, &record) {
                prop_assert!(before.phase == LoopPhase::Build || before.validated.is_none());
            }
            write_all(&mut record, &writes);
            let now = record.clone().unwrap();
            prop_assert_eq!(heal(&now), vec![], "a whole list leaves nothing to heal");
            prop_assert!(now.failures <= BOUNDS.failures);
            prop_assert!(now.phase == LoopPhase::Plan || now.validated.is_some());
            let text = serde_json::to_string(&now).unwrap();
            prop_assert_eq!(serde_json::from_str::<LoopRecord>(&text).unwrap(), now);
        }
    }
}
