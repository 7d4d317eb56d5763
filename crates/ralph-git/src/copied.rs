//! Ignored files of the person's working tree that are copied into Ralph's own clones and checkouts: those in `copy`
//! and `.worktreeinclude`. The caller read both when the person agreed to them: an agent's later changes to that list
//! have no effect.
//!
//! Only regular files that git ignores there: tracked files are in the commit, and others would become work. Symlinks
//! are not followed on either side, because a commit may have one at the path of a copied file's directory.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use camino::{Utf8Component, Utf8Path};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, fstat, mkdirat, open, openat};
use rustix::io::Errno;

use super::call::{Call, path_from};
use super::clearing::FileError;
use super::{Git, GitError, LONG, regular_file};

/// The person's list at the time they agreed to it: nothing is read from the working tree again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyList {
    /// Paths or patterns relative to the workspace.
    pub names: Vec<String>,
    /// Lines of `.worktreeinclude`, as patterns relative to the workspace; a leading `!` excludes what earlier ones
    /// match.
    pub patterns: Vec<String>,
}

impl CopyList {
    /// Adds the lines of a list in a directory of the workspace, in `.gitignore` syntax.
    pub fn include(&mut self, directory: &Utf8Path, text: &str) {
        self.patterns.extend(text.lines().filter_map(|line| pattern_below(directory, line)));
    }

    /// Returns the part for one repository of the workspace, relative to it.
    #[must_use]
    pub fn below(&self, repository: &Utf8Path) -> CopyList {
        if repository.as_str().is_empty() {
            return self.clone();
        }
        let below = |name: &str| {
            let name = name.trim_start_matches("./").strip_prefix(repository.as_str())?;
            name.strip_prefix('/').map(str::to_owned)
        };
        let pattern = |line: &String| match (line.strip_prefix('!'), line.starts_with("**/")) {
            (Some(rest), _) if rest.starts_with("**/") => Some(line.clone()),
            (None, true) => Some(line.clone()),
            (Some(rest), _) => below(rest).map(|rest| format!("!{rest}")),
            (None, false) => below(line),
        };
        CopyList {
            names: self.names.iter().filter_map(|name| below(name)).collect(),
            patterns: self.patterns.iter().filter_map(pattern).collect(),
        }
    }
}

/// Converts a line of an ignore list in a directory into a pattern relative to the root.
fn pattern_below(directory: &Utf8Path, line: &str) -> Option<String> {
    let line = line.trim_end_matches(['\r', ' ', '\t']);
    let (sign, line) = line.strip_prefix('!').map_or(("", line), |rest| ("!", rest));
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let pattern = line.trim_start_matches('/');
    // Without a slash inside, a name matches in every directory below.
    let is_anchored = line.trim_end_matches('/').contains('/');
    let anywhere = if is_anchored || pattern.starts_with("**/") { "" } else { "**/" };
    let above = if directory.as_str().is_empty() { "" } else { "/" };
    Some(format!("{sign}{directory}{above}{anywhere}{pattern}"))
}

/// The files to copy, relative to the root of the working tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopiedFiles {
    pub files: Vec<PathBuf>,
    /// Named files that are not ignored, so they are not copied.
    pub not_ignored: Vec<PathBuf>,
    /// Names in `copy` that do not exist.
    pub missing: Vec<String>,
}

