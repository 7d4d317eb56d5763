//! Landlock rules and the system call filter, prepared while errors can still be reported.

use std::io;
use std::os::fd::OwnedFd;

use landlock::{
    ABI, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};

use super::seccomp::{self, FilterScope, Network};
use super::{Confinement, SocketAccess, Support};
use crate::sys;

pub(super) use crate::sys::linux::landlock_abi;

/// The devices that every program expects to be able to write to.
///
/// Not `/dev/pts` and `/dev/shm`: they contain the person's terminals and shared memory.
const DEVICES: [&str; 7] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx"];

/// The directory of named shared memory. A process that may write there shares memory with the person anyway.
const SHARED_MEMORY: &str = "/dev/shm";

/// The required write access rights: those of the oldest kernel interface that also covers truncation.
const FILES_ABI: ABI = ABI::V3;

/// The oldest interface that also covers device requests (`ioctl`), for which a read-only descriptor suffices: the
/// settings of a person's terminals.
const DEVICES_ABI: ABI = ABI::V5;

/// Whether TCP connections can be refused.
const fn confines_tcp(support: Support) -> bool {
    support.landlock_abi >= ABI::V4 as i32
}

/// A ruleset ready to be entered by the child, prepared while errors can still be reported.
pub(crate) struct Prepared {
    ruleset: Option<RulesetCreated>,
    filter: Vec<libc::sock_filter>,
}

impl Prepared {
    /// With a view, this must be called inside it: rules refer to the current mounts.
    pub(crate) fn new(confinement: &Confinement) -> io::Result<Prepared> {
        let support = Support::of_landlock();
        let view = confinement.view.as_ref();
        let has_pids = view.is_some_and(|view| view.pid);
        if !support.confines_files() && !has_pids {
            return Err(io::Error::other(
                "the kernel cannot confine files (Landlock ABI 3 needed)",
            ));
        }
        let has_network = view.is_some_and(|view| view.net);
        let offline = confinement.offline && !has_network;
        let ruleset = if support.landlock_abi == 0 {
            None
        } else {
            Some(rules(confinement, support, offline)?)
        };
        let filter = seccomp::program(FilterScope {
            unix_sockets: match confinement.unix_sockets {
                SocketAccess::Denied => true,
                // Outside sockets must be unreachable, including abstract ones.
                SocketAccess::Own => view.is_none() || !(support.confines_signals() || has_network),
                SocketAccess::All => false,
            },
            network: match (offline, confines_tcp(support)) {
                (false, _) => Network::Open,
                (true, true) => Network::TcpOnly,
                (true, false) => Network::Closed,
            },
            other_processes: !has_pids,
            shared_ipc: view.is_none()
                && !confinement.writable.iter().any(|path| path == SHARED_MEMORY),
        });
        Ok(Prepared { ruleset, filter })
    }

    /// Confines the calling process permanently.
    pub(crate) fn enter(&mut self) -> io::Result<()> {
        if let Some(ruleset) = self.ruleset.take() {
            let status = ruleset.restrict_self().map_err(io::Error::other)?;
            if status.ruleset != RulesetStatus::FullyEnforced {
                return Err(io::Error::other("the kernel did not enforce the boundary"));
            }
        }
        sys::linux::drop_capabilities()?;
        sys::linux::install_filter(&mut self.filter)
    }
}

/// Restricts the calling thread and its future children to writing below some paths and to devices.
pub(super) fn confine_this_thread(writable: &[String]) -> io::Result<()> {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_write(FILES_ABI))
        .and_then(Ruleset::create)
        .map_err(io::Error::other)?;
    let own = ["/dev/pts", "/dev/shm"];
    let paths = writable.iter().map(String::as_str).chain(DEVICES).chain(own);
    let ruleset = with_grants(ruleset, paths, FILES_ABI)?;
    let status = ruleset.restrict_self().map_err(io::Error::other)?;
    if status.ruleset != RulesetStatus::FullyEnforced {
        return Err(io::Error::other("the kernel did not enforce the bounds"));
    }
    Ok(())
}

/// A run's own directories if it has its own view.
const OWN_PLACES: [&str; 3] = ["/tmp", "/dev/shm", "/dev/pts"];

/// Builds the Landlock rules.
fn rules(confinement: &Confinement, support: Support, offline: bool) -> io::Result<RulesetCreated> {
    // An older interface than required is only used inside a view, which refuses the rest.
    let abi = match support.landlock_abi {
        1 => ABI::V1,
        2 => ABI::V2,
        version if version < DEVICES_ABI as i32 => FILES_ABI,
        _ => DEVICES_ABI,
    };
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_write(abi))
        .map_err(io::Error::other)?;
    if offline && confines_tcp(support) {
        ruleset = ruleset.handle_access(AccessNet::ConnectTcp).map_err(io::Error::other)?;
    }
    if support.confines_signals() {
        ruleset = ruleset.scope(Scope::Signal).map_err(io::Error::other)?;
        if confinement.unix_sockets != SocketAccess::All {
            ruleset = ruleset.scope(Scope::AbstractUnixSocket).map_err(io::Error::other)?;
        }
    }
    let created = ruleset.create().map_err(io::Error::other)?;
    let view = confinement.view.as_ref();
    let own = OWN_PLACES.into_iter().filter(|_| view.is_some());
    // Browsers have their own sandbox, for which they map users.
    let own_processes =
        view.is_some_and(|view| view.pid) && confinement.unix_sockets == SocketAccess::Own;
    let layered = view.into_iter().flat_map(|view| &view.layered).map(|layer| &layer.target);
    let paths = confinement.writable.iter().chain(layered).map(String::as_str);
    let paths = paths.chain(DEVICES).chain(own).chain(own_processes.then_some("/proc"));
    with_grants(created, paths, abi)
}

/// Adds a rule for each existing path.
fn with_grants<'p>(
    mut created: RulesetCreated,
    paths: impl Iterator<Item = &'p str>,
    abi: ABI,
) -> io::Result<RulesetCreated> {
    for path in paths {
        let Some(beneath) = open_grant(path)? else { continue };
        let kind = FileType::from_raw_mode(fstat(&beneath)?.st_mode);
        let rights = if kind.is_dir() {
            AccessFs::from_write(abi)
        } else {
            AccessFs::from_write(abi) & AccessFs::from_file(abi)
        };
        created = created.add_rule(PathBeneath::new(beneath, rights)).map_err(io::Error::other)?;
    }
    Ok(created)
}

/// Opens a granted path, if it exists. A symlink as the last component grants nothing of its target.
fn open_grant(path: &str) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match open(path, flags, Mode::empty()) {
        Ok(opened) => {
            let kind = FileType::from_raw_mode(fstat(&opened)?.st_mode);
            Ok((!kind.is_symlink()).then_some(opened))
        }
        Err(_) => Ok(None),
    }
}
