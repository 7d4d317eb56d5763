//! The reasons of a verdict and the questions to people and verifiers, one sentence each.
//!
//! The sentence for the agent says what to do; the one for the person says what happened.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::checks::{AnchoredGate, ChangedCheck, CheckChange, Measure};
use crate::evidence::{Evidence, EvidenceFault};
use crate::gate::{Attribution, Effect, GateReport, GateStatus};
use crate::id::CommitId;
use crate::proof::ProofLevel;

use super::Measured;
use super::answers::CHECK;

/// Why work is rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reason {
    /// The agent ended without the claim it was asked for.
    NoClaim,
    PlanIsTheVerifiersToJudge {
        reason: String,
    },
    Evidence {
        fault: EvidenceFault,
    },
    /// It does not pass with the anchor's checks, and the person does not allow changing them.
    ChecksChanged {
        checks: Vec<ChangedCheck>,
        failing: Vec<AnchoredGate>,
    },
    Gate {
        report: GateReport,
    },
    NotVerified {
        report: String,
    },
    AnotherVerified {
        candidate: CommitId,
        verified: CommitId,
    },
    /// A problem in a repository other than the one with the claimed commit.
    Elsewhere {
        repository: String,
        reason: Box<Reason>,
    },
}

/// The abbreviated commit name.
fn short(commit: &CommitId) -> &str {
    &commit.as_str()[..10]
}

impl Reason {
    /// Returns a fixed code, for counting and comparing reasons.
    pub fn code(&self) -> &'static str {
        match self {
            Reason::NoClaim => "no_claim",
            Reason::PlanIsTheVerifiersToJudge { .. } => "plan_is_the_verifiers_to_judge",
            Reason::Evidence { fault } => match fault {
                EvidenceFault::NoSuchCommit { .. } => "no_such_commit",
                EvidenceFault::Unsound(_) => "unsound",
                EvidenceFault::NotNew { .. } => "not_new",
                EvidenceFault::NotFromBase { .. } => "not_from_base",
                EvidenceFault::OnNoRef { .. } => "on_no_ref",
                EvidenceFault::ChangesNothing { .. } => "changes_nothing",
                EvidenceFault::ChangesOnlyHome { .. } => "changes_only_home",
                EvidenceFault::ChangesState { .. } => "changes_state",
                EvidenceFault::RewroteHistory { .. } => "rewrote_history",
                EvidenceFault::AddsCopied { .. } => "adds_copied",
            },
            Reason::ChecksChanged { .. } => "checks_changed",
            Reason::Gate { report } => match report.attribution {
                Attribution::Regressed => "gate_regressed",
                Attribution::FewerTests { .. } => "gate_fewer_tests",
                Attribution::Broken { .. } => "gate_broken",
                _ => "gate_failed",
            },
            Reason::NotVerified { .. } => "not_verified",
            Reason::AnotherVerified { .. } => "another_verified",
            Reason::Elsewhere { reason, .. } => reason.code(),
        }
    }

    /// Returns the instruction for the agent.
    pub fn for_agent(&self) -> String {
        match self {
            Reason::NoClaim => {
                "The last message did not claim anything: finish the work, commit it, and end \
                                with exactly the last lines that the prompt asks for."
                    .to_owned()
            }
            Reason::PlanIsTheVerifiersToJudge { reason } => format!(
                "Only a verifier can invalidate the plan (you wrote: {reason}): implement what the plan allows, commit it, and explain in the commit message why the rest cannot be done."
            ),
            Reason::Evidence { fault } => fault_for_agent(fault),
            Reason::ChecksChanged { checks, failing } => format!(
                "The work does not pass with the checks as they were before it, and they must not be changed here. Restore {}, and make everything pass with them. {}",
                list_checks(checks),
                list_failing(failing)
            ),
            Reason::Gate { report } => gate_for_agent(report),
            Reason::NotVerified { report } => {
                format!("The verifier did not accept the commit. Fix what it reports: {report}")
            }
            Reason::AnotherVerified { candidate, verified } => format!(
                "The verifier looked at {} and not at {}: make sure that the branch ends with the commit you claim, and claim that one.",
                short(verified),
                short(candidate)
            ),
            Reason::Elsewhere { repository, reason } => {
                format!("In `{repository}`: {}", reason.for_agent())
            }
        }
    }

    /// Returns the explanation for the person.
    pub fn for_person(&self) -> String {
        match self {
            Reason::NoClaim => "The agent ended without saying that it is done.".to_owned(),
            Reason::PlanIsTheVerifiersToJudge { reason } => {
                format!("The agent invalidated the plan, which only a verifier may do: {reason}")
            }
            Reason::Evidence { fault } => fault_for_person(fault),
            Reason::ChecksChanged { checks, failing } => format!(
                "The change does not pass with the checks as they were: {}. {}",
                list_checks(checks),
                list_failing(failing)
            ),
            Reason::Gate { report } => gate_for_person(report),
            Reason::NotVerified { report } => format!("The verifier did not accept it: {report}"),
            Reason::AnotherVerified { candidate, verified } => {
                format!(
                    "The verifier verified {} instead of {}.",
                    short(verified),
                    short(candidate)
                )
            }
            Reason::Elsewhere { repository, reason } => {
                format!("In `{repository}`: {}", reason.for_person())
            }
        }
    }
}

