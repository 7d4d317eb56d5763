//! Private state: writable only by the harness, outside the workspace and inaccessible to agents.
//!
//! A workspace's state is stored in `<base>/<name>-<hash of root commit and path>/`. An index by path remembers which,
//! so that an ordinary start does not call git. All of it can be lost and recreated: everything important is committed
//! in home. Opening it reports when that happened.

mod damaged;
mod entry;
mod index;
mod judged;
mod live;
mod sessions;
mod shape;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub(crate) use self::entry::COPIES;
pub use self::entry::Entry;
use self::index::{GitIdentity, IndexEntry};
pub(crate) use self::live::{AFTER_KILL, AfterKill, LiveRecord, LiveRun};
pub(crate) use self::sessions::SessionTotal;
use crate::config::absolute;
use crate::files::disk::{self, FileKind};
use crate::files::{
    PathError, create_private_directory, list_optional, read_optional, remove_abandoned,
    remove_optional, replace_atomically, sync_directory,
};
use crate::home::{Home, Workspace};

/// The version of the directory's layout.
const VERSION: u32 = 1;

/// The description of a state directory. It is written last, so a directory without it is incomplete.
#[derive(Serialize, Deserialize)]
struct About {
    version: u32,
    workspace: Utf8PathBuf,
    created: Timestamp,
}

/// One workspace's private state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    directory: Utf8PathBuf,
    base: Utf8PathBuf,
    /// Whether this process runs workflows in the home: no other process writes the records of items meanwhile.
    holds_run_lock: bool,
}

/// The state did not exist: the workspace is new to this machine, or its state was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fresh {
    /// Whether home shows that Ralph has worked here before, so that something was lost.
    pub(crate) home_has_history: bool,
}

/// The input of opening private state.
pub struct StateRequest<'a> {
    /// See [`state_base`].
    pub base: &'a Utf8Path,
    pub workspace: &'a Workspace,
    pub home: &'a Home,
    pub now: Timestamp,
    /// Returns the root commit of the repository at a path, from git. Called only if the index has no entry.
    pub root_commit: &'a dyn Fn(&Utf8Path) -> Option<String>,
}

/// Private state cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("no place for private state: neither `XDG_STATE_HOME` nor `HOME` is an absolute path")]
    NoPlace,
    #[error(
        "`{path}` was made by a newer Ralph (its version is {found}; this one knows {VERSION})"
    )]
    Newer { path: Utf8PathBuf, found: u32 },
    #[error(transparent)]
    Path(#[from] PathError),
}

/// Returns the base directory of all private state.
pub fn state_base(env: &dyn Fn(&str) -> Option<String>) -> Result<Utf8PathBuf, StateError> {
    absolute(env("XDG_STATE_HOME"))
        .or_else(|| absolute(env("HOME")).map(|home| home.join(".local/state")))
        .map(|directory| directory.join("ralph"))
        .ok_or(StateError::NoPlace)
}

impl State {
    /// Opens a workspace's state, creating it if needed.
    pub fn open(request: &StateRequest<'_>) -> Result<(Self, Option<Fresh>), StateError> {
        match Self::open_as_it_is(request) {
            // An entry is of the wrong kind: move it away and recreate it.
            Err(StateError::Path(_)) => {
                shape::mend_shared(request.base)?;
                let directory = request.base.join(Self::directory_name(request)?);
                State { directory, base: request.base.to_owned(), holds_run_lock: false }
                    .mend_shapes()?;
                Self::open_as_it_is(request)
            }
            opened => opened,
        }
    }

    fn open_as_it_is(request: &StateRequest<'_>) -> Result<(Self, Option<Fresh>), StateError> {
        create_private_directory(request.base)?;
        let directory = request.base.join(Self::directory_name(request)?);
        create_private_directory(&directory)?;
        let state = State { directory, base: request.base.to_owned(), holds_run_lock: false };
        for private in [state.live_directory(), state.scratch(), state.locks()] {
            create_private_directory(&private)?;
        }
        remove_abandoned(&state.directory)?;
        if state.is_finished()? {
            return Ok((state, None));
        }
        let about = About {
            version: VERSION,
            workspace: request.workspace.root.clone(),
            created: request.now,
        };
        replace_atomically(&state.about(), &render(&about))?;
        Ok((state, Some(Fresh { home_has_history: has_history(&request.home.path) })))
    }

