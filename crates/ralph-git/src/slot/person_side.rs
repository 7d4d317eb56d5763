//! What a slot copies from the person's repository: remotes, identity, hooks, sparse patterns, excludes, attributes.
//!
//! Read from the person's side, which no agent can write. Nothing is run: hooks and drivers are copied to where agents
//! use them, confined. Push URLs are replaced by an invalid one.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use camino::Utf8Path;

use super::super::drivers::Drivers;
use super::super::identity::Identity;
use super::super::{Git, GitError, RefsSnapshot, regular_file, unexpected};
use super::config_text::ConfigText;
use super::git_dir::SymbolicRef;
use crate::names::ref_bytes;

/// The URL of all pushes: invalid, with a message that says why.
const NO_PUSH: &str = "file:///pushing-is-switched-off-in-this-clone/";
/// The largest hook that is copied.
const LARGEST_HOOK: u64 = 8 << 20;

/// The person's repository, as far as slots copy it.
pub(super) struct PersonSide<'a> {
    git: &'a Git,
    drivers: Drivers,
}

impl<'a> PersonSide<'a> {
    pub(super) fn read(git: &'a Git) -> Result<Self, GitError> {
        Ok(PersonSide { git, drivers: Drivers::of(git)? })
    }

    /// Returns the last value of a setting in any configuration file.
    fn setting(&self, key: &str) -> Option<&str> {
        self.drivers.settings().filter(|(name, _)| *name == key).last().map(|(_, value)| value)
    }

    fn is_on(&self, key: &str) -> bool {
        self.setting(key).is_some_and(|value| {
            ["", "1", "true", "yes", "on"].iter().any(|on| value.eq_ignore_ascii_case(on))
        })
    }

    /// Whether the person's own checkouts contain the contents of LFS files.
    pub(super) fn uses_lfs(&self) -> bool {
        self.setting("filter.lfs.smudge").or_else(|| self.setting("filter.lfs.process")).is_some()
    }

    /// Returns the settings of a slot in addition to its own.
    pub(super) fn config(&self, run_branch: Option<&str>) -> ConfigText {
        let mut config = ConfigText::default();
        self.set_identity(&mut config);
        let short = run_branch.and_then(|name| name.strip_prefix("refs/heads/"));
        let upstream = short.map(|name| format!("branch.{name}."));
        let mut remotes = BTreeSet::new();
        for (key, value) in self.drivers.settings() {
            if let Some((remote, name)) = subkey(key, "remote.") {
                remotes.insert(remote);
                match name {
                    "url" => config.set(key, &self.absolute_address(value)),
                    "fetch" | "tagopt" | "promisor" | "partialclonefilter" => {
                        config.set(key, value);
                    }
                    _ => {}
                }
            } else if is_copied(key)
                || upstream.as_ref().is_some_and(|upstream| key.starts_with(upstream))
            {
                config.set(key, value);
            }
        }
        for remote in remotes {
            config.set(&format!("remote.{remote}.pushurl"), NO_PUSH);
        }
        config.set(&format!("url.{NO_PUSH}.pushinsteadof"), "");
        if let Some(relative) = self.hooks_setting().filter(|path| path.is_relative()) {
            config.set("core.hookspath", &relative.to_string_lossy());
        } else if self.setting("core.hookspath").is_some() {
            // Overrides a path in the person's own configuration, which agents may see; relative to the root of the
            // working tree.
            config.set("core.hookspath", ".git/hooks");
        }
        config
    }

