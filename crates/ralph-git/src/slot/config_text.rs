//! The text of a git configuration file, with every value and subsection quoted so that git parses it back unchanged.

use std::fmt::Write as _;

/// A configuration file under construction.
#[derive(Debug, Default)]
pub(super) struct ConfigText {
    text: String,
}

impl ConfigText {
    /// Adds one setting, named as git lists it (`core.bare`, `remote.origin.url`).
    ///
    /// A name without a section, or with a line break in its subsection, cannot be written and is omitted.
    pub(super) fn set(&mut self, key: &str, value: &str) {
        let Some((section, rest)) = key.split_once('.') else { return };
        if key.contains(['\n', '\0', char::REPLACEMENT_CHARACTER]) || value.contains('\0') {
            return;
        }
        // Writing to a string cannot fail.
        let _ = match rest.rsplit_once('.') {
            Some((subsection, name)) => {
                let subsection = subsection.replace('\\', r"\\").replace('"', "\\\"");
                writeln!(self.text, "[{section} \"{subsection}\"]\n\t{name} = {}", quoted(value))
            }
            None => writeln!(self.text, "[{section}]\n\t{rest} = {}", quoted(value)),
        };
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }
}

fn quoted(value: &str) -> String {
    let mut text = String::from("\"");
    for letter in value.chars() {
        match letter {
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '"' | '\\' => text.extend(['\\', letter]),
            other => text.push(other),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::testing::{World, write};
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn git_reads_back_what_was_set(value in "\\PC{0,12}", odd in "[ \\t\\n\"\\\\#;=\\[\\]é]{0,6}", name in "[ -~]{1,8}") {
            let world = World::new();
            let mut text = ConfigText::default();
            let (key, value) = (format!("remote.{name}.url"), format!("{odd}{value}{odd}"));
            text.set("core.bare", "false");
            text.set(&key, &value);
            let file = world.path("config");
            write(&file, text.as_str());
            let read = world.git(&world.root, &["config", "--null", "--file", file.as_str(), "--get", &key]);
            // The test helper trims; the trailing NUL protects that side.
            prop_assert_eq!(read.strip_suffix("\0"), Some(value.trim_start()));
        }
    }
}
