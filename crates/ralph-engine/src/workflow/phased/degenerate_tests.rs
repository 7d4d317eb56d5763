//! The agent that satisfies every gate without implementing anything, in every order of its six steps: machine, plan parser
//! and built-in gates are the real ones, and only processes and git are left out.

use ralph_model::gate::BuiltIn;
use ralph_model::phase::{
    IterationReport, LoopBounds, LoopDecision, LoopFact, LoopPlace, LoopRecord, LoopStanding,
    LoopTask, LoopWrite, PlanMark, PlanVerdict, RunEnding, decide, settle, signal,
};
use ralph_outline::checks::{self, CheckInput, changes_components, is_before_work};
use ralph_outline::finding::report;
use ralph_outline::language::{PlanCheck, PlanSurroundings, find_plan};
use ralph_outline::rules::LoopRules;
use ralph_outline::tree::FileTree;

use crate::digest;

const PLAN: &str = "export default (\n<App name=\"Shop\">\n<Theme mood=\"zen\" />\n<Screen name=\"Home\">\n\
    <Section gumdrop=\"hero\" />\n<Section gumdrop=\"faq\" />\n<Section gumdrop=\"footer\" />\n</Screen>\n</App>\n);\n";

/// As a generator leaves it: with imports of the stack and components, and without the phrase that gives it away.
const SCAFFOLD: &str = "import { Stack } from '@wiggum/stack';\nimport { Card } from './components/Card';\n\
    // A scaffold that passes for content: it imports a package of the stack and shows some components of its own.\n\
    // It is long enough to be taken for something that somebody has begun to work on, which nobody ever has.\n\
    export default function App() {\n  return <Stack><Card /><Card /><Card /><Card /></Stack>;\n}\n";

const GATES: [BuiltIn; 8] = [
    BuiltIn::HasSummary,
    BuiltIn::PlanDiff,
    BuiltIn::Scope,
    BuiltIn::AppExists,
    BuiltIn::AppHasContent,
    BuiltIn::CssThemeComplete,
    BuiltIn::CssNoTailwindDirectives,
    BuiltIn::NoHardcodedColors,
];

/// What the problem was described by. The scaffold is there and builds, so that two of the steps are nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Plan,
    Theme,
    Summary,
    ScaffoldHasContent,
    ScaffoldBuilds,
    Complete,
}

const STEPS: [Step; 6] = [
    Step::Plan,
    Step::Theme,
    Step::Summary,
    Step::ScaffoldHasContent,
    Step::ScaffoldBuilds,
    Step::Complete,
];

struct Story {
    rules: LoopRules,
    theme: String,
    checked: PlanCheck,
}

/// What the agent has left so far.
#[derive(Debug, Default)]
struct Left {
    plan: bool,
    theme: bool,
    summary: bool,
}

struct Judgement {
    failing: Vec<String>,
    is_before_work: bool,
    /// A person is asked where no gate fails.
    asks: bool,
}

impl Story {
    fn new() -> Story {
        let rules = LoopRules::web_app();
        let names = rules.registries.theme_variables.clone().unwrap();
        let lines: Vec<String> = names.iter().map(|name| format!("{name}: 1 2% 3%;")).collect();
        let theme =
            format!(":root {{ {} }}\n.dark {{ --background: 0 0% 0%; }}\n", lines.join("\n"));
        let (language, text) =
            find_plan(|file| (file == "plan.tsx").then(|| PLAN.to_owned())).unwrap();
        let tree = FileTree::new([("src/App.tsx", SCAFFOLD)]);
        let around = PlanSurroundings { rules: &rules, tree: &tree, is_program: &|_| true };
        let checked = language.check(&text, &around);
        assert!(checked.is_valid(), "{}", report(&checked.findings));
        Story { rules, theme, checked }
    }

    /// What the judge says.
    fn judge(&self, record: &LoopRecord, left: &Left) -> Judgement {
        let before = FileTree::new([("src/App.tsx", SCAFFOLD)]);
        let css = left.theme.then_some(("src/index.css", self.theme.as_str()));
        let tree = FileTree::new([("src/App.tsx", SCAFFOLD)].into_iter().chain(css));
        let changed: Vec<String> = css.iter().map(|(name, _)| (*name).to_owned()).collect();
        let input = CheckInput {
            rules: &self.rules,
            tree: &tree,
            before: Some(&before),
            changed: &changed,
            added: &changed,
            idle: &[],
            outline: record.validated.as_ref().map(|_| &self.checked.outline),
            summary: left.summary.then_some("The whole shop was built, with all sections."),
        };
        let failing = GATES.into_iter().filter(|gate| !checks::run(*gate, &input).passed);
        Judgement {
            failing: failing.map(|gate| gate.name().to_owned()).collect(),
            is_before_work: is_before_work(&input),
            asks: input.outline.is_none() && !changes_components(&input),
        }
    }

