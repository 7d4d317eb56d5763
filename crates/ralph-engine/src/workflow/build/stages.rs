//! The runs of each stage, from the plan to the task of an agent.

use ralph_model::build::Work;
use ralph_model::id::CommitId;
use ralph_model::pipeline::records::Base;
use ralph_model::plan::view::TaskView;
use ralph_model::plan::{Change, DoneAt, Issue, Line, Plan, PlanError, Task};
use ralph_model::prompt::{
    BuildPrompt, DecomposePrompt, InvestigatePrompt, PromptContext, VerifyPrompt,
};
use ralph_model::role::Role;
use ralph_model::run::Trouble;
use serde::Serialize;

use super::task_store::TASKS;
use super::{Build, BuildEnd, DEEPEST, WORKFLOW, channel, item_of};
use crate::files::disk;
use crate::plan_file::PLAN_FILE;
use crate::run::Wish;
use crate::session::AgentTask;
use crate::specs;
use crate::workflow::WorkflowError;
use crate::workflow::driver::{Turn, WorkflowStep};
use crate::workflow::repositories::{BEFORE, BeforeAll};
use crate::workflow::spec_text::SpecText;

impl Build<'_, '_> {
    pub(super) fn build(
        &mut self,
        plan: &Plan<'_>,
        task: &Task<'_>,
    ) -> Result<WorkflowStep<BuildEnd>, WorkflowError> {
        let id = task.id.to_string();
        // An answer that was acted on just before Ralph died must not decide the next question.
        self.session.questions().take_answer(&id)?;
        let pinned = self.pin(&id)?;
        // Before anything is recorded, so that Ralph's own commits are not attributed to the run.
        self.commit_plan()?;
        self.project.enter(self.session, &id)?;
        let earlier = BEFORE.load(&self.session.context.state, &id)?;
        let uncommitted = self.project.repositories.half_done(earlier.as_ref())?;
        let before = self.begin(task)?;
        *channel::locked(&self.probe) = Some(self.project.repositories.probe(&before));
        let source = self.source(plan)?;
        let json = json(&plan.task_view(&id));
        // A rejection is on the task already.
        let advice = self.markers_in(plan, &id)?.record.advice;
        let feedback = self.round.feedback_for(&id).or(advice.as_deref());
        let feedback = feedback.filter(|told| Some(*told) != task.reject.as_deref());
        let rejected = task.reject.as_deref().map(|why| self.with_logs(plan, &id, why));
        let context = BuildPrompt {
            surroundings: self.project.surroundings(self.session, &source, feedback),
            task_id: &id,
            task: &json,
            rejected: rejected.as_deref(),
            gates: &pinned.gates,
        };
        let mut run = self.task(Role::Builder, &id, &context, &uncommitted);
        run.given = vec![id.clone()];
        run.wanted = self.project.wanted(&id, &[PLAN_FILE], wish_of);
        run.variables = vec![("RALPH_TASK", id)];
        self.start(run)
    }

    /// Adds to the reason of a rejection where everything is that gates printed then, if this machine has it.
    fn with_logs(&self, plan: &Plan<'_>, id: &str, why: &str) -> String {
        let mut tombstones = plan.document().lines().iter().filter_map(Line::tombstone);
        let logs = tombstones
            .find(|found| found.id == id && found.reason == why)
            .map(|found| self.session.context.state.gate_logs(&found.done_at))
            .filter(|directory| disk::is_directory(directory));
        match logs {
            Some(directory) => format!("{why}\n(All that the gates printed: {directory}/)"),
            None => why.to_owned(),
        }
    }

    /// Notes what there is before a run of a task, and from where its work counts.
    fn begin(&self, task: &Task<'_>) -> Result<BeforeAll, WorkflowError> {
        let mut first = None;
        // A part of a task that was killed begins where that one began: what was half done then proves nothing. In clones
        // each task begins at the branch: what was not accepted is not there.
        for origin in task.parent.iter().chain(&task.created_from) {
            if first.is_none() && self.project.is_in_place() {
                first = BEFORE.load(&self.session.context.state, origin)?;
            }
        }
        self.project.note_before(self.session, &task.id, first.map(|before| before.base()))
    }

    /// Records the state before a task's run is resumed after its usage limit.
    pub(super) fn begin_again(&self, task: &str) -> Result<(), WorkflowError> {
        let state = &self.session.context.state;
        if BEFORE.load(state, task)?.is_none() {
            return Ok(());
        }
        let before = self.project.note_before(self.session, task, None)?;
        *channel::locked(&self.probe) = Some(self.project.repositories.probe(&before));
        Ok(())
    }

