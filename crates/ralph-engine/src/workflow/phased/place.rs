//! Where a task is worked on: in its slot, with a mailbox of its own, or in the person's checkout.
//!
//! A task stays where it began. In a slot the mailbox is copied in when the task is entered and out at each end and wait;
//! accepted work lands, and is landed when the tip of the run's branch leads to it.

use camino::Utf8Path;
use ralph_model::build::Acceptance;
use ralph_model::phase::mailbox::PASSING;
use ralph_model::phase::{LoopFact, LoopPlace, LoopRecord, LoopStanding, SnapshotPoint};
use ralph_model::pipeline::records::Base;
use ralph_model::role::Role;

use super::work::snapshot_ref;
use super::{Phased, item_of};
use crate::gates::pin::PinnedGates;
use crate::mailbox::exchange::{Agreed, Direction, exchange};
use crate::mailbox::{Mailbox, MailboxState, inspect};
use crate::state::Entry;
use crate::workflow::WorkflowError;
use crate::workflow::isolation::landing::{
    LandingEnd, LandingMarks, LandingRequest, MOST_REFUSED, stuck_question,
};
use crate::workflow::isolation::marks::{RevertEnd, RevertRequest};
use crate::workflow::isolation::slots;
use crate::workflow::merge_review::ASKED_FIRST;
use crate::workflow::repositories::{BEFORE, key};
use crate::workflow::review;

/// What the mailboxes of a task agreed on.
const AGREED: Entry<Agreed> = Entry::new("loop-mail", "the mailboxes are compared from scratch");

impl Phased<'_, '_> {
    /// The directory used in place of the workspace.
    pub(super) fn root(&self) -> &Utf8Path {
        match &self.session.slot {
            Some(slot) if self.entered.is_some() => &slot.root,
            _ => &self.session.context.workspace.root,
        }
    }

    /// Where a task that begins now is worked on.
    pub(super) fn place(&self) -> LoopPlace {
        if self.project.is_in_place() { LoopPlace::Checkout } else { LoopPlace::Slot }
    }

    /// Opens the slot of a task that is at work, with its mailbox.
    pub(super) fn enter_task(&mut self, record: &LoopRecord) -> Result<(), WorkflowError> {
        let is_at_work = !record.is_over()
            && !matches!(
                record.standing,
                LoopStanding::Beginning { .. } | LoopStanding::RollingBack
            );
        if is_at_work && record.place == LoopPlace::Slot {
            self.enter(&item_of(record.task.number))?;
        }
        Ok(())
    }

    pub(super) fn enter(&mut self, item: &str) -> Result<(), WorkflowError> {
        if self.project.is_in_place() || self.entered.as_deref() == Some(item) {
            return Ok(());
        }
        self.project.enter_slot(self.session, item)?;
        let Some(slot) = &self.session.slot else { return Ok(()) };
        let context = &self.session.context;
        let persons = self.persons_mailbox.path();
        let inside = persons.strip_prefix(&context.workspace.root).unwrap_or(".ralph".into());
        self.mailbox = Mailbox::new(&slot.root.join(inside));
        self.entered = Some(item.to_owned());
        self.mailbox.unlock();
        // Of a mailbox that is not there any more nothing was agreed on: it begins as the person has it.
        if inspect(self.mailbox.path())? != MailboxState::Ours {
            AGREED.forget(&context.state, item)?;
        }
        self.mailbox.make_ready()?;
        self.exchange(Direction::In)
    }

    /// Brings the mailboxes of workspace and slot in step.
    pub(super) fn exchange(&mut self, direction: Direction) -> Result<(), WorkflowError> {
        let Some(item) = self.entered.clone() else { return Ok(()) };
        let state = &self.session.context.state;
        let mut agreed = AGREED.load(state, &item)?.unwrap_or_default();
        let (persons, own) = (&self.persons_mailbox, &self.mailbox);
        let told = exchange(persons, own, &mut agreed, &PASSING, direction)?;
        AGREED.save(state, &item, &agreed)?;
        for name in told.kept {
            self.note(format!(
                "you changed a file of the mailbox during the run: your version is in {name}"
            ))?;
        }
        if direction == Direction::Out && !told.left_out.is_empty() {
            let names: Vec<&str> = told.left_out.iter().take(10).map(String::as_str).collect();
            self.note(format!("not copied from the slot's mailbox: {}", names.join(", ")))?;
        }
        Ok(())
    }

