//! The cost of the plan: querying the next task, one change with its commit, the whole history, and an unchanged
//! history.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Bar, Bench, Best, cost, cost_and_peak, progress, report};

const PLAN: &str = "ralph/plan.jsonl";
const FILES: usize = 3000;
const COMMITS: usize = 50_000;
/// The number of tasks in a plan at any time; with their text, 25 KB.
const TASKS: usize = 100;

impl Bench {
    /// All four.
    pub(super) fn plan(&self) -> Result<bool, String> {
        let failed = |error: std::io::Error| format!("cannot prepare: {error}");
        let mut met = self.next_task()?;
        let cheap = self.where_files_are_cheap(self.places_on_disk())?;
        let many_files = cheap.many_files().map_err(failed)?;
        met &= cheap.one_change(&many_files)?;
        progress(&format!("making {COMMITS} commits"));
        let long = self.long_history().map_err(failed)?;
        met &= self.whole_history(&long)?;
        met &= self.nothing_new(&long)?;
        Ok(met)
    }

    /// `ralph query next` compared with the same query in the `sqlite3` CLI.
    fn next_task(&self) -> Result<bool, String> {
        install_sqlite()?;
        let mut sizes = Vec::new();
        for tasks in [100, 10_000, 100_000] {
            let place = self.place.join(format!("tasks-{tasks}"));
            let failed = |error: std::io::Error| format!("cannot prepare: {error}");
            self.many_tasks(&place, tasks).map_err(failed)?;
            sizes.push((tasks, place, Best::default(), Best::default()));
        }
        // Alternate the sizes in each round, because they are compared with each other too.
        for _ in 0..20 {
            for (_, place, ours, sqlite) in &mut sizes {
                ours.take(cost(&mut self.in_place(&self.ralph, &["query", "next"], place))?);
                sqlite.take(cost(&mut self.in_place("sqlite3", &["plan.db", NEXT], place))?);
            }
        }
        let mut costs = Vec::new();
        for (tasks, _, ours, sqlite) in sizes {
            progress(&format!("{tasks} tasks: {:?} of CPU against {:?}", ours.cpu, sqlite.cpu));
            costs.push((ours.cpu.as_secs_f64(), sqlite.cpu.as_secs_f64()));
        }
        let linear = report(
            "the next of 100 000 tasks, CPU over ten times that of 10 000",
            costs[2].0 / (10.0 * costs[1].0),
            Bar::AtMost(1.3),
        );
        let (ours, sqlite) = costs[1];
        Ok(report("the next of 10 000 tasks, CPU over sqlite3's", ours / sqlite, Bar::AtMost(1.0))
            & linear)
    }

    /// Creates a plan of dependency chains of ten, and a database with the same content.
    fn many_tasks(&self, place: &Path, tasks: usize) -> std::io::Result<()> {
        fs::create_dir_all(place.join("ralph"))?;
        succeed(&mut self.in_place("git", &["init", "--quiet"], place))?;
        let mut plan = String::from("{\"t\": \"spec\", \"spec\": \"s.md\"}\n");
        let mut load = String::from(TABLES);
        for task in 0..tasks {
            let seed = task.wrapping_mul(2_654_435_761);
            let (name, notes) =
                (format!("Task {task}"), format!("In src/part-{task}, where {seed:x} is read."));
            let accept = format!("cargo test part_{task} passes");
            let waits = task % 10 > 0;
            let before = task.saturating_sub(1);
            let deps =
                if waits { format!(", \"deps\": [\"t-{before:06x}\"]") } else { String::new() };
            let priority = if waits && task % 7 == 0 { "high" } else { "medium" };
            let _ = writeln!(
                plan,
                "{{\"t\": \"task\", \"id\": \"t-{task:06x}\", \"spec\": \"s.md\", \"name\": \"{name}\", \"notes\": \"{notes}\"{deps}, \"accept\": \"{accept}\", \"s\": \"p\", \"priority\": \"{priority}\"}}"
            );
            let rank = usize::from(priority != "high");
            let _ = writeln!(
                load,
                "insert into task values ({task}, 't-{task:06x}', 's.md', '{name}', '{notes}', '{accept}', 'p', {rank});"
            );
            if waits {
                let _ =
                    writeln!(load, "insert into dep values ('t-{task:06x}', 't-{before:06x}');");
            }
        }
        load.push_str("commit;\n");
        fs::write(place.join(PLAN), plan)?;
        fs::write(place.join("load.sql"), load)?;
        succeed(&mut self.in_place("sqlite3", &["plan.db", ".read load.sql"], place))
    }

    pub(super) fn in_place(
        &self,
        program: impl AsRef<Path>,
        args: &[&str],
        place: &Path,
    ) -> Command {
        let mut command = self.command(program, args);
        command.current_dir(place);
        for name in
            ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"]
        {
            command.env(name, "bench");
        }
        command
    }

