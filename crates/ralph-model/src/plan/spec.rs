//! The current spec, and the fate of the previous spec's tasks.

use super::edit::{MemberEdit, NewRecord};
use super::task_fields::Status;
use super::{Change, Plan, PlanError, Record, Task, Unfinished};

impl Plan<'_> {
    /// Sets the current spec; setting the same one changes nothing.
    ///
    /// Tasks of another spec block the change until they are cancelled. Tasks of the new spec and all issues stay;
    /// tombstones are removed with their spec.
    pub fn set_spec(&mut self, spec: &str, unfinished: Unfinished) -> Result<Change, PlanError> {
        self.writable()?;
        if spec.trim().is_empty() || spec.contains(char::is_control) {
            return Err(PlanError::BadSpec { spec: spec.to_owned() });
        }
        if self.spec() == Some(spec) {
            return Ok(Change::Nothing);
        }
        let in_the_way = self.unfinished_but(spec);
        if unfinished == Unfinished::Refuse && !in_the_way.is_empty() {
            return Err(PlanError::Unfinished { tasks: in_the_way });
        }
        let cancelled = self.remove_tasks(|of| of != spec);
        self.document.remove(|_, line| matches!(line.record, Record::Reject { .. }));
        let is_spec = |line: &super::Line<'_>| matches!(line.record, Record::Spec { .. });
        if let Some(at) = self.document.lines.iter().rposition(is_spec) {
            self.document.edit(at, &[MemberEdit::text("spec", spec)]);
        } else {
            let record = NewRecord::new("spec").with(MemberEdit::text("spec", spec));
            self.document.insert(&[record]);
        }
        Ok(self.finish(Change::SpecSet { spec: spec.to_owned(), cancelled }))
    }

    /// Returns the tasks of all specs that are not accepted, pending ones first.
    pub fn unfinished(&self) -> Vec<Task<'_>> {
        let tasks = self.document.lines.iter().filter_map(super::Line::task);
        let mut tasks: Vec<_> = tasks.filter(|task| task.status != Status::Accepted).collect();
        tasks.sort_by_key(|task| task.status == Status::Done);
        tasks
    }

    /// Whether a spec can become the current one without removing anything.
    pub fn can_keep_all_for(&self, spec: &str) -> bool {
        self.spec() == Some(spec) || self.unfinished_but(spec).is_empty()
    }

    /// Returns the ids of the pending and done tasks of all other specs.
    pub(crate) fn unfinished_but(&self, spec: &str) -> Vec<String> {
        let heads = self.document.lines.iter().filter_map(super::Line::head);
        heads
            .filter(|head| head.spec != spec && head.status != Status::Accepted)
            .map(|head| head.id.clone().into_owned())
            .collect()
    }
}
