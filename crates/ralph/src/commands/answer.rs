//! `ralph answer`: a person's answer to a workflow's question.

use ralph_engine::questions::{AnswerError, Questions, RecordedAnswer};
use ralph_engine::specs::{self as backlog, SPECS};
use ralph_engine::workflow::pipeline::list;
use ralph_engine::workflow::pipeline::store::SpecStore;
use ralph_model::answer::{TakenAs, YES};
use ralph_model::board::Question;
use ralph_model::journal::{AnswerOrigin, QuestionKind};
use ralph_model::plan::TaskId;
use serde::Serialize;

use super::print_json;
use crate::args::GlobalArgs;
use crate::args::plan::AnswerArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::Tone;
use crate::render::human::one_line;
use crate::setup::Setup;

#[derive(Serialize)]
struct JsonAnswer<'a> {
    id: &'a str,
    item: &'a str,
    question: &'a str,
    answer: &'a str,
    taken_as: TakenAs,
    /// The answer that this one replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    instead_of: Option<&'a str>,
}

pub(crate) fn run(global: &GlobalArgs, args: &AnswerArgs) -> Result<Exit, CliError> {
    if std::env::var_os("RALPH_RUN_ID").is_some() {
        return Err(CliError::usage("`ralph answer` is for people, and this is a run")
            .hint("say in your last message what is unclear"));
    }
    let setup = Setup::load(global, &[])?;
    setup.refuse_in_run("`ralph answer`")?;
    let mut open = setup.open_state()?;
    let mut questions = open.questions()?;
    let specs = backlog::discover(&setup.home.path.join(SPECS)).specs;
    for (item, question) in list::waiting(&SpecStore::new(&setup.home.path), &specs) {
        // Home contains the question of a spec; private state may be new.
        questions.ask_unless_answered(&item, &question).map_err(CliError::failed)?;
    }
    let (item, text) = match (&args.item_or_text, &args.text) {
        (Some(text), None) => (None, text),
        (Some(item), Some(text)) => (Some(item.as_str()), text),
        (None, _) => return Err(nothing_said(&questions)),
    };
    let recorded = questions.answer(item, text, AnswerOrigin::Cli).map_err(not_answered)?;
    let RecordedAnswer { question, taken_as, instead_of } = recorded;
    if setup.json {
        print_json(&JsonAnswer {
            id: &question.id,
            item: &question.item,
            question: &question.text,
            answer: text,
            taken_as,
            instead_of: instead_of.as_deref(),
        })?;
        return Ok(Exit::Done);
    }
    let instead = instead_of.map(|old| format!(" (instead of: {})", shown(&old)));
    let told = format!("{}: {}{}", question.item, shown(text), instead.unwrap_or_default());
    setup.ui.labelled(Tone::Good, "answered", &told);
    // Also the planning of a spec, which is named by what it makes.
    let is_task = question.item.parse::<TaskId>().is_ok() || question.item == "plan";
    let is_loop = question.item.starts_with("loop-");
    let is_spec = specs.iter().any(|spec| spec.run_id() == question.item);
    let command = match (is_loop, is_task, is_spec) {
        (true, _, _) => "ralph loop --resume",
        (_, true, _) => "ralph build",
        // Stories are named by branch and id.
        (_, _, false) if question.item.contains('/') => "ralph run",
        _ => "ralph pipeline",
    };
    let meaning = meaning(question.kind, taken_as);
    setup.ui.line(format!("{meaning}; `{command}` acts on it"));
    Ok(Exit::Done)
}

/// Says what an answer comes to.
fn meaning(kind: Option<QuestionKind>, taken_as: TakenAs) -> &'static str {
    match (kind, taken_as) {
        (Some(QuestionKind::Accept), TakenAs::Yes) => "accepted as it is",
        (Some(QuestionKind::Accept), _) => "not accepted: your answer goes to the next attempt",
        (Some(QuestionKind::Retry), TakenAs::Yes) => "to be tried again",
        (Some(QuestionKind::Retry), TakenAs::No) => "not to be tried again",
        (Some(QuestionKind::Retry), _) => "to be tried again, with your answer",
        (Some(QuestionKind::Other) | None, _) => "passed on in your words",
    }
}

/// The error for a command without an answer: it names the questions.
fn nothing_said(questions: &Questions<'_>) -> CliError {
    let open: Vec<Question> = questions.journal.board().open_questions().cloned().collect();
    if open.is_empty() { none_open() } else { CliError::usage("no answer given").hints(how(&open)) }
}

fn none_open() -> CliError {
    CliError::usage(AnswerError::NoneOpen)
        .hint("`ralph status` shows what is under way and what continues it")
}

pub(super) fn not_answered(error: AnswerError) -> CliError {
    match error {
        AnswerError::Path(problem) => CliError::failed(problem),
        AnswerError::NoneOpen => none_open(),
        AnswerError::Unclear { ref text, ref question } => {
            let is_retry = question.kind == Some(QuestionKind::Retry);
            let (yes, other) = if is_retry {
                ("has it tried again", "has it tried again with your words")
            } else {
                ("accepts it", "does not, and passes your words to the next attempt")
            };
            let alike: Vec<&str> = YES.into_iter().filter(|word| *word != "yes").collect();
            let accepts = command(question, "yes");
            let objects = command(question, &format!("\"not yet: {}\"", shown(text)));
            CliError::usage(error).hints([
                format!("{accepts}  ({yes}; so do {})", alike.join(", ")),
                format!("{objects}  ({other})"),
            ])
        }
        AnswerError::NotOpen { ref open, .. }
        | AnswerError::NoText { ref open, .. }
        | AnswerError::Ambiguous { ref open, .. }
        | AnswerError::Several { ref open } => {
            let hints = how(open);
            CliError::usage(error).hints(hints)
        }
    }
}

fn how(open: &[Question]) -> Vec<String> {
    open.iter().map(how_to_answer).collect()
}

/// Returns the command that answers a question, and the question.
pub(crate) fn how_to_answer(question: &Question) -> String {
    format!("{}  ({})", command(question, "\"…\""), shown(&question.text))
}

/// Returns the command that gives an answer.
fn command(question: &Question, answer: &str) -> String {
    let name = &question.item;
    let bare = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    let name = if bare && !name.is_empty() { name } else { &question.id };
    format!("ralph answer {name} {answer}")
}

/// Returns a question as one sanitized line.
fn shown(text: &str) -> String {
    one_line(&text.split_whitespace().collect::<Vec<_>>().join(" "), 200)
}