fn in_repository(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" of `{name}`") }
}

fn fault_for_agent(fault: &EvidenceFault) -> String {
    let or_no_change =
        "or, if nothing needs to change, say so with a line `NO_CHANGE_NEEDED: <reason>`";
    match fault {
        EvidenceFault::NoSuchCommit { claimed } => format!(
            "Commit {claimed} does not exist: commit the work and claim the id that `git rev-parse HEAD` prints."
        ),
        EvidenceFault::Unsound(clone) => format!(
            "What you left in the clone{} cannot be accepted: {}. Recreate the commits without it (`git reset --soft` to where you began, then commit), make sure that no branch or tag leads to it, and claim the new commit.",
            in_repository(&clone.repository),
            clone.problem
        ),
        EvidenceFault::NotNew { commit, base } => format!(
            "The claimed commit {} is not new; work began at {}: commit what you did and claim that commit, {or_no_change}.",
            short(commit),
            short(base)
        ),
        EvidenceFault::NotFromBase { commit, base } => format!(
            "The claimed commit {} does not build on {}, where work began: put the work on top of it \
             (`git rebase {}`) and claim the new commit.",
            short(commit),
            short(base),
            short(base)
        ),
        EvidenceFault::OnNoRef { commit } => format!(
            "No branch holds the claimed commit {}: put it on the branch you began on (`git merge {}`).",
            short(commit),
            short(commit)
        ),
        EvidenceFault::ChangesNothing { commit } => format!(
            "The claimed commit {} contains no changes of yours: commit the work itself, {or_no_change}.",
            short(commit)
        ),
        EvidenceFault::ChangesOnlyHome { commit } => format!(
            "The claimed commit {} contains no changes of yours outside Ralph's own files: commit the work itself, {or_no_change}.",
            short(commit)
        ),
        EvidenceFault::ChangesState { commit, paths } => format!(
            "The claimed commit {} changes files that only Ralph may change: {}. Take that out of your commits \
             (`git checkout <base> -- <path>`, then commit) and claim the result.",
            short(commit),
            paths.join(", ")
        ),
        EvidenceFault::RewroteHistory { rewritten } => format!(
            "`{}` lost commits that were there before: bring them back (`git rebase --onto {} …` or \
             `git merge {}`) and add your work on top, without rewriting what others made.",
            rewritten.name,
            short(&rewritten.old_tip),
            short(&rewritten.old_tip)
        ),
        EvidenceFault::AddsCopied { commit, paths } => format!(
            "The claimed commit {} has files that were only copied into your clone and must not be committed: {}. Take them out of \
             every commit of yours (`git rm --cached`, then `git commit --amend` or a rebase) and claim the new commit.",
            short(commit),
            paths.join(", ")
        ),
    }
}

