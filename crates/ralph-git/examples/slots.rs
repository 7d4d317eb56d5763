//! Slots and landings from the command line, one operation per process, for `cargo xtask bench slots`.
//!
//! `slots mirror DIR`, `slots prepare DIR COMMIT NAME`, `slots merge DIR TIP CANDIDATE`, `slots land DIR CANDIDATE`: `DIR/large` is the person's
//! repository, `DIR/mirror` the mirror, `DIR/slots/NAME` the slot.

use std::error::Error;
use std::time::Duration;

use camino::Utf8PathBuf;
use ralph_git::checkout::Checkout;
use ralph_git::commits::Signing;
use ralph_git::item_refs::ItemKey;
use ralph_git::landing::{
    BranchTip, FollowOutcome, LandOutcome, Landing, LandingCommit, TreeMerge,
};
use ralph_git::mirror::Mirror;
use ralph_git::slot::{Slot, SlotRequest, branch_for};
use ralph_git::{Git, GitProgram, Oid};
use ralph_proc::capture::{CaptureRequest, ask};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (Some(operation), Some(place)) = (args.first(), args.get(1)) else {
        return Err("usage: slots mirror|prepare|merge DIR ...".into());
    };
    let place = Utf8PathBuf::from(*place);
    let program = GitProgram::new("git", std::env::vars_os());
    let person = Git::discover(program.clone(), &place.join("large"))?;
    let mirror = Mirror::open(&program, &place.join("mirror"), &person)?;
    match (*operation, &args[2..]) {
        ("mirror", []) => drop(mirror.fill(&person, &[])?),
        ("prepare", [commit, name]) => {
            let refs = person.refs()?;
            let branch = branch_for(&ItemKey::new("0001-item"), &refs);
            let base = parse(commit)?;
            Slot::prepare(&SlotRequest {
                directory: &place.join("slots").join(name),
                private: &place.join("private").join(name),
                mirror: &mirror,
                person: &person,
                refs: &refs,
                base: &base,
                branch: &branch,
                run_branch: Some(("refs/heads/main", &base)),
                caches: &["target".into()],
                exclude: &[],
            })?;
        }
        ("merge", [tip, candidate]) => {
            let landing = Landing { person: &person, mirror: &mirror };
            let merged = landing.merge(&parse(tip)?, &parse(candidate)?, None)?;
            let TreeMerge::Clean { tree } = merged else { return Err("a conflict".into()) };
            // The benchmark compares it with git's own result.
            std::fs::write(place.join("merged-tree"), tree.as_str())?;
        }
        ("land", [candidate]) => land(&place, &person, &mirror, &parse(candidate)?)?,
        _ => return Err("unknown operation".into()),
    }
    Ok(())
}

/// Lands a candidate on a branch that has advanced: the merge, a passing gate in a checkout of it, the refs, the
/// person's working tree.
fn land(
    place: &Utf8PathBuf,
    person: &Git,
    mirror: &Mirror,
    candidate: &Oid,
) -> Result<(), Box<dyn Error>> {
    let branch = "refs/heads/main";
    let landing = Landing { person, mirror };
    mirror.fill(person, &[])?;
    let BranchTip::At(tip) = landing.tip(branch, &mut |_| Vec::new())? else {
        return Err("nothing can land here".into());
    };
    let merged = landing.merge(&tip.commit, candidate, None)?;
    let TreeMerge::Clean { tree } = merged else { return Err("a conflict".into()) };
    let commit = landing.commit(&LandingCommit {
        tree: &tree,
        tip: &tip.commit,
        as_in_tip: &[],
        edits: &[],
        parents: &[&tip.commit, candidate],
        message: "landed",
        signing: Signing::Unsigned,
    })?;
    let checkout = Checkout::prepare(mirror, &place.join("gate"), &commit, &[])?;
    let gate = ask(&CaptureRequest {
        program: "true".as_ref(),
        args: &[],
        names: &[],
        cwd: Some(checkout.worktree().as_std_path()),
        env: &[],
        timeout: Duration::from_mins(1),
        cap: 1024,
    })?;
    if gate.code != Some(0) || landing.land(branch, &tip, &commit)? != LandOutcome::Landed {
        return Err("it did not land".into());
    }
    let followed = landing.follow(branch)?;
    std::fs::write(place.join("merged-tree"), tree.as_str())?;
    matches!(followed, FollowOutcome::Followed { .. })
        .then_some(())
        .ok_or("it did not follow".into())
}

fn parse(id: &str) -> Result<Oid, String> {
    Oid::parse(id.as_bytes()).ok_or_else(|| format!("`{id}` is not an object id"))
}
