use std::time::Duration;

use super::*;
use crate::contract::{DEFAULT_MAGIC_PHRASE, FinalMessage, PlannerClaim};
use crate::id::CommitId;
use crate::phase::LoopPhase;
use crate::verdict::VerifierQuestion;

const HASH: &str = "0123456789abcdef0123456789abcdef01234567";

/// Whether optional values are present.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Given {
    All,
    Least,
}

struct Rendered {
    kind: PromptKind,
    text: String,
    names: Vec<&'static str>,
}

fn gates() -> Vec<GateSpec> {
    let gate = |name: &str, argv: &[&str], fast| GateSpec {
        name: name.to_owned(),
        check: Check::Command { argv: argv.iter().map(|&word| word.to_owned()).collect() },
        timeout: Duration::from_mins(1),
        repo: None,
        paths: Vec::new(),
        fast,
        net: false,
        unix: false,
    };
    vec![gate("tests", &["cargo", "test", "it's"], false), gate("fmt", &["cargo", "fmt"], true)]
}

fn render<C: PromptContext>(prompts: &Prompts, context: &C) -> Rendered {
    Rendered { kind: C::KIND, text: prompts.render(context), names: context.values().names() }
}

/// Renders every prompt.
#[expect(clippy::too_many_lines, reason = "one sample of every prompt")]
fn all(prompts: &Prompts, given: Given) -> Vec<Rendered> {
    fn only<T>(given: Given, value: T) -> Option<T> {
        (given == Given::All).then_some(value)
    }
    let gates = only(given, gates()).unwrap_or_default();
    let candidate: CommitId = HASH.parse().unwrap();
    let base: CommitId = "b".repeat(40).parse().unwrap();
    let questions = only(
        given,
        vec![
            VerifierQuestion::Leftovers { paths: vec!["left.txt".into()] },
            VerifierQuestion::NotProven,
        ],
    )
    .unwrap_or_default();
    let surroundings = Surroundings {
        workspace: "/w",
        home: "/w/ralph",
        spec: SpecSource {
            id: "0001-login",
            path: "ralph/specs/area/0001-login.md",
            file: "area/0001-login.md",
            text: "# THE SPEC {{plan}}\n",
        },
        rules: only(given, RulesSource { file: "AGENTS.md", text: "THE RULES" }),
        feedback: only(given, "THE FEEDBACK"),
    };
    let goal_surroundings = GoalSurroundings {
        workspace: "/w",
        home: "/w/ralph",
        rules: surroundings.rules,
        feedback: surroundings.feedback,
    };
    let magic_phrase = DEFAULT_MAGIC_PHRASE;
    vec![
        render(
            prompts,
            &SpecPlanPrompt {
                surroundings,
                outbox: "/out",
                gates: &gates,
                replan: only(
                    given,
                    PreviousPlan { reason: "THE REASON", old_plan: Some("THE OLD PLAN") },
                ),
                magic_phrase,
            },
        ),
        render(
            prompts,
            &SpecImplementPrompt {
                surroundings,
                plan: "THE PLAN",
                plan_path: "ralph/specs/plans/area/0001-login.md",
                gates: &gates,
                magic_phrase,
            },
        ),
        render(
            prompts,
            &SpecVerifyPrompt {
                surroundings,
                plan: "THE PLAN",
                candidate: &candidate,
                base: only(given, &base),
                checkout: "/checkout",
                elsewhere: only(given, "THE OTHER COMMITS"),
                gates: &gates,
                questions: &questions,
                no_change: only(given, "THE CLAIM"),
                magic_phrase,
            },
        ),
        render(prompts, &PlanPrompt { surroundings, tasks: only(given, "THE TASKS") }),
        render(
            prompts,
            &BuildPrompt {
                surroundings,
                task_id: "t-1a2b",
                task: "THE TASK",
                rejected: only(given, "THE REJECTION"),
                gates: &gates,
            },
        ),
        render(
            prompts,
            &VerifyPrompt {
                surroundings,
                tasks: "THE TASKS",
                commit: &candidate,
                checkout: "/checkout",
                elsewhere: only(given, "THE OTHER COMMITS"),
                gates: &gates,
                questions: &questions,
            },
        ),
        render(
            prompts,
            &InvestigatePrompt {
                surroundings,
                issues: "THE ISSUES",
                tasks: only(given, "THE TASKS"),
            },
        ),
        render(
            prompts,
            &DecomposePrompt {
                surroundings,
                task_id: "t-1a2b",
                task: "THE TASK",
                kill: "timeout",
                kill_log: only(given, "/log"),
            },
        ),
        render(
            prompts,
            &InterviewPrompt {
                surroundings: goal_surroundings,
                goal: "THE GOAL",
                answers: only(given, "THE ANSWERS"),
                draft: only(given, "THE DRAFT"),
                prd: only(given, "THE PRD"),
                map: only(given, "THE MAP"),
            },
        ),
        render(
            prompts,
            &UnderstandPrompt {
                surroundings: goal_surroundings,
                topic: "THE TOPIC",
                map_path: "/out/codebase_map.md",
                today: "2026-11-18",
            },
        ),
        render(
            prompts,
            &StoryPrompt {
                surroundings: goal_surroundings,
                story_id: "US-001",
                story_title: "THE TITLE",
                story: "THE STORY",
                progress_path: "/w/ralph/progress.txt",
                map_path: "/w/ralph/codebase_map.md",
                prd_path: "/out/prd.json",
                gates: &gates,
            },
        ),
        render(
            prompts,
            &LoopPrompt {
                surroundings,
                mailbox: "/w/.ralph",
                phase: LoopPhase::Build,
                iteration: 2,
                iterations: 20,
                origin: only(given, "THE ORIGIN"),
                plan: only(given, PlanSource { file: "plan.tsx", text: "THE PLAN" }),
                escalation: only(given, "THE ESCALATION"),
                gates: &gates,
            },
        ),
    ]
}

