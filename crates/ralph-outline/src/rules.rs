//! The lists and paths that checks compare against: those of the project's configuration and of the preset `web-app`.

use serde::{Deserialize, Serialize};

/// File locations and required content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoopRules {
    pub registries: Registries,
    /// The directory of the sources that a plan is compared with; empty for the whole tree.
    pub source: String,
    /// The application's root component.
    pub app: String,
    /// The style sheet with the theme.
    pub css: String,
    /// The packages of the application's stack: importing one counts as content.
    pub stack: Vec<String>,
    /// Phrases that occur only in an untouched scaffold.
    pub scaffold_phrases: Vec<String>,
    /// Missing parts of a plan fail the gate `plan-diff`.
    pub strict: bool,
}

/// Lists of known values. A check whose list is missing is disabled, and reports that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registries {
    pub moods: Option<Vec<String>>,
    pub presets: Option<Vec<String>>,
    pub fonts: Option<Vec<String>>,
    pub gumdrops: Option<Vec<String>>,
    pub grid_heavy: Option<Vec<String>>,
    pub stateful: Option<Vec<String>>,
    pub theme_variables: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lists {
    moods: Vec<String>,
    presets: Vec<String>,
    fonts: Vec<String>,
    gumdrops: Vec<String>,
    grid_heavy: Vec<String>,
    stateful: Vec<String>,
    theme_variables: Vec<String>,
    scaffold_phrases: Vec<String>,
}

const WEB_APP: &str = include_str!("../data/web-app.json");

impl Default for LoopRules {
    fn default() -> LoopRules {
        LoopRules {
            registries: Registries::default(),
            source: String::new(),
            app: "src/App.tsx".to_owned(),
            css: "src/index.css".to_owned(),
            stack: Vec::new(),
            scaffold_phrases: Vec::new(),
            strict: false,
        }
    }
}

impl LoopRules {
    /// Returns the rules of the preset `web-app`.
    pub fn web_app() -> LoopRules {
        let lists: Lists = serde_json::from_str(WEB_APP).expect("the preset's lists are sound");
        LoopRules {
            registries: Registries {
                moods: Some(lists.moods),
                presets: Some(lists.presets),
                fonts: Some(lists.fonts),
                gumdrops: Some(lists.gumdrops),
                grid_heavy: Some(lists.grid_heavy),
                stateful: Some(lists.stateful),
                theme_variables: Some(lists.theme_variables),
            },
            source: "src".to_owned(),
            stack: vec!["@wiggum/stack".to_owned()],
            scaffold_phrases: lists.scaffold_phrases,
            ..LoopRules::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_of_the_preset_are_whole() {
        let lists = LoopRules::web_app().registries;
        let count = |list: &Option<Vec<String>>| list.as_ref().map_or(0, Vec::len);
        let counts = [
            count(&lists.moods),
            count(&lists.presets),
            count(&lists.fonts),
            count(&lists.gumdrops),
            count(&lists.theme_variables),
        ];
        assert_eq!(counts, [12, 12, 32, 52, 36]);
    }
}
