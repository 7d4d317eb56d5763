//! Options whose clap definition is built only when their command is used: most commands are not used in an invocation.

use std::ops::Deref;

use clap::builder::{Resettable, StyledStr};
use clap::{ArgMatches, Args, Command, Error, FromArgMatches, Subcommand};

/// The options or subcommands of a command; defined in clap on demand.
#[derive(Debug)]
pub(crate) struct LazyOptions<T>(Box<T>);

impl<T> Deref for LazyOptions<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: FromArgMatches> FromArgMatches for LazyOptions<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(|value| LazyOptions(Box::new(value)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T: Args> Args for LazyOptions<T> {
    fn augment_args(command: Command) -> Command {
        command.defer(|command| keep_about(command, T::augment_args))
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.defer(|command| keep_about(command, T::augment_args_for_update))
    }
}

impl<T: Subcommand> Subcommand for LazyOptions<T> {
    fn augment_subcommands(command: Command) -> Command {
        command.defer(|command| keep_about(command, T::augment_subcommands))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        command.defer(|command| keep_about(command, T::augment_subcommands_for_update))
    }

    fn has_subcommand(name: &str) -> bool {
        T::has_subcommand(name)
    }
}

/// Keeps a command's own description instead of that of the options it shares with others.
fn keep_about(command: Command, augment: fn(Command) -> Command) -> Command {
    let kept =
        |text: Option<&StyledStr>| text.cloned().map_or(Resettable::Reset, Resettable::Value);
    let (about, long) = (kept(command.get_about()), kept(command.get_long_about()));
    augment(command).about(about).long_about(long)
}
