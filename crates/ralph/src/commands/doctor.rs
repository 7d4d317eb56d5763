//! `ralph doctor`: checks whether this machine and this workspace are ready.

use camino::Utf8PathBuf;
use ralph_engine::detect::agents::find_agents;
use ralph_engine::detect::needed::{needed_advice, needed_files};
use ralph_engine::doctor::{Area, Checkup, Finding, FindingStatus, examine};
use ralph_engine::state::state_base;
use ralph_engine::workflow::isolation::upkeep::list_slots;
use ralph_proc::sandbox::Support;
use ralph_proc::trace;

use super::init::this_program;
use super::{gates, print_either};
use crate::args::{DoctorArgs, GlobalArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::{bytes, plural, wrap};
use crate::render::text::StyledLine;
use crate::render::{self, Tone, Ui, styled};
use crate::setup::{Scout, Setup};

/// The columns before what was found.
const INDENT: usize = 19;

pub(crate) fn run(global: &GlobalArgs, args: &DoctorArgs) -> Result<Exit, CliError> {
    let scout = Scout::look(global, global.root.as_deref())?;
    let config = scout.config.as_ref();
    let look_up = |program: &str| scout.look_up(program);
    let agents = find_agents(config.ok(), &look_up);
    let own = config.map(|config| config.env_pass.clone()).unwrap_or_default();
    let (passed, withheld) = scout.environment.passed_and_withheld(&own);
    let private_state = state_base(&|name| scout.environment.text(name));
    let temp = Utf8PathBuf::from_path_buf(std::env::temp_dir()).unwrap_or_else(|_| "/tmp".into());
    let mut findings = examine(&Checkup {
        program: &this_program(),
        workspace: &scout.workspace,
        config,
        variables: (&passed, &withheld),
        trust: scout.trust.as_ref(),
        agents: &agents,
        look_up: &look_up,
        support: Support::probe(),
        traces: trace::probe(),
        private_state: private_state.as_deref(),
        temp: &temp,
    });
    findings.extend(about_clones(&scout));
    let caches = scout.environment.cache_names().join(", ");
    findings.push(Finding::ok(
        Area::Environment,
        format!("toolchains of agents and gates have caches of Ralph's own: {caches}"),
    ));
    // What belongs together stands together, in the order in which the areas were looked at.
    let order: Vec<Area> = findings.iter().map(|finding| finding.area).collect();
    findings.sort_by_key(|finding| order.iter().position(|area| *area == finding.area));
    let healthy = findings.iter().all(|finding| finding.status != FindingStatus::Problem);
    print_either(scout.ui, global.json, &findings, || {
        let mut shown: Vec<StyledLine> =
            findings.iter().flat_map(|finding| lines(scout.ui, finding)).collect();
        shown.extend(["".into(), conclusion(scout.ui, &findings)]);
        shown
    })?;
    // Gates cannot run with a configuration that does not load; the findings report that.
    let gates_pass = !args.gates
        || scout.config.is_err()
        || gates::try_at_head(&Setup::load(global, &[])?.trusted(&[])?, "ralph doctor --gates")?;
    Ok(if healthy && gates_pass { Exit::Done } else { Exit::Unfinished })
}

/// Reports the disk usage of clones, and the ignored files they lack.
fn about_clones(scout: &Scout) -> Vec<Finding> {
    let mut findings = Vec::new();
    let config = scout.config.as_ref().ok();
    if let (Ok(Some(state)), Some(config)) = (scout.find_state(), config)
        && let Ok(slots) = list_slots(&state, config)
        && !slots.is_empty()
    {
        let size = bytes(slots.iter().map(|slot| slot.size).sum());
        let clones = plural(slots.len() as u64, "clone");
        let what = format!("{clones} for agents: {size} (`ralph slots` lists them)");
        findings.push(Finding::ok(Area::Disk, what));
    }
    let needed = needed_files(&scout.git(), &scout.workspace.root, config);
    if !needed.is_empty() {
        let what = format!("ignored by git, so not in agents' clones: {}", needed.join(", "));
        findings.push(Finding::note(Area::Workspace, what, needed_advice(&needed)));
    }
    findings
}

/// Whether the machine is ready, and what to look at above.
fn conclusion(ui: Ui, findings: &[Finding]) -> StyledLine {
    let count = |status: FindingStatus| {
        findings.iter().filter(|finding| finding.status == status).count() as u64
    };
    let (problems, notes) = (count(FindingStatus::Problem), count(FindingStatus::Note));
    let counted = [(problems, "problem"), (notes, "note")];
    let counted = counted.iter().filter(|(number, _)| *number > 0);
    let counted: Vec<String> = counted.map(|(number, what)| plural(*number, what)).collect();
    let (tone, verdict) =
        if problems > 0 { (Tone::Bad, "not ready") } else { (Tone::Good, "ready") };
    let counted =
        if counted.is_empty() { String::new() } else { format!(": {}", counted.join(", ")) };
    styled!("{}{counted}", ui.paint(tone, verdict))
}

fn lines(ui: Ui, finding: &Finding) -> Vec<StyledLine> {
    let (tone, status) = match finding.status {
        FindingStatus::Ok => (Tone::Good, "ok"),
        FindingStatus::Problem => (Tone::Bad, "problem"),
        FindingStatus::Note => (Tone::Attention, "note"),
    };
    let status = ui.paint(tone, status);
    let room = render::room_after(INDENT, usize::MAX).max(20);
    let mut texts = wrap(&finding.what, room).into_iter();
    let first = texts.next().unwrap_or_default();
    let mut lines = vec![styled!("{status:7} {:10} {first}", finding.area.to_string())];
    lines.extend(texts.map(|text| styled!("{:INDENT$}{text}", "")));
    let arrow = ui.symbol("→", "->");
    if let Some(advice) = &finding.advice {
        for (at, text) in wrap(advice, room - 3).into_iter().enumerate() {
            let mark = if at == 0 { arrow } else { " " };
            lines.push(styled!("{:INDENT$}{mark} {text}", ""));
        }
    }
    lines
}
