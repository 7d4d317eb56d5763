//! The person's newer commits on a branch that has not followed landed work. Both were good by themselves; nothing is known
//! of the two together. So their merge is not the tip before the gates have run on it, unless one side is home alone.
//!
//! What is red there, and not on the person's branch by itself, is theirs to settle: nothing is moved.

use std::path::PathBuf;

use camino::Utf8PathBuf;
use ralph_model::gate::{Attribution, Effect};
use ralph_model::journal::Note;
use ralph_model::proof::ProofLevel;
use ralph_model::run::Trouble;
use serde::Serialize;

use super::access::LandingRepository;
use super::branch::{LandableCommit, Standing};
use super::{Clones, LANDED, PersonsRepository, RACES};
use crate::gates::assess::{Assessment, Extent, GateFinding, Points};
use crate::gates::pin::PinnedGates;
use crate::gates::{GateContext, GateError, Tell};
use crate::git::evidence::is_own;
use crate::git::landing::{LandOutcome, NewerCommits};
use crate::git::{GitError, Oid, shown};
use crate::judge::differing;
use crate::session::Session;
use crate::workflow::WorkflowError;

/// A merge of landed work with newer commits, on which the gates are to run.
pub struct NewerMerge<'a> {
    repository: &'a dyn LandingRepository,
    pub merge: &'a Oid,
    /// The person's branch by itself.
    branch: &'a Oid,
    changed: Vec<String>,
}

impl NewerMerge<'_> {
    /// Returns the person's work tree.
    pub fn worktree(&self) -> Utf8PathBuf {
        self.repository.place().worktree.clone().unwrap_or_default()
    }

    /// Runs the gates at the merge; what fails there is tried on the branch alone.
    pub fn assess(
        &self,
        context: &GateContext<'_>,
        pinned: &PinnedGates,
        tell: Tell<'_>,
    ) -> Result<Assessment, GateError> {
        if pinned.gates.is_empty() {
            return Ok(Assessment::default());
        }
        let points = Points {
            candidate: self.merge,
            base: Some(self.branch),
            changed: Some(&self.changed),
            extent: Extent::All,
            checks: None,
        };
        self.repository.assess(context, pinned, &points, tell)
    }
}

/// What became of newer commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TakenUp {
    /// There are none.
    Nothing,
    Merged(CheckedMerge),
    /// They do not pass together with landed work; this says what to do.
    Refused(String),
}

/// A merge that is the tip now, and what the gates say of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckedMerge {
    pub commit: String,
    pub level: ProofLevel,
    /// Gates that are red on the person's branch by itself as well.
    pub red_before: Vec<String>,
}

