//! Many concurrent writers of one plan, through two state directories and a bind mount, some of them killed, while a
//! person switches branches: afterwards every acknowledged change is on a branch, and everything else is intact.
//!
//! The scheduling is up to the kernel, so no two runs are alike; the seed only repeats which writers are killed, and
//! when.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::{progress, root};

const PLAN: &str = "ralph/plan.jsonl";
const BRANCHES: [&str; 2] = ["main", "other"];

/// The amount of work.
struct Load {
    writers: u64,
    rounds: u64,
}

const WHOLE: Load = Load { writers: 100, rounds: 8 };
const SAMPLE: Load = Load { writers: 12, rounds: 3 };

pub(crate) fn run(mut args: impl Iterator<Item = String>) -> Result<ExitCode, String> {
    let load = match args.next().as_deref() {
        None => WHOLE,
        Some("--sample") => SAMPLE,
        Some(other) => return Err(format!("torture knows no `{other}`")),
    };
    let seed = match args.next() {
        Some(seed) => seed.parse().map_err(|_| format!("`{seed}` is no seed"))?,
        None => SystemTime::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_secs()),
    };
    let place = Place::new(seed)?;
    let done = place.torture(&load);
    let _ = fs::remove_dir_all(&place.root);
    done
}

struct Place {
    root: PathBuf,
    ralph: PathBuf,
    /// Whether bind mounts are possible here.
    mounts: bool,
    seed: u64,
}

/// The outcome of one change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Acknowledged,
    Refused,
    Killed,
}

