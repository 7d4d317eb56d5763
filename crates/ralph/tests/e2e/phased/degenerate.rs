//! An agent that satisfies every gate without implementing anything, played literally and in other orders.

use super::Site;

const WEB_APP: &str = "[loop]\npreset = \"web-app\"\nbuild = [\"true\"]\n";

/// The application as generated: long enough, with components, and without the phrase that identifies a scaffold.
const SCAFFOLD: &str = "import { Stack } from '@wiggum/stack';\nimport { Card } from './components/Card';\n\
    // A scaffold that passes for content: it imports a package of the stack and shows some components of its own.\n\
    export default function App() {\n  return (\n    <Stack><Card /><Card /><Card /><Card /></Stack>\n  );\n}\n";

pub(super) fn theme() -> String {
    let names = include_str!("../../../../ralph-outline/data/web-app.json");
    let lists: serde_json::Value = serde_json::from_str(names).unwrap();
    let names = lists["theme_variables"].as_array().unwrap();
    let lines: Vec<String> =
        names.iter().map(|name| format!("  {}: 1 2% 3%;", name.as_str().unwrap())).collect();
    format!(":root {{\n{}\n}}\n.dark {{ --background: 0 0% 0%; }}", lines.join("\n"))
}

fn plan() -> &'static str {
    "export default (\n<App name=\"Shop\">\n<Theme mood=\"zen\" />\n<Screen name=\"Home\">\n<Section gumdrop=\"hero\" />\n\
     <Section gumdrop=\"faq\" />\n<Section gumdrop=\"footer\" />\n</Screen>\n</App>\n);"
}

/// The six steps of the problem as script lines. The scaffold exists and stays unchanged.
pub(super) fn steps() -> Vec<String> {
    vec![
        format!("write .ralph/plan.tsx <<'END'\n{}\nEND\n", plan()),
        format!("write src/index.css <<'END'\n{}\nEND\n", theme()),
        "write .ralph/summary.md The whole shop was built, with all sections.\n".to_owned(),
        "run cat src/App.tsx\n".to_owned(),
        "run true\n".to_owned(),
        "write .ralph/status.txt complete\n".to_owned(),
    ]
}

fn site(script: &str) -> Site {
    let site = Site::configured(script, WEB_APP);
    std::fs::create_dir(site.path("src")).unwrap();
    std::fs::write(site.path("src/App.tsx"), SCAFFOLD).unwrap();
    site.commit_all("a scaffold");
    site
}

/// All steps in one batch, in every rotation; and one step per run.
#[test]
fn a_scaffold_with_a_valid_plan_a_theme_and_a_summary_is_never_accepted() {
    let steps = steps();
    for first in 0..steps.len() {
        let order: Vec<String> =
            (0..steps.len()).map(|at| steps[(first + at) % steps.len()].clone()).collect();
        let site = site(&format!("[builder]\n{}final All done.\n", order.concat()));
        site.exits(1, &["Build a shop", "--max-iterations", "3"]);
        assert!(!site.verdicts().contains(&"accepted".to_owned()), "from step {first}");
        let feedback = site.mail("feedback.md");
        assert!(feedback.contains("no source file was changed since the task began"), "{feedback}");
        assert!(site.mail("plan-diff.md").contains("## Missing"), "{}", site.mail("plan-diff.md"));
    }
    let blocks: Vec<String> = steps
        .iter()
        .enumerate()
        .map(|(at, step)| format!("[builder {}]\n{step}final on\n", at + 1))
        .collect();
    let site = site(&format!(
        "{}[builder]\nwrite .ralph/status.txt complete\nfinal All done.\n",
        blocks.concat()
    ));
    site.exits(1, &["Build a shop", "--max-iterations", "9"]);
    assert!(!site.verdicts().contains(&"accepted".to_owned()));
}

/// Completing first and planning last bypasses the phases, which are inactive without a plan: then a person is asked.
#[test]
fn a_scaffold_that_is_completed_before_there_is_a_plan_is_for_a_person_to_decide() {
    let steps = steps();
    for in_place in [false, true] {
        let script = format!("[builder]\n{}{}final All done.\n", steps[1..].concat(), "run true\n");
        let site = site(&script);
        let site = if in_place { site.in_place() } else { site };
        let asks = site.exits(3, &["Build a shop"]);
        assert!(asks.stderr.contains("changes no component of the application"), "{asks}");
        assert_eq!(site.verdicts(), ["needs_human"]);
        site.place.ralph(&["answer", "loop-1", "no, build it"]);
        site.exits(3, &["--resume"]);
        assert!(!site.verdicts().contains(&"accepted".to_owned()));
    }
}

