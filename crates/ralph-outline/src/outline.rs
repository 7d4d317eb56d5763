//! What a plan promises, whatever language it is written in.

use crate::scope::ScopeMarker;

/// What is to be there when the work is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    pub items: Vec<Planned>,
    pub markers: Vec<ScopeMarker>,
}

/// One part of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    pub kind: PlannedKind,
    pub name: String,
    /// Where the plan names it, counted from 1.
    pub line: usize,
    /// The part that it belongs to.
    pub parent: Option<String>,
    /// Names that the implementation has to have as props.
    pub fields: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlannedKind {
    Theme,
    Screen,
    Section,
    /// A file that is to be made.
    NewFile,
    /// A file that is to be changed.
    ChangedFile,
}

impl Planned {
    /// Returns how people call it.
    pub fn title(&self) -> String {
        let what = match self.kind {
            PlannedKind::Theme => return "the theme".to_owned(),
            PlannedKind::Screen => "the screen",
            PlannedKind::Section => "the section",
            PlannedKind::NewFile => "the new file",
            PlannedKind::ChangedFile => "the file",
        };
        match &self.parent {
            Some(parent) => format!("{what} `{}` of `{parent}`", self.name),
            None => format!("{what} `{}`", self.name),
        }
    }
}
