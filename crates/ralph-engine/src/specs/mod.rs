//! The backlog on disk: discovering, checking and creating specs.
//!
//! All problems are reported at once, with file and line. Directories are walked without following symlinks: a link out
//! of `specs/` could make any file a spec. `ralph_model::spec` defines which files are a spec's state.

mod create;
mod discover;

use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::spec::check::{SpecFault, check};
use ralph_model::spec::name::{InvalidSpecPath, SpecPath};

use crate::files::disk::is_file;
use crate::files::plain::read_text;

pub use create::{NewSpec, NewSpecError, create};
pub use discover::{Backlog, discover};

/// The directory of specs in home.
pub const SPECS: &str = "specs";

/// Returns the path of a spec named in a plan: in `specs/`, otherwise in the workspace.
pub fn locate(home: &Utf8Path, workspace: &Utf8Path, name: &str) -> Utf8PathBuf {
    let usual = home.join(SPECS).join(name);
    let elsewhere = workspace.join(name);
    if !is_file(&usual) && is_file(&elsewhere) { elsewhere } else { usual }
}

/// A problem of the backlog that a person has to fix.
#[derive(Debug, thiserror::Error)]
pub enum SpecProblem {
    #[error("no specs in `{directory}`")]
    NoSpecs { directory: Utf8PathBuf },
    #[error("cannot read `{path}`: {cause}")]
    Unreadable { path: Utf8PathBuf, cause: io::Error },
    #[error("`{path}` has a name that is not UTF-8")]
    Name { path: String },
    #[error("`{path}` is a link, and none is followed out of `specs/` or to a directory")]
    Link { path: Utf8PathBuf },
    #[error("`{path}` has the name of a spec and is not a file")]
    NotAFile { path: Utf8PathBuf },
    #[error("in `{directory}`: {fault}")]
    Path { directory: Utf8PathBuf, fault: InvalidSpecPath },
    #[error("`{path}:{line}` is not UTF-8")]
    NotText { path: Utf8PathBuf, line: usize },
    #[error("`{path}:{line}`: {fault}", line = fault.line())]
    Text { path: Utf8PathBuf, fault: SpecFault },
}

impl SpecProblem {
    /// Whether it only concerns the name of one file, which no other spec depends on.
    pub fn is_of_a_name(&self) -> bool {
        matches!(self, SpecProblem::Name { .. } | SpecProblem::Path { .. })
    }

    /// Whether it only says that there is no spec yet.
    pub fn is_empty_backlog(&self) -> bool {
        matches!(self, SpecProblem::NoSpecs { .. })
    }

    /// Whether it is a template that was not filled in yet.
    pub fn is_draft(&self) -> bool {
        matches!(self, SpecProblem::Text { fault: SpecFault::Template { .. }, .. })
    }

    /// Whether specs may be there that were not found. What was removed meanwhile hides none.
    pub(crate) fn hides_specs(&self) -> bool {
        matches!(self, SpecProblem::Unreadable { cause, .. } if cause.kind() != io::ErrorKind::NotFound)
    }
}

/// A spec with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoadedSpec {
    pub path: SpecPath,
    pub text: String,
    /// Its first heading.
    pub title: String,
}

/// Reads a spec and checks it.
pub(crate) fn load(specs: &Utf8Path, path: &SpecPath) -> Result<LoadedSpec, SpecProblem> {
    let text = read(specs, path)?;
    match check(&text) {
        Ok(title) => {
            let title = title.to_owned();
            Ok(LoadedSpec { path: path.clone(), text, title })
        }
        Err(fault) => Err(SpecProblem::Text { path: specs.join(path.as_str()), fault }),
    }
}

/// Reads a spec without checking its content.
pub(crate) fn read(specs: &Utf8Path, path: &SpecPath) -> Result<String, SpecProblem> {
    let path = specs.join(path.as_str());
    let bytes = match read_text(&path) {
        Ok(bytes) => bytes,
        Err(cause) => return Err(SpecProblem::Unreadable { path, cause }),
    };
    String::from_utf8(bytes).map_err(|error| {
        let line = line_of(error.as_bytes(), error.utf8_error().valid_up_to());
        SpecProblem::NotText { path, line }
    })
}

/// Checks all of them and returns all problems, in their order.
pub fn validate(specs: &Utf8Path, paths: &[SpecPath]) -> Vec<SpecProblem> {
    paths.iter().filter_map(|path| load(specs, path).err()).collect()
}

/// Returns the line of a byte.
pub(crate) fn line_of(bytes: &[u8], at: usize) -> usize {
    bytes[..at].split(|byte| *byte == b'\n').count()
}

#[cfg(test)]
#[path = "specs_tests.rs"]
mod tests;
