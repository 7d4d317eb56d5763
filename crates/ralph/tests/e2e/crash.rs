//! Crash sweeps: a story is played undisturbed, then killed at one fault point after another and restarted.
//!
//! The undisturbed run logs its fault points (`ralph_proc::fault`), so a sweep knows their number and kinds. A normal
//! test run visits every start of an agent, a gate or a setup, and one in [`STEP`] of all points; the selection depends
//! on a seed, by default the number of the day, overridden by `RALPH_CRASH_SEED`. `RALPH_CRASH_SWEEP=all` visits every
//! point (`cargo xtask crash`), `RALPH_CRASH_AT=N` only that one. A failure prints everything needed to repeat it.
//! Starts of git are part of the sample, not always visited: they are a third of all points, most of them in commits.
//!
//! A story has one directory, which is restored to its initial state before each point: copying a directory is cheaper
//! than creating a repository, and absolute paths in private state stay valid. The directory is in memory if possible,
//! because SIGKILL does not lose the page cache: waiting for a disk would not test more.

use std::fmt;
use std::fs;
use std::os::unix::fs::symlink;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::statvfs;
use tempfile::TempDir;

use crate::harness::{PATIENCE, Place, RALPH};
use crate::support::process::{Finished, kill_marked, run};
use crate::support::{TestEnv, text};

/// A normal test run visits one in this many points. The simulation crashes after every effect of the same state
/// machines.
const STEP: u64 = 64;

/// More bytes than all concurrent sweeps need.
const ROOM: u64 = 48 << 20;

/// A point at which Ralph is killed.
pub(crate) struct Point {
    number: usize,
    what: String,
}

impl Point {
    /// Whether this program was just started.
    pub(crate) fn is_start_of(&self, program: &str) -> bool {
        let started = self.what.strip_prefix("start ").and_then(|words| words.split(' ').next());
        started == Some(program)
    }

    /// Whether a supervised command (agent, gate, setup) was just started.
    pub(crate) fn is_start_of_run(&self) -> bool {
        self.what.starts_with("start ") && !self.is_start_of("git")
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Point { number, what } = self;
        write!(f, "RALPH_CRASH_AT={number} RALPH_CRASH_SEED={} ({what})", seed())
    }
}

/// Which points are visited.
enum Choice {
    All,
    One(usize),
    Sample,
}

impl Choice {
    fn of_environment() -> Choice {
        let variable = |name| std::env::var(name).ok();
        let one = variable("RALPH_CRASH_AT").map(|number| number.parse().unwrap());
        match variable("RALPH_CRASH_SWEEP").as_deref() {
            _ if one.is_some() => Choice::One(one.unwrap()),
            Some("all") => Choice::All,
            None => Choice::Sample,
            Some(other) => panic!("RALPH_CRASH_SWEEP is `{other}`, neither `all` nor unset"),
        }
    }

    fn takes(&self, point: &Point) -> bool {
        match self {
            Choice::All => true,
            Choice::One(number) => point.number == *number,
            Choice::Sample => {
                point.is_start_of_run() || point.number as u64 % STEP == seed() % STEP
            }
        }
    }
}

/// The seed of the sample.
pub(crate) fn seed() -> u64 {
    let set = std::env::var("RALPH_CRASH_SEED").ok();
    set.map_or_else(
        || SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() / (24 * 60 * 60),
        |seed| seed.parse().unwrap(),
    )
}

/// One share of a story's fault points: `of` tests share them, so that they run in parallel.
#[derive(Clone, Copy)]
pub(crate) struct Share {
    pub(crate) number: usize,
    pub(crate) of: usize,
}

/// Moves a place in which Ralph has not run yet to an in-memory file system, if there is one with enough space.
pub(crate) fn in_memory(place: Place) -> Place {
    let memory = Path::new("/dev/shm");
    let room = statvfs(memory).map_or(0, |found| found.f_bavail * found.f_frsize);
    if room < ROOM || tempfile::tempfile_in(memory).is_err() {
        return place;
    }
    let moved = Place { env: TestEnv::empty_in(memory) };
    moved.env.isolate_like(&place.env);
    copy(&root(&place), &root(&moved));
    moved.env.trust_all();
    moved
}

/// A story that is played repeatedly in one place.
pub(crate) struct Sweep<'a> {
    place: &'a Place,
    args: &'a [&'a str],
    beginning: TempDir,
}

