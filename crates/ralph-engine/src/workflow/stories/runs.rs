//! The runs for a story: an implementer's, and a verifier's opinion.

use ralph_model::build::Work;
use ralph_model::journal::{IterationResult, IterationStart};
use ralph_model::prd::{PRD_FILE, Story};
use ralph_model::prompt::{StoryPrompt, VerifyPrompt};
use ralph_model::role::Role;
use ralph_model::run::Trouble;
use ralph_model::story::StoryFact;

use super::judging::text_of;
use super::notes::PROGRESS_FILE;
use super::{Stories, StoriesEnd, WORKFLOW};
use crate::gates::pin::PinnedGates;
use crate::session::{AgentTask, TaskFile, TaskOutbox};
use crate::workflow::WorkflowError;
use crate::workflow::driver::{Subject, Turn, WorkflowStep};
use crate::workflow::repositories::{BEFORE, BeforeAll};
use crate::workflow::review::{self, REVIEW, ReviewRequest};
use crate::workflow::spec_text::SpecText;

/// How a verifier's item is named that is asked for its opinion on a story.
pub(super) const OPINION: &str = "-opinion";

impl Stories<'_, '_> {
    /// Has an implementer work on a story.
    pub(super) fn implement(
        &mut self,
        item: &str,
        story: &Story,
    ) -> Result<WorkflowStep<StoriesEnd>, WorkflowError> {
        // An answer that was acted on just before Ralph died must not decide the next question.
        self.session.questions().take_answer(item)?;
        let pinned = self.pin(item)?;
        // Before anything is recorded, so that Ralph's own commits are not attributed to the run.
        self.project.commit_home(self.session, "ralph: update home", None)?;
        self.project.enter(self.session, item)?;
        let earlier = BEFORE.load(&self.session.context.state, item)?;
        let uncommitted = self.project.repositories.half_done(earlier.as_ref())?;
        self.settle(item, &StoryFact::Given { story: story.clone() })?;
        self.begin(item)?;
        let prd = self.prd()?.render();
        let notes = self.place_notes(item, &prd)?;
        let feedback = self.markers(item)?.record.feedback;
        let text = json(story);
        let outbox = self.session.context.place.outbox();
        let (prd_path, progress_path) = (outbox.join(PRD_FILE), outbox.join(PROGRESS_FILE));
        let map_path = self.map_path();
        let context = StoryPrompt {
            surroundings: self.project.goal_surroundings(self.session, feedback.as_deref()),
            story_id: &story.id,
            story_title: &story.title,
            story: &text,
            progress_path: progress_path.as_str(),
            map_path: map_path.as_str(),
            prd_path: prd_path.as_str(),
            gates: &pinned.gates,
        };
        let (resume, before) = self.session.continuation(item, Role::Implementer, &uncommitted);
        let prompt = self.project.prompts.render_continued(&context, before);
        self.used += 1;
        let attempt = self.session.journal.board().next_try(item, Role::Implementer);
        let step = IterationResult {
            iteration: Some(self.used),
            item: Some(item.to_owned()),
            try_number: Some(attempt),
            ..IterationResult::default()
        };
        self.tell(IterationStart {
            iteration: step.iteration,
            item: step.item.clone(),
            try_number: step.try_number,
            task: Some(story.id.clone()),
            name: Some(story.title.clone()),
            ..IterationStart::default()
        })?;
        self.step = Some(step);
        let file = |name, text: String| TaskFile { name, content: Some(text.into_bytes()) };
        let files = vec![file(PRD_FILE, prd), file(PROGRESS_FILE, notes)];
        Ok(WorkflowStep::Run(Box::new(AgentTask {
            attempt,
            resume,
            outbox: TaskOutbox::Files(files),
            variables: vec![("RALPH_TASK", story.id.clone())],
            ..AgentTask::new(WORKFLOW, Role::Implementer, item, prompt)
        })))
    }

    /// Notes what there is before a run for a story, and from where its work counts.
    pub(super) fn begin(&self, item: &str) -> Result<BeforeAll, WorkflowError> {
        self.project.note_before(self.session, item, None)
    }

    /// Returns the gates of a story as they were pinned; a person's change since then is taken up and recorded.
    pub(super) fn pin(&mut self, item: &str) -> Result<PinnedGates, WorkflowError> {
        let subject = Subject { item: Some(item.to_owned()), ..Subject::default() };
        Ok(self.session.pin(item, subject)?)
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

    /// Has a verifier answer what the judge cannot settle about work on a story.
    pub(super) fn ask_for_review(
        &mut self,
        item: &str,
        story: &Story,
    ) -> Result<WorkflowStep<StoriesEnd>, WorkflowError> {
        let pinned = self.pin(item)?;
        self.project.enter(self.session, item)?;
        let before = BEFORE.load(&self.session.context.state, item)?;
        let base = before.map(|before| before.base()).unwrap_or_default();
        let (tasks, path) = (json(story), self.prd_in_checkout());
        let source = SpecText::new(&story.id, self.options.prd.as_str(), path, text_of(story));
        // Trouble of this run is counted apart from the story's own.
        self.item = Some(format!("{item}{REVIEW}"));
        let request = ReviewRequest {
            workflow: WORKFLOW,
            item,
            source: &source,
            tasks: &tasks,
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
        item: &str,
        story: &Story,
        reason: &str,
    ) -> Result<WorkflowStep<StoriesEnd>, WorkflowError> {
        let pinned = self.pin(item)?;
        self.project.enter(self.session, item)?;
        let opinion = format!("{item}{OPINION}");
        // Trouble of this run is counted apart from the story's own.
        self.item = Some(opinion.clone());
        let repositories = &self.project.repositories;
        let works = repositories.heads(None)?;
        let checkouts = self.session.with_gates(&opinion, |context, tell| {
            repositories.checkouts_for_verifier(context, &pinned, &works, tell)
        })?;
        let Some(first) = checkouts.first() else {
            let message = "no commit to look at".to_owned();
            return Ok(WorkflowStep::Turn(Turn::Trouble(Trouble::Machine { message })));
        };
        let text = json(story);
        let path = self.prd_in_checkout();
        let source = SpecText::new(&story.id, self.options.prd.as_str(), path, text.clone());
        let feedback = format!(
            "The implementer of {} says that nothing has to change ({reason}). Do not accept or reject anything: check whether that is true, and say in your last message what you think and why. A person decides.",
            story.id
        );
        let prompt = self.project.prompts.render(&VerifyPrompt {
            surroundings: self.project.surroundings(self.session, &source, Some(&feedback)),
            tasks: &text,
            commit: &first.work.commit,
            checkout: first.checkout.directory.as_str(),
            elsewhere: None,
            gates: &pinned.gates,
            questions: &[],
        });
        Ok(WorkflowStep::Run(Box::new(AgentTask {
            directory: Some(first.checkout.directory.clone()),
            writable: checkouts.iter().map(|found| found.checkout.tree.clone()).collect(),
            ..AgentTask::new(WORKFLOW, Role::Verifier, &opinion, prompt)
        })))
    }
}

fn json(story: &Story) -> String {
    serde_json::to_string_pretty(story).expect("a story is plain data")
}
