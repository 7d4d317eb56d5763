//! A checkout made ready for gates: at the commit, clean, set up.
//!
//! It is reset before every single run, so that nothing one gate leaves reaches the next but the named caches, and at a
//! candidate not even these, unless the person wants it ([`super::kept_caches`]). `setup` runs
//! when the checkout is new, when a lock file or the commands changed, and whenever the reset removed its results:
//! a project that wants it to run once lists those in `cache`. It may use the network and is confined otherwise, as it runs
//! code of the commit (install scripts). Submodules and LFS files come from the person's own repository before it, and
//! those that neither filled keep the gates from running.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::gate::{CacheMode, GateRun, GateSpec, GateStatus, Obstacle};
use ralph_model::journal::{JournalEvent, SetupStarted};
use ralph_proc::trace::Looked;

use super::kept_caches::{KeptCaches, SetUp};
use super::pin::PinnedGates;
use super::runner::{self, CommandEnd, Done, Job};
use super::{GateContext, GateError, GateRepository, Tell};
use crate::boundary::{CacheSet, InForce, prepare_layer, prepare_set};
use crate::digest;
use crate::files::{create_private_directory, read_optional, remove_optional, replace_unsynced};
use crate::git::checkout::{Checkout, CheckoutError, FillSource};
use crate::git::copied::bring_copies;
use crate::git::{Oid, shown};

const SETUP_TIMEOUT: Duration = Duration::from_mins(30);
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/v1\n";
/// A pointer of LFS is smaller than this.
const LFS_POINTER_CAP: u64 = 1024;
const LARGEST_POINTER: usize = 1024;

/// One checkout, used for one commit after the other.
pub(super) struct Workbench<'a> {
    context: &'a GateContext<'a>,
    repository: &'a GateRepository,
    setup: &'a [Vec<String>],
    caches: Vec<Utf8PathBuf>,
    dir: Utf8PathBuf,
    /// Where the caches of accepted commits are, of which each run gets a copy. Without it they stay in the tree.
    kept: Option<KeptCaches>,
    /// What was set up in the tree, where caches are copied.
    set_up: Option<SetUp>,
    /// The caches that runs found filled.
    found_warm: Vec<Utf8PathBuf>,
    /// The checkout, once it is ready.
    checkout: Option<Checkout>,
    /// Whether what toolchains fetch here is kept for others: only at a base.
    keeps_fetched: bool,
}

