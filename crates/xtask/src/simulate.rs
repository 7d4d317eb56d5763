//! `cargo xtask simulate`: stories on a simulated machine, from fresh seeds or from a given one.
//!
//! The simulation is a test of the engine, so that nothing of it is in the product; this builds it with optimisation
//! (`--sample`: like the other tests) and passes its parameters.

use std::process::{Command, ExitCode};
use std::time::SystemTime;

use crate::{progress, root, test};

/// The default duration.
const SECONDS: u64 = 60;

/// The parsed arguments.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SimulateRequest {
    /// The number of stories; by default as many as the time allows.
    runs: Option<u64>,
    seed: Option<u64>,
    seconds: Option<u64>,
    /// Uses the build of `cargo xtask test`: fewer stories, and nothing is compiled.
    sample: bool,
    /// A defect to reintroduce, which must be found, or all of them one by one.
    defect: Option<String>,
}

impl SimulateRequest {
    /// Parses the arguments after `simulate`.
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<SimulateRequest, String> {
        let mut request = SimulateRequest::default();
        while let Some(arg) = args.next() {
            let place = match arg.as_str() {
                "--sample" => {
                    request.sample = true;
                    continue;
                }
                "--defect" => {
                    let missing = || format!("`--defect` takes a name, or `all`\n{}", crate::USAGE);
                    request.defect = Some(args.next().ok_or_else(missing)?);
                    continue;
                }
                "--runs" => &mut request.runs,
                "--seed" => &mut request.seed,
                "--for" => &mut request.seconds,
                other => return Err(format!("`simulate` takes no `{other}`\n{}", crate::USAGE)),
            };
            let value = args.next();
            let text = value.as_deref().map(|text| text.strip_suffix('s').unwrap_or(text));
            let number = text.and_then(|text| text.parse().ok());
            let missing = || format!("`{arg}` takes a number\n{}", crate::USAGE);
            *place = Some(number.ok_or_else(missing)?);
        }
        Ok(request)
    }

    /// Returns the build options. With the tests' own build, the features are those of the whole workspace.
    fn build(&self) -> &'static [&'static str] {
        if self.sample {
            &["--workspace"]
        } else {
            &["--package", "ralph-engine", "--profile", "simulate"]
        }
    }

    /// Returns the environment of the simulation: the first seed, the number of stories, and the duration.
    fn variables(&self, fresh: u64) -> Vec<(&'static str, u64)> {
        let mut variables = vec![("RALPH_SIMULATE_SEED", self.seed.unwrap_or(fresh))];
        // A seed given alone means repeating it once.
        let runs = self.runs.or(self.seed.filter(|_| self.seconds.is_none()).map(|_| 1));
        variables.extend(runs.map(|runs| ("RALPH_SIMULATE_RUNS", runs)));
        let seconds = self.seconds.or(if runs.is_none() { Some(SECONDS) } else { None });
        variables.extend(seconds.map(|seconds| ("RALPH_SIMULATE_SECONDS", seconds)));
        variables
    }
}

/// Runs the simulation and returns the exit code.
pub(crate) fn run(request: &SimulateRequest) -> Result<ExitCode, String> {
    let fresh = SystemTime::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_secs());
    let variables = request.variables(fresh * 1_000_000);
    let numbers = variables.into_iter().map(|(name, value)| (name, value.to_string()));
    let defect = request.defect.iter().map(|name| ("RALPH_SIMULATE_DEFECT", name.clone()));
    let variables: Vec<(&str, String)> = numbers.chain(defect).collect();
    let told: Vec<String> =
        variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    progress(&format!("simulating with {}", told.join(" ")));
    let status = Command::new(test::cargo())
        .args(["test", "--quiet", "--lib"])
        .args(request.build())
        .args(["--", "simulation::simulate", "--exact", "--ignored", "--nocapture"])
        .current_dir(root())
        .envs(variables)
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::SimulateRequest;

    fn variables(args: &[&str]) -> Result<Vec<(&'static str, u64)>, String> {
        let request = SimulateRequest::parse(args.iter().map(|arg| (*arg).to_owned()))?;
        Ok(request.variables(7))
    }

    #[test]
    fn a_minute_of_fresh_seeds_is_told_unless_a_seed_or_a_number_is_named() {
        const SEED: &str = "RALPH_SIMULATE_SEED";
        const RUNS: &str = "RALPH_SIMULATE_RUNS";
        const SECONDS: &str = "RALPH_SIMULATE_SECONDS";
        assert_eq!(variables(&[]).unwrap(), [(SEED, 7), (SECONDS, 60)]);
        assert_eq!(variables(&["--seed", "3"]).unwrap(), [(SEED, 3), (RUNS, 1)]);
        assert_eq!(variables(&["--runs", "9"]).unwrap(), [(SEED, 7), (RUNS, 9)]);
        let both = ["--seed", "3", "--for", "5s"];
        assert_eq!(variables(&both).unwrap(), [(SEED, 3), (SECONDS, 5)]);
        assert_eq!(variables(&["--sample"]).unwrap(), [(SEED, 7), (SECONDS, 60)]);
        let build = |args: &[&str]| {
            let args = args.iter().map(|arg| (*arg).to_owned());
            SimulateRequest::parse(args).unwrap().build()
        };
        assert_eq!(build(&["--sample"]), ["--workspace"]);
        assert!(build(&[]).contains(&"simulate"));
        let defect = ["--defect", "all"].map(str::to_owned).into_iter();
        assert_eq!(SimulateRequest::parse(defect).unwrap().defect.as_deref(), Some("all"));
        for wrong in [&["--seed"][..], &["--for", "long"], &["--all"], &["--defect"]] {
            assert!(variables(wrong).unwrap_err().contains("usage"), "{wrong:?}");
        }
    }
}
