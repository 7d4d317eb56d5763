//! Decides when trouble stops an item: three of one kind in a row.
//!
//! Usage limits neither count nor break a streak, because they only wait; nor does an interruption, which has no
//! consequences. A streak belongs to one item; the caller keeps it.

use crate::run::{RunOutcome, Trouble, TroubleKind};

/// The number of consecutive troubles of one kind that stops an item.
pub(crate) const TROUBLES_THAT_STOP: u32 = 3;

/// The consecutive troubles of one kind of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TroubleStreak {
    kind: Option<TroubleKind>,
    length: u32,
}

impl TroubleStreak {
    /// Applies a run's outcome.
    pub fn apply(&mut self, outcome: &RunOutcome) {
        match outcome {
            RunOutcome::Interrupted
            | RunOutcome::Withdrawn
            | RunOutcome::Trouble { trouble: Trouble::UsageLimit { .. } } => {}
            RunOutcome::Trouble { trouble } if self.kind == Some(trouble.kind()) => {
                self.length = self.length.saturating_add(1);
            }
            RunOutcome::Trouble { trouble } => {
                *self = TroubleStreak { kind: Some(trouble.kind()), length: 1 };
            }
            RunOutcome::Completed
            | RunOutcome::TimedOut { .. }
            | RunOutcome::ContextFull
            | RunOutcome::Violation { .. } => {
                *self = TroubleStreak::default();
            }
        }
    }

    /// Returns the kind of trouble that stops the item, if it must stop.
    pub fn stops(&self) -> Option<TroubleKind> {
        self.kind.filter(|_| self.length >= TROUBLES_THAT_STOP)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::run::ProcessExit;

    fn outcome(letter: char) -> RunOutcome {
        let trouble = match letter {
            'c' => Trouble::Crash { exit: ProcessExit::Code(1), stderr: None },
            'C' => Trouble::Crash { exit: ProcessExit::Signal(9), stderr: None },
            'n' => Trouble::Network { message: "cut".to_owned() },
            'o' => Trouble::NoOutput { stderr: None },
            'l' => Trouble::UsageLimit { resets_at: None },
            '.' => return RunOutcome::Completed,
            't' => return RunOutcome::TimedOut { idle: false, after: Duration::from_mins(1) },
            'f' => return RunOutcome::ContextFull,
            'i' => return RunOutcome::Interrupted,
            other => panic!("no outcome is written {other}"),
        };
        RunOutcome::Trouble { trouble }
    }

    #[test]
    fn three_of_one_kind_in_a_row_stop_an_item() {
        let table = [
            ("", None),
            ("cc", None),
            ("ccc", Some(TroubleKind::Crash)),
            ("cCc", Some(TroubleKind::Crash)),
            ("cccc", Some(TroubleKind::Crash)),
            ("ccncc", None),
            ("ccnnn", Some(TroubleKind::Network)),
            ("cc.cc", None),
            ("cctcc", None),
            ("ccfcc", None),
            ("ooo", Some(TroubleKind::NoOutput)),
            ("llllllllll", None),
            ("clclc", Some(TroubleKind::Crash)),
            ("cicic", Some(TroubleKind::Crash)),
            ("ccc.", None),
        ];
        for (history, stopped_by) in table {
            let mut streak = TroubleStreak::default();
            for letter in history.chars() {
                streak.apply(&outcome(letter));
            }
            assert_eq!(streak.stops(), stopped_by, "{history}");
        }
    }

    #[test]
    fn the_length_counts_the_present_kind_only() {
        let mut streak = TroubleStreak::default();
        for letter in "cccnnl".chars() {
            streak.apply(&outcome(letter));
        }
        assert_eq!(streak.length, 2);
    }
}
