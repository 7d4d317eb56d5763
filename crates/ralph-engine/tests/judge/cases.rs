//! The cases, each a sentence.

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
use ralph_model::receipt::Caches;
use ralph_model::verdict::{PersonQuestion, Reason, Verdict, VerifierQuestion, VerifierReport};

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
    a_weakened_test_rejects_unless_the_spec_or_the_configuration_allows_it
    nothing_said_is_rejected_and_no_change_needs_a_person
    a_claim_without_a_commit_or_with_an_old_one_is_rejected
    home_alone_is_no_work_and_home_swept_in_is_no_fault
    work_on_another_branch_on_a_detached_head_and_in_a_sibling_counts
    history_that_was_rewritten_rejects
    a_commit_of_an_earlier_attempt_counts
    the_first_commit_of_a_repository_can_be_judged
    a_repository_that_was_re_pointed_is_a_forgery_and_no_verdict
    slow_gates_are_not_run_for_what_a_fast_one_rejects
}

fn verdict(world: &World, commit: &str) -> Verdict {
    world.examine_commit(commit).verdict(&VerifierReport::NotAsked).unwrap()
}

fn accepted(world: &World, commit: &str) -> bool {
    match verdict(world, commit) {
        Verdict::Accepted { proven_by_gates, .. } => proven_by_gates,
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
    let mut world = World::new("grep -q 42 answer || test ! -f answer");
    world.begin(&[]);
    let base = world.git(&["rev-parse", "HEAD"]);
    let commit = world.work("answer", "42");
    write(&world.root.join("left"), "uncommitted");
    let case = world.examine_commit(&commit);
    let verdict = case.verdict(&VerifierReport::NotAsked).unwrap();
    assert!(matches!(verdict, Verdict::Accepted { proven_by_gates: true, .. }), "{verdict:?}");
    let left = VerifierQuestion::Leftovers { paths: vec!["left".to_owned()] };
    assert_eq!(case.questions(), [left]);
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
    let mut world = World::new("test ! -f broken");
    world.begin(&[]);
    let broken = world.work("broken", "1");
    let found = reasons(&world, &broken);
    let [Reason::Gate { report }] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(report.attribution, Attribution::Regressed);
    world.begin(&[]);
    let more = world.work("more", "1");
    let case = world.examine_commit(&more);
    let verdict = case.verdict(&VerifierReport::NotAsked).unwrap();
    assert!(matches!(verdict, Verdict::Accepted { proven_by_gates: false, .. }), "{verdict:?}");
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
    // What is missing was missing at the base too, and fails all the same; none keeps another from running.
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
    // Uncommitted files are no evidence.
    fs::remove_file(world.root.join("src/App.tsx")).unwrap();
    assert_eq!(reasons(&world, &commit).len(), 1, "19 characters are no summary");
    world.summary = Some("A page with a form, done.");
    assert!(!accepted(&world, &commit), "nothing that was built was run");
    let receipt = world.attest(&world.examine_commit(&commit));
    assert_eq!(receipt.gates[1].gate.built_in(), Some(BuiltIn::AppExists));
    assert_eq!(world.verify(&commit).holds(), Some(true));
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

fn a_weakened_test_rejects_unless_the_spec_or_the_configuration_allows_it() {
    let mut world = World::new("true");
    world.work("tests/legacy/old.rs", "#[test]\nfn old() {\n    assert!(f());\n}\n");
    world.begin(&[]);
    fs::remove_file(world.root.join("tests/legacy/old.rs")).unwrap();
    let commit = world.work("x", "1");
    let found = reasons(&world, &commit);
    assert!(matches!(found.as_slice(), [Reason::Weakened { .. }]), "{found:?}");
    world.allowed = vec![Glob::new("tests/legacy/**")];
    assert!(accepted(&world, &commit));
    world.pinned.allow = std::mem::take(&mut world.allowed);
    assert!(accepted(&world, &commit));
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
