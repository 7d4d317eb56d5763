//! `cargo xtask person`: many random stories of a person working in the repository while agents work in clones.

use std::process::{Command, ExitCode};

use crate::{progress, root};

const SEEDS: u64 = 500;

/// The parsed arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PersonRequest {
    /// This many stories, starting at seed 1.
    Stories(u64),
    /// Repeats one story.
    Seed(u64),
}

impl PersonRequest {
    /// Parses the arguments after `person`.
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<PersonRequest, String> {
        let mut request = PersonRequest::Stories(SEEDS);
        while let Some(arg) = args.next() {
            let number = args.next().and_then(|text| text.parse().ok());
            let number =
                number.ok_or_else(|| format!("`{arg}` takes a number\n{}", crate::USAGE))?;
            request = match arg.as_str() {
                "--seeds" => PersonRequest::Stories(number),
                "--seed" => PersonRequest::Seed(number),
                _ => return Err(format!("`person` takes no `{arg}`\n{}", crate::USAGE)),
            };
        }
        Ok(request)
    }
}

/// Runs the stories and returns the exit code.
pub(crate) fn run(request: &PersonRequest) -> Result<ExitCode, String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args(["test", "--package", "ralph", "--test", "e2e", "--"]);
    cargo.args(["person::whatever_a_person_does", "--nocapture"]);
    match request {
        PersonRequest::Stories(count) => {
            progress(&format!("{count} stories; `--seed N` repeats one"));
            cargo.env("RALPH_PERSON_SEEDS", count.to_string());
        }
        PersonRequest::Seed(seed) => {
            cargo.env("RALPH_PERSON_SEED", seed.to_string());
        }
    }
    let status = cargo.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_stories_or_one_seed_is_asked_for() {
        let parse = |words: &[&str]| PersonRequest::parse(words.iter().map(ToString::to_string));
        assert_eq!(parse(&[]), Ok(PersonRequest::Stories(SEEDS)));
        assert_eq!(parse(&["--seeds", "7"]), Ok(PersonRequest::Stories(7)));
        assert_eq!(parse(&["--seed", "42"]), Ok(PersonRequest::Seed(42)));
        assert!(parse(&["--seed"]).is_err() && parse(&["--often", "3"]).is_err());
    }
}
