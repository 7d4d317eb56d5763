//! Questions of a workflow to a person, independent of the source of answers.
//!
//! A workflow asks through [`AskPerson`] and does not know whether a terminal, a page or a script answers. [`Scripted`]
//! is the implementation for scripts. Consent is separate from other questions: only the person can give it, never a
//! default.

mod answers;
mod scripted;

pub use answers::{Answers, AnswersError};
pub use scripted::{Consents, Scripted, ShowInquiry};

/// A question.
#[derive(Clone, Copy, Debug)]
pub struct Inquiry<'a> {
    /// A short name for use in scripts.
    pub id: &'a str,
    /// The text that the person should read first, line by line.
    pub context: &'a [String],
    pub question: &'a str,
    /// The step that a `yes` starts, if any.
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
    /// Returns its name in the journal.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            ConsentStep::Prd => "prd",
            ConsentStep::Understand => "understand",
            ConsentStep::Run => "run",
        }
    }

    /// Returns the flag that gives consent without a question.
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
    /// The person chose to stop.
    Interrupted,
    /// There is no person, and no answer was supplied.
    Missing(MissingReply),
}

/// A missing answer in a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingReply {
    Answer { id: String, question: String },
    Consent(ConsentStep),
}

/// A source of answers.
pub trait AskPerson {
    /// Asks for free text, possibly of several lines. An empty answer means the default, if there is one.
    fn text(&mut self, inquiry: &Inquiry<'_>, default: Option<&str>) -> Result<String, NoReply>;

    /// Asks for yes or no. For consent, anything except an explicit yes means no.
    fn confirm(&mut self, inquiry: &Inquiry<'_>, default: bool) -> Result<bool, NoReply>;

    /// Asks for one of several options, by its index.
    fn choose(
        &mut self,
        inquiry: &Inquiry<'_>,
        options: &[&str],
        default: usize,
    ) -> Result<usize, NoReply>;
}

/// Finds the option of an answer: by its one-based number, or by prefix.
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

/// Parses yes or no.
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
