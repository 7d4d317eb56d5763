use std::collections::BTreeMap;

use super::*;
use crate::feedback::{GateWords, gate_feedback};
use crate::tree::FileTree;

fn theme(variables: usize) -> String {
    let names = LoopRules::web_app().registries.theme_variables.unwrap();
    let lines: Vec<String> =
        names.iter().take(variables).map(|name| format!("  {name}: 1 2% 3%;")).collect();
    let lines = lines.join("\n");
    format!(":root {{\n{lines}\n}}\n.dark {{ --background: 0 0% 0%; }}\n")
}

fn run_on(check: BuiltIn, files: &[(&str, &str)]) -> CheckResult {
    let (rules, tree) = (LoopRules::web_app(), FileTree::new(files.iter().copied()));
    run(check, &input(&rules, &tree))
}

fn input<'a>(rules: &'a LoopRules, tree: &'a FileTree) -> CheckInput<'a> {
    CheckInput {
        rules,
        tree,
        before: None,
        changed: &[],
        added: &[],
        idle: &[],
        outline: None,
        summary: None,
    }
}

#[test]
fn a_summary_has_twenty_characters() {
    let (rules, tree) = (LoopRules::default(), FileTree::default());
    for (summary, passed) in [
        (None, false),
        (Some("  \n"), false),
        (Some("done"), false),
        (Some("ééééééééééééééééééé"), false),
        (Some("éééééééééééééééééééé"), true),
        (Some("The page has a form."), true),
    ] {
        let input = CheckInput { summary, ..input(&rules, &tree) };
        assert_eq!(run(BuiltIn::HasSummary, &input).passed, passed, "{summary:?}");
    }
}

#[test]
fn an_application_has_content_by_what_it_imports_or_shows() {
    let scaffold = "export default () => <p>Edit src/App.tsx to get started</p>;";
    for (app, passed) in [
        (None, false),
        (Some(scaffold), false),
        (Some("export default () => <p/>;"), false),
        (Some("import { Hero } from './sections/Hero'; export default () => <Hero/>;"), true),
        (Some("import { Hero } from '@/components/Hero'; export default () => <Hero/>;"), true),
        (Some("import { Stack } from '@wiggum/stack'; export default () => <p/>;"), false),
        (Some("import { Stack } from '@wiggum/stack'; export default () => <Stack/>;"), true),
        (Some("import { Hero } from './sections/Hero'; export default () => <p/>;"), false),
        (Some("export default () => <A><B/><C/></A>;"), false),
        (Some("export default () => <A><B/><C/><D/></A>;"), true),
        (Some("// import a from './sections/a'\nexport default () => <p/>;"), false),
    ] {
        let files: Vec<(&str, &str)> = app.iter().map(|text| ("src/App.tsx", *text)).collect();
        assert_eq!(run_on(BuiltIn::AppHasContent, &files).passed, passed, "{app:?}");
        assert_eq!(run_on(BuiltIn::AppExists, &files).passed, app.is_some());
    }
}

#[test]
fn before_any_work_means_that_the_application_is_hardly_there() {
    let rules = LoopRules::web_app();
    for (app, before) in
        [(None, true), (Some("x".repeat(200)), true), (Some("x".repeat(201)), false)]
    {
        let tree = FileTree::new(app.map(|text| ("src/App.tsx", text)));
        assert_eq!(is_before_work(&input(&rules, &tree)), before);
    }
}

/// Defect D8.6: a scaffold can exceed any length bound, so it must be recognised by its content.
#[test]
fn an_untouched_scaffold_is_before_any_work_however_long_it_is() {
    let rules = LoopRules::web_app();
    let scaffold = format!("{}{}", rules.scaffold_phrases[0], "x".repeat(500));
    let tree = FileTree::new([("src/App.tsx", scaffold)]);
    for (changed, before) in
        [(vec![], true), (vec!["notes.md"], true), (vec!["src/index.css"], false)]
    {
        let changed: Vec<String> = changed.into_iter().map(str::to_owned).collect();
        let input = CheckInput { changed: &changed, ..input(&rules, &tree) };
        assert_eq!(is_before_work(&input), before, "{changed:?}");
    }
}

