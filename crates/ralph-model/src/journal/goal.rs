//! Events of goal-driven work: the interview, the person's decisions, the map of the code.

use super::event_data;

event_data! {
    /// The interviewer took a turn.
    InterviewTurn {
        goal: String,
        /// How many questions it asks the person.
        questions: Option<u32>,
        /// How many stories its draft has, if it is valid.
        stories: Option<u32>,
        /// Its problems, verbatim.
        problems: Vec<String>,
    }

    /// The person approved a PRD, and it was written.
    PrdApproved {
        branch: String,
        stories: Option<u32>,
        failing: Option<u32>,
    }

    /// The person was asked for consent to a step.
    ConsentAsked {
        /// `prd`, `understand` or `run`.
        step: String,
        /// The reasons, and the extent of the step.
        reasons: Vec<String>,
        /// `yes` or `no`.
        answer: String,
    }

    /// A mapper's run on one topic ended.
    TopicMapped {
        topic: String,
        /// Why the map was not accepted, if so.
        reason: Option<String>,
        /// How many topics remain.
        left: Option<u32>,
    }

    /// The work on a story is accepted, and the PRD marks the story as passing.
    StoryPassed {
        /// Its id in the PRD.
        story: String,
        title: String,
        item: String,
        /// The commit that was judged; `None` if a person decided that nothing had to change.
        commit: Option<String>,
        level: Option<crate::proof::LandedLevel>,
        /// How many stories still fail.
        left: Option<u32>,
    }
}
