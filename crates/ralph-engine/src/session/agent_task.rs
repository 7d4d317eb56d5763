//! One run of an agent for a workflow: its prompt, its directory, and the run itself.

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::contract::{FinalMessage, PlannerClaim};
use ralph_model::goal::PlannerEnvelope;
use ralph_model::prompt::Continuation;
use ralph_model::role::Role;

use super::Session;
use crate::boundary::persons_side::{PersonsPlaces, PersonsSide};
use crate::boundary::{self, InForce};
use crate::files::beneath::read_beneath;
use crate::home::CONFIG_FILE;
use crate::mailbox::Mailbox;
use crate::outbox::{LARGEST_OUTBOX_FILE, Outbox, OutboxFile};
use crate::run::{
    Contract, RunContext, RunError, RunReport, RunResult, WantedItem, locks, run_agent,
};

/// Precedes the prompt when an agent's session is resumed after a usage limit.
const GO_ON: &str = "You were interrupted by a usage limit, which has been reset. Continue the task where you left off. Here is the task again:\n\n";

/// A file that a role finds in its outbox, or has to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskFile {
    pub(crate) name: &'static str,
    /// Its content before the run; `None` if the role has to create it.
    pub(crate) content: Option<Vec<u8>>,
}

/// The expected content of a run's outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TaskOutbox {
    /// Only these files are accepted.
    Files(Vec<TaskFile>),
    /// All regular files are copied to the run's logs.
    Kept,
}

/// The requirement on the final message, to distinguish an answer from the report of a usage limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TaskContract {
    /// Unknown or free-form: a verifier rejects in its own words.
    Unknown,
    /// Any message is an answer.
    Any,
    /// A planner ends with this phrase.
    Planned { phrase: String },
    /// An implementer ends with a commit, or the reason that none is needed, and this phrase.
    Completed { phrase: String },
    /// An interviewer answers with its envelope.
    Envelope,
    /// The answer is this file of the outbox, which had this content before the run; the message is free-form.
    OutboxFile { outbox: Utf8PathBuf, name: &'static str, before: Vec<u8> },
    /// The answer is in the mailbox, which had this `digest` before the run; the message is free-form.
    Mailbox { mailbox: Mailbox, digest: String },
}

impl TaskContract {
    fn accepts(&self, said: &str) -> bool {
        let message = FinalMessage::new(said);
        match self {
            TaskContract::Unknown
            | TaskContract::Any
            | TaskContract::OutboxFile { .. }
            | TaskContract::Mailbox { .. } => true,
            TaskContract::Planned { phrase } => {
                // Whether there is a plan is a separate question.
                message.planner_claim(phrase, Some("plan")) == PlannerClaim::Planned
            }
            TaskContract::Completed { phrase } => {
                message.completion(phrase).is_some() || message.has_phrase(phrase)
            }
            TaskContract::Envelope => PlannerEnvelope::parse(said).is_ok(),
        }
    }

    /// Whether a run has left its answer in the right place, whatever its message.
    fn has_left_something(&self) -> bool {
        match self {
            TaskContract::Mailbox { mailbox, digest } => mailbox.digest() != *digest,
            TaskContract::OutboxFile { outbox, name, before } => {
                read_beneath(outbox, Utf8Path::new(name), LARGEST_OUTBOX_FILE)
                    .is_some_and(|now| now != *before)
            }
            _ => false,
        }
    }
}

/// One run requested by a workflow.
#[derive(Clone, Debug)]
pub struct AgentTask {
    pub role: Role,
    /// The workflow that concludes the run. If it is empty, no result is kept.
    pub(crate) workflow: &'static str,
    /// The item of the run; `None` for a plain run requested by a person.
    pub(crate) item: Option<String>,
    pub attempt: u32,
    pub(crate) prompt: Vec<u8>,
    /// The agent's session to resume.
    pub(crate) resume: Option<String>,
    pub(crate) outbox: TaskOutbox,
    /// The working directory, if not the workspace.
    pub(crate) directory: Option<Utf8PathBuf>,
    /// Writable paths in addition to the role's own.
    pub(crate) writable: Vec<Utf8PathBuf>,
    /// Additional environment variables of the run.
    pub(crate) variables: Vec<(&'static str, String)>,
    /// The ids of the tasks and issues given to the run.
    pub(crate) given: Vec<String>,
    pub(crate) contract: TaskContract,
    /// Determines whether the run's item is still wanted.
    pub(crate) wanted: Option<WantedItem>,
}

impl AgentTask {
    /// Returns a task for a prompt outside any workflow: no result is stored, and any message is an answer.
    pub fn plain(role: Role, prompt: Vec<u8>, resume: Option<String>) -> AgentTask {
        AgentTask {
            item: None,
            prompt,
            resume,
            outbox: TaskOutbox::Kept,
            contract: TaskContract::Any,
            ..AgentTask::new("", role, "", String::new())
        }
    }

