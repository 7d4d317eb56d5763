//! Linux namespaces: the mounts of a run, their order, and the probe.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::{Layered, NamespaceRefusal, NamespaceSupport, PROBE_WORD, SetupError, SetupStep, View};
use crate::sys;
use crate::sys::namespace::NamespaceFlags;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, open};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen,
    mount_change, move_mount, open_tree,
};

/// Adds the step and the path to an error.
trait At<T> {
    fn at(self, step: SetupStep) -> Result<T, SetupError>;
    fn on(self, step: SetupStep, path: &Path) -> Result<T, SetupError>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, step: SetupStep) -> Result<T, SetupError> {
        self.map_err(|source| SetupError { step, path: None, source: source.into() })
    }

    fn on(self, step: SetupStep, path: &Path) -> Result<T, SetupError> {
        self.map_err(|source| SetupError { step, path: Some(path.into()), source: source.into() })
    }
}

/// The uid and gid of the program: the same inside and outside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ids {
    user: u32,
    group: u32,
}

impl Ids {
    /// Must be read before the namespaces are created: in a new one no id is mapped at first.
    pub(crate) fn own() -> Ids {
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        Ids { user: user.as_raw(), group: group.as_raw() }
    }
}

impl SetupError {
    fn errno(&self) -> i32 {
        self.source.raw_os_error().unwrap_or(libc::EIO)
    }
}

/// Forks the calling process into the namespaces of a view. Returns `None` in the child, which must call [`enter`].
pub(crate) fn fork_into(view: &View) -> Result<Option<i32>, SetupError> {
    sys::namespace::fork_into(NamespaceFlags { pid: view.pid, net: view.net })
        .at(SetupStep::Namespaces)
}

/// Creates the view: mounts what must be visible, and drops the privileges needed for that.
///
/// The process must be the child of [`fork_into`].
pub(crate) fn enter(view: &View, writable: &[String], ids: Ids) -> Result<(), SetupError> {
    let Ids { user, group } = ids;
    fs::write("/proc/self/setgroups", "deny").at(SetupStep::Ids)?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1")).at(SetupStep::Ids)?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1")).at(SetupStep::Ids)?;
    let all = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", all).at(SetupStep::Mounts)?;
    // A working directory would bypass the mounts below.
    rustix::process::chdir("/").at(SetupStep::Mounts)?;
    let plan = Plan::of(view, writable);
    // Clones of writable paths are taken while that is possible.
    let mut mounts = Vec::new();
    for path in &plan.writable {
        if let Some(mount) = Mount::clone_of(path)? {
            mounts.push(mount);
        }
    }
    let tmp = Mount::clone_of(Path::new(&view.tmp))?;
    let layers = view.layered.iter().map(layer).collect::<Result<Vec<_>, _>>()?;
    let own_devices = if user == 0 { device_nodes()? } else { Vec::new() };
    let root = open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).at(SetupStep::ReadOnly)?;
    sys::namespace::make_read_only(root.as_fd()).at(SetupStep::ReadOnly)?;
    for path in &plan.shown {
        if let Some(mount) = Mount::clone_of(path)? {
            mounts.push(mount);
        }
    }
    // Before the devices are mounted over the place where they are made.
    let blank = Blank::new()?;
    let masks = blank.masks(view)?;
    let empty: Vec<Mount> =
        plan.emptied.iter().map(|path| blank.directory(path)).collect::<Result<_, _>>()?;
    devices(user == 0, &own_devices, &blank)?;
    if view.pid {
        processes(user == 0)?;
    }
    if let Some(mut tmp) = tmp {
        tmp.path = "/tmp".into();
        tmp.attach()?;
    }
    plan.attach(mounts, &empty)?;
    for (mount, target) in layers {
        attach(&mount, &target).on(SetupStep::Layers, &target)?;
    }
    for mask in masks {
        mask.attach()?;
    }
    if view.net {
        sys::namespace::bring_up_loopback().at(SetupStep::Network)?;
    }
    sys::linux::drop_capabilities().at(SetupStep::View)
}

/// A part of the file system to mount at a path.
struct Mount {
    path: PathBuf,
    tree: OwnedFd,
    is_directory: bool,
}

impl Mount {
    /// Clones what is at a path now, with all mounts below it; `None` if it does not exist.
    fn clone_of(path: &Path) -> Result<Option<Mount>, SetupError> {
        let opened = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
        let from = match opened {
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return Ok(None),
            opened => opened.on(SetupStep::View, path)?,
        };
        let kind = FileType::from_raw_mode(fstat(&from).on(SetupStep::View, path)?.st_mode);
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH
            | OpenTreeFlags::AT_RECURSIVE;
        let tree = open_tree(&from, "", flags).on(SetupStep::View, path)?;
        Ok(Some(Mount { path: path.to_owned(), tree, is_directory: kind.is_dir() }))
    }

