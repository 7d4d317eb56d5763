//! The cost of a checkout for gates, compared with `git clone --shared`: new, and for a later commit.
//!
//! Ours is all of `ralph gates run` with an empty gate: it includes start, mirror, checkout, guard and log.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench::{Bar, Bench, Best, cost, report};

const DIRECTORIES: u32 = 50;
const FILES_PER_DIRECTORY: u32 = 100;
const ROUNDS: u32 = 5;

impl Bench {
    pub(crate) fn checkout(&self) -> Result<bool, String> {
        let repository = self.place.join("large");
        let failed = |error: std::io::Error| format!("{}: {error}", repository.display());
        self.lay_out_repository(&repository).map_err(failed)?;
        let (mut clone, mut fresh, mut later) = (Best::default(), Best::default(), Best::default());
        let gates = |commit: &str| {
            let args = ["gates", "run", "--quiet", "--commit", commit];
            cost(self.command(&self.ralph, &args).current_dir(&repository))
        };
        // Fills the mirror, which happens once per repository.
        gates("HEAD")?;
        for round in 0..ROUNDS {
            // Old clones are moved away, not removed: ext4 creates files slowly where many were just deleted.
            let mut git = self.command("git", &["clone", "--quiet", "--shared", "."]);
            let copy = self.place.join(format!("copy-{round}"));
            clone.take(cost(git.arg(&copy).current_dir(&repository))?);
            for checkout in self.checkouts() {
                let aside = self.place.join(format!("old-{round}"));
                fs::rename(checkout, aside).map_err(failed)?;
            }
            fresh.take(gates("HEAD")?);
            gates("HEAD~1")?;
            later.take(gates("HEAD")?);
        }
        let over = |ours: &Best| ours.cpu.as_secs_f64() / clone.cpu.as_secs_f64();
        let met = report(
            "a new checkout for gates, CPU over git clone --shared",
            over(&fresh),
            Bar::AtMost(1.2),
        );
        Ok(report(
            "a later one (50 files differ), CPU over git clone --shared",
            over(&later),
            Bar::AtMost(0.2),
        ) && met)
    }

    /// Creates a repository of 5 000 files and 20 MB, with a second commit that changes 50 of them.
    pub(crate) fn lay_out_repository(&self, at: &Path) -> std::io::Result<()> {
        fs::create_dir_all(at)?;
        let git = |args: &[&str]| {
            let mut command = self.command("git", args);
            command.current_dir(at);
            for name in ["AUTHOR", "COMMITTER"] {
                command.env(format!("GIT_{name}_NAME"), "Bench");
                command.env(format!("GIT_{name}_EMAIL"), "bench@localhost");
            }
            run(&mut command)
        };
        git(&["init", "--quiet", "--initial-branch=main"])?;
        for directory in 0..DIRECTORIES {
            let path = at.join(format!("d{directory}"));
            fs::create_dir(&path)?;
            for file in 0..FILES_PER_DIRECTORY {
                fs::write(path.join(format!("f{file}")), text(directory * 1000 + file))?;
            }
        }
        let gate = "[[gate]]\nname = \"nothing\"\nrun = [\"true\"]\n";
        fs::write(at.join("ralph.toml"), gate)?;
        git(&["add", "--all"])?;
        git(&["commit", "--quiet", "--message=first"])?;
        for directory in 0..DIRECTORIES {
            fs::write(at.join(format!("d{directory}/f0")), text(directory + 1_000_000))?;
        }
        git(&["commit", "--quiet", "--all", "--message=second"])
    }

    fn checkouts(&self) -> Vec<PathBuf> {
        let mut found = vec![self.place.join("home/.local/state/ralph")];
        for wanted in ["large-", "repositories", "large-", "checkouts"] {
            found = found
                .iter()
                .flat_map(|directory| fs::read_dir(directory).into_iter().flatten().flatten())
                .map(|entry| entry.path())
                .filter(|path| {
                    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(wanted))
                })
                .collect();
        }
        found
    }
}

fn run(command: &mut Command) -> std::io::Result<()> {
    let status = command.status()?;
    if status.success() {
        return Ok(());
    }
    Err(std::io::Error::other(format!("{command:?} failed")))
}

/// About 4 KB of text that is unique to the seed.
fn text(seed: u32) -> String {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut text = String::with_capacity(4200);
    while text.len() < 4096 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let _ = writeln!(text, "let value_{} = {state};", state >> 20);
    }
    text
}
