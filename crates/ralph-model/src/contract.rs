//! The text contract: claims in an agent's final message.
//!
//! Only the final message is read here; echoed prompts, tool output and stderr are not. Markers must be whole lines.
//! This module trusts nothing: it extracts what the agent claims, and evidence is gathered elsewhere.
//!
//! | workflow | what is read |
//! |---|---|
//! | pipeline | [`FinalMessage::completion`], [`FinalMessage::planner_claim`], [`FinalMessage::verifier_claim`] |
//! | build, loop, `run` | [`FinalMessage::no_change_needed`] |
//! | `run` | [`FinalMessage::promises`] |
//! | a review in build, loop, `run` | [`FinalMessage::verifier_claim`], [`FinalMessage::not_verified`] |
//! | `agent run` | [`FinalMessage::says`] with the user's own promise |

use std::collections::HashSet;

use crate::id::CommitId;

/// The last line of a completed pipeline run, unless the person configured another.
pub const DEFAULT_MAGIC_PHRASE: &str = "I AM HYPER SURE I AM DONE!";

/// The completion marker of agents of other loops.
pub const PROMISE: &str = "<promise>COMPLETE</promise>";

pub(crate) const PLAN_INVALIDATION: &str = "PLAN_INVALIDATION:";
pub(crate) const NOT_VERIFIED: &str = "NOT_VERIFIED:";
pub(crate) const NO_CHANGE_NEEDED: &str = "NO_CHANGE_NEEDED:";

/// The last message of an agent.
#[derive(Clone, Debug)]
pub struct FinalMessage<'a> {
    text: &'a str,
    /// Lines of the prompt. A marker among them is a repeated example, not a claim.
    prompt_lines: HashSet<&'a str>,
    prompt: &'a str,
}

/// The claim that the work is in a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    pub commit: CommitId,
    /// Why nothing needed to change, where the agent says so.
    pub no_change: Option<String>,
}

/// The result of a planner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlannerClaim {
    Planned,
    /// It says it is done, but the plan is missing or blank.
    NoPlan,
    /// It did not end with the magic phrase.
    Unfinished,
}

/// The claims of a verifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifierClaim {
    /// The commit it repeats as verified.
    pub commit: Option<CommitId>,
    /// An abbreviated commit name, if it gives no full one.
    pub beginning: Option<String>,
    /// Why the plan cannot work. Counts only if the candidate was not verified.
    pub plan_invalidation: Option<String>,
}

/// A verifier's claim, applied to one candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verification {
    Verified,
    PlanInvalid { reason: String },
    NotVerified,
}

impl VerifierClaim {
    /// Applies the claim to the candidate under verification.
    pub(crate) fn against(&self, candidate: &CommitId) -> Verification {
        let begins = |name: &String| candidate.as_str().starts_with(name.as_str());
        if self.commit.as_ref() == Some(candidate) || self.beginning.as_ref().is_some_and(begins) {
            return Verification::Verified;
        }
        match &self.plan_invalidation {
            Some(reason) => Verification::PlanInvalid { reason: reason.clone() },
            None => Verification::NotVerified,
        }
    }
}

impl<'a> FinalMessage<'a> {
    pub fn new(text: &'a str) -> Self {
        FinalMessage { text, prompt_lines: HashSet::new(), prompt: "" }
    }

    /// Sets the prompt, so that markers repeated from it do not count as claims.
    #[must_use]
    pub fn in_answer_to(mut self, prompt: &'a str) -> Self {
        self.prompt_lines = prompt.lines().map(str::trim_end).collect();
        self.prompt = prompt.trim();
        self
    }

    /// Returns the claimed commit: its name, then the magic phrase, as the last two lines that are not blank.
    pub fn completion(&self, magic_phrase: &str) -> Option<Completion> {
        let mut from_end = self.last_lines();
        if from_end.next()? != plain(magic_phrase) {
            return None;
        }
        let commit = commit_name(from_end.next()?).parse().ok()?;
        Some(Completion { commit, no_change: self.no_change_needed() })
    }

    /// Whether the message ends with the magic phrase without a commit before it: the claim is about the tip of the
    /// work.
    pub fn claims_the_tip(&self, magic_phrase: &str) -> bool {
        let mut from_end = self.last_lines();
        if from_end.next() != Some(plain(magic_phrase)) {
            return false;
        }
        let name = from_end.next().map(commit_name).unwrap_or_default();
        let is_name = name.len() >= 7 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        !is_name
    }

