//! What the plan costs in git: one commit of it, its whole history, and a history in which nothing is new.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Bar, Bench, Best, cost, progress, report};
use crate::root;

const PLAN: &str = "ralph/plan.jsonl";
const FILES: usize = 3000;
const COMMITS: usize = 50_000;
/// Tasks that a plan has at any time; with what is written about each, 25 KB.
const TASKS: usize = 100;

impl Bench {
    /// All three.
    pub(super) fn plan(&self) -> Result<bool, String> {
        progress("building what is measured");
        let built = Command::new(env!("CARGO"))
            .args(["build", "--release", "--package", "ralph-engine", "--example", "plan_git"])
            .current_dir(root())
            .status()
            .map_err(|error| error.to_string())?;
        if !built.success() {
            return Err("the build failed".to_owned());
        }
        let ours = self.ralph.with_file_name("examples").join("plan_git");
        let failed = |error: std::io::Error| format!("cannot prepare: {error}");
        let many_files = self.many_files().map_err(failed)?;
        let mut met = self.one_commit(&ours, &many_files)?;
        progress(&format!("making {COMMITS} commits"));
        let long = self.long_history().map_err(failed)?;
        met &= self.whole_history(&ours, &long)?;
        met &= self.nothing_new(&ours, &long)?;
        Ok(met)
    }

    fn in_place(&self, program: impl AsRef<Path>, args: &[&str], place: &Path) -> Command {
        let mut command = self.command(program, args);
        command.current_dir(place);
        for name in
            ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"]
        {
            command.env(name, "bench");
        }
        command
    }

    fn one_commit(&self, ours: &Path, place: &Path) -> Result<bool, String> {
        let (mut git, mut direct) = (Best::default(), Best::default());
        let args = ["commit", "--quiet", "-m", "plan: x", "--", PLAN];
        for round in 0..20 {
            let edit = |number: usize| {
                fs::write(place.join(PLAN), plan_after(number)).map_err(|error| error.to_string())
            };
            edit(2 * round + 1)?;
            git.take(cost(&mut self.in_place("git", &args, place))?);
            edit(2 * round + 2)?;
            direct.take(cost(&mut self.in_place(ours, &["commit", PLAN], place))?);
        }
        progress(&format!("one commit: {:?} of CPU against {:?}", direct.cpu, git.cpu));
        Ok(report(
            "one commit of the plan among 3 000 files, CPU over `git commit -- plan.jsonl`",
            direct.cpu.as_secs_f64() / git.cpu.as_secs_f64(),
            Bar::AtMost(0.25),
        ))
    }

    fn whole_history(&self, ours: &Path, place: &Path) -> Result<bool, String> {
        let log = ["log", "--raw", "--no-abbrev", "--format=%H", "HEAD", "--", PLAN];
        let raw = self.in_place("git", &log, place).stdout(Stdio::piped()).output();
        let raw = raw.map_err(|error| error.to_string())?.stdout;
        let mut ids = String::new();
        for line in String::from_utf8_lossy(&raw).lines().filter(|line| line.starts_with(':')) {
            let _ = writeln!(ids, "{}", line.split(' ').nth(3).unwrap_or_default());
        }
        let list = self.place.join("blobs");
        fs::write(&list, ids).map_err(|error| error.to_string())?;
        let (mut git, mut walk) = (Best::default(), Best::default());
        for _ in 0..4 {
            let mut both = cost(&mut self.in_place("git", &log, place))?;
            let list = File::open(&list).map_err(|error| error.to_string())?;
            let batch = ["cat-file", "--batch", "--buffer"];
            let contents = cost(self.in_place("git", &batch, place).stdin(list))?;
            both.cpu += contents.cpu;
            git.take(both);
            walk.take(cost(&mut self.in_place(ours, &["history", PLAN], place))?);
        }
        progress(&format!(
            "the history: {:?} of CPU against {:?}, {} MiB at most",
            walk.cpu,
            git.cpu,
            walk.peak >> 20
        ));
        Ok(report(
            "50 000 commits of the plan, CPU over `git log --raw` and `git cat-file --batch`",
            walk.cpu.as_secs_f64() / git.cpu.as_secs_f64(),
            Bar::AtMost(1.5),
        ))
    }

