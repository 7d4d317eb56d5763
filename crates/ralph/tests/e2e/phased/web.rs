//! A small real web project, from task to accepted: built by Vite, judged by the gates of the preset.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::degenerate::theme;
use super::{Site, assert_as_in_guide};
use crate::support::agents::skip;

const SETTINGS: &str = "[loop]\npreset = \"web-app\"\n";

const MAIN: &str = "import { createRoot } from 'react-dom/client';\nimport App from './App';\nimport './index.css';\n\
    createRoot(document.getElementById('root')!).render(<App />);\n";

const SCAFFOLD: &str =
    "export default function App() {\n  return <p>Edit src/App.tsx to get started</p>;\n}\n";

/// The installed Vite, or a visible skip.
fn vite() -> Option<PathBuf> {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/web/node_modules");
    if modules.join("vite").is_dir() {
        return Some(modules.canonicalize().unwrap());
    }
    let required = std::env::var_os("RALPH_REQUIRE_WEB").is_some_and(|value| value == "1");
    assert!(!required, "vite is not installed in {}", modules.display());
    skip("vite is not installed (run cargo xtask test)");
    None
}

fn project(script: &str, modules: &Path) -> Site {
    // A copy, like an installation: Vite writes next to its modules, and everything outside a checkout is read-only.
    let setup = format!(
        "checkout.setup = [[\"cp\", \"-RT\", \"{}\", \"node_modules\"]]\n",
        modules.display()
    );
    let site = Site::without_gates(script, SETTINGS);
    let settings = site.read("ralph.toml");
    site.write("ralph.toml", &format!("{setup}{settings}"));
    fs::create_dir(site.path("src")).unwrap();
    let package = "{ \"name\": \"shop\", \"private\": true, \"type\": \"module\", \"scripts\": { \"build\": \"vite build\" } }\n";
    let page = "<!doctype html>\n<div id=\"root\"></div>\n<script type=\"module\" src=\"/src/main.tsx\"></script>\n";
    for (name, text) in [
        ("package.json", package),
        ("vite.config.js", "export default { esbuild: { jsx: 'automatic' } };\n"),
        ("index.html", page),
        (".gitignore", "node_modules\ndist\n"),
        ("src/main.tsx", MAIN),
        ("src/App.tsx", SCAFFOLD),
        ("src/index.css", "body { margin: 0; }\n"),
    ] {
        site.write(name, text);
    }
    symlink(modules, site.path("node_modules")).unwrap();
    site.commit_all("a scaffold");
    site
}

/// The plan has an unknown recipe, then is valid; the first build does not compile, the second does.
#[test]
fn a_vite_project_goes_from_task_to_accepted() {
    let Some(modules) = vite() else { return };
    let plan = |recipe: &str| {
        format!(
            "write .ralph/plan.tsx <<'END'\nexport default (\n<App name=\"Bakery\">\n<Theme mood=\"zen\" font=\"Inter\" />\n<Screen name=\"Home\">\n\
             <Section gumdrop=\"{recipe}\" />\n<Section gumdrop=\"faq\" />\n<Section gumdrop=\"footer\" />\n</Screen>\n</App>\n);\nEND\n"
        )
    };
    let sections: Vec<String> = ["Hero", "Faq", "Footer"]
        .iter()
        .map(|name| {
            format!("write src/sections/{name}.tsx export const {name} = () => <section className=\"bg-primary\">{name} of the bakery</section>;\n")
        })
        .collect();
    let app = |broken: &str| {
        format!(
            "write src/App.tsx <<'END'\nimport {{ Hero }} from './sections/Hero';\nimport {{ Faq }} from './sections/Faq';\n\
             import {{ Footer }} from './sections/Footer{broken}';\nexport default function Home() {{\n  return <main><Hero /><Faq /><Footer /></main>;\n}}\nEND\n"
        )
    };
    let css = format!("write src/index.css <<'END'\n{}\nEND\n", theme());
    let complete = "write .ralph/summary.md The bakery has a page with three sections.\nwrite .ralph/status.txt complete\nfinal built\n";
    let script = format!(
        "[builder 1]\n{}final planned\n\
         [builder 2]\nexpect-prompt FAIL [valid-gumdrops]: line 5\n{}final planned\n\
         [builder 3]\nexpect-prompt # Plan Validated\n{}{}{css}{complete}\
         [builder 4]\nexpect-prompt ## build-succeeds\nexpect-prompt FooterX\nexpect-run test -s .ralph/build-errors.md\n{}{complete}",
        plan("heroo"),
        plan("hero"),
        sections.concat(),
        app("X"),
        app(""),
    );
    let site = project(&script, &modules);
    let done = site.exits(0, &["A landing page for a bakery"]);
    assert_as_in_guide("## A web app", &done.stderr);
    assert_eq!(
        (site.runs(), site.verdicts()),
        (4, vec!["rejected".to_owned(), "accepted".to_owned()])
    );
    let built = site.logged("gate_finished");
    let builds: Vec<&serde_json::Value> =
        built.iter().filter(|gate| gate["gate"] == "build-succeeds").collect();
    assert!(!builds.is_empty(), "{built:?}");
    assert!(site.path("src/sections/Hero.tsx").exists());
    assert_eq!(site.mail("build-errors.md"), "", "the report of a build that succeeds is removed");
    site.assert_clean();
}

/// The degenerate agent on the real project: Vite builds the scaffold successfully, and nothing is accepted.
#[test]
fn the_scaffold_that_vite_builds_is_never_accepted() {
    let Some(modules) = vite() else { return };
    let script = format!("[builder]\n{}final All done.\n", super::degenerate::steps().concat());
    let site = project(&script, &modules);
    site.exits(1, &["A landing page for a bakery", "--max-iterations", "3"]);
    assert!(!site.verdicts().contains(&"accepted".to_owned()));
    let feedback = site.mail("feedback.md");
    assert!(feedback.contains("still the default scaffold"), "{feedback}");
    assert!(!feedback.contains("## build-succeeds"), "{feedback}");
    assert_eq!(site.commits()[0], "a scaffold");
}
