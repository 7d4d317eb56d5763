//! Sets up a workspace: home with its directories, and a `ralph.toml` for the project.
//!
//! Invariant: existing files are never changed, and a failed setup removes what it created. The plan is made first,
//! read-only; the configuration is written last, so that a workspace with one is completely set up. Nothing is
//! committed, and `plan.jsonl` is created when a workflow needs it.

mod committing;
pub(crate) mod ignores;
mod note;
mod settings;
mod texts;

use std::fs;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::goal::map::{MAP_FILE, listed_topics};
use ralph_model::prd::{PRD_FILE, Prd};
use ralph_model::prompt::PromptKind;
use rustix::fs::{Access, access};

pub use self::committing::SetUpCommit;
pub use self::note::InitNote;
use self::settings::NewSettings;
use crate::boundary::repositories;
use crate::config::{Config, ConfigError};
use crate::detect::agents::FoundAgent;
use crate::detect::checks::{SuggestedGate, detect_checks, detect_in_repositories};
use crate::detect::tools::{commit_hooks, formatters_over};
use crate::files::plain::read_text;
use crate::files::{Creation, PathError, create_new};
use crate::home::{CONFIG_FILE, Workspace, WorkspaceKind, is_home};
use crate::mailbox::{self, MailboxState};
use crate::plan_file::merge_driver;

/// The default path of the mailbox.
const USUAL_MAILBOX: &str = ".ralph";

/// Its path if another tool uses the default.
const OTHER_MAILBOX: &str = ".ralph-mailbox";

/// The input of planning a setup.
pub struct InitRequest<'a> {
    pub workspace: &'a Workspace,
    /// The current configuration: it may exist already, and name a home.
    pub config: Result<&'a Config, &'a ConfigError>,
    /// The same with what the person does not trust yet: it does not count, but it is there.
    pub as_written: Option<&'a Config>,
    pub agents: &'a [FoundAgent],
}

/// The steps of a setup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitPlan {
    pub root: Utf8PathBuf,
    pub home: Utf8PathBuf,
    /// In the order of creation.
    pub(crate) items: Vec<PlannedItem>,
    pub notes: Vec<InitNote>,
    /// The gates that the project's files suggest.
    pub gates: Vec<SuggestedGate>,
    /// The agent for a new configuration.
    pub agent: Option<String>,
}

/// A path to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedItem {
    pub(crate) path: Utf8PathBuf,
    pub(crate) content: ItemContent,
    pub(crate) is_there: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ItemContent {
    Directory,
    File(String),
}

/// The result for a planned path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitStep {
    pub path: Utf8PathBuf,
    pub outcome: StepOutcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    Created,
    Kept,
}

/// The workspace cannot be set up. Nothing was left behind.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    #[error("`{path}` exists and is not a directory")]
    InTheWay { path: Utf8PathBuf },
    #[error("`{path}` cannot be written to")]
    NotWritable {
        path: Utf8PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Path(#[from] PathError),
}

impl InitError {
    /// Returns advice for the person.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            InitError::InTheWay { .. } => Some("name another place with `--home`"),
            InitError::NotWritable { .. } => {
                Some("make it writable, or set Ralph up in a copy of your own")
            }
            InitError::Path(_) => None,
        }
    }
}

