//! Events of goal-driven work: the interview, the person's decisions, the map of the code.

use super::event_data;

event_data! {
    /// The interviewer took a turn.
    InterviewTurn {
        goal: String,
        /// How many questions it has for the person.
        questions: Option<u32>,
        /// How many stories its draft has, if it is a valid one.
        stories: Option<u32>,
        /// What was wrong with it, word for word.
        problems: Vec<String>,
    }

    /// The person approved of a PRD, and it was written.
    PrdApproved {
        branch: String,
        stories: Option<u32>,
        failing: Option<u32>,
    }

    /// The person was asked for their consent to a step.
    ConsentAsked {
        /// `prd`, `understand` or `run`.
        step: String,
        /// Why, and how far it would go.
        reasons: Vec<String>,
        /// `yes` or `no`.
        answer: String,
    }

    /// A mapper's run on one topic is over.
    TopicMapped {
        topic: String,
        /// Why the map was not taken, if it was not.
        reason: Option<String>,
        /// How many topics are left.
        left: Option<u32>,
    }

    /// The work on a story is accepted, and the PRD says that the story passes.
    StoryPassed {
        /// Its id in the PRD.
        story: String,
        title: String,
        item: String,
        /// The commit that was judged; none where a person decided that nothing had to change.
        commit: Option<String>,
        level: Option<crate::proof::LandedLevel>,
        /// How many stories still fail.
        left: Option<u32>,
    }
}
