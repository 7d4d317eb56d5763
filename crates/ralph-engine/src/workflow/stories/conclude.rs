//! From a run's result to the machine: what the run claims, and what follows from it.

use ralph_model::build::Rejection;
use ralph_model::journal::{ReasonText, StepResult, VerdictKind, VerdictReached};
use ralph_model::prd::Prd;
use ralph_model::run::RunOutcome;
use ralph_model::story::{StoryFact, StoryInPrd, StoryState};

use super::store::StoryHealing;
use super::{Stories, StoriesEnd};
use crate::run::{RESULTS, RunResult};
use crate::workflow::driver::Turn;
use crate::workflow::overview::read_prd;
use crate::workflow::repositories::{BEFORE, BeforeAll};
use crate::workflow::{CLONE_LOST, WorkflowError, review, unfinished};

impl Stories<'_, '_> {
    pub(super) fn conclude_implementer(
        &mut self,
        item: &str,
        result: &RunResult,
    ) -> Result<Turn<StoriesEnd>, WorkflowError> {
        // A verdict that a crash cut short is completed, not reached again.
        match self.heal(item)? {
            StoryHealing::Nothing => {}
            StoryHealing::Writes => return Ok(Turn::Progress),
            StoryHealing::Refused => return Ok(Turn::Again),
        }
        if !self.project.is_in_place() {
            self.take_notes(item, result)?;
        }
        let run = result.run.clone();
        // Before the PRD is looked at: what an agent wrote into it is no word of a person's.
        let id = self.markers(item)?.record.given.map(|given| given.id);
        let is_written = self.take_back_passes(item, id.as_deref().unwrap_or_default())?;
        match self.markers(item)?.in_prd {
            StoryInPrd::Gone | StoryInPrd::Passes => {
                self.back_to_branches(item)?;
                self.settle(item, &StoryFact::LaidAside { run })?;
                self.note("the story was removed or passes by now; its run's work does not land")?;
                return Ok(Turn::Progress);
            }
            StoryInPrd::Failing { changed: true } => {
                self.back_to_branches(item)?;
                self.settle(item, &StoryFact::Outdated { run })?;
                self.note("the story was changed during the run; the next run uses its new text")?;
                return Ok(Turn::Progress);
            }
            StoryInPrd::Failing { changed: false } => {}
        }
        let Some(before) = BEFORE.load(&self.session.context.state, item)? else {
            if self.project.is_in_place() {
                return Ok(Turn::Again);
            }
            let why = format!("The last run cannot be judged: {CLONE_LOST}.");
            let reasons = vec![ReasonText::new("run_unfinished", &why)];
            return self.reject(item, Some(run), Rejection::plain(why), reasons);
        };
        let is_claimed = self.has_touched_passes_alone(result);
        if let Some(why) = unfinished(&result.outcome).filter(|_| !is_claimed) {
            self.back_to_branches(item)?;
            let why = format!("The last run ended without a usable result: {why}.");
            let reasons = vec![ReasonText::new("run_unfinished", &why)];
            return self.reject(item, Some(run), Rejection::plain(why), reasons);
        }
        self.conclude_claim(item, &before, result, is_claimed || is_written)
    }

    /// Tells whether a run in place changed nothing that it must not but `passes` in the PRD. That was put back, and is a
    /// claim: agents of other loops know no other way to make one.
    pub(super) fn has_touched_passes_alone(&self, result: &RunResult) -> bool {
        let context = &self.session.context;
        let path = self.prd_in_checkout();
        let prd = path.strip_prefix(&context.workspace.root).unwrap_or(&path);
        if result.outcome != RunOutcome::Completed
            || result.unattributed.is_empty()
            || result.unattributed.iter().any(|changed| changed != prd.as_str())
        {
            return false;
        }
        let written = result.put_away(prd).and_then(|text| Prd::parse(&text).ok());
        let now = read_prd(&path).ok();
        written.zip(now).is_some_and(|(written, now)| written.with_passes_of(Some(&now)) == now)
    }

