//! Detection without the kernel boundary.

use std::fs;

use crate::harness::{Place, RALPH};

fn place() -> Place {
    let place = Place::new();
    let repo = place.env.repo();
    fs::create_dir_all(repo.join("ralph/specs")).unwrap();
    fs::write(repo.join("ralph/specs/a.md"), "# A\n\nDo it.\n").unwrap();
    let plan = "{\"t\":\"spec\",\"spec\":\"a.md\"}\n\
                {\"t\":\"task\",\"id\":\"t-1\",\"name\":\"one\",\"s\":\"p\"}\n";
    fs::write(repo.join("ralph/plan.jsonl"), plan).unwrap();
    place.commit_all("plan");
    place
}

#[test]
fn a_process_of_a_run_that_hides_its_variables_is_recognised_by_its_ancestors() {
    let place = place();
    let state = place.path("state").display().to_string();
    let home = place.env.home().display().to_string();
    // Also through a daemon whose parent has exited.
    let script = format!(
        "cat >/dev/null\nR=\"env -i PATH=$PATH HOME={home} XDG_STATE_HOME={state} {RALPH}\"\n\
         for args in 'task done' 'task accept' 'issue add x' 'answer yes' 'trust --yes'; do \
         $R $args >>../said 2>&1; echo \"$? $args\" >>../codes; done\n\
         (setsid sh -c \"$R task delete t-1 >>../said 2>&1; echo \\$? daemon >>../codes\" &)\n\
         while ! grep -q daemon ../codes; do sleep 0.01; done\necho done\n"
    );
    fs::write(place.path("agent.sh"), script).unwrap();
    let before = fs::read_to_string(place.env.repo().join("ralph/plan.jsonl")).unwrap();
    let agent = format!("sh {}", place.path("agent.sh").display());
    place.ralph(&["agent", "run", "--boundary", "detect", "--agent-cmd", &agent, "do it"]);
    let codes = fs::read_to_string(place.path("codes")).unwrap();
    let said = fs::read_to_string(place.path("said")).unwrap();
    assert_eq!(codes.lines().count(), 6, "{codes}\n{said}");
    assert!(codes.lines().all(|line| line.starts_with("2 ")), "{codes}\n{said}");
    assert_eq!(fs::read_to_string(place.env.repo().join("ralph/plan.jsonl")).unwrap(), before);
}

#[test]
fn a_write_to_private_state_is_undone_and_fails_the_run() {
    let place = place();
    assert_eq!(place.ralph(&["trust", "--yes"]).status.code(), Some(0));
    place.agent_run(&["--agent-cmd", "cat"]);
    let plant = "cat >/dev/null; for s in \"$XDG_STATE_HOME\"/ralph/*-*/; do \
         mkdir -p $s/trust $s/pins; echo '{}' >$s/trust/workspace.json; echo x >$s/pins/evil.json; done; echo done";
    let report = place.agent_run(&["--boundary", "detect", "--agent-cmd", plant]);
    assert_eq!(report.outcome(), "violation", "{}", report.finished);
    let left: Vec<_> = fs::read_dir(place.path("state/ralph"))
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().join("pins/evil.json").exists())
        .collect();
    assert!(left.is_empty(), "{}", report.finished);
}
