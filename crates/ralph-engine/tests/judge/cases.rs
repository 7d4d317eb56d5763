//! The cases, one sentence each.

use std::fs;

use ralph_engine::gates::assess::Extent;
use ralph_engine::gates::receipt::read_receipt;
use ralph_engine::git::Oid;
use ralph_engine::git::evidence::EvidenceError;
use ralph_engine::git::mirror::MirrorError;
use ralph_engine::judge::{JudgeError, Said};
use ralph_model::contract::Completion;
use ralph_model::evidence::EvidenceFault;
use ralph_model::gate::{Attribution, BuiltIn, GateSpec};
use ralph_model::glob::Glob;
use ralph_model::proof::ProofLevel;
use ralph_model::receipt::Caches;
use ralph_model::verdict::{PersonQuestion, Reason, Verdict, VerifierQuestion, VerifierReport};

use crate::checks::{
    a_changed_check_with_which_nothing_breaks_is_told_and_moves_no_anchor,
    a_red_base_is_not_mended_by_changing_its_checks_alone, a_spec_and_the_person_decide_otherwise,
    broken_work_is_asked_about_whatever_hides_it, new_tests_alone_are_proven_and_nobody_is_asked,
    nothing_but_checks_needs_no_second_run_and_ci_is_told,
    source_that_a_script_mentions_does_not_hide_behind_it,
    tests_that_vanish_with_a_file_that_the_gate_reads_are_asked_about,
    tests_that_vanish_without_a_changed_check_are_rejected,
    what_an_old_check_refuses_is_not_hidden_by_laying_it_over,
    what_somebody_agreed_with_is_the_anchor_from_then_on, work_that_touches_no_check_costs_one_run,
};
use crate::world::{World, gate, git, write};

macro_rules! cases {
    ($($name:ident)*) => {
        pub(crate) const ALL: &[(&str, fn())] = &[$((stringify!($name), $name)),*];
    };
}

cases! {
    a_commit_that_passes_its_gates_is_accepted_and_its_receipt_holds
    a_gate_that_went_red_rejects_and_one_that_was_red_is_a_question
    built_in_gates_look_at_the_candidate_and_prove_nothing
    without_gates_the_verdict_says_that_nothing_is_proven
    gates_that_can_be_run_nowhere_are_for_a_person
    nothing_said_is_rejected_and_no_change_needs_a_person
    a_claim_without_a_commit_or_with_an_old_one_is_rejected
    home_alone_is_no_work_and_home_swept_in_is_no_fault
    work_on_another_branch_on_a_detached_head_and_in_a_sibling_counts
    history_that_was_rewritten_rejects
    a_commit_of_an_earlier_attempt_counts
    the_first_commit_of_a_repository_can_be_judged
    a_repository_that_was_re_pointed_is_a_forgery_and_no_verdict
    slow_gates_are_not_run_for_what_a_fast_one_rejects
    work_that_touches_no_check_costs_one_run
    new_tests_alone_are_proven_and_nobody_is_asked
    broken_work_is_asked_about_whatever_hides_it
    source_that_a_script_mentions_does_not_hide_behind_it
    a_changed_check_with_which_nothing_breaks_is_told_and_moves_no_anchor
    what_somebody_agreed_with_is_the_anchor_from_then_on
    a_spec_and_the_person_decide_otherwise
    nothing_but_checks_needs_no_second_run_and_ci_is_told
    what_was_there_before_or_was_fetched_is_not_new
    a_link_out_of_the_tree_is_no_work
    tests_that_vanish_with_a_file_that_the_gate_reads_are_asked_about
    tests_that_vanish_without_a_changed_check_are_rejected
    what_an_old_check_refuses_is_not_hidden_by_laying_it_over
    a_red_base_is_not_mended_by_changing_its_checks_alone
}

fn verdict(world: &World, commit: &str) -> Verdict {
    world.examine_commit(commit).verdict(&VerifierReport::NotAsked).unwrap()
}

fn accepted(world: &World, commit: &str) -> bool {
    match verdict(world, commit) {
        Verdict::Accepted { level, .. } => level == ProofLevel::GatesPassed,
        other => panic!("{other:?}"),
    }
}

fn reasons(world: &World, commit: &str) -> Vec<Reason> {
    match verdict(world, commit) {
        Verdict::Rejected { reasons } => reasons,
        other => panic!("{other:?}"),
    }
}

