//! The judge is tested exhaustively: every combination of facts is looked up in an independent list of rules, of which
//! the first match decides, and every rule must decide some case. Invariants that must hold whatever the rules are
//! tested separately.

use proptest::prelude::*;

use super::*;
use crate::checks::{AnchoredGate, CheckChange, CheckClass, Measure, OverlayFinding};
use crate::evidence::samples::{commit, rewritten, sound, tree};
use crate::evidence::{CommitEvidence, EvidenceFault, UnsoundClone};
use crate::gate::GateStatus;
use crate::gate::{Attribution, Obstacle};
use crate::run::ProcessExit;

fn report(attribution: Attribution) -> GateReport {
    GateReport {
        gate: "tests".to_owned(),
        attribution,
        status: GateStatus::Failed { exit: ProcessExit::Code(101) },
        output: "/state/tests.log".to_owned(),
        last: String::new(),
    }
}

fn machine() -> Obstacle {
    Obstacle::Machine { message: "disk full".to_owned() }
}

fn missing() -> Obstacle {
    Obstacle::NoProgram { program: "just".to_owned() }
}

fn all_attributions() -> Vec<Attribution> {
    vec![
        Attribution::Passed,
        Attribution::ProvedNothing,
        Attribution::Flaky,
        Attribution::RedBeforeAndAfter,
        Attribution::Regressed,
        Attribution::Failed,
        Attribution::FewerTests { base: 3, candidate: Some(2) },
        Attribution::FewerTests { base: 3, candidate: None },
        Attribution::TestsGone { base: 3, candidate: Some(2) },
        Attribution::TestsGone { base: 3, candidate: None },
        Attribution::Broken { obstacle: missing() },
        Attribution::CouldNotRun { obstacle: missing() },
        Attribution::CouldNotRun { obstacle: machine() },
    ]
}

fn failing() -> AnchoredGate {
    AnchoredGate {
        gate: "tests".to_owned(),
        holds: false,
        by: Measure::Names,
        lost: vec!["adds".to_owned()],
        last: String::new(),
    }
}

fn changed_test() -> ChangedCheck {
    ChangedCheck {
        path: "tests/a.rs".to_owned(),
        class: CheckClass::Test,
        change: CheckChange::Changed,
    }
}

/// Every way in which checks can differ.
fn all_checks() -> Vec<ChecksFinding> {
    let overlay = |gates: Vec<AnchoredGate>| Some(OverlayFinding { tree: tree('a'), gates });
    let changed = vec![changed_test()];
    let holds = AnchoredGate { holds: true, lost: vec![], ..failing() };
    let allowed = vec![("tests/a.rs".to_owned(), "tests/**".to_owned())];
    vec![
        ChecksFinding::default(),
        ChecksFinding {
            changed: changed.clone(),
            overlay: overlay(vec![holds]),
            ..Default::default()
        },
        ChecksFinding {
            changed: changed.clone(),
            overlay: overlay(vec![failing()]),
            ..Default::default()
        },
        ChecksFinding {
            changed,
            overlay: overlay(vec![failing()]),
            allowed,
            ..ChecksFinding::default()
        },
    ]
}

fn all_policies() -> [ChangedChecks; 3] {
    [ChangedChecks::Reject, ChangedChecks::Verifier, ChangedChecks::Person]
}

/// Every way the evidence can be, one fault at a time.
fn all_evidence() -> Vec<Evidence> {
    let with = |change: fn(&mut CommitEvidence)| {
        let mut found = sound();
        change(&mut found);
        Evidence::Commit(Box::new(found))
    };
    vec![
        with(|_| {}),
        with(|found| found.checked = None),
        with(|found| found.checked = Some(tree('f'))),
        with(|found| found.leftovers = vec!["left".to_owned()]),
        with(|found| found.changed_in_home = vec!["ralph/x".to_owned()]),
        with(|found| found.new_since_base = false),
        with(|found| found.descends_from_base = false),
        with(|found| found.refs = vec![]),
        with(|found| found.changed = vec![]),
        with(|found| {
            found.changed = vec![];
            found.changed_in_home = vec!["ralph/x".to_owned()];
        }),
        with(|found| found.rewritten = vec![rewritten()]),
        Evidence::Nothing { claimed: commit('d') },
    ]
}

