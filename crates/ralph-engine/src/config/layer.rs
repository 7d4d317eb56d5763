//! One layer of settings: the defaults, a file, the environment, or the flags; and merging layers.
//!
//! A layer contains checked values only; invalid ones become problems without stopping the parser, so that a person
//! sees all of them at once.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use camino::Utf8Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{ConfigProblem, ConfigProblemKind, Origin};
use super::schema::{self, GATE, GATE_SETTINGS, Meaning, SETTINGS};
use super::value::{InvalidValue, Kind, SettingValue, type_name};
use super::{EnvNames, FlagValue};

/// The layers, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Default,
    User,
    Workspace,
    Environment,
    Flags,
}

/// A value and its origin.
#[derive(Clone, Debug)]
pub(super) struct Located {
    pub(super) value: SettingValue,
    pub(super) origin: Origin,
    pub(super) rank: Rank,
}

/// Values are read as the kind in the table of settings, which was checked on input.
impl Located {
    pub(super) fn text(&self) -> &str {
        let SettingValue::Text(text) = &self.value else { self.is_of_another_kind() };
        text
    }

    pub(super) fn list(&self) -> &[String] {
        let SettingValue::List(items) = &self.value else { self.is_of_another_kind() };
        items
    }

    pub(super) fn commands(&self) -> &[Vec<String>] {
        let SettingValue::Commands(commands) = &self.value else { self.is_of_another_kind() };
        commands
    }

    pub(super) fn count(&self) -> u64 {
        let SettingValue::Count(count) = self.value else { self.is_of_another_kind() };
        count
    }

    pub(super) fn number(&self) -> f64 {
        let SettingValue::Number(number) = self.value else { self.is_of_another_kind() };
        number
    }

    pub(super) fn flag(&self) -> bool {
        let SettingValue::Bool(flag) = self.value else { self.is_of_another_kind() };
        flag
    }

    pub(super) fn duration(&self) -> Duration {
        let SettingValue::Duration(duration) = self.value else { self.is_of_another_kind() };
        duration
    }

    pub(super) fn size(&self) -> u64 {
        let SettingValue::Size(bytes) = self.value else { self.is_of_another_kind() };
        bytes
    }

    fn is_of_another_kind(&self) -> ! {
        panic!("BUG: the setting from {} is read as another kind than it has", self.origin)
    }
}

/// One gate as configured.
#[derive(Clone, Debug)]
pub(super) struct GateTable {
    pub(super) values: BTreeMap<&'static str, Located>,
}

/// Settings by key, the gates, and the agents that have a table, even an empty one.
#[derive(Clone, Debug, Default)]
pub(super) struct Layer {
    pub(super) values: BTreeMap<Vec<String>, Located>,
    pub(super) gates: Option<Vec<GateTable>>,
    pub(super) agents: BTreeMap<String, Origin>,
}

impl Layer {
    /// Returns the defaults.
    pub(super) fn defaults() -> Self {
        let mut layer = Layer::default();
        for setting in SETTINGS {
            let Some(default) = setting.default else { continue };
            let value = setting.kind.parse(default).expect("defaults are values of their kind");
            let located = Located { value, origin: Origin::Default, rank: Rank::Default };
            layer.values.insert(split_key(setting.key), located);
        }
        layer
    }

    /// Parses the environment. An empty variable counts as unset.
    pub(super) fn from_env(
        lookup: &dyn Fn(&str) -> Option<String>,
        names: EnvNames,
        problems: &mut Vec<ConfigProblem>,
    ) -> Self {
        let mut layer = Layer::default();
        for setting in SETTINGS {
            let known = setting.env.iter().filter(|env| !env.goal_only || names == EnvNames::Goal);
            let set = known.filter_map(|env| {
                let text = lookup(env.name).filter(|text| !text.is_empty())?;
                Some((env.name, env.means.map_or(text, str::to_owned)))
            });
            if let Some((name, text)) = set.into_iter().next() {
                let given = Given { key: setting.key, kind: setting.kind, text: &text };
                layer.take_text(&given, Origin::Env(name), Rank::Environment, problems);
            }
        }
        layer
    }

