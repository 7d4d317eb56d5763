//! The files that gates are: a script that a gate runs decides as much as the line that names it.
//!
//! Which files these are is read from the gates' own commands: a program that is named by a path, the script that an
//! interpreter is given, and both in the line that a shell is given with `-c`, or behind `env`, `timeout` and the like. What
//! such a script calls in turn is not followed. As with the configuration of the gates, any change counts. A file that a gate has an interpreter read and not run (`sh -n install.sh`) is what is checked, not
//! what checks, and is ordinary work.

use super::{ChangedFile, Protection, Weakened, Weakening, at, protection};
use crate::gate::GateSpec;
use crate::glob::Glob;

const SHELLS: [&str; 5] = ["sh", "bash", "dash", "zsh", "ksh"];

const INTERPRETERS: [&str; 8] = ["python", "python3", "node", "bun", "ruby", "perl", "php", "pwsh"];

/// Programs, and words of the shell, that have the command run which follows them.
const WRAPPERS: [&str; 16] = [
    "env", "timeout", "nice", "time", "nohup", "exec", "command", "xvfb-run", "if", "elif", "then",
    "else", "do", "while", "until", "!",
];

/// Returns the files that the gates' commands name, as paths inside the workspace.
pub fn gate_files(gates: &[GateSpec]) -> Vec<String> {
    let mut files = Vec::new();
    for gate in gates {
        let words: Vec<&str> = gate.argv().iter().map(String::as_str).collect();
        find_scripts(&words, &mut files);
    }
    files.sort();
    files.dedup();
    files
}

fn find_scripts(argv: &[&str], files: &mut Vec<String>) {
    let Some((program, rest)) = argv.split_first() else { return };
    let name = program.rsplit('/').next().unwrap_or(program);
    let mut add = |path: &str| {
        let path = path.strip_prefix("./").unwrap_or(path);
        if !path.is_empty() && !path.starts_with('/') {
            files.push(path.to_owned());
        }
    };
    if program.contains('/') {
        add(program);
    }
    if WRAPPERS.contains(&name) {
        let start = rest.iter().position(|word| begins_command(word)).unwrap_or(rest.len());
        return find_scripts(&rest[start..], files);
    }
    if !SHELLS.contains(&name) && !INTERPRETERS.contains(&name) {
        return;
    }
    let Given { options, named, script } = Given::to(name, rest);
    // What an option names may be run too (`node -r hook.js`); most often it is no file, which does no harm.
    named.into_iter().for_each(&mut add);
    let Some(script) = script else { return };
    if SHELLS.contains(&name) && options.iter().any(|option| has_letter(option, 'c')) {
        for command in script.split([';', '&', '|', '\n', '(', ')', '{', '}']) {
            let words = command.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
            let words: Vec<&str> = words.skip_while(|word| word.contains('=')).collect();
            find_scripts(&words, files);
        }
    } else if !only_reads(name, &options) {
        add(script);
    }
}

/// Tells whether a word after a wrapper is the command and not an option, a setting, a number or a signal.
fn begins_command(word: &str) -> bool {
    let is_signal = word.chars().all(|letter| letter.is_ascii_uppercase());
    let is_number = word.starts_with(|first: char| first.is_ascii_digit());
    !word.starts_with('-') && !word.contains('=') && !is_number && !is_signal
}

/// What an interpreter is given before the arguments of its script.
#[derive(Default)]
struct Given<'a> {
    options: Vec<&'a str>,
    /// The words that belong to options.
    named: Vec<&'a str>,
    script: Option<&'a str>,
}

impl<'a> Given<'a> {
    fn to(interpreter: &str, words: &[&'a str]) -> Self {
        let is_shell = SHELLS.contains(&interpreter);
        let mut given = Given::default();
        let mut words = words.iter().copied();
        while let Some(word) = words.next() {
            let is_option = word.starts_with('-') || (is_shell && word.starts_with('+'));
            if !is_option {
                given.script = Some(word);
                break;
            }
            given.options.push(word);
            if takes_word(interpreter, word) {
                given.named.extend(words.next());
            }
        }
        given
    }
}

/// Tells whether the word after an option belongs to it: `bash -euo pipefail ci/run` runs `ci/run`.
fn takes_word(interpreter: &str, option: &str) -> bool {
    match interpreter {
        "bash" if matches!(option, "--rcfile" | "--init-file") => true,
        shell if SHELLS.contains(&shell) => has_letter(option, 'o') || has_letter(option, 'O'),
        "python" | "python3" => matches!(option, "-W" | "-X"),
        "node" | "bun" => {
            matches!(option, "-r" | "--require" | "--import" | "--loader" | "--preload" | "-C")
        }
        "ruby" => matches!(option, "-r" | "-I" | "-C" | "-E"),
        "perl" => option == "-I",
        "php" => matches!(option, "-d" | "-c"),
        _ => false,
    }
}

/// Tells whether an option of a shell is, or holds, one of a single letter.
fn has_letter(option: &str, letter: char) -> bool {
    !option.starts_with("--") && option[1..].contains(letter)
}

/// Tells whether an interpreter with these options reads its script without running any of it.
///
/// Every option has to be known: another one may name a file that is run (`node -r hook.js --check`), or take the effect
/// back (`sh -in`). `perl -c` is not among them, as it runs `BEGIN` blocks, nor `ruby -c`, as it loads what the script's
/// first line asks for.
fn only_reads(interpreter: &str, options: &[&str]) -> bool {
    let [one] = options else { return false };
    match interpreter {
        "php" => *one == "-l",
        "node" => *one == "-c" || *one == "--check",
        shell if SHELLS.contains(&shell) => one.strip_prefix('-').is_some_and(|letters| {
            letters.contains('n') && letters.chars().all(|letter| "aefnuvx".contains(letter))
        }),
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
    use crate::gate::Check;

    fn files(argvs: &[&[&str]]) -> Vec<String> {
        let gate = |argv: &&[&str]| GateSpec {
            name: String::new(),
            check: Check::Command { argv: argv.iter().map(|word| (*word).to_owned()).collect() },
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
    fn a_script_is_found_behind_options_that_take_a_word_and_programs_that_run_another() {
        for (argv, expected) in [
            (&["bash", "-euo", "pipefail", "ci/run"][..], &["ci/run", "pipefail"][..]),
            (&["bash", "-e", "-o", "pipefail", "./ci/run", "x/y"], &["ci/run", "pipefail"]),
            (&["sh", "+x", "ci/run"], &["ci/run"]),
            (&["python3", "-W", "error", "-u", "check.py"], &["check.py", "error"]),
            (&["node", "-r", "./hook.js", "test.js"], &["hook.js", "test.js"]),
            (&["env", "-i", "A=b/c", "./check"], &["check"]),
            (&["timeout", "-s", "KILL", "10m", "bash", "ci/run"], &["ci/run"]),
            (&["timeout", "60", "cargo", "test", "--manifest-path", "a/Cargo.toml"], &[]),
            (
                &["sh", "-c", "./check && python3 'tools/x.py'; cat docs/a.md"],
                &["check", "tools/x.py"],
            ),
            (&["bash", "-ec", "if A=1 ./one; then exec ./two; fi"], &["one", "two"]),
            (&["bash", "-lc", "(B=1 timeout 5 ./three) | tee logs/out"], &["three"]),
            (&["sh", "-c", ""], &[]),
            (&["sh", "-", "-x"], &[]),
            (&["env"], &[]),
        ] {
            assert_eq!(files(&[argv]), expected, "{argv:?}");
        }
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
