//! The checks of a `plan.tsx` whose root is an `<App>`.

use std::collections::BTreeSet;

use crate::finding::PlanFinding;
use crate::rules::Registries;

use super::parse::{Element, Prop};

/// The minimum number of different recipes that a plan should use.
const DIVERSE: usize = 3;

/// Runs all checks.
pub(super) fn check(app: &Element, registries: &Registries) -> Vec<PlanFinding> {
    let all = app.all();
    let mut findings = structure(app, &all);
    values(&all, registries, &mut findings);
    gumdrops(app, &all, registries, &mut findings);
    data(app, &all, registries, &mut findings);
    findings
}

/// Returns the recipe of a section: its own, or the first one it uses.
pub(super) fn gumdrop_of(section: &Element) -> Option<&str> {
    section.value("gumdrop").or_else(|| {
        let used = section.all().into_iter().skip(1).find(|inside| inside.name == "Gumdrop");
        used.and_then(|gumdrop| gumdrop.value("use"))
    })
}

fn named<'e>(all: &[&'e Element], name: &str) -> Vec<&'e Element> {
    all.iter().copied().filter(|element| element.name == name).collect()
}

fn title(screen: &Element) -> String {
    screen.value("name").map_or_else(String::new, |name| format!(" `{name}`"))
}

fn structure(app: &Element, all: &[&Element]) -> Vec<PlanFinding> {
    let mut findings = Vec::new();
    if named(all, "Theme").is_empty() {
        findings.push(PlanFinding::fail("has-theme", app.line, "no `<Theme>` in `<App>`"));
    }
    let screens: Vec<&Element> =
        app.children.iter().filter(|child| child.name == "Screen").collect();
    if screens.is_empty() {
        let message = "no `<Screen>` directly in `<App>`";
        findings.push(PlanFinding::fail("has-screens", app.line, message));
    }
    for screen in &screens {
        if named(&screen.all(), "Section").is_empty() {
            let message = format!("the screen{} has no `<Section>`", title(screen));
            findings.push(PlanFinding::fail("no-empty-screens", screen.line, message));
        }
    }
    for section in named(all, "Section") {
        if section.prop("gumdrop").is_none() && gumdrop_of(section).is_none() {
            let message = "the section names no recipe: give it a `gumdrop`";
            findings.push(PlanFinding::fail("sections-have-gumdrops", section.line, message));
        }
    }
    if let [_, second, ..] = screens.as_slice()
        && named(all, "Nav").is_empty()
    {
        let message = format!("there are {} screens and no `<Nav>` between them", screens.len());
        findings.push(PlanFinding::warn("missing-nav", second.line, message));
    }
    findings
}

fn values(all: &[&Element], registries: &Registries, findings: &mut Vec<PlanFinding>) {
    let themes = named(all, "Theme");
    let moods: Option<Vec<&str>> = registries.moods.as_ref().map(|moods| {
        moods.iter().chain(registries.presets.iter().flatten()).map(String::as_str).collect()
    });
    match moods {
        None => findings.push(PlanFinding::off("valid-mood", "loop.registry.moods")),
        Some(moods) => {
            for prop in themes.iter().filter_map(|theme| theme.prop("mood")) {
                findings.extend(unknown("valid-mood", "mood", prop, &moods));
            }
        }
    }
    match &registries.fonts {
        None => findings.push(PlanFinding::off("valid-font", "loop.registry.fonts")),
        Some(fonts) => {
            let fonts: Vec<&str> = fonts.iter().map(String::as_str).collect();
            let props =
                themes.iter().flat_map(|theme| [theme.prop("font"), theme.prop("monoFont")]);
            for prop in props.flatten() {
                findings.extend(unknown("valid-font", "font", prop, &fonts));
            }
        }
    }
}