    /// Goes back to the person's mailbox. The slot stays the task's.
    pub(super) fn step_out(&mut self) -> Result<(), WorkflowError> {
        self.exchange(Direction::Out)?;
        self.mailbox = self.persons_mailbox.clone();
        self.entered = None;
        Ok(())
    }

    /// Gives the slot of a task back.
    pub(super) fn leave(&mut self, item: &str) -> Result<(), WorkflowError> {
        if self.entered.as_deref() == Some(item) {
            self.step_out()?;
        }
        let state = &self.session.context.state;
        AGREED.forget(state, item)?;
        Ok(slots::release(state, item)?)
    }

    /// Puts accepted work on the run's branch. Returns the consequence if the branch refuses it, and its position.
    pub(super) fn land(
        &mut self,
        record: &LoopRecord,
        acceptance: &Acceptance,
    ) -> Result<Option<(LoopFact, Base)>, WorkflowError> {
        let task = record.task.number;
        let item = item_of(task);
        let works = acceptance.works.as_slice();
        if works.is_empty() {
            return Ok(None);
        }
        let Some(before) = self.project.before_landing(self.session, &item, works)? else {
            return Ok(None);
        };
        let base = self.project.slot_base(self.session, &item)?.unwrap_or_else(|| before.base());
        let marks = LandingMarks {
            before: snapshot_ref(task, SnapshotPoint::Before),
            after: snapshot_ref(task, SnapshotPoint::After),
        };
        // It has moved if the branch refused the work before.
        self.project.mark(&marks.before, &base)?;
        let pinned = self.pin(&item)?;
        // The loop's own gates look at what the task did, not at what came with a merge.
        let mut gates = pinned.gates.clone();
        gates.retain(|gate| gate.built_in().is_none());
        let pinned = PinnedGates { gates, ..pinned };
        let title = record.task.text.lines().next().unwrap_or_default();
        let title: String = title.chars().take(60).collect();
        let message = format!("ralph: land task {task} of the loop\n\n{title}\n");
        let asked = review::asked_gates(&self.session.context.state, &item, works)?;
        let request = LandingRequest {
            item: &item,
            works,
            base: &base,
            before: &before,
            pinned: &pinned,
            level: acceptance.level,
            asked: &asked,
            after: None,
            is_persons_word: false,
            files: &|_| Ok(Vec::new()),
            with: &[],
            given: &[],
            marks: Some(&marks),
            message: &message,
            worker: Role::Builder,
        };
        let end = self.project.land(self.session, &request)?;
        self.after_landing(record, end)
    }

    /// Returns what follows from a landing that did not take place.
    pub(super) fn after_landing(
        &mut self,
        record: &LoopRecord,
        end: LandingEnd,
    ) -> Result<Option<(LoopFact, Base)>, WorkflowError> {
        Ok(match end {
            LandingEnd::Landed { .. } | LandingEnd::Nothing => None,
            LandingEnd::Refused { why, tips } => Some((self.landing_refused(record, why)?, tips)),
            LandingEnd::Unsettled { .. } => {
                let question = ASKED_FIRST.to_owned();
                Some((LoopFact::LandingUnsettled { question }, Base::new()))
            }
        })
    }

    /// Returns what follows where the branch refuses accepted work.
    fn landing_refused(
        &mut self,
        record: &LoopRecord,
        why: String,
    ) -> Result<LoopFact, WorkflowError> {
        let first = why.lines().next().unwrap_or_default();
        self.note(format!("the work could not land: {first}"))?;
        if record.landings_refused + 1 >= MOST_REFUSED {
            let question = stuck_question(None, &why);
            return Ok(LoopFact::LandingStuck { question });
        }
        Ok(LoopFact::LandingRefused { why })
    }

