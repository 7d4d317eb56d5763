//! Values of settings: their kinds, parsing and display.
//!
//! A value is checked once on input (file, environment, flag); later readers rely on its kind.

use std::fmt::Write;
use std::ops::Range;
use std::time::Duration;

use toml::Spanned;
use toml::de::DeValue;

use super::duration::{parse_duration, render_duration};
use super::size::{parse_size, render_size};

/// A checked value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SettingValue {
    Text(String),
    Bool(bool),
    Count(u64),
    Number(f64),
    Duration(Duration),
    /// In bytes.
    Size(u64),
    List(Vec<String>),
    Commands(Vec<Vec<String>>),
}

/// The type of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Non-empty text.
    Text,
    /// Text, possibly empty.
    AnyText,
    Choice(&'static [&'static str]),
    Bool,
    Count,
    Percent,
    Number,
    /// A duration, possibly zero.
    Duration,
    /// A non-zero duration.
    Timeout,
    /// Bytes, with a unit.
    Size,
    List,
    /// A program and its arguments.
    Command,
    Commands,
}

/// Why a value is invalid, and the position in the file if it is a part of the value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Misfit {
    pub(super) reason: InvalidValue,
    pub(super) span: Option<Range<usize>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum InvalidValue {
    WrongType { expected: &'static str, found: &'static str },
    BadValue(String),
}

impl From<String> for Misfit {
    fn from(reason: String) -> Self {
        Misfit { reason: InvalidValue::BadValue(reason), span: None }
    }
}

impl Kind {
    const fn expected(self) -> &'static str {
        match self {
            Kind::Text | Kind::AnyText | Kind::Choice(_) => "a string",
            Kind::Bool => "`true` or `false`",
            Kind::Count | Kind::Percent => "a whole number",
            Kind::Number => "a number",
            Kind::Duration | Kind::Timeout => "a duration as a string, such as \"30m\"",
            Kind::Size => "a size as a string, such as \"1GiB\"",
            Kind::List => "a list of strings",
            Kind::Command => {
                "a command as a list of strings, such as [\"sh\", \"-c\", \"npm test\"]"
            }
            Kind::Commands => "a list of commands, each a list of strings",
        }
    }

    /// Checks a value of a file.
    pub(super) fn check(self, value: &DeValue<'_>) -> Result<SettingValue, Misfit> {
        match (self, value) {
            (Kind::Bool, DeValue::Boolean(value)) => Ok(SettingValue::Bool(*value)),
            (Kind::Count | Kind::Percent, DeValue::Integer(digits)) => {
                let count = u64::from_str_radix(digits.as_str(), digits.radix());
                let count = count.map_err(|_| format!("`{digits}` is not a count"))?;
                Ok(self.check_count(count)?)
            }
            (Kind::Number, DeValue::Integer(digits)) => Ok(check_number(&digits.to_string())?),
            (Kind::Number, DeValue::Float(digits)) => Ok(check_number(digits.as_str())?),
            (Kind::List, DeValue::Array(items)) => {
                Ok(SettingValue::List(check_strings(items, self)?))
            }
            (Kind::Command, DeValue::Array(items)) => {
                Ok(SettingValue::List(check_command(items, self)?))
            }
            (Kind::Commands, DeValue::Array(items)) => {
                let command = |item: &Spanned<DeValue<'_>>| match item.get_ref() {
                    DeValue::Array(words) => {
                        check_command(words, Kind::Command).map_err(|misfit| misfit.at(item))
                    }
                    other => Err(wrong_type(Kind::Command, other).at(item)),
                };
                Ok(SettingValue::Commands(items.iter().map(command).collect::<Result<_, _>>()?))
            }
            (
                Kind::Text
                | Kind::AnyText
                | Kind::Choice(_)
                | Kind::Duration
                | Kind::Timeout
                | Kind::Size,
                DeValue::String(text),
            ) => Ok(self.parse(text)?),
            (_, found) => Err(wrong_type(self, found)),
        }
    }

    /// Parses a value of the environment or of a flag. Lists come from files only.
    pub(super) fn parse(self, text: &str) -> Result<SettingValue, String> {
        if text.contains('\0') {
            return Err("it contains a NUL character".to_owned());
        }
        match self {
            Kind::Text if text.trim().is_empty() => Err("it is empty".to_owned()),
            Kind::AnyText | Kind::Text => Ok(SettingValue::Text(text.to_owned())),
            Kind::Choice(choices) if choices.contains(&text) => {
                Ok(SettingValue::Text(text.to_owned()))
            }
            Kind::Choice(choices) => {
                Err(format!("expected `{}`, found `{text}`", choices.join("`, `")))
            }
            Kind::Bool => parse_bool(text).map(SettingValue::Bool),
            Kind::Count | Kind::Percent => {
                let count = text.trim().parse();
                let count =
                    count.map_err(|_| format!("expected a whole number, found `{text}`"))?;
                self.check_count(count)
            }
            Kind::Number => check_number(text.trim()),
            Kind::Duration | Kind::Timeout => {
                let duration = parse_duration(text).map_err(|error| error.to_string())?;
                if self == Kind::Timeout && duration.is_zero() {
                    return Err("it must be longer than zero".to_owned());
                }
                Ok(SettingValue::Duration(duration))
            }
            Kind::Size => parse_size(text).map(SettingValue::Size),
            Kind::List | Kind::Command | Kind::Commands => {
                Err(format!("{} can only be set in a file", self.expected()))
            }
        }
    }

    fn check_count(self, count: u64) -> Result<SettingValue, String> {
        if self == Kind::Percent && !(1..=100).contains(&count) {
            return Err(format!("expected a percentage from 1 to 100, found `{count}`"));
        }
        Ok(SettingValue::Count(count))
    }
}

