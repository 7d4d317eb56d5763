//! What a run is started with: its environment, its command line, what it may write, and what is watched meanwhile.

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::role::Role;
use ralph_proc::command::CommandSpec;

use super::{Environment, Run, RunContext, RunError};
use crate::agent::AgentRequest;
use crate::boundary::{self, InForce, Watch, Writable};
use crate::files;
use crate::git::RepositoryLocation;

/// A run that is ready to be started.
pub(super) struct PreparedRun {
    pub(super) spec: CommandSpec,
    pub(super) watch: Watch,
}

/// What is compared after a run beside the agent's own settings.
///
/// A slot is a clone of Ralph's own: whatever a run that may write it does there is its own affair, and the person's
/// repository and home are out of its reach.
struct WatchedPlaces<'a> {
    home: Option<&'a Utf8Path>,
    places: &'a [RepositoryLocation],
}

impl<'a> WatchedPlaces<'a> {
    fn of(context: &'a RunContext<'_>, role: Role) -> WatchedPlaces<'a> {
        match context.slot {
            None => WatchedPlaces { home: context.home, places: context.work_places() },
            Some(_) if role.writes_workspace() => WatchedPlaces { home: None, places: &[] },
            Some(slot) => WatchedPlaces { home: None, places: &slot.places },
        }
    }
}

impl Run<'_, '_> {
    /// Where the agent works.
    fn directory(&self) -> &Utf8Path {
        self.request.directory.unwrap_or(self.context.work_root())
    }

    /// What the agent sees: the person's environment, its configuration, and what a run is told.
    pub(super) fn environment(&self) -> Environment {
        let mut environment = self.context.environment.clone();
        environment.configure_git("commit.gpgsign", "false");
        environment.configure_git("tag.gpgsign", "false");
        if let Some(directory) = self.context.state.program_directory(self.context.program) {
            environment.prepend_path(&directory);
        }
        for (name, value) in self.request.env {
            environment.set(name, value);
        }
        environment.set("TMPDIR", self.context.place.scratch.temporary().as_str());
        environment.set("RALPH_ROLE", self.request.role.as_str());
        environment.set("RALPH_RUN_ID", self.id.as_str());
        environment.set("RALPH_OUT", self.context.place.scratch.outbox().as_str());
        environment.set("RALPH_CHANNEL", self.context.place.scratch.channel().as_str());
        if !self.request.role.writes_workspace() {
            // A look at the status must not rewrite the index.
            environment.set("GIT_OPTIONAL_LOCKS", "0");
        }
        let home = self.context.slot.map(|slot| slot.home.as_path()).or(self.context.home);
        if let Some(home) = home {
            environment.set("RALPH_HOME", home.as_str());
        }
        if let Some(slot) = self.context.slot {
            environment.set("RALPH_SLOT", slot.number.to_string());
        }
        environment
    }

    /// Puts the command together, and what it is held to; what the adapter sets is added to the environment.
    pub(super) fn prepare(&self, environment: &mut Environment) -> Result<PreparedRun, RunError> {
        let request = self.request;
        let isolated = request.isolate.then(|| self.context.state.agent_state(request.agent));
        let mut invocation = request.adapter.invocation(&AgentRequest {
            model: request.model,
            reasoning: request.reasoning,
            resume: request.resume,
            extra_args: request.args,
            workspace: self.directory(),
            isolated_state: isolated.as_deref(),
        });
        for (name, value) in invocation.env.drain(..) {
            environment.set(name, value);
        }
        let lookup = |name: &str| environment.text(name);
        let mut agent_state = request.adapter.state_paths(&lookup);
        agent_state.extend(isolated);
        for path in agent_state.iter().filter(|path| path.extension() != Some("json")) {
            // The kernel can only grant what exists. Single files are the agent's own to make.
            files::create_directory(path)?;
        }
        agent_state.extend_from_slice(request.agent_state);
        let user_home = lookup("HOME").map(Utf8PathBuf::from);
        let writable = Writable {
            role: request.role,
            workspace: self.context.work_root(),
            git_dirs: if self.context.slot.is_some() { &[] } else { self.context.git_dirs },
            scratch: self.context.place.scratch.path(),
            agent_state: &agent_state,
            user_home: user_home.as_deref(),
            extra: request.writable,
        };
        let confinement = boundary::confinement(&writable, request.unix_sockets);
        let watched = WatchedPlaces::of(self.context, request.role);
        let watch = Watch {
            run: self.id.to_string(),
            role: request.role,
            in_force: request.boundary,
            workspace: self.context.work_root().to_owned(),
            home: watched.home.map(ToOwned::to_owned),
            git_dirs: boundary::inodes(watched.places),
            refs: if request.role.writes_workspace() && request.boundary != InForce::Off {
                boundary::note_refs(watched.places)
            } else {
                Vec::new()
            },
            home_inode: watched.home.and_then(boundary::inode),
            places: watched.places.to_vec(),
            in_slot: self.context.slot.is_some(),
            writable: confinement.writable.clone(),
            guarded: request.adapter.guarded_files(&lookup),
            started: self.context.clock.now(),
            baseline: self.context.state.baseline(),
            journal: self.context.state.journal_length(),
        };
        let spec = CommandSpec {
            program: request.executable.into(),
            args: invocation.args.into_iter().map(Into::into).collect(),
            cwd: self.directory().into(),
            env: environment.clone().into_variables(),
            stdin: Some(self.logs.prompt.clone().into()),
            confinement: (request.boundary == InForce::Kernel).then_some(confinement),
        };
        Ok(PreparedRun { spec, watch })
    }
}