fn gumdrops(
    app: &Element,
    all: &[&Element],
    registries: &Registries,
    findings: &mut Vec<PlanFinding>,
) {
    match &registries.gumdrops {
        None => findings.push(PlanFinding::off("valid-gumdrops", "loop.registry.gumdrops")),
        Some(known) => {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            for element in all {
                for prop in [element.prop("gumdrop"), element.prop("use")].into_iter().flatten() {
                    findings.extend(unknown("valid-gumdrops", "recipe", prop, &known));
                }
            }
        }
    }
    let sections = named(all, "Section");
    let used: BTreeSet<&str> = sections.iter().filter_map(|section| gumdrop_of(section)).collect();
    if !used.is_empty() && used.len() < DIVERSE {
        let message = match used.len() {
            1 => "only one recipe is used: vary them".to_owned(),
            several => format!("only {several} different recipes are used: vary them"),
        };
        findings.push(PlanFinding::warn("low-diversity", app.line, message));
    }
    let Some(heavy) = &registries.grid_heavy else {
        findings.push(PlanFinding::off("adjacent-grids", "loop.registry.grid_heavy"));
        return;
    };
    let is_heavy = |section: &Element| {
        gumdrop_of(section).is_some_and(|used| heavy.iter().any(|known| known == used))
    };
    for screen in named(all, "Screen") {
        let sections = named(&screen.all(), "Section");
        for pair in sections.windows(2) {
            let [first, second] = pair else { continue };
            if is_heavy(first) && is_heavy(second) {
                let [one, other] = [first, second].map(|one| gumdrop_of(one).unwrap_or_default());
                let message =
                    format!("`{one}` and `{other}` are both grids and stand side by side");
                findings.push(PlanFinding::warn("adjacent-grids", second.line, message));
            }
        }
    }
}

fn data(app: &Element, all: &[&Element], registries: &Registries, findings: &mut Vec<PlanFinding>) {
    let schemas: Vec<String> = named(all, "Schema")
        .iter()
        .filter_map(|schema| schema.value("name"))
        .map(singular)
        .collect();
    for endpoint in named(all, "Endpoint") {
        let Some(prop) = endpoint.prop("resource") else { continue };
        let Some(resource) = &prop.value else { continue };
        if !schemas.contains(&singular(resource)) {
            let message = format!("the endpoint's resource `{resource}` has no `<Schema>`");
            findings.push(PlanFinding::fail("schema-endpoint-match", prop.line, message));
        }
    }
    let Some(stateful) = &registries.stateful else {
        findings.push(PlanFinding::off("no-data-for-stateful", "loop.registry.stateful"));
        return;
    };
    if !named(&app.all(), "Data").is_empty() || !schemas.is_empty() {
        return;
    }
    let needs_data = named(all, "Section").into_iter().find(|section| {
        gumdrop_of(section).is_some_and(|used| stateful.iter().any(|known| known == used))
    });
    if let Some(section) = needs_data {
        let used = gumdrop_of(section).unwrap_or_default();
        let message = format!("`{used}` shows data, and the plan has no `<Data>`");
        findings.push(PlanFinding::warn("no-data-for-stateful", section.line, message));
    }
}

/// Lower-cases a name and drops one trailing `s`.
fn singular(name: &str) -> String {
    let name = name.to_lowercase();
    name.strip_suffix('s').unwrap_or(&name).to_owned()
}

/// Returns a failure if a literal value is not among the known ones.
fn unknown(id: &'static str, what: &str, prop: &Prop, known: &[&str]) -> Option<PlanFinding> {
    let value = prop.value.as_deref()?;
    if known.contains(&value) {
        return None;
    }
    let near = suggestions(value, known);
    let hint = match near.as_slice() {
        [] => String::new(),
        near => format!("; did you mean {}?", near.join(", ")),
    };
    let shown: String = value.chars().take(60).collect();
    Some(PlanFinding::fail(id, prop.line, format!("unknown {what} `{shown}`{hint}")))
}

/// Returns up to three known values that are close enough to be what was meant.
fn suggestions(value: &str, known: &[&str]) -> Vec<String> {
    let length = value.chars().count();
    let furthest = (length * 3 / 5).max(4);
    let lower = value.to_lowercase();
    let mut near: Vec<(usize, &str)> = known
        .iter()
        .filter(|candidate| candidate.len().abs_diff(value.len()) <= furthest)
        .map(|candidate| (strsim::levenshtein(&lower, &candidate.to_lowercase()), *candidate))
        .filter(|(distance, _)| *distance <= furthest)
        .collect();
    near.sort_unstable();
    near.into_iter().take(3).map(|(_, candidate)| format!("`{candidate}`")).collect()
}
