//! Hand-written recipes: `justfile` and `Makefile`.

use super::project::DetectedProject;
use super::{Check, CheckKind, Found, words};

pub(super) const NAME: &str = "recipes";

const JUSTFILES: [&str; 3] = ["justfile", "Justfile", ".justfile"];
/// In make's own order of precedence.
const MAKEFILES: [&str; 3] = ["GNUmakefile", "makefile", "Makefile"];

/// Examines a directory for recipes of the wanted kinds.
pub(super) fn examine(project: &DetectedProject<'_>, wanted: &[CheckKind]) -> Option<Found> {
    let mut found = Found::new(NAME, project);
    for kind in wanted {
        found.checks.extend(just(project, *kind).or_else(|| make(project, *kind)));
    }
    (!found.checks.is_empty()).then_some(found)
}

const fn names(kind: CheckKind) -> &'static [&'static str] {
    match kind {
        CheckKind::Tests => &["test", "tests", "check"],
        CheckKind::Lint => &["lint"],
        CheckKind::Types | CheckKind::Vet | CheckKind::Build => &[],
    }
}

fn just(project: &DetectedProject<'_>, kind: CheckKind) -> Option<Check> {
    let file = project.first_file(&JUSTFILES)?;
    let recipes = just_recipes(&project.read(file)?);
    let name = names(kind).iter().find(|name| recipes.iter().any(|recipe| recipe == *name))?;
    let path = project.path(file);
    let run = if project.is_root() {
        words(&["just", name])
    } else {
        words(&["just", "--justfile", &path, "--working-directory", project.place, name])
    };
    Some(Check { kind, run, why: format!("`{path}` has the recipe `{name}`") })
}

fn make(project: &DetectedProject<'_>, kind: CheckKind) -> Option<Check> {
    let file = project.first_file(&MAKEFILES)?;
    let targets = make_targets(&project.read(file)?);
    let name = names(kind).iter().find(|name| targets.iter().any(|target| target == *name))?;
    let place: &[&str] = if project.is_root() { &[] } else { &["-C", project.place] };
    let run = words(&[&["make"], place, &[*name]].concat());
    Some(Check { kind, run, why: format!("`{}` has the target `{name}`", project.path(file)) })
}

/// Returns the recipes of a justfile that need no arguments.
fn just_recipes(text: &str) -> Vec<String> {
    let mut recipes = Vec::new();
    for line in text.lines() {
        let line = line.strip_prefix('@').unwrap_or(line);
        let Some((head, _)) = definition(line) else { continue };
        let mut head = head.split_whitespace();
        let Some(name) = head.next() else { continue };
        // A parameter with a default, or a variadic one, is optional.
        let is_optional = |parameter: &str| parameter.contains('=') || parameter.starts_with('*');
        if is_name(name) && head.all(is_optional) {
            recipes.push(name.to_owned());
        }
    }
    recipes
}

/// Returns the explicit targets of a makefile.
fn make_targets(text: &str) -> Vec<String> {
    let mut targets = Vec::new();
    for line in text.lines() {
        let Some((head, _)) = definition(line) else { continue };
        let names = head.split_whitespace().filter(|name| is_name(name));
        targets.extend(names.map(str::to_owned));
    }
    targets
}

/// Splits a line at the colon after a definition's head. Indented lines, comments and assignments are not definitions.
fn definition(line: &str) -> Option<(&str, &str)> {
    if line.starts_with([' ', '\t', '#']) {
        return None;
    }
    let (head, rest) = line.split_once(':')?;
    let is_assignment = rest.starts_with('=') || rest.starts_with(":=");
    (!is_assignment).then_some((head, rest))
}

fn is_name(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_told_from_assignments_recipes_and_comments() {
        let makefile = "test := no\nCHECK=a:b\n# lint: no\n\techo tests: no\nbuild test2: dep\n\
                        .PHONY: test lint\ncheck::\n\ttrue\n%.o: %.c\n";
        assert_eq!(make_targets(makefile), ["build", "test2", "check"]);
    }

    #[test]
    fn recipes_that_need_an_argument_are_left_out() {
        let justfile = "set shell := [\"bash\"]\nalias t := test\nname := \"x\"\n\
                        test filter='': build\n  cargo test\n@lint *args:\n  true\ncheck what:\n  true\n";
        assert_eq!(just_recipes(justfile), ["test", "lint"]);
    }
}
