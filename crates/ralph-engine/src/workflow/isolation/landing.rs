//! Landing: accepted work is put on the run's branch, together with what is in flight of home, in one commit.
//!
//! Where the branch still stands where the item began, that commit goes on top of the accepted one; else it is a merge of
//! both. Commits that were judged are never rewritten. If more than home has moved since the item began, the merge is
//! measured as a candidate of its own before it lands; a conflict or a rejection sends the item back with the new tips,
//! at no cost.
//!
//! The branch is compared and swapped: whoever loses reads again. So two landings never undo each other, and work lands at
//! most once. What a person says of the item meanwhile is a commit on the branch, which is taken up before the next try.

use std::path::PathBuf;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::build::{Acceptance, Work};
use ralph_model::id::RunId;
use ralph_model::journal::{Note, WorkLanded};
use ralph_model::memory::add_notes;
use ralph_model::pipeline::records::Base;
use ralph_model::proof::{LandedLevel, ProofLevel};
use ralph_model::role::Role;
use ralph_model::verdict::{Reason, Verdict, VerifierReport};

use super::branch::{JoinRequest, Joined, JoinedCommit, LandableCommit, THEN_LAND, is_regular};
use super::draft::{HomeDraft, NOTES};
use super::slots::SLOTS;
use super::{Clones, PersonsRepository, RACES, object, slots};
use crate::config::Follow;
use crate::defect::{Defect, is_put_back};
use crate::gates::pin::PinnedGates;
use crate::git::commits::Signing;
use crate::git::home_copy::HomeChange;
use crate::git::landing::{FileEdit, LandOutcome, LandingError, TipState};
use crate::git::{Head, Oid};
use crate::judge::{AgreedChecks, Case, Said};
use crate::session::Session;
use crate::state::State;
use crate::workflow::WorkflowError;
use crate::workflow::merge_review::{self, MergeRequest, MergeStanding};
use crate::workflow::repositories::{BeforeAll, Repositories, attestation, commit_id, key};

/// How often a branch may move before work lands on it: each time the gates may have to run again.
const TRIES: u32 = 8;

/// Files of home, by their paths in the draft, with their contents.
pub(crate) type LandedFiles = Vec<(Utf8PathBuf, Vec<u8>)>;

/// Accepted work that is to land.
pub(crate) struct LandingRequest<'a> {
    pub(crate) item: &'a str,
    /// The accepted commits, one for each repository that has some.
    pub(crate) works: &'a [Work],
    /// Where work on the item began.
    pub(crate) base: &'a Base,
    /// What there was before the item's last run, for measuring a merge.
    pub(crate) before: &'a BeforeAll,
    pub(crate) pinned: &'a PinnedGates,
    /// What the item's record says is known of what lands.
    pub(crate) level: ProofLevel,
    /// The gates that a verifier was asked about for the work by itself.
    pub(crate) asked: &'a [String],
    /// The run that verified the work by itself.
    pub(crate) after: Option<&'a RunId>,
    /// A person accepted the work.
    pub(crate) is_persons_word: bool,
    /// Files of home, by their paths in the draft, as they are to be once the work has landed.
    pub(crate) files: &'a dyn Fn(LandedLevel) -> Result<LandedFiles, WorkflowError>,
    /// Files of home that land as they were judged, even if the person has not committed them.
    pub(crate) with: &'a [&'a Utf8Path],
    /// Files of home, by their paths in the draft, that its runs were given in the slot: a commit that swept them up did
    /// not change them.
    pub(crate) given: &'a [(Utf8PathBuf, Vec<u8>)],
    /// Refs that are to say between which commits the work is that landed.
    pub(crate) marks: Option<&'a LandingMarks>,
    pub(crate) message: &'a str,
    /// The role that did the work.
    pub(crate) worker: Role,
}

/// Refs at the commit below landed work, and at its last one.
pub(crate) struct LandingMarks {
    pub(crate) before: String,
    pub(crate) after: String,
}

/// What a landing came to.
#[derive(Debug)]
pub(crate) enum LandingEnd {
    Landed {
        level: LandedLevel,
    },
    /// There was nothing to land, or a person decided otherwise meanwhile.
    Nothing,
    /// What is known of the merge is not what is known of the work: it is judged once more, with what was recorded.
    Unsettled {
        /// A verifier is to be asked about the merge.
        is_asked: bool,
    },
    /// It no longer fits the branches, which are at `tips` now.
    Refused {
        why: String,
        tips: Base,
    },
}

