use super::scripts::imports;
use super::*;

fn layout(tree: &[&str], scripts: &[&str]) -> ProjectLayout {
    let set = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
    ProjectLayout { tree: set(tree), scripts: set(scripts), ..ProjectLayout::default() }
}

/// Compilers and interpreters that look for a name under several roots may find the new file instead of the tests' own.
#[test]
fn a_new_source_file_that_can_be_found_in_place_of_one_of_the_tests_configures_them() {
    let layout = layout(
        &[
            "tests/check/Same.java",
            "src/test/java/org/assertj/Is.kt",
            "tests/assert.h",
            "tests/__init__.py",
            "tests/fixtures/user.php",
            "tests/parse/mod.rs",
        ],
        &[],
    );
    for (path, shadows) in [
        ("src/check/Same.java", true),
        ("app/src/check/Same.java", true),
        ("src/main/java/org/assertj/Is.kt", true),
        ("src/assert.h", true),
        ("src/parts/assert.h", false),
        ("src/other/Same.java", false),
        ("src/check/Other.java", false),
        ("src/__init__.py", false),
        ("src/user.php", false),
        // Modules are named by their paths.
        ("src/parse/mod.rs", false),
    ] {
        let class = layout.class_of(path, true);
        assert_eq!(class == CheckClass::Configuring, shadows, "{path}: {class}");
        assert_eq!(layout.class_of(path, false), CheckClass::Source, "{path}");
    }
}

#[test]
fn paths_have_the_class_that_their_names_and_places_say() {
    use CheckClass::{Artefact, Ci, Configuring, Data, Manifest, Script, Source, Support, Test};
    let layout = layout(
        &["src/core.py", "ci/run", "check.sh", "src/app.sh"],
        &["ci/run", "check.sh", "src/app.sh"],
    );
    for (path, old, new) in [
        ("tests/data/x.json", Test, Test),
        ("pkg/testdata/in", Test, Test),
        ("src/a_tests.rs", Test, Test),
        ("src/foo/tests.rs", Test, Test),
        ("app/test_views.py", Test, Test),
        ("tests", Test, Test),
        ("src/a.test.tsx", Test, Test),
        ("src/features/login.ts", Source, Source),
        ("features/login.feature", Test, Test),
        ("conftest.py", Configuring, Configuring),
        ("tests/conftest.py", Test, Test),
        (".cargo/config.toml", Configuring, Configuring),
        ("build.rs", Configuring, Configuring),
        ("GNUmakefile", Configuring, Configuring),
        ("tsconfig.base.json", Configuring, Configuring),
        ("rules.mk", Configuring, Configuring),
        ("Cargo.toml", Manifest, Manifest),
        ("web/package.json", Manifest, Manifest),
        ("ci/run", Script, Script),
        // New files in the directory of a script, and below it.
        ("ci/extra.sh", Support, Script),
        ("ci/cases/a.in", Data, Script),
        ("check.sh", Script, Script),
        ("other.sh", Source, Source),
        ("src/app.sh", Source, Source),
        ("expected.txt", Data, Data),
        ("test-skip.list", Data, Data),
        ("src/template.txt", Source, Source),
        ("src/lib.rs", Source, Source),
        ("docs/guide.txt", Source, Source),
        ("README.md", Source, Source),
        ("Cargo.lock", Source, Source),
        ("requirements-dev.txt", Source, Source),
        ("node_modules/.bin/jest", Artefact, Artefact),
        ("a/__pycache__/b.pyc", Artefact, Artefact),
        ("x.egg-info/entry_points.txt", Artefact, Artefact),
        (".github/workflows/ci.yml", Ci, Ci),
        (".husky/pre-commit", Ci, Ci),
        ("src/commonTest/kotlin/Same.kt", Test, Test),
        ("Sums.Tests/Same.cs", Test, Test),
        ("src/SpeedTests.app/x.ts", Source, Source),
        ("src/setupTests.ts", Test, Test),
        ("vendor/expect/expect.go", Support, Source),
        ("src/test-utils/render.tsx", Support, Support),
        ("helpers.py", Support, Support),
        ("src/testutil/fake.go", Support, Support),
        // Shadows a Python standard module, or a module in another root.
        ("pytest.py", Source, Configuring),
        ("json/__init__.py", Source, Configuring),
        ("core.py", Source, Configuring),
        ("api/json.py", Source, Source),
        ("models.py", Source, Source),
    ] {
        assert_eq!(layout.class_of(path, false), old, "{path}, known");
        assert_eq!(layout.class_of(path, true), new, "{path}, new");
        // New data may be a file that a gate looked for and did not find.
        assert_eq!(layout.is_unknown(path, true), new == Data, "{path}");
        assert!(!layout.is_unknown(path, false), "{path}");
    }
}

