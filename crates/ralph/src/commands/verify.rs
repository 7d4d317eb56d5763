//! `ralph verify`: checks whether the receipts of accepted commits still hold.

use std::io::IsTerminal;

use ralph_engine::gates::GateError;
use ralph_engine::gates::pin::PinnedGates;
use ralph_engine::gates::receipt::read_receipt;
use ralph_engine::gates::verify::{CommitCheck, GateCheck, verify};
use ralph_engine::git::evidence::is_own;
use ralph_engine::git::{ChangeKind, Oid, PathChange};
use ralph_model::gate::{Attribution, GateSpec, GateStatus};
use ralph_model::proof::ProofLevel;
use ralph_model::receipt::Receipt;
use serde::Serialize;

use super::gates::{GateRoom, JsonGate, not_run, own_paths};
use super::print_either;
use crate::args::{GlobalArgs, VerifyArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::gates::{GateScreen, argv_text};
use crate::render::text::StyledLine;
use crate::render::{self, Tone, Ui, styled};
use crate::setup::Setup;

/// How many of Ralph's own commits are searched for the one that they landed.
const LANDING_STEPS: usize = 64;

pub(crate) fn run(global: &GlobalArgs, args: &VerifyArgs) -> Result<Exit, CliError> {
    let setup = Setup::load(global, &[])?;
    let trusted = PinnedGates::of(&setup.config);
    // A receipt is untrusted: nothing in the workspace may extend what its commands are allowed to do.
    let setup = setup.distrusting()?;
    let room = GateRoom::open_for_receipts(&setup)?;
    let commits = commits(&setup, &room, &args.what)?;
    let unknown = unknown_commands(&room, &commits, &trusted);
    if !unknown.is_empty() && !args.yes {
        ask_about(setup.ui, &unknown)?;
    }
    let Some(checks) = check(&setup, setup.ui, &room, &commits)? else {
        render::important("interrupted; all gate processes have ended");
        return Ok(Exit::Interrupted);
    };
    let rows: Vec<JsonCheck<'_>> =
        checks.iter().map(|(commit, check)| JsonCheck::new(commit, check)).collect();
    print_either(setup.ui, setup.json, &rows, || {
        checks.iter().flat_map(|(commit, check)| lines(setup.ui, commit, check)).collect()
    })?;
    let verdicts: Vec<bool> = checks.iter().filter_map(|(_, check)| check.holds()).collect();
    if verdicts.is_empty() {
        render::important(&match a_remote(&room) {
            Some(remote) => format!(
                "no receipt; `git fetch {remote} refs/notes/ralph:refs/notes/ralph` fetches those of the remote"
            ),
            None => format!(
                "no receipt: Ralph has not accepted `{}` here; `ralph runs` lists its work",
                args.what
            ),
        });
        return Ok(Exit::Usage);
    }
    Ok(if verdicts.iter().all(|holds| *holds) { Exit::Done } else { Exit::Unfinished })
}

/// Returns the name of a remote that the repository has branches of.
fn a_remote(room: &GateRoom) -> Option<String> {
    let refs = room.repository.git.refs().ok()?;
    refs.refs.iter().find_map(|found| {
        let (remote, _) = found.name.strip_prefix("refs/remotes/")?.split_once('/')?;
        Some(remote.to_owned())
    })
}

/// Returns the receipts' commands that the trusted configuration does not run, formatted for display.
fn unknown_commands(room: &GateRoom, commits: &[Oid], trusted: &PinnedGates) -> Vec<String> {
    let is_known = |gate: &GateSpec| {
        trusted.gates.iter().any(|known| {
            known.argv() == gate.argv() && (known.net || !gate.net) && (known.unix || !gate.unix)
        })
    };
    let mut unknown = Vec::new();
    for commit in commits {
        // An unreadable receipt is not run either.
        let Ok(Some(receipt)) = read_receipt(&room.repository.git, commit) else { continue };
        let setup = receipt.setup.iter().filter(|argv| !trusted.setup.contains(argv));
        unknown.extend(setup.map(|argv| argv_text(argv)));
        for gate in receipt.gates.iter().map(|recorded| &recorded.gate) {
            if gate.built_in().is_some() || is_known(gate) {
                continue;
            }
            let mut text = argv_text(gate.argv());
            for (reaches, what) in [(gate.net, "network"), (gate.unix, "unix sockets")] {
                if reaches {
                    text = format!("{text}  ({what})");
                }
            }
            unknown.push(text);
        }
    }
    unknown.sort();
    unknown.dedup();
    unknown
}

/// Shows the receipts' commands, and asks whether they may run.
fn ask_about(ui: Ui, commands: &[String]) -> Result<(), CliError> {
    let what = "the receipts contain commands that your trusted settings do not:";
    ui.labelled(Tone::Attention, "verify", what);
    for command in commands {
        ui.important(styled!("  {command}"));
    }
    if !std::io::stdin().is_terminal() {
        return Err(CliError::person_needed("no terminal to ask whether they may run")
            .hint("--yes runs them, confined"));
    }
    if render::confirm("Run them, confined?") { Ok(()) } else { Err(CliError::declined()) }
}

/// Runs the gates of commits again and shows the progress. Returns `None` if the person interrupts.
pub(super) fn check<'c>(
    setup: &Setup,
    ui: Ui,
    room: &GateRoom,
    commits: &'c [Oid],
) -> Result<Option<Vec<(&'c Oid, CommitCheck)>>, CliError> {
    room.fill(commits)?;
    let context = room.context(setup, "ralph verify");
    let mut checks = Vec::new();
    for commit in commits {
        if matches!(read_receipt(&room.repository.git, commit), Ok(None)) {
            checks.push((commit, CommitCheck::NoReceipt));
            continue;
        }
        let screen = GateScreen::start(ui, commit.as_str(), room.boundary);
        match verify(&context, &room.repository, commit, &mut screen.tell()) {
            Ok(check) => checks.push((commit, check)),
            Err(GateError::Interrupted) => return Ok(None),
            Err(error) => return Err(not_run(error)),
        }
    }
    Ok(Some(checks))
}

