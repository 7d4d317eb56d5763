//! The simulated repository as seen by judge, workflows and plan file. Its gates judge trees by their content.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_model::gate::{
    Attribution, Effect, GateOutput, GateRun, GateRuns, GateStatus, Wanted, attribute, in_order,
};
use ralph_model::id::RunId;
use ralph_model::journal::{GateAttempt, GateFinished, GatePoint, GateStarted, JournalEvent};
use ralph_model::receipt::Receipt;
use ralph_model::run::ProcessExit;

use super::git::{GitState, SimulatedGit};
use crate::files::disk::own_process;
use crate::files::simulated::{self, effect};
use crate::gates::assess::{Assessment, GateFinding, Points};
use crate::gates::pin::PinnedGates;
use crate::gates::receipt::ReceiptFault;
use crate::gates::{
    GateContext, GateError, JudgedRepository, Tell, VerifierCheckout, WorkRepository,
};
use crate::git::commits::Committed;
use crate::git::evidence::{
    Before, Dropped, EvidenceError, GitCommitEvidence, GitEvidence, RepositoryEvidence, is_own,
};
use crate::git::mirror::MirrorError;
use crate::git::{CommitHeader, GitError, Oid, PathChange, RefsSnapshot, RepositoryLocation};
use crate::plan_file::known::KnownIds;
use crate::plan_file::past::{PastError, PlanPast};
use crate::repository::GitAccess;
use crate::state::LiveRun;

/// The text that makes a tree fail its gates, in any of its files.
pub(super) const BROKEN: &str = "BROKEN";

/// Whether a file makes its tree fail.
pub(super) fn is_broken(content: &[u8]) -> bool {
    memchr::memmem::find(content, BROKEN.as_bytes()).is_some()
}

/// A repository and its plan.
#[derive(Clone, Debug)]
pub(super) struct SimulatedRepository {
    pub(super) git: SimulatedGit,
    /// The person's, if this is a clone of it.
    person: Option<SimulatedGit>,
    pub(super) place: RepositoryLocation,
}

fn tips(refs: &RefsSnapshot) -> impl Iterator<Item = Oid> {
    let heads = refs.worktree_heads.iter().map(|(_, id)| id).chain(refs.head.id());
    refs.refs.iter().map(|found| &found.id).chain(heads).cloned()
}

impl SimulatedRepository {
    /// Takes a repository; `person` is the person's, if it is a clone of theirs.
    pub(super) fn of(git: SimulatedGit, person: Option<SimulatedGit>) -> SimulatedRepository {
        let git_dir = git.root.join(".git");
        let worktree = Some(git.root.clone());
        let place = RepositoryLocation { common_dir: git_dir.clone(), git_dir, worktree };
        SimulatedRepository { git, person, place }
    }

    fn commit_evidence(
        state: &GitState,
        header: CommitHeader,
        now: &RefsSnapshot,
        before: &Before,
        own: &[PathBuf],
    ) -> GitCommitEvidence {
        let id = &header.id;
        let base = before.base.as_ref();
        let contains = |tip: &Oid| state.is_ancestor(id, tip);
        let on_refs = now.refs.iter().filter(|found| contains(&found.id));
        let on_refs: Vec<String> = on_refs.map(|found| found.name.clone()).collect();
        let is_moved = |name: &&String| before.refs.id_of(name) != now.id_of(name);
        let from = base.and_then(|base| state.tree_at(base)).unwrap_or_default();
        let to = state.tree_at(id).unwrap_or_default();
        let (inside_home, mut outside_home): (Vec<PathChange>, Vec<PathChange>) =
            GitState::changes(&from, &to).into_iter().partition(|change| is_own(own, &change.path));
        let saved = before.saved.iter().flat_map(|saved| &saved.files);
        let persons: Vec<&(PathBuf, Option<Oid>)> = saved.chain(&before.theirs).collect();
        outside_home.retain(|change| {
            !persons.iter().any(|(path, id)| *path == change.path && *id == change.id)
        });
        let is_known = before.begun.iter().any(contains);
        GitCommitEvidence {
            repository: 0,
            is_new_since_base: !is_known && base.is_none_or(|base| !state.is_ancestor(id, base)),
            is_new_in_run: !tips(&before.refs).any(|tip| contains(&tip)),
            descends_from_base: base.is_none_or(|base| state.is_ancestor(base, id)),
            on_moved_refs: on_refs.iter().filter(is_moved).cloned().collect(),
            on_refs,
            is_on_head: now.head.id().is_some_and(contains),
            outside_home,
            inside_home,
            commit: header,
        }
    }

