//! The built-in scripted agent: for demonstrations, for trying a setup, and for tests.
//!
//! Its stdout is the wire form of events, one per line; other lines are skipped.

use camino::Utf8PathBuf;
use ralph_model::event::AgentEvent;
use ralph_model::run::ProcessExit;

use super::wire::{read, text_of};
use super::{Adapter, AgentRequest, DecodeContext, Decoder, EnvLookup, Invocation, Traits};
use crate::rehearsal::state_dir;

pub(super) struct Rehearsal;

impl Adapter for Rehearsal {
    fn name(&self) -> &'static str {
        "rehearsal"
    }

    fn program(&self) -> Option<&'static str> {
        None
    }

    fn traits(&self) -> Traits {
        Traits {
            structured: true,
            announces_tools: true,
            compacts: false,
            resumes: true,
            reports_cost: true,
            reasoning: false,
            login: None,
        }
    }

    /// The script is the first of the extra arguments; a model and a reasoning effort have no effect.
    fn invocation(&self, request: &AgentRequest<'_>) -> Invocation {
        let mut invocation = Invocation::default();
        invocation.args.push("__rehearse".to_owned());
        if let Some(script) = request.extra_args.first() {
            invocation.option("--script", script);
        }
        if let Some(session) = request.resume {
            invocation.option("--resume", session);
        }
        invocation
    }

    fn decoder(&self, _: DecodeContext) -> Box<dyn Decoder> {
        Box::new(RehearsalDecoder)
    }

    /// The directory in which it counts how often a script was played.
    fn state_paths(&self, env: EnvLookup<'_>) -> Vec<Utf8PathBuf> {
        state_dir(env).into_iter().collect()
    }
}

struct RehearsalDecoder;

impl Decoder for RehearsalDecoder {
    fn stdout_line(&mut self, line: &[u8], events: &mut Vec<AgentEvent>) {
        events.extend(read::<AgentEvent>(&text_of(line)));
    }

    fn finish(&mut self, _: Option<ProcessExit>, _: &mut Vec<AgentEvent>) {}
}
