//! Measurable and unmeasurable budgets.

use std::fs;

use serde_json::{Value, json};

use crate::harness::Place;

fn configure(place: &Place, more: &str) {
    let file = place.env.repo().join("ralph.toml");
    let before = fs::read_to_string(&file).unwrap_or_default();
    fs::write(&file, format!("{before}{more}")).expect("the configuration is written");
}

#[test]
fn a_cost_budget_that_cannot_be_measured_is_refused_before_the_first_run() {
    let place = Place::new();
    configure(&place, "[agents.codex]\nexe = \"false\"\n[agents.gemini]\nexe = \"false\"\n");
    let runs = ["--trust", "agent", "run", "--max-cost", "0.01"];
    for (agent, table) in [
        (&["--agent", "codex"][..], "[prices.\"MODEL\"]"),
        (&["--agent", "codex", "--model", "gpt-x"], "[prices.\"gpt-x\"]"),
        (&["--agent", "gemini"], "[prices.\"MODEL\"]"),
        (&["--agent-cmd", "echo started >> started"], "set `model`"),
    ] {
        let finished = place.ralph(&[&runs, agent, &["hello"]].concat());
        assert_eq!(finished.status.code(), Some(2), "{finished}");
        let said = finished.to_string();
        assert!(said.contains("cannot be measured") && said.contains(table), "{said}");
    }
    assert!(!place.env.repo().join("started").exists());
    assert!(!place.ralph(&["status"]).to_string().contains("$0.00"));
}

#[test]
fn a_priced_model_makes_a_commands_cost_count_and_what_is_not_counted_is_said() {
    let place = Place::new();
    configure(&place, "[prices.m]\ninput = 10\noutput = 100\n");
    let command = "cat >/dev/null; echo hello; echo tokens used; echo 1,000,000";
    let args = ["--trust", "agent", "run", "--repeat", "9", "--max-cost", "15"];
    let finished = place.ralph(&[&args[..], &["--agent-cmd", command, "-m", "m-1", "x"]].concat());
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    let said = finished.to_string();
    assert!(said.contains("$20.00 was spent, and the budget is $15.00"), "{said}");
    assert!(said.contains("the budget counts estimated tokens"), "{said}");
    let tokens = ["--trust", "agent", "run", "--max-tokens", "5", "--agent-cmd", "echo hi", "x"];
    let finished = place.ralph(&tokens);
    assert!(finished.to_string().contains("the budget counts estimated tokens"), "{finished}");
}

#[test]
fn tokens_of_a_plain_command_are_estimated_marked_so_and_counted() {
    let place = Place::new();
    let prompt = "x".repeat(4000);
    let command = "cat >/dev/null; printf '%0800d\\n' 7";
    let run = ["--trust", "agent", "run", "--agent-cmd", command];
    let finished = place.ralph(&[&run[..], &[&prompt]].concat());
    assert!(finished.stderr.contains("about 1.2k tokens"), "{finished}");
    let status = place.ralph(&["status"]);
    assert!(status.stdout.contains("about 1.2k tokens"), "{status}");
    let runs = place.ralph(&["runs", "--json"]);
    let runs: Value = serde_json::from_str(&runs.stdout).unwrap();
    assert_eq!((&runs[0]["tokens"], &runs[0]["tokens_are_estimate"]), (&json!(1201), &json!(true)));
    let limited = ["--repeat", "9", "--max-tokens", "2000", &prompt];
    let finished = place.ralph(&[&run[..], &limited].concat());
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    assert!(finished.to_string().contains("the budget is 2000"), "{finished}");
    // Usage reported by the command is not an estimate.
    let command = "cat >/dev/null; echo tokens used; echo 77";
    let told = place.ralph(&["--trust", "agent", "run", "--agent-cmd", command, "x"]);
    assert!(told.stderr.contains(", 77 tokens"), "{told}");
}

#[test]
fn config_shows_prices_whether_there_are_any_or_not() {
    let place = Place::new();
    let none = place.ralph(&["config", "prices"]);
    assert_eq!(none.status.code(), Some(0), "{none}");
    assert!(none.stdout.contains("prices.*.input = (not set)"), "{none}");
    assert!(none.stdout.contains("US dollars per million input tokens"), "{none}");
    configure(&place, "[prices.\"gpt-5.5\"]\ninput = 1.5\noutput = 10\n");
    let some = place.ralph(&["config", "prices"]);
    assert!(some.stdout.contains("prices.\"gpt-5.5\".input = 1.5"), "{some}");
}