    fn attach(&self) -> Result<(), SetupError> {
        attach(&self.tree, &self.path).on(SetupStep::View, &self.path)
    }
}

fn attach(mount: &OwnedFd, path: &Path) -> rustix::io::Result<()> {
    move_mount(mount, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

/// A file system created for this view and not mounted yet.
fn file_system(
    kind: &str,
    options: &[(&str, &str)],
    attributes: MountAttrFlags,
) -> rustix::io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in options {
        if value.is_empty() {
            fsconfig_set_flag(&context, *name)?;
        } else {
            fsconfig_set_string(&context, *name, *value)?;
        }
    }
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

const QUIET: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);

/// Creates an overlay over a directory, while both parts can still be written.
fn layer(layered: &Layered) -> Result<(OwnedFd, PathBuf), SetupError> {
    let upper = Path::new(&layered.upper);
    let [changes, work] = ["changes", "work"].map(|name| upper.join(name));
    for directory in [&changes, &work] {
        fs::create_dir_all(directory).on(SetupStep::Layers, directory)?;
    }
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let options = [
        ("lowerdir", layered.lower.clone()),
        ("upperdir", text(&changes)),
        ("workdir", text(&work)),
        ("userxattr", String::new()),
    ];
    let options = options.each_ref().map(|(name, value)| (*name, value.as_str()));
    let mount = file_system("overlay", &options, QUIET).on(SetupStep::Layers, upper)?;
    Ok((mount, PathBuf::from(&layered.target)))
}

/// The devices for root's runs: with a separate `/dev`, root cannot read disks.
const OWN_DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

fn device_nodes() -> Result<Vec<Mount>, SetupError> {
    let nodes = OWN_DEVICES.iter().map(|name| Mount::clone_of(&Path::new("/dev").join(name)));
    Ok(nodes.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// A file system in memory of which every new directory of a view is a part: to make one costs as much as many mounts.
struct Blank {
    place: &'static Path,
    made: std::cell::Cell<usize>,
}

impl Blank {
    fn new() -> Result<Blank, SetupError> {
        // Anywhere, as long as it is mounted over later.
        let place = ["/dev/shm", "/tmp"].map(Path::new).into_iter().find(|place| place.is_dir());
        let place = place.ok_or(io::ErrorKind::NotFound).at(SetupStep::View)?;
        let memory = file_system("tmpfs", &[("mode", "755")], QUIET).at(SetupStep::View)?;
        attach(&memory, place).on(SetupStep::View, place)?;
        Ok(Blank { place, made: std::cell::Cell::new(0) })
    }

    /// Makes an empty directory for a path, not mounted there yet.
    fn directory(&self, path: &Path) -> Result<Mount, SetupError> {
        self.directory_with(path, 0o755)
    }

    fn directory_with(&self, path: &Path, mode: u32) -> Result<Mount, SetupError> {
        let own = self.next();
        fs::create_dir(&own).on(SetupStep::View, path)?;
        // Whatever the mask of this process is.
        fs::set_permissions(&own, fs::Permissions::from_mode(mode)).on(SetupStep::View, path)?;
        Self::part(&own, path, true)
    }

    fn next(&self) -> PathBuf {
        self.made.set(self.made.get() + 1);
        self.place.join(self.made.get().to_string())
    }

    fn part(own: &Path, path: &Path, is_directory: bool) -> Result<Mount, SetupError> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = open_tree(CWD, own, flags).on(SetupStep::View, path)?;
        Ok(Mount { path: path.to_owned(), tree, is_directory })
    }

    /// Makes what cannot be opened, one for each hidden path.
    fn masks(&self, view: &View) -> Result<Vec<Mount>, SetupError> {
        let at = SetupStep::View;
        let found = |path| Some((path, fs::symlink_metadata(path).ok()?));
        let hidden = view.hidden.iter().map(Path::new).filter_map(found);
        let mut masks = Vec::new();
        let mut made: [Option<PathBuf>; 2] = [None, None];
        for (path, found) in hidden.filter(|(_, found)| !found.is_symlink()) {
            let kind = &mut made[usize::from(found.is_dir())];
            if kind.is_none() {
                let own = self.next();
                if found.is_dir() {
                    fs::DirBuilder::new().mode(0o000).create(&own).at(at)?;
                } else {
                    let mut file = fs::OpenOptions::new();
                    file.write(true).create_new(true).mode(0o000).open(&own).at(at)?;
                }
                *kind = Some(own);
            }
            let own = kind.as_deref().unwrap_or(self.place);
            let mask = Self::part(own, path, found.is_dir())?;
            seal(&mask.tree).on(at, path)?;
            masks.push(mask);
        }
        Ok(masks)
    }
}

/// Mounts shared memory and terminals of its own, for root all of `/dev`.
fn devices(is_root: bool, nodes: &[Mount], blank: &Blank) -> Result<(), SetupError> {
    let at = SetupStep::Devices;
    let memory = Path::new("/dev/shm");
    let has_memory = is_root || memory.is_dir();
    let memory = blank.directory_with(memory, 0o1777)?;
    let mut own = None;
    if is_root {
        let dev = blank.directory(Path::new("/dev"))?;
        dev.attach()?;
        for node in nodes {
            fs::File::create(&node.path).on(at, &node.path)?;
            node.attach()?;
        }
        for directory in ["/dev/shm", "/dev/pts"] {
            fs::create_dir(directory).on(at, Path::new(directory))?;
        }
        for (name, target) in [
            ("ptmx", "pts/ptmx"),
            ("fd", "/proc/self/fd"),
            ("stdin", "/proc/self/fd/0"),
            ("stdout", "/proc/self/fd/1"),
            ("stderr", "/proc/self/fd/2"),
        ] {
            symlink(target, Path::new("/dev").join(name)).at(at)?;
        }
        own = Some(dev.tree);
    }
    if has_memory {
        memory.attach()?;
    }
    let options = [("ptmxmode", "0666"), ("mode", "620")];
    let terminals = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let terminals = file_system("devpts", &options, terminals).on(at, Path::new("/dev/pts"))?;
    attach(&terminals, Path::new("/dev/pts")).on(at, Path::new("/dev/pts"))?;
    if let Some(dev) = own {
        seal(&dev).at(at)?;
    }
    Ok(())
}

/// Makes a mount read-only, but not those on top of it.
fn seal(mount: &OwnedFd) -> io::Result<()> {
    sys::namespace::make_this_read_only(mount.as_fd())
}

/// Files by which root could change the machine even without capabilities.
const MACHINE: [&str; 7] = ["sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi"];

/// Mounts `/proc` of the new namespace.
fn processes(is_root: bool) -> Result<(), SetupError> {
    let at = SetupStep::Processes;
    let proc = file_system("proc", &[], QUIET | MountAttrFlags::MOUNT_ATTR_NOEXEC).at(at)?;
    attach(&proc, Path::new("/proc")).at(at)?;
    for name in MACHINE.iter().filter(|_| is_root) {
        let path = Path::new("/proc").join(name);
        if let Some(mount) = Mount::clone_of(&path)? {
            sys::namespace::make_read_only(mount.tree.as_fd()).on(at, &path)?;
            mount.attach()?;
        }
    }
    Ok(())
}

/// Which paths are mounted, and where links lead to them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    emptied: Vec<PathBuf>,
    writable: Vec<PathBuf>,
    shown: Vec<PathBuf>,
    links: Vec<(PathBuf, PathBuf)>,
}

impl Plan {
    fn of(view: &View, writable: &[String]) -> Plan {
        let paths = |list: &[String]| -> Vec<PathBuf> { list.iter().map(PathBuf::from).collect() };
        let writable = paths(writable);
        let mut plan = Plan::default();
        // A directory that is granted as a whole is not emptied.
        let emptied = paths(&view.emptied).into_iter();
        plan.emptied = emptied
            .filter(|path| path.is_dir() && path.parent().is_some())
            .filter(|path| !writable.contains(path))
            .collect();
        plan.emptied.sort();
        plan.emptied.dedup();
        plan.writable = outermost(writable, &plan.emptied);
        let mut replaced = plan.emptied.clone();
        replaced.extend(["/tmp", "/dev/shm"].map(PathBuf::from));
        let is_replaced = |path: &Path| replaced.iter().any(|top| path.starts_with(top));
        let mut shown = Vec::new();
        let mut known = KnownLinks::default();
        for path in view.shown.iter().chain(&view.emptied).map(Path::new) {
            shown.extend(known.resolve(path, &is_replaced, &mut plan.links));
        }
        shown.retain(|path| is_replaced(path) && !plan.emptied.contains(path));
        plan.shown = outermost(shown, &plan.emptied);
        let Plan { emptied, writable, shown, .. } = &mut plan;
        shown.retain(|path| !writable.iter().any(|granted| is_within(path, granted, emptied)));
        plan.links.sort();
        plan.links.dedup();
        plan
    }

    /// Mounts everything, outer directories before inner ones.
    fn attach(&self, mut mounts: Vec<Mount>, empty: &[Mount]) -> Result<(), SetupError> {
        let at = SetupStep::View;
        mounts.sort_by(|a, b| a.path.cmp(&b.path));
        let mut mounts = mounts.into_iter().peekable();
        for nothing in empty {
            while let Some(mount) = mounts.next_if(|mount| mount.path < nothing.path) {
                place(&mount)?;
            }
            make_directory(&nothing.path).on(at, &nothing.path)?;
            nothing.attach()?;
        }
        for mount in mounts {
            place(&mount)?;
        }
        for (path, target) in &self.links {
            if fs::symlink_metadata(path).is_err() {
                path.parent().map_or(Ok(()), make_directory).on(at, path)?;
                symlink(target, path).on(at, path)?;
            }
        }
        for nothing in empty {
            seal(&nothing.tree).at(at)?;
        }
        Ok(())
    }
}

/// Mounts a part at its original path, in directories that may have been emptied.
fn place(mount: &Mount) -> Result<(), SetupError> {
    let path = &mount.path;
    if fs::symlink_metadata(path).is_err() {
        let made = if mount.is_directory {
            make_directory(path)
        } else {
            path.parent()
                .map_or(Ok(()), make_directory)
                .and_then(|()| fs::File::create(path).map(drop))
        };
        made.on(SetupStep::View, path)?;
    }
    mount.attach()
}

fn make_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(path)
}

