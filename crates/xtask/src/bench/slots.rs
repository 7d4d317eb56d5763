//! The cost of slots and landings compared with git's own commands: `git worktree add`, and `git merge --no-ff`.
//!
//! Each operation is one process of `ralph-git`'s example `slots`, so the figure includes process start-up.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::{Bar, Bench, Best, cost, progress, report};
use crate::root;

const ROUNDS: u32 = 5;

impl Bench {
    pub(super) fn slots(&self) -> Result<bool, String> {
        let program = build_example()?;
        let cheap = self.where_files_are_cheap(self.places_on_disk())?;
        let repository = cheap.place.join("large");
        let failed = |error: std::io::Error| format!("{}: {error}", repository.display());
        cheap.lay_out_repository(&repository).map_err(failed)?;
        let stage = Stage { bench: &cheap, program, repository };
        stage.run(&["mirror"])?;
        Ok(stage.preparation()? & stage.merging()? & stage.landing()? & stage.item()?)
    }
}

/// A repository of 5 000 files whose second commit changes 50, and a mirror of it.
struct Stage<'a> {
    bench: &'a Bench,
    program: PathBuf,
    repository: PathBuf,
}

impl Stage<'_> {
    /// A slot in a new directory, and one that is reused for another commit.
    fn preparation(&self) -> Result<bool, String> {
        let (first, second) = (self.id("HEAD~1")?, self.id("HEAD")?);
        let mut best = [Best::default(), Best::default(), Best::default()];
        for round in 0..ROUNDS {
            let [worktree, fresh, again] = &mut best;
            let name = format!("slot-{round}");
            let tree = self.bench.place.join(format!("worktree-{round}"));
            let tree = tree.to_string_lossy();
            worktree.take(cost(
                &mut self.git(&["worktree", "add", "--quiet", "--detach", &tree, &first]),
            )?);
            fresh.take(self.run(&["prepare", &first, &name])?);
            self.run(&["prepare", &second, &name])?;
            again.take(self.run(&["prepare", &first, &name])?);
        }
        let [worktree, fresh, again] = best.map(|best| best.cpu.as_secs_f64());
        progress(&format!(
            "git worktree add: {worktree:.3} s of CPU, a slot: {fresh:.3}, again: {again:.3}"
        ));
        let met = report(
            "a first slot of 5 000 files, CPU over git worktree add",
            fresh / worktree,
            Bar::AtMost(1.1),
        );
        Ok(report(
            "a slot made ready again (50 files differ), CPU over git worktree add",
            again / worktree,
            Bar::AtMost(0.25),
        ) && met)
    }

    /// The merge of a candidate into a branch that has advanced, without and with a working tree.
    fn merging(&self) -> Result<bool, String> {
        let tip = self.id("HEAD")?;
        let tree = self.bench.place.join("merging");
        let path = tree.to_string_lossy();
        self.done(&["worktree", "add", "--quiet", "--detach", &path, "HEAD~1"])?;
        for directory in 0..10 {
            let file = tree.join(format!("d{directory}/f7"));
            fs::write(&file, format!("candidate {directory}\n"))
                .map_err(|error| error.to_string())?;
        }
        let at = |args: &[&str]| {
            let mut command = self.git(args);
            command.current_dir(&tree);
            command
        };
        let finish = |command: &mut Command| cost(command).map(|_| ());
        finish(&mut at(&["commit", "--quiet", "--all", "--message=candidate"]))?;
        let candidate = self.id_at(&tree, "HEAD")?;
        self.done(&["update-ref", "refs/heads/candidate", &candidate])?;
        self.run(&["mirror"])?;
        let (mut theirs, mut ours) = (Best::default(), Best::default());
        for _ in 0..3 * ROUNDS {
            finish(&mut at(&["reset", "--quiet", "--hard", &tip]))?;
            theirs.take(cost(&mut at(&["merge", "--quiet", "--no-ff", "-m", "x", &candidate]))?);
            ours.take(self.run(&["merge", &tip, &candidate])?);
        }
        let made = fs::read_to_string(self.bench.place.join("merged-tree"));
        if made.map_err(|error| error.to_string())? != self.id_at(&tree, "HEAD^{tree}")? {
            return Err("the two merges made different trees".to_owned());
        }
        progress(&format!("git merge: {:?} of CPU, ours: {:?}", theirs.cpu, ours.cpu));
        Ok(report(
            "the merge of a landing in 5 000 files, CPU over git merge --no-ff",
            ours.cpu.as_secs_f64() / theirs.cpu.as_secs_f64(),
            Bar::AtMost(0.3),
        ))
    }

    /// A whole landing with a passing gate, compared with a merge in the working tree plus `true`. The candidate is
    /// that of the merges.
    fn landing(&self) -> Result<bool, String> {
        let (tip, candidate) = (self.id("main")?, self.id("candidate")?);
        let script = format!("git merge --quiet --no-ff -m x {candidate} && true");
        let (mut theirs, mut ours) = (Best::default(), Best::default());
        let mut trees = Vec::new();
        for _ in 0..ROUNDS {
            self.done(&["reset", "--quiet", "--hard", &tip])?;
            ours.take(self.run(&["land", &candidate])?);
            let made = fs::read_to_string(self.bench.place.join("merged-tree"));
            trees.push(made.map_err(|error| error.to_string())?);
            self.done(&["reset", "--quiet", "--hard", &tip])?;
            let mut merge = self.bench.command("sh", &["-c", &script]);
            merge.current_dir(&self.repository);
            for name in ["AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL"] {
                merge.env(format!("GIT_{name}"), "bench");
            }
            theirs.take(cost(&mut merge)?);
            trees.push(self.id("HEAD^{tree}")?);
        }
        self.done(&["reset", "--quiet", "--hard", &tip])?;
        trees.dedup();
        if trees.len() != 1 {
            return Err("the two landings made different trees".to_owned());
        }
        progress(&format!("git merge && true: {:?} of CPU, a landing: {:?}", theirs.cpu, ours.cpu));
        Ok(report(
            "a landing with gate `true` in 5 000 files, CPU over git merge --no-ff && true",
            ours.cpu.as_secs_f64() / theirs.cpu.as_secs_f64(),
            Bar::AtMost(3.5),
        ))
    }

    /// One spec from plan to landing with scripted agents: a breakdown of the time, without a bar.
    fn item(&self) -> Result<bool, String> {
        let write = |name: &str, text: &str| {
            let path = self.repository.join(name);
            fs::create_dir_all(path.parent().unwrap_or(&path)).and_then(|()| fs::write(&path, text))
        };
        let settings = format!(
            "agent = \"rehearsal\"\n[agents.rehearsal]\nscript = \"{}\"\n[[gate]]\nname = \"passes\"\nrun = [\"true\"]\n",
            self.bench.place.join("script").display()
        );
        write("ralph.toml", &settings)
            .and_then(|()| write("ralph/specs/0001-one.md", "# One\n\nDo it.\n"))
            .and_then(|()| fs::write(self.bench.place.join("script"), SCRIPT))
            .map_err(|error| error.to_string())?;
        self.done(&["add", "ralph.toml", "ralph"])?;
        self.done(&["commit", "--quiet", "--message=spec"])?;
        let mut command = self.bench.command(&self.bench.ralph, &["pipeline", "--quiet"]);
        command.current_dir(&self.repository);
        for name in ["AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL"] {
            command.env(format!("GIT_{name}"), "bench");
        }
        let begun = Instant::now();
        let whole = cost(&mut command)?;
        let wall = begun.elapsed();
        progress(&format!("one item end to end: {wall:?}, {:?} of CPU", whole.cpu));
        let log = fs::read_to_string(self.repository.join("ralph/ralph.log"));
        for line in breakdown(&log.map_err(|error| error.to_string())?) {
            progress(&line);
        }
        Ok(true)
    }

    fn run(&self, args: &[&str]) -> Result<super::Cost, String> {
        let place = self.bench.place.to_string_lossy();
        let args: Vec<&str> = [&args[..1], &[&*place], &args[1..]].concat();
        cost(&mut self.bench.command(&self.program, &args))
    }

    fn git(&self, args: &[&str]) -> Command {
        let mut command = self.bench.command("git", args);
        command.current_dir(&self.repository).stderr(Stdio::inherit());
        for name in ["AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL"] {
            command.env(format!("GIT_{name}"), "bench");
        }
        command
    }

    fn done(&self, args: &[&str]) -> Result<(), String> {
        cost(&mut self.git(args)).map(|_| ())
    }

    fn id(&self, name: &str) -> Result<String, String> {
        self.id_at(&self.repository, name)
    }

    fn id_at(&self, at: &Path, name: &str) -> Result<String, String> {
        let mut command = self.git(&["rev-parse", "--verify", name]);
        let output = command.current_dir(at).stdout(Stdio::piped()).output();
        let output = output.map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// Agents that follow their instructions.
const SCRIPT: &str = "[planner]\noutbox plan.md <<END\n# Plan\n\nDo it.\nEND\nfinal I AM HYPER SURE I AM DONE!\n\
    [implementer]\nwrite d1/new.txt hello\ncommit \"work\" d1/new.txt\nfinal <<END\n${COMMIT}\nI AM HYPER SURE I AM DONE!\nEND\n\
    [verifier]\nfinal <<END\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND\n";

/// Returns the duration of each step, from one journal event to the next.
fn breakdown(log: &str) -> Vec<String> {
    let field = |line: &str, name: &str| {
        let start = line.find(&format!("\"{name}\":\""))? + name.len() + 4;
        let length = line[start..].find('"')?;
        Some(line[start..start + length].to_owned())
    };
    // The time of day suffices: no step takes longer than a day.
    let seconds = |at: &str| {
        let time = at.split_once('T')?.1.trim_end_matches('Z');
        let mut parts = time.split(':').map(|part| part.parse::<f64>().ok());
        Some(parts.next()?? * 3600.0 + parts.next()?? * 60.0 + parts.next()??)
    };
    let mut lines = Vec::new();
    let mut last: Option<(f64, String)> = None;
    for line in log.lines() {
        let (Some(at), Some(event)) = (field(line, "at"), field(line, "event")) else { continue };
        let Some(at) = seconds(&at) else { continue };
        if let Some((before, from)) = &last {
            let took = (at - before) * 1000.0;
            if took >= 5.0 {
                lines.push(format!("  {took:7.0} ms  {from} → {event}"));
            }
        }
        last = Some((at, event));
    }
    lines
}

/// Builds the example and returns its path.
fn build_example() -> Result<PathBuf, String> {
    progress("building the example `slots` with optimisation");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--release", "--package", "ralph-git", "--example", "slots"])
        .current_dir(root())
        .status()
        .map_err(|error| error.to_string())?;
    if !built.success() {
        return Err("the build failed".to_owned());
    }
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let target =
        own.parent().and_then(Path::parent).ok_or("this program lies in no target directory")?;
    Ok(target.join("release/examples/slots"))
}
