use std::time::Duration;

use proptest::prelude::*;

use super::grammar::STEP_NAMES;
use super::template::VARIABLES;
use super::*;
use crate::event::ErrorKind;
use crate::usage::Usage;

/// Parses a script of one block.
fn steps(text: &str) -> Vec<Step> {
    let script = parse(text).unwrap();
    let [block] = script.blocks.as_slice() else { panic!("more than one block in {text:?}") };
    block.steps.iter().map(|placed| placed.step.clone()).collect()
}

fn problems(text: &str) -> Vec<String> {
    parse(text).unwrap_err().iter().map(ToString::to_string).collect()
}

fn text(template: &str) -> Template {
    Template::parse(template).unwrap()
}

#[test]
fn every_step_is_read() {
    let command = || "sleep 5 && echo ${HOME}".to_owned();
    let table = [
        ("say  hello  #3 ", Step::Say(text("hello  #3"))),
        ("final ${COMMIT}", Step::Final(text("${COMMIT}"))),
        ("session s-1", Step::Session(text("s-1"))),
        ("model big", Step::Model(text("big"))),
        (
            "usage input=1 output=2 cache_read=3 cache_write=4 cumulative",
            Step::Usage {
                usage: Usage { input: 1, output: 2, cache_read: 3, cache_write: 4 },
                cumulative: true,
            },
        ),
        ("cost 0.12", Step::Cost { usd: 0.12, cumulative: false }),
        ("context used=9 window=10", Step::Context { used: 9, window: Some(10) }),
        ("context used=9", Step::Context { used: 9, window: None }),
        ("limit in 1h", Step::Limit(Reset::After(Duration::from_hours(1)))),
        (
            "limit at 2030-01-31T12:00:00Z",
            Step::Limit(Reset::At("2030-01-31T12:00:00Z".parse().unwrap())),
        ),
        ("limit unknown", Step::Limit(Reset::Unknown)),
        ("warn-limit", Step::WarnLimit(Reset::Unknown)),
        ("warn-limit in 5m", Step::WarnLimit(Reset::After(Duration::from_mins(5)))),
        ("retry 3 529", Step::Retry { times: 3, status: Some(529) }),
        ("retry 1", Step::Retry { times: 1, status: None }),
        (
            "error server it broke fatal",
            Step::Error { kind: ErrorKind::Server, message: text("it broke"), fatal: true },
        ),
        (
            "error auth \"this is fatal\"",
            Step::Error { kind: ErrorKind::Auth, message: text("this is fatal"), fatal: false },
        ),
        ("tool-open Bash", Step::ToolOpen("Bash".to_owned())),
        (
            "write \"a b.txt\" one line",
            Step::Write { path: text("a b.txt"), content: text("one line\n") },
        ),
        (
            "append a <<END\n# kept\n  two\nEND",
            Step::Append { path: text("a"), content: text("# kept\n  two\n") },
        ),
        ("outbox plan.md <<E\nE", Step::Outbox { path: text("plan.md"), content: text("") }),
        ("delete ${RALPH_OUT}/x", Step::Delete(text("${RALPH_OUT}/x"))),
        ("run sleep 5 && echo ${HOME}", Step::Run(command())),
        ("expect-run sleep 5 && echo ${HOME}", Step::ExpectRun(command())),
        (
            r#"commit "say \"hi\"" a "b c""#,
            Step::Commit { message: text("say \"hi\""), paths: vec![text("a"), text("b c")] },
        ),
        ("stdout <<'END'\n${JS}\n\n[x]\nEND", Step::Stdout(Template::literal("${JS}\n\n[x]"))),
        ("stdout-bytes ff 00 0a", Step::StdoutBytes(vec![0xff, 0, 10])),
        ("stderr oh", Step::Stderr(text("oh"))),
        ("flood text 500MB", flood(FloodKind::Text, 500_000_000)),
        ("flood json 5000000", flood(FloodKind::Json, 5_000_000)),
        ("flood line 10MiB", flood(FloodKind::Line, 10 << 20)),
        ("flood binary 1000", flood(FloodKind::Binary, 1000)),
        ("flood stderr 2kB", flood(FloodKind::Stderr, 2000)),
        ("echo-prompt", Step::EchoPrompt),
        ("close-stdout", Step::CloseStdout),
        ("expect-prompt a b", Step::ExpectPrompt(text("a b"))),
        ("sleep 500ms", Step::Sleep(Duration::from_millis(500))),
        ("hang", Step::Hang),
        ("exit 255", Step::Exit(255)),
        ("crash", Step::Crash),
        ("abort", Step::Abort),
        ("ignore SIGTERM INT", Step::Ignore(vec![Signal::Term, Signal::Int])),
        ("on SIGTERM exit 143", Step::ExitOn { signal: Signal::Term, code: 143 }),
        ("signal 42 HUP", Step::Signal { target: SignalTarget::Process(42), signal: Signal::Hup }),
        ("signal self STOP", Step::Signal { target: SignalTarget::Own, signal: Signal::Stop }),
        ("signal group INT", Step::Signal { target: SignalTarget::Group, signal: Signal::Int }),
        ("kill-parent", Step::Signal { target: SignalTarget::Parent, signal: Signal::Kill }),
        ("child sleep 5 && echo ${HOME}", Step::Child(command())),
        ("setsid <<X\nsleep 5 && echo ${HOME}\nX", Step::Setsid(command())),
        (
            "daemonise sleep 5 && echo ${HOME}",
            Step::Daemonise { command: command(), environment: DaemonEnvironment::Inherited },
        ),
        (
            "daemonise-env sleep 5 && echo ${HOME}",
            Step::Daemonise { command: command(), environment: DaemonEnvironment::Cleared },
        ),
        ("hold-pipe 600s", Step::HoldPipe(Duration::from_mins(10))),
    ];
    for (script, step) in &table {
        assert_eq!(steps(script), std::slice::from_ref(step), "{script:?}");
    }
    assert_eq!(steps("tool-open Read\ntool-close").last(), Some(&Step::ToolClose));
    assert!(!parse("read-prompt off\nhang").unwrap().blocks[0].reads_prompt);
    for name in STEP_NAMES {
        let shown = table.iter().any(|(script, _)| script.split_whitespace().next() == Some(name));
        assert!(
            shown || ["tool-close", "read-prompt"].contains(&name),
            "{name} is not in the table"
        );
    }
}

