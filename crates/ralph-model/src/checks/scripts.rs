//! Finds the scripts that gates run, from their commands and from the texts of the files these name.
//!
//! A command names a program by path, the script given to an interpreter, and either of these in a shell line after
//! `-c` or behind `env`, `timeout` and the like. A file that an interpreter only reads (`sh -n install.sh`) is under
//! check, not a check. Any file of the tree that a script or recipe mentions counts as run by it.

use std::collections::BTreeSet;

const SHELLS: [&str; 5] = ["sh", "bash", "dash", "zsh", "ksh"];

const INTERPRETERS: [&str; 8] = ["python", "python3", "node", "bun", "ruby", "perl", "php", "pwsh"];

/// Programs and shell words that run the command after them.
const WRAPPERS: [&str; 16] = [
    "env", "timeout", "nice", "time", "nohup", "exec", "command", "xvfb-run", "if", "elif", "then",
    "else", "do", "while", "until", "!",
];

/// Returns the files that commands name, as paths inside the workspace.
pub fn scripts_of<'a>(commands: impl IntoIterator<Item = &'a [String]>) -> BTreeSet<String> {
    let mut files = Vec::new();
    for argv in commands {
        let words: Vec<&str> = argv.iter().map(String::as_str).collect();
        find_scripts(&words, &mut files);
    }
    files.into_iter().collect()
}

/// Returns the files of a tree that the text of a script or recipe mentions, relative to the root or to its own
/// directory.
pub fn mentioned(text: &str, path: &str, tree: &BTreeSet<String>) -> BTreeSet<String> {
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    let is_break = |c: char| c.is_whitespace() || "\"'`;|&()<>=$,{}[]:@".contains(c);
    let mut found = BTreeSet::new();
    let mut add = |word: &str| {
        let word = word.trim_start_matches(['.', '/', '-', '+']).trim_end_matches(['.', '/', '\\']);
        if word.is_empty() {
            return;
        }
        found.extend(named_by(word, tree));
        if !directory.is_empty() {
            found.extend(named_by(&format!("{directory}/{word}"), tree));
        }
    };
    text.split(is_break).for_each(&mut add);
    // `from tools import rules` refers to `tools/rules.py`, although no single word names it.
    for line in text.lines() {
        let Some((package, names)) =
            line.trim().strip_prefix("from ").and_then(|rest| rest.split_once(" import "))
        else {
            continue;
        };
        for name in names.split([',', ' ', '(', ')']).filter(|name| !name.is_empty()) {
            add(&format!("{}.{name}", package.trim()));
        }
    }
    found
}

/// Returns the module name of a file.
pub fn module_name(path: &str) -> Option<&str> {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    let (stem, extension) = name.split_once('.')?;
    let is_importable = MODULE_ENDS.iter().any(|end| end.strip_prefix('.') == Some(extension));
    let name = match stem {
        "__init__" | "__main__" | "index" => directory.rsplit('/').next()?,
        stem => stem,
    };
    (is_importable && !name.is_empty()).then_some(name)
}

/// Whether a text has a line that imports a module of this name.
pub(super) fn imports(text: &str, module: &str) -> bool {
    imported(text).contains(module)
}

/// Returns the words of the lines of a text that import something.
pub fn imported(text: &str) -> BTreeSet<&str> {
    const WORDS: [&str; 7] = ["import", "from", "require", "source", ".", "use", "load"];
    let is_break = |c: char| !(c.is_alphanumeric() || c == '_' || c == '-');
    let is_import = |line: &&str| {
        let begins = |word: &&str| line.split_whitespace().any(|one| one == *word);
        let calls = line.contains("require(") || line.contains("import(");
        calls || WORDS.iter().any(begins)
    };
    text.lines().map(str::trim).filter(is_import).flat_map(|line| line.split(is_break)).collect()
}

/// The suffixes of module files.
const MODULE_ENDS: [&str; 16] = [
    ".py",
    "/__init__.py",
    "/__main__.py",
    ".js",
    ".mjs",
    ".cjs",
    ".ts",
    ".mts",
    "/index.js",
    "/index.ts",
    ".rb",
    ".pl",
    ".pm",
    ".php",
    ".sh",
    ".lua",
];

