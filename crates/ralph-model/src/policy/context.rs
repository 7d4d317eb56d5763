//! Decides when a run's context is too full to continue.
//!
//! Agents that compact by themselves are left alone. The judgement is stateless, so warning only once is up to the
//! caller.

use crate::run::ContextFill;

/// The fill levels at which a run is warned about and terminated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextPolicy {
    /// A limit in tokens set by the person; it overrides the window that the agent reports.
    pub limit: Option<u64>,
    pub warn_pct: u8,
    pub kill_pct: u8,
}

impl Default for ContextPolicy {
    fn default() -> Self {
        ContextPolicy { limit: None, warn_pct: 70, kill_pct: 95 }
    }
}

/// The consequence of a context's fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextVerdict {
    Fine,
    Warn { pct: u8 },
    Kill { used: u64, window: u64 },
}

impl ContextPolicy {
    /// Judges a fill. Without a limit or a known window there is no basis for a judgement.
    pub fn judge(&self, fill: ContextFill, compacts: bool) -> ContextVerdict {
        let window = self.limit.or(fill.window).filter(|window| *window > 0);
        let Some(window) = window else { return ContextVerdict::Fine };
        if compacts {
            return ContextVerdict::Fine;
        }
        let pct = u128::from(fill.used) * 100 / u128::from(window);
        if pct >= u128::from(self.kill_pct) {
            ContextVerdict::Kill { used: fill.used, window }
        } else if pct >= u128::from(self.warn_pct) {
            ContextVerdict::Warn { pct: u8::try_from(pct).unwrap_or(u8::MAX) }
        } else {
            ContextVerdict::Fine
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ContextVerdict::{Fine, Kill, Warn};

    fn judge(limit: Option<u64>, used: u64, window: Option<u64>, compacts: bool) -> ContextVerdict {
        ContextPolicy { limit, ..ContextPolicy::default() }
            .judge(ContextFill { used, window }, compacts)
    }

    #[test]
    fn the_fill_is_judged_against_the_limit_or_else_the_window() {
        let table = [
            // limit, used, window, compacts, verdict
            (None, 69_999, Some(100_000), false, Fine),
            (None, 70_000, Some(100_000), false, Warn { pct: 70 }),
            (None, 94_999, Some(100_000), false, Warn { pct: 94 }),
            (None, 95_000, Some(100_000), false, Kill { used: 95_000, window: 100_000 }),
            (None, 150_000, Some(100_000), false, Kill { used: 150_000, window: 100_000 }),
            (None, 99_999, Some(100_000), true, Fine),
            (None, 1_000_000, None, false, Fine),
            (None, 10, Some(0), false, Fine),
            (Some(1_000), 950, Some(100_000), false, Kill { used: 950, window: 1_000 }),
            (Some(1_000), 950, None, false, Kill { used: 950, window: 1_000 }),
            (Some(200_000), 95_000, Some(100_000), false, Fine),
            (Some(1_000), 950, None, true, Fine),
            (None, u64::MAX, Some(u64::MAX), false, Kill { used: u64::MAX, window: u64::MAX }),
        ];
        for (limit, used, window, compacts, verdict) in table {
            assert_eq!(
                judge(limit, used, window, compacts),
                verdict,
                "limit {limit:?}, used {used}, window {window:?}, compacts {compacts}"
            );
        }
    }

    #[test]
    fn percentages_can_be_set() {
        let policy = ContextPolicy { limit: None, warn_pct: 10, kill_pct: 20 };
        let fill = |used| ContextFill { used, window: Some(100) };
        assert_eq!(policy.judge(fill(9), false), Fine);
        assert_eq!(policy.judge(fill(10), false), Warn { pct: 10 });
        assert_eq!(policy.judge(fill(20), false), Kill { used: 20, window: 100 });
    }
}
