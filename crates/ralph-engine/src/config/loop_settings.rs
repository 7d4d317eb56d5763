//! The settings of `ralph loop`: its preset, the lists that plans are checked against, and the paths of an
//! application's files.

use ralph_outline::rules::{LoopRules, Registries};

use super::layer::{self, Layer, Located};

/// The gates of a loop in addition to the configured ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoopPreset {
    /// Checks detected from the project's files, if no gate is configured.
    Generic,
    WebApp,
    /// Only the loop's own.
    Minimal,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoopSettings {
    pub(crate) preset: LoopPreset,
    pub(crate) rules: LoopRules,
    /// The command that builds a web app.
    pub(crate) build: Option<Vec<String>>,
    /// Whether an agent is surveyed about an accepted task.
    pub(crate) reflect: bool,
}

impl LoopSettings {
    pub(super) fn of(settings: &Layer) -> LoopSettings {
        let get = |key: &str| settings.values.get(&layer::split_key(&format!("loop.{key}")));
        let preset = match get("preset").map(Located::text) {
            Some("web-app") => LoopPreset::WebApp,
            Some("minimal") => LoopPreset::Minimal,
            _ => LoopPreset::Generic,
        };
        let preset_rules = match preset {
            LoopPreset::WebApp => LoopRules::web_app(),
            LoopPreset::Generic | LoopPreset::Minimal => LoopRules::default(),
        };
        let text =
            |key: &str, default: String| get(key).map_or(default, |found| found.text().to_owned());
        let list = |key: &str| get(key).map(|found| found.list().to_vec());
        let registry =
            |key: &str, default: Option<Vec<String>>| list(&format!("registry.{key}")).or(default);
        let lists = preset_rules.registries;
        let rules = LoopRules {
            registries: Registries {
                moods: registry("moods", lists.moods),
                presets: registry("presets", lists.presets),
                fonts: registry("fonts", lists.fonts),
                gumdrops: registry("gumdrops", lists.gumdrops),
                grid_heavy: registry("grid_heavy", lists.grid_heavy),
                stateful: registry("stateful", lists.stateful),
                theme_variables: registry("theme_variables", lists.theme_variables),
            },
            source: text("source", preset_rules.source),
            app: text("app", preset_rules.app),
            css: text("css", preset_rules.css),
            stack: list("stack").unwrap_or(preset_rules.stack),
            scaffold_phrases: list("scaffold").unwrap_or(preset_rules.scaffold_phrases),
            strict: get("strict").is_some_and(Located::flag),
        };
        let reflect = get("reflect").is_some_and(Located::flag);
        LoopSettings { preset, rules, build: list("build"), reflect }
    }
}
