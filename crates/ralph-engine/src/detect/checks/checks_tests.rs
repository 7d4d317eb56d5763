use std::fs;
use std::os::unix::fs::PermissionsExt;

use camino::Utf8PathBuf;

use super::*;

/// A project in a temporary directory; files by path and content.
fn project(files: &[(&str, &str)]) -> (tempfile::TempDir, Utf8PathBuf) {
    let guard = tempfile::tempdir().unwrap();
    let root = Utf8PathBuf::from_path_buf(guard.path().to_owned()).unwrap();
    for (path, content) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    (guard, root)
}

/// Returns each gate as `name: argv`, with `!` for the fast ones, then the checkout's settings.
fn detected(files: &[(&str, &str)]) -> Vec<String> {
    let (_guard, root) = project(files);
    lines(&detect_checks(&root))
}

fn lines(suggestions: &Suggestions) -> Vec<String> {
    let gate = |gate: &SuggestedGate| {
        let mark = if gate.fast { "!" } else { "" };
        format!("{mark}{}: {}", gate.name, gate.run.join(" "))
    };
    let mut lines: Vec<_> = suggestions.gates.iter().map(gate).collect();
    let setup = suggestions.checkout.setup.iter();
    lines.extend(setup.map(|command| format!("setup: {}", command.join(" "))));
    lines.extend(suggestions.checkout.cache.iter().map(|path| format!("cache: {path}")));
    lines
}

const PACKAGE: &str = "[package]\nname = \"x\"\n";
const TESTED: &str = "#[test]\nfn works() {}\n";

#[test]
fn nothing_is_made_up_for_a_project_nobody_knows() {
    assert!(detected(&[]).is_empty());
    assert!(detected(&[("README.md", "# x"), ("main.c", "int main;")]).is_empty());
}

#[test]
fn cargo_packages_and_workspaces_are_tested() {
    let files = [("Cargo.toml", PACKAGE), ("Cargo.lock", ""), ("src/lib.rs", TESTED)];
    let expected = ["tests: cargo test", "setup: cargo fetch --locked", "cache: target"];
    assert_eq!(detected(&files), expected);
    let files = [
        ("Cargo.toml", "[workspace]\nmembers = [\"a\"]\n"),
        ("a/Cargo.toml", PACKAGE),
        ("a/src/lib.rs", TESTED),
    ];
    let expected = ["tests: cargo test --workspace", "setup: cargo fetch", "cache: target"];
    assert_eq!(detected(&files), expected);
}

#[test]
fn a_package_without_tests_is_built_too() {
    let files = [("Cargo.toml", PACKAGE), ("src/main.rs", "fn main() {}")];
    assert_eq!(detected(&files)[..2], ["build: cargo build", "tests: cargo test"]);
}

#[test]
fn a_manifest_that_cannot_be_read_tells_nothing() {
    assert!(detected(&[("Cargo.toml", "[package"), ("package.json", "{")]).is_empty());
    let long = " ".repeat(2 << 20);
    assert!(detected(&[("Makefile", &format!("test:\n{long}"))]).is_empty());
    let (_guard, root) = project(&[]);
    let pipe = root.join("package.json");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        pipe.as_std_path(),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    assert_eq!(detect_checks(&root), Suggestions::default());
}

const SCRIPTS: &str = r#"{"scripts": {"test": "vitest run", "lint": "eslint .", "typecheck": "tsc",
    "build": "vite build", "dev": "vite"}, "devDependencies": {"vite": "1"}}"#;

#[test]
fn the_scripts_of_a_package_are_its_checks() {
    let files = [("package.json", SCRIPTS), ("package-lock.json", "{}")];
    let expected = [
        "!types: npm run typecheck",
        "!lint: npm run lint",
        "build: npm run build",
        "tests: npm test",
        "setup: npm ci",
        "cache: node_modules",
    ];
    assert_eq!(detected(&files), expected);
}

