//! `ralph doctor`: is this machine, and this workspace, ready?

use camino::Utf8PathBuf;
use ralph_engine::detect::agents::find_agents;
use ralph_engine::doctor::{Checkup, Finding, FindingStatus, examine};
use ralph_engine::state::state_base;
use ralph_proc::sandbox::Support;

use super::init::this_program;
use super::print_either;
use crate::args::GlobalArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::{Tone, Ui};
use crate::setup::Scout;

pub(crate) fn run(global: &GlobalArgs) -> Result<Exit, CliError> {
    let scout = Scout::look(global, global.root.as_deref())?;
    let config = scout.config.as_ref();
    let look_up = |program: &str| scout.look_up(program);
    let agents = find_agents(config.ok(), &look_up);
    let private_state = state_base(&|name| scout.environment.text(name));
    let temp = Utf8PathBuf::from_path_buf(std::env::temp_dir()).unwrap_or_else(|_| "/tmp".into());
    let findings = examine(&Checkup {
        program: &this_program(),
        workspace: &scout.workspace,
        config,
        agents: &agents,
        look_up: &look_up,
        support: Support::probe(),
        private_state: private_state.as_deref(),
        temp: &temp,
    });
    let healthy = findings.iter().all(|finding| finding.status != FindingStatus::Problem);
    print_either(global.json, &findings, || {
        findings.iter().map(|finding| line(scout.ui, finding)).collect()
    })?;
    Ok(if healthy { Exit::Done } else { Exit::Unfinished })
}

fn line(ui: Ui, finding: &Finding) -> String {
    let (tone, status) = match finding.status {
        FindingStatus::Ok => (Tone::Good, "ok     "),
        FindingStatus::Problem => (Tone::Bad, "problem"),
        FindingStatus::Note => (Tone::Attention, "note   "),
    };
    let head = format!("{} {:10} {}", ui.paint(tone, status), finding.area, finding.what);
    match &finding.advice {
        Some(advice) => format!("{head}\n{:19}{} {advice}", "", ui.symbol("→", "->")),
        None => head,
    }
}
