//! A spec as prompts show it: one rule for all workflows about how much of it they hold.

use camino::Utf8PathBuf;

/// The longest spec that is put into a prompt. What is longer has to be read from its file.
const LONGEST: usize = 200 << 10;

/// A spec's name, place and text.
pub(crate) struct SpecText {
    pub(crate) id: String,
    /// Its path below `specs/`, or from the workspace.
    pub(crate) file: String,
    pub(crate) path: Utf8PathBuf,
    pub(crate) text: String,
}

impl SpecText {
    /// Cuts a text that is too long for a prompt, and says so in it.
    pub(crate) fn new(id: &str, file: &str, path: Utf8PathBuf, mut text: String) -> SpecText {
        if text.len() > LONGEST {
            text.truncate(text.floor_char_boundary(LONGEST));
            text.push_str("\n\n(The spec continues; read its file.)\n");
        }
        SpecText { id: id.to_owned(), file: file.to_owned(), path, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_that_is_too_long_is_cut_at_a_character_and_says_so() {
        let text = |text: String| SpecText::new("a", "a.md", "a.md".into(), text).text;
        assert_eq!(text("short".to_owned()), "short");
        let long = text(format!("x{}", "é".repeat(LONGEST)));
        assert!(long.len() < LONGEST + 100, "{}", long.len());
        assert!(long.ends_with("(The spec continues; read its file.)\n"));
    }
}