    /// Finds a workspace's state without creating anything; `None` if the index has no entry.
    pub fn find(base: &Utf8Path, workspace: &Workspace) -> Result<Option<Self>, StateError> {
        let git = workspace.git_dir().and_then(GitIdentity::of);
        let known = IndexEntry::load(base, &workspace.root)?.filter(|known| known.git == git);
        let Some(known) = known else { return Ok(None) };
        let (directory, base) = (base.join(known.directory), base.to_owned());
        let state = State { directory, base, holds_run_lock: false };
        Ok(state.is_finished()?.then_some(state))
    }

    /// Returns the directory's name: from the index if still valid, otherwise by root commit and path.
    fn directory_name(request: &StateRequest<'_>) -> Result<String, StateError> {
        let root = &request.workspace.root;
        let git = request.workspace.git_dir().and_then(GitIdentity::of);
        let known = IndexEntry::load(request.base, root)?;
        if let Some(known) = &known
            && known.git == git
        {
            return Ok(known.directory.clone());
        }
        let directory = if let Some(known) = known.filter(|known| known.git.is_none()) {
            // A plain directory became a repository and keeps its state.
            known.directory
        } else {
            let commit = git.as_ref().and_then(|_| (request.root_commit)(root));
            directory_name(root, commit.as_deref())
        };
        let entry = IndexEntry { path: root.clone(), git, directory };
        entry.save(request.base)?;
        Ok(entry.directory)
    }

    /// Returns the private state in a directory that another process names as its own.
    pub(crate) fn at(directory: &Utf8Path) -> Option<Self> {
        let base = directory.parent()?.to_owned();
        Some(State { directory: directory.to_owned(), base, holds_run_lock: false })
    }

    /// Records that this process holds the run lock.
    #[must_use]
    pub(crate) fn with_run_lock(self) -> Self {
        State { holds_run_lock: true, ..self }
    }

    pub(crate) fn holds_run_lock(&self) -> bool {
        self.holds_run_lock
    }

    fn is_finished(&self) -> Result<bool, StateError> {
        let Some(text) = read_optional(&self.about())? else { return Ok(false) };
        // A damaged description counts as missing: it is rewritten, and the other content is kept.
        let Ok(about) = serde_json::from_slice::<About>(&text) else { return Ok(false) };
        if about.version > VERSION {
            return Err(StateError::Newer { path: self.directory.clone(), found: about.version });
        }
        Ok(true)
    }

    fn about(&self) -> Utf8PathBuf {
        self.directory.join("state.json")
    }

    /// Returns the base directory of all workspaces' private state.
    pub(crate) fn base(&self) -> &Utf8Path {
        &self.base
    }

    /// Returns the parts of private state visible to every run: Ralph's own program, and the objects of clones.
    pub(crate) fn shown(&self) -> Vec<Utf8PathBuf> {
        let mut shown = vec![self.directory.join("bin")];
        let repositories = self.directory.join("repositories").read_dir_utf8();
        for repository in repositories.into_iter().flatten().flatten() {
            shown.push(repository.path().join("mirror/objects"));
        }
        shown
    }

    /// Syncs what an earlier Ralph created or removed here without syncing: a removed record must not reappear after a
    /// later power failure.
    pub(crate) fn sync_records(&self) -> Result<(), PathError> {
        let mut directories = Vec::new();
        let nested = ["plans", COPIES].map(|name| self.directory.join(name));
        for within in [&self.directory].into_iter().chain(&nested) {
            for found in list_optional(within)? {
                if matches!(found.kind, Ok(FileKind::Directory))
                    && let Ok(name) = found.name.into_string()
                {
                    directories.push(within.join(name));
                }
            }
        }
        directories.push(self.directory.clone());
        directories.iter().try_for_each(|directory| sync_directory(directory))
    }

    pub fn directory(&self) -> &Utf8Path {
        &self.directory
    }

    pub fn journal(&self) -> Utf8PathBuf {
        self.directory.join("journal.jsonl")
    }

    pub(crate) fn journal_length(&self) -> u64 {
        disk::length(&self.journal())
    }

    /// Returns the directory for temporary files of runs, gates and checks.
    pub(crate) fn scratch(&self) -> Utf8PathBuf {
        self.directory.join("scratch")
    }

    /// Returns the directory of an isolated agent's own state.
    pub(crate) fn agent_state(&self, agent: &str) -> Utf8PathBuf {
        self.directory.join("agents").join(file_name(agent))
    }

    /// Returns a directory that contains only `ralph`, for the PATH of runs.
    ///
    /// `None` if it cannot be created: a run can do without.
    pub(crate) fn program_directory(&self, program: &Utf8Path) -> Option<Utf8PathBuf> {
        let directory = self.directory.join("bin");
        let link = directory.join("ralph");
        if link.read_link_utf8().is_ok_and(|target| target == program) {
            return Some(directory);
        }
        create_private_directory(&directory).ok()?;
        remove_optional(&link).ok()?;
        std::os::unix::fs::symlink(program, &link).ok()?;
        Some(directory)
    }

