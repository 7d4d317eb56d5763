//! The contexts of the pipeline's prompts.

use crate::gate::GateSpec;
use crate::id::CommitId;
use crate::verdict::VerifierQuestion;

use super::{PromptContext, PromptKind, Surroundings, Values, gate_list};

/// For the planner of a spec.
#[derive(Clone, Copy, Debug)]
pub struct SpecPlanPrompt<'a> {
    pub surroundings: Surroundings<'a>,
    /// The directory in which it leaves the plan.
    pub outbox: &'a str,
    pub gates: &'a [GateSpec],
    /// Why another plan is needed.
    pub replan: Option<PreviousPlan<'a>>,
    pub magic_phrase: &'a str,
}

/// The outcome of the previous plan.
#[derive(Clone, Copy, Debug)]
pub struct PreviousPlan<'a> {
    pub reason: &'a str,
    /// Its text, where it was kept.
    pub old_plan: Option<&'a str>,
}

impl PromptContext for SpecPlanPrompt<'_> {
    const KIND: PromptKind = PromptKind::SpecPlan;

    fn values(&self) -> Values<'_> {
        let mut values = self.surroundings.values();
        values.add("outbox", self.outbox);
        values.add_optional("gates", gate_list(self.gates));
        values.add_optional("replan_reason", self.replan.map(|replan| replan.reason));
        values.add_optional("old_plan", self.replan.and_then(|replan| replan.old_plan));
        values.add("magic_phrase", self.magic_phrase);
        values
    }
}

/// For the implementer of a spec.
#[derive(Clone, Copy, Debug)]
pub struct SpecImplementPrompt<'a> {
    pub surroundings: Surroundings<'a>,
    pub plan: &'a str,
    pub plan_path: &'a str,
    /// The gates that the harness runs on the commit.
    pub gates: &'a [GateSpec],
    pub magic_phrase: &'a str,
}

impl PromptContext for SpecImplementPrompt<'_> {
    const KIND: PromptKind = PromptKind::SpecImplement;

    fn values(&self) -> Values<'_> {
        let mut values = self.surroundings.values();
        values.add("plan", self.plan);
        values.add("plan_path", self.plan_path);
        values.add_optional("gates", gate_list(self.gates));
        values.add("magic_phrase", self.magic_phrase);
        values
    }
}

/// For the verifier of a candidate.
#[derive(Clone, Copy, Debug)]
pub struct SpecVerifyPrompt<'a> {
    pub surroundings: Surroundings<'a>,
    pub plan: &'a str,
    pub candidate: &'a CommitId,
    /// Where work on the spec began.
    pub base: Option<&'a CommitId>,
    /// The disposable checkout it works in.
    pub checkout: &'a str,
    /// The work in other repositories, one line each.
    pub elsewhere: Option<&'a str>,
    /// The gates that the harness ran on the commit.
    pub gates: &'a [GateSpec],
    pub questions: &'a [VerifierQuestion],
    /// Why nothing needs to change, if that is the claim.
    pub no_change: Option<&'a str>,
    pub magic_phrase: &'a str,
}

impl PromptContext for SpecVerifyPrompt<'_> {
    const KIND: PromptKind = PromptKind::SpecVerify;

    fn values(&self) -> Values<'_> {
        let mut values = self.surroundings.values();
        values.add("plan", self.plan);
        values.add("candidate", self.candidate.as_str());
        values.add_optional("base", self.base.map(CommitId::as_str));
        values.add("checkout", self.checkout);
        values.add_optional("elsewhere", self.elsewhere);
        values.add_optional("gates", gate_list(self.gates));
        values.add_optional("questions", question_list(self.questions));
        values.add_optional("no_change", self.no_change);
        values.add("magic_phrase", self.magic_phrase);
        values
    }
}

/// Numbers the questions for a verifier.
pub(super) fn question_list(questions: &[VerifierQuestion]) -> Option<String> {
    let numbered = questions.iter().enumerate();
    let lines: Vec<String> =
        numbered.map(|(at, question)| format!("{}. {question}", at + 1)).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}
