//! A directory that may be a project: its files, and how to run a command there from the root.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;

use camino::{Utf8Path, Utf8PathBuf};

use super::words;

/// Longer than any hand-written manifest.
const LONGEST: u64 = 1 << 20;

/// Directories with third-party code, build output or static content.
const PASSED_OVER: [&str; 19] = [
    "build",
    "deps",
    "dist",
    "docs",
    "example",
    "examples",
    "fixtures",
    "fuzz",
    "node_modules",
    "out",
    "samples",
    "target",
    "templates",
    "testdata",
    "third_party",
    "tmp",
    "vendor",
    "venv",
    "virtualenv",
];

/// The root, or a directory in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct DetectedProject<'a> {
    pub(super) root: &'a Utf8Path,
    /// The directory's name; empty for the root itself.
    pub(super) place: &'a str,
}

impl<'a> DetectedProject<'a> {
    pub(super) fn root(root: &'a Utf8Path) -> Self {
        DetectedProject { root, place: "" }
    }

    pub(super) fn is_root(&self) -> bool {
        self.place.is_empty()
    }

    /// Returns the enclosing project.
    pub(super) fn outer(&self) -> Option<DetectedProject<'a>> {
        (!self.is_root()).then(|| DetectedProject::root(self.root))
    }

    /// Returns a file's path from the root, as used in commands and messages.
    pub(super) fn path(&self, name: &str) -> String {
        if self.is_root() { name.to_owned() } else { format!("{}/{name}", self.place) }
    }

    /// Returns the path of a program inside the project, so that it is not looked up on PATH.
    pub(super) fn program(&self, name: &str) -> String {
        if self.is_root() { format!("./{name}") } else { self.path(name) }
    }

    pub(super) fn has_file(&self, name: &str) -> bool {
        self.absolute(name).is_file()
    }

    pub(super) fn has_directory(&self, name: &str) -> bool {
        self.absolute(name).is_dir()
    }

    /// Returns the first existing file.
    pub(super) fn first_file<'n>(&self, names: &[&'n str]) -> Option<&'n str> {
        names.iter().copied().find(|name| self.has_file(name))
    }

    pub(super) fn is_executable(&self, name: &str) -> bool {
        fs::metadata(self.absolute(name))
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    }

    /// Reads a text file. One that is too long or not UTF-8 counts as missing.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        let path = self.absolute(name);
        // Opening a named pipe would block until a writer opens it.
        if !fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() <= LONGEST) {
            return None;
        }
        let mut text = String::new();
        File::open(&path).ok()?.take(LONGEST).read_to_string(&mut text).ok()?;
        Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
    }

    pub(super) fn contains(&self, name: &str, text: &str) -> bool {
        self.read(name).is_some_and(|content| content.contains(text))
    }

    pub(super) fn read_toml(&self, name: &str) -> Option<toml::Table> {
        self.read(name)?.parse().ok()
    }

    pub(super) fn read_json(&self, name: &str) -> Option<serde_json::Value> {
        serde_json::from_str(&self.read(name)?).ok()
    }

    /// Returns the names of the files in a directory of the project, in order.
    pub(super) fn files(&self, directory: &str) -> Vec<String> {
        self.entries(directory, fs::FileType::is_file)
    }

    /// Returns the directories in the project that may be separate projects, sorted.
    pub(super) fn directories(&self) -> Vec<String> {
        let mut names = self.entries("", fs::FileType::is_dir);
        // Also excludes names that a command would parse as an option.
        names
            .retain(|name| name.starts_with(|first: char| first.is_alphanumeric() || first == '_'));
        names.retain(|name| !PASSED_OVER.contains(&name.as_str()));
        names
    }

    fn entries(&self, directory: &str, is_wanted: fn(&fs::FileType) -> bool) -> Vec<String> {
        let Ok(entries) = self.absolute(directory).read_dir_utf8() else { return Vec::new() };
        let entries = entries.filter_map(Result::ok);
        let wanted = entries.filter(|entry| entry.file_type().is_ok_and(|kind| is_wanted(&kind)));
        let mut names: Vec<_> = wanted.map(|entry| entry.file_name().to_owned()).collect();
        names.sort_unstable();
        names
    }

    /// Returns a command that runs in the project's directory, for programs without a directory option.
    pub(super) fn run_here(&self, command: &[&str]) -> Vec<String> {
        if self.is_root() {
            return words(command);
        }
        let command: Vec<_> = command.iter().map(|word| quote(word)).collect();
        let script = format!("cd {} && exec {}", quote(self.place), command.join(" "));
        vec!["sh".to_owned(), "-c".to_owned(), script]
    }

    fn absolute(&self, name: &str) -> Utf8PathBuf {
        self.root.join(self.place).join(name)
    }
}

/// Quotes a word for a shell if needed.
fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%=:".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
