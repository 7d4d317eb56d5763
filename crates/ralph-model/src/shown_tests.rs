use proptest::prelude::*;
use regex_syntax::hir::{Class, HirKind};

use super::*;

/// Every character of a Unicode class.
fn class(pattern: &str) -> Vec<char> {
    let parsed = regex_syntax::parse(pattern).unwrap();
    let HirKind::Class(Class::Unicode(class)) = parsed.kind() else { panic!("{pattern}") };
    class.iter().flat_map(|range| range.start()..=range.end()).collect()
}

/// Format characters that are drawn: signs before or around Arabic, Syriac and Kaithi numbers.
const DRAWN: &str = "[\u{600}-\u{605}\u{6dd}\u{70f}\u{890}\u{891}\u{8e2}\u{110bd}\u{110cd}]";

#[test]
fn exactly_what_unicode_calls_control_format_separator_or_ignorable_is_hidden() {
    let unicode = class(&format!(
        r"[[\p{{Cc}}\p{{Cf}}\p{{Zl}}\p{{Zp}}\p{{Bidi_Control}}\p{{Default_Ignorable_Code_Point}}]--{DRAWN}]"
    ));
    let hidden: Vec<char> = ('\0'..=char::MAX).filter(|c| is_hidden(*c)).collect();
    let missing: Vec<_> = unicode.iter().filter(|c| !hidden.contains(c)).collect();
    let too_many: Vec<_> = hidden.iter().filter(|c| unicode.binary_search(c).is_err()).collect();
    assert!(missing.is_empty() && too_many.is_empty(), "{missing:?} {too_many:?}");
    for c in hidden {
        let text = format!("a{c}b");
        let visible = shown(&text);
        assert!(visible.starts_with("a\\") && visible.ends_with('b'), "{c:?}: {visible}");
        assert!(visible.chars().all(|c| c.is_ascii_graphic()), "{c:?}: {visible}");
        let json = shown_json(serde_json::to_string(&text).unwrap());
        assert!(json.is_ascii() && !json.contains('\u{7f}'), "{c:?}: {json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}

#[test]
fn hostile_text_is_readable_and_the_rest_stays_as_it_is() {
    for (text, expected) in [
        ("plain", "plain"),
        ("größer 日本語 e\u{301}", "größer 日本語 e\u{301}"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
        ("\u{9b}2J\u{7f}", "\\u{9b}2J\\u{7f}"),
        ("exe.\u{202e}fdp", "exe.\\u{202e}fdp"),
        ("a\u{200b}b\u{feff}\u{ad}", "a\\u{200b}b\\u{feff}\\u{ad}"),
        ("one\u{2028}two", "one\\u{2028}two"),
        ("back\\slash", "back\\slash"),
        // Emoji as typed by people.
        (
            "⚠\u{fe0f} 1\u{fe0f}\u{20e3} 👩\u{200d}💻 ❤\u{fe0f}\u{200d}🔥",
            "⚠\u{fe0f} 1\u{fe0f}\u{20e3} 👩\u{200d}💻 ❤\u{fe0f}\u{200d}🔥",
        ),
        // The same characters where they have no meaning.
        ("\u{fe0f}\u{200d}💻", "\\u{fe0f}\\u{200d}💻"),
        (
            "a\u{fe0f} 1\u{fe0f} 👩\u{200d} \u{200d}x ⚠\u{fe0f}\u{fe0f}",
            "a\\u{fe0f} 1\\u{fe0f} 👩\\u{200d} \\u{200d}x ⚠\u{fe0f}\\u{fe0f}",
        ),
    ] {
        assert_eq!(shown(text), expected);
    }
    let lines: Vec<_> = shown_lines("a\tb\r\nc\u{1b}[2J\n").collect();
    assert_eq!(lines, ["a    b", "c\\u{1b}[2J"]);
}

/// Characters of every relevant kind, close together.
fn any_text() -> impl Strategy<Value = String> {
    let odd = "[\u{0}-\u{1f}\u{7f}-\u{9f}\u{ad}\u{200b}-\u{200f}\u{2028}-\u{202e}\u{2060}-\u{206f}\u{fe00}-\u{fe0f}\u{feff}\u{e0000}-\u{e007f}]";
    let kinds = prop_oneof![
        Just("[ -~]"),
        Just(odd),
        Just("[0-9#👩💻⚠❤🔥\u{20e3}\u{fe0f}\u{200d}]"),
        Just("\\PC")
    ];
    prop::collection::vec(kinds.prop_flat_map(|kind| kind), 0..30).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn whatever_the_text_it_hides_nothing_and_is_made_harmless_once(text in any_text()) {
        let visible = shown(&text).into_owned();
        let emoji_only = |c: char| matches!(c, JOINER | EMOJI_STYLE);
        prop_assert!(!visible.chars().any(|c| is_hidden(c) && !emoji_only(c)), "{visible:?}");
        prop_assert_eq!(&*shown(&visible), &visible);
        if !text.chars().any(is_hidden) {
            prop_assert_eq!(visible, text);
        }
    }

    #[test]
    fn json_keeps_its_value(text in any_text()) {
        let json = shown_json(serde_json::to_string_pretty(&[&text]).unwrap());
        prop_assert!(!json.chars().any(|c| c != '\n' && is_hidden(c)));
        prop_assert_eq!(serde_json::from_str::<Vec<String>>(&json).unwrap(), [text]);
    }
}
