//! Differences between the agents: what each can report, and in which terms.

use serde_json::Value;

use crate::support::agents::RealAgent;
use crate::support::model_server::script::Tokens;

/// The prices of the tests' `ralph.toml`, in dollars per million tokens, for agents that report no cost.
const INPUT: f64 = 1.0;
const CACHED: f64 = 0.5;
const OUTPUT: f64 = 10.0;

/// Whether a line of stdout is the agent's completion event.
pub(super) fn is_last_event(agent: RealAgent, line: &Value) -> bool {
    match agent {
        RealAgent::Codex => line["type"] == "turn.completed",
        RealAgent::Claude | RealAgent::Gemini => line["type"] == "result",
        RealAgent::OpenCode => line["type"] == "step_finish" && line["part"]["reason"] == "stop",
    }
}

/// Returns the cost of turns with these tokens, by the price table or as the agent reports it.
pub(super) fn cost(agent: RealAgent, turns: &[Tokens]) -> Cost {
    let sum = |of: fn(&Tokens) -> u64| turns.iter().map(of).sum::<u64>();
    let fresh = sum(|tokens| tokens.input - tokens.cached);
    let (cached, output) = (sum(|tokens| tokens.cached), sum(|tokens| tokens.output));
    let at = |fresh_price: f64, cached_price: f64, output_price: f64| {
        let dollars = |tokens: u64, price: f64| {
            f64::from(u32::try_from(tokens).expect("a few tokens")) * price / 1e6
        };
        dollars(fresh, fresh_price) + dollars(cached, cached_price) + dollars(output, output_price)
    };
    match agent {
        RealAgent::Codex | RealAgent::Gemini => {
            Cost { usd: at(INPUT, CACHED, OUTPUT), told: false }
        }
        // The vendor's price list, built into the agent.
        RealAgent::Claude => Cost { usd: at(3.0, 0.3, 15.0), told: true },
        // The prices of its own configuration.
        RealAgent::OpenCode => Cost { usd: at(1.0, 0.0, 2.0), told: true },
    }
}

/// The cost of a run, and its source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) usd: f64,
    /// Whether the agent reported it itself.
    pub(super) told: bool,
}

/// Whether the agent reports when a limit ends.
pub(super) fn tells_the_reset(agent: RealAgent) -> bool {
    agent != RealAgent::Gemini
}

/// How long an agent may be silent or only repeat a request: longer than its start takes.
pub(super) fn patience(agent: RealAgent) -> &'static str {
    match agent {
        RealAgent::Codex | RealAgent::Claude => "--idle-timeout=8s",
        // Its silence counts only once a request has failed.
        RealAgent::OpenCode => "--idle-timeout=3s",
        RealAgent::Gemini => "--idle-timeout=16s",
    }
}
