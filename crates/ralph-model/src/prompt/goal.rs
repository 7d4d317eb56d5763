//! The contexts of the prompts of goal-driven work. Questions, drafts and stories are given as text.

use crate::gate::GateSpec;

use super::{PromptContext, PromptKind, RulesSource, Values, gate_list};

/// Values common to all prompts of goal-driven work.
#[derive(Clone, Copy, Debug)]
pub struct GoalSurroundings<'a> {
    pub workspace: &'a str,
    pub home: &'a str,
    pub rules: Option<RulesSource<'a>>,
    /// The problems of the last run, for the agent.
    pub feedback: Option<&'a str>,
}

impl<'a> GoalSurroundings<'a> {
    fn values(&self) -> Values<'a> {
        let mut values = Values::default();
        values.add("workspace", self.workspace);
        values.add("home", self.home);
        values.add_rules(self.rules);
        values.add_optional("feedback", self.feedback);
        values
    }
}

/// For the interviewer.
#[derive(Clone, Copy, Debug)]
pub struct InterviewPrompt<'a> {
    pub surroundings: GoalSurroundings<'a>,
    pub goal: &'a str,
    /// The questions and answers so far.
    pub answers: Option<&'a str>,
    /// The last draft, if there is one.
    pub draft: Option<&'a str>,
    /// The PRD to update.
    pub prd: Option<&'a str>,
    pub map: Option<&'a str>,
}

impl PromptContext for InterviewPrompt<'_> {
    const KIND: PromptKind = PromptKind::Interview;

    fn values(&self) -> Values<'_> {
        let mut values = self.surroundings.values();
        values.add("goal", self.goal);
        values.add("contract", include_str!("templates/interview_contract.md").trim_end());
        values.add_optional("answers", self.answers);
        values.add_optional("draft", self.draft);
        values.add_optional("prd", self.prd);
        values.add_optional("map", self.map);
        values
    }
}

/// For the mapper of one topic.
#[derive(Clone, Copy, Debug)]
pub struct UnderstandPrompt<'a> {
    pub surroundings: GoalSurroundings<'a>,
    pub topic: &'a str,
    /// The path at which the mapper reads and writes the map.
    pub map_path: &'a str,
    /// The date of a new entry.
    pub today: &'a str,
}

impl PromptContext for UnderstandPrompt<'_> {
    const KIND: PromptKind = PromptKind::Understand;

    fn values(&self) -> Values<'_> {
        let mut values = self.surroundings.values();
        values.add("topic", self.topic);
        values.add("map_path", self.map_path);
        values.add("today", self.today);
        values
    }
}

/// For the implementer of one story.
#[derive(Clone, Copy, Debug)]
pub struct StoryPrompt<'a> {
    pub surroundings: GoalSurroundings<'a>,
    pub story_id: &'a str,
    pub story_title: &'a str,
    /// The story as the PRD has it.
    pub story: &'a str,
    /// The path of the notes of earlier runs, to which this run adds.
    pub progress_path: &'a str,
    pub map_path: &'a str,
    /// The copy of the PRD in which this run claims that the story passes.
    pub prd_path: &'a str,
    /// The gates that the harness runs on the work.
    pub gates: &'a [GateSpec],
}

impl PromptContext for StoryPrompt<'_> {
    const KIND: PromptKind = PromptKind::Story;

    fn values(&self) -> Values<'_> {
        let mut values = self.surroundings.values();
        values.add("story_id", self.story_id);
        values.add("story_title", self.story_title);
        values.add("story", self.story);
        values.add("progress_path", self.progress_path);
        values.add("map_path", self.map_path);
        values.add("prd_path", self.prd_path);
        values.add_optional("gates", gate_list(self.gates));
        values
    }
}
