//! Parses single steps.

use super::parser::Heredoc;
use super::step::{DaemonEnvironment, Flood, FloodKind, Reset, Signal, SignalTarget, Step};
use super::template::Template;
use super::value::{duration, hex, size, word};
use crate::event::ErrorKind;
use crate::nearest::did_you_mean;
use crate::usage::Usage;

/// Every word that can begin a step.
pub(crate) const STEP_NAMES: [&str; 42] = [
    "abort",
    "append",
    "child",
    "close-stdout",
    "commit",
    "context",
    "cost",
    "crash",
    "daemonise",
    "daemonise-env",
    "delete",
    "echo-prompt",
    "error",
    "exit",
    "expect-prompt",
    "expect-run",
    "final",
    "flood",
    "hang",
    "hold-pipe",
    "ignore",
    "kill-parent",
    "limit",
    "model",
    "on",
    "outbox",
    "read-prompt",
    "retry",
    "run",
    "say",
    "session",
    "setsid",
    "signal",
    "sleep",
    "stderr",
    "stdout",
    "stdout-bytes",
    "tool-close",
    "tool-open",
    "usage",
    "warn-limit",
    "write",
];

const ERROR_KINDS: [(&str, ErrorKind); 9] = [
    ("usage_limit", ErrorKind::UsageLimit),
    ("billing", ErrorKind::Billing),
    ("auth", ErrorKind::Auth),
    ("server", ErrorKind::Server),
    ("network", ErrorKind::Network),
    ("context", ErrorKind::Context),
    ("unknown_session", ErrorKind::UnknownSession),
    ("interrupted", ErrorKind::Interrupted),
    ("other", ErrorKind::Other),
];

const FLOOD_KINDS: [(&str, FloodKind); 5] = [
    ("text", FloodKind::Text),
    ("json", FloodKind::Json),
    ("line", FloodKind::Line),
    ("binary", FloodKind::Binary),
    ("stderr", FloodKind::Stderr),
];

/// Parses one step. `None` is `read-prompt off`, which belongs to the block.
pub(super) fn step(name: &str, arguments: Arguments<'_>) -> Result<Option<Step>, String> {
    Ok(Some(match name {
        "say" => Step::Say(arguments.text()?),
        "final" => Step::Final(arguments.text()?),
        "stdout" => Step::Stdout(arguments.text()?),
        "stderr" => Step::Stderr(arguments.text()?),
        "expect-prompt" => Step::ExpectPrompt(arguments.text()?),
        "expect-run" => Step::ExpectRun(arguments.command()?),
        "session" => Step::Session(Template::parse(&arguments.only_word("an id")?)?),
        "model" => Step::Model(Template::parse(&arguments.only_word("a name")?)?),
        "tool-open" => Step::ToolOpen(arguments.only_word("a tool's name")?),
        "write" => arguments.file(|path, content| Step::Write { path, content })?,
        "append" => arguments.file(|path, content| Step::Append { path, content })?,
        "outbox" => arguments.file(|path, content| Step::Outbox { path, content })?,
        "delete" => Step::Delete(Template::parse(&arguments.only_word("a path")?)?),
        "commit" => commit(&arguments.words()?)?,
        "run" => Step::Run(arguments.command()?),
        "child" => Step::Child(arguments.command()?),
        "setsid" => Step::Setsid(arguments.command()?),
        "daemonise" => {
            let environment = DaemonEnvironment::Inherited;
            Step::Daemonise { command: arguments.command()?, environment }
        }
        "daemonise-env" => {
            let environment = DaemonEnvironment::Cleared;
            Step::Daemonise { command: arguments.command()?, environment }
        }
        "hold-pipe" => Step::HoldPipe(duration(&arguments.only_word("a duration")?)?),
        "sleep" => Step::Sleep(duration(&arguments.only_word("a duration")?)?),
        "stdout-bytes" => Step::StdoutBytes(hex(arguments.line()?)?),
        "exit" => Step::Exit(number(&arguments.only_word("an exit code")?)?),
        "error" => error(arguments.line()?)?,
        "read-prompt" => match arguments.only_word("`off`")?.as_str() {
            "off" => return Ok(None),
            other => return Err(format!("`read-prompt` is followed by `off`, not `{other}`")),
        },
        "usage" => usage(&arguments.words()?)?,
        "cost" => cost(&arguments.words()?)?,
        "context" => context(&arguments.words()?)?,
        "limit" => Step::Limit(reset(&arguments.words()?)?),
        "warn-limit" => match arguments.words()?.as_slice() {
            [] => Step::WarnLimit(Reset::Unknown),
            words => Step::WarnLimit(reset(words)?),
        },
        "retry" => retry(&arguments.words()?)?,
        "flood" => flood(&arguments.words()?)?,
        "ignore" => ignore(&arguments.words()?)?,
        "on" => on_signal(&arguments.words()?)?,
        "signal" => send_signal(&arguments.words()?)?,
        "kill-parent" => {
            let step = Step::Signal { target: SignalTarget::Parent, signal: Signal::Kill };
            arguments.nothing(step)?
        }
        "tool-close" => arguments.nothing(Step::ToolClose)?,
        "hang" => arguments.nothing(Step::Hang)?,
        "crash" => arguments.nothing(Step::Crash)?,
        "abort" => arguments.nothing(Step::Abort)?,
        "echo-prompt" => arguments.nothing(Step::EchoPrompt)?,
        "close-stdout" => arguments.nothing(Step::CloseStdout)?,
        _ => return Err(format!("unknown step `{name}`{}", did_you_mean(name, STEP_NAMES))),
    }))
}