    /// Parses the flags that set something.
    pub(super) fn from_flags(flags: &[FlagValue<'_>], problems: &mut Vec<ConfigProblem>) -> Self {
        let mut layer = Layer::default();
        for flag in flags {
            let Meaning::Setting(setting) = schema::look_up(&split_key(flag.key)) else {
                panic!("BUG: the flag {} sets `{}`, which is not a setting", flag.flag, flag.key);
            };
            let given = Given { key: flag.key, kind: setting.kind, text: flag.value };
            layer.take_text(&given, Origin::Flag(flag.flag), Rank::Flags, problems);
        }
        layer
    }

    fn take_text(
        &mut self,
        given: &Given<'_>,
        origin: Origin,
        rank: Rank,
        problems: &mut Vec<ConfigProblem>,
    ) {
        match given.kind.parse(given.text) {
            Ok(value) => {
                self.values.insert(split_key(given.key), Located { value, origin, rank });
            }
            Err(reason) => {
                let kind = ConfigProblemKind::BadValue { key: given.key.to_owned(), reason };
                problems.push(ConfigProblem { origin, kind });
            }
        }
    }

    /// Parses a file's text.
    pub(super) fn from_toml(
        path: &Utf8Path,
        text: &str,
        rank: Rank,
        problems: &mut Vec<ConfigProblem>,
    ) -> Self {
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut reader = FileReader { path, text, rank, layer: Layer::default(), problems: vec![] };
        if errors.is_empty() {
            reader.read_table(table.get_ref(), &mut Vec::new());
        }
        for error in errors {
            let message = error.message().trim().replace('\n', ", ");
            reader.problem(&error.span().unwrap_or(0..0), ConfigProblemKind::Syntax { message });
        }
        reader.problems.sort_by_key(|problem| match problem.origin {
            Origin::File { line, column, .. } => (line, column),
            _ => (0, 0),
        });
        problems.append(&mut reader.problems);
        reader.layer
    }

    /// Applies another layer over this one.
    ///
    /// A model belongs to the agent it was chosen with: if the upper layer names another agent without a model, the
    /// lower layer's model is dropped. The same applies to the reasoning. A list is replaced as a whole.
    pub(super) fn overlay(&mut self, upper: Layer) {
        let keys = self.values.keys().filter(|key| self.loses_its_agent(key, &upper));
        for key in keys.cloned().collect::<Vec<_>>() {
            self.values.remove(&key);
        }
        self.values.extend(upper.values);
        self.agents.extend(upper.agents);
        if upper.gates.is_some() {
            self.gates = upper.gates;
        }
    }

    /// Whether a key is the model or reasoning of an agent that the upper layer replaces.
    fn loses_its_agent(&self, key: &[String], upper: &Layer) -> bool {
        let agent = match key {
            [last] if is_companion(last) => &["agent"][..],
            [roles, role, last] if roles == "roles" && is_companion(last) => {
                let own = ["roles", role, "agent"];
                let has_own = self.get(&own).is_some() || upper.get(&own).is_some();
                if has_own { &["roles", role, "agent"][..] } else { &["agent"][..] }
            }
            _ => return false,
        };
        let below = self.get(agent).or_else(|| self.get(&["agent"]));
        upper.get(agent).is_some_and(|new| below.is_none_or(|old| old.value != new.value))
    }

    pub(super) fn get(&self, key: &[&str]) -> Option<&Located> {
        let key: Vec<_> = key.iter().map(|part| (*part).to_owned()).collect();
        self.values.get(&key)
    }
}

fn is_companion(name: &str) -> bool {
    matches!(name, "model" | "reasoning")
}

pub(super) fn split_key(key: &str) -> Vec<String> {
    key.split('.').map(str::to_owned).collect()
}

struct Given<'a> {
    key: &'static str,
    kind: Kind,
    text: &'a str,
}

struct FileReader<'a> {
    path: &'a Utf8Path,
    text: &'a str,
    rank: Rank,
    layer: Layer,
    problems: Vec<ConfigProblem>,
}

