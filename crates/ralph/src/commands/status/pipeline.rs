//! The pipeline's part of the status: the number of specs per state, the active ones, and the next.
//!
//! A home without specs has no such part, and one with unreadable files reports that: people look at the status when
//! something is wrong.

use std::collections::BTreeMap;

use ralph_engine::specs::{self as backlog, SPECS};
use ralph_engine::workflow::isolation::overlay::HomeOverlay;
use ralph_engine::workflow::pipeline::list::{self, SpecRow};
use ralph_engine::workflow::pipeline::store::SpecStore;
use ralph_model::board::Board;
use ralph_model::plan::Plan;
use serde::Serialize;

use super::plan::seen_plan;
use crate::commands::specs;
use crate::render::human::one_line;
use crate::render::text::StyledLine;
use crate::render::{Tone, Ui, styled};
use crate::setup::Setup;

/// The states in the order in which a spec passes through them.
const STATES: [&str; 13] = [
    "done",
    "built",
    "tasks",
    "candidate",
    "waiting",
    "answered",
    "failed",
    "rejected",
    "replan",
    "planned",
    "planning",
    "fresh",
    "broken",
];

/// The states of a home's specs.
#[derive(Serialize)]
pub(super) struct PipelineStatus {
    total: usize,
    counts: BTreeMap<&'static str, usize>,
    /// The first one that is not done.
    next: Option<String>,
    /// Those in progress or waiting for a person.
    under_way: Vec<SpecRow>,
    problems: Vec<String>,
}

impl PipelineStatus {
    /// Returns the status of the specs; `None` if there are none.
    pub(super) fn of(setup: &Setup, board: &Board) -> Option<PipelineStatus> {
        let directory = setup.home.path.join(SPECS);
        if !directory.is_dir() {
            return None;
        }
        let found = backlog::discover(&directory);
        if found.specs.is_empty() {
            return None;
        }
        let mut problems: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
        let overlay = HomeOverlay::look(&setup.git(), &setup.home.path).unwrap_or_else(|error| {
            problems.push(error.to_string());
            HomeOverlay::default()
        });
        let store = SpecStore::seen_through(&setup.home.path, overlay);
        let mut rows = Vec::new();
        for spec in &found.specs {
            match list::row(&store, spec, board, specs::next_limits(setup)) {
                Ok(row) => rows.push(row),
                Err(error) => {
                    rows.push(SpecRow::unreadable(spec, &error.to_string()));
                    problems.push(error.to_string());
                }
            }
        }
        if let Some(bytes) = seen_plan(setup) {
            let plan = Plan::parse(&bytes);
            let state = setup.find_state().ok().flatten();
            for row in &mut rows {
                if let Err(error) = row.regard_tasks(&plan, state.as_ref(), &setup.plan_place()) {
                    problems.push(error.to_string());
                }
            }
        }
        let mut counts = BTreeMap::new();
        for row in &rows {
            *counts.entry(row.state).or_default() += 1;
        }
        let next = rows
            .iter()
            .find(|row| !["done", "tasks", "built", "failed"].contains(&row.state))
            .map(|row| row.spec.clone());
        let total = found.specs.len();
        rows.retain(|row| !["done", "fresh", "tasks", "built"].contains(&row.state));
        Some(PipelineStatus { total, counts, next, under_way: rows, problems })
    }

    pub(super) fn lines(&self, ui: Ui) -> Vec<StyledLine> {
        let counts: Vec<String> = STATES
            .iter()
            .filter_map(|state| Some(format!("{} {state}", self.counts.get(state)?)))
            .collect();
        let next = self.next.as_ref().map(|next| format!("; next: {next}")).unwrap_or_default();
        let label = ui.paint(Tone::Strong, "specs");
        let mut lines = vec![styled!("{label}      {}: {}{next}", self.total, counts.join(", "))];
        if !self.under_way.is_empty() {
            lines.extend(specs::table(ui, &self.under_way));
        }
        let problems = self.problems.iter().map(|problem| one_line(problem, 300));
        lines.extend(problems.map(|problem| ui.paint(Tone::Bad, &problem).into()));
        lines
    }
}
