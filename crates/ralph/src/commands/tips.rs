//! Which suggestions for a mistyped word are worth making: clap suggests words that are hardly like it, and hidden ones.

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, Error};
use ralph_model::nearest::nearest;

use crate::args::Cli;

/// Returns the error with only those suggestions that are visible and near to what was typed.
pub(super) fn sensible(mut error: Error) -> Error {
    for (typed, suggested) in [
        (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
        (ContextKind::InvalidArg, ContextKind::SuggestedArg),
    ] {
        let Some(ContextValue::String(typed)) = error.get(typed).cloned() else { continue };
        match error.remove(suggested) {
            Some(ContextValue::String(word)) if is_near(&typed, &word) => {
                error.insert(suggested, ContextValue::String(word));
            }
            Some(ContextValue::Strings(mut words)) => {
                words.retain(|word| is_near(&typed, word) && is_visible(&Cli::command(), word));
                if !words.is_empty() {
                    error.insert(suggested, ContextValue::Strings(words));
                }
            }
            _ => {}
        }
    }
    error
}

/// Whether each word is near to the other one: a short word is near to many longer ones.
fn is_near(typed: &str, word: &str) -> bool {
    let name =
        |word: &str| word.trim_start_matches('-').split(['=', ' ']).next().map(str::to_owned);
    let (Some(typed), Some(word)) = (name(typed), name(word)) else { return false };
    !nearest(&typed, [word.as_str()]).is_empty() && !nearest(&word, [typed.as_str()]).is_empty()
}

fn is_visible(command: &clap::Command, word: &str) -> bool {
    let mut commands = command.get_subcommands();
    commands.any(|one| {
        let is_it = one.get_name() == word || one.get_visible_aliases().any(|alias| alias == word);
        (is_it && !one.is_hide_set()) || is_visible(one, word)
    })
}