impl Misfit {
    fn at(mut self, part: &Spanned<DeValue<'_>>) -> Self {
        self.span.get_or_insert(part.span());
        self
    }
}

fn wrong_type(kind: Kind, found: &DeValue<'_>) -> Misfit {
    let reason = InvalidValue::WrongType { expected: kind.expected(), found: type_name(found) };
    Misfit { reason, span: None }
}

/// Returns a value's type name for messages.
pub(super) const fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

fn check_strings(items: &[Spanned<DeValue<'_>>], kind: Kind) -> Result<Vec<String>, Misfit> {
    let text = |item: &Spanned<DeValue<'_>>| match item.get_ref() {
        DeValue::String(text) if text.contains('\0') => {
            Err(Misfit::from("it contains a NUL character".to_owned()).at(item))
        }
        DeValue::String(text) => Ok(text.to_string()),
        other => Err(wrong_type(kind, other).at(item)),
    };
    items.iter().map(text).collect()
}

fn check_command(items: &[Spanned<DeValue<'_>>], kind: Kind) -> Result<Vec<String>, Misfit> {
    let words = check_strings(items, kind)?;
    match words.first() {
        Some(program) if !program.trim().is_empty() => Ok(words),
        _ => Err("it has no program".to_owned().into()),
    }
}

fn check_number(digits: &str) -> Result<SettingValue, String> {
    match digits.replace('_', "").parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(SettingValue::Number(number)),
        _ => Err(format!("expected a number that is not negative, found `{digits}`")),
    }
}

fn parse_bool(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "y" | "on" => Ok(true),
        "0" | "false" | "no" | "n" | "off" => Ok(false),
        _ => Err(format!("expected `true` or `false`, found `{text}`")),
    }
}

impl SettingValue {
    /// Renders the value as TOML.
    pub(super) fn render(&self) -> String {
        match self {
            SettingValue::Text(text) => render_string(text),
            SettingValue::Bool(value) => value.to_string(),
            SettingValue::Count(count) => count.to_string(),
            SettingValue::Number(number) => format!("{number:?}"),
            SettingValue::Duration(duration) => render_string(&render_duration(*duration)),
            SettingValue::Size(bytes) => render_string(&render_size(*bytes)),
            SettingValue::List(items) => render_list(items),
            SettingValue::Commands(commands) => {
                let commands: Vec<_> = commands.iter().map(|words| render_list(words)).collect();
                format!("[{}]", commands.join(", "))
            }
        }
    }
}

/// Renders texts as a TOML array on one line.
pub(crate) fn render_list(items: &[String]) -> String {
    let items: Vec<_> = items.iter().map(|item| render_string(item)).collect();
    format!("[{}]", items.join(", "))
}

/// Renders text as a TOML string on one line.
pub(crate) fn render_string(text: &str) -> String {
    let mut rendered = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => rendered.push_str("\\\""),
            '\\' => rendered.push_str("\\\\"),
            '\n' => rendered.push_str("\\n"),
            '\t' => rendered.push_str("\\t"),
            c if c.is_control() => {
                write!(rendered, "\\u{:04X}", u32::from(c)).expect("a string can be written to");
            }
            c => rendered.push(c),
        }
    }
    rendered.push('"');
    rendered
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use toml::de::DeTable;

    use super::*;

    fn read_back(rendered: &str, kind: Kind) -> SettingValue {
        let text = format!("x = {rendered}");
        let table = DeTable::parse(&text).unwrap();
        kind.check(table.get_ref()["x"].get_ref()).unwrap()
    }

    proptest! {
        #[test]
        fn a_rendered_value_reads_back(
            words in prop::collection::vec("[^\0]+", 1..4),
            number in 0.0..1e12,
        ) {
            for (kind, value) in [
                (Kind::AnyText, SettingValue::Text(words[0].clone())),
                (Kind::List, SettingValue::List(words.clone())),
                (Kind::Number, SettingValue::Number(number)),
            ] {
                prop_assert_eq!(read_back(&value.render(), kind), value);
            }
        }
    }

    #[test]
    fn the_environments_booleans_are_the_usual_ones() {
        assert_eq!(Kind::Bool.parse("1"), Ok(SettingValue::Bool(true)));
        assert_eq!(Kind::Bool.parse("Off"), Ok(SettingValue::Bool(false)));
        assert!(Kind::Bool.parse("maybe").is_err());
    }

    #[test]
    fn numbers_that_count_nothing_are_refused() {
        for text in ["nan", "inf", "-1"] {
            assert!(Kind::Number.parse(text).is_err(), "{text}");
        }
        assert!(Kind::Percent.parse("0").is_err());
        assert!(Kind::Count.parse("-1").is_err());
    }
}
