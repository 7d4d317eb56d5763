//! Regression tests: small stories that once failed, with a fault after every one of their effects.

use std::collections::BTreeMap;

use ralph_model::role::Role;

use super::story::{
    Act, Answers, Branching, Committing, Effort, Ending, Kind, PersonsAct, Script, Story,
};
use super::{Logging, quiet_panics, shrink, tell_disturbed, tell_twice, tell_undisturbed};
use crate::files::simulated::{Fault, PlannedFault};

/// Seeds whose stories once failed.
#[test]
fn stories_that_once_went_wrong_hold() {
    quiet_panics();
    let seeds = [
        // An always-failing verifier, cut short by a kill, accepted a task that had been rebuilt since then.
        1_794_979_579_000_003,
        // A verifier accepted a candidate without any work for its spec.
        7003,
        // A pause after successful work was compared with one before it: the run had hit its usage limit.
        7259,
        // A pause after trouble was compared with one before work was judged in between.
        2219,
        // The notes of a visible but not durable result were applied, and its run was repeated.
        77_003_160,
        // Home was committed before accepted work on another branch was merged, which was then refused.
        9_100_292,
        // The person's task was built, and a start with nothing left to do planned the spec whose planning had failed.
        503_000_143,
        511_000_399,
        // Work of the loop that could not be merged into the person's branch counted as done.
        508_000_409,
        // A builder's request was committed on its own branch, and lost with its work.
        507_000_658,
        900_000_275,
        900_001_106,
        // A task was done whose work could not be merged into the person's branch.
        4_000_001_482,
        // After a kill, the ref by which Ralph keeps accepted work hid that the work was on a branch.
        4_000_006_055,
        // A pause after trouble was compared with one before work was judged that could not be measured at first.
        6_000_003_231,
        2_611_181_739,
        3_118_122_127,
        // A run's leftovers were attributed to the person after another run had swept them up and Ralph had restored
        // them.
        900_001_770,
        // A run at its usage limit whose Ralph lost power left the person on its detached head.
        3_000_001_163,
        // A person's answer that was being acted on when power failed also answered the next question.
        3_118_123_989,
        // A PRD replaced by a killed Ralph was relied on, and was the old one again after a power failure.
        5_000_001_188,
        // A result recorded as not stored counted after a power failure.
        6_000_007_332,
        // Work that could not be merged was sent back endlessly, without a question.
        7_000_007_084,
        // A task was added, its investigator was told that it could not be, and added it again.
        6_000_007_367,
        // Specs that could not be listed, because the disk failed, counted as done.
        9_100_004_282,
        // The second copy of a record reappeared after a power failure: a killed Ralph had removed it without syncing.
        9_100_008_770,
        // Work on a detached head was forgotten by a Ralph that was killed while it noted that it had returned from there.
        1_795_018_635_003_164,
        // A round of `build` without a gain was counted again by the process after a kill.
        1_795_018_635_008_146,
        // A plan that a killed Ralph had written was committed, and was the old one again after a loss of power.
        1_795_018_635_033_901,
        // Oracle: a limit that was not recorded was met again by another spec; a commit without work has two names; a task that
        // an investigator made before its run was cut short was verified apart from the others.
        5_000_002_707,
        5_000_017_437,
        5_000_015_141,
        // Oracle: a pause after trouble was compared with one before a candidate was measured.
        8_000_000_394,
        8_000_004_438,
        // Oracle: a spec that the person answered came before another that an interruption had left broken; work on an
        // abandoned branch was redone, and its verifier had nothing to find.
        9_100_017_391,
        9_100_028_203,
        // Agents: a valid acceptance was given again, by a verifier whose run was cut short.
        9_300_000_606,
        // Agents: an interrupted opinion counted as given, because another verifier had rejected something.
        9_400_013_287,
        // Agents and oracle: a valid rejection was not given again, an issue on another branch was not seen.
        3_000_003_342,
        7_000_013_239,
        3_000_004_099,
        4_000_003_206,
        4_000_006_263,
    ];
    for seed in seeds {
        // As stories were when these went wrong.
        let story = Story { answers: Answers::Strict, in_clones: false, ..Story::of(seed) };
        let told = tell_twice(story, Logging::Off);
        assert!(told.wrong.is_empty(), "{seed}: {}", told.wrong.join("\n"));
    }
    // With answers of all kinds. What the person accepted was done again after its verifier had rejected it, as a killed Ralph
    // had left its record.
    for seed in [1_795_022_069_012_270, 1_795_022_069_076_749] {
        let story = Story { in_clones: false, ..Story::of(seed) };
        let told = tell_twice(story, Logging::Off);
        assert!(told.wrong.is_empty(), "{seed}: {}", told.wrong.join("\n"));
    }
}

