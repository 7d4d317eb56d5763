//! Benchmarks: each figure is a ratio against a reference run alternately with it, the best of several rounds.
//!
//! Absolute times say more about the machine's other load than about Ralph. CPU time is preferred over wall time.

mod boundary;
mod home;
mod journal;
mod layers;
mod plan;
mod slots;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use ralph_proc::capture::children_cpu;

use crate::{generate, progress, root};

const MEBIBYTE: u64 = 1 << 20;

/// The maximum cost of creating a file on an unloaded file system.
const CHEAP: Duration = Duration::from_micros(40);

/// Runs the named benchmarks.
pub(crate) fn run(which: &str) -> Result<ExitCode, String> {
    let bench = Bench::prepare()?;
    let all = which == "all";
    let mut known = all;
    let mut met = true;
    for (name, measure) in [
        ("startup", Bench::startup as fn(&Bench) -> Result<bool, String>),
        ("loop", Bench::iteration),
        ("layers", Bench::layers),
        ("stream", Bench::streams),
        ("checkout", Bench::checkout),
        ("baseline", Bench::baseline),
        ("build", Bench::build),
        ("plan", Bench::plan),
        ("journal", Bench::journal),
        ("home", Bench::home),
        ("slots", Bench::slots),
    ] {
        if all || which == name {
            known = true;
            met &= measure(&bench)?;
        }
    }
    if !known {
        return Err(format!("no benchmark is called `{which}`"));
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The cost of one command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    cpu: Duration,
    wall: Duration,
    /// Its peak memory, if measured.
    peak: u64,
}

pub(crate) struct Bench {
    pub(crate) ralph: PathBuf,
    xtask: PathBuf,
    /// A workspace with its own state, agents and configuration.
    pub(crate) place: PathBuf,
}

impl Bench {
    fn prepare() -> Result<Bench, String> {
        progress("building ralph with optimisation");
        let built = Command::new(env!("CARGO"))
            .args(["build", "--release", "--package", "ralph", "--package", "xtask"])
            .current_dir(root())
            .status()
            .map_err(|error| error.to_string())?;
        if !built.success() {
            return Err("the build failed".to_owned());
        }
        // The layout of the target directory depends on the host: derive it from the path of this program.
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let release = own
            .parent()
            .and_then(Path::parent)
            .map(|directory| directory.join("release"))
            .ok_or("this program lies in no target directory")?;
        // Not the system's temporary directory, where test suites remove thousands of files: see `drop`.
        let place = release.join(format!("bench-{}", std::process::id()));
        let bench = Bench { ralph: place.join("ralph"), xtask: release.join("xtask"), place };
        // As an installer leaves it: the page cache of a file written through the linker's memory map is fragmented,
        // which costs a millisecond at each start.
        bench
            .lay_out()
            .and_then(|()| fs::copy(release.join("ralph"), &bench.ralph))
            .map_err(|error| format!("cannot prepare {}: {error}", bench.place.display()))?;
        Ok(bench)
    }

    fn lay_out(&self) -> std::io::Result<()> {
        let workspace = self.workspace();
        fs::create_dir_all(workspace.join("bin"))?;
        let own = self.place.join("home/.config/ralph");
        fs::create_dir_all(&own)?;
        fs::write(own.join("config.toml"), "[trust]\nalways = [\"/*\"]\n")?;
        fs::write(workspace.join("PROMPT.md"), "Do the next thing.\n".repeat(50))?;
        let agent = workspace.join("bin/agent");
        fs::write(&agent, "#!/bin/sh\ncat >/dev/null\necho done\n")?;
        make_executable(&agent)?;
        let mut config = format!("[agents.stub]\ncommand = [\"{}\"]\n", agent.display());
        for kind in ["text", "json", "line", "binary"] {
            let script = workspace.join("bin").join(kind);
            let xtask = self.xtask.display();
            fs::write(
                &script,
                format!("#!/bin/sh\nexec {xtask} {} {kind} $AMOUNT\n", generate::WORD),
            )?;
            make_executable(&script)?;
            if kind != "json" {
                let _ = writeln!(config, "[agents.{kind}]\ncommand = [\"{}\"]", script.display());
            }
        }
        let json = workspace.join("bin/json");
        let _ = writeln!(config, "[agents.claude]\nexe = \"{}\"", json.display());
        fs::write(workspace.join("ralph.toml"), config)?;
        let status = Command::new("git").args(["init", "-q"]).arg(&workspace).status()?;
        if status.success() { Ok(()) } else { Err(std::io::Error::other("git init failed")) }
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.place.join("workspace")
    }

    pub(crate) fn command(&self, program: impl AsRef<Path>, args: &[&str]) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .args(args)
            .current_dir(self.workspace())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.place.join("home"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn startup(&self) -> Result<bool, String> {
        let mut floor = Best::default();
        let mut git = Best::default();
        let mut ours = Best::default();
        let ralph = self.ralph.to_string_lossy();
        // All three through `env`, so that its cost cancels out.
        for _ in 0..40 {
            floor.take(cost(&mut self.command("/usr/bin/env", &["true"]))?);
            git.take(cost(&mut self.command("/usr/bin/env", &["git", "--version"]))?);
            ours.take(cost(&mut self.command("/usr/bin/env", &[&ralph, "--version"]))?);
        }
        let net = |best: &Best| best.cpu.saturating_sub(floor.cpu).as_secs_f64();
        Ok(report(
            "ralph --version, CPU net of `env true`, over git --version",
            net(&ours) / net(&git),
            Bar::AtMost(2.0),
        ))
    }

    fn iteration(&self) -> Result<bool, String> {
        let mut places = self.places_on_disk();
        places.push(Path::new("/dev/shm").join(ours()));
        self.where_files_are_cheap(places)?.iterate()
    }

    /// Directories that may be in different parts of the disk; first those about as deep as people's own.
    fn places_on_disk(&self) -> Vec<PathBuf> {
        let places = [std::env::temp_dir(), PathBuf::from("/var/tmp"), self.place.clone()];
        places.map(|place| place.join(ours())).into()
    }

    /// Creates the workspace of one benchmark in a directory where creating a file is cheap.
    ///
    /// A file system without a journal (ext4 can be one) creates files slowly for minutes after many were removed
    /// nearby, for example by a build or a test suite. Where file creation dominates, the ratio would measure that.
    fn where_files_are_cheap(&self, places: Vec<PathBuf>) -> Result<Bench, String> {
        let mut best: Option<(Duration, PathBuf)> = None;
        for place in places {
            let Ok(cost) = cost_of_a_file(&place) else { continue };
            let is_better = best.as_ref().is_none_or(|(least, _)| cost < *least);
            if let Some((_, other)) = best.take_if(|_| is_better) {
                let _ = fs::remove_dir_all(other);
            }
            if is_better {
                best = Some((cost, place));
            } else {
                let _ = fs::remove_dir_all(place);
            }
            if best.as_ref().is_some_and(|(least, _)| *least < CHEAP) {
                break;
            }
        }
        let (cost, place) = best.ok_or("no place to measure in")?;
        progress(&format!("measuring in {}, where a file costs {cost:?}", place.display()));
        let bench = Bench { ralph: self.ralph.clone(), xtask: self.xtask.clone(), place };
        bench.lay_out().map_err(|error| error.to_string())?;
        Ok(bench)
    }

    fn iterate(&self) -> Result<bool, String> {
        let (mut floor, mut ours) = (Best::default(), Best::default());
        let ralph = |count: u32| {
            let count = count.to_string();
            let args = [
                "agent",
                "run",
                "--quiet",
                "--agent",
                "stub",
                "--file",
                "PROMPT.md",
                "--repeat",
                &count,
            ];
            cost(&mut self.command(&self.ralph, &args))
        };
        for _ in 0..7 {
            floor.take(slope(self.shell_loop(2)?, self.shell_loop(52)?));
            ours.take(slope(ralph(2)?, ralph(52)?));
        }
        progress(&format!("one run: {:?} of CPU against {:?}", ours.cpu, floor.cpu));
        let ratio = ours.cpu.as_secs_f64() / floor.cpu.as_secs_f64();
        Ok(report(
            "one run (guard, boundary, log, journal), CPU over a shell loop",
            ratio,
            Bar::AtMost(1.7),
        ))
    }

    /// Runs the agent `count` times without Ralph.
    fn shell_loop(&self, count: u32) -> Result<Cost, String> {
        let script = format!(
            "i=0; while [ $i -lt {count} ]; do cat PROMPT.md | bin/agent > log; i=$((i+1)); done"
        );
        cost(&mut self.command("/bin/sh", &["-c", &script]))
    }

    fn streams(&self) -> Result<bool, String> {
        let mut met = true;
        for (name, kind, agent, amount, bar) in [
            ("500 MB of text", "text", "text", 500_000_000, Some(0.25)),
            ("5 million JSON events, all parsed", "json", "claude", 5_000_000, Some(0.2)),
            ("one line of 500 MB", "line", "line", 500_000_000, None),
            ("500 MB of bytes that are no UTF-8", "binary", "binary", 500_000_000, None),
        ] {
            met &= self.stream(name, kind, agent, amount, bar)?;
        }
        Ok(met)
    }

    fn stream(
        &self,
        name: &str,
        kind: &str,
        agent: &str,
        amount: u64,
        bar: Option<f64>,
    ) -> Result<bool, String> {
        let (mut floor, mut ours) = (Best::default(), Best::default());
        let amount = amount.to_string();
        let rounds = if bar.is_some() { 5 } else { 1 };
        for _ in 0..rounds {
            let redirect = format!("bin/{kind} > plain.log");
            floor.take(cost(self.command("/bin/sh", &["-c", &redirect]).env("AMOUNT", &amount))?);
            let _ = fs::remove_dir_all(self.place.join("home/.local/state"));
            let args = ["agent", "run", "--quiet", "--agent", agent, "--file", "PROMPT.md"];
            let mut command = self.command(&self.ralph, &args);
            ours.take(cost_and_peak(command.env("AMOUNT", &amount))?);
        }
        let same = self.logs_are_equal()?;
        let _ = fs::remove_dir_all(self.place.join("home/.local/state"));
        let mut met = report(
            &format!("{name}: log equal to what was written"),
            f64::from(u8::from(same)),
            Bar::AtLeast(1.0),
        );
        let ratio = floor.wall.as_secs_f64() / ours.wall.as_secs_f64();
        if let Some(bar) = bar {
            met &=
                report(&format!("{name}: throughput over `agent > log`"), ratio, Bar::AtLeast(bar));
        }
        let peak = precise(ours.peak) / precise(MEBIBYTE);
        met &= report(&format!("{name}: peak memory in MiB"), peak, Bar::AtMost(16.0));
        Ok(met)
    }

    /// Compares the last run's log with the output that the shell redirected.
    fn logs_are_equal(&self) -> Result<bool, String> {
        let state = self.place.join("home/.local/state/ralph");
        let mut logs = Vec::new();
        find(&state, ".log", &mut logs);
        logs.retain(|log| !log.to_string_lossy().ends_with(".stderr.log"));
        let [log] = logs.as_slice() else {
            return Err(format!(
                "expected one log below {}, found {}",
                state.display(),
                logs.len()
            ));
        };
        let status =
            Command::new("cmp").arg("-s").arg(log).arg(self.workspace().join("plain.log")).status();
        Ok(status.map_err(|error| error.to_string())?.success())
    }
}

impl Drop for Bench {
    /// Removes large files and leaves the rest to `cargo clean`, to keep file creation cheap for the next benchmark:
    /// see [`Bench::where_files_are_cheap`]. Outside the target directory nothing is left.
    fn drop(&mut self) {
        if self.xtask.parent().is_none_or(|target| !self.place.starts_with(target)) {
            let _ = fs::remove_dir_all(&self.place);
            return;
        }
        let mut files = Vec::new();
        find(&self.place, "", &mut files);
        for file in files {
            if fs::symlink_metadata(&file).is_ok_and(|found| found.len() > MEBIBYTE) {
                let _ = fs::remove_file(file);
            }
        }
    }
}

/// A unique directory name.
fn ours() -> String {
    format!("ralph-bench-{}", std::process::id())
}

/// The best of several rounds, for each figure separately.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Best {
    pub(crate) cpu: Duration,
    wall: Duration,
    peak: u64,
    rounds: u32,
}

impl Best {
    pub(crate) fn take(&mut self, cost: Cost) {
        if self.rounds == 0 {
            (self.cpu, self.wall) = (cost.cpu, cost.wall);
        }
        self.rounds += 1;
        self.cpu = self.cpu.min(cost.cpu);
        self.wall = self.wall.min(cost.wall);
        self.peak = self.peak.max(cost.peak);
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Bar {
    AtMost(f64),
    AtLeast(f64),
}

/// Prints a figure with its bar; returns whether it is met.
pub(crate) fn report(name: &str, figure: f64, bar: Bar) -> bool {
    let (met, bar) = match bar {
        Bar::AtMost(bar) => (figure <= bar, format!("at most {bar}")),
        Bar::AtLeast(bar) => (figure >= bar, format!("at least {bar}")),
    };
    println!("{} {name}: {figure:.2} ({bar})", if met { "ok  " } else { "MISS" });
    met
}

/// The cost per iteration, from the difference of 50 iterations.
fn slope(few: Cost, many: Cost) -> Cost {
    Cost {
        cpu: many.cpu.saturating_sub(few.cpu) / 50,
        wall: many.wall.saturating_sub(few.wall) / 50,
        peak: many.peak,
    }
}

/// Runs a command that must succeed and returns its cost without memory.
pub(crate) fn cost(command: &mut Command) -> Result<Cost, String> {
    measured(command, |child| child.wait().map(|status| (status.success(), 0)))
}

/// Runs a command that must succeed and returns its cost. Sampling its memory slows it down.
pub(crate) fn cost_and_peak(command: &mut Command) -> Result<Cost, String> {
    measured(command, watch)
}

fn measured(
    command: &mut Command,
    wait: impl FnOnce(&mut Child) -> std::io::Result<(bool, u64)>,
) -> Result<Cost, String> {
    let cpu = children_cpu();
    let started = Instant::now();
    let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let (success, peak) = wait(&mut child).map_err(|error| format!("{command:?}: {error}"))?;
    if !success {
        return Err(format!("{command:?} failed"));
    }
    Ok(Cost { cpu: children_cpu().saturating_sub(cpu), wall: started.elapsed(), peak })
}

/// Waits for a child while sampling its peak memory; the kernel keeps the maximum, so the last sample counts.
fn watch(child: &mut Child) -> std::io::Result<(bool, u64)> {
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status.success(), peak));
        }
        if let Ok(status) = fs::read_to_string(&status_file) {
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kilobytes =
                line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
            peak = peak.max(kilobytes.unwrap_or(0) * 1024);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes of files and memory")]
fn precise(number: u64) -> f64 {
    number as f64
}

fn find(directory: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            find(&path, ending, found);
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
}

/// Creates some files in a new directory, and leaves them there.
fn cost_of_a_file(directory: &Path) -> std::io::Result<Duration> {
    const FILES: u32 = 200;
    let files = directory.join("files");
    fs::create_dir_all(&files)?;
    let start = Instant::now();
    for number in 0..FILES {
        fs::File::create(files.join(number.to_string()))?;
    }
    Ok(start.elapsed() / FILES)
}

fn make_executable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}
