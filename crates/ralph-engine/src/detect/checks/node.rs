//! JavaScript: the scripts of `package.json`, run by the package manager the project uses.

use serde_json::Value;

use super::project::DetectedProject;
use super::{Check, CheckKind, Found, words};

const MANIFEST: &str = "package.json";

/// The placeholder that `npm init` writes for tests.
const NO_TEST: &str = "no test specified";

/// The check scripts, by their usual names, best first.
const SCRIPTS: [(CheckKind, &[&str]); 4] = [
    (CheckKind::Types, &["typecheck", "type-check", "check-types", "types:check", "tsc"]),
    (CheckKind::Lint, &["lint"]),
    (CheckKind::Build, &["build"]),
    (CheckKind::Tests, &["test", "test:ci", "test:run", "tests", "test:unit"]),
];

/// Test programs that watch for changes unless an option disables that.
const WATCHERS: [(&str, &str); 2] =
    [("react-scripts test", "--watchAll=false"), ("ng test", "--watch=false")];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manager {
    Npm,
    Pnpm,
    Yarn { modern: bool },
    Bun,
}

pub(super) fn examine(project: &DetectedProject<'_>) -> Option<Found> {
    let manifest = project.read_json(MANIFEST)?;
    let outer = project.outer();
    let own = manager_of(project, &manifest);
    let inherited = || {
        let outer = outer.as_ref()?;
        manager_of(outer, &outer.read_json(MANIFEST)?)
    };
    let manager = own.or_else(inherited).unwrap_or(Manager::Npm);
    let mut found = Found::new("node", project);
    for (kind, names) in SCRIPTS {
        let usable = |name: &&&str| script(&manifest, name).is_some_and(is_check);
        let Some(name) = names.iter().find(usable) else { continue };
        let text = script(&manifest, name).unwrap_or_default();
        let watcher = WATCHERS.iter().find(|(program, _)| text.contains(program));
        let option =
            watcher.filter(|(_, option)| !text.contains(option)).map(|(_, option)| *option);
        let run = manager.run(project, name, option);
        let why = format!("`{}` has the script `{name}`", project.path(MANIFEST));
        found.checks.push(Check { kind, run, why });
    }
    // A workspace member has no lock file, and is installed with the whole workspace.
    let is_part = own.is_none() && outer.is_some_and(|outer| outer.has_file(MANIFEST));
    if needs_install(&manifest) && !is_part {
        found.setup.push(manager.install(project));
        found.cache.push("node_modules".to_owned());
    }
    found.covers_below =
        manifest.get("workspaces").is_some() || project.has_file("pnpm-workspace.yaml");
    Some(found)
}

fn script<'m>(manifest: &'m Value, name: &str) -> Option<&'m str> {
    manifest.get("scripts")?.get(name)?.as_str()
}

/// Whether a script terminates by itself and checks something.
fn is_check(script: &str) -> bool {
    let watches = script.split_whitespace().any(|word| word == "--watch" || word == "--watchAll");
    !script.trim().is_empty() && !script.contains(NO_TEST) && !watches
}

fn needs_install(manifest: &Value) -> bool {
    let is_filled = |key: &str| {
        manifest.get(key).and_then(Value::as_object).is_some_and(|packages| !packages.is_empty())
    };
    is_filled("dependencies")
        || is_filled("devDependencies")
        || manifest.get("workspaces").is_some()
}

fn manager_of(project: &DetectedProject<'_>, manifest: &Value) -> Option<Manager> {
    let modern_yarn = project.has_file(".yarnrc.yml");
    if let Some(named) = manifest.get("packageManager").and_then(Value::as_str) {
        let (name, version) = named.split_once('@').unwrap_or((named, ""));
        match name {
            "npm" => return Some(Manager::Npm),
            "pnpm" => return Some(Manager::Pnpm),
            "yarn" => {
                let modern = modern_yarn || !(version.is_empty() || version.starts_with("1."));
                return Some(Manager::Yarn { modern });
            }
            "bun" => return Some(Manager::Bun),
            _ => {}
        }
    }
    let locks: [(&[&str], Manager); 4] = [
        (&["pnpm-lock.yaml"], Manager::Pnpm),
        (&["yarn.lock"], Manager::Yarn { modern: modern_yarn }),
        (&["bun.lock", "bun.lockb"], Manager::Bun),
        (&["package-lock.json", "npm-shrinkwrap.json"], Manager::Npm),
    ];
    let mut locks = locks.into_iter();
    locks.find(|(names, _)| project.first_file(names).is_some()).map(|(_, manager)| manager)
}

impl Manager {
    /// Returns the program with the option that makes it work in the project's directory.
    fn program<'p>(self, project: &DetectedProject<'p>) -> Vec<&'p str> {
        let (program, option) = match self {
            Manager::Npm => ("npm", "--prefix"),
            Manager::Pnpm => ("pnpm", "--dir"),
            Manager::Yarn { .. } => ("yarn", "--cwd"),
            Manager::Bun => return vec!["bun"],
        };
        if project.is_root() { vec![program] } else { vec![program, option, project.place] }
    }

    fn finish(self, project: &DetectedProject<'_>, command: &[&str]) -> Vec<String> {
        if self == Manager::Bun { project.run_here(command) } else { words(command) }
    }

    fn run(self, project: &DetectedProject<'_>, script: &str, option: Option<&str>) -> Vec<String> {
        let mut run = self.program(project);
        // `yarn test` and `bun test` can mean more than the script; `npm test` is the usual form.
        if !(matches!(self, Manager::Npm | Manager::Pnpm) && script == "test") {
            run.push("run");
        }
        run.push(script);
        if option.is_some() && self == Manager::Npm {
            run.push("--");
        }
        run.extend(option);
        self.finish(project, &run)
    }

    fn install(self, project: &DetectedProject<'_>) -> Vec<String> {
        let mut install = self.program(project);
        let locked = match self {
            Manager::Npm => project.first_file(&["package-lock.json", "npm-shrinkwrap.json"]),
            Manager::Pnpm => project.first_file(&["pnpm-lock.yaml"]),
            Manager::Yarn { .. } => project.first_file(&["yarn.lock"]),
            Manager::Bun => project.first_file(&["bun.lock", "bun.lockb"]),
        };
        install.extend(match (self, locked) {
            (Manager::Npm, Some(_)) => vec!["ci"],
            (_, None) => vec!["install"],
            (Manager::Yarn { modern: true }, Some(_)) => vec!["install", "--immutable"],
            (_, Some(_)) => vec!["install", "--frozen-lockfile"],
        });
        self.finish(project, &install)
    }
}
