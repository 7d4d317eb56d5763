//! The cost of the size of home: one spec among many done ones, a start with nothing to do, an empty run, and reports.

use std::fs;
use std::path::{Path, PathBuf};

use super::plan::{commit, file};
use super::{Bar, Bench, Best, cost, progress, report, slope};

const FEW: usize = 100;
const SOME: usize = 1000;
const MANY: usize = 10_000;

/// Plans, works with git's plumbing (which reads no index) and agrees.
const AGENT: &str = "#!/bin/sh
cat >/dev/null
P='I AM HYPER SURE I AM DONE!'
case $RALPH_ROLE in
planner) echo '# Plan' >$RALPH_OUT/plan.md; echo \"$P\";;
implementer)
  B=$(date +%N | git hash-object -w --stdin)
  T=$( (git ls-tree HEAD | grep -v '\tw$'; printf '100644 blob %s\\tw\\n' $B) | git mktree)
  git update-ref HEAD $(git commit-tree $T -p HEAD -m work)
  git update-index --add --cacheinfo 100644,$B,w; git checkout-index -f w
  git rev-parse HEAD; echo \"$P\";;
*) git rev-parse HEAD; echo \"$P\";;
esac
";

impl Bench {
    /// All of these benchmarks.
    pub(super) fn home(&self) -> Result<bool, String> {
        let cheap = self.where_files_are_cheap(self.places_on_disk())?;
        let mut homes = Vec::new();
        for specs in [FEW, SOME, MANY] {
            progress(&format!("making a home of {specs} specs"));
            let made = cheap.home_of(&format!("specs-{specs}"), specs);
            homes.push(made.map_err(|error| format!("cannot prepare: {error}"))?);
        }
        let [few, some, many] = &homes[..] else { return Err("three homes were made".to_owned()) };
        Ok(cheap.one_spec(few, many)?
            & cheap.nothing_to_do(some, many)?
            & cheap.empty_run(few, many)?
            & cheap.reports(some, many)?)
    }

    /// Creates a repository with this many done specs, packed from the start: a `git gc` fails if it runs concurrently
    /// with the one that git starts by itself after a large commit.
    fn home_of(&self, name: &str, specs: usize) -> std::io::Result<PathBuf> {
        let agent = self.place.join(name).join("agent");
        let settings = format!(
            "limits.backoff = \"0s\"\n[agents.stub]\ncommand = [\"sh\", \"{}\"]\n\
             [[gate]]\nname = \"passes\"\nrun = [\"true\"]\n",
            agent.display()
        );
        self.imported(name, |stream| {
            commit(stream, 0)?;
            for number in 1..=specs {
                for (path, text) in done_spec(number) {
                    file(stream, &format!("ralph/specs/{path}"), &text)?;
                }
            }
            let ignored = "runs/\nralph.log\nspecs/sessions/\n.*.ralph-tmp\n";
            file(stream, "ralph/.gitignore", ignored)?;
            file(stream, "agent", AGENT)?;
            file(stream, "ralph.toml", &settings)
        })
    }

    /// A spec from plan to landing, in clones and with a passing gate, among few and among many.
    fn one_spec(&self, few: &Path, many: &Path) -> Result<bool, String> {
        let mut best = [Best::default(), Best::default()];
        for round in 0..4 {
            for (place, best) in [few, many].iter().zip(&mut best) {
                let name = format!("{:05}-new", 20_000 + round);
                let path = place.join(format!("ralph/specs/{name}.md"));
                fs::write(path, "# New\n\nDo it.\n").map_err(|error| error.to_string())?;
                let args = ["pipeline", "--quiet", "--agent", "stub", &name];
                best.take(cost(&mut self.in_place(&self.ralph, &args, place))?);
                let done = place.join(format!("ralph/specs/done/{name}.md"));
                if !done.exists() {
                    return Err(format!("{} was not made", done.display()));
                }
            }
        }
        progress(&format!("one spec: {:?} and {:?} of CPU", best[0].cpu, best[1].cpu));
        let ratio = best[1].cpu.as_secs_f64() / best[0].cpu.as_secs_f64();
        Ok(report(
            "one spec in clones among 10 000, CPU over one among 100",
            ratio,
            Bar::AtMost(1.5),
        ))
    }

