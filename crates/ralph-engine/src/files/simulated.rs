//! An in-memory disk, the process that uses it, and injected faults: for tests only.
//!
//! It belongs to the thread that installed it and serves all paths below [`ROOT`]. Every change to it, and every call
//! of [`effect`], is a counted effect; a [`PlannedFault`] strikes after an effect. A killed process leaves the disk as
//! all processes saw it. A power failure keeps only what was synced: synced contents, and names in synced directories.
//! Of the rest, name changes survive up to some point, in order and each atomically, and contents survive completely,
//! partly or not at all, at random.
//!
//! Simplified: directories are durable once created, and there are no links or permissions.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::panic::resume_unwind;
use std::rc::Rc;

use camino::Utf8Path;
use jiff::{SignedDuration, Timestamp};
use ralph_proc::tree::ProcessIdentity;

use super::disk::{DiskEntry, FileKind, Found};
use super::parent;

/// The root of the simulated disk.
pub(crate) const ROOT: &str = "/simulated";

/// The panic payload that unwinds the stack of a dying process.
pub(crate) struct Died;

/// A fault of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Kill,
    PowerLoss,
    /// This many writes find the disk full.
    Full {
        writes: u32,
    },
    /// The next access fails.
    Failing,
    /// The clock is set.
    Jump {
        seconds: i64,
    },
    /// A person interrupts.
    Interrupt,
    /// A person does something beside the process: what, is up to the story.
    Person {
        act: usize,
    },
}

/// A fault, and after how many effects of the process it strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlannedFault {
    pub(crate) after: u64,
    pub(crate) fault: Fault,
}

/// Pseudo-random numbers from a seed.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) const fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// The `SplitMix64` algorithm.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below another.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % (end.max(1) as u64)).unwrap_or(0)
    }

    /// Returns true with this probability, in percent.
    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.below(from.len())]
    }
}

/// The durable part of a file's content.
#[derive(Clone, Debug)]
enum Synced {
    /// Its first bytes, with their current values.
    Start(usize),
    Other(Vec<u8>),
}

#[derive(Clone, Debug)]
struct Inode {
    content: Vec<u8>,
    synced: Synced,
    /// Incremented by every change on the disk.
    changed: u64,
    locked_by: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Directory(usize),
    File(usize),
}

/// A name change that is not durable yet.
#[derive(Clone, Debug)]
enum NameChange {
    Set { name: String, node: Node },
    Remove { name: String },
    Rename { from: String, to: String, node: Node },
}

impl NameChange {
    fn is_in(&self, directory: &str) -> bool {
        let within = |name: &str| parent(Utf8Path::new(name)) == directory;
        match self {
            NameChange::Set { name, .. } | NameChange::Remove { name } => within(name),
            NameChange::Rename { from, to, .. } => within(from) || within(to),
        }
    }

    fn apply(&self, names: &mut BTreeMap<String, Node>) {
        match self {
            NameChange::Set { name, node } => drop(names.insert(name.clone(), *node)),
            NameChange::Remove { name } => drop(names.remove(name)),
            NameChange::Rename { from, to, node } => {
                names.remove(from);
                names.insert(to.clone(), *node);
            }
        }
    }
}

/// The disk, with the process that uses it.
struct Disk {
    inodes: Vec<Inode>,
    names: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
    unsynced: Vec<NameChange>,
    chance: Chance,
    changes: u64,
    handles: u64,
    now: Timestamp,
    monotonic: u64,
    process: i32,
    effects: u64,
    faults: Vec<PlannedFault>,
    full: u32,
    failing: bool,
    interrupted: bool,
    /// What a person does now.
    acts: Vec<usize>,
    /// How the process died, until the next one starts.
    dead: Option<Fault>,
    log: Option<Vec<String>>,
}

thread_local! {
    static DISK: RefCell<Option<Disk>> = const { RefCell::new(None) };
    static PERSON: RefCell<Option<Person>> = const { RefCell::new(None) };
}

/// Does what a [`Fault::Person`] names.
pub(crate) type Person = Rc<dyn Fn(usize)>;

/// Has a person act beside the processes of this thread's disk.
pub(crate) fn attend(person: Person) {
    PERSON.set(Some(person));
}

fn with<T>(use_it: impl FnOnce(&mut Disk) -> T) -> T {
    DISK.with_borrow_mut(|disk| use_it(disk.as_mut().expect("a simulated disk is installed")))
}

/// Whether a path is on the simulated disk.
pub(super) fn serves(path: &Utf8Path) -> bool {
    path.as_str().starts_with(ROOT)
}

