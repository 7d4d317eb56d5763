use serde_json::Value as Json;

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

#[test]
fn keys_that_are_not_known_to_be_the_products_are_settings_of_a_tool() {
    let package = r#"{"name": "a", "acme": {"skip": []}, "exports": "./a.js"}"#;
    let lie = package.replace("[]", "[\"add\"]").replace("./a.js", "./b.js");
    let text = spliced(Manifest::Package, package, &lie);
    let joined: Json = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&joined["acme"]["skip"], &joined["exports"]),
        (&serde_json::json!([]), &"./b.js".into())
    );
    let composer =
        r#"{"require": {}, "require-dev": {"phpunit": "9"}, "scripts": {"test": "phpunit"}}"#;
    let honest = composer.replace(r#""require": {}"#, r#""require": {"a": "1"}"#);
    assert_eq!(Manifest::Composer.splice(composer, &honest), Spliced::Same);
    let text = spliced(Manifest::Composer, composer, &honest.replace("phpunit\"}", "true\"}"));
    assert!(text.contains(r#""test": "phpunit""#) && text.contains(r#""a": "1""#), "{text}");
    let pipfile = "[packages]\na = \"1\"\n[scripts]\ntest = \"pytest\"\n";
    let text = spliced(Manifest::Pipfile, pipfile, &pipfile.replace("pytest", "true"));
    assert!(text.contains("pytest"), "{text}");
    let cargo = "[package]\nname = \"a\"\n[package.metadata.acme]\nskip = false\n";
    let text = spliced(Manifest::Cargo, cargo, &cargo.replace("false", "true"));
    assert_eq!(text.parse::<Table>().unwrap(), cargo.parse::<Table>().unwrap());
}

#[test]
fn a_dependency_of_the_workspace_may_change_its_version_and_not_where_it_comes_from() {
    let anchor = "[workspace.dependencies]\nkit = { path = \"kit\" }\nserde = \"1\"\n";
    let newer = anchor.replace("\"1\"", "\"2\"") + "more = { path = \"more\" }\n";
    assert_eq!(Manifest::Cargo.splice(anchor, &newer), Spliced::Same);
    for lie in ["path = \"src/kit\"", "path = \"kit\", package = \"hollow\"", "git = \"x\""] {
        let text = spliced(Manifest::Cargo, anchor, &newer.replace("path = \"kit\"", lie));
        let joined: Table = text.parse().unwrap();
        assert_eq!(joined, newer.parse::<Table>().unwrap(), "{lie}");
    }
}

#[test]
fn what_registers_with_tools_comes_from_the_anchor() {
    let anchor = "[project]\nname = \"a\"\n[project.scripts]\na = \"a:main\"\n";
    let honest = anchor.replace("a:main", "a.cli:main");
    assert_eq!(Manifest::Pyproject.splice(anchor, &honest), Spliced::Same);
    let lie = honest.clone() + "pytest = \"a:ok\"\n[project.entry-points.pytest11]\nx = \"a.x\"\n";
    let joined: Table = spliced(Manifest::Pyproject, anchor, &lie).parse().unwrap();
    assert_eq!(joined, honest.parse::<Table>().unwrap());
    let cfg = "[options]\npackages = a\n[options.entry_points]\nconsole_scripts =\n  a = a:main\n";
    let text = spliced(Manifest::SetupCfg, cfg, &cfg.replace("a = a:main", "pytest = a:ok"));
    assert!(text.contains("a = a:main"), "{text}");
}

#[test]
fn a_module_of_go_that_the_anchor_knows_is_replaced_as_before() {
    let anchor = "module x\n\nrequire (\n\ta.org/kit v1.0.0\n)\n\nreplace a.org/kit => ./kit\n";
    for honest in [
        anchor.replace("v1.0.0\n", "v1.1.0\n\tb.org/new v1.0.0\n"),
        anchor.to_owned() + "replace b.org/new => ./new // theirs\n",
    ] {
        assert_eq!(Manifest::GoMod.splice(anchor, &honest), Spliced::Same, "{honest}");
    }
    for lie in [
        anchor.replace("./kit", "./internal/kit"),
        anchor.replace("replace a.org/kit => ./kit\n", ""),
        anchor.replace("replace a.org/kit => ./kit", "replace (\n\ta.org/kit => ../kit\n)"),
    ] {
        let text = spliced(Manifest::GoMod, anchor, &lie);
        assert!(text.ends_with("replace a.org/kit => ./kit\n"), "{text}");
        assert_eq!(text.matches("replace").count(), 1, "{text}");
    }
}
