//! What toolchains fetch: caches of Ralph's own, named to each toolchain by its own variable. The person's are never written.
//!
//! There are two sets for a workspace. Agents that may write have the one; only gates and `setup` at a base write the other, and at
//! a candidate they work on a throw-away layer over it. So no code of an agent's or a candidate's can change what a gate
//! compiles, or what the person does.
//!
//! A set begins as a view of the person's: a tree of symlinks to the existing files, which are read-only to a process
//! that follows them. Files that a toolchain overwrites in place are copied instead. Files that it replaces or adds are
//! stored in the set.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::{SignedDuration, Timestamp};
use ralph_proc::removal::remove_tree;

use crate::clock::{Clock, SystemClock};

/// Looks a variable of the person's up.
type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What becomes of a path of a cache when another begins as a view of it. Paths are relative to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    /// A link to it, also if it is a directory: nothing in it is ever changed.
    Link,
    /// A file of its own.
    Copy,
    /// It is left out.
    Skip,
    /// A directory of its own, in which each entry is looked at.
    Enter,
}

/// A cache of one toolchain.
struct ToolchainCache {
    /// The variable that tells the toolchain where it is.
    variable: &'static str,
    /// Its name in a set.
    name: &'static str,
    /// Where the person's is below the home directory, if no variable says so.
    person: &'static str,
    /// Set only where the person has one.
    only_if_there: bool,
    rule: fn(&[&str], bool) -> Begin,
}

const TOOLCHAINS: [ToolchainCache; 9] = [
    ToolchainCache {
        variable: "CARGO_HOME",
        name: "cargo",
        person: ".cargo",
        only_if_there: false,
        rule: cargo,
    },
    ToolchainCache {
        variable: "npm_config_cache",
        name: "npm",
        person: ".npm",
        only_if_there: false,
        rule: npm,
    },
    ToolchainCache {
        variable: "PIP_CACHE_DIR",
        name: "pip",
        person: ".cache/pip",
        only_if_there: false,
        rule: plain,
    },
    ToolchainCache {
        variable: "UV_CACHE_DIR",
        name: "uv",
        person: ".cache/uv",
        only_if_there: false,
        rule: uv,
    },
    ToolchainCache {
        variable: "GOMODCACHE",
        name: "go-mod",
        person: "go/pkg/mod",
        only_if_there: false,
        rule: go_modules,
    },
    ToolchainCache {
        variable: "GOCACHE",
        name: "go-build",
        person: ".cache/go-build",
        only_if_there: false,
        // Made again by a build.
        rule: |_, _| Begin::Skip,
    },
    ToolchainCache {
        variable: "YARN_CACHE_FOLDER",
        name: "yarn",
        person: ".cache/yarn",
        only_if_there: true,
        rule: yarn,
    },
    ToolchainCache {
        variable: "npm_config_store_dir",
        name: "pnpm",
        person: ".local/share/pnpm/store",
        only_if_there: true,
        rule: plain,
    },
    ToolchainCache {
        variable: "GRADLE_USER_HOME",
        name: "gradle",
        person: ".gradle",
        only_if_there: true,
        rule: gradle,
    },
];

fn cargo(path: &[&str], is_directory: bool) -> Begin {
    match path {
        ["config.toml" | "config" | "bin"]
        | ["registry", "cache" | "src", _, _]
        | ["git", "checkouts", _, _] => Begin::Link,
        ["registry" | "git"]
        | ["registry", "cache" | "src" | "index", ..]
        | ["git", "db" | "checkouts", ..] => {
            if is_directory {
                Begin::Enter
            } else {
                Begin::Copy
            }
        }
        _ => Begin::Skip,
    }
}

fn npm(path: &[&str], is_directory: bool) -> Begin {
    match path {
        ["_cacache"] | ["_cacache", "content-v2" | "index-v5", ..] if is_directory => Begin::Enter,
        ["_cacache", "content-v2", ..] => Begin::Link,
        ["_cacache", "index-v5", ..] => Begin::Copy,
        _ => Begin::Skip,
    }
}

fn uv(path: &[&str], is_directory: bool) -> Begin {
    match path {
        ["archive-v0", _] => Begin::Link,
        _ => plain(path, is_directory),
    }
}

fn go_modules(path: &[&str], is_directory: bool) -> Begin {
    match path {
        ["cache", "lock"] | ["cache", "vcs", ..] => Begin::Skip,
        ["cache", ..] => plain(path, is_directory),
        [.., last] if last.contains('@') && is_directory => Begin::Link,
        _ => plain(path, is_directory),
    }
}

fn yarn(path: &[&str], is_directory: bool) -> Begin {
    match path {
        [_, "."] | [_, ".tmp", ..] => Begin::Skip,
        [_, _] => Begin::Link,
        _ => plain(path, is_directory),
    }
}

fn gradle(path: &[&str], is_directory: bool) -> Begin {
    match path {
        ["gradle.properties"] | ["wrapper", "dists", _] => Begin::Link,
        ["wrapper"] | ["wrapper", "dists"] if is_directory => Begin::Enter,
        _ => Begin::Skip,
    }
}

