//! Checks all files of a home that a person may edit and Ralph relies on, and reports all problems at once.
//!
//! Nothing is changed or healed here. Sessions, logs and private state are not checked: they are recreated if they
//! cannot be read.

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::goal::{GoalState, STATE_FILE};
use ralph_model::pipeline::records::{self, CandidateRecord, PlanRecord};
use ralph_model::plan::Plan;
use ralph_model::prd::{PRD_FILE, Prd};
use ralph_model::prompt::PromptKind;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::files::disk::{self, FileKind};
use crate::files::plain::read_text;
use crate::files::read_optional;
use crate::plan_file::PLAN_FILE;
use crate::prompts::{self, PromptProblem};
use crate::specs::{self, SPECS, SpecProblem};

/// The maximum depth of records: that of spec areas.
const DEEPEST: usize = 32;

/// A problem of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileProblem {
    pub path: Utf8PathBuf,
    /// One-based, if it has a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    pub message: String,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

/// The checked files and the findings.
#[derive(Debug, Default)]
pub struct Soundness {
    pub files: usize,
    pub problems: Vec<FileProblem>,
    /// Specs that are not filled in yet: the pipeline passes them over.
    pub drafts: Vec<Utf8PathBuf>,
}

/// Checks everything in a home; `known` says whether an id was ever in the plan.
pub fn examine(home: &Utf8Path, known: &dyn Fn(&str) -> bool) -> Soundness {
    let mut soundness = Soundness::default();
    soundness.plan(&home.join(PLAN_FILE), known);
    soundness.specs(&home.join(SPECS));
    soundness.records::<PlanRecord>(&home.join(SPECS).join("plans"), 0);
    soundness.records::<CandidateRecord>(&home.join(SPECS).join("candidates"), 0);
    soundness.prompts(home);
    soundness.goal(home);
    soundness
}

impl Soundness {
    fn broken(&mut self, path: &Utf8Path, message: String) {
        self.problems.push(FileProblem { path: path.to_owned(), line: None, message, mend: None });
    }

    /// Reads a file; a missing one is fine.
    fn read(&mut self, path: &Utf8Path) -> Option<Vec<u8>> {
        match read_text(path) {
            Ok(bytes) => {
                self.files += 1;
                Some(bytes)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                self.files += 1;
                self.broken(path, format!("it cannot be read: {error}"));
                None
            }
        }
    }

    fn plan(&mut self, path: &Utf8Path, known: &dyn Fn(&str) -> bool) {
        if disk::look(path).is_ok_and(|found| found.kind == FileKind::Link) {
            self.files += 1;
            return self
                .broken(path, "it is a link, and Ralph does not write through links".to_owned());
        }
        // A plan may be larger than any hand-written text.
        let bytes = match read_optional(path) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return,
            Err(error) => {
                self.files += 1;
                return self.broken(path, format!("it cannot be read: {}", error.source));
            }
        };
        self.files += 1;
        for problem in Plan::parse(&bytes).problems(known) {
            self.problems.push(FileProblem {
                path: path.to_owned(),
                line: Some(problem.line),
                message: problem.kind.to_string(),
                mend: Some(problem.kind.mend().to_owned()),
            });
        }
    }

    fn specs(&mut self, directory: &Utf8Path) {
        if !disk::is_directory(directory) {
            return;
        }
        let backlog = specs::discover(directory);
        self.files += backlog.specs.len();
        let faults = specs::validate(directory, &backlog.specs);
        for problem in backlog.problems.into_iter().chain(faults) {
            let (path, line) = match &problem {
                // A home need not use the pipeline.
                SpecProblem::NoSpecs { .. } => continue,
                SpecProblem::Text { path, .. } if problem.is_draft() => {
                    self.drafts.push(path.clone());
                    continue;
                }
                SpecProblem::Unreadable { path, .. }
                | SpecProblem::Link { path }
                | SpecProblem::NotAFile { path } => (path.clone(), None),
                SpecProblem::Name { path } => (Utf8PathBuf::from(path), None),
                SpecProblem::Path { directory, .. } => (directory.clone(), None),
                SpecProblem::NotText { path, line } => (path.clone(), Some(*line)),
                SpecProblem::Text { path, fault } => (path.clone(), Some(fault.line())),
            };
            let message = match &problem {
                SpecProblem::Text { fault, .. } => fault.to_string(),
                other => other.to_string(),
            };
            self.problems.push(FileProblem { path, line, message, mend: None });
        }
    }

    /// Checks the person's templates.
    fn prompts(&mut self, home: &Utf8Path) {
        let written = PromptKind::ALL.iter();
        let written = written.filter(|kind| disk::exists(&home.join(kind.file_name())));
        self.files += written.count();
        for problem in prompts::load(home).err().unwrap_or_default() {
            let (path, line, message) = match problem {
                PromptProblem::Unreadable { path, cause } => {
                    (path, None, format!("it cannot be read: {cause}"))
                }
                PromptProblem::NotText { path, line } => {
                    (path, Some(line), "it is not UTF-8".to_owned())
                }
                PromptProblem::Template { path, error } => {
                    (path, Some(error.line), error.problem.to_string())
                }
            };
            let mend = Some("correct it, or move it away to use the built-in one".to_owned());
            self.problems.push(FileProblem { path, line, message, mend });
        }
    }

    /// Checks the PRD and the state of an interview.
    fn goal(&mut self, home: &Utf8Path) {
        let path = home.join(PRD_FILE);
        if let Some(bytes) = self.read(&path)
            && let Err(error) = Prd::parse(&bytes)
        {
            for message in error.errors {
                let mend = Some("correct it, or convert it with `ralph prd import`".to_owned());
                let path = path.clone();
                self.problems.push(FileProblem { path, line: None, message, mend });
            }
        }
        let path = home.join(STATE_FILE);
        if let Some(bytes) = self.read(&path)
            && let Err(error) = GoalState::parse(&bytes)
        {
            self.broken(&path, error.to_string());
        }
    }

    /// Checks every record below a directory.
    fn records<T: DeserializeOwned>(&mut self, directory: &Utf8Path, depth: usize) {
        let Ok(mut listed) = disk::list(directory) else { return };
        listed.sort_by(|one, other| one.name.cmp(&other.name));
        for entry in listed {
            let (Ok(name), Ok(kind)) = (entry.name.into_string(), entry.kind) else { continue };
            let path = directory.join(name);
            if kind == FileKind::Directory && depth < DEEPEST {
                self.records::<T>(&path, depth + 1);
            } else if path.extension() == Some("json")
                && let Some(bytes) = self.read(&path)
                && let Err(error) = records::parse::<T>(&bytes)
            {
                self.problems.push(FileProblem {
                    path,
                    line: Some(error.line),
                    message: error.reason,
                    mend: Some("correct it, or take it from an earlier commit".to_owned()),
                });
            }
        }
    }
}
