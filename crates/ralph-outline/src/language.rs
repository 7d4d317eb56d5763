//! The interface of plan languages, and the choice of the language of a mailbox's plan.

use crate::finding::{PlanFinding, PlanLevel};
use crate::markdown::Markdown;
use crate::outline::Outline;
use crate::rules::LoopRules;
use crate::tree::SourceTree;
use crate::tsx::Tsx;

/// The context that a plan is checked against.
#[derive(Clone, Copy)]
pub struct PlanSurroundings<'a> {
    pub rules: &'a LoopRules,
    /// The tree that the work starts from.
    pub tree: &'a dyn SourceTree,
    /// Whether a program of this name can be started.
    pub is_program: &'a dyn Fn(&str) -> bool,
}

/// The result of checking a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanCheck {
    /// The plan's outline; empty if the plan could not be parsed.
    pub outline: Outline,
    pub findings: Vec<PlanFinding>,
}

impl PlanCheck {
    pub fn is_valid(&self) -> bool {
        self.findings.iter().all(|finding| finding.level != PlanLevel::Fail)
    }
}

/// A language that plans can be written in.
pub trait PlanLanguage: Sync {
    /// Returns the name of the plan's file in the mailbox.
    fn file_name(&self) -> &'static str;

    /// Whether a text is a plan at all, rather than a note.
    fn is_plan(&self, text: &str) -> bool;

    fn check(&self, text: &str, surroundings: &PlanSurroundings<'_>) -> PlanCheck;
}

/// All languages, in order of precedence: the first whose file contains a plan wins.
pub const LANGUAGES: [&dyn PlanLanguage; 2] = [&Tsx, &Markdown];

/// Returns the effective plan: its language and its text.
pub fn find_plan(
    read: impl Fn(&str) -> Option<String>,
) -> Option<(&'static dyn PlanLanguage, String)> {
    LANGUAGES.into_iter().find_map(|language| {
        let text = read(language.file_name())?;
        language.is_plan(&text).then_some((language, text))
    })
}