    /// Returns the non-blank lines, last first, without the Markdown around them.
    fn last_lines(&self) -> impl Iterator<Item = &'a str> {
        let lines = self.text.lines().rev().map(plain);
        lines.filter(|line| !line.is_empty())
    }

    /// Returns the last lines, which should have been a claim.
    pub fn ending(&self) -> String {
        let mut last: Vec<&str> = self.last_lines().take(2).collect();
        last.reverse();
        last.join(" / ").chars().take(300).collect()
    }

    /// Returns what a planner claims, given the plan it left.
    pub fn planner_claim(&self, magic_phrase: &str, plan: Option<&str>) -> PlannerClaim {
        let last = self.last_lines().next();
        if last.is_none_or(|last| last != plain(magic_phrase)) {
            PlannerClaim::Unfinished
        } else if plan.is_none_or(|plan| plan.trim().is_empty()) {
            PlannerClaim::NoPlan
        } else {
            PlannerClaim::Planned
        }
    }

    /// Returns what a verifier claims.
    pub fn verifier_claim(&self, magic_phrase: &str) -> VerifierClaim {
        VerifierClaim {
            commit: self.completion(magic_phrase).map(|completion| completion.commit),
            beginning: self.beginning(magic_phrase),
            plan_invalidation: self.reason_after(PLAN_INVALIDATION),
        }
    }

    /// Returns the abbreviated commit name in the position of the full one.
    fn beginning(&self, magic_phrase: &str) -> Option<String> {
        let mut from_end = self.last_lines();
        if from_end.next()? != plain(magic_phrase) {
            return None;
        }
        let name = commit_name(from_end.next()?);
        let is_name =
            (7..40).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_name.then_some(name)
    }

    /// Returns why nothing needs to change, where the agent says so.
    pub fn no_change_needed(&self) -> Option<String> {
        self.reason_after(NO_CHANGE_NEEDED)
    }

    /// Returns the verifier's objection, if it states one on its own line.
    pub fn not_verified(&self) -> Option<String> {
        self.reason_after(NOT_VERIFIED)
    }

    /// Whether the magic phrase is alone on some line, even if the claim around it cannot be parsed.
    pub fn has_phrase(&self, magic_phrase: &str) -> bool {
        self.last_lines().any(|line| line == plain(magic_phrase))
    }

    /// Whether a line of the message is `line`, with or without Markdown around it.
    pub fn says(&self, line: &str) -> bool {
        let line = line.trim();
        let bare = plain(line);
        let is_said = |said: &str| said.trim() == line || (!bare.is_empty() && plain(said) == bare);
        !line.is_empty() && self.text.lines().any(is_said)
    }

    /// Whether a line of the message is `line`, and not only because it repeats the whole prompt.
    ///
    /// Prompts show such a line by itself, so an agent that means it has to repeat that line.
    pub fn promises(&self, line: &str) -> bool {
        if self.prompt.is_empty() || !self.text.contains(self.prompt) {
            return self.says(line);
        }
        let said = self.text.replace(self.prompt, "");
        FinalMessage::new(&said).says(line)
    }

    /// Returns the first reason given after a marker at the beginning of a line.
    fn reason_after(&self, marker: &str) -> Option<String> {
        self.text
            .lines()
            .map(str::trim_end)
            .filter(|line| !self.prompt_lines.contains(line))
            .filter_map(|line| line.strip_prefix(marker))
            .map(str::trim)
            .find(|reason| !reason.is_empty() && !is_placeholder(reason))
            .map(str::to_owned)
    }
}

/// Returns a line without the Markdown and the symbols that agents put around required text; a fence is not a line.
pub(crate) fn plain(line: &str) -> &str {
    let line = line.trim();
    if line.starts_with("```") || line.starts_with("~~~") {
        return "";
    }
    let line = line.trim_start_matches("> ").trim_start_matches("- ");
    let line = without_number(line);
    let is_markdown = |c: char| matches!(c, '*' | '`' | '"' | '_' | ' ');
    let is_symbol = |c: char| !c.is_ascii() && !c.is_alphanumeric();
    let line = line.trim_matches(is_markdown);
    // A required text may be of symbols alone.
    match line.trim_matches(|c| is_markdown(c) || is_symbol(c)) {
        "" => line,
        words => words,
    }
}

/// Removes the number of an item of a list: prompts number the lines that they ask for.
fn without_number(line: &str) -> &str {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &line[digits..];
    let item = rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") "));
    item.filter(|_| (1..=2).contains(&digits)).unwrap_or(line)
}

/// Returns the name in a line that should be a commit's: `Commit: ABC…` is equivalent to `abc…`.
fn commit_name(line: &str) -> String {
    let lower = line.to_ascii_lowercase();
    let name = ["commit:", "commit hash:", "commit", "hash:"]
        .iter()
        .find_map(|word| lower.strip_prefix(word));
    let name = name.unwrap_or(&lower);
    name.trim_matches(|c| matches!(c, '*' | '`' | '"' | '_' | ' ' | '.')).to_owned()
}

/// Whether a reason is one pair of angle brackets, as prompts write placeholders.
fn is_placeholder(reason: &str) -> bool {
    reason
        .strip_prefix('<')
        .and_then(|rest| rest.strip_suffix('>'))
        .is_some_and(|inside| !inside.contains(['<', '>']))
}

#[cfg(test)]
#[path = "contract_tests.rs"]
mod tests;