/// The same, of agents in clones.
#[test]
fn stories_in_clones_that_once_went_wrong_hold() {
    quiet_panics();
    let seeds = [
        // The simulated git did not clear a clone for its next item, which swept up what a withdrawn one had left.
        700_095, 41_001_824, 41_002_212,
        // Oracle: a withdrawn task was missed in the work, and a withdrawn item without hope in the end.
        41_001_379, 41_000_894, 41_001_684,
        // What a run had asked for was lost with the power, before the plan that it had been written to was committed.
        42_004_642, 42_009_490,
        // Oracle: a pause after trouble was compared with one for another story.
        41_003_184,
    ];
    for seed in seeds {
        let told = tell_twice(Story::of(seed), Logging::Off);
        assert!(told.wrong.is_empty(), "{seed}: {}", told.wrong.join("\n"));
    }
}

fn story(kind: Kind, scripts: &[(&str, Role, &[Act])]) -> Story {
    let scripts: BTreeMap<(String, Role), Script> = scripts
        .iter()
        .map(|(key, role, acts)| {
            let script = Script { acts: acts.to_vec(), is_hopeless: false };
            (((*key).to_owned(), *role), script)
        })
        .collect();
    Story {
        seed: 1,
        kind,
        scripts,
        has_gates: true,
        waits: true,
        dirt: vec![("notes-0.txt".to_owned(), "the person's".to_owned())],
        person_adds: false,
        answers: Answers::Strict,
        in_clones: false,
        faults: Vec::new(),
    }
}

/// Plays a story once for each of its effects, with a fault after it.
fn holds_with_a_fault_after_each_effect(story: &Story, fault: Fault) {
    holds_with_a_fault_after_some_effects(story, fault, 1, 1);
}

fn holds_with_a_fault_after_some_effects(story: &Story, fault: Fault, first: u64, step: usize) {
    quiet_panics();
    let expected = tell_undisturbed(story, Logging::Off);
    let expected = expected.unwrap_or_else(|told| panic!("{}", told.wrong.join("\n")));
    assert!(expected.effects > 50, "the story has effects");
    for after in (first..=expected.effects).step_by(step) {
        let faults = vec![vec![PlannedFault { after, fault }]];
        let disturbed = Story { faults, ..story.clone() };
        if !tell_disturbed(disturbed.clone(), &expected, Logging::Off).wrong.is_empty() {
            let told = tell_disturbed(disturbed, &expected, Logging::On);
            panic!("{}\n{}", shrink::trace(&told), told.wrong.join("\n"));
        }
    }
}

/// A landing is cut short anywhere, and the person acts at any moment of it.
#[test]
fn work_in_clones_lands_once_wherever_it_is_disturbed() {
    for kind in [Kind::Stories { stories: 1 }, Kind::Pipeline { specs: 1 }] {
        let story = Story { in_clones: true, ..story(kind, &[]) };
        let acts = (0..PersonsAct::ALL.len()).map(|act| Fault::Person { act });
        for (offset, fault) in [Fault::Kill, Fault::PowerLoss].into_iter().chain(acts).enumerate() {
            holds_with_a_fault_after_some_effects(&story, fault, 1 + offset as u64, 13);
        }
    }
}

/// The plan that a request was written to is in the draft of home, which a start restores to its last commit.
#[test]
fn what_a_run_in_a_clone_asked_for_is_kept_wherever_power_is_lost() {
    let with_issue = Act { ending: Ending::WithIssue, ..Act::HONEST };
    let scripts: [(&str, Role, &[Act]); 1] = [("t1", Role::Builder, &[with_issue])];
    let story = Story { in_clones: true, ..story(Kind::Build { tasks: 1 }, &scripts) };
    holds_with_a_fault_after_each_effect(&story, Fault::PowerLoss);
}

/// The next item gets the clone of one that was withdrawn, and its agent commits all that it finds there.
#[test]
fn what_a_withdrawn_item_left_in_its_clone_does_not_land_with_the_next() {
    let sweeps = Act { committing: Committing::Everything, ..Act::HONEST };
    let scripts: [(&str, Role, &[Act]); 1] = [("US-002", Role::Implementer, &[sweeps])];
    let story = Story { in_clones: true, ..story(Kind::Stories { stories: 2 }, &scripts) };
    let withdraws = PersonsAct::ALL.iter().position(|act| *act == PersonsAct::Withdraws);
    let act = withdraws.expect("it is one of them");
    holds_with_a_fault_after_some_effects(&story, Fault::Person { act }, 1, 3);
}

#[test]
fn planning_that_ended_is_not_repeated_after_a_loss_of_power() {
    let story = story(Kind::Build { tasks: 1 }, &[]);
    holds_with_a_fault_after_each_effect(&story, Fault::PowerLoss);
}

