use std::time::Duration;

use jiff::ToSpan as _;
use ralph_engine::config::TerminalNotice;
use ralph_model::journal::{QuestionAsked, WorkflowEnded};

use super::*;

fn filter(on: &[&str], after: u64) -> Filter {
    let settings = NotifySettings {
        on: on.iter().map(|kind| (*kind).to_owned()).collect(),
        after: Duration::from_secs(after),
        terminal: TerminalNotice::Off,
        command: Vec::new(),
        webhook: None,
    };
    Filter::new(&settings, "/w")
}

fn entry(second: i64, event: impl Into<JournalEvent>) -> JournalEntry {
    let at = Timestamp::UNIX_EPOCH + second.seconds();
    JournalEntry { at, run: None, wf: None, event: event.into() }
}

fn question(id: &str) -> QuestionAsked {
    let (item, question) = ("0001-x".to_owned(), "which?".to_owned());
    let (kind, choices, commit) = (None, Vec::new(), None);
    QuestionAsked { id: id.to_owned(), item, question, kind, choices, commit }
}

fn ended(how: &str) -> WorkflowEnded {
    WorkflowEnded { how: how.to_owned() }
}

#[test]
fn a_notice_needs_a_kind_that_is_wanted_and_somebody_who_has_left() {
    let mut filter = filter(&["question", "finished"], 60);
    assert_eq!(filter.notice(&entry(0, question("early"))), None);
    let asked = filter.notice(&entry(90, question("late"))).unwrap();
    assert_eq!((asked.kind, asked.item.as_deref()), ("question", Some("0001-x")));
    assert_eq!(filter.notice(&entry(200, question("late"))), None, "the same again");
    assert_eq!(filter.notice(&entry(210, ended("trouble"))), None, "not wanted");
    assert_eq!(filter.notice(&entry(300, ended("completed"))).unwrap().kind, "finished");
}

#[test]
fn one_kind_is_told_once_a_minute_and_an_interruption_never() {
    let mut filter = filter(&["question", "failed"], 0);
    assert!(filter.notice(&entry(0, question("a"))).is_some());
    assert_eq!(filter.notice(&entry(30, question("b"))), None);
    assert!(filter.notice(&entry(61, question("c"))).is_some());
    assert_eq!(filter.notice(&entry(62, ended("interrupted"))), None);
    assert_eq!(filter.notice(&entry(63, ended("stuck"))).unwrap().text, "stopped: stuck");
}
