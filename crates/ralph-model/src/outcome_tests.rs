//! The decision is tested exhaustively: every combination of facts is looked up in an independent table of rules, of
//! which the first match decides, and every rule must decide some case.

use std::time::Duration;

use super::*;
use crate::event::{AgentEvent, LimitStatus};
use crate::usage::Usage;

const MINUTE: Duration = Duration::from_mins(1);

/// What the agent was retrying when the run ended.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Retry {
    Nothing,
    Unanswered,
    Answered(u16),
}

/// One combination of facts about a run.
#[derive(Debug)]
struct Case {
    end: RunEnd,
    exit: Option<ProcessExit>,
    last_word: Option<&'static str>,
    /// Tool calls or text before the final message.
    activity: bool,
    error: Option<ErrorKind>,
    limit: Option<UsageLimit>,
    retrying: Retry,
    tail: &'static str,
    claim: ClaimCheck,
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn soon() -> Timestamp {
    Timestamp::from_second(1_800_000_090).unwrap()
}

fn all_cases() -> Vec<Case> {
    let ends = [
        RunEnd::Exited,
        RunEnd::WallTimeout { after: MINUTE },
        RunEnd::IdleTimeout { after: MINUTE },
        RunEnd::ContextLimit { used: 95, window: 100 },
        RunEnd::Interrupted,
        RunEnd::Withdrawn,
        RunEnd::Hopeless,
        RunEnd::NotStarted { reason: "not found".to_owned() },
        RunEnd::MachineFault { reason: "disk full".to_owned() },
    ];
    let exits = [
        None,
        Some(ProcessExit::Code(0)),
        Some(ProcessExit::Code(1)),
        Some(ProcessExit::Signal(9)),
    ];
    let last_words = [None, Some(" \n"), Some("done; Too Many Requests are handled now")];
    let errors = [
        None,
        Some(ErrorKind::UsageLimit),
        Some(ErrorKind::Billing),
        Some(ErrorKind::Auth),
        Some(ErrorKind::Server),
        Some(ErrorKind::Network),
        Some(ErrorKind::Context),
        Some(ErrorKind::UnknownSession),
        Some(ErrorKind::Interrupted),
        Some(ErrorKind::Other),
    ];
    let limits =
        [None, Some(UsageLimit { resets_at: None }), Some(UsageLimit { resets_at: Some(soon()) })];
    let retries = [
        Retry::Nothing,
        Retry::Unanswered,
        Retry::Answered(429),
        Retry::Answered(401),
        Retry::Answered(402),
        Retry::Answered(529),
    ];
    let tails =
        ["all quiet", "Too Many Requests", r#"rate_limit_exceeded {\"resets_in_seconds\": 90}"#];

    let mut cases = Vec::new();
    for end in &ends {
        for exit in exits {
            for last_word in last_words {
                for activity in [false, true] {
                    for error in errors {
                        for limit in limits {
                            for retrying in retries {
                                for tail in tails {
                                    for claim in [
                                        ClaimCheck::Made,
                                        ClaimCheck::Granted,
                                        ClaimCheck::Missing,
                                        ClaimCheck::Unknown,
                                    ] {
                                        let end = end.clone();
                                        cases.push(Case {
                                            end,
                                            exit,
                                            last_word,
                                            activity,
                                            error,
                                            limit,
                                            retrying,
                                            tail,
                                            claim,
                                        });
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    cases
}

impl Case {
    fn outcome(&self) -> RunOutcome {
        let facts = RunFacts {
            session: Some("s".to_owned()),
            usage: Usage { input: 1, ..Usage::default() },
            final_message: self.last_word.map(str::to_owned),
            tool_calls: u64::from(self.activity),
            error: self.error.map(|kind| AgentError {
                kind,
                message: "why".to_owned(),
                fatal: false,
            }),
            limit: self.limit,
            retrying: match self.retrying {
                Retry::Nothing => None,
                Retry::Unanswered => Some(Retrying { status: None, message: again() }),
                Retry::Answered(status) => {
                    Some(Retrying { status: Some(status), message: again() })
                }
            },
            ..RunFacts::default()
        };
        let close = RunClose { claim: self.claim, tail: self.tail, ..close(&self.end, self.exit) };
        facts.outcome(&close)
    }

    fn timed_out(&self) -> bool {
        matches!(self.end, RunEnd::WallTimeout { .. } | RunEnd::IdleTimeout { .. })
    }

    fn exited(&self) -> bool {
        self.end == RunEnd::Exited
    }

    fn ok(&self) -> bool {
        self.exit == Some(ProcessExit::Code(0))
    }

    /// A clean exit with a final message.
    fn whole(&self) -> bool {
        self.exited()
            && self.ok()
            && self.error.is_none()
            && self.last_word.is_some()
            && !self.silent()
    }

    /// It may have reported its limit instead of an answer.
    fn spoke_only(&self) -> bool {
        self.whole()
            && !matches!(self.claim, ClaimCheck::Made | ClaimCheck::Granted)
            && !self.activity
    }

    fn silent(&self) -> bool {
        !self.activity && self.last_word.is_none_or(|word| word.trim().is_empty())
    }
}

fn close(end: &RunEnd, exit: Option<ProcessExit>) -> RunClose<'_> {
    RunClose {
        limit_patterns: &[],
        end,
        exit,
        tail: "",
        stderr: "\n one\x1b\n\ntwo \n",
        claim: ClaimCheck::Unknown,
        now: now(),
    }
}

type Rule = (&'static str, fn(&Case) -> bool, fn(&Case) -> RunOutcome);

fn why() -> String {
    "why".to_owned()
}

fn again() -> String {
    "again".to_owned()
}

fn no_output() -> RunOutcome {
    trouble(Trouble::NoOutput { stderr: Some("one | two".to_owned()) })
}

fn limit_until(resets_at: Option<Timestamp>) -> RunOutcome {
    trouble(Trouble::UsageLimit { resets_at })
}

fn rules() -> Vec<Rule> {
    [
        rules_of_ends(),
        rules_of_whole_turns(),
        rules_of_errors(),
        rules_of_timeouts(),
        rules_of_the_rest(),
    ]
    .concat()
}

fn rules_of_ends() -> Vec<Rule> {
    vec![
        (
            "what could not be started is a spawn failure",
            |case| matches!(case.end, RunEnd::NotStarted { .. }),
            |_| trouble(Trouble::Spawn { message: "not found".to_owned() }),
        ),
        (
            "a machine fault is one whatever the agent said",
            |case| matches!(case.end, RunEnd::MachineFault { .. }),
            |_| trouble(Trouble::Machine { message: "disk full".to_owned() }),
        ),
        (
            "nothing follows from an interruption",
            |case| case.end == RunEnd::Interrupted,
            |_| RunOutcome::Interrupted,
        ),
        (
            "what the person has no more use for is withdrawn, however it ended",
            |case| case.end == RunEnd::Withdrawn,
            |_| RunOutcome::Withdrawn,
        ),
        (
            "a measured context limit is a fact about the work",
            |case| matches!(case.end, RunEnd::ContextLimit { .. }),
            |_| RunOutcome::ContextFull,
        ),
    ]
}

fn rules_of_whole_turns() -> Vec<Rule> {
    vec![
        (
            "a clean exit with its claim completes, whatever the text mentions",
            |case| case.whole() && matches!(case.claim, ClaimCheck::Made | ClaimCheck::Granted),
            |_| RunOutcome::Completed,
        ),
        (
            "a clean exit without its claim does not end a structured limit",
            |case| case.whole() && case.claim == ClaimCheck::Missing && case.limit.is_some(),
            |case| limit_until(case.limit.unwrap().resets_at),
        ),
        (
            "words about a limit in place of a claim or of tool calls are a limit",
            |case| case.spoke_only() && case.tail.starts_with("Too"),
            |_| limit_until(None),
        ),
        (
            "they may tell when the limit ends",
            |case| case.spoke_only() && case.tail.starts_with("rate"),
            |_| limit_until(Some(soon())),
        ),
        (
            "the message itself counts only where it should have held a claim",
            |case| {
                case.spoke_only()
                    && case.claim == ClaimCheck::Missing
                    && case.last_word.is_some_and(|word| word.contains("Too Many"))
            },
            |_| limit_until(None),
        ),
        (
            "any other clean exit with a last word completes, whatever the text mentions",
            Case::whole,
            |_| RunOutcome::Completed,
        ),
        (
            "a structured limit comes before all else that went wrong",
            |case| case.limit.is_some(),
            |case| limit_until(case.limit.unwrap().resets_at),
        ),
    ]
}

fn rules_of_errors() -> Vec<Rule> {
    vec![
        (
            "an error may be a limit too",
            |case| case.error == Some(ErrorKind::UsageLimit),
            |_| limit_until(None),
        ),
        (
            "a context that the agent reports full is a fact about the work",
            |case| case.error == Some(ErrorKind::Context),
            |_| RunOutcome::ContextFull,
        ),
        (
            "no credit",
            |case| case.error == Some(ErrorKind::Billing),
            |_| trouble(Trouble::Billing { message: why() }),
        ),
        (
            "no login",
            |case| case.error == Some(ErrorKind::Auth),
            |_| trouble(Trouble::Auth { message: why() }),
        ),
        (
            "a provider that fails",
            |case| case.error == Some(ErrorKind::Server),
            |_| trouble(Trouble::Server { message: why() }),
        ),
        (
            "a provider out of reach",
            |case| case.error == Some(ErrorKind::Network),
            |_| trouble(Trouble::Network { message: why() }),
        ),
        (
            "a session that is gone",
            |case| case.error == Some(ErrorKind::UnknownSession),
            |_| trouble(Trouble::UnknownSession { message: why() }),
        ),
    ]
}

fn rules_of_timeouts() -> Vec<Rule> {
    vec![
        (
            "a timeout of an agent that was held up by a limit",
            |case| case.timed_out() && case.retrying == Retry::Answered(429),
            |_| limit_until(None),
        ),
        (
            "a timeout of an agent whose login was refused",
            |case| case.timed_out() && case.retrying == Retry::Answered(401),
            |_| trouble(Trouble::Auth { message: again() }),
        ),
        (
            "a timeout of an agent without credit",
            |case| case.timed_out() && case.retrying == Retry::Answered(402),
            |_| trouble(Trouble::Billing { message: again() }),
        ),
        (
            "a timeout of an agent whose provider failed",
            |case| case.timed_out() && case.retrying == Retry::Answered(529),
            |_| trouble(Trouble::Server { message: again() }),
        ),
        (
            "a timeout of an agent whose provider was out of reach",
            |case| case.timed_out() && case.retrying == Retry::Unanswered,
            |_| trouble(Trouble::Network { message: again() }),
        ),
        (
            "any other wall timeout is a fact about the work, whatever the text mentions",
            |case| matches!(case.end, RunEnd::WallTimeout { .. }),
            |_| RunOutcome::TimedOut { idle: false, after: MINUTE },
        ),
        (
            "any other idle timeout is a fact about the work, whatever the text mentions",
            |case| matches!(case.end, RunEnd::IdleTimeout { .. }),
            |_| RunOutcome::TimedOut { idle: true, after: MINUTE },
        ),
    ]
}

fn rules_of_the_rest() -> Vec<Rule> {
    vec![
        (
            "the text of a run that did not complete may tell of a limit",
            |case| case.tail.starts_with("Too"),
            |_| limit_until(None),
        ),
        (
            "the text may tell when the limit ends",
            |case| case.tail.starts_with("rate"),
            |_| limit_until(Some(soon())),
        ),
        (
            "any other error is the agent's own",
            |case| case.error.is_some(),
            |_| trouble(Trouble::Agent { message: why() }),
        ),
        (
            "a run stopped as hopeless is trouble even if the error is lost",
            |case| case.end == RunEnd::Hopeless,
            |_| agent_trouble("stopped early, as it could only fail"),
        ),
        (
            "an end nobody saw",
            |case| case.exit.is_none(),
            |_| {
                trouble(Trouble::Machine {
                    message: "the agent's exit status is unknown".to_owned(),
                })
            },
        ),
        (
            "a bad exit is a crash, with a claim or without",
            |case| !case.ok(),
            |case| {
                let stderr = Some("one | two".to_owned());
                trouble(Trouble::Crash { exit: case.exit.unwrap(), stderr })
            },
        ),
        (
            "silence with a granted request is no silence",
            |case| case.silent() && case.claim == ClaimCheck::Granted,
            |_| RunOutcome::Completed,
        ),
        ("silence is no output", Case::silent, |_| no_output()),
        (
            "a stream cut short before the last word",
            |case| case.last_word.is_none(),
            |_| agent_trouble("it ended without a last message"),
        ),
    ]
}

#[test]
fn every_combination_is_decided_as_the_table_says() {
    let rules = rules();
    let mut decided = vec![0_u32; rules.len()];
    for case in all_cases() {
        let found = rules.iter().position(|(_, applies, _)| applies(&case));
        let rule = found.unwrap_or_else(|| panic!("no rule for {case:?}"));
        let (name, _, expected) = rules[rule];
        assert_eq!(case.outcome(), expected(&case), "{name}: {case:?}");
        decided[rule] += 1;
    }
    for ((name, ..), decided) in rules.iter().zip(decided) {
        assert!(decided > 0, "never decides anything: {name}");
    }
}

#[test]
fn text_without_tool_calls_is_activity() {
    let facts = RunFacts {
        last_text: Some("working".to_owned()),
        final_message: Some(String::new()),
        ..RunFacts::default()
    };
    let close = close(&RunEnd::Exited, Some(ProcessExit::Code(0)));
    assert_eq!(facts.outcome(&close), RunOutcome::Completed);
}

#[test]
fn a_run_of_which_nothing_was_heard_has_no_output() {
    let close = close(&RunEnd::Exited, Some(ProcessExit::Code(0)));
    assert_eq!(RunFacts::default().outcome(&close), no_output());
    let RunOutcome::Trouble { trouble } = RunFacts::default().outcome(&close) else { panic!() };
    let told = "the agent printed no answer on stdout; on stderr: one | two";
    assert_eq!(trouble.to_string(), told);
    let silent = RunFacts::default().outcome(&RunClose { stderr: " \n", ..close });
    let RunOutcome::Trouble { trouble } = silent else { panic!() };
    assert_eq!(trouble.to_string(), "the agent printed no answer");
    // As journals have it that were written before stderr was kept.
    let older: Trouble = serde_json::from_str(r#"{"kind":"no_output"}"#).unwrap();
    assert_eq!(older, trouble);
}

/// A tool call shows that the model answered, but an error at the end that names a limit is about that limit.
#[test]
fn the_reset_of_a_limit_is_known_also_after_more_work() {
    let limit = |status, resets_at| AgentEvent::RateLimit { status, resets_at };
    let hit = || limit(LimitStatus::Rejected, Some(soon()));
    let work = || AgentEvent::ToolCall {
        id: "1".to_owned(),
        name: "write".to_owned(),
        summary: String::new(),
    };
    let end = || AgentEvent::Final { text: "done".to_owned() };
    let error = || AgentEvent::Error {
        kind: ErrorKind::UsageLimit,
        message: "limit".to_owned(),
        fatal: true,
    };
    let retry = || AgentEvent::Retry { status: Some(429), message: "again".to_owned() };
    let exited = (RunEnd::Exited, Some(ProcessExit::Code(0)));
    let timeout = (RunEnd::IdleTimeout { after: MINUTE }, None);
    let reset = Some(soon());
    for (events, (run_end, exit), reset) in [
        (vec![hit(), error(), work(), end()], &exited, reset),
        (vec![hit(), work(), error(), end()], &exited, reset),
        (vec![hit(), limit(LimitStatus::Rejected, None), error(), work(), end()], &exited, reset),
        (vec![hit(), work(), retry()], &timeout, reset),
        (vec![hit(), limit(LimitStatus::Allowed, None), retry()], &timeout, None),
    ] {
        let mut facts = RunFacts::default();
        for event in &events {
            facts.apply(event);
        }
        assert_eq!(facts.outcome(&close(run_end, *exit)), limit_until(reset), "{events:?}");
    }
}

#[test]
fn a_crash_shows_what_stderr_ended_with() {
    let shown = |stderr| {
        let close = RunClose { stderr, ..close(&RunEnd::Exited, Some(ProcessExit::Code(127))) };
        match RunFacts::default().outcome(&close) {
            RunOutcome::Trouble { trouble } => trouble.to_string(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        shown("sh: 1: agent: not found\n"),
        "the agent ended with exit 127: sh: 1: agent: not found"
    );
    assert_eq!(shown(" \n\x07\n"), "the agent ended with exit 127");
    assert_eq!(
        shown(&"é".repeat(1000)).chars().count(),
        "the agent ended with exit 127: ".len() + 400
    );
}