#[test]
fn what_source_uses_is_source_whatever_it_is_called() {
    let mut layout = layout(&[], &[]);
    layout.used_by_source.insert("src/helpers.py".to_owned());
    layout.support_directories.insert("crates/probe".to_owned());
    assert_eq!(layout.class_of("src/helpers.py", false), CheckClass::Source);
    assert_eq!(layout.class_of("crates/probe/src/lib.rs", false), CheckClass::Support);
    assert_eq!(layout.class_of("crates/probes/src/lib.rs", false), CheckClass::Source);
}

fn path(path: &str, anchor: Option<&str>, candidate: Option<&str>) -> ComparedPath {
    ComparedPath {
        path: path.to_owned(),
        in_anchor: anchor.is_some(),
        in_candidate: candidate.is_some(),
        anchor_text: anchor.map(str::to_owned),
        candidate_text: candidate.map(str::to_owned),
        is_test_module: false,
    }
}

#[test]
fn checks_are_the_anchors_new_ones_are_out_and_source_stays() {
    let paths = [
        path("src/lib.rs", Some("fn a() {}"), Some("fn b() {}")),
        path("tests/a.rs", Some("x"), Some("y")),
        path("tests/new.rs", None, Some("y")),
        path("conftest.py", None, Some("y")),
        path("check.sh", Some("x"), None),
        path(".github/workflows/ci.yml", Some("x"), Some("y")),
        path("Cargo.toml", Some("[package]\n"), Some("[package]\n[dependencies]\na = \"1\"\n")),
    ];
    let (laid, changed) = lay_over(&layout(&[], &["check.sh"]), &paths);
    assert_eq!(
        laid,
        [
            Laid::Candidate,
            Laid::Anchor,
            Laid::Anchor,
            Laid::Anchor,
            Laid::Anchor,
            Laid::Candidate,
            Laid::Candidate
        ]
    );
    let told: Vec<(&str, CheckChange, bool)> = changed
        .iter()
        .map(|check| (check.path.as_str(), check.change, check.is_new_test()))
        .collect();
    assert_eq!(
        told,
        [
            ("tests/a.rs", CheckChange::Changed, false),
            ("tests/new.rs", CheckChange::New, true),
            ("conftest.py", CheckChange::New, false),
            ("check.sh", CheckChange::Gone, false),
            (".github/workflows/ci.yml", CheckChange::Changed, false),
        ]
    );
}

#[test]
fn a_new_package_is_code_and_a_new_manifest_alone_is_configuration() {
    let manifest = "[package]\nname = \"b\"\n";
    let alone = [path("crates/b/Cargo.toml", None, Some(manifest))];
    let (laid, changed) = lay_over(&layout(&[], &[]), &alone);
    assert_eq!((laid, changed[0].class), (vec![Laid::Anchor], CheckClass::Configuring));
    let with_code = [
        path("crates/b/Cargo.toml", None, Some(manifest)),
        path("crates/b/src/lib.rs", None, Some("fn a() {}")),
    ];
    let (laid, changed) = lay_over(&layout(&[], &[]), &with_code);
    assert_eq!((laid, changed), (vec![Laid::Candidate, Laid::Candidate], vec![]));
}

#[test]
fn parents_of_a_module_are_where_it_may_be_declared() {
    let parents = module_parents("src/a/b.rs");
    for parent in [("src/a.rs", "b"), ("src/a/mod.rs", "b"), ("src/a.rs", "b.rs")] {
        assert!(parents.contains(&(parent.0.to_owned(), parent.1.to_owned())), "{parents:?}");
    }
    assert!(module_parents("src/a/mod.rs").contains(&("src/lib.rs".to_owned(), "a".to_owned())));
    assert_eq!(module_parents("a.py"), []);
}

