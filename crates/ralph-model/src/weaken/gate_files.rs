//! The files that gates are: a script that a gate runs decides as much as the line that names it.
//!
//! Which files these are is read from the gates' own commands: a program that is named by a path, and the script that an
//! interpreter is given. What such a script calls in turn is not followed. As with the configuration of the gates, any
//! change counts. A file that a gate has an interpreter read and not run (`sh -n install.sh`) is what is checked, not
//! what checks, and is ordinary work.

use super::{ChangedFile, Protection, Weakened, Weakening, at, protection};
use crate::gate::GateSpec;
use crate::glob::Glob;

const INTERPRETERS: [&str; 13] = [
    "sh", "bash", "dash", "zsh", "ksh", "python", "python3", "node", "bun", "ruby", "perl", "php",
    "pwsh",
];

/// Returns the files that the gates' commands name, as paths inside the workspace.
pub fn gate_files(gates: &[GateSpec]) -> Vec<String> {
    let mut files: Vec<String> = gates.iter().flat_map(|gate| scripts(&gate.argv)).collect();
    files.sort();
    files.dedup();
    files
}

fn scripts(argv: &[String]) -> Vec<String> {
    let Some((program, rest)) = argv.split_first() else { return Vec::new() };
    let name = program.rsplit('/').next().unwrap_or(program);
    let mut paths = Vec::new();
    if program.contains('/') {
        paths.push(program);
    }
    if INTERPRETERS.contains(&name)
        // With `-c` and the like the next word is no file; then none is found in the tree, which does no harm.
        && let Some(at) = rest.iter().position(|word| !word.starts_with('-'))
        && !only_reads(name, &rest[..at])
    {
        paths.push(&rest[at]);
    }
    let inside = paths.into_iter().map(|path| path.strip_prefix("./").unwrap_or(path));
    inside.filter(|path| !path.is_empty() && !path.starts_with('/')).map(str::to_owned).collect()
}

/// Tells whether an interpreter with these options reads its script without running any of it.
///
/// Every option has to be known: another one may name a file that is run (`node -r hook.js --check`), or take the effect
/// back (`sh -in`). `perl -c` is not among them, as it runs `BEGIN` blocks, nor `ruby -c`, as it loads what the script's
/// first line asks for.
fn only_reads(interpreter: &str, options: &[String]) -> bool {
    let [one] = options else { return false };
    match interpreter {
        "sh" | "bash" | "dash" | "zsh" | "ksh" => one.strip_prefix('-').is_some_and(|letters| {
            letters.contains('n') && letters.chars().all(|letter| "aefnuvx".contains(letter))
        }),
        "php" => one == "-l",
        "node" => one == "-c" || one == "--check",
        _ => false,
    }
}

/// Returns the changes of gate files that `allowed` does not allow; files with a protection of their own are left to it.
pub fn changed_gate_files(
    changes: &[ChangedFile<'_>],
    files: &[String],
    allowed: &[Glob],
) -> Vec<Weakening> {
    let mut found = Vec::new();
    for change in changes {
        let Some(base) = change.base else { continue };
        let is_gate = files.iter().any(|file| file == base.path);
        let is_allowed = allowed.iter().any(|glob| glob.matches(base.path));
        if !is_gate || is_allowed || protection(base.path).is_some() {
            continue;
        }
        match change.candidate.filter(|candidate| candidate.path == base.path) {
            None => {
                found.push(at(base, None, Weakened::FileDeleted { protection: Protection::Gates }));
            }
            Some(candidate) if candidate.text != base.text => {
                found.push(at(candidate, None, Weakened::GatesChanged));
            }
            Some(_) => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::FileVersion;
    use super::*;

    fn files(argvs: &[&[&str]]) -> Vec<String> {
        let gate = |argv: &&[&str]| GateSpec {
            name: String::new(),
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            timeout: Duration::ZERO,
            paths: vec![],
            fast: false,
            net: false,
            unix: false,
        };
        gate_files(&argvs.iter().map(gate).collect::<Vec<_>>())
    }

    #[test]
    fn scripts_are_found_in_the_commands_of_gates() {
        for (argv, expected) in [
            (&["./check"][..], Some("check")),
            (&["scripts/test.sh", "--all"], Some("scripts/test.sh")),
            (&["sh", "-eu", "./ci/run"], Some("ci/run")),
            (&["/usr/bin/python3", "tools/check.py"], Some("tools/check.py")),
            (&["cargo", "test"], None),
            (&["npm", "run", "test"], None),
            (&["/usr/bin/make"], None),
            (&["sh"], None),
            (&[], None),
            (&["tools/sh", "-n", "install.sh"], Some("tools/sh")),
        ] {
            let expected: Vec<&str> = expected.into_iter().collect();
            assert_eq!(files(&[argv]), expected, "{argv:?}");
        }
        assert_eq!(files(&[&["./b"], &["./a"], &["./b", "x"]]), ["a", "b"]);
    }

    #[test]
    fn a_file_that_is_only_read_is_no_script_of_a_gate() {
        for (argv, is_run) in [
            (&["sh", "-n", "install.sh"][..], false),
            (&["/bin/bash", "-eun", "./install.sh"], false),
            (&["php", "-l", "index.php"], false),
            (&["node", "--check", "app.js"], false),
            // A shell that talks to a person runs what it reads.
            (&["sh", "-in", "install.sh"], true),
            (&["sh", "-n", "-i", "install.sh"], true),
            (&["sh", "-e", "install.sh"], true),
            (&["sh", "--noexec-or-what", "install.sh"], true),
            (&["perl", "-c", "app.pl"], true),
            (&["ruby", "-c", "app.rb"], true),
            (&["python3", "-n", "app.py"], true),
            (&["node", "-r", "hook.js", "--check", "app.js"], true),
        ] {
            assert_eq!(!files(&[argv]).is_empty(), is_run, "{argv:?}");
        }
        // One gate that runs it is enough.
        assert_eq!(files(&[&["sh", "-n", "check.sh"], &["sh", "check.sh"]]), ["check.sh"]);
        assert_eq!(files(&[&["tools/python3", "check.py"]]), ["check.py", "tools/python3"]);
    }

    #[test]
    fn any_change_of_a_gate_file_that_the_base_had_is_named() {
        let version = |path, text| Some(FileVersion { path, text });
        let gate = ["check".to_owned(), "tests/run.sh".to_owned()];
        let found = |base, candidate, allowed: &[Glob]| {
            changed_gate_files(&[ChangedFile { base, candidate }], &gate, allowed)
                .into_iter()
                .map(|weakening| weakening.what)
                .collect::<Vec<_>>()
        };
        let gone = Weakened::FileDeleted { protection: Protection::Gates };
        let (old, new) = (version("check", "exit 1"), version("check", "exit 0"));
        assert_eq!(found(old, new, &[]), [Weakened::GatesChanged]);
        assert_eq!(found(old, None, &[]), std::slice::from_ref(&gone));
        assert_eq!(found(old, version("elsewhere", "exit 1"), &[]), [gone]);
        assert_eq!(found(old, old, &[]), [], "only its mode");
        assert_eq!(found(None, new, &[]), [], "new");
        assert_eq!(found(old, new, &[Glob::new("check")]), [], "allowed");
        assert_eq!(found(version("other", "1"), version("other", "2"), &[]), []);
        let test = (version("tests/run.sh", "a"), version("tests/run.sh", "b"));
        assert_eq!(found(test.0, test.1, &[]), [], "it is protected as a test");
    }
}