fn commits(setup: &Setup, room: &GateRoom, what: &str) -> Result<Vec<Oid>, CliError> {
    if !what.contains("..") {
        let named = room.commit(what)?;
        let Some(below) = judged_below(setup, room, &named)? else { return Ok(vec![named]) };
        let short = below.as_str().get(..12).unwrap_or(below.as_str());
        let what = format!(
            "`{what}` only adds Ralph's own files to {short}; using the receipt of that commit"
        );
        setup.ui.labelled(Tone::Faint, "verify", &what);
        return Ok(vec![below]);
    }
    let found = room.repository.git.range(what).map_err(CliError::failed)?;
    found.ok_or_else(|| CliError::usage(format!("`{what}` is not a range in this repository")))
}

/// Returns the commit with a receipt that a commit without one landed: the latter changes only Ralph's own files.
fn judged_below(setup: &Setup, room: &GateRoom, commit: &Oid) -> Result<Option<Oid>, CliError> {
    let git = &room.repository.git;
    let own = own_paths(setup);
    let mut at = commit.clone();
    for _ in 0..LANDING_STEPS {
        // An unreadable receipt counts too, so that its error is reported.
        if !matches!(read_receipt(git, &at), Ok(None)) {
            return Ok((at != *commit).then_some(at));
        }
        let Some(header) = git.find_commit(at.as_str()).map_err(CliError::failed)? else {
            return Ok(None);
        };
        let mut next = None;
        // The judged side of a merge is the second parent.
        for parent in header.parents.iter().rev() {
            let changes = git.changes(parent, &at).map_err(CliError::failed)?;
            let is_own_change = |change: &PathChange| {
                let from = match &change.kind {
                    ChangeKind::Renamed { from } => from,
                    _ => &change.path,
                };
                is_own(&own, &change.path) && is_own(&own, from)
            };
            if changes.iter().all(is_own_change) {
                next = Some(parent.clone());
                break;
            }
        }
        let Some(parent) = next else { return Ok(None) };
        at = parent;
    }
    Ok(None)
}

