//! Java and Kotlin: Maven or Gradle, through the project's own wrapper if it is executable.

use super::project::DetectedProject;
use super::{Check, CheckKind, Found};

const GRADLE_FILES: [&str; 4] =
    ["build.gradle.kts", "build.gradle", "settings.gradle.kts", "settings.gradle"];

pub(super) fn examine(project: &DetectedProject<'_>) -> Option<Found> {
    if project.has_file("pom.xml") { Some(maven(project)) } else { gradle(project) }
}

fn maven(project: &DetectedProject<'_>) -> Found {
    let program = wrapper_or(project, "mvnw", "mvn");
    let pom = project.path("pom.xml");
    let mut run = vec![program.as_str(), "-B"];
    if !project.is_root() {
        run.extend(["-f", &pom]);
    }
    run.push("test");
    let why = format!("`{pom}` is a maven project");
    let mut found = Found::new("maven", project);
    found.checks.push(Check::new(CheckKind::Tests, &run, why));
    found.cache.push("target".to_owned());
    found.covers_below = true;
    found
}

fn gradle(project: &DetectedProject<'_>) -> Option<Found> {
    let file = project.first_file(&GRADLE_FILES)?;
    let program = wrapper_or(project, "gradlew", "gradle");
    // A daemon would outlive the gate, or be killed with it and be useless.
    let mut run = vec![program.as_str(), "--no-daemon"];
    if !project.is_root() {
        run.extend(["-p", project.place]);
    }
    run.push("test");
    let why = format!("`{}` is a gradle project", project.path(file));
    let mut found = Found::new("gradle", project);
    found.checks.push(Check::new(CheckKind::Tests, &run, why));
    found.cache.extend([".gradle", "build"].map(str::to_owned));
    found.covers_below = true;
    Some(found)
}

fn wrapper_or(project: &DetectedProject<'_>, wrapper: &str, program: &str) -> String {
    if project.is_executable(wrapper) { project.program(wrapper) } else { program.to_owned() }
}
