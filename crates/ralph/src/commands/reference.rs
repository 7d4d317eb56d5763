//! The reference of all settings, as Markdown and as the manual page `ralph.toml(5)`.

use std::fmt::Write as _;

use ralph_engine::config::reference;

const INTRODUCTION: &str = "# Configuration

Ralph reads settings from, in order of precedence: command-line flags, environment variables, `ralph.toml` at the root of
the workspace, your own file (`$XDG_CONFIG_HOME/ralph/config.toml`, usually `~/.config/ralph/config.toml`), and the
defaults. `ralph config` shows what is in force and where it comes from; an unknown key is an error that names the
nearest known one.

`*` stands for any name, `<role>` for planner, interviewer, mapper, investigator, decomposer, verifier, implementer or
builder. `gate.*` are the keys of each `[[gate]]`.
";

/// Returns the settings whose name starts with `prefix` as Markdown; all of them with an introduction.
pub(super) fn markdown(prefix: &str) -> String {
    let mut text = if prefix.is_empty() { INTRODUCTION.to_owned() } else { String::new() };
    let mut section = None;
    for row in reference().iter().filter(|row| row.key.starts_with(prefix)) {
        let table = row.key.split_once('.').map_or("", |(table, _)| table);
        if section != Some(table.to_owned()) {
            let title = if table.is_empty() { "General" } else { table };
            let _ =
                write!(text, "\n## {title}\n\n| key | takes | default | |\n|---|---|---|---|\n");
            section = Some(table.to_owned());
        }
        let default = row.default.map(|value| format!("`{value}`")).unwrap_or_default();
        let variables = row.env.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
        let variables = match variables.as_slice() {
            [] => String::new(),
            names => format!(" Environment: {}.", names.join(", ")),
        };
        let (key, takes, what) = (&row.key, &row.takes, row.description);
        let _ = writeln!(text, "| `{key}` | {takes} | {default} | {what}{variables} |");
    }
    text
}

/// Returns the manual page of `ralph.toml`.
pub(super) fn manual() -> String {
    let mut page =
        ".TH ralph.toml 5\n.SH NAME\nralph.toml \\- settings of Ralph\n.SH SETTINGS\n".to_owned();
    for row in reference() {
        let default = row.default.map(|value| format!(" Default: {value}.")).unwrap_or_default();
        let env = match row.env.as_slice() {
            [] => String::new(),
            names => format!(" Environment: {}.", names.join(", ")),
        };
        let text = format!("{} Takes: {}.{default}{env}", row.description, row.takes);
        let _ = write!(page, ".TP\n\\fB{}\\fR\n{}\n", escaped(&row.key), escaped(&text));
    }
    page
}

/// Escapes text, so that roff does not interpret requests or hyphens.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_guide_is_the_reference() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let guide = std::fs::read_to_string(path).unwrap();
        assert!(
            guide == super::markdown(""),
            "docs/configuration.md is out of date: `ralph config --reference > docs/configuration.md`"
        );
    }

    #[test]
    fn the_manual_page_has_every_setting() {
        let page = super::manual();
        for row in ralph_engine::config::reference() {
            assert!(page.contains(&format!("\\fB{}\\fR", super::escaped(&row.key))), "{}", row.key);
        }
    }
}
