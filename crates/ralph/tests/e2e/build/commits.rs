//! The person's settings for Ralph's commits: excluding home, and signatures.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{BUILDER, PLANNER, SPEC, Site, VERIFIER, task};
use crate::harness::{PATIENCE, RALPH};
use crate::support::process::run;

#[test]
fn with_home_kept_out_of_git_nothing_of_it_is_committed_and_all_else_works() {
    let script = format!(
        "{PLANNER}[builder]\nappend ${{RALPH_TASK}} done\nrun git add -A\n\
                          run git commit -qm mine\nrun ralph task done\nfinal done\n{VERIFIER}"
    );
    let site = Site::new(&script);
    site.configure("git.commit_home = false\n");
    let refused = site.exits(2, &["plan", SPEC]);
    assert!(refused.stderr.contains("git rm -r -q --cached ralph"), "{refused}");
    site.git(&["rm", "-r", "-q", "--cached", "ralph"]);
    site.git(&["commit", "-q", "-m", "settings"]);
    let home_at_first = site.git(&["ls-tree", "-r", "HEAD", "ralph"]);
    site.exits(0, &["plan", SPEC]);
    assert_eq!(site.records("task").len(), 1);
    assert_eq!(site.commits()[0], "settings");
    site.assert_clean();

    site.exits(0, &["task", "add", "Wave"]);
    site.exits(0, &["issue", "add", "It rains"]);
    let issue = site.records("issue")[0]["id"].as_str().unwrap().to_owned();
    site.exits(0, &["issue", "done", &issue]);
    assert_eq!(site.commits()[0], "settings");
    site.assert_clean();

    site.exits(0, &["build"]);
    assert_eq!(site.roles(), ["planner", "builder", "builder", "verifier"]);
    // An agent that adds everything did not find any file of home either.
    assert_eq!(site.commits()[..3], ["mine", "mine", "settings"]);
    assert_eq!(site.git(&["ls-tree", "-r", "HEAD", "ralph"]), home_at_first);
    site.assert_complete();

    for args in [&["log"][..], &["log", "--all"], &["log", "--table"]] {
        let logged = site.exits(0, args);
        assert!(logged.stderr.contains("`git.commit_home` is off"), "{logged}");
        if args.len() == 1 || args[1] == "--all" {
            let _: Value = serde_json::from_str(&logged.stdout).unwrap();
        }
    }
}

#[test]
fn a_first_task_of_a_home_that_is_kept_out_of_git_is_not_seen_by_it() {
    let site = Site::new("");
    site.configure("git.commit_home = false\n");
    site.exits(0, &["set-spec", SPEC]);
    site.exits(0, &["task", "add", "Wave"]);
    site.assert_clean();
    assert_eq!(site.commits()[0], "settings");
}

/// A signer from the person's own configuration; it fails while there is a file `broken` next to the repository.
const SIGNER: &str = "#!/bin/sh\ncat > /dev/null\n(echo > \"${0%/*}/reached\") 2>/dev/null\n\
    if test -e \"${0%/*}/broken\"; then echo 'no secret key for you' >&2; exit 2; fi\n\
    echo '[GNUPG:] SIG_CREATED ' >&2\n\
    printf -- '-----BEGIN PGP SIGNATURE-----\\n\\nby %s\\n-----END PGP SIGNATURE-----\\n' \"$3\"\n";

/// A site whose person signs commits.
struct Signed {
    site: Site,
    before: String,
}

impl Signed {
    fn new(site: Site) -> Signed {
        let signer = site.place.path("signer");
        fs::write(&signer, SIGNER).unwrap();
        fs::set_permissions(&signer, fs::Permissions::from_mode(0o755)).unwrap();
        let config = format!("[user]\nsigningkey = me\n[gpg]\nprogram = {}\n", signer.display());
        fs::write(site.place.path("gitconfig"), config).unwrap();
        site.configure("git.sign = true\n");
        let before = site.git(&["rev-parse", "HEAD"]);
        Signed { site, before }
    }

    fn exits(&self, code: i32, args: &[&str]) -> String {
        let output = Command::new(RALPH)
            .args(args)
            .current_dir(self.site.place.env.repo())
            .env_clear()
            .envs(self.site.place.variables())
            .env("GIT_CONFIG_GLOBAL", self.site.place.path("gitconfig"))
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{said}\n{}", self.site.plan_text());
        said
    }

    fn set_broken(&self, broken: bool) {
        let mark = self.site.place.path("broken");
        if broken { fs::write(mark, "").unwrap() } else { fs::remove_file(mark).unwrap() }
    }

    /// Checks that every commit since is signed; returns their subjects, newest first.
    fn subjects(&self) -> Vec<String> {
        let range = format!("{}..HEAD", self.before);
        for id in self.site.git(&["rev-list", &range]).lines() {
            let commit = self.site.git(&["cat-file", "commit", id]);
            assert!(commit.contains("gpgsig") && commit.contains("by me"), "{commit}");
        }
        let subjects = self.site.git(&["log", "--format=%s", &range]);
        subjects.lines().map(str::to_owned).collect()
    }
}

#[test]
fn commits_of_plan_and_work_are_signed_as_the_person_does() {
    let signed = Signed::new(Site::new(&format!("{PLANNER}{BUILDER}{VERIFIER}")));
    signed.exits(0, &["plan", SPEC]);
    signed.exits(0, &["task", "add", "Wave"]);
    signed.exits(0, &["build"]);
    let subjects = signed.subjects();
    for wanted in ["Say hello", "Wave", "ralph: task add - Wave", "ralph: task done - Wave"] {
        assert!(subjects.iter().any(|subject| subject == wanted), "{wanted} in {subjects:?}");
    }
    signed.site.assert_complete();
}