    fn dropped(state: &GitState, before: &RefsSnapshot, now: &RefsSnapshot) -> Vec<Dropped> {
        let mut kept = now.clone();
        kept.refs.retain(|found| !found.name.starts_with("refs/ralph/"));
        let kept = state.reachable(tips(&kept));
        let refs = before.refs.iter().filter(|found| !found.name.starts_with("refs/ralph/"));
        let mut dropped = Vec::new();
        for found in refs {
            let lost = state.reachable([found.id.clone()].into_iter());
            let lost: Vec<Oid> =
                lost.difference(&kept).map(|at| state.commits[*at].id.clone()).collect();
            if !lost.is_empty() {
                let (name, old_tip) = (found.name.clone(), found.id.clone());
                dropped.push(Dropped { name, old_tip, commits: lost });
            }
        }
        dropped
    }

    fn gate_run(&self, commit: &Oid) -> GateRun {
        let tree = self.git.state().tree_at(commit).unwrap_or_default();
        let fails = tree.values().any(|blob| is_broken(&blob.content));
        let exit = ProcessExit::Code(i32::from(fails));
        let path = format!("{}/gates/{commit}/check-1.log", simulated::ROOT);
        let output = GateOutput { sha256: "0".repeat(64), path, last: String::new() };
        let duration = Duration::from_secs(1);
        GateRun {
            status: GateStatus::of(exit, None),
            tests: None,
            names: None,
            rewrote: Vec::new(),
            duration,
            output,
        }
    }

    /// Runs a gate: its record exists while it runs, like a real one's, and its end can be missed.
    fn run_gate(
        &self,
        context: &GateContext<'_>,
        started: &GateStarted,
        commit: &Oid,
        tell: Tell<'_>,
    ) -> Result<GateRun, GateError> {
        tell(JournalEvent::from(started.clone()))?;
        let nonce = simulated::random().unwrap_or_default();
        let live = LiveRun {
            run_id: RunId::new(context.clock.now(), nonce).to_string(),
            item: None,
            owner: own_process(),
            guard: None,
            scratch: None,
            started: context.clock.now(),
            events: None,
            free_locks: Vec::new(),
            watch: None,
        };
        let _ = context.place.live.save(&live);
        effect(|| format!("gate {} at {:?}", started.gate, started.at));
        context.place.live.clear()?;
        if simulated::take_interrupt() {
            return Err(GateError::Interrupted);
        }
        Ok(self.gate_run(commit))
    }
}

impl JudgedRepository for SimulatedRepository {
    fn measure(
        &self,
        claimed: &str,
        before: &Before,
        own: &[PathBuf],
    ) -> Result<GitEvidence, EvidenceError> {
        let header = self.git.find_commit(claimed.trim())?;
        let leftovers = before.dirt.leftovers(&self.git.dirt(own)?);
        let state = self.git.state();
        let now = state.refs(&self.git.root);
        let commits = header.map(|header| Self::commit_evidence(&state, header, &now, before, own));
        let dropped = match self.person {
            Some(_) => Vec::new(),
            None => Self::dropped(&state, &before.refs, &now),
        };
        let repository = RepositoryEvidence { head_now: now.head, dropped, leftovers };
        Ok(GitEvidence { commits: commits.into_iter().collect(), repositories: vec![repository] })
    }

