//! Private state damaged between two starts, in place: nothing panics, losses are reported, and the rest continues. For
//! clones and all workflows, see `private_state`.
//!
//! Ralph is killed, every file it left in private state is damaged in turn, and it is restarted. A normal test run
//! damages each file in one of three ways, chosen by the seed of crash sweeps; `RALPH_CRASH_SWEEP=all` in all of them.

use std::fs;
use std::path::{Path, PathBuf};

use super::{BUILDER, Site, VERIFIER, task};
use crate::crash::{Sweep, seed};

const ARGS: &[&str] = &["build", "--no-wait"];

/// Excluded: large files, git's files, which have their own hashes, and files that are never read again.
const LEFT_OUT: [&str; 10] = [
    "repositories",
    "slot-state",
    "caches",
    "bin",
    "scratch",
    "gates",
    "runs",
    "agents",
    "locks",
    "rehearsal",
];

/// A way to damage a file, with its name.
type Damage = (&'static str, fn(Vec<u8>) -> Vec<u8>);

const DAMAGES: [Damage; 3] = [
    ("cut", |mut bytes| {
        bytes.truncate(bytes.len() / 2);
        bytes
    }),
    ("garbage", |bytes| {
        (0..bytes.len().max(1)).map(|at| [b'{', 0xff, b'\n', b'"'][at % 4]).collect()
    }),
    ("zeros", |bytes| vec![0; bytes.len()]),
];

#[derive(Clone, Copy)]
enum Killed {
    /// While the first builder works.
    InRun,
    /// While a gate checks its work.
    InGate,
}

/// Kills Ralph at the given point.
fn killed(site: &Site, when: Killed) {
    let sweep = Sweep::new(&site.place, ARGS);
    let points = sweep.all_points();
    let next = |from: usize, program: &str| {
        from + points[from..].iter().position(|point| point.is_start_of(program)).unwrap()
    };
    // The gate runs before the builder, and again on its work.
    let agent = next(next(0, "sh"), "ralph");
    let at = match when {
        Killed::InRun => agent,
        Killed::InGate => next(agent, "sh"),
    };
    sweep.killed_at(&points[at]).expect("it is killed in the middle");
}

/// Lists Ralph's own records in private state.
fn records(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let kind = fs::symlink_metadata(&path).unwrap();
        // The clones of slots and the draft of home are repositories.
        let is_clone = ["slots", "drafts"].iter().any(|kind| directory.ends_with(kind));
        if kind.is_dir() && !LEFT_OUT.contains(&name) && !is_clone {
            records(&path, found);
        } else if kind.is_file() {
            found.push(path);
        }
    }
    found.sort();
}

/// Whether repeating a finished run is reported.
fn says_so(said: &str) -> bool {
    ["cannot be read", "private state was missing", "cannot be compared"]
        .iter()
        .any(|words| said.contains(words))
}

fn damage_all(site: &Site, when: Killed) {
    killed(site, when);
    let restored = Sweep::new(&site.place, ARGS);
    let mut files = Vec::new();
    records(&site.place.path("state/ralph"), &mut files);
    assert!(files.len() > 5, "{files:?}");
    let all = std::env::var_os("RALPH_CRASH_SWEEP").is_some();
    let mut failed = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let chosen = (index as u64 + seed()) % DAMAGES.len() as u64;
        for (number, (name, damage)) in DAMAGES.iter().enumerate() {
            if !all && number as u64 != chosen {
                continue;
            }
            restored.begin_again();
            let Ok(bytes) = fs::read(file) else { continue };
            fs::write(file, damage(bytes)).unwrap();
            let (mut code, mut said) = site.place.start(ARGS).finish();
            if code == Some(3) && said.contains("uncommitted changes") && says_so(&said) {
                // Without the record of the earlier state, a run's leftovers may be the person's, who commits them.
                site.commit_all("mine");
                let again = site.place.start(ARGS).finish();
                code = again.0;
                said += &again.1;
            }
            let mut problems = Vec::new();
            if code != Some(0) || said.contains("panicked") {
                problems.push("it does not go on");
            }
            let builders = site.roles().iter().filter(|role| *role == "builder").count();
            // A killed builder runs again; a finished one does not, unless its loss is reported.
            let expected = if matches!(when, Killed::InRun) { 3 } else { 2 };
            if builders != expected && !says_so(&said) {
                problems.push("a run is repeated without a word");
            }
            let is_baseline = file.extension().is_some_and(|end| end == "baseline");
            if is_baseline && !says_so(&said) {
                problems.push("nobody is told that nothing was compared");
            }
            if !site.records("task").is_empty() || !site.git(&["status", "--porcelain"]).is_empty()
            {
                problems.push("the plan is not complete");
            }
            let file = file.strip_prefix(site.place.path("state")).unwrap().display();
            let note = said.lines().find(|line| says_so(line)).unwrap_or("nothing is said");
            eprintln!("{name} {file}: {builders} builders; {note}");
            if !problems.is_empty() {
                failed.push(format!(
                    "{name} {file}: {problems:?} ({builders} builders, {code:?})\n{said}"
                ));
            }
        }
    }
    assert!(failed.is_empty(), "{} fail:\n{}", failed.len(), failed.join("\n"));
}

fn site() -> Site {
    let site = Site::planned(&format!("{BUILDER}{VERIFIER}"), &[task("t-aaaa"), task("t-bbbb")]);
    site.gate(&["sh", "-c", "true"]);
    site.in_memory()
}

#[test]
fn a_damaged_record_is_named_once_and_status_goes_on_naming_where_it_is() {
    let site = site();
    killed(&site, Killed::InGate);
    let mut files = Vec::new();
    records(&site.place.path("state/ralph"), &mut files);
    let is_result = |file: &&PathBuf| {
        let text = file.to_str().unwrap();
        text.contains("/results/") && !text.contains("/copies/")
    };
    let result = files.iter().find(is_result).unwrap();
    let damaged = "\u{0}\u{0}";
    fs::write(result, damaged).unwrap();
    let first = site.exits(0, ARGS);
    assert_eq!(
        first.stderr.matches("`results/t-aaaa.json` of private state").count(),
        1,
        "{first}"
    );
    let told = |note: &&serde_json::Value| note["reason"].as_str().unwrap().contains("results/");
    assert_eq!(site.logged("note").iter().filter(told).count(), 1);
    let kept = result.parent().unwrap().with_file_name("damaged").join("results~t-aaaa.json");
    assert_eq!(fs::read_to_string(&kept).unwrap(), damaged);
    assert!(!site.exits(0, ARGS).stderr.contains("cannot be read"));
    let status = site.exits(0, &["status"]);
    assert!(status.stdout.contains("1 record of private state could not be read"), "{status}");
}

#[test]
fn whatever_is_damaged_while_a_builder_works_in_the_checkout_the_rest_goes_on() {
    damage_all(&site().in_place(), Killed::InRun);
}
