//! The environment of an agent: a small project of shell scripts with a gate that names its tests, a person with
//! uncommitted work, and the four workflows.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::liar::{Belief, Liar};

pub(super) const WORKFLOWS: [&str; 4] = ["pipeline", "build", "run", "loop"];
/// No agent here needs longer.
const LONGEST: Duration = Duration::from_mins(2);
/// How many bytes of memory stages may need.
const ROOM: u64 = 2 << 30;

/// The initial content of the repository. The spec has two passages that can be quoted.
const PROJECT: &str = r#"
set -eu
mkdir -p src tests ralph/specs .ralph
echo 'echo $(($1 + $2))' >src/add.sh
echo 'test "$(sh src/add.sh 1 2)" = 3' >tests/adds.sh
echo 'test "$(sh src/add.sh 0 0)" = 0' >tests/zero.sh
cat >check.sh <<'END'
#!/bin/sh
n=0; bad=0
for file in tests/*.sh; do
  n=$((n + 1))
  if sh "$file" >/dev/null 2>&1; then echo "ok $n - $file"; else echo "not ok $n - $file"; bad=1; fi
done
echo "1..$n"
exit $bad
END
chmod +x check.sh
cat >ralph/specs/0001-mul.md <<'END'
# Multiply

`src/mul.sh` prints the product of its two arguments.
A test in the directory of tests shows it for two and three.
END
cat >ralph/prd.json <<'END'
{"branchName": "ralph/mul", "userStories": [{"id": "US-001",
 "title": "src/mul.sh prints the product of its two arguments.", "acceptanceCriteria": ["A test in the directory of tests shows it for two and three."], "priority": 1, "passes": false, "notes": ""}]}
END
echo '# Progress' >ralph/progress.txt
printf 'runs/\nralph.log\n*.ralph-tmp\nspecs/sessions/\n' >ralph/.gitignore
printf '# ralph-mailbox\n*\n' >.ralph/.gitignore
cat >.ralph/plan.md <<'END'
# Plan: multiply

## Analysis
- There is a script that adds, and none that multiplies.

## Steps
1. `src/mul.sh` (new): print the product.

## Verification strategy
- `sh src/mul.sh 2 3`
END
cat >ralph.toml <<'END'
limits.backoff = "0s"
limits.rejections = 1
limits.interrupt_grace = "200ms"
limits.terminate_grace = "200ms"
[loop]
preset = "minimal"
[[gate]]
name = "check"
run = ["./check.sh"]
END
"#;

/// Other projects, as functions that the person's script of an agent calls.
const PROJECTS: &str = include_str!("projects.sh");

/// What agents are made of. `mul` is the honest work, uncommitted.
const AGENT: &str = r#"#!/bin/bash
prompt=$(cat); P='I AM HYPER SURE I AM DONE!'; W=@WORKFLOW@
mul() { echo 'echo $(($1 * $2))' >src/mul.sh; echo 'test "$(sh src/mul.sh 2 3)" = 6' >tests/muls.sh; }
stub() { echo 'echo 6' >src/mul.sh; }
break_source() { echo 'echo 3' >src/add.sh; }
commit() { git add -A; git commit -qm "${1:-work}"; }
claim() {
  case $W in
    pipeline) git rev-parse "${1:-HEAD}"; echo "$P";;
    build) ralph task done >/dev/null; echo built;;
    run) sed -i 's/"passes": false/"passes": true/' "$RALPH_OUT/prd.json"; echo built;;
    loop) echo 'There is a script now that prints the product of its two arguments, with a test.' >.ralph/summary.md; echo complete >.ralph/status.txt; echo built;;
  esac
}
answers() {
  n=0
  printf '%s\n' "$prompt" | sed -n 's/^ *CHECK \(.*\): …$/\1/p' | while read -r path; do
    n=$((n + 1))
    if [ $((n % 2)) = 1 ]; then q='prints the product of its two arguments.'; else q='A test in the directory of tests shows it for two and three.'; fi
    echo "CHECK $path: asked: $q"
  done
}
agree() {
  commit_name=$(printf '%s\n' "$prompt" | sed -n 's/^- Commit: \([0-9a-f]*\)$/\1/p' | head -1)
  case $prompt in
    *'# What you are asked'*) answers; echo "$commit_name"; echo "$P";;
    *) if [ $W = pipeline ]; then answers; echo "$commit_name"; echo "$P"; else ralph task accept; echo '[RALPH] SPEC_COMPLETE'; fi;;
  esac
}
case $RALPH_ROLE in
planner)
if [ $W = pipeline ]; then
echo 'Write src/mul.sh.' >"$RALPH_OUT/plan.md"; echo "$P"
else
@PLAN@
fi
;;
verifier)
@VERIFY@
;;
*)
@WORK@
;;
esac
"#;

/// What the planner of `build` does.
const PLAN: &str = r#"ralph task add '{"name": "multiply", "notes": "see the spec", "accept": "it multiplies"}'
[ ! -e ralph/specs/0002-more.md ] || ralph task add '{"name": "more", "notes": "see the spec", "accept": "it does more"}'"#;

/// The outcome of one agent in one workflow.
#[derive(Clone, Debug)]
pub(super) struct TrustOutcome {
    pub(super) believed: Belief,
    pub(super) lost: Option<String>,
    pub(super) processes: usize,
    pub(super) ended: bool,
    pub(super) code: Option<i32>,
    /// The end of the output.
    pub(super) tail: String,
}

/// One environment, removed at the end.
pub(super) struct TrustStage<'a> {
    root: PathBuf,
    ralph: &'a Path,
    marker: String,
}

impl<'a> TrustStage<'a> {
    pub(super) fn new(ralph: &'a Path, number: usize) -> TrustStage<'a> {
        let marker = format!("ralph-trust-{}-{number}", std::process::id());
        TrustStage { root: stages().join(&marker), ralph, marker }
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let directory = self.ralph.parent().unwrap_or(Path::new("")).display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env_clear()
            .env("PATH", format!("{directory}:{path}"))
            .env("HOME", self.root.join("home"))
            .env("XDG_STATE_HOME", self.root.join("state"))
            .env("XDG_CONFIG_HOME", self.root.join("config"))
            .env("GIT_CONFIG_GLOBAL", self.root.join("gitconfig"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("RALPH_TRUST_MARKER", &self.marker)
            .envs(rustup_home().map(|home| ("RUSTUP_HOME", home)))
            .current_dir(self.root.join("work"));
        command
    }

    fn shell(&self, script: &str) -> Result<String, String> {
        let mut command = self.command(Path::new("bash"));
        let output = command.args(["-c", script]).output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(format!("the stage: {}", String::from_utf8_lossy(&output.stderr)))
    }

    fn lay_out(&self, liar: &Liar, workflow: &str) -> Result<(), String> {
        let failed = |error: std::io::Error| error.to_string();
        for directory in ["home", "config", "work"] {
            fs::create_dir_all(self.root.join(directory)).map_err(failed)?;
        }
        let git =
            "[user]\nname = Person\nemail = person@example.org\n[init]\ndefaultBranch = main\n";
        fs::write(self.root.join("gitconfig"), git).map_err(failed)?;
        let begin = format!(
            "git init -q\n{PROJECT}\n{PROJECTS}\n{}\ngit add -A\ngit commit -qm begin\n\
             git checkout -qb persons; echo mine >kept.txt; git add kept.txt; git commit -qm kept; git checkout -q main\n\
             echo 'a thought' >thought.txt\n",
            liar.person
        );
        self.shell(&begin)?;
        let agree = "agree\n".to_owned();
        let agent = AGENT
            .replace("@WORKFLOW@", workflow)
            .replace("@VERIFY@", liar.verify.as_ref().unwrap_or(&agree))
            .replace("@PLAN@", liar.plan.as_deref().unwrap_or(PLAN))
            .replace("@WORK@", &liar.work);
        let path = self.root.join("agent");
        fs::write(&path, agent).map_err(failed)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(failed)
    }

    /// Plays an agent in a workflow to its end.
    pub(super) fn play(&self, liar: &Liar, workflow: &str) -> Result<TrustOutcome, String> {
        self.lay_out(liar, workflow)?;
        let agent = self.root.join("agent").display().to_string();
        let with_agent = ["--ui", "plain", "--trust", "--agent-cmd", &agent];
        let commands: Vec<Vec<&str>> = match workflow {
            "pipeline" => vec![vec!["pipeline", "--allow-dirty", "--max-attempts", "1"]],
            "build" => vec![
                vec!["plan", "0001-mul.md"],
                vec!["build", "--allow-dirty", "--max-failures", "2"],
            ],
            "run" => vec![vec!["run", "--allow-dirty", "--max-run-iterations", "1"]],
            _ => vec![vec![
                "loop",
                "--allow-dirty",
                "--max-iterations",
                "2",
                "src/mul.sh prints the product of its two arguments.\nA test in the directory of tests shows it for two and three.",
            ]],
        };
        let (mut ended, mut code, mut tail) = (true, None, String::new());
        for args in commands {
            let out = self.root.join("out");
            let file = fs::File::create(&out).map_err(|error| error.to_string())?;
            let copy = file.try_clone().map_err(|error| error.to_string())?;
            let mut command = self.command(self.ralph);
            let further =
                liar.arguments.iter().filter(|(of, _)| args.first() == Some(&of.as_str()));
            let further = further.flat_map(|(_, words)| words);
            command
                .args(&args)
                .args(further)
                .args(with_agent)
                .stdin(Stdio::null())
                .stdout(file)
                .stderr(copy);
            let mut child = command.process_group(0).spawn().map_err(|error| error.to_string())?;
            let begun = Instant::now();
            code = loop {
                match child.try_wait().map_err(|error| error.to_string())? {
                    Some(status) => break status.code(),
                    None if begun.elapsed() > LONGEST => {
                        ended = false;
                        let _ = child.kill();
                        let _ = child.wait();
                        break None;
                    }
                    None => thread::sleep(Duration::from_millis(20)),
                }
            };
            let text = fs::read(&out).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            tail = text
                .lines()
                .rev()
                .take(12)
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .collect::<Vec<_>>()
                .join("\n");
        }
        let processes = self.processes();
        Ok(TrustOutcome {
            believed: self.believed(liar.by_last)?,
            lost: self.lost(),
            processes,
            ended,
            code,
            tail,
        })
    }

    /// The highest level at which anything was accepted, or that of the last verdict.
    fn believed(&self, by_last: bool) -> Result<Belief, String> {
        let states = fs::read_dir(self.root.join("state/ralph")).into_iter().flatten().flatten();
        let (mut believed, mut has_run) = (Belief::Nothing, false);
        for state in states {
            let text = fs::read_to_string(state.path().join("journal.jsonl")).unwrap_or_default();
            has_run |= text.contains("\"event\":\"run_finished\"");
            for line in text.lines().filter(|line| line.contains("\"event\":\"verdict\"")) {
                let event: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
                let data = &event["data"];
                if data["by"] == "person" {
                    continue;
                }
                if data["verdict"] == "accepted" {
                    let level = data["level"].as_str();
                    // A task verified after it has landed is accepted once more, without a level.
                    if by_last && level.is_none() {
                        continue;
                    }
                    let level = Belief::in_journal(level.unwrap_or(""));
                    believed = if by_last { level } else { believed.max(level) };
                } else if by_last {
                    believed = Belief::Nothing;
                }
            }
        }
        // A lie that was never told proves nothing.
        if has_run { Ok(believed) } else { Err("no agent ran".to_owned()) }
    }

    /// Returns what the person has lost.
    fn lost(&self) -> Option<String> {
        let thought = fs::read_to_string(self.root.join("work/thought.txt")).unwrap_or_default();
        if thought != "a thought\n" {
            return Some("an uncommitted file".to_owned());
        }
        let kept = self.shell("git show persons:kept.txt");
        if kept.as_deref() != Ok("mine\n") {
            return Some("a branch".to_owned());
        }
        let log = self.shell("git log --format=%s main").unwrap_or_default();
        (!log.lines().any(|line| line == "begin")).then(|| "history".to_owned())
    }

    /// Counts and kills its leftover processes.
    fn processes(&self) -> usize {
        let marker = format!("RALPH_TRUST_MARKER={}", self.marker).into_bytes();
        let mut found = 0;
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Ok(pid) = name.to_string_lossy().parse::<u32>() else { continue };
            let mut environment = Vec::new();
            let file = fs::File::open(entry.path().join("environ"));
            if file.and_then(|mut file| file.read_to_end(&mut environment)).is_err() {
                continue;
            }
            if environment.split(|byte| *byte == 0).any(|one| one == marker) {
                found += 1;
                let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
            }
        }
        found
    }
}

/// Where stages are made: in memory where that is possible, because most of a story's time is spent waiting for the disk.
fn stages() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let has_room = rustix::fs::statvfs(memory)
        .is_ok_and(|found| found.f_bavail.saturating_mul(found.f_frsize) > ROOM);
    let is_named = std::env::var_os("TMPDIR").is_some();
    if has_room && !is_named { memory.to_owned() } else { std::env::temp_dir() }
}

/// The directory of rustup's toolchains: by default below the home directory, which is replaced here.
fn rustup_home() -> Option<PathBuf> {
    let set = std::env::var_os("RUSTUP_HOME").map(PathBuf::from);
    let own = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".rustup"));
    set.or(own).filter(|home| home.is_dir())
}

impl Drop for TrustStage<'_> {
    fn drop(&mut self) {
        // Kept for inspection.
        if std::env::var_os("TRUST_KEEP").is_none() {
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}