    fn assess(
        &self,
        context: &GateContext<'_>,
        pinned: &PinnedGates,
        points: &Points<'_>,
        tell: Tell<'_>,
    ) -> Result<Assessment, GateError> {
        let mut assessment = Assessment::default();
        for gate in in_order(&pinned.gates) {
            let started = |at, commit: &Oid, attempt| GateStarted {
                item: context.item.map(str::to_owned),
                commit: commit.to_string(),
                at,
                gate: gate.name.clone(),
                attempt,
                argv: gate.argv().to_vec(),
                kept: Vec::new(),
            };
            let first = started(GatePoint::Candidate, points.candidate, GateAttempt::First);
            let candidate = self.run_gate(context, &first, points.candidate, tell)?;
            let (mut again, mut base) = (None, None);
            let attribution: Attribution = loop {
                let runs = GateRuns {
                    candidate: &candidate,
                    again: again.as_ref(),
                    base: base.as_ref(),
                    checks_differ: false,
                };
                match (runs.wanted(), points.base) {
                    (Some(Wanted::Again), _) => {
                        let second =
                            started(GatePoint::Candidate, points.candidate, GateAttempt::Again);
                        again = Some(self.run_gate(context, &second, points.candidate, tell)?);
                    }
                    (Some(Wanted::Base), Some(commit)) => {
                        let at_base = started(GatePoint::Base, commit, GateAttempt::First);
                        base = Some(self.run_gate(context, &at_base, commit, tell)?);
                    }
                    (Some(Wanted::Base), None) | (None, _) => break attribute(runs),
                }
            };
            let finished = GateFinished::of(&first, &candidate, Some(&attribution));
            tell(JournalEvent::from(finished))?;
            let blocks = attribution.effect() == Effect::Block;
            let gate = gate.clone();
            assessment.findings.push(GateFinding { gate, candidate, again, base, attribution });
            if blocks {
                break;
            }
        }
        Ok(assessment)
    }

    fn move_anchor(&self, _: &str, _: &Oid, _: &Oid, _: &[String]) -> Result<(), GitError> {
        Ok(())
    }

    fn tree_of(&self, commit: &str) -> Result<Oid, GitError> {
        let found = self.git.find_commit(commit)?;
        Ok(found.map_or_else(
            || Oid::parse(&[b'4'; 40]).expect("it has forty digits"),
            |header| header.tree,
        ))
    }

    fn write_receipt(&self, commit: &Oid, receipt: &Receipt) -> Result<(), ReceiptFault> {
        self.git.state().notes.insert(commit.clone(), receipt.render());
        effect(|| format!("git notes add {commit}"));
        Ok(())
    }
}

impl WorkRepository for SimulatedRepository {
    fn git(&self) -> &dyn GitAccess {
        &self.git
    }

    fn person(&self) -> Option<&dyn GitAccess> {
        self.person.as_ref().map(|person| person as &dyn GitAccess)
    }

    fn fill_mirror(&self, _: &[Oid]) -> Result<RefsSnapshot, MirrorError> {
        effect(|| "git fetch into the mirror".to_owned());
        Ok(self.git.refs()?)
    }

    fn checkout_for_verifier(
        &self,
        _: &GateContext<'_>,
        _: &PinnedGates,
        commit: &Oid,
        _: Tell<'_>,
    ) -> Result<VerifierCheckout, GateError> {
        effect(|| format!("git checkout {commit}"));
        let tree = format!("{}/verifier", simulated::ROOT);
        Ok(VerifierCheckout { directory: tree.clone().into(), tree: tree.into() })
    }
}

/// The plan's history in the simulated repository.
#[derive(Debug)]
pub(super) struct SimulatedPast {
    pub(super) git: SimulatedGit,
    pub(super) path: PathBuf,
}

impl PlanPast for SimulatedPast {
    fn git(&self) -> &dyn GitAccess {
        &self.git
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn ids(&self) -> Result<KnownIds, PastError> {
        let mut known = KnownIds::default();
        self.git.state().plan_ids.iter().for_each(|id| known.add(id));
        Ok(known)
    }

    /// The ids are computed on demand.
    fn note_commit(&self, _: &Committed, _: &[u8], _: &[u8]) {}

    fn is_shallow(&self) -> bool {
        false
    }

    fn gap(&self) -> Option<String> {
        None
    }
}
