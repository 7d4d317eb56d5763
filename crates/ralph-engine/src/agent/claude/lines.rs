//! The lines that Claude Code prints, as far as they are parsed.

use std::fmt;

use jiff::Timestamp;
use ralph_model::event::{AgentEvent, LimitStatus};
use ralph_model::usage::Usage;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use crate::agent::wire::{Count, Money, Str, Summary};

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct InitLine<'a> {
    #[serde(borrow)]
    pub(super) session_id: Str<'a>,
    #[serde(borrow)]
    pub(super) model: Str<'a>,
    #[serde(borrow, rename = "apiKeySource")]
    pub(super) api_key_source: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RetryLine<'a> {
    pub(super) attempt: Count,
    pub(super) error_status: Count,
    #[serde(borrow)]
    pub(super) error: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct MessageLine<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Str<'a>,
    #[serde(borrow)]
    pub(super) message: Message<'a>,
    /// Set if a subagent speaks.
    #[serde(borrow)]
    pub(super) parent_tool_use_id: Str<'a>,
    #[serde(borrow)]
    pub(super) error: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) id: Str<'a>,
    #[serde(borrow)]
    pub(super) model: Str<'a>,
    #[serde(borrow)]
    pub(super) content: Vec<ContentBlock<'a>>,
    pub(super) usage: ClaudeUsage,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ContentBlock<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Str<'a>,
    #[serde(borrow)]
    pub(super) text: Str<'a>,
    #[serde(borrow)]
    pub(super) id: Str<'a>,
    #[serde(borrow)]
    pub(super) name: Str<'a>,
    pub(super) input: Summary,
    #[serde(borrow)]
    pub(super) tool_use_id: Str<'a>,
    pub(super) content: Summary,
    pub(super) is_error: Option<bool>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct ClaudeUsage {
    #[serde(rename = "input_tokens")]
    pub(super) input: Count,
    #[serde(rename = "cache_read_input_tokens")]
    pub(super) cache_read: Count,
    #[serde(rename = "cache_creation_input_tokens")]
    pub(super) cache_write: Count,
    #[serde(rename = "output_tokens")]
    pub(super) output: Count,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct LimitLine<'a> {
    #[serde(borrow)]
    pub(super) rate_limit_info: LimitNote<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct LimitNote<'a> {
    #[serde(borrow)]
    pub(super) status: Str<'a>,
    pub(super) resets_at: Count,
    pub(super) is_using_overage: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ResultLine<'a> {
    pub(super) is_error: Option<bool>,
    pub(super) api_error_status: Count,
    #[serde(borrow)]
    pub(super) result: Str<'a>,
    #[serde(borrow)]
    pub(super) terminal_reason: Str<'a>,
    pub(super) errors: Summary,
    pub(super) usage: Option<ClaudeUsage>,
    pub(super) total_cost_usd: Money,
    #[serde(borrow, rename = "modelUsage")]
    pub(super) model_usage: Models<'a>,
    #[serde(borrow)]
    pub(super) model_usage_since_last_result: Option<Models<'a>>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ModelUsage {
    pub(super) input_tokens: Count,
    pub(super) output_tokens: Count,
    pub(super) cache_read_input_tokens: Count,
    pub(super) cache_creation_input_tokens: Count,
    #[serde(rename = "costUSD")]
    pub(super) cost_usd: Money,
    pub(super) context_window: Count,
}

/// The usage of each model, by name.
#[derive(Default)]
pub(super) struct Models<'a>(Vec<(Str<'a>, ModelUsage)>);

impl<'de: 'a, 'a> Deserialize<'de> for Models<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ModelsVisitor;

        impl<'de> Visitor<'de> for ModelsVisitor {
            type Value = Models<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the models' usage by name")
            }

            fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(Models::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut models = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    models.push(entry);
                }
                Ok(Models(models))
            }
        }

        deserializer.deserialize_any(ModelsVisitor)
    }
}

impl LimitNote<'_> {
    /// A rejected account that pays for overage keeps working.
    pub(super) fn event(&self) -> Option<AgentEvent> {
        let status = match &*self.status {
            "allowed" => LimitStatus::Allowed,
            "allowed_warning" => LimitStatus::Warning,
            "rejected" if self.is_using_overage == Some(true) => LimitStatus::Warning,
            "rejected" => LimitStatus::Rejected,
            _ => return None,
        };
        let epoch = i64::try_from(self.resets_at.0).ok().filter(|epoch| *epoch > 0);
        let resets_at = epoch.and_then(|epoch| Timestamp::from_second(epoch).ok());
        Some(AgentEvent::RateLimit { status, resets_at })
    }
}

impl ClaudeUsage {
    pub(super) fn parts(self) -> Usage {
        Usage {
            input: self.input.0,
            cache_read: self.cache_read.0,
            cache_write: self.cache_write.0,
            output: self.output.0,
        }
    }

    /// Everything in the model's context.
    pub(super) fn context(self) -> u64 {
        self.input.0.saturating_add(self.cache_read.0.saturating_add(self.cache_write.0))
    }
}

impl Models<'_> {
    pub(super) fn usage(&self) -> Usage {
        let mut sum = Usage::default();
        for (_, model) in &self.0 {
            sum += Usage {
                input: model.input_tokens.0,
                cache_read: model.cache_read_input_tokens.0,
                cache_write: model.cache_creation_input_tokens.0,
                output: model.output_tokens.0,
            };
        }
        sum
    }

    pub(super) fn cost(&self) -> f64 {
        self.0.iter().filter_map(|(_, model)| model.cost_usd.0).sum()
    }

    /// Returns the context window of the named model, or otherwise of the one that read most.
    pub(super) fn window(&self, model: &str) -> Option<u64> {
        let named = self.0.iter().find(|(name, _)| **name == *model);
        let busiest = || self.0.iter().max_by_key(|(_, model)| model.input_tokens.0);
        named.or_else(busiest).map(|(_, model)| model.context_window.0).filter(|window| *window > 0)
    }
}