#[test]
fn a_rejected_claim_is_judged_alike_however_often_its_conclusion_was_cut_short() {
    let broken = Act { effort: Effort::Broken, ..Act::HONEST };
    let scripts: [(&str, Role, &[Act]); 1] = [("0001-spec", Role::Implementer, &[broken])];
    let story = story(Kind::Pipeline { specs: 1 }, &scripts);
    holds_with_a_fault_after_each_effect(&story, Fault::Kill);
}

#[test]
fn a_plan_of_issues_alone_is_gone_on_with() {
    let with_issue = Act { ending: Ending::WithIssue, ..Act::HONEST };
    let story = story(Kind::Build { tasks: 1 }, &[("t1", Role::Builder, &[with_issue])]);
    holds_with_a_fault_after_each_effect(&story, Fault::Kill);
}

const LIMIT: Ending = Ending::Limit { minutes: 10, known: true };

#[test]
fn what_a_run_leaves_that_goes_on_after_its_limit_is_known_as_its_own() {
    let limited = Act { effort: Effort::Nothing, ending: LIMIT, ..Act::HONEST };
    let crashes =
        Act { committing: Committing::Nothing, ending: Ending::Crash, spoils: true, ..Act::HONEST };
    let scripts: [(&str, Role, &[Act]); 1] =
        [("0001-spec", Role::Implementer, &[limited, crashes])];
    let story = story(Kind::Pipeline { specs: 1 }, &scripts);
    holds_with_a_fault_after_each_effect(&story, Fault::Kill);
}

#[test]
fn a_builder_that_goes_on_after_its_limit_is_brought_back_to_the_branch() {
    let limited = Act { effort: Effort::Nothing, ending: LIMIT, ..Act::HONEST };
    let elsewhere = Act { branching: Branching::Branch, ..Act::HONEST };
    let scripts: [(&str, Role, &[Act]); 1] = [("t1", Role::Builder, &[limited, elsewhere])];
    let story = story(Kind::Build { tasks: 1 }, &scripts);
    holds_with_a_fault_after_each_effect(&story, Fault::Kill);
}

#[test]
fn work_on_a_detached_head_is_judged_alike_after_a_kill() {
    let detached = Act { branching: Branching::Detached, ..Act::HONEST };
    let scripts: [(&str, Role, &[Act]); 1] = [("0001-spec", Role::Implementer, &[detached])];
    let spec = story(Kind::Pipeline { specs: 1 }, &scripts);
    holds_with_a_fault_after_each_effect(&spec, Fault::Kill);
    let task = story(Kind::Build { tasks: 1 }, &[("t1", Role::Builder, &[detached])]);
    holds_with_a_fault_after_each_effect(&task, Fault::Kill);
}

#[test]
fn what_a_builder_destroyed_before_it_crashed_is_put_back_after_a_kill() {
    let crashes = Act {
        effort: Effort::Broken,
        committing: Committing::Everything,
        ending: Ending::Crash,
        spoils: true,
        ..Act::HONEST
    };
    let story = story(Kind::Build { tasks: 1 }, &[("t1", Role::Builder, &[crashes])]);
    holds_with_a_fault_after_each_effect(&story, Fault::Kill);
}

#[test]
fn what_an_implementer_of_a_story_noted_is_kept_wherever_it_worked() {
    let elsewhere = Act { branching: Branching::Branch, ..Act::HONEST };
    let scripts: [(&str, Role, &[Act]); 1] = [("US-001", Role::Implementer, &[elsewhere])];
    let story = story(Kind::Stories { stories: 1 }, &scripts);
    holds_with_a_fault_after_each_effect(&story, Fault::Kill);
}

/// A result may be visible but not durable: its Ralph was killed before it had synced the directory.
#[test]
fn a_run_whose_end_is_journalled_is_not_repeated_after_a_kill_and_a_loss_of_power() {
    quiet_panics();
    let story = Story { dirt: Vec::new(), ..story(Kind::Stories { stories: 1 }, &[]) };
    let expected = tell_undisturbed(&story, Logging::Off);
    let expected = expected.unwrap_or_else(|told| panic!("{}", told.wrong.join("\n")));
    for after in 40..80 {
        for later in [14, 15, 16, 17] {
            let kill = PlannedFault { after, fault: Fault::Kill };
            let power = PlannedFault { after: later, fault: Fault::PowerLoss };
            let faults = vec![vec![kill], vec![power]];
            let told = tell_disturbed(Story { faults, ..story.clone() }, &expected, Logging::Off);
            assert!(told.wrong.is_empty(), "{after}, {later}: {}", told.wrong.join("\n"));
        }
    }
}