#[test]
fn a_spec_allows_what_its_lines_say_outside_of_examples() {
    let spec = "# Old API\n\nAllow: tests/old/**, `conftest.py`\n- Allow: b.txt\n```\nAllow: everything\n```\nNot Allow: c\n";
    let globs: Vec<String> = allow_lines(spec).iter().map(ToString::to_string).collect();
    assert_eq!(globs, ["tests/old/**", "conftest.py", "b.txt"]);
}

#[test]
fn a_new_file_that_a_gate_looked_for_is_its_configuration_whatever_it_is_called() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let looked = LookedFor {
        opened: names(&["rules/a.inc", "docs/expected.md", "src/expected.out", "Cargo.lock"]),
        missed: names(&["quick", "src/cmp", "docs/QUICK.md", "build/opts.inc", "src/util.js"])
            .union(&names(&["conf.d/", "benches/", "plugins"]))
            .cloned()
            .collect(),
    };
    let traced = ProjectLayout { looked: Some(looked), ..Default::default() };
    let untraced = ProjectLayout::default();
    let (configuring, data) = (CheckClass::Configuring, CheckClass::Data);
    for (path, is_new, with, without) in [
        ("quick", true, configuring, data),
        ("src/cmp", true, configuring, CheckClass::Source),
        ("docs/QUICK.md", true, configuring, CheckClass::Source),
        ("build/opts.inc", true, configuring, data),
        ("conf.d/a.sh", true, configuring, CheckClass::Source),
        ("plugins/a.conf", true, configuring, data),
        // A resolver finds it before what it found so far. It may be the code under test as well, so it is tried both ways.
        ("src/util.js", true, configuring, CheckClass::Source),
        ("plugins/a.py", true, CheckClass::Source, CheckClass::Source),
        ("benches/speed.rs", true, CheckClass::Source, CheckClass::Source),
        // A file that nothing looked for is data of the new work, unless a gate reads similar files.
        ("templates/sum.tpl", true, CheckClass::Source, data),
        ("rules/b.inc", true, data, data),
        // A file that a gate opened is data, wherever it is.
        ("docs/expected.md", false, data, CheckClass::Source),
        ("src/expected.out", false, data, CheckClass::Source),
        ("Cargo.lock", false, CheckClass::Source, CheckClass::Source),
        ("docs/other.md", false, CheckClass::Source, CheckClass::Source),
    ] {
        assert_eq!(traced.class_of(path, is_new), with, "{path}, traced");
        assert_eq!(untraced.class_of(path, is_new), without, "{path}, not traced");
    }
    assert!(traced.is_unknown("src/cmp", true), "it may be the work where the gate was red");
    assert!(!traced.is_unknown("conftest.py", true));
}

#[test]
fn code_of_tools_is_tried_both_ways_and_a_module_that_checks_import_is_theirs() {
    let mut layout = ProjectLayout::default();
    assert_eq!(layout.class_of("tools/same.js", false), CheckClass::Support);
    assert!(layout.is_mentioned_only("tools/same.js"));
    assert_eq!(layout.class_of("tools/new.js", true), CheckClass::Source);
    layout.used_by_source.insert("tools/same.js".to_owned());
    assert_eq!(layout.class_of("tools/same.js", false), CheckClass::Source);
    assert!(!layout.is_mentioned_only("testing/same.js"), "that is surely for tests");
    layout.wanted_by_checks.insert("overrides.py".to_owned());
    assert_eq!(layout.class_of("overrides.py", true), CheckClass::Configuring);
    for (text, is_imported) in [
        ("try:\n    from overrides import same\n", true),
        ("import overrides.more as m\n", true),
        ("const o = require('../overrides');\n", true),
        (". ./overrides.sh\n", true),
        ("# overrides are for later\n", false),
        ("import override\n", false),
    ] {
        assert_eq!(imports(text, "overrides"), is_imported, "{text}");
    }
    for (path, name) in [
        ("overrides.py", Some("overrides")),
        ("tools/overrides/__init__.py", Some("overrides")),
        ("lib/overrides/index.ts", Some("overrides")),
        ("a.json", None),
    ] {
        assert_eq!(module_name(path), name, "{path}");
    }
}

