use super::*;

fn spliced(manifest: Manifest, anchor: &str, candidate: &str) -> String {
    match manifest.splice(anchor, candidate) {
        Spliced::Text(text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn settings_of_tests_come_from_the_anchor_and_dependencies_from_the_candidate() {
    let anchor = "[package]\nname = \"a\"\n[lib]\ndoctest = true\n[dev-dependencies]\nhelp = { path = \"help\" }\n\
        [[bin]]\nname = \"tool\"\n";
    let candidate = "[package]\nname = \"a\"\nautotests = false\nbuild = \"make.rs\"\n[lib]\ntest=false\n\
        [dependencies]\nserde = \"1\"\n[dev-dependencies]\nhelp = \"1\"\nnew = \"2\"\n[profile.test]\npanic = \"abort\"\n\
        [[bin]]\nname = \"tool\"\ntest = false\n[[test]]\nname = \"x\"\nharness = false\n";
    let text = spliced(Manifest::Cargo, anchor, candidate);
    let joined: Table = text.parse().unwrap();
    let expected = "[package]\nname = \"a\"\n[lib]\ndoctest = true\n[dependencies]\nserde = \"1\"\n\
        [dev-dependencies]\nhelp = { path = \"help\" }\nnew = \"2\"\n[[bin]]\nname = \"tool\"\n";
    assert_eq!(joined, expected.parse::<Table>().unwrap());
}

#[test]
fn honest_changes_of_a_cargo_manifest_are_left_alone() {
    let anchor = "[package]\nname = \"a\"\nversion = \"1.0.0\"\n[dependencies]\nb = \"1\"\n";
    for candidate in [
        "[package]\nname = \"a\"\nversion = \"1.1.0\"\n[dependencies]\nb = \"2\"\nc = { path = \"../c\" }\n",
        "[package]\nname = \"a\"\nversion = \"1.0.0\"\n[dependencies]\nb = \"1\"\n[dev-dependencies]\ncriterion = \"1\"\n\
         [[bench]]\nname = \"speed\"\nharness = false\n",
        "[package]\nname = \"a\"\nversion = \"1.0.0\"\n[dependencies]\nb = \"1\"\n[features]\nx = []\n[[bin]]\nname = \"n\"\ntest = false\n",
    ] {
        assert_eq!(Manifest::Cargo.splice(anchor, candidate), Spliced::Same, "{candidate}");
    }
    let workspace = "[workspace]\nmembers = [\"a\"]\n";
    let more = "[workspace]\nmembers = [\"a\", \"b\"]\n";
    assert_eq!(Manifest::Cargo.splice(workspace, more), Spliced::Same);
    let fewer = spliced(Manifest::Cargo, more, workspace);
    assert!(fewer.contains("\"b\""), "{fewer}");
    assert_eq!(Manifest::Cargo.splice("=", anchor), Spliced::Unreadable);
}

#[test]
fn scripts_and_runners_of_a_package_are_the_anchors() {
    let anchor = r#"{"name": "a", "scripts": {"test": "jest"}, "devDependencies": {"jest": "29"}}"#;
    let honest = r#"{"name": "a", "scripts": {"test": "jest"}, "dependencies": {"b": "1"}, "devDependencies": {"jest": "29", "c": "1"}}"#;
    assert_eq!(Manifest::Package.splice(anchor, honest), Spliced::Same);
    let lie = r#"{"name":"a","scripts":{"test":"true"},"jest":{"testMatch":[]},"devDependencies":{"jest":"file:x"},"dependencies":{"b":"1"}}"#;
    let joined: Json = serde_json::from_str(&spliced(Manifest::Package, anchor, lie)).unwrap();
    assert_eq!(
        joined,
        serde_json::json!({"name": "a", "scripts": {"test": "jest"}, "devDependencies": {"jest": "29"}, "dependencies": {"b": "1"}})
    );
}

#[test]
fn tools_of_python_are_the_anchors_and_dependencies_are_not() {
    let anchor = "[project]\nname = \"a\"\n[tool.pytest.ini_options]\naddopts = \"-q\"\n";
    let honest = "[project]\nname = \"a\"\ndependencies = [\"b\"]\n[tool.pytest.ini_options]\naddopts = \"-q\"\n\
        [tool.poetry.dependencies]\nb = \"1\"\n";
    assert_eq!(Manifest::Pyproject.splice(anchor, honest), Spliced::Same);
    let lie = honest.replace("-q", "--collect-only");
    let text = spliced(Manifest::Pyproject, anchor, &lie);
    assert_eq!(text.parse::<Table>().unwrap(), honest.parse::<Table>().unwrap());
    // A new file has no tool settings.
    let text = spliced(
        Manifest::Pyproject,
        "",
        "[project]\nname = \"a\"\n[tool.pytest.ini_options]\nx = 1\n",
    );
    assert_eq!(
        text.parse::<Table>().unwrap(),
        "[project]\nname = \"a\"\n".parse::<Table>().unwrap()
    );
}

#[test]
fn sections_of_setup_cfg_are_split_by_what_they_say() {
    let anchor = "[metadata]\nname = a\n[tool:pytest]\naddopts = -q\n";
    assert_eq!(
        Manifest::SetupCfg
            .splice(anchor, "[metadata]\nname = b\n\n# x\n[tool:pytest]\naddopts = -q\n"),
        Spliced::Same
    );
    let text = spliced(
        Manifest::SetupCfg,
        anchor,
        "[metadata]\nname = b\n[options.extras_require]\nx = y\n[tool:pytest]\naddopts = --co\n",
    );
    assert_eq!(
        text,
        "[metadata]\nname = b\n[options.extras_require]\nx = y\n[tool:pytest]\naddopts = -q\n"
    );
}

#[test]
fn what_is_written_is_read_back_as_it_was() {
    let text = "a = \"q\\\"\\n\\u007f\"\nb = [1, 2.5, true, 1979-05-27T07:32:00Z, { \"c d\" = [] }]\n[e.\"f.g\"]\nh = -inf\n";
    let table: Table = text.parse().unwrap();
    assert_eq!(toml_text(&table).parse::<Table>().unwrap(), table);
}
