//! Prompts that people can customise: templates in home, and the rules of the project.
//!
//! Missing templates are built in. All existing templates are parsed before the first run, so that a mistake in one
//! that is needed hours later is reported at once, with file and line.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::prompt::{PromptKind, Prompts, RulesSource, TemplateError};

use crate::files::plain::{read_start, read_text};
use crate::specs::line_of;

/// The files with the rules of a project, at its root; the first non-empty one is used.
const RULES_FILES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// The maximum size of the rules in a prompt.
const MOST_RULES: usize = 64 << 10;

/// A problem of a person's template.
#[derive(Debug, thiserror::Error)]
pub enum PromptProblem {
    #[error("cannot read `{path}`: {cause}")]
    Unreadable { path: Utf8PathBuf, cause: io::Error },
    #[error("`{path}:{line}` is not UTF-8")]
    NotText { path: Utf8PathBuf, line: usize },
    #[error("`{path}:{}`: {}", error.line, error.problem)]
    Template { path: Utf8PathBuf, error: TemplateError },
}

/// Loads the templates, or returns all problems of those in home.
pub(crate) fn load(home: &Utf8Path) -> Result<Prompts, Vec<PromptProblem>> {
    let mut prompts = Prompts::builtin();
    let mut problems = Vec::new();
    for kind in PromptKind::ALL {
        let path = home.join(kind.file_name());
        match read_template(&path) {
            Ok(None) => {}
            Ok(Some(text)) => {
                let errors = prompts.replace(kind, &text).err().unwrap_or_default();
                let told = errors
                    .into_iter()
                    .map(|error| PromptProblem::Template { path: path.clone(), error });
                problems.extend(told);
            }
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(prompts) } else { Err(problems) }
}

/// Uses a file as the template of one prompt, and returns its text.
pub(crate) fn replace_from(
    prompts: &mut Prompts,
    kind: PromptKind,
    path: &Utf8Path,
) -> Result<String, PromptProblem> {
    let missing = || {
        let (path, cause) = (path.to_owned(), io::Error::from(io::ErrorKind::NotFound));
        PromptProblem::Unreadable { path, cause }
    };
    let text = read_template(path)?.ok_or_else(missing)?;
    let replaced = prompts.replace(kind, &text);
    match replaced.err().and_then(|errors| errors.into_iter().next()) {
        Some(error) => Err(PromptProblem::Template { path: path.to_owned(), error }),
        None => Ok(text),
    }
}

fn read_template(path: &Utf8Path) -> Result<Option<String>, PromptProblem> {
    let bytes = match read_text(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(PromptProblem::Unreadable { path: path.to_owned(), cause }),
    };
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = line_of(error.as_bytes(), error.utf8_error().valid_up_to());
        PromptProblem::NotText { path: path.to_owned(), line }
    })?;
    // Some editors write a byte order mark, which agents should not see.
    Ok(Some(text.trim_start_matches('\u{feff}').to_owned()))
}

/// The rules of a project, for prompts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    /// The name of the file they are in.
    pub file: &'static str,
    pub text: String,
}

impl Rules {
    /// Returns them in the form for prompts.
    pub(crate) fn source(&self) -> RulesSource<'_> {
        RulesSource { file: self.file, text: &self.text }
    }
}

/// Reads the rules of the project in a workspace. Very long text is truncated, with a note.
pub(crate) fn read_rules(workspace: &Utf8Path) -> Result<Option<Rules>, PromptProblem> {
    for file in RULES_FILES {
        let path = workspace.join(file);
        let mut bytes = match read_start(&path, MOST_RULES + 1) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(cause) => return Err(PromptProblem::Unreadable { path, cause }),
        };
        let is_whole = bytes.len() <= MOST_RULES;
        if !is_whole {
            let end = bytes[..MOST_RULES].iter().rposition(|byte| *byte == b'\n');
            bytes.truncate(end.map_or(MOST_RULES, |end| end + 1));
        }
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if text.trim().is_empty() {
            continue;
        }
        if !is_whole {
            text.extend(["\n(Cut here: read the rest in `", file, "` itself.)\n"]);
        }
        return Ok(Some(Rules { file, text }));
    }
    Ok(None)
}

#[cfg(test)]
#[path = "prompts_tests.rs"]
mod tests;