fn flood(kind: FloodKind, amount: u64) -> Step {
    Step::Flood(Flood { kind, amount })
}

#[test]
fn every_mistake_is_told_with_its_line() {
    let table = [
        ("sya hello", "line 1: unknown step `sya`; did you mean `say`?"),
        ("xylophone", "line 1: unknown step `xylophone`"),
        (
            "[bilder 1]",
            "line 1: unknown role `bilder`; roles: planner, interviewer, mapper, investigator, \
             decomposer, verifier, implementer, builder; did you mean `builder`?",
        ),
        ("[builder 0]", "line 1: `0` is not an invocation (`1`, `2`, … or `*`)"),
        ("[", "line 1: `[` is not a block header (like `[builder 1]`, `[verifier *]`, `[*]`)"),
        ("say hi\n[*]", "line 2: steps before the first block header"),
        ("[*]\n[builder 1]\n[builder 1]", "line 3: the block `[builder 1]` is defined twice"),
        ("[builder]\n[builder *]", "line 2: the block `[builder *]` is defined twice"),
        ("\nwrite a <<END\nb", "line 2: the heredoc is not closed by `END`"),
        ("say a <<E\nb\nE", "line 1: give the text on the line or in the heredoc, not in both"),
        ("hang <<E\nE", "line 1: this step takes no heredoc"),
        ("hang on", "line 1: unexpected `on`"),
        ("say", "line 1: this step needs text"),
        ("write a", "line 1: the content is missing (a line, or `<<END`)"),
        ("exit 256", "line 1: `256` is not a valid number here"),
        ("sleep 2", "line 1: `2` is not a duration (like `500ms`, `2s`, `5m`, `1h`, `7d`)"),
        ("flood text 5 MB", "line 1: flood needs a kind and an amount, like `flood text 500MB`"),
        (
            "flood text 99999999999GB",
            "line 1: `99999999999GB` is not a size (like `1000`, `500MB`, `10MiB`)",
        ),
        ("flood jsno 5", "line 1: unknown flood `jsno`; did you mean `json`?"),
        ("ignore SIGKILL", "line 1: no process can handle or ignore `SIGKILL`"),
        ("ignore SIGTREM", "line 1: unknown signal `SIGTREM`; did you mean `SIGTERM`?"),
        ("signal 1 TERM", "line 1: `1` is not `self`, `parent`, `group` or a process id"),
        ("signal -1 TERM", "line 1: `-1` is not `self`, `parent`, `group` or a process id"),
        ("usage inptu=3", "line 1: unknown count `inptu`; did you mean `input`?"),
        ("cost NaN", "line 1: `NaN` is not a cost in dollars"),
        ("error srever x", "line 1: unknown kind of error `srever`; did you mean `server`?"),
        ("commit \"open", "line 1: a `\"` is not closed"),
        ("stdout-bytes f", "line 1: bytes need two hexadecimal digits each"),
        ("stdout-bytes fg", "line 1: `g` is not a hexadecimal digit"),
        ("limit in", "line 1: a limit needs `in DURATION`, `at TIME` or `unknown`"),
        ("tool-open a\ntool-close\ntool-close", "line 3: no tool call is open here"),
        ("hang\nread-prompt off", "line 2: `read-prompt off` must be the first step of its block"),
    ];
    for (script, problem) in table {
        assert_eq!(problems(script), [problem], "{script:?}");
    }
}

