//! Whole workflows on a simulated machine, thousands of runs per second: for tests only.
//!
//! The engine is real except for processes (agents and gates), git, the clock and the disk. A [`story`] is generated
//! from a seed and played twice: undisturbed, then with faults that strike after chosen effects (a kill, a power
//! failure, a full or failing disk, a clock change, an interruption). After each play the [`oracle`] checks the general
//! invariants, and that the disturbed one had the same outcome.
//!
//! The simulated git and the real one pass the same suite ([`conformance`]). `cargo xtask simulate` plays stories of
//! fresh seeds, or repeats one and minimises it ([`shrink`]).

mod agents;
mod clones;
mod conformance;
mod git;
mod landing;
mod meanwhile;
mod oracle;
mod process;
mod regressions;
mod repository;
mod shrink;
mod story;
mod world;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use self::oracle::{Summary, check, compare};
use self::story::Story;
use self::world::{World, tell};
use crate::defect::{Defect, put_back};
use crate::files::simulated;

/// The result of playing a story twice.
struct Told {
    story: Story,
    /// How many agents ran.
    runs: usize,
    /// The violations, if any.
    wrong: Vec<String>,
    /// The log, if requested: of the play that failed.
    log: Vec<String>,
}

/// Whether events are logged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Logging {
    On,
    Off,
}

/// Plays a story once.
fn tell_once(story: &Story, logging: Logging) -> Rc<RefCell<World>> {
    let world = World::new(Rc::new(story.clone()));
    if logging == Logging::On {
        simulated::keep_log();
    }
    tell(&world);
    world
}

/// The outcome of an undisturbed story.
struct Expected {
    summary: Summary,
    effects: u64,
    runs: usize,
}

/// Plays a story without its faults. Returns the outcome, or a failure.
fn tell_undisturbed(story: &Story, logging: Logging) -> Result<Expected, Box<Told>> {
    let story = Story { faults: Vec::new(), ..story.clone() };
    let world = tell_once(&story, logging);
    let world = world.borrow();
    let runs = world.performances.len();
    let wrong = check(&world);
    if wrong.is_empty() {
        return Ok(Expected { summary: Summary::of(&world), effects: world.effects, runs });
    }
    Err(Box::new(Told { story, runs, wrong, log: simulated::take_log() }))
}

/// Plays a story with its faults, and compares.
fn tell_disturbed(story: Story, expected: &Expected, logging: Logging) -> Told {
    let world = tell_once(&story, logging);
    let world = world.borrow();
    let mut wrong = check(&world);
    wrong.extend(compare(&expected.summary, &world));
    let runs = expected.runs + world.performances.len();
    let log = simulated::take_log();
    simulated::uninstall();
    Told { story, runs, wrong, log }
}

/// Plays a story undisturbed and with its faults. If it has no faults, some are added.
fn tell_twice(mut story: Story, logging: Logging) -> Told {
    let expected = match tell_undisturbed(&story, logging) {
        Ok(expected) => expected,
        Err(told) => return *told,
    };
    if story.faults.is_empty() {
        story.disturb(expected.effects);
    }
    tell_disturbed(story, &expected, logging)
}

/// Suppresses the output of panics in simulated processes: the oracle finds them.
fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !simulated::is_installed() {
                usual(panic);
            }
        }));
    });
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("it is a number"))
}

/// Repeats a seed, minimises its story, and prints it. Returns whether it holds.
fn repeat(seed: u64) -> bool {
    let told = tell_twice(Story::of(seed), Logging::On);
    if told.wrong.is_empty() {
        println!("seed {seed} holds: {} runs\n{}", told.runs, shrink::trace(&told));
        return true;
    }
    println!("seed {seed}: {}", told.wrong.join("\n"));
    let smallest = shrink::smallest(told);
    println!("\nthe smallest story that goes wrong:\n{}", shrink::trace(&smallest));
    println!("{}", smallest.wrong.join("\n"));
    false
}

/// The progress of all threads of a simulation.
#[derive(Default)]
struct Progress {
    stories: AtomicU64,
    runs: AtomicU64,
    /// The lowest failing seed; the maximum value if there is none.
    failed: AtomicU64,
}