/// A cache whose files are replaced and never written over. Locks are everybody's own.
fn plain(path: &[&str], is_directory: bool) -> Begin {
    let name = path.last().map(Utf8Path::new);
    let is_lock =
        name.is_some_and(|name| name.extension() == Some("lock") || name.as_str() == "lock");
    match (is_directory, is_lock) {
        (true, _) => Begin::Enter,
        (false, true) => Begin::Skip,
        (false, false) => Begin::Link,
    }
}

/// Which of the two sets of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheSet {
    /// Agents that may write, write it.
    Agents,
    /// Only gates and `setup` at a base write it.
    Gates,
}

impl CacheSet {
    /// Where it is in the private state of a workspace.
    pub(crate) fn directory(self, state: &Utf8Path) -> Utf8PathBuf {
        state.join("caches").join(match self {
            CacheSet::Agents => "agents",
            CacheSet::Gates => "gates",
        })
    }
}

/// How long a set is not compared with what the person has meanwhile.
const FRESH: SignedDuration = SignedDuration::from_hours(1);

/// Makes a set, or adds what the person has fetched since.
pub(crate) fn prepare_set(set: &Utf8Path, env: Env<'_>) -> io::Result<()> {
    let mark = set.join("begun");
    let begun = fs::metadata(&mark).and_then(|found| found.modified()).ok();
    let begun = begun.and_then(|time| Timestamp::try_from(time).ok());
    if begun.is_some_and(|begun| SystemClock.now().duration_since(begun) < FRESH) {
        return Ok(());
    }
    for cache in &TOOLCHAINS {
        let own = set.join(cache.name);
        fs::create_dir_all(&own)?;
        if let Some(person) = cache.persons(env) {
            cache.begin(&person, &own);
        }
    }
    fs::write(mark, "")
}

/// Makes a throw-away layer over a set: a view of it, which takes every change.
pub(crate) fn prepare_layer(layer: &Utf8Path, set: &Utf8Path) -> io::Result<()> {
    remove_tree(layer.as_std_path())?;
    for cache in &TOOLCHAINS {
        let own = layer.join(cache.name);
        fs::create_dir_all(&own)?;
        cache.begin(&set.join(cache.name), &own);
    }
    Ok(())
}

/// Returns the environment variables that point the toolchains of a run to their caches.
pub(crate) fn cache_variables(set: &Utf8Path, env: Env<'_>) -> Vec<(&'static str, String)> {
    let mut variables = Vec::new();
    for cache in &TOOLCHAINS {
        let person = cache.persons(env);
        if person.is_none() && cache.only_if_there {
            continue;
        }
        variables.push((cache.variable, set.join(cache.name).into_string()));
        // Gradle reads another's by itself.
        let fetched = person.map(|person| person.join("caches"));
        if let Some(fetched) = fetched.filter(|fetched| fetched.join("modules-2").is_dir())
            && cache.name == "gradle"
        {
            variables.push(("GRADLE_RO_DEP_CACHE", fetched.into_string()));
        }
    }
    variables
}

impl ToolchainCache {
    /// Where the person's is, if there is one.
    fn persons(&self, env: Env<'_>) -> Option<Utf8PathBuf> {
        let named = env(self.variable).map(Utf8PathBuf::from);
        let home = || env("HOME").map(|home| Utf8Path::new(&home).join(self.person));
        named.filter(|path| path.is_absolute()).or_else(home).filter(|path| path.is_dir())
    }

    /// Adds to a cache what another has and it has not. What cannot be had is fetched again.
    fn begin(&self, from: &Utf8Path, to: &Utf8Path) {
        let mut open = vec![Utf8PathBuf::new()];
        while let Some(inside) = open.pop() {
            for entry in from.join(&inside).read_dir_utf8().into_iter().flatten().flatten() {
                let path = inside.join(entry.file_name());
                let parts: Vec<&str> = path.components().map(|part| part.as_str()).collect();
                let Ok(kind) = entry.file_type() else { continue };
                let (source, target) = (entry.path(), to.join(&path));
                let rule = (self.rule)(&parts, kind.is_dir());
                // A symlink of the other set is copied unchanged: relative ones lead to their siblings.
                let is_made = match rule {
                    Begin::Skip => continue,
                    Begin::Enter if kind.is_dir() => {
                        open.push(path);
                        fs::create_dir(&target)
                    }
                    _ if kind.is_symlink() => {
                        fs::read_link(source).and_then(|link| symlink(link, &target))
                    }
                    Begin::Copy if kind.is_file() && !target.exists() => {
                        fs::copy(source, &target).map(|_| ())
                    }
                    Begin::Link => symlink(source, &target),
                    Begin::Copy | Begin::Enter => continue,
                };
                // What is there already stays.
                drop(is_made);
            }
        }
    }
}

#[cfg(test)]
#[path = "caches_tests.rs"]
mod tests;
