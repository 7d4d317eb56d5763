use proptest::prelude::*;

use super::*;
use crate::finding::tests::has_a_line_each;
use crate::finding::{PlanLevel, report};
use crate::rules::LoopRules;
use crate::tree::FileTree;

const PLAN: &str = r#"import { App } from "planning";

export default (
  <App name="Shop" description="A shop">
    <Theme mood="premium" font="Inter" monoFont="Geist Mono" />
    <Nav><NavItem to="/" /></Nav>
    <Screen name="Home">
      <Section gumdrop="hero" cols={2} wide />
      {/* TASK-2 [ADD]: 3 cards */}
      <Section gumdrop="pricing" />
    </Screen>
    <Screen name="Orders">
      <Content>
        <Section><Gumdrop use="data-table"><Column field="total" /></Gumdrop></Section>
      </Content>
    </Screen>
    <Data>
      <Schema name="Order" fields="id,total" />
      <Endpoint resource="orders" pattern="crud" />
    </Data>
  </App>
);
"#;

fn check_with(text: &str, rules: &LoopRules) -> PlanCheck {
    let tree = FileTree::default();
    Tsx.check(text, &PlanSurroundings { rules, tree: &tree, is_program: &|_| false })
}

fn check(text: &str) -> PlanCheck {
    check_with(text, &LoopRules::web_app())
}

/// The findings as displayed.
fn findings(text: &str) -> Vec<String> {
    check(text).findings.iter().map(ToString::to_string).collect()
}

#[test]
fn a_sound_plan_has_no_findings_and_says_what_it_promises() {
    let checked = check(PLAN);
    assert_eq!(report(&checked.findings), "");
    let items: Vec<(String, usize)> =
        checked.outline.items.iter().map(|item| (item.title(), item.line)).collect();
    let expected = [
        ("the theme", 5),
        ("the screen `Home`", 7),
        ("the section `hero` of `Home`", 8),
        ("the section `pricing` of `Home`", 10),
        ("the screen `Orders`", 12),
        ("the section `data-table` of `Orders`", 14),
    ];
    assert_eq!(items, expected.map(|(title, line)| (title.to_owned(), line)));
    assert_eq!(checked.outline.items[5].fields, ["total"]);
    let marker = ScopeMarker {
        kind: MarkerKind::Add { task: 2, items: Some(3) },
        line: 9,
        target: Some("hero".to_owned()),
    };
    assert_eq!(checked.outline.markers, [marker]);
}

