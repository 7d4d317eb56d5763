//! `ralph understand`: a mapper writes down how the code works, one topic per run.
//!
//! The mapper reads a clone of what is checked out. It finds the map in its outbox and leaves it there; the harness takes
//! it if it only adds. Nothing else may change, and nothing is committed: the person's branch and checkout stay as they
//! were, but for the map in home.

use camino::Utf8PathBuf;
use jiff::tz::TimeZone;
use ralph_model::goal::map::{MAP_FILE, listed_topics, next_topic, open_topics, take_map};
use ralph_model::journal::TopicMapped;
use ralph_model::prompt::UnderstandPrompt;
use ralph_model::role::Role;
use ralph_model::run::RunOutcome;
use serde::{Deserialize, Serialize};

use super::store::GoalStore;
use super::violation;
use crate::ask::AskPerson;
use crate::files::replace_atomically;
use crate::run::{RESULTS, RunReport, RunResult};
use crate::session::{AgentTask, Session, TaskContract, TaskFile, TaskOutbox};
use crate::state::Entry;
use crate::workflow::driver::{
    Ended, Subject, Turn, Void, Workflow, WorkflowStep, drive, forget_troubles,
};
use crate::workflow::pause::RoundPause;
use crate::workflow::project::{Project, work_root};
use crate::workflow::{WorkflowError, unfinished};

/// The name of the workflow in the results of its runs, and what they are for.
const WORKFLOW: &str = "understand";

/// The map as it was before the run under way, by the workflow's name.
const BEGUN: Entry<Begun> = Entry::new("understand", "the topic in progress starts over");

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Begun {
    topic: String,
    map: String,
}

/// How mapping goes on.
#[derive(Clone, Debug)]
pub struct UnderstandOptions {
    /// How many runs there are at most.
    pub iterations: u32,
    /// Topics for a map that has no boxes.
    pub listed: Vec<String>,
    /// What is between two runs.
    pub pause: RoundPause,
}

/// How mapping ended by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnderstandEnd {
    /// No topic is left.
    Complete,
    /// All iterations are used, and topics are left.
    OutOfIterations { mapped: u32, left: Option<usize> },
    /// The person would rather stop here.
    Quit,
    /// The same failure so often in a row.
    Repeated { reason: String, times: u32 },
    /// The mapper changed what it must not.
    Violation { paths: Vec<String>, diff: Option<Utf8PathBuf> },
}

/// The mapping of a codebase.
pub struct Understand<'r, 's> {
    session: &'r mut Session<'s>,
    project: &'r Project,
    person: &'r mut dyn AskPerson,
    store: GoalStore,
    options: UnderstandOptions,
    used: u32,
    /// Topics that were mapped.
    mapped: u32,
    /// Whether the person is to be asked before the next run.
    asks: bool,
    feedback: Option<String>,
    /// How often in a row a run failed for the same reason.
    equal_failures: u32,
    diff: Option<Utf8PathBuf>,
}

impl<'r, 's> Understand<'r, 's> {
    pub fn new(
        session: &'r mut Session<'s>,
        project: &'r Project,
        person: &'r mut dyn AskPerson,
        options: UnderstandOptions,
    ) -> Understand<'r, 's> {
        let store = GoalStore::new(session.context.home_path());
        Understand {
            session,
            project,
            person,
            store,
            options,
            used: 0,
            mapped: 0,
            asks: false,
            feedback: None,
            equal_failures: 0,
            diff: None,
        }
    }

    /// Maps topic after topic.
    pub fn run(&mut self) -> Result<Ended<UnderstandEnd>, WorkflowError> {
        // Logs are not to show up as changes.
        self.project.committer.prepare()?;
        forget_troubles(&self.session.context.state, WORKFLOW)?;
        let ended = drive(self);
        self.project.leave_reading(self.session, WORKFLOW)?;
        ended
    }

    fn topic(&self) -> Result<Option<String>, WorkflowError> {
        let map = self.store.map()?;
        let listed: Vec<&str> = self.options.listed.iter().map(String::as_str).collect();
        Ok(next_topic(&map, &listed).map(str::to_owned))
    }

    /// Pauses, unless no run has ended since the last pause.
    fn pause(&mut self) -> Option<Turn<UnderstandEnd>> {
        if !std::mem::take(&mut self.asks) {
            return None;
        }
        let question = "Continue with the next topic?";
        self.options.pause.take(self.session, self.person, question, UnderstandEnd::Quit)
    }

    fn map_topic(&mut self, topic: &str) -> Result<WorkflowStep<UnderstandEnd>, WorkflowError> {
        self.project.enter_to_read(self.session, WORKFLOW)?;
        let map = self.store.map()?;
        let begun = Begun { topic: topic.to_owned(), map: map.clone() };
        BEGUN.save(&self.session.context.state, WORKFLOW, &begun)?;
        let context = &self.session.context;
        let map_path = context.place.outbox().join(MAP_FILE);
        let today = context.clock.now().to_zoned(TimeZone::system()).date().to_string();
        let prompt = self.project.prompts.render(&UnderstandPrompt {
            surroundings: self.project.goal_surroundings(self.session, self.feedback.as_deref()),
            topic,
            map_path: map_path.as_str(),
            today: &today,
        });
        self.used += 1;
        let contract = TaskContract::OutboxFile {
            outbox: context.place.outbox().clone(),
            name: MAP_FILE,
            before: map.clone().into_bytes(),
        };
        let file = TaskFile { name: MAP_FILE, content: Some(map.into_bytes()) };
        Ok(WorkflowStep::Run(Box::new(AgentTask {
            attempt: self.used,
            outbox: TaskOutbox::Files(vec![file]),
            contract,
            ..AgentTask::new(WORKFLOW, Role::Mapper, WORKFLOW, prompt)
        })))
    }