#[test]
fn the_package_manager_is_the_one_the_project_uses() {
    let with = |lock: &str| detected(&[("package.json", SCRIPTS), (lock, "")])[3..5].to_vec();
    assert_eq!(
        with("pnpm-lock.yaml"),
        ["tests: pnpm test", "setup: pnpm install --frozen-lockfile"]
    );
    assert_eq!(
        with("yarn.lock"),
        ["tests: yarn run test", "setup: yarn install --frozen-lockfile"]
    );
    assert_eq!(with("bun.lock"), ["tests: bun run test", "setup: bun install --frozen-lockfile"]);
    assert_eq!(with("other"), ["tests: npm test", "setup: npm install"]);
    let named = SCRIPTS.replacen('{', r#"{"packageManager": "yarn@4.1.0", "#, 1);
    let files = [("package.json", named.as_str()), ("yarn.lock", ""), ("package-lock.json", "{}")];
    assert_eq!(detected(&files)[3..5], ["tests: yarn run test", "setup: yarn install --immutable"]);
}

#[test]
fn a_script_that_tests_nothing_or_never_ends_is_no_check() {
    let package = |test: &str| format!(r#"{{"scripts": {{"test": "{test}"}}}}"#);
    let test = |script: &str| detected(&[("package.json", &package(script))]);
    assert!(test(r#"echo \"Error: no test specified\" && exit 1"#).is_empty());
    assert!(test("jest --watch").is_empty());
    assert_eq!(test("react-scripts test"), ["tests: npm test -- --watchAll=false"]);
    assert_eq!(test("node --test"), ["tests: npm test"]);
}

#[test]
fn python_tests_run_in_the_environment_the_project_keeps() {
    let pyproject = "[project]\nname = \"x\"\n[tool.pytest.ini_options]\n";
    let with = |lock: &str| detected(&[("pyproject.toml", pyproject), (lock, "")]);
    assert_eq!(
        with("uv.lock"),
        ["tests: uv run pytest", "setup: uv sync --locked", "cache: .venv"]
    );
    assert_eq!(with("poetry.lock"), ["tests: poetry run pytest", "setup: poetry install"]);
    assert_eq!(with("other"), ["tests: python3 -m pytest"]);
}

#[test]
fn a_virtual_environment_is_made_again_in_each_checkout() {
    let venv = (".venv/pyvenv.cfg", "home = /usr/bin\n");
    let pip = "setup: .venv/bin/python -m pip install -q --disable-pip-version-check";
    let [made, tests, cache] =
        ["setup: python3 -m venv .venv", "tests: .venv/bin/python -m pytest", "cache: .venv"];
    let test = ("tests/test_a.py", "def test_a(): pass");
    for (name, more, installs) in [
        ("pytest installed by hand", vec![test], "pytest"),
        (
            "requirements",
            vec![("requirements.txt", "flask\n"), ("requirements-dev.txt", "pytest\n")],
            "-r requirements.txt -r requirements-dev.txt",
        ),
        (
            "a package with extras",
            vec![(
                "pyproject.toml",
                "[build-system]\nrequires = []\n[project]\nname = \"x\"\n\
                 [project.optional-dependencies]\ndev = [\"pytest>=8\"]\n",
            )],
            "-e .[dev]",
        ),
        (
            "a project that is not built",
            vec![
                test,
                ("pyproject.toml", "[project]\nname = \"x\"\ndependencies = [\"flask>=3\"]\n"),
            ],
            "flask>=3 pytest",
        ),
    ] {
        let files: Vec<_> = more.into_iter().chain([venv]).collect();
        let install = format!("{pip} {installs}");
        let mut expected = vec![tests, made, &install, cache];
        // What setuptools leaves in the tree.
        expected.extend(installs.starts_with("-e").then_some("cache: x.egg-info"));
        assert_eq!(detected(&files), expected, "{name}");
    }
    let unittest = [("tests/test_a.py", "import unittest\n"), venv];
    let expected = ["tests: .venv/bin/python -m unittest discover -s tests", made, cache];
    assert_eq!(detected(&unittest), expected);
    let below = [("api/venv/pyvenv.cfg", ""), ("api/pytest.ini", "")];
    let expected = [
        "api-tests: sh -c cd api && exec venv/bin/python -m pytest",
        "setup: sh -c cd api && exec python3 -m venv venv",
        "setup: sh -c cd api && exec venv/bin/python -m pip install -q --disable-pip-version-check pytest",
        "cache: api/venv",
    ];
    assert_eq!(detected(&below), expected);
}

#[test]
fn what_speaks_for_pytest_goes_before_tox_nox_and_unittest() {
    let case = "import unittest\n";
    assert_eq!(detected(&[("pytest.ini", ""), ("tox.ini", "[tox]")]), ["tests: python3 -m pytest"]);
    assert_eq!(detected(&[("tox.ini", "[tox]")]), ["tests: tox", "cache: .tox"]);
    assert_eq!(detected(&[("noxfile.py", "")]), ["tests: nox", "cache: .nox"]);
    assert_eq!(
        detected(&[("tests/test_a.py", "def test_a(): pass")]),
        ["tests: python3 -m pytest"]
    );
    let unittest = "tests: python3 -m unittest discover";
    assert_eq!(detected(&[("tests/test_a.py", case)]), [format!("{unittest} -s tests")]);
    assert_eq!(detected(&[("tests/test_a.py", case), ("tests/__init__.py", "")]), [unittest]);
    assert!(detected(&[("setup.py", "from setuptools import setup")]).is_empty());
}

#[test]
fn a_go_module_is_vetted_and_tested() {
    let expected = ["!vet: go vet ./...", "tests: go test ./...", "setup: go mod download"];
    assert_eq!(detected(&[("go.mod", "module x"), ("go.sum", "")]), expected);
}

#[test]
fn a_wrapper_is_used_only_if_it_can_be_executed() {
    let (_guard, root) = project(&[("pom.xml", "<project/>"), ("mvnw", "#!/bin/sh")]);
    assert_eq!(lines(&detect_checks(&root)), ["tests: mvn -B test", "cache: target"]);
    fs::set_permissions(root.join("mvnw"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(lines(&detect_checks(&root))[0], "tests: ./mvnw -B test");
    let (_guard, root) = project(&[("api/build.gradle.kts", ""), ("api/gradlew", "")]);
    assert_eq!(lines(&detect_checks(&root))[0], "api-tests: gradle --no-daemon -p api test");
    fs::set_permissions(root.join("api/gradlew"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(lines(&detect_checks(&root))[0], "api-tests: api/gradlew --no-daemon -p api test");
}

#[test]
fn other_ecosystems_have_their_one_command() {
    let first = |files: &[(&str, &str)]| detected(files).first().cloned();
    for (files, expected) in [
        (vec![("Gemfile", "gem 'rspec'"), ("spec/a_spec.rb", "")], "tests: bundle exec rspec"),
        (vec![("Gemfile", ""), ("Rakefile", "task :test")], "tests: bundle exec rake test"),
        (
            vec![("composer.json", r#"{"scripts": {"test": "pest"}}"#)],
            "tests: composer run-script test",
        ),
        (vec![("composer.json", "{}"), ("phpunit.xml", "")], "tests: vendor/bin/phpunit"),
        (vec![("App.csproj", ""), ("App.sln", "")], "tests: dotnet test App.sln"),
        (vec![("deno.json", r#"{"tasks": {"test": "x"}}"#)], "tests: deno task test"),
        (vec![("deno.jsonc", "{ // none\n}")], "tests: deno test"),
        (vec![("mix.exs", "")], "tests: mix test"),
    ] {
        assert_eq!(first(&files).as_deref(), Some(expected), "{files:?}");
    }
    assert_eq!(first(&[("Gemfile", "gem 'jekyll'")]), None);
}

#[test]
fn recipes_count_where_no_ecosystem_has_tests() {
    let makefile = "lint:\n\ttrue\ntest:\n\ttrue\n";
    assert_eq!(detected(&[("Makefile", makefile)]), ["!lint: make lint", "tests: make test"]);
    let both = [("Makefile", makefile), ("justfile", "test:\n  true\n")];
    assert_eq!(detected(&both), ["!lint: make lint", "tests: just test"]);
    let files = [("Makefile", makefile), ("Cargo.toml", PACKAGE), ("src/lib.rs", TESTED)];
    assert_eq!(detected(&files)[..2], ["tests: cargo test", "!lint: make lint"]);
    let package = r#"{"scripts": {"lint": "eslint ."}}"#;
    let files = [("package.json", package), ("Makefile", "check: all\nlint:\n")];
    assert_eq!(detected(&files), ["!lint: npm run lint", "tests: make check"]);
}

#[test]
fn projects_one_level_down_are_run_from_the_root() {
    let files = [
        ("backend/Cargo.toml", PACKAGE),
        ("backend/src/lib.rs", TESTED),
        ("cli/go.mod", "module x"),
        ("frontend/package.json", r#"{"scripts": {"test": "x"}, "dependencies": {"a": "1"}}"#),
        ("frontend/package-lock.json", "{}"),
        ("node_modules/left/package.json", r#"{"scripts": {"test": "x"}}"#),
        ("ml/uv.lock", ""),
        ("ml/tests/test_a.py", "import pytest"),
        ("old/tests/test_a.py", "import pytest"),
        ("tools/Makefile", "test:\n"),
        ("web/bun.lock", ""),
        ("web/package.json", r#"{"scripts": {"test": "x"}}"#),
    ];
    let expected = [
        "backend-tests: cargo test --manifest-path backend/Cargo.toml",
        "!cli-vet: go -C cli vet ./...",
        "cli-tests: go -C cli test ./...",
        "frontend-tests: npm --prefix frontend test",
        "ml-tests: uv run --directory ml pytest",
        "old-tests: sh -c cd old && exec python3 -m pytest",
        "tools-tests: make -C tools test",
        "web-tests: sh -c cd web && exec bun run test",
        "setup: cargo fetch --manifest-path backend/Cargo.toml",
        "setup: npm --prefix frontend ci",
        "setup: uv sync --directory ml --locked",
        "cache: backend/target",
        "cache: frontend/node_modules",
        "cache: ml/.venv",
    ];
    assert_eq!(detected(&files), expected);
}

#[test]
fn projects_two_levels_down_are_found_where_the_first_level_is_none() {
    let files = [
        ("services/py/pytest.ini", ""),
        ("services/go/go.mod", "module x"),
        ("api/go.mod", "module x"),
        ("api/tools/go.mod", "module x"),
        ("tests/data/package.json", r#"{"scripts": {"test": "x"}}"#),
    ];
    let expected = [
        "!api-vet: go -C api vet ./...",
        "api-tests: go -C api test ./...",
        "!services-go-vet: go -C services/go vet ./...",
        "services-go-tests: go -C services/go test ./...",
        "services-py-tests: sh -c cd services/py && exec python3 -m pytest",
    ];
    assert_eq!(detected(&files), expected);
    let whole = [
        ("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n"),
        ("crates/a/Cargo.toml", PACKAGE),
        ("crates/a/src/lib.rs", TESTED),
    ];
    assert_eq!(detected(&whole)[0], "tests: cargo test --workspace");
    assert!(!detected(&whole).iter().any(|line| line.contains("crates")));
}

#[test]
fn the_roots_own_recipes_test_the_whole() {
    let files = [("Makefile", "test:\n"), ("web/package.json", r#"{"scripts": {"test": "x"}}"#)];
    assert_eq!(detected(&files), ["tests: make test"]);
}

#[test]
fn a_part_of_a_workspace_is_installed_with_the_whole() {
    let files = [
        ("package.json", r#"{"devDependencies": {"turbo": "2"}}"#),
        ("pnpm-lock.yaml", ""),
        ("web/package.json", r#"{"scripts": {"test": "x"}, "dependencies": {"a": "1"}}"#),
    ];
    let expected = [
        "web-tests: pnpm --dir web test",
        "setup: pnpm install --frozen-lockfile",
        "cache: node_modules",
    ];
    assert_eq!(detected(&files), expected);
}

#[test]
fn checks_of_two_ecosystems_are_told_apart() {
    let files = [
        ("Cargo.toml", PACKAGE),
        ("src/lib.rs", TESTED),
        ("package.json", r#"{"scripts": {"test": "x", "lint": "y"}}"#),
    ];
    let expected = ["cargo-tests: cargo test", "!lint: npm run lint", "node-tests: npm test"];
    assert_eq!(detected(&files)[..3], expected);
}

#[test]
fn a_suggestion_says_which_file_told() {
    let (_guard, root) = project(&[("web/package.json", r#"{"scripts": {"test": "x"}}"#)]);
    let suggestions = detect_checks(&root);
    assert_eq!(suggestions.gates[0].why, "`web/package.json` has the script `test`");
}

#[test]
fn a_directory_with_an_odd_name_is_quoted_for_the_shell() {
    let files = [("it's here/mix.exs", ""), ("-rf/mix.exs", "")];
    let (_guard, root) = project(&files);
    let gates = detect_checks(&root).gates;
    assert_eq!(gates.len(), 1);
    assert_eq!(gates[0].name, "it's here-tests");
    assert_eq!(gates[0].run[2], r"cd 'it'\''s here' && exec mix test");
}
