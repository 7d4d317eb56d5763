use proptest::prelude::*;

use super::*;

fn summary_of(json: &str) -> String {
    read::<Summary>(json).unwrap().0
}

#[test]
fn the_telling_argument_of_a_tool_is_its_summary() {
    assert_eq!(
        summary_of(r#"{"timeout":5,"description":"run it","command":"ls\n -la"}"#),
        "ls -la"
    );
    assert_eq!(summary_of(r#"{"file_path":"/a/b.rs","content":"x"}"#), "/a/b.rs");
    assert_eq!(summary_of(r#"{"other":"what there is"}"#), "what there is");
    assert_eq!(summary_of(r#"["bash","-lc","make"]"#), "bash -lc make");
    assert_eq!(
        summary_of(r#"[{"type":"text","text":"one"},{"type":"text","text":"two"}]"#),
        "one two"
    );
    assert_eq!(summary_of("{}"), "");
    assert_eq!(summary_of("17"), "");
}

#[test]
fn a_long_summary_ends_with_a_sign_that_there_was_more() {
    let text = "é".repeat(300);
    assert_eq!(summary(&text), format!("{}…", "é".repeat(199)));
    assert_eq!(summary(&text[..400]), "é".repeat(200));
}

#[test]
fn fields_of_another_type_are_empty() {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Line<'a> {
        #[serde(borrow)]
        text: Str<'a>,
        count: Count,
        money: Money,
    }
    let line: Line<'_> = read(r#"{"text":{"a":[1]},"count":"7","money":null}"#).unwrap();
    assert_eq!((&*line.text, line.count.0, line.money.0), ("", 0, None));
    let line: Line<'_> = read(r#"{"text":"a\"b","count":7.0,"money":3}"#).unwrap();
    assert_eq!((&*line.text, line.count.0, line.money.0), ("a\"b", 7, Some(3.0)));
}

#[test]
fn a_string_without_escapes_is_not_copied() {
    assert!(matches!(read::<Str<'_>>(r#""plain""#), Some(Str(Cow::Borrowed("plain")))));
}

#[test]
fn escape_sequences_are_removed() {
    let coloured = "\u{1b}[91m\u{1b}[1mError: \u{1b}[0mgone\r";
    assert_eq!(without_escapes(coloured), "Error: gone");
    assert_eq!(without_escapes("\u{1b}]0;title\u{7}a\tb\u{1b}]8;;x\u{1b}\\c"), "a\tbc");
}

#[test]
fn a_status_is_found_behind_its_word() {
    assert_eq!(status_in("exceeded retry limit, last status: 429 Too Many Requests"), Some(429));
    assert_eq!(status_in("unexpected status 401 Unauthorized"), Some(401));
    assert_eq!(status_in("the status quo"), None);
}

#[test]
fn an_agent_that_recovers_has_a_last_word_and_no_error() {
    let mut ending = Ending::default();
    let failure =
        Failure { kind: ErrorKind::Server, message: "overloaded".to_owned(), resets_at: None };
    ending.failed(failure);
    ending.completed("done".to_owned());
    let mut events = Vec::new();
    ending.tell(Some(ProcessExit::Code(0)), &mut events);
    assert_eq!(events, [AgentEvent::Final { text: "done".to_owned() }]);
}

#[test]
fn an_agent_that_did_not_start_is_explained_by_its_stderr() {
    let mut ending = Ending::default();
    ending.stderr("\u{1b}[31merror: unknown option\u{1b}[0m");
    ending.stderr("");
    let mut events = Vec::new();
    ending.tell(Some(ProcessExit::Code(2)), &mut events);
    let message = "error: unknown option".to_owned();
    assert_eq!(events, [AgentEvent::Error { kind: ErrorKind::Other, message, fatal: false }]);
}

proptest! {
    #[test]
    fn a_summary_is_one_line_of_bounded_length(text in ".{0,600}|[a-z \n\t]{0,600}") {
        let line = summary(&text);
        prop_assert!(line.chars().count() <= SUMMARY_CHARS);
        prop_assert!(!line.contains(|c: char| c.is_control()));
        prop_assert_eq!(line.trim(), &*line);
    }

    #[test]
    fn text_without_escapes_has_no_control_characters(text in "(?s).{0,200}") {
        let clean = without_escapes(&text);
        prop_assert!(!clean.contains(|c: char| c.is_control() && c != '\t'));
    }
}
