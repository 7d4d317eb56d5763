//! The kinds of prompts: the file that overrides each, its built-in text, and its available values.

use super::template::{Field, Need, Presence, PromptTemplate};

/// What a prompt is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PromptKind {
    SpecPlan,
    SpecImplement,
    SpecVerify,
    Plan,
    Build,
    Verify,
    Investigate,
    Decompose,
    Interview,
    Understand,
    Story,
    Loop,
    Review,
}

const PLACES: [Field; 2] = [always("workspace"), always("home")];
const RULES: [Field; 2] = [optional("rules", "rules"), optional("rules_file", "rules")];
const GATES: Field = optional("gates", "gates");

/// Values of the loop's prompt only.
const LOOP: [Field; 9] = [
    GATES,
    always("mailbox").with(Need::Essential("mailbox")),
    always("phase").with(Need::Essential("phase")),
    always("iteration"),
    always("iterations"),
    optional("origin", "origin"),
    optional("plan", "plan"),
    optional("plan_file", "plan"),
    optional("escalation", "escalation").with(Need::Appended("Attention")),
];

/// Values of the decomposer's prompt only.
const DECOMPOSE: [Field; 4] = [
    always("task_id"),
    always("task").with(Need::Appended("Task")),
    always("kill").with(Need::Appended("Why it was stopped")),
    optional("kill_log", "kill_log").with(Need::Appended("The log of the stopped run")),
];

/// Values of the review prompt only.
const REVIEW: [Field; 7] = [
    GATES,
    always("checkout"),
    optional("elsewhere", "elsewhere").with(Need::Appended("Work in other repositories")),
    always("commit").with(Need::Essential("commit")),
    optional("base", "base"),
    always("tasks"),
    always("questions").with(Need::Essential("questions")),
];

/// The values that name the spec. A template for which the spec is essential needs one of them.
const SPEC: [&str; 3] = ["spec", "spec_path", "spec_file"];

impl PromptKind {
    pub const ALL: [PromptKind; 13] = [
        PromptKind::SpecPlan,
        PromptKind::SpecImplement,
        PromptKind::SpecVerify,
        PromptKind::Plan,
        PromptKind::Build,
        PromptKind::Verify,
        PromptKind::Investigate,
        PromptKind::Decompose,
        PromptKind::Interview,
        PromptKind::Understand,
        PromptKind::Story,
        PromptKind::Loop,
        PromptKind::Review,
    ];

