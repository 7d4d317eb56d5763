//! Parses a template's text into pieces.

use crate::nearest::did_you_mean;

use super::template::{Field, Piece, Presence, TemplateError, TemplateProblem};

const OPEN: &str = "{{";
const CLOSE: &str = "}}";

/// How deep conditions may be nested.
pub(super) const DEEPEST: usize = 16;

/// Deprecated names of values, which people's templates may still use.
const ALIASES: [(&str, &str); 1] = [("SPEC_FILE", "spec_file")];

/// A condition whose end is not reached yet.
struct Open {
    /// Empty if there is no such value.
    name: &'static str,
    typed: String,
    line: usize,
    before: Vec<Piece>,
    /// The first part, once `{{else}}` is reached.
    then: Option<Vec<Piece>>,
}

pub(super) struct Reader<'a> {
    text: &'a str,
    fields: &'a [Field],
    errors: Vec<TemplateError>,
    open: Vec<Open>,
}

impl<'a> Reader<'a> {
    /// Returns the pieces and their errors; structural errors stop the parser.
    pub(super) fn read(
        text: &'a str,
        fields: &'a [Field],
    ) -> Result<(Vec<Piece>, Vec<TemplateError>), Vec<TemplateError>> {
        let mut reader = Reader { text, fields, errors: Vec::new(), open: Vec::new() };
        match reader.pieces() {
            Ok(pieces) => Ok((pieces, reader.errors)),
            Err(error) => {
                reader.errors.push(error);
                Err(reader.errors)
            }
        }
    }

    fn pieces(&mut self) -> Result<Vec<Piece>, TemplateError> {
        let text = self.text;
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let (mut at, mut line) = (0, 1);
        while let Some(found) = text[at..].find(OPEN) {
            let start = at + found;
            let before = &text[at..start];
            line += before.matches('\n').count();
            if let Some(before) = before.strip_suffix('\\') {
                literal.push_str(before);
                literal.push_str(OPEN);
                at = start + OPEN.len();
                continue;
            }
            literal.push_str(before);
            let inside = start + OPEN.len();
            let end_of_line = text[inside..].find('\n').map_or(text.len(), |end| inside + end);
            let length = text[inside..end_of_line]
                .find(CLOSE)
                .ok_or(TemplateError { line, problem: TemplateProblem::Unclosed })?;
            let after = inside + length + CLOSE.len();
            let tag = text[inside..inside + length].trim();
            let start_of_line = text[..start].rfind('\n').map_or(0, |end| end + 1);
            let is_alone = text[start_of_line..start].trim().is_empty()
                && text[after..end_of_line].trim().is_empty();
            at = after;
            let is_value = is_name(tag);
            if is_alone && !is_value {
                literal.truncate(literal.len() - (start - start_of_line));
                at = text.len().min(end_of_line + 1);
            }
            if !literal.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut literal)));
            }
            if is_value {
                self.value(tag, line, is_alone, &mut pieces);
            } else {
                self.condition(tag, line, &mut pieces)?;
            }
            line += text[after..at].matches('\n').count();
        }
        literal.push_str(&text[at..]);
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        match self.open.pop() {
            None => Ok(pieces),
            Some(open) => {
                let problem = TemplateProblem::NotEnded { name: open.typed };
                Err(TemplateError { line: open.line, problem })
            }
        }
    }

    fn value(&mut self, name: &str, line: usize, is_alone: bool, pieces: &mut Vec<Piece>) {
        let Some(field) = self.field(name, line) else { return };
        let name = field.name;
        if is_alone && name == "magic_phrase" {
            self.errors.push(TemplateError { line, problem: TemplateProblem::PhraseAlone });
        }
        if let Presence::With(group) = field.presence {
            let holds = |open: &Open| open.then.is_none() && self.group(open.name) == Some(group);
            if !self.open.iter().any(holds) {
                let problem = TemplateProblem::NotAlwaysThere { name, group };
                self.errors.push(TemplateError { line, problem });
            }
        }
        pieces.push(Piece::Value { name, line });
    }

    fn condition(
        &mut self,
        tag: &str,
        line: usize,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), TemplateError> {
        let error = |problem| TemplateError { line, problem };
        if let Some(name) = tag.strip_prefix("#if ").map(str::trim).filter(|name| is_name(name)) {
            if self.open.len() >= DEEPEST {
                return Err(error(TemplateProblem::TooDeep));
            }
            // Continue parsing a condition on an unknown value as a condition, to find its end.
            let field = self.field(name, line);
            if let Some(field) = field.filter(|field| field.presence == Presence::Always) {
                self.errors.push(error(TemplateProblem::AlwaysThere { name: field.name }));
            }
            self.open.push(Open {
                name: field.map_or("", |field| field.name),
                typed: name.to_owned(),
                line,
                before: std::mem::take(pieces),
                then: None,
            });
            return Ok(());
        }
        let without_if = |tag| error(TemplateProblem::NotOpen { tag });
        match tag {
            "else" => {
                let open = self.open.last_mut().filter(|open| open.then.is_none());
                open.ok_or_else(|| without_if("else"))?.then = Some(std::mem::take(pieces));
            }
            "/if" => {
                let open = self.open.pop().ok_or_else(|| without_if("/if"))?;
                let last = std::mem::replace(pieces, open.before);
                let (then, otherwise) = match open.then {
                    Some(then) => (then, last),
                    None => (last, Vec::new()),
                };
                let present = self.group(open.name).unwrap_or_default();
                pieces.push(Piece::If { present, then, otherwise });
            }
            _ => return Err(error(TemplateProblem::UnknownTag { tag: tag.to_owned() })),
        }
        Ok(())
    }

    /// Looks up a name, and records an error if there is no such value.
    fn field(&mut self, name: &str, line: usize) -> Option<Field> {
        let current = ALIASES.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new);
        let found = self.fields.iter().find(|field| field.name == current).copied();
        if found.is_none() {
            let hint = did_you_mean(name, self.fields.iter().map(|field| field.name));
            let problem = TemplateProblem::UnknownValue { name: name.to_owned(), hint };
            self.errors.push(TemplateError { line, problem });
        }
        found
    }

    /// Returns the name whose presence makes a value present.
    fn group(&self, name: &str) -> Option<&'static str> {
        let field = self.fields.iter().find(|field| field.name == name)?;
        match field.presence {
            Presence::Always => None,
            Presence::With(group) => Some(group),
        }
    }
}

/// Whether a tag is a name rather than a keyword of conditions.
fn is_name(tag: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !tag.is_empty() && tag != "else" && tag.chars().all(is_part)
}