impl<'a> Workbench<'a> {
    /// Takes the checkout of this name, in which caches stay from one run to the next. Runs of candidates never share one
    /// with those of bases: their code could leave something in a cache that makes the base fail.
    pub(super) fn new(
        context: &'a GateContext<'a>,
        repository: &'a GateRepository,
        pinned: &'a PinnedGates,
        name: &str,
    ) -> Workbench<'a> {
        let caches = pinned.caches.iter().map(|cache| repository.prefix.join(cache)).collect();
        let dir = repository.directory.join("checkouts").join(name);
        let setup = &pinned.setup;
        Workbench {
            context,
            repository,
            setup,
            caches,
            dir,
            kept: None,
            set_up: None,
            found_warm: Vec::new(),
            checkout: None,
            keeps_fetched: false,
        }
    }

    /// Opens the checkout of this name for unaccepted code.
    pub(super) fn for_candidate(
        context: &'a GateContext<'a>,
        repository: &'a GateRepository,
        pinned: &'a PinnedGates,
        name: &str,
    ) -> Workbench<'a> {
        let bench = match pinned.cache {
            CacheMode::Cold => return Workbench::cold(context, repository, pinned, name),
            CacheMode::Warm | CacheMode::Accepted => {
                Workbench::new(context, repository, pinned, name)
            }
        };
        let is_copied = pinned.cache == CacheMode::Accepted && bench.has_caches();
        let kept = is_copied.then(|| KeptCaches::new(&bench.dir));
        Workbench { kept, ..bench }
    }

    /// Has it keep what toolchains fetch in it.
    pub(super) fn keeping_fetched(self) -> Workbench<'a> {
        Workbench { keeps_fetched: true, ..self }
    }

    /// Makes the toolchains' caches ready for `setup` at a commit; returns where they are. A candidate has a layer that goes
    /// with it.
    fn caches_of_setup(&self, commit: &Oid) -> Result<Utf8PathBuf, GateError> {
        let Some(set) = self.caches_to_layer()? else { return Ok(self.set()) };
        let (layer, note) = self.fetched();
        if !self.is_fetched_at(commit)? {
            remove_optional(&note)?;
            create_private_directory(&self.dir)?;
            prepare_layer(&layer, &set).map_err(GateError::Prepare)?;
            replace_unsynced(&note, commit.as_str().as_bytes())?;
        }
        Ok(layer)
    }

    /// Makes the toolchains' caches ready for a gate at a commit; returns where they are. At a candidate it is a layer over
    /// those of `setup` that goes with the run, so that no gate finds what another one left.
    fn caches_of_gate(&self, commit: &Oid) -> Result<Utf8PathBuf, GateError> {
        let Some(set) = self.caches_to_layer()? else { return Ok(self.set()) };
        let below = if self.is_fetched_at(commit)? { self.fetched().0 } else { set };
        let layer = self.dir.join("fetched-by-gate");
        create_private_directory(&self.dir)?;
        prepare_layer(&layer, &below).map_err(GateError::Prepare)?;
        Ok(layer)
    }

    fn set(&self) -> Utf8PathBuf {
        CacheSet::Gates.directory(self.context.state.directory())
    }

    /// Returns the set over which layers are made; `None` if it is used itself.
    fn caches_to_layer(&self) -> Result<Option<Utf8PathBuf>, GateError> {
        if self.context.boundary == InForce::Off {
            return Ok(None);
        }
        let set = self.set();
        let env = |name: &str| self.context.environment.text(name);
        prepare_set(&set, &env).map_err(GateError::Prepare)?;
        Ok((!self.keeps_fetched).then_some(set))
    }

    /// Returns the layer that `setup` writes, and the file that names its commit.
    fn fetched(&self) -> (Utf8PathBuf, Utf8PathBuf) {
        (self.dir.join("fetched"), self.dir.join("fetched.commit"))
    }

    fn is_fetched_at(&self, commit: &Oid) -> Result<bool, GateError> {
        let (layer, note) = self.fetched();
        let last = read_optional(&note)?;
        Ok(last.as_deref() == Some(commit.as_str().as_bytes()) && layer.is_dir())
    }

    /// Takes the checkout of this name without any cache.
    pub(super) fn cold(
        context: &'a GateContext<'a>,
        repository: &'a GateRepository,
        pinned: &'a PinnedGates,
        name: &str,
    ) -> Workbench<'a> {
        Workbench { caches: Vec::new(), ..Workbench::new(context, repository, pinned, name) }
    }

    /// Returns the caches that runs found filled, as they are named.
    pub(super) fn found_warm(&self) -> &[Utf8PathBuf] {
        &self.found_warm
    }

    pub(super) fn has_caches(&self) -> bool {
        !self.caches.is_empty()
    }

    /// Whether a run finds what an earlier run at the same commit left in the caches.
    pub(super) fn shares_caches(&self) -> bool {
        self.has_caches() && self.kept.is_none()
    }

    /// Empties the caches that stay in the tree.
    pub(super) fn forget_caches(&self, commit: &Oid) -> Result<(), GateError> {
        Checkout::prepare(&self.repository.mirror, &self.dir, commit, &[])?;
        Ok(())
    }

    /// Takes over what accepted commits left in the caches, and removes what others left.
    pub(super) fn settle_caches(
        &self,
        is_accepted: &dyn Fn(&Oid) -> bool,
    ) -> Result<(), GateError> {
        Ok(self.kept.as_ref().map_or(Ok(()), |kept| kept.settle(is_accepted))?)
    }

    /// Runs a gate at a commit.
    pub(super) fn run(
        &mut self,
        gate: &GateSpec,
        commit: &Oid,
        tell: Tell<'_>,
    ) -> Result<GateRun, GateError> {
        self.run_as(gate, commit, false, tell).map(|(run, _)| run)
    }

    /// Runs a gate at a commit; returns what it looked for as well, where that can be told.
    pub(super) fn run_traced(
        &mut self,
        gate: &GateSpec,
        commit: &Oid,
        tell: Tell<'_>,
    ) -> Result<(GateRun, Option<Looked>), GateError> {
        self.run_as(gate, commit, true, tell)
    }

    fn run_as(
        &mut self,
        gate: &GateSpec,
        commit: &Oid,
        traced: bool,
        tell: Tell<'_>,
    ) -> Result<(GateRun, Option<Looked>), GateError> {
        let obstacle = self.make_ready(Some(&gate.name), commit, tell)?;
        let tree = self.dir.join("tree");
        let tree = tree.canonicalize_utf8().unwrap_or(tree);
        let cwd = tree.join(&self.repository.prefix);
        let caches = self.caches_of_gate(commit)?;
        let job = Job {
            caches: &caches,
            argv: gate.argv(),
            cwd: &cwd,
            tree: &tree,
            timeout: gate.timeout,
            net: gate.net,
            unix: gate.unix,
            traced,
            commit: commit.as_str(),
            name: &gate.name,
        };
        let done = match obstacle {
            None => runner::run(self.context, &job)?,
            Some(obstacle) => runner::not_run(self.context, &job, obstacle)?,
        };
        if let Some(kept) = &self.kept {
            kept.keep(&gate.name, &tree, &self.caches, commit, self.set_up.take())?;
        }
        let Done { ended, tests, duration, output, looked } = done;
        let status = match ended {
            CommandEnd::Exited(exit) => GateStatus::of(exit, tests.counts),
            CommandEnd::TimedOut => GateStatus::TimedOut,
            CommandEnd::CouldNotRun(obstacle) => GateStatus::CouldNotRun { obstacle },
        };
        let rewrote = match &self.checkout {
            Some(checkout) if status == GateStatus::Passed => checkout.rewritten()?,
            _ => Vec::new(),
        };
        let rewrote = rewrote.iter().map(|path| shown(path)).collect();
        let run =
            GateRun { status, tests: tests.counts, names: tests.names, rewrote, duration, output };
        Ok((run, looked))
    }

    /// Resets the checkout to a commit and sets it up for a gate; returns what keeps gates from running in it.
    fn make_ready(
        &mut self,
        gate: Option<&str>,
        commit: &Oid,
        tell: Tell<'_>,
    ) -> Result<Option<Obstacle>, GateError> {
        Checkout::check_cache_names(&self.caches)?;
        self.checkout = None;
        let stay: &[Utf8PathBuf] = if self.kept.is_some() { &[] } else { &self.caches };
        let prepared = Checkout::prepare(&self.repository.mirror, &self.dir, commit, stay);
        let checkout = match prepared {
            Ok(checkout) => checkout,
            Err(error) => return obstacle(error).map(Some),
        };
        let warm = match (&self.kept, gate) {
            (Some(kept), Some(gate)) => {
                let brought = kept.bring(gate, commit, checkout.worktree(), &self.caches)?;
                self.set_up = brought.1;
                brought.0
            }
            _ => checkout.warm_caches().to_vec(),
        };
        for cache in &warm {
            if !self.found_warm.contains(cache) {
                self.found_warm.push(cache.clone());
            }
        }
        if !checkout.worktree().join(&self.repository.prefix).is_dir() {
            let message = format!("the commit has no directory `{}`", self.repository.prefix);
            return Ok(Some(Obstacle::Setup { message }));
        }
        let clone = self.repository.is_slot().then(|| &*self.repository.git.place().git_dir);
        let source =
            FillSource { mirror: &self.repository.mirror, person: &self.repository.person, clone };
        let unfilled = match checkout.fill(&source) {
            Ok(unfilled) => unfilled,
            Err(error) => {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
                let message = format!("{error}{}", cause.unwrap_or_default());
                return Ok(Some(Obstacle::Machine { message }));
            }
        };
        if let Some(person) = &self.repository.person.place().worktree
            && let Err(error) = bring_copies(person, checkout.worktree(), &self.copied()?)
        {
            return obstacle(CheckoutError::Files(error)).map(Some);
        }
        let is_filled = unfilled.submodules.is_empty() && unfilled.lfs.is_empty();
        let problem = match self.set_up(&checkout, &warm, is_filled, tell)? {
            None => self.unfilled(&checkout)?,
            problem => problem,
        };
        self.checkout = Some(checkout);
        Ok(problem)
    }

    /// Returns the ignored files of the person's that come along.
    fn copied(&self) -> Result<Vec<PathBuf>, GateError> {
        Ok(self.repository.copied(self.context.copy)?.files)
    }

    /// Runs `setup` where it is needed; returns what went wrong. What is not filled yet it may fetch.
    fn set_up(
        &mut self,
        checkout: &Checkout,
        warm: &[Utf8PathBuf],
        is_filled: bool,
        tell: Tell<'_>,
    ) -> Result<Option<Obstacle>, GateError> {
        if self.setup.is_empty() {
            return Ok(None);
        }
        let provision = checkout.provision();
        let key = digest::of_data(&(&provision.setup_key, self.setup, &self.caches));
        let last = self.last_set_up()?;
        let still_there = last
            .is_some_and(|last| last.key == key && last.caches.iter().all(|it| warm.contains(it)));
        if still_there && is_filled {
            return Ok(None);
        }
        self.note_set_up(None)?;
        let place = SetupPlace {
            directory: &checkout.worktree().join(&self.repository.prefix),
            tree: checkout.worktree(),
            commit: checkout.commit(),
            caches: &self.caches_of_setup(checkout.commit())?,
        };
        if let Some(problem) = run_setup(self.context, self.setup, &place, tell)? {
            return Ok(Some(problem));
        }
        // It runs code of the commit, which must not change what is judged. A file of LFS may be filled in.
        let mirror = self.repository.mirror.git();
        let is_pointer = |path: &Path| {
            provision.needs_lfs
                && mirror.files_at(&[(checkout.commit(), path)], LARGEST_POINTER).is_ok_and(
                    |found| found.into_iter().flatten().any(|text| text.starts_with(LFS_POINTER)),
                )
        };
        if let Err(error) = checkout.put_tracked_back(&is_pointer) {
            return Ok(Some(Obstacle::Setup { message: error.to_string() }));
        }
        if !checkout.has_additions(&self.caches, &self.copied()?)? {
            let is_there = |cache: &&Utf8PathBuf| checkout.worktree().join(cache).is_dir();
            let caches = self.caches.iter().filter(is_there).cloned().collect();
            let done = SetUp { key, caches };
            if let Some(kept) = &self.kept {
                kept.keep_set_up(checkout.worktree(), &self.caches, checkout.commit(), &done)?;
            }
            self.note_set_up(Some(done))?;
        }
        Ok(None)
    }

    /// Returns what was set up last in the caches that are there.
    fn last_set_up(&self) -> Result<Option<SetUp>, GateError> {
        if self.kept.is_some() {
            return Ok(self.set_up.clone());
        }
        let text = read_optional(&self.setup_record())?;
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }

    fn note_set_up(&mut self, done: Option<SetUp>) -> Result<(), GateError> {
        if self.kept.is_some() {
            self.set_up = done;
            return Ok(());
        }
        let Some(done) = done else { return Ok(remove_optional(&self.setup_record())?) };
        let text = serde_json::to_vec(&done).expect("it is plain data");
        Ok(replace_unsynced(&self.setup_record(), &text)?)
    }

    fn setup_record(&self) -> Utf8PathBuf {
        self.dir.join("setup.json")
    }

    /// Returns what the commit has only a reference to, and `setup` did not fill in.
    fn unfilled(&self, checkout: &Checkout) -> Result<Option<Obstacle>, GateError> {
        let provision = checkout.provision();
        let tree = checkout.worktree().as_std_path();
        let mirror = self.repository.mirror.git();
        for submodule in &provision.submodules {
            let filled =
                fs::read_dir(tree.join(submodule)).is_ok_and(|mut found| found.next().is_some());
            if !filled {
                let name = submodule.display();
                let declared = mirror.file_at(checkout.commit(), Path::new(".gitmodules"))?;
                let message = if is_declared(&declared.unwrap_or_default(), submodule) {
                    format!(
                        "the submodule `{name}` is empty, because your repository lacks its commit; `git submodule update \
                         --init --recursive` fetches it"
                    )
                } else {
                    format!(
                        "`{name}` is a repository of its own, committed without its files, and `.gitmodules` does not say \
                         where it is from"
                    )
                };
                return Ok(Some(Obstacle::Unfilled { message }));
            }
        }
        if !provision.needs_lfs {
            return Ok(None);
        }
        for entry in mirror.tree(checkout.commit())? {
            let path = tree.join(&entry.path);
            if is_lfs_pointer(&path) {
                let name = entry.path.display();
                let message = format!(
                    "`{name}` is an LFS pointer, because your repository lacks its content; `git lfs pull` fetches it"
                );
                return Ok(Some(Obstacle::Setup { message }));
            }
        }
        Ok(None)
    }
}