/// Installs an empty disk for this thread.
pub(crate) fn install(seed: u64, now: Timestamp) {
    let mut names = BTreeMap::new();
    names.insert(ROOT.to_owned(), Node::Directory(0));
    let root = Inode { content: vec![], synced: Synced::Start(0), changed: 0, locked_by: None };
    let disk = Disk {
        inodes: vec![root],
        durable: names.clone(),
        names,
        unsynced: Vec::new(),
        chance: Chance::new(seed),
        changes: 0,
        handles: 0,
        now,
        monotonic: 0,
        process: 1,
        effects: 0,
        faults: Vec::new(),
        full: 0,
        failing: false,
        interrupted: false,
        acts: Vec::new(),
        dead: None,
        log: None,
    };
    DISK.set(Some(disk));
}

/// Removes the disk.
pub(crate) fn uninstall() {
    DISK.set(None);
    PERSON.set(None);
}

/// Whether this thread has a simulated disk.
pub(crate) fn is_installed() -> bool {
    DISK.with_borrow(Option::is_some)
}

/// Starts another process with these faults. If the last one lost power, so did the disk.
pub(crate) fn start_process(mut faults: Vec<PlannedFault>) {
    faults.sort_by_key(|planned| std::cmp::Reverse(planned.after));
    with(|disk| {
        if disk.dead == Some(Fault::PowerLoss) {
            disk.lose_power();
        }
        disk.inodes.iter_mut().for_each(|inode| inode.locked_by = None);
        disk.process += 1;
        disk.effects = 0;
        disk.faults = faults;
        (disk.full, disk.failing, disk.interrupted, disk.dead) = (0, false, false, None);
    });
}

/// Ends the current process: no fault strikes until the next one starts.
pub(crate) fn end_process() {
    with(|disk| {
        disk.faults.clear();
        (disk.full, disk.failing, disk.interrupted) = (0, false, false);
    });
}

/// Returns the number of effects of the process so far.
pub(crate) fn effects() -> u64 {
    with(|disk| disk.effects)
}

/// Logs every effect from now on.
pub(crate) fn keep_log() {
    with(|disk| disk.log = Some(Vec::new()));
}

/// Adds a line to the log of effects.
pub(crate) fn note(line: impl FnOnce() -> String) {
    with(|disk| disk.note(line));
}

/// Returns the log of effects.
pub(crate) fn take_log() -> Vec<String> {
    with(|disk| disk.log.take().unwrap_or_default())
}

/// The identity of the simulated process, if there is one.
pub(super) fn process() -> Option<ProcessIdentity> {
    DISK.with_borrow(|disk| {
        let disk = disk.as_ref()?;
        Some(ProcessIdentity { pid: disk.process, start: 1, boot: "simulated".to_owned() })
    })
}

/// A random number of the simulation, if there is one.
pub(crate) fn random() -> Option<u64> {
    DISK.with_borrow_mut(|disk| Some(disk.as_mut()?.chance.next()))
}

/// The time of the simulated clock.
pub(crate) fn now() -> Timestamp {
    with(|disk| disk.now)
}

pub(crate) fn monotonic() -> u64 {
    with(|disk| disk.monotonic)
}

/// Advances the clock.
pub(crate) fn pass(duration: SignedDuration) {
    with(|disk| {
        disk.now = disk.now.saturating_add(duration).unwrap_or(disk.now);
        disk.monotonic += u64::try_from(duration.as_millis()).unwrap_or(0);
    });
}

/// Whether a person has interrupted the process; resets it.
pub(crate) fn take_interrupt() -> bool {
    with(|disk| std::mem::take(&mut disk.interrupted))
}

/// Counts an effect; if a fault kills the process now, this does not return.
pub(crate) fn effect(what: impl FnOnce() -> String) {
    effect_on_disk(|_| what());
}

fn effect_on_disk(what: impl FnOnce(&Disk) -> String) {
    let (dies, acts) = with(|disk| (disk.count(what), std::mem::take(&mut disk.acts)));
    for act in acts {
        let person = PERSON.with_borrow(Clone::clone);
        unharmed(|| person.iter().for_each(|person| person(act)));
    }
    if dies {
        resume_unwind(Box::new(Died));
    }
}

