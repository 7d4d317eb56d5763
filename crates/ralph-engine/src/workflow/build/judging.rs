//! A builder's claim before the judge: the work of an attempt is committed and judged in every repository that has some.
//!
//! A task is done when nothing of its work is rejected anywhere; what was committed stays either way.

use ralph_model::build::{Acceptance, Rejection, TaskFact, Work};
use ralph_model::id::RunId;
use ralph_model::journal::{QuestionKind, ReasonText, VerdictKind, VerdictReached};
use ralph_model::plan::Plan;
use ralph_model::role::Role;
use ralph_model::verdict::Verdict;

use super::task_store::Settled;
use super::{Build, BuildEnd};
use crate::gates::pin::PinnedGates;
use crate::judge::{AgreedChecks, Case, Said};
use crate::workflow::WorkflowError;
use crate::workflow::driver::Turn;
use crate::workflow::findings::{Findings, changed_files};
use crate::workflow::merge_review::{self, ASKED_FIRST};
use crate::workflow::repositories::{BeforeAll, attestation};
use crate::workflow::review::{self, ReviewStanding};

/// How a builder says that nothing has to change.
const SAY_NO_CHANGE: &str = "say `ralph task done --no-change \"why\"`";

/// Work, and what the judge measured of it.
pub(super) struct Examined {
    works: Vec<Work>,
    pinned: PinnedGates,
    cases: Vec<Case>,
}

/// How to settle what the judge cannot decide.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Person {
    NotAsked,
    Agrees,
}

impl Build<'_, '_> {
    /// Commits what a run left, and has the judge decide on the work.
    pub(super) fn judge_build(
        &mut self,
        task: &str,
        before: &BeforeAll,
        run: RunId,
    ) -> Result<Turn<BuildEnd>, WorkflowError> {
        let name = self.name_of(task)?;
        let message = format!("{name}\n\nTask: {task}\n");
        let repositories = &self.project.repositories;
        if let Some(why) = repositories.commit_leftovers(before, &message, self.signing)? {
            self.back_to_branches(task)?;
            let reasons = vec![ReasonText::new("not_committed", &why)];
            return self.reject(task, Some(run), Rejection::plain(why), reasons);
        }
        let works = repositories.work_of(before)?;
        let examined = self.examine(task, before, works)?;
        self.back_to_branches(task)?;
        self.conclude_claim(task, before, examined, Person::NotAsked, Some(run))
    }

    /// Has the judge measure work.
    pub(super) fn examine(
        &mut self,
        task: &str,
        before: &BeforeAll,
        works: Vec<Work>,
    ) -> Result<Examined, WorkflowError> {
        let pinned = self.pin(task)?;
        if let Some(cases) = self.measured.take(task, &works) {
            return Ok(Examined { works, pinned, cases });
        }
        let mut cases = Vec::new();
        let repositories = &self.project.repositories;
        for work in &works {
            let said = Said::Work(work.clone());
            cases.push(self.session.with_gates(task, |context, tell| {
                repositories.examine(context, before, &pinned, &said, tell)
            })?);
        }
        Ok(Examined { works, pinned, cases })
    }

