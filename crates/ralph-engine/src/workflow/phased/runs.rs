//! The runs of the loop: an iteration of the builder, and a verifier's opinion.

use ralph_model::build::Work;
use ralph_model::journal::{IterationResult, IterationStart};
use ralph_model::phase::mailbox::{ORIGIN, TASK};
use ralph_model::phase::{LoopRecord, escalation};
use ralph_model::prompt::{LoopPrompt, PlanSource, VerifyPrompt};
use ralph_model::role::Role;
use ralph_model::run::Trouble;

use super::{OPINION, Phased, PhasedEnd, WORKFLOW, item_of};
use crate::session::{AgentTask, TaskContract};
use crate::workflow::WorkflowError;
use crate::workflow::driver::{Turn, WorkflowStep};
use crate::workflow::repositories::BEFORE;
use crate::workflow::review::{self, REVIEW, ReviewRequest};
use crate::workflow::spec_text::SpecText;

/// The longest plan that is put into a prompt.
const LONGEST_PLAN: usize = 64 << 10;

/// What a verifier is asked that decides nothing.
pub(super) struct VerifierInquiry<'a> {
    pub(super) item: &'a str,
    pub(super) feedback: &'a str,
    /// The commits that it looks at.
    pub(super) works: Vec<Work>,
}

impl Phased<'_, '_> {
    /// Validates the plan, and has the builder work for another iteration if there is one left.
    pub(super) fn iterate(
        &mut self,
        record: LoopRecord,
        item: &str,
    ) -> Result<WorkflowStep<PhasedEnd>, WorkflowError> {
        // An answer that was acted on just before Ralph died must not decide the next question.
        self.session.questions().take_answer(item)?;
        // Before anything is recorded, so that Ralph's own commits are not attributed to the run.
        self.commit_home()?;
        let uncommitted = self.half_done(item)?;
        let before = self.begin_run(item)?;
        self.check_plan(&record, &before)?;
        let record = self.record()?.unwrap_or(record);
        // After validation, so that a plan of the last iteration is not lost.
        if record.is_spent(self.bounds) {
            let iterations = record.iterations;
            return Ok(WorkflowStep::Turn(Turn::End(PhasedEnd::OutOfIterations { iterations })));
        }
        let pinned = self.pin(item)?;
        self.write_mirror(&record)?;
        let plan = self.plan();
        let text = plan.as_ref().map(|plan| {
            let end = plan.text.floor_char_boundary(LONGEST_PLAN);
            (plan.mark.file.as_str(), &plan.text[..end])
        });
        let origin = (record.task.number > 1).then(|| self.mailbox.read(ORIGIN)).flatten();
        let source = self.task_text(&record, item);
        let feedback = record.told();
        let escalation = escalation(record.failures, self.bounds.failures);
        let context = LoopPrompt {
            surroundings: self.project.surroundings(self.session, &source, feedback.as_deref()),
            mailbox: self.mailbox.path().as_str(),
            phase: record.phase,
            iteration: record.iterations + 1,
            iterations: self.bounds.iterations,
            origin: origin.as_deref(),
            plan: text.map(|(file, text)| PlanSource { file, text }),
            escalation: escalation.as_deref(),
            gates: &pinned.gates,
        };
        let (resume, continued) = self.session.continuation(item, Role::Builder, &uncommitted);
        let prompt = self.project.prompts.render_continued(&context, continued);
        let attempt = record.iterations + 1;
        let iteration = IterationResult {
            iteration: Some(attempt),
            item: Some(item.to_owned()),
            try_number: Some(self.session.journal.board().next_try(item, Role::Builder)),
            ..IterationResult::default()
        };
        self.tell(IterationStart {
            iteration: iteration.iteration,
            item: iteration.item.clone(),
            try_number: None,
            task: Some(item.to_owned()),
            name: Some(record.phase.name().to_uppercase()),
            ..IterationStart::default()
        })?;
        self.iteration = Some(iteration);
        let (mailbox, digest) = (self.mailbox.clone(), self.mailbox.digest());
        let task = AgentTask {
            attempt,
            resume,
            contract: TaskContract::Mailbox { mailbox, digest },
            variables: vec![("RALPH_TASK", item.to_owned())],
            ..AgentTask::new(WORKFLOW, Role::Builder, item, prompt)
        };
        Ok(WorkflowStep::Run(Box::new(task)))
    }

