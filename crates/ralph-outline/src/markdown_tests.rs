use proptest::prelude::*;

use super::*;
use crate::finding::tests::has_a_line_each;
use crate::rules::LoopRules;
use crate::tree::FileTree;

const PLAN: &str = "# Plan: greeting

## Analysis
- Files to modify: `src/main.rs`
- Approach: a flag

## Steps
1. `src/main.rs`: parse `--name`.
2. `tests/greets.rs` (new): a test of the flag.

## Verification strategy
- The flag is honoured: `cargo test greets`
- By hand: `./run.sh --name Ada`, `lint all`
";

fn tree() -> FileTree {
    let manifest = r#"{ "scripts": { "lint": "eslint ." } }"#;
    FileTree::new([("src/main.rs", "fn main() {}"), ("run.sh", ""), ("package.json", manifest)])
}

fn check(text: &str) -> PlanCheck {
    let (rules, tree) = (LoopRules::default(), tree());
    let is_program = |name: &str| name == "cargo";
    Markdown.check(text, &PlanSurroundings { rules: &rules, tree: &tree, is_program: &is_program })
}

fn findings(text: &str) -> Vec<String> {
    check(text).findings.iter().map(ToString::to_string).collect()
}

#[test]
fn a_sound_plan_has_no_findings_and_promises_its_files() {
    assert_eq!(findings(PLAN), Vec::<String>::new());
    let items = check(PLAN).outline.items;
    let items: Vec<(PlannedKind, &str, usize)> =
        items.iter().map(|item| (item.kind, item.name.as_str(), item.line)).collect();
    assert_eq!(
        items,
        [
            (PlannedKind::ChangedFile, "src/main.rs", 8),
            (PlannedKind::NewFile, "tests/greets.rs", 9)
        ]
    );
}

#[test]
fn every_check_finds_what_it_is_for_on_its_line() {
    for (old, new, expected) in [
        (
            "## Analysis",
            "## Thoughts",
            "FAIL [has-analysis]: line 13: the heading `## Analysis` is missing",
        ),
        ("## Steps", "## Ideas", "FAIL [has-steps]: line 13: the heading `## Steps` is missing"),
        (
            "## Verification strategy",
            "## Later",
            "FAIL [has-verification]: line 13: the heading `## Verification strategy` is missing",
        ),
        (
            "1. `src/main.rs`: parse `--name`.\n2. `tests/greets.rs` (new): a test of the flag.",
            "- …",
            "FAIL [has-steps]: line 7: nothing is below `## Steps`",
        ),
        (
            "1. `src/main.rs`: parse `--name`.\n2. `tests/greets.rs` (new): a test of the flag.",
            "- do it",
            "FAIL [has-steps]: line 7: the steps are not a numbered list: write `1. …`, each one change that can be checked",
        ),
        (
            "1. `src/main.rs`",
            "1. `src/mian.rs`",
            "FAIL [files-exist]: line 8: `src/mian.rs` does not exist; did you mean `src/main.rs`?; write `(new)` if the step creates it",
        ),
        (
            "`tests/greets.rs` (new)",
            "`tests/greets.rs`",
            "FAIL [files-exist]: line 9: `tests/greets.rs` does not exist; write `(new)` if the step creates it",
        ),
        (
            "cargo test",
            "cargoo test",
            "FAIL [known-commands]: line 12: `cargoo` of `cargoo test greets` is neither on PATH, nor in the tree, nor a script of the manifest",
        ),
        (
            "./run.sh",
            "./ran.sh",
            "FAIL [known-commands]: line 13: `./ran.sh` of `./ran.sh --name Ada` is neither on PATH, nor in the tree, nor a script of the manifest",
        ),
    ] {
        assert!(PLAN.contains(old), "{old}");
        let found = findings(&PLAN.replace(old, new));
        assert!(found.contains(&expected.to_owned()), "{expected}\n{found:#?}");
    }
}

#[test]
fn commands_stand_in_spans_and_in_fences_of_a_shell() {
    let fenced = |fence: &str, line: &str| {
        PLAN.replace(
            "- By hand: `./run.sh --name Ada`, `lint all`",
            &format!("```{fence}\n{line}\n```"),
        )
    };
    for (fence, line, is_found) in [
        ("sh", "nowhere --at all", true),
        ("console", "$ nowhere --at all", true),
        ("", "FOO=1 nowhere --at all", true),
        ("sh", "# nowhere --at all", false),
        ("sh", "FOO=1 cargo test", false),
        ("rust", "nowhere at all", false),
    ] {
        let found = findings(&fenced(fence, line));
        assert_eq!(!found.is_empty(), is_found, "{fence} {line} {found:?}");
    }
}

#[test]
fn a_file_without_the_headings_is_a_note() {
    for (text, is_plan) in [
        (PLAN, true),
        ("## Steps\n", true),
        ("# Verification strategy:\n", true),
        ("The analysis and the steps.", false),
        ("```\n## Steps\n```\n", false),
        ("", false),
        ("#Steps", false),
    ] {
        assert_eq!(Markdown.is_plan(text), is_plan, "{text}");
    }
}

#[test]
fn markers_belong_to_the_file_above_them() {
    let text = PLAN.replace("2. ", "<!-- TASK-1 [ADD]: 2 -->\n2. ");
    let markers = check(&text).outline.markers;
    assert_eq!(markers.len(), 1);
    assert_eq!((markers[0].line, markers[0].target.as_deref()), (9, Some("src/main.rs")));
}

proptest! {
    /// Any bytes: findings with a line of the text, and never a panic.
    #[test]
    fn any_bytes_end_in_findings_with_a_line(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        pieces in prop::collection::vec(prop::sample::select(vec![
            "## Analysis\n", "## Steps\n", "## Verification strategy\n", "1. ", "`a/b.rs`", "`", "```", "```sh\n",
            "\n", "- ", "(new)", "cargo test", "é", "#", "TASK-1 [ADD]: 1", "\u{2028}", "~~~", "\r",
            "`a.rs\u{1b}[2J`", "`make \u{85}all`",
        ]), 0..60),
    ) {
        for text in [String::from_utf8_lossy(&bytes).into_owned(), pieces.concat()] {
            let lines = text.lines().count().max(1);
            let found = check(&text);
            prop_assert!(found.findings.iter().all(|finding| (1..=lines).contains(&finding.line)));
            prop_assert!(has_a_line_each(&found.findings), "{:?}", found.findings);
            Markdown.is_plan(&text);
        }
    }
}
