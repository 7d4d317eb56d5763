//! The prompt of each role, from typed contexts and templates that a person may override.
//!
//! A prompt must never make a claim by itself: no contract marker may appear in a template where an echo of the prompt
//! would be mistaken for the agent's own claim. The engine reads the files.

mod build;
mod goal;
mod kind;
mod loop_task;
mod pipeline;
mod reader;
mod template;

use std::fmt::Write;

use crate::gate::{self, Check, GateSpec};

pub use build::{
    BuildPrompt, DecomposePrompt, InvestigatePrompt, PlanPrompt, ReviewPrompt, VerifyPrompt,
};
pub use goal::{GoalSurroundings, InterviewPrompt, StoryPrompt, UnderstandPrompt};
pub use kind::PromptKind;
pub use loop_task::{LoopPrompt, PlanSource};
pub use pipeline::{PreviousPlan, SpecImplementPrompt, SpecPlanPrompt, SpecVerifyPrompt};
pub use template::{Field, Need, Presence, PromptTemplate, TemplateError, TemplateProblem, Values};

/// The preamble of a prompt in a resumed session.
const RESUMED: &str = "\
You have worked in this session before. Summarise the earlier context for yourself; do not report it. Then do what follows.
Where it differs from earlier instructions, it takes precedence.

";

/// The context of one prompt.
pub trait PromptContext {
    const KIND: PromptKind;

    /// Returns the values that a template of this kind may use.
    fn values(&self) -> Values<'_>;
}

/// A template for every prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompts {
    templates: [PromptTemplate; PromptKind::ALL.len()],
}

impl Prompts {
    /// Returns the built-in templates.
    pub fn builtin() -> Prompts {
        Prompts { templates: PromptKind::ALL.map(PromptKind::builtin) }
    }

    /// Uses `text` as the template of one prompt, or returns all its errors.
    pub fn replace(&mut self, kind: PromptKind, text: &str) -> Result<(), Vec<TemplateError>> {
        self.templates[kind as usize] = PromptTemplate::parse(text, &kind.fields())?;
        Ok(())
    }

    /// Returns the prompt for a fresh session.
    pub fn render<C: PromptContext>(&self, context: &C) -> String {
        self.templates[C::KIND as usize].render(&context.values())
    }

    /// Returns the prompt for a run that may continue from earlier runs of the item.
    pub fn render_continued<C: PromptContext>(
        &self,
        context: &C,
        before: Continuation<'_>,
    ) -> String {
        let resumed = if before.is_resumed { RESUMED } else { "" };
        let (clone, half_done) = (before.where_it_is(), before.half_done());
        format!("{resumed}{clone}{half_done}{}", self.render(context))
    }
}

/// What a run continues from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Continuation<'a> {
    /// The agent's session is resumed: it knows the earlier conversation.
    pub is_resumed: bool,
    /// Files that earlier runs of the item changed and did not commit, sanitized for display.
    pub uncommitted: &'a [String],
    /// Uncommitted files of the run whose commit is verified, sanitized for display.
    pub left_beside: &'a [String],
    /// The person's checkout and the clone of it that the run works in, if it does.
    pub clone: Option<(&'a str, &'a str)>,
}

/// The maximum number of files listed; the agent can list all of them itself.
const MOST_NAMED: usize = 20;

impl Continuation<'_> {
    /// Explains how paths in the person's checkout map to the clone, for specs, plans and notes that name them.
    fn where_it_is(&self) -> String {
        let Some((checkout, clone)) = self.clone else { return String::new() };
        format!(
            "You work in a clone: {clone}. Where a text names {checkout} or a repository or directory below it, the same place \
             below {clone} is meant. The original is not yours to change.\n\n"
        )
    }

    /// Lists what earlier runs left in the working tree.
    fn half_done(&self) -> String {
        if !self.left_beside.is_empty() {
            return format!(
                "The commit is all that counts. The run that claims it also left these files uncommitted, which you do not \
                 see and which will not land:\n{}If the work needs one of them, it is not complete.\n\n",
                named(self.left_beside)
            );
        }
        if self.uncommitted.is_empty() {
            return String::new();
        }
        let named = named(self.uncommitted);
        format!(
            "Earlier runs on this task were cut short or ended with changes that are not committed:\n{named}\
             Look at them first (`git status`, `git diff`). Continue from them, or undo what is not useful: they are part of your work now.\n\n"
        )
    }
}

/// Lists files, each quoted as data.
fn named(paths: &[String]) -> String {
    let mut list = String::new();
    for path in paths.iter().take(MOST_NAMED) {
        // A path must not be able to end its quotation.
        let _ = writeln!(list, "- `{}`", path.replace('`', "'"));
    }
    let more = paths.len().saturating_sub(MOST_NAMED);
    if more > 0 {
        let _ = writeln!(list, "- and {more} more");
    }
    list
}

/// The spec of a prompt.
#[derive(Clone, Copy, Debug)]
pub struct SpecSource<'a> {
    /// The stem of its file.
    pub id: &'a str,
    /// The path at which the agent finds it.
    pub path: &'a str,
    /// Its path below `specs/`.
    pub file: &'a str,
    pub text: &'a str,
}

/// The rules of the project.
#[derive(Clone, Copy, Debug)]
pub struct RulesSource<'a> {
    /// The name of the file they are in.
    pub file: &'a str,
    pub text: &'a str,
}

/// Values common to all prompts.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    pub workspace: &'a str,
    pub home: &'a str,
    pub spec: SpecSource<'a>,
    pub rules: Option<RulesSource<'a>>,
    /// The problems of the last run, for the agent.
    pub feedback: Option<&'a str>,
}

impl<'a> Surroundings<'a> {
    fn values(&self) -> Values<'a> {
        let mut values = Values::default();
        values.add("workspace", self.workspace);
        values.add("home", self.home);
        values.add("spec_id", self.spec.id);
        values.add("spec_path", self.spec.path);
        values.add("spec_file", self.spec.file);
        values.add("spec", self.spec.text);
        values.add_rules(self.rules);
        values.add_optional("feedback", self.feedback);
        values
    }
}

impl<'a> Values<'a> {
    fn add_rules(&mut self, rules: Option<RulesSource<'a>>) {
        if let Some(rules) = rules.filter(|rules| !rules.text.trim().is_empty()) {
            self.add("rules", rules.text);
            self.add("rules_file", rules.file);
        }
    }
}

/// Lists gates in execution order, as commands that an agent can run.
fn gate_list(gates: &[GateSpec]) -> Option<String> {
    let mut list = String::new();
    for gate in gate::in_order(gates) {
        let gap = if list.is_empty() { "" } else { "\n" };
        let words: Vec<String> = gate.argv().iter().map(|word| shell_word(word)).collect();
        let command = match gate.check {
            Check::Command { .. } => format!("`{}`", words.join(" ")),
            Check::BuiltIn(_) => "checked by Ralph itself".to_owned(),
        };
        write!(list, "{gap}- {}: {command}", gate.name).expect("a string takes any text");
    }
    (!list.is_empty()).then_some(list)
}

/// Quotes a word for a shell if needed.
fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%=:,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
#[path = "prompt_tests.rs"]
mod tests;