/// Plans a setup without changing anything.
pub fn plan_init(request: &InitRequest<'_>) -> Result<InitPlan, InitError> {
    let workspace = request.workspace;
    let config = request.config.ok();
    let root = workspace.root.clone();
    let home = workspace.home(config.and_then(|config| config.home.as_deref())).path;
    let suggestions = if workspace.kind == WorkspaceKind::RepositoryCollection {
        let found = repositories(&root).into_iter().filter_map(|place| place.worktree);
        let mut names: Vec<String> = found
            .filter_map(|tree| tree.strip_prefix(&root).ok().map(ToString::to_string))
            .collect();
        names.sort();
        detect_in_repositories(&root, &names)
    } else {
        detect_checks(&root)
    };
    let agent = request.agents.iter().find(|agent| agent.is_usable());
    let agent = agent.map(|agent| agent.name.clone());
    let mut notes = Vec::new();
    if workspace.kind == WorkspaceKind::Plain {
        notes.push(InitNote::NotARepository { root: root.clone() });
    }
    if !is_home(&home) && has_entries(&home) {
        notes.push(InitNote::HomeHasOtherFiles { path: home.clone() });
    }
    let has_settings = is_there(&root.join(CONFIG_FILE));
    let new_mailbox = examine_mailbox(request, has_settings, &mut notes)?;
    let mut items = home_items(&home);
    let is_found_unnamed = workspace.home(None).path == home;
    let settings = NewSettings {
        agent: agent.as_deref(),
        found: request.agents,
        home: (!is_found_unnamed).then(|| relative(&root, &home)),
        mailbox: new_mailbox.as_deref(),
        suggestions: &suggestions,
    };
    items.push(file(root.join(CONFIG_FILE), settings.render()));
    if agent.is_none() {
        let names = request.agents.iter().map(|agent| agent.name.clone()).collect();
        notes.push(InitNote::NoAgent { names });
    }
    notes.extend(missing_ignores(&home));
    notes.extend(missing_attribute(&home));
    notes.extend(foreign_prd(&home));
    let name = relative(&root, &home);
    let tools = formatters_over(&root, &name).into_iter();
    notes.extend(tools.map(|(tool, file)| InitNote::ToolMeetsHome {
        tool,
        file,
        home: name.clone(),
    }));
    let hooks = commit_hooks(&root).filter(|(_, run)| {
        !request.as_written.is_some_and(|config| config.gates.iter().any(|gate| gate.run == *run))
    });
    notes.extend(hooks.map(|(file, run)| InitNote::HooksNoGate { file, run }));
    if has_settings {
        let written = request.config.map(|config| request.as_written.unwrap_or(config));
        notes.extend(note::compare(written, &suggestions));
    } else if suggestions.gates.is_empty() {
        notes.push(InitNote::NoChecks);
    }
    Ok(InitPlan { root, home, items, notes, gates: suggestions.gates, agent })
}

/// Creates everything planned that does not exist yet. On failure, what it created is removed again.
pub fn perform(plan: &InitPlan) -> Result<Vec<InitStep>, InitError> {
    make(&plan.items)
}

fn make(items: &[PlannedItem]) -> Result<Vec<InitStep>, InitError> {
    let missing: Vec<_> = items.iter().filter(|item| !item.is_there).collect();
    for item in &missing {
        check_place(&item.path)?;
    }
    let mut made = Made::default();
    let mut steps = Vec::new();
    for item in items {
        let outcome = if item.is_there { StepOutcome::Kept } else { made.make(item)? };
        steps.push(InitStep { path: item.path.clone(), outcome });
    }
    made.is_whole = true;
    Ok(steps)
}

/// What a setup created so far; removed on drop unless the whole succeeds.
#[derive(Default)]
struct Made {
    paths: Vec<Utf8PathBuf>,
    is_whole: bool,
}

impl Made {
    fn make(&mut self, item: &PlannedItem) -> Result<StepOutcome, PathError> {
        match &item.content {
            ItemContent::Directory => self.make_directory(&item.path),
            ItemContent::File(text) => {
                if let Some(parent) = item.path.parent() {
                    self.make_directory(parent)?;
                }
                // Another process may have created it since the plan.
                let creation = create_new(&item.path, text.as_bytes())?;
                if creation == Creation::AlreadyThere {
                    return Ok(StepOutcome::Kept);
                }
                self.paths.push(item.path.clone());
                Ok(StepOutcome::Created)
            }
        }
    }

    fn make_directory(&mut self, path: &Utf8Path) -> Result<StepOutcome, PathError> {
        let missing: Vec<_> = path.ancestors().take_while(|path| !path.is_dir()).collect();
        for path in missing.iter().rev() {
            fs::create_dir(path).map_err(|source| PathError::new("create", path, source))?;
            self.paths.push((*path).to_owned());
        }
        Ok(if missing.is_empty() { StepOutcome::Kept } else { StepOutcome::Created })
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if self.is_whole {
            return;
        }
        for path in self.paths.iter().rev() {
            // A directory that is no longer empty is kept.
            let is_directory = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
            let _ = if is_directory { fs::remove_dir(path) } else { fs::remove_file(path) };
        }
    }
}

/// Creates what is missing in home, and nothing outside it; returns what was created.
pub fn scaffold_home(home: &Utf8Path) -> Result<Vec<Utf8PathBuf>, InitError> {
    let steps = make(&home_items(home))?;
    let made = steps.into_iter().filter(|step| step.outcome == StepOutcome::Created);
    Ok(made.map(|step| step.path).collect())
}