/// Formats the result for a commit.
pub(super) fn lines(ui: Ui, commit: &Oid, check: &CommitCheck) -> Vec<StyledLine> {
    let id = commit.as_str().get(..12).unwrap_or(commit.as_str());
    let good = ui.paint(Tone::Good, ui.symbol("✓", "ok"));
    let bad = ui.paint(Tone::Bad, ui.symbol("✗", "!!"));
    let open = ui.paint(Tone::Attention, ui.symbol("~", "~~"));
    match check {
        CommitCheck::NoReceipt => {
            vec![styled!("{} {id} no receipt", ui.paint(Tone::Faint, ui.symbol("·", "--")))]
        }
        CommitCheck::Unusable { reason } => vec![styled!("{bad} {id} {reason}")],
        CommitCheck::Checked { receipt, gates } => {
            let level = check.level();
            let (mark, says) = match check.holds() {
                Some(true) if level == ProofLevel::NotProven => (&open, format!("holds: {level}")),
                Some(true) => (&good, format!("holds: {level}")),
                _ if gates.is_empty() => (&bad, "proves nothing: no gate ran".to_owned()),
                _ => (&bad, "does not hold".to_owned()),
            };
            let item = &receipt.item;
            // No receipt carries a signature yet.
            let mut lines = vec![styled!("{mark} {id} {says}, unsigned ({item})")];
            lines.extend(gates.iter().map(|gate| {
                let name = &gate.recorded.gate.name;
                let command = ui.paint(Tone::Faint, &argv_text(gate.recorded.gate.argv()));
                match (&gate.against, told(&gate.now.attribution)) {
                    (Some(against), _) => styled!("    {bad} {name}: {against}  {command}"),
                    (None, None) => styled!("    {good} {name}  {command}"),
                    (None, Some(what)) => styled!("    {open} {name}: {what}  {command}"),
                }
            }));
            lines
        }
    }
}

/// Explains why a gate that matches its receipt is still not a proof.
const fn told(now: &Attribution) -> Option<&'static str> {
    match now {
        Attribution::Passed => None,
        Attribution::ProvedNothing => Some("no test was executed"),
        Attribution::RedBeforeAndAfter => Some("red before and after"),
        Attribution::Flaky => Some("failed, and passed again"),
        _ => Some("fails, as it did when the commit was accepted"),
    }
}

#[derive(Serialize)]
struct JsonCheck<'a> {
    commit: &'a str,
    /// `null` without a receipt.
    holds: Option<bool>,
    level: ProofLevel,
    /// No receipt carries a signature yet.
    signed: bool,
    reason: Option<&'a str>,
    receipt: Option<&'a Receipt>,
    gates: Vec<JsonCheckedGate<'a>>,
}

#[derive(Serialize)]
struct JsonCheckedGate<'a> {
    holds: bool,
    against: Option<&'a str>,
    recorded: &'a GateStatus,
    now: JsonGate<'a>,
}

impl<'a> JsonCheck<'a> {
    fn new(commit: &'a Oid, check: &'a CommitCheck) -> JsonCheck<'a> {
        let (reason, receipt, gates) = match check {
            CommitCheck::NoReceipt => (None, None, &[][..]),
            CommitCheck::Unusable { reason } => (Some(reason.as_str()), None, &[][..]),
            CommitCheck::Checked { receipt, gates } => (None, Some(&**receipt), gates.as_slice()),
        };
        let gate = |gate: &'a GateCheck| JsonCheckedGate {
            holds: gate.against.is_none(),
            against: gate.against.as_deref(),
            recorded: &gate.recorded.result,
            now: JsonGate::new(&gate.now),
        };
        JsonCheck {
            commit: commit.as_str(),
            holds: check.holds(),
            level: check.level(),
            signed: false,
            reason,
            receipt,
            gates: gates.iter().map(gate).collect(),
        }
    }
}