/// Drops every path that is already included in another.
fn outermost(mut paths: Vec<PathBuf>, emptied: &[PathBuf]) -> Vec<PathBuf> {
    paths.sort();
    let mut kept: Vec<PathBuf> = Vec::new();
    for path in paths {
        if !kept.iter().any(|outer| is_within(&path, outer, emptied)) {
            kept.push(path);
        }
    }
    kept
}

/// Whether a path is below another, without an emptied directory between the two.
fn is_within(path: &Path, outer: &Path, emptied: &[PathBuf]) -> bool {
    let between = |empty: &PathBuf| empty.starts_with(outer) && path.starts_with(empty);
    path.starts_with(outer) && !emptied.iter().any(between)
}

/// What each path that was looked at leads to, if it is a link: many paths have their first parts in common.
#[derive(Default)]
struct KnownLinks(HashMap<PathBuf, Option<PathBuf>>);

impl KnownLinks {
    /// Follows the links on the way to a path: those in replaced directories have to be made again. `None` for a circle.
    fn resolve(
        &mut self,
        path: &Path,
        is_replaced: &dyn Fn(&Path) -> bool,
        links: &mut Vec<(PathBuf, PathBuf)>,
    ) -> Option<PathBuf> {
        const MOST: usize = 40;
        let mut path = path.to_owned();
        'again: for _ in 0..MOST {
            let mut so_far = PathBuf::new();
            for part in path.components() {
                so_far.push(part);
                let Some(target) = self.target(&so_far) else { continue };
                if is_replaced(&so_far) {
                    links.push((so_far.clone(), target.to_owned()));
                }
                let rest = path.strip_prefix(&so_far).unwrap_or(Path::new("")).to_owned();
                let target = target.to_owned();
                so_far.pop();
                path = normal(&so_far.join(target).join(rest));
                continue 'again;
            }
            return Some(path);
        }
        None
    }

    fn target(&mut self, path: &Path) -> Option<&Path> {
        if !self.0.contains_key(path) {
            self.0.insert(path.to_owned(), fs::read_link(path).ok());
        }
        self.0.get(path).and_then(Option::as_deref)
    }
}

