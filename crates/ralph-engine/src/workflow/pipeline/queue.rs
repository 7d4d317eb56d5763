//! The specs in their order, read again before each: a person may add, change and remove some while others are at work.

use std::collections::BTreeSet;

use camino::Utf8PathBuf;
use ralph_model::journal::{
    RunComplete, RunError, RunStart, RunStopped, SpecFailed, SpecQueue, SpecResult,
};
use ralph_model::plan::Plan;
use ralph_model::role::Role;
use ralph_model::spec::name::SpecPath;

use super::list::is_built;
use super::{Pipeline, Skip, SpecEnd};
use crate::files::{PathError, disk, read_optional};
use crate::plan_file::PLAN_FILE;
use crate::specs::{self, SpecProblem};
use crate::workflow::driver::Stop;
use crate::workflow::{WorkflowError, with_causes};

/// Which specs are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All of them, up to one if it is named.
    All {
        to: Option<SpecPath>,
    },
    Named(Vec<SpecPath>),
}

impl Selection {
    /// Tells whether a spec was asked for by its name.
    pub fn names(&self, spec: &SpecPath) -> bool {
        matches!(self, Selection::Named(named) if named.contains(spec))
    }

    /// Returns the specs that are meant, in their order.
    pub fn among(&self, all: impl FnOnce() -> Vec<SpecPath>) -> Vec<SpecPath> {
        match self {
            Selection::Named(named) => named.clone(),
            Selection::All { to } => {
                let mut found = all();
                let end = to.as_ref().and_then(|to| found.iter().position(|spec| spec == to));
                found.truncate(end.map_or(found.len(), |end| end + 1));
                found
            }
        }
    }
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
    /// Returns those that are there now, in their order. A directory that cannot be read is not one without specs: all of
    /// them would count as done.
    pub(crate) fn now(&self) -> Result<Vec<SpecPath>, WorkflowError> {
        let mut hidden = None;
        let found = self.selection.among(|| {
            let backlog = specs::discover(&self.specs);
            hidden = backlog.problems.into_iter().find(SpecProblem::hides_specs);
            backlog.specs
        });
        match hidden {
            Some(SpecProblem::Unreadable { path, cause }) => {
                Err(PathError::new("read", &path, cause).into())
            }
            _ => Ok(found),
        }
    }

    fn problem(&self, spec: &SpecPath) -> Option<SpecProblem> {
        // A spec that is done is not read again.
        if disk::exists(&self.specs.join(spec.done())) {
            return None;
        }
        specs::load(&self.specs, spec).err().filter(|_| self.validate)
    }
}

/// The result of a run of the pipeline.
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

impl Pipeline<'_, '_> {
    /// Works on one spec after the other.
    pub fn run(&mut self, queue: &Queue) -> Result<PipelineReport, WorkflowError> {
        let report = self.work_all(queue);
        if let Err(error) = &report {
            self.session.ending = None;
            self.session.record(RunError { error: with_causes(error) })?;
        }
        report
    }

    fn run_start(&self, total: usize) -> RunStart {
        let context = &self.session.context;
        let launch = context.launch(Role::Implementer);
        let home = context.home_path();
        let below = |name: &str| Some(home.join(name).to_string());
        RunStart {
            total: total as u64,
            magic_phrase: self.options.magic_phrase.clone(),
            max_attempts: self.options.max_attempts,
            agent: context.agents(),
            exe: launch.executable.as_ref().map(ToString::to_string),
            args: launch.choice.args.clone(),
            boundary: context.boundary.told(),
            force: self.options.forced.iter().map(ToString::to_string).collect(),
            workspace_root: Some(context.workspace.root.to_string()),
            ralph_home: Some(home.to_string()),
            specs_root: below("specs"),
            plans_root: below("specs/plans"),
            candidates_root: below("specs/candidates"),
            done_root: below("specs/done"),
            sessions_root: below("specs/sessions"),
            runs_root: below("runs"),
        }
    }

