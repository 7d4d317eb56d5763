//! `ralph config`: every setting with its origin.

use ralph_engine::config::{ArmedKey, reference as settings_reference};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{print_either, reference};
use crate::args::{ConfigArgs, GlobalArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::{padded, widest};
use crate::render::text::StyledLine;
use crate::render::{self, Tone, Ui, styled};
use crate::setup::Setup;

#[derive(Serialize)]
struct Row {
    key: String,
    /// As TOML on one line; in JSON the value itself.
    #[serde(serialize_with = "as_value")]
    value: Option<String>,
    origin: String,
}

pub(crate) fn run(global: &GlobalArgs, args: &ConfigArgs) -> Result<Exit, CliError> {
    let prefix = args.prefix.as_deref().unwrap_or_default();
    if args.reference {
        render::data(&reference::markdown(prefix))?;
        return Ok(Exit::Done);
    }
    let setup = Setup::load(global, &[])?;
    let mut rows: Vec<Row> = setup
        .config
        .entries()
        .into_iter()
        .filter(|entry| entry.key.starts_with(prefix))
        .map(|entry| Row { key: entry.key, value: entry.value, origin: entry.origin.to_string() })
        .chain(untrusted(&setup).filter(|row| row.key.starts_with(prefix)))
        .collect();
    if rows.is_empty() {
        rows = families(prefix);
    }
    if rows.is_empty() {
        return Err(CliError::usage(format!("no setting starts with `{prefix}`"))
            .hint("`ralph config` lists all of them"));
    }
    print_either(setup.ui, setup.json, &rows, || lines(setup.ui, &rows))?;
    Ok(Exit::Done)
}

/// Serialises a value that was rendered as TOML on one line, which is JSON as well. A hidden secret is neither, and
/// stays a text.
#[expect(clippy::ref_option, reason = "serde hands over the field")]
fn as_value<S: Serializer>(value: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    let value = value
        .as_ref()
        .map(|value| serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.clone())));
    value.serialize(serializer)
}

/// The settings with a variable part in their key, none of which is set.
fn families(prefix: &str) -> Vec<Row> {
    let known = settings_reference().into_iter().filter(|row| row.key.starts_with(prefix));
    known.map(|row| Row { key: row.key, value: None, origin: row.description.to_owned() }).collect()
}

/// The settings of the workspace's file that are ignored because it is not trusted.
fn untrusted(setup: &Setup) -> impl Iterator<Item = Row> {
    let keys = if setup.config.is_trusted() { &[][..] } else { setup.config.armed() };
    keys.iter().map(|armed: &ArmedKey| Row {
        key: armed.key.clone(),
        value: Some(armed.value.clone()),
        origin: format!("{}, not trusted: not in force", armed.origin),
    })
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