fn fault_for_person(fault: &EvidenceFault) -> String {
    match fault {
        EvidenceFault::NoSuchCommit { claimed } => {
            format!("The agent claims the commit {}, which does not exist.", short(claimed))
        }
        EvidenceFault::Unsound(clone) => format!(
            "What the agent left in its clone{} is not valid, and none of it was used: {}.",
            in_repository(&clone.repository),
            clone.problem
        ),
        EvidenceFault::NotNew { commit, .. } => {
            format!("The agent claims the commit {}, which existed before it began.", short(commit))
        }
        EvidenceFault::NotFromBase { commit, base } => {
            format!(
                "The commit {} does not descend from {}, where work began.",
                short(commit),
                short(base)
            )
        }
        EvidenceFault::OnNoRef { commit } => {
            format!("The commit {} is on no branch.", short(commit))
        }
        EvidenceFault::ChangesNothing { commit } => {
            format!("The commit {} contains no changes by the agent.", short(commit))
        }
        EvidenceFault::ChangesOnlyHome { commit } => {
            format!(
                "The commit {} contains no changes by the agent outside Ralph's own files.",
                short(commit)
            )
        }
        EvidenceFault::ChangesState { commit, paths } => format!(
            "The commit {} changes files that only Ralph may change: {}.",
            short(commit),
            paths.join(", ")
        ),
        EvidenceFault::RewroteHistory { rewritten } => format!(
            "The agent rewrote `{}`, which was at {}, and dropped {} of its commits.",
            rewritten.name,
            short(&rewritten.old_tip),
            rewritten.dropped.len()
        ),
        EvidenceFault::AddsCopied { commit, paths } => format!(
            "The commit {} has files of yours that were only copied into the clone: {}.",
            short(commit),
            paths.join(", ")
        ),
    }
}

/// How many checks are named in one sentence.
const MOST_CHECKS: usize = 20;

/// Lists changed checks, each quoted as data: a name can contain anything.
fn list_checks(checks: &[ChangedCheck]) -> String {
    let named = checks.iter().take(MOST_CHECKS).map(|check| {
        let what = match check.change {
            CheckChange::New => "new",
            CheckChange::Changed => "changed",
            CheckChange::Gone => "gone",
        };
        format!("{:?} ({}, {what})", check.path, check.class)
    });
    let list = named.collect::<Vec<_>>().join(", ");
    match checks.len().checked_sub(MOST_CHECKS) {
        Some(more @ 1..) => format!("{list} and {more} more"),
        _ => list,
    }
}

/// Lists what fails with the anchor's checks.
fn list_failing(failing: &[AnchoredGate]) -> String {
    let told = failing.iter().map(|gate| {
        if gate.by == Measure::Unnamed {
            return format!(
                "With them the gate `{}` no longer names every test that passes, so they cannot be compared.",
                gate.gate
            );
        }
        let lost = if gate.lost.is_empty() {
            String::new()
        } else {
            format!("; tests that passed and now do not: {}", gate.lost.join(", "))
        };
        format!("With them the gate `{}` does not pass{lost}.", gate.gate)
    });
    told.collect::<Vec<_>>().join(" ")
}

/// Contains no path of this machine: it is committed, and read by people and agents elsewhere.
fn gate_for_agent(report: &GateReport) -> String {
    let GateReport { gate, attribution, status, last, .. } = report;
    let how = match status {
        GateStatus::Failed { exit } => format!(" ({exit})"),
        GateStatus::TimedOut => " (timed out)".to_owned(),
        _ => String::new(),
    };
    let wish = match attribution {
        Attribution::FewerTests { base, candidate } => {
            let now =
                candidate.map_or_else(|| "none that can be counted".to_owned(), |n| n.to_string());
            format!(
                "The gate `{gate}` executed {base} tests before your change and now {now}: make all tests run again."
            )
        }
        Attribution::Broken { obstacle } => format!(
            "The gate `{gate}` could be run before your change and now cannot ({obstacle}): make it run again."
        ),
        Attribution::Regressed => {
            format!("The gate `{gate}` fails{how}, and did not before your change: make it pass.")
        }
        _ => format!("The gate `{gate}` fails{how}: make it pass."),
    };
    if last.is_empty() { wish } else { format!("{wish} From its output:\n{last}") }
}

fn gate_for_person(report: &GateReport) -> String {
    let gate = &report.gate;
    match &report.attribution {
        Attribution::Passed => format!("The gate `{gate}` passes."),
        Attribution::ProvedNothing => format!("The gate `{gate}` passes without executing a test."),
        Attribution::Regressed => {
            format!("The gate `{gate}` passes on the base and fails with this change.")
        }
        Attribution::Failed => {
            format!("The gate `{gate}` fails; its result before this change is not known.")
        }
        Attribution::Flaky => format!("The gate `{gate}` fails and passes at the same commit."),
        Attribution::RedBeforeAndAfter => {
            format!("The gate `{gate}` fails, and did before this change.")
        }
        Attribution::FewerTests { base, candidate: Some(now) }
        | Attribution::TestsGone { base, candidate: Some(now) } => {
            format!("The gate `{gate}` executes {now} tests, where it executed {base}.")
        }
        Attribution::FewerTests { base, candidate: None }
        | Attribution::TestsGone { base, candidate: None } => {
            format!("The gate `{gate}` no longer reports any tests; it executed {base} before.")
        }
        Attribution::Broken { obstacle } => {
            format!("The gate `{gate}` can no longer be run with this change: {obstacle}.")
        }
        Attribution::CouldNotRun { obstacle } => {
            format!("The gate `{gate}` cannot be run: {obstacle}.")
        }
    }
}

