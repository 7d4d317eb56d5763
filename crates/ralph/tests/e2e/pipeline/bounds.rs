//! Everything terminates: any kind of trouble, plans that fail the same way, commits claimed repeatedly.

use super::{AGREES, BUILDS, GREETS, PLANS, Stage, on, willing};

/// Implementers that alternately crash and print nothing, so that no trouble occurs three times in a row.
fn in_turn(times: u32) -> Vec<String> {
    (1..=times)
        .map(|run| on("implementer", run, if run % 2 == 1 { "exit 1" } else { "" }))
        .collect()
}

#[test]
fn ten_troubles_of_one_spec_stop_it_whatever_their_kind() {
    let stage = Stage::new(&willing(&in_turn(11)));
    stage.pipeline(&[]).exits(1).says("10 times");
    assert_eq!(stage.runs(), format!("p{}", "i".repeat(10)));
    assert_eq!(stage.told("trouble").len(), 10);
    assert_eq!(stage.row("0001-greeting.md")["attempts_used"], 0);
    stage.place.assert_nothing_left();
}

#[test]
fn troubles_are_counted_over_restarts_and_naming_the_spec_counts_them_anew() {
    let stage = Stage::new(&willing(&in_turn(11)));
    stage.settings("budget.iterations = 5\n");
    stage.pipeline(&[]).exits(1).says("5 iterations");
    assert_eq!(stage.runs(), "piiii");
    stage.settings("");
    stage.pipeline(&[]).exits(1).says("10 times");
    assert_eq!(stage.runs(), format!("p{}", "i".repeat(10)));
    // The eleventh is trouble once more, and the twelfth does its work.
    stage.pipeline(&["0001-greeting"]).exits(0);
    assert_eq!(stage.runs(), format!("p{}v", "i".repeat(12)));
}

#[test]
fn three_plans_that_fail_alike_end_the_spec_before_its_attempts_do() {
    let stage = Stage::new(&format!("{BUILDS}{AGREES}[planner]\nfinal I have no plan.\n"));
    stage
        .pipeline(&[])
        .exits(1)
        .says("0001-greeting.md")
        .says("the last 3 attempts ended the same way");
    assert_eq!(stage.runs(), "ppp");
    assert_eq!(stage.row("0001-greeting.md")["attempts_used"], 3);
    // Naming a spec means trying it again.
    stage.script(&willing(&[]));
    stage.pipeline(&["1"]).exits(0);
    assert_eq!(stage.runs(), "ppppiv");
    // Failures of several kinds are ordinary attempts.
    let stage = Stage::new(&willing(&[
        on("planner", 1, "final no"),
        on("planner", 2, "final I AM HYPER SURE I AM DONE!"),
        on("planner", 3, "final no"),
        on("planner", 4, "final I AM HYPER SURE I AM DONE!"),
    ]));
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "pppppiv");
}

#[test]
fn a_rejected_commit_that_is_claimed_again_is_answered_without_gates_or_verifier() {
    let shell = "[roles.implementer]\nagent = \"shell\"\n[agents.shell]\ncommand = [\"sh\", \"-c\", \"\"\"\
        cat > /dev/null; test -e greeting.txt || { echo hello > greeting.txt; git add greeting.txt; git commit -qm work; }; \
        git log -1 --format=%H -- greeting.txt; echo 'I AM HYPER SURE I AM DONE!'\"\"\"]\n";
    let stage = Stage::with(
        &format!("{PLANS}[verifier]\nfinal It is rude.\n"),
        &format!("{shell}{GREETS}"),
        &["0001-greeting.md"],
    );
    stage.pipeline(&[]).exits(1).says("the last 3 attempts ended the same way");
    assert_eq!(stage.runs(), "pivii");
    let gates = stage.told("gate_started");
    let at_candidate = gates.iter().filter(|gate| gate["at"] == "candidate").count();
    assert_eq!(at_candidate, 1, "{gates:?}");
    assert_eq!(stage.row("0001-greeting.md")["attempts_used"], 3);
    for nth in [2, 3] {
        let prompt = stage.prompt("implementer", nth);
        assert!(prompt.contains("It is rude."), "{prompt}");
    }
    assert!(stage.prompt("implementer", 3).contains("the same commit again"));
}

#[test]
fn a_commit_that_is_not_there_is_claimed_three_times_at_most() {
    let claims = "[implementer]\nwrite work${INVOCATION} x\nfinal <<END\n\
                  aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nI AM HYPER SURE I AM DONE!\nEND\n";
    let stage = Stage::new(&format!("{PLANS}{claims}{AGREES}"));
    stage.pipeline(&[]).exits(1).says("ended the same way");
    assert_eq!(stage.runs(), "piii");
}