/// Removes `..` from a path whose symlinks were resolved so far.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                normal.pop();
            }
            std::path::Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

/// Probes in a separate process which parts of the second layer this machine allows; once, because it costs a few
/// milliseconds.
pub(crate) fn probe() -> NamespaceSupport {
    static FOUND: std::sync::OnceLock<NamespaceSupport> = std::sync::OnceLock::new();
    *FOUND.get_or_init(ask)
}

fn ask() -> NamespaceSupport {
    let unknown = |errno| NamespaceSupport {
        refusal: Some(NamespaceRefusal { step: SetupStep::Probe, errno }),
        ..NamespaceSupport::default()
    };
    let asked = std::process::Command::new("/proc/self/exe")
        .args([crate::guard::WORD, PROBE_WORD])
        .stdin(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .output();
    match asked {
        Ok(answer) => serde_json::from_slice(&answer.stdout).unwrap_or(unknown(libc::ENOSYS)),
        Err(error) => unknown(error.raw_os_error().unwrap_or(libc::EIO)),
    }
}

/// Runs the probe and prints the result. Returns the exit code of the process.
pub(crate) fn serve_probe() -> i32 {
    let mut first = None;
    let mut support = NamespaceSupport::default();
    for (pid, net) in [(true, true), (true, false), (false, true), (false, false)] {
        match attempt(pid, net) {
            Ok(()) => {
                support = NamespaceSupport { mount: true, pid, net, refusal: first };
                break;
            }
            Err(refusal) => {
                let refusal = *first.get_or_insert(refusal);
                support.refusal = Some(refusal);
            }
        }
    }
    #[expect(clippy::disallowed_methods, reason = "the answer of this process")]
    let written = serde_json::to_writer(io::stdout(), &support);
    i32::from(written.is_err())
}

/// Sets everything up once, with nothing granted.
fn attempt(pid: bool, net: bool) -> Result<(), NamespaceRefusal> {
    let refused = |error: &SetupError| NamespaceRefusal { step: error.step, errno: error.errno() };
    let lost = |error: io::Error| NamespaceRefusal {
        step: SetupStep::Probe,
        errno: error.raw_os_error().unwrap_or(libc::EIO),
    };
    let view = View { tmp: "/tmp".to_owned(), pid, net, ..View::default() };
    let (mut ours, mut theirs) = std::os::unix::net::UnixStream::pair().map_err(lost)?;
    let ids = Ids::own();
    let Some(child) = fork_into(&view).map_err(|error| refused(&error))? else {
        drop(ours);
        let result = enter(&view, &[], ids).map_err(|error| refused(&error));
        let told = serde_json::to_writer(&mut theirs, &result.err());
        std::process::exit(i32::from(told.is_err()));
    };
    drop(theirs);
    let mut answer = Vec::new();
    let read = io::Read::read_to_end(&mut ours, &mut answer);
    let _ = rustix::process::waitpid(
        rustix::process::Pid::from_raw(child),
        rustix::process::WaitOptions::empty(),
    );
    read.map_err(lost)?;
    match serde_json::from_slice::<Option<NamespaceRefusal>>(&answer) {
        Ok(None) => Ok(()),
        Ok(Some(refusal)) => Err(refusal),
        Err(_) => Err(NamespaceRefusal { step: SetupStep::Probe, errno: libc::EIO }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_into_and_within_emptied_directories_are_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let home = top.join("home");
        fs::create_dir_all(home.join("dots/agent")).unwrap();
        fs::create_dir_all(top.join("outside")).unwrap();
        symlink("dots/agent", home.join(".agent")).unwrap();
        symlink(top.join("outside"), home.join("out")).unwrap();
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let view = View {
            emptied: vec![text(home.clone())],
            shown: vec![text(home.join(".agent")), text(home.join("out")), text(home.join("none"))],
            ..View::default()
        };
        let granted = [text(home.join("dots/agent/sessions")), text(home.join("dots/agent/x"))];
        let plan = Plan::of(&view, &granted);
        assert!(plan.shown.contains(&home.join("dots/agent")), "{plan:?}");
        assert_eq!(plan.writable.len(), 2);
        let links = [
            (home.join(".agent"), PathBuf::from("dots/agent")),
            (home.join("out"), top.join("outside")),
        ];
        assert_eq!(plan.links, links);
    }

    #[test]
    fn what_is_granted_whole_is_not_emptied_and_inner_paths_need_no_mount() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let view = View { emptied: vec![text(top.clone())], ..View::default() };
        let plan = Plan::of(&view, &[text(top.clone()), text(top.join("inner"))]);
        assert_eq!((plan.emptied, plan.writable), (Vec::new(), vec![top]));
    }

    #[test]
    fn names_that_begin_alike_are_not_below_each_other() {
        let paths = ["/a/b", "/a", "/ab", "/a/b/c"].map(PathBuf::from).to_vec();
        assert_eq!(outermost(paths.clone(), &[]), ["/a", "/ab"].map(PathBuf::from));
        let emptied = [PathBuf::from("/a/b")];
        assert_eq!(outermost(paths, &emptied), ["/a", "/a/b", "/a/b/c", "/ab"].map(PathBuf::from));
    }
}
