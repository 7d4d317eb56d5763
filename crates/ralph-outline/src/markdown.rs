//! `plan.md`: the plan format of the pipeline, with the headings Analysis, Steps and Verification strategy.
//!
//! Parsed line by line: headings, list items, code spans and fences. A file with none of the three headings is a note.

use crate::finding::PlanFinding;
use crate::language::{PlanCheck, PlanLanguage, PlanSurroundings};
use crate::outline::{Outline, Planned, PlannedKind};
use crate::scope::{MarkerKind, ScopeMarker};
use crate::tree::SourceTree;

/// The language of `plan.md`.
pub(crate) struct Markdown;

/// The largest plan that is parsed.
const LARGEST: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Other,
    Analysis,
    Steps,
    Verification,
}

impl Part {
    fn of_heading(heading: &str) -> Part {
        let heading = heading.trim().trim_end_matches(':').to_lowercase();
        match heading.split_whitespace().next() {
            Some("analysis") => Part::Analysis,
            Some("steps") => Part::Steps,
            Some("verification") => Part::Verification,
            _ => Part::Other,
        }
    }
}

/// A line of the plan and its position.
struct PlanLine<'a> {
    number: usize,
    part: Part,
    is_heading: bool,
    /// Whether it is inside a fence marked as shell.
    is_shell: bool,
    is_fenced: bool,
    text: &'a str,
}

fn lines(text: &str) -> Vec<PlanLine<'_>> {
    let (mut part, mut fence) = (Part::Other, None);
    let mut found = Vec::new();
    for (at, text) in text.lines().enumerate() {
        let trimmed = text.trim();
        let is_fence = trimmed.starts_with("```") || trimmed.starts_with("~~~");
        if is_fence {
            let language = trimmed.trim_start_matches(['`', '~']).trim();
            let is_shell = ["", "sh", "bash", "shell", "console", "zsh"].contains(&language);
            fence = if fence.is_some() { None } else { Some(is_shell) };
        }
        let is_fenced = fence.is_some() || is_fence;
        let heading = (!is_fenced).then(|| heading(trimmed)).flatten();
        if let Some((level, title)) = heading {
            let named = Part::of_heading(title);
            // A deeper heading inside a part subdivides it; it does not end the part.
            if named != Part::Other || level <= 2 {
                part = named;
            }
        }
        let is_shell = fence == Some(true) && !is_fence;
        let is_heading = heading.is_some();
        found.push(PlanLine {
            number: at + 1,
            part,
            is_heading,
            is_shell,
            is_fenced,
            text: trimmed,
        });
    }
    found
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let title = line[level..].strip_prefix(' ')?;
    (1..=6).contains(&level).then_some((level, title))
}

/// Returns the code spans in a line.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2).map(str::trim).filter(|span| !span.is_empty())
}

impl PlanLanguage for Markdown {
    fn file_name(&self) -> &'static str {
        "plan.md"
    }

    fn is_plan(&self, text: &str) -> bool {
        lines(text).iter().any(|line| line.is_heading && line.part != Part::Other)
    }

    fn check(&self, text: &str, surroundings: &PlanSurroundings<'_>) -> PlanCheck {
        if text.len() > LARGEST {
            let message = format!("it is larger than {} MiB", LARGEST >> 20);
            let findings = vec![PlanFinding::fail("parseable", 1, message)];
            return PlanCheck { outline: Outline::default(), findings };
        }
        let lines = lines(text);
        let mut findings = parts(&lines);
        let outline = outline(&lines, surroundings.tree, &mut findings);
        commands(&lines, surroundings, &mut findings);
        PlanCheck { outline, findings }
    }
}

