//! `cargo xtask person`: many random stories of a person working in the repository while agents work in clones.

use std::ops::RangeInclusive;
use std::process::{Command, ExitCode};

use crate::{progress, root};

const SEEDS: RangeInclusive<u64> = 1..=500;

/// The parsed arguments: the seeds of the stories.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PersonRequest(RangeInclusive<u64>);

impl PersonRequest {
    /// Parses the arguments after `person`.
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<PersonRequest, String> {
        let mut request = PersonRequest(SEEDS);
        while let Some(arg) = args.next() {
            let value = args.next().unwrap_or_default();
            let seeds = match (arg.as_str(), value.split_once('-')) {
                ("--seed", _) => number(&value).map(|seed| seed..=seed),
                ("--seeds", None) => number(&value).map(|count| 1..=count),
                ("--seeds", Some((first, last))) => {
                    number(first).and_then(|first| Some(first..=number(last)?))
                }
                _ => return Err(format!("`person` takes no `{arg}`\n{}", crate::USAGE)),
            };
            let seeds = seeds.filter(|seeds| !seeds.is_empty());
            let missing = || format!("`{arg}` does not take `{value}`\n{}", crate::USAGE);
            request = PersonRequest(seeds.ok_or_else(missing)?);
        }
        Ok(request)
    }
}

/// Runs the stories and returns the exit code.
pub(crate) fn run(request: &PersonRequest) -> Result<ExitCode, String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args(["test", "--package", "ralph", "--test", "e2e", "--"]);
    cargo.args(["person::whatever_a_person_does", "--nocapture"]);
    let PersonRequest(seeds) = request;
    progress(&format!("seeds {} to {}; `--seed N` repeats one", seeds.start(), seeds.end()));
    cargo.env("RALPH_PERSON_SEEDS", format!("{}-{}", seeds.start(), seeds.end()));
    let status = cargo.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_stories_a_range_or_one_seed_is_asked_for() {
        let parse = |words: &[&str]| PersonRequest::parse(words.iter().map(ToString::to_string));
        assert_eq!(parse(&[]), Ok(PersonRequest(SEEDS)));
        assert_eq!(parse(&["--seeds", "7"]), Ok(PersonRequest(1..=7)));
        assert_eq!(parse(&["--seeds", "251-500"]), Ok(PersonRequest(251..=500)));
        assert_eq!(parse(&["--seed", "42"]), Ok(PersonRequest(42..=42)));
        for wrong in [&["--seed"][..], &["--seeds", "9-1"], &["--seeds", "x-1"], &["--often", "3"]]
        {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
