//! Rust: `Cargo.toml`.

use camino::{Utf8Path, Utf8PathBuf};

use super::project::DetectedProject;
use super::{Check, CheckKind, Found};

const MANIFEST: &str = "Cargo.toml";

/// The maximum number of source files searched for a test. A larger project surely has one.
const MOST_SOURCES: usize = 400;

pub(super) fn examine(project: &DetectedProject<'_>) -> Option<Found> {
    let manifest = project.read_toml(MANIFEST)?;
    let is_workspace = manifest.contains_key("workspace");
    if !is_workspace && !manifest.contains_key("package") {
        return None;
    }
    let path = project.path(MANIFEST);
    let command = |verb: &str, options: &[&str]| {
        let mut run = vec!["cargo".to_owned(), verb.to_owned()];
        if is_workspace && verb != "fetch" {
            run.push("--workspace".to_owned());
        }
        if !project.is_root() {
            run.extend(["--manifest-path".to_owned(), path.clone()]);
        }
        run.extend(options.iter().map(|option| (*option).to_owned()));
        run
    };
    let mut found = Found::new("cargo", project);
    // Testing builds too, but a run without tests proves nothing.
    if !has_tests(&project.root.join(project.place)) {
        let why = format!("`{path}`, and no tests yet");
        found.checks.push(Check { kind: CheckKind::Build, run: command("build", &[]), why });
    }
    let told = if is_workspace { "a cargo workspace" } else { "a cargo package" };
    let why = format!("`{path}` is {told}");
    found.checks.push(Check { kind: CheckKind::Tests, run: command("test", &[]), why });
    let locked: &[&str] = if project.has_file("Cargo.lock") { &["--locked"] } else { &[] };
    found.setup.push(command("fetch", locked));
    found.cache.push("target".to_owned());
    found.covers_below = is_workspace;
    Some(found)
}

/// Whether any source file contains a test.
fn has_tests(directory: &Utf8Path) -> bool {
    let mut sources = Vec::new();
    collect_sources(directory, &mut sources);
    let has_test = |source: &Utf8PathBuf| {
        std::fs::read(source).is_ok_and(|text| {
            let text = String::from_utf8_lossy(&text);
            text.contains("#[test]") || text.contains("#[cfg(test)]") || text.contains("::test]")
        })
    };
    sources.len() >= MOST_SOURCES || sources.iter().any(has_test)
}

fn collect_sources(directory: &Utf8Path, sources: &mut Vec<Utf8PathBuf>) {
    let Ok(entries) = directory.read_dir_utf8() else { return };
    for entry in entries.filter_map(Result::ok) {
        if sources.len() >= MOST_SOURCES {
            return;
        }
        // The type is the entry's own: symlinks are not followed, so the walk stays in the project and terminates.
        let Ok(kind) = entry.file_type() else { continue };
        let name = entry.file_name();
        if kind.is_file() && entry.path().extension() == Some("rs") {
            sources.push(entry.into_path());
        } else if kind.is_dir()
            && !name.starts_with('.')
            && name != "target"
            && name != "node_modules"
        {
            collect_sources(entry.path(), sources);
        }
    }
}
