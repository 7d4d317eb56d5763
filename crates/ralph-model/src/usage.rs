//! Tokens and money: what a run used, in one unit for all agents.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Tokens of one run (or of a session, where an agent counts cumulatively).
///
/// The four counts do not overlap: `input` is what the model read fresh, `cache_read` and `cache_write` went through
/// the provider's cache, `output` holds everything the model wrote, its reasoning included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    #[serde(default)]
    pub input: u64,
    #[serde(default)]
    pub cache_read: u64,
    #[serde(default)]
    pub cache_write: u64,
    #[serde(default)]
    pub output: u64,
}

impl Usage {
    pub const fn total(self) -> u64 {
        let cached = self.cache_read.saturating_add(self.cache_write);
        self.input.saturating_add(cached).saturating_add(self.output)
    }

    /// Returns what was used since `earlier`, for agents that count over a whole session.
    ///
    /// A count that went down means the agent started counting anew: then all of it is new.
    #[must_use]
    pub fn since(self, earlier: Usage) -> Usage {
        let went_down = self.input < earlier.input
            || self.cache_read < earlier.cache_read
            || self.cache_write < earlier.cache_write
            || self.output < earlier.output;
        if went_down {
            return self;
        }
        Usage {
            input: self.input - earlier.input,
            cache_read: self.cache_read - earlier.cache_read,
            cache_write: self.cache_write - earlier.cache_write,
            output: self.output - earlier.output,
        }
    }
}

/// The counts are what agents claim, so adding them up stops at the greatest number instead of failing.
impl AddAssign for Usage {
    fn add_assign(&mut self, more: Usage) {
        self.input = self.input.saturating_add(more.input);
        self.cache_read = self.cache_read.saturating_add(more.cache_read);
        self.cache_write = self.cache_write.saturating_add(more.cache_write);
        self.output = self.output.saturating_add(more.output);
    }
}

/// Dollars per million tokens, for agents that do not report what a run cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Price {
    pub input: f64,
    pub output: f64,
    /// Defaults to the price of fresh input.
    pub cache_read: Option<f64>,
    /// Defaults to the price of fresh input.
    pub cache_write: Option<f64>,
}

impl Price {
    /// Returns the cost of `usage` in dollars.
    #[expect(clippy::cast_precision_loss, reason = "token counts stay far below 2^52")]
    pub fn cost(self, usage: Usage) -> f64 {
        let at = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
        at(usage.input, self.input)
            + at(usage.output, self.output)
            + at(usage.cache_read, self.cache_read.unwrap_or(self.input))
            + at(usage.cache_write, self.cache_write.unwrap_or(self.input))
    }
}