    /// Plays batches of steps, a run each, and then completions only, until the task is aborted or a person is asked.
    /// Fails if the work is accepted.
    fn play(&self, batches: &[Vec<Step>]) {
        let bounds = LoopBounds { iterations: 12, failures: 5, idle: 3 };
        let mark = PlanMark { file: "plan.tsx".to_owned(), digest: digest::of_data(&PLAN) };
        let task = LoopTask { number: 1, text: "Build a shop".to_owned() };
        let mut record = None;
        let (place, present) = (LoopPlace::Slot, Vec::new());
        tell(&mut record, &LoopFact::Started { task, place, present }, bounds);
        let mut left = Left::default();
        for number in 0..u64::from(bounds.iterations) {
            let documents: Vec<PlanMark> = left.plan.then(|| mark.clone()).into_iter().collect();
            let verdict = match documents.first() {
                None => PlanVerdict::Absent,
                Some(plan) => PlanVerdict::Valid { plan: plan.clone(), report: String::new() },
            };
            tell(&mut record, &LoopFact::PlanChecked { documents, verdict }, bounds);
            let only_complete = vec![Step::Complete];
            let batch = usize::try_from(number).ok().and_then(|at| batches.get(at));
            let batch = batch.unwrap_or(&only_complete);
            left.plan |= batch.contains(&Step::Plan);
            left.theme |= batch.contains(&Step::Theme);
            left.summary |= batch.contains(&Step::Summary);
            let status = if batch.contains(&Step::Complete) { "complete" } else { "running" };
            let documents: Vec<PlanMark> = left.plan.then(|| mark.clone()).into_iter().collect();
            let report = IterationReport {
                signal: signal(RunEnding {
                    status,
                    question: None,
                    final_message: "All done.",
                    tool_calls: Some(batch.len() as u64),
                }),
                plan: documents.first().cloned(),
                documents,
                changed: left.theme,
                no_change: None,
                touched: Vec::new(),
                trace: format!("{left:?}"),
            };
            let now = record.clone().unwrap();
            let run = ralph_model::id::RunId::new(jiff::Timestamp::UNIX_EPOCH, number);
            let fact = if decide(&now, &report) == LoopDecision::Judge {
                let Judgement { failing: gates, is_before_work, asks } = self.judge(&now, &left);
                if gates.is_empty() {
                    assert!(asks, "accepted: {batches:?}\n{now:#?}");
                    return;
                }
                let feedback = "# Quality Gate Failures\n".to_owned();
                let (run, before_work) = (Some(run), is_before_work);
                LoopFact::GatesFailed { run, gates, feedback, before_work, touched: Vec::new() }
            } else {
                LoopFact::Ended { run, report }
            };
            tell(&mut record, &fact, bounds);
            let standing = &record.as_ref().unwrap().standing;
            if matches!(standing, LoopStanding::Aborted { .. } | LoopStanding::Idle) {
                break;
            }
            assert_eq!(*standing, LoopStanding::Working, "{batches:?}");
        }
    }
}

fn tell(record: &mut Option<LoopRecord>, fact: &LoopFact, bounds: LoopBounds) {
    for write in settle(record.as_ref(), fact, bounds).unwrap() {
        if let LoopWrite::Record(new) = write {
            *record = Some(*new);
        }
    }
}

/// All orders of some steps.
fn orders(steps: &[Step]) -> Vec<Vec<Step>> {
    if steps.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let rest = [&steps[..at], &steps[at + 1..]].concat();
        all.extend(orders(&rest).into_iter().map(|order| [vec![*step], order].concat()));
    }
    all
}

#[test]
fn no_order_of_the_six_steps_is_ever_accepted() {
    let story = Story::new();
    let orders = orders(&STEPS);
    assert_eq!(orders.len(), 720);
    for order in orders {
        story.play(&order.iter().map(|step| vec![*step]).collect::<Vec<_>>());
    }
}

/// Within one run only what is there at its end matters, so that two batches are a choice of steps for the first.
#[test]
fn no_way_to_do_the_steps_in_two_batches_is_ever_accepted() {
    let story = Story::new();
    for chosen in 0_u32..64 {
        let is_first = |at: usize| chosen & (1 << at) != 0;
        let pick = |first: bool| -> Vec<Step> {
            (0..6).filter(|at| is_first(*at) == first).map(|at| STEPS[at]).collect()
        };
        story.play(&[pick(true), pick(false)]);
    }
}

/// What makes the story worth telling: all other gates let the scaffold through.
#[test]
fn each_gate_but_the_plans_lets_the_scaffold_through() {
    let story = Story::new();
    let left = Left { plan: true, theme: true, summary: true };
    let task = LoopTask { number: 1, text: "Build a shop".to_owned() };
    let mut record = None;
    let (place, present) = (LoopPlace::Slot, Vec::new());
    tell(&mut record, &LoopFact::Started { task, place, present }, LoopBounds::default());
    let unplanned = record.clone().unwrap();
    let judged = story.judge(&unplanned, &left);
    assert_eq!(judged.failing, Vec::<String>::new(), "as in the problem");
    assert!(judged.asks, "without a plan a person decides");
    let validated = Some(PlanMark { file: "plan.tsx".to_owned(), digest: String::new() });
    let planned = LoopRecord { validated, ..unplanned };
    assert_eq!(story.judge(&planned, &left).failing, ["plan-diff"]);
}