/// A decision for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "question", rename_all = "snake_case")]
pub enum PersonQuestion {
    /// The agent claims that nothing needs to change.
    NoChange {
        reason: String,
        /// The verifier's opinion on that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opinion: Option<String>,
    },
    /// The commit has no faults, but gates cannot run, neither here nor at the base.
    GatesCannotRun { commit: CommitId, gates: Vec<GateReport> },
    /// The commit has no faults, but it changes no component, and no plan says what it should have changed.
    NothingBuilt { commit: CommitId },
    /// The commit has no faults, but the verifier's answer could not be parsed.
    VerifierUnclear { commit: CommitId, said: String },
    /// The gates pass, but not with the anchor's checks.
    ChecksChanged { commit: CommitId, checks: Vec<ChangedCheck>, failing: Vec<AnchoredGate> },
}

/// The end of a question about gates that cannot run.
const FIX_FIRST: &str = "or will you fix it first?";

impl PersonQuestion {
    /// Whether a question, as it was recorded, is about gates that could not run: a repaired machine answers it.
    pub fn can_be_fixed(question: &str) -> bool {
        question.ends_with(FIX_FIRST)
    }

    /// Returns a fixed code, like [`Reason::code`].
    pub const fn code(&self) -> &'static str {
        match self {
            PersonQuestion::NoChange { .. } => "no_change",
            PersonQuestion::GatesCannotRun { .. } => "gates_cannot_run",
            PersonQuestion::NothingBuilt { .. } => "nothing_built",
            PersonQuestion::VerifierUnclear { .. } => "verifier_unclear",
            PersonQuestion::ChecksChanged { .. } => "checks_changed",
        }
    }

    /// Returns the commit it is about.
    pub const fn commit(&self) -> Option<&CommitId> {
        match self {
            PersonQuestion::NoChange { .. } => None,
            PersonQuestion::GatesCannotRun { commit, .. }
            | PersonQuestion::NothingBuilt { commit }
            | PersonQuestion::VerifierUnclear { commit, .. }
            | PersonQuestion::ChecksChanged { commit, .. } => Some(commit),
        }
    }
}

impl fmt::Display for PersonQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PersonQuestion::NoChange { reason, opinion } => {
                write!(f, "The agent says that nothing needs to change ({reason})")?;
                if let Some(opinion) = opinion {
                    let opinion = opinion.trim_end().trim_end_matches('.');
                    write!(f, "; the verifier's opinion: {opinion}")?;
                }
                f.write_str(". Is it done?")
            }
            PersonQuestion::NothingBuilt { commit } => write!(
                f,
                "{} passes the gates, but changes no component of the application, and no plan says what it should \
                 change. Is it done?",
                short(commit)
            ),
            PersonQuestion::GatesCannotRun { commit, gates } => {
                for gate in gates {
                    write!(f, "{} ", gate_for_person(gate))?;
                }
                write!(f, "Is {} done without that, {FIX_FIRST}", short(commit))
            }
            PersonQuestion::VerifierUnclear { commit, said } => write!(
                f,
                "The verifier was asked about {} and gave no usable answer ({said}). Is it done?",
                short(commit)
            ),
            PersonQuestion::ChecksChanged { commit, checks, failing } => write!(
                f,
                "{} passes its gates, but not with the checks as they were: {}. {} Do you agree with the changed \
                 checks?",
                short(commit),
                list_checks(checks),
                list_failing(failing)
            ),
        }
    }
}