impl FileReader<'_> {
    fn read_table(&mut self, table: &DeTable<'_>, path: &mut Vec<String>) {
        for (key, value) in table {
            path.push(key.get_ref().to_string());
            self.read_key(key.span(), value, path);
            path.pop();
        }
    }

    fn read_key(
        &mut self,
        key_span: Range<usize>,
        value: &Spanned<DeValue<'_>>,
        path: &mut Vec<String>,
    ) {
        if *path == [GATE] {
            self.read_gates(value);
            return;
        }
        match (schema::look_up(path), value.get_ref()) {
            (Meaning::Setting(setting), _) => {
                if let Some(located) = self.check(setting.kind, &render(path), value) {
                    self.layer.values.insert(path.clone(), located);
                }
            }
            (Meaning::Table, DeValue::Table(table)) => {
                if let [parent, name] = path.as_slice()
                    && parent == "agents"
                {
                    let origin = self.origin(&key_span);
                    self.layer.agents.insert(name.clone(), origin);
                }
                self.read_table(table, path);
            }
            (Meaning::Table, other) => {
                let (key, found) = (render(path), type_name(other));
                let kind = ConfigProblemKind::WrongType { key, expected: "a table", found };
                self.problem(&value.span(), kind);
            }
            (Meaning::Unknown, _) => {
                let kind = unknown(render(path), path.last(), schema::nearest(path));
                self.problem(&key_span, kind);
            }
        }
    }

    fn read_gates(&mut self, value: &Spanned<DeValue<'_>>) {
        let expected = "an array of tables, each headed `[[gate]]`";
        let mut gates = Vec::new();
        let DeValue::Array(items) = value.get_ref() else {
            let found = type_name(value.get_ref());
            let kind = ConfigProblemKind::WrongType { key: GATE.to_owned(), expected, found };
            self.problem(&value.span(), kind);
            return;
        };
        for item in items {
            let DeValue::Table(table) = item.get_ref() else {
                let found = type_name(item.get_ref());
                let kind = ConfigProblemKind::WrongType { key: GATE.to_owned(), expected, found };
                self.problem(&item.span(), kind);
                continue;
            };
            gates.push(self.read_gate(&item.span(), table));
        }
        self.layer.gates = Some(gates);
    }

    fn read_gate(&mut self, span: &Range<usize>, table: &DeTable<'_>) -> GateTable {
        let mut values = BTreeMap::new();
        for (key, value) in table {
            let full_key = render_gate_key(key.get_ref());
            let known = GATE_SETTINGS.iter().find(|setting| setting.key == key.get_ref());
            let Some(setting) = known else {
                let name = key.get_ref().to_string();
                let nearest = schema::nearest_of_gate(&name).map(render_gate_key);
                self.problem(&key.span(), unknown(full_key, Some(&name), nearest));
                continue;
            };
            if let Some(located) = self.check(setting.kind, &full_key, value) {
                values.insert(setting.key, located);
            }
        }
        for setting in GATE_SETTINGS {
            let given = table.keys().any(|key| key.get_ref() == setting.key);
            if given {
                continue;
            }
            if let Some(default) = setting.default {
                let value = setting.kind.parse(default).expect("defaults are values of their kind");
                let located = Located { value, origin: Origin::Default, rank: Rank::Default };
                values.insert(setting.key, located);
            } else if matches!(setting.key, "name" | "run") {
                let reason = "every gate needs it".to_owned();
                let key = render_gate_key(setting.key);
                self.problem(span, ConfigProblemKind::BadValue { key, reason });
            }
        }
        GateTable { values }
    }

    fn check(&mut self, kind: Kind, key: &str, value: &Spanned<DeValue<'_>>) -> Option<Located> {
        match kind.check(value.get_ref()) {
            Ok(checked) => {
                let origin = self.origin(&value.span());
                Some(Located { value: checked, origin, rank: self.rank })
            }
            Err(misfit) => {
                let key = key.to_owned();
                let kind = match misfit.reason {
                    InvalidValue::WrongType { expected, found } => {
                        ConfigProblemKind::WrongType { key, expected, found }
                    }
                    InvalidValue::BadValue(reason) => ConfigProblemKind::BadValue { key, reason },
                };
                self.problem(&misfit.span.unwrap_or_else(|| value.span()), kind);
                None
            }
        }
    }

    fn problem(&mut self, span: &Range<usize>, kind: ConfigProblemKind) {
        let origin = self.origin(span);
        self.problems.push(ConfigProblem { origin, kind });
    }

    fn origin(&self, span: &Range<usize>) -> Origin {
        let (line, column) = position(self.text, span.start);
        Origin::File { path: self.path.to_owned(), line, column }
    }
}

fn render(path: &[String]) -> String {
    schema::render_key(path.iter().map(String::as_str))
}

/// Returns the problem of a key that is unknown at its position.
fn unknown(key: String, name: Option<&String>, nearest: Option<String>) -> ConfigProblemKind {
    match name.filter(|name| **name != key && schema::is_top_level(name)) {
        Some(name) => ConfigProblemKind::InTable { key, setting: name.clone() },
        None => ConfigProblemKind::UnknownKey { key, nearest },
    }
}

fn render_gate_key(key: &str) -> String {
    schema::render_key([GATE, key].into_iter())
}

/// Returns the one-based line and column of a byte. A position at the end of the text is on the last line.
pub(super) fn position(text: &str, at: usize) -> (usize, usize) {
    let at = text.floor_char_boundary(at);
    let at = if text[at..].is_empty() && text.ends_with('\n') { at - 1 } else { at };
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let line = before.matches('\n').count() + 1;
    (line, before[line_start..].chars().count() + 1)
}
