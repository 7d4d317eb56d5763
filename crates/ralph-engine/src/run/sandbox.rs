//! Runs any command under the restrictions of a role, so that a person can see their effect.
//!
//! There is no guard, no log and no comparison: the command is the person's own, in their terminal.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::role::Role;
use ralph_proc::command::CommandSpec;
use ralph_proc::sandbox::{Confinement, run_in_foreground};

use super::Environment;
use super::allowlist::{GIT_IDENTITY, as_strs};
use super::resources::Scratch;
use crate::agent::adapter;
use crate::boundary::{
    InForce, ViewRequest, Writable, cache_variables, confinement, granted, prepare_set, view,
};
use crate::config::{AgentProgram, Config};
use crate::files::PathError;

/// The command to run, and its role.
pub struct SandboxRequest<'a> {
    pub role: Role,
    pub boundary: InForce,
    pub workspace: &'a Utf8Path,
    pub git_dirs: &'a [Utf8PathBuf],
    pub config: &'a Config,
    pub environment: &'a Environment,
    /// The working directory; the person may be anywhere in the workspace.
    pub cwd: &'a Utf8Path,
    /// The base directory of all private state.
    pub state_base: &'a Utf8Path,
    /// The command line: paths in it are visible.
    pub words: Vec<&'a str>,
}

/// A sandbox ready for a command. Its scratch directory is removed with it.
pub struct Sandbox {
    scratch: Scratch,
    pub(crate) confinement: Confinement,
    boundary: InForce,
    environment: Environment,
    cwd: PathBuf,
}

impl Sandbox {
    /// Builds the restrictions of a run with this role.
    pub fn prepare(request: &SandboxRequest<'_>) -> Result<Sandbox, PathError> {
        let scratch = Scratch::create()?;
        let choice = request.config.agent_for(request.role);
        let (general, of_agent) = (as_strs(&request.config.env_pass), as_strs(&choice.pass));
        let own = [&general, &of_agent, GIT_IDENTITY].concat();
        let mut environment = request.environment.passing(&own);
        environment.set("TMPDIR", scratch.temporary().as_str());
        environment.set("RALPH_OUT", scratch.outbox().as_str());
        environment.set("RALPH_ROLE", request.role.as_str());
        let caches = scratch.path().join("caches");
        if request.boundary != InForce::Off {
            let persons = |name: &str| request.environment.text(name);
            let failed = |source| PathError::new("create", &caches, source);
            prepare_set(&caches, &persons).map_err(failed)?;
            for (name, value) in cache_variables(&caches, &persons) {
                environment.set(name, value);
            }
        }
        let lookup = |name: &str| environment.text(name);
        let mut agent_state = match &choice.program {
            AgentProgram::Adapter { adapter: name, .. } => {
                adapter(name).map(|adapter| adapter.state_paths(&lookup)).unwrap_or_default()
            }
            AgentProgram::Command { .. } | AgentProgram::Untrusted => Vec::new(),
        };
        agent_state.extend(choice.state);
        let agent_state = granted(&agent_state, request.workspace);
        let extra = granted(&request.config.writable, request.workspace);
        let writable = Writable {
            role: request.role,
            workspace: request.workspace,
            git_dirs: request.git_dirs,
            scratch: scratch.path(),
            agent_state: &agent_state,
            caches: None,
            extra: &extra,
        };
        let view = match request.boundary {
            InForce::Kernel(layers) => {
                let mut needed = agent_state.clone();
                needed.extend([request.workspace, request.cwd].map(ToOwned::to_owned));
                needed.extend_from_slice(request.git_dirs);
                view(
                    layers,
                    &ViewRequest {
                        env: &lookup,
                        person: &|name| request.environment.text(name),
                        state_base: request.state_base,
                        temporary: &scratch.temporary(),
                        cwd: request.cwd,
                        needed,
                        words: request.words.clone(),
                        show: &request.config.sandbox.show,
                        offline: false,
                    },
                )
            }
            InForce::Detect | InForce::Off => None,
        };
        let confinement = confinement(&writable, request.config.sandbox.unix_sockets, view);
        let (boundary, cwd) = (request.boundary, request.cwd.into());
        Ok(Sandbox { scratch, confinement, boundary, environment, cwd })
    }

    /// Returns the existing writable paths: the kernel grants no others.
    pub fn writable(&self) -> impl Iterator<Item = &str> {
        let paths = self.confinement.writable.iter().map(String::as_str);
        paths.filter(|path| Utf8Path::new(path).exists())
    }

    /// Runs a command to its end. The calling process must be single-threaded.
    pub fn run(&self, program: PathBuf, args: Vec<OsString>) -> io::Result<ExitStatus> {
        self.scratch.make_ready()?;
        run_in_foreground(&CommandSpec {
            program,
            args,
            cwd: self.cwd.clone(),
            env: self.environment.clone().into_variables(),
            traced: None,
            stdin: None,
            confinement: (self.boundary.is_kernel()).then(|| self.confinement.clone()),
        })
    }
}
