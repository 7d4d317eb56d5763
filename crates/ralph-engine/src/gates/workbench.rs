//! A checkout made ready for gates: at the commit, clean, set up.
//!
//! It is reset before every single run, so that nothing one gate leaves reaches the next but the named caches. `setup` runs
//! when the checkout is new, when a lock file or the commands changed, and whenever the reset removed its results:
//! a project that wants it to run once lists those in `cache`. It may use the network and is confined otherwise, as it runs
//! code of the commit (install scripts). Submodules and LFS files come from the person's own repository before it, and
//! those that neither filled keep the gates from running.

use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::gate::{GateRun, GateSpec, GateStatus, Obstacle};
use ralph_model::journal::{JournalEvent, SetupStarted};
use ralph_proc::trace::Looked;
use serde::{Deserialize, Serialize};

use super::pin::PinnedGates;
use super::runner::{self, CommandEnd, Done, Job};
use super::{GateContext, GateError, GateRepository, Tell};
use crate::boundary::{CacheSet, InForce, prepare_layer, prepare_set};
use crate::digest;
use crate::files::{create_private_directory, read_optional, remove_optional, replace_unsynced};
use crate::git::Oid;
use crate::git::checkout::{Checkout, CheckoutError, FillSource};
use crate::git::copied::bring_copies;

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
    /// The caches that the first run found filled.
    found_warm: Option<Vec<Utf8PathBuf>>,
    /// Whether what toolchains fetch here is kept for others: only at a base.
    keeps_fetched: bool,
}

/// What the last complete `setup` was, and what it left in the caches.
#[derive(Serialize, Deserialize)]
struct SetUp {
    key: String,
    caches: Vec<Utf8PathBuf>,
}