/// Lets another process act without faults: a person's own.
pub(crate) fn unharmed<T>(act: impl FnOnce() -> T) -> T {
    let saved = with(|disk| {
        let faults = std::mem::take(&mut disk.faults);
        let harm = (disk.full, disk.failing, disk.interrupted, disk.effects);
        (disk.full, disk.failing) = (0, false);
        (faults, harm)
    });
    let result = act();
    with(|disk| {
        let (faults, harm) = saved;
        disk.faults = faults;
        (disk.full, disk.failing, disk.interrupted, disk.effects) = harm;
    });
    result
}

/// Writes or removes a file on behalf of another process: durably, and without faults.
pub(crate) fn put(path: &Utf8Path, content: Option<&[u8]>) {
    with(|disk| {
        let Some(content) = content else {
            disk.names.remove(path.as_str());
            disk.durable.remove(path.as_str());
            return;
        };
        disk.make_directories(parent(path));
        disk.changes += 1;
        let inode = Inode {
            content: content.to_vec(),
            synced: Synced::Start(content.len()),
            changed: disk.changes,
            locked_by: None,
        };
        disk.inodes.push(inode);
        let node = Node::File(disk.inodes.len() - 1);
        disk.names.insert(path.to_string(), node);
        disk.durable.insert(path.to_string(), node);
    });
}

/// Reads a file, regardless of the state of the process.
pub(crate) fn get(path: &Utf8Path) -> Option<Vec<u8>> {
    with(|disk| match disk.names.get(path.as_str())? {
        Node::File(inode) => Some(disk.inodes[*inode].content.clone()),
        Node::Directory(_) => None,
    })
}

/// Calls a function for each file below a directory, with its relative path: content, inode, and change counter. The
/// directory's path may end in a slash, as one does to which an empty name was joined.
pub(crate) fn each_file_below(directory: &Utf8Path, mut take: impl FnMut(&str, &[u8], (u64, u64))) {
    with(|disk| {
        let start = format!("{}/", directory.as_str().trim_end_matches('/'));
        for (name, node) in disk.names.range(start.clone()..) {
            let Some(below) = name.strip_prefix(&start) else { break };
            if let Node::File(number) = node {
                let inode = &disk.inodes[*number];
                take(below, &inode.content, (*number as u64, inode.changed));
            }
        }
    });
}

impl Disk {
    fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(line());
        }
    }

    /// Counts an effect. Returns whether the process dies of it.
    fn count(&mut self, what: impl FnOnce(&Disk) -> String) -> bool {
        if self.dead.is_some() {
            return false;
        }
        self.effects += 1;
        self.now = self.now.saturating_add(SignedDuration::from_millis(1)).unwrap_or(self.now);
        self.monotonic += 1;
        let number = self.effects;
        if self.log.is_some() {
            let line = format!("{number:>5} {}", what(self));
            self.note(|| line);
        }
        while let Some(planned) = self.faults.pop_if(|planned| planned.after <= number) {
            self.note(|| format!("      ! {:?}", planned.fault));
            match planned.fault {
                Fault::Kill | Fault::PowerLoss => {
                    self.dead = Some(planned.fault);
                    return true;
                }
                Fault::Full { writes } => self.full = writes,
                Fault::Failing => self.failing = true,
                Fault::Interrupt => self.interrupted = true,
                Fault::Person { act } => self.acts.push(act),
                Fault::Jump { seconds } => {
                    let span = SignedDuration::from_secs(seconds);
                    self.now = self.now.saturating_add(span).unwrap_or(self.now);
                }
            }
        }
        false
    }

    /// Refuses operations of a dead process, and those that fail by a fault.
    fn allow(&mut self) -> io::Result<()> {
        if self.dead.is_some() || std::mem::take(&mut self.failing) {
            return Err(io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error()));
        }
        Ok(())
    }

    fn node(&self, path: &Utf8Path) -> io::Result<Node> {
        self.names.get(path.as_str()).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn name_of(&self, inode: usize) -> &str {
        let found = self.names.iter().find(|(_, node)| **node == Node::File(inode));
        found.map_or("a file without a name", |(name, _)| name)
    }

    fn make_directories(&mut self, path: &Utf8Path) {
        if !serves(path) || self.names.contains_key(path.as_str()) {
            return;
        }
        self.make_directories(parent(path));
        let inode =
            Inode { content: vec![], synced: Synced::Start(0), changed: 0, locked_by: None };
        self.inodes.push(inode);
        let node = Node::Directory(self.inodes.len() - 1);
        self.names.insert(path.to_string(), node);
        self.durable.insert(path.to_string(), node);
    }

    fn change_names(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.unsynced.push(change);
    }

    fn lose_power(&mut self) {
        let kept = self.chance.below(self.unsynced.len() + 1);
        for change in self.unsynced.drain(..).take(kept) {
            change.apply(&mut self.durable);
        }
        self.names = self.durable.clone();
        for inode in &mut self.inodes {
            let synced = match &inode.synced {
                Synced::Start(length) if *length == inode.content.len() => continue,
                Synced::Start(length) => &inode.content[..*length],
                Synced::Other(content) => content,
            };
            let content = match self.chance.below(3) {
                0 => synced.to_vec(),
                1 => inode.content.clone(),
                _ => {
                    // A prefix of the new content reached the disk; the rest is the old content, or missing.
                    let cut = self.chance.below(inode.content.len() + 1);
                    let mut content = inode.content[..cut].to_vec();
                    content.extend_from_slice(synced.get(cut..).unwrap_or_default());
                    content
                }
            };
            inode.synced = Synced::Start(content.len());
            inode.content = content;
        }
    }
}

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    Existing,
    New,
    Create,
    Append,
    Directory,
}