    /// Draws the conclusions of what the judge measured. `run` made the claim; a person's decision has none.
    pub(super) fn conclude_claim(
        &mut self,
        task: &str,
        before: &BeforeAll,
        examined: Examined,
        person: Person,
        run: Option<RunId>,
    ) -> Result<Turn<BuildEnd>, WorkflowError> {
        let Examined { works, pinned, cases } = examined;
        let Some(first) = works.first() else {
            let reason = "no commit".to_owned();
            let reasons = vec![ReasonText::new("no_commit", &reason)];
            return self.reject(task, run, Rejection::plain(reason), reasons);
        };
        let review = self.review_of(task, &works, &cases)?;
        let found = match Findings::of(&works, &cases, &review, SAY_NO_CHANGE) {
            Ok(found) => found,
            Err(trouble) => return Ok(Turn::Trouble(trouble)),
        };
        if let Some(rejection) = found.rejected {
            return self.reject_by(review.by(), task, run, rejection, found.reasons);
        }
        self.project.keep_candidate(self.session, task, &works)?;
        if matches!(review, ReviewStanding::Wanted) && person == Person::NotAsked {
            self.measured.keep(task, &works, &cases);
            let question = ASKED_FIRST.to_owned();
            self.settle(task, &TaskFact::Undecided { run, works, question })?;
            return Ok(Turn::Progress);
        }
        if let Some(question) = found.question.filter(|_| person == Person::NotAsked) {
            let verdict = Verdict::NeedsHuman { question: question.clone() };
            self.tell(VerdictReached {
                commit: Some(first.commit.to_string()),
                ..VerdictReached::of(task, "judge", &verdict)
            })?;
            let commit = question.commit().map(ToString::to_string);
            let question = question.to_string();
            let fact = TaskFact::Undecided { run, works, question: question.clone() };
            self.settle(task, &fact)?;
            return self.ask_person(task, question, QuestionKind::Accept, commit.as_deref());
        }
        let context = &self.session.context;
        let agreed = match person {
            Person::Agrees => AgreedChecks::Person,
            Person::NotAsked => review.agreed(&cases),
        };
        let attested = attestation(context, task, Role::Builder, review.receipt(), agreed);
        let repositories = &self.project.repositories;
        repositories.attest(&context.gates(task), before, &pinned, &cases, &attested)?;
        let level = merge_review::level(&context.state, task, &works, found.level)?;
        let acceptance = Acceptance { done_at: Some(first.commit.clone()), works, level };
        let by = if person == Person::Agrees { "person" } else { review.by() };
        self.tell(VerdictReached {
            item: task.to_owned(),
            commit: acceptance.done_at.as_ref().map(ToString::to_string),
            verdict: VerdictKind::Accepted,
            by: by.to_owned(),
            level: Some(acceptance.level),
            files: Some(changed_files(&cases)),
            ..VerdictReached::default()
        })?;
        let commit = acceptance.done_at.as_ref().map(ToString::to_string);
        match self.settle(task, &TaskFact::Accepted { run, acceptance })? {
            Settled::Whole | Settled::Unsettled => Ok(Turn::Progress),
            // Not the agent's fault, so it costs nothing: the next run gets it as feedback.
            Settled::Refused { why } => {
                self.round.feedback = Some((task.to_owned(), why));
                Ok(Turn::Again)
            }
            Settled::Stuck { question } => {
                self.ask_person(task, question, QuestionKind::Retry, commit.as_deref())
            }
        }
    }

    /// Says what is known of a question about work, which may wait for a verifier.
    fn review_of(
        &self,
        task: &str,
        works: &[Work],
        cases: &[Case],
    ) -> Result<ReviewStanding, WorkflowError> {
        let bytes = self.plan.read()?;
        let plan = Plan::parse(&bytes);
        let spec = if plan.spec().is_some() { self.source(&plan)?.text } else { String::new() };
        Ok(review::standing(&self.session.context.state, task, works, cases, &spec)?)
    }

    /// Returns a task to the pending ones with the judge's reason on it.
    pub(super) fn reject(
        &mut self,
        task: &str,
        run: Option<RunId>,
        rejection: Rejection,
        reasons: Vec<ReasonText>,
    ) -> Result<Turn<BuildEnd>, WorkflowError> {
        self.reject_by("judge", task, run, rejection, reasons)
    }

    fn reject_by(
        &mut self,
        by: &str,
        task: &str,
        run: Option<RunId>,
        rejection: Rejection,
        reasons: Vec<ReasonText>,
    ) -> Result<Turn<BuildEnd>, WorkflowError> {
        review::forget(&self.session.context.state, task)?;
        self.tell(VerdictReached {
            item: task.to_owned(),
            commit: rejection.commit.as_ref().map(ToString::to_string),
            verdict: VerdictKind::Rejected,
            by: by.to_owned(),
            reasons,
            ..VerdictReached::default()
        })?;
        // The rejection itself was reported when it was written to the plan.
        self.round.feedback = Some((task.to_owned(), rejection.for_agent.clone()));
        self.settle(task, &TaskFact::Rejected { run, rejection })?;
        Ok(Turn::Failed)
    }
}
