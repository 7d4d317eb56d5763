//! Ralph's guarantees for every agent, with the real CLIs: one table of scenarios, played by each of them through
//! `ralph agent run` against the scripted model.
//!
//! Scenarios are agent-independent. Where the CLIs differ in what they can report (a time, a cost), the difference is a
//! function in [`expected`], so that the common guarantees stay readable.
//!
//! Codex and Claude Code always play the whole table. The other two take many CPU seconds per run, so they play all of
//! it only with `RALPH_TEST_TIER=2`, and otherwise the rows marked `Always`.

mod build;
mod clones;
mod endings;
mod expected;
mod goal;
mod limits;
mod pipeline;
mod silence;
mod stage;
mod troubles;
mod volume;
mod work;

use crate::support::agents::{RealAgent, require, skip};
use stage::Stage;

/// Which agents play a row by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    /// Every agent.
    Always,
    /// The fast agents.
    Quick,
}

fn play(agent: RealAgent, row: Row, scenario: fn(&Stage)) {
    let is_quick = matches!(agent, RealAgent::Codex | RealAgent::Claude);
    let wants_all = std::env::var_os("RALPH_TEST_TIER").is_some_and(|tier| tier == "2");
    if row == Row::Quick && !is_quick && !wants_all {
        let name = agent.name();
        skip(&format!("{name} is slow (run cargo xtask test --all-agents)"));
        return;
    }
    if let Some(program) = require(agent) {
        scenario(&Stage::set(agent, program));
    }
}

macro_rules! of_agent {
    ($module:ident = $agent:ident { $($row:ident $group:ident::$scenario:ident;)* }) => {
        mod $module {
            $(
                #[test]
                fn $scenario() {
                    let scenario = super::$group::$scenario;
                    super::play(super::RealAgent::$agent, super::Row::$row, scenario);
                }
            )*
        }
    };
}

macro_rules! table {
    ($($rows:tt)*) => {
        of_agent!(codex = Codex { $($rows)* });
        of_agent!(claude = Claude { $($rows)* });
        of_agent!(opencode = OpenCode { $($rows)* });
        of_agent!(gemini = Gemini { $($rows)* });
    };
}

table! {
    Always work::commits_inside_the_boundary;
    Quick  work::goes_on_with_its_session;
    Quick  work::cannot_write_outside_the_workspace;
    Quick  work::cannot_write_the_workspace_in_a_reading_role;
    Quick  work::respects_the_persons_own_settings;
    Quick  work::leaves_the_persons_own_settings_alone_when_isolated;
    Quick  volume::reads_a_prompt_of_200_kb_unchanged;
    Quick  volume::survives_two_megabytes_from_a_tool;
    Always limits::ends_with_a_known_wait_where_nobody_waits;
    Quick  limits::does_not_sit_through_a_retry_that_is_an_hour_away;
    Quick  limits::waits_for_the_reset_and_goes_on_in_the_same_attempt;
    Quick  pipeline::brings_a_spec_from_fresh_to_done;
    Quick  pipeline::plans_anew_when_the_verifier_finds_the_plan_wrong;
    Quick  pipeline::waits_out_a_limit_in_mid_implementation_in_the_same_attempt;
    Quick  build::brings_a_spec_from_plan_to_complete;
    Quick  goal::brings_a_goal_to_stories_that_pass;
    Quick  clones::goes_on_with_its_session_in_a_clone_after_a_kill;
    Quick  clones::goes_on_with_its_session_on_a_task_after_a_kill;
    Quick  clones::builds_a_plan_in_clones;
    Quick  troubles::gives_up_early_on_a_refused_key;
    Quick  troubles::tells_a_failing_server_from_failing_work;
    Quick  troubles::tells_an_unreachable_server_from_failing_work;
    Quick  troubles::recovers_from_a_cut_stream_or_says_so;
    Quick  troubles::never_takes_a_stream_that_is_always_cut_for_an_answer;
    Quick  endings::times_out_in_a_tool_call_and_leaves_nothing_running;
    Quick  endings::stops_for_ctrl_c_in_a_tool_call_and_leaves_nothing_running;
    Quick  endings::leaves_nothing_running_when_ralph_is_killed_in_a_tool_call;
}