/// Whether a `.gitmodules` has an entry with the path of a submodule.
fn is_declared(modules: &[u8], submodule: &Path) -> bool {
    String::from_utf8_lossy(modules).lines().any(|line| {
        line.split_once('=').is_some_and(|(key, value)| {
            key.trim() == "path" && Path::new(value.trim().trim_matches('"')) == submodule
        })
    })
}

/// Where `setup` runs.
pub(crate) struct SetupPlace<'a> {
    /// The directory used in place of the workspace.
    pub(crate) directory: &'a Utf8Path,
    /// What it may write.
    pub(crate) tree: &'a Utf8Path,
    pub(crate) commit: &'a Oid,
    /// Where toolchains have their caches, which it may write.
    pub(crate) caches: &'a Utf8Path,
}

/// Runs the commands of `setup`, one after the other; returns what went wrong with one. A fault of the machine stays one.
pub(crate) fn run_setup(
    context: &GateContext<'_>,
    setup: &[Vec<String>],
    place: &SetupPlace<'_>,
    tell: Tell<'_>,
) -> Result<Option<Obstacle>, GateError> {
    for argv in setup {
        tell(JournalEvent::from(SetupStarted {
            item: context.item.map(str::to_owned),
            commit: place.commit.to_string(),
            argv: argv.clone(),
        }))?;
        let job = Job {
            caches: place.caches,
            argv,
            cwd: place.directory,
            tree: place.tree,
            timeout: SETUP_TIMEOUT,
            net: true,
            unix: false,
            traced: false,
            commit: place.commit.as_str(),
            name: "setup",
        };
        let done = runner::run(context, &job)?;
        let why = match done.ended {
            CommandEnd::Exited(exit) if exit.is_success() => continue,
            CommandEnd::Exited(exit) => exit.to_string(),
            CommandEnd::TimedOut => "timed out".to_owned(),
            CommandEnd::CouldNotRun(
                obstacle @ (Obstacle::Machine { .. } | Obstacle::NoProgram { .. }),
            ) => return Ok(Some(obstacle)),
            CommandEnd::CouldNotRun(obstacle) => obstacle.to_string(),
        };
        let command = argv.join(" ");
        let said = telling(&runner::recent_output(context, &job, &done.output)?);
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        return Ok(Some(Obstacle::Setup { message: format!("`{command}`: {why}{said}") }));
    }
    Ok(None)
}

