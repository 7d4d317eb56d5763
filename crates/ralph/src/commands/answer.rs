//! `ralph answer`: a person's answer to a workflow's question.

use ralph_engine::questions::AnswerError;
use ralph_engine::specs::{self as backlog, SPECS};
use ralph_engine::workflow::pipeline::list;
use ralph_engine::workflow::pipeline::store::SpecStore;
use ralph_model::board::Question;
use ralph_model::journal::AnswerOrigin;
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
}

pub(crate) fn run(global: &GlobalArgs, args: &AnswerArgs) -> Result<Exit, CliError> {
    if std::env::var_os("RALPH_RUN_ID").is_some() {
        return Err(CliError::usage("`ralph answer` is for people, and this is a run")
            .hint("say in your last message what is unclear"));
    }
    let (item, text) = match args.words.as_slice() {
        [text] => (None, text),
        [item, text, ..] => (Some(item.as_str()), text),
        [] => return Err(CliError::usage("no answer given")),
    };
    let setup = Setup::load(global, &[])?;
    setup.refuse_in_run("`ralph answer`")?;
    let mut open = setup.open_state()?;
    let mut questions = open.questions()?;
    let specs = backlog::discover(&setup.home.path.join(SPECS)).specs;
    for (item, question) in list::waiting(&SpecStore::new(&setup.home.path), &specs) {
        // Home contains the question of a spec; private state may be new.
        questions.ask_unless_answered(&item, &question).map_err(CliError::failed)?;
    }
    let question = questions.answer(item, text, AnswerOrigin::Cli).map_err(not_answered)?;
    if setup.json {
        print_json(&JsonAnswer {
            id: &question.id,
            item: &question.item,
            question: &question.text,
            answer: text,
        })?;
    } else {
        let told = format!("{}: {}", question.item, shown(text));
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
        setup.ui.line(format!("`{command}` acts on it"));
    }
    Ok(Exit::Done)
}

fn not_answered(error: AnswerError) -> CliError {
    match error {
        AnswerError::Path(problem) => CliError::failed(problem),
        AnswerError::NoneOpen => CliError::usage(error),
        AnswerError::NotOpen { ref open, .. }
        | AnswerError::NoText { ref open, .. }
        | AnswerError::Ambiguous { ref open, .. }
        | AnswerError::Several { ref open } => {
            let hints: Vec<String> = open.iter().map(how_to_answer).collect();
            CliError::usage(error).hints(hints)
        }
    }
}

/// Returns the command that answers a question, and the question.
pub(crate) fn how_to_answer(question: &Question) -> String {
    let name = &question.item;
    let bare = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    let name = if bare && !name.is_empty() { name } else { &question.id };
    format!("ralph answer {name} \"…\"  ({})", shown(&question.text))
}

/// Returns a question as one sanitized line.
fn shown(text: &str) -> String {
    one_line(&text.split_whitespace().collect::<Vec<_>>().join(" "), 200)
}