/// Checks that the three parts exist and are not empty.
fn parts(lines: &[PlanLine<'_>]) -> Vec<PlanFinding> {
    let mut findings = Vec::new();
    let last = lines.last().map_or(1, |line| line.number);
    for (part, id, title) in [
        (Part::Analysis, "has-analysis", "Analysis"),
        (Part::Steps, "has-steps", "Steps"),
        (Part::Verification, "has-verification", "Verification strategy"),
    ] {
        let Some(start) = lines.iter().find(|line| line.part == part) else {
            findings.push(PlanFinding::fail(
                id,
                last,
                format!("the heading `## {title}` is missing"),
            ));
            continue;
        };
        let is_empty = lines
            .iter()
            .filter(|line| line.part == part && !line.is_heading)
            .all(|line| line.text.trim_matches(['-', '*', '…', '.', ' ']).is_empty());
        if is_empty {
            let message = format!("nothing is below `## {title}`");
            findings.push(PlanFinding::fail(id, start.number, message));
        } else if part == Part::Steps && !lines.iter().any(is_step) {
            let message = "the steps are not a numbered list: write `1. …`, each one change that can be checked";
            findings.push(PlanFinding::fail(id, start.number, message));
        }
    }
    findings
}

fn is_step(line: &PlanLine<'_>) -> bool {
    let digits = line.text.bytes().take_while(u8::is_ascii_digit).count();
    line.part == Part::Steps
        && !line.is_fenced
        && digits > 0
        && line.text[digits..].starts_with(['.', ')'])
}

/// Collects the files named in the steps, and reports the unknown ones.
fn outline(
    lines: &[PlanLine<'_>],
    tree: &dyn SourceTree,
    findings: &mut Vec<PlanFinding>,
) -> Outline {
    let mut outline = Outline::default();
    for line in lines {
        if let Some(kind) = MarkerKind::read(line.text) {
            let target = outline.items.last().map(|item| item.name.clone());
            outline.markers.push(ScopeMarker { kind, line: line.number, target });
        }
        if line.part != Part::Steps || line.is_fenced {
            continue;
        }
        let lower = line.text.to_lowercase();
        let is_new =
            ["(new)", "new file", "create", "add a file"].iter().any(|word| lower.contains(word));
        for span in spans(line.text).filter(|span| looks_like_file(span)) {
            let name = span.trim_start_matches("./").to_owned();
            let exists = tree.paths().binary_search(&name).is_ok();
            if !exists && !is_new {
                let hint = nearest_file(&name, tree);
                let message =
                    format!("`{name}` does not exist{hint}; write `(new)` if the step creates it");
                findings.push(PlanFinding::fail("files-exist", line.number, message));
            }
            if outline.items.iter().any(|item| item.name == name) {
                continue;
            }
            let kind = if exists { PlannedKind::ChangedFile } else { PlannedKind::NewFile };
            let (parent, fields) = (None, Vec::new());
            outline.items.push(Planned { kind, name, line: line.number, parent, fields });
        }
    }
    outline
}

/// Whether a code span looks like a file path: no blanks, and a file name with an extension.
fn looks_like_file(span: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "/._-@+[]".contains(c);
    let file = span.rsplit('/').next().unwrap_or(span);
    let extension = file
        .rsplit_once('.')
        .map_or("", |(stem, extension)| if stem.is_empty() { "" } else { extension });
    let is_extension = (1..=5).contains(&extension.len())
        && extension.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && extension.bytes().any(|byte| byte.is_ascii_alphabetic());
    // `foo.bar` without a directory is as likely a member access as a file.
    let is_known = [
        "rs", "toml", "md", "json", "ts", "tsx", "js", "jsx", "css", "html", "py", "go", "sh",
        "yml", "yaml", "txt", "c", "h", "java", "rb",
    ]
    .contains(&extension);
    span.chars().all(plain)
        && !span.starts_with('/')
        && is_extension
        && (span.contains('/') || is_known)
}

fn nearest_file(name: &str, tree: &dyn SourceTree) -> String {
    let file = name.rsplit('/').next().unwrap_or(name);
    let same = tree.paths().iter().find(|path| path.rsplit('/').next() == Some(file));
    let near = same.map(String::as_str).or_else(|| {
        ralph_model::nearest::nearest(name, tree.paths().iter().map(String::as_str))
            .first()
            .copied()
    });
    near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

/// Checks that every verification command can be started.
fn commands(
    lines: &[PlanLine<'_>],
    surroundings: &PlanSurroundings<'_>,
    findings: &mut Vec<PlanFinding>,
) {
    let scripts = manifest_scripts(surroundings.tree);
    for line in lines.iter().filter(|line| line.part == Part::Verification) {
        let mut found: Vec<&str> = Vec::new();
        if line.is_shell {
            found.push(line.text.trim_start_matches("$ "));
        } else if !line.is_fenced {
            found.extend(spans(line.text).filter(|span| span.contains(' ')));
        }
        for command in found {
            let Some(program) = first_word(command) else { continue };
            let path = program.trim_start_matches("./");
            let is_known = (surroundings.is_program)(program)
                || surroundings
                    .tree
                    .paths()
                    .binary_search_by(|known| known.as_str().cmp(path))
                    .is_ok()
                || scripts.iter().any(|script| script == program);
            if !is_known {
                let message = format!(
                    "`{program}` of `{command}` is neither on PATH, nor in the tree, nor a script of the manifest"
                );
                findings.push(PlanFinding::fail("known-commands", line.number, message));
            }
        }
    }
}

/// Returns the program of a command; `None` for prose, comments and shell syntax.
fn first_word(command: &str) -> Option<&str> {
    let is_assignment = |word: &&str| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        })
    };
    let program = command.split_whitespace().find(|word| !is_assignment(word))?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    let starts = program.starts_with(|c: char| c.is_ascii_lowercase() || c == '.' || c == '/');
    (starts && program.chars().all(plain)).then_some(program)
}

/// Returns the script names in `package.json`.
fn manifest_scripts(tree: &dyn SourceTree) -> Vec<String> {
    let manifest = tree.read("package.json").unwrap_or_default();
    let value: serde_json::Value = serde_json::from_str(&manifest).unwrap_or_default();
    let scripts = value.get("scripts").and_then(|scripts| scripts.as_object());
    scripts.map(|scripts| scripts.keys().cloned().collect()).unwrap_or_default()
}

#[cfg(test)]
#[path = "markdown_tests.rs"]
mod tests;