impl Git {
    /// Finds the files of the working tree to copy. The list's names and patterns are relative to `prefix`, the
    /// workspace.
    pub fn copied_files(
        &self,
        prefix: &Utf8Path,
        list: &CopyList,
    ) -> Result<CopiedFiles, GitError> {
        let Some(root) = &self.place().worktree else { return Ok(CopiedFiles::default()) };
        let names = &list.names;
        let pattern = |line: &String| {
            let (sign, path) = line.strip_prefix('!').map_or(("", &**line), |rest| ("!", rest));
            inside(path).map(|path| format!("--exclude={sign}/{}", prefix.join(path)))
        };
        // Explicit names come last: no pattern excludes them.
        let paths = names.iter().filter_map(|name| inside(name));
        let paths = paths.map(|path| format!("--exclude=/{}", prefix.join(path)));
        let patterns: Vec<String> = list.patterns.iter().filter_map(pattern).chain(paths).collect();
        if patterns.is_empty() {
            let missing = names.clone();
            return Ok(CopiedFiles { missing, ..CopiedFiles::default() });
        }
        let args = ["ls-files", "-z", "--others", "--ignored", "--full-name"];
        let call = Call::new(&args).args(patterns.iter().map(String::as_str));
        let output = self.call(call.cwd(root.as_std_path()).timeout(LONG))?.stdout;
        let is_file = |path: &PathBuf| {
            let found = root.as_std_path().join(path).symlink_metadata();
            path.starts_with(prefix.as_std_path()) && found.is_ok_and(|found| found.is_file())
        };
        let found: Vec<PathBuf> = output
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty() && !name.ends_with(b"/"))
            .map(path_from)
            .filter(is_file)
            .collect();
        let ignored = self.ignored(&found)?;
        let (files, not_ignored) = found.into_iter().partition(|path| ignored.contains(path));
        let mut copied = CopiedFiles { files, not_ignored, missing: Vec::new() };
        let is_plain = |name: &&String| !name.contains(['*', '?', '[', '\\', '!']);
        copied.missing = names
            .iter()
            .filter(is_plain)
            .filter(|name| {
                let path = inside(name).map(|name| prefix.join(name).into_std_path_buf());
                let all = copied.files.iter().chain(&copied.not_ignored);
                !path.is_some_and(|path| all.clone().any(|file| file.starts_with(&path)))
            })
            .cloned()
            .collect();
        Ok(copied)
    }
}

/// Returns a name in `copy` as a path inside the workspace.
fn inside(name: &str) -> Option<&Utf8Path> {
    let path = Utf8Path::new(name.trim_start_matches("./").trim_end_matches('/'));
    let is_inside = path.components().all(|part| matches!(part, Utf8Component::Normal(_)));
    (is_inside && !path.as_str().is_empty()).then_some(path)
}

/// Copies files from one tree to another; existing files are kept.
///
/// The kernel shares the blocks if the file system can.
pub fn bring_copies(from: &Utf8Path, to: &Utf8Path, files: &[PathBuf]) -> Result<(), FileError> {
    for path in files {
        let (source, target) = (from.as_std_path().join(path), to.as_std_path().join(path));
        let (mut source, _) = match regular_file::open(&source) {
            Ok(opened) => opened,
            // It was removed or replaced meanwhile.
            Err(error) if regular_file::is_absence(&error) => continue,
            Err(error) => return Err(FileError::new("read", &source, error)),
        };
        let failed = |error: io::Error| FileError::new("write", &target, error);
        let mode = fstat(&source).map_err(|error| failed(error.into()))?.st_mode;
        let mode = Mode::from_raw_mode(mode) & (Mode::RWXU | Mode::RWXG | Mode::RWXO);
        let Some(mut file) = create_below(to, path, mode).map_err(failed)? else { continue };
        io::copy(&mut source, &mut file).map_err(failed)?;
    }
    Ok(())
}

