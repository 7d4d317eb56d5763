//! Rehearsal scripts: the behaviour of the built-in scripted agent in each invocation.
//!
//! A script is text, one step per line, in blocks for a role and an invocation. Parsing is total: it returns a script
//! or all problems, each with its line. Playing a script and counting invocations are done elsewhere.

mod grammar;
mod parser;
mod step;
mod template;
mod value;

#[cfg(test)]
#[path = "rehearsal_tests.rs"]
mod tests;

use std::fmt;

pub use parser::parse;
pub use step::{DaemonEnvironment, Flood, FloodKind, Reset, Signal, SignalTarget, Step};
pub use template::{Template, UnsetVariable};

use crate::role::Role;

/// A whole script.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    blocks: Vec<Block>,
}

impl Script {
    /// Returns the most specific block for the `invocation`th run (from 1) of `role`.
    pub fn block(&self, role: Role, invocation: u32) -> Option<&Block> {
        self.blocks
            .iter()
            .filter(|block| block.selector.matches(role, invocation))
            .max_by_key(|block| block.selector.specificity())
    }
}

/// The steps of one invocation.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    pub selector: Selector,
    /// Whether the prompt is read from stdin at all.
    pub reads_prompt: bool,
    pub steps: Vec<PlacedStep>,
}

/// A step and its line in the script.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedStep {
    pub line: usize,
    pub step: Step,
}

/// The invocations a block is for; an absent field matches everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    pub role: Option<Role>,
    pub invocation: Option<u32>,
}

impl Selector {
    fn matches(self, role: Role, invocation: u32) -> bool {
        self.role.is_none_or(|wanted| wanted == role)
            && self.invocation.is_none_or(|wanted| wanted == invocation)
    }

    /// A role is more specific than a number, and both are more specific than either.
    fn specificity(self) -> (bool, bool) {
        (self.role.is_some(), self.invocation.is_some())
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = self.role.map_or("*", Role::as_str);
        match self.invocation {
            Some(invocation) => write!(f, "[{role} {invocation}]"),
            None if self.role.is_none() => f.write_str("[*]"),
            None => write!(f, "[{role} *]"),
        }
    }
}

/// A problem of a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ScriptProblem {
    /// One-based.
    pub line: usize,
    pub message: String,
}