fn a_commit_that_passes_its_gates_is_accepted_and_its_receipt_holds() {
    let mut world = World::new("grep -q 42 src/answer || test ! -f src/answer");
    world.begin(&[]);
    let base = world.git(&["rev-parse", "HEAD"]);
    let commit = world.work("src/answer", "42");
    write(&world.root.join("left"), "uncommitted");
    let case = world.examine_commit(&commit);
    let verdict = case.verdict(&VerifierReport::NotAsked).unwrap();
    assert!(
        matches!(verdict, Verdict::Accepted { level: ProofLevel::GatesPassed, .. }),
        "{verdict:?}"
    );
    let left = VerifierQuestion::Leftovers { paths: vec!["left".to_owned()] };
    let questions = case.questions();
    assert_eq!(questions[0], left);
    // If the gate can be traced, its lookup of the file is recorded, which is then reported, and nothing more.
    let is_told = |one: &VerifierQuestion| matches!(one, VerifierQuestion::Checks { asked, failing, .. } if asked.is_empty() && failing.is_empty());
    assert!(questions[1..].iter().all(is_told), "{questions:?}");
    let receipt = world.attest(&case);
    assert_eq!(receipt.base.commit.as_str(), base);
    assert_eq!(receipt.caches, Caches::Cold);
    assert_eq!(receipt.gates[0].gate.argv(), ["./check"]);
    let id = Oid::parse(commit.as_bytes()).unwrap();
    assert_eq!(read_receipt(&world.repository().git, &id).unwrap(), Some(receipt));
    assert_eq!(world.verify(&commit).holds(), Some(true));
    assert_eq!(world.verify(&base).holds(), None);
}

fn a_gate_that_went_red_rejects_and_one_that_was_red_is_a_question() {
    let mut world = World::new("test ! -f src/broken");
    world.begin(&[]);
    let broken = world.work("src/broken", "1");
    let found = reasons(&world, &broken);
    let [Reason::Gate { report }] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(report.attribution, Attribution::Regressed);
    world.begin(&[]);
    let more = world.work("src/more", "1");
    let case = world.examine_commit(&more);
    let verdict = case.verdict(&VerifierReport::NotAsked).unwrap();
    assert!(
        matches!(verdict, Verdict::Accepted { level: ProofLevel::NotProven, .. }),
        "{verdict:?}"
    );
    let questions = case.questions();
    let [VerifierQuestion::Gate { report }, VerifierQuestion::NotProven] = questions.as_slice()
    else {
        panic!("{questions:?}")
    };
    assert_eq!(report.attribution, Attribution::RedBeforeAndAfter);
    world.attest(&case);
    assert_eq!(world.verify(&more).holds(), Some(true));
}

