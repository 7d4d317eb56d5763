//! A workspace whose subdirectories are repositories: a plan names paths in all of them, and the work lands in each.

use std::fs;

use super::Site;

/// A plan for a change in two repositories, which also names an existing file.
const PLAN: &str = "write .ralph/plan.md <<END
# Plan: hello

## Analysis
- Both say hello.

## Steps
1. `alpha/hello.txt` (new): say hello.
2. `beta/hello.txt` (new): say hello, beside `beta/README.md`.

## Verification strategy
- `test -f alpha/hello.txt`
END
";

fn git(site: &Site, repository: &str, args: &[&str]) -> String {
    let path = site.place.path("ws").join(repository);
    site.git(&[&["-C", path.to_str().unwrap()], args].concat())
}

fn siblings(script: &str) -> Site {
    let site = Site::new(script);
    let root = site.place.path("ws");
    let mut settings =
        site.read("ralph.toml").replace("[[gate]]\n", "[[gate]]\nrepo = \"alpha\"\n");
    settings.push_str("[[gate]]\nname = \"other\"\nrepo = \"beta\"\nrun = [\"sh\", \"-c\", \"! grep -rs bad hello.txt\"]\n");
    fs::create_dir_all(root.join("ralph/specs")).unwrap();
    fs::write(root.join("ralph.toml"), settings).unwrap();
    for name in ["alpha", "beta"] {
        fs::create_dir(root.join(name)).unwrap();
        fs::write(root.join(name).join("README.md"), name).unwrap();
        git(&site, name, &["init", "--quiet", "--initial-branch=main"]);
        git(&site, name, &["add", "-A"]);
        git(&site, name, &["commit", "--quiet", "--message=start"]);
    }
    site
}

fn exits(site: &Site, code: i32, args: &[&str]) -> String {
    let root = site.place.path("ws");
    let finished = site.place.ralph(&[&["--root", root.to_str().unwrap(), "loop"], args].concat());
    let feedback = fs::read_to_string(root.join(".ralph/feedback.md")).unwrap_or_default();
    assert_eq!(finished.status.code(), Some(code), "{finished}\n{feedback}");
    finished.stderr
}

#[test]
fn a_task_is_compared_with_its_plan_over_all_repositories_and_lands_in_each() {
    let claim = "write .ralph/summary.md Both of them say hello.\nwrite .ralph/status.txt complete\nfinal built\n";
    let script = format!(
        "[builder 1]\n{PLAN}final planned\n\
         [builder 2]\nwrite alpha/hello.txt hello\nwrite beta/hello.txt bad\nrun cd beta; git add -A; git commit -qm mine\n{claim}\
         [builder]\nexpect-prompt other\nwrite beta/hello.txt hello\n{claim}"
    );
    for in_place in [false, true] {
        let site = siblings(&script);
        let site = if in_place { site.in_place() } else { site };
        let said = exits(&site, 0, &[super::TASK]);
        // Each gate considers all of them, once.
        assert_eq!(said.matches("[passed] plan-diff").count(), 2, "{said}");
        assert!(!said.contains("[failed] plan-diff"), "{said}");
        for name in ["alpha", "beta"] {
            assert_eq!(git(&site, name, &["show", "main:hello.txt"]), "hello", "{name}");
            assert_eq!(git(&site, name, &["status", "--porcelain"]), "", "{name}");
        }
        exits(&site, 0, &["--rollback"]);
        for name in ["alpha", "beta"] {
            assert_eq!(
                git(&site, name, &["ls-tree", "--name-only", "main"]),
                "README.md",
                "{name}"
            );
            assert_eq!(git(&site, name, &["status", "--porcelain"]), "", "{name}");
        }
        site.place.assert_nothing_left();
    }
}

/// Half of the work does not fulfil the plan.
#[test]
fn what_is_missing_in_one_repository_is_told() {
    let script = format!(
        "[builder 1]\n{PLAN}final planned\n\
         [builder]\nwrite alpha/hello.txt hello\nwrite .ralph/summary.md Both of them say hello.\nwrite .ralph/status.txt complete\nfinal built\n"
    );
    let site = siblings(&script);
    let root = site.place.path("ws");
    let settings = fs::read_to_string(root.join("ralph.toml")).unwrap();
    let settings = settings.replace("[loop]\n", "[loop]\nstrict = true\n");
    fs::write(root.join("ralph.toml"), settings).unwrap();
    exits(&site, 1, &[super::TASK, "--max-iterations", "3"]);
    let report = fs::read_to_string(root.join(".ralph/plan-diff.md")).unwrap();
    let (_, missing) = report.split_once("## Missing").unwrap();
    assert!(missing.contains("beta/hello.txt") && !missing.contains("alpha/hello.txt"), "{report}");
    assert_eq!(git(&site, "alpha", &["log", "--format=%s", "main"]), "start");
}