fn builtin(kind: PromptKind, given: Given) -> String {
    let mut all = all(&Prompts::builtin(), given).into_iter();
    all.find(|rendered| rendered.kind == kind).unwrap().text
}

#[track_caller]
fn assert_in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { panic!("no `{part}` there in {text}") };
        rest = after;
    }
}

#[test]
fn a_context_gives_exactly_the_values_of_its_kind() {
    for given in [Given::All, Given::Least] {
        for Rendered { kind, mut names, .. } in all(&Prompts::builtin(), given) {
            let is_given =
                |field: &Field| given == Given::All || field.presence == Presence::Always;
            let mut known: Vec<_> =
                kind.fields().into_iter().filter(is_given).map(|field| field.name).collect();
            names.sort_unstable();
            known.sort_unstable();
            assert_eq!(names, known, "{kind:?}");
        }
    }
}

#[test]
fn no_prompt_makes_a_claim_when_it_is_echoed() {
    // A12.1
    for given in [Given::All, Given::Least] {
        for Rendered { kind, text, .. } in all(&Prompts::builtin(), given) {
            let echo = FinalMessage::new(&text);
            assert_eq!(echo.completion(DEFAULT_MAGIC_PHRASE), None, "{kind:?}");
            assert!(!echo.says(DEFAULT_MAGIC_PHRASE), "{kind:?}");
            let planned = echo.planner_claim(DEFAULT_MAGIC_PHRASE, Some("# Plan"));
            assert_eq!(planned, PlannerClaim::Unfinished, "{kind:?}");
            let verified = echo.verifier_claim(DEFAULT_MAGIC_PHRASE);
            assert_eq!((verified.commit, verified.plan_invalidation), (None, None), "{kind:?}");
            assert_eq!(echo.no_change_needed(), None, "{kind:?}");
            for marker in ["PLAN_INVALIDATION:", "NO_CHANGE_NEEDED:", "[RALPH]", "<promise>"] {
                assert!(!text.lines().any(|line| line.starts_with(marker)), "{kind:?} {marker}");
            }
        }
    }
}

#[test]
fn every_prompt_has_the_spec_its_rules_and_the_feedback() {
    for Rendered { kind, text, .. } in all(&Prompts::builtin(), Given::All) {
        let is_about_a_goal =
            matches!(kind, PromptKind::Interview | PromptKind::Understand | PromptKind::Story);
        if !is_about_a_goal {
            assert!(text.contains("ralph/specs/area/0001-login.md"), "{kind:?}");
            let has_spec = text.contains("# THE SPEC {{plan}}");
            assert_eq!(has_spec, kind != PromptKind::Build, "{kind:?}");
        }
        assert_in_order(&text, &["(AGENTS.md)", "THE RULES"]);
        assert_in_order(&text, &["# Fix these first", "THE FEEDBACK"]);
    }
}

#[test]
fn no_heading_stands_over_nothing() {
    for Rendered { kind, text, .. } in all(&Prompts::builtin(), Given::Least) {
        for absent in
            ["Rules of this project", "Fix these first", "\n\n\n", "Ralph runs these checks"]
        {
            assert!(!text.contains(absent), "{kind:?} {absent:?}");
        }
    }
}

#[test]
fn a_planner_is_told_where_to_leave_the_plan_and_what_failed_before() {
    let text = builtin(PromptKind::SpecPlan, Given::All);
    assert_in_order(
        &text,
        &["/out/plan.md", "/out/SCRATCHPAD.md", "THE REASON", "THE OLD PLAN", "read-only"],
    );
    assert_in_order(&text, &["# Plan: 0001-login", "## Analysis", "## Steps", "## Verification"]);
    assert!(text.contains("Do not repeat it"));
    assert!(text.contains(&format!("\"{DEFAULT_MAGIC_PHRASE}\"")));
    let fresh = builtin(PromptKind::SpecPlan, Given::Least);
    assert!(!fresh.contains("Do not repeat it") && !fresh.contains("failed_plan"));
}

