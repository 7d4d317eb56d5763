//! Python: pytest where anything speaks for it, else tox, nox, Django's own tests or unittest, in the environment the
//! project's tool keeps.

use super::project::DetectedProject;
use super::{Check, CheckKind, Found, words};

const MANIFEST: &str = "pyproject.toml";

/// What makes a directory a Python project.
const SIGNS: [&str; 9] = [
    MANIFEST,
    "setup.py",
    "setup.cfg",
    "requirements.txt",
    "pytest.ini",
    "tox.ini",
    "noxfile.py",
    "Pipfile",
    "manage.py",
];

const TEST_DIRECTORIES: [&str; 2] = ["tests", "test"];

/// The tool that keeps the project's environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeper {
    Uv,
    Poetry,
    Pdm,
    Pipenv,
    /// The interpreter on PATH, with whatever the person installed for it.
    None,
}

/// What runs the tests, and which file told.
struct Runner {
    command: &'static [&'static str],
    /// Makes an environment of its own, so that it is not run in the keeper's.
    is_self_contained: bool,
    told: String,
}

pub(super) fn examine(project: &DetectedProject<'_>) -> Option<Found> {
    let manifest = project.read_toml(MANIFEST);
    let test_file = find_test_file(project);
    if project.first_file(&SIGNS).is_none() && test_file.is_none() {
        return None;
    }
    let mut found = Found::new("python", project);
    let runner = runner(project, manifest.as_ref(), test_file.as_deref())?;
    let keeper = keeper(project, manifest.as_ref());
    let run = if runner.is_self_contained {
        project.run_here(runner.command)
    } else {
        keeper.run(project, runner.command)
    };
    found.checks.push(Check { kind: CheckKind::Tests, run, why: runner.told });
    if !runner.is_self_contained {
        found.setup.extend(keeper.setup(project));
        if matches!(keeper, Keeper::Uv | Keeper::Pdm) {
            found.cache.push(".venv".to_owned());
        }
    }
    if runner.is_self_contained {
        let cache = if runner.command == ["tox"] { ".tox" } else { ".nox" };
        found.cache.push(cache.to_owned());
    }
    found.covers_below = true;
    Some(found)
}

fn runner(
    project: &DetectedProject<'_>,
    manifest: Option<&toml::Table>,
    test_file: Option<&str>,
) -> Option<Runner> {
    let told = |name: &str, what: &str| format!("`{}` {what}", project.path(name));
    let pytest = |told| Runner { command: &["pytest"], is_self_contained: false, told };
    let tool = |name: &str| manifest.and_then(|table| table.get("tool")?.get(name)).is_some();
    if let Some(file) = project.first_file(&["pytest.ini", ".pytest.ini", "conftest.py"]) {
        return Some(pytest(told(file, "is for pytest")));
    }
    if tool("pytest") {
        return Some(pytest(told(MANIFEST, "configures pytest")));
    }
    for (file, section) in [("setup.cfg", "[tool:pytest]"), ("tox.ini", "[pytest]")] {
        if project.contains(file, section) {
            return Some(pytest(told(file, "configures pytest")));
        }
    }
    let dependencies = [MANIFEST, "requirements-dev.txt", "requirements.txt", "Pipfile"];
    if let Some(file) = dependencies.iter().find(|file| project.contains(file, "pytest")) {
        return Some(pytest(told(file, "names pytest")));
    }
    if project.contains("tox.ini", "[tox]") || project.contains("tox.ini", "[testenv") {
        let told = told("tox.ini", "is for tox");
        return Some(Runner { command: &["tox"], is_self_contained: true, told });
    }
    if project.has_file("noxfile.py") {
        let told = told("noxfile.py", "is for nox");
        return Some(Runner { command: &["nox"], is_self_contained: true, told });
    }
    if project.contains("manage.py", "django") {
        let command = &["python3", "manage.py", "test"];
        let told = told("manage.py", "is Django's");
        return Some(Runner { command, is_self_contained: false, told });
    }
    let file = test_file?;
    let text = project.read(file).unwrap_or_default();
    if text.contains("pytest") || !text.contains("unittest") {
        return Some(pytest(told(file, "holds tests")));
    }
    let is_package = |name: &str| project.has_file(&format!("{name}/__init__.py"));
    let command: &[&str] = match file.split_once('/') {
        Some(("tests", _)) if !is_package("tests") => {
            &["python3", "-m", "unittest", "discover", "-s", "tests"]
        }
        Some(("test", _)) if !is_package("test") => {
            &["python3", "-m", "unittest", "discover", "-s", "test"]
        }
        _ => &["python3", "-m", "unittest", "discover"],
    };
    Some(Runner { command, is_self_contained: false, told: told(file, "holds unittest cases") })
}

