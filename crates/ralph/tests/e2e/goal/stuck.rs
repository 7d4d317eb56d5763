//! A branch that refuses a story's work again and again: a person decides, and until then nothing is judged or run.

use std::fs;

use super::Desk;
use super::run::{BRANCH, desk};

/// The person commits to the file of the story while each of three implementers is at work.
fn refused_three_times() -> Desk {
    let desk = desk("", &[("US-001", 1)]);
    desk.git(&["switch", "-q", "-c", BRANCH]);
    let work = |number: u32| {
        let merges = if number == 1 { "" } else { "run git merge -q ralph/tip || true\n" };
        let go = desk.place.path(&format!("go{number}"));
        format!(
            "[implementer {number}]\n{merges}write US-001.txt of {number}\n\
             run touch begun{number}; until [ -e {} ]; do sleep 0.02; done; rm begun{number}\n\
             run git add -A; git commit -qm \"work {number}\"\nfinal <promise>COMPLETE</promise>\n",
            go.display()
        )
    };
    let last = "[implementer]\nexpect-prompt take both\nrun git merge -q ralph/tip || true\n\
                write US-001.txt both\nrun git add -A; git commit -qm both\n\
                final <promise>COMPLETE</promise>\n";
    let script: String = (1..=3).map(work).collect();
    fs::write(desk.place.path("script"), format!("{script}{last}")).unwrap();
    let running = desk.place.start(&["run"]);
    for number in 1..=3 {
        desk.wait_for_slot(&format!("begun{number}"));
        desk.write("US-001.txt", &format!("the person's {number}\n"));
        desk.commit_all(&format!("the person's {number}"));
        fs::write(desk.place.path(&format!("go{number}")), "").unwrap();
    }
    let (code, said) = running.finish();
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains(QUESTION), "{said}");
    desk
}

const QUESTION: &str = "could not be put on the branch 3 times in a row";

#[test]
fn without_an_answer_it_is_asked_again_and_nothing_is_judged_or_run() {
    let desk = refused_three_times();
    let done = || (desk.roles(), desk.logged("verdict").len(), desk.git(&["rev-parse", BRANCH]));
    let before = done();
    assert_eq!((before.0.len(), before.1), (3, 3), "{before:?}");
    let asks_again = || {
        let finished = desk.exits(3, &["run"]);
        for said in [QUESTION, "tries it again, `no` does not"] {
            assert!(finished.stderr.contains(said), "{finished}");
        }
        assert_eq!(done(), before, "{finished}");
    };
    asks_again();
    // No leaves the story as it is.
    desk.exits(0, &["answer", "ralph/dark/US-001", "no"]);
    let declined = desk.exits(1, &["run"]);
    assert!(declined.stderr.contains("is not tried again, as you said"), "{declined}");
    asks_again();
    desk.exits(0, &["answer", "ralph/dark/US-001", "take both"]);
    desk.exits(0, &["run"]);
    assert_eq!(
        (desk.on_branch("US-001.txt"), desk.passing()),
        ("both".into(), vec!["US-001".into()])
    );
}
