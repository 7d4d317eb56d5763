//! The cost of the sandbox layers per run: Landlock with seccomp, and namespaces; and of a toolchain cache with a
//! disposable overlay for gates.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::plan::{commit, file};
use super::{Bar, Bench, Best, Cost, cost, progress, report, slope};

const ROUNDS: u32 = 7;
/// Gates of one commit, so many that the start-up cost of Ralph is negligible per gate.
const GATES: u32 = 40;
/// A toolchain cache: the number of crates and the size of each in bytes.
const CRATES: u64 = 512;
const CRATE_SIZE: u64 = 2 << 20;

const DONE: &str = "I AM HYPER SURE I AM DONE!";

impl Bench {
    /// Each layer compared with the shell loop.
    pub(super) fn layers(&self) -> Result<bool, String> {
        let mut places = self.places_on_disk();
        places.push(Path::new("/dev/shm").join(super::ours()));
        let cheap = self.where_files_are_cheap(places)?;
        let (bare, met) = cheap.layers_of_a_run()?;
        Ok(cheap.layers_of_a_gate(bare)? & cheap.layered_cache()? & met)
    }

    /// Returns the CPU seconds of an iteration of the shell loop, and whether all bars are met.
    fn layers_of_a_run(&self) -> Result<(f64, bool), String> {
        let run = |count: u32| {
            let count = count.to_string();
            let mut args = vec!["agent", "run", "--quiet", "--agent", "stub"];
            args.extend(["--file", "PROMPT.md", "--repeat", &count]);
            self.command(&self.ralph, &args)
        };
        let (mut bare, mut first, mut both) = (Best::default(), Best::default(), Best::default());
        for _ in 0..ROUNDS {
            bare.take(slope(self.shell_loop(2)?, self.shell_loop(52)?));
            let alone = |count| cost(&mut without_namespaces(run(count)));
            first.take(slope(alone(2)?, alone(52)?));
            both.take(slope(cost(&mut run(2))?, cost(&mut run(52))?));
        }
        let [bare, first, both] = [bare, first, both].map(|best| best.cpu.as_secs_f64());
        progress(&format!("shell {bare:.5} s, Landlock {first:.5} s, both layers {both:.5} s"));
        let met = report(
            "one run with Landlock alone, CPU over a shell loop",
            first / bare,
            Bar::AtMost(1.35),
        ) & report(
            "one run with both layers, CPU over a shell loop",
            both / bare,
            Bar::AtMost(1.7),
        ) & report(
            "what namespaces add to a run, CPU over a shell loop",
            (both - first) / bare,
            Bar::AtMost(0.35),
        );
        Ok((bare, met))
    }

    /// Gates without network also get a network namespace. These are the gates of an accepted commit, run again.
    fn layers_of_a_gate(&self, bare: f64) -> Result<bool, String> {
        let place = self.accepted_commit()?;
        let verify = || self.in_place(&self.ralph, &["verify", "HEAD", "--yes"], &place);
        let (mut first, mut both) = (Best::default(), Best::default());
        for _ in 0..ROUNDS {
            first.take(cost(&mut without_namespaces(verify()))?);
            both.take(cost(&mut verify())?);
        }
        progress(&format!("{GATES} gates: {:?}, with namespaces {:?} of CPU", first.cpu, both.cpu));
        let added = (both.cpu.as_secs_f64() - first.cpu.as_secs_f64()) / f64::from(GATES);
        Ok(report(
            "what namespaces add to a gate without network, CPU over a shell loop",
            added / bare,
            Bar::AtMost(0.5),
        ))
    }

    /// Creates a repository in which an agent's commit with many passing gates was accepted.
    fn accepted_commit(&self) -> Result<std::path::PathBuf, String> {
        let agent = self.place.join("honest-agent");
        let script = format!(
            "#!/bin/sh\ncat >/dev/null\ncase $RALPH_ROLE in\nplanner) echo '# Plan' >$RALPH_OUT/plan.md;;\n\
             implementer) date >w; git add w; git commit --quiet -m work; git rev-parse HEAD;;\n\
             *) git rev-parse HEAD;;\nesac\necho '{DONE}'\n"
        );
        let gate = |number: u32| {
            format!("[[gate]]\nname = \"g{number}\"\nrun = [\"true\"]\nnet = false\n")
        };
        let settings = format!(
            "[agents.stub]\ncommand = [\"sh\", \"{}\"]\n{}",
            agent.display(),
            (0..GATES).map(gate).collect::<String>()
        );
        let made = self.imported("gates", |stream| {
            commit(stream, 0)?;
            file(stream, "ralph/specs/0001-one.md", "# One\n\nDo it.\n")?;
            file(stream, "ralph/.gitignore", "runs/\nralph.log\nspecs/sessions/\n.*.ralph-tmp\n")?;
            file(stream, "ralph.toml", &settings)
        });
        let place = made
            .and_then(|place| fs::write(&agent, script).map(|()| place))
            .map_err(|error| format!("cannot prepare: {error}"))?;
        let args = ["pipeline", "--quiet", "--agent", "stub"];
        cost(&mut self.in_place(&self.ralph, &args, &place))?;
        // The accepted commit is the parent of the landing's own.
        cost(&mut self.in_place("git", &["reset", "--quiet", "--hard", "HEAD~1"], &place))?;
        Ok(place)
    }

    /// The same gates with a cache of 1 GB in the person's home directory.
    fn layered_cache(&self) -> Result<bool, String> {
        let place = self.place.join("gates");
        let cache = self.place.join("home-cache/.cargo/registry/cache/index.crates.io-1");
        let source = self.place.join("home-cache/.cargo/registry/src/index.crates.io-1");
        let fill = || -> std::io::Result<()> {
            fs::create_dir_all(&cache)?;
            let own = self.place.join("home-cache/.config/ralph");
            fs::create_dir_all(&own)?;
            fs::write(own.join("config.toml"), "[trust]\nalways = [\"/*\"]\n")?;
            for number in 0..CRATES {
                // Sparse files are read and copied like any others.
                let name = format!("crate-{number}-1.0.0");
                fs::File::create(cache.join(format!("{name}.crate")))?.set_len(CRATE_SIZE)?;
                fs::create_dir_all(source.join(&name))?;
                fs::write(source.join(&name).join("lib.rs"), "pub fn it() {}\n")?;
            }
            Ok(())
        };
        fill().map_err(|error| format!("cannot prepare: {error}"))?;
        let verify = |home: &str| -> Result<Cost, String> {
            let home = self.place.join(home);
            // A cold start: remove the caches of earlier rounds.
            let _ = fs::remove_dir_all(home.join(".local"));
            let mut command = self.in_place(&self.ralph, &["verify", "HEAD", "--yes"], &place);
            cost(command.env("HOME", home))
        };
        let (mut without, mut with) = (Best::default(), Best::default());
        for _ in 0..ROUNDS {
            without.take(verify("home")?);
            with.take(verify("home-cache")?);
        }
        Ok(report(
            "a gate cache of 1 GB layered in, seconds of CPU",
            with.cpu.as_secs_f64() - without.cpu.as_secs_f64(),
            Bar::AtMost(0.1),
        ))
    }
}

fn without_namespaces(mut command: Command) -> Command {
    command.env("RALPH_NAMESPACES", "off");
    command
}