    /// Lets a task whose work could not land continue from the current branches; its mailbox is copied along.
    pub(super) fn go_on_from(&mut self, tips: &Base) -> Result<(), WorkflowError> {
        let Some(item) = self.entered.clone() else { return Ok(()) };
        self.step_out()?;
        self.project.go_on_from(self.session, &item, tips)?;
        self.enter(&item)
    }

    /// Does the same where the branches were not looked at since.
    pub(super) fn go_on_from_tips(&mut self, item: &str) -> Result<(), WorkflowError> {
        self.step_out()?;
        self.project.go_on_from_tips(self.session, item)?;
        self.enter(item)
    }

    /// Keeps the commit that a task began at, or ended with, under a ref.
    pub(super) fn mark(
        &mut self,
        record: &LoopRecord,
        point: SnapshotPoint,
    ) -> Result<(), WorkflowError> {
        let task = record.task.number;
        let name = snapshot_ref(task, point);
        let commits = match (&record.standing, point) {
            (_, SnapshotPoint::Before) => {
                let item = item_of(task);
                self.enter(&item)?;
                self.project.slot_base(self.session, &item)?.unwrap_or_default()
            }
            (LoopStanding::Accepted { acceptance, .. }, SnapshotPoint::After) => {
                let mut commits =
                    self.project.marked(&snapshot_ref(task, SnapshotPoint::Before))?;
                commits.extend(commits_of(acceptance));
                // What landed says better where it is: work may have been carried over.
                commits.extend(self.project.marked(&name)?);
                commits
            }
            (_, SnapshotPoint::After) => Base::new(),
        };
        self.project.mark(&name, &commits)
    }

    /// Takes landed work back, by a commit that reverts it and lands as any other.
    pub(super) fn revert(
        &mut self,
        task: u32,
        acceptance: &Acceptance,
    ) -> Result<(), WorkflowError> {
        if acceptance.works.is_empty() {
            return Ok(());
        }
        let before = self.project.marked(&snapshot_ref(task, SnapshotPoint::Before))?;
        if before.is_empty() {
            let name = snapshot_ref(task, SnapshotPoint::Before);
            return Err(WorkflowError::Rollback(format!(
                "`{name}` is gone, which says where task {task} began: revert its commits by hand"
            )));
        }
        let mut after: Base = commits_of(acceptance).collect();
        after.extend(self.project.marked(&snapshot_ref(task, SnapshotPoint::After))?);
        let message = format!("ralph: roll back task {task} of the loop");
        let item = item_of(task);
        let request =
            RevertRequest { item: &item, before: &before, after: &after, message: &message };
        match self.project.revert(self.session, &request)? {
            RevertEnd::Reverted => Ok(()),
            RevertEnd::NotThere { branch } => Err(WorkflowError::Rollback(format!(
                "task {task} did not land on `{branch}`, or was removed from it: name its branch with `--onto`"
            ))),
            RevertEnd::Conflict { paths } => Err(WorkflowError::Rollback(format!(
                "later commits changed what task {task} did in {}: revert it by hand",
                paths.join(", ")
            ))),
        }
    }

    /// Keeps what a task did in its slot, which is given up.
    pub(super) fn give_up(&mut self, record: &LoopRecord) -> Result<(), WorkflowError> {
        if record.place == LoopPlace::Checkout {
            return Ok(());
        }
        let item = item_of(record.task.number);
        let base = self.project.slot_base(self.session, &item)?;
        let before = BEFORE.load(&self.session.context.state, &item)?;
        let (Some(base), Some(before)) = (base, before) else { return Ok(()) };
        self.enter(&item)?;
        self.commit_iteration(record, &before)?;
        let works = self.works(&before)?;
        if let Some(name) = self.project.keep_given_up(&item, &works, &base)? {
            self.note(format!("what task {} did is kept in {name}", record.task.number))?;
        }
        Ok(())
    }
}

fn commits_of(
    acceptance: &Acceptance,
) -> impl Iterator<Item = (String, ralph_model::id::CommitId)> {
    acceptance.works.iter().map(|work| (key(&work.repository), work.commit.clone()))
}
