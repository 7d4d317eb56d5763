//! Budgets of a workflow, checked before each run.
//!
//! Trouble costs tokens, money, time and an iteration, but no attempt, and does not count as a failure of the work. A
//! run that hit its usage limit is not an iteration: the same run continues later, unless it hits the limit again at
//! once. Waiting time is not spent by runs and so is not counted.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::millis;
use crate::usage::Usage;

/// The limits. `None` means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    pub iterations: Option<u32>,
    pub attempts: Option<u32>,
    pub tokens: Option<u64>,
    pub cost_usd: Option<f64>,
    pub wall: Option<Duration>,
    pub consecutive_failures: Option<u32>,
}

/// The amounts used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    pub iterations: u32,
    pub attempts: u32,
    pub tokens: u64,
    pub cost_usd: f64,
    pub wall: Duration,
    pub consecutive_failures: u32,
}

impl Spent {
    /// Adds the usage of a run.
    pub fn run(&mut self, usage: &Usage, cost_usd: Option<f64>, duration: Duration) {
        self.tokens = self.tokens.saturating_add(usage.total());
        self.cost_usd += cost_usd.unwrap_or(0.0);
        self.wall = self.wall.saturating_add(duration);
    }

    /// Counts a failure of the work, which costs an attempt.
    pub fn fail(&mut self) {
        self.attempts = self.attempts.saturating_add(1);
        self.consecutive_failures = self.consecutive_failures.saturating_add(1);
    }
}

/// A limit of the budget was reached, so that no further run may start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum BudgetExhausted {
    #[error("all {} used up", Count(*limit, "iteration"))]
    Iterations { limit: u32, spent: u32 },
    #[error("all {} used up", Count(*limit, "attempt"))]
    Attempts { limit: u32, spent: u32 },
    #[error("{spent} tokens were used, and the budget is {limit}")]
    Tokens { limit: u64, spent: u64 },
    #[error("${spent_usd:.2} was spent, and the budget is ${limit_usd:.2}")]
    Cost { limit_usd: f64, spent_usd: f64 },
    #[error("the runs took {}, and the budget is {}", Time(*spent), Time(*limit))]
    Wall {
        #[serde(with = "millis", rename = "limit_ms")]
        limit: Duration,
        #[serde(with = "millis", rename = "spent_ms")]
        spent: Duration,
    },
    #[error("{} failed in a row, and the limit is {limit}", Count(*spent, "run"))]
    ConsecutiveFailures { limit: u32, spent: u32 },
}

/// Returns whether another run may start. If several limits are reached, the first in field order is reported.
pub fn check(budget: &Budget, spent: &Spent) -> Result<(), BudgetExhausted> {
    uses(budget, spent).find(|(_, part)| *part >= 1.0).map_or(Ok(()), |(what, _)| Err(what))
}

/// Returns the limits that are at least four fifths used, but not exhausted. Consecutive failures are excluded: they do
/// not accumulate gradually.
pub fn near(budget: &Budget, spent: &Spent) -> impl Iterator<Item = BudgetExhausted> {
    let near = uses(budget, spent).filter(|(_, part)| (0.8..1.0).contains(part));
    near.map(|(what, _)| what)
        .filter(|what| !matches!(what, BudgetExhausted::ConsecutiveFailures { .. }))
}

/// Returns every limit with the amount spent and its fraction.
fn uses(budget: &Budget, spent: &Spent) -> impl Iterator<Item = (BudgetExhausted, f64)> {
    use BudgetExhausted as E;
    let Spent { iterations, attempts, tokens, cost_usd, wall, consecutive_failures } = *spent;
    let whole = |limit: u32, spent: u32| part(f64::from(limit), f64::from(spent));
    [
        budget
            .iterations
            .map(|limit| (E::Iterations { limit, spent: iterations }, whole(limit, iterations))),
        budget
            .attempts
            .map(|limit| (E::Attempts { limit, spent: attempts }, whole(limit, attempts))),
        budget.tokens.map(|limit| {
            (E::Tokens { limit, spent: tokens }, part(precise(limit), precise(tokens)))
        }),
        budget.cost_usd.map(|limit_usd| {
            (E::Cost { limit_usd, spent_usd: cost_usd }, part(limit_usd, cost_usd))
        }),
        budget.wall.map(|limit| {
            (E::Wall { limit, spent: wall }, part(limit.as_secs_f64(), wall.as_secs_f64()))
        }),
        budget.consecutive_failures.map(|limit| {
            let spent = consecutive_failures;
            (E::ConsecutiveFailures { limit, spent }, whole(limit, spent))
        }),
    ]
    .into_iter()
    .flatten()
}

/// Returns the spent fraction of a limit; 1 for a limit of zero.
fn part(limit: f64, spent: f64) -> f64 {
    if spent >= limit { 1.0 } else { spent / limit }
}

#[expect(clippy::cast_precision_loss, reason = "which part it is needs no more")]
fn precise(tokens: u64) -> f64 {
    tokens as f64
}