/// The arguments of a step.
pub(super) struct Arguments<'a> {
    pub(super) rest: &'a str,
    pub(super) heredoc: Option<Heredoc<'a>>,
}

impl<'a> Arguments<'a> {
    /// Everything after the name, on the same line.
    fn line(self) -> Result<&'a str, String> {
        if self.heredoc.is_some() {
            return Err("this step takes no heredoc".to_owned());
        }
        Ok(self.rest)
    }

    fn nothing(self, step: Step) -> Result<Step, String> {
        match self.line()? {
            "" => Ok(step),
            rest => Err(format!("unexpected `{rest}`")),
        }
    }

    fn words(self) -> Result<Vec<String>, String> {
        let mut rest = self.line()?;
        let mut words = Vec::new();
        while let Some((next, after)) = word(rest)? {
            words.push(next);
            rest = after;
        }
        Ok(words)
    }

    fn only_word(self, what: &str) -> Result<String, String> {
        match <[String; 1]>::try_from(self.words()?) {
            Ok([word]) if !word.is_empty() => Ok(word),
            _ => Err(format!("this step needs {what} and nothing else")),
        }
    }

    /// Text on the line or in a heredoc, without the final line end.
    fn text(self) -> Result<Template, String> {
        match (self.rest, self.heredoc) {
            ("", None) => Err("this step needs text".to_owned()),
            (line, None) => Template::parse(line),
            ("", Some(heredoc)) => heredoc.template(heredoc.lines.join("\n")),
            (_, Some(_)) => Err(BOTH.to_owned()),
        }
    }

    /// A shell command, in which `$` belongs to the shell.
    fn command(self) -> Result<String, String> {
        match (self.rest, self.heredoc) {
            ("", None) => Err("this step needs a command".to_owned()),
            (line, None) => Ok(line.to_owned()),
            ("", Some(heredoc)) => Ok(heredoc.lines.join("\n")),
            (_, Some(_)) => Err(BOTH.to_owned()),
        }
    }

    /// A path, then a line of content or a heredoc.
    fn file(self, step: impl FnOnce(Template, Template) -> Step) -> Result<Step, String> {
        let (path, rest) = word(self.rest)?.ok_or("this step needs a path and content")?;
        let content = match (rest, self.heredoc) {
            ("", None) => return Err("the content is missing (a line, or `<<END`)".to_owned()),
            (line, None) => Template::parse(&format!("{line}\n"))?,
            ("", Some(heredoc)) => {
                heredoc.template(heredoc.lines.iter().flat_map(|line| [line, "\n"]).collect())?
            }
            (_, Some(_)) => return Err(BOTH.to_owned()),
        };
        Ok(step(Template::parse(&path)?, content))
    }
}

