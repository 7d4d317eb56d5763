//! The kernel boundary: Landlock for files and signals, a filter of system calls ([`crate::seccomp`]) for what it does not see,
//! and for root no capability.
//!
//! Confinement fails closed: a process that cannot be confined as asked is not started. Reading stays open; only
//! writing, renaming, linking, truncating and removing are limited, to the paths that are named. Landlock never covers
//! metadata (mode, times), so whoever cares for those compares them afterwards.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};

use landlock::{
    ABI, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, set_child_subreaper, set_parent_process_death_signal, waitpid,
};
use serde::{Deserialize, Serialize};

use crate::command::CommandSpec;
use crate::namespace::{self, Ids, NamespaceSupport, View};
use crate::seccomp::{self, FilterScope, Network};
use crate::{guard, sys, witness};

/// What a confined process may do beyond reading.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Files and directories (with all below them) that may be changed. Paths that do not exist grant nothing.
    pub writable: Vec<String>,
    /// Which unix sockets it may open: they lead to daemons that act outside the boundary (docker, D-Bus, agents of ssh and
    /// gpg).
    pub unix_sockets: SocketAccess,
    /// Whether the network is refused, this machine's own included. Listening is allowed: nothing inside could connect.
    #[serde(default)]
    pub offline: bool,
    /// What it sees of the machine: the second layer.
    #[serde(default)]
    pub view: Option<View>,
}

/// Which unix sockets a confined process may open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SocketAccess {
    #[default]
    Denied,
    /// Those of its own run. Only where it has a view of its own, in which others are not to be seen.
    Own,
    All,
}

/// The devices that every program expects to be able to write to.
///
/// Not `/dev/pts` and `/dev/shm`: they hold the person's terminals and shared memory.
const DEVICES: [&str; 7] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx"];

/// Where shared memory has names. Whoever may write there shares memory with the person anyway.
const SHARED_MEMORY: &str = "/dev/shm";

/// The write rights that are needed: those of the oldest kernel interface that also covers truncation.
const FILES_ABI: ABI = ABI::V3;

/// The oldest interface that also covers requests to devices (`ioctl`), which a descriptor for reading is enough for: the
/// settings of a person's terminals.
const DEVICES_ABI: ABI = ABI::V5;

/// What this machine's kernel can hold an agent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Support {
    /// The version of the Landlock interface; 0 where there is none.
    pub landlock_abi: i32,
    /// What of the second layer can be made.
    pub namespaces: NamespaceSupport,
}

impl Support {
    /// Asks the running kernel, and tries the second layer out.
    pub fn probe() -> Support {
        Support { namespaces: namespace::probe(), ..Support::of_landlock() }
    }

    /// Asks the running kernel for Landlock alone.
    pub fn of_landlock() -> Support {
        Support { landlock_abi: sys::landlock_abi(), namespaces: NamespaceSupport::default() }
    }

    /// Whether the kernel can keep an agent to its bounds, by either layer.
    pub const fn confines(self) -> bool {
        self.confines_files() || (self.namespaces.mount && self.namespaces.pid)
    }

    /// Whether writing outside the named paths can be refused, truncation included.
    pub const fn confines_files(self) -> bool {
        self.landlock_abi >= FILES_ABI as i32
    }

    /// Whether TCP connections can be refused.
    pub(crate) const fn confines_tcp(self) -> bool {
        self.landlock_abi >= ABI::V4 as i32
    }

    /// Whether signals to processes outside the run can be refused.
    pub const fn confines_signals(self) -> bool {
        self.landlock_abi >= ABI::V6 as i32
    }
}

/// Runs a program in the foreground of the person's terminal, confined, and waits for its end.
///
/// The calling process must have a single thread: a child confines itself between fork and exec.
pub fn run_in_foreground(spec: &CommandSpec) -> io::Result<ExitStatus> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGQUIT] {
        // The terminal sends them to both, and the program decides what they mean. A handler is not inherited.
        let _ = signal_hook::flag::register(signal, std::sync::Arc::default());
    }
    let bounds = spec.confinement.as_ref();
    let Some((bounds, view)) = bounds.and_then(|bounds| Some((bounds, bounds.view.as_ref()?)))
    else {
        return run_confined(spec);
    };
    let ids = Ids::own();
    let (mut report, mut result) = UnixStream::pair()?;
    let Some(inner) = namespace::fork_into(view)? else {
        drop(report);
        let entered = namespace::enter(view, &bounds.writable, ids).map_err(io::Error::from);
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
        let ended = entered.and_then(|()| run_confined(spec));
        let ended = ended.map(ExitStatusExt::into_raw).map_err(|error| error.to_string());
        let _ = serde_json::to_writer(&mut result, &ended);
        std::process::exit(0);
    };
    drop(result);
    let mut answer = Vec::new();
    io::Read::read_to_end(&mut report, &mut answer)?;
    while matches!(waitpid(Pid::from_raw(inner), WaitOptions::empty()), Err(Errno::INTR)) {}
    let ended: Result<i32, String> = serde_json::from_slice(&answer)
        .map_err(|_| io::Error::other("the first process of the sandbox was ended"))?;
    ended.map(ExitStatus::from_raw).map_err(io::Error::other)
}

