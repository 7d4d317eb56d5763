//! The channels of notifications: the person's terminal, a command, a webhook.

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use ralph_engine::config::{NotifySettings, TerminalNotice};
use ralph_model::shown::shown;
use ralph_proc::capture::{CaptureRequest, ask_with_input};

use super::PersonNotice;

/// The timeout of a command or a webhook.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sends a notification through every configured channel; returns the failures.
pub(super) fn send(settings: &NotifySettings, notice: &PersonNotice) -> Vec<String> {
    let mut failed = Vec::new();
    let sequence = sequence(settings.terminal, notice, &|name| env::var(name).ok());
    if let Some(sequence) = sequence
        && let Ok(mut terminal) = OpenOptions::new().write(true).open("/dev/tty")
    {
        let _ = terminal.write_all(sequence.as_bytes());
    }
    let json = serde_json::to_string(notice).expect("a notice has string keys only");
    if let Some((program, args)) = settings.command.split_first() {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        failed.extend(run(program, &args, &json).map(|why| format!("`{program}` {why}")));
    }
    if let Some(url) = &settings.webhook {
        // The address may contain a secret, and arguments are visible to all users, so it is passed on stdin.
        let request = format!(
            "url = {}\nrequest = \"POST\"\nheader = \"Content-Type: application/json\"\ndata = {}\n",
            quoted(url),
            quoted(&json)
        );
        let args = ["--silent", "--show-error", "--fail", "--max-time", "10", "--config", "-"];
        failed.extend(run("curl", &args, &request).map(|why| format!("webhook: curl {why}")));
    }
    failed
}

fn run(program: &str, args: &[&str], input: &str) -> Option<String> {
    let request = CaptureRequest {
        program: Path::new(program),
        args,
        names: &[],
        cwd: None,
        env: &[],
        timeout: PATIENCE,
        cap: 4 << 10,
    };
    match ask_with_input(&request, input.as_bytes()) {
        Ok(answer) if answer.code == Some(0) => None,
        Ok(answer) if answer.timed_out => Some("took longer than 10 s".to_owned()),
        Ok(answer) => {
            let said = String::from_utf8_lossy(&answer.stderr);
            let said = said.lines().last().map(|line| format!(": {line}")).unwrap_or_default();
            Some(format!("failed{said}"))
        }
        Err(error) => Some(format!("could not be started: {error}")),
    }
}

/// Quotes a value for curl's configuration file.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns the terminal sequence: with Ralph's own text only, never an agent's.
fn sequence(
    how: TerminalNotice,
    notice: &PersonNotice,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Option<String> {
    let how = match how {
        TerminalNotice::Auto => match variable("TERM_PROGRAM").as_deref() {
            Some("iTerm.app") => TerminalNotice::Osc9,
            Some("Apple_Terminal" | "vscode") => TerminalNotice::Bell,
            _ if variable("ALACRITTY_WINDOW_ID").is_some() => TerminalNotice::Bell,
            _ if matches!(variable("TERM").as_deref(), None | Some("dumb" | "linux")) => {
                TerminalNotice::Bell
            }
            _ => TerminalNotice::Osc777,
        },
        how => how,
    };
    let workspace = notice.workspace.rsplit('/').next().unwrap_or_default();
    let words = shown(&format!("{} in {workspace}", notice.kind)).replace(';', ",");
    let inner = match how {
        TerminalNotice::Osc777 => format!("\x1b]777;notify;Ralph;{words}\x1b\\"),
        TerminalNotice::Osc9 => format!("\x1b]9;Ralph: {words}\x1b\\"),
        TerminalNotice::Bell => return Some("\x07".to_owned()),
        TerminalNotice::Off | TerminalNotice::Auto => return None,
    };
    // tmux passes wrapped sequences on, and marks the window at a bell.
    Some(match variable("TMUX") {
        Some(_) => format!("\x1bPtmux;{}\x1b\\\x07", inner.replace('\x1b', "\x1b\x1b")),
        None => inner,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice() -> PersonNotice {
        let at = "2026-01-31T12:00:00Z".parse().unwrap();
        let text = "an agent's \x1b words".to_owned();
        PersonNotice {
            kind: "question",
            workspace: "/home/me/my;app".to_owned(),
            item: None,
            text,
            at,
        }
    }

    #[test]
    fn each_terminal_gets_what_it_understands_and_no_word_of_an_agent() {
        let plain = "\x1b]777;notify;Ralph;question in my,app\x1b\\";
        let rows = [
            (&[("TERM", "xterm-256color")][..], Some(plain)),
            (&[("TERM", "dumb")][..], Some("\x07")),
            (&[("TERM_PROGRAM", "vscode"), ("TERM", "xterm")][..], Some("\x07")),
            (&[("TERM_PROGRAM", "iTerm.app")][..], Some("\x1b]9;Ralph: question in my,app\x1b\\")),
            (
                &[("TERM", "tmux"), ("TMUX", "/tmp/x")][..],
                Some("\x1bPtmux;\x1b\x1b]777;notify;Ralph;question in my,app\x1b\x1b\\\x1b\\\x07"),
            ),
        ];
        for (variables, expected) in rows {
            let look = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(sequence(TerminalNotice::Auto, &notice(), &look).as_deref(), expected);
        }
        assert_eq!(sequence(TerminalNotice::Off, &notice(), &|_| None), None);
    }

    #[test]
    fn a_command_reads_the_notice_and_a_failing_one_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("notice");
        let script = format!("cat > {}", file.display());
        let settings = |command: &[&str]| NotifySettings {
            on: Vec::new(),
            after: Duration::ZERO,
            terminal: TerminalNotice::Off,
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            webhook: None,
        };
        assert_eq!(send(&settings(&["sh", "-c", &script]), &notice()), Vec::<String>::new());
        let read: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        assert_eq!(read["kind"], "question");
        let failed = send(&settings(&["sh", "-c", "echo no bus >&2; exit 1"]), &notice());
        assert_eq!(failed, ["`sh` failed: no bus"]);
        assert!(send(&settings(&["/nonexistent"]), &notice())[0].contains("could not be started"));
    }
}