const BOTH: &str = "give the text on the line or in the heredoc, not in both";

impl Heredoc<'_> {
    fn template(&self, text: String) -> Result<Template, String> {
        if self.verbatim { Ok(Template::literal(text)) } else { Template::parse(&text) }
    }
}

fn commit(words: &[String]) -> Result<Step, String> {
    let [message, paths @ ..] = words else {
        return Err("a commit needs a message (in double quotes) and may name paths".to_owned());
    };
    let paths = paths.iter().map(|path| Template::parse(path)).collect::<Result<_, _>>()?;
    Ok(Step::Commit { message: Template::parse(message)?, paths })
}

fn error(line: &str) -> Result<Step, String> {
    let (kind, rest) = word(line)?.ok_or("an error needs a kind and a text")?;
    let kind = named(&kind, "kind of error", &ERROR_KINDS)?;
    let (text, fatal) = if rest.starts_with('"') {
        let (text, after) = word(rest)?.expect("a quotation mark begins a word");
        match after {
            "" => (text, false),
            "fatal" => (text, true),
            other => return Err(format!("only `fatal` may follow the text, not `{other}`")),
        }
    } else {
        match rest.strip_suffix("fatal").filter(|text| text.ends_with(char::is_whitespace)) {
            Some(text) => (text.trim_end().to_owned(), true),
            None => (rest.to_owned(), false),
        }
    };
    if text.is_empty() {
        return Err("an error needs a text".to_owned());
    }
    Ok(Step::Error { kind, message: Template::parse(&text)?, fatal })
}

fn usage(words: &[String]) -> Result<Step, String> {
    let (words, cumulative) = cumulative(words);
    let mut usage = Usage::default();
    if words.is_empty() {
        return Err("usage needs counts like `input=100 output=20`".to_owned());
    }
    for (key, value) in pairs(words)? {
        let count = match key {
            "input" => &mut usage.input,
            "output" => &mut usage.output,
            "cache_read" => &mut usage.cache_read,
            "cache_write" => &mut usage.cache_write,
            other => {
                let known = ["input", "output", "cache_read", "cache_write"];
                return Err(format!("unknown count `{other}`{}", did_you_mean(other, known)));
            }
        };
        *count = number(value)?;
    }
    Ok(Step::Usage { usage, cumulative })
}

fn cost(words: &[String]) -> Result<Step, String> {
    let (words, cumulative) = cumulative(words);
    match words {
        [usd] => match usd.parse::<f64>() {
            Ok(usd) if usd.is_finite() && usd >= 0.0 => Ok(Step::Cost { usd, cumulative }),
            _ => Err(format!("`{usd}` is not a cost in dollars")),
        },
        _ => Err("cost needs dollars, like `cost 0.12`".to_owned()),
    }
}

fn cumulative(words: &[String]) -> (&[String], bool) {
    match words {
        [words @ .., last] if last == "cumulative" => (words, true),
        words => (words, false),
    }
}

fn context(words: &[String]) -> Result<Step, String> {
    let (mut used, mut window) = (None, None);
    for (key, value) in pairs(words)? {
        match key {
            "used" => used = Some(number(value)?),
            "window" => window = Some(number(value)?),
            other => {
                let hint = did_you_mean(other, ["used", "window"]);
                return Err(format!("unknown count `{other}`{hint}"));
            }
        }
    }
    let used = used.ok_or("context needs `used=…` and may have `window=…`")?;
    Ok(Step::Context { used, window })
}