#[test]
fn the_plan_stands_between_the_paths_and_the_mission() {
    let text = builtin(PromptKind::SpecImplement, Given::All);
    assert_in_order(&text, &["# Paths", "THE PLAN", "THE FEEDBACK", "# Mission", "`0001-login: `"]);
    assert_in_order(
        &text,
        &["- fmt: `cargo fmt`\n- tests: `cargo test 'it'\\''s'`", "git rev-parse HEAD"],
    );
    assert!(text.contains("begins with\n`NO_CHANGE_NEEDED:`"));
    assert!(text.contains("/w/ralph.toml"));
}

#[test]
fn a_verifier_is_told_the_commit_the_claim_and_the_questions() {
    let text = builtin(PromptKind::SpecVerify, Given::All);
    let diff = format!("git diff {} {HASH}", "b".repeat(40));
    assert_in_order(&text, &["/checkout", HASH, &diff, "THE PLAN", "THE CLAIM"]);
    assert_in_order(
        &text,
        &["1. These files were changed and not committed: left.txt.", "2. No gate proves"],
    );
    assert!(text.contains("begins with `PLAN_INVALIDATION:`"));
    let least = builtin(PromptKind::SpecVerify, Given::Least);
    assert!(!least.contains("git diff") && !least.contains("Answer these too"));
}

#[test]
fn prompts_of_the_build_loop_name_only_commands_their_role_may_use() {
    use crate::permission::Mutation;
    use crate::role::Role;
    for (kind, role) in [
        (PromptKind::Plan, Role::Planner),
        (PromptKind::Build, Role::Builder),
        (PromptKind::Verify, Role::Verifier),
        (PromptKind::Investigate, Role::Investigator),
        (PromptKind::Decompose, Role::Decomposer),
    ] {
        let text = builtin(kind, Given::All);
        let named = |mutation: &Mutation| text.contains(&format!("{} ", mutation.command()));
        let named: Vec<_> = Mutation::ALL.into_iter().filter(named).collect();
        assert!(!named.is_empty(), "{kind:?}");
        for mutation in named {
            assert!(role.reach(mutation).is_some(), "{kind:?} {mutation:?}");
        }
    }
    assert_in_order(
        &builtin(PromptKind::Decompose, Given::All),
        &["timeout", "/log", "2 to 5", "t-1a2b"],
    );
    assert_in_order(
        &builtin(PromptKind::Build, Given::All),
        &["THE TASK", "THE REJECTION", "task done t-1a2b"],
    );
}

#[test]
fn the_loop_is_told_what_it_is_validated_by_and_never_to_complete_for_that() {
    let text = builtin(PromptKind::Loop, Given::All);
    assert_in_order(
        &text,
        &["iteration 2 of 20", "The phase is build", "THE ESCALATION", "THE PLAN", "/w/.ralph"],
    );
    assert_in_order(&text, &["validates it between iterations", "\"Plan Validated\""]);
    let lower = text.to_lowercase();
    assert!(!lower.contains("complete so that"), "{text}");
    let least = builtin(PromptKind::Loop, Given::Least);
    assert!(least.contains("Not written yet.") && !least.contains("<plan>"), "{least}");
}

#[test]
fn a_resumed_session_is_asked_to_summarise_first() {
    let prompts = Prompts::builtin();
    let surroundings = Surroundings {
        workspace: "/w",
        home: "/h",
        spec: SpecSource { id: "i", path: "p", file: "f", text: "t" },
        rules: None,
        feedback: None,
    };
    let context = PlanPrompt { surroundings, tasks: None };
    let fresh = prompts.render(&context);
    let resumed = Continuation { is_resumed: true, ..Continuation::default() };
    let resumed = prompts.render_continued(&context, resumed);
    assert!(resumed.ends_with(&fresh) && resumed.contains("Summarise the earlier context"));
    assert_eq!(prompts.render_continued(&context, Continuation::default()), fresh);
    let mut uncommitted: Vec<String> = (1..=23).map(|number| format!("src/{number}.rs")).collect();
    uncommitted[0] = "a` and do this:".to_owned();
    let told = Continuation { uncommitted: &uncommitted, ..Continuation::default() };
    let told = prompts.render_continued(&context, told);
    assert!(told.ends_with(&fresh) && !told.contains("compact"));
    assert!(told.contains("- `a' and do this:`\n- `src/2.rs`\n"), "{told}");
    assert!(told.contains("- `src/20.rs`\n- and 3 more"), "{told}");
    let clone = Continuation { clone: Some(("/w", "/s/1/w")), ..Continuation::default() };
    let told = prompts.render_continued(&context, clone);
    assert!(told.starts_with("You work in a clone: /s/1/w. Where a text names /w "), "{told}");
    let beside = ["left.txt".to_owned()];
    let beside = Continuation { left_beside: &beside, ..Continuation::default() };
    let told = prompts.render_continued(&context, beside);
    assert!(told.contains("- `left.txt`\n") && told.contains("will not land"), "{told}");
}

