//! Parses lines into blocks: comments, block headers, heredocs.

use super::grammar::{self, Arguments};
use super::{Block, PlacedStep, Script, ScriptProblem, Selector, Step};
use crate::nearest::did_you_mean;
use crate::role::Role;

/// Parses a script, or returns all its problems, in line order.
pub fn parse(text: &str) -> Result<Script, Vec<ScriptProblem>> {
    let mut parser = Parser::default();
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    while let Some((number, line)) = lines.next() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with('[') {
            parser.header(number, line);
            continue;
        }
        let Some((line, start)) = heredoc_start(line) else {
            parser.step(number, line, None);
            continue;
        };
        match start.take_body(&mut lines) {
            Some(heredoc) => parser.step(number, line, Some(heredoc)),
            None => parser.problem(number, format!("the heredoc is not closed by `{}`", start.end)),
        }
    }
    parser.finish()
}

/// A heredoc's lines, and whether variables in them are expanded.
#[derive(Clone, Debug)]
pub(super) struct Heredoc<'a> {
    pub(super) lines: Vec<&'a str>,
    pub(super) verbatim: bool,
}

struct HeredocStart<'a> {
    end: &'a str,
    verbatim: bool,
}

impl HeredocStart<'_> {
    fn take_body<'b>(
        &self,
        lines: &mut impl Iterator<Item = (usize, &'b str)>,
    ) -> Option<Heredoc<'b>> {
        let mut body = Vec::new();
        for (_, line) in lines {
            if line.trim() == self.end {
                return Some(Heredoc { lines: body, verbatim: self.verbatim });
            }
            body.push(line);
        }
        None
    }
}

/// Splits `write file <<END` into the part before and the heredoc's start.
fn heredoc_start(line: &str) -> Option<(&str, HeredocStart<'_>)> {
    let (before, after) = line.rsplit_once("<<")?;
    if !before.ends_with(char::is_whitespace) {
        return None;
    }
    let unquoted = after.strip_prefix('\'').and_then(|word| word.strip_suffix('\''));
    let end = unquoted.unwrap_or(after);
    let is_word = end.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && end.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    is_word.then(|| (before.trim_end(), HeredocStart { end, verbatim: unquoted.is_some() }))
}

#[derive(Default)]
struct Parser {
    blocks: Vec<Block>,
    problems: Vec<ScriptProblem>,
    has_headers: bool,
    /// The selectors of the valid headers.
    selectors: Vec<Selector>,
    open_tools: usize,
}

impl Parser {
    fn problem(&mut self, line: usize, message: String) {
        self.problems.push(ScriptProblem { line, message });
    }

    fn header(&mut self, line: usize, text: &str) {
        if !self.has_headers && !self.blocks.is_empty() {
            self.problem(line, "steps before the first block header".to_owned());
        }
        self.has_headers = true;
        match selector(text) {
            Ok(selector) if self.selectors.contains(&selector) => {
                self.problem(line, format!("the block `{selector}` is defined twice"));
                self.begin(selector);
            }
            Ok(selector) => {
                self.selectors.push(selector);
                self.begin(selector);
            }
            Err(message) => {
                self.problem(line, message);
                self.begin(Selector::default());
            }
        }
    }

    fn begin(&mut self, selector: Selector) {
        self.open_tools = 0;
        self.blocks.push(Block { selector, reads_prompt: true, steps: Vec::new() });
    }

    fn step(&mut self, line: usize, text: &str, heredoc: Option<Heredoc<'_>>) {
        if self.blocks.is_empty() {
            self.begin(Selector::default());
        }
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let parsed = grammar::step(word, Arguments { rest: rest.trim(), heredoc });
        let block = self.blocks.last_mut().expect("a block was begun");
        let message = match parsed {
            Ok(None) if block.steps.is_empty() => {
                block.reads_prompt = false;
                return;
            }
            Ok(None) => "`read-prompt off` must be the first step of its block".to_owned(),
            Ok(Some(Step::ToolClose)) if self.open_tools == 0 => {
                "no tool call is open here".to_owned()
            }
            Ok(Some(step)) => {
                match step {
                    Step::ToolOpen(_) => self.open_tools += 1,
                    Step::ToolClose => self.open_tools -= 1,
                    _ => {}
                }
                block.steps.push(PlacedStep { line, step });
                return;
            }
            Err(message) => message,
        };
        self.problem(line, message);
    }

    fn finish(mut self) -> Result<Script, Vec<ScriptProblem>> {
        if !self.problems.is_empty() {
            self.problems.sort_by_key(|problem| problem.line);
            return Err(self.problems);
        }
        if self.blocks.is_empty() {
            self.begin(Selector::default());
        }
        Ok(Script { blocks: self.blocks })
    }
}

/// Parses `[builder 1]`, `[verifier *]`, `[* 2]`, `[builder]` and `[*]`.
fn selector(text: &str) -> Result<Selector, String> {
    let wrong =
        || format!("`{text}` is not a block header (like `[builder 1]`, `[verifier *]`, `[*]`)");
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).ok_or_else(wrong)?;
    let mut words = inner.split_whitespace();
    let role = match words.next().ok_or_else(wrong)? {
        "*" => None,
        name => Some(name.parse::<Role>().map_err(|unknown| {
            format!("{unknown}{}", did_you_mean(name, Role::ALL.map(Role::as_str)))
        })?),
    };
    let invocation = match words.next() {
        None | Some("*") => None,
        Some(number) => match number.parse() {
            Ok(number @ 1..) => Some(number),
            _ => return Err(format!("`{number}` is not an invocation (`1`, `2`, … or `*`)")),
        },
    };
    if words.next().is_some() { Err(wrong()) } else { Ok(Selector { role, invocation }) }
}