fn limit() -> Trouble {
    Trouble::UsageLimit { resets_at: None }
}

/// A verifier that answered about the changed check in the tested form.
fn agreeing() -> VerifierReport {
    VerifierReport::Verified { commit: commit('c'), agreed: Agreement::with(&changed_test().path) }
}

fn all_reports() -> Vec<VerifierReport> {
    vec![
        VerifierReport::NotAsked,
        VerifierReport::verified(&commit('c')),
        agreeing(),
        VerifierReport::verified(&commit('d')),
        VerifierReport::NotVerified { report: "it does not add".to_owned() },
        VerifierReport::PlanInvalid { reason: "wrong module".to_owned() },
        VerifierReport::Trouble { trouble: limit() },
    ]
}

fn all_claims() -> Vec<Claim> {
    let mut claims = vec![
        Claim::Nothing,
        Claim::NoChange { reason: "it adds already".to_owned() },
        Claim::PlanInvalid { reason: "wrong module".to_owned() },
    ];
    let mut gates: Vec<Vec<Attribution>> = vec![vec![]];
    gates.extend(all_attributions().into_iter().map(|one| vec![one]));
    gates.extend(all_attributions().into_iter().map(|one| vec![Attribution::Passed, one]));
    gates.extend(all_attributions().into_iter().map(|one| vec![one, Attribution::Regressed]));
    gates.extend(
        all_attributions()
            .into_iter()
            .map(|one| vec![Attribution::CouldNotRun { obstacle: missing() }, one]),
    );
    for evidence in all_evidence() {
        for gates in &gates {
            for checks in all_checks() {
                for changed_checks in all_policies() {
                    claims.push(Claim::Commit(Measured {
                        evidence: evidence.clone(),
                        gates: GatesView::new(gates.iter().cloned().map(report).collect()),
                        checks: checks.clone(),
                        changed_checks,
                    }));
                }
            }
        }
    }
    claims
}

struct Case {
    claim: Claim,
    verifier: VerifierReport,
}

impl Case {
    fn measured(&self) -> Option<&Measured> {
        match &self.claim {
            Claim::Commit(measured) => Some(measured),
            _ => None,
        }
    }

    fn attributions(&self) -> Vec<Attribution> {
        let reports = self.measured().map_or(&[][..], |measured| measured.gates.reports());
        reports.iter().map(|report| report.attribution.clone()).collect()
    }

    fn no_change(&self) -> bool {
        matches!(self.claim, Claim::NoChange { .. })
    }

    fn plan_invalid(&self) -> bool {
        matches!(self.verifier, VerifierReport::PlanInvalid { .. })
    }

    fn verifier_in_trouble(&self) -> bool {
        matches!(self.verifier, VerifierReport::Trouble { .. })
    }

    /// All objections of the harness to the commit.
    fn held_against(&self) -> Vec<Reason> {
        let Some(measured) = self.measured() else { return vec![] };
        let mut reasons = Vec::new();
        for fault in measured.evidence.faults() {
            reasons.push(Reason::Evidence { fault });
        }
        for attribution in self.attributions() {
            if matches!(
                attribution,
                Attribution::Regressed
                    | Attribution::Failed
                    | Attribution::FewerTests { .. }
                    | Attribution::Broken { .. }
            ) {
                reasons.push(Reason::Gate { report: report(attribution) });
            }
        }
        if self.asks_about_checks() && measured.changed_checks == ChangedChecks::Reject {
            let (checks, failing) = (vec![changed_test()], vec![failing()]);
            reasons.push(Reason::ChecksChanged { checks, failing });
        }
        reasons
    }

    /// An unapproved changed check; with its old version the work does not pass.
    fn asks_about_checks(&self) -> bool {
        self.measured().is_some_and(|measured| {
            let checks = &measured.checks;
            checks.allowed.is_empty() && checks.failing().next().is_some()
        })
    }