#[test]
fn tests_are_known_by_more_than_one_habit_of_naming() {
    let layout = layout(&[], &[]);
    for (path, is_test) in [
        ("Test/adds.cpp", true),
        ("unit-tests/adds.c", true),
        ("test_data/a.bin", true),
        ("t/add.t", true),
        ("src/test-adds.sh", true),
        ("src/add_unittest.cc", true),
        ("src/AddTest.cpp", true),
        ("expected/page.html", true),
        ("src/page.approved.html", true),
        ("src/golden/a.sql", true),
        // The product's own.
        ("lib/Test/More.pm", false),
        ("src/app/Test/Parser.hs", false),
        ("src/snapshots/take.py", false),
        ("src/verified.html", false),
        ("latest/a.c", false),
        ("src/Latest.cpp", false),
        ("test.config.json", false),
    ] {
        assert_eq!(layout.class_of(path, false) == CheckClass::Test, is_test, "{path}");
    }
    for (path, configures) in [
        ("acme.config.ts", true),
        (".acmerc.cjs", true),
        ("karma.conf.ts", true),
        ("mix.exs", true),
        ("buildSrc/src/main/kotlin/Checks.kt", true),
        ("src/app/app.config.ts", false),
        ("src/acme.py", false),
    ] {
        let class = layout.class_of(path, false);
        assert_eq!(class == CheckClass::Configuring, configures, "{path}: {class}");
    }
}

#[test]
fn source_that_a_gate_looked_for_in_vain_configures_it_unless_it_only_moved() {
    let missed = ["src/local.sh", "lib/Test/More.pm", "src/a/index.js", "src/b.rs"];
    let looked = LookedFor { missed: missed.map(str::to_owned).into(), ..LookedFor::default() };
    let mut layout = ProjectLayout { looked: Some(looked), ..ProjectLayout::default() };
    for (path, class) in [
        ("src/local.sh", CheckClass::Configuring),
        ("lib/Test/More.pm", CheckClass::Configuring),
        ("src/b.rs", CheckClass::Source),
        ("src/other.sh", CheckClass::Source),
    ] {
        assert_eq!(layout.class_of(path, true), class, "{path}");
    }
    assert_eq!(module_key("src/a/index.js"), module_key("src/a.js"));
    layout.moved.insert("src/a/index.js".to_owned());
    assert_eq!(layout.class_of("src/a/index.js", true), CheckClass::Source);
}

#[test]
fn a_file_of_ci_that_a_gate_reads_is_a_check() {
    let config = ".pre-commit-config.yaml";
    let opened = [config.to_owned()].into();
    let mut layout = layout(&[config], &[".github/check.sh"]);
    assert_eq!(layout.class_of(".github/check.sh", false), CheckClass::Script);
    assert_eq!(layout.class_of(config, false), CheckClass::Ci);
    layout.looked = Some(LookedFor { opened, ..LookedFor::default() });
    assert_eq!(layout.class_of(config, false), CheckClass::Data);
    assert_eq!(layout.class_of(".github/workflows/ci.yml", false), CheckClass::Ci);
}

#[test]
fn a_module_in_the_way_of_the_runner_is_found_where_settings_say() {
    for text in
        ["env\nPYTHONPATH=app:x\npytest", "pythonpath = [\"./app\"]", "sys.path.insert(0, 'app/')"]
    {
        assert!(import_roots_in(text).contains("app"), "{text}");
    }
    let import_roots = ["app".to_owned()].into();
    let layout = ProjectLayout { import_roots, ..ProjectLayout::default() };
    assert_eq!(layout.class_of("app/signal.py", true), CheckClass::Configuring);
    assert_eq!(layout.class_of("app/models/signal.py", true), CheckClass::Source);
    assert_eq!(layout.class_of("app/signal.py", false), CheckClass::Source);
}

#[test]
fn checks_that_change_while_a_gate_runs_need_an_answer() {
    let mut finding = ChecksFinding::default();
    finding.add_rewritten("check", ["tests/a.sh".to_owned()]);
    assert!(!finding.holds());
    let asked: Vec<&str> = finding.asked().iter().map(|check| check.path.as_str()).collect();
    assert_eq!(asked, ["tests/a.sh"]);
}