fn reset(words: &[String]) -> Result<Reset, String> {
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["in", after] => Ok(Reset::After(duration(after)?)),
        ["at", time] => match time.parse() {
            Ok(time) => Ok(Reset::At(time)),
            Err(_) => Err(format!("`{time}` is not a time (like `2030-01-31T12:00:00Z`)")),
        },
        ["unknown"] => Ok(Reset::Unknown),
        _ => Err("a limit needs `in DURATION`, `at TIME` or `unknown`".to_owned()),
    }
}

fn retry(words: &[String]) -> Result<Step, String> {
    match words {
        [times] => Ok(Step::Retry { times: number(times)?, status: None }),
        [times, status] => Ok(Step::Retry { times: number(times)?, status: Some(number(status)?) }),
        _ => Err("retry needs a number and may have a status".to_owned()),
    }
}

fn flood(words: &[String]) -> Result<Step, String> {
    let [kind, amount] = words else {
        return Err("flood needs a kind and an amount, like `flood text 500MB`".to_owned());
    };
    let kind = named(kind, "flood", &FLOOD_KINDS)?;
    let amount = if kind == FloodKind::Json { number(amount)? } else { size(amount)? };
    Ok(Step::Flood(Flood { kind, amount }))
}

fn ignore(words: &[String]) -> Result<Step, String> {
    if words.is_empty() {
        return Err("ignore needs signals, like `ignore SIGTERM SIGINT`".to_owned());
    }
    Ok(Step::Ignore(words.iter().map(|name| handled(name)).collect::<Result<_, _>>()?))
}

fn on_signal(words: &[String]) -> Result<Step, String> {
    match words {
        [signal, exit, code] if exit == "exit" => {
            Ok(Step::ExitOn { signal: handled(signal)?, code: number(code)? })
        }
        _ => Err("this step reads `on SIGNAL exit CODE`".to_owned()),
    }
}

fn send_signal(words: &[String]) -> Result<Step, String> {
    let [target, signal] = words else {
        return Err("this step reads `signal TARGET SIGNAL`".to_owned());
    };
    let target = match target.as_str() {
        "self" => SignalTarget::Own,
        "parent" => SignalTarget::Parent,
        "group" => SignalTarget::Group,
        id => match id.parse::<i32>().map(u32::try_from) {
            // 0 and 1 would not mean a process of the script.
            Ok(Ok(id @ 2..)) => SignalTarget::Process(id),
            _ => return Err(format!("`{id}` is not `self`, `parent`, `group` or a process id")),
        },
    };
    Ok(Step::Signal { target, signal: signal_named(signal)? })
}

fn handled(name: &str) -> Result<Signal, String> {
    let signal = signal_named(name)?;
    if signal.can_be_handled() {
        Ok(signal)
    } else {
        Err(format!("no process can handle or ignore `{name}`"))
    }
}

fn signal_named(name: &str) -> Result<Signal, String> {
    let short = Signal::NAMES.iter().find(|(long, _)| long.strip_prefix("SIG") == Some(name));
    match short {
        Some((_, signal)) => Ok(*signal),
        None => named(name, "signal", &Signal::NAMES),
    }
}

fn named<T: Copy>(name: &str, what: &str, known: &[(&str, T)]) -> Result<T, String> {
    known.iter().find(|(known, _)| *known == name).map(|(_, value)| *value).ok_or_else(|| {
        format!(
            "unknown {what} `{name}`{}",
            did_you_mean(name, known.iter().map(|(known, _)| *known))
        )
    })
}

fn pairs(words: &[String]) -> Result<Vec<(&str, &str)>, String> {
    let pair = |word: &'_ String| format!("`{word}` is not of the form `name=count`");
    words.iter().map(|word| word.split_once('=').ok_or_else(|| pair(word))).collect()
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not a valid number here"))
}