    fn nothing_new(&self, ours: &Path, place: &Path) -> Result<bool, String> {
        let (mut git, mut news) = (Best::default(), Best::default());
        for _ in 0..40 {
            git.take(cost(&mut self.in_place("git", &["rev-parse", "HEAD"], place))?);
            news.take(cost(&mut self.in_place(ours, &["news", PLAN], place))?);
        }
        Ok(report(
            "the same with nothing new, CPU over `git rev-parse HEAD`",
            news.cpu.as_secs_f64() / git.cpu.as_secs_f64(),
            Bar::AtMost(2.0),
        ))
    }

    fn many_files(&self) -> std::io::Result<PathBuf> {
        let place = self.place.join("many");
        for number in 0..FILES {
            let directory = place.join(format!("src/part-{}", number / 30));
            if number % 30 == 0 {
                fs::create_dir_all(&directory)?;
            }
            fs::write(directory.join(format!("file_{number}.rs")), format!("// {number}\n"))?;
        }
        fs::create_dir_all(place.join("ralph"))?;
        fs::write(place.join(PLAN), plan_after(0))?;
        for args in [
            &["init", "--quiet"][..],
            &["add", "."],
            &["commit", "--quiet", "-m", "all"],
            &["gc", "--quiet"],
        ] {
            succeed(&mut self.in_place("git", args, &place))?;
        }
        Ok(place)
    }

    fn long_history(&self) -> std::io::Result<PathBuf> {
        let place = self.place.join("long");
        fs::create_dir_all(&place)?;
        succeed(&mut self.in_place("git", &["init", "--quiet", "-b", "main"], &place))?;
        let mut import = self.in_place("git", &["fast-import", "--quiet"], &place);
        let mut import = import.stdin(Stdio::piped()).spawn()?;
        let mut stream = std::io::BufWriter::new(import.stdin.take().expect("it is a pipe"));
        for number in 0..COMMITS {
            let plan = plan_after(number);
            let size = plan.len();
            let when = 1_700_000_000 + number;
            writeln!(stream, "commit refs/heads/main\ncommitter b <b@b> {when} +0000\ndata 0")?;
            writeln!(stream, "M 644 inline {PLAN}\ndata {size}\n{plan}")?;
        }
        drop(stream);
        if import.wait()?.success() {
            Ok(place)
        } else {
            Err(std::io::Error::other("git fast-import failed"))
        }
    }
}

fn succeed(command: &mut Command) -> std::io::Result<()> {
    if command.status()?.success() {
        Ok(())
    } else {
        Err(std::io::Error::other(format!("{command:?} failed")))
    }
}

/// Writes a plan as it is after so many changes: a task is added, done, and accepted, one after the other.
fn plan_after(changes: usize) -> String {
    let mut plan = String::new();
    let (first, step) = (changes / 3, changes % 3);
    // The task that was added first is accepted when one is added at the end.
    let last = first + TASKS + usize::from(step > 0);
    for task in first..last {
        let state = if step == 2 && task == first { "d" } else { "p" };
        let seed = task.wrapping_mul(2_654_435_761);
        let _ = writeln!(
            plan,
            "{{\"t\":\"task\",\"id\":\"t-{seed:06x}\",\"s\":\"{state}\",\"name\":\"Task {task} of the plan\",\"notes\":\"In src/part-{task}/file_{task}.rs, where {seed:x} is read, handle what comes after it and say so.\",\"accept\":\"cargo test part_{task} passes and covers {seed:o}\",\"deps\":[]}}"
        );
    }
    plan
}