/// In place the same agent gets no further.
#[test]
fn in_place_the_scaffold_is_never_accepted_either() {
    let steps = steps();
    let edits = "write .ralph/phase.txt build\nrun printf '[loop]\\npreset = \"minimal\"\\n' > ralph.toml\n";
    for first in [0, 5] {
        let order: Vec<String> =
            (0..steps.len()).map(|at| steps[(first + at) % steps.len()].clone()).collect();
        for more in ["", edits] {
            let script = format!("[builder]\n{}{more}final All done.\n", order.concat());
            let site = site(&script).in_place();
            // Only the person can say who changed the settings in their tree.
            let code = if more.is_empty() { 1 } else { 3 };
            site.exits(code, &["Build a shop", "--max-iterations", "3"]);
            assert!(!site.verdicts().contains(&"accepted".to_owned()), "{first} {more}");
        }
    }
}

/// It also edits its own checks: the phase, the status, the plan and the gates.
#[test]
fn editing_the_phase_the_plan_and_the_gates_gets_nobody_further() {
    let emptier = "write .ralph/plan.tsx <<'END'\nexport default <App><Theme mood=\"zen\"/><Screen name=\"App\"><Section gumdrop=\"hero\"/></Screen></App>\nEND\n";
    let script = format!(
        "[builder]\n{}write .ralph/phase.txt build\nwrite .ralph/feedback.md # Plan Validated\n{emptier}final All done.\n",
        steps().concat()
    );
    let site = site(&script);
    site.exits(1, &["Build a shop", "--max-iterations", "4"]);
    assert!(!site.verdicts().contains(&"accepted".to_owned()));
    let script = format!(
        "[builder 1]\n{}final planned\n[builder]\nrun printf '[loop]\\npreset = \"minimal\"\\n' > ralph.toml\nwrite .ralph/status.txt complete\nfinal All done.\n",
        steps()[..3].concat()
    );
    let site = self::site(&script);
    site.exits(1, &["Build a shop", "--max-iterations", "3"]);
    assert!(!site.verdicts().contains(&"accepted".to_owned()));
    assert!(
        std::fs::read_to_string(site.path("ralph.toml")).unwrap().contains("web-app"),
        "it was put back"
    );
}

/// Whatever replaces the harness's files, the loop continues.
#[test]
fn links_and_directories_in_the_mailbox_stop_nothing() {
    let odd = "run rm -f .ralph/phase.txt .ralph/task.md .ralph/feedback.md\nrun ln -s /etc/passwd .ralph/phase.txt\n\
        run mkdir .ralph/task.md\nrun mkfifo .ralph/feedback.md\nfinal on\n";
    let script =
        format!("[builder 1]\n{odd}[builder 2]\nexpect-prompt phase.txt\n{}", super::BUILD);
    let site = Site::new(&script);
    site.exits(0, &[super::TASK]);
    assert_eq!(site.mail("phase.txt"), "plan");
}

#[test]
fn failures_before_the_application_is_begun_do_not_abort() {
    let site = Site::configured(
        "[builder]\nappend notes.txt x\nwrite .ralph/status.txt complete\nfinal done\n",
        WEB_APP,
    );
    let spent = site.exits(1, &["Build a shop", "--max-iterations", "6"]);
    assert!(spent.stderr.contains("not complete after 6 iterations"), "{spent}");
    assert_eq!(site.verdicts().len(), 6);
}

/// The same plan, actually implemented, passes the gates of the preset.
#[test]
fn an_agent_that_builds_the_sections_is_accepted() {
    let sections = ["Hero", "Faq", "Footer"].map(|name| {
        format!("write src/sections/{name}.tsx export const {name} = () => <section className=\"bg-primary\">{name}</section>;\n")
    });
    let app = "write src/App.tsx <<'END'\nimport { Hero } from './sections/Hero';\nimport { Faq } from './sections/Faq';\nimport { Footer } from './sections/Footer';\nexport default function Home() {\n  return <main><Hero /><Faq /><Footer /></main>;\n}\nEND\n";
    let steps = steps();
    let script = format!(
        "[builder 1]\n{}final planned\n[builder 2]\nexpect-prompt # Plan Validated\n{}{app}{}{}final built\n",
        steps[0],
        sections.concat(),
        steps[1],
        steps[2..].concat()
    );
    let site = site(&script);
    site.exits(0, &["Build a shop"]);
    assert_eq!(site.verdicts(), ["accepted"]);
    site.assert_clean();
}