    /// Returns the directory of one repository of the workspace: its mirror and Ralph's checkouts of it.
    pub(crate) fn repository(&self, common_dir: &Utf8Path) -> Utf8PathBuf {
        let name = common_dir.parent().and_then(Utf8Path::file_name).unwrap_or("repository");
        let name = file_name(name);
        self.directory.join("repositories").join(format!("{name}-{}", hash(&[common_dir.as_str()])))
    }

    /// Returns the directory of gate outputs at a commit.
    pub fn gate_logs(&self, commit: &str) -> Utf8PathBuf {
        self.directory.join("gates").join(file_name(commit))
    }

    /// Returns the directory of a plan's cached history and of the change in progress.
    pub(crate) fn plan_directory(&self, plan: &Utf8Path) -> Utf8PathBuf {
        self.directory.join("plans").join(hash(&[plan.as_str()]))
    }

    /// Returns the note of what the harness itself wrote to a file.
    pub(crate) fn vouched(&self, path: &Utf8Path) -> Utf8PathBuf {
        self.directory.join("vouched").join(hash(&[path.as_str()]))
    }

    /// Returns the directory of a home's draft during a workflow.
    pub(crate) fn draft(&self, home: &Utf8Path) -> Utf8PathBuf {
        self.directory.join("drafts").join(hash(&[home.as_str()]))
    }

    /// Returns the note of which files of a home are being written and are not committed yet.
    pub(crate) fn uncommitted(&self, home: &Utf8Path) -> Utf8PathBuf {
        self.directory.join("uncommitted").join(hash(&[home.as_str()]))
    }

    /// Returns the directory of this process's baseline.
    pub(crate) fn baseline(&self) -> Utf8PathBuf {
        let own = disk::own_process();
        self.live_directory().join(format!("{}-{}.baseline", own.pid, own.start))
    }

    /// Returns the file of the lock for workflows in a home.
    pub fn run_lock(&self, home: &Home) -> Utf8PathBuf {
        self.locks().join(format!("{}.run", hash(&[home.path.as_str()])))
    }

    /// Returns the file of the lock for writing a home's state files.
    pub fn write_lock(&self, home: &Home) -> Utf8PathBuf {
        self.locks().join(format!("{}.write", hash(&[home.path.as_str()])))
    }

    /// Locks belong to homes, and several workspaces can share one.
    fn locks(&self) -> Utf8PathBuf {
        self.base.join("locks")
    }

    fn live_directory(&self) -> Utf8PathBuf {
        self.directory.join("live")
    }
}

/// Whether a home shows traces of Ralph's work.
fn has_history(home: &Utf8Path) -> bool {
    let is_filled = |name: &str| {
        let path = home.join(name);
        if disk::is_directory(&path) {
            // The placeholder of an empty directory exists from the beginning.
            return disk::list(&path)
                .is_ok_and(|listed| listed.iter().any(|entry| entry.name != ".gitkeep"));
        }
        disk::length(&path) > 0
    };
    let traces = [
        "specs/plans",
        "specs/candidates",
        "specs/done",
        "plan.jsonl",
        "plan_state.json",
        "runs",
        "ralph.log",
    ];
    traces.into_iter().any(is_filled)
}

fn directory_name(root: &Utf8Path, root_commit: Option<&str>) -> String {
    let name: String = root.file_name().unwrap_or("root").chars().take(40).map(safe).collect();
    let name = name.trim_start_matches('.');
    format!("{name}-{}", hash(&[root_commit.unwrap_or_default(), root.as_str()]))
}

/// Turns any name into a file name. Names that had to be changed are distinguished by their hash.
pub(crate) fn file_name(name: &str) -> String {
    let changed: String = name.chars().map(safe).collect();
    if changed == name && !name.starts_with('.') && (1..=100).contains(&name.len()) {
        return changed;
    }
    let start: String = changed.trim_start_matches('.').chars().take(40).collect();
    format!("{start}-{}", hash(&[name]))
}

const fn safe(c: char) -> char {
    if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' }
}

/// Hashes texts to twelve hexadecimal digits. It must never change: directories on disk are named by it.
///
/// This is FNV-1a. It distinguishes a person's workspaces; nothing relies on resistance to deliberate collisions.
fn hash(parts: &[&str]) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        for byte in part.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    // Folded, so that all 64 bits count.
    format!("{:012x}", (hash ^ (hash >> 48)) & 0xffff_ffff_ffff)
}

fn render(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("state is plain data");
    text.push(b'\n');
    text
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