    fn one_change(&self, place: &Path) -> Result<bool, String> {
        let commit = ["commit", "--quiet", "-m", "plan: x", "--", PLAN];
        let mut met = true;
        // The second has to know every id that ever existed.
        for change in [&["task", "done"][..], &["task", "add", "One more of them"]] {
            let (mut git, mut ours) = (Best::default(), Best::default());
            for round in 0..60 {
                let edited = fs::write(place.join(PLAN), plan_after(round + 1));
                edited.map_err(|error| error.to_string())?;
                git.take(cost(&mut self.in_place("git", &commit, place))?);
                ours.take(cost(&mut self.in_place(&self.ralph, change, place))?);
            }
            let name = change[..2].join(" ");
            progress(&format!("{name}: {:?} of CPU against {:?}", ours.cpu, git.cpu));
            met &= report(
                &format!("{name} among 3 000 files, CPU over `git commit -- plan.jsonl`"),
                ours.cpu.as_secs_f64() / git.cpu.as_secs_f64(),
                Bar::AtMost(0.25),
            );
        }
        Ok(met)
    }

    fn whole_history(&self, place: &Path) -> Result<bool, String> {
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
            // A cold start: remove the caches of earlier rounds.
            let kept = self.place.join("home/.local/state/ralph");
            if kept.exists() {
                fs::remove_dir_all(kept).map_err(|error| error.to_string())?;
            }
            let mut log_all = self.in_place(&self.ralph, &["log", "--all"], place);
            walk.take(cost_and_peak(&mut log_all)?);
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

    fn nothing_new(&self, place: &Path) -> Result<bool, String> {
        let (mut git, mut news) = (Best::default(), Best::default());
        for _ in 0..40 {
            git.take(cost(&mut self.in_place("git", &["rev-parse", "HEAD"], place))?);
            news.take(cost(&mut self.in_place(&self.ralph, &["log", "--all"], place))?);
        }
        Ok(report(
            "the same with nothing new, CPU over `git rev-parse HEAD`",
            news.cpu.as_secs_f64() / git.cpu.as_secs_f64(),
            Bar::AtMost(2.0),
        ))
    }

    /// Creates a repository of many files, packed from the start: files that a `git gc` removes would slow down
    /// creating files.
    fn many_files(&self) -> std::io::Result<PathBuf> {
        self.imported("many", |stream| {
            commit(stream, 0)?;
            for number in 0..FILES {
                let (part, text) = (number / 30, format!("// {number}\n"));
                file(stream, &format!("src/part-{part}/file_{number}.rs"), &text)?;
            }
            file(stream, PLAN, &plan_after(0))
        })
    }

    fn long_history(&self) -> std::io::Result<PathBuf> {
        self.imported("long", |stream| {
            for number in 0..COMMITS {
                commit(stream, number)?;
                file(stream, PLAN, &plan_after(number))?;
            }
            Ok(())
        })
    }

    /// Creates a repository from a `git fast-import` stream, and checks it out.
    pub(super) fn imported(
        &self,
        name: &str,
        tell: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>,
    ) -> std::io::Result<PathBuf> {
        let place = self.place.join(name);
        fs::create_dir_all(&place)?;
        succeed(&mut self.in_place("git", &["init", "--quiet", "-b", "main"], &place))?;
        let mut import = self.in_place("git", &["fast-import", "--quiet"], &place);
        let mut import = import.stdin(Stdio::piped()).spawn()?;
        let mut stream = std::io::BufWriter::new(import.stdin.take().expect("it is a pipe"));
        tell(&mut stream)?;
        drop(stream);
        if !import.wait()?.success() {
            return Err(std::io::Error::other("git fast-import failed"));
        }
        succeed(&mut self.in_place("git", &["reset", "--quiet", "--hard"], &place))?;
        Ok(place)
    }
}

pub(super) fn commit(stream: &mut dyn std::io::Write, number: usize) -> std::io::Result<()> {
    let when = 1_700_000_000 + number;
    writeln!(stream, "commit refs/heads/main\ncommitter b <b@b> {when} +0000\ndata 0")
}

pub(super) fn file(stream: &mut dyn std::io::Write, path: &str, text: &str) -> std::io::Result<()> {
    writeln!(stream, "M 644 inline {path}\ndata {}\n{text}", text.len())
}

/// The database query equivalent to `ralph query next`.
const NEXT: &str = "select * from task t where s = 'p' and spec = 's.md' and not exists (select 1 from dep d \
    join task o on o.id = d.dep where d.task = t.id and o.s = 'p') order by priority, number limit 1";

const TABLES: &str = "begin;\n\
    create table task (number integer primary key, id text unique, spec text, name text, notes text, accept text, \
    s text, priority integer);\n\
    create table dep (task text, dep text);\n\
    create index dep_of on dep (task);\n";

/// Installs the `sqlite3` CLI if it is missing and a package manager is available.
fn install_sqlite() -> Result<(), String> {
    let is_there = || {
        let asked = Command::new("sqlite3").arg("--version").stdout(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    };
    if is_there() {
        return Ok(());
    }
    progress("installing sqlite3");
    let _ = Command::new("apt-get").args(["install", "--yes", "sqlite3"]).status();
    if is_there() { Ok(()) } else { Err("sqlite3 is not installed".to_owned()) }
}

fn succeed(command: &mut Command) -> std::io::Result<()> {
    if command.status()?.success() {
        Ok(())
    } else {
        Err(std::io::Error::other(format!("{command:?} failed")))
    }
}

/// Returns a plan after this many changes: tasks are added, done, and accepted in turn.
fn plan_after(changes: usize) -> String {
    let mut plan = String::from("{\"t\":\"spec\",\"spec\":\"s.md\"}\n");
    let (first, step) = (changes / 3, changes % 3);
    // The oldest task is accepted whenever one is added at the end.
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
