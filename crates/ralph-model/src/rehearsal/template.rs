//! Text with variables.
//!
//! `${NAME}` is a variable, `${NAME:-other}` a variable with a default, and `$${` a literal `${`. Every other dollar
//! sign is literal. Names are checked when the script is parsed, values when the step is played.

use crate::nearest::did_you_mean;

/// The variables that a template may use.
pub(crate) const VARIABLES: [&str; 14] = [
    "COMMIT",
    "HEAD",
    "INVOCATION",
    "PROMPT_LINES",
    "RESUME",
    "ROLE",
    "RUN_ID",
    "RALPH_CHANNEL",
    "RALPH_HOME",
    "RALPH_OUT",
    "RALPH_ROLE",
    "RALPH_RUN_ID",
    "RALPH_SPEC",
    "RALPH_TASK",
];

/// Text whose variables are expanded when it is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Variable { name: String, default: Option<String> },
}

/// A variable without a value was used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`${{{0}}}` has no value here")]
pub struct UnsetVariable(pub String);

impl Template {
    /// Returns a template for literal `text`.
    pub(crate) fn literal(text: impl Into<String>) -> Self {
        let text = text.into();
        if text.is_empty() { Self::default() } else { Self { pieces: vec![Piece::Literal(text)] } }
    }

    /// Parses a template, or returns its error.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(dollar) = rest.find("${") {
            if rest[..dollar].ends_with('$') {
                literal.push_str(&rest[..dollar - 1]);
                literal.push_str("${");
                rest = &rest[dollar + 2..];
                continue;
            }
            literal.push_str(&rest[..dollar]);
            let (inner, after) = rest[dollar + 2..]
                .split_once('}')
                .ok_or("`${` without `}` (`$${` stands for `${` itself)")?;
            let (name, default) = match inner.split_once(":-") {
                Some((name, default)) => (name, Some(default.to_owned())),
                None => (inner, None),
            };
            if !VARIABLES.contains(&name) {
                let hint = did_you_mean(name, VARIABLES);
                return Err(format!(
                    "unknown variable `{name}`{hint} (`$${{` stands for `${{` itself, and \
                     `<<'END'` takes text as it is)"
                ));
            }
            if !literal.is_empty() {
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
            }
            pieces.push(Piece::Variable { name: name.to_owned(), default });
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        Ok(Self { pieces })
    }

    /// Returns the text with every variable expanded.
    pub fn render(&self, lookup: impl Fn(&str) -> Option<String>) -> Result<String, UnsetVariable> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => text.push_str(literal),
                Piece::Variable { name, default } => {
                    let value = lookup(name).or_else(|| default.clone());
                    text.push_str(&value.ok_or_else(|| UnsetVariable(name.clone()))?);
                }
            }
        }
        Ok(text)
    }
}
