//! `plan.tsx`: an `export default` of an `<App>` element.

mod check;
mod parse;

use crate::finding::PlanFinding;
use crate::language::{PlanCheck, PlanLanguage, PlanSurroundings};
use crate::names::tokens;
use crate::outline::{Outline, Planned, PlannedKind};
use crate::scope::{MarkerKind, ScopeMarker};

use parse::{Element, Parsed, parse};

/// The language of `plan.tsx`.
pub(crate) struct Tsx;

impl PlanLanguage for Tsx {
    fn file_name(&self) -> &'static str {
        "plan.tsx"
    }

    fn is_plan(&self, text: &str) -> bool {
        !text.trim().is_empty()
    }

    fn check(&self, text: &str, surroundings: &PlanSurroundings<'_>) -> PlanCheck {
        let stop = |findings| PlanCheck { outline: Outline::default(), findings };
        let parsed = match parse(text) {
            Ok(parsed) => parsed,
            Err(problems) => {
                let finding = |problem: parse::SyntaxProblem| {
                    PlanFinding::fail("parseable", problem.line, problem.message)
                };
                return stop(problems.into_iter().map(finding).collect());
            }
        };
        let (line, elements) = match &parsed.default_export {
            None => {
                let message = "no `export default ( <App …> … </App> )` found";
                return stop(vec![PlanFinding::fail("parseable", 1, message)]);
            }
            Some((line, elements)) if elements.is_empty() => {
                let message = "the default export is not an element: write `export default ( <App …> … </App> )`";
                return stop(vec![PlanFinding::fail("parseable", *line, message)]);
            }
            Some((line, elements)) => (*line, elements),
        };
        let [app] = elements.as_slice() else {
            let message = "the root of the plan is one `<App>`, and not several elements";
            return stop(vec![PlanFinding::fail("has-app-root", line, message)]);
        };
        if app.name != "App" {
            let message = format!("the root of the plan is `<{}>` and not `<App>`", app.name);
            return stop(vec![PlanFinding::fail("has-app-root", app.line, message)]);
        }
        let findings = check::check(app, &surroundings.rules.registries);
        PlanCheck { outline: outline(app, &parsed), findings }
    }
}

/// Returns the outline of a plan.
fn outline(app: &Element, parsed: &Parsed) -> Outline {
    let mut items = Vec::new();
    if let Some(theme) = app.all().into_iter().find(|element| element.name == "Theme") {
        let name = theme.value("mood").unwrap_or("theme").to_owned();
        items.push(planned(PlannedKind::Theme, name, theme, None));
    }
    for screen in app.children.iter().filter(|child| child.name == "Screen") {
        let name = screen.value("name").unwrap_or("screen").to_owned();
        items.push(planned(PlannedKind::Screen, name.clone(), screen, None));
        for section in screen.all().into_iter().filter(|inside| inside.name == "Section") {
            let Some(gumdrop) = check::gumdrop_of(section) else { continue };
            let gumdrop = gumdrop.to_owned();
            items.push(planned(PlannedKind::Section, gumdrop, section, Some(name.clone())));
        }
    }
    let markers = markers(app, parsed);
    Outline { items, markers }
}

fn planned(kind: PlannedKind, name: String, at: &Element, parent: Option<String>) -> Planned {
    let mut fields = Vec::new();
    if kind == PlannedKind::Section {
        for inside in at.all() {
            let prop = match inside.name.as_str() {
                "Field" => "name",
                "Column" => "field",
                _ => continue,
            };
            fields.extend(inside.value(prop).map(str::to_owned));
        }
    }
    Planned { kind, name, line: at.line, parent, fields }
}

/// Returns the scope markers in comments, each with the last section or screen above it.
fn markers(app: &Element, parsed: &Parsed) -> Vec<ScopeMarker> {
    let places: Vec<(usize, &str)> = app
        .all()
        .into_iter()
        .filter_map(|element| {
            let name = match element.name.as_str() {
                "Section" => check::gumdrop_of(element),
                "Screen" => element.value("name"),
                _ => None,
            };
            Some((element.line, name?))
        })
        .collect();
    let lines = parsed.comments.iter().flat_map(|comment| {
        let inside = comment.text.lines().enumerate();
        inside.map(|(at, text)| (comment.line + at, text))
    });
    lines
        .filter_map(|(line, text)| {
            let kind = MarkerKind::read(text)?;
            let above = places.iter().rev().find(|(place, _)| *place <= line);
            Some(ScopeMarker { kind, line, target: above.map(|(_, name)| (*name).to_owned()) })
        })
        .collect()
}

/// What checks need to know about a source file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceFacts {
    /// The text without comments.
    pub(crate) code: String,
    /// The names of all elements, in order.
    pub(crate) tags: Vec<String>,
    /// The names of all props.
    pub(crate) props: Vec<String>,
    pub(crate) imports: Vec<String>,
}

impl SourceFacts {
    /// Parses a source. Text that cannot be parsed is treated as plain text.
    pub(crate) fn of(text: &str) -> SourceFacts {
        let Ok(parsed) = parse(text) else {
            return SourceFacts { code: text.to_owned(), ..SourceFacts::default() };
        };
        let elements: Vec<&Element> = parsed.elements.iter().flat_map(Element::all).collect();
        SourceFacts {
            tags: elements.iter().map(|element| element.name.clone()).collect(),
            props: elements
                .iter()
                .flat_map(|element| element.props.iter().map(|prop| prop.name.clone()))
                .collect(),
            code: without_comments(text, &parsed),
            imports: parsed.imports,
        }
    }

    /// Whether any token of the code matches a name, in any spelling.
    pub(crate) fn mentions(&self, words: &[String]) -> bool {
        tokens(&self.code).any(|token| crate::names::names(token, words))
    }
}

/// Replaces comments with blanks, which preserves line numbers.
fn without_comments(text: &str, parsed: &Parsed) -> String {
    let mut code = String::with_capacity(text.len());
    let mut from = 0;
    for comment in &parsed.comments {
        code.push_str(text.get(from..comment.start).unwrap_or(""));
        let inside = text.get(comment.start..comment.end).unwrap_or("");
        code.extend(inside.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        from = comment.end;
    }
    code.push_str(text.get(from..).unwrap_or(""));
    code
}

#[cfg(test)]
#[path = "../tsx_tests.rs"]
mod tests;
