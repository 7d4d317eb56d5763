//! `ralph sandbox`: runs any command under a role's boundary, in the person's own terminal.

use std::os::unix::process::ExitStatusExt;

use ralph_engine::boundary::InForce;
use ralph_engine::boundary::enforce;
use ralph_engine::config::FlagValue;
use ralph_engine::run::sandbox::{Sandbox, SandboxRequest};
use ralph_engine::state::state_base;

use crate::args::{GlobalArgs, SandboxArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::{Tone, Ui};
use crate::setup::Setup;

/// Runs the command and returns its exit code.
pub(crate) fn run(global: &GlobalArgs, args: &SandboxArgs) -> Result<Exit, CliError> {
    let flag = args.boundary.as_deref();
    let flag = flag.map(|value| FlagValue { flag: "--boundary", key: "boundary", value });
    let setup = Setup::load(global, &Vec::from_iter(flag))?;
    let boundary = enforce(&setup.config).map_err(CliError::usage)?;
    let (program, rest) = args.command.split_first().expect("clap demands a command");
    let named = program.to_string_lossy().into_owned();
    let found = setup.environment.find_program(&named, setup.cwd.as_std_path());
    let program =
        found.ok_or_else(|| CliError::usage(format!("the program `{named}` was not found")))?;
    let state_base = state_base(&|name| setup.environment.text(name)).map_err(CliError::usage)?;
    let sandbox = Sandbox::prepare(&SandboxRequest {
        role: args.role,
        boundary,
        workspace: &setup.workspace.root,
        git_dirs: &setup.workspace.outer_git_dirs(),
        config: &setup.config,
        environment: &setup.environment,
        cwd: &setup.cwd,
        state_base: &state_base,
        words: args.command.iter().filter_map(|word| word.to_str()).collect(),
    })
    .map_err(CliError::failed)?;
    if args.verbose {
        explain(setup.ui, args, boundary, &sandbox);
    } else if !boundary.is_kernel() {
        let text =
            format!("boundary: {}; nothing keeps the command from anything", boundary.as_str());
        setup.ui.labelled(Tone::Attention, "sandbox", &text);
    }
    let status = sandbox
        .run(program, rest.to_vec())
        .map_err(|error| CliError::failed(format!("cannot run `{named}`: {error}")))?;
    // Removes the scratch directory, which exiting would not.
    drop(sandbox);
    let signal = status.signal().map(|signal| 128 + signal);
    std::process::exit(status.code().or(signal).unwrap_or(1))
}

fn explain(ui: Ui, args: &SandboxArgs, boundary: InForce, sandbox: &Sandbox) {
    let text = format!("as {}, boundary: {}", args.role, boundary.told());
    ui.labelled(Tone::Active, "sandbox", &text);
    for path in sandbox.writable() {
        ui.labelled(Tone::Faint, "writable", path);
    }
}
