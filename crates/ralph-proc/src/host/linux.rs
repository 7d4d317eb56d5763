//! Processes from `/proc`, and kernel features for a supervisor.

use std::fs;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::PathBuf;

use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{
    DumpableBehavior, Signal, set_child_subreaper, set_dumpable_behavior,
    set_parent_process_death_signal,
};

use super::ProcessStat;

/// How descriptors are sent and received.
pub(crate) const SEND: SendFlags = SendFlags::NOSIGNAL;
pub(crate) const RECEIVE: RecvFlags = RecvFlags::CMSG_CLOEXEC;

/// Makes orphaned descendants children of this process.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Makes the kernel kill this process when its parent dies.
pub(crate) fn end_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Prevents this process and its descendants from gaining privileges through set-uid programs.
pub(crate) fn refuse_new_privileges() -> io::Result<()> {
    Ok(rustix::thread::set_no_new_privs(true)?)
}

/// Prevents other processes of the same user from inspecting this one.
pub(crate) fn close_to_others() {
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Makes the kernel kill a process before others if memory runs out.
pub(crate) fn make_expendable(pid: i32) {
    let _ = fs::write(format!("/proc/{pid}/oom_score_adj"), "500");
}

/// Enlarges a pipe, if the user's quota allows.
pub(crate) fn grow_pipe(pipe: impl AsFd, size: usize) {
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, size);
}

/// The running program: not by its path, which an upgrade may have replaced.
#[expect(clippy::unnecessary_wraps, reason = "it can fail elsewhere")]
pub(crate) fn own_program() -> io::Result<PathBuf> {
    Ok(PathBuf::from("/proc/self/exe"))
}

/// Orphaned processes of a run: on Linux they are reparented to their guard.
#[derive(Debug)]
pub(crate) struct Strays;

impl Strays {
    pub(crate) fn of(_program: i32, _mark: Option<Vec<u8>>) -> Strays {
        Strays
    }

    #[expect(clippy::unused_self, reason = "elsewhere they are looked for")]
    pub(crate) fn find(&self) -> Vec<i32> {
        Vec::new()
    }
}

pub(super) fn read_boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// When the machine was started, in seconds.
pub(crate) fn boot_time() -> Option<i64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime ")?.parse().ok())
}

pub(crate) fn stat(pid: i32) -> Option<ProcessStat> {
    let mut file = fs::File::open(format!("/proc/{pid}/stat")).ok()?;
    // The kernel does not report its size: with enough capacity it is read at once.
    let mut text = String::with_capacity(1024);
    file.read_to_string(&mut text).ok()?;
    parse_stat(&text)
}

fn parse_stat(text: &str) -> Option<ProcessStat> {
    // The command name is in parentheses and may itself contain parentheses and blanks.
    let rest = text.get(text.rfind(')')? + 2..)?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    let zombie = matches!(state, "Z" | "X");
    let goes_on = !zombie && !matches!(state, "T" | "t");
    let parent = fields.next()?.parse().ok()?;
    let start = fields.nth(17)?.parse().ok()?;
    Some(ProcessStat { parent, start, zombie, goes_on })
}

/// All process ids there are.
pub(crate) fn all() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The live children of a process, from the kernel's own list if available.
pub(crate) fn listed_children(pid: i32) -> Option<Vec<i32>> {
    let mut children = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let path = task.ok()?.path().join("children");
        let list = fs::read_to_string(path).ok()?;
        children
            .extend(list.split_ascii_whitespace().filter_map(|child| child.parse::<i32>().ok()));
    }
    Some(children)
}

/// Whether the environment of a process has an entry.
pub(crate) fn environment_holds(pid: i32, wanted: &[u8]) -> bool {
    let Ok(file) = fs::File::open(format!("/proc/{pid}/environ")) else { return false };
    let mut environment = Vec::new();
    // The kernel bounds an environment only at slightly more than two megabytes.
    if file.take(4 << 20).read_to_end(&mut environment).is_err() {
        return false;
    }
    environment.split(|byte| *byte == 0).any(|entry| entry == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_cannot_forge_the_rest_of_its_line() {
        let tail = "S 12 2 3 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 99";
        let parsed = parse_stat(&format!("7 (a) R 1 1 (b)) {tail}")).unwrap();
        assert_eq!((parsed.parent, parsed.start, parsed.zombie), (12, 4242, false));
        assert!(parse_stat("7 (cut").is_none());
    }
}