    pub(super) fn verify(
        &mut self,
        plan: &Plan<'_>,
    ) -> Result<WorkflowStep<BuildEnd>, WorkflowError> {
        let views: Vec<TaskView<'_>> = plan.done_view().done;
        let given: Vec<String> = views.iter().map(|task| task.id.to_string()).collect();
        for task in &given {
            // What a person accepted has no run whose result would complete it after a crash. Left as it is, it would make the
            // task done again after the verifier has rejected it.
            self.heal(task)?;
        }
        let feedback = self.round.feedback_for("verify").map(str::to_owned);
        self.verify_with(plan, "verify", given, &json(&views), feedback.as_deref())
    }

    /// Has a verifier look at the plan's work in checkouts of its own.
    pub(super) fn verify_with(
        &mut self,
        plan: &Plan<'_>,
        item: &str,
        given: Vec<String>,
        tasks: &str,
        feedback: Option<&str>,
    ) -> Result<WorkflowStep<BuildEnd>, WorkflowError> {
        match self.verifier(plan, item, given, tasks, feedback)? {
            Ok(run) => self.start(run),
            Err(trouble) => Ok(WorkflowStep::Turn(Turn::Trouble(trouble))),
        }
    }

    /// Prepares a verifier's run, or returns what prevents it.
    pub(super) fn verifier(
        &mut self,
        plan: &Plan<'_>,
        item: &str,
        given: Vec<String>,
        tasks: &str,
        feedback: Option<&str>,
    ) -> Result<Result<AgentTask, Trouble>, WorkflowError> {
        let pinned = self.pin("verify")?;
        self.enter_anew(item)?;
        let repositories = &self.project.repositories;
        let base = repositories.base()?;
        repositories.note(&base)?;
        let works = self.heads_of_work(plan)?;
        let checkouts = self.session.with_gates(item, |context, tell| {
            repositories.checkouts_for_verifier(context, &pinned, &works, tell)
        })?;
        let Some((first, others)) = checkouts.split_first() else {
            return Ok(Err(Trouble::Machine { message: "no commit to verify".to_owned() }));
        };
        *channel::locked(&self.probe) = None;
        let source = self.source(plan)?;
        let elsewhere: Vec<String> =
            others.iter().map(|checkout| checkout.describe(&Base::new())).collect();
        let elsewhere = elsewhere.join("\n");
        let context = VerifyPrompt {
            surroundings: self.project.surroundings(self.session, &source, feedback),
            tasks,
            commit: &first.work.commit,
            checkout: first.checkout.directory.as_str(),
            elsewhere: Some(elsewhere.as_str()).filter(|text| !text.is_empty()),
            gates: &pinned.gates,
            questions: &[],
        };
        let mut run = self.task(Role::Verifier, item, &context, &[]);
        run.given = given;
        run.directory = Some(first.checkout.directory.clone());
        run.writable = checkouts.iter().map(|found| found.checkout.tree.clone()).collect();
        Ok(Ok(run))
    }

