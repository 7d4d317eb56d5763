use proptest::prelude::*;

use super::*;

const FIELDS: [Field; 6] = [
    Field { name: "spec", presence: Presence::Always, need: Need::Essential("spec") },
    Field { name: "spec_file", presence: Presence::Always, need: Need::Essential("spec") },
    Field { name: "magic_phrase", presence: Presence::Always, need: Need::Free },
    Field {
        name: "feedback",
        presence: Presence::With("feedback"),
        need: Need::Essential("feedback"),
    },
    Field { name: "rules", presence: Presence::With("rules"), need: Need::Free },
    Field { name: "rules_file", presence: Presence::With("rules"), need: Need::Free },
];

/// Without needs: for tests that are not about these.
fn free() -> [Field; 6] {
    FIELDS.map(|field| Field { need: Need::Free, ..field })
}

fn values(feedback: Option<&'static str>) -> Values<'static> {
    let mut values = Values::default();
    values.add("spec", "the spec");
    values.add("spec_file", "0001-x.md");
    values.add("magic_phrase", "DONE!");
    values.add_optional("feedback", feedback);
    values
}

fn rendered(template: &str, feedback: Option<&'static str>) -> String {
    PromptTemplate::parse(template, &free()).unwrap().render(&values(feedback))
}

fn problems(template: &str, fields: &[Field]) -> Vec<String> {
    let errors = PromptTemplate::parse(template, fields).unwrap_err();
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn values_stand_where_they_are_named() {
    assert_eq!(
        rendered("a {{spec}} b {{ spec }}{{spec_file}}", None),
        "a the spec b the spec0001-x.md"
    );
    assert_eq!(rendered("", None), "");
    assert_eq!(rendered("no places } }} { here\n", None), "no places } }} { here\n");
}

#[test]
fn an_old_name_stands_for_the_new_one() {
    assert_eq!(rendered("ralph/specs/{{SPEC_FILE}}", None), "ralph/specs/0001-x.md");
}

#[test]
fn an_escaped_brace_is_text() {
    assert_eq!(
        rendered(r"$\{{ github.ref }} \{{spec}} {{spec}}", None),
        "${{ github.ref }} {{spec}} the spec"
    );
}

#[test]
fn a_section_is_there_only_with_its_value() {
    let template = "a\n{{#if feedback}}\nfix {{feedback}}\n{{else}}\nnothing\n{{/if}}\nb\n";
    assert_eq!(rendered(template, Some("x")), "a\nfix x\nb\n");
    assert_eq!(rendered(template, None), "a\nnothing\nb\n");
    assert_eq!(rendered(template, Some(" \n")), "a\nnothing\nb\n");
    assert_eq!(rendered("a{{#if feedback}} {{feedback}}{{/if}} b", Some("x")), "a x b");
    assert_eq!(rendered("a{{#if feedback}} {{feedback}}{{/if}} b", None), "a b");
}

#[test]
fn the_line_of_a_condition_goes_with_it_whatever_ends_it() {
    assert_eq!(
        rendered("a\r\n  {{#if feedback}} \r\nx\r\n{{/if}}\r\nb\r\n", Some("f")),
        "a\r\nx\r\nb\r\n"
    );
    assert_eq!(rendered("{{#if feedback}}\nx\n{{/if}}", Some("f")), "x\n");
    assert_eq!(
        rendered("{{#if feedback}}\n{{#if rules}}\nr\n{{/if}}\nx\n{{/if}}", Some("f")),
        "x\n"
    );
}

#[test]
fn what_is_malformed_is_told_with_its_line() {
    for (template, expected) in [
        ("a\n{{spec", "line 2: `{{` without `}}` on the same line (`\\{{` stands for `{{` itself)"),
        (
            "a\nb {{spec\n}}",
            "line 2: `{{` without `}}` on the same line (`\\{{` stands for `{{` itself)",
        ),
        ("{{ a b }}", "line 1: `{{a b}}` is not a known tag (`\\{{` stands for `{{` itself)"),
        ("{{}}", "line 1: `{{}}` is not a known tag (`\\{{` stands for `{{` itself)"),
        (
            "{{#each spec}}",
            "line 1: `{{#each spec}}` is not a known tag (`\\{{` stands for `{{` itself)",
        ),
        ("\n\n{{/if}}", "line 3: `{{/if}}` without an `{{#if …}}` before it"),
        ("{{else}}", "line 1: `{{else}}` without an `{{#if …}}` before it"),
        (
            "{{#if feedback}}\n{{else}}\n{{else}}\n{{/if}}",
            "line 3: `{{else}}` without an `{{#if …}}` before it",
        ),
        ("a\n{{#if feedback}}\nb\n", "line 2: `{{#if feedback}}` is never closed by `{{/if}}`"),
    ] {
        assert_eq!(problems(template, &free()), [expected], "{template}");
    }
    let deep = "{{#if feedback}}".repeat(17);
    assert_eq!(problems(&deep, &free()), ["line 1: conditions are nested more than 16 deep"]);
}

#[test]
fn all_unknown_names_are_told_at_once() {
    let template = "{{spce}}\n{{#if feedbak}}\nx\n{{/if}}\n{{something_else}}";
    assert_eq!(
        problems(template, &FIELDS),
        [
            "line 1: unknown value `spce`; did you mean `spec`? (`\\{{` stands for `{{` itself)",
            "line 2: unknown value `feedbak`; did you mean `feedback`? (`\\{{` stands for `{{` itself)",
            "line 5: unknown value `something_else` (`\\{{` stands for `{{` itself)",
        ]
    );
    assert_eq!(
        problems("{{#if unknown}}", &free())[1],
        "line 1: `{{#if unknown}}` is never closed by `{{/if}}`"
    );
}

#[test]
fn a_value_that_may_be_missing_stands_under_its_condition() {
    let missing =
        "line 1: `feedback` is not always set: put it between `{{#if feedback}}` and `{{/if}}`";
    assert_eq!(problems("{{feedback}}", &free()), [missing]);
    assert_eq!(problems("{{#if feedback}}{{else}}{{feedback}}{{/if}}", &free()), [missing]);
    assert_eq!(problems("{{#if rules}}{{feedback}}{{/if}}", &free()), [missing]);
    assert_eq!(
        problems("{{#if spec}}{{/if}}", &free()),
        ["line 1: `spec` is always set and needs no condition"]
    );
    assert!(PromptTemplate::parse("{{#if rules}}{{rules_file}} {{rules}}{{/if}}", &free()).is_ok());
}

#[test]
fn essential_values_must_be_in_every_prompt() {
    let unused = [
        "line 2: the template ends without using `{{spec}}` or `{{spec_file}}`",
        "line 2: the template ends without using `{{feedback}}`",
    ];
    assert_eq!(problems("a\nb\n", &FIELDS), unused);
    assert_eq!(problems("", &FIELDS)[0], unused[0].replace('2', "1"));
    let feedback = "{{#if feedback}}{{feedback}}{{/if}}";
    for spec in ["{{spec}}", "{{SPEC_FILE}}", "{{#if rules}}{{spec}}{{else}}{{spec_file}}{{/if}}"] {
        assert!(PromptTemplate::parse(&format!("{spec}{feedback}"), &FIELDS).is_ok(), "{spec}");
    }
    assert_eq!(
        problems(&format!("\n{{{{#if rules}}}}{{{{spec}}}}{{{{/if}}}}{feedback}"), &FIELDS),
        ["line 2: `{{spec}}` is needed in every prompt and must not be conditional"]
    );
    assert_eq!(
        problems(&format!("{{{{spec}}}}{{{{#if rules}}}}{feedback}{{{{/if}}}}"), &FIELDS),
        ["line 1: `{{feedback}}` is needed in every prompt and must not be conditional"]
    );
}

#[test]
fn what_is_to_be_appended_comes_after_a_template_that_does_not_name_it() {
    let fields = free().map(|field| match field.name {
        "spec" => Field { need: Need::Appended("Spec"), ..field },
        "feedback" => Field { need: Need::Appended("Fix"), ..field },
        _ => field,
    });
    let render = |text: &str, feedback| {
        PromptTemplate::parse(text, &fields).unwrap().render(&values(feedback))
    };
    assert_eq!(render("a", Some("f")), "a\n\n# Spec\n\nthe spec\n\n# Fix\n\nf\n");
    assert_eq!(render("a\n", None), "a\n\n# Spec\n\nthe spec\n");
    assert_eq!(render("a {{spec}}", None), "a the spec");
}

#[test]
fn a_template_makes_no_claim_by_itself() {
    assert_eq!(problems("x\n {{magic_phrase}} \n", &free()).len(), 1);
    assert_eq!(
        problems("PLAN_INVALIDATION: why\nNO_CHANGE_NEEDED:", &free()),
        [
            "line 1: `PLAN_INVALIDATION:` begins a line, where an echo of the prompt would count as a claim: write it \
             inside a sentence",
            "line 2: `NO_CHANGE_NEEDED:` begins a line, where an echo of the prompt would count as a claim: write it \
             inside a sentence",
        ]
    );
    assert!(PromptTemplate::parse("end with \"{{magic_phrase}}\"\n", &free()).is_ok());
}

proptest! {
    #[test]
    fn a_value_is_inserted_as_it_is_and_once(value in "(?s)(\\{\\{(spec|#if feedback|/if)?\\}?\\}?|.){0,40}") {
        let mut values = Values::default();
        values.add("spec", value.as_str());
        let template = PromptTemplate::parse("<{{spec}}>", &free()).unwrap();
        prop_assert_eq!(template.render(&values), format!("<{value}>"));
    }

    #[test]
    fn any_text_is_a_template_that_renders_or_is_refused_with_a_line_of_it(
        text in "(?s)(\\{\\{ ?(spec|feedback|rules|nothing|else|/if|#if (feedback|rules|spec))? ?\\}\\}|\\{\\{|\\\\|\n|.){0,30}",
    ) {
        match PromptTemplate::parse(&text, &FIELDS) {
            Ok(template) => {
                for feedback in [None, Some("f")] {
                    template.render(&values(feedback));
                }
            }
            Err(errors) => {
                prop_assert!(!errors.is_empty());
                let lines = text.split('\n').count();
                prop_assert!(errors.iter().all(|error| (1..=lines).contains(&error.line)));
            }
        }
    }

    #[test]
    fn text_without_places_stays_as_it_is(text in "(?s)[^{]{0,60}") {
        prop_assume!(!text.lines().any(|line| line.starts_with("PLAN") || line.starts_with("NO_")));
        prop_assert_eq!(PromptTemplate::parse(&text, &free()).unwrap().render(&values(None)), text);
    }
}
