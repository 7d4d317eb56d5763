//! Token usage and cost of runs, in the same units for all agents.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Tokens of one run (or of a session, if an agent counts cumulatively).
///
/// The four counts do not overlap: `input` is uncached input, `cache_read` and `cache_write` went through the
/// provider's cache, `output` is everything the model wrote, including its reasoning.
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
        self.input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
            .saturating_add(self.output)
    }

    /// Estimates the usage of a run whose agent reports no tokens: about four bytes per token, assuming that the model
    /// read the prompt once and wrote the output.
    pub fn estimate(prompt_bytes: u64, output_bytes: u64) -> Usage {
        Usage {
            input: prompt_bytes.div_ceil(4),
            output: output_bytes.div_ceil(4),
            ..Usage::default()
        }
    }

    /// Returns the usage since `earlier`, for agents that count over a whole session.
    ///
    /// A count that went down means that the agent restarted counting: then all of it is new.
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

impl AddAssign for Usage {
    /// Saturating: the numbers come from an untrusted agent.
    fn add_assign(&mut self, more: Usage) {
        self.input = self.input.saturating_add(more.input);
        self.cache_read = self.cache_read.saturating_add(more.cache_read);
        self.cache_write = self.cache_write.saturating_add(more.cache_write);
        self.output = self.output.saturating_add(more.output);
    }
}

/// Dollars per million tokens, for agents that do not report the cost of a run.
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

/// Prices by model name or name prefix.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PriceTable(BTreeMap<String, Price>);

impl PriceTable {
    /// Returns the price of the longest prefix of `model`.
    ///
    /// Names of the form `provider/model` are looked up first as given and then without the provider.
    pub fn price(&self, model: &str) -> Option<Price> {
        self.longest_match(model)
            .or_else(|| model.split_once('/').and_then(|(_, model)| self.price(model)))
    }

    fn longest_match(&self, model: &str) -> Option<Price> {
        self.0
            .iter()
            .filter(|(name, _)| model.starts_with(name.as_str()))
            .max_by_key(|(name, _)| name.len())
            .map(|(_, price)| *price)
    }
}

impl<N: Into<String>> FromIterator<(N, Price)> for PriceTable {
    fn from_iter<I: IntoIterator<Item = (N, Price)>>(prices: I) -> Self {
        PriceTable(prices.into_iter().map(|(name, price)| (name.into(), price)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(input: f64) -> Price {
        Price { input, ..Price::default() }
    }

    #[test]
    fn the_longest_matching_name_gives_the_price() {
        let table: PriceTable = [
            ("gpt", price(1.0)),
            ("gpt-5", price(2.0)),
            ("gpt-5.5", price(3.0)),
            ("openrouter/gpt-5", price(4.0)),
        ]
        .into_iter()
        .collect();
        let expected = [
            ("gpt-4", Some(1.0)),
            ("gpt-5", Some(2.0)),
            ("gpt-5-mini", Some(2.0)),
            ("gpt-5.5-2026", Some(3.0)),
            ("openai/gpt-5.5", Some(3.0)),
            ("openrouter/gpt-5.5", Some(4.0)),
            ("router/openai/gpt-4", Some(1.0)),
            ("claude", None),
            ("", None),
            ("g", None),
        ];
        for (model, input) in expected {
            assert_eq!(table.price(model), input.map(price), "{model}");
        }
    }

    #[test]
    fn a_price_table_is_read_from_names_and_prices() {
        let table: PriceTable =
            serde_json::from_str(r#"{"gpt-5": {"input": 1.25, "output": 10, "cache_read": 0.5}}"#)
                .unwrap();
        let gpt = Price { input: 1.25, output: 10.0, cache_read: Some(0.5), cache_write: None };
        assert_eq!(table.price("gpt-5"), Some(gpt));
    }

    #[test]
    fn cost_falls_back_to_the_price_of_input_for_the_cache() {
        let million = 1_000_000;
        let usage =
            Usage { input: million, cache_read: million, cache_write: million, output: million };
        let plain = Price { input: 2.0, output: 8.0, cache_read: None, cache_write: None };
        assert!((plain.cost(usage) - 14.0).abs() < 1e-9);
        let cached = Price { cache_read: Some(0.5), cache_write: Some(3.0), ..plain };
        assert!((cached.cost(usage) - 13.5).abs() < 1e-9);
    }

    #[test]
    fn a_count_that_went_down_started_anew() {
        let usage = |input, output| Usage { input, output, ..Usage::default() };
        assert_eq!(usage(30, 9).since(usage(10, 4)), usage(20, 5));
        assert_eq!(usage(30, 3).since(usage(10, 4)), usage(30, 3));
    }

    #[test]
    fn sums_stop_at_the_largest_number() {
        let most = Usage { input: u64::MAX, output: u64::MAX, ..Usage::default() };
        let mut sum = most;
        sum += most;
        assert_eq!((sum, sum.total()), (most, u64::MAX));
    }
}
