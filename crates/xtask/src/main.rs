//! The project's tasks, as `cargo xtask`: the tests with everything they need, the benchmarks, and the dependency
//! policy.
//!
//! Has almost no dependencies, so that it builds quickly on a fresh machine.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command of the project's own")]

mod agents;
mod bench;
mod checkout;
mod crash;
mod deny;
mod escapes;
mod generate;
mod person;
mod programs;
mod simulate;
mod test;
mod torture;
mod trust;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask test [--all-agents | --no-agents] [-- ARGS]
       cargo xtask crash [--story NAME] [-- ARGS]
       cargo xtask bench [startup|loop|stream|checkout|baseline|build|plan|journal|home|slots|all]
       cargo xtask simulate [--runs N] [--seed S] [--for SECONDS] [--sample] [--defect NAME]
       cargo xtask torture [--sample [SEED]]
       cargo xtask person [--seeds N | --seeds FROM-TO | --seed S]
       cargo xtask escapes [--sample]
       cargo xtask trust [--sample | WORD...]
       cargo xtask deny

  test          install the agent CLIs that the tests run for real, then run all tests
  --all-agents  let the slow ones (OpenCode, Gemini CLI) play every scenario too: some minutes more
  --no-agents   run without them; the tests that need one are skipped, and counted
  crash         kill ralph at every fault point of the crash sweeps, not only at a sample of them
  --story NAME  only the stories whose names contain this, as in `rejected` or `pipeline`
  bench         measure side by side and print ratios beside their bars
  simulate      whole workflows on a simulated machine, with kills, losses of power and worse; a minute of fresh seeds
  --seed S      begin with this seed; alone, repeat it and show the smallest story that goes wrong
  --runs N      so many stories
  --for SECONDS so long
  --sample      with the build of the tests: fewer stories, no second build
  --defect NAME put a defect back that ralph once had, which has to be found; `all` for one after the other
  torture       100 writers of one plan, with kills and a person who switches branches; nothing may be lost
  --sample      a dozen of them: some seconds
  person        500 random stories of a person at work beside agents in clones; nothing of theirs may be lost
  escapes       every program that tries to get out of its bounds, as root and as an ordinary user, with each layer
  --sample      a third of them
  trust         every agent of tests/liars in every workflow, and whether Ralph believed what it should
  --sample      some of them, others each day: less than a minute
  WORD          only those whose name or workflow contains this
  deny          hold licences, sources and versions of the dependencies to deny.toml
  ARGS          passed on to `cargo nextest run` (or to `cargo test` without nextest)";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let result = match args.next().as_deref() {
        Some("test") => test::TestRequest::parse(args).and_then(|request| test::run(&request)),
        Some("crash") => crash::CrashRequest::parse(args).and_then(|request| crash::run(&request)),
        Some("bench") => bench::run(args.next().as_deref().unwrap_or("all")),
        Some("simulate") => {
            simulate::SimulateRequest::parse(args).and_then(|request| simulate::run(&request))
        }
        Some("torture") => torture::run(args),
        Some("person") => {
            person::PersonRequest::parse(args).and_then(|request| person::run(&request))
        }
        Some("escapes") => escapes::run(args),
        Some("trust") => {
            trust::GalleryRequest::parse(args).and_then(|request| trust::run(&request))
        }
        Some("deny") => deny::run(),
        Some(generate::WORD) => generate::run(args),
        Some("help" | "--help" | "-h") => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        Some(other) => Err(format!("no chore is called `{other}`\n{USAGE}")),
        None => Err(USAGE.to_owned()),
    };
    result.unwrap_or_else(|message| {
        eprintln!("xtask: {message}");
        ExitCode::from(2)
    })
}

/// Prints the current step.
fn progress(message: &str) {
    println!("xtask: {message}");
}

/// Returns the root of the repository.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}