    fn verifier_decides_on_checks(&self) -> bool {
        let decides = self
            .measured()
            .is_some_and(|measured| measured.changed_checks == ChangedChecks::Verifier);
        decides && self.verifier == agreeing()
    }

    fn level(&self) -> ProofLevel {
        let attributions = self.attributions();
        let says = |one: &Attribution| *one != Attribution::ProvedNothing;
        let second = |one: &Attribution| {
            matches!(
                one,
                Attribution::Flaky | Attribution::TestsGone { candidate: None | Some(0), .. }
            )
        };
        let passes = |one: &Attribution| {
            matches!(one, Attribution::Passed | Attribution::TestsGone { candidate: Some(_), .. })
        };
        let fails_with_old_checks =
            self.measured().is_some_and(|measured| measured.checks.failing().next().is_some());
        if !attributions.iter().any(says)
            || !attributions.iter().filter(|one| says(one)).all(|one| passes(one) || second(one))
        {
            ProofLevel::NotProven
        } else if fails_with_old_checks || attributions.iter().any(second) {
            ProofLevel::ChecksChanged
        } else {
            ProofLevel::GatesPassed
        }
    }

    fn another_tree(&self) -> bool {
        matches!(self.measured(), Some(Measured { evidence: Evidence::Commit(found), .. })
            if found.checked.as_ref().is_some_and(|checked| *checked != found.tree))
    }

    fn stuck(&self, obstacle: &Obstacle) -> Vec<GateReport> {
        let attributions = self.attributions().into_iter();
        let stuck = |attribution: &Attribution| matches!(attribution, Attribution::CouldNotRun { obstacle: o } if o == obstacle);
        attributions.filter(stuck).map(report).collect()
    }
}

