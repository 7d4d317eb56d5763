//! `no-hardcoded-colors`: colours must come from the theme, not from a source file.
//!
//! Detects palette utility classes with a shade, colour functions, and hex colours in value position. Colours built
//! from a theme variable and anything in a comment are ignored.

use crate::tree::{has_extension, is_below};
use crate::tsx::SourceFacts;

use super::{CheckInput, CheckResult};

const PALETTE: [&str; 22] = [
    "slate", "gray", "zinc", "neutral", "stone", "red", "orange", "amber", "yellow", "lime",
    "green", "emerald", "teal", "cyan", "sky", "blue", "indigo", "violet", "purple", "fuchsia",
    "pink", "rose",
];

const FUNCTIONS: [&str; 6] = ["rgb(", "rgba(", "hsl(", "hsla(", "oklch(", "oklab("];

/// The maximum number of occurrences to list.
const MOST: usize = 20;

pub(super) fn none_hardcoded(input: &CheckInput<'_>) -> CheckResult {
    let is_source =
        |path: &&String| is_below(path, &input.rules.source) && has_extension(path, &["ts", "tsx"]);
    let mut problems = Vec::new();
    for path in input.tree.paths().iter().filter(is_source) {
        let code = SourceFacts::of(&input.tree.read(path).unwrap_or_default()).code;
        for (at, line) in code.lines().enumerate() {
            for color in colors(line) {
                problems.push(format!("{path}:{}: {color}", at + 1));
            }
        }
    }
    let more = problems.len().saturating_sub(MOST);
    problems.truncate(MOST);
    if more > 0 {
        problems.push(format!("and {more} more"));
    }
    CheckResult::of(&problems)
}

/// Returns the hard-coded colours in a line.
fn colors(line: &str) -> Vec<&str> {
    let classes = line.split(|c: char| c.is_whitespace() || "\"'`{}()[],;".contains(c));
    let mut found: Vec<&str> = classes.filter(|token| is_palette_class(token)).collect();
    found.extend(FUNCTIONS.iter().flat_map(|function| calls(line, function)));
    found.extend(hex_colors(line));
    found
}

/// Whether a token is a utility class like `hover:bg-red-500/50`.
fn is_palette_class(token: &str) -> bool {
    let class = token.rsplit(':').next().unwrap_or(token);
    let class = class.split('/').next().unwrap_or(class);
    let Some((rest, shade)) = class.rsplit_once('-') else { return false };
    let Some((utility, color)) = rest.rsplit_once('-') else { return false };
    let is_shade = matches!(shade, "50" | "950")
        || (shade.len() == 3 && shade.ends_with("00") && !shade.starts_with('0'))
            && shade.bytes().all(|byte| byte.is_ascii_digit());
    is_shade && !utility.is_empty() && PALETTE.contains(&color)
}

/// Returns calls of a colour function whose first argument is not a theme variable.
fn calls<'l>(line: &'l str, function: &str) -> Vec<&'l str> {
    let found = line.match_indices(function).filter(|(at, _)| {
        let before = line[..*at].chars().next_back();
        let is_whole = before.is_none_or(|c| !c.is_alphanumeric() && c != '_');
        let inside = line[at + function.len()..].trim_start();
        let is_value = inside.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        is_whole && is_value
    });
    found
        .map(|(at, _)| {
            let end = line[at..].find(')').map_or(line.len(), |end| at + end + 1);
            &line[at..end]
        })
        .collect()
}

/// Returns hex colours used as values: not link targets, and not parts of longer words.
fn hex_colors(line: &str) -> Vec<&str> {
    let found = line.match_indices('#').filter_map(|(at, _)| {
        let digits = line[at + 1..].bytes().take_while(u8::is_ascii_hexdigit).count();
        let end = at + 1 + digits;
        let after = line[end..].chars().next();
        let is_whole = after.is_none_or(|c| !c.is_alphanumeric() && c != '-' && c != '_');
        let before = &line[..at];
        let in_value = before.ends_with(['"', '\'', '`', '[', ':', ' ', ',', '(']);
        let target = before.trim_end_matches(['"', '\'', '`', '{', ' ']);
        let is_link =
            ["href=", "to=", "id=", "href:", "to:"].iter().any(|link| target.ends_with(link));
        let fits = matches!(digits, 3 | 4 | 6 | 8) && is_whole && in_value && !is_link;
        fits.then(|| &line[at..end])
    });
    found.collect()
}
