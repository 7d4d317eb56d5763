//! `ralph config`: every setting with its origin.

use serde::Serialize;

use super::print_either;
use crate::args::{ConfigArgs, GlobalArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::{padded, widest};
use crate::render::text::StyledLine;
use crate::render::{Tone, Ui, styled};
use crate::setup::Setup;

#[derive(Serialize)]
struct Row {
    key: String,
    value: Option<String>,
    origin: String,
}

pub(crate) fn run(global: &GlobalArgs, args: &ConfigArgs) -> Result<Exit, CliError> {
    let setup = Setup::load(global, &[])?;
    let prefix = args.prefix.as_deref().unwrap_or_default();
    let rows: Vec<Row> = setup
        .config
        .entries()
        .into_iter()
        .filter(|entry| entry.key.starts_with(prefix))
        .map(|entry| Row { key: entry.key, value: entry.value, origin: entry.origin.to_string() })
        .collect();
    if rows.is_empty() {
        return Err(CliError::usage(format!("no setting begins with `{prefix}`"))
            .hint("`ralph config` lists all of them"));
    }
    print_either(setup.ui, setup.json, &rows, || lines(setup.ui, &rows))?;
    Ok(Exit::Done)
}

fn lines(ui: Ui, rows: &[Row]) -> Vec<StyledLine> {
    let setting =
        |row: &Row| format!("{} = {}", row.key, row.value.as_deref().unwrap_or("(not set)"));
    let settings: Vec<String> = rows.iter().map(setting).collect();
    let widths = settings.iter().map(|setting| widest([setting.as_str()]));
    let width = widths.filter(|width| *width < 60).max().unwrap_or(0);
    let line = |(row, setting): (&Row, &String)| {
        let origin = ui.paint(Tone::Faint, &format!("# {}", row.origin));
        styled!("{}  {origin}", padded(setting, width))
    };
    rows.iter().zip(&settings).map(line).collect()
}
