//! The summary of a PRD for review: branch, stories, and whether each says how it is verified.

use super::{Prd, Story};

/// Programs whose name at the beginning of a phrase marks it as a command.
const PROGRAMS: [&str; 26] = [
    "bun", "bundle", "cargo", "cmake", "composer", "ctest", "curl", "deno", "docker", "dotnet",
    "go", "gradle", "just", "make", "mix", "mvn", "mypy", "npm", "npx", "php", "pnpm", "pytest",
    "python", "ruff", "uv", "yarn",
];

impl Prd {
    /// Returns the lines of the review.
    pub fn summary(&self) -> Vec<String> {
        let count = self.user_stories.len();
        let failing = self.failing().len();
        let mut lines = vec![
            format!("Branch: {}", self.branch_name),
            format!("Stories: {count} ({failing} failing)"),
        ];
        for story in &self.user_stories {
            let passes = if story.passes { " (passes)" } else { "" };
            lines.push(format!("  {}. {}: {}{passes}", story.priority, story.id, story.title));
            lines.push(format!("     {}", criteria(story)));
            let texts = story.acceptance_criteria.iter();
            lines.extend(texts.map(|text| format!("     - {}", text.trim().replace('\n', " "))));
        }
        let repeated = self.repeated_ids();
        if !repeated.is_empty() {
            lines.push(format!("Warning: several stories have the id {}", repeated.join(", ")));
        }
        lines
    }
}

fn criteria(story: &Story) -> String {
    let count = story.acceptance_criteria.len();
    let noun = if count == 1 { "criterion" } else { "criteria" };
    let with = match story.acceptance_criteria.iter().filter(|text| names_command(text)).count() {
        0 => "no verification command".to_owned(),
        1 => "1 with a verification command".to_owned(),
        commands => format!("{commands} with verification commands"),
    };
    format!("{count} acceptance {noun}, {with}")
}

/// Whether a criterion names a command: in backticks, after a shell prompt, or by the name of a known program.
fn names_command(criterion: &str) -> bool {
    let mut quoted = criterion.split('`').skip(1).step_by(2);
    if quoted.any(|text| text.trim().contains(char::is_alphabetic)) {
        return true;
    }
    let text = criterion.trim();
    if text.starts_with("$ ") {
        return true;
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    words.windows(2).any(|pair| PROGRAMS.contains(&pair[0].trim_start_matches(['(', '"', '\''])))
        || words.first().is_some_and(|word| word.starts_with("./"))
}