    fn conclude_claim(
        &mut self,
        item: &str,
        before: &BeforeAll,
        result: &RunResult,
        is_claimed: bool,
    ) -> Result<Turn<StoriesEnd>, WorkflowError> {
        let run = result.run.clone();
        let Some(story) = self.story(item)? else { return Ok(Turn::Again) };
        let is_claimed = is_claimed || self.is_claimed(result, &story.id);
        let no_change = result.answer().no_change_needed();
        let is_unchanged = self.project.repositories.probe(before).is_unchanged();
        match no_change {
            Some(reason) if is_unchanged => {
                self.back_to_branches(item)?;
                self.settle(item, &StoryFact::NoChangeClaimed { run, reason })?;
                Ok(Turn::Progress)
            }
            None if !is_claimed => {
                self.back_to_branches(item)?;
                let why = format!(
                    "The last run ended without a claim that {0} is done. What it did is still there. Finish the story, and \
                     set the `passes` of {0} to true in your copy of the PRD.",
                    story.id
                );
                let told = format!("{}: the run ended without a claim that it is done", story.id);
                let reasons = vec![ReasonText::new("no_claim", &told)];
                let rejection = Rejection { commit: None, for_agent: why, for_person: told };
                self.reject(item, Some(run), rejection, reasons)
            }
            _ => self.judge(item, &story, before, run),
        }
    }

    pub(super) fn conclude_opinion(
        &mut self,
        item: &str,
        result: &RunResult,
    ) -> Result<Turn<StoriesEnd>, WorkflowError> {
        self.heal(item)?;
        if matches!(self.state_of(item)?, StoryState::NoChange { .. }) {
            let said = result.final_message.as_deref().unwrap_or("it gave none");
            self.settle(item, &StoryFact::OpinionGiven { opinion: said.trim().to_owned() })?;
        }
        Ok(Turn::Progress)
    }

    /// Keeps what a verifier said of work that the judge had a question about.
    pub(super) fn conclude_review(
        &mut self,
        item: &str,
        result: &RunResult,
    ) -> Result<Turn<StoriesEnd>, WorkflowError> {
        review::keep(&self.session.context.state, item, result)?;
        Ok(Turn::Progress)
    }

    /// Sends a story back with what the judge says was wrong.
    pub(super) fn reject(
        &mut self,
        item: &str,
        run: Option<ralph_model::id::RunId>,
        rejection: Rejection,
        reasons: Vec<ReasonText>,
    ) -> Result<Turn<StoriesEnd>, WorkflowError> {
        self.reject_by("judge", item, run, rejection, reasons)
    }

    pub(super) fn reject_by(
        &mut self,
        by: &str,
        item: &str,
        run: Option<ralph_model::id::RunId>,
        rejection: Rejection,
        reasons: Vec<ReasonText>,
    ) -> Result<Turn<StoriesEnd>, WorkflowError> {
        review::forget(&self.session.context.state, item)?;
        self.tell(VerdictReached {
            item: item.to_owned(),
            commit: rejection.commit.as_ref().map(ToString::to_string),
            verdict: VerdictKind::Rejected,
            by: by.to_owned(),
            reasons,
            ..VerdictReached::default()
        })?;
        let told = rejection.for_person.clone();
        self.settle(item, &StoryFact::Rejected { run, rejection })?;
        self.end_step(StepResult::Failed, Some(told))?;
        Ok(Turn::Failed)
    }

    /// Returns to the branches that an item's run began on, and takes the notes of the run that is concluded. Only there can
    /// notes of a run in place be kept: on a branch of the run's they would be left behind with it.
    pub(super) fn back_to_branches(&mut self, item: &str) -> Result<(), WorkflowError> {
        self.project.return_to_branches(self.session, item)?;
        let pending = RESULTS.load(&self.session.context.state, item)?;
        match pending.filter(|_| self.project.is_in_place()) {
            Some(result) => self.take_notes(item, &result),
            None => Ok(()),
        }
    }
}
