//! Checks of the machine: confining agents, tracking their processes, and disk space.

use std::fs;

use camino::Utf8Path;
use ralph_proc::namespace::{NamespaceRefusal, NamespaceSupport};
use ralph_proc::sandbox::Support;
use rustix::fs::{Access, StatVfs, StatVfsMountFlags, access, statvfs};

use super::{Area, Checkup, Finding};
use crate::config::{BoundaryMode, approximate_size};

/// With less than this, a build fills the disk.
const LEAST_SPACE: u64 = 1 << 30;

/// Fewer inodes than this are soon used up by a package manager.
const LEAST_FILES: u64 = 10_000;

pub(super) fn examine(checkup: &Checkup<'_>) -> Vec<Finding> {
    let mode = checkup.config.map_or(BoundaryMode::Auto, |config| config.boundary);
    let mut findings = examine_boundary(checkup.support, mode);
    findings.extend(examine_user());
    findings.extend(examine_processes());
    findings.push(examine_tracing(checkup.traces));
    findings.push(examine_space("the workspace", &checkup.workspace.root));
    match checkup.private_state {
        Ok(path) => {
            findings.push(examine_space("private state", path));
            findings.push(examine_state(path));
        }
        Err(error) => {
            let advice = "set `HOME`, or `XDG_STATE_HOME`, to an absolute path";
            findings.push(Finding::problem(Area::State, error.to_string(), advice));
        }
    }
    findings.push(examine_space("temporary files", checkup.temp));
    findings.push(examine_temp(checkup.temp));
    findings
}

/// Reports how new files are distinguished from configuration of the gates.
pub(super) fn examine_tracing(traces: bool) -> Finding {
    if traces {
        let what = "gates can be traced at the base: a new file that one of them looked for counts as its configuration";
        return Finding::ok(Area::Processes, what);
    }
    let what = "gates cannot be traced: any new file that is neither source nor documentation counts as configuration of theirs";
    let advice = "allow ptrace of own children (kernel.yama.ptrace_scope below 2; in a container, the seccomp profile)";
    Finding::note(Area::Processes, what, advice)
}

/// Reports the effect of the setting on this kernel.
pub(super) fn examine_boundary(support: Support, mode: BoundaryMode) -> Vec<Finding> {
    let upgrade = "use Linux 6.2 or later with Landlock enabled";
    let kernel = match support.landlock_abi {
        0 => "the kernel has no Landlock".to_owned(),
        abi => format!("the kernel has Landlock version {abi}"),
    };
    let holds = match mode {
        BoundaryMode::Off => {
            let what = "`boundary = \"off\"`: agents are not sandboxed";
            let advice = "set `boundary = \"auto\"`, unless something else sandboxes them";
            return vec![Finding::note(Area::Boundary, what, advice)];
        }
        BoundaryMode::Detect => {
            let what =
                "`boundary = \"detect\"`: forbidden changes are found after each run and reverted";
            let advice = if support.confines_files() {
                "set `boundary = \"auto\"` to have the kernel prevent it, which it can here"
            } else {
                upgrade
            };
            return vec![Finding::note(Area::Boundary, what, advice), unpromised()];
        }
        BoundaryMode::Strict | BoundaryMode::Kernel | BoundaryMode::Auto => support.confines(),
    };
    if !holds {
        if mode == BoundaryMode::Auto {
            let what =
                format!("{kernel}: forbidden changes are found after each run, not prevented");
            return vec![Finding::note(Area::Boundary, what, upgrade), unpromised()];
        }
        let setting = if mode == BoundaryMode::Strict { "strict" } else { "kernel" };
        let what = format!("{kernel}, and `boundary = \"{setting}\"` refuses to run without");
        let advice = format!("{upgrade}, or set `boundary = \"auto\"`");
        return vec![Finding::problem(Area::Boundary, what, advice)];
    }
    let files = format!("{kernel}: agents can only write where their role allows");
    let mut findings = vec![Finding::ok(Area::Boundary, files)];
    findings.push(if support.confines_signals() || support.namespaces.pid {
        Finding::ok(Area::Boundary, "agents cannot signal processes outside their run")
    } else {
        let what = "agents can signal other processes of yours";
        Finding::note(Area::Boundary, what, "use Linux 6.12 or later to have the kernel prevent it")
    });
    findings.push(examine_namespaces(support.namespaces, mode));
    findings
}