/// A commit that is ready to land in one repository, once it was measured where it has to be.
struct Prepared<'a> {
    repository: &'a PersonsRepository,
    tip: TipState,
    joined: JoinedCommit,
    /// The accepted commit in it, if there is one.
    candidate: Option<Oid>,
    /// Where work on it began.
    base: Option<Oid>,
}

/// What was measured of prepared commits, and which of them may land.
struct Measured {
    cases: Vec<(BeforeAll, Case)>,
    /// One for each prepared commit.
    landable: Vec<LandableCommit>,
}

impl Prepared<'_> {
    /// Returns the commit below the work and its last one, as they land.
    fn span(&self) -> Option<(&Oid, &Oid)> {
        match &self.joined.carried {
            Some(carried) => Some((&self.tip.commit, carried)),
            None => self.base.as_ref().zip(self.candidate.as_ref()),
        }
    }
}

/// An obstacle to a landing.
enum Obstacle {
    /// Both sides changed these.
    Conflict {
        repository: String,
        paths: Vec<PathBuf>,
    },
    Rejected {
        reasons: Vec<Reason>,
    },
}

/// How often in a row a branch may refuse an item's work before a person is asked.
pub(crate) const MOST_REFUSED: u32 = 3;

/// What tells the question about a landing from others.
const STUCK: &str = "could not be put on the branch";

/// Returns what a person is asked where a branch refused work again and again.
pub(crate) fn stuck_question(commit: Option<&str>, why: &str) -> String {
    let work = commit.map_or_else(String::new, |commit| format!(" {commit}"));
    format!("The accepted work{work} {STUCK} {MOST_REFUSED} times in a row: {why}\nTry again?")
}

/// Tells whether a question is about a landing: work that goes back after it begins where the branch is by then, because
/// that has Ralph's own files, which are no change of the agent's.
pub(crate) fn is_stuck_question(question: &str) -> bool {
    question.contains(STUCK)
}

/// Returns what is known of accepted work that landed before. It lands with the level of its record, or not at all.
pub(crate) const fn landed_before(acceptance: &Acceptance) -> LandedLevel {
    LandedLevel::of_landing(acceptance.level)
}

/// Takes accepted work into the branches that its run in the person's checkout began on: it is not merged with anything.
pub(crate) fn take_in(
    repositories: &Repositories,
    acceptance: &Acceptance,
) -> Result<LandingEnd, WorkflowError> {
    for work in &acceptance.works {
        if let Some(why) = repositories.take_in(work)? {
            return Ok(LandingEnd::Refused { why, tips: Base::new() });
        }
    }
    Ok(LandingEnd::Landed { level: LandedLevel::of_landing(acceptance.level) })
}

impl Clones {
    /// Puts accepted work on the branches, with what is in flight of home.
    pub(crate) fn land(
        &self,
        session: &mut Session<'_>,
        slot: &Repositories,
        request: &LandingRequest<'_>,
    ) -> Result<LandingEnd, WorkflowError> {
        let level = LandedLevel::of_landing(request.level);
        let files = (request.files)(level)?;
        let known = self.files_in_draft(request, &files)?;
        for _ in 0..TRIES {
            self.take_up_newer(session)?;
            self.sync(&session.context.state)?;
            if self.files_in_draft(request, &files)? != known
                && !is_put_back(Defect::LandsWhatWasWithdrawn)
            {
                // What is to land was computed from them: the person's word comes first.
                return Err(WorkflowError::Overtaken);
            }
            let home = self.home_edits(&session.context.state, request, &files)?;
            let Some(prepared) = self.prepare(&session.context.state, request, &home)? else {
                continue;
            };
            let prepared = match prepared {
                Ok(prepared) => prepared,
                Err(obstacle) => return self.refuse(session, request, &obstacle, &[]),
            };
            let measured = match measure(session, slot, request, &prepared)? {
                Ok(measured) => measured,
                Err(obstacle) => return self.refuse(session, request, &obstacle, &prepared),
            };
            let cases = &measured.cases;
            if let MergeStanding::Unsettled { is_asked } = compare(session, request, cases)? {
                return Ok(LandingEnd::Unsettled { is_asked });
            }
            self.keep_lfs(session, request.item, &prepared)?;
            // Before it lands: a crash must not leave a merge on the branch without its receipt.
            attest(session, slot, request, cases)?;
            if self.advance(session, request, &prepared, &measured.landable)? {
                merge_review::forget(&session.context.state, request.item)?;
                return Ok(LandingEnd::Landed { level });
            }
        }
        // Nothing is known against the work, so that neither its agent nor a person has anything to do: it lands later.
        let branches: Vec<&str> = self.branches().iter().map(|(_, branch)| *branch).collect();
        Err(LandingError::Contended { branch: branches.join("`, `") }.into())
    }

