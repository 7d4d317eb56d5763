//! Settings of notifications; allowed only in the person's own file.

use std::time::Duration;

use super::layer::{Layer, Located, split_key};

/// The kinds of notifications.
pub(super) const KINDS: [&str; 5] = ["question", "finished", "failed", "budget", "limit"];

/// When and how a person is notified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifySettings {
    /// The enabled kinds; empty disables notifications.
    pub on: Vec<String>,
    /// No notification for a workflow that began less than this ago.
    pub after: Duration,
    pub terminal: TerminalNotice,
    /// Receives the notification as JSON on stdin.
    pub command: Vec<String>,
    pub webhook: Option<String>,
}

impl NotifySettings {
    pub(super) fn of(settings: &Layer) -> NotifySettings {
        let get = |key: &str| settings.values.get(&split_key(key));
        let with_default = |key: &str| get(key).expect("the setting has a default");
        let usual = || KINDS[..3].iter().map(|kind| (*kind).to_owned()).collect();
        NotifySettings {
            on: get("notify.on").map_or_else(usual, |kinds| kinds.list().to_vec()),
            after: with_default("notify.after").duration(),
            terminal: match with_default("notify.terminal").text() {
                "osc777" => TerminalNotice::Osc777,
                "osc9" => TerminalNotice::Osc9,
                "bell" => TerminalNotice::Bell,
                "off" => TerminalNotice::Off,
                _ => TerminalNotice::Auto,
            },
            command: get("notify.command").map(Located::list).unwrap_or_default().to_vec(),
            webhook: get("notify.webhook").map(|url| url.text().to_owned()),
        }
    }
}

/// How a terminal is notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalNotice {
    Auto,
    Osc777,
    Osc9,
    Bell,
    Off,
}