/// Tests every check with a plan that differs from the valid one in one place.
#[test]
fn every_check_finds_what_it_is_for_on_its_line() {
    for (old, new, expected) in [
        (
            "<Theme mood=\"premium\" font=\"Inter\" monoFont=\"Geist Mono\" />",
            "",
            "FAIL [has-theme]: line 4: no `<Theme>` in `<App>`",
        ),
        (
            "\"premium\"",
            "\"zen\nFAIL [forged]: line 9: \u{1b}[2J\"",
            "FAIL [valid-mood]: line 5: unknown mood `zen\\nFAIL [forged]: line 9: \\u{1b}[2J`",
        ),
        (
            "\"premium\"",
            "\"premuim\"",
            "FAIL [valid-mood]: line 5: unknown mood `premuim`; did you mean `premium`?",
        ),
        (
            "\"Inter\"",
            "\"Intre\"",
            "FAIL [valid-font]: line 5: unknown font `Intre`; did you mean `Inter`, `Lora`, `Sora`?",
        ),
        (
            "\"Geist Mono\"",
            "\"Comic Sans MS, cursive\"",
            "FAIL [valid-font]: line 5: unknown font `Comic Sans MS, cursive`",
        ),
        (
            "\"data-table\"",
            "\"date-table\"",
            "FAIL [valid-gumdrops]: line 14: unknown recipe `date-table`; did you mean `data-table`?",
        ),
        (
            "<Section gumdrop=\"hero\" cols={2} wide />",
            "<Section />",
            "FAIL [sections-have-gumdrops]: line 8: the section names no recipe: give it a `gumdrop`",
        ),
        (
            "<Section><Gumdrop use=\"data-table\"><Column field=\"total\" /></Gumdrop></Section>",
            "",
            "FAIL [no-empty-screens]: line 12: the screen `Orders` has no `<Section>`",
        ),
        (
            "resource=\"orders\"",
            "resource=\"carts\"",
            "FAIL [schema-endpoint-match]: line 19: the endpoint's resource `carts` has no `<Schema>`",
        ),
        (
            "\"hero\"",
            "\"gallery\"",
            "WARN [adjacent-grids]: line 10: `gallery` and `pricing` are both grids and stand side by side",
        ),
        (
            "<Nav><NavItem to=\"/\" /></Nav>",
            "",
            "WARN [missing-nav]: line 12: there are 2 screens and no `<Nav>` between them",
        ),
    ] {
        assert!(PLAN.contains(old), "{old}");
        let found = findings(&PLAN.replace(old, new));
        assert!(found.contains(&expected.to_owned()), "{expected}\n{found:#?}");
    }
    let without_data = PLAN.replace("<Data>", "<Aside>").replace("</Data>", "</Aside>");
    let without_data = without_data.replace("<Schema name=\"Order\" fields=\"id,total\" />", "");
    let without_data =
        without_data.replace("<Endpoint resource=\"orders\" pattern=\"crud\" />", "");
    let expected = "WARN [no-data-for-stateful]: line 14: `data-table` shows data, and the plan has no `<Data>`";
    assert!(findings(&without_data).contains(&expected.to_owned()));
    let one =
        "export default <App><Theme mood='zen' /><Screen><Section gumdrop='hero' /></Screen></App>";
    let low_diversity = "WARN [low-diversity]: line 1: only one recipe is used: vary them";
    assert_eq!(findings(one), [low_diversity]);
    let inside = one.replace("<Screen>", "<Content><Screen>").replace("</App>", "</Content></App>");
    let no_screen = "FAIL [has-screens]: line 1: no `<Screen>` directly in `<App>`";
    assert_eq!(findings(&inside), [no_screen, low_diversity]);
}

#[test]
fn what_is_no_plan_stops_with_the_reason_and_its_line() {
    for (text, expected) in [
        (
            "const a = 1;\n",
            "FAIL [parseable]: line 1: no `export default ( <App …> … </App> )` found",
        ),
        (
            "\n\nexport default 5;\n",
            "FAIL [parseable]: line 3: the default export is not an element: write `export default ( <App …> … </App> )`",
        ),
        (
            "export default function App() { return <App /> }",
            "FAIL [parseable]: line 1: the default export is not an element: write `export default ( <App …> … </App> )`",
        ),
        (
            "\nexport default (\n  <Page />\n)",
            "FAIL [has-app-root]: line 3: the root of the plan is `<Page>` and not `<App>`",
        ),
        (
            "export default <><App /><App /></>",
            "FAIL [has-app-root]: line 1: the root of the plan is one `<App>`, and not several elements",
        ),
    ] {
        assert_eq!(findings(text), [expected], "{text}");
    }
    let unclosed = findings("export default (\n  <App>\n    <Screen>\n  </App>\n)");
    assert!(unclosed[0].starts_with("FAIL [parseable]: line "), "{unclosed:?}");
    assert_eq!(findings("export default <App />").len(), 2);
}

/// Defect D8.10: lines count from the top of the file, including imports, and one unclosed tag gives one error.
#[test]
fn lines_of_syntax_errors_are_those_of_the_file() {
    let text = "import a from 'a';\nimport b from 'b';\n\nexport default (\n  <App>\n    <Screen name=>\n  </App>\n);\n";
    let found = check(text).findings;
    assert!(!found.is_empty() && found.iter().all(|finding| finding.line == 6), "{found:?}");
}

#[test]
fn a_check_without_its_registry_is_off_and_says_so() {
    let checked = check_with(PLAN, &LoopRules::default());
    assert!(checked.is_valid());
    let off: Vec<&str> = checked.findings.iter().map(|finding| finding.id).collect();
    assert_eq!(
        off,
        ["valid-mood", "valid-font", "valid-gumdrops", "adjacent-grids", "no-data-for-stateful"]
    );
    assert!(checked.findings.iter().all(|finding| finding.level == PlanLevel::Off));
    let shown = checked.findings[0].to_string();
    assert_eq!(
        shown,
        "OFF [valid-mood]: this check is off: `loop.registry.moods` is not configured"
    );
}