/// Creates a file below a directory, with its parent directories, without following symlinks. `None` if the path
/// exists.
fn create_below(root: &Utf8Path, path: &Path, mode: Mode) -> io::Result<Option<File>> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut directory: OwnedFd = open(root.as_std_path(), flags, Mode::empty())?;
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else { return Ok(None) };
        if name.as_bytes().eq_ignore_ascii_case(b".git") {
            return Ok(None);
        }
        if parts.peek().is_none() {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            return match openat(&directory, name, flags, mode) {
                Ok(file) => Ok(Some(file.into())),
                Err(Errno::EXIST) => Ok(None),
                Err(errno) => Err(errno.into()),
            };
        }
        match mkdirat(&directory, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        directory = match openat(&directory, name, flags, Mode::empty()) {
            Ok(next) => next,
            Err(Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, read, write};

    fn names(paths: &[PathBuf]) -> Vec<&str> {
        paths.iter().map(|path| path.to_str().unwrap()).collect()
    }

    #[test]
    fn only_ignored_regular_files_below_the_workspace_come_along() {
        let world = World::new();
        let dir = world.repository("repo");
        world
            .commit(&dir, &[(".gitignore", ".env*\nlocal/\n*.key\n"), (".worktreeinclude", "*\n")]);
        for file in [".env", "local/a/b.toml", "a.key", "b.key", "deep/c.key", "open.txt"] {
            write(&dir.join(file), file);
        }
        std::os::unix::fs::symlink("/etc/passwd", dir.join(".env.link")).unwrap();
        let git = world.open(&dir);
        let asked = [".env", "./local/", ".env.link", "open.txt", "../out", "/etc/passwd", "none"];
        let asked = asked.map(str::to_owned);
        let mut list = CopyList { names: asked.to_vec(), patterns: Vec::new() };
        list.include("".into(), "# keys\n*.key\n!b.key \n\n");
        let found = git.copied_files("".into(), &list).unwrap();
        assert_eq!(names(&found.files), [".env", "a.key", "deep/c.key", "local/a/b.toml"]);
        assert_eq!(names(&found.not_ignored), ["open.txt"]);
        assert_eq!(found.missing, [".env.link", "../out", "/etc/passwd", "none"]);
        list.names.clear();
        let below = git.copied_files("deep".into(), &list).unwrap();
        assert_eq!(names(&below.files), ["deep/c.key"]);
        let list = CopyList { names: vec!["a*".to_owned()], patterns: Vec::new() };
        assert_eq!(git.copied_files("".into(), &list).unwrap().missing, [""; 0]);
        let nothing = git.copied_files("".into(), &CopyList::default()).unwrap();
        assert_eq!(
            nothing,
            CopiedFiles::default(),
            "a list in the work tree says nothing by itself"
        );
    }

    #[test]
    fn lines_of_a_list_are_patterns_from_its_directory() {
        let mut list = CopyList::default();
        list.include("".into(), "*.key\n/.env\na/b\nsecrets/\n!no.key\n!/x/y\n#\n\n");
        let expected = ["**/*.key", ".env", "a/b", "**/secrets/", "!**/no.key", "!x/y"];
        assert_eq!(list.patterns, expected);
        list.include("api".into(), ".env\n/conf/local\n!**/z\r\n");
        assert_eq!(list.patterns[6..], ["api/**/.env", "api/conf/local", "!api/**/z"]);
        list.names.extend(["api/.env", "./api/a/b", "web/.env", ".env", "api"].map(str::to_owned));
        assert_eq!(list.below("".into()), list);
        let api = list.below("api".into());
        assert_eq!(api.names, [".env", "a/b"]);
        let expected = ["**/*.key", "**/secrets/", "!**/no.key", "**/.env", "conf/local", "!**/z"];
        assert_eq!(api.patterns, expected);
    }

    #[test]
    fn copies_go_through_no_link_and_replace_nothing() {
        let world = World::new();
        let (from, to) = (world.path("from"), world.path("to"));
        for file in ["a/.env", "b/.env", "c/.env", ".git/config"] {
            write(&from.join(file), "secret");
        }
        write(&to.join("b/.env"), "the commit's");
        write(&world.path("elsewhere/keep"), "");
        std::os::unix::fs::symlink("../elsewhere", to.join("c")).unwrap();
        let files = ["a/.env", "b/.env", "c/.env", "gone", ".git/config"].map(PathBuf::from);
        bring_copies(&from, &to, &files).unwrap();
        assert_eq!(read(&to.join("a/.env")), "secret");
        assert_eq!(read(&to.join("b/.env")), "the commit's");
        assert!(!world.path("elsewhere/.env").exists());
        assert!(!to.join(".git").exists());
    }
}
