//! The cost of the boundary: comparing a whole tree, and the kernel layers in a build.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::{Bar, Bench, Best, cost, progress, report, slope};

/// As many files and directories as a large repository has.
const FILES: usize = 5000;
const FILES_PER_DIRECTORY: usize = 12;

impl Bench {
    /// Two scans of every file of a large tree, compared with one `git status`.
    pub(super) fn baseline(&self) -> Result<bool, String> {
        let tree = self.large_tree().map_err(|error| format!("cannot make a tree: {error}"))?;
        let runs = |role: &str, boundary: &str, count: u32| {
            let count = count.to_string();
            let mut args = vec!["agent", "run", "--quiet", "--agent-cmd", "echo done", "--role"];
            args.extend([role, "--boundary", boundary, "--repeat", &count, "plan"]);
            cost(self.command(&self.ralph, &args).current_dir(&tree))
        };
        let (mut git, mut with, mut without) = (Best::default(), Best::default(), Best::default());
        for _ in 0..5 {
            let status = ["status", "--porcelain=v2", "--untracked-files=all"];
            git.take(cost(self.command("git", &status).current_dir(&tree))?);
            without.take(slope(runs("planner", "off", 2)?, runs("planner", "off", 52)?));
            with.take(slope(runs("planner", "detect", 2)?, runs("planner", "detect", 52)?));
        }
        let ours = with.cpu.saturating_sub(without.cpu);
        progress(&format!("two baselines: {ours:?} of CPU, one git status: {:?}", git.cpu));
        Ok(report(
            "two baselines of 5 000 files, CPU over one `git status -uall`",
            ours.as_secs_f64() / git.cpu.as_secs_f64(),
            Bar::AtMost(1.6),
        ))
    }

    fn large_tree(&self) -> std::io::Result<PathBuf> {
        let tree = self.place.join("large");
        for number in 0..FILES {
            let directory = number / FILES_PER_DIRECTORY;
            let directory = tree.join(format!("part-{:02}/module-{directory}", directory % 20));
            if number % FILES_PER_DIRECTORY == 0 {
                fs::create_dir_all(&directory)?;
            }
            let text = format!("pub fn number_{number}() {{}}\n").repeat(100);
            fs::write(directory.join(format!("file_{number}.rs")), text)?;
        }
        for args in [
            &["init", "--quiet"][..],
            &["add", "."],
            &["-c", "user.name=b", "-c", "user.email=b@b", "commit", "--quiet", "-m", "all"],
        ] {
            let done = self.command("git", args).current_dir(&tree).status()?;
            if !done.success() {
                return Err(std::io::Error::other(format!("git {args:?} failed")));
            }
        }
        Ok(tree)
    }

    /// A build under the kernel boundary, compared with the same build without.
    pub(super) fn build(&self) -> Result<bool, String> {
        let project = self.project().map_err(|error| format!("cannot make a crate: {error}"))?;
        let (mut plain, mut confined) = (Best::default(), Best::default());
        let ralph = self.ralph.to_string_lossy();
        let build = [env!("CARGO"), "build", "--offline", "--quiet"];
        for _ in 0..7 {
            for (best, prefix) in
                [(&mut plain, &[][..]), (&mut confined, &[&*ralph, "sandbox", "--"])]
            {
                let _ = fs::remove_dir_all(project.join("target"));
                let words: Vec<&str> = prefix.iter().copied().chain(build).collect();
                let mut command = self.command(words[0], &words[1..]);
                command.current_dir(&project);
                // Use the same toolchain as this program.
                for name in ["RUSTUP_HOME", "CARGO_HOME", "RUSTUP_TOOLCHAIN"] {
                    command.envs(std::env::var_os(name).map(|value| (name, value)));
                }
                if let Some(home) = std::env::var_os("HOME") {
                    command.env("HOME", home);
                }
                best.take(cost(&mut command)?);
            }
        }
        Ok(report(
            "a cargo build under the boundary, CPU over the same build without",
            confined.cpu.as_secs_f64() / plain.cpu.as_secs_f64(),
            Bar::AtMost(1.03),
        ))
    }

    fn project(&self) -> std::io::Result<PathBuf> {
        let project = self.place.join("project");
        fs::create_dir_all(project.join("src"))?;
        // A separate workspace, because the directory may be inside ours without being a member. It has no
        // dependencies, so nothing has to be downloaded.
        let manifest =
            "[package]\nname = \"project\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n";
        fs::write(project.join("Cargo.toml"), manifest)?;
        let mut main = String::new();
        for module in 0..40 {
            let _ = writeln!(main, "mod m{module};");
            let mut text = String::new();
            for item in 0..100 {
                let _ = writeln!(
                    text,
                    "#[derive(Clone, Debug, Default, PartialEq, PartialOrd)]\npub struct S{item} {{ pub a: Vec<u32>, pub b: String }}"
                );
            }
            fs::write(project.join(format!("src/m{module}.rs")), text)?;
        }
        main.push_str("fn main() {\n");
        for module in 0..40 {
            let _ = writeln!(main, "println!(\"{{:?}}\", m{module}::S0::default());");
        }
        main.push_str("}\n");
        fs::write(project.join("src/main.rs"), main)?;
        let done = Command::new("git").args(["init", "--quiet"]).arg(&project).status()?;
        if done.success() { Ok(project) } else { Err(std::io::Error::other("git init failed")) }
    }
}