/// An open file on the disk.
#[derive(Debug)]
pub(crate) struct SimulatedFile {
    inode: usize,
    handle: u64,
    appends: bool,
    is_directory: bool,
    at: Cell<u64>,
}

pub(super) fn open(path: &Utf8Path, opening: Opening) -> io::Result<SimulatedFile> {
    let (file, made) = with(|disk| {
        disk.allow()?;
        let found = disk.names.get(path.as_str()).copied();
        let (inode, made) = match (found, opening) {
            (Some(Node::File(_)), Opening::New) => {
                return Err(io::Error::from(io::ErrorKind::AlreadyExists));
            }
            (Some(Node::File(inode)), _) => (inode, false),
            (Some(Node::Directory(inode)), Opening::Existing | Opening::Directory) => {
                (inode, false)
            }
            (Some(Node::Directory(_)), _) => return Err(io::ErrorKind::IsADirectory.into()),
            (None, Opening::Existing | Opening::Directory) => {
                return Err(io::ErrorKind::NotFound.into());
            }
            (None, _) => {
                disk.node(parent(path))?;
                disk.changes += 1;
                disk.inodes.push(Inode {
                    content: Vec::new(),
                    synced: Synced::Start(0),
                    changed: disk.changes,
                    locked_by: None,
                });
                let inode = disk.inodes.len() - 1;
                let (name, node) = (path.to_string(), Node::File(inode));
                disk.change_names(NameChange::Set { name, node });
                (inode, true)
            }
        };
        disk.handles += 1;
        let appends = opening == Opening::Append;
        let is_directory = matches!(found, Some(Node::Directory(_)));
        let at = Cell::new(0);
        let file = SimulatedFile { inode, handle: disk.handles, appends, is_directory, at };
        Ok((file, made))
    })?;
    if made {
        effect(|| format!("create {path}"));
    }
    Ok(file)
}

pub(super) fn look(path: &Utf8Path) -> io::Result<Found> {
    with(|disk| {
        disk.allow()?;
        Ok(match disk.node(path)? {
            Node::Directory(_) => Found::simulated(FileKind::Directory, 0),
            Node::File(inode) => {
                Found::simulated(FileKind::File, disk.inodes[inode].content.len() as u64)
            }
        })
    })
}

pub(super) fn list(path: &Utf8Path) -> io::Result<Vec<DiskEntry>> {
    with(|disk| {
        disk.allow()?;
        disk.node(path)?;
        let start = format!("{path}/");
        let mut listed = Vec::new();
        for (name, node) in disk.names.range(start.clone()..) {
            let Some(below) = name.strip_prefix(&start) else { break };
            if below.contains('/') {
                continue;
            }
            let kind = match node {
                Node::Directory(_) => FileKind::Directory,
                Node::File(_) => FileKind::File,
            };
            listed.push(DiskEntry { name: below.into(), kind: Ok(kind) });
        }
        Ok(listed)
    })
}

pub(super) fn rename(from: &Utf8Path, to: &Utf8Path) -> io::Result<()> {
    with(|disk| {
        disk.allow()?;
        let node = disk.node(from)?;
        disk.node(parent(to))?;
        let (from, to) = (from.to_string(), to.to_string());
        disk.change_names(NameChange::Rename { from, to, node });
        Ok::<(), io::Error>(())
    })?;
    effect(|| format!("rename {from} to {to}"));
    Ok(())
}