impl PersonsRepository {
    /// Makes newer commits part of the tip if they pass the gates together with landed work. `assess` runs these.
    pub(super) fn take_up_newer<E: From<WorkflowError>>(
        &self,
        mut assess: impl FnMut(&NewerMerge<'_>) -> Result<Assessment, E>,
    ) -> Result<TakenUp, E> {
        let mut taken = TakenUp::Nothing;
        if !self.git().may_have_refs(LANDED) {
            return Ok(taken);
        }
        for _ in 0..RACES {
            let Standing::Newer(newer) = self.standing()? else { return Ok(taken) };
            if let Some(landable) = self.needs_no_gate(&newer)? {
                self.advance(&newer.read, &landable, &[])?;
                continue;
            }
            let assessment = assess(&self.newer_merge(&newer)?)?;
            let landable = match self.checked(&newer, &assessment)? {
                Ok(landable) => landable,
                Err(question) => return Ok(TakenUp::Refused(question)),
            };
            if self.advance(&newer.read, &landable, &[])? == LandOutcome::Landed {
                let is_red_before =
                    |one: &&GateFinding| one.attribution == Attribution::RedBeforeAndAfter;
                let red = assessment.findings.iter().filter(is_red_before);
                taken = TakenUp::Merged(CheckedMerge {
                    commit: newer.merge.to_string(),
                    level: assessment.level(),
                    red_before: red.map(|one| one.gate.name.clone()).collect(),
                });
            }
        }
        Err(self.contended().into())
    }

    fn newer_merge<'n>(&'n self, newer: &'n NewerCommits) -> Result<NewerMerge<'n>, WorkflowError> {
        let changed = self.changed_outside_home(&newer.read.branch, &newer.merge)?;
        Ok(NewerMerge {
            repository: &*self.gates,
            merge: &newer.merge,
            branch: &newer.read.branch,
            changed: changed.iter().map(|path| shown(path)).collect(),
        })
    }

    /// Returns the merge if one of its sides has changed nothing but home: then outside home it is the other side's tree, which
    /// was judged or is the person's own.
    pub(super) fn needs_no_gate(
        &self,
        newer: &NewerCommits,
    ) -> Result<Option<LandableCommit>, WorkflowError> {
        for side in [&newer.read.commit, &newer.read.branch] {
            if self.changed_outside_home(side, &newer.merge)?.is_empty() {
                return Ok(Some(LandableCommit::of_newer(newer)));
            }
        }
        Ok(None)
    }

    /// Returns the paths outside home at which two commits differ.
    pub(super) fn changed_outside_home(
        &self,
        from: &Oid,
        to: &Oid,
    ) -> Result<Vec<PathBuf>, GitError> {
        let changes = self.gates.truth().changes(from, to)?;
        let paths = changes.iter().flat_map(differing).map(ToOwned::to_owned);
        Ok(paths.filter(|path: &PathBuf| !is_own(&self.own, path)).collect())
    }

    /// Returns the merge if no gate speaks against it, or what the person is to do.
    fn checked(
        &self,
        newer: &NewerCommits,
        assessment: &Assessment,
    ) -> Result<Result<LandableCommit, String>, WorkflowError> {
        let mut against = Vec::new();
        for finding in &assessment.findings {
            let gate = &finding.gate.name;
            match (finding.attribution.effect(), &finding.attribution) {
                (Effect::Proof | Effect::Nothing | Effect::Question, _) => {}
                (Effect::Trouble, _) => {
                    let message = format!("the gate `{gate}` could not be run");
                    return Err(WorkflowError::Measure(Trouble::Machine { message }));
                }
                (_, Attribution::CouldNotRun { obstacle } | Attribution::Broken { obstacle }) => {
                    against.push(format!("the gate `{gate}` cannot run ({obstacle})"));
                }
                _ => against.push(format!("the gate `{gate}` fails only with both")),
            }
        }
        if against.is_empty() {
            return Ok(Ok(LandableCommit::of_newer(newer)));
        }
        let (branch, against) = (self.short_branch(), against.join(", "));
        Ok(Err(format!(
            "your newer commits on `{branch}` do not pass together with landed work: {against}; nothing was moved. See \
             `ralph gates run --commit {merge}`; `git merge refs/ralph/landed/{branch}` merges both in your checkout, for you \
             to mend and commit; then run `ralph land`",
            merge = newer.merge.as_str().get(..12).unwrap_or_default(),
        )))
    }
}

impl CheckedMerge {
    /// Says what is known of the merge.
    pub fn says(&self) -> String {
        let id = self.commit.get(..10).unwrap_or(&self.commit);
        let mut text =
            format!("your newer commits were merged with landed work ({id}): {}", self.level);
        if !self.red_before.is_empty() {
            text = format!("{text}; already red on your branch: {}", self.red_before.join(", "));
        }
        text
    }
}

impl Clones {
    /// Makes the person's newer commits part of the tips, where they pass the gates together with landed work.
    pub(crate) fn take_up_newer(&self, session: &mut Session<'_>) -> Result<(), WorkflowError> {
        for repository in &self.repositories {
            let pinned = PinnedGates::of(&session.context.config);
            let taken = repository.take_up_newer(|newer| {
                session.with_gates("", |context, tell| {
                    let context = GateContext { item: None, slot: None, ..*context };
                    newer.assess(&context, &pinned, tell).map_err(WorkflowError::from)
                })
            })?;
            match taken {
                TakenUp::Nothing => {}
                TakenUp::Merged(merge) => {
                    session.record(Note { reason: merge.says(), ..Note::default() })?;
                }
                TakenUp::Refused(question) => return Err(WorkflowError::Branch(question)),
            }
        }
        Ok(())
    }
}
