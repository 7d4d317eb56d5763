//! Usage and cost of runs, in total and by day, agent, model and role.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::journal::{RunFinished, RunStarted};
use crate::millis;
use crate::role::Role;
use crate::usage::Usage;

/// How many rows are kept. Older ones are merged into rows without a day.
const MOST_ROWS: usize = 4000;

/// Sums over finished runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    pub finished_runs: u64,
    pub usage: Usage,
    /// Whether some of the tokens are an estimate.
    #[serde(default)]
    pub usage_is_estimate: bool,
    /// Over the runs whose cost is known; `None` if there is none.
    pub cost_usd: Option<f64>,
    /// Whether some of the cost is an estimate.
    pub cost_is_estimate: bool,
    /// Runs of unknown cost.
    pub runs_without_cost: u64,
    #[serde(with = "millis", rename = "duration_ms")]
    pub duration: Duration,
}

impl Totals {
    pub(super) fn add(&mut self, finished: &RunFinished) {
        self.finished_runs += 1;
        self.usage += finished.usage;
        self.usage_is_estimate |= finished.usage_is_estimate;
        // Rounded as in the journal, so that a board is unchanged by a round trip.
        let millis = u64::try_from(finished.duration.as_millis()).unwrap_or(u64::MAX);
        self.duration = self.duration.saturating_add(Duration::from_millis(millis));
        match finished.cost_usd {
            Some(usd) => {
                *self.cost_usd.get_or_insert(0.0) += usd;
                self.cost_is_estimate |= finished.cost_is_estimate;
            }
            None => self.runs_without_cost += 1,
        }
    }

    fn merge(&mut self, other: &Totals) {
        self.finished_runs += other.finished_runs;
        self.usage += other.usage;
        self.usage_is_estimate |= other.usage_is_estimate;
        self.duration = self.duration.saturating_add(other.duration);
        if let Some(usd) = other.cost_usd {
            *self.cost_usd.get_or_insert(0.0) += usd;
        }
        self.cost_is_estimate |= other.cost_is_estimate;
        self.runs_without_cost += other.runs_without_cost;
    }
}

/// The runs that ended on one day (UTC), of one agent with one model in one role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SumRow {
    /// `None` for rows too old to be kept by day.
    pub day: Option<Date>,
    /// `None` if the journal begins in the middle of the run.
    pub agent: Option<String>,
    pub model: Option<String>,
    pub role: Option<Role>,
    pub totals: Totals,
}

impl SumRow {
    fn key(&self) -> (Option<Date>, Option<&str>, Option<&str>, Option<Role>) {
        (self.day, self.agent.as_deref(), self.model.as_deref(), self.role)
    }
}

/// The rows, sorted by day, agent, model and role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Sums {
    rows: Vec<SumRow>,
}

impl Sums {
    pub(super) fn add(
        &mut self,
        at: Timestamp,
        started: Option<&RunStarted>,
        finished: &RunFinished,
    ) {
        let model = finished.model.as_deref();
        let model = model.or_else(|| started.and_then(|started| started.model.as_deref()));
        let key = (
            Some(at.to_zoned(TimeZone::UTC).date()),
            started.map(|started| started.agent.as_str()),
            model,
            started.map(|started| started.role),
        );
        self.row(key).totals.add(finished);
        if self.rows.len() > MOST_ROWS {
            let oldest = self.rows.partition_point(|row| row.day.is_none());
            let row = self.rows.remove(oldest);
            let key = (None, row.agent.as_deref(), row.model.as_deref(), row.role);
            self.row(key).totals.merge(&row.totals);
        }
    }

    fn row(
        &mut self,
        key: (Option<Date>, Option<&str>, Option<&str>, Option<Role>),
    ) -> &mut SumRow {
        let place = match self.rows.binary_search_by(|row| row.key().cmp(&key)) {
            Ok(place) => place,
            Err(place) => {
                let (day, agent, model, role) = key;
                let (agent, model) = (agent.map(str::to_owned), model.map(str::to_owned));
                let row = SumRow { day, agent, model, role, totals: Totals::default() };
                self.rows.insert(place, row);
                place
            }
        };
        &mut self.rows[place]
    }

    pub(super) fn rows(&self) -> &[SumRow] {
        &self.rows
    }
}
