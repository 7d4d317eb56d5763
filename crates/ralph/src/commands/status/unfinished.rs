//! What waits to be continued: the task of the loop, and the interview about a goal.

use ralph_engine::workflow::goal::store::GoalStore;
use ralph_engine::workflow::phased::Phased;
use ralph_model::board::Board;
use ralph_model::goal::{GoalStage, GoalState};
use ralph_model::phase::{LoopPhase, LoopRecord, LoopStanding};
use serde::Serialize;

use super::state_of_workflow;
use crate::render::human::{one_line, plural};
use crate::render::text::StyledLine;
use crate::render::{Tone, Ui, styled};
use crate::setup::Setup;

/// How much of a task or of a goal is shown.
const SHOWN: usize = 60;

/// The task of the loop, until it is accepted or rolled back.
#[derive(Serialize)]
pub(super) struct UnfinishedLoop {
    task: u32,
    text: String,
    phase: LoopPhase,
    iterations: u32,
    /// Where it stands, in words.
    state: String,
    /// The command that continues it; `null` while it runs.
    next: Option<&'static str>,
}

/// The interview about a goal, until its PRD is approved.
#[derive(Serialize)]
pub(super) struct UnfinishedInterview {
    goal: String,
    stage: GoalStage,
    answers: usize,
    /// The command that continues it; `null` while it runs.
    next: Option<&'static str>,
}

impl UnfinishedLoop {
    pub(super) fn of(setup: &Setup, board: &Board) -> Option<UnfinishedLoop> {
        let record = Phased::last(&setup.find_state().ok()??).ok()??;
        if record.is_over() {
            return None;
        }
        let item = format!("loop-{}", record.task.number);
        let is_answered = board.answered(&item).is_some();
        let next = (!is_running(board, "loop")).then_some("ralph loop --resume");
        Some(UnfinishedLoop {
            task: record.task.number,
            text: record.task.text.clone(),
            phase: record.phase,
            iterations: record.iterations,
            state: standing(&record, is_answered, next.is_none()),
            next,
        })
    }

    pub(super) fn line(&self, ui: Ui) -> StyledLine {
        let phase = self.phase.name().to_uppercase();
        let iterations = plural(u64::from(self.iterations), "iteration");
        styled!(
            "{}       task {}: {}; {phase}, {iterations}, {}{}",
            ui.paint(Tone::Strong, "loop"),
            self.task,
            one_line(&self.text, SHOWN),
            self.state,
            continued(self.next)
        )
    }
}

/// Says where a task stands that is neither accepted nor rolled back.
fn standing(record: &LoopRecord, is_answered: bool, is_running: bool) -> String {
    match &record.standing {
        LoopStanding::Waiting { .. }
        | LoopStanding::NoChangeReviewed { .. }
        | LoopStanding::Undecided { .. } => {
            if is_answered { "answered" } else { "waits for you" }.to_owned()
        }
        LoopStanding::Aborted { gates } => {
            format!("gates failed too often: {}", one_line(&gates.join(", "), SHOWN))
        }
        LoopStanding::Idle => "its runs changed and claimed nothing".to_owned(),
        LoopStanding::Accepted { .. } => "accepted, has to land".to_owned(),
        LoopStanding::RollingBack => "being rolled back".to_owned(),
        _ if is_running => "under way".to_owned(),
        _ => "not complete".to_owned(),
    }
}

impl UnfinishedInterview {
    pub(super) fn of(setup: &Setup, board: &Board) -> Option<UnfinishedInterview> {
        let state: GoalState = GoalStore::new(&setup.home.path).interview().ok()??;
        if state.state == GoalStage::Done {
            return None;
        }
        let mut begun = board.workflows().map(|workflow| workflow.started.kind.as_str());
        let next = match begun.rfind(|kind| ["plan", "exec"].contains(kind)) {
            Some("exec") => "ralph exec --resume",
            _ => "ralph plan --resume",
        };
        let is_running = is_running(board, "plan") || is_running(board, "exec");
        Some(UnfinishedInterview {
            goal: state.goal,
            stage: state.state,
            answers: state.qa.len(),
            next: (!is_running).then_some(next),
        })
    }

    pub(super) fn line(&self, ui: Ui) -> StyledLine {
        let stage = match self.stage {
            GoalStage::ReviewPrd => "its draft waits for your review".to_owned(),
            _ => plural(self.answers as u64, "answer"),
        };
        styled!(
            "{}  {}; {stage}{}",
            ui.paint(Tone::Strong, "interview"),
            one_line(&self.goal, SHOWN),
            continued(self.next)
        )
    }
}

fn is_running(board: &Board, kind: &str) -> bool {
    let last = board.workflows().next_back();
    last.is_some_and(|last| last.started.kind == kind && state_of_workflow(last) == "running")
}

fn continued(next: Option<&str>) -> String {
    next.map(|next| format!("; `{next}` continues")).unwrap_or_default()
}