    /// The task as prompts have a spec.
    fn task_text(&self, record: &LoopRecord, item: &str) -> SpecText {
        let path = self.mailbox.path().join(TASK);
        SpecText::new(item, TASK, path, record.task.text.clone())
    }

    /// Tells whether a verifier is to be asked about work before a person is.
    pub(super) fn is_review_wanted(
        &self,
        item: &str,
        works: &[Work],
    ) -> Result<bool, WorkflowError> {
        let is_answered = self.session.journal.board().answered(item).is_some();
        Ok(!is_answered && review::is_wanted(&self.session.context.state, item, works)?)
    }

    /// Has a verifier answer what the judge cannot settle about the work.
    pub(super) fn ask_for_review(
        &mut self,
        record: &LoopRecord,
        item: &str,
    ) -> Result<WorkflowStep<PhasedEnd>, WorkflowError> {
        let pinned = self.pin(item)?;
        let before = BEFORE.load(&self.session.context.state, item)?;
        let base = before.map(|before| before.base()).unwrap_or_default();
        let source = self.task_text(record, item);
        // Trouble of this run is counted apart from the task's own.
        self.item = Some(format!("{item}{REVIEW}"));
        let request = ReviewRequest {
            workflow: WORKFLOW,
            item,
            source: &source,
            tasks: &record.task.text,
            base: &base,
            pinned: &pinned,
        };
        if let Some(task) = review::task(self.session, self.project, &request)? {
            return Ok(WorkflowStep::Run(Box::new(task)));
        }
        Ok(review::missing_work())
    }

    /// Asks a verifier what it thinks of the claim that nothing has to change.
    pub(super) fn ask_for_opinion(
        &mut self,
        record: &LoopRecord,
        item: &str,
        reason: &str,
    ) -> Result<WorkflowStep<PhasedEnd>, WorkflowError> {
        let feedback = format!(
            "The builder says that nothing has to change ({reason}). Do not accept or reject anything: check whether that is true, and say in your last message what you think and why. A person decides."
        );
        let (item, works) = (&format!("{item}{OPINION}"), self.heads()?);
        self.inquire(record, &VerifierInquiry { item, feedback: &feedback, works })
    }

    /// Has a verifier, which decides nothing, look at commits in checkouts of its own.
    pub(super) fn inquire(
        &mut self,
        record: &LoopRecord,
        inquiry: &VerifierInquiry<'_>,
    ) -> Result<WorkflowStep<PhasedEnd>, WorkflowError> {
        let item = item_of(record.task.number);
        let pinned = self.pin(&item)?;
        // Trouble of this run is counted apart from the task's own.
        self.item = Some(inquiry.item.to_owned());
        let checkouts = self.checkouts_of(inquiry.item, &pinned, &inquiry.works)?;
        let Some(first) = checkouts.first() else {
            let message = "no commit to examine".to_owned();
            return Ok(WorkflowStep::Turn(Turn::Trouble(Trouble::Machine { message })));
        };
        let source = self.task_text(record, &item);
        let context = VerifyPrompt {
            surroundings: self.project.surroundings(self.session, &source, Some(inquiry.feedback)),
            tasks: &record.task.text,
            commit: &first.work.commit,
            checkout: first.checkout.directory.as_str(),
            elsewhere: None,
            gates: &pinned.gates,
            questions: &[],
        };
        let prompt = self.project.prompts.render(&context);
        let task = AgentTask {
            directory: Some(first.checkout.directory.clone()),
            writable: checkouts.iter().map(|found| found.checkout.tree.clone()).collect(),
            ..AgentTask::new(WORKFLOW, Role::Verifier, inquiry.item, prompt)
        };
        Ok(WorkflowStep::Run(Box::new(task)))
    }
}
