use super::*;
use crate::tree::FileTree;

fn item(kind: PlannedKind, name: &str, fields: &[&str]) -> Planned {
    let fields = fields.iter().map(|field| (*field).to_owned()).collect();
    Planned { kind, name: name.to_owned(), line: 3, parent: None, fields }
}

fn web_plan() -> Outline {
    let items = vec![
        item(PlannedKind::Theme, "zen", &[]),
        item(PlannedKind::Screen, "Home", &[]),
        item(PlannedKind::Section, "hero", &[]),
        item(PlannedKind::Section, "data-table", &["total", "customer"]),
    ];
    Outline { items, markers: Vec::new() }
}

fn css(variables: &[&str]) -> String {
    let lines: Vec<String> = variables.iter().map(|name| format!("{name}: red;")).collect();
    format!(":root {{\n{}\n}}\n", lines.join("\n"))
}

fn compared(
    outline: &Outline,
    rules: &LoopRules,
    files: &[(&str, &str)],
    changed: &[&str],
) -> PlanDiff {
    let tree = FileTree::new(files.iter().copied());
    let changed: Vec<String> = changed.iter().map(|path| (*path).to_owned()).collect();
    let request = DiffRequest { outline, rules, tree: &tree, changed: &changed, added: &changed };
    diff(&request)
}

fn titles(entries: &[DiffEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.what.as_str()).collect()
}

#[test]
fn parts_are_found_by_file_name_and_in_code_in_any_spelling() {
    let theme = css(&THEME);
    let files = [
        ("src/index.css", theme.as_str()),
        ("src/pages/home-page.tsx", "export const P = () => <HeroSection />;"),
        ("src/DataTable.tsx", "export const T = () => <Table total={1} columns={['customer']} />;"),
        ("src/more.ts", "export const x = 1;"),
        ("lib/unrelated.ts", ""),
    ];
    let changed = [
        "src/index.css",
        "src/pages/home-page.tsx",
        "src/DataTable.tsx",
        "src/more.ts",
        "lib/unrelated.ts",
    ];
    let found = compared(&web_plan(), &LoopRules::web_app(), &files, &changed);
    assert_eq!(found.failure, None, "{found:?}");
    assert_eq!(titles(&found.missing), Vec::<&str>::new());
    assert_eq!(titles(&found.deviating), Vec::<&str>::new());
    assert_eq!(titles(&found.implemented).len(), 4);
    assert_eq!(titles(&found.extra), ["src/more.ts"]);
    assert_eq!(found.owners["src/DataTable.tsx"], "the section `data-table`");
    assert!(!found.is_clean());
}

#[test]
fn deviations_and_what_is_missing_are_named() {
    let theme = css(&THEME[..5]);
    let files = [
        ("src/index.css", theme.as_str()),
        ("src/Home.tsx", "// hero comes later\nexport const H = () => <div />;"),
        ("src/DataTable.tsx", "export const T = () => <Table total={1} />;"),
    ];
    let found = compared(&web_plan(), &LoopRules::web_app(), &files, &["src/Home.tsx"]);
    assert_eq!(titles(&found.missing), ["the section `hero`"], "a comment is no code: {found:?}");
    assert_eq!(titles(&found.deviating), ["the theme", "the section `data-table`"]);
    assert!(found.deviating[1].detail.ends_with("without customer"), "{found:?}");
    assert_eq!(found.failure, None);
    let strict = LoopRules { strict: true, ..LoopRules::web_app() };
    let found = compared(&web_plan(), &strict, &files, &["src/Home.tsx"]);
    assert_eq!(found.failure.as_deref(), Some("1 part of the plan is missing"));
    let report = found.report();
    for heading in ["# Plan Diff", "## Implemented", "## Deviations", "## Missing"] {
        assert!(report.contains(heading), "{report}");
    }
}

/// Defect D8.4: a valid plan with an untouched scaffold must never pass.
#[test]
fn a_build_that_changed_nothing_of_the_plan_fails() {
    let theme = css(&THEME);
    let scaffold =
        "import { Button } from '@wiggum/stack'; export default () => <Stack><Home/></Stack>;";
    let files = [("src/index.css", theme.as_str()), ("src/App.tsx", scaffold)];
    for (changed, why) in [
        (&[][..], "nothing was changed since the task began"),
        (&["src/index.css"], "no source file was changed since the task began"),
    ] {
        let found = compared(&web_plan(), &LoopRules::web_app(), &files, changed);
        assert_eq!(found.failure.as_deref(), Some(why));
    }
    let files = [("src/index.css", theme.as_str()), ("src/App.tsx", "export default 1;")];
    let found = compared(&web_plan(), &LoopRules::web_app(), &files, &["src/App.tsx"]);
    assert_eq!(found.failure.as_deref(), Some("nothing of the plan is implemented"));
}

