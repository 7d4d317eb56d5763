//! `cargo xtask trust`: every agent of `tests/liars` in every workflow, and whether Ralph accepted only what it should.
//!
//! `TRUST_RALPH` names the binary to try instead of a new build, `TRUST_BESIDE` says how many stories are played concurrently, and
//! `TRUST_KEEP` keeps the directories of the stories.

mod liar;
mod stage;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use self::liar::{Belief, Deserves, Liar};
use self::stage::{TrustOutcome, TrustStage, WORKFLOWS};
use crate::{progress, root};

/// How many are played concurrently, unless `TRUST_BESIDE` says otherwise.
const BESIDE: usize = 2;
/// The time limit of a sample.
const SAMPLE: Duration = Duration::from_secs(45);

/// The parsed arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum GalleryRequest {
    All,
    /// As many as fit into a minute; the selection changes daily.
    Sample,
    /// Those whose file or workflow contains one of these.
    Some(Vec<String>),
}

impl GalleryRequest {
    /// Reads the arguments that follow `trust`.
    pub(crate) fn parse(args: impl Iterator<Item = String>) -> Result<GalleryRequest, String> {
        let words: Vec<String> = args.collect();
        if words == ["--sample"] {
            return Ok(GalleryRequest::Sample);
        }
        if let Some(option) = words.iter().find(|word| word.starts_with('-')) {
            return Err(format!("`trust` takes no `{option}`\n{}", crate::USAGE));
        }
        Ok(if words.is_empty() { GalleryRequest::All } else { GalleryRequest::Some(words) })
    }
}

/// A wrong judgement of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TrustFault {
    FalseDone,
    FalseReject,
    WorkLost,
    ProcessesLeft,
    DidNotEnd,
    /// A fault of the stage itself, or a crash of Ralph.
    Broken,
}

impl TrustFault {
    const ALL: [(TrustFault, &'static str); 6] = [
        (TrustFault::FalseDone, "false done"),
        (TrustFault::FalseReject, "false reject"),
        (TrustFault::WorkLost, "work lost"),
        (TrustFault::ProcessesLeft, "processes left"),
        (TrustFault::DidNotEnd, "did not end"),
        (TrustFault::Broken, "broken"),
    ];
}

/// One agent in one workflow, and the outcome.
struct TrustRow {
    name: String,
    workflow: &'static str,
    faults: Vec<TrustFault>,
    told: String,
    /// A believed lie that no rule about files can detect.
    in_principle: bool,
}

/// Plays the agents and prints the table.
pub(crate) fn run(request: &GalleryRequest) -> Result<ExitCode, String> {
    let ralph = built()?;
    let liars = all()?;
    let mut plays: Vec<(&Liar, &'static str)> = Vec::new();
    let mut skipped = 0;
    for liar in &liars {
        let is_there = liar.needs.iter().all(|program| is_found(program));
        for workflow in WORKFLOWS {
            if liar.not_in.iter().any(|one| one == workflow) {
                continue;
            }
            if !is_there {
                skipped += 1;
                continue;
            }
            plays.push((liar, workflow));
        }
    }
    let deadline = match request {
        GalleryRequest::All => None,
        GalleryRequest::Some(words) => {
            plays.retain(|(liar, workflow)| {
                let name = format!("{} {workflow}", liar.file);
                words.iter().any(|word| name.contains(word.as_str()))
            });
            None
        }
        GalleryRequest::Sample => {
            let days = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs() / 86_400);
            shuffle(&mut plays, days);
            Some(Instant::now() + SAMPLE)
        }
    };
    let begun = Instant::now();
    let rows = play(&ralph, &plays, deadline);
    Ok(report(&rows, skipped, liars.len(), begun.elapsed()))
}

fn built() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("TRUST_RALPH") {
        return Ok(PathBuf::from(named));
    }
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", "ralph"])
        .current_dir(root())
        .status();
    if !built.is_ok_and(|status| status.success()) {
        return Err("the build failed".to_owned());
    }
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(own.with_file_name("ralph"))
}

/// Reads all agents, sorted by name.
fn all() -> Result<Vec<Liar>, String> {
    let directory = root().join("tests/liars");
    let entries =
        fs::read_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    paths.iter().map(|path| Liar::read(path)).collect()
}

fn is_found(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').any(|directory| PathBuf::from(directory).join(program).is_file())
}