/// A question for the verifier in addition to the work itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "question", rename_all = "snake_case")]
pub enum VerifierQuestion {
    /// A gate that neither proves the work nor blocks it.
    Gate { report: GateReport },
    /// Files that the run changed and did not commit.
    Leftovers { paths: Vec<String> },
    /// No gate proves the work.
    NotProven,
    /// The same of the work after it was merged, in this commit, with what the branch has become.
    Merged { commit: CommitId, asked: Box<VerifierQuestion> },
    /// Checks differ from what they were.
    Checks {
        /// The work does not pass with the anchor's version of these: each must be approved.
        asked: Vec<ChangedCheck>,
        /// It passes with the anchor's version of these.
        told: Vec<ChangedCheck>,
        failing: Vec<AnchoredGate>,
        hints: Vec<String>,
    },
}

impl fmt::Display for VerifierQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VerifierQuestion::Gate { report } => write!(
                f,
                "{} Does this change cause it, or hide behind an earlier failure? (output: {})",
                gate_for_person(report),
                report.output
            ),
            VerifierQuestion::Leftovers { paths } => write!(
                f,
                "These files were changed and not committed: {}. Is the commit complete without them?",
                paths.join(", ")
            ),
            VerifierQuestion::NotProven => f.write_str(
                "No gate proves this change. Does it hold when you build and test it yourself?",
            ),
            VerifierQuestion::Merged { commit, asked } => write!(
                f,
                "The work passes on its own. After it was merged with newer commits of the branch ({commit}): {asked}"
            ),
            VerifierQuestion::Checks { asked, told, failing, hints } => {
                if !asked.is_empty() {
                    write!(
                        f,
                        "The work passes its gates, but not with the checks as they were before it: {}. {} Does the \
                         spec ask for each of these changes, or is each a refactoring that checks as much as before? \
                         If a check has become weaker, the work is not done. {} ",
                        list_checks(asked),
                        list_failing(failing),
                        answer_form(asked)
                    )?;
                }
                if !told.is_empty() {
                    write!(
                        f,
                        "These checks were changed; the work passes with them as they were, too: {}. Do they still \
                         check as much? ",
                        list_checks(told)
                    )?;
                }
                if !hints.is_empty() {
                    write!(f, "Signs in the text, which may mean nothing: {}. ", hints.join("; "))?;
                }
                f.write_str("Look at the differences yourself.")
            }
        }
    }
}

/// Describes the answer required for each path: a verdict alone does not count here.
fn answer_form(asked: &[ChangedCheck]) -> String {
    let paths: Vec<String> = asked
        .iter()
        .map(|check| format!("    {CHECK}{}: …", check.path.replace('\n', " ")))
        .collect();
    format!(
        "Answer about every one of them in a line of its own, anywhere in your last message before its last two lines:\n{}\n   \
         where … is one of\n    asked: a passage of the spec, word for word, of at least 20 characters, another one for each directory\n    \
         refactor: a test that passed before => the test that checks the same now and passes\n    weaker: why\n   \
         Ralph compares the passage with the spec and the names with the tests that it saw pass.",
        paths.join("\n")
    )
}

/// Returns the questions for a verifier about a candidate.
pub fn questions_for_verifier(measured: &Measured) -> Vec<VerifierQuestion> {
    let gates = measured.gates.reports().iter().filter(|report| {
        matches!(report.attribution.effect(), Effect::Question | Effect::Person | Effect::Nothing)
    });
    let mut questions: Vec<_> =
        gates.cloned().map(|report| VerifierQuestion::Gate { report }).collect();
    if let Evidence::Commit(found) = &measured.evidence
        && !found.leftovers.is_empty()
    {
        questions.push(VerifierQuestion::Leftovers { paths: found.leftovers.clone() });
    }
    if measured.gates.level() == ProofLevel::NotProven {
        questions.push(VerifierQuestion::NotProven);
    }
    let checks = &measured.checks;
    // Qualified names, as in answers: work may be in several repositories.
    let named = |path: &str| {
        measured.evidence.commit().map_or_else(|| path.to_owned(), |found| found.named(path))
    };
    let owned = |checks: Vec<&ChangedCheck>| {
        let named =
            |check: &ChangedCheck| ChangedCheck { path: named(&check.path), ..check.clone() };
        checks.into_iter().map(named).collect::<Vec<_>>()
    };
    let (asked, told) = (owned(checks.asked()), owned(checks.told()));
    if !asked.is_empty() || !told.is_empty() || !checks.hints.is_empty() {
        questions.push(VerifierQuestion::Checks {
            asked,
            told,
            failing: checks.failing().cloned().collect(),
            hints: checks.hints.clone(),
        });
    }
    questions
}