#[test]
fn all_problems_come_at_once_and_in_order() {
    let script = "[builder 1]\nsai x\n# fine\nexit now\n[nobody]\nsay ok\n[*]\nsleep\n";
    let lines: Vec<usize> = parse(script).unwrap_err().iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [2, 4, 5, 8]);
}

#[test]
fn the_most_specific_block_wins() {
    let script =
        parse("[*]\nexit 1\n[* 2]\nexit 2\n[builder *]\nexit 3\n[builder 2]\nexit 4").unwrap();
    let exit = |role, invocation| match script.block(role, invocation).unwrap().steps[0].step {
        Step::Exit(code) => code,
        ref other => panic!("{other:?}"),
    };
    assert_eq!(exit(Role::Builder, 2), 4);
    assert_eq!(exit(Role::Builder, 1), 3);
    assert_eq!(exit(Role::Verifier, 2), 2);
    assert_eq!(exit(Role::Verifier, 1), 1);
    assert_eq!(parse("[builder 1]\nhang").unwrap().block(Role::Builder, 2), None);
}

#[test]
fn a_script_without_headers_is_one_block_for_all() {
    let script = parse("# nothing but\n\nsay hello").unwrap();
    let block = script.block(Role::Planner, 7).unwrap();
    assert_eq!(block.selector, Selector::default());
    assert_eq!(block.steps, [PlacedStep { line: 3, step: Step::Say(text("hello")) }]);
    assert_eq!(parse("").unwrap().block(Role::Planner, 1).unwrap().steps, []);
}

