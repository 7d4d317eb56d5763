//! Options of `understand` and `run` that other loops have too, from the command line and the environment.
//!
//! Precedence, lowest first: the default, the environment, the command line. An empty variable counts as unset.

use std::io::IsTerminal;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_engine::workflow::pause::RoundPause;

use crate::args::goal::RoundOptions;
use crate::error::CliError;
use crate::setup::Setup;

/// The default number of iterations.
const USUAL_ITERATIONS: u32 = 10;

/// Looks up a variable.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

fn variable(lookup: Lookup<'_>, name: &str) -> Option<String> {
    lookup(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The maximum number of iterations.
pub(super) fn iterations(typed: Option<u32>, lookup: Lookup<'_>) -> Result<u32, CliError> {
    if let Some(typed) = typed {
        return Ok(typed);
    }
    match variable(lookup, "MAX_ITERATIONS") {
        None => Ok(USUAL_ITERATIONS),
        Some(text) => match text.parse() {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(wrong("MAX_ITERATIONS", &text, "a number above 0")),
        },
    }
}

/// The pause between two iterations.
pub(super) fn pause(options: &RoundOptions, lookup: Lookup<'_>) -> Result<RoundPause, CliError> {
    let wait = wait(options, lookup)?;
    let interactive = is_interactive(options, lookup);
    if interactive && !std::io::stdin().is_terminal() {
        return Err(CliError::person_needed("--interactive needs a terminal")
            .hint("leave it out to run without questions"));
    }
    Ok(RoundPause { interactive, wait })
}

/// Whether the person is asked after each iteration.
fn is_interactive(options: &RoundOptions, lookup: Lookup<'_>) -> bool {
    options.interactive || variable(lookup, "INTERACTIVE").is_some_and(|text| is_true(&text))
}

/// Whether all agent output is shown.
pub(super) fn is_raw(options: &RoundOptions, lookup: Lookup<'_>) -> bool {
    options.ai_raw || variable(lookup, "RALPH_AI_RAW").is_some_and(|text| is_true(&text))
}

fn is_true(text: &str) -> bool {
    ["1", "true", "yes"].contains(&text.to_lowercase().as_str())
}

/// How long to wait between iterations.
fn wait(options: &RoundOptions, lookup: Lookup<'_>) -> Result<Duration, CliError> {
    let (name, text) = match options.sleep {
        Some(seconds) => ("--sleep", seconds.to_string()),
        None => match variable(lookup, "SLEEP_SECONDS") {
            Some(text) => ("SLEEP_SECONDS", text),
            None => return Ok(Duration::ZERO),
        },
    };
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| wrong(name, &text, "a number of seconds"))
}

/// The template given by the person.
pub(super) fn prompt(options: &RoundOptions, lookup: Lookup<'_>) -> Option<Utf8PathBuf> {
    options.prompt.clone().or_else(|| variable(lookup, "PROMPT_FILE").map(Utf8PathBuf::from))
}

/// Resolves the person's template: relative to the root, as in other loops, or to the current directory.
pub(super) fn find_template(setup: &Setup, path: &Utf8Path) -> Utf8PathBuf {
    let places = [setup.workspace.root.join(path), setup.cwd.join(path)];
    places.iter().find(|place| place.is_file()).unwrap_or(&places[0]).clone()
}

/// The PRD given by the person.
pub(super) fn prd(typed: Option<&Utf8Path>, lookup: Lookup<'_>) -> Option<Utf8PathBuf> {
    let named = || variable(lookup, "PRD_FILE").map(Utf8PathBuf::from);
    typed.map(Utf8Path::to_owned).or_else(named)
}

/// The branch given by the person; an empty name is the checked-out branch, also in a variable.
pub(super) fn branch(typed: Option<&str>, lookup: Lookup<'_>) -> Option<String> {
    typed.map(str::to_owned).or_else(|| lookup("RALPH_BRANCH")).map(|name| name.trim().to_owned())
}

/// The paths that work may change; empty allows any.
pub(super) fn allowed_paths(typed: Option<&str>, lookup: Lookup<'_>) -> Vec<String> {
    let text = typed.map(str::to_owned).or_else(|| lookup("ALLOWED_PATHS")).unwrap_or_default();
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    entries.map(|entry| entry.strip_prefix("./").unwrap_or(entry).to_owned()).collect()
}

/// Derives the root from a path: files in `<x>/scripts/ralph/` belong to the workspace `<x>`.
pub(super) fn root_of(path: Option<&Utf8Path>, cwd: &Utf8Path) -> Option<Utf8PathBuf> {
    let path = cwd.join(path?);
    let home = path.parent()?.canonicalize_utf8().ok()?;
    home.ends_with("scripts/ralph").then(|| home.parent()?.parent().map(Utf8Path::to_owned))?
}

fn wrong(name: &str, text: &str, expected: &str) -> CliError {
    CliError::usage(format!("`{name}` is `{text}`, but must be {expected}"))
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::*;

    fn typed(words: &[&str]) -> RoundOptions {
        let command = RoundOptions::augment_args(clap::Command::new("x").no_binary_name(true));
        RoundOptions::from_arg_matches(&command.get_matches_from(words)).unwrap()
    }

    #[test]
    fn what_was_typed_wins_over_the_environment() {
        let env = |name: &str| {
            let set = [
                ("MAX_ITERATIONS", "7"),
                ("INTERACTIVE", "Yes"),
                ("SLEEP_SECONDS", "0.5"),
                ("PROMPT_FILE", "p.md"),
                ("RALPH_AI_RAW", "1"),
            ];
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let nothing = |_: &str| Some(String::new());
        let none = typed(&[]);
        assert_eq!(iterations(None, &nothing).unwrap(), 10);
        assert_eq!(iterations(None, &env).unwrap(), 7);
        assert_eq!(iterations(Some(3), &env).unwrap(), 3);
        assert!(is_interactive(&none, &env) && !is_interactive(&none, &nothing));
        assert!(is_interactive(&typed(&["-i"]), &nothing));
        for (text, on) in [
            ("1", true),
            (" TRUE ", true),
            ("yes", true),
            ("0", false),
            ("no", false),
            ("on", false),
        ] {
            assert_eq!(is_interactive(&none, &|_| Some(text.to_owned())), on, "{text:?}");
        }
        assert!(is_raw(&none, &env) && !is_raw(&none, &nothing));
        assert_eq!(wait(&none, &nothing).unwrap(), Duration::ZERO);
        assert_eq!(wait(&none, &env).unwrap(), Duration::from_millis(500));
        assert_eq!(wait(&typed(&["-s", "2"]), &env).unwrap(), Duration::from_secs(2));
        assert_eq!(prompt(&none, &env).unwrap(), "p.md");
        assert_eq!(prompt(&typed(&["-p", "q.md"]), &env).unwrap(), "q.md");
    }

    /// C9: a branch that is unset, empty, and set; the command line wins.
    #[test]
    fn the_branch_the_prd_and_the_allowed_paths_are_read_as_other_loops_do() {
        let unset = |_: &str| None;
        let empty = |_: &str| Some(String::new());
        let set = |_: &str| Some(" a.txt, ./src/ ,,b/ ".to_owned());
        assert_eq!(branch(None, &unset), None);
        assert_eq!(branch(None, &empty).as_deref(), Some(""));
        assert_eq!(branch(None, &|_| Some("ralph/x".to_owned())).as_deref(), Some("ralph/x"));
        assert_eq!(branch(Some(""), &|_| Some("ralph/x".to_owned())).as_deref(), Some(""));
        assert_eq!(prd(None, &empty), None);
        assert_eq!(prd(None, &|_| Some("p.json".to_owned())).unwrap(), "p.json");
        assert_eq!(prd(Some(Utf8Path::new("q.json")), &unset).unwrap(), "q.json");
        assert_eq!(allowed_paths(None, &set), ["a.txt", "src/", "b/"]);
        assert_eq!(allowed_paths(Some(""), &set), [""; 0], "typed as nothing: off");
        assert_eq!(allowed_paths(None, &unset), [""; 0]);
    }

    #[test]
    fn a_variable_that_makes_no_sense_is_named() {
        for (name, bad) in
            [("MAX_ITERATIONS", "-1"), ("MAX_ITERATIONS", "0"), ("MAX_ITERATIONS", "x")]
        {
            let error = iterations(None, &|_| Some(bad.to_owned())).unwrap_err();
            assert!(
                error.message.contains(name) && error.message.contains(bad),
                "{}",
                error.message
            );
        }
        for bad in ["x", "-1", "NaN"] {
            let error = wait(&typed(&[]), &|_| Some(bad.to_owned())).unwrap_err();
            assert!(error.message.contains("SLEEP_SECONDS"), "{}", error.message);
        }
        assert!(wait(&typed(&["--sleep=-2"]), &|_| None).is_err());
    }

    #[test]
    fn the_root_is_told_by_a_path_in_scripts_ralph() {
        let place = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(place.path()).unwrap().canonicalize_utf8().unwrap();
        std::fs::create_dir_all(root.join("x/scripts/ralph")).unwrap();
        let path = |path: &'static str| Some(Utf8Path::new(path));
        assert_eq!(root_of(path("x/scripts/ralph/p.md"), &root), Some(root.join("x")));
        assert_eq!(root_of(path("p.md"), &root.join("x/scripts/ralph")), Some(root.join("x")));
        for other in [path("x/p.md"), path("nowhere/scripts/ralph/p.md"), None] {
            assert_eq!(root_of(other, &root), None);
        }
    }
}
