//! The context of the loop's prompt. The task takes the place that other prompts use for their spec.

use super::{PromptContext, PromptKind, Surroundings, Values, gate_list};
use crate::gate::GateSpec;
use crate::phase::LoopPhase;

/// For the builder of the loop's task.
#[derive(Clone, Copy, Debug)]
pub struct LoopPrompt<'a> {
    pub surroundings: Surroundings<'a>,
    /// The directory of the mailbox.
    pub mailbox: &'a str,
    pub phase: LoopPhase,
    /// The number of the iteration, from 1, and the maximum.
    pub iteration: u32,
    pub iterations: u32,
    pub origin: Option<&'a str>,
    pub plan: Option<PlanSource<'a>>,
    /// How urgent the feedback is.
    pub escalation: Option<&'a str>,
    /// The gates that the harness runs on the work.
    pub gates: &'a [GateSpec],
}

/// The plan as the agent left it.
#[derive(Clone, Copy, Debug)]
pub struct PlanSource<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

impl PromptContext for LoopPrompt<'_> {
    const KIND: PromptKind = PromptKind::Loop;

    fn values(&self) -> Values<'_> {
        let mut values = self.surroundings.values();
        values.add("mailbox", self.mailbox);
        values.add("phase", self.phase.name());
        values.add("iteration", self.iteration.to_string());
        values.add("iterations", self.iterations.to_string());
        values.add_optional("origin", self.origin);
        if let Some(plan) = self.plan.filter(|plan| !plan.text.trim().is_empty()) {
            values.add("plan", plan.text);
            values.add("plan_file", plan.file);
        }
        values.add_optional("escalation", self.escalation);
        values.add_optional("gates", gate_list(self.gates));
        values
    }
}