/// Returns the files of a tree that a word names: a path, or a module name that interpreters resolve.
pub fn named_by(word: &str, tree: &BTreeSet<String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    if tree.contains(word) {
        found.insert(word.to_owned());
    }
    let dotted = word.replace("::", "/").replace('.', "/");
    for name in [word, dotted.as_str()] {
        let files = MODULE_ENDS.iter().map(|end| format!("{name}{end}"));
        found.extend(files.filter(|file| tree.contains(file)));
    }
    // Importing a module runs the package's own files first.
    let packages =
        dotted.match_indices('/').map(|(at, _)| format!("{}/__init__.py", &dotted[..at]));
    if !found.is_empty() {
        found.extend(packages.filter(|file| tree.contains(file)));
    }
    found
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
    // The argument of an option may be run too (`node -r hook.js`); usually it is not a file, which is harmless.
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

/// Whether a word after a wrapper is the command, rather than an option, a setting, a number or a signal.
fn begins_command(word: &str) -> bool {
    let is_signal = word.chars().all(|letter| letter.is_ascii_uppercase());
    let is_number = word.starts_with(|first: char| first.is_ascii_digit());
    !word.starts_with('-') && !word.contains('=') && !is_number && !is_signal
}

/// The arguments of an interpreter before those of its script.
#[derive(Default)]
struct Given<'a> {
    options: Vec<&'a str>,
    /// The arguments of options.
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

/// Whether the word after an option belongs to it: `bash -euo pipefail ci/run` runs `ci/run`.
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

/// Whether a shell option is, or contains, a single-letter one.
fn has_letter(option: &str, letter: char) -> bool {
    !option.starts_with("--") && option[1..].contains(letter)
}

/// Whether an interpreter with these options parses its script without running any of it.
///
/// Every option must be known: an unknown one may name a file that is run (`node -r hook.js --check`) or cancel the
/// effect (`sh -in`). `perl -c` is excluded because it runs `BEGIN` blocks, and `ruby -c` because it loads what the
/// script's first line asks for.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn files(argvs: &[&[&str]]) -> Vec<String> {
        let owned: Vec<Vec<String>> =
            argvs.iter().map(|argv| argv.iter().map(|word| (*word).to_owned()).collect()).collect();
        scripts_of(owned.iter().map(Vec::as_slice)).into_iter().collect()
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
            // An interactive shell runs what it reads.
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
        // One gate that runs the file is enough.
        assert_eq!(files(&[&["sh", "-n", "check.sh"], &["sh", "check.sh"]]), ["check.sh"]);
        assert_eq!(files(&[&["tools/python3", "check.py"]]), ["check.py", "tools/python3"]);
    }

    #[test]
    fn a_word_names_a_file_or_a_module() {
        let tree: BTreeSet<String> = [
            "tools/__init__.py",
            "tools/check.py",
            "tools/rules.py",
            "ci/__main__.py",
            "lib/hook.js",
            "check",
        ]
        .iter()
        .map(|path| (*path).to_owned())
        .collect();
        for (word, expected) in [
            ("check", &["check"][..]),
            ("tools.check", &["tools/__init__.py", "tools/check.py"]),
            ("ci", &["ci/__main__.py"]),
            ("lib/hook", &["lib/hook.js"]),
            ("unittest", &[]),
        ] {
            let found: Vec<String> = named_by(word, &tree).into_iter().collect();
            assert_eq!(found, expected, "{word}");
        }
        let text = "import sys\nfrom tools import (rules, none)\n";
        let found: Vec<String> = mentioned(text, "other/check.py", &tree).into_iter().collect();
        assert_eq!(found, ["tools/__init__.py", "tools/rules.py"]);
        let text = "from .rules import holds\nconst x = require('../lib/hook')\n";
        let found: Vec<String> = mentioned(text, "tools/check.py", &tree).into_iter().collect();
        assert_eq!(found, ["lib/hook.js", "tools/__init__.py", "tools/rules.py"]);
    }

    #[test]
    fn a_script_mentions_files_from_the_root_and_from_beside_it() {
        let tree: BTreeSet<String> =
            ["ci/lib.sh", "ci/cases/a.in", "tools/x.py", "src/app.sh", "README.md"]
                .iter()
                .map(|path| (*path).to_owned())
                .collect();
        let text =
            "set -e\n. \"$(dirname \"$0\")/lib.sh\"\npython3 ./tools/x.py --all; sh src/app.sh\n";
        let found: Vec<String> = mentioned(text, "ci/run", &tree).into_iter().collect();
        assert_eq!(found, ["ci/lib.sh", "src/app.sh", "tools/x.py"]);
    }
}