impl Place {
    fn new(seed: u64) -> Result<Place, String> {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "ralph"])
            .current_dir(root())
            .status();
        if !built.is_ok_and(|status| status.success()) {
            return Err("the build failed".to_owned());
        }
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let ralph = own.with_file_name("ralph");
        let root = std::env::temp_dir().join(format!("ralph-torture-{}", std::process::id()));
        let mut place = Place { root, ralph, mounts: false, seed };
        place
            .lay_out()
            .map_err(|error| format!("cannot prepare {}: {error}", place.root.display()))?;
        place.mounts =
            place.through_mount("true", &[]).status().is_ok_and(|status| status.success());
        Ok(place)
    }

    fn repository(&self) -> PathBuf {
        self.root.join("repository")
    }

    fn lay_out(&self) -> std::io::Result<()> {
        let repository = self.repository();
        for directory in [&repository.join("ralph/specs"), &self.root.join("mount")] {
            fs::create_dir_all(directory)?;
        }
        fs::write(repository.join("ralph/specs/a.md"), "# A\n\nDo it.\n")?;
        self.git(&["init", "--quiet", "--initial-branch=main"])?;
        self.git(&["config", "user.name", "Person"])?;
        self.git(&["config", "user.email", "p@example.org"])?;
        fs::write(repository.join(PLAN), "{\"t\":\"spec\",\"spec\":\"a.md\"}\n")?;
        self.git(&["add", "--all"])?;
        self.git(&["commit", "--quiet", "--message=start"])?;
        self.git(&["branch", BRANCHES[1]])?;
        Ok(())
    }

    fn git(&self, args: &[&str]) -> std::io::Result<Output> {
        Command::new("git").args(args).current_dir(self.repository()).stdin(Stdio::null()).output()
    }

    /// Returns a command in one of three variants: with the first state directory, the second, or the second through a
    /// bind mount.
    fn command(&self, number: u64, args: &[&str]) -> Command {
        let mut command = if number % 3 == 2 && self.mounts {
            self.through_mount(&self.ralph.to_string_lossy(), args)
        } else {
            let mut command = Command::new(&self.ralph);
            command.args(args).current_dir(self.repository());
            command
        };
        let state = self.root.join(if number.is_multiple_of(3) { "state-a" } else { "state-b" });
        command
            .env("XDG_STATE_HOME", state)
            .env("HOME", &self.root)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn through_mount(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        let script = "mount --bind \"$0\" \"$1\" && cd \"$1\" && shift && exec \"$@\"";
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
        command.arg(self.repository()).arg(self.root.join("mount")).arg(program).args(args);
        command
    }

    fn torture(&self, load: &Load) -> Result<ExitCode, String> {
        let began = Instant::now();
        let bind =
            if self.mounts { "and a bind mount" } else { "(no bind mount can be made here)" };
        progress(&format!(
            "{} writers of {} changes each, from two state directories {bind}; seed {}",
            load.writers, load.rounds, self.seed
        ));
        let over = AtomicBool::new(false);
        let switched = AtomicU64::new(0);
        let fates = thread::scope(|scope| {
            scope.spawn(|| self.switch_branches(&over, &switched));
            let writers: Vec<_> = (0..load.writers)
                .map(|number| scope.spawn(move || self.write(number, load.rounds)))
                .collect();
            let fates: Vec<(String, Fate)> = writers
                .into_iter()
                .flat_map(|writer| writer.join().expect("a writer does not panic"))
                .collect();
            over.store(true, Ordering::Relaxed);
            fates
        });
        let count = |fate: Fate| fates.iter().filter(|(_, found)| *found == fate).count();
        progress(&format!(
            "{} acknowledged, {} refused, {} killed, {} switches of branch, {:.0?}",
            count(Fate::Acknowledged),
            count(Fate::Refused),
            count(Fate::Killed),
            switched.load(Ordering::Relaxed),
            began.elapsed()
        ));
        let mut problems = self.lost(&fates)?;
        problems.extend(self.damage()?);
        if count(Fate::Acknowledged) == 0 {
            problems.push("nothing was acknowledged at all".to_owned());
        }
        for problem in &problems {
            progress(problem);
        }
        Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// A person who switches between the branches as long as there are writers.
    fn switch_branches(&self, over: &AtomicBool, switched: &AtomicU64) {
        for turn in 0.. {
            if over.load(Ordering::Relaxed) {
                break;
            }
            let branch = BRANCHES[turn % 2];
            let there = self.git(&["checkout", "--quiet", branch]);
            switched.fetch_add(
                u64::from(there.is_ok_and(|out| out.status.success())),
                Ordering::Relaxed,
            );
            thread::sleep(Duration::from_millis(30));
        }
    }

    /// One writer: one change after the other, two in five of them killed at some point.
    fn write(&self, number: u64, rounds: u64) -> Vec<(String, Fate)> {
        let mut random = Random(self.seed.wrapping_mul(31).wrapping_add(number) | 1);
        let mut fates = Vec::new();
        for round in 0..rounds {
            let name = format!("writer-{number}-{round}.");
            let Ok(mut child) = self.command(number, &["task", "add", &name]).spawn() else {
                fates.push((name, Fate::Refused));
                continue;
            };
            let is_victim = random.next() % 5 < 2;
            if is_victim {
                thread::sleep(Duration::from_millis(random.next() % 60));
                let _ = child.kill();
            }
            let fate = match child.wait() {
                Ok(status) if status.success() => Fate::Acknowledged,
                Ok(_) if is_victim => Fate::Killed,
                _ => Fate::Refused,
            };
            fates.push((name, fate));
        }
        fates
    }

    /// Returns the acknowledged changes that are on no branch.
    fn lost(&self, fates: &[(String, Fate)]) -> Result<Vec<String>, String> {
        // Whatever a killed writer wrote but did not commit is committed by the next one, on either side.
        for (number, branch) in [(0, BRANCHES[0]), (1, BRANCHES[1])] {
            let switched =
                self.git(&["checkout", "--quiet", branch]).map_err(|error| error.to_string())?;
            if !switched.status.success() {
                return Err(format!("cannot switch to {branch} in the end"));
            }
            let last = self.command(number, &["task", "add", "the last one"]).status();
            if !last.is_ok_and(|status| status.success()) {
                return Err(format!("the last change on {branch} was refused"));
            }
        }
        let mut there = BTreeSet::new();
        for branch in BRANCHES {
            let shown = self
                .git(&["show", &format!("{branch}:{PLAN}")])
                .map_err(|error| error.to_string())?;
            let plan = String::from_utf8_lossy(&shown.stdout).into_owned();
            let names = fates.iter().map(|(name, _)| name).filter(|name| plan.contains(*name));
            there.extend(names.cloned());
        }
        let acknowledged = fates.iter().filter(|(_, fate)| *fate == Fate::Acknowledged);
        let lost = acknowledged.filter(|(name, _)| !there.contains(name));
        Ok(lost
            .map(|(name, _)| format!("LOST: {name} was acknowledged and is on no branch"))
            .collect())
    }

    /// Returns all damage found.
    fn damage(&self) -> Result<Vec<String>, String> {
        let mut problems = Vec::new();
        let fsck =
            self.git(&["fsck", "--strict", "--no-dangling"]).map_err(|error| error.to_string())?;
        if !fsck.status.success() {
            problems.push(format!("DAMAGED: {}", String::from_utf8_lossy(&fsck.stderr)));
        }
        let status = self.git(&["status", "--porcelain"]).map_err(|error| error.to_string())?;
        if !status.stdout.is_empty() {
            let left = String::from_utf8_lossy(&status.stdout);
            problems.push(format!("LEFT: {}", left.trim_end()));
        }
        let is_whole = |branch: &&str| {
            let switched = self.git(&["checkout", "--quiet", branch]);
            switched.is_ok_and(|out| out.status.success())
                && self.command(0, &["validate"]).status().is_ok_and(|status| status.success())
        };
        let broken = BRANCHES.iter().filter(|branch| !is_whole(branch));
        problems.extend(broken.map(|branch| format!("UNSOUND: the plan on {branch}")));
        problems.extend(left_locks(&self.repository()));
        Ok(problems)
    }
}

fn left_locks(repository: &Path) -> Option<String> {
    let lock = repository.join(".git/index.lock");
    lock.exists().then(|| format!("LEFT: {}", lock.display()))
}

/// Pseudo-random numbers, reproducible by seed (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
