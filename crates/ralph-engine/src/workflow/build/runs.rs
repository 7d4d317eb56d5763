//! The runs of each stage, from the plan to the run's result.

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::id::CommitId;
use ralph_model::plan::view::TaskView;
use ralph_model::plan::{Change, Issue, Line, Plan, PlanError, Task};
use ralph_model::prompt::{
    BuildPrompt, DecomposePrompt, InvestigatePrompt, PromptContext, SpecSource, Surroundings,
    VerifyPrompt,
};
use ralph_model::role::Role;
use serde::Serialize;

use super::{Build, BuildEnd, DEEPEST, Round, Turn, claims, item_of};
use crate::gates::checkout_for_verifier;
use crate::git::Oid;
use crate::outbox::Outbox;
use crate::specs;
use crate::workflow::WorkflowError;
use crate::workflow::build::channel::Assignment;
use crate::workflow::desk::{Step, StepEnd};
use crate::workflow::repositories::BeforeAll;

/// One run of a stage.
pub(super) struct Call<'a> {
    pub(super) role: Role,
    pub(super) item: &'a str,
    /// The ids that the run may change.
    pub(super) given: &'a [String],
    pub(super) directory: Option<&'a Utf8Path>,
    pub(super) writable: &'a [Utf8PathBuf],
    pub(super) task: Option<&'a str>,
}

