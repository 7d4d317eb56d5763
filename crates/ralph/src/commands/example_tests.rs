//! Every `ralph …` that a help text, a guide or a message shows is a command line that parses.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap::error::ErrorKind;

use super::{unnamed_build, with_build, with_help};
use crate::args::Cli;

/// A command line as it was found.
struct Example {
    place: String,
    text: String,
    /// A sentence may name a command without its arguments.
    is_in_a_sentence: bool,
}

#[test]
fn every_command_line_in_help_texts_guides_and_messages_parses() {
    let mut examples = Vec::new();
    let mut root = Cli::command();
    root.build();
    of_help(&root, "ralph", &mut examples);
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let documents =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| repository.join(name));
    for path in files(&repository.join("docs"), "md").into_iter().chain(documents) {
        of_document(&path, &mut examples);
    }
    let counted = examples.len();
    assert!(counted > 300, "{counted}");
    for name in ["ralph", "ralph-engine", "ralph-model", "ralph-proc", "ralph-git"] {
        for path in files(&repository.join("crates").join(name).join("src"), "rs") {
            of_source(&path, &mut examples);
        }
    }
    assert!(examples.len() > counted + 200, "{}", examples.len() - counted);
    let wrong: Vec<String> = examples
        .iter()
        .filter_map(|example| {
            let problem = problem(example)?;
            Some(format!("{}: {}\n    {problem}", example.place, example.text))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_wrong_command_line_is_found() {
    let example = |text: &str| Example {
        place: String::new(),
        text: text.to_owned(),
        is_in_a_sentence: true,
    };
    for wrong in
        ["ralph pipelin", "ralph specs shew 2", "ralph build --max-costs 5", "ralph config a b"]
    {
        assert!(problem(&example(wrong)).is_some(), "{wrong}");
    }
    for right in [
        "ralph",
        "ralph 5",
        "ralph help agent run",
        "ralph task add",
        "ralph sandbox --role ROLE -- CMD",
    ] {
        assert_eq!(problem(&example(right)), None, "{right}");
    }
}

/// Why an example does not parse.
fn problem(example: &Example) -> Option<String> {
    let args: Vec<OsString> = words(&example.text).into_iter().map(OsString::from).collect();
    if args.len() == 1 {
        return None;
    }
    let mut args = with_build(with_help(args));
    // A sentence is offered to `exec`.
    if args[1].to_string_lossy().contains(' ') {
        args.insert(1, "exec".into());
    }
    let error = Cli::understand(&args).err()?;
    if unnamed_build(&args).is_some() || !error.use_stderr() {
        return None;
    }
    let is_incomplete = matches!(
        error.kind(),
        ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    let is_named =
        example.is_in_a_sentence && (is_incomplete || error.kind() == ErrorKind::InvalidValue);
    (!is_named).then(|| error.to_string().lines().next().unwrap_or_default().to_owned())
}

/// Splits a line as a shell does, up to the end of its first command, with values in place of placeholders.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut was_quoted = false;
    for c in line.chars().chain([' ']) {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => (quote, was_quoted) = (Some(c), true),
            (None, '#' | '|' | ';' | '>' | '&') if word.is_empty() => break,
            (None, ' ') => {
                if was_quoted || !word.is_empty() {
                    words.push(if was_quoted {
                        std::mem::take(&mut word)
                    } else {
                        value(&std::mem::take(&mut word))
                    });
                }
                was_quoted = false;
            }
            (_, c) => word.push(c),
        }
    }
    words.retain(|word| word != "…");
    words
}

/// The value that a placeholder stands for.
fn value(word: &str) -> String {
    let name = word.trim_matches(['[', ']', '<', '>', '…']);
    match name {
        "N" | "USD" | "TOKENS" | "SECONDS" => "1".to_owned(),
        "TIME" => "1m".to_owned(),
        "ROLE" => "planner".to_owned(),
        "COMMAND" => "status".to_owned(),
        "" if !word.is_empty() => "…".to_owned(),
        _ => name.to_owned(),
    }
}

/// The examples at the end of each command's help.
fn of_help(command: &clap::Command, place: &str, examples: &mut Vec<Example>) {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    for line in text.lines().filter_map(|line| line.strip_prefix("  ")) {
        if line.starts_with("ralph ") {
            add(examples, &format!("help of {place}"), without_remark(line), false);
        }
    }
    for sub in command.get_subcommands() {
        of_help(sub, &format!("{place} {}", sub.get_name()), examples);
    }
}

/// Code blocks and code in sentences.
fn of_document(path: &Path, examples: &mut Vec<Example>) {
    let text = fs::read_to_string(path).unwrap();
    let mut is_block = false;
    for (number, line) in text.lines().enumerate() {
        let place = format!("{}:{}", path.file_name().unwrap().display(), number + 1);
        if line.starts_with("```") {
            is_block = !is_block;
        } else if is_block || line.starts_with("    ") {
            let typed = line.trim_start().trim_start_matches("$ ");
            if typed.starts_with("ralph ") {
                add(examples, &place, without_remark(typed), false);
            }
        } else {
            of_sentence(line, &place, examples);
        }
    }
}

/// Code in the messages and comments of a source file.
fn of_source(path: &Path, examples: &mut Vec<Example>) {
    if path.to_string_lossy().ends_with("_tests.rs") {
        return;
    }
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    for (number, line) in text.lines().enumerate() {
        let line = line.replace("\\\"", "\"");
        of_sentence(&line, &format!("{}:{}", path.display(), number + 1), examples);
    }
}

/// Code between backticks. What is inserted at run time stands for a value.
fn of_sentence(line: &str, place: &str, examples: &mut Vec<Example>) {
    for (number, code) in line.split('`').enumerate() {
        if number % 2 == 1 && code.starts_with("ralph ") {
            let mut text = String::new();
            let mut depth = 0;
            for c in code.chars() {
                match c {
                    '{' => depth += 1,
                    '}' => {
                        depth -= 1;
                        text.push('1');
                    }
                    c if depth == 0 => text.push(c),
                    _ => {}
                }
            }
            add(examples, place, &text, true);
        }
    }
}

fn add(examples: &mut Vec<Example>, place: &str, text: &str, is_in_a_sentence: bool) {
    // Not for people: Ralph starts its own agent with it.
    if text.starts_with("ralph __") {
        return;
    }
    let text = text.trim_end().to_owned();
    examples.push(Example { place: place.to_owned(), text, is_in_a_sentence });
}

/// The line without the explanation beside it.
fn without_remark(line: &str) -> &str {
    line.split("   ").next().unwrap_or(line)
}

/// The files of a kind below a directory.
fn files(below: &Path, kind: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, kind));
        } else if path.extension().is_some_and(|extension| extension == kind) {
            found.push(path);
        }
    }
    found
}
