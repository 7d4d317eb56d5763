//! Templates: text with placeholders, parsed strictly.
//!
//! | written | means |
//! |---|---|
//! | `{{name}}` | the value, as it is: what looks like a place inside a value is text |
//! | `{{#if name}} … {{else}} … {{/if}}` | the first part if the value is there, else the second, which may be left out |
//! | `\{{` | `{{` itself |
//!
//! All template errors are found when it is parsed, with their line, so rendering cannot fail. A condition tag alone on
//! its line consumes that line.

use std::borrow::Cow;
use std::fmt::Write;

use crate::contract::{NO_CHANGE_NEEDED, PLAN_INVALIDATION};

use super::reader::{DEEPEST, Reader};

/// A value that a template may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: &'static str,
    pub presence: Presence,
    pub need: Need,
}

/// When a value is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Always,
    /// Only together with the value of this name, which may be the value itself.
    With(&'static str),
}

/// What happens if a template does not use a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Free,
    /// One value of each such group must be in every prompt in which it is present.
    Essential(&'static str),
    /// It is appended to the text, under this heading.
    Appended(&'static str),
}

/// A template that was validated against a list of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptTemplate {
    pieces: Vec<Piece>,
    appended: Vec<(&'static str, &'static str)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    Value { name: &'static str, line: usize },
    If { present: &'static str, then: Vec<Piece>, otherwise: Vec<Piece> },
}

/// An error of a template, with its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct TemplateError {
    pub line: usize,
    pub problem: TemplateProblem,
}

/// The kinds of template errors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateProblem {
    #[error("`{{{{` without `}}}}` on the same line (`\\{{{{` stands for `{{{{` itself)")]
    Unclosed,
    #[error("`{{{{{tag}}}}}` is not a known tag (`\\{{{{` stands for `{{{{` itself)")]
    UnknownTag { tag: String },
    #[error("unknown value `{name}`{hint} (`\\{{{{` stands for `{{{{` itself)")]
    UnknownValue { name: String, hint: String },
    #[error("`{{{{{tag}}}}}` without an `{{{{#if …}}}}` before it")]
    NotOpen { tag: &'static str },
    #[error("`{{{{#if {name}}}}}` is never closed by `{{{{/if}}}}`")]
    NotEnded { name: String },
    #[error("conditions are nested more than {DEEPEST} deep")]
    TooDeep,
    #[error("`{name}` is not always set: put it between `{{{{#if {group}}}}}` and `{{{{/if}}}}`")]
    NotAlwaysThere { name: &'static str, group: &'static str },
    #[error("`{name}` is always set and needs no condition")]
    AlwaysThere { name: &'static str },
    #[error("the template ends without using {}", alternatives(names))]
    Unused { names: Vec<&'static str> },
    #[error("`{{{{{name}}}}}` is needed in every prompt and must not be conditional")]
    OnlySometimes { name: &'static str },
    #[error(
        "`{{{{magic_phrase}}}}` is alone on its line, where an echo of the prompt would count as a claim: write it inside a sentence"
    )]
    PhraseAlone,
    #[error(
        "`{marker}` begins a line, where an echo of the prompt would count as a claim: write it inside a sentence"
    )]
    MarkerFirst { marker: &'static str },
}

fn alternatives(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{{{{{name}}}}}`")).collect();
    quoted.join(" or ")
}

/// The values for one prompt.
#[derive(Clone, Debug, Default)]
pub struct Values<'a>(Vec<(&'static str, Cow<'a, str>)>);

impl<'a> Values<'a> {
    pub(super) fn add(&mut self, name: &'static str, value: impl Into<Cow<'a, str>>) {
        self.0.push((name, value.into()));
    }

    /// Adds an optional value. A blank one counts as missing: a heading with nothing below it is useless.
    pub(super) fn add_optional(
        &mut self,
        name: &'static str,
        value: Option<impl Into<Cow<'a, str>>>,
    ) {
        if let Some(value) = value.map(Into::into).filter(|value| !value.trim().is_empty()) {
            self.0.push((name, value));
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| &**value)
    }

    #[cfg(test)]
    pub(super) fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|(name, _)| *name).collect()
    }
}

impl PromptTemplate {
    /// Parses a template for these values, or returns all its errors.
    pub fn parse(text: &str, fields: &[Field]) -> Result<PromptTemplate, Vec<TemplateError>> {
        let (pieces, mut errors) = Reader::read(text, fields)?;
        errors.extend(markers(text));
        let last_line = text.lines().count().max(1);
        let mut appended = Vec::new();
        // If a name is wrong, a missing value is mostly the same mistake.
        let mut unmet_needs = Vec::new();
        for (at, field) in fields.iter().enumerate() {
            match field.need {
                Need::Free => {}
                Need::Appended(heading) => {
                    if first_use(&pieces, &[field.name]).is_none() {
                        appended.push((field.name, heading));
                    }
                }
                Need::Essential(group) => {
                    let in_group = |other: &&Field| other.need == Need::Essential(group);
                    if fields[..at].iter().any(|earlier| in_group(&earlier)) {
                        continue;
                    }
                    let names: Vec<_> =
                        fields.iter().filter(in_group).map(|field| field.name).collect();
                    unmet_needs.extend(unmet(&pieces, field, names, last_line));
                }
            }
        }
        if errors.is_empty() {
            errors = unmet_needs;
        }
        if errors.is_empty() {
            Ok(PromptTemplate { pieces, appended })
        } else {
            errors.sort_by_key(|error| error.line);
            Err(errors)
        }
    }

    /// Returns the text with the values filled in.
    pub(crate) fn render(&self, values: &Values<'_>) -> String {
        let mut text = String::new();
        render(&self.pieces, values, &mut text);
        for (name, heading) in &self.appended {
            if let Some(value) = values.get(name) {
                let gap = if text.ends_with('\n') { "\n" } else { "\n\n" };
                write!(text, "{gap}# {heading}\n\n{value}\n").expect("a string takes any text");
            }
        }
        text
    }
}

fn render(pieces: &[Piece], values: &Values<'_>, text: &mut String) {
    for piece in pieces {
        match piece {
            Piece::Text(literal) => text.push_str(literal),
            Piece::Value { name, .. } => {
                text.push_str(values.get(name).expect("a value is given wherever it may be named"));
            }
            Piece::If { present, then, otherwise } => {
                let chosen = if values.get(present).is_some() { then } else { otherwise };
                render(chosen, values, text);
            }
        }
    }
}

/// Returns an error if a group of essential values is not used where it must be.
fn unmet(
    pieces: &[Piece],
    field: &Field,
    names: Vec<&'static str>,
    last_line: usize,
) -> Option<TemplateError> {
    let given = match field.presence {
        Presence::Always => None,
        Presence::With(group) => Some(group),
    };
    if is_in_every_prompt(pieces, &names, given) {
        return None;
    }
    Some(match first_use(pieces, &names) {
        Some((name, line)) => {
            TemplateError { line, problem: TemplateProblem::OnlySometimes { name } }
        }
        None => TemplateError { line: last_line, problem: TemplateProblem::Unused { names } },
    })
}

/// Whether one of the values is in every prompt in which `given` is present.
fn is_in_every_prompt(pieces: &[Piece], names: &[&str], given: Option<&str>) -> bool {
    pieces.iter().any(|piece| match piece {
        Piece::Text(_) => false,
        Piece::Value { name, .. } => names.contains(name),
        Piece::If { present, then, otherwise } => {
            is_in_every_prompt(then, names, given)
                && (given == Some(*present) || is_in_every_prompt(otherwise, names, given))
        }
    })
}

fn first_use(pieces: &[Piece], names: &[&str]) -> Option<(&'static str, usize)> {
    pieces.iter().find_map(|piece| match piece {
        Piece::Text(_) => None,
        Piece::Value { name, line } => names.contains(name).then_some((*name, *line)),
        Piece::If { then, otherwise, .. } => {
            first_use(then, names).or_else(|| first_use(otherwise, names))
        }
    })
}

/// Finds lines of the template itself that could be mistaken for claims.
fn markers(text: &str) -> impl Iterator<Item = TemplateError> {
    text.lines().enumerate().filter_map(|(at, line)| {
        let mut known = [PLAN_INVALIDATION, NO_CHANGE_NEEDED].into_iter();
        let marker = known.find(|marker| line.starts_with(marker))?;
        Some(TemplateError { line: at + 1, problem: TemplateProblem::MarkerFirst { marker } })
    })
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