    /// Returns the name of the file in home that overrides the built-in text.
    pub const fn file_name(self) -> &'static str {
        match self {
            PromptKind::SpecPlan => "PROMPT_spec_plan.md",
            PromptKind::SpecImplement => "PROMPT_spec_implement.md",
            PromptKind::SpecVerify => "PROMPT_spec_verify.md",
            PromptKind::Plan => "PROMPT_plan.md",
            PromptKind::Build => "PROMPT_build.md",
            PromptKind::Verify => "PROMPT_verify.md",
            PromptKind::Investigate => "PROMPT_investigate.md",
            PromptKind::Decompose => "PROMPT_decompose.md",
            PromptKind::Interview => "PROMPT_interview.md",
            PromptKind::Understand => "understand_prompt.md",
            PromptKind::Story => "prompt.md",
            PromptKind::Loop => "PROMPT_loop.md",
            PromptKind::Review => "PROMPT_review.md",
        }
    }

    /// Returns the default text.
    pub const fn builtin_text(self) -> &'static str {
        match self {
            PromptKind::SpecPlan => include_str!("templates/spec_plan.md"),
            PromptKind::SpecImplement => include_str!("templates/spec_implement.md"),
            PromptKind::SpecVerify => include_str!("templates/spec_verify.md"),
            PromptKind::Plan => include_str!("templates/plan.md"),
            PromptKind::Build => include_str!("templates/build.md"),
            PromptKind::Verify => include_str!("templates/verify.md"),
            PromptKind::Investigate => include_str!("templates/investigate.md"),
            PromptKind::Decompose => include_str!("templates/decompose.md"),
            PromptKind::Interview => include_str!("templates/interview.md"),
            PromptKind::Understand => include_str!("templates/understand.md"),
            PromptKind::Story => include_str!("templates/story.md"),
            PromptKind::Loop => include_str!("templates/loop.md"),
            PromptKind::Review => include_str!("templates/review.md"),
        }
    }

    pub(super) fn builtin(self) -> PromptTemplate {
        PromptTemplate::parse(self.builtin_text(), &self.fields())
            .expect("built-in templates are sound")
    }

    /// Returns the values that a template of this kind may use.
    ///
    /// In the pipeline an agent knows only its prompt, so everything essential must be in it. Templates of the build
    /// loop may predate these values and have the agent ask for its task; values they omit are appended to their text.
    pub(crate) fn fields(self) -> Vec<Field> {
        if let Some(fields) = self.goal_fields() {
            return fields;
        }
        let spec_need = match self {
            PromptKind::SpecPlan
            | PromptKind::SpecImplement
            | PromptKind::SpecVerify
            | PromptKind::Plan
            | PromptKind::Loop
            | PromptKind::Review => Need::Essential("spec"),
            _ => Need::Free,
        };
        let mut fields = vec![always("spec_id")];
        fields.extend(SPEC.map(|name| always(name).with(spec_need)));
        fields.extend(PLACES);
        let [rules, rules_file] = RULES;
        fields.extend(match self {
            PromptKind::SpecPlan | PromptKind::SpecImplement | PromptKind::SpecVerify => RULES,
            _ => [rules.with(Need::Appended("Rules of this project")), rules_file],
        });
        let phrase = always("magic_phrase").with(Need::Essential("magic_phrase"));
        let feedback = optional("feedback", "feedback");
        let essential_feedback = feedback.with(Need::Essential("feedback"));
        let plan = always("plan").with(Need::Essential("plan"));
        let questions = optional("questions", "questions");
        let appended_feedback = feedback.with(Need::Appended("Fix these first"));
        match self {
            PromptKind::SpecPlan => fields.extend([
                phrase,
                essential_feedback,
                GATES,
                always("outbox").with(Need::Essential("outbox")),
                optional("replan_reason", "replan_reason").with(Need::Essential("replan_reason")),
                optional("old_plan", "old_plan"),
            ]),
            PromptKind::SpecImplement => fields.extend([
                phrase,
                essential_feedback,
                GATES,
                plan,
                always("plan_path").with(Need::Essential("plan")),
            ]),
            PromptKind::SpecVerify => fields.extend([
                phrase,
                feedback,
                GATES,
                plan.with(Need::Free),
                always("checkout"),
                optional("elsewhere", "elsewhere")
                    .with(Need::Appended("Work in other repositories")),
                always("candidate").with(Need::Essential("candidate")),
                optional("base", "base"),
                questions.with(Need::Essential("questions")),
                optional("no_change", "no_change").with(Need::Essential("no_change")),
            ]),
            PromptKind::Plan => fields.extend([
                appended_feedback,
                optional("tasks", "tasks").with(Need::Appended("The plan as it stands")),
            ]),
            PromptKind::Build => fields.extend([
                appended_feedback,
                GATES,
                always("task_id"),
                always("task").with(Need::Appended("Task")),
                optional("rejected", "rejected").with(Need::Appended("Why it was rejected before")),
            ]),
            PromptKind::Verify => fields.extend([
                appended_feedback,
                GATES,
                always("checkout").with(Need::Appended("Checkout to verify in")),
                optional("elsewhere", "elsewhere")
                    .with(Need::Appended("Work in other repositories")),
                always("commit"),
                always("tasks").with(Need::Appended("Tasks that were claimed done")),
                questions.with(Need::Appended("Answer these too")),
            ]),
            PromptKind::Review => {
                fields.extend([&[phrase, essential_feedback], &REVIEW[..]].concat());
            }
            PromptKind::Investigate => {
                fields.extend([
                    appended_feedback,
                    always("issues").with(Need::Appended("Issues")),
                    optional("tasks", "tasks")
                        .with(Need::Appended("Tasks that were made from these issues already")),
                ]);
            }
            PromptKind::Decompose => {
                fields.push(appended_feedback);
                fields.extend(DECOMPOSE);
            }
            PromptKind::Interview | PromptKind::Understand | PromptKind::Story => {
                unreachable!("they have fields of their own")
            }
            PromptKind::Loop => {
                fields.push(essential_feedback);
                fields.extend(LOOP);
            }
        }
        fields
    }

    /// Returns the values of the prompts of goal-driven work.
    ///
    /// People bring such templates from other loops, without any of these values: omitted values are appended to their
    /// text.
    fn goal_fields(self) -> Option<Vec<Field>> {
        let [rules, rules_file] = RULES;
        let rules = rules.with(Need::Appended("Rules of this project"));
        let feedback = optional("feedback", "feedback").with(Need::Appended("Fix these first"));
        let appended = |name, heading| always(name).with(Need::Appended(heading));
        let known = |name, heading| optional(name, name).with(Need::Appended(heading));
        let own = match self {
            PromptKind::Interview => vec![
                appended("goal", "Goal"),
                known("prd", "The requirements to update"),
                known("map", "What is known about the code"),
                known("answers", "Questions and answers so far"),
                known("draft", "Your last draft"),
                appended("contract", "How to answer"),
            ],
            PromptKind::Understand => vec![
                appended("topic", "The topic of this run"),
                appended("map_path", "The map, the only file that you may change, is here"),
                appended("today", "The date of your entry"),
            ],
            PromptKind::Story => vec![
                always("story_id"),
                always("story_title"),
                appended("story", "The story of this run"),
                always("progress_path"),
                always("map_path"),
                appended(
                    "prd_path",
                    "When the story is done, set its `passes` to true in this file",
                ),
                GATES,
            ],
            _ => return None,
        };
        let mut fields = vec![rules, rules_file, feedback];
        fields.extend(PLACES);
        fields.extend(own);
        Some(fields)
    }
}

const fn always(name: &'static str) -> Field {
    Field { name, presence: Presence::Always, need: Need::Free }
}

const fn optional(name: &'static str, with: &'static str) -> Field {
    Field { name, presence: Presence::With(with), need: Need::Free }
}

impl Field {
    const fn with(self, need: Need) -> Field {
        Field { need, ..self }
    }
}
