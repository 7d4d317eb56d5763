//! The contexts of the build loop's prompts. Tasks and issues are given as text, as the plan shows them.

use crate::gate::GateSpec;
use crate::id::CommitId;
use crate::verdict::VerifierQuestion;

use super::pipeline::question_list;
use super::{PromptContext, PromptKind, Surroundings, Values, gate_list};

/// For the planner of tasks.
#[derive(Clone, Copy, Debug)]
pub struct PlanPrompt<'a> {
    pub surroundings: Surroundings<'a>,
    /// The current plan, and the outcome of earlier tasks.
    pub tasks: Option<&'a str>,
}

impl PromptContext for PlanPrompt<'_> {
    const KIND: PromptKind = PromptKind::Plan;

    fn values(&self) -> Values<'_> {
        let mut values = self.surroundings.values();
        values.add_optional("tasks", self.tasks);
        values
    }
}

/// For the builder of one task.
#[derive(Clone, Copy, Debug)]
pub struct BuildPrompt<'a> {
    pub surroundings: Surroundings<'a>,
    pub task_id: &'a str,
    pub task: &'a str,
    /// Why a verifier rejected it.
    pub rejected: Option<&'a str>,
    /// The gates that the harness runs on the work.
    pub gates: &'a [GateSpec],
}

impl PromptContext for BuildPrompt<'_> {
    const KIND: PromptKind = PromptKind::Build;

    fn values(&self) -> Values<'_> {
        let mut values = self.surroundings.values();
        values.add("task_id", self.task_id);
        values.add("task", self.task);
        values.add_optional("rejected", self.rejected);
        values.add_optional("gates", gate_list(self.gates));
        values
    }
}

/// For the verifier of tasks that were claimed done.
#[derive(Clone, Copy, Debug)]
pub struct VerifyPrompt<'a> {
    pub surroundings: Surroundings<'a>,
    pub tasks: &'a str,
    pub commit: &'a CommitId,
    /// The disposable checkout it works in.
    pub checkout: &'a str,
    /// The work in other repositories, one line each.
    pub elsewhere: Option<&'a str>,
    /// The gates that the harness ran on the work.
    pub gates: &'a [GateSpec],
    pub questions: &'a [VerifierQuestion],
}

impl PromptContext for VerifyPrompt<'_> {
    const KIND: PromptKind = PromptKind::Verify;

    fn values(&self) -> Values<'_> {
        let mut values = self.surroundings.values();
        values.add("tasks", self.tasks);
        values.add("commit", self.commit.as_str());
        values.add("checkout", self.checkout);
        values.add_optional("elsewhere", self.elsewhere);
        values.add_optional("gates", gate_list(self.gates));
        values.add_optional("questions", question_list(self.questions));
        values
    }
}

/// For the verifier that is asked about what the judge cannot settle.
#[derive(Clone, Copy, Debug)]
pub struct ReviewPrompt<'a> {
    pub surroundings: Surroundings<'a>,
    /// The tasks that were to be done.
    pub tasks: &'a str,
    pub commit: &'a CommitId,
    /// Where the work began.
    pub base: Option<&'a CommitId>,
    /// The disposable checkout it works in.
    pub checkout: &'a str,
    /// The work in other repositories, one line each.
    pub elsewhere: Option<&'a str>,
    /// The gates that the harness ran on the work.
    pub gates: &'a [GateSpec],
    pub questions: &'a [VerifierQuestion],
    pub magic_phrase: &'a str,
}

impl PromptContext for ReviewPrompt<'_> {
    const KIND: PromptKind = PromptKind::Review;

    fn values(&self) -> Values<'_> {
        let mut values = self.surroundings.values();
        values.add("tasks", self.tasks);
        values.add("commit", self.commit.as_str());
        values.add_optional("base", self.base.map(CommitId::as_str));
        values.add("checkout", self.checkout);
        values.add_optional("elsewhere", self.elsewhere);
        values.add_optional("gates", gate_list(self.gates));
        values.add("questions", question_list(self.questions).unwrap_or_default());
        values.add("magic_phrase", self.magic_phrase);
        values
    }
}

/// For the investigator of issues.
#[derive(Clone, Copy, Debug)]
pub struct InvestigatePrompt<'a> {
    pub surroundings: Surroundings<'a>,
    pub issues: &'a str,
    /// The tasks already derived from these issues.
    pub tasks: Option<&'a str>,
}

impl PromptContext for InvestigatePrompt<'_> {
    const KIND: PromptKind = PromptKind::Investigate;

    fn values(&self) -> Values<'_> {
        let mut values = self.surroundings.values();
        values.add("issues", self.issues);
        values.add_optional("tasks", self.tasks);
        values
    }
}

/// For the decomposer of a task that was stopped.
#[derive(Clone, Copy, Debug)]
pub struct DecomposePrompt<'a> {
    pub surroundings: Surroundings<'a>,
    pub task_id: &'a str,
    pub task: &'a str,
    /// What stopped it: `timeout` or `context`.
    pub kill: &'a str,
    /// The log of the run that was stopped.
    pub kill_log: Option<&'a str>,
}

impl PromptContext for DecomposePrompt<'_> {
    const KIND: PromptKind = PromptKind::Decompose;

    fn values(&self) -> Values<'_> {
        let mut values = self.surroundings.values();
        values.add("task_id", self.task_id);
        values.add("task", self.task);
        values.add("kill", self.kill);
        values.add_optional("kill_log", self.kill_log);
        values
    }
}