/// Picks the lines that say what went wrong: a package manager ends with where its log is. Without any, the last line.
fn telling(output: &str) -> String {
    const SIGNS: [&str; 5] = ["error", "err!", "fatal", "not found", "cannot"];
    const MOST: usize = 3;
    let says_why = |line: &&str| {
        let line = line.to_ascii_lowercase();
        let says_more = line.split_whitespace().count() > 2 && !line.contains("complete log");
        says_more && SIGNS.iter().any(|sign| line.contains(sign))
    };
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let causes: Vec<&str> = lines.iter().copied().filter(says_why).take(MOST).collect();
    match lines.last() {
        Some(last) if causes.is_empty() => (*last).to_owned(),
        _ => causes.join("; "),
    }
}

/// A checkout for a verifier to look around and build in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VerifierCheckout {
    /// All of it, which the verifier may write.
    pub tree: Utf8PathBuf,
    /// The path of the workspace inside it.
    pub directory: Utf8PathBuf,
}

/// Makes the verifier's checkout ready at a commit. It is reset for each verification; no gate ever runs in it. What keeps
/// it from being set up is the verifier's to see: it can still read.
pub(crate) fn checkout_for_verifier(
    context: &GateContext<'_>,
    repository: &GateRepository,
    pinned: &PinnedGates,
    commit: &Oid,
    tell: Tell<'_>,
) -> Result<VerifierCheckout, GateError> {
    // What an earlier candidate left in a cache must not mislead it.
    let mut bench = match pinned.cache {
        CacheMode::Warm => Workbench::new(context, repository, pinned, "verifier"),
        CacheMode::Accepted | CacheMode::Cold => {
            Workbench::cold(context, repository, pinned, "verifier")
        }
    };
    bench.make_ready(None, commit, tell)?;
    let tree = bench.dir.join("tree");
    let tree = tree.canonicalize_utf8().unwrap_or(tree);
    let inside = tree.join(&repository.prefix);
    let directory = if inside.is_dir() { inside } else { tree.clone() };
    Ok(VerifierCheckout { tree, directory })
}