    /// Returns a task for an item of a workflow, without optional parts.
    pub(crate) fn new(workflow: &'static str, role: Role, item: &str, prompt: String) -> AgentTask {
        AgentTask {
            role,
            workflow,
            item: Some(item.to_owned()),
            attempt: 1,
            prompt: prompt.into_bytes(),
            resume: None,
            outbox: TaskOutbox::Files(Vec::new()),
            directory: None,
            writable: Vec::new(),
            variables: Vec::new(),
            given: Vec::new(),
            contract: TaskContract::Unknown,
            wanted: None,
        }
    }
}

impl Session<'_> {
    /// Returns the agent's session that the next run of an item resumes, because the last one was cut short by a usage
    /// limit, an interruption, or the death of its Ralph.
    ///
    /// Agents file sessions by directory, so it must be the same slot and, for a role that writes, unchanged since that
    /// run. A verifier always has a fresh session.
    pub(crate) fn open_session(&self, item: &str, role: Role) -> Option<String> {
        let launch = self.context.launch(role);
        let is_emptied = self.slot.as_ref().is_some_and(|slot| slot.is_new);
        if role == Role::Verifier || !launch.resumes() || role.writes_workspace() && is_emptied {
            return None;
        }
        let slot = self.slot.as_ref().map(|slot| slot.number);
        let item = self.journal.board().item(item)?;
        item.open_session(role, &launch.choice.name, slot).map(str::to_owned)
    }

    /// Returns the session that the next run of an item resumes, and what its prompt says of earlier runs, which left
    /// `uncommitted` files.
    pub(crate) fn continuation<'a>(
        &'a self,
        item: &str,
        role: Role,
        uncommitted: &'a [String],
    ) -> (Option<String>, Continuation<'a>) {
        let resume = self.open_session(item, role);
        // A verifier has a checkout of its own.
        let clone = self.clone_of().filter(|_| role != Role::Verifier);
        let is_resumed = resume.is_some();
        (resume, Continuation { is_resumed, uncommitted, left_beside: &[], clone })
    }

    /// Returns the person's checkout and the clone in which runs work, if they do.
    pub(crate) fn clone_of(&self) -> Option<(&str, &str)> {
        let slot = self.slot.as_ref()?;
        Some((self.context.workspace.root.as_str(), slot.root.as_str()))
    }

    /// Records what a run in a clone must not reach, if only a comparison protects it.
    pub(crate) fn look_at_person(&self) -> Option<PersonsSide> {
        let context = &self.context;
        if self.slot.is_none() || context.boundary != InForce::Detect {
            return None;
        }
        let workspace = &context.workspace.root;
        Some(PersonsSide::look(&PersonsPlaces {
            program: context.git(),
            repositories: &boundary::repositories(workspace),
            home: context.home_path(),
            config: workspace.join(CONFIG_FILE),
        }))
    }

    /// Runs an agent once. `after_limit` is the session of a run of the same task that hit its usage limit.
    pub(crate) fn run_once(
        &mut self,
        task: &AgentTask,
        after_limit: Option<&str>,
    ) -> Result<(RunReport, RunResult), RunError> {
        let context = &self.context;
        let launch = context.launch(task.role);
        let prompt = match after_limit {
            Some(_) => [GO_ON.as_bytes(), &task.prompt].concat(),
            None => task.prompt.clone(),
        };
        let mut request =
            launch.request(&context.config, task.role, &prompt, context.boundary, &context.program);
        let mut variables = request.env.to_vec();
        variables
            .extend(task.variables.iter().map(|(name, text)| ((*name).to_owned(), text.clone())));
        let iteration = self.journal.board().iteration();
        variables.push(("RALPH_ITERATION".to_owned(), iteration.to_string()));
        let writable = [request.writable, &task.writable].concat();
        let files: Vec<OutboxFile<'_>> = match &task.outbox {
            TaskOutbox::Kept => Vec::new(),
            TaskOutbox::Files(files) => files
                .iter()
                .map(|file| OutboxFile { name: file.name, content: file.content.as_deref() })
                .collect(),
        };
        request.env = &variables;
        request.writable = &writable;
        request.workflow = task.workflow;
        request.item = task.item.as_deref();
        request.attempt = task.attempt;
        request.resume = after_limit.or(task.resume.as_deref());
        request.outbox = match &task.outbox {
            TaskOutbox::Kept => Outbox::Kept,
            TaskOutbox::Files(_) => Outbox::Named(&files),
        };
        request.directory = task.directory.as_deref();
        request.given = &task.given;
        request.wanted = task.wanted.as_ref();
        let accepts = |said: &str| task.contract.accepts(said);
        let has_left = || task.contract.has_left_something();
        request.contract = match &task.contract {
            TaskContract::Unknown => Contract::Unknown,
            TaskContract::Any => Contract::Any,
            TaskContract::Mailbox { .. } => Contract::Left(&has_left),
            TaskContract::OutboxFile { .. } => Contract::AnyOrLeft(&has_left),
            _ => Contract::Claim(&accepts),
        };
        request.context.limit = context.context_limit.or(request.context.limit);
        // A workflow has a home even if it was only just created.
        let has_home = context.home.exists || !task.workflow.is_empty();
        let board = self.journal.board();
        request.try_number = task.item.as_ref().map(|item| board.next_try(item, task.role));
        let mut run_context = RunContext {
            workspace: &context.workspace.root,
            git_dirs: &context.git_dirs,
            home: has_home.then_some(context.home.path.as_path()),
            state: &context.state,
            place: &context.place,
            journal: &mut self.journal,
            clock: context.clock,
            signals: context.signals.as_ref(),
            environment: &context.environment,
            program: &context.program,
            store: Some(self.store.as_mut()),
            slot: self.slot.as_ref(),
        };
        let report = run_agent(&mut run_context, &request, self.performer.as_mut())?;
        let at = context.clock.now();
        let result = RunResult::of(&report, &request, report.finished(), at);
        for lock in &report.removed_locks {
            self.record(locks::removed_note(lock))?;
        }
        Ok((report, result))
    }
}