    /// Takes the map that a run left; returns why not, if it is not taken.
    fn take(&self, result: &RunResult, begun: &Begun) -> Result<Option<String>, WorkflowError> {
        if let Some(why) = unfinished(&result.outcome) {
            return Ok(Some(why));
        }
        let Some(left) = result.file(MAP_FILE) else {
            return Ok(Some(format!("{MAP_FILE} is missing from the outbox")));
        };
        let taken = match take_map(&begun.map, left, &begun.topic) {
            Ok(taken) => taken,
            Err(error) => return Ok(Some(error.to_string())),
        };
        let now = self.store.map()?;
        // A Ralph that died after it had written the map finds it written.
        if now == taken {
            return Ok(None);
        }
        if now != begun.map {
            return Ok(Some(
                "the map was changed by someone else meanwhile: start from its current text"
                    .to_owned(),
            ));
        }
        replace_atomically(&self.store.map_path(), taken.as_bytes())?;
        Ok(None)
    }

    fn left(&self) -> Result<Option<usize>, WorkflowError> {
        Ok(open_topics(&self.store.map()?).map(|open| open.len()))
    }
}

impl<'s> Workflow<'s> for Understand<'_, 's> {
    type End = UnderstandEnd;

    fn session(&mut self) -> &mut Session<'s> {
        self.session
    }

    fn item(&self) -> Option<String> {
        Some(WORKFLOW.to_owned())
    }

    fn subject(&self) -> Subject {
        Subject { item: self.item(), ..Subject::default() }
    }

    fn pending(&mut self) -> Result<Option<RunResult>, WorkflowError> {
        let found = RESULTS.load(&self.session.context.state, WORKFLOW)?;
        Ok(found.filter(|result| result.workflow == WORKFLOW))
    }

    fn next(&mut self) -> Result<WorkflowStep<UnderstandEnd>, WorkflowError> {
        let Some(topic) = self.topic()? else {
            return Ok(WorkflowStep::Turn(Turn::End(UnderstandEnd::Complete)));
        };
        if self.used >= self.options.iterations {
            let (mapped, left) = (self.mapped, self.left()?);
            let end = UnderstandEnd::OutOfIterations { mapped, left };
            return Ok(WorkflowStep::Turn(Turn::End(end)));
        }
        match self.pause() {
            Some(turn) => Ok(WorkflowStep::Turn(turn)),
            None => self.map_topic(&topic),
        }
    }

    fn ended(&mut self, report: RunReport, _: &RunResult) -> Result<(), WorkflowError> {
        let root = work_root(self.session);
        self.diff = violation::write_down(&self.session.context.git(), root, &report)?;
        Ok(())
    }

    fn conclude(&mut self, result: &RunResult) -> Result<Turn<UnderstandEnd>, WorkflowError> {
        self.asks = true;
        if let RunOutcome::Violation { paths } = &result.outcome {
            let (paths, diff) = (paths.clone(), self.diff.clone());
            return Ok(Turn::End(UnderstandEnd::Violation { paths, diff }));
        }
        let Some(begun) = BEGUN.load(&self.session.context.state, WORKFLOW)? else {
            return Ok(Turn::Failed);
        };
        let reason = self.take(result, &begun)?;
        let left = self.left()?.and_then(|left| u32::try_from(left).ok());
        self.session.record(TopicMapped { topic: begun.topic, reason: reason.clone(), left })?;
        let Some(reason) = reason else {
            self.mapped += 1;
            (self.feedback, self.equal_failures) = (None, 0);
            return Ok(Turn::Progress);
        };
        let is_equal = self.feedback.as_ref() == Some(&reason);
        self.equal_failures = if is_equal { self.equal_failures + 1 } else { 1 };
        self.feedback = Some(reason.clone());
        let times = self.equal_failures;
        if times >= self.session.context.config.limits.repeats {
            return Ok(Turn::End(UnderstandEnd::Repeated { reason, times }));
        }
        Ok(Turn::Failed)
    }

    fn discard(&mut self, result: &RunResult, _: Void) -> Result<(), WorkflowError> {
        if matches!(result.outcome, RunOutcome::Trouble { .. }) {
            // Trouble costs no iteration.
            self.used = self.used.saturating_sub(1);
        }
        Ok(())
    }

    fn tries_again(&mut self) -> Result<bool, WorkflowError> {
        Ok(self.used < self.options.iterations)
    }
}

/// Returns the topics that a prompt lists.
pub fn topics_in(prompt: &str) -> Vec<String> {
    listed_topics(prompt).into_iter().map(str::to_owned).collect()
}