impl<'a> Sweep<'a> {
    /// Saves the current state of the place as the beginning of the story that `ralph` with these arguments plays.
    pub(crate) fn new(place: &'a Place, args: &'a [&'a str]) -> Sweep<'a> {
        let beside = root(place).parent().unwrap().to_owned();
        let beginning = tempfile::Builder::new().prefix("ralph-e2e-").tempdir_in(beside).unwrap();
        copy(&root(place), beginning.path());
        Sweep { place, args, beginning }
    }

    /// Plays the story undisturbed, and returns the result with the points to visit.
    pub(crate) fn undisturbed(&self, share: Share) -> (Finished, Vec<Point>) {
        let (finished, points) = self.play(self.args, None);
        assert!(points.len() > 10, "only {} points\n{finished}", points.len());
        let count = points.len();
        let choice = Choice::of_environment();
        let chosen = points.into_iter().filter(|point| choice.takes(point)).enumerate();
        let ours = chosen.filter(|(index, _)| index % share.of == share.number);
        let ours: Vec<Point> = ours.map(|(_, point)| point).collect();
        eprintln!("RALPH_CRASH_SEED={}: {} of {count} fault points", seed(), ours.len());
        (finished, ours)
    }

    /// Plays the story undisturbed, and returns all of its points.
    pub(crate) fn all_points(&self) -> Vec<Point> {
        self.play(self.args, None).1
    }

    /// Continues after a crash, and returns the points it reached.
    pub(crate) fn go_on(&self, args: &[&str]) -> (Finished, Vec<Point>) {
        self.play(args, None)
    }

    /// Kills Ralph at each of the points and calls `check`, which begins with a restart. Reports all failures.
    pub(crate) fn visit(&self, points: &[Point], check: impl Fn(&Point, &Finished)) {
        let visit = |point: &Point| {
            if let Some((reached, crashed)) = self.killed_at(point) {
                check(&reached, &crashed);
            }
        };
        let failed = points
            .iter()
            .filter(|point| panic::catch_unwind(AssertUnwindSafe(|| visit(point))).is_err());
        let failed: Vec<String> = failed.map(Point::to_string).collect();
        assert!(failed.is_empty(), "of {} points these fail: {failed:#?}", points.len());
    }

    /// Restores the beginning and plays the story up to the point. Returns what actually happened there.
    ///
    /// That can differ from the undisturbed run by one write: a restored file has other times and another inode than
    /// private state may have recorded. `None` if for that reason the story ended before the point.
    pub(crate) fn killed_at(&self, point: &Point) -> Option<(Point, Finished)> {
        self.begin_again();
        let (finished, mut points) = self.play(self.args, Some(point.number));
        if finished.status.code().is_some() {
            assert!(points.len() + 2 >= point.number, "lives on after {point}\n{finished}");
            return None;
        }
        points.pop().map(|reached| (reached, finished))
    }

    /// Restores the beginning, interrupts Ralph at the point, and returns the result with everything it started later.
    pub(crate) fn interrupted_at(&self, point: &Point) -> (Finished, Vec<Point>) {
        self.begin_again();
        let signal = ("RALPH_CRASH_SIGNAL".to_owned(), "INT".to_owned());
        let (finished, points) = self.play_with(self.args, Some(point.number), Some(signal));
        let later = points.into_iter().skip(point.number);
        (finished, later.filter(Point::is_start_of_run).collect())
    }

    /// Copies a directory of the place in its initial state.
    pub(crate) fn copy_of(&self, directory: &str, to: &Path) {
        fs::create_dir(to).unwrap();
        copy(&self.beginning.path().join(directory), to);
    }

    /// Restores the beginning.
    pub(crate) fn begin_again(&self) {
        // Leftover processes of the previous play must not interfere with this one.
        kill_marked(self.place.env.mark());
        for entry in entries(&root(self.place)) {
            if entry.is_dir() && !entry.is_symlink() {
                fs::remove_dir_all(entry).unwrap();
            } else {
                fs::remove_file(entry).unwrap();
            }
        }
        copy(self.beginning.path(), &root(self.place));
    }

    /// Plays the story, to its end or to a point, and returns the points it reached.
    fn play(&self, args: &[&str], fatal: Option<usize>) -> (Finished, Vec<Point>) {
        self.play_with(args, fatal, None)
    }

    fn play_with(
        &self,
        args: &[&str],
        fatal: Option<usize>,
        more: Option<(String, String)>,
    ) -> (Finished, Vec<Point>) {
        let log = self.beginning.path().with_extension("points");
        let mut variables = self.place.variables();
        variables.push(("RALPH_CRASH_LOG".to_owned(), text(&log)));
        variables.extend(more);
        variables.extend(fatal.map(|number| ("RALPH_CRASH_AT".to_owned(), number.to_string())));
        let env = &self.place.env;
        let finished = run(env, Path::new(RALPH), args, &variables, "", PATIENCE);
        let points = points(&log);
        fs::remove_file(&log).unwrap();
        (finished, points)
    }
}

fn root(place: &Place) -> PathBuf {
    place.env.repo().parent().unwrap().to_owned()
}

fn points(log: &Path) -> Vec<Point> {
    let text = fs::read_to_string(log).unwrap();
    let points = text.lines().map(|line| line.split_once(' ').unwrap());
    points
        .map(|(number, what)| Point { number: number.parse().unwrap(), what: what.to_owned() })
        .collect()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Copies the content of a directory into another, with modes and links.
pub(crate) fn copy(from: &Path, to: &Path) {
    for entry in entries(from) {
        let copied = to.join(entry.file_name().unwrap());
        let kind = fs::symlink_metadata(&entry).unwrap();
        if kind.is_symlink() {
            symlink(fs::read_link(&entry).unwrap(), copied).unwrap();
        } else if kind.is_dir() {
            fs::create_dir(&copied).unwrap();
            copy(&entry, &copied);
            fs::set_permissions(&copied, kind.permissions()).unwrap();
        } else {
            fs::copy(&entry, &copied).unwrap();
        }
    }
}
