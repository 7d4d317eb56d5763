//! Accepted work on a story, put on the PRD's branch in one commit with the PRD that says so.

use ralph_model::build::Acceptance;
use ralph_model::pipeline::records::Base;
use ralph_model::prd::Story;
use ralph_model::role::Role;
use ralph_model::story::StoryFact;

use super::Stories;
use super::store::StorySettling;
use crate::workflow::isolation::landing::{
    LandingEnd, LandingRequest, MOST_REFUSED, landed_before, stuck_question,
};
use crate::workflow::{WorkflowError, review};

impl Stories<'_, '_> {
    /// Puts accepted work on the branch.
    pub(super) fn land(
        &mut self,
        item: &str,
        story: &Story,
        acceptance: &Acceptance,
        prd: &[u8],
    ) -> Result<LandingEnd, WorkflowError> {
        let works = &acceptance.works;
        let Some(before) = self.project.before_landing(self.session, item, works)? else {
            return Ok(LandingEnd::Landed { level: landed_before(acceptance) });
        };
        let base = self.project.slot_base(self.session, item)?.unwrap_or_else(|| before.base());
        let pinned = self.pin(item)?;
        let asked = review::asked_gates(&self.session.context.state, item, works)?;
        let prd = vec![(self.project.home().join(&self.options.prd), prd.to_vec())];
        let given = self.given(item)?;
        let message = format!("ralph: {} passes", story.id);
        let request = LandingRequest {
            item,
            works: &acceptance.works,
            base: &base,
            before: &before,
            pinned: &pinned,
            level: acceptance.level,
            asked: &asked,
            after: None,
            is_persons_word: false,
            files: &|_| Ok(prd.clone()),
            with: &[],
            given: &given,
            marks: None,
            message: &message,
            worker: Role::Implementer,
        };
        self.project.land(self.session, &request)
    }

    /// Sends accepted work back that the branch has moved away from; after the third time in a row a person is asked.
    pub(super) fn landing_refused(
        &mut self,
        item: &str,
        acceptance: &Acceptance,
        why: String,
        tips: &Base,
    ) -> Result<StorySettling, WorkflowError> {
        self.note(format!("the work could not land: {}", why.lines().next().unwrap_or_default()))?;
        let refused = self.markers(item)?.record.landings_refused;
        let fact = if refused + 1 >= MOST_REFUSED {
            let commit = acceptance.done_at.as_ref().map(ToString::to_string);
            let question = stuck_question(commit.as_deref(), &why);
            StoryFact::LandingStuck { question }
        } else {
            StoryFact::LandingRefused { why }
        };
        self.settle(item, &fact)?;
        if let StoryFact::LandingStuck { question } = fact {
            return Ok(StorySettling::Stuck { question });
        }
        self.project.go_on_from(self.session, item, tips)?;
        Ok(StorySettling::Refused)
    }
}
