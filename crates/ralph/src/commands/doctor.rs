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
use crate::render::text::StyledLine;
use crate::render::{Tone, Ui, styled};
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
    print_either(scout.ui, global.json, &findings, || {
        findings.iter().flat_map(|finding| lines(scout.ui, finding)).collect()
    })?;
    Ok(if healthy { Exit::Done } else { Exit::Unfinished })
}

fn lines(ui: Ui, finding: &Finding) -> Vec<StyledLine> {
    let (tone, status) = match finding.status {
        FindingStatus::Ok => (Tone::Good, "ok"),
        FindingStatus::Problem => (Tone::Bad, "problem"),
        FindingStatus::Note => (Tone::Attention, "note"),
    };
    let status = ui.paint(tone, status);
    let mut lines = vec![styled!("{status:7} {:10} {}", finding.area, finding.what)];
    let arrow = ui.symbol("→", "->");
    lines.extend(finding.advice.iter().map(|advice| styled!("{:19}{arrow} {advice}", "")));
    lines
}
