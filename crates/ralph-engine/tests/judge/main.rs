//! The judge as a whole: real repositories, real gates under their guard, from an agent's claim to the verdict.
//!
//! A custom harness, because the guard of a gate is this program started again. It supports the part of the usual
//! command line that `cargo test` and `nextest` need.
#![expect(clippy::print_stdout, reason = "it tells which tests there are and how they went")]

#[cfg(test)]
mod cases;
#[cfg(test)]
mod checks;
#[cfg(test)]
mod world;

use std::process::ExitCode;

fn main() -> ExitCode {
    ralph_proc::guard::dispatch();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    let filters: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let wanted = |name: &str| {
        let fits = |filter: &&String| {
            if has("--exact") { filter.as_str() == name } else { name.contains(filter.as_str()) }
        };
        filters.is_empty() || filters.iter().any(fits)
    };
    if has("--list") {
        for (name, _) in cases::ALL.iter().filter(|_| !has("--ignored")) {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let mut failed = 0;
    for (name, test) in cases::ALL.iter().filter(|(name, _)| wanted(name)) {
        let passed = std::panic::catch_unwind(test).is_ok();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        failed += u32::from(!passed);
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
