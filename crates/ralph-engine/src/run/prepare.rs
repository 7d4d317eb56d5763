//! Prepares a run: its environment, its command line, its writable paths, and what is watched meanwhile.

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::role::Role;
use ralph_proc::command::CommandSpec;
use ralph_proc::namespace::View;

use super::allowlist::{GIT_IDENTITY, as_strs};
use super::{Environment, Run, RunContext, RunError, RunSlot};
use crate::agent::AgentRequest;
use crate::boundary::{
    self, CacheSet, InForce, Layers, ViewRequest, Watch, Writable, around_program, cache_variables,
    prepare_layer, prepare_set,
};
use crate::config::SESSION_MARK;
use crate::files;
use crate::git::RepositoryLocation;

/// A run that is ready to start.
pub(super) struct PreparedRun {
    pub(super) spec: CommandSpec,
    pub(super) watch: Watch,
}

/// What is compared after a run in addition to the agent's own settings.
///
/// A slot is a clone owned by Ralph: whatever a run with write access does there is allowed, and the person's
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
    /// The agent's working directory.
    fn directory(&self) -> &Utf8Path {
        self.request.directory.unwrap_or(self.context.work_root())
    }

    /// The agent's environment: the passed part of the person's, its configuration, and the variables of the run.
    pub(super) fn environment(&self) -> Environment {
        let own = [&as_strs(self.request.pass), GIT_IDENTITY].concat();
        let mut environment = self.context.environment.passing(&own);
        for (name, value) in
            self.context.place.identity(self.context.workspace, || self.context.environment.git())
        {
            environment.set(*name, value);
        }
        environment.set("GIT_TERMINAL_PROMPT", "0");
        environment.configure_git("commit.gpgsign", "false");
        environment.configure_git("tag.gpgsign", "false");
        if let Some(directory) = self.context.state.program_directory(self.context.program) {
            environment.prepend_path(&directory);
        }
        if self.request.boundary != InForce::Off {
            let lookup = |name: &str| self.context.environment.text(name);
            for (name, value) in cache_variables(&self.caches(), &lookup) {
                environment.set(name, value);
            }
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
            // `git status` must not rewrite the index.
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

    /// The directory of this run's toolchain caches: agents that write share a set, a verifier has its own layer.
    fn caches(&self) -> Utf8PathBuf {
        if self.request.role == Role::Verifier {
            return self.context.place.scratch.path().join("caches");
        }
        CacheSet::Agents.directory(self.context.state.directory())
    }

    /// Prepares the caches. Returns their writable part.
    fn prepare_caches(&self) -> std::io::Result<Option<Utf8PathBuf>> {
        if self.request.boundary == InForce::Off {
            return Ok(None);
        }
        let (role, state) = (self.request.role, self.context.state.directory());
        let lookup = |name: &str| self.context.environment.text(name);
        if role == Role::Verifier {
            let gates = CacheSet::Gates.directory(state);
            prepare_set(&gates, &lookup)?;
            // The scratch directory belongs to the run.
            prepare_layer(&self.caches(), &gates)?;
            return Ok(None);
        }
        prepare_set(&self.caches(), &lookup)?;
        Ok(role.writes_workspace().then(|| self.caches()))
    }

    /// The agent's view of the machine, if it has its own namespaces.
    fn view(
        &self,
        layers: Layers,
        args: &[String],
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Option<View> {
        let (request, context) = (self.request, &*self.context);
        let mut needed = around_program(request.executable);
        needed.extend(around_program(context.program));
        needed.extend(context.state.shown());
        let sets = [CacheSet::Agents, CacheSet::Gates];
        needed.extend(sets.map(|set| set.directory(context.state.directory())));
        needed.extend([self.directory(), context.work_root()].map(ToOwned::to_owned));
        // The workspace can be a subdirectory of a repository: to git, hidden parts of it would look deleted.
        for place in context.work_places() {
            needed.extend(place.worktree.clone());
            needed.push(place.git_dir.clone());
        }
        // A checkout's git directory is next to its tree, which is granted.
        let state = context.state.directory();
        let granted = request.writable.iter().filter(|path| path.starts_with(state));
        let trees = request.directory.into_iter().chain(granted.map(Utf8PathBuf::as_path));
        needed.extend(trees.filter_map(Utf8Path::parent).map(ToOwned::to_owned));
        needed.extend(request.adapter.state_paths(&|name| env(name)));
        needed.extend_from_slice(request.agent_state);
        if let Some(slot) = context.slot {
            needed.push(slot.home.clone());
        } else {
            needed.extend(context.home.map(ToOwned::to_owned));
            needed.extend_from_slice(context.git_dirs);
        }
        let words = args.iter().map(String::as_str);
        let words = words.chain(request.env.iter().map(|(_, value)| value.as_str()));
        boundary::view(
            layers,
            &ViewRequest {
                env,
                person: &|name| context.environment.text(name),
                state_base: context.state.base(),
                temporary: &context.place.scratch.temporary(),
                cwd: self.directory(),
                needed,
                words: words.collect(),
                show: &request.sandbox.show,
                offline: false,
            },
        )
    }

    /// Builds the command and its restrictions; the adapter's variables are added to the environment.
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
        if let Some(session) = request.resume {
            let args = request.resume_args.iter().map(|arg| arg.replace(SESSION_MARK, session));
            invocation.args.extend(args);
        }
        for (name, value) in invocation.env.drain(..) {
            environment.set(name, value);
        }
        let lookup = |name: &str| environment.text(name);
        let mut agent_state = request.adapter.state_paths(&lookup);
        agent_state.extend(isolated);
        agent_state.extend_from_slice(request.agent_state);
        let agent_state = boundary::granted(&agent_state, self.context.workspace);
        // The person may configure files as an agent's state; an adapter's own are directories except for these.
        let is_file = |path: &Utf8PathBuf| {
            path.extension() == Some("json")
                || (request.agent_state.contains(path) && path.is_file())
        };
        for path in agent_state.iter().filter(|path| !is_file(path)) {
            // The kernel can only grant access to existing paths. Single files are left to the agent.
            files::create_directory(path)?;
        }
        let caches = self.prepare_caches().map_err(RunError::Prepare)?;
        let mut writable_programs: Vec<&Utf8Path> =
            agent_state.iter().map(Utf8PathBuf::as_path).collect();
        writable_programs.push(self.context.place.scratch.path());
        if request.role.writes_workspace() {
            writable_programs.push(self.context.work_root());
        }
        let slot_git_dirs = self.context.slot.map(RunSlot::outer_git_dirs);
        let extra = boundary::granted(request.writable, self.context.workspace);
        let writable = Writable {
            role: request.role,
            workspace: self.context.work_root(),
            git_dirs: slot_git_dirs.as_deref().unwrap_or(self.context.git_dirs),
            scratch: self.context.place.scratch.path(),
            agent_state: &agent_state,
            caches: caches.as_deref(),
            extra: &extra,
        };
        let view = match request.boundary {
            InForce::Kernel(layers) => self.view(layers, &invocation.args, &lookup),
            InForce::Detect | InForce::Off => None,
        };
        let confinement = boundary::confinement(&writable, request.sandbox.unix_sockets, view);
        let watched = WatchedPlaces::of(self.context, request.role);
        let watch = Watch {
            run: self.id.to_string(),
            role: request.role,
            in_force: request.boundary,
            workspace: self.context.work_root().to_owned(),
            home: watched.home.map(ToOwned::to_owned),
            git_dirs: boundary::inodes(watched.places),
            refs: if request.role.writes_workspace() && request.boundary != InForce::Off {
                let person = self.context.environment.git();
                let person = self.context.slot.is_none().then_some(&person);
                boundary::note_refs(watched.places, person)
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
            baseline_length: 0,
            journal: self.context.state.journal_length(),
        };
        environment.narrow_path(&writable_programs);
        let spec = CommandSpec {
            program: request.executable.into(),
            args: invocation.args.into_iter().map(Into::into).collect(),
            cwd: self.directory().into(),
            env: environment.clone().into_variables(),
            traced: None,
            stdin: Some(self.logs.prompt.clone().into()),
            confinement: (request.boundary.is_kernel()).then_some(confinement),
        };
        Ok(PreparedRun { spec, watch })
    }
}
