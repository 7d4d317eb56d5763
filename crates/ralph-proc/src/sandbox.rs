//! The kernel boundary: Landlock for files and signals, a small seccomp filter for sockets.
//!
//! Confinement fails closed: a process that cannot be confined as asked is not started. Reading stays open; only
//! writing, renaming, linking, truncating and removing are limited, to the paths that are named. Landlock never covers
//! metadata (mode, times), so whoever cares for those compares them afterwards.

use std::io;
use std::process::{Command, ExitStatus};

use landlock::{
    ABI, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::fs::{FileType, fstat};
use serde::{Deserialize, Serialize};

use crate::command::CommandSpec;
use crate::sys;

/// What a confined process may do beyond reading.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Files and directories (with all below them) that may be changed. Paths that do not exist grant nothing.
    pub writable: Vec<String>,
    /// Whether it may open unix sockets: they lead to daemons that act outside the boundary (docker, D-Bus, agents of
    /// ssh and gpg).
    pub unix_sockets: bool,
    /// Whether TCP connections are refused, those to this machine included, where the kernel can (Landlock ABI 4). UDP is
    /// not covered, and listening is left alone: nobody inside could connect to it.
    #[serde(default)]
    pub deny_tcp: bool,
}

/// The devices that every program expects to be able to write to.
const DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];

/// The write rights that are handled: those of the oldest kernel interface that also covers truncation.
const FILES_ABI: ABI = ABI::V3;

/// What this machine's kernel can hold an agent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Support {
    /// The version of the Landlock interface; 0 where there is none.
    pub landlock_abi: i32,
}

impl Support {
    /// Asks the running kernel.
    pub fn probe() -> Support {
        Support { landlock_abi: sys::landlock_abi() }
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
/// The calling process must have a single thread: the child confines itself between fork and exec.
pub fn run_in_foreground(spec: &CommandSpec) -> io::Result<ExitStatus> {
    let mut confinement = spec.confinement.as_ref().map(Prepared::new).transpose()?;
    let mut command = Command::new(&spec.program);
    command.args(&spec.args).current_dir(&spec.cwd).env_clear();
    command.envs(spec.env.iter().map(|(name, value)| (name, value)));
    sys::before_exec(&mut command, move || {
        rustix::thread::set_no_new_privs(true)?;
        confinement.as_mut().map_or(Ok(()), Prepared::enter)
    });
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGQUIT] {
        // The terminal sends them to both, and the program decides what they mean. A handler is not inherited.
        let _ = signal_hook::flag::register(signal, std::sync::Arc::default());
    }
    command.status()
}

/// A ruleset that is ready to be entered by the child, prepared while errors can still be told.
pub(crate) struct Prepared {
    ruleset: Option<RulesetCreated>,
    deny_unix_sockets: bool,
}

impl Prepared {
    pub(crate) fn new(confinement: &Confinement) -> io::Result<Prepared> {
        let support = Support::probe();
        if !support.confines_files() {
            return Err(io::Error::other(
                "the kernel cannot confine files (Landlock ABI 3 needed)",
            ));
        }
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_write(FILES_ABI))
            .map_err(io::Error::other)?;
        if confinement.deny_tcp && support.confines_tcp() {
            ruleset = ruleset.handle_access(AccessNet::ConnectTcp).map_err(io::Error::other)?;
        }
        if support.confines_signals() {
            ruleset = ruleset.scope(Scope::Signal).map_err(io::Error::other)?;
        }
        let mut created = ruleset.create().map_err(io::Error::other)?;
        let writable = confinement.writable.iter().map(String::as_str);
        for path in writable.chain(DEVICES).chain(["/dev/shm"]) {
            let Ok(beneath) = PathFd::new(path) else { continue };
            let kind = FileType::from_raw_mode(fstat(&beneath)?.st_mode);
            let rights = if kind.is_dir() {
                AccessFs::from_write(FILES_ABI)
            } else {
                AccessFs::from_write(FILES_ABI) & AccessFs::from_file(FILES_ABI)
            };
            created =
                created.add_rule(PathBeneath::new(beneath, rights)).map_err(io::Error::other)?;
        }
        Ok(Prepared { ruleset: Some(created), deny_unix_sockets: !confinement.unix_sockets })
    }

    /// Confines the calling process for good.
    pub(crate) fn enter(&mut self) -> io::Result<()> {
        if let Some(ruleset) = self.ruleset.take() {
            let status = ruleset.restrict_self().map_err(io::Error::other)?;
            if status.ruleset != RulesetStatus::FullyEnforced {
                return Err(io::Error::other("the kernel did not enforce the boundary"));
            }
        }
        if self.deny_unix_sockets {
            sys::deny_unix_sockets()?;
        }
        Ok(())
    }
}
