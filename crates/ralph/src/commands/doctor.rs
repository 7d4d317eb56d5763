//! `ralph doctor`: is this machine, and this workspace, ready?

use camino::Utf8PathBuf;
use ralph_engine::detect::agents::{find_agents, known_agents};
use ralph_engine::doctor::{Checkup, Finding, FindingStatus, examine};
use ralph_engine::state::state_base;
use ralph_proc::sandbox::Support;
use serde::Serialize;

use super::print_json;
use crate::args::GlobalArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::text::StyledLine;
use crate::render::{Tone, Ui, styled};
use crate::setup::Scout;

#[derive(Serialize)]
struct Row<'a> {
    area: &'static str,
    status: &'static str,
    what: &'a str,
    advice: Option<&'a str>,
}

pub(crate) fn run(global: &GlobalArgs) -> Result<Exit, CliError> {
    let scout = Scout::look(global, global.root.as_deref())?;
    let config = scout.config.as_ref();
    let look_up = |program: &str| scout.look_up(program);
    let agents = find_agents(&known_agents(config.ok()), &look_up);
    let private_state = state_base(&|name| scout.environment.text(name));
    let temp = Utf8PathBuf::from_path_buf(std::env::temp_dir()).unwrap_or_else(|_| "/tmp".into());
    let findings = examine(&Checkup {
        workspace: &scout.workspace,
        config,
        agents: &agents,
        look_up: &look_up,
        support: Support::probe(),
        private_state: private_state.as_deref(),
        temp: &temp,
    });
    let healthy = findings.iter().all(|finding| finding.status != FindingStatus::Problem);
    if global.json {
        let rows: Vec<Row<'_>> = findings.iter().map(row).collect();
        print_json(&rows)?;
    } else {
        scout.ui.print(findings.iter().flat_map(|finding| lines(scout.ui, finding)))?;
    }
    Ok(if healthy { Exit::Done } else { Exit::Unfinished })
}

fn name(status: FindingStatus) -> &'static str {
    match status {
        FindingStatus::Ok => "ok",
        FindingStatus::Problem => "problem",
        FindingStatus::Note => "note",
    }
}

fn row(finding: &Finding) -> Row<'_> {
    Row {
        area: finding.area.as_str(),
        status: name(finding.status),
        what: &finding.what,
        advice: finding.advice.as_deref(),
    }
}

fn lines(ui: Ui, finding: &Finding) -> Vec<StyledLine> {
    let tone = match finding.status {
        FindingStatus::Ok => Tone::Good,
        FindingStatus::Problem => Tone::Bad,
        FindingStatus::Note => Tone::Attention,
    };
    let status = format!("{:7}", name(finding.status));
    let mut lines =
        vec![styled!("{} {:10} {}", ui.paint(tone, &status), finding.area, finding.what)];
    let arrow = ui.symbol("→", "->");
    lines.extend(finding.advice.iter().map(|advice| styled!("{:19}{arrow} {advice}", "")));
    lines
}
