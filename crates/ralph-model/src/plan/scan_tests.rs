use super::*;
use proptest::prelude::*;
use serde::Deserialize as _;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

fn found(line: &str) -> Result<Vec<Member<'_>>, NotAnObject> {
    let mut found = Vec::new();
    members(line, |member| found.push(member)).map(|()| found)
}

/// The result of `serde_json`: an object with its keys and raw values.
fn oracle(line: &str) -> Option<BTreeMap<String, String>> {
    let raw = BTreeMap::<String, &serde_json::value::RawValue>::deserialize(
        &mut serde_json::Deserializer::from_str(line),
    );
    serde_json::from_str::<IgnoredAny>(line).ok()?;
    let object = raw.ok()?;
    Some(object.into_iter().map(|(key, value)| (key, value.get().to_owned())).collect())
}

fn agree(line: &str) {
    let here = found(line).ok().map(|members| {
        members
            .into_iter()
            .map(|member| {
                assert_eq!(&line[member.value_at], member.value.raw);
                (member.key.into_owned(), member.value.raw.to_owned())
            })
            .collect::<BTreeMap<_, _>>()
    });
    assert_eq!(here, oracle(line), "{line}");
}

#[test]
fn what_is_json_and_what_is_not_is_told_apart() {
    for line in [
        "{}",
        " { } ",
        r#"{"a":1}"#,
        r#"{"a" : -0.5e+10 , "b":[1, {"c":[]}, "x"],"d":{"e":null}}"#,
        r#"{"a":"\u00e9\n\"\\"}"#,
        r#"{"\u0074":true}"#,
        r#"{"a":01}"#,
        r#"{"a":1.}"#,
        r#"{"a":1e}"#,
        r#"{"a":-}"#,
        r#"{"a":+1}"#,
        r#"{"a":tru}"#,
        r#"{"a":truee}"#,
        r#"{"a":1,}"#,
        r#"{"a":[1,]}"#,
        r#"{"a":{"b"}}"#,
        r#"{"a":"\x"}"#,
        r#"{"a":"\u12g4"}"#,
        "{\"a\":\"\t\"}",
        r#"{"a":1} x"#,
        r#"{"a":1"#,
        r#"{"a":"x"#,
        "[]",
        "null",
        "",
        "é",
        "{é:1}",
        r#"{"a":"é","é":"😀"}"#,
    ] {
        agree(line);
    }
}

#[test]
fn nesting_is_followed_exactly_as_deep_as_serde_json_follows_it() {
    for depth in [1, 100, 125, 126, 127, 128, 10_000] {
        let line = format!(r#"{{"a":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        let read = serde_json::from_str::<serde_json::Value>(&line).is_ok();
        assert_eq!(found(&line).is_ok(), read, "{depth}");
    }
}

#[test]
fn strings_are_decoded_and_arrays_of_strings_too() {
    let line = r#"{"a":"plain","b":"q\"\u00e9","c":["x", "\n"],"d":[],"e":["x",1],"f":"\ud800"}"#;
    let members = found(line).unwrap();
    let value = |at: usize| members[at].value;
    assert_eq!(value(0).text().unwrap(), "plain");
    assert_eq!(value(1).text().unwrap(), "q\"é");
    assert_eq!(value(2).texts().unwrap(), ["x", "\n"]);
    assert_eq!(value(3).texts().unwrap(), [""; 0]);
    assert_eq!(value(4).texts(), None);
    assert_eq!(value(5).text(), None);
    assert_eq!(value(0).texts(), None);
    assert_eq!(value(2).text(), None);
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        (-1e9..1e9).prop_map(|number: f64| serde_json::json!(number)),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            proptest::collection::btree_map(any::<String>(), inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_text_is_judged_as_serde_json_judges_it(line in any::<String>()) {
        agree(&line);
    }

    #[test]
    fn any_object_is_read_and_one_with_a_changed_byte_is_judged_alike(
        object in proptest::collection::btree_map("[a-z]{1,6}|.{0,4}", json(), 0..5),
        at in any::<prop::sample::Index>(),
        byte in 0x09_u8..0x7f,
    ) {
        let line = serde_json::to_string(&object).unwrap();
        agree(&line);
        let mut broken = line.clone().into_bytes();
        let at = at.index(broken.len());
        broken[at] = byte;
        if let Ok(broken) = String::from_utf8(broken) {
            agree(&broken);
        }
    }
}

#[test]
fn a_string_ends_at_the_same_byte_however_many_are_looked_at_at_once() {
    let one_by_one = |bytes: &[u8]| {
        let end = bytes.iter().position(|&byte| matches!(byte, b'"' | b'\\' | 0..0x20));
        end.unwrap_or(bytes.len())
    };
    for around in [b' ', b'a', 0x7f, 0x80, 0xff] {
        for (length, at) in (1..20).flat_map(|length| (0..length).map(move |at| (length, at))) {
            for byte in 0..=u8::MAX {
                let mut bytes = vec![around; length];
                bytes[at] = byte;
                assert_eq!(plain(&bytes), one_by_one(&bytes), "{bytes:?}");
                // What stands behind an end may look like one.
                bytes.extend([b'!', b'#', b'[', 0x1f, 0x20, b'"', b'\\', 0xa2]);
                assert_eq!(plain(&bytes), one_by_one(&bytes), "{bytes:?}");
            }
        }
    }
}