/// Ralph holds itself to what it works with once agents run, and with itself whatever it starts.
#[test]
fn a_signer_writes_nothing_outside_while_agents_work() {
    let signed = Signed::new(Site::new(&format!("{PLANNER}{BUILDER}{VERIFIER}")));
    let reached = signed.site.place.path("reached");
    signed.exits(0, &["set-spec", SPEC]);
    signed.exits(0, &["task", "add", "Wave"]);
    assert!(reached.exists(), "a single command runs no agent");
    fs::remove_file(&reached).unwrap();
    signed.exits(0, &["build"]);
    assert!(signed.subjects().len() > 2);
    assert!(!reached.exists());
}

#[test]
fn a_signature_that_cannot_be_made_says_whose_settings_count() {
    let signed = Signed::new(Site::planned("", &[task("t-aaaa")]));
    // The repository's own signing settings are ignored.
    signed.site.git(&["config", "gpg.format", "ssh"]);
    signed.set_broken(true);
    let said = signed.exits(1, &["task", "add", "Wave"]);
    for told in ["no secret key for you", "git config --global gpg.format", "user.signingkey"] {
        assert!(said.contains(told), "{told} in {said}");
    }
    signed.set_broken(false);
    signed.exits(0, &["task", "add", "Bow"]);
    assert_eq!(signed.subjects().len(), 2);
}

/// A lock on the branch left by a Ralph that died while committing without a signature.
fn leave_branch_locked(site: &Site) {
    let lock = site.path(".git/refs/heads/main.lock");
    let died_with_it = (1..20).any(|write| {
        let mut variables = site.place.variables();
        variables.push(("RALPH_CRASH_AT".to_owned(), write.to_string()));
        let args = ["task", "add", "x"];
        let died = run(&site.place.env, Path::new(RALPH), &args, &variables, "", PATIENCE);
        died.status.code().is_none() && lock.exists()
    });
    assert!(died_with_it);
}

#[test]
fn locks_that_a_dead_ralph_left_are_in_no_signed_commits_way() {
    let signed = Signed::new(Site::planned("", &[task("t-aaaa")]));
    let settings = signed.site.path("ralph.toml");
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, text.replace("git.sign = true\n", "")).unwrap();
    leave_branch_locked(&signed.site);
    fs::write(&settings, text).unwrap();
    let before = signed.site.git(&["rev-parse", "HEAD"]);
    // The same dead Ralph may have left this one, or another process.
    let [index, head] = ["index.lock", "HEAD.lock"].map(|name| signed.site.path(".git").join(name));
    for lock in [&index, &head] {
        fs::copy(signed.site.path(".git/refs/heads/main.lock"), lock).unwrap();
        fs::set_permissions(lock, fs::Permissions::from_mode(0o1644)).unwrap();
    }
    signed.exits(0, &["task", "add", "Wave"]);
    let signed = Signed { before, ..signed };
    assert_eq!(signed.subjects()[0], "ralph: task add - Wave");
    for lock in [index, head, signed.site.path(".git/refs/heads/main.lock")] {
        assert!(!lock.exists(), "{}", lock.display());
    }
    signed.site.assert_clean();
}

#[test]
fn a_lock_of_somebody_else_is_explained_and_left_to_a_signed_commit() {
    let signed = Signed::new(Site::planned("", &[task("t-aaaa")]));
    let lock = signed.site.path(".git/refs/heads/main.lock");
    fs::write(&lock, "").unwrap();
    let said = signed.exits(1, &["task", "add", "Wave"]);
    assert!(said.contains("main.lock` is locked"), "{said}");
    assert!(said.contains("a process that no longer exists left it"), "{said}");
    assert!(lock.exists());
}

#[test]
fn what_cannot_be_signed_is_written_and_committed_when_it_can_be() {
    let signed = Signed::new(Site::planned("", &[task("t-aaaa")]));
    signed.set_broken(true);
    let said = signed.exits(1, &["task", "add", "Wave"]);
    assert!(said.contains("the plan was changed, but not committed"), "{said}");
    assert!(said.contains("no secret key for you"), "{said}");
    assert!(said.contains("the signing method comes from your own git configuration"), "{said}");
    assert!(said.contains("the next change to the plan commits this one along with it"), "{said}");
    assert_eq!(signed.site.records("task").len(), 2);
    assert_eq!(signed.subjects(), Vec::<String>::new());

    signed.set_broken(false);
    signed.exits(0, &["task", "add", "Bow"]);
    assert_eq!(signed.subjects(), ["ralph: task add - Bow", "ralph: task add - Wave"]);
    signed.site.assert_clean();
}

#[test]
fn a_signer_that_fails_in_mid_build_stops_it_and_the_run_is_not_done_again() {
    let site = Site::planned("", &[task("t-aaaa")]);
    let broken = site.place.path("broken");
    let script = format!(
        "[builder]\nwrite t-aaaa x\nrun touch {}\nrun ralph task done\nfinal done\n{VERIFIER}",
        broken.display()
    );
    fs::write(site.place.path("script"), script).unwrap();
    let signed = Signed::new(site);
    let said = signed.exits(1, &["build", "--boundary", "off"]);
    assert!(said.contains("no secret key for you"), "{said}");
    assert!(said.contains("`ralph build` continues where it stopped"), "{said}");
    assert!(!signed.site.path("t-aaaa").exists(), "nothing lands unsigned");
    assert!(!signed.subjects().contains(&"Do t-aaaa".to_owned()));

    signed.set_broken(false);
    signed.exits(0, &["build"]);
    assert_eq!(signed.site.roles(), ["builder", "verifier"]);
    assert!(signed.subjects().contains(&"Do t-aaaa".to_owned()));
    signed.site.assert_complete();
}
