//! The loop's built-in gates, as functions of a tree and of the mailbox's claims.

mod app;
mod colors;
mod css;

use ralph_model::gate::BuiltIn;

use crate::diff::{DiffRequest, PlanDiff, diff};
use crate::outline::Outline;
use crate::rules::LoopRules;
use crate::scope;
use crate::tree::SourceTree;

pub use app::{changes_components, is_before_work};

/// The minimum length of a summary, in characters.
const SUMMARY: usize = 20;

/// The input of built-in gates.
#[derive(Clone, Copy)]
pub struct CheckInput<'a> {
    pub rules: &'a LoopRules,
    /// The candidate.
    pub tree: &'a dyn SourceTree,
    /// The tree when the task began.
    pub before: Option<&'a dyn SourceTree>,
    /// The paths that differ between the two trees, and the subset that is new.
    pub changed: &'a [String],
    pub added: &'a [String],
    /// Changed paths that contain no work: they differ only in white space, or are new and blank.
    pub idle: &'a [String],
    /// The outline of the validated plan, if there is one.
    pub outline: Option<&'a Outline>,
    pub summary: Option<&'a str>,
}

/// The result of a built-in gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckResult {
    pub passed: bool,
    /// The problem or a note; empty if there is nothing to report.
    pub text: String,
}

impl CheckResult {
    fn of(problems: &[String]) -> CheckResult {
        CheckResult { passed: problems.is_empty(), text: problems.join("\n") }
    }

    fn passed(text: impl Into<String>) -> CheckResult {
        CheckResult { passed: true, text: text.into() }
    }

    fn failed(text: impl Into<String>) -> CheckResult {
        CheckResult { passed: false, text: text.into() }
    }
}

/// Runs a built-in gate.
pub fn run(check: BuiltIn, input: &CheckInput<'_>) -> CheckResult {
    match check {
        BuiltIn::HasSummary => has_summary(input.summary),
        BuiltIn::PlanDiff => match plan_diff(input) {
            None => CheckResult::passed(""),
            Some(found) => {
                let text = if found.is_clean() { String::new() } else { found.report() };
                CheckResult { passed: found.failure.is_none(), text }
            }
        },
        BuiltIn::Scope => match input.outline {
            None => CheckResult::passed(""),
            Some(outline) => {
                let found = scope::compare(outline, input.before, input.tree);
                CheckResult { passed: found.passed, text: found.text }
            }
        },
        BuiltIn::AppExists => app::exists(input),
        BuiltIn::AppHasContent => app::has_content(input),
        BuiltIn::CssThemeComplete => css::theme_complete(input),
        BuiltIn::CssNoTailwindDirectives => css::no_tailwind_directives(input),
        BuiltIn::NoHardcodedColors => colors::none_hardcoded(input),
    }
}

/// Compares the plan with the tree; `None` without a plan.
pub fn plan_diff(input: &CheckInput<'_>) -> Option<PlanDiff> {
    let CheckInput { rules, tree, changed, added, idle, outline, .. } = *input;
    let worked = |path: &&String| !idle.contains(path);
    let changed: Vec<String> = changed.iter().filter(worked).cloned().collect();
    outline.map(|outline| diff(&DiffRequest { outline, rules, tree, changed: &changed, added }))
}

fn has_summary(summary: Option<&str>) -> CheckResult {
    match summary.map(|text| text.trim().chars().count()) {
        None | Some(0) => CheckResult::failed("summary.md is missing"),
        Some(length) if length < SUMMARY => CheckResult::failed(format!(
            "summary.md has {length} characters; the minimum is {SUMMARY}"
        )),
        Some(_) => CheckResult::passed(""),
    }
}

#[cfg(test)]
#[path = "../checks_tests.rs"]
mod tests;
