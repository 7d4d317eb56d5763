//! The boundary of a run: which setting is in force on this machine, and what a role may write under it.
//!
//! After a run the harness compares what the role must leave alone with a [`baseline`] taken before it ([`compare`]), and
//! puts back what changed ([`restore`]).
//!
//! Reading stays open. What nobody may write (private state, the person's other files) is simply never named here.

mod baseline;
mod compare;
mod protected;
mod record;
mod refs;
mod restore;
mod run_refs;
mod settle;
mod tree_status;
mod walk;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::role::Role;
use ralph_proc::sandbox::{Confinement, Support};
use serde::{Deserialize, Serialize};

use crate::config::BoundaryMode;
use crate::git::RepositoryLocation;

pub(crate) use baseline::Baseline;
pub(crate) use compare::Watch;
pub(crate) use compare::vouch_for;
pub use compare::{BoundaryFinding, BoundaryReport, FindingKind, vouch};
pub(crate) use compare::{inode, inodes};
pub(crate) use run_refs::{checked_out, note_refs};

/// What holds an agent in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InForce {
    Kernel,
    Detect,
    Off,
}

impl InForce {
    pub const fn as_str(self) -> &'static str {
        match self {
            InForce::Kernel => "kernel",
            InForce::Detect => "detect",
            InForce::Off => "off",
        }
    }
}

/// The kernel cannot do what `boundary = "kernel"` demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("boundary = \"kernel\" needs Landlock (Linux 6.2 or later), and this kernel offers {}", offer(*.0))]
pub struct NotEnforceable(Support);

fn offer(support: Support) -> String {
    match support.landlock_abi {
        0 => "none".to_owned(),
        abi => format!("only version {abi} of it"),
    }
}

/// Decides what is in force here.
pub fn in_force(setting: BoundaryMode, support: Support) -> Result<InForce, NotEnforceable> {
    match setting {
        BoundaryMode::Off => Ok(InForce::Off),
        BoundaryMode::Auto | BoundaryMode::Kernel if support.confines_files() => {
            Ok(InForce::Kernel)
        }
        BoundaryMode::Auto | BoundaryMode::Detect => Ok(InForce::Detect),
        BoundaryMode::Kernel => Err(NotEnforceable(support)),
    }
}

/// Whether a confined process may open unix sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnixSockets {
    Allowed,
    Denied,
}

/// Where a run may write, from the run's own point of view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writable<'a> {
    pub role: Role,
    pub workspace: &'a Utf8Path,
    /// The git directories that belong to the workspace but may lie outside it (linked worktrees).
    pub git_dirs: &'a [Utf8PathBuf],
    /// Scratch directory of the run: temporary files and the outbox.
    pub scratch: &'a Utf8Path,
    /// The agent's own state.
    pub agent_state: &'a [Utf8PathBuf],
    /// The person's home directory, for the caches of toolchains.
    pub user_home: Option<&'a Utf8Path>,
    /// Further paths from the configuration.
    pub extra: &'a [Utf8PathBuf],
}

/// Caches of toolchains below the person's home directory: data that is fetched again, never programs or settings.
const TOOLCHAIN_CACHES: [&str; 14] = [
    ".cargo/registry",
    ".cargo/git",
    ".cargo/.package-cache",
    ".cargo/.global-cache",
    ".npm",
    ".cache/pip",
    ".cache/uv",
    ".cache/yarn",
    ".cache/pnpm",
    ".local/share/pnpm/store",
    ".cache/go-build",
    "go/pkg/mod",
    ".gradle/caches",
    ".m2/repository",
];

/// Returns what the kernel is to hold the run to.
pub(crate) fn confinement(writable: &Writable<'_>, sockets: UnixSockets) -> Confinement {
    let mut paths: Vec<String> = vec![writable.scratch.to_string()];
    if writable.role.writes_workspace() {
        paths.push(writable.workspace.to_string());
        paths.extend(writable.git_dirs.iter().map(ToString::to_string));
    }
    paths.extend(writable.agent_state.iter().map(ToString::to_string));
    if let Some(home) = writable.user_home {
        paths.extend(toolchain_caches(home));
    }
    paths.extend(writable.extra.iter().map(ToString::to_string));
    Confinement { writable: paths, unix_sockets: sockets == UnixSockets::Allowed, deny_tcp: false }
}

/// Returns the caches of toolchains below a person's home directory, whether they are there or not.
pub(crate) fn toolchain_caches(home: &Utf8Path) -> impl Iterator<Item = String> {
    TOOLCHAIN_CACHES.iter().map(move |cache| home.join(cache).to_string())
}

/// Finds the repositories of a workspace: the one it is or lies in, else those of its children.
pub fn repositories(workspace: &Utf8Path) -> Vec<RepositoryLocation> {
    if let Ok(place) = RepositoryLocation::discover(workspace) {
        return vec![place];
    }
    let children = workspace.read_dir_utf8().into_iter().flatten().flatten();
    let mut children: Vec<Utf8PathBuf> = children
        .map(|child| child.path().to_owned())
        .filter(|child| child.join(".git").exists())
        .collect();
    // The same order each time, whatever the directory's.
    children.sort();
    children.iter().filter_map(|child| RepositoryLocation::discover(child).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_fails_closed_and_auto_falls_back() {
        let (none, old, new) =
            (Support { landlock_abi: 0 }, Support { landlock_abi: 2 }, Support { landlock_abi: 3 });
        for (setting, support, expected) in [
            (BoundaryMode::Kernel, none, Err(NotEnforceable(none))),
            (BoundaryMode::Kernel, old, Err(NotEnforceable(old))),
            (BoundaryMode::Kernel, new, Ok(InForce::Kernel)),
            (BoundaryMode::Auto, none, Ok(InForce::Detect)),
            (BoundaryMode::Auto, old, Ok(InForce::Detect)),
            (BoundaryMode::Auto, new, Ok(InForce::Kernel)),
            (BoundaryMode::Detect, new, Ok(InForce::Detect)),
            (BoundaryMode::Off, new, Ok(InForce::Off)),
        ] {
            assert_eq!(in_force(setting, support), expected, "{setting:?} on {support:?}");
        }
    }

    #[test]
    fn only_writing_roles_get_the_workspace() {
        for role in Role::ALL {
            let confinement = confinement(
                &Writable {
                    role,
                    workspace: Utf8Path::new("/ws"),
                    git_dirs: &["/main/.git".into()],
                    scratch: Utf8Path::new("/tmp/scratch"),
                    agent_state: &["/home/me/.agent".into()],
                    user_home: None,
                    extra: &[],
                },
                UnixSockets::Denied,
            );
            let writes = role.writes_workspace();
            for path in ["/ws", "/main/.git"] {
                assert_eq!(confinement.writable.iter().any(|granted| granted == path), writes);
            }
            assert!(confinement.writable.iter().any(|granted| granted == "/home/me/.agent"));
        }
    }
}
