//! Why a verdict is what it is, and what is asked of whom, in one good sentence each.
//!
//! The sentence for the agent says what to do; the one for the person says what happened.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::evidence::{Evidence, EvidenceFault};
use crate::gate::{Attribution, Effect, GateReport, GateStatus};
use crate::id::CommitId;
use crate::weaken::{Weakened, Weakening};

use super::Measured;

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
    Weakened {
        weakening: Weakening,
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
    /// Something is wrong in another repository than the one that has the claimed commit.
    Elsewhere {
        repository: String,
        reason: Box<Reason>,
    },
}

/// The beginning of a commit's name, as people write it.
fn short(commit: &CommitId) -> &str {
    &commit.as_str()[..10]
}

impl Reason {
    /// Returns a name of a fixed set, for what counts and compares reasons.
    pub fn code(&self) -> &'static str {
        match self {
            Reason::NoClaim => "no_claim",
            Reason::PlanIsTheVerifiersToJudge { .. } => "plan_is_the_verifiers_to_judge",
            Reason::Evidence { fault } => match fault {
                EvidenceFault::NoSuchCommit { .. } => "no_such_commit",
                EvidenceFault::NotNew { .. } => "not_new",
                EvidenceFault::NotFromBase { .. } => "not_from_base",
                EvidenceFault::OnNoRef { .. } => "on_no_ref",
                EvidenceFault::ChangesNothing { .. } => "changes_nothing",
                EvidenceFault::ChangesOnlyHome { .. } => "changes_only_home",
                EvidenceFault::RewroteHistory { .. } => "rewrote_history",
            },
            Reason::Weakened { .. } => "weakened",
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

    /// Tells the agent what to do.
    pub fn for_agent(&self) -> String {
        match self {
            Reason::NoClaim => {
                "The last message did not claim anything: finish the work, commit it, and end \
                                with exactly the last lines that the prompt asks for."
                    .to_owned()
            }
            Reason::PlanIsTheVerifiersToJudge { reason } => format!(
                "Whether the plan holds is for the verifier to say (you wrote: {reason}): do what the plan \
                 allows, commit it, and write down in the commit what stands against the rest."
            ),
            Reason::Evidence { fault } => fault_for_agent(fault),
            Reason::Weakened { weakening } => format!(
                "What the work is checked by must not become weaker ({weakening}): {}.",
                undo(&weakening.what)
            ),
            Reason::Gate { report } => gate_for_agent(report),
            Reason::NotVerified { report } => {
                format!(
                    "The verifier did not accept the commit; put right what it reports: {report}"
                )
            }
            Reason::AnotherVerified { candidate, verified } => format!(
                "The verifier looked at {} and not at {}: see to it that the branch ends with the commit you \
                 claim, and claim that one.",
                short(verified),
                short(candidate)
            ),
            Reason::Elsewhere { repository, reason } => {
                format!("In `{repository}`: {}", reason.for_agent())
            }
        }
    }

    /// Tells the person what happened.
    pub fn for_person(&self) -> String {
        match self {
            Reason::NoClaim => "The agent ended without saying that it is done.".to_owned(),
            Reason::PlanIsTheVerifiersToJudge { reason } => {
                format!(
                    "The agent says that the plan is no good, which only a verifier may say: {reason}"
                )
            }
            Reason::Evidence { fault } => fault_for_person(fault),
            Reason::Weakened { weakening } => {
                format!("The change weakens what it is checked by: {weakening}.")
            }
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

fn fault_for_agent(fault: &EvidenceFault) -> String {
    let or_no_change =
        "or, if nothing needs to change, say so with a line `NO_CHANGE_NEEDED: <reason>`";
    match fault {
        EvidenceFault::NoSuchCommit { claimed } => format!(
            "There is no commit {claimed}: commit the work and claim the name that `git rev-parse HEAD` prints."
        ),
        EvidenceFault::NotNew { commit, base } => format!(
            "The claimed commit {} is not new, for work began at {}: commit what you did and claim that commit, \
             {or_no_change}.",
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
            "The claimed commit {} changes nothing: commit the work itself, {or_no_change}.",
            short(commit)
        ),
        EvidenceFault::ChangesOnlyHome { commit } => format!(
            "The claimed commit {} changes only Ralph's own files: commit the work itself, {or_no_change}.",
            short(commit)
        ),
        EvidenceFault::RewroteHistory { rewritten } => format!(
            "`{}` lost commits that were there before: bring them back (`git rebase --onto {} …` or \
             `git merge {}`) and add your work on top, without rewriting what others made.",
            rewritten.name,
            short(&rewritten.old_tip),
            short(&rewritten.old_tip)
        ),
    }
}

fn fault_for_person(fault: &EvidenceFault) -> String {
    match fault {
        EvidenceFault::NoSuchCommit { claimed } => {
            format!("The agent claims the commit {}, which does not exist.", short(claimed))
        }
        EvidenceFault::NotNew { commit, .. } => {
            format!(
                "The agent claims the commit {}, which was there before it began.",
                short(commit)
            )
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
            format!("The commit {} changes nothing.", short(commit))
        }
        EvidenceFault::ChangesOnlyHome { commit } => {
            format!("The commit {} changes nothing but Ralph's own files.", short(commit))
        }
        EvidenceFault::RewroteHistory { rewritten } => format!(
            "The agent rewrote `{}`, which was at {}, and dropped {} of its commits.",
            rewritten.name,
            short(&rewritten.old_tip),
            rewritten.dropped.len()
        ),
    }
}

/// Says how a weakening is undone.
fn undo(what: &Weakened) -> &'static str {
    match what {
        Weakened::FileDeleted { .. } | Weakened::FileEmptied { .. } => {
            "bring the file back as it was"
        }
        Weakened::TestsMovedAway { .. } => "move the file back to where its tests are found",
        Weakened::TestDeleted { .. } => {
            "bring the test back, under its old name or with its old body"
        }
        Weakened::TestSkipped { .. }
        | Weakened::TestsSkipped { .. }
        | Weakened::TestsFocused { .. } => "take the mark away and make the tests pass",
        Weakened::TestHollowed { .. } | Weakened::AssertionCommentedOut { .. } => {
            "let the test assert again what it did"
        }
        Weakened::CiDefused { .. }
        | Weakened::CiChecksRemoved { .. }
        | Weakened::GatesChanged
        | Weakened::RunnerDefused { .. } => "put the configuration back as it was",
    }
}

/// Names no path: it is committed, and goes to people and agents elsewhere.
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
            "The gate `{gate}` could be run before your change and cannot any more ({obstacle}): make it run again."
        ),
        Attribution::Regressed => {
            format!("The gate `{gate}` fails{how}, and did not before your change: make it pass.")
        }
        _ => format!("The gate `{gate}` fails{how}: make it pass."),
    };
    if last.is_empty() { wish } else { format!("{wish} Its output ends with:\n{last}") }
}