/// Lists what goes unprevented and unnoticed where changes are only found afterwards.
fn unpromised() -> Finding {
    let what = "without a kernel boundary agents and gates can, unnoticed: write outside the workspace, read whatever you can read, \
         signal your other processes, use unix sockets and your terminals, and reach the network even with `net = false`";
    let advice =
        "run Ralph where nothing else of yours is within reach: a container or a virtual machine";
    Finding::note(Area::Boundary, what, advice)
}

/// Says what there is of the second layer, and how to get the rest.
fn examine_namespaces(namespaces: NamespaceSupport, mode: BoundaryMode) -> Finding {
    let NamespaceSupport { mount, pid, net, refusal } = namespaces;
    let refusal = refusal.as_ref().map(NamespaceRefusal::to_string).unwrap_or_default();
    let lacking = match (mount, pid, net) {
        (true, true, true) => {
            let what = "agents run in namespaces and see only the parts of your home directory that they need";
            return Finding::ok(Area::Boundary, what);
        }
        (true, true, false) => format!("no network namespace for gates: {refusal}"),
        (true, false, _) => {
            format!("agents run in namespaces, but not in a pid namespace: {refusal}")
        }
        (false, ..) => {
            format!("no namespaces, so agents can read everything you can: {refusal}")
        }
    };
    let advice = remedy();
    if mode == BoundaryMode::Strict && !(mount && pid) {
        Finding::problem(Area::Boundary, lacking, advice)
    } else {
        Finding::note(Area::Boundary, lacking, advice)
    }
}

/// The usual reason why a process cannot create namespaces.
fn remedy() -> &'static str {
    let is =
        |path: &str, value: &str| fs::read_to_string(path).is_ok_and(|text| text.trim() == value);
    if is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        "AppArmor restricts them: allow `userns` to `ralph` in a profile, or set kernel.apparmor_restrict_unprivileged_userns to 0"
    } else if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        "set kernel.unprivileged_userns_clone to 1"
    } else if is("/proc/sys/user/max_user_namespaces", "0") {
        "set user.max_user_namespaces to a number above 0"
    } else {
        "in a container, allow user namespaces and mounts of /proc; else Landlock holds agents alone"
    }
}

/// Reports if Ralph runs as root: agents would be root as well.
fn examine_user() -> Option<Finding> {
    let what = "Ralph runs as root, so agents do too, without capabilities";
    let advice = "run it as an ordinary user if you can";
    let is_root = rustix::process::geteuid().is_root();
    is_root.then(|| Finding::note(Area::Boundary, what, advice))
}

#[cfg(target_os = "linux")]
fn examine_processes() -> Vec<Finding> {
    if let Err(errno) = rustix::process::child_subreaper() {
        let what = format!("the kernel does not let Ralph adopt what agents leave behind: {errno}");
        let advice = "check which seccomp filter Ralph runs under";
        return vec![Finding::problem(Area::Processes, what, advice)];
    }
    if !Utf8Path::new("/proc/self/stat").exists() {
        let advice = "mount it: without, Ralph cannot find an agent's processes";
        return vec![Finding::problem(Area::Processes, "/proc is not mounted", advice)];
    }
    let lists_children = Utf8Path::new("/proc/thread-self/children").exists();
    vec![if lists_children {
        let what = "every process that an agent starts is tracked and ended with its run";
        Finding::ok(Area::Processes, what)
    } else {
        let what = "the kernel has no child lists, so Ralph scans all processes to find an agent's";
        Finding::note(Area::Processes, what, "nothing needs to be done; ending a run takes longer")
    }]
}

