//! Python: pytest if there is any sign of it, otherwise tox, nox, Django's own tests or unittest, in the environment
//! managed by the project's tool.

use super::project::DetectedProject;
use super::{Check, CheckKind, Found, words};

const MANIFEST: &str = "pyproject.toml";

/// Files that identify a Python project.
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

/// The tool that manages the project's environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeper {
    Uv,
    Poetry,
    Pdm,
    Pipenv,
    /// A virtual environment in the project's directory, filled by pip.
    Venv(&'static str),
    /// The interpreter on PATH, with the person's installed packages.
    None,
}

/// Usual names of a virtual environment.
const VENVS: [&str; 3] = [".venv", "venv", "env"];

/// Requirement files of pip.
const REQUIREMENTS: [&str; 8] = [
    "requirements.txt",
    "requirements-dev.txt",
    "requirements_dev.txt",
    "dev-requirements.txt",
    "requirements-test.txt",
    "test-requirements.txt",
    "requirements/dev.txt",
    "requirements/test.txt",
];

/// The test runner, and the file it is based on.
struct Runner {
    command: &'static [&'static str],
    /// Whether it creates its own environment, so that it is not run in the keeper's.
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
        match keeper {
            Keeper::Venv(name) => {
                found.setup.extend(venv_setup(project, name, manifest.as_ref(), runner.command));
                found.cache.push(name.to_owned());
                found.cache.extend(build_output(project, manifest.as_ref(), &found.setup));
            }
            _ => found.setup.extend(keeper.setup(project)),
        }
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

/// Returns a file with tests by its name: in a test directory, or next to the code.
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
        let venv = VENVS.into_iter().find(|name| project.has_file(&format!("{name}/pyvenv.cfg")));
        venv.map_or(Keeper::None, Keeper::Venv)
    }
}

/// Returns the commands that create the environment in a fresh checkout: the person's own is ignored by git, so it is
/// missing there.
fn venv_setup(
    project: &DetectedProject<'_>,
    venv: &str,
    manifest: Option<&toml::Table>,
    runner: &[&str],
) -> Vec<Vec<String>> {
    let python = format!("{venv}/bin/python");
    let mut install: Vec<String> =
        words(&[&python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]);
    let bare = install.len();
    let mut names_pytest = false;
    for file in REQUIREMENTS.into_iter().filter(|file| project.has_file(file)) {
        install.extend(words(&["-r", file]));
        names_pytest |= project.contains(file, "pytest");
    }
    let (own, names_it) = own_requirements(project, manifest);
    install.extend(own);
    if runner == ["pytest"] && !names_pytest && !names_it {
        install.push("pytest".to_owned());
    }
    let mut setup = vec![project.run_here(&["python3", "-m", "venv", venv])];
    if install.len() > bare {
        let install: Vec<&str> = install.iter().map(String::as_str).collect();
        setup.push(project.run_here(&install));
    }
    setup
}

/// Returns the directory that setuptools leaves in the tree when it installs a project with `-e`. If it were removed
/// with the rest of what git ignores, `setup` would run again before every gate.
fn build_output(
    project: &DetectedProject<'_>,
    manifest: Option<&toml::Table>,
    setup: &[Vec<String>],
) -> Option<String> {
    let is_editable = setup.iter().any(|command| command.iter().any(|word| word == "-e"));
    let backend =
        manifest.and_then(|table| table.get("build-system")?.get("build-backend")?.as_str());
    let is_setuptools = backend.is_none_or(|backend| backend.starts_with("setuptools"));
    let name = manifest.and_then(|table| table.get("project")?.get("name")?.as_str())?;
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let place = if project.has_directory("src") { "src/" } else { "" };
    (is_editable && is_setuptools).then(|| project.path(&format!("{place}{name}.egg-info")))
}

/// Returns pip's arguments for the project itself, and whether they install pytest.
///
/// A buildable project is installed with its test extras. For any other only its requirements are installed: building
/// it would fail.
fn own_requirements(
    project: &DetectedProject<'_>,
    manifest: Option<&toml::Table>,
) -> (Vec<String>, bool) {
    let table = manifest.and_then(|table| table.get("project"));
    let extras = table.and_then(|project| project.get("optional-dependencies"));
    let extra = |name: &&str| extras.and_then(|extras| extras.get(name)).is_some();
    let extras_for_tests: Vec<&str> =
        ["dev", "test", "tests", "testing"].into_iter().filter(extra).collect();
    let listed = |value: Option<&toml::Value>| -> Vec<String> {
        let array = value.and_then(toml::Value::as_array).into_iter().flatten();
        array.filter_map(toml::Value::as_str).map(str::to_owned).collect()
    };
    let dependencies = listed(table.and_then(|project| project.get("dependencies")));
    let of_extra = |name: &&str| listed(extras.and_then(|extras| extras.get(*name)));
    let of_extras: Vec<String> = extras_for_tests.iter().flat_map(of_extra).collect();
    let names_it =
        dependencies.iter().chain(&of_extras).any(|requirement| requirement.starts_with("pytest"));
    let is_built = manifest.is_some_and(|table| table.contains_key("build-system"))
        || project.first_file(&["setup.py", "setup.cfg"]).is_some();
    if !is_built {
        return (dependencies.into_iter().chain(of_extras).collect(), names_it);
    }
    let what = if extras_for_tests.is_empty() {
        ".".to_owned()
    } else {
        format!(".[{}]", extras_for_tests.join(","))
    };
    (vec!["-e".to_owned(), what], names_it)
}

impl Keeper {
    fn run(self, project: &DetectedProject<'_>, command: &[&str]) -> Vec<String> {
        let place = project.place;
        if let Keeper::Venv(name) = self {
            let python = format!("{name}/bin/python");
            let command = match command {
                ["python3", rest @ ..] => [&[python.as_str()], rest].concat(),
                module => [&[python.as_str(), "-m"], module].concat(),
            };
            return project.run_here(&command);
        }
        let mut run = match (self, place) {
            (Keeper::Uv, "") => vec!["uv", "run"],
            (Keeper::Uv, place) => vec!["uv", "run", "--directory", place],
            (Keeper::Poetry, "") => vec!["poetry", "run"],
            (Keeper::Poetry, place) => vec!["poetry", "--directory", place, "run"],
            (Keeper::Pdm, _) => vec!["pdm", "run"],
            (Keeper::Pipenv, _) => vec!["pipenv", "run"],
            // Run as a module, pytest finds the code next to the tests without installing it.
            (Keeper::None, _) if command == ["pytest"] => vec!["python3", "-m"],
            (Keeper::None | Keeper::Venv(_), _) => vec![],
        };
        run.extend(command);
        match self {
            Keeper::Uv | Keeper::Poetry => words(&run),
            Keeper::Pdm | Keeper::Pipenv | Keeper::Venv(_) | Keeper::None => project.run_here(&run),
        }
    }

    fn setup(self, project: &DetectedProject<'_>) -> Option<Vec<String>> {
        let place = project.place;
        Some(match self {
            // A member of a uv workspace shares the lock file of the whole.
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
            Keeper::Venv(_) | Keeper::None => return None,
        })
    }
}