fn home_items(home: &Utf8Path) -> Vec<PlannedItem> {
    let specs = home.join("specs");
    // Git does not track empty directories, so they get a placeholder file.
    let kept = |name: &str| {
        let directory = specs.join(name);
        let keeper = file(directory.join(".gitkeep"), String::new());
        PlannedItem { is_there: has_entries(&directory), ..keeper }
    };
    let sessions = specs.join("sessions");
    let mapper = PromptKind::Understand.builtin_text();
    vec![
        file(specs.join("README.md"), texts::SPECS.to_owned()),
        kept("plans"),
        kept("candidates"),
        kept("done"),
        PlannedItem {
            is_there: sessions.is_dir(),
            path: sessions,
            content: ItemContent::Directory,
        },
        file(home.join("SCRATCHPAD.md"), texts::SCRATCHPAD.to_owned()),
        file(home.join(PRD_FILE), empty_prd()),
        file(home.join("progress.txt"), texts::PROGRESS.to_owned()),
        template(home, PromptKind::Story),
        template(home, PromptKind::Understand),
        file(home.join(MAP_FILE), texts::codebase_map(&listed_topics(mapper))),
        file(home.join(".gitignore"), texts::ignore_file()),
        file(home.join(".gitattributes"), merge_driver::attributes()),
    ]
}

/// The built-in text of a prompt, as a file to edit.
fn template(home: &Utf8Path, kind: PromptKind) -> PlannedItem {
    file(home.join(kind.file_name()), kind.builtin_text().to_owned())
}

/// A PRD without stories, which counts as none.
fn empty_prd() -> String {
    Prd { branch_name: "ralph/feature".to_owned(), user_stories: Vec::new() }.render()
}

fn file(path: Utf8PathBuf, text: String) -> PlannedItem {
    PlannedItem { is_there: is_there(&path), path, content: ItemContent::File(text) }
}

/// Checks whether the mailbox's path is in use. Returns the alternative path, if a new configuration must set it.
fn examine_mailbox(
    request: &InitRequest<'_>,
    has_settings: bool,
    notes: &mut Vec<InitNote>,
) -> Result<Option<String>, InitError> {
    let root = &request.workspace.root;
    let usual = root.join(USUAL_MAILBOX);
    let path = request.config.map_or_else(|_| usual.clone(), |config| config.mailbox.clone());
    if mailbox::inspect(&path)? != MailboxState::Foreign {
        return Ok(None);
    }
    let other = root.join(OTHER_MAILBOX);
    let can_move =
        !has_settings && path == usual && mailbox::inspect(&other)? != MailboxState::Foreign;
    let moved = can_move.then(|| OTHER_MAILBOX.to_owned());
    notes.push(InitNote::ForeignMailbox { path, moved: moved.clone() });
    Ok(moved)
}

/// Returns a note if home's own ignore file lacks entries.
fn missing_ignores(home: &Utf8Path) -> Option<InitNote> {
    let path = home.join(".gitignore");
    let text = String::from_utf8(read_text(&path).ok()?).ok()?;
    let lines = ignores::lacking(&text);
    (!lines.is_empty()).then_some(InitNote::IgnoreLacks { path, lines })
}

/// Returns a note if home's own attributes file does not configure merging plans.
fn missing_attribute(home: &Utf8Path) -> Option<InitNote> {
    let path = home.join(".gitattributes");
    let text = String::from_utf8(read_text(&path).ok()?).ok()?;
    let lacks = !merge_driver::asks_for_driver(&text);
    lacks.then_some(InitNote::AttributesLack { path })
}

/// Returns a note if the existing PRD does not match the schema: it may be from another loop.
fn foreign_prd(home: &Utf8Path) -> Option<InitNote> {
    let path = home.join(PRD_FILE);
    let text = String::from_utf8(read_text(&path).ok()?).ok()?;
    let error = Prd::parse(&text).err()?;
    Some(InitNote::ForeignPrd { path, errors: error.errors })
}

/// Checks that a path can be created: its parent is a writable directory.
fn check_place(path: &Utf8Path) -> Result<(), InitError> {
    let above = path.ancestors().skip(1).find(|above| is_there(above));
    let Some(above) = above else { return Ok(()) };
    if !above.is_dir() {
        return Err(InitError::InTheWay { path: above.to_owned() });
    }
    access(above.as_std_path(), Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|errno| InitError::NotWritable { path: above.to_owned(), source: errno.into() })
}

/// Whether the path exists, even as a dangling symlink.
fn is_there(path: &Utf8Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn has_entries(directory: &Utf8Path) -> bool {
    directory.read_dir_utf8().is_ok_and(|mut entries| entries.next().is_some())
}

fn relative(root: &Utf8Path, path: &Utf8Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string()
}

#[cfg(test)]
#[path = "init_tests.rs"]
mod tests;