fn is_lfs_pointer(path: &std::path::Path) -> bool {
    let small = fs::symlink_metadata(path)
        .is_ok_and(|found| found.is_file() && found.len() <= LFS_POINTER_CAP);
    let mut start = [0; LFS_POINTER.len()];
    small
        && File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok()
        && start == LFS_POINTER
}

/// Distinguishes problems of the commit or the machine from those the person must fix.
fn obstacle(error: CheckoutError) -> Result<Obstacle, GateError> {
    let with_cause = |error: &CheckoutError| {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
        format!("{error}{}", cause.unwrap_or_default())
    };
    Ok(match error {
        CheckoutError::CacheName { .. } => return Err(error.into()),
        CheckoutError::Incomplete { .. } | CheckoutError::UnsafeTree { .. } => {
            Obstacle::Setup { message: with_cause(&error) }
        }
        CheckoutError::Files(_) | CheckoutError::Git { .. } => {
            Obstacle::Machine { message: with_cause(&error) }
        }
    })
}

/// Returns the file that keeps two Ralphs from using one checkout.
pub(super) fn lock_file(directory: &Utf8Path) -> Utf8PathBuf {
    directory.join("gates.lock")
}

#[cfg(test)]
mod tests {
    use super::telling;

    #[test]
    fn of_a_failed_setup_the_lines_that_say_why_are_shown() {
        let npm = "npm error code EUSAGE\nnpm error\n\nnpm error `npm ci` needs a lock file\n\
                   npm error A complete log of this run can be found in: x.log\n";
        let said = "npm error code EUSAGE; npm error `npm ci` needs a lock file";
        assert_eq!(telling(npm), said);
        assert_eq!(telling("one\ntwo\n"), "two");
        assert_eq!(telling(""), "");
    }
}