/// Returns a file with tests by its name: in a directory for tests, or beside the code.
fn find_test_file(project: &DetectedProject<'_>) -> Option<String> {
    let is_test = |name: &String| {
        let stem = name.strip_suffix(".py");
        stem.is_some_and(|stem| stem.starts_with("test_") || stem.ends_with("_test"))
    };
    for directory in TEST_DIRECTORIES {
        let mut files = project.files(directory).into_iter();
        if let Some(name) = files.find(|name| is_test(name)) {
            return Some(format!("{directory}/{name}"));
        }
        if project.has_file(&format!("{directory}/conftest.py")) {
            return Some(format!("{directory}/conftest.py"));
        }
    }
    project.files("").into_iter().find(|name| is_test(name))
}

fn keeper(project: &DetectedProject<'_>, manifest: Option<&toml::Table>) -> Keeper {
    let tool = |name: &str| manifest.and_then(|table| table.get("tool")?.get(name)).is_some();
    let outer_uv = project.outer().is_some_and(|outer| outer.has_file("uv.lock"));
    if project.has_file("uv.lock") || tool("uv") || (outer_uv && manifest.is_some()) {
        Keeper::Uv
    } else if project.has_file("poetry.lock") || tool("poetry") {
        Keeper::Poetry
    } else if project.has_file("pdm.lock") || tool("pdm") {
        Keeper::Pdm
    } else if project.has_file("Pipfile") {
        Keeper::Pipenv
    } else {
        Keeper::None
    }
}

impl Keeper {
    fn run(self, project: &DetectedProject<'_>, command: &[&str]) -> Vec<String> {
        let place = project.place;
        let mut run = match (self, place) {
            (Keeper::Uv, "") => vec!["uv", "run"],
            (Keeper::Uv, place) => vec!["uv", "run", "--directory", place],
            (Keeper::Poetry, "") => vec!["poetry", "run"],
            (Keeper::Poetry, place) => vec!["poetry", "--directory", place, "run"],
            (Keeper::Pdm, _) => vec!["pdm", "run"],
            (Keeper::Pipenv, _) => vec!["pipenv", "run"],
            // As a module, pytest finds the code beside the tests without its being installed.
            (Keeper::None, _) if command == ["pytest"] => vec!["python3", "-m"],
            (Keeper::None, _) => vec![],
        };
        run.extend(command);
        match self {
            Keeper::Uv | Keeper::Poetry => words(&run),
            Keeper::Pdm | Keeper::Pipenv | Keeper::None => project.run_here(&run),
        }
    }

    fn setup(self, project: &DetectedProject<'_>) -> Option<Vec<String>> {
        let place = project.place;
        Some(match self {
            // A part of a uv workspace shares the lock file of the whole.
            Keeper::Uv => {
                let mut setup = vec!["uv", "sync"];
                if !place.is_empty() {
                    setup.extend(["--directory", place]);
                }
                if project.has_file("uv.lock") {
                    setup.push("--locked");
                }
                words(&setup)
            }
            Keeper::Poetry if place.is_empty() => words(&["poetry", "install"]),
            Keeper::Poetry => words(&["poetry", "--directory", place, "install"]),
            Keeper::Pdm => project.run_here(&["pdm", "sync"]),
            Keeper::Pipenv => project.run_here(&["pipenv", "sync", "--dev"]),
            Keeper::None => return None,
        })
    }
}