#[test]
fn files_of_a_plan_are_compared_by_whether_they_changed() {
    let items = vec![
        item(PlannedKind::ChangedFile, "src/main.rs", &[]),
        item(PlannedKind::ChangedFile, "src/lib.rs", &[]),
        item(PlannedKind::ChangedFile, "src/gone.rs", &[]),
        item(PlannedKind::NewFile, "tests/a.rs", &[]),
        item(PlannedKind::NewFile, "tests/b.rs", &[]),
    ];
    let outline = Outline { items, markers: Vec::new() };
    let files = [("src/main.rs", ""), ("src/lib.rs", ""), ("tests/a.rs", "")];
    let found = compared(&outline, &LoopRules::default(), &files, &["src/main.rs", "tests/a.rs"]);
    assert_eq!(titles(&found.implemented), ["the file `src/main.rs`", "the new file `tests/a.rs`"]);
    assert_eq!(titles(&found.deviating), ["the file `src/gone.rs`"]);
    assert_eq!(titles(&found.missing), ["the file `src/lib.rs`", "the new file `tests/b.rs`"]);
}

/// A file name alone proves nothing: a component that renders nothing counts as missing.
#[test]
fn a_source_that_renders_nothing_implements_no_component() {
    let rules = LoopRules { strict: true, ..LoopRules::web_app() };
    let outline =
        Outline { items: vec![item(PlannedKind::Section, "hero", &[])], markers: Vec::new() };
    for (hero, why) in [
        ("", Some("nothing of the plan is implemented")),
        ("export const Hero = () => null;", Some("nothing of the plan is implemented")),
        ("export const Hero = () => <h1>Bread</h1>;", None),
    ] {
        let app = "import { Hero } from './Hero'; export default () => <main><Hero /></main>;";
        let files = [("src/App.tsx", app), ("src/Hero.tsx", hero)];
        let changed = ["src/App.tsx", "src/Hero.tsx"];
        let found = compared(&outline, &rules, &files, &changed);
        assert_eq!(found.failure.as_deref(), why, "{hero}: {found:?}");
    }
}

#[test]
fn a_strict_plan_names_what_can_be_compared() {
    let rules = LoopRules { strict: true, ..LoopRules::default() };
    let found = compared(&Outline::default(), &rules, &[("a.txt", "x")], &["a.txt"]);
    assert!(found.failure.is_some_and(|why| why.contains("names no file")));
    let found = compared(&Outline::default(), &LoopRules::default(), &[("a.txt", "x")], &["a.txt"]);
    assert_eq!(found.failure, None);
}

/// A plan that names only existing parts is not fulfilled by an unrelated change.
#[test]
fn what_was_there_before_the_task_is_not_its_work() {
    let told = Some("no file of any part of the plan was changed since the task began");
    let plan = Outline {
        items: vec![
            item(PlannedKind::ChangedFile, "README.md", &[]),
            item(PlannedKind::ChangedFile, "src/main.rs", &[]),
        ],
        markers: Vec::new(),
    };
    let files = [("README.md", "x"), ("src/main.rs", "x"), ("other.txt", "x")];
    let rules = LoopRules::web_app();
    let nothing = Some("nothing of the plan is implemented");
    assert_eq!(compared(&plan, &rules, &files, &["other.txt"]).failure.as_deref(), nothing);
    for changed in ["README.md", "src/main.rs"] {
        assert_eq!(compared(&plan, &rules, &files, &["other.txt", changed]).failure, None);
    }
    // Deleting a file that the plan changes counts as changing it.
    let removed = compared(&plan, &rules, &files[1..], &["README.md"]);
    assert_eq!((removed.failure, removed.deviating.len()), (None, 1));

    let hero =
        Outline { items: vec![item(PlannedKind::Section, "hero", &[])], markers: Vec::new() };
    let files = [
        ("src/App.tsx", "export default () => <Hero />;"),
        ("src/Hero.tsx", "export const Hero = () => <h1 />;"),
        ("src/odd.ts", "export const odd = 1;"),
    ];
    assert_eq!(compared(&hero, &rules, &files, &["src/odd.ts"]).failure.as_deref(), told);
    for changed in ["src/App.tsx", "src/Hero.tsx"] {
        assert_eq!(compared(&hero, &rules, &files, &[changed]).failure, None, "{changed}");
    }
}
