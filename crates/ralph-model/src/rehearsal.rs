//! Rehearsal scripts: what the built-in scripted agent does in each of its invocations.
//!
//! A script is text, one step a line, in blocks for a role and an invocation. Parsing is total: it yields a script or
//! every problem there is, each with its line. Playing a script is not here; neither is counting invocations.

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

/// What is played in one invocation.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    pub selector: Selector,
    /// Whether the prompt is read from stdin at all.
    pub reads_prompt: bool,
    pub steps: Vec<PlacedStep>,
}

/// A step and the line of the script on which it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedStep {
    pub line: usize,
    pub step: Step,
}

/// Which invocations a block is for; what is absent matches everything.
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

    /// A role says more than a number, and both say more than either.
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

/// Something wrong with a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ScriptProblem {
    /// Counted from 1.
    pub line: usize,
    pub message: String,
}