/// Runs a program that confines itself, and waits for its end. What it leaves behind ends with it, if it is confined.
fn run_confined(spec: &CommandSpec) -> io::Result<ExitStatus> {
    let mut confinement = spec.confinement.as_ref().map(Prepared::new).transpose()?;
    let is_confined = confinement.is_some();
    if is_confined {
        set_child_subreaper(Some(rustix::process::getpid()))?;
    }
    let mut command = Command::new(&spec.program);
    command.args(&spec.args).current_dir(&spec.cwd).env_clear();
    command.envs(spec.env.iter().map(|(name, value)| (name, value)));
    sys::before_exec(&mut command, move || {
        rustix::thread::set_no_new_privs(true)?;
        sys::close_inherited(sys::Inherited::CloseOnExec)?;
        if is_confined {
            set_parent_process_death_signal(Some(Signal::KILL))?;
        }
        confinement.as_mut().map_or(Ok(()), Prepared::enter)
    });
    let ended = command.status();
    if is_confined && !guard::end_children() {
        return Err(io::Error::other("the command left processes behind that cannot be ended"));
    }
    ended
}

/// A ruleset that is ready to be entered by the child, prepared while errors can still be told.
pub(crate) struct Prepared {
    ruleset: Option<RulesetCreated>,
    filter: Vec<libc::sock_filter>,
}

impl Prepared {
    /// Where there is a view, to be called inside it: rules are about what is mounted now.
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
                // Sockets outside must be out of reach, those that have a name and no path included.
                SocketAccess::Own => view.is_none() || !(support.confines_signals() || has_network),
                SocketAccess::All => false,
            },
            network: match (offline, support.confines_tcp()) {
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

    /// Confines the calling process for good.
    pub(crate) fn enter(&mut self) -> io::Result<()> {
        if let Some(ruleset) = self.ruleset.take() {
            let status = ruleset.restrict_self().map_err(io::Error::other)?;
            if status.ruleset != RulesetStatus::FullyEnforced {
                return Err(io::Error::other("the kernel did not enforce the boundary"));
            }
        }
        sys::drop_capabilities()?;
        sys::install_filter(&mut self.filter)
    }
}

/// Whether this process holds itself to bounds.
static CONFINED: AtomicBool = AtomicBool::new(false);

/// Holds the calling thread, and whatever it starts from now on, to writing below some paths and to devices. Where the kernel
/// cannot, nothing happens.
pub fn confine_this_thread(writable: &[String]) -> io::Result<()> {
    if !Support::of_landlock().confines_files() {
        return Ok(());
    }
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_write(FILES_ABI))
        .and_then(Ruleset::create)
        .map_err(io::Error::other)?;
    let own = ["/dev/pts", "/dev/shm"];
    let paths = writable.iter().map(String::as_str).chain(DEVICES).chain(own);
    let ruleset = with_grants(ruleset, paths, FILES_ABI)?;
    witness::start();
    let status = ruleset.restrict_self().map_err(io::Error::other)?;
    if status.ruleset != RulesetStatus::FullyEnforced {
        return Err(io::Error::other("the kernel did not enforce the bounds"));
    }
    CONFINED.store(true, Ordering::Relaxed);
    Ok(())
}

/// Whether this process holds itself to bounds.
pub(crate) fn is_confined() -> bool {
    CONFINED.load(Ordering::Relaxed)
}

/// What is of a run's own where it has a view of its own.
const OWN_PLACES: [&str; 3] = ["/tmp", "/dev/shm", "/dev/pts"];

/// Puts the rules of Landlock together.
fn rules(confinement: &Confinement, support: Support, offline: bool) -> io::Result<RulesetCreated> {
    // An older interface than is needed is only used inside a view, which refuses the rest.
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
    if offline && support.confines_tcp() {
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
    // Browsers have a sandbox of their own, for which they map users.
    let own_processes =
        view.is_some_and(|view| view.pid) && confinement.unix_sockets == SocketAccess::Own;
    let layered = view.into_iter().flat_map(|view| &view.layered).map(|layer| &layer.target);
    let paths = confinement.writable.iter().chain(layered).map(String::as_str);
    let paths = paths.chain(DEVICES).chain(own).chain(own_processes.then_some("/proc"));
    with_grants(created, paths, abi)
}

/// Adds a rule for each path that is there.
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

/// Opens what is granted, if it is there. A link in the place of the last name grants nothing of what it leads to.
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