fn built_in_gates_look_at_the_candidate_and_prove_nothing() {
    let mut world = World::new("test ! -f broken");
    let checks = [BuiltIn::HasSummary, BuiltIn::AppExists, BuiltIn::CssThemeComplete];
    world.pinned.gates = checks.map(GateSpec::from).to_vec();
    world.extent = Extent::All;
    world.begin(&[]);
    let commit = world.work("src/index.css", ":root { --background: red; }");
    // The missing programs were missing at the base too, and fail anyway; none prevents another from running.
    let found = reasons(&world, &commit);
    let failed: Vec<(&str, bool)> = found
        .iter()
        .map(|reason| match reason {
            Reason::Gate { report } => {
                (report.gate.as_str(), report.attribution == Attribution::Failed)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(failed, [("has-summary", true), ("app-exists", true), ("css-theme-complete", true)]);
    world.pinned.gates.pop();
    world.summary = Some("A page with a form.");
    let commit = world.work("src/App.tsx", "export default 1;");
    // Uncommitted files are not evidence.
    fs::remove_file(world.root.join("src/App.tsx")).unwrap();
    assert_eq!(reasons(&world, &commit).len(), 1, "19 characters are no summary");
    world.summary = Some("A page with a form, done.");
    assert!(!accepted(&world, &commit), "nothing that was built was run");
    let receipt = world.attest(&world.examine_commit(&commit));
    assert_eq!(receipt.gates[1].gate.built_in(), Some(BuiltIn::AppExists));
    assert_eq!(world.verify(&commit).holds(), Some(false), "nothing that was built was run");
}

fn without_gates_the_verdict_says_that_nothing_is_proven() {
    let mut world = World::new("false");
    world.pinned.gates.clear();
    world.begin(&[]);
    let commit = world.work("x", "1");
    assert!(!accepted(&world, &commit));
}

fn gates_that_can_be_run_nowhere_are_for_a_person() {
    let mut world = World::new("true");
    world.pinned.gates = vec![gate("tests", &["./no-such-program"])];
    world.begin(&[]);
    let commit = world.work("x", "1");
    let verdict = verdict(&world, &commit);
    let Verdict::NeedsHuman { question: PersonQuestion::GatesCannotRun { gates, .. } } = verdict
    else {
        panic!("{verdict:?}")
    };
    assert!(matches!(gates[0].attribution, Attribution::CouldNotRun { .. }));
}

fn nothing_said_is_rejected_and_no_change_needs_a_person() {
    let mut world = World::new("true");
    world.begin(&[]);
    let judged =
        |said: &Said| world.examine(said).unwrap().verdict(&VerifierReport::NotAsked).unwrap();
    assert_eq!(judged(&Said::from(None)), Verdict::Rejected { reasons: vec![Reason::NoClaim] });
    let head = world.git(&["rev-parse", "HEAD"]).parse().unwrap();
    let said = Said::from(Some(Completion { commit: head, no_change: Some("is so".to_owned()) }));
    let verdict = judged(&said);
    let Verdict::NeedsHuman { question: PersonQuestion::NoChange { reason, opinion: None } } =
        verdict
    else {
        panic!("{verdict:?}")
    };
    assert_eq!(reason, "is so");
    let plan = judged(&Said::PlanInvalid { reason: "no".to_owned() });
    assert!(matches!(plan, Verdict::Rejected { .. }), "{plan:?}");
}

fn a_claim_without_a_commit_or_with_an_old_one_is_rejected() {
    let mut world = World::new("true");
    world.begin(&[]);
    let head = world.git(&["rev-parse", "HEAD"]);
    let fault = |commit: &str| match reasons(&world, commit).as_slice() {
        [Reason::Evidence { fault }] => fault.clone(),
        other => panic!("{other:?}"),
    };
    assert!(matches!(fault(&"d".repeat(40)), EvidenceFault::NoSuchCommit { .. }));
    assert!(matches!(fault(&head), EvidenceFault::NotNew { .. }));
}

fn home_alone_is_no_work_and_home_swept_in_is_no_fault() {
    let mut world = World::new("true");
    world.begin(&[]);
    let home = world.work("ralph/progress.txt", "much");
    let found = reasons(&world, &home);
    assert!(
        matches!(
            found.as_slice(),
            [Reason::Evidence { fault: EvidenceFault::ChangesOnlyHome { .. } }]
        ),
        "{found:?}"
    );
    let both = world.work("src/x", "1");
    assert!(accepted(&world, &both));
}

fn work_on_another_branch_on_a_detached_head_and_in_a_sibling_counts() {
    let mut world = World::new("true");
    write(&world.root.join(".gitignore"), "sibling\n");
    world.work("y", "1");
    let sibling = world.root.join("sibling");
    git(&world.root, &["init", "--quiet", sibling.as_str()]);
    world.work_in("sibling", "check", "#!/bin/sh\ntrue\n");
    git(&sibling, &["update-index", "--chmod=+x", "check"]);
    git(&sibling, &["commit", "--quiet", "--message=base"]);
    git(&sibling, &["reset", "--quiet", "--hard"]);
    world.begin(&["sibling"]);
    world.git(&["checkout", "--quiet", "-b", "feature"]);
    let feature = world.work("x", "1");
    world.git(&["checkout", "--quiet", "main"]);
    assert!(accepted(&world, &feature));
    world.git(&["checkout", "--quiet", "--detach"]);
    let detached = world.work("z", "1");
    assert!(accepted(&world, &detached));
    world.git(&["checkout", "--quiet", "main"]);
    let there = world.work_in("sibling", "x", "1");
    assert!(accepted(&world, &there));
}

fn history_that_was_rewritten_rejects() {
    let mut world = World::new("true");
    world.work("theirs", "1");
    world.begin(&[]);
    world.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    let commit = world.work("mine", "1");
    let found = reasons(&world, &commit);
    let rewrote = |reason: &Reason| {
        matches!(reason, Reason::Evidence { fault: EvidenceFault::RewroteHistory { .. } })
    };
    assert!(found.iter().any(rewrote), "{found:?}");
}

fn a_commit_of_an_earlier_attempt_counts() {
    let mut world = World::new("true");
    world.begin(&[]);
    let commit = world.work("x", "1");
    world.next_attempt();
    assert!(accepted(&world, &commit), "nothing has moved since");
    world.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    world.next_attempt();
    let found = reasons(&world, &commit);
    let nowhere =
        Reason::Evidence { fault: EvidenceFault::OnNoRef { commit: commit.parse().unwrap() } };
    assert_eq!(found, [nowhere], "nothing leads to it any more");
}

fn the_first_commit_of_a_repository_can_be_judged() {
    let mut world = World::new("true");
    fs::remove_dir_all(world.root.join(".git")).unwrap();
    git(&world.root, &["init", "--quiet", "--initial-branch=main"]);
    world.begin(&[]);
    world.work("x", "1");
    let commit = world.git(&["rev-parse", "HEAD"]);
    let case = world.examine_commit(&commit);
    let verdict = case.verdict(&VerifierReport::NotAsked).unwrap();
    assert!(matches!(verdict, Verdict::Accepted { .. }), "{verdict:?}");
    world.attest(&case);
    assert_eq!(world.verify(&commit).holds(), Some(true));
}

fn a_repository_that_was_re_pointed_is_a_forgery_and_no_verdict() {
    let mut world = World::new("false");
    world.begin(&[]);
    let commit = world.work("x", "1");
    let other = world.root.parent().unwrap().join("other");
    git(&world.root, &["clone", "--quiet", ".", other.as_str()]);
    fs::rename(world.root.join(".git"), world.root.parent().unwrap().join("real")).unwrap();
    fs::write(world.root.join(".git"), format!("gitdir: {other}/.git\n")).unwrap();
    let error = world.examine(&Said::Commit { claimed: commit.parse().unwrap() }).unwrap_err();
    let forged = matches!(
        &error,
        JudgeError::Evidence(
            EvidenceError::Mirror(MirrorError::Forged { .. })
                | EvidenceError::Git(ralph_engine::git::GitError::Repointed { .. })
        )
    );
    assert!(forged, "{error:?}");
}

fn slow_gates_are_not_run_for_what_a_fast_one_rejects() {
    let mut world = World::new("test ! -f broken");
    let mut fast = gate("fast", &["./check"]);
    fast.fast = true;
    let mut docs = gate("docs", &["./check"]);
    docs.paths = vec![Glob::new("docs/**")];
    world.pinned.gates = vec![gate("slow", &["./check"]), docs, fast];
    world.begin(&[]);
    let commit = world.work("broken", "1");
    let case = world.examine_commit(&commit);
    let names: Vec<&str> =
        case.assessment.findings.iter().map(|finding| finding.gate.name.as_str()).collect();
    assert_eq!(names, ["fast"]);
    assert_eq!(case.assessment.unreached, ["slow"]);
    assert_eq!(case.assessment.unconcerned, ["docs"]);
}

fn is_not_new(world: &World, commit: &str) -> bool {
    let found = reasons(world, commit);
    found
        .iter()
        .any(|reason| matches!(reason, Reason::Evidence { fault: EvidenceFault::NotNew { .. } }))
}

fn what_was_there_before_or_was_fetched_is_not_new() {
    let mut world = World::new("true");
    world.git(&["checkout", "--quiet", "-b", "wip"]);
    let theirs = world.work("src/theirs", "1");
    world.git(&["stash", "list"]);
    world.git(&["checkout", "--quiet", "main"]);
    world.begin(&[]);
    assert!(is_not_new(&world, &theirs), "a branch");
    world.git(&["branch", "mine", "wip"]);
    assert!(is_not_new(&world, &theirs), "another name for it");
    world.next_attempt();
    world.git(&["branch", "-D", "wip"]);
    assert!(is_not_new(&world, &theirs), "in a later attempt");
    // Someone else pushes meanwhile, and the agent fetches it.
    let other = world.root.parent().unwrap().join("other");
    git(&world.root, &["clone", "--quiet", ".", other.as_str()]);
    write(&other.join("src/pushed"), "1");
    git(&other, &["add", "--all"]);
    git(&other, &["commit", "--quiet", "--message=pushed"]);
    let pushed = git(&other, &["rev-parse", "HEAD"]);
    world.git(&["fetch", "--quiet", other.as_str(), "HEAD"]);
    world.git(&["branch", "fetched", "FETCH_HEAD"]);
    assert!(is_not_new(&world, &pushed), "fetched");
    // The agent's own work on top of it is new.
    world.git(&["checkout", "--quiet", "-b", "feature", "mine"]);
    let own = world.work("src/own", "1");
    assert!(!is_not_new_or_accepted(&world, &own));
}

fn is_not_new_or_accepted(world: &World, commit: &str) -> bool {
    match verdict(world, commit) {
        Verdict::Rejected { .. } => is_not_new(world, commit),
        _ => false,
    }
}

fn a_link_out_of_the_tree_is_no_work() {
    let mut world = World::new("true");
    world.begin(&[]);
    std::os::unix::fs::symlink("/etc/hostname", world.root.join("src")).unwrap();
    world.git(&["add", "--all"]);
    world.git(&["commit", "--quiet", "--message=link"]);
    let commit = world.git(&["rev-parse", "HEAD"]);
    let found = reasons(&world, &commit);
    assert!(
        matches!(
            found.as_slice(),
            [Reason::Evidence { fault: EvidenceFault::ChangesNothing { .. } }]
        ),
        "{found:?}"
    );
    std::os::unix::fs::symlink("ralph/prompt.md", world.root.join("inside.md")).unwrap();
    world.git(&["add", "--all"]);
    world.git(&["commit", "--quiet", "--message=inside"]);
    let commit = world.git(&["rev-parse", "HEAD"]);
    assert!(accepted(&world, &commit));
}