    fn set_identity(&self, config: &mut ConfigText) {
        let identity = Identity::of(self.git, &self.drivers);
        let value = |name: &str| {
            let found = identity.variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| value.as_str()).unwrap_or_default()
        };
        for (part, author, committer) in [
            ("name", value("GIT_AUTHOR_NAME"), value("GIT_COMMITTER_NAME")),
            ("email", value("GIT_AUTHOR_EMAIL"), value("GIT_COMMITTER_EMAIL")),
        ] {
            config.set(&format!("user.{part}"), author);
            if author != committer {
                config.set(&format!("committer.{part}"), committer);
            }
        }
    }

    /// Returns the URL of a remote for use in another directory: a path is relative to the person's working tree.
    fn absolute_address(&self, address: &str) -> String {
        let is_relative = address.starts_with("./") || address.starts_with("../");
        match &self.git.place().worktree {
            Some(root) if is_relative => root.join(address).into_string(),
            _ => address.to_owned(),
        }
    }

    fn hooks_setting(&self) -> Option<PathBuf> {
        let path = self.setting("core.hookspath").filter(|path| !path.is_empty())?;
        Some(match (path.strip_prefix("~/"), self.git.program().home()) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(path),
        })
    }

    /// Returns the hooks that are not part of the working tree, by name.
    pub(super) fn hooks(&self) -> Vec<(OsString, Vec<u8>)> {
        let directory = match self.hooks_setting() {
            Some(path) if path.is_relative() => return Vec::new(),
            Some(path) => path,
            None => self.git.place().common_dir.join("hooks").into_std_path_buf(),
        };
        let mut hooks = Vec::new();
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let is_sample =
                Path::new(&entry.file_name()).extension().is_some_and(|end| end == "sample");
            let is_hook = fs::metadata(entry.path()).is_ok_and(|found| {
                found.is_file()
                    && found.permissions().mode() & 0o111 != 0
                    && found.len() <= LARGEST_HOOK
            });
            if is_hook
                && !is_sample
                && let Ok(content) = regular_file::follow(&entry.path())
            {
                hooks.push((entry.file_name(), content));
            }
        }
        hooks
    }

    /// Returns the patterns of a sparse checkout.
    pub(super) fn sparse(&self) -> Option<Vec<u8>> {
        let path = self.git.place().git_dir.join("info/sparse-checkout");
        self.is_on("core.sparsecheckout").then(|| read(&path))?
    }

    pub(super) fn exclude(&self) -> Vec<u8> {
        self.info("exclude").unwrap_or_default()
    }

    /// Returns the patterns of the person's global excludes.
    pub(super) fn excluded_everywhere(&self) -> Vec<u8> {
        let home = self.git.program().home();
        let path = match self.setting("core.excludesfile") {
            Some(path) => match (path.strip_prefix("~/"), home) {
                (Some(rest), Some(home)) => Some(home.join(rest)),
                _ => Some(PathBuf::from(path)),
            },
            None => home.map(|home| home.join(".config/git/ignore")),
        };
        path.and_then(|path| regular_file::follow(&path).ok()).unwrap_or_default()
    }

    pub(super) fn attributes(&self) -> Option<Vec<u8>> {
        self.info("attributes")
    }

    fn info(&self, name: &str) -> Option<Vec<u8>> {
        read(&self.git.place().common_dir.join("info").join(name))
    }

    /// Returns the symbolic refs of remotes (`refs/remotes/origin/HEAD`), with their targets.
    pub(super) fn symbolic(&self, refs: &RefsSnapshot) -> Result<Vec<SymbolicRef>, GitError> {
        let is_head = |name: &str| name.starts_with("refs/remotes/") && name.ends_with("/HEAD");
        if !refs.refs.iter().any(|reference| is_head(&reference.name)) {
            return Ok(Vec::new());
        }
        let args = ["for-each-ref", "--format=%(refname) %(symref)", "refs/remotes/**/HEAD"];
        let output = self.git.ask(&args)?;
        let mut symbolic = Vec::new();
        for line in output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let mut parts = line.splitn(2, |byte| *byte == b' ');
            let (Some(name), Some(target)) = (parts.next(), parts.next()) else {
                return Err(unexpected(&args, &output));
            };
            if !target.is_empty() {
                symbolic.push((name.to_vec(), target.to_vec()));
            }
        }
        Ok(symbolic)
    }
}

/// Returns the refs that a slot has by name: tags and remote-tracking refs.
pub(super) fn shared_refs(refs: &RefsSnapshot) -> impl Iterator<Item = (Vec<u8>, super::Oid)> {
    let shared = |name: &str| name.starts_with("refs/tags/") || name.starts_with("refs/remotes/");
    let refs = refs.refs.iter().filter(move |reference| shared(&reference.name));
    refs.map(|reference| (ref_bytes(&reference.name).into_owned(), reference.id.clone()))
}

/// Whether a setting is copied unchanged.
fn is_copied(key: &str) -> bool {
    let sections = ["submodule.", "merge.", "filter.lfs."];
    matches!(key, "core.sparsecheckout" | "core.sparsecheckoutcone" | "extensions.partialclone")
        || sections.iter().any(|section| key.starts_with(section))
}

/// Splits `remote.<name>.<variable>`.
fn subkey<'k>(key: &'k str, section: &str) -> Option<(&'k str, &'k str)> {
    key.strip_prefix(section)?.rsplit_once('.')
}

fn read(path: &Utf8Path) -> Option<Vec<u8>> {
    regular_file::read_regular(path.as_std_path()).ok().flatten()
}
