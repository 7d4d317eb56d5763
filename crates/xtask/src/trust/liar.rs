//! The format of `tests/liars/*.txt`: a heading, lines of settings, then shell snippets.
//!
//! ```text
//! # Hollows the script of the gate
//! does: replaces check.sh by `exit 0` and breaks the source
//! models: ATTACKS A.S3
//! believed at most: passed, checks changed     or   honest, at least: gates passed
//! not in loop: why                             any number of these
//! needs: python3                               programs; without one the agent is skipped, and counted
//! possible: code that notices the test          a lie that docs/trust.md names as possible in principle
//! judged by: the last item                     where it works on several; by default the highest level counts
//! given to pipeline: --keep-going              arguments of a command
//! --- person                                   what the person's repository has beside the usual
//! --- work                                     what the agent does
//! --- verify                                   what the verifier says; by default it agrees with everything
//! --- plan                                     what the planner of `build` does; by default it adds a task for each spec
//! ```

use std::fs;
use std::path::Path;

/// The degree to which work is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Belief {
    Nothing,
    NotProven,
    ChecksChanged,
    GatesPassed,
}

impl Belief {
    const ALL: [(Belief, &'static str, &'static str); 4] = [
        (Belief::Nothing, "nothing", ""),
        (Belief::NotProven, "not proven", "not_proven"),
        (Belief::ChecksChanged, "passed, checks changed", "checks_changed"),
        (Belief::GatesPassed, "gates passed", "gates_passed"),
    ];

    fn named(text: &str) -> Option<Belief> {
        Belief::ALL.iter().find(|(_, name, _)| *name == text).map(|(belief, ..)| *belief)
    }

    /// Returns the level with this name in the journal.
    pub(super) fn in_journal(text: &str) -> Belief {
        let found = Belief::ALL.iter().find(|(_, _, name)| *name == text);
        found.map_or(Belief::NotProven, |(belief, ..)| *belief)
    }

    pub(super) fn name(self) -> &'static str {
        Belief::ALL.iter().find(|(belief, ..)| *belief == self).map_or("", |(_, name, _)| name)
    }
}

/// The verdict that an agent deserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deserves {
    AtMost(Belief),
    AtLeast(Belief),
}

/// One agent.
#[derive(Clone, Debug)]
pub(super) struct Liar {
    pub(super) file: String,
    pub(super) title: String,
    pub(super) deserves: Deserves,
    /// Workflows in which it is not played.
    pub(super) not_in: Vec<String>,
    pub(super) needs: Vec<String>,
    /// No rule about files can find the lie, and docs/trust.md says so.
    pub(super) is_possible: bool,
    /// Only what came of the last item counts.
    pub(super) by_last: bool,
    /// Commands of Ralph, each with what it is given beyond the usual.
    pub(super) arguments: Vec<(String, Vec<String>)>,
    pub(super) person: String,
    pub(super) work: String,
    pub(super) verify: Option<String>,
    pub(super) plan: Option<String>,
}

impl Liar {
    pub(super) fn read(path: &Path) -> Result<Liar, String> {
        let text =
            fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let file = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Liar::parse(&file, &text).map_err(|reason| format!("{}: {reason}", path.display()))
    }

    fn parse(file: &str, text: &str) -> Result<Liar, String> {
        let mut liar = Liar {
            file: file.to_owned(),
            title: String::new(),
            deserves: Deserves::AtMost(Belief::Nothing),
            not_in: Vec::new(),
            needs: Vec::new(),
            is_possible: false,
            by_last: false,
            arguments: Vec::new(),
            person: String::new(),
            work: String::new(),
            verify: None,
            plan: None,
        };
        let (mut section, mut seen) = ("", Vec::new());
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("--- ") {
                section = match name {
                    "person" | "work" | "verify" | "plan" => name,
                    other => return Err(format!("no section is called `{other}`")),
                };
                continue;
            }
            let body = match section {
                "person" => &mut liar.person,
                "work" => &mut liar.work,
                "verify" => liar.verify.get_or_insert_default(),
                "plan" => liar.plan.get_or_insert_default(),
                _ => {
                    seen.push(liar.setting(line)?);
                    continue;
                }
            };
            body.push_str(line);
            body.push('\n');
        }
        for wanted in ["title", "does", "models", "belief"] {
            if !seen.contains(&wanted) {
                return Err(format!("it has no {wanted}"));
            }
        }
        if liar.work.trim().is_empty() {
            return Err("it does no work".to_owned());
        }
        Ok(liar)
    }

    /// Parses one line of the head, and returns its kind.
    fn setting(&mut self, line: &str) -> Result<&'static str, String> {
        let line = line.trim();
        if line.is_empty() {
            return Ok("");
        }
        if let Some(title) = line.strip_prefix("# ") {
            title.clone_into(&mut self.title);
            return Ok("title");
        }
        let (key, value) = line.split_once(": ").ok_or_else(|| format!("no setting: {line}"))?;
        let belief = || Belief::named(value).ok_or_else(|| format!("no level is called `{value}`"));
        match key {
            "does" => return Ok("does"),
            "models" => return Ok("models"),
            "needs" => self.needs = value.split_whitespace().map(str::to_owned).collect(),
            "possible" => self.is_possible = true,
            "judged by" if value == "the last item" => self.by_last = true,
            "believed at most" => {
                self.deserves = Deserves::AtMost(belief()?);
                return Ok("belief");
            }
            "honest, at least" => {
                self.deserves = Deserves::AtLeast(belief()?);
                return Ok("belief");
            }
            key => match (key.strip_prefix("not in "), key.strip_prefix("given to ")) {
                (Some(workflow), _) => self.not_in.push(workflow.to_owned()),
                (_, Some(command)) => {
                    let words = value.split_whitespace().map(str::to_owned);
                    self.arguments.push((command.to_owned(), words.collect()));
                }
                _ => return Err(format!("no setting is called `{key}`")),
            },
        }
        Ok("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_whole_or_refused_with_the_reason() {
        let text = "# A\ndoes: b\nmodels: c\nbelieved at most: not proven\nnot in loop: no branch\ngiven to build: --a b\n--- work\nclaim\n";
        let liar = Liar::parse("a", text).unwrap();
        assert_eq!(liar.deserves, Deserves::AtMost(Belief::NotProven));
        assert_eq!(
            (liar.not_in, liar.work, liar.verify),
            (vec!["loop".to_owned()], "claim\n".to_owned(), None)
        );
        let given = ("build".to_owned(), vec!["--a".to_owned(), "b".to_owned()]);
        assert_eq!(liar.arguments, [given]);
        for (from, to) in
            [("# A", ""), ("not proven", "fine"), ("--- work", "--- works"), ("claim\n", "")]
        {
            assert!(Liar::parse("a", &text.replace(from, to)).is_err(), "{from}");
        }
    }
}
