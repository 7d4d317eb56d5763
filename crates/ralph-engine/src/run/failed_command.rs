//! Advice on a failed command: a program that was not found, a path that the sandbox refused.

use ralph_model::run::ProcessExit;

/// The facts of a failed command.
pub(super) struct FailedCommand<'a> {
    pub(super) agent: &'a str,
    /// Whether it is a plain command, whose requirements the person must configure.
    pub(super) is_text: bool,
    /// Whether the kernel restricted its writes.
    pub(super) is_confined: bool,
    pub(super) exit: Option<ProcessExit>,
    /// The last lines of stdout and stderr.
    pub(super) output: &'a str,
    pub(super) home: Option<&'a str>,
}

/// Messages of programs when the kernel refuses a path.
const REFUSALS: [&str; 5] =
    ["EACCES", "Permission denied", "permission denied", "EROFS", "Read-only file system"];

/// Directories below home that are shared by many programs, so that the next component counts as well.
const SHARED: [&str; 5] = [".config", ".cache", ".local", ".local/share", ".local/state"];

/// The name of an agent given as a command's text.
const UNNAMED: &str = "command";

impl FailedCommand<'_> {
    pub(super) fn advice(&self) -> Vec<String> {
        let mut advice = Vec::new();
        if self.is_text && self.exit == Some(ProcessExit::Code(127)) {
            advice.push(format!(
                "exit 127: program not found; check {} and PATH (without the directories that agents can write); name a \
                 script of your own by a path (`./agent.sh` or absolute)",
                if self.agent == UNNAMED { "the command".to_owned() } else { format!("`command` in [agents.{}]", self.agent) }
            ));
        }
        if let Some(path) = self.refused_path().filter(|_| self.is_confined) {
            let write = if self.agent == UNNAMED {
                format!("`writable = [\"{path}\"]`")
            } else {
                format!("`state = [\"{path}\"]` to [agents.{}]", self.agent)
            };
            advice.push(format!(
                "the sandbox refused `{path}`; if the agent keeps its own files there, add {write} in `ralph.toml`"
            ));
        }
        advice
    }

    /// Returns the directory to suggest for the last refused path below the home directory.
    fn refused_path(&self) -> Option<String> {
        let home =
            self.home.map(|home| home.trim_end_matches('/')).filter(|home| !home.is_empty())?;
        let is_refusal = |line: &&str| REFUSALS.iter().any(|word| line.contains(word));
        self.output.lines().rev().filter(is_refusal).find_map(|line| {
            let (_, rest) = line.split_once(home)?;
            let rest = rest.strip_prefix('/')?;
            let ends = |c: char| c.is_whitespace() || "'\"`,;:)]}\u{2019}".contains(c);
            let end = rest.find(ends).unwrap_or(rest.len());
            let mut place = String::new();
            for name in rest[..end].split('/').filter(|name| !name.is_empty()) {
                if !place.is_empty() {
                    place.push('/');
                }
                place.push_str(name);
                if !SHARED.contains(&place.as_str()) {
                    break;
                }
            }
            (!place.is_empty()).then(|| format!("~/{place}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = "node:fs:1372\nError: EACCES: permission denied, mkdir '/home/me/.qwen/tmp'\n  errno: -13\n";

    fn failed(output: &str) -> FailedCommand<'_> {
        FailedCommand {
            agent: "qwen",
            is_text: true,
            is_confined: true,
            exit: Some(ProcessExit::Code(1)),
            output,
            home: Some("/home/me"),
        }
    }

    #[test]
    fn a_refused_path_is_named_with_the_line_to_write() {
        let advice = failed(NODE).advice();
        assert_eq!(advice.len(), 1);
        assert!(advice[0].contains("`state = [\"~/.qwen\"]` to [agents.qwen]"), "{advice:?}");
        let unnamed = FailedCommand { agent: UNNAMED, ..failed(NODE) }.advice();
        assert!(unnamed[0].contains("`writable = [\"~/.qwen\"]`"), "{unnamed:?}");
        for (line, place) in [
            (
                "mkdir: cannot create directory '/home/me/.config/x/y': Permission denied",
                "~/.config/x",
            ),
            ("open /home/me/.local/share/tool/db: permission denied", "~/.local/share/tool"),
        ] {
            assert_eq!(failed(line).refused_path().as_deref(), Some(place));
        }
    }

    #[test]
    fn nothing_is_advised_where_nothing_was_refused() {
        assert_eq!(FailedCommand { is_confined: false, ..failed(NODE) }.advice(), [""; 0]);
        assert_eq!(failed("cannot open /home/me/.x: no such file").advice(), [""; 0]);
        assert_eq!(failed("EACCES /home/menace/x").advice(), [""; 0]);
    }

    #[test]
    fn exit_127_is_a_program_that_was_not_found() {
        let exit = Some(ProcessExit::Code(127));
        let advice = FailedCommand { exit, ..failed("sh: nosuch: not found") }.advice();
        assert!(advice[0].contains("program not found"), "{advice:?}");
        assert!(advice[0].contains("[agents.qwen]"), "{advice:?}");
    }
}