    /// Returns what the draft has of the files that land with the work, as they are to be or as they were judged.
    fn files_in_draft(
        &self,
        request: &LandingRequest<'_>,
        files: &[(Utf8PathBuf, Vec<u8>)],
    ) -> Result<Vec<Option<Vec<u8>>>, WorkflowError> {
        let Some(draft) = &self.draft else { return Ok(Vec::new()) };
        let changed = files.iter().map(|(path, _)| draft.in_commit(path));
        let judged = request.with.iter().map(|path| draft.inside().join(path));
        changed.chain(judged).map(|path| draft.file(&path)).collect()
    }

    /// Returns the files of home that land with the work.
    fn home_edits(
        &self,
        state: &State,
        request: &LandingRequest<'_>,
        files: &[(Utf8PathBuf, Vec<u8>)],
    ) -> Result<Vec<FileEdit>, WorkflowError> {
        let Some(draft) = &self.draft else { return Ok(Vec::new()) };
        let mut edits = draft.edits(&draft.in_flight(state, request.with)?)?;
        for (path, bytes) in files {
            let path = draft.in_commit(path);
            edits.retain(|known| known.path != path);
            edits.push(FileEdit { path, content: Some(bytes.clone()) });
        }
        self.merge_notes_of_work(draft, request, &mut edits)?;
        Ok(edits)
    }

    /// Merges the notes in the work's commits into home: existing notes are kept, so that no line is lost.
    fn merge_notes_of_work(
        &self,
        draft: &HomeDraft,
        request: &LandingRequest<'_>,
        edits: &mut Vec<FileEdit>,
    ) -> Result<(), WorkflowError> {
        let Some(repository) = self.with_home() else { return Ok(()) };
        let work = request.works.iter().find(|work| work.repository == repository.name);
        let base = request.base.get(&key(&repository.name)).map(object);
        let (Some(work), Some(base)) = (work, base) else { return Ok(()) };
        let truth = repository.gates.truth();
        let candidate = object(&work.commit);
        let changed = truth.changes(&base, &candidate)?;
        for name in NOTES {
            let path = draft.inside().join(name);
            // A link is no notes.
            if !changed.iter().any(|change| change.path == path && is_regular(change)) {
                continue;
            }
            let (before, after) = (truth.file_at(&base, &path)?, truth.file_at(&candidate, &path)?);
            let Some(theirs) = after else { continue };
            let known = edits.iter().position(|edit| edit.path == path);
            let ours = match known {
                Some(at) => edits.swap_remove(at).content.unwrap_or_default(),
                None => draft.file(&path)?.unwrap_or_default(),
            };
            let merged = add_notes(&before.unwrap_or_default(), &ours, &theirs);
            if known.is_some() || merged != ours {
                edits.push(FileEdit { path, content: Some(merged) });
            }
        }
        Ok(())
    }