    fn work_all(&mut self, queue: &Queue) -> Result<PipelineReport, WorkflowError> {
        let start = self.run_start(queue.now()?.len());
        self.session.record(start)?;
        self.project.committer.prepare()?;
        // A Ralph that died between a write and its commit left this to the next one.
        if self.project.is_where_work_began(self.session, Role::Implementer)? {
            self.project.commit_left(self.session)?;
        }
        let mut handled = BTreeSet::new();
        let mut report = PipelineReport::default();
        loop {
            self.project.sync(self.session)?;
            let specs = queue.now()?;
            self.pass_over_done(&specs, &mut handled, &mut report)?;
            report.left = specs.iter().filter(|spec| !handled.contains(*spec)).count();
            let Some(at) = specs.iter().position(|spec| !handled.contains(spec)) else { break };
            let spec = &specs[at];
            let (index, total) = (at as u64 + 1, specs.len() as u64);
            self.session.record(SpecQueue { spec: spec.to_string(), index, total })?;
            let end = self.work_or_unusable(queue, spec)?;
            let result = end.name().to_owned();
            self.session.record(SpecResult { spec: spec.to_string(), result })?;
            handled.insert(spec.clone());
            report.left -= 1;
            let goes_on = match &end {
                SpecEnd::Done { .. } | SpecEnd::Skipped(_) | SpecEnd::Removed => true,
                SpecEnd::Failed { .. }
                | SpecEnd::Unusable { .. }
                | SpecEnd::Stopped(
                    Stop::Stuck { .. }
                    | Stop::TooMuchTrouble { .. }
                    | Stop::Waiting { .. }
                    | Stop::Unexplained { .. }
                    | Stop::Declined { .. },
                ) => self.options.keep_going,
                SpecEnd::Stopped(
                    Stop::Limited { .. } | Stop::OutOfBudget(_) | Stop::Interrupted,
                ) => false,
            };
            report.ends.push((spec.clone(), end));
            if !goes_on {
                let reason = format!("after {spec}");
                self.session.record(RunStopped { spec: spec.to_string(), reason })?;
                break;
            }
        }
        // Files that were only put in order belong to no spec that was worked on.
        self.project.publish(self.session, "ralph: update home", &[])?;
        self.project.follow_at_end(self.session)?;
        self.session.record(RunComplete {
            completed_count: report.count(|end| matches!(end, SpecEnd::Done { .. })) as u64,
            skipped_count: report.count(|end| matches!(end, SpecEnd::Skipped(_))) as u64,
            failed_count: report.count(SpecEnd::is_failure) as u64,
            waiting_count: report.count(SpecEnd::is_waiting) as u64,
        })?;
        self.session.ending = Some(match report.ends.last() {
            Some((_, end)) if report.left > 0 || matches!(end, SpecEnd::Stopped(_)) => end.name(),
            _ => "completed",
        });
        Ok(report)
    }

    /// Passes over the specs that come next and are done, without a look at the rest of home for each of them.
    fn pass_over_done(
        &mut self,
        specs: &[SpecPath],
        handled: &mut BTreeSet<SpecPath>,
        report: &mut PipelineReport,
    ) -> Result<(), WorkflowError> {
        let total = specs.len() as u64;
        for (at, spec) in specs.iter().enumerate() {
            if handled.contains(spec) {
                continue;
            }
            let Some(markers) = self.plainly_done(spec) else { break };
            self.session.record(SpecQueue {
                spec: spec.to_string(),
                index: at as u64 + 1,
                total,
            })?;
            let end = self.pass_over(spec, &markers)?;
            let result = end.name().to_owned();
            self.session.record(SpecResult { spec: spec.to_string(), result })?;
            handled.insert(spec.clone());
            report.ends.push((spec.clone(), end));
        }
        Ok(())
    }

    /// Tells whether `ralph build` has done what `ralph plan` made of a spec that the pipeline has not begun.
    fn is_built(&self, spec: &SpecPath) -> Result<bool, WorkflowError> {
        if self.options.forced.contains(spec) {
            return Ok(false);
        }
        let bytes = read_optional(&self.project.home().join(PLAN_FILE))?.unwrap_or_default();
        let context = &self.session.context;
        let branch = self.project.run_branch()?;
        let place = context.plan_place(Some(&branch));
        Ok(is_built(&self.store, spec, &Plan::parse(&bytes), Some(&context.state), &place)?)
    }

    /// Works on a spec. One whose files cannot be used stops only itself.
    fn work_or_unusable(
        &mut self,
        queue: &Queue,
        spec: &SpecPath,
    ) -> Result<SpecEnd, WorkflowError> {
        let problem = match queue.problem(spec) {
            // It may be written while other specs are at work.
            Some(draft) if draft.is_draft() && !queue.selection.names(spec) => {
                return self.skip(spec, Skip::Draft { problem: draft.to_string() });
            }
            Some(problem) => problem.to_string(),
            None if !queue.selection.names(spec) && self.is_built(spec)? => {
                return self.skip(spec, Skip::Built);
            }
            None => match self.work(spec) {
                Err(error @ (WorkflowError::StateFile { .. } | WorkflowError::NotHere { .. })) => {
                    error.to_string()
                }
                result => return result,
            },
        };
        let reason = problem.clone();
        self.session.record(SpecFailed { spec: spec.to_string(), reason })?;
        Ok(SpecEnd::Unusable { problem })
    }
}
