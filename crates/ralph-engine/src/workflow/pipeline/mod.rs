//! The pipeline: one spec after the other through plan, implement, verify, until it is done.
//!
//! [`queue`] takes the specs in their order; [`spec_work`] is the workflow of one spec: it reads the markers, asks the
//! machine what is next, and [`phases`] runs it; [`conclude`] draws the conclusions from what [`examination`] measured.

mod conclude;
pub mod dry_run;
mod examination;
pub mod list;
mod phases;
pub mod queue;
mod spec_work;
pub mod store;

use ralph_model::pipeline::records::Try;
use ralph_model::pipeline::{AttemptLimits, GiveUp};
use ralph_model::proof::LandedLevel;
use ralph_model::spec::name::SpecPath;

use self::store::{SpecStore, whole_second};
use super::WorkflowError;
use super::driver::Stop;
use super::project::Project;
use crate::session::Session;

/// The name of the workflow in the results of its runs.
const WORKFLOW: &str = "pipeline";

/// What the person asked for.
#[derive(Clone, Debug)]
pub struct PipelineOptions {
    pub magic_phrase: String,
    pub max_attempts: u32,
    /// How often in a row an attempt may end in the same way.
    pub repeats: u32,
    pub keep_going: bool,
    /// Specs whose done marker and candidate do not count.
    pub forced: Vec<SpecPath>,
    /// Specs that get their attempts back.
    pub renewed: Vec<SpecPath>,
}

impl PipelineOptions {
    pub(crate) fn limits(&self) -> AttemptLimits {
        AttemptLimits { attempts: self.max_attempts, repeats: self.repeats }
    }
}

/// The pipeline of one home.
pub struct Pipeline<'r, 's> {
    session: &'r mut Session<'s>,
    project: &'r mut Project,
    store: SpecStore,
    options: &'r PipelineOptions,
}

/// How work on one spec ended.
#[derive(Clone, Debug, PartialEq)]
pub enum SpecEnd {
    Done {
        commit: Option<String>,
        level: LandedLevel,
    },
    Skipped(Skip),
    /// No further attempt is made.
    Failed {
        why: GiveUp,
        tries: Vec<Try>,
    },
    /// A person removed the spec while it was worked on.
    Removed,
    /// The spec, or what is on disk about it, cannot be used.
    Unusable {
        problem: String,
    },
    Stopped(Stop),
}

/// Why a spec is passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skip {
    Done {
        changed_since: bool,
    },
    /// It is a template that was not filled in; where it shows that.
    Draft {
        problem: String,
    },
    /// `ralph build` has done all the tasks that it was turned into.
    Built,
}

impl Skip {
    /// Returns the reason, where there is more to say than that it is done.
    pub fn reason(&self) -> Option<String> {
        match self {
            Skip::Done { changed_since: false } => None,
            Skip::Done { changed_since: true } => Some(CHANGED_SINCE_DONE.to_owned()),
            Skip::Draft { problem } => Some(format!("a draft: {problem}")),
            Skip::Built => Some(
                "its tasks are built (`ralph build`); name it to have it planned again".to_owned(),
            ),
        }
    }
}

/// The reason that a spec is skipped for which was edited since it was done.
pub const CHANGED_SINCE_DONE: &str = "changed since done";

impl SpecEnd {
    /// Returns how the log names it.
    pub const fn name(&self) -> &'static str {
        match self {
            SpecEnd::Done { .. } => "completed",
            SpecEnd::Skipped(_) => "skipped",
            SpecEnd::Failed { .. } => "failed",
            SpecEnd::Removed => "removed",
            SpecEnd::Unusable { .. } => "unusable",
            SpecEnd::Stopped(stop) => stop.name(),
        }
    }

    /// Tells whether the spec failed, or cannot be worked on.
    pub const fn is_failure(&self) -> bool {
        matches!(self, SpecEnd::Failed { .. } | SpecEnd::Unusable { .. })
    }

    pub const fn is_waiting(&self) -> bool {
        matches!(self, SpecEnd::Stopped(Stop::Waiting { .. } | Stop::Unexplained { .. }))
    }
}

impl<'r, 's> Pipeline<'r, 's> {
    pub fn new(
        session: &'r mut Session<'s>,
        project: &'r mut Project,
        options: &'r PipelineOptions,
    ) -> Pipeline<'r, 's> {
        let store = SpecStore::with_logs(project.home(), session.context.home_path());
        Pipeline { session, project, store, options }
    }

    /// Commits home before a run that can write.
    fn commit_home(&mut self, spec: &SpecPath, message: &str) -> Result<(), WorkflowError> {
        let message = format!("ralph: {} {message}", spec.id());
        self.project.commit_before_run(self.session, &message, Some(spec.to_string()))
    }

    /// The time, as the files have it.
    fn now(&self) -> jiff::Timestamp {
        whole_second(self.session.context.clock.now())
    }
}
