//! Asking a person: what a workflow wants to know, whoever answers.
//!
//! A workflow asks through [`AskPerson`] and does not know whether a terminal, a page or a script answers. [`Scripted`] is
//! the one for scripts. Consent is apart from other questions: only the person's own word gives it, never a default.

mod answers;
mod scripted;

pub use answers::{Answers, AnswersError};
pub use scripted::{Consents, Scripted, ShowInquiry};

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Inquiry<'a> {
    /// A short name by which a script can answer.
    pub id: &'a str,
    /// What the person should read first, one line each.
    pub context: &'a [String],
    pub question: &'a str,
    /// The step that a `yes` starts, if it starts one.
    pub consent: Option<ConsentStep>,
}

/// A step that needs a person's explicit `yes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsentStep {
    Prd,
    Understand,
    Run,
}

impl ConsentStep {
    /// Returns how the journal names it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            ConsentStep::Prd => "prd",
            ConsentStep::Understand => "understand",
            ConsentStep::Run => "run",
        }
    }

    /// Returns the flag that gives it without a question.
    pub const fn flag(self) -> &'static str {
        match self {
            ConsentStep::Prd => "--approve-prd",
            ConsentStep::Understand => "--approve-understand",
            ConsentStep::Run => "--approve-run",
        }
    }
}

/// There was no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoReply {
    /// The person would rather stop.
    Interrupted,
    /// No person is there, and no answer was supplied.
    Missing(MissingReply),
}

/// What a script has no answer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingReply {
    Answer { id: String, question: String },
    Consent(ConsentStep),
}

/// A source of answers.
pub trait AskPerson {
    /// Asks for free text, which may have several lines. An empty answer is the default, if there is one.
    fn text(&mut self, inquiry: &Inquiry<'_>, default: Option<&str>) -> Result<String, NoReply>;

    /// Asks for yes or no. Where consent is asked for, anything but an explicit yes is no.
    fn confirm(&mut self, inquiry: &Inquiry<'_>, default: bool) -> Result<bool, NoReply>;

    /// Asks for one of several options, by its index.
    fn choose(
        &mut self,
        inquiry: &Inquiry<'_>,
        options: &[&str],
        default: usize,
    ) -> Result<usize, NoReply>;
}

/// Finds the option that an answer means: by its number, counted from 1, or by how it begins.
pub fn option_meant(typed: &str, options: &[&str]) -> Option<usize> {
    let typed = typed.trim().to_lowercase();
    if let Ok(number) = typed.parse::<usize>() {
        return number.checked_sub(1).filter(|index| *index < options.len());
    }
    if typed.is_empty() {
        return None;
    }
    let begins = |option: &&str| option.to_lowercase().starts_with(&typed);
    let mut found = options.iter().enumerate().filter(|(_, option)| begins(option));
    let (index, _) = found.next()?;
    found.next().is_none().then_some(index)
}

/// Reads a yes or a no.
pub fn is_yes(typed: &str) -> Option<bool> {
    match typed.trim().to_lowercase().as_str() {
        "y" | "yes" => Some(true),
        "n" | "no" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
#[path = "ask_tests.rs"]
mod tests;