#[test]
fn a_theme_declares_all_variables_and_a_dark_one() {
    let (whole, short) = (theme(36), theme(35));
    let commented = format!("/* {} */", theme(36));
    let light = theme(36).replace(".dark", ".darker");
    for (css, says) in [
        (Some(whole.as_str()), ""),
        (Some(&short), "lacks 1 of the theme's 36 variables: --chart-5"),
        (Some(&commented), "lacks 36 of the theme's 36 variables"),
        (Some(&light), "has no `.dark` theme"),
        (None, "src/index.css is missing"),
    ] {
        let files: Vec<(&str, &str)> = css.iter().map(|text| ("src/index.css", *text)).collect();
        let found = run_on(BuiltIn::CssThemeComplete, &files);
        assert_eq!(found.passed, says.is_empty(), "{found:?}");
        assert!(found.text.contains(says), "{found:?}");
    }
}

#[test]
fn tailwind_directives_are_found_outside_comments() {
    for (css, passed) in [
        ("@tailwind base;\n", false),
        ("a {}\n  @tailwind utilities;", false),
        ("/* @tailwind base; */ a {}", true),
        ("/* unclosed @tailwind", true),
        ("@import 'tailwindcss';", true),
    ] {
        let found = run_on(BuiltIn::CssNoTailwindDirectives, &[("src/index.css", css)]);
        assert_eq!(found.passed, passed, "{css}");
    }
    assert!(run_on(BuiltIn::CssNoTailwindDirectives, &[]).passed);
}

#[test]
fn hard_coded_colours_are_found_and_theme_colours_are_not() {
    for (code, found) in [
        ("<p className=\"text-red-500\" />", "text-red-500"),
        ("<p className='hover:bg-slate-950/50 flex' />", "hover:bg-slate-950/50"),
        ("<p className={`dark:border-t-zinc-50`} />", "dark:border-t-zinc-50"),
        ("<p style={{ color: '#fff' }} />", "#fff"),
        ("<p className=\"bg-[#a1b2c3]\" />", "#a1b2c3"),
        ("const c = \"rgb(1, 2, 3)\";", "rgb(1, 2, 3)"),
        ("const c = 'oklch(0.7 0.1 200)';", "oklch(0.7 0.1 200)"),
        ("<p className=\"bg-primary text-muted-foreground grid-cols-100\" />", ""),
        ("const c = 'hsl(var(--primary))';", ""),
        ("<a href=\"#add\">x</a>", ""),
        ("const id = '#section';", ""),
        ("// text-red-500 and #fff", ""),
        ("const url = 'https://a.example/#abc-def';", ""),
        ("const n = issue('#12');", ""),
    ] {
        let code = format!("export const a = 1;\n{}", wrapped(code));
        let result =
            run_on(BuiltIn::NoHardcodedColors, &[("src/a.tsx", &code), ("lib/b.tsx", "'#fff'")]);
        assert_eq!(result.passed, found.is_empty(), "{code}: {result:?}");
        let expected =
            if found.is_empty() { String::new() } else { format!("src/a.tsx:2: {found}") };
        assert_eq!(result.text, expected);
    }
}

fn wrapped(code: &str) -> String {
    if code.starts_with('<') { format!("export const b = () => {code};") } else { code.to_owned() }
}

#[test]
fn feedback_has_the_gates_words_what_to_do_and_whose_part_a_file_is() {
    let words = |name: &str, built_in, text: &str| GateWords {
        name: name.to_owned(),
        built_in,
        text: text.to_owned(),
    };
    let failed = [
        words("tests", None, "```\nsrc/a.tsx failed\n```"),
        words("no-hardcoded-colors", Some(BuiltIn::NoHardcodedColors), "src/Hero.tsx:2: #fff"),
    ];
    let passed =
        [words("plan-diff", Some(BuiltIn::PlanDiff), "# Plan Diff"), words("lint", None, "")];
    let owners = BTreeMap::from([
        ("src/Hero.tsx".to_owned(), "the section `hero`".to_owned()),
        ("src/Other.tsx".to_owned(), "the section `faq`".to_owned()),
    ]);
    let text =
        gate_feedback(&failed, &["The commit changes nothing.".to_owned()], &passed, &owners);
    let expected = "# Quality Gate Failures

The commit changes nothing.

## tests

````
```
src/a.tsx failed
```
````

What to do: Fix what it reports; it runs again on the next completion.

## no-hardcoded-colors

```
src/Hero.tsx:2: #fff
```

src/Hero.tsx belongs to the section `hero`.

What to do: use the theme's classes and variables (`bg-primary`, `var(--primary)`) instead of fixed colours.

Fix all of these, then write `complete` to status.txt again. All gates run every time.

# Info

## plan-diff

# Plan Diff
";
    assert_eq!(text, expected);
}