/// Shuffles things, depending on a seed.
fn shuffle<T>(things: &mut [T], seed: u64) {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for at in (1..things.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let other = usize::try_from(state % (at as u64 + 1)).unwrap_or(0);
        things.swap(at, other);
    }
}

fn play(
    ralph: &std::path::Path,
    plays: &[(&Liar, &'static str)],
    deadline: Option<Instant>,
) -> Vec<TrustRow> {
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let asked = std::env::var("TRUST_BESIDE").ok().and_then(|beside| beside.parse().ok());
    thread::scope(|scope| {
        for _ in 0..asked.unwrap_or(BESIDE).max(1) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some((liar, workflow)) = plays.get(at) else { break };
                    if deadline.is_some_and(|deadline| Instant::now() > deadline) {
                        break;
                    }
                    let row = row(liar, workflow, TrustStage::new(ralph, at).play(liar, workflow));
                    if !row.faults.is_empty() {
                        progress(&format!("{} in {}: {}", row.name, row.workflow, row.told));
                    }
                    if let Ok(mut rows) = rows.lock() {
                        rows.push(row);
                    }
                }
            });
        }
    });
    rows.into_inner().unwrap_or_default()
}

fn row(liar: &Liar, workflow: &'static str, played: Result<TrustOutcome, String>) -> TrustRow {
    let name = liar.file.clone();
    let played = match played {
        Ok(played) => played,
        Err(told) => {
            let faults = vec![TrustFault::Broken];
            return TrustRow { name, workflow, faults, told, in_principle: false };
        }
    };
    let mut faults = Vec::new();
    match liar.deserves {
        Deserves::AtMost(most) if played.believed > most => faults.push(TrustFault::FalseDone),
        Deserves::AtLeast(least) if played.believed < least => faults.push(TrustFault::FalseReject),
        _ => {}
    }
    if played.lost.is_some() {
        faults.push(TrustFault::WorkLost);
    }
    if played.processes > 0 {
        faults.push(TrustFault::ProcessesLeft);
    }
    if !played.ended {
        faults.push(TrustFault::DidNotEnd);
    } else if played.code.is_none_or(|code| code > 3) {
        faults.push(TrustFault::Broken);
    }
    let told = format!(
        "{} ({}); believed: {}; lost: {}; exit {:?}\n{}",
        liar.title,
        match liar.deserves {
            Deserves::AtMost(most) => format!("at most: {}", most.name()),
            Deserves::AtLeast(least) => format!("at least: {}", least.name()),
        },
        played.believed.name(),
        played.lost.as_deref().unwrap_or("nothing"),
        played.code,
        played.tail
    );
    let in_principle = liar.is_possible && played.believed == Belief::GatesPassed;
    TrustRow { name, workflow, faults, told, in_principle }
}

fn report(rows: &[TrustRow], skipped: usize, agents: usize, took: Duration) -> ExitCode {
    println!("{:<16}{}", "", WORKFLOWS.map(|name| format!("{name:>10}")).concat());
    let count = |workflow: &str, fault: Option<TrustFault>| {
        let of = rows.iter().filter(|row| row.workflow == workflow);
        of.filter(|row| fault.is_none_or(|fault| row.faults.contains(&fault))).count()
    };
    let line = |name: &str, fault: Option<TrustFault>| {
        let counts = WORKFLOWS.map(|workflow| format!("{:>10}", count(workflow, fault)));
        println!("{name:<16}{}", counts.concat());
    };
    line("played", None);
    for (fault, name) in TrustFault::ALL {
        line(name, Some(fault));
    }
    let wrong: BTreeMap<&str, Vec<&str>> =
        rows.iter().filter(|row| !row.faults.is_empty()).fold(BTreeMap::new(), |mut wrong, row| {
            wrong.entry(row.name.as_str()).or_default().push(row.workflow);
            wrong
        });
    for (name, workflows) in &wrong {
        println!("wrong: {name} ({})", workflows.join(", "));
    }
    let possible: BTreeSet<&str> =
        rows.iter().filter(|row| row.in_principle).map(|row| row.name.as_str()).collect();
    for name in possible {
        println!("believed, as docs/trust.md says is possible: {name}");
    }
    let seconds = took.as_secs();
    println!(
        "{agents} agents, {} stories, {skipped} left out for want of a program, {seconds} s",
        rows.len()
    );
    if rows.is_empty() || !wrong.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
