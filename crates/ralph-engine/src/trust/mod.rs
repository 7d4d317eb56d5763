//! Determines whether the person trusts a workspace.
//!
//! `ralph.toml` and the prompt templates of a repository are untrusted. Any part of them that could start a program,
//! widen a boundary or instruct an agent takes effect only once the person has agreed to exactly that: a digest of all
//! of it is stored in private state, so that any change is asked about again. Nothing here runs anything of the
//! workspace.

mod always;
mod owner;

use std::collections::BTreeMap;
use std::fmt;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::prompt::PromptKind;
use serde::{Deserialize, Serialize};

pub use self::always::note_always;
pub use self::owner::check_owner;
use crate::config::Config;
use crate::digest;
use crate::files::PathError;
use crate::files::plain::read_text;
use crate::home::{Home, Workspace};
use crate::state::{Entry, State};

const TRUST: Entry<TrustRecord> = Entry::new("trust", "your consent is asked for again");

/// The one record of a workspace.
const WORKSPACE: &str = "workspace";

/// How many states of the armed keys are remembered, so that switching branches does not ask each time.
const REMEMBERED: usize = 64;

/// The person's agreements.
#[derive(Debug, Default, Serialize, Deserialize)]
struct TrustRecord {
    /// The digests that were agreed to, latest last.
    digests: Vec<String>,
    /// The digest of each item that was agreed to last, by name.
    items: BTreeMap<String, String>,
}

/// The input of judging trust.
pub struct TrustRequest<'a> {
    pub workspace: &'a Workspace,
    /// Loaded with the armed keys in force.
    pub config: &'a Config,
    pub home: &'a Home,
    /// Private state, if it exists already.
    pub state: Option<&'a State>,
    /// The digest from the environment.
    pub given: Option<&'a str>,
    /// Whether the command line declares the workspace trusted.
    pub flag: bool,
}

/// The items that need trust, and whether they are trusted.
#[derive(Clone, Debug)]
pub struct Trust {
    pub items: Vec<ArmedItem>,
    /// Identifies a state of the items.
    pub digest: String,
    pub by: Option<TrustedBy>,
    /// The real path of home, if a symlink in the repository leads out of the workspace.
    pub strayed_home: Option<Utf8PathBuf>,
}

/// Why a workspace is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrustedBy {
    /// It contains nothing that needs trust.
    NothingArmed,
    CommandLine,
    Environment,
    /// The person's own configuration lists the checkout.
    Always,
    /// The person agreed to exactly this.
    Agreed,
}

impl fmt::Display for TrustedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TrustedBy::NothingArmed => "nothing here needs your trust",
            TrustedBy::CommandLine => "trusted for this command by --trust",
            TrustedBy::Environment => "trusted by $RALPH_TRUST",
            TrustedBy::Always => "trusted by `trust.always` in your own configuration",
            TrustedBy::Agreed => "trusted: you approved exactly these settings",
        })
    }
}

/// One item that needs trust.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ArmedItem {
    /// A key of `ralph.toml`, or the path of a template.
    pub name: String,
    /// A key's value as TOML; the size of a template.
    pub value: String,
    /// Its position.
    pub origin: String,
    pub news: ItemNews,
    /// Identifies its content.
    #[serde(skip)]
    digest: String,
}

/// How an item differs from what the person last agreed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ItemNews {
    Same,
    Changed,
    New,
}

impl Trust {
    /// Lists the armed items, and judges whether the person trusts them.
    pub fn judge(request: &TrustRequest<'_>) -> Result<Trust, PathError> {
        let root = &request.workspace.root;
        let strayed_home = strayed_home(request);
        let mut items = config_items(request.config);
        items.extend(strayed_home.iter().map(|real| {
            let value = format!("a link that leads to {real}");
            armed_item(request.home.path.to_string(), value.clone(), String::new(), &value)
        }));
        items.extend(template_items(root, &request.home.path));
        let digest = digest_of(&items);
        let record = match request.state {
            Some(state) => TRUST.load(state, WORKSPACE)?.unwrap_or_default(),
            None => TrustRecord::default(),
        };
        for item in &mut items {
            item.news = match record.items.get(&item.name) {
                Some(known) if *known == item.digest => ItemNews::Same,
                Some(_) => ItemNews::Changed,
                None => ItemNews::New,
            };
        }
        let by = if items.is_empty() {
            Some(TrustedBy::NothingArmed)
        } else if request.flag {
            Some(TrustedBy::CommandLine)
        } else if request.given.is_some_and(|given| given.eq_ignore_ascii_case(&digest)) {
            Some(TrustedBy::Environment)
        } else if always::covers(&request.config.trusted, root) {
            Some(TrustedBy::Always)
        } else {
            record.digests.contains(&digest).then_some(TrustedBy::Agreed)
        };
        Ok(Trust { items, digest, by, strayed_home })
    }

    /// Records that the person agrees to all of it.
    pub fn agree(&self, state: &State) -> Result<(), PathError> {
        let mut record = TRUST.load(state, WORKSPACE)?.unwrap_or_default();
        record.digests.retain(|known| *known != self.digest);
        record.digests.push(self.digest.clone());
        let surplus = record.digests.len().saturating_sub(REMEMBERED);
        record.digests.drain(..surplus);
        let items = self.items.iter();
        record.items = items.map(|item| (item.name.clone(), item.digest.clone())).collect();
        TRUST.save(state, WORKSPACE, &record)
    }

    /// Removes all agreements of the person.
    pub fn forget(state: &State) -> Result<(), PathError> {
        TRUST.forget(state, WORKSPACE)
    }
}

fn config_items(config: &Config) -> Vec<ArmedItem> {
    let item = |key: &crate::config::ArmedKey| {
        armed_item(key.key.clone(), key.value.clone(), key.origin.to_string(), &key.value)
    };
    config.armed().iter().map(item).collect()
}

/// Lists the templates that differ from the built-in ones.
fn template_items(root: &Utf8Path, home: &Utf8Path) -> Vec<ArmedItem> {
    let mut items = Vec::new();
    for kind in PromptKind::ALL {
        let path = home.join(kind.file_name());
        let (value, content) = match read_text(&path) {
            Ok(bytes) if bytes == kind.builtin_text().as_bytes() => continue,
            Ok(bytes) => {
                (format!("a prompt template of {} bytes", bytes.len()), digest::of_bytes(&bytes))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => {
                (format!("a prompt template that cannot be read: {error}"), String::new())
            }
        };
        let name = path.strip_prefix(root).unwrap_or(&path).to_string();
        items.push(armed_item(name, value, path.to_string(), &content));
    }
    items
}

fn armed_item(name: String, value: String, origin: String, content: &str) -> ArmedItem {
    let digest = digest::of_bytes(content.as_bytes());
    ArmedItem { name, value, origin, news: ItemNews::New, digest }
}

fn digest_of(items: &[ArmedItem]) -> String {
    let parts: Vec<(&str, &str)> =
        items.iter().map(|item| (item.name.as_str(), item.digest.as_str())).collect();
    digest::of_data(&parts)
}

/// Returns the real path of home, if it is outside the workspace and the person did not configure it.
fn strayed_home(request: &TrustRequest<'_>) -> Option<Utf8PathBuf> {
    if request.config.is_home_personal() {
        return None;
    }
    let real = request.home.path.canonicalize_utf8().ok()?;
    (!real.starts_with(&request.workspace.root)).then_some(real)
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;
