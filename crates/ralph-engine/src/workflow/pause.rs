//! The pause between two iterations: asks the person whether to continue, if they want that, and waits.

use std::time::Duration;

use super::driver::{Stop, Turn};
use crate::ask::{AskPerson, Inquiry, NoReply};
use crate::session::Session;
use crate::wait::Waited;

/// What is between two iterations.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundPause {
    /// Whether the person is asked after each iteration.
    pub interactive: bool,
    /// How long to wait.
    pub wait: Duration,
}

impl RoundPause {
    /// Pauses before the next iteration; returns what follows if there is to be none. `quit` is the end that the person
    /// chooses.
    pub(super) fn take<E>(
        &mut self,
        session: &mut Session<'_>,
        person: &mut dyn AskPerson,
        question: &str,
        quit: E,
    ) -> Option<Turn<E>> {
        if self.interactive {
            let inquiry = Inquiry { id: "pause", context: &[], question, consent: None };
            let options = ["Continue", "Skip interactive", "Quit"];
            match person.choose(&inquiry, &options, 0) {
                Ok(0) | Err(NoReply::Missing(_)) => {}
                Ok(1) => self.interactive = false,
                Ok(_) => return Some(Turn::End(quit)),
                Err(NoReply::Interrupted) => return Some(Turn::Stop(Stop::Interrupted)),
            }
        }
        if self.wait > Duration::ZERO && session.wait(self.wait) == Waited::Interrupted {
            return Some(Turn::Stop(Stop::Interrupted));
        }
        None
    }
}