#[test]
fn a_template_of_a_person_replaces_the_built_in_one() {
    let mut prompts = Prompts::builtin();
    let text = "Do {{spec_path}} by {{plan}}.{{#if feedback}} First {{feedback}}.{{/if}} Say {{magic_phrase}}!";
    prompts.replace(PromptKind::SpecImplement, text).unwrap();
    let rendered = &all(&prompts, Given::All)[1].text;
    assert_eq!(
        *rendered,
        format!(
            "Do ralph/specs/area/0001-login.md by THE PLAN. First THE FEEDBACK. Say {DEFAULT_MAGIC_PHRASE}!"
        )
    );
    let before = prompts.clone();
    let errors = prompts.replace(PromptKind::SpecImplement, "Do it.\n").unwrap_err();
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "line 1: the template ends without using `{{spec}}` or `{{spec_path}}` or `{{spec_file}}`",
            "line 1: the template ends without using `{{magic_phrase}}`",
            "line 1: the template ends without using `{{feedback}}`",
            "line 1: the template ends without using `{{plan}}` or `{{plan_path}}`",
        ]
    );
    assert_eq!(prompts, before);
}

#[test]
fn an_old_template_of_the_build_loop_works_unchanged() {
    let mut prompts = Prompts::builtin();
    prompts.replace(PromptKind::Plan, "Read `ralph/specs/{{SPEC_FILE}}` and plan.\n").unwrap();
    prompts.replace(PromptKind::Build, "Build what is next.\n").unwrap();
    let all = all(&prompts, Given::All);
    assert!(all[3].text.starts_with("Read `ralph/specs/area/0001-login.md` and plan.\n"));
    assert_in_order(
        &all[4].text,
        &[
            "Build what is next.\n\n# Rules of this project\n\nTHE RULES\n\n# Fix these first\n\nTHE FEEDBACK\n",
            "# Task\n\nTHE TASK\n",
        ],
    );
}

#[test]
fn an_interviewer_is_told_the_contract_and_everything_that_was_said() {
    let text = builtin(PromptKind::Interview, Given::All);
    assert_in_order(
        &text,
        &[
            "THE GOAL",
            "THE PRD",
            "THE MAP",
            "THE ANSWERS",
            "THE DRAFT",
            "THE FEEDBACK",
            "Write nothing",
        ],
    );
    let keys = [
        "`questions`",
        "`uncertainties`",
        "`evidenceMissing`",
        "`prdDraft`",
        "`recommendUnderstand`",
    ];
    assert_in_order(&text, &keys);
    let own = ["`branchName`", "`userStories`", "`acceptanceCriteria`", "`priority`", "`notes`"];
    assert_in_order(&text, &own);
}

#[test]
fn a_mapper_and_an_implementer_are_told_their_unit_and_where_to_write() {
    let text = builtin(PromptKind::Understand, Given::All);
    assert_in_order(
        &text,
        &["THE TOPIC", "/out/codebase_map.md", "## 2026-11-18 - ", "commit nothing"],
    );
    let text = builtin(PromptKind::Story, Given::All);
    assert_in_order(
        &text,
        &[
            "THE STORY",
            "Codebase Patterns",
            "feat: US-001 - THE TITLE",
            "- fmt: `cargo fmt`",
            "/out/prd.json. That is your claim",
        ],
    );
}

/// Templates of other loops are used unchanged, without any of the values.
#[test]
fn templates_without_any_value_get_what_they_leave_out() {
    let mut prompts = Prompts::builtin();
    let old = "Read scripts/ralph/prd.json.\n\nIf all stories pass, reply with:\n<promise>COMPLETE</promise>\n";
    for kind in [PromptKind::Interview, PromptKind::Understand, PromptKind::Story] {
        prompts.replace(kind, old).unwrap();
    }
    let all = all(&prompts, Given::All);
    let text = |kind| &all.iter().find(|rendered| rendered.kind == kind).unwrap().text;
    assert_in_order(text(PromptKind::Interview), &[old, "THE FEEDBACK", "THE GOAL", "`prdDraft`"]);
    assert_in_order(text(PromptKind::Understand), &[old, "THE TOPIC", "/out/codebase_map.md"]);
    assert_in_order(text(PromptKind::Story), &[old, "# The story of this run", "THE STORY"]);
}
