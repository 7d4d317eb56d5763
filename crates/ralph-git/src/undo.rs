//! Git operations for the boundary: ignored paths, restoring refs, and a commit that keeps reverted changes.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use camino::Utf8Path;
use jiff::Timestamp;

use super::call::{Call, UserConfig, path_bytes, path_from};
use super::names::ref_bytes;
use super::oid::lines;
use super::parse::parse_batch;
use super::{Git, GitError, LONG, Oid, RepositoryLocation, unexpected};

/// A ref to restore: its old target, and the expected current one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefReturn {
    pub name: String,
    pub before: Option<Oid>,
    pub now: Option<Oid>,
}

/// One path of a commit that keeps reverted changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisplacedFile {
    /// Relative to the root of the working tree.
    pub path: PathBuf,
    /// `None` if the file was gone.
    pub content: Option<DisplacedContent>,
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DisplacedContent {
    File { bytes: Vec<u8>, executable: bool },
    Link { target: Vec<u8> },
}

impl Git {
    /// Returns which of the paths git ignores.
    pub fn ignored(&self, paths: &[PathBuf]) -> Result<HashSet<PathBuf>, GitError> {
        // Only if a rule applies does it matter whether a path is tracked, for which git reads the whole index.
        let matched = self.ignored_untracked(paths)?;
        if matched.is_empty() {
            return Ok(matched);
        }
        self.check_ignore(&["check-ignore", "-z", "--stdin"], paths)
    }

    /// The same for paths that are known not to be tracked.
    pub(super) fn ignored_untracked(
        &self,
        paths: &[PathBuf],
    ) -> Result<HashSet<PathBuf>, GitError> {
        if paths.is_empty() {
            return Ok(HashSet::new());
        }
        self.check_ignore(&["check-ignore", "-z", "--stdin", "--no-index"], paths)
    }

    fn check_ignore(&self, args: &[&str], paths: &[PathBuf]) -> Result<HashSet<PathBuf>, GitError> {
        let mut input = Vec::new();
        for path in paths {
            // A name that begins with a colon would be parsed as pathspec magic, and this command has no other way to
            // prevent that.
            input.extend(b"./");
            input.extend(path_bytes(path));
            input.push(0);
        }
        let call = Call::new(args).person(UserConfig::Heard).input(&input).accept(&[1]);
        let output = self.call(call.env("GIT_LITERAL_PATHSPECS", "0"))?.stdout;
        let names = output.split(|byte| *byte == 0).filter_map(|name| name.strip_prefix(b"./"));
        Ok(names.map(path_from).collect())
    }

    /// Returns the contents of the existing ones among these files.
    pub fn blobs(&self, ids: &[Oid]) -> Result<HashMap<Oid, Vec<u8>>, GitError> {
        let input = lines(ids, Oid::to_string);
        let args = ["cat-file", "--batch"];
        let answer = self.call(Call::new(&args).input(input.as_bytes()).timeout(LONG))?;
        let objects =
            parse_batch(&answer.stdout).ok_or_else(|| unexpected(&args, &answer.stdout))?;
        let blobs = objects.into_iter().flatten().filter(|(header, _)| header.kind == "blob");
        Ok(blobs.map(|(header, content)| (header.id, content)).collect())
    }

    /// Returns the times of the commits reachable from `tip` and from none of `known`.
    pub fn times_of_new_commits(
        &self,
        tip: &Oid,
        known: &[Oid],
    ) -> Result<Vec<Timestamp>, GitError> {
        let mut input = format!("{tip}\n");
        for id in known {
            let _ = writeln!(input, "^{id}");
        }
        let args = ["rev-list", "--stdin", "--timestamp"];
        let call = Call::new(&args).input(input.as_bytes()).timeout(LONG);
        let output = self.call(call)?.stdout;
        let text = String::from_utf8_lossy(&output);
        text.lines()
            .map(|line| {
                let seconds = line.split(' ').next().and_then(|seconds| seconds.parse().ok());
                let time = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
                time.ok_or_else(|| unexpected(&args, &output))
            })
            .collect()
    }

    /// Fetches what is missing of these commits, with their ancestors, from Ralph's own mirror, as far as that has them.
    pub fn take_missing(&self, mirror: &Utf8Path, ids: &[Oid]) -> Result<(), GitError> {
        let place = RepositoryLocation {
            git_dir: mirror.to_owned(),
            common_dir: mirror.to_owned(),
            worktree: None,
        };
        let there = self.have(ids)?;
        let mut missing: Vec<Oid> =
            ids.iter().zip(there).filter(|(_, there)| !there).map(|(id, _)| id.clone()).collect();
        missing.sort();
        missing.dedup();
        if missing.is_empty() {
            return Ok(());
        }
        let there = Git::at(self.program.clone(), place).private().have(&missing)?;
        let mut there = there.into_iter();
        missing.retain(|_| there.next() == Some(true));
        if missing.is_empty() { Ok(()) } else { self.fetch_from(mirror, &missing) }
    }