fn gate_for_person(report: &GateReport) -> String {
    let gate = &report.gate;
    match &report.attribution {
        Attribution::Passed => format!("The gate `{gate}` passes."),
        Attribution::ProvedNothing => format!("The gate `{gate}` passes without executing a test."),
        Attribution::Regressed => format!("The gate `{gate}` fails since this change."),
        Attribution::Failed => {
            format!("The gate `{gate}` fails, and how it was before is not known.")
        }
        Attribution::Flaky => format!("The gate `{gate}` fails and passes at the same commit."),
        Attribution::RedBeforeAndAfter => {
            format!("The gate `{gate}` fails, and did before this change.")
        }
        Attribution::FewerTests { base, candidate: Some(now) } => {
            format!("The gate `{gate}` executes {now} tests, where it executed {base}.")
        }
        Attribution::FewerTests { base, candidate: None } => {
            format!("The gate `{gate}` tells of no tests any more, where it executed {base}.")
        }
        Attribution::Broken { obstacle } => {
            format!("The gate `{gate}` cannot be run since this change: {obstacle}.")
        }
        Attribution::CouldNotRun { obstacle } => {
            format!("The gate `{gate}` cannot be run: {obstacle}.")
        }
    }
}

/// What a person has to decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "question", rename_all = "snake_case")]
pub enum PersonQuestion {
    /// The agent says that nothing needs to change.
    NoChange {
        reason: String,
        /// What the verifier thinks of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opinion: Option<String>,
    },
    /// Nothing stands against the commit, but gates cannot be run, here or at the base.
    GatesCannotRun { commit: CommitId, gates: Vec<GateReport> },
}

impl PersonQuestion {
    /// Returns a name of a fixed set, as [`Reason::code`] does.
    pub const fn code(&self) -> &'static str {
        match self {
            PersonQuestion::NoChange { .. } => "no_change",
            PersonQuestion::GatesCannotRun { .. } => "gates_cannot_run",
        }
    }

    /// Returns the commit that it is about.
    pub const fn commit(&self) -> Option<&CommitId> {
        match self {
            PersonQuestion::NoChange { .. } => None,
            PersonQuestion::GatesCannotRun { commit, .. } => Some(commit),
        }
    }
}

impl fmt::Display for PersonQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PersonQuestion::NoChange { reason, opinion } => {
                write!(f, "The agent says that nothing needs to change ({reason})")?;
                if let Some(opinion) = opinion {
                    write!(f, "; the verifier's opinion: {opinion}")?;
                }
                f.write_str(". Is it done?")
            }
            PersonQuestion::GatesCannotRun { commit, gates } => {
                for gate in gates {
                    write!(f, "{} ", gate_for_person(gate))?;
                }
                write!(f, "Is {} done without that, or will you put it right first?", short(commit))
            }
        }
    }
}

/// What the verifier is asked about beside the work itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "question", rename_all = "snake_case")]
pub enum VerifierQuestion {
    /// A gate that neither proves the work nor blocks it.
    Gate { report: GateReport },
    /// The run left these changed and uncommitted.
    Leftovers { paths: Vec<String> },
    /// No gate proves the work.
    NotProven,
}

impl fmt::Display for VerifierQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VerifierQuestion::Gate { report } => write!(
                f,
                "{} Is this change to blame, or does it hide behind that? (output: {})",
                gate_for_person(report),
                report.output
            ),
            VerifierQuestion::Leftovers { paths } => write!(
                f,
                "These files were changed and not committed: {}. Is the commit whole without them?",
                paths.join(", ")
            ),
            VerifierQuestion::NotProven => f.write_str(
                "No gate proves this change. Does it hold when you build and test it yourself?",
            ),
        }
    }
}

/// Returns what a verifier should be asked about a candidate.
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
    if !measured.gates.proven() {
        questions.push(VerifierQuestion::NotProven);
    }
    questions
}
