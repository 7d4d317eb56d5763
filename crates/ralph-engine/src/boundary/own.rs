//! Ralph's own bounds. It walks where agents have been and calls git there; once it has opened a session it may write the
//! workspace, its repositories, private state, temporary files, its own settings and the agents' state, and nothing else.
//!
//! Agents, gates and `setup` are started by the launcher, which was started before and is not held to this. The bounds of a
//! process cannot be widened, so they are set once for all sessions of a process.

use std::io;
use std::sync::OnceLock;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::role::Role;
use ralph_proc::sandbox::confine_this_thread;

use crate::agent::adapter;
use crate::config::{AgentProgram, Config, absolute, user_config_path};
use crate::files;
use crate::files::plain::read_text;
use crate::git::RepositoryLocation;

/// What Ralph works with.
pub(crate) struct OwnPlaces<'a> {
    pub(crate) workspace: &'a Utf8Path,
    pub(crate) home: &'a Utf8Path,
    pub(crate) repositories: &'a [RepositoryLocation],
    pub(crate) state_base: &'a Utf8Path,
    pub(crate) config: &'a Config,
    pub(crate) env: &'a dyn Fn(&str) -> Option<String>,
}

/// Holds this process to what it works with, if it is not held already.
pub(crate) fn confine_ralph(places: &OwnPlaces<'_>) -> io::Result<()> {
    static HELD: OnceLock<()> = OnceLock::new();
    if HELD.get().is_some() {
        return Ok(());
    }
    let writable: Vec<String> =
        writable(places).into_iter().map(|path| super::real(&path).into_string()).collect();
    confine_this_thread(&writable)?;
    let _ = HELD.set(());
    Ok(())
}

fn writable(places: &OwnPlaces<'_>) -> Vec<Utf8PathBuf> {
    let env = places.env;
    let mut paths = vec![places.workspace.to_owned(), places.state_base.to_owned()];
    paths.extend(places.home.ancestors().find(|path| path.exists()).map(ToOwned::to_owned));
    for place in places.repositories {
        paths.extend([place.git_dir.clone(), place.common_dir.clone()]);
        paths.extend(place.worktree.clone());
        paths.extend(worktrees(&place.common_dir));
    }
    paths.extend(Utf8PathBuf::from_path_buf(std::env::temp_dir()).ok());
    paths.extend(places.config.slots.clone());
    let settings = user_config_path(env);
    paths.extend(settings.and_then(|path| path.parent().map(ToOwned::to_owned)));
    paths.extend(agents_state(places.config, env));
    if places.config.git.sign {
        let keys = absolute(env("GNUPGHOME"));
        paths.extend(keys.or_else(|| absolute(env("HOME")).map(|home| home.join(".gnupg"))));
    }
    paths
}

/// The agents' own paths of all roles. Missing ones are created: only existing paths can be granted.
fn agents_state(config: &Config, env: &dyn Fn(&str) -> Option<String>) -> Vec<Utf8PathBuf> {
    let mut paths = Vec::new();
    for role in Role::ALL {
        let choice = config.agent_for(role);
        if let AgentProgram::Adapter { adapter: name, .. } = &choice.program
            && let Some(adapter) = adapter(name)
        {
            let lookup = |name: &str| {
                let own = choice.env.iter().find(|(known, _)| *known == name);
                own.map(|(_, value)| value.clone()).or_else(|| env(name))
            };
            for path in adapter.state_paths(&lookup) {
                if path.extension() != Some("json") {
                    let _ = files::create_directory(&path);
                }
                paths.push(path);
            }
        }
        for path in choice.state {
            // The person may name a file as well.
            if !path.exists() {
                let _ = files::create_directory(&path);
            }
            paths.push(path);
        }
    }
    paths.sort();
    paths.dedup();
    paths
}

/// The worktrees of a repository, the main one included: any of them may have to follow what lands.
fn worktrees(common_dir: &Utf8Path) -> Vec<Utf8PathBuf> {
    let main = common_dir.parent().filter(|_| common_dir.file_name() == Some(".git"));
    let known = common_dir.join("worktrees").read_dir_utf8();
    let links = known.into_iter().flatten().flatten().map(|entry| entry.path().join("gitdir"));
    let places = links.filter_map(|link| String::from_utf8(read_text(&link).ok()?).ok());
    let linked =
        places.filter_map(|place| Some(Utf8Path::new(place.trim_end()).parent()?.to_owned()));
    linked.chain(main.map(ToOwned::to_owned)).collect()
}