/// Plays stories of consecutive seeds until there were enough, or one fails. Returns the failing one.
fn simulate_from(first: u64, most: u64, until: Option<Instant>) -> (Progress, Option<u64>) {
    quiet_panics();
    let progress = Progress { failed: AtomicU64::new(u64::MAX), ..Progress::default() };
    let next = AtomicU64::new(0);
    let work = || loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let is_over = until.is_some_and(|until| Instant::now() > until);
        if number >= most || is_over || progress.failed.load(Ordering::Relaxed) != u64::MAX {
            return;
        }
        let story = Story::of(first.wrapping_add(number));
        let seed = story.seed;
        let told = tell_twice(story, Logging::Off);
        progress.stories.fetch_add(1, Ordering::Relaxed);
        progress.runs.fetch_add(told.runs as u64, Ordering::Relaxed);
        if !told.wrong.is_empty() {
            progress.failed.fetch_min(seed, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let failed = progress.failed.load(Ordering::Relaxed);
    (progress, (failed != u64::MAX).then_some(failed))
}

/// Plays stories with a reintroduced defect until one fails because of it: one that holds without the defect. Returns
/// its seed, the violation, and the number of stories played.
fn find_defect(defect: Defect, first: u64, until: Instant) -> Option<(u64, String, u64)> {
    let (mut next, mut stories) = (first, 0);
    while Instant::now() < until {
        put_back(Some(defect));
        let (progress, failed) = simulate_from(next, u64::MAX, Some(until));
        let told = failed.map(|seed| (seed, tell_twice(Story::of(seed), Logging::Off)));
        put_back(None);
        stories += progress.stories.into_inner();
        let (seed, told) = told?;
        if tell_twice(Story::of(seed), Logging::Off).wrong.is_empty() {
            let wrong = told.wrong.first().and_then(|wrong| wrong.lines().next());
            return Some((seed, wrong.unwrap_or_default().to_owned(), stories));
        }
        println!("seed {seed} goes wrong without any defect");
        next = seed.wrapping_add(1);
    }
    None
}

/// Reintroduces each defect in turn, and must find it within the given seconds.
fn find_defects(wanted: &str, first: u64, seconds: u64) {
    let chosen = Defect::ALL.into_iter().filter(|(name, _)| [name, "all"].contains(&wanted));
    let chosen: Vec<(&str, Defect)> = chosen.collect();
    let names = Defect::ALL.map(|(name, _)| name).join(", ");
    assert!(!chosen.is_empty(), "no defect is called `{wanted}`: {names}");
    let mut missed = Vec::new();
    for (name, defect) in chosen {
        let start = Instant::now();
        match find_defect(defect, first, start + Duration::from_secs(seconds)) {
            Some((seed, wrong, stories)) => {
                let took = start.elapsed().as_secs_f64();
                println!(
                    "{name}: found after {took:.1} s and {stories} stories, seed {seed}: {wrong}"
                );
            }
            None => missed.push(name),
        }
    }
    assert!(missed.is_empty(), "not found within {seconds} s: {}", missed.join(", "));
}

/// Run by `cargo xtask simulate`, which sets its parameters.
#[test]
#[ignore = "it takes as long as it is told to"]
fn simulate() {
    quiet_panics();
    let first = number("RALPH_SIMULATE_SEED").unwrap_or(0);
    let runs = number("RALPH_SIMULATE_RUNS");
    let seconds = number("RALPH_SIMULATE_SECONDS");
    if let Ok(wanted) = std::env::var("RALPH_SIMULATE_DEFECT") {
        return find_defects(&wanted, first, seconds.unwrap_or(60));
    }
    if runs == Some(1) {
        assert!(repeat(first), "seed {first} goes wrong");
        return;
    }
    let start = Instant::now();
    let until = seconds.map(|seconds| start + Duration::from_secs(seconds));
    let (progress, failed) = simulate_from(first, runs.unwrap_or(u64::MAX), until);
    let took = start.elapsed().as_secs_f64();
    let (stories, runs) = (progress.stories.into_inner(), progress.runs.into_inner());
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no more")]
    let rate = runs as f64 / took;
    println!(
        "{stories} stories from seed {first}, {runs} runs in {took:.1} s: {rate:.0} runs a second"
    );
    if let Some(seed) = failed {
        repeat(seed);
        panic!("seed {seed} goes wrong: `cargo xtask simulate --seed {seed}` repeats it");
    }
}

/// A few fixed stories. `cargo xtask simulate` plays many.
#[test]
fn stories_end_as_they_should_whatever_befalls_them() {
    let (progress, failed) = simulate_from(1, 40, None);
    if let Some(seed) = failed {
        repeat(seed);
        panic!("seed {seed} goes wrong: `cargo xtask simulate --seed {seed}` repeats it");
    }
    assert_eq!(progress.stories.into_inner(), 40);
}