    /// Makes the commits that would land, or says what is in the way; `None` if the branch has moved since home was looked
    /// at.
    fn prepare<'c>(
        &'c self,
        state: &State,
        request: &LandingRequest<'_>,
        home: &[FileEdit],
    ) -> Result<Option<Result<Vec<Prepared<'c>>, Obstacle>>, WorkflowError> {
        let mut prepared = Vec::new();
        for repository in self.in_landing_order() {
            let work = request.works.iter().find(|work| work.repository == repository.name);
            let candidate = work.map(|work| object(&work.commit));
            let home = if repository.has_home { home } else { &[] };
            if candidate.is_none() && home.is_empty() {
                continue;
            }
            let Some(tip) = repository.tip()? else { continue };
            if repository.has_home && !self.is_seen(state, &tip)? {
                return Ok(None);
            }
            let base = request.base.get(&key(&repository.name)).map(object);
            let joined = repository.join(&JoinRequest {
                tip: &tip,
                base: base.as_ref(),
                candidate: candidate.as_ref(),
                home,
                message: request.message,
                signing: self.signing,
            })?;
            match joined {
                Joined::Commit(joined) => {
                    prepared.push(Prepared { repository, tip, joined, candidate, base });
                }
                Joined::Nothing => {}
                Joined::Conflict { paths } => {
                    let repository = repository.name.clone();
                    return Ok(Some(Err(Obstacle::Conflict { repository, paths })));
                }
            }
        }
        Ok(Some(Ok(prepared)))
    }

    /// Returns the repositories as they land: by name, the one that has home last, because its commit says that the item is
    /// done.
    fn in_landing_order(&self) -> Vec<&PersonsRepository> {
        let mut order: Vec<&PersonsRepository> = self.repositories.iter().collect();
        order.sort_by_key(|repository| (repository.has_home, &repository.name));
        order
    }

    /// Names the repositories whose branch has the accepted work already, where others do not have theirs.
    fn half_landed(&self, works: &[Work]) -> Result<Vec<&str>, WorkflowError> {
        let mut landed = Vec::new();
        for repository in self.in_landing_order() {
            let Some(work) = works.iter().find(|work| work.repository == repository.name) else {
                continue;
            };
            if let Some(tip) = repository.tip()?
                && repository.contains(&tip.commit, &object(&work.commit))?
            {
                landed.push(repository.name.as_str());
            }
        }
        Ok(if landed.len() < works.len() { landed } else { Vec::new() })
    }

    /// Tells whether what is in flight was computed from this tip.
    fn is_seen(&self, state: &State, tip: &TipState) -> Result<bool, WorkflowError> {
        match &self.draft {
            Some(draft) => Ok(draft.seen_tip(state)?.as_ref() == Some(&tip.commit)),
            None => Ok(true),
        }
    }

    /// Puts LFS contents that the work needs and its clone has into the person's store, before any commit refers to them.
    fn keep_lfs(
        &self,
        session: &mut Session<'_>,
        item: &str,
        prepared: &[Prepared<'_>],
    ) -> Result<(), WorkflowError> {
        let Some(record) = SLOTS.load(&session.context.state, item)? else { return Ok(()) };
        for one in prepared {
            let (repository, Some(candidate)) = (one.repository, &one.candidate) else { continue };
            let clone = self.slots.open_clone(record.number, repository)?;
            let Some(clone) = clone else { continue };
            let missing = clone.transfer_lfs(candidate)?;
            if !missing.is_empty() {
                let names: Vec<String> =
                    missing.iter().map(|path| crate::git::shown(path)).collect();
                let reason = format!(
                    "the LFS contents of these files are neither yours nor in the agent's clone: {}",
                    names.join(", ")
                );
                session.record(Note { reason, ..Note::default() })?;
            }
        }
        Ok(())
    }

    /// Moves the branches; `false` if another writer was first.
    fn advance(
        &self,
        session: &mut Session<'_>,
        request: &LandingRequest<'_>,
        prepared: &[Prepared<'_>],
        landable: &[LandableCommit],
    ) -> Result<bool, WorkflowError> {
        for (one, landable) in prepared.iter().zip(landable) {
            let (repository, commit) = (one.repository, &one.joined.commit);
            let marks = match (request.marks, one.span()) {
                (Some(LandingMarks { before, after }), Some((below, last))) => {
                    vec![(before.as_str(), below), (after.as_str(), last)]
                }
                _ => Vec::new(),
            };
            match repository.advance(&one.tip, landable, &marks)? {
                LandOutcome::Landed => {}
                LandOutcome::Lost => return Ok(false),
            }
            if repository.has_home
                && let Some(draft) = &self.draft
            {
                draft.landed(&session.context.state, commit)?;
                self.clear_in_flight()?;
            }
            let waits = self.follow_one(repository)?;
            session.record(WorkLanded {
                item: request.item.to_owned(),
                repository: Some(repository.name.clone()).filter(|name| !name.is_empty()),
                branch: repository.short_branch().to_owned(),
                commit: commit.to_string(),
                candidate: one.candidate.as_ref().map(ToString::to_string),
                merge: Some(one.joined.is_merge),
                waits,
                subject: request.message.lines().next().unwrap_or_default().to_owned(),
            })?;
            self.tell_left_out(session, request, one)?;
        }
        Ok(true)
    }

    /// Says which files of Ralph's own the work changed that did not land with it.
    fn tell_left_out(
        &self,
        session: &mut Session<'_>,
        request: &LandingRequest<'_>,
        landed: &Prepared<'_>,
    ) -> Result<(), WorkflowError> {
        let Some(candidate) = &landed.candidate else { return Ok(()) };
        let given: Vec<(PathBuf, &[u8])> = match &self.draft {
            Some(draft) if landed.repository.has_home => {
                let given = request.given.iter();
                given.map(|(path, bytes)| (draft.in_commit(path), bytes.as_slice())).collect()
            }
            _ => Vec::new(),
        };
        let base = landed.base.as_ref();
        let paths = landed.repository.left_out(base, candidate, &landed.joined.commit, &given)?;
        if paths.is_empty() {
            return Ok(());
        }
        let reason = format!(
            "the work also changed {}, which only you may change; those changes did not land",
            paths.join(", ")
        );
        Ok(session.record(Note { reason, ..Note::default() })?)
    }

    /// Moves an item's clones to the merges of its work with the current branches; returns whether all did.
    ///
    /// Home and configuration are as in the tip: only what lands has the item's own.
    fn stand_at_merges(
        &self,
        state: &State,
        item: &str,
        prepared: &[Prepared<'_>],
    ) -> Result<bool, WorkflowError> {
        let Some(record) = SLOTS.load(state, item)? else { return Ok(false) };
        let merged: Vec<_> = prepared.iter().filter(|one| one.joined.is_merge).collect();
        for one in &merged {
            let repository = one.repository;
            let joined = repository.join(&JoinRequest {
                tip: &one.tip,
                base: one.base.as_ref(),
                candidate: one.candidate.as_ref(),
                home: &[],
                message: &format!("Merge `{}` into the work\n", repository.short_branch()),
                signing: Signing::Unsigned,
            })?;
            let Joined::Commit(JoinedCommit { commit, is_merge: true, .. }) = joined else {
                return Ok(false);
            };
            let clone = self.slots.open_clone(record.number, repository)?;
            let Some(clone) = clone else { return Ok(false) };
            let is_on_branch = matches!(clone.git().head(), Ok(Head::Branch { name, .. }) if name == clone.branch());
            // What the agent left uncommitted may be in the way: then it merges the tip itself.
            if !is_on_branch || clone.git().fast_forward(&commit).is_err() {
                return Ok(false);
            }
        }
        Ok(!merged.is_empty())
    }

    /// Sends an item back: its slot is told where the branches stand, and so is the next run. `prepared` are the commits that
    /// were refused, where there are some.
    fn refuse(
        &self,
        session: &mut Session<'_>,
        request: &LandingRequest<'_>,
        obstacle: &Obstacle,
        prepared: &[Prepared<'_>],
    ) -> Result<LandingEnd, WorkflowError> {
        let state = &session.context.state;
        let tips = self.tell_tips(state, request.item)?;
        let merge = if self.is_dropped(request.base, &tips)? {
            self.how_to_begin_anew(request)?
        } else if self.stand_at_merges(state, request.item, prepared)? {
            format!(
                "Your branch is now at the merge of both (`{}` is what it was merged with). Make sure that everything \
                 passes there, commit, and claim the result as before.",
                slots::TIP_NAME
            )
        } else {
            format!(
                "Merge `{}` into your branch (`git merge {0}`), resolve what conflicts, make sure that everything \
                 passes, commit, and claim the result as before.",
                slots::TIP_NAME
            )
        };
        let why = match obstacle {
            Obstacle::Conflict { repository, paths } => {
                let paths: Vec<String> = paths.iter().map(|path| crate::git::shown(path)).collect();
                let place = if repository.is_empty() {
                    String::new()
                } else {
                    format!(" in `{repository}`")
                };
                format!(
                    "Your work was accepted, but the branch has moved{place} and both changed the same lines: {}.\n\n{merge}",
                    paths.join(", ")
                )
            }
            Obstacle::Rejected { reasons } => {
                let reasons: Vec<String> = reasons.iter().map(Reason::for_agent).collect();
                format!(
                    "Your work passes on its own, but not together with newer commits of the branch:\n\n{}\n\n{merge}",
                    reasons.join("\n\n")
                )
            }
        };
        let landed = self.half_landed(request.works)?;
        if landed.is_empty() {
            return Ok(LandingEnd::Refused { why, tips });
        }
        let landed =
            format!("half landed: the work in `{}` has landed already", landed.join("`, `"));
        session.record(Note { reason: landed.clone(), ..Note::default() })?;
        Ok(LandingEnd::Refused {
            why: format!("{why}\n\nThis item is {landed}; only the rest needs fixing."),
            tips,
        })
    }

    /// Returns the current tips of the branches, and sets them in the clone of an item.
    pub(crate) fn tell_tips(&self, state: &State, item: &str) -> Result<Base, WorkflowError> {
        let tips = self.tips()?;
        self.slots.point_at_tips(state, item, &self.repositories, &tips)?;
        Ok(tips)
    }

    /// Tells whether a branch no longer contains where work on an item began.
    pub(crate) fn is_dropped(&self, base: &Base, tips: &Base) -> Result<bool, WorkflowError> {
        for repository in &self.repositories {
            let name = key(&repository.name);
            if let (Some(base), Some(tip)) = (base.get(&name), tips.get(&name))
                && !repository.contains(&object(tip), &object(base))?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Explains how to redo the change on the current branches. A merge would bring back what the person dropped.
    fn how_to_begin_anew(&self, request: &LandingRequest<'_>) -> Result<String, WorkflowError> {
        let mut picks = Vec::new();
        for repository in &self.repositories {
            let work = request.works.iter().find(|work| work.repository == repository.name);
            let base = request.base.get(&key(&repository.name));
            let (Some(work), Some(base)) = (work, base) else { continue };
            let change =
                repository.landing().detached_change(&object(base), &object(&work.commit))?;
            let place = if repository.name.is_empty() {
                String::new()
            } else {
                format!(" in `{}`", repository.name)
            };
            picks.push(format!("`git cherry-pick {change}`{place}"));
        }
        Ok(format!(
            "The person has rewritten the branch or moved it back, and your clone was recreated at its new tip. Apply \
             your change there ({}), resolve what conflicts, make sure that everything passes, commit, and claim the \
             result as before.",
            picks.join(", ")
        ))
    }

    /// Commits what is in flight of home to the branch, in one commit.
    pub(crate) fn publish(
        &self,
        session: &mut Session<'_>,
        message: &str,
        with: &[&Utf8Path],
    ) -> Result<(), WorkflowError> {
        self.publish_while(session, |draft, state| {
            let changes = draft.in_flight(state, with)?;
            Ok((!changes.is_empty()).then(|| (message.to_owned(), changes)))
        })
    }

    /// Commits what is in flight of home to the branch, each change under its own message.
    pub(crate) fn publish_each(&self, session: &mut Session<'_>) -> Result<(), WorkflowError> {
        self.publish_while(session, |draft, state| Ok(draft.steps(state)?.into_iter().next()))
    }

    /// Commits home to the branch for as long as there is something to commit.
    ///
    /// What is in flight is computed from the tip that it lands on: a commit of the person's in between is merged first.
    fn publish_while(
        &self,
        session: &mut Session<'_>,
        next: impl Fn(&HomeDraft, &State) -> Result<Option<(String, Vec<HomeChange>)>, WorkflowError>,
    ) -> Result<(), WorkflowError> {
        let (Some(draft), Some(repository)) = (&self.draft, self.with_home()) else {
            return Ok(());
        };
        let mut races = 0;
        let mut has_moved = false;
        while races < RACES {
            self.take_up_newer(session)?;
            let state = &session.context.state;
            let Some((message, changes)) = next(draft, state)? else {
                self.clear_in_flight()?;
                break;
            };
            let Some(tip) = repository.tip()? else { break };
            let is_current = self.is_seen(state, &tip)?;
            let home = draft.edits(&changes)?;
            let (base, candidate) = (None, None);
            let (signing, message) = (self.signing, message.as_str());
            let request = JoinRequest { tip: &tip, base, candidate, home: &home, message, signing };
            let Joined::Commit(joined) = repository.join(&request)? else { break };
            let landable = joined.known().expect("home alone is not measured");
            if is_current && repository.advance(&tip, &landable, &[])? == LandOutcome::Landed {
                draft.published(state, &joined.commit, &changes)?;
                has_moved = true;
            } else {
                races += 1;
                self.sync(state)?;
            }
        }
        if has_moved && let Some(waits) = self.follow_one(repository)? {
            session.record(Note { reason: waits, ..Note::default() })?;
        }
        Ok(())
    }

    /// Lets every branch follow what has landed, and completes what a crash cut short of that.
    pub(crate) fn follow_all(&self) -> Result<(), WorkflowError> {
        for repository in &self.repositories {
            self.follow_one(repository)?;
        }
        Ok(())
    }

    /// Lets every branch follow when the workflow ends, if that is when they are to.
    pub(crate) fn follow_at_end(&self) -> Result<Vec<String>, WorkflowError> {
        let mut waits = Vec::new();
        if self.follow == Follow::End {
            for repository in &self.repositories {
                waits.extend(repository.follow(THEN_LAND)?);
            }
        }
        Ok(waits)
    }

    /// Lets the person's branch follow what has landed, where that disturbs nothing; returns why it waits.
    pub(super) fn follow_one(
        &self,
        repository: &PersonsRepository,
    ) -> Result<Option<String>, WorkflowError> {
        match self.follow {
            Follow::Clean => repository.follow(THEN_LAND),
            Follow::End | Follow::Never => Ok(None),
        }
    }
}

/// Compares what was measured of merges with what is to be said of them.
fn compare(
    session: &Session<'_>,
    request: &LandingRequest<'_>,
    measured: &[(BeforeAll, Case)],
) -> Result<MergeStanding, WorkflowError> {
    let merge = MergeRequest {
        item: request.item,
        works: request.works,
        level: request.level,
        asked: request.asked,
        after: request.after,
        is_persons_word: request.is_persons_word,
    };
    let cases: Vec<&Case> = measured.iter().map(|(_, case)| case).collect();
    Ok(merge_review::compare(&session.context.state, &merge, &cases)?)
}

/// Puts a receipt on each merge that was measured.
fn attest(
    session: &Session<'_>,
    slot: &Repositories,
    request: &LandingRequest<'_>,
    measured: &[(BeforeAll, Case)],
) -> Result<(), WorkflowError> {
    let context = &session.context;
    let attested = attestation(context, request.item, request.worker, None, AgreedChecks::Nobody);
    for (before, case) in measured {
        let cases = std::slice::from_ref(case);
        slot.attest(&context.gates(request.item), before, request.pinned, cases, &attested)?;
    }
    Ok(())
}

/// Measures merges that hold more than what was judged, or says what is wrong with one.
fn measure(
    session: &mut Session<'_>,
    slot: &Repositories,
    request: &LandingRequest<'_>,
    prepared: &[Prepared<'_>],
) -> Result<Result<Measured, Obstacle>, WorkflowError> {
    let mut measured = Measured { cases: Vec::new(), landable: Vec::new() };
    for one in prepared {
        if let Some(known) = one.joined.known() {
            measured.landable.push(known);
            continue;
        }
        let before = request.before.with_base(&one.repository.name, &one.tip.commit);
        let (commit, repository) = (commit_id(&one.joined.commit), one.repository.name.clone());
        let said = Said::Work(Work { commit, repository });
        let case = session.with_gates(request.item, |context, tell| {
            slot.examine(context, &before, request.pinned, &said, tell)
        })?;
        match case.verdict(&VerifierReport::NotAsked) {
            // What only a verifier or a person can settle was settled for the work itself.
            Ok(Verdict::Accepted { .. } | Verdict::NeedsHuman { .. }) => {
                let landable = LandableCommit::measured(&one.joined, &case);
                measured.landable.push(landable.expect("this commit was examined"));
                measured.cases.push((before, case));
            }
            Ok(Verdict::Rejected { reasons }) => return Ok(Err(Obstacle::Rejected { reasons })),
            Ok(Verdict::PlanInvalid { .. }) => {
                return Ok(Err(Obstacle::Rejected { reasons: Vec::new() }));
            }
            Err(trouble) => return Err(WorkflowError::Measure(trouble)),
        }
    }
    Ok(Ok(measured))
}