pub(super) fn remove_file(path: &Utf8Path) -> io::Result<()> {
    with(|disk| {
        disk.allow()?;
        disk.node(path)?;
        disk.change_names(NameChange::Remove { name: path.to_string() });
        Ok::<(), io::Error>(())
    })?;
    effect(|| format!("remove {path}"));
    Ok(())
}

pub(super) fn create_directories(path: &Utf8Path) -> io::Result<()> {
    with(|disk| {
        disk.allow()?;
        disk.make_directories(path);
        Ok(())
    })
}

pub(super) fn sync_directory(path: &Utf8Path) -> io::Result<()> {
    with(|disk| {
        disk.allow()?;
        let Disk { unsynced, durable, .. } = disk;
        unsynced.retain(|change| {
            let is_in = change.is_in(path.as_str());
            if is_in {
                change.apply(durable);
            }
            !is_in
        });
        Ok::<(), io::Error>(())
    })?;
    effect(|| format!("sync {path}/"));
    Ok(())
}

impl SimulatedFile {
    pub(super) fn found(&self) -> io::Result<Found> {
        with(|disk| {
            disk.allow()?;
            let length = disk.inodes[self.inode].content.len() as u64;
            let kind = if self.is_directory { FileKind::Directory } else { FileKind::File };
            Ok(Found::simulated(kind, length))
        })
    }

    pub(super) fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        with(|disk| {
            disk.allow()?;
            let content = &disk.inodes[self.inode].content;
            let rest = content.get(usize::try_from(offset).unwrap_or(usize::MAX)..);
            let rest = rest.unwrap_or_default();
            let read = rest.len().min(bytes.len());
            bytes[..read].copy_from_slice(&rest[..read]);
            Ok(read)
        })
    }

    /// Writes at an offset, or after the previous write. On a full disk only a part is written.
    pub(super) fn write(&self, bytes: &[u8], offset: Option<u64>) -> io::Result<()> {
        let full = with(|disk| {
            disk.allow()?;
            let full = disk.full > 0;
            disk.full = disk.full.saturating_sub(1);
            let bytes = if full { &bytes[..bytes.len() / 2] } else { bytes };
            disk.changes += 1;
            let inode = &mut disk.inodes[self.inode];
            inode.changed = disk.changes;
            let at = match offset {
                Some(offset) => usize::try_from(offset).unwrap_or(0),
                None if self.appends => inode.content.len(),
                None => usize::try_from(self.at.get()).unwrap_or(0),
            };
            inode.keep_synced(at);
            let end = at + bytes.len();
            if inode.content.len() < end {
                inode.content.resize(end, 0);
            }
            inode.content[at..end].copy_from_slice(bytes);
            if offset.is_none() {
                self.at.set(end as u64);
            }
            Ok::<bool, io::Error>(full)
        })?;
        let inode = self.inode;
        effect_on_disk(|disk| format!("write {} bytes to {}", bytes.len(), disk.name_of(inode)));
        if full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    pub(super) fn set_length(&self, length: u64) -> io::Result<()> {
        with(|disk| {
            disk.allow()?;
            let length = usize::try_from(length).unwrap_or(0);
            let inode = &mut disk.inodes[self.inode];
            inode.keep_synced(length);
            inode.content.resize(length, 0);
            Ok(())
        })
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        with(|disk| {
            disk.allow()?;
            let inode = &mut disk.inodes[self.inode];
            inode.synced = Synced::Start(inode.content.len());
            Ok::<(), io::Error>(())
        })?;
        effect_on_disk(|disk| format!("sync {}", disk.name_of(self.inode)));
        Ok(())
    }

    pub(super) fn try_lock(&self) -> bool {
        with(|disk| {
            let locked_by = &mut disk.inodes[self.inode].locked_by;
            let is_free = locked_by.is_none_or(|handle| handle == self.handle);
            if is_free {
                *locked_by = Some(self.handle);
            }
            is_free
        })
    }

    pub(super) fn unlock(&self) {
        DISK.with_borrow_mut(|disk| {
            let inode = disk.as_mut().and_then(|disk| disk.inodes.get_mut(self.inode));
            if let Some(inode) = inode.filter(|inode| inode.locked_by == Some(self.handle)) {
                inode.locked_by = None;
            }
        });
    }
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        self.unlock();
    }
}

impl Inode {
    /// Saves the durable content before the bytes after an offset change.
    fn keep_synced(&mut self, from: usize) {
        if let Synced::Start(length) = self.synced
            && from < length
        {
            self.synced = Synced::Other(self.content[..length].to_vec());
        }
    }
}

#[cfg(test)]
#[path = "simulated_tests.rs"]
mod tests;
