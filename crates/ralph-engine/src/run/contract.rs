//! What a run's final message must contain, as far as the caller knows.
//!
//! It answers one question: did an agent that exited with 0 answer, or did it only report its usage limit? The workflow
//! decides what a claim is worth.

use ralph_model::outcome::ClaimCheck;
use ralph_model::run::RunFacts;

use crate::agent::Traits;
use crate::channel::Served;

/// The requirement on the final message of a run.
#[derive(Clone, Copy, Default)]
pub(crate) enum Contract<'a> {
    /// Unknown or free-form: a verifier rejects in its own words.
    #[default]
    Unknown,
    /// Any message is an answer.
    Any,
    /// A message accepted by this function.
    Claim(&'a dyn Fn(&str) -> bool),
    /// Any message is an answer, and so is silence if this function finds that the run has put its answer elsewhere.
    AnyOrLeft(&'a dyn Fn() -> bool),
    /// As if unknown, unless this function finds that the run has put its answer elsewhere.
    Left(&'a dyn Fn() -> bool),
}

impl Contract<'_> {
    /// Returns whether a run made its claim.
    ///
    /// A request granted through the channel is a claim in any role: an agent at its limit makes no requests. If the
    /// contract is unknown, only plain text is ambiguous: other agents report limits as such.
    pub(super) fn judge(self, facts: &RunFacts, served: &Served, traits: Traits) -> ClaimCheck {
        let said = facts.final_message.as_deref().unwrap_or_default();
        match self {
            _ if served.accepted > 0 => ClaimCheck::Granted,
            Contract::AnyOrLeft(has_left) | Contract::Left(has_left)
                if said.trim().is_empty() && has_left() =>
            {
                ClaimCheck::Granted
            }
            Contract::Any | Contract::AnyOrLeft(_) => ClaimCheck::Made,
            Contract::Unknown | Contract::Left(_) if traits.structured => ClaimCheck::Made,
            Contract::Unknown | Contract::Left(_) => ClaimCheck::Unknown,
            Contract::Claim(accepts) if accepts(said) => ClaimCheck::Made,
            Contract::Claim(_) => ClaimCheck::Missing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::adapter;

    #[test]
    fn a_claim_is_what_the_contract_accepts_or_the_channel_granted() {
        let text = adapter("command").unwrap().traits();
        let structured = adapter("codex").unwrap().traits();
        let facts = RunFacts { final_message: Some("done".to_owned()), ..RunFacts::default() };
        let granted = Served { accepted: 1, ..Served::default() };
        let refused = Served { refused: 1, ignored: 1, ..Served::default() };
        let is = |word: &'static str| move |said: &str| said == word;
        let (done, other) = (is("done"), is("other"));
        let table = [
            (Contract::Unknown, refused.clone(), text, ClaimCheck::Unknown),
            (Contract::Unknown, refused.clone(), structured, ClaimCheck::Made),
            (Contract::Unknown, granted.clone(), text, ClaimCheck::Granted),
            (Contract::Any, refused.clone(), text, ClaimCheck::Made),
            (Contract::Claim(&done), refused.clone(), text, ClaimCheck::Made),
            (Contract::Claim(&other), refused.clone(), text, ClaimCheck::Missing),
            (Contract::Claim(&other), refused, structured, ClaimCheck::Missing),
            (Contract::Claim(&other), granted, text, ClaimCheck::Granted),
        ];
        let silent = RunFacts::default();
        for (left, claim) in [(true, ClaimCheck::Granted), (false, ClaimCheck::Made)] {
            let contract = Contract::AnyOrLeft(&|| left);
            assert_eq!(contract.judge(&RunFacts::default(), &Served::default(), text), claim);
        }
        for (left, claim) in [(true, ClaimCheck::Granted), (false, ClaimCheck::Unknown)] {
            let contract = Contract::Left(&|| left);
            assert_eq!(contract.judge(&silent, &Served::default(), text), claim);
            assert_eq!(contract.judge(&facts, &Served::default(), text), ClaimCheck::Unknown);
        }
        for (row, (contract, served, traits, claim)) in table.into_iter().enumerate() {
            assert_eq!(contract.judge(&facts, &served, traits), claim, "row {row}");
        }
    }
}
