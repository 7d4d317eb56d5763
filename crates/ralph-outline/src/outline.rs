//! The content of a plan, independent of its language.

use crate::scope::ScopeMarker;

/// Everything that must exist when the work is done.
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
    /// The line of the plan that names it, one-based.
    pub line: usize,
    /// The enclosing part.
    pub parent: Option<String>,
    /// Names that the implementation must have as props.
    pub fields: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlannedKind {
    Theme,
    Screen,
    Section,
    /// A file to create.
    NewFile,
    /// A file to change.
    ChangedFile,
}

impl Planned {
    /// Returns the display name.
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
