//! The loop's record on disk, and the machine's writes.

use ralph_model::phase::mailbox::{self, CLEARED, HISTORY, ORIGIN};
use ralph_model::phase::{LoopFact, LoopPlace, LoopRecord, LoopStanding, LoopWrite, heal, settle};
use ralph_model::pipeline::records::Base;

use super::gates::DETECTED;
use super::{Phased, item_of};
use crate::gates::pin::PinnedGates;
use crate::state::Entry;
use crate::workflow::WorkflowError;
use crate::workflow::driver::forget_troubles;
use crate::workflow::isolation::landing::take_in;
use crate::workflow::repositories::BEFORE;

pub(super) const LOOPS: Entry<LoopRecord> = Entry::new("loop", "the task of the loop starts over");

/// There is one loop in a workspace.
pub(super) const KEY: &str = "loop";

impl Phased<'_, '_> {
    pub(super) fn record(&self) -> Result<Option<LoopRecord>, WorkflowError> {
        Ok(LOOPS.load(&self.session.context.state, KEY)?)
    }

    /// Writes what a fact comes to.
    pub(super) fn settle(&mut self, fact: &LoopFact) -> Result<(), WorkflowError> {
        let record = self.record()?;
        let writes = settle(record.as_ref(), fact, self.bounds)?;
        self.write_all(&writes)
    }

    /// Completes the writes that a crash cut short.
    pub(super) fn heal(&mut self) -> Result<(), WorkflowError> {
        let Some(record) = self.record()? else { return Ok(()) };
        self.enter_task(&record)?;
        self.write_all(&heal(&record))
    }

    /// Writes a list. Where the branch refuses accepted work, the rest of it is replaced by what follows from that.
    fn write_all(&mut self, writes: &[LoopWrite]) -> Result<(), WorkflowError> {
        for write in writes {
            if matches!(write, LoopWrite::AdvanceBranches { .. })
                && let Some((refused, tips)) = self.advance()?
            {
                self.settle(&refused)?;
                return match refused {
                    LoopFact::LandingRefused { .. } if !tips.is_empty() => self.go_on_from(&tips),
                    _ => Ok(()),
                };
            }
            self.write(write)?;
        }
        Ok(())
    }

    /// Takes accepted work to where it belongs. Returns what follows where the branch refuses it.
    fn advance(&mut self) -> Result<Option<(LoopFact, Base)>, WorkflowError> {
        let Some(record) = self.record()? else { return Ok(None) };
        let LoopStanding::Accepted { acceptance, .. } = &record.standing else { return Ok(None) };
        if record.place == LoopPlace::Slot {
            return self.land(&record, acceptance);
        }
        let end = take_in(&self.project.repositories, acceptance)?;
        self.after_landing(&record, end)
    }

    fn write(&mut self, write: &LoopWrite) -> Result<(), WorkflowError> {
        match write {
            LoopWrite::Record(record) => {
                LOOPS.save(&self.session.context.state, KEY, record)?;
            }
            LoopWrite::ArchivePlans { task, files } => {
                for file in files {
                    self.mailbox.archive(file, *task)?;
                    self.note(format!("{file} belonged to task {task}, and is in archive/ now"))?;
                }
            }
            LoopWrite::BeginMailbox { task } => {
                self.mailbox.make_ready()?;
                for name in CLEARED {
                    self.mailbox.remove(name)?;
                }
                let origin = mailbox::origin(self.mailbox.read(ORIGIN).as_deref(), task);
                self.mailbox.write(ORIGIN, &origin)?;
            }
            LoopWrite::Snapshot { task, point } => match self.record()? {
                Some(record) if record.place == LoopPlace::Slot => self.mark(&record, *point)?,
                _ => self.snapshot(*task, *point)?,
            },
            // Done by the list itself, as it may end there.
            LoopWrite::AdvanceBranches { .. } => {}
            LoopWrite::AppendHistory { task, what } => {
                self.mailbox.make_ready()?;
                let earlier = self.mailbox.read(HISTORY).unwrap_or_default();
                self.mailbox.write(HISTORY, &mailbox::history(&earlier, *task, what))?;
            }
            LoopWrite::ForgetBeginning { task } => {
                let item = item_of(*task);
                let state = &self.session.context.state;
                PinnedGates::forget(state, &item)?;
                DETECTED.forget(state, &item)?;
                BEFORE.forget(state, &item)?;
                forget_troubles(state, &item)?;
                self.leave(&item)?;
            }
            LoopWrite::RollBack { task } => match self.record()? {
                Some(record) if record.place == LoopPlace::Slot => self.give_up(&record)?,
                _ => self.put_tree_back(*task)?,
            },
        }
        Ok(())
    }

    /// Writes the harness's own files of the mailbox, whatever became of them.
    pub(super) fn write_mirror(&self, record: &LoopRecord) -> Result<(), WorkflowError> {
        self.mailbox.make_ready()?;
        for (name, text) in mailbox::mirror(record) {
            match text {
                Some(text) => self.mailbox.write(name, &text)?,
                None => self.mailbox.remove(name)?,
            }
        }
        Ok(())
    }
}
