//! The specs in their order, read again before each: a person may add, change and remove some while others are at work.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::journal::{JournalEvent, WorkflowFields, WorkflowKind};
use ralph_model::spec::name::SpecPath;

use super::{Pipeline, SpecEnd, none};
use crate::specs;
use crate::workflow::WorkflowError;

/// Which specs are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All of them, up to one if it is named.
    All {
        to: Option<SpecPath>,
    },
    Named(Vec<SpecPath>),
}

/// The specs of one home that are to be worked on.
#[derive(Clone, Debug)]
pub struct Queue {
    pub specs: Utf8PathBuf,
    pub selection: Selection,
    /// Whether what is in a spec is looked at before it is worked on.
    pub validate: bool,
}

impl Queue {
    /// Returns those that are there now, in their order.
    pub fn now(&self) -> Vec<SpecPath> {
        match &self.selection {
            Selection::Named(named) => named.clone(),
            Selection::All { to } => {
                let mut found = specs::discover(&self.specs).specs;
                if let Some(end) =
                    to.as_ref().and_then(|to| found.iter().position(|spec| spec == to))
                {
                    found.truncate(end + 1);
                }
                found
            }
        }
    }

    fn problem(&self, spec: &SpecPath) -> Option<String> {
        let loaded = specs::load(&self.specs, spec);
        loaded.err().filter(|_| self.validate).map(|problem| problem.to_string())
    }

    pub fn directory(&self) -> &Utf8Path {
        &self.specs
    }
}

/// What came of a run of the pipeline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipelineReport {
    pub ends: Vec<(SpecPath, SpecEnd)>,
    /// Specs that were not reached.
    pub left: usize,
}

impl PipelineReport {
    pub fn count(&self, is: impl Fn(&SpecEnd) -> bool) -> usize {
        self.ends.iter().filter(|(_, end)| is(end)).count()
    }
}

impl Pipeline<'_, '_, '_> {
    /// Returns who plays which role, or the one agent that plays them all.
    fn agents(&self) -> String {
        let launches = self.desk.launches;
        let mut names: Vec<&str> =
            launches.iter().map(|(_, launch)| launch.choice.name.as_str()).collect();
        names.dedup();
        if let [only] = names.as_slice() {
            return (*only).to_owned();
        }
        let each = launches.iter().map(|(role, launch)| format!("{role}: {}", launch.choice.name));
        each.collect::<Vec<_>>().join(", ")
    }

    /// Works on one spec after the other.
    pub fn run(&mut self, queue: &Queue) -> Result<PipelineReport, WorkflowError> {
        let start = WorkflowFields {
            total: Some(queue.now().len()),
            magic_phrase: Some(self.options.magic_phrase.clone()),
            max_attempts: Some(self.options.max_attempts),
            agent: Some(self.agents()),
            boundary: Some(self.desk.boundary.as_str().to_owned()),
            force: self.options.forced.iter().map(ToString::to_string).collect(),
            ..none()
        };
        self.desk.tell(WorkflowKind::RunStart, start, &mut *self.observer)?;
        self.keeper.prepare()?;
        // A Ralph that died between a write and its commit left this to the next one.
        if self.is_where_work_began()?
            && let Err(problem) = self.keeper.commit("ralph: what was left to commit")
        {
            let reason = Some(format!("Ralph's files are not committed: {problem}"));
            let fields = WorkflowFields { reason, ..none() };
            self.desk.tell(WorkflowKind::Note, fields, &mut *self.observer)?;
        }
        let mut handled = BTreeSet::new();
        let mut report = PipelineReport::default();
        loop {
            let specs = queue.now();
            report.left = specs.iter().filter(|spec| !handled.contains(*spec)).count();
            let Some(at) = specs.iter().position(|spec| !handled.contains(spec)) else { break };
            let spec = &specs[at];
            let place = WorkflowFields { index: Some(at + 1), total: Some(specs.len()), ..none() };
            self.tell(spec, WorkflowKind::SpecQueue, place)?;
            let end = match queue.problem(spec) {
                Some(problem) => {
                    let fields = WorkflowFields { reason: Some(problem.clone()), ..none() };
                    self.tell(spec, WorkflowKind::SpecFailed, fields)?;
                    SpecEnd::Unusable { problem }
                }
                None => self.work(spec)?,
            };
            let result = WorkflowFields { result: Some(end.name().to_owned()), ..none() };
            self.tell(spec, WorkflowKind::SpecResult, result)?;
            handled.insert(spec.clone());
            report.left -= 1;
            let goes_on = match end {
                SpecEnd::Done { .. } | SpecEnd::Skipped { .. } => true,
                SpecEnd::Failed { .. }
                | SpecEnd::Stuck { .. }
                | SpecEnd::Unusable { .. }
                | SpecEnd::Waiting { .. } => self.options.keep_going,
                SpecEnd::Limited { .. } | SpecEnd::OutOfBudget(_) | SpecEnd::Interrupted => false,
            };
            report.ends.push((spec.clone(), end));
            if !goes_on {
                let reason = Some(format!("after {spec}"));
                let fields = WorkflowFields { reason, ..none() };
                self.tell(spec, WorkflowKind::RunStopped, fields)?;
                break;
            }
        }
        let failed = |end: &SpecEnd| {
            matches!(end, SpecEnd::Failed { .. } | SpecEnd::Stuck { .. } | SpecEnd::Unusable { .. })
        };
        let counts = WorkflowFields {
            completed_count: Some(report.count(|end| matches!(end, SpecEnd::Done { .. }))),
            skipped_count: Some(report.count(|end| matches!(end, SpecEnd::Skipped { .. }))),
            failed_count: Some(report.count(failed)),
            waiting_count: Some(report.count(|end| matches!(end, SpecEnd::Waiting { .. }))),
            ..none()
        };
        self.desk.tell(WorkflowKind::RunComplete, counts, &mut *self.observer)?;
        if report.ends.iter().any(|(_, end)| *end == SpecEnd::Interrupted) {
            self.desk.journal(JournalEvent::Interrupted)?;
        }
        Ok(report)
    }
}