#[test]
fn elements_in_expressions_count_and_values_that_are_computed_are_not_guessed() {
    let text = "export default (<App><Theme mood={pick()} font={`Inter`} />\n\
        <Screen name='A'>{items.map(one => <Section gumdrop={one} key={one} />)}</Screen></App>)";
    assert_eq!(findings(text), Vec::<String>::new());
}

#[test]
fn hostile_texts_are_refused_quickly() {
    for (text, says) in [
        ("(".repeat(100_000), "more than 64 `(`"),
        ("x<".repeat(50_000), "more than 64 `<`"),
        ("<a>".repeat(40_000), "Unexpected token"),
        (
            format!("export default {}{}", "<a>".repeat(100), "</a>".repeat(100)),
            "nested more than 64",
        ),
        ("a".repeat(200 << 10), "larger than 128 KiB"),
        ("!".repeat(100_000), "Unexpected token"),
        ("a=>".repeat(40_000), "Unexpected token"),
        ("\0\u{feff}\u{2028}".to_owned(), ""),
    ] {
        let found = check(&text).findings;
        let shown: String = text.chars().take(20).collect();
        assert!(!found.is_empty(), "{shown}");
        assert!(found[0].message.contains(says), "{shown}: {}", found[0].message);
        assert!(found.iter().all(|finding| finding.line >= 1), "{shown}");
    }
}

/// At least 300 cases; `PROPTEST_CASES` raises the number.
fn cases() -> ProptestConfig {
    let from_environment = ProptestConfig::default();
    ProptestConfig { cases: from_environment.cases.max(300), ..from_environment }
}

proptest! {
    #![proptest_config(cases())]

    /// Any bytes: findings with a line of the text, and never a panic.
    #[test]
    fn any_bytes_end_in_findings_with_a_line(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let text = String::from_utf8_lossy(&bytes);
        holds(&text)?;
    }

    /// Fragments of plans in any order get further into the parser than noise.
    #[test]
    fn any_pieces_end_in_findings_with_a_line(pieces in prop::collection::vec(piece(), 0..60)) {
        holds(&pieces.concat())?;
        let whole = format!("export default (\n<App>{}</App>\n)", pieces.concat());
        holds(&whole)?;
    }

    #[test]
    fn any_source_has_facts(pieces in prop::collection::vec(piece(), 0..60)) {
        let text = pieces.concat();
        let facts = SourceFacts::of(&text);
        prop_assert_eq!(facts.code.lines().count(), text.lines().count());
    }
}

fn holds(text: &str) -> Result<(), TestCaseError> {
    let lines = text.lines().count().max(1) + 1;
    let checked = check(text);
    let fails = checked.findings.iter().filter(|finding| finding.level == PlanLevel::Fail);
    prop_assert!(checked.findings.iter().all(|finding| (1..=lines).contains(&finding.line)));
    prop_assert_eq!(fails.count() == 0, checked.is_valid());
    prop_assert!(has_a_line_each(&checked.findings), "{}", report(&checked.findings));
    Ok(())
}

fn piece() -> impl Strategy<Value = String> {
    let fixed = [
        "<App>",
        "</App>",
        "<Screen name=\"A\">",
        "</Screen>",
        "<Section gumdrop=\"hero\"/>",
        "<Theme mood='zen'/>",
        "<Theme mood='zen\nFAIL [forged]: nothing'/>",
        "<Endpoint resource='a\u{2028}\u{1b}[2J\r'/>",
        "{/* TASK-2 [ADD]: 3 */}",
        "{",
        "}",
        "(",
        ")",
        "<",
        ">",
        "\"",
        "`",
        "${",
        "import a from 'b';\n",
        "export default ",
        "\n",
        "=>",
        "é",
        "\u{1F600}",
        "//",
        "/*",
        "*/",
        "<a.b.c x:y={1}/>",
        "<>",
        "</>",
        "class A {",
        "@",
        "#",
        "\\u{",
        "\0",
    ];
    prop::sample::select(fixed.to_vec()).prop_map(str::to_owned)
}