    /// A start that finds every spec done.
    fn nothing_to_do(&self, some: &Path, many: &Path) -> Result<bool, String> {
        let mut best = [Best::default(), Best::default()];
        for _ in 0..3 {
            for (place, best) in [some, many].iter().zip(&mut best) {
                let args = ["pipeline", "--quiet", "--agent", "stub"];
                best.take(cost(&mut self.in_place(&self.ralph, &args, place))?);
            }
        }
        progress(&format!("nothing to do: {:?} and {:?} of CPU", best[0].cpu, best[1].cpu));
        let ratio = best[1].cpu.as_secs_f64() / (10.0 * best[0].cpu.as_secs_f64());
        Ok(report(
            "a pipeline of 10 000 specs that are done, CPU over ten times that of 1 000",
            ratio,
            Bar::AtMost(1.3),
        ))
    }

    fn empty_run(&self, few: &Path, many: &Path) -> Result<bool, String> {
        let run = |place: &PathBuf, count: &str| {
            let args = ["agent", "run", "--quiet", "--agent", "stub", "x", "--repeat", count];
            cost(&mut self.in_place(&self.ralph, &args, place))
        };
        let mut best = [Best::default(), Best::default()];
        for _ in 0..3 {
            for (place, best) in [few, many].iter().zip(&mut best) {
                let place = place.to_path_buf();
                best.take(slope(run(&place, "2")?, run(&place, "52")?));
            }
        }
        progress(&format!("an empty run: {:?} and {:?} of CPU", best[0].cpu, best[1].cpu));
        let ratio = best[1].cpu.as_secs_f64() / best[0].cpu.as_secs_f64();
        Ok(report(
            "an empty run beside 10 000 specs, CPU over one beside 100",
            ratio,
            Bar::AtMost(1.5),
        ))
    }

    fn reports(&self, some: &Path, many: &Path) -> Result<bool, String> {
        let mut met = true;
        for command in ["specs", "status"] {
            let mut best = [Best::default(), Best::default()];
            for _ in 0..5 {
                for (place, best) in [some, many].iter().zip(&mut best) {
                    best.take(cost(&mut self.in_place(&self.ralph, &[command], place))?);
                }
            }
            let [some, many] = best.map(|best| best.cpu.as_secs_f64());
            met &= report(
                &format!("`ralph {command}` of 10 000 specs, CPU over ten times that of 1 000"),
                many / (10.0 * some),
                Bar::AtMost(1.3),
            );
            met &= report(
                &format!("`ralph {command}` of 10 000 specs, seconds of CPU"),
                many,
                Bar::AtMost(0.4),
            );
        }
        Ok(met)
    }
}

/// Returns all files that Ralph leaves for a done spec: paths below `specs`, and texts.
fn done_spec(number: usize) -> [(String, String); 5] {
    let (id, commit) = (format!("{number:05}-spec"), "0".repeat(40));
    let text =
        format!("# Spec {number}\n\nDo the thing number {number}.\n{}", "Some text.\n".repeat(20));
    let at = "2026-01-02T03:04:05Z";
    let common = format!(
        "\"spec_rel\": \"{id}.md\",\n  \"spec_id\": \"{id}\",\n  \"created_at_utc\": \"{at}\""
    );
    let plan = format!(
        "{{\n  {common},\n  \"status\": \"active\",\n  \"invalidated_at_utc\": null,\n  \"invalidation_reason\": null,\n  \
         \"attempt\": 1,\n  \"base\": {{\".\": \"{commit}\"}},\n  \"attempts_used\": 0,\n  \"tries\": []\n}}\n"
    );
    let candidate = format!(
        "{{\n  {common},\n  \"candidate_commit\": \"{commit}\",\n  \"last_impl_run_dir\": \"runs/x\",\n  \
         \"last_verify_run_dir\": \"runs/x\",\n  \"status\": \"verified\",\n  \"refs\": [\"refs/heads/main\"]\n}}\n"
    );
    let done = format!(
        "DONE\nCandidate commit: {commit}\nVerified at (UTC): {at}\nSpec id: {id}\nProof: not proven by gates\n\n\
         ## What was said last (at most 200 lines)\n\nIt holds.\n"
    );
    [
        (format!("{id}.md"), text),
        (format!("plans/{id}.md"), format!("# Plan\n{}", "- step\n".repeat(40))),
        (format!("plans/{id}.json"), plan),
        (format!("candidates/{id}.json"), candidate),
        (format!("done/{id}.md"), done),
    ]
}
