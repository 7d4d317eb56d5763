//! The display of goal-driven work: one line per step.

use ralph_model::journal::JournalEvent;

use super::Tone;
use super::human::{one_line, plural};
use super::workflow::{proof, short_id};

/// Formats an event as a line; `None` for events that need none.
pub(super) fn line(event: &JournalEvent) -> Option<(Tone, &'static str, String)> {
    use JournalEvent as E;
    Some(match event {
        // Verbatim, as the interviewer gets them.
        E::InterviewTurn(turn) if !turn.problems.is_empty() => {
            (Tone::Attention, "retry", format!("not valid: {}", turn.problems.join("; ")))
        }
        E::InterviewTurn(turn) => match (turn.questions, turn.stories) {
            (Some(questions), _) => {
                let count = plural(u64::from(questions), "question");
                (Tone::Progress, "asks", format!("{count} for you"))
            }
            (None, stories) => {
                (Tone::Progress, "drafted", plural(u64::from(stories.unwrap_or(0)), "story"))
            }
        },
        E::PrdApproved(approved) => {
            let failing = plural(u64::from(approved.failing.unwrap_or(0)), "story");
            (Tone::Good, "approved", format!("{failing} to implement on {}", approved.branch))
        }
        E::TopicMapped(mapped) => {
            let topic = &mapped.topic;
            if let Some(reason) = &mapped.reason {
                return Some((
                    Tone::Attention,
                    "retry",
                    format!("{topic}: {}", one_line(reason, 300)),
                ));
            }
            let left =
                mapped.left.map(|left| format!("; {} left", plural(u64::from(left), "topic")));
            (Tone::Good, "mapped", format!("{topic}{}", left.unwrap_or_default()))
        }
        E::StoryPassed(passed) => {
            let at = match passed.commit.as_deref() {
                None => "nothing had to change, a person decided".to_owned(),
                Some(commit) => {
                    let proof = proof(passed.level);
                    format!("{}, {proof}", short_id(commit))
                }
            };
            let left = passed.left.filter(|left| *left > 0);
            let left = left.map(|left| format!("; {} left", plural(u64::from(left), "story")));
            let title = one_line(&passed.title, 80);
            let left = left.unwrap_or_default();
            (Tone::Good, "passes", format!("{}: {title} ({at}){left}", passed.story))
        }
        _ => return None,
    })
}
