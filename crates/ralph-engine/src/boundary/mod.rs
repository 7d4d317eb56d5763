//! The boundary of a run: which setting is in force on this machine, and what a role may write under it.
//!
//! After a run the harness compares what the role must leave alone with a [`baseline`] taken before it ([`compare`]), and
//! puts back what changed ([`restore`]).
//!
//! Reading stays open. Paths that no role may write (private state, the person's other files) are simply never named
//! here.

mod baseline;
mod blocked;
mod caches;
mod compare;
mod git_dir;
mod grants;
mod home_tip;
mod nested;
mod outside;
mod own;
pub(crate) mod persons_side;
mod protected;
mod record;
mod reflogs;
mod refs;
mod restore;
mod run_refs;
mod run_stash;
mod settle;
mod tree_status;
mod view;
mod walk;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::role::Role;
use ralph_proc::namespace::{NamespaceSupport, View};
use ralph_proc::sandbox::{Confinement, SocketAccess, Support};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::config::{BoundaryMode, Config, Namespaces};
use crate::git::RepositoryLocation;

pub(crate) use baseline::Baseline;
pub(crate) use caches::{CacheSet, cache_variables, prepare_layer, prepare_set};
pub(crate) use compare::Watch;
pub(crate) use compare::vouch_for;
pub use compare::{BoundaryFinding, BoundaryReport, FindingKind, vouch};
pub(crate) use compare::{inode, inodes};
pub(crate) use grants::granted;
pub(crate) use outside::{Outside, OutsidePlaces, file_beside as outside_file};
pub(crate) use own::{OwnPlaces, confine_ralph};
pub(crate) use protected::endless_files_in;
pub(crate) use run_refs::{checked_out, note_refs};
pub(crate) use view::{ViewRequest, around_program, real, view};

/// What holds an agent in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InForce {
    Kernel(Layers),
    Detect,
    Off,
}

/// The layers by which the kernel holds an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layers {
    /// Landlock and a filter of system calls.
    pub landlock: bool,
    /// A view of its own.
    pub namespaces: NamespaceSupport,
}

impl Layers {
    /// Landlock, and no view of its own.
    pub const LANDLOCK: Layers = Layers {
        landlock: true,
        namespaces: NamespaceSupport { mount: false, pid: false, net: false, refusal: None },
    };

    /// Names the layers for people.
    fn words(self) -> &'static str {
        let NamespaceSupport { mount, pid, net, .. } = self.namespaces;
        match (self.landlock, mount, pid, net) {
            (true, true, true, true) => "Landlock and namespaces",
            (true, true, true, false) => "Landlock and namespaces, without one for the network",
            (true, true, false, _) => "Landlock and namespaces, without one for processes",
            (true, false, ..) => "Landlock alone",
            (false, ..) => "namespaces alone",
        }
    }
}

impl InForce {
    pub const fn as_str(self) -> &'static str {
        match self {
            InForce::Kernel(_) => "kernel",
            InForce::Detect => "detect",
            InForce::Off => "off",
        }
    }

    /// Whether the kernel holds the agent.
    pub const fn is_kernel(self) -> bool {
        matches!(self, InForce::Kernel(_))
    }

    /// Whether the agent has a view of its own, outside of which it cannot even change permissions.
    pub(crate) const fn has_view(self) -> bool {
        matches!(self, InForce::Kernel(layers) if layers.namespaces.mount)
    }

    /// Whether the kernel keeps a run from writing outside, and not from changing permissions there.
    pub(crate) const fn leaves_permissions(self) -> bool {
        self.is_kernel() && !self.has_view()
    }

    /// Says what is in force, with its layers, and whether it holds somebody who may do everything.
    pub fn told(self) -> String {
        let layers = match self {
            InForce::Kernel(layers) => format!(" ({})", layers.words()),
            InForce::Detect | InForce::Off => String::new(),
        };
        let is_root = rustix::process::geteuid().is_root();
        let root = if is_root { ", as root" } else { "" };
        format!("{}{layers}{root}", self.as_str())
    }
}

impl Serialize for InForce {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for InForce {
    /// Which layers there were is not kept; to compare after a crash, the first is assumed alone.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<InForce, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "kernel" => Ok(InForce::Kernel(Layers::LANDLOCK)),
            "detect" => Ok(InForce::Detect),
            "off" => Ok(InForce::Off),
            other => Err(serde::de::Error::unknown_variant(other, &["kernel", "detect", "off"])),
        }
    }
}

/// The kernel cannot do what the setting demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotEnforceable {
    #[error("boundary = \"kernel\" needs Landlock (Linux 6.2 or later), and this kernel offers {}", offer(*.0))]
    Kernel(Support),
    #[error("boundary = \"strict\" needs Landlock and namespaces, and here {}", lacking(*.0))]
    Strict(Support),
}