impl Build<'_, '_, '_> {
    pub(super) fn build(
        &mut self,
        round: &mut Round,
        plan: &Plan<'_>,
        task: &Task<'_>,
    ) -> Result<Turn, WorkflowError> {
        let id = task.id.to_string();
        if let Some(turn) = self.settle_open_claim(&id)? {
            return Ok(turn);
        }
        // An answer that was acted on just before Ralph died must not decide the next question.
        self.desk.questions().take_answer(&id)?;
        let pinned = self.pin(&id)?;
        // Before anything is noted, so that what Ralph commits is not taken for the run's work.
        self.commit_plan()?;
        let before = self.begin(task)?;
        let probe = self.repositories.probe(&before);
        *super::channel::locked(&self.assignment) =
            Assignment { probe: Some(probe), ..Assignment::default() };
        let source = self.source(plan)?;
        let json = json(&plan.task_view(&id));
        // A rejection is on the task already.
        let feedback = round.feedback_for(&id).filter(|told| Some(*told) != task.reject.as_deref());
        let feedback = feedback.map(str::to_owned);
        let rejected = task.reject.as_deref().map(|why| self.with_logs(plan, &id, why));
        let context = BuildPrompt {
            surroundings: self.surroundings(&source, feedback.as_deref()),
            task_id: &id,
            task: &json,
            rejected: rejected.as_deref(),
            gates: &pinned.gates,
        };
        let prompt = self.prompts.render(&context);
        let given = [id.clone()];
        let call = Call {
            role: Role::Builder,
            item: &id,
            given: &given,
            directory: None,
            writable: &[],
            task: Some(&id),
        };
        self.start(round, &call, &prompt)
    }

    /// Adds to the reason of a rejection where everything is that gates printed then, if this machine has it.
    fn with_logs(&self, plan: &Plan<'_>, id: &str, why: &str) -> String {
        let mut tombstones = plan.document().lines().iter().filter_map(Line::tombstone);
        let logs = tombstones
            .find(|found| found.id == id && found.reason == why)
            .map(|found| self.desk.context.state.gate_logs(&found.done_at))
            .filter(|directory| directory.is_dir());
        match logs {
            Some(directory) => format!("{why}\n(All that the gates printed: {directory}/)"),
            None => why.to_owned(),
        }
    }

    /// Notes what there is before a run of a task, and from where its work counts.
    fn begin(&self, task: &Task<'_>) -> Result<BeforeAll, WorkflowError> {
        let state = self.desk.context.state;
        let before = if let Some(earlier) = BeforeAll::load(state, &task.id)? {
            self.repositories.note_further(&earlier)?
        } else {
            // A part of a task that was killed begins where that one began: what was half done then proves nothing.
            let mut base = self.repositories.base()?;
            for origin in task.parent.iter().chain(&task.created_from) {
                if let Some(earlier) = BeforeAll::load(state, origin)? {
                    base = earlier.base();
                    break;
                }
            }
            self.repositories.note_first(&base)?
        };
        before.save(state, &task.id)?;
        Ok(before)
    }

    pub(super) fn verify(
        &mut self,
        round: &mut Round,
        plan: &Plan<'_>,
    ) -> Result<Turn, WorkflowError> {
        let views: Vec<TaskView<'_>> = plan.done_view().done;
        let given: Vec<String> = views.iter().map(|task| task.id.to_string()).collect();
        let feedback = round.feedback_for("verify").map(str::to_owned);
        self.verify_with(round, plan, "verify", &given, &json(&views), feedback.as_deref())
    }

    /// Has a verifier look at the plan's work in a checkout of its own.
    pub(super) fn verify_with(
        &mut self,
        round: &mut Round,
        plan: &Plan<'_>,
        item: &str,
        given: &[String],
        tasks: &str,
        feedback: Option<&str>,
    ) -> Result<Turn, WorkflowError> {
        let pinned = self.pin("verify")?;
        let base = self.repositories.base()?;
        self.repositories.note(&base)?;
        let Some((commit, name)) = self.head_of_work(plan)? else {
            let message = "there is no commit to verify".to_owned();
            return Ok(Turn::Trouble(ralph_model::run::Trouble::Machine { message }));
        };
        let id = Oid::parse(commit.as_str().as_bytes()).expect("a commit's id is an object's id");
        let repository = self.repositories.gates(&name).expect("its commit was just found");
        repository.mirror.fill(&repository.git, std::slice::from_ref(&id))?;
        let checkout = checkout_for_verifier(
            &self.gate_context,
            repository,
            &pinned,
            &id,
            &mut *self.observer,
        )?;
        *super::channel::locked(&self.assignment) = Assignment::default();
        let source = self.source(plan)?;
        let context = VerifyPrompt {
            surroundings: self.surroundings(&source, feedback),
            tasks,
            commit: &commit,
            checkout: checkout.directory.as_str(),
            gates: &pinned.gates,
            questions: &[],
        };
        let prompt = self.prompts.render(&context);
        let call = Call {
            role: Role::Verifier,
            item,
            given,
            directory: Some(&checkout.directory),
            writable: std::slice::from_ref(&checkout.tree),
            task: None,
        };
        self.start(round, &call, &prompt)
    }

    pub(super) fn investigate(
        &mut self,
        round: &mut Round,
        plan: &Plan<'_>,
        issues: &[Issue<'_>],
    ) -> Result<Turn, WorkflowError> {
        *super::channel::locked(&self.assignment) = Assignment::default();
        let given: Vec<String> = issues.iter().map(|issue| issue.id.to_string()).collect();
        let source = self.source(plan)?;
        let json = json(&plan.issues_view());
        let context = InvestigatePrompt {
            surroundings: self.surroundings(&source, round.feedback_for("investigate")),
            issues: &json,
        };
        let prompt = self.prompts.render(&context);
        let call = Call {
            role: Role::Investigator,
            item: "investigate",
            given: &given,
            directory: None,
            writable: &[],
            task: None,
        };
        self.start(round, &call, &prompt)
    }

    pub(super) fn decompose(
        &mut self,
        round: &mut Round,
        plan: &Plan<'_>,
        task: &Task<'_>,
    ) -> Result<Turn, WorkflowError> {
        let id = task.id.to_string();
        if plan.depth(&id) >= DEEPEST {
            return self.give_up_on(task);
        }
        *super::channel::locked(&self.assignment) = Assignment::default();
        let source = self.source(plan)?;
        let json = json(&plan.task_view(&id));
        let item = item_of(&plan.next());
        let log = task.kill_log.as_deref().map(|log| self.log_bases().find(log));
        let context = DecomposePrompt {
            surroundings: self.surroundings(&source, round.feedback_for(&item)),
            task_id: &id,
            task: &json,
            kill: task.kill.as_deref().unwrap_or("timeout"),
            kill_log: log.as_ref().map(|log| log.as_str()),
        };
        let prompt = self.prompts.render(&context);
        let given = [id.clone()];
        let call = Call {
            role: Role::Decomposer,
            item: &item,
            given: &given,
            directory: None,
            writable: &[],
            task: Some(&id),
        };
        self.start(round, &call, &prompt)
    }

    /// A task that was broken up often enough is put to a person's or an investigator's mind instead.
    fn give_up_on(&mut self, task: &Task<'_>) -> Result<Turn, WorkflowError> {
        let (id, name) = (task.id.to_string(), task.name.to_string());
        let description = format!(
            "Task {id} ({name}) was killed ({}), and its like were broken up {DEEPEST} times already: find another way",
            task.kill.as_deref().unwrap_or("timeout")
        );
        let known = self.plan.known_ids();
        let mut random = crate::plan_file::random_numbers();
        let added = self.plan.change(|plan| {
            let mut surroundings = ralph_model::plan::Surroundings {
                known: &|id| known.has(id),
                past_is_whole: &|| known.is_whole(),
                random: &mut random,
                done_at: ralph_model::plan::DoneAt::Unborn,
            };
            plan.add_issue(&description, &mut surroundings)
        })?;
        let state = self.desk.context.state;
        if let Change::IssueAdded { issue } = &added
            && let Some(before) = BeforeAll::load(state, &id)?
        {
            before.save(state, &issue.id)?;
        }
        self.settle(|plan| plan.delete(&id))?;
        claims::forget(state, &id)?;
        BeforeAll::forget(state, &id)?;
        Ok(Turn::Again)
    }

    fn start(
        &mut self,
        round: &mut Round,
        call: &Call<'_>,
        prompt: &str,
    ) -> Result<Turn, WorkflowError> {
        self.commit_plan()?;
        let task = call.task.unwrap_or("");
        let variables = [("RALPH_TASK", task)];
        let step = Step {
            role: call.role,
            item: call.item,
            attempt: round.iteration.max(1),
            prompt,
            resume: None,
            outbox: Outbox::Named(&[]),
            directory: call.directory,
            writable: call.writable,
            variables: if call.task.is_some() { &variables } else { &[] },
            given: call.given,
        };
        let end = self.desk.step(&step, &mut *self.observer)?;
        if call.role == Role::Builder {
            self.note_left(call.item)?;
        }
        match end {
            StepEnd::Ran(result) => self.take(round, &result),
            StepEnd::Limited { agent, wait } => Ok(Turn::End(BuildEnd::Limited { agent, wait })),
            StepEnd::OutOfBudget(what) => Ok(Turn::End(BuildEnd::OutOfBudget(what))),
            StepEnd::Interrupted => Ok(Turn::End(BuildEnd::Interrupted)),
        }
    }

    /// Notes what a builder left, for the next run of its task.
    fn note_left(&self, task: &str) -> Result<(), WorkflowError> {
        let state = self.desk.context.state;
        let Some(mut before) = BeforeAll::load(state, task)? else { return Ok(()) };
        self.repositories.note_left(&mut before)?;
        before.save(state, task)
    }

    /// Returns the commit that has all of the plan's work: where the repository stands that the last done task is in.
    fn head_of_work(&self, plan: &Plan<'_>) -> Result<Option<(CommitId, String)>, WorkflowError> {
        let last = plan.done_tasks().last().and_then(|task| task.done_at?.parse::<CommitId>().ok());
        self.repositories.head_with(last.as_ref())
    }

    pub(super) fn source(&self, plan: &Plan<'_>) -> Result<Source, WorkflowError> {
        let file =
            plan.spec().ok_or(PlanError::NoSpec).map_err(crate::plan_file::PlanFileError::from)?;
        let path = specs::locate(self.home, self.desk.context.workspace, file);
        let text = crate::files::read_optional(&path)?.unwrap_or_default();
        let id = path.file_stem().unwrap_or(file).to_owned();
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok(Source { id, file: file.to_owned(), path, text })
    }

    pub(super) fn surroundings<'p>(
        &'p self,
        source: &'p Source,
        feedback: Option<&'p str>,
    ) -> Surroundings<'p> {
        Surroundings {
            workspace: self.desk.context.workspace.as_str(),
            home: self.home.as_str(),
            spec: SpecSource {
                id: &source.id,
                path: source.path.as_str(),
                file: &source.file,
                text: &source.text,
            },
            rules: self.rules,
            feedback,
        }
    }

    /// Puts a prompt into words.
    pub(super) fn words(&self, context: &impl PromptContext) -> String {
        self.prompts.render(context)
    }
}

/// The spec of the plan, as prompts show it.
pub(super) struct Source {
    id: String,
    file: String,
    path: Utf8PathBuf,
    text: String,
}

pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("views have string keys only")
}
