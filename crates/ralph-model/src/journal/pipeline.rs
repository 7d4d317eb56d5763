//! Events of the pipeline, under the names known from its log.

use super::event_data;
use crate::proof::{LandedLevel, ProofLevel};

event_data! {
    /// The pipeline begins.
    RunStart {
        total: u64,
        magic_phrase: String,
        max_attempts: u32,
        /// The agent of each role.
        agent: String,
        /// The implementer's program and its arguments.
        exe: Option<String>,
        args: Vec<String>,
        boundary: String,
        force: Vec<String>,
        workspace_root: Option<String>,
        ralph_home: Option<String>,
        specs_root: Option<String>,
        plans_root: Option<String>,
        candidates_root: Option<String>,
        done_root: Option<String>,
        sessions_root: Option<String>,
        runs_root: Option<String>,
    }

    /// The pipeline ends before its last spec.
    RunStopped {
        spec: String,
        reason: String,
    }

    /// The pipeline ended.
    RunComplete {
        completed_count: u64,
        skipped_count: u64,
        failed_count: u64,
        waiting_count: u64,
    }

    /// A spec is next.
    SpecQueue {
        spec: String,
        index: u64,
        total: u64,
    }

    /// Work on a spec begins.
    SpecStart {
        spec: String,
        item: String,
        forced: Option<bool>,
        already_done: Option<bool>,
    }

    /// A spec is passed over: it is done, or there is a reason.
    SpecSkipped {
        spec: String,
        /// Set where it was changed since, is a draft, or was built from tasks.
        reason: Option<String>,
    }

    /// No further attempt is made, or the spec cannot be worked on.
    SpecFailed {
        spec: String,
        reason: String,
    }

    /// The result of a spec in this run of the pipeline.
    SpecResult {
        spec: String,
        result: String,
    }

    /// A plan was written by hand.
    PlanAdopted {
        spec: String,
        plan_file: String,
    }

    /// A planner is about to run.
    PlanStart {
        spec: String,
        item: String,
        /// Shared by all phases.
        attempt: u32,
        max_attempts: u32,
        /// Which plan, counted from 1.
        plan_attempt: u32,
        replanning: Option<bool>,
    }

    /// A planner could not be run.
    PlanException {
        spec: String,
        attempt: u32,
        error: String,
    }

    /// A planner's run ended.
    PlanRunComplete {
        spec: String,
        attempt: u32,
        exit_code: Option<i32>,
        /// Whether it followed its contract.
        completed: Option<bool>,
        plan_file_exists: Option<bool>,
        session_id: Option<String>,
        resumed_from_session: Option<String>,
        tokens_used: Option<u64>,
        run_dir: Option<String>,
        summary: Option<String>,
    }

    /// There is a plan.
    PlanPass {
        spec: String,
        plan_attempt: u32,
        plan_file: String,
    }

    /// A planner left no valid plan.
    PlanFail {
        spec: String,
        reason: String,
    }

    /// The verifier says that the plan cannot work.
    PlanInvalidated {
        spec: String,
        attempt: Option<u32>,
        reason: String,
    }

    /// An implementer is about to run.
    ImplStart {
        spec: String,
        item: String,
        attempt: u32,
        max_attempts: u32,
    }

    /// An implementer could not be run.
    ImplException {
        spec: String,
        attempt: u32,
        error: String,
    }

    /// An implementer failed by itself.
    ImplNonzeroExit {
        spec: String,
        attempt: u32,
        exit_code: i32,
    }

    /// An implementer's run ended.
    ImplRunComplete {
        spec: String,
        attempt: u32,
        exit_code: Option<i32>,
        /// Whether the run ended by itself.
        completed: Option<bool>,
        /// Whether it followed its contract.
        completion_ok: Option<bool>,
        completion_commit: Option<String>,
        session_id: Option<String>,
        resumed_from_session: Option<String>,
        tokens_used: Option<u64>,
        run_dir: Option<String>,
        summary: Option<String>,
    }

    /// An implementer claimed nothing.
    ImplNoCompletion {
        spec: String,
        attempt: Option<u32>,
    }

    /// An implementer's work is sent back.
    ImplRejected {
        spec: String,
        commit: Option<String>,
        reason: String,
    }

    /// A candidate of an earlier start still needs verification.
    CandidateLoaded {
        spec: String,
        commit: String,
        attempt: u32,
        max_attempts: u32,
    }

    /// There is a candidate.
    CandidateWritten {
        spec: String,
        /// Absent if the agent claims that nothing needs to change.
        commit: Option<String>,
        level: Option<ProofLevel>,
        reason: Option<String>,
        candidate_file: Option<String>,
    }

    /// A verifier is about to run.
    VerifyStart {
        spec: String,
        item: String,
        commit: String,
        attempt: u32,
        max_attempts: u32,
    }

    /// A verifier could not be run.
    VerifyException {
        spec: String,
        attempt: u32,
        error: String,
    }

    /// A verifier failed by itself.
    VerifyNonzeroExit {
        spec: String,
        attempt: u32,
        exit_code: i32,
    }

    /// A verifier's run ended.
    VerifyRunComplete {
        spec: String,
        attempt: u32,
        exit_code: Option<i32>,
        /// Whether the run ended by itself.
        completed: Option<bool>,
        /// Whether it repeats the candidate's commit.
        commit_match: Option<bool>,
        session_id: Option<String>,
        resumed_from_session: Option<String>,
        tokens_used: Option<u64>,
        run_dir: Option<String>,
        summary: Option<String>,
    }

    /// A spec is done.
    VerifyPass {
        spec: String,
        /// Absent if nothing had to change.
        commit: Option<String>,
        level: Option<LandedLevel>,
        done_file: Option<String>,
    }

    /// A candidate is not verified.
    VerifyFail {
        spec: String,
        commit: Option<String>,
        /// The commit that the verifier names instead.
        observed_commit: Option<String>,
        reason: String,
    }
}