#[cfg(not(target_os = "linux"))]
fn examine_processes() -> Vec<Finding> {
    let what = "an agent's processes are found by parent, session and environment: one that is orphaned, leaves its session and \
         clears its environment survives the run, and everything survives a SIGKILL of Ralph and its guard until the next start";
    vec![Finding::note(Area::Processes, what, "run Ralph on Linux for the full guarantee")]
}

/// Reports the free space at an existing or future path.
fn examine_space(name: &str, path: &Utf8Path) -> Finding {
    let place = existing(path);
    match statvfs(place.as_std_path()) {
        Ok(space) => judge_space(name, path, &space),
        Err(errno) => Finding::problem(
            Area::Disk,
            format!("the disk of {name}, `{path}`, cannot be examined: {errno}"),
            "check that the path exists and its permissions",
        ),
    }
}

pub(super) fn judge_space(name: &str, path: &Utf8Path, space: &StatVfs) -> Finding {
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let what = format!("{} free for {name}, `{path}`", approximate_size(free));
    if space.f_flag.contains(StatVfsMountFlags::RDONLY) {
        let what = format!("the disk of {name}, `{path}`, is mounted read-only");
        return Finding::problem(Area::Disk, what, "mount it writable, or work elsewhere");
    }
    if free < LEAST_SPACE {
        let advice = format!("free some space: at least {}", approximate_size(LEAST_SPACE));
        return Finding::problem(Area::Disk, what, advice);
    }
    // Some file systems allocate inodes dynamically and report no total.
    if space.f_files > 0 && space.f_favail < LEAST_FILES {
        let what = format!("room for only {} more files for {name}, `{path}`", space.f_favail);
        return Finding::problem(Area::Disk, what, "remove files that are not needed");
    }
    Finding::ok(Area::Disk, what)
}

fn examine_state(path: &Utf8Path) -> Finding {
    let place = existing(path);
    match access(place.as_std_path(), Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) if place.is_dir() => {
            Finding::ok(Area::State, format!("private state is kept in `{path}`"))
        }
        Ok(()) => {
            let what =
                format!("private state cannot be kept in `{path}`: `{place}` is not a directory");
            Finding::problem(Area::State, what, "move it away, or set `XDG_STATE_HOME`")
        }
        Err(errno) => {
            let what = format!("private state cannot be kept in `{path}`: {errno}");
            let advice = format!("make `{place}` writable, or set `XDG_STATE_HOME`");
            Finding::problem(Area::State, what, advice)
        }
    }
}

fn examine_temp(path: &Utf8Path) -> Finding {
    let problem = |why: String| {
        let what = format!("temporary files cannot be made in `{path}`: {why}");
        Finding::problem(Area::Temp, what, "set `TMPDIR` to a directory of yours")
    };
    match fs::metadata(path) {
        Err(error) => return problem(error.to_string()),
        Ok(found) if !found.is_dir() => return problem("it is not a directory".to_owned()),
        Ok(_) => {}
    }
    if let Err(errno) = access(path.as_std_path(), Access::WRITE_OK | Access::EXEC_OK) {
        return problem(errno.to_string());
    }
    if refuses_programs(path) {
        let what = format!("programs in `{path}` cannot be executed");
        let advice = "set `TMPDIR` to another directory if builds or tests run programs from it";
        return Finding::note(Area::Temp, what, advice);
    }
    Finding::ok(Area::Temp, format!("temporary files are made in `{path}`"))
}

/// Tells whether the file system that a path is on executes no programs.
#[cfg(target_os = "linux")]
fn refuses_programs(path: &Utf8Path) -> bool {
    let flags = statvfs(path.as_std_path()).map(|space| space.f_flag);
    flags.is_ok_and(|flags| flags.contains(StatVfsMountFlags::NOEXEC))
}

/// Not told here.
#[cfg(target_os = "macos")]
fn refuses_programs(_path: &Utf8Path) -> bool {
    false
}

/// Returns the path, or the nearest directory above it that is there.
fn existing(path: &Utf8Path) -> &Utf8Path {
    path.ancestors().find(|path| path.exists()).unwrap_or(path)
}