    /// Fetches a commit, with its ancestors, from Ralph's own mirror.
    pub fn take_from(&self, mirror: &Utf8Path, id: &Oid) -> Result<(), GitError> {
        self.fetch_from(mirror, std::slice::from_ref(id))
    }

    fn fetch_from(&self, mirror: &Utf8Path, ids: &[Oid]) -> Result<(), GitError> {
        // The pack is not kept: computing deltas of large trees would cost more than sending them whole.
        let upload_pack = format!(
            "{} -c pack.window=0 -c pack.compression=0 -c safe.directory='*' upload-pack",
            super::mirror::shell_quoted(&self.program.exe().to_string_lossy())
        );
        let mut args = vec!["fetch", "--quiet", "--no-tags", "--no-write-fetch-head"];
        args.extend(["--upload-pack", upload_pack.as_str()]);
        args.extend(["--no-auto-maintenance", "--no-recurse-submodules", "--stdin"]);
        args.push(mirror.as_str());
        let input = lines(ids, Oid::to_string);
        let call = Call::new(&args)
            .input(input.as_bytes())
            .config("core.fsync", "loose-object,pack,pack-metadata")
            .config("core.fsyncMethod", "batch")
            .env("GIT_ALLOW_PROTOCOL", "file")
            .timeout(LONG);
        self.call(call).map(|_| ())
    }

    /// Makes the index of a repository that has lost it: as `HEAD`, with what is known of the work tree.
    pub fn renew_index(&self) -> Result<(), GitError> {
        self.call(Call::new(&["read-tree", "HEAD"]).timeout(LONG))?;
        let refresh = Call::new(&["update-index", "-q", "--refresh"]).timeout(LONG);
        self.call(refresh.accept(&[1])).map(|_| ())
    }

    /// Restores refs, each only if it still has the expected target.
    pub fn return_refs(&self, refs: &[RefReturn]) -> Result<(), GitError> {
        let mut input = Vec::new();
        for RefReturn { name, before, now } in refs {
            let (command, ids) = match (before, now) {
                (Some(before), Some(now)) => ("update ", format!("\0{before}\0{now}\0")),
                (Some(before), None) => ("create ", format!("\0{before}\0")),
                (None, Some(now)) => ("delete ", format!("\0{now}\0")),
                (None, None) => continue,
            };
            input.extend(command.bytes());
            input.extend_from_slice(&ref_bytes(name));
            input.extend(ids.bytes());
        }
        let args = ["update-ref", "--no-deref", "--stdin", "-z"];
        self.call(Call::new(&args).input(&input)).map(|_| ())
    }

    /// Creates a commit of reverted files, on top of `HEAD` and of tips that are no longer reachable from any ref,
    /// under its own ref.
    pub fn keep_displaced(
        &self,
        name: &str,
        files: &[DisplacedFile],
        tips: &[Oid],
        at: Timestamp,
    ) -> Result<(), GitError> {
        let head = self.head()?;
        let mut parents: Vec<&Oid> = head.id().into_iter().collect();
        for tip in tips {
            // A ref can also point to a tag or a tree, which cannot be a parent.
            if self.find_commit(tip.as_str())?.is_some() && !parents.contains(&tip) {
                parents.push(tip);
            }
        }
        let message = "What a run changed and must not have changed\n";
        let mut stream = format!(
            "commit {name}\ncommitter Ralph <ralph@localhost> {} +0000\ndata {}\n{message}\n",
            at.as_second(),
            message.len()
        )
        .into_bytes();
        for (index, parent) in parents.iter().enumerate() {
            let word = if index == 0 { "from" } else { "merge" };
            stream.extend(format!("{word} {parent}\n").bytes());
        }
        for DisplacedFile { path, content } in files {
            let (mode, bytes) = match content {
                None => {
                    stream.extend(b"D ");
                    stream.extend(quoted(path));
                    stream.push(b'\n');
                    continue;
                }
                Some(DisplacedContent::File { bytes, executable: true }) => ("100755", bytes),
                Some(DisplacedContent::File { bytes, .. }) => ("100644", bytes),
                Some(DisplacedContent::Link { target }) => ("120000", target),
            };
            stream.extend(format!("M {mode} inline ").bytes());
            stream.extend(quoted(path));
            stream.extend(format!("\ndata {}\n", bytes.len()).bytes());
            stream.extend(bytes);
            stream.push(b'\n');
        }
        let args = ["fast-import", "--quiet", "--force", "--date-format=raw"];
        self.call(Call::new(&args).input(&stream).timeout(LONG)).map(|_| ())
    }
}

/// Quotes a path for a stream: with unusual bytes as octal escapes.
fn quoted(path: &Path) -> Vec<u8> {
    let mut text = String::from("\"");
    for byte in path_bytes(path) {
        if byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\') {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "\\{byte:03o}");
        }
    }
    text.push('"');
    text.into_bytes()
}
