//! The requirements on every spec: text, and a heading as its title.

/// A problem of a spec's text, with its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecFault {
    #[error("the file is empty")]
    Blank,
    #[error("no heading found: start with a line like `# Reset a forgotten password`")]
    NoHeading { line: usize },
    #[error("the heading has no text")]
    EmptyHeading { line: usize },
    #[error("this is still the template's text: replace it, or delete the section")]
    Template { line: usize },
}

impl SpecFault {
    /// Returns the line of the problem.
    pub const fn line(self) -> usize {
        match self {
            SpecFault::Blank => 1,
            SpecFault::NoHeading { line }
            | SpecFault::EmptyHeading { line }
            | SpecFault::Template { line } => line,
        }
    }
}

/// Placeholders of the template; a spec that still has one was not filled in.
const PLACEHOLDERS: [&str; 5] = [
    "What should exist when this is done, and for whom.",
    "- What must not change, and what must not be used.",
    "- Files and documents to read before starting.",
    "- One checkable statement per line.",
    "- Commands that show it works, fastest first.",
];

/// Checks the text of a spec and returns the text of its first heading.
pub fn check(text: &str) -> Result<&str, SpecFault> {
    let heading = title(text)?;
    let unfilled = |line: &str| PLACEHOLDERS.contains(&line.trim());
    match text.lines().position(unfilled) {
        Some(at) => Err(SpecFault::Template { line: at + 1 }),
        None => Ok(heading),
    }
}

/// Returns the text of a spec's first heading.
pub fn title(text: &str) -> Result<&str, SpecFault> {
    let text = text.trim_start_matches('\u{feff}');
    let first_text = text.lines().position(|line| !line.trim().is_empty());
    let first_text = first_text.ok_or(SpecFault::Blank)?;
    let mut fence: Option<&str> = None;
    let mut empty_heading = None;
    // The previous line, if a line of `=` or `-` could underline it.
    let mut paragraph: Option<&str> = None;
    for (at, line) in text.lines().enumerate() {
        let above = paragraph.take();
        if let Some(mark) = fence {
            if closes_fence(line, mark) {
                fence = None;
            }
            continue;
        }
        if indentation(line) > 3 {
            paragraph = above.filter(|_| !line.trim().is_empty());
            continue;
        }
        fence = fence_mark(line);
        match heading(line) {
            Some("") => empty_heading = empty_heading.or(Some(at + 1)),
            Some(heading) => return Ok(heading),
            None => match above {
                Some(title) if is_underline(line) => return Ok(title),
                _ if fence.is_none() && begins_paragraph(line) => paragraph = Some(line.trim()),
                _ => {}
            },
        }
    }
    Err(match empty_heading {
        Some(line) => SpecFault::EmptyHeading { line },
        None => SpecFault::NoHeading { line: first_text + 1 },
    })
}

/// Returns the text for a new spec.
pub fn template(title: &str) -> String {
    // A multi-line title would end the heading early.
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    let [goal, constraints, reading, criteria, verification] = PLACEHOLDERS;
    format!(
        "# {title}\n\
         \n\
         ## Goal\n\
         \n\
         {goal}\n\
         \n\
         ## Constraints\n\
         \n\
         {constraints}\n\
         \n\
         ## Required reading\n\
         \n\
         {reading}\n\
         \n\
         ## Acceptance criteria\n\
         \n\
         {criteria}\n\
         \n\
         ## Verification\n\
         \n\
         {verification}\n"
    )
}

fn indentation(line: &str) -> usize {
    line.chars()
        .take_while(|c| matches!(c, ' ' | '\t'))
        .map(|c| if c == '\t' { 4 } else { 1 })
        .sum()
}

/// Returns the text after one to six `#`; `None` if the line is not a heading.
fn heading(line: &str) -> Option<&str> {
    let line = line.trim();
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    if !(1..=6).contains(&level) || !(text.is_empty() || text.starts_with([' ', '\t'])) {
        return None;
    }
    let text = text.trim();
    let open = text.trim_end_matches('#');
    // Trailing hashes close the heading if a space precedes them.
    Some(if open.is_empty() || open.ends_with([' ', '\t']) { open.trim_end() } else { text })
}

fn is_underline(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && (line.bytes().all(|b| b == b'=') || line.bytes().all(|b| b == b'-'))
}

/// Whether a line is prose, rather than a quotation, a list item, or a rule.
fn begins_paragraph(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !is_underline(line) && !line.starts_with(['>', '-', '*', '+', '|', '<'])
}

/// Returns the fence with which a line opens a code block.
fn fence_mark(line: &str) -> Option<&str> {
    let line = line.trim();
    ['`', '~'].into_iter().find_map(|mark| {
        let length = line.len() - line.trim_start_matches(mark).len();
        let rest = &line[length..];
        (length >= 3 && !(mark == '`' && rest.contains('`'))).then(|| &line[..length])
    })
}

fn closes_fence(line: &str, mark: &str) -> bool {
    let line = line.trim();
    line.starts_with(mark) && line.chars().all(|c| mark.starts_with(c))
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