fn lacking(support: Support) -> String {
    if !support.confines_files() {
        return format!("Landlock offers {}", offer(support));
    }
    match support.namespaces.refusal {
        Some(refusal) => format!("namespaces were {refusal}"),
        None => "namespaces are switched off by `sandbox.namespaces`".to_owned(),
    }
}

fn offer(support: Support) -> String {
    match support.landlock_abi {
        0 => "none".to_owned(),
        abi => format!("only version {abi} of it"),
    }
}

/// Decides what is in force here.
pub fn in_force(setting: BoundaryMode, support: Support) -> Result<InForce, NotEnforceable> {
    let layers = Layers { landlock: support.confines_files(), namespaces: support.namespaces };
    match setting {
        BoundaryMode::Off => Ok(InForce::Off),
        BoundaryMode::Strict => {
            if support.confines_files() && support.namespaces.mount && support.namespaces.pid {
                Ok(InForce::Kernel(layers))
            } else {
                Err(NotEnforceable::Strict(support))
            }
        }
        BoundaryMode::Auto | BoundaryMode::Kernel if support.confines() => {
            Ok(InForce::Kernel(layers))
        }
        BoundaryMode::Auto | BoundaryMode::Detect => Ok(InForce::Detect),
        BoundaryMode::Kernel => Err(NotEnforceable::Kernel(support)),
    }
}

/// Decides what is in force here by a configuration; tries out what the machine can do where that matters.
pub fn enforce(config: &Config) -> Result<InForce, NotEnforceable> {
    let support = match (config.boundary, config.sandbox.namespaces) {
        (BoundaryMode::Detect | BoundaryMode::Off, _) | (_, Namespaces::Off) => {
            Support::of_landlock()
        }
        _ => Support::probe(),
    };
    in_force(config.boundary, support)
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
    /// Its set of toolchain caches, where it may write one.
    pub caches: Option<&'a Utf8Path>,
    /// Further paths from the configuration.
    pub extra: &'a [Utf8PathBuf],
}

/// Returns the kernel restrictions of the run. Symlinks are resolved now, by a process that no agent could mislead;
/// additional paths from the configuration are used by their own names.
pub(crate) fn confinement(
    writable: &Writable<'_>,
    unix_sockets: SocketAccess,
    view: Option<View>,
) -> Confinement {
    let mut paths: Vec<String> = vec![writable.scratch.to_string()];
    if writable.role.writes_workspace() {
        paths.push(writable.workspace.to_string());
        paths.extend(writable.git_dirs.iter().map(ToString::to_string));
    }
    paths.extend(writable.agent_state.iter().map(ToString::to_string));
    paths.extend(writable.caches.map(ToString::to_string));
    for path in &mut paths {
        *path = real(Utf8Path::new(path)).into_string();
    }
    paths.extend(writable.extra.iter().map(ToString::to_string));
    Confinement { writable: paths, unix_sockets, offline: false, view }
}

/// Finds the repositories of a workspace: the one it is or is inside of, otherwise those of its subdirectories.
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
        let only = |landlock_abi| Support { landlock_abi, namespaces: NamespaceSupport::default() };
        let (none, old, new) = (only(0), only(2), only(3));
        let kernel = InForce::Kernel(Layers::LANDLOCK);
        let both = Support { namespaces: NamespaceSupport::ALL, ..new };
        let layers = |landlock| Layers { landlock, namespaces: NamespaceSupport::ALL };
        let viewed = Support { namespaces: NamespaceSupport::ALL, ..old };
        let no_pids = NamespaceSupport { pid: false, ..NamespaceSupport::ALL };
        let weak = Support { namespaces: no_pids, ..old };
        for (setting, support, expected) in [
            (BoundaryMode::Kernel, none, Err(NotEnforceable::Kernel(none))),
            (BoundaryMode::Kernel, old, Err(NotEnforceable::Kernel(old))),
            (BoundaryMode::Kernel, new, Ok(kernel)),
            (BoundaryMode::Auto, none, Ok(InForce::Detect)),
            (BoundaryMode::Auto, old, Ok(InForce::Detect)),
            (BoundaryMode::Auto, new, Ok(kernel)),
            (BoundaryMode::Auto, both, Ok(InForce::Kernel(layers(true)))),
            (BoundaryMode::Strict, both, Ok(InForce::Kernel(layers(true)))),
            (BoundaryMode::Strict, new, Err(NotEnforceable::Strict(new))),
            (BoundaryMode::Strict, viewed, Err(NotEnforceable::Strict(viewed))),
            (BoundaryMode::Kernel, viewed, Ok(InForce::Kernel(layers(false)))),
            (BoundaryMode::Kernel, weak, Err(NotEnforceable::Kernel(weak))),
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
                    caches: None,
                    extra: &[],
                },
                SocketAccess::Denied,
                None,
            );
            let writes = role.writes_workspace();
            for path in ["/ws", "/main/.git"] {
                assert_eq!(confinement.writable.iter().any(|granted| granted == path), writes);
            }
            assert!(confinement.writable.iter().any(|granted| granted == "/home/me/.agent"));
        }
    }
}
