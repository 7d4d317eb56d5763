//! Finding specs below `specs/`.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::spec::name::{STATE_DIRECTORIES, SpecPath, is_spec_name};

use super::SpecProblem;
use crate::files::disk::{FileKind, list};

/// The maximum depth of areas, which bounds the walk.
const DEEPEST: usize = 32;

/// The specs found, in processing order, and the problems.
#[derive(Debug, Default)]
pub struct Backlog {
    pub specs: Vec<SpecPath>,
    pub problems: Vec<SpecProblem>,
}

/// Finds every spec below a home's `specs/`; finding none is a problem, too.
pub fn discover(specs: &Utf8Path) -> Backlog {
    let mut walk = Walk { root: specs, backlog: Backlog::default() };
    walk.directory(Utf8Path::new(""), 0);
    let mut backlog = walk.backlog;
    backlog.specs.sort();
    if backlog.specs.is_empty() && backlog.problems.is_empty() {
        backlog.problems.push(SpecProblem::NoSpecs { directory: specs.to_owned() });
    }
    backlog
}

struct Walk<'a> {
    root: &'a Utf8Path,
    backlog: Backlog,
}

impl Walk<'_> {
    /// Walks a directory, given by its path below the root.
    fn directory(&mut self, below: &Utf8Path, depth: usize) {
        let is_root = below.as_str().is_empty();
        let path = if is_root { self.root.to_owned() } else { self.root.join(below) };
        let mut entries = match list(&path) {
            Ok(entries) if depth <= DEEPEST => entries,
            Ok(_) => {
                let cause = io::Error::other("it is nested too deep");
                return self.problem(SpecProblem::Unreadable { path, cause });
            }
            Err(cause) => return self.problem(SpecProblem::Unreadable { path, cause }),
        };
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        for entry in entries {
            let kind = match entry.kind {
                Ok(kind) => kind,
                Err(cause) => {
                    self.problem(SpecProblem::Unreadable { path: path.clone(), cause });
                    continue;
                }
            };
            match entry.name.into_string() {
                Ok(name) => self.entry(&below.join(&name), &name, kind, depth),
                // Other files with such names are not ours.
                Err(name) if kind == FileKind::Directory || is_markdown(&name) => {
                    let path = path.as_std_path().join(&name).display().to_string();
                    // Escaped, so that it stays on one line.
                    let path = path.escape_debug().to_string();
                    self.problem(SpecProblem::Name { path });
                }
                Err(_) => {}
            }
        }
    }

    fn entry(&mut self, below: &Utf8Path, name: &str, kind: FileKind, depth: usize) {
        let is_state = depth == 0 && STATE_DIRECTORIES.contains(&name);
        if is_state {
            return;
        }
        match kind {
            FileKind::Directory => self.directory(below, depth + 1),
            FileKind::Link => self.link(below, name),
            FileKind::File if is_spec_name(name) => self.spec(below),
            FileKind::Other if is_spec_name(name) => {
                self.problem(SpecProblem::NotAFile { path: self.root.join(below) });
            }
            FileKind::File | FileKind::Other => {}
        }
    }

    /// A symlink to a file within `specs/` is treated like the file; no other is followed.
    fn link(&mut self, below: &Utf8Path, name: &str) {
        let path = self.root.join(below);
        let target = fs::metadata(&path);
        let is_directory = target.as_ref().is_ok_and(fs::Metadata::is_dir);
        if !is_directory && !is_spec_name(name) {
            return;
        }
        if let Err(cause) = target {
            return self.problem(SpecProblem::Unreadable { path, cause });
        }
        if !is_directory && self.is_inside(&path) {
            self.spec(below);
        } else {
            self.problem(SpecProblem::Link { path });
        }
    }

    fn is_inside(&self, link: &Utf8Path) -> bool {
        let real = |path: &Utf8Path| fs::canonicalize(path).ok();
        real(self.root).zip(real(link)).is_some_and(|(root, target)| target.starts_with(root))
    }

    fn spec(&mut self, below: &Utf8Path) {
        match below.as_str().parse() {
            Ok(spec) => self.backlog.specs.push(spec),
            Err(fault) => {
                let directory: Utf8PathBuf = self.root.to_owned();
                self.problem(SpecProblem::Path { directory, fault });
            }
        }
    }

    fn problem(&mut self, problem: SpecProblem) {
        self.backlog.problems.push(problem);
    }
}

fn is_markdown(name: &OsStr) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "md")
}
