//! The text of a new `ralph.toml`: the findings with their source files, and the most requested settings.
//!
//! Whatever names were found, the text is valid: values are quoted, and a comment never leaves its line.

use std::fmt::Write;

use crate::config::{render_list, render_string};
use crate::detect::agents::FoundAgent;
use crate::detect::checks::{SuggestedCheckout, SuggestedGate, Suggestions};

/// The content of a new configuration.
pub(super) struct NewSettings<'a> {
    pub(super) agent: Option<&'a str>,
    pub(super) found: &'a [FoundAgent],
    /// Set if it is not a default path.
    pub(super) home: Option<String>,
    pub(super) mailbox: Option<&'a str>,
    pub(super) suggestions: &'a Suggestions,
}

impl NewSettings<'_> {
    pub(super) fn render(&self) -> String {
        let mut text = String::from(
            "# Ralph's settings for this workspace.\n\
             # `ralph config` shows every setting with its value and origin.\n\n",
        );
        text.push_str(
            "# Sandbox mode for agents: strict, kernel, auto, detect or off.\n\
             boundary = \"auto\"\n",
        );
        if let Some(home) = &self.home {
            text.push_str("\n# Where Ralph's committed files are.\n");
            line(&mut text, &format!("home = {}", render_string(home)));
        }
        if let Some(mailbox) = self.mailbox {
            text.push_str("\n# The default, .ralph, belongs to another tool.\n");
            line(&mut text, &format!("mailbox = {}", render_string(mailbox)));
        }
        // The last of the keys without a table: with an agent's own table below it, they still stand above.
        self.render_agent(&mut text);
        render_checkout(&mut text, &self.suggestions.checkout);
        render_gates(&mut text, &self.suggestions.gates);
        text
    }

    fn render_agent(&self, text: &mut String) {
        let usable = self.found.iter().filter(|agent| agent.is_usable());
        let others: Vec<_> = usable
            .map(|agent| agent.name.as_str())
            .filter(|name| Some(*name) != self.agent)
            .collect();
        match self.agent {
            Some(agent) => {
                text.push_str("\n# The agent to use; `ralph agent list` shows all.\n");
                if !others.is_empty() {
                    comment(text, &format!("Also found here: {}.", others.join(", ")));
                }
                line(text, &format!("agent = {}", render_string(agent)));
            }
            None => text.push_str(
                "\n# The agent to use. None was found when this file was written.\n\
                 # agent = \"codex\"\n",
            ),
        }
    }
}

fn render_checkout(text: &mut String, checkout: &SuggestedCheckout) {
    if checkout == &SuggestedCheckout::default() {
        return;
    }
    text.push_str("\n# Ralph runs gates and agents in checkouts of its own.\n[checkout]\n");
    if !checkout.setup.is_empty() {
        text.push_str("# Prepares one when it is new or a lock file has changed.\nsetup = [\n");
        for command in &checkout.setup {
            line(text, &format!("    {},", render_list(command)));
        }
        text.push_str("]\n");
    }
    if !checkout.cache.is_empty() {
        text.push_str("# Kept between gate runs; [] for a clean build every time.\n");
        line(text, &format!("cache = {}", render_list(&checkout.cache)));
    }
}

fn render_gates(text: &mut String, gates: &[SuggestedGate]) {
    if gates.is_empty() {
        text.push_str(
            "\n# No check of the project was recognised. A gate is a command that Ralph itself runs\n\
             # before it accepts work: a program and its arguments, no shell.\n\
             # [[gate]]\n\
             # name = \"tests\"\n\
             # run = [\"make\", \"test\"]\n",
        );
        return;
    }
    text.push_str(
        "\n# Gates: checks that Ralph itself runs before it accepts work.\n\
         # Optional: timeout = \"30m\", paths = [\"src/**\"], net = true, unix = true.\n",
    );
    for gate in gates {
        text.push('\n');
        comment(text, &gate.why);
        text.push_str("[[gate]]\n");
        line(text, &format!("name = {}", render_string(&gate.name)));
        line(text, &format!("run = {}", render_list(&gate.run)));
        if let Some(repo) = &gate.repo {
            line(text, &format!("repo = {}", render_string(repo)));
        }
        if gate.fast {
            text.push_str("fast = true\n");
        }
    }
}

/// Writes a comment. Characters that could end its line, or are not allowed in one, become question marks.
fn comment(text: &mut String, words: &str) {
    let words = words.replace(|c: char| c.is_control(), "?");
    line(text, &format!("# {words}"));
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string can be written to");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn render(agent: Option<&str>, suggestions: &Suggestions) -> toml::Table {
        let settings = NewSettings { agent, found: &[], home: None, mailbox: None, suggestions };
        settings.render().parse().unwrap()
    }

    fn strings(value: &toml::Value) -> Vec<String> {
        let words = value.as_array().unwrap().iter();
        words.map(|word| word.as_str().unwrap().to_owned()).collect()
    }

    fn any_gate() -> impl Strategy<Value = SuggestedGate> {
        let words = prop::collection::vec(any::<String>(), 1..5);
        (any::<String>(), words, any::<bool>(), any::<String>()).prop_map(
            |(name, run, fast, why)| {
                let repo = fast.then(|| why.clone());
                SuggestedGate { name, run, repo, fast, why }
            },
        )
    }

    proptest! {
        #[test]
        fn whatever_is_suggested_reads_back_as_it_was(
            gates in prop::collection::vec(any_gate(), 0..4),
            setup in prop::collection::vec(prop::collection::vec(any::<String>(), 1..3), 0..3),
            cache in prop::collection::vec(any::<String>(), 0..3),
            agent in prop::option::of(any::<String>()),
        ) {
            let checkout = SuggestedCheckout { setup: setup.clone(), cache: cache.clone() };
            let suggestions = Suggestions { gates: gates.clone(), checkout };
            let table = render(agent.as_deref(), &suggestions);
            prop_assert_eq!(table.get("agent").and_then(|v| v.as_str()), agent.as_deref());
            let read = table.get("gate").and_then(|gates| gates.as_array()).cloned();
            let read = read.unwrap_or_default();
            prop_assert_eq!(read.len(), gates.len());
            for (read, gate) in read.iter().zip(&gates) {
                prop_assert_eq!(read["name"].as_str(), Some(gate.name.as_str()));
                prop_assert_eq!(strings(&read["run"]), gate.run.clone());
                let repo = read.get("repo").and_then(toml::Value::as_str);
                prop_assert_eq!(repo, gate.repo.as_deref());
                let fast = read.get("fast").and_then(toml::Value::as_bool);
                prop_assert_eq!(fast.unwrap_or(false), gate.fast);
            }
            let section = table.get("checkout").and_then(toml::Value::as_table).cloned();
            let section = section.unwrap_or_default();
            let read = section.get("setup").and_then(toml::Value::as_array).cloned();
            let read: Vec<_> = read.unwrap_or_default().iter().map(strings).collect();
            prop_assert_eq!(read, setup);
            prop_assert_eq!(section.get("cache").map(strings).unwrap_or_default(), cache);
        }
    }
}
