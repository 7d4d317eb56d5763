//! Ecosystems whose checks are one command: Go, Ruby, PHP, .NET, Deno, Elixir.

use serde_json::Value;

use super::project::DetectedProject;
use super::{Check, CheckKind, Found, words};

pub(super) fn examine_go(project: &DetectedProject<'_>) -> Option<Found> {
    if !project.has_file("go.mod") {
        return None;
    }
    let command = |rest: &[&str]| {
        let place: &[&str] = if project.is_root() { &[] } else { &["-C", project.place] };
        words(&[&["go"], place, rest].concat())
    };
    let why = format!("`{}` is a Go module", project.path("go.mod"));
    let mut found = Found::new("go", project);
    found.checks = vec![
        Check { kind: CheckKind::Vet, run: command(&["vet", "./..."]), why: why.clone() },
        Check { kind: CheckKind::Tests, run: command(&["test", "./..."]), why },
    ];
    if project.has_file("go.sum") {
        found.setup.push(command(&["mod", "download"]));
    }
    // `./...` does not cross into another module.
    found.covers_below = false;
    Some(found)
}

pub(super) fn examine_ruby(project: &DetectedProject<'_>) -> Option<Found> {
    let told = |file: &str| format!("`{}`, in a project with a `Gemfile`", project.path(file));
    let gemfile = project.read("Gemfile")?;
    let (command, why): (&[&str], _) = if project.has_directory("spec")
        && (project.has_file(".rspec") || gemfile.contains("rspec"))
    {
        (&["bundle", "exec", "rspec"], told("spec"))
    } else if project.has_file("bin/rails") && project.has_directory("test") {
        (&["bundle", "exec", "rails", "test"], told("bin/rails"))
    } else if project.contains("Rakefile", "test") {
        (&["bundle", "exec", "rake", "test"], told("Rakefile"))
    } else {
        return None;
    };
    let mut found = Found::new("ruby", project);
    found.checks.push(Check { kind: CheckKind::Tests, run: project.run_here(command), why });
    found.setup.push(project.run_here(&["bundle", "install"]));
    Some(found)
}

pub(super) fn examine_php(project: &DetectedProject<'_>) -> Option<Found> {
    let manifest = project.read_json("composer.json")?;
    let composer = |rest: &[&str]| {
        let place = format!("--working-dir={}", project.place);
        let place: &[&str] = if project.is_root() { &[] } else { &[&place] };
        words(&[&["composer"], place, rest].concat())
    };
    let has_script = manifest.get("scripts").and_then(|scripts| scripts.get("test")).is_some();
    let configured = project.first_file(&["phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml"]);
    let (run, why) = if has_script {
        let why = format!("`{}` has the script `test`", project.path("composer.json"));
        (composer(&["run-script", "test"]), why)
    } else {
        let why = format!("`{}` configures PHPUnit", project.path(configured?));
        (project.run_here(&["vendor/bin/phpunit"]), why)
    };
    let mut found = Found::new("php", project);
    found.checks.push(Check { kind: CheckKind::Tests, run, why });
    found.setup.push(composer(&["install", "--no-interaction"]));
    found.cache.push("vendor".to_owned());
    Some(found)
}

pub(super) fn examine_dotnet(project: &DetectedProject<'_>) -> Option<Found> {
    const KINDS: [&str; 5] = [".sln", ".slnx", ".csproj", ".fsproj", ".vbproj"];
    let files = project.files("");
    let file = KINDS.iter().find_map(|kind| files.iter().find(|name| name.ends_with(kind)))?;
    let path = project.path(file);
    let mut found = Found::new("dotnet", project);
    let why = format!("`{path}` is a .NET project");
    found.checks.push(Check::new(CheckKind::Tests, &["dotnet", "test", &path], why));
    found.setup.push(words(&["dotnet", "restore", &path]));
    found.covers_below = true;
    Some(found)
}

pub(super) fn examine_deno(project: &DetectedProject<'_>) -> Option<Found> {
    let file = project.first_file(&["deno.json", "deno.jsonc"])?;
    let manifest = project.read_json(file);
    let task = manifest.as_ref().and_then(|manifest| manifest.get("tasks")?.get("test"));
    let path = project.path(file);
    let (command, why): (&[&str], _) = match task {
        Some(Value::String(_) | Value::Object(_)) => {
            (&["deno", "task", "test"], format!("`{path}` has the task `test`"))
        }
        _ => (&["deno", "test"], format!("`{path}` is a Deno project")),
    };
    let mut found = Found::new("deno", project);
    found.checks.push(Check { kind: CheckKind::Tests, run: project.run_here(command), why });
    Some(found)
}

pub(super) fn examine_mix(project: &DetectedProject<'_>) -> Option<Found> {
    if !project.has_file("mix.exs") {
        return None;
    }
    let why = format!("`{}` is a Mix project", project.path("mix.exs"));
    let run = project.run_here(&["mix", "test"]);
    let mut found = Found::new("mix", project);
    found.checks.push(Check { kind: CheckKind::Tests, run, why });
    found.setup.push(project.run_here(&["mix", "deps.get"]));
    found.cache.extend(["deps", "_build"].map(str::to_owned));
    found.covers_below = true;
    Some(found)
}
