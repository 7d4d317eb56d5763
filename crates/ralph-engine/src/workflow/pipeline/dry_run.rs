//! What a run of the pipeline would do, spec by spec, and why; nothing is written.

use ralph_model::board::Board;
use ralph_model::pipeline::{Action, GiveUp, next};
use ralph_model::spec::name::SpecPath;
use serde::Serialize;

use super::PipelineOptions;
use super::list::changed_since_done;
use super::store::SpecStore;
use crate::workflow::WorkflowError;

/// What would happen to a spec first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Forecast {
    pub spec: String,
    pub action: &'static str,
    pub why: String,
}

/// Says what would happen to a spec.
pub fn forecast(
    store: &SpecStore,
    spec: &SpecPath,
    options: &PipelineOptions,
    board: &Board,
) -> Result<Forecast, WorkflowError> {
    let mut markers = store.load(spec)?;
    let changed = changed_since_done(store, spec, &markers)?;
    let forced = options.forced.contains(spec);
    if forced {
        markers.done = None;
        markers.candidate = None;
    }
    if let Some(plan) = &mut markers.plan
        && (forced || options.renewed.contains(spec))
    {
        plan.attempts_used = 0;
        plan.tries.clear();
    }
    let (action, why) = match next(&markers, options.limits()) {
        Action::Skip if changed => ("skip", "it is done; it was changed since".to_owned()),
        Action::Skip => ("skip", "it is done".to_owned()),
        Action::Plan { replan: Some(replan), .. } => {
            ("plan", format!("the last plan was invalid: {}", replan.reason))
        }
        Action::Plan { .. } if markers.plan.is_some() => {
            ("plan", "planning was not finished".to_owned())
        }
        Action::Plan { .. } => ("plan", "it has no plan".to_owned()),
        Action::Adopt { .. } => ("implement", "the plan was written by hand".to_owned()),
        Action::Implement { feedback: Some(_) } => {
            ("implement", "the last attempt was rejected; there is feedback".to_owned())
        }
        Action::Implement { .. } => ("implement", "it has a plan".to_owned()),
        Action::Verify { no_change: Some(_), .. } => {
            ("verify", "the agent says that nothing needs to change".to_owned())
        }
        Action::Verify { commit, .. } => {
            ("verify", format!("it has a candidate, {}", &commit.as_str()[..8]))
        }
        Action::AskPerson { question } => match board.answered(&spec.run_id()) {
            Some(answered) => {
                let answer = answered.answer.as_deref().unwrap_or_default();
                ("answer", format!("acts on your answer: {answer}"))
            }
            None => ("wait", format!("needs your decision: {question}")),
        },
        Action::GiveUp(GiveUp::Repetition { times }) => {
            ("fail", format!("the same result {times} times; --retry tries again"))
        }
        Action::GiveUp(GiveUp::AttemptsSpent) => {
            let attempts = options.max_attempts;
            ("fail", format!("no attempts left of {attempts}; --retry resets the count"))
        }
    };
    let why = if forced { format!("{why} (forced)") } else { why };
    Ok(Forecast { spec: spec.to_string(), action, why })
}