type Judged = Result<Verdict, Trouble>;
type Rule = (&'static str, fn(&Case) -> bool, fn(&Case) -> Judged);

fn no(reason: Reason) -> Verdict {
    Verdict::Rejected { reasons: vec![reason] }
}

fn in_the_way(message: &str) -> Judged {
    Err(Trouble::Machine { message: message.to_owned() })
}

fn opinion(case: &Case) -> Option<String> {
    match &case.verifier {
        VerifierReport::Verified { .. } => Some("it agrees".to_owned()),
        VerifierReport::NotVerified { report } => Some(report.clone()),
        _ => None,
    }
}

fn rules() -> Vec<Rule> {
    vec![
        ("no claim", |case| case.claim == Claim::Nothing, |_| Ok(no(Reason::NoClaim))),
        (
            "the plan is not the worker's to judge",
            |case| matches!(case.claim, Claim::PlanInvalid { .. }),
            |_| Ok(no(Reason::PlanIsTheVerifiersToJudge { reason: "wrong module".to_owned() })),
        ),
        (
            "no change, and the verifier could not say",
            |case| case.no_change() && case.verifier_in_trouble(),
            |_| Err(limit()),
        ),
        (
            "no change, for the plan is no good",
            |case| case.no_change() && case.plan_invalid(),
            |_| Ok(Verdict::PlanInvalid { reason: "wrong module".to_owned() }),
        ),
        ("no change is for a person to believe", Case::no_change, |case| {
            let question = PersonQuestion::NoChange {
                reason: "it adds already".to_owned(),
                opinion: opinion(case),
            };
            Ok(Verdict::NeedsHuman { question })
        }),
        (
            "all that the harness holds against it is told at once",
            |case| !case.held_against().is_empty(),
            |case| Ok(Verdict::Rejected { reasons: case.held_against() }),
        ),
        ("what was checked is something else", Case::another_tree, |_| {
            in_the_way(&format!("what was checked is not the tree of {}", commit('c')))
        }),
        (
            "the machine got in a gate's way",
            |case| !case.stuck(&machine()).is_empty(),
            |_| in_the_way("the gate `tests` could not be run"),
        ),
        ("the verifier's trouble rejects nothing", Case::verifier_in_trouble, |_| Err(limit())),
        ("the plan is the verifier's to judge", Case::plan_invalid, |_| {
            Ok(Verdict::PlanInvalid { reason: "wrong module".to_owned() })
        }),
        (
            "the verifier does not accept it",
            |case| matches!(case.verifier, VerifierReport::NotVerified { .. }),
            |_| Ok(no(Reason::NotVerified { report: "it does not add".to_owned() })),
        ),
        (
            "the verifier verified something else",
            |case| case.verifier == VerifierReport::verified(&commit('d')),
            |_| Ok(no(Reason::AnotherVerified { candidate: commit('c'), verified: commit('d') })),
        ),
        (
            "changed checks that the verifier has not agreed with, or may not, are for a person",
            |case| case.asks_about_checks() && !case.verifier_decides_on_checks(),
            |_| {
                let (checks, failing) = (vec![changed_test()], vec![failing()]);
                let question =
                    PersonQuestion::ChecksChanged { commit: commit('c'), checks, failing };
                Ok(Verdict::NeedsHuman { question })
            },
        ),
        (
            "a gate that can be run nowhere is for a person",
            |case| !case.stuck(&missing()).is_empty(),
            |case| {
                let gates = case.stuck(&missing());
                let question = PersonQuestion::GatesCannotRun { commit: commit('c'), gates };
                Ok(Verdict::NeedsHuman { question })
            },
        ),
        (
            "accepted, at the level that the gates give",
            |_| true,
            |case| Ok(Verdict::Accepted { commit: commit('c'), level: case.level() }),
        ),
    ]
}

#[test]
fn every_combination_is_judged_as_the_first_matching_rule_says() {
    let rules = rules();
    let mut used = vec![false; rules.len()];
    for claim in all_claims() {
        for verifier in all_reports() {
            let case = Case { claim: claim.clone(), verifier };
            let at = rules.iter().position(|(_, applies, _)| applies(&case)).unwrap();
            let (name, _, expected) = rules[at];
            let judged = judge(&case.claim, &case.verifier);
            assert_eq!(judged, expected(&case), "{name}: {:?}, {:?}", case.claim, case.verifier);
            used[at] = true;
        }
    }
    for ((name, ..), used) in rules.iter().zip(used) {
        assert!(used, "nothing is decided by: {name}");
    }
}

fn all_reasons() -> Vec<Reason> {
    let mut reasons = vec![
        Reason::NoClaim,
        Reason::PlanIsTheVerifiersToJudge { reason: "wrong module".to_owned() },
        Reason::NotVerified { report: "It does not add.".to_owned() },
        Reason::AnotherVerified { candidate: commit('c'), verified: commit('d') },
    ];
    let faults = all_evidence().into_iter().flat_map(|evidence| evidence.faults());
    reasons.extend(faults.map(|fault| Reason::Evidence { fault }));
    reasons.push(Reason::ChecksChanged { checks: vec![changed_test()], failing: vec![failing()] });
    reasons.extend(all_attributions().into_iter().map(|one| Reason::Gate { report: report(one) }));
    reasons
}

#[test]
fn every_reason_has_a_sentence_for_the_agent_and_one_for_the_person() {
    for reason in all_reasons() {
        for sentence in [reason.for_agent(), reason.for_person()] {
            assert!(sentence.starts_with(|c: char| c.is_uppercase() || c == '`'), "{sentence}");
            let own_words = !matches!(reason, Reason::PlanIsTheVerifiersToJudge { .. });
            assert!(sentence.ends_with('.') || !own_words, "{sentence}");
            assert!(!sentence.contains("  ") && !sentence.contains('\n'), "{sentence}");
        }
        assert_ne!(reason.for_agent(), reason.for_person());
    }
}

#[test]
fn sentences_say_what_to_do_and_what_happened() {
    let fault = EvidenceFault::NotNew { commit: commit('c'), base: commit('b') };
    let reason = Reason::Evidence { fault };
    assert_eq!(
        reason.for_agent(),
        "The claimed commit cccccccccc is not new; work began at bbbbbbbbbb: commit what you did and claim that \
         commit, or, if nothing needs to change, say so with a line `NO_CHANGE_NEEDED: <reason>`."
    );
    assert_eq!(
        reason.for_person(),
        "The agent claims the commit cccccccccc, which existed before it began."
    );
    let reason = Reason::ChecksChanged { checks: vec![changed_test()], failing: vec![failing()] };
    assert_eq!(
        reason.for_person(),
        "The change does not pass with the checks as they were: \"tests/a.rs\" (test, changed). With them the gate \
         `tests` does not pass; tests that passed and now do not: adds."
    );
    let unnamed = AnchoredGate { by: Measure::Unnamed, lost: vec![], ..failing() };
    let reason = Reason::ChecksChanged { checks: vec![changed_test()], failing: vec![unnamed] };
    assert!(reason.for_person().ends_with(
        "With them the gate `tests` no longer names every test that passes, so they cannot be compared."
    ));
}

#[test]
fn a_gate_that_fails_is_told_with_its_exit_and_its_last_lines_and_without_a_path_of_this_machine() {
    let mut report = report(Attribution::Regressed);
    report.last = "test adds ... FAILED\n1 failed".to_owned();
    let told = Reason::Gate { report }.for_agent();
    assert_eq!(
        told,
        "The gate `tests` fails (exit 101), and did not before your change: make it pass. From its output:\n\
         test adds ... FAILED\n1 failed"
    );
    for one in all_attributions() {
        let told = Reason::Gate { report: self::report(one) }.for_agent();
        assert!(!told.contains("/state"), "{told}");
    }
}

#[test]
fn the_verifier_is_asked_about_what_neither_proves_nor_blocks() {
    let mut found = sound();
    found.leftovers = vec!["notes.txt".to_owned()];
    let doubtful = Attribution::RedBeforeAndAfter;
    let measured = Measured {
        evidence: Evidence::Commit(Box::new(found)),
        gates: GatesView::new(vec![report(Attribution::Passed), report(doubtful.clone())]),
        checks: ChecksFinding::default(),
        changed_checks: ChangedChecks::Verifier,
    };
    assert_eq!(
        questions_for_verifier(&measured),
        [
            VerifierQuestion::Gate { report: report(doubtful) },
            VerifierQuestion::Leftovers { paths: vec!["notes.txt".to_owned()] },
            VerifierQuestion::NotProven,
        ]
    );
    let proven = Measured {
        evidence: Evidence::Commit(Box::new(sound())),
        gates: GatesView::new(vec![report(Attribution::Passed)]),
        checks: ChecksFinding::default(),
        changed_checks: ChangedChecks::Verifier,
    };
    assert_eq!(questions_for_verifier(&proven), []);
}

#[test]
fn a_verifiers_claim_is_read_against_the_candidate() {
    let invalid = || Some("wrong module".to_owned());
    for (claimed, plan_invalidation, expected) in [
        (Some(commit('c')), None, VerifierReport::verified(&commit('c'))),
        (Some(commit('c')), invalid(), VerifierReport::verified(&commit('c'))),
        (Some(commit('d')), None, VerifierReport::verified(&commit('d'))),
        (None, invalid(), VerifierReport::PlanInvalid { reason: "wrong module".to_owned() }),
        (None, None, VerifierReport::NotVerified { report: "It does not add.".to_owned() }),
    ] {
        let claim = VerifierClaim { commit: claimed, beginning: None, plan_invalidation };
        assert_eq!(VerifierReport::read(&claim, &commit('c'), "It does not add.\n"), expected);
    }
}

#[test]
fn verdicts_are_read_back_as_they_were_written() {
    for claim in all_claims() {
        for verifier in all_reports() {
            if let Ok(verdict) = judge(&claim, &verifier) {
                let json = serde_json::to_string(&verdict).unwrap();
                assert_eq!(serde_json::from_str::<Verdict>(&json).unwrap(), verdict);
            }
        }
    }
}

fn any_evidence() -> impl Strategy<Value = Evidence> {
    let bits = prop::array::uniform7(any::<bool>());
    let measured = bits.prop_map(|[new, descends, refs, changed, home, rewrote, other_tree]| {
        Evidence::Commit(Box::new(CommitEvidence {
            new_since_base: new,
            descends_from_base: descends,
            refs: if refs { vec!["HEAD".to_owned()] } else { vec![] },
            changed: if changed { vec!["a".to_owned()] } else { vec![] },
            changed_in_home: if home { vec!["ralph/x".to_owned()] } else { vec![] },
            rewritten: if rewrote { vec![rewritten()] } else { vec![] },
            checked: Some(tree(if other_tree { 'f' } else { 'e' })),
            ..sound()
        }))
    });
    prop_oneof![
        1 => Just(Evidence::Nothing { claimed: commit('c') }),
        1 => Just(Evidence::Unsound(Box::new(UnsoundClone {
            claimed: commit('c'),
            repository: String::new(),
            problem: "a bad object".to_owned(),
        }))),
        3 => Just(Evidence::Commit(Box::new(sound()))),
        4 => measured,
    ]
}

fn any_claim() -> impl Strategy<Value = Claim> {
    let gates = prop::collection::vec(prop::sample::select(all_attributions()), 0..4);
    let checks = prop::sample::select(all_checks());
    let policy = prop::sample::select(all_policies().to_vec());
    let measured = (any_evidence(), gates, checks, policy).prop_map(
        |(evidence, gates, checks, changed_checks)| {
            let gates = GatesView::new(gates.into_iter().map(report).collect());
            Claim::Commit(Measured { evidence, gates, checks, changed_checks })
        },
    );
    prop_oneof![
        1 => Just(Claim::Nothing),
        1 => "\\PC{1,20}".prop_map(|reason| Claim::PlanInvalid { reason }),
        1 => "\\PC{1,20}".prop_map(|reason| Claim::NoChange { reason }),
        8 => measured,
    ]
}

proptest! {
    #[test]
    fn whatever_the_rules_these_things_never_happen(
        claim in any_claim(),
        verifier in prop::sample::select(all_reports()),
    ) {
        let judged = judge(&claim, &verifier);
        match &judged {
            Ok(Verdict::Accepted { commit, level }) => {
                let Claim::Commit(measured) = &claim else { panic!("accepted without a commit") };
                let Evidence::Commit(found) = &measured.evidence else { panic!("it does not exist") };
                prop_assert_eq!(&found.commit, commit);
                prop_assert!(found.new_since_base && found.descends_from_base);
                prop_assert!(!found.changed.is_empty() && !found.refs.is_empty());
                prop_assert!(found.rewritten.is_empty());
                prop_assert!(found.checked.as_ref().is_none_or(|checked| *checked == found.tree));
                let agreed = verifier == agreeing();
                prop_assert!(measured.checks.asked().is_empty() || agreed);
                prop_assert!(measured.checks.holds() || *level <= ProofLevel::ChecksChanged);
                prop_assert!(measured.gates.with(Effect::Block).next().is_none());
                prop_assert!(measured.gates.with(Effect::Person).next().is_none());
                prop_assert!(measured.gates.with(Effect::Trouble).next().is_none());
                let passed = measured.gates.reports().iter().any(|report| {
                    matches!(report.attribution, Attribution::Passed | Attribution::TestsGone { .. })
                });
                prop_assert!(*level < ProofLevel::GatesPassed || passed);
                let silent_or_for_it = match &verifier {
                    VerifierReport::NotAsked => true,
                    VerifierReport::Verified { commit: verified, .. } => verified == commit,
                    _ => false,
                };
                prop_assert!(silent_or_for_it);
            }
            Ok(Verdict::PlanInvalid { .. }) => {
                let invalidated = matches!(verifier, VerifierReport::PlanInvalid { .. });
                prop_assert!(invalidated);
            }
            Ok(Verdict::Rejected { reasons }) => prop_assert!(!reasons.is_empty()),
            Ok(Verdict::NeedsHuman { .. }) | Err(_) => {}
        }
    }

    #[test]
    fn a_verifier_in_trouble_never_changes_a_rejection_nor_makes_one(claim in any_claim()) {
        let alone = judge(&claim, &VerifierReport::NotAsked);
        let with_trouble = judge(&claim, &VerifierReport::Trouble { trouble: limit() });
        match alone {
            Ok(Verdict::Rejected { .. }) | Err(_) => prop_assert_eq!(with_trouble, alone),
            Ok(_) => prop_assert_eq!(with_trouble, Err(limit())),
        }
    }
}