/// A count with a noun, in the plural if needed.
struct Count(u32, &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0 == 1 { "" } else { "s" };
        write!(f, "{} {}{plural}", self.0, self.1)
    }
}

/// A human-readable duration, with seconds only if there are any.
struct Time(Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
            (0, 0, 0) if !self.0.is_zero() => write!(f, "{}ms", self.0.as_millis()),
            (0, 0, s) => write!(f, "{s}s"),
            (0, m, 0) => write!(f, "{m}m"),
            (0, m, s) => write!(f, "{m}m {s}s"),
            (h, 0, 0) => write!(f, "{h}h"),
            (h, m, _) => write!(f, "{h}h {m}m"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SPENT: Spent = Spent {
        iterations: 10,
        attempts: 4,
        tokens: 1_000_000,
        cost_usd: 2.5,
        wall: Duration::from_secs(3700),
        consecutive_failures: 3,
    };

    #[test]
    fn each_limit_stops_at_what_it_says_and_says_so() {
        let none = Budget::default();
        let table = [
            (
                Budget { iterations: Some(10), ..none },
                Budget { iterations: Some(11), ..none },
                "all 10 iterations used up",
            ),
            (
                Budget { attempts: Some(1), ..none },
                Budget { attempts: Some(5), ..none },
                "all 1 attempt used up",
            ),
            (
                Budget { tokens: Some(999_999), ..none },
                Budget { tokens: Some(1_000_001), ..none },
                "1000000 tokens were used, and the budget is 999999",
            ),
            (
                Budget { cost_usd: Some(2.5), ..none },
                Budget { cost_usd: Some(2.51), ..none },
                "$2.50 was spent, and the budget is $2.50",
            ),
            (
                Budget { wall: Some(Duration::from_hours(1)), ..none },
                Budget { wall: Some(Duration::from_hours(2)), ..none },
                "the runs took 1h 1m, and the budget is 1h",
            ),
            (
                Budget { consecutive_failures: Some(3), ..none },
                Budget { consecutive_failures: Some(4), ..none },
                "3 runs failed in a row, and the limit is 3",
            ),
        ];
        for (reached, not_reached, sentence) in table {
            assert_eq!(check(&reached, &SPENT).unwrap_err().to_string(), sentence);
            assert_eq!(check(&not_reached, &SPENT), Ok(()));
        }
        assert_eq!(check(&none, &SPENT), Ok(()));
    }

    #[test]
    fn a_limit_is_near_from_four_fifths_on_until_it_is_reached() {
        let none = Budget::default();
        let names = |budget: Budget| near(&budget, &SPENT).count();
        for (budget, is_near) in [
            (Budget { cost_usd: Some(2.5), ..none }, 0),
            (Budget { cost_usd: Some(3.1), ..none }, 1),
            (Budget { cost_usd: Some(3.2), ..none }, 0),
            (Budget { tokens: Some(1_250_000), iterations: Some(12), ..none }, 2),
            (Budget { wall: Some(Duration::from_hours(1)), ..none }, 0),
            (Budget { wall: Some(Duration::from_mins(70)), ..none }, 1),
            (Budget { consecutive_failures: Some(4), ..none }, 0),
            (none, 0),
        ] {
            assert_eq!(names(budget), is_near, "{budget:?}");
        }
    }

    #[test]
    fn a_budget_of_nothing_allows_no_run() {
        let budget = Budget { iterations: Some(0), ..Budget::default() };
        assert_eq!(
            check(&budget, &Spent::default()),
            Err(BudgetExhausted::Iterations { limit: 0, spent: 0 })
        );
    }

    #[test]
    fn a_run_costs_what_it_used_and_a_failure_costs_an_attempt() {
        let mut spent = Spent::default();
        let usage = Usage { input: 5, output: 2, ..Usage::default() };
        for _ in 0..3 {
            spent.run(&usage, Some(0.25), Duration::from_secs(10));
        }
        spent.run(&usage, None, Duration::ZERO);
        spent.fail();
        spent.fail();
        let expected = Spent {
            iterations: 0,
            attempts: 2,
            tokens: 28,
            cost_usd: 0.75,
            wall: Duration::from_secs(30),
            consecutive_failures: 2,
        };
        assert_eq!(spent, expected);
    }

    #[test]
    fn times_are_told_as_people_write_them() {
        let table =
            [(0, "0s"), (59, "59s"), (60, "1m"), (61, "1m 1s"), (3600, "1h"), (7325, "2h 2m")];
        for (seconds, text) in table {
            assert_eq!(Time(Duration::from_secs(seconds)).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn more_runs_never_make_an_exhausted_budget_whole(
            budget in 0_u64..2000,
            tokens in proptest::collection::vec(0_u64..300, 0..40),
        ) {
            let budget = Budget { tokens: Some(budget), ..Budget::default() };
            let mut spent = Spent::default();
            let mut exhausted = false;
            for input in tokens {
                spent.run(&Usage { input, ..Usage::default() }, None, Duration::MAX);
                let now = check(&budget, &spent).is_err();
                prop_assert!(now || !exhausted);
                exhausted = now;
            }
        }
    }
}