/// An earlier run left work on the branch, and this one worked elsewhere: its own work is judged, however often.
#[test]
fn work_elsewhere_is_judged_alike_after_a_kill_though_the_branch_has_earlier_work() {
    let earlier = Act { ending: Ending::ContextFull, ..Act::HONEST };
    let branching = Branching::Detached;
    let broken = Act { effort: Effort::Broken, branching, ..Act::HONEST };
    let acts = [earlier, broken];
    let story_scripts: [(&str, Role, &[Act]); 1] = [("US-001", Role::Implementer, &acts)];
    let run = story(Kind::Stories { stories: 1 }, &story_scripts);
    holds_with_a_fault_after_each_effect(&run, Fault::Kill);
}

#[test]
fn a_loop_goes_on_wherever_it_was_killed() {
    holds_with_a_fault_after_each_effect(&story(Kind::Loop, &[]), Fault::Kill);
}

/// Accepted work that would overwrite the person's uncommitted changes cannot be merged: the story does not pass.
#[test]
fn a_story_whose_work_cannot_be_taken_in_does_not_pass() {
    let (branching, committing) = (Branching::Detached, Committing::Everything);
    let sweeps = Act { branching, committing, ..Act::HONEST };
    let scripts: [(&str, Role, &[Act]); 1] = [("US-001", Role::Implementer, &[sweeps])];
    let story = story(Kind::Stories { stories: 1 }, &scripts);
    holds_with_a_fault_after_each_effect(&story, Fault::Kill);
}

/// The person's answer sends the work back with a reason: it is not sent back repeatedly without one.
#[test]
fn work_that_cannot_be_taken_in_three_times_in_a_row_is_a_question() {
    quiet_panics();
    let (branching, committing) = (Branching::Detached, Committing::Everything);
    let sweeps = Act { branching, committing, ..Act::HONEST };
    for (kind, key, role) in [
        (Kind::Stories { stories: 1 }, "US-001", Role::Implementer),
        (Kind::Build { tasks: 1 }, "t1", Role::Builder),
    ] {
        let told = tell_undisturbed(&story(kind, &[(key, role, &[sweeps; 3])]), Logging::Off);
        let told = told.unwrap_or_else(|told| panic!("{}", told.wrong.join("\n")));
        assert_eq!(told.summary.end, "complete", "{kind:?}");
        let runs = told.summary.runs.iter().filter(|run| (run.0.as_str(), run.1) == (key, role));
        assert_eq!(runs.count(), 4, "{kind:?}");
    }
}

/// A result can be visible but not durable when the disk fails: then its run is repeated.
#[test]
fn notes_of_a_run_in_a_story_are_there_once_though_the_disk_fails() {
    let story = story(Kind::Stories { stories: 1 }, &[]);
    holds_with_a_fault_after_each_effect(&story, Fault::Failing);
}

#[test]
fn work_of_a_story_elsewhere_is_taken_in_though_the_disk_fails() {
    let elsewhere = Act { branching: Branching::Branch, ..Act::HONEST };
    let scripts: [(&str, Role, &[Act]); 1] = [("US-001", Role::Implementer, &[elsewhere])];
    let story = story(Kind::Stories { stories: 1 }, &scripts);
    holds_with_a_fault_after_each_effect(&story, Fault::Failing);
}

/// As for stories: work that would overwrite the person's uncommitted changes does not land, so the task is not done.
#[test]
fn a_task_of_the_loop_whose_work_cannot_be_taken_in_is_not_done() {
    let (branching, committing) = (Branching::Branch, Committing::Everything);
    let sweeps = Act { branching, committing, ..Act::HONEST };
    let scripts: [(&str, Role, &[Act]); 1] = [("loop-1", Role::Builder, &[Act::HONEST, sweeps])];
    holds_with_a_fault_after_each_effect(&story(Kind::Loop, &scripts), Fault::Kill);
}

/// A builder's request is in the plan of the branch on which it began, even if its work on another is rejected.
#[test]
fn an_issue_that_a_builder_reports_elsewhere_is_in_the_plan_though_its_work_is_rejected() {
    let (effort, branching) = (Effort::Broken, Branching::Branch);
    let reports = Act { effort, branching, ending: Ending::WithIssue, ..Act::HONEST };
    let story = story(Kind::Build { tasks: 1 }, &[("t1", Role::Builder, &[reports])]);
    holds_with_a_fault_after_each_effect(&story, Fault::Kill);
}

/// A spec waits for a person while another is worked on: work for that one is no evidence for it.
#[test]
fn work_on_another_spec_is_no_candidate_of_one_that_waited() {
    let idle = Act { effort: Effort::Nothing, ending: Ending::NoChange, ..Act::HONEST };
    let claims = Act { effort: Effort::Nothing, ..Act::HONEST };
    let scripts: [(&str, Role, &[Act]); 1] =
        [("0001-spec", Role::Implementer, &[idle, claims, claims])];
    let story = story(Kind::Pipeline { specs: 2 }, &scripts);
    holds_with_a_fault_after_each_effect(&story, Fault::Kill);
}