#[test]
fn variables_are_filled_in_when_a_template_is_used() {
    let lookup = |name: &str| (name == "COMMIT").then(|| "abc".to_owned());
    let table = [
        ("at ${COMMIT}!", Ok("at abc!")),
        ("$5 $COMMIT $$", Ok("$5 $COMMIT $$")),
        ("$${COMMIT}", Ok("${COMMIT}")),
        ("$$${COMMIT}", Ok("$${COMMIT}")),
        ("${RESUME:-new}${COMMIT:-x}", Ok("newabc")),
        ("${RESUME}", Err(UnsetVariable("RESUME".to_owned()))),
    ];
    for (template, expected) in table {
        assert_eq!(text(template).render(lookup), expected.map(str::to_owned), "{template}");
    }
    let problem = Template::parse("${COMIT}").unwrap_err();
    assert!(problem.starts_with("unknown variable `COMIT`; did you mean `COMMIT`?"), "{problem}");
    assert!(Template::parse("a ${COMMIT").is_err());
}

/// Lines that resemble scripts: valid and broken keywords, and special characters.
fn scriptish() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        4 => proptest::sample::select(STEP_NAMES.to_vec()).prop_map(str::to_owned),
        1 => proptest::sample::select(vec![
            "[*]", "[builder 1]", "[", "<<END", "END", "<<'E'", "E", "\"", "${COMMIT}", "${", "=",
            "input=5", "SIGTERM", "exit", "5s", "500MB", "text", "json", "off", "in", "at", "#",
            "fatal", "other", "\\", "é",
        ]).prop_map(str::to_owned),
        1 => "\\PC{0,12}",
    ];
    let line = proptest::collection::vec(word, 0..5).prop_map(|words| words.join(" "));
    proptest::collection::vec(line, 0..12).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(script in prop_oneof![scriptish(), any::<String>()]) {
        if let Err(problems) = parse(&script) {
            let lines = script.lines().count();
            prop_assert!(!problems.is_empty());
            for problem in problems {
                prop_assert!((1..=lines).contains(&problem.line), "{problem} of {lines}");
                prop_assert!(!problem.message.is_empty());
            }
        }
    }

    #[test]
    fn text_comes_out_as_it_went_in(body in proptest::collection::vec("\\PC{0,30}", 0..8)) {
        prop_assume!(body.iter().all(|line| line.trim() != "END"));
        let expected: String = body.iter().flat_map(|line| [line, "\n"]).collect();
        let script = format!("[builder 2]\nwrite f <<'END'\n{expected}END\nexit 1");
        let script = parse(&script).unwrap();
        let steps = &script.block(Role::Builder, 2).unwrap().steps;
        let content = Template::literal(expected);
        prop_assert_eq!(&steps[0].step, &Step::Write { path: text("f"), content });
        prop_assert_eq!(&steps[1].step, &Step::Exit(1));
    }

    #[test]
    fn a_word_in_quotes_is_that_word(word in "\\PC{0,20}") {
        let quoted = word.replace('\\', "\\\\").replace('"', "\\\"");
        let line = format!("\"{quoted}\" rest");
        prop_assert_eq!(value::word(&line).unwrap(), Some((word, "rest")));
    }
}

const DOCUMENT: &str = include_str!("../../../docs/rehearsal.md");

#[test]
fn the_examples_of_the_document_are_scripts() {
    let examples: Vec<&str> = DOCUMENT
        .split("```rehearsal\n")
        .skip(1)
        .map(|after| after.split_once("```").unwrap().0)
        .collect();
    assert_eq!(examples.len(), 2);
    for example in examples {
        assert_eq!(parse(example).err(), None);
    }
}

#[test]
fn the_table_of_the_document_names_every_step_and_no_other() {
    let rows = DOCUMENT.lines().filter(|line| line.starts_with("| `"));
    let mut named: Vec<&str> = rows
        .flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2))
        .map(|usage| usage.split_whitespace().next().unwrap())
        .collect();
    named.sort_unstable();
    named.dedup();
    assert_eq!(named, STEP_NAMES);
}

#[test]
fn the_document_names_every_variable() {
    for variable in VARIABLES {
        assert!(DOCUMENT.contains(&format!("`{variable}`")), "{variable}");
    }
}
