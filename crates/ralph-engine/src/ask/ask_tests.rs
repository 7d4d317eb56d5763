use super::*;

/// A person who always gives the same answer.
struct Parrot {
    asked: Vec<String>,
}

impl AskPerson for Parrot {
    fn text(&mut self, inquiry: &Inquiry<'_>, _: Option<&str>) -> Result<String, NoReply> {
        self.asked.push(inquiry.question.to_owned());
        Ok("parrot".to_owned())
    }

    fn confirm(&mut self, inquiry: &Inquiry<'_>, default: bool) -> Result<bool, NoReply> {
        assert!(inquiry.consent.is_none() || !default, "consent has no default but no");
        self.asked.push(inquiry.question.to_owned());
        Ok(true)
    }

    fn choose(
        &mut self,
        inquiry: &Inquiry<'_>,
        options: &[&str],
        _: usize,
    ) -> Result<usize, NoReply> {
        self.asked.push(inquiry.question.to_owned());
        Ok(options.len() - 1)
    }
}

fn inquiry<'a>(id: &'a str, question: &'a str) -> Inquiry<'a> {
    Inquiry { id, context: &[], question, consent: None }
}

fn scripted(answers: &str) -> Scripted<'static> {
    let answers = Answers::parse(answers).unwrap();
    Scripted { answers, consents: Consents::default(), otherwise: None, show: Box::new(|_, _| {}) }
}

#[test]
fn answers_are_found_by_question_by_id_and_by_a_part_of_the_question() {
    let mut person = scripted(
        r#"{"Which pages?": "all", "q7": "seven", "pages": "part", "settings pages": "longer", "n": 5}"#,
    );
    for (id, question, expected) in [
        ("q1", "which PAGES?", "all"),
        ("q7", "Anything", "seven"),
        ("q1", "And what about pages in general?", "part"),
        ("q1", "Do the settings pages count?", "longer"),
        ("q1", "zzn", "5"),
    ] {
        assert_eq!(
            person.text(&inquiry(id, question), None),
            Ok(expected.to_owned()),
            "{question}"
        );
    }
    let missing = MissingReply::Answer { id: "q2".to_owned(), question: "Why?".to_owned() };
    assert_eq!(person.text(&inquiry("q2", "Why?"), None), Err(NoReply::Missing(missing)));
    assert_eq!(person.text(&inquiry("q2", "Why?"), Some("so")), Ok("so".to_owned()));
}

#[test]
fn answers_in_order_are_for_questions_without_a_default() {
    let mut person = scripted(r#"["one", 2, true]"#);
    assert_eq!(person.text(&inquiry("a", "A?"), None).unwrap(), "one");
    assert_eq!(person.text(&inquiry("checks", "B?"), Some("make")).unwrap(), "make");
    assert_eq!(person.text(&inquiry("c", "C?"), None).unwrap(), "2");
    assert_eq!(person.text(&inquiry("d", "D?"), None).unwrap(), "yes");
    assert!(person.text(&inquiry("e", "E?"), None).is_err());
}

#[test]
fn a_file_without_answers_is_refused() {
    for (text, error) in [
        ("{", "not valid JSON"),
        ("7", "neither an object"),
        (r#"{"a": []}"#, "the answer to `a`"),
        (r#"["x", {}]"#, "the answer to `2`"),
    ] {
        let told = Answers::parse(text).unwrap_err().to_string();
        assert!(told.contains(error), "{text}: {told}");
    }
}

/// Neither an answer in a file nor a default is consent.
#[test]
fn consent_comes_from_its_own_flag_or_from_a_person() {
    for step in [ConsentStep::Prd, ConsentStep::Understand, ConsentStep::Run] {
        let asked = Inquiry { consent: Some(step), ..inquiry(step.name(), "Start?") };
        let mut person =
            scripted(r#"{"Start?": "yes", "run": true, "prd": true, "understand": "y"}"#);
        let missing = Err(NoReply::Missing(MissingReply::Consent(step)));
        assert_eq!(person.confirm(&asked, true), missing);
        for given in [ConsentStep::Prd, ConsentStep::Understand, ConsentStep::Run] {
            person.consents = Consents {
                prd: given == ConsentStep::Prd,
                understand: given == ConsentStep::Understand,
                run: given == ConsentStep::Run,
            };
            let expected = if given == step { Ok(true) } else { missing.clone() };
            assert_eq!(person.confirm(&asked, true), expected);
        }
        let mut parrot = Parrot { asked: Vec::new() };
        let answers = Answers::default();
        let consents = Consents::default();
        let mut person =
            Scripted { answers, consents, otherwise: Some(&mut parrot), show: Box::new(|_, _| {}) };
        assert_eq!(person.confirm(&asked, true), Ok(true));
        drop(person);
        assert_eq!(parrot.asked, ["Start?"]);
    }
}

#[test]
fn what_is_not_written_down_is_asked() {
    let mut parrot = Parrot { asked: Vec::new() };
    let answers = Answers::parse(r#"{"known": "x", "pick": "over", "sure": "no"}"#).unwrap();
    let consents = Consents::default();
    let mut person =
        Scripted { answers, consents, otherwise: Some(&mut parrot), show: Box::new(|_, _| {}) };
    let options = ["update", "overwrite", "other"];
    assert_eq!(person.text(&inquiry("a", "known?"), None).unwrap(), "x");
    assert_eq!(person.text(&inquiry("a", "other?"), Some("d")).unwrap(), "parrot");
    assert_eq!(person.choose(&inquiry("a", "pick?"), &options, 0), Ok(1));
    assert_eq!(person.choose(&inquiry("a", "another?"), &options, 0), Ok(2));
    assert_eq!(person.confirm(&inquiry("a", "sure?"), true), Ok(false));
    assert_eq!(person.confirm(&inquiry("a", "really?"), false), Ok(true));
    drop(person);
    assert_eq!(parrot.asked, ["other?", "another?", "really?"]);
}

#[test]
fn an_option_is_meant_by_its_number_or_by_how_it_begins() {
    let options = ["Continue", "Skip interactive", "Quit", "Cancel"];
    for (typed, expected) in [
        ("1", Some(0)),
        (" 4 ", Some(3)),
        ("0", None),
        ("5", None),
        ("q", Some(2)),
        ("SKIP", Some(1)),
        ("co", Some(0)),
        ("c", None),
        ("", None),
        ("x", None),
    ] {
        assert_eq!(option_meant(typed, &options), expected, "{typed:?}");
    }
    for (typed, expected) in
        [("y", Some(true)), ("Yes ", Some(true)), ("no", Some(false)), ("", None), ("sure", None)]
    {
        assert_eq!(is_yes(typed), expected, "{typed:?}");
    }
}
