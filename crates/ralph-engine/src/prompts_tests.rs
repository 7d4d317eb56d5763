use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::*;
use crate::test_place::Place;

fn told(place: &Place) -> Vec<String> {
    let root = format!("{}/", place.root);
    let problems = load(&place.root).unwrap_err();
    problems.iter().map(|problem| problem.to_string().replace(&root, "")).collect()
}

#[test]
fn without_files_the_built_in_text_serves() {
    assert_eq!(load(&Place::new().root).unwrap(), Prompts::builtin());
}

#[test]
fn a_file_in_home_replaces_the_built_in_text() {
    let place = Place::new();
    let text = "Plan {{SPEC_FILE}}.";
    place.write("PROMPT_plan.md", &format!("\u{feff}{text}"));
    let mut expected = Prompts::builtin();
    expected.replace(PromptKind::Plan, text).unwrap();
    assert_eq!(load(&place.root).unwrap(), expected);
    assert_ne!(expected, Prompts::builtin());
}

#[test]
fn the_built_in_text_can_be_the_start_of_a_persons_own() {
    let place = Place::new();
    for kind in PromptKind::ALL {
        place.write(kind.file_name(), kind.builtin_text());
    }
    assert_eq!(load(&place.root).unwrap(), Prompts::builtin());
}

#[test]
fn everything_wrong_is_told_with_file_and_line() {
    let place = Place::new();
    place.write("PROMPT_spec_plan.md", "{{spec}} {{outbox}}\n{{magic_prase}}\n");
    place.write("PROMPT_spec_verify.md", "{{#if questions}}\n");
    place.write("PROMPT_build.md", "{{task}} and\n\n{{rejected}}");
    fs::write(place.root.join("PROMPT_decompose.md"), b"a\n\xff").unwrap();
    fs::create_dir(place.root.join("PROMPT_verify.md")).unwrap();
    assert!(
        Command::new("mkfifo").arg(place.root.join("PROMPT_plan.md")).status().unwrap().success()
    );
    assert_eq!(
        told(&place),
        [
            "`PROMPT_spec_plan.md:2`: unknown value `magic_prase`; did you mean `magic_phrase`? (`\\{{` stands for \
             `{{` itself)",
            "`PROMPT_spec_verify.md:1`: `{{#if questions}}` is never closed by `{{/if}}`",
            "cannot read `PROMPT_plan.md`: it is not a file",
            "`PROMPT_build.md:3`: `rejected` is not always set: put it between `{{#if rejected}}` and `{{/if}}`",
            "cannot read `PROMPT_verify.md`: it is not a file",
            "`PROMPT_decompose.md:2` is not UTF-8",
        ]
    );
}

#[test]
fn the_first_rules_file_with_text_is_taken() {
    let place = Place::new();
    assert_eq!(read_rules(&place.root).unwrap(), None);
    place.write("CLAUDE.md", "claude");
    assert_eq!(read_rules(&place.root).unwrap().unwrap().file, "CLAUDE.md");
    place.write("AGENTS.md", " \n");
    assert_eq!(read_rules(&place.root).unwrap().unwrap().file, "CLAUDE.md");
    place.write("AGENTS.md", "agents");
    let rules = read_rules(&place.root).unwrap().unwrap();
    assert_eq!(rules, Rules { file: "AGENTS.md", text: "agents".to_owned() });
    assert_eq!(rules.source().text, "agents");
}

#[test]
fn rules_may_be_linked_and_need_not_be_whole() {
    let place = Place::new();
    place.write("docs/rules.md", &"a rule\n".repeat(20_000));
    symlink("docs/rules.md", place.root.join("AGENTS.md")).unwrap();
    let text = read_rules(&place.root).unwrap().unwrap().text;
    assert!(text.len() < MOST_RULES + 100);
    let (rules, note) = text.split_at(text.find('(').unwrap());
    assert!(rules.trim_end().lines().all(|line| line == "a rule"));
    assert_eq!(note, "(Cut here: read the rest in `AGENTS.md` itself.)\n");
    fs::write(place.root.join("docs/rules.md"), b"caf\xe9").unwrap();
    assert_eq!(read_rules(&place.root).unwrap().unwrap().text, "caf\u{fffd}");
}

#[test]
fn rules_that_are_no_file_are_told_and_not_waited_for() {
    let place = Place::new();
    assert!(Command::new("mkfifo").arg(place.root.join("AGENTS.md")).status().unwrap().success());
    let error = read_rules(&place.root).unwrap_err().to_string();
    assert!(error.ends_with("AGENTS.md`: it is not a file"), "{error}");
}