impl<'a> Workbench<'a> {
    /// Takes the checkout of this name. Runs of candidates never share one with those of bases: their code could leave
    /// something in a cache that makes the base fail.
    pub(super) fn new(
        context: &'a GateContext<'a>,
        repository: &'a GateRepository,
        pinned: &'a PinnedGates,
        name: &str,
    ) -> Workbench<'a> {
        let caches = pinned.caches.iter().map(|cache| repository.prefix.join(cache)).collect();
        let dir = repository.directory.join("checkouts").join(name);
        let setup = &pinned.setup;
        let (found_warm, keeps_fetched) = (None, false);
        Workbench { context, repository, setup, caches, dir, found_warm, keeps_fetched }
    }

    /// Has it keep what toolchains fetch in it.
    pub(super) fn keeping_fetched(self) -> Workbench<'a> {
        Workbench { keeps_fetched: true, ..self }
    }

    /// Makes the toolchains' caches ready for a commit; returns where they are. A candidate has a layer that goes with it.
    fn toolchain_caches(&self, commit: &Oid) -> Result<Utf8PathBuf, GateError> {
        let set = CacheSet::Gates.directory(self.context.state.directory());
        if self.context.boundary == InForce::Off {
            return Ok(set);
        }
        let env = |name: &str| self.context.environment.text(name);
        prepare_set(&set, &env).map_err(GateError::Prepare)?;
        if self.keeps_fetched {
            return Ok(set);
        }
        let (layer, note) = (self.dir.join("fetched"), self.dir.join("fetched.commit"));
        let last = read_optional(&note)?;
        if last.as_deref() != Some(commit.as_str().as_bytes()) || !layer.is_dir() {
            remove_optional(&note)?;
            create_private_directory(&self.dir)?;
            prepare_layer(&layer, &set).map_err(GateError::Prepare)?;
            replace_unsynced(&note, commit.as_str().as_bytes())?;
        }
        Ok(layer)
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

    /// Returns the caches that the first run found filled, as they are named.
    pub(super) fn found_warm(&self) -> &[Utf8PathBuf] {
        self.found_warm.as_deref().unwrap_or_default()
    }

    pub(super) fn has_caches(&self) -> bool {
        !self.caches.is_empty()
    }

    /// Empties the caches.
    pub(super) fn forget_caches(&self, commit: &Oid) -> Result<(), GateError> {
        Checkout::prepare(&self.repository.mirror, &self.dir, commit, &[])?;
        Ok(())
    }

    /// Returns the commit whose code has run with the caches last.
    pub(super) fn last_filler(&self) -> Result<Option<Oid>, GateError> {
        Ok(read_optional(&self.filler())?.and_then(|text| Oid::parse(&text)))
    }

    pub(super) fn note_filler(&self, commit: &Oid) -> Result<(), GateError> {
        create_private_directory(&self.dir)?;
        Ok(replace_unsynced(&self.filler(), commit.as_str().as_bytes())?)
    }

    fn filler(&self) -> Utf8PathBuf {
        self.dir.join("caches.commit")
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
        let obstacle = self.make_ready(commit, tell)?;
        let tree = self.dir.join("tree");
        let tree = tree.canonicalize_utf8().unwrap_or(tree);
        let cwd = tree.join(&self.repository.prefix);
        let caches = self.toolchain_caches(commit)?;
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
        let Done { ended, tests, duration, output, looked } = done;
        let status = match ended {
            CommandEnd::Exited(exit) => GateStatus::of(exit, tests.counts),
            CommandEnd::TimedOut => GateStatus::TimedOut,
            CommandEnd::CouldNotRun(obstacle) => GateStatus::CouldNotRun { obstacle },
        };
        let run = GateRun { status, tests: tests.counts, names: tests.names, duration, output };
        Ok((run, looked))
    }

    /// Resets the checkout to a commit and sets it up; returns what keeps gates from running in it.
    fn make_ready(&mut self, commit: &Oid, tell: Tell<'_>) -> Result<Option<Obstacle>, GateError> {
        let prepared = Checkout::prepare(&self.repository.mirror, &self.dir, commit, &self.caches);
        let checkout = match prepared {
            Ok(checkout) => checkout,
            Err(error) => return obstacle(error).map(Some),
        };
        if self.found_warm.is_none() {
            self.found_warm = Some(checkout.warm_caches().to_vec());
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
        let problem = match self.set_up(&checkout, is_filled, tell)? {
            None => self.unfilled(&checkout)?,
            problem => problem,
        };
        Ok(problem.map(|message| Obstacle::Setup { message }))
    }

    /// Returns the ignored files of the person's that come along.
    fn copied(&self) -> Result<Vec<PathBuf>, GateError> {
        Ok(self.repository.copied(self.context.copy)?.files)
    }

    /// Runs `setup` where it is needed; returns what went wrong. What is not filled yet it may fetch.
    fn set_up(
        &self,
        checkout: &Checkout,
        is_filled: bool,
        tell: Tell<'_>,
    ) -> Result<Option<String>, GateError> {
        if self.setup.is_empty() {
            return Ok(None);
        }
        let provision = checkout.provision();
        let key = digest::of_data(&(&provision.setup_key, self.setup, &self.caches));
        let record = self.dir.join("setup.json");
        let last: Option<SetUp> =
            read_optional(&record)?.and_then(|text| serde_json::from_slice(&text).ok());
        let still_there = last.is_some_and(|last| {
            let warm = |cache: &Utf8PathBuf| checkout.warm_caches().contains(cache);
            last.key == key && last.caches.iter().all(warm)
        });
        if still_there && is_filled {
            return Ok(None);
        }
        remove_optional(&record)?;
        let place = SetupPlace {
            directory: &checkout.worktree().join(&self.repository.prefix),
            tree: checkout.worktree(),
            commit: checkout.commit(),
            caches: &self.toolchain_caches(checkout.commit())?,
        };
        if let Some(problem) = run_setup(self.context, self.setup, &place, tell)? {
            return Ok(Some(problem));
        }
        // It runs code of the commit, which must not change what is judged. A file of LFS may be filled in.
        let mirror = self.repository.mirror.git();
        let is_pointer = |path: &std::path::Path| {
            provision.needs_lfs
                && mirror.files_at(&[(checkout.commit(), path)], LARGEST_POINTER).is_ok_and(
                    |found| found.into_iter().flatten().any(|text| text.starts_with(LFS_POINTER)),
                )
        };
        if let Err(error) = checkout.put_tracked_back(&is_pointer) {
            return Ok(Some(error.to_string()));
        }
        if !checkout.has_additions(&self.caches, &self.copied()?)? {
            let is_there = |cache: &&Utf8PathBuf| checkout.worktree().join(cache).is_dir();
            let caches = self.caches.iter().filter(is_there).cloned().collect();
            let text = serde_json::to_vec(&SetUp { key, caches }).expect("it is plain data");
            replace_unsynced(&record, &text)?;
        }
        Ok(None)
    }

    /// Returns what the commit has only a reference to, and `setup` did not fill in.
    fn unfilled(&self, checkout: &Checkout) -> Result<Option<String>, GateError> {
        let provision = checkout.provision();
        let tree = checkout.worktree().as_std_path();
        for submodule in &provision.submodules {
            let filled =
                fs::read_dir(tree.join(submodule)).is_ok_and(|mut found| found.next().is_some());
            if !filled {
                let name = submodule.display();
                return Ok(Some(format!(
                    "the submodule `{name}` is empty, because your repository lacks its commit; `git submodule update --init \
                     --recursive` fetches it"
                )));
            }
        }
        if !provision.needs_lfs {
            return Ok(None);
        }
        for entry in self.repository.mirror.git().tree(checkout.commit())? {
            let path = tree.join(&entry.path);
            if is_lfs_pointer(&path) {
                let name = entry.path.display();
                return Ok(Some(format!(
                    "`{name}` is an LFS pointer, because your repository lacks its content; `git lfs pull` fetches it"
                )));
            }
        }
        Ok(None)
    }
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

/// Runs the commands of `setup`, one after the other; returns what went wrong with one.
pub(crate) fn run_setup(
    context: &GateContext<'_>,
    setup: &[Vec<String>],
    place: &SetupPlace<'_>,
    tell: Tell<'_>,
) -> Result<Option<String>, GateError> {
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
            CommandEnd::CouldNotRun(obstacle) => obstacle.to_string(),
        };
        let command = argv.join(" ");
        let said = telling(&done.output.last);
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        return Ok(Some(format!("`{command}`: {why}{said}")));
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
    let mut bench = Workbench::new(context, repository, pinned, "verifier");
    bench.make_ready(commit, tell)?;
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