    pub(super) fn investigate(
        &mut self,
        plan: &Plan<'_>,
        issues: &[Issue<'_>],
    ) -> Result<WorkflowStep<BuildEnd>, WorkflowError> {
        *channel::locked(&self.probe) = None;
        self.enter_anew("investigate")?;
        let given: Vec<String> = issues.iter().map(|issue| issue.id.to_string()).collect();
        let source = self.source(plan)?;
        let issues = json(&plan.issues_view());
        let made = self.made_from(&given)?;
        let made = (!made.is_empty()).then(|| json(&made));
        let feedback = self.round.feedback_for("investigate");
        let context = InvestigatePrompt {
            surroundings: self.project.surroundings(self.session, &source, feedback),
            issues: &issues,
            tasks: made.as_deref(),
        };
        let mut run = self.task(Role::Investigator, "investigate", &context, &[]);
        run.given = given;
        self.start(run)
    }

    pub(super) fn decompose(
        &mut self,
        plan: &Plan<'_>,
        task: &Task<'_>,
    ) -> Result<WorkflowStep<BuildEnd>, WorkflowError> {
        let id = task.id.to_string();
        if plan.depth(&id) >= DEEPEST {
            return self.give_up_on(task).map(WorkflowStep::Turn);
        }
        *channel::locked(&self.probe) = None;
        let source = self.source(plan)?;
        let json = json(&plan.task_view(&id));
        let item = item_of(&plan.next());
        self.enter_anew(&item)?;
        let log = task.kill_log.as_deref().map(|log| self.log_bases().find(log));
        let feedback = self.round.feedback_for(&item);
        let context = DecomposePrompt {
            surroundings: self.project.surroundings(self.session, &source, feedback),
            task_id: &id,
            task: &json,
            kill: task.kill.as_deref().unwrap_or("timeout"),
            kill_log: log.as_ref().map(|log| log.as_str()),
        };
        let mut run = self.task(Role::Decomposer, &item, &context, &[]);
        run.given = vec![id.clone()];
        run.variables = vec![("RALPH_TASK", id)];
        self.start(run)
    }

    /// A task that was broken up often enough is put to a person's or an investigator's mind instead.
    fn give_up_on(&mut self, task: &Task<'_>) -> Result<Turn<BuildEnd>, WorkflowError> {
        let (id, name) = (task.id.to_string(), task.name.to_string());
        let description = format!(
            "Task {id} ({name}) was killed ({}), after {DEEPEST} levels of splitting: find another way",
            task.kill.as_deref().unwrap_or("timeout")
        );
        let added = self.plan.with_context(DoneAt::Unborn, |context| {
            self.plan.change(|plan| plan.add_issue(&description, context))
        })?;
        let state = &self.session.context.state;
        if let Change::IssueAdded { issue } = &added
            && let Some(before) = BEFORE.load(state, &id)?
        {
            BEFORE.save(state, &issue.id, &before)?;
        }
        self.change_plan(|plan| plan.delete(&id))?;
        let state = &self.session.context.state;
        TASKS.forget(state, &id)?;
        BEFORE.forget(state, &id)?;
        Ok(Turn::Progress)
    }

    /// Returns the task of an agent, for a fresh session or for one that was cut short. Attempts are counted by item and
    /// role.
    fn task(
        &self,
        role: Role,
        item: &str,
        context: &impl PromptContext,
        uncommitted: &[String],
    ) -> AgentTask {
        let attempt = self.session.journal.board().next_try(item, role);
        let (resume, before) = self.session.continuation(item, role, uncommitted);
        let prompt = self.project.prompts.render_continued(context, before);
        AgentTask { attempt, resume, ..AgentTask::new(WORKFLOW, role, item, prompt) }
    }

    pub(super) fn start(
        &mut self,
        task: AgentTask,
    ) -> Result<WorkflowStep<BuildEnd>, WorkflowError> {
        self.commit_plan()?;
        self.plan.begin_run()?;
        Ok(WorkflowStep::Run(Box::new(task)))
    }

    /// Returns the commits with all of the plan's work: the `HEAD` of every repository, first the one with the last
    /// done task.
    fn heads_of_work(&self, plan: &Plan<'_>) -> Result<Vec<Work>, WorkflowError> {
        let last = plan.done_tasks().last().and_then(|task| task.done_at?.parse::<CommitId>().ok());
        self.project.repositories.heads(last.as_ref())
    }

    pub(super) fn source(&self, plan: &Plan<'_>) -> Result<SpecText, WorkflowError> {
        let file =
            plan.spec().ok_or(PlanError::NoSpec).map_err(crate::plan_file::PlanFileError::from)?;
        let context = &self.session.context;
        let path = specs::locate(self.project.home(), &context.workspace.root, file);
        let text = crate::files::read_optional(&path)?.unwrap_or_default();
        let text = context.state.judged_text(&path, text);
        let id = path.file_stem().unwrap_or(file).to_owned();
        Ok(SpecText::new(&id, file, path, String::from_utf8_lossy(&text).into_owned()))
    }
}

/// Returns what a plan tells about a task.
pub(super) fn wish_of(files: &[Option<Vec<u8>>], task: &str) -> Wish {
    let plan = files.first().and_then(Option::as_deref).unwrap_or_default();
    let plan = Plan::parse(plan);
    let mut tombstones = plan.document().lines().iter().filter_map(Line::tombstone);
    if plan.pending().iter().any(|pending| pending.id == task) {
        Wish::Wanted
    } else if plan.done_tasks().any(|done| done.id == task)
        || tombstones.any(|tombstone| tombstone.id == task)
    {
        Wish::Decided
    } else {
        Wish::Absent
    }
}

pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("views have string keys only")
}
