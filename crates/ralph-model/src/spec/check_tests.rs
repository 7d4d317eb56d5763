use proptest::prelude::*;

use super::*;

#[test]
fn a_heading_of_any_level_is_enough() {
    for (text, heading) in [
        ("# Login", "Login"),
        ("\u{feff}# Login\r\n", "Login"),
        ("intro\n\n###### Deep ##\n", "Deep"),
        ("   #\tTabbed", "Tabbed"),
        ("# C# and F#", "C# and F#"),
        ("#\n## Second\n", "Second"),
        ("Login\n=====\n", "Login"),
        ("Login\n---\n", "Login"),
        ("```sh\n# no heading\n```\n# Yes\n", "Yes"),
        ("~~~~\n```\n# no\n~~~\n# no\n~~~~\n# Yes\n", "Yes"),
        ("`` # `` inline\n# Yes", "Yes"),
    ] {
        assert_eq!(check(text), Ok(heading), "{text}");
    }
}

#[test]
fn what_is_missing_is_told_with_its_line() {
    for (text, fault) in [
        ("", SpecFault::Blank),
        (" \n\t\r\n", SpecFault::Blank),
        ("\u{feff}\n", SpecFault::Blank),
        ("\n\njust text\n", SpecFault::NoHeading { line: 3 }),
        ("#hashtag", SpecFault::NoHeading { line: 1 }),
        ("####### seven", SpecFault::NoHeading { line: 1 }),
        ("    # code", SpecFault::NoHeading { line: 1 }),
        ("\t# code", SpecFault::NoHeading { line: 1 }),
        ("```\n# comment\n", SpecFault::NoHeading { line: 1 }),
        ("- item\n---\n", SpecFault::NoHeading { line: 1 }),
        ("text\n\n---\n", SpecFault::NoHeading { line: 1 }),
        ("---\n", SpecFault::NoHeading { line: 1 }),
        ("text\n#\n", SpecFault::EmptyHeading { line: 2 }),
        ("## ##\n", SpecFault::EmptyHeading { line: 1 }),
    ] {
        assert_eq!(check(text), Err(fault), "{text:?}");
        assert!(fault.line() >= 1);
    }
}

#[test]
fn a_new_spec_has_its_title_and_every_section() {
    let text = template("Add\n a login ");
    assert_eq!(title(&text), Ok("Add a login"));
    let sections: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(
        sections,
        ["Goal", "Constraints", "Required reading", "Acceptance criteria", "Verification"]
    );
}

#[test]
fn a_template_counts_as_a_spec_once_each_placeholder_is_replaced_or_deleted() {
    let mut lines: Vec<String> = template("Login").lines().map(str::to_owned).collect();
    for placeholder in PLACEHOLDERS {
        let at = lines.iter().position(|line| line == placeholder).expect("it is in the template");
        assert_eq!(check(&lines.join("\n")), Err(SpecFault::Template { line: at + 1 }));
        lines[at] = "Anything else.".to_owned();
    }
    assert_eq!(check(&lines.join("\r\n")), Ok("Login"));
}

proptest! {
    #[test]
    fn any_text_is_checked_and_faults_are_on_its_lines(text in "(?s)([#`~=\\- \n\t]|.){0,60}") {
        match check(&text) {
            Ok(heading) => prop_assert!(!heading.trim().is_empty() && text.contains(heading)),
            Err(fault) => prop_assert!(fault.line() <= text.lines().count().max(1)),
        }
    }
}
