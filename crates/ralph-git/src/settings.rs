//! A repository's settings, read in process: its layout, and the person's identity.
//!
//! No program named in a setting is ever started here. Includes in the repository's own file are not followed, because
//! they may lead anywhere, even to a FIFO; such a repository, and one with an unknown layout, is [`Unfit`] to be
//! handled in process and is left to the git binary.

use std::path::{Path, PathBuf};

use gix_config::file::{Metadata, includes, init};
use gix_config::{File, Source, path::interpolate};

use super::{GitProgram, ObjectFormat, RepositoryLocation, regular_file};

/// Why something is left to the git binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unfit(pub(super) &'static str);

/// How files of the repository are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) format: ObjectFormat,
    /// Whether refs are files, rather than in a reftable.
    pub(super) refs_are_files: bool,
    /// Whether a linked worktree may have its own settings.
    worktree_settings: bool,
}

/// A repository's own settings, without any others.
pub(super) struct OwnSettings {
    file: File,
    pub(super) layout: Layout,
}

impl OwnSettings {
    /// Reads them.
    pub(super) fn read(place: &RepositoryLocation) -> Result<Self, Unfit> {
        let mut file = parse(&place.common_dir.join("config").into_std_path_buf(), Source::Local)?;
        let layout = layout(&file)?;
        if layout.worktree_settings {
            let path = place.git_dir.join("config.worktree").into_std_path_buf();
            file.append(parse(&path, Source::Worktree)?)
                .map_err(|_| Unfit("its settings cannot be read"))?;
        }
        Ok(OwnSettings { file, layout })
    }

    /// Whether several users may write the repository.
    pub(super) fn is_shared(&self) -> bool {
        self.file.string("core.sharedRepository").is_some()
    }

    /// Whether they include other files.
    fn include_others(&self) -> bool {
        ["include", "includeIf"].iter().any(|name| has_section(&self.file, name))
    }
}

/// All settings in force, including the person's.
pub(super) struct Settings {
    own: OwnSettings,
    persons: Option<File>,
}

impl Settings {
    /// Reads them all.
    pub(super) fn read(program: &GitProgram, place: &RepositoryLocation) -> Result<Self, Unfit> {
        let own = OwnSettings::read(place)?;
        if own.include_others() {
            return Err(Unfit("its settings include others"));
        }
        let interpolate = interpolate::Context {
            git_install_dir: None,
            home_dir: program.home(),
            home_for_user: None,
        };
        let conditional = includes::conditional::Context {
            git_dir: Some(place.git_dir.as_std_path()),
            branch_name: None,
        };
        let options = init::Options {
            includes: includes::Options::follow(interpolate, conditional),
            lossy: true,
            ignore_io_errors: false,
        };
        let mut files = persons_files(program).into_iter();
        let persons = File::from_paths_metadata_buf(&mut files, &mut Vec::new(), false, options)
            .map_err(|_| Unfit("the person's settings cannot be read"))?;
        let undecided = |file: &File| {
            file.sections_by_name("includeIf").into_iter().flatten().any(|section| {
                let condition = section.header().subsection_name();
                condition.is_none_or(|condition| !condition.starts_with(b"gitdir"))
            })
        };
        if persons.as_ref().is_some_and(undecided) {
            return Err(Unfit("the person's settings depend on more than the place"));
        }
        Ok(Settings { own, persons })
    }

    pub(super) fn layout(&self) -> Layout {
        self.own.layout
    }

    /// Returns the last value of a setting, from any source.
    pub(super) fn value(&self, key: &str) -> Option<String> {
        let own = self.own.file.string(key);
        let value = own.or_else(|| self.persons.as_ref()?.string(key))?;
        Some(String::from_utf8_lossy(&value).into_owned())
    }

    /// Whether a setting is on; an invalid value means off.
    pub(super) fn is_on(&self, key: &str) -> Option<bool> {
        let own = self.own.file.boolean(key).ok().flatten();
        own.or_else(|| self.persons.as_ref()?.boolean(key).ok().flatten())
    }
}

fn has_section(file: &File, name: &str) -> bool {
    file.sections_by_name(name).is_some_and(|mut sections| sections.next().is_some())
}

fn parse(path: &Path, source: Source) -> Result<File, Unfit> {
    let unreadable = Unfit("its settings cannot be read");
    let bytes = regular_file::read_regular(path).map_err(|_| unreadable)?.unwrap_or_default();
    File::from_bytes_no_includes(&bytes, Metadata::from(source), init::Options::default())
        .map_err(|_| unreadable)
}

fn layout(file: &File) -> Result<Layout, Unfit> {
    let mut layout =
        Layout { format: ObjectFormat::Sha1, refs_are_files: true, worktree_settings: false };
    let version = file.integer("core.repositoryformatversion").ok().flatten().unwrap_or(0);
    if !(0..=1).contains(&version) {
        return Err(Unfit("its format is too new"));
    }
    for section in file.sections_by_name("extensions").into_iter().flatten() {
        for name in section.value_names() {
            let value = section.value(&name).unwrap_or_default().to_ascii_lowercase();
            match (name.to_ascii_lowercase().as_str(), value.as_slice()) {
                (
                    "noop" | "noop-v1" | "preciousobjects" | "partialclone" | "relativeworktrees",
                    _,
                )
                | ("objectformat", b"sha1")
                | ("refstorage", b"files") => {}
                ("objectformat", b"sha256") => layout.format = ObjectFormat::Sha256,
                ("refstorage", _) => layout.refs_are_files = false,
                ("worktreeconfig", _) => {
                    layout.worktree_settings =
                        file.boolean("extensions.worktreeConfig").ok().flatten() == Some(true);
                }
                _ => return Err(Unfit("it uses an extension that is not known here")),
            }
        }
    }
    Ok(layout)
}

/// Returns the files of the person's own settings, in git's order.
fn persons_files(program: &GitProgram) -> Vec<Metadata> {
    let of_person = |name: &str| program.persons_variable(name).map(PathBuf::from);
    let mut files = Vec::new();
    let no_system = program.persons_variable("GIT_CONFIG_NOSYSTEM");
    if !no_system.is_some_and(|value| !matches!(value, "" | "0" | "false" | "no" | "off")) {
        let named = of_person("GIT_CONFIG_SYSTEM");
        files
            .extend(named.or_else(|| program.system_settings()).map(|path| (Source::System, path)));
    }
    match of_person("GIT_CONFIG_GLOBAL") {
        Some(path) => files.push((Source::User, path)),
        None => files.extend(program.global_settings().map(|path| (Source::User, path))),
    }
    files.into_iter().map(|(source, path)| Metadata::from(source).at(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, write};
    use super::*;

    #[test]
    fn settings_come_from_the_same_files_as_gits_own() {
        let world = World::new();
        let dir = world.repository("r");
        let git = world.open(&dir);
        let name = || Settings::read(git.program(), git.place()).map(|all| all.value("user.name"));
        assert_eq!(name(), Ok(Some("Person".to_owned())));
        write(&world.path("more"), "[user]\n\tname = More\n");
        let condition = format!("includeIf.gitdir:{dir}/.path");
        world.git(&dir, &["config", "--global", &condition, "~/more"]);
        assert_eq!(name(), Ok(Some("More".to_owned())));
        assert_eq!(world.git(&dir, &["config", "user.name"]), "More");
        world.git(&dir, &["config", "user.name", "Own \"name\" # one"]);
        assert_eq!(name(), Ok(Some("Own \"name\" # one".to_owned())));
        world.git(&dir, &["config", "extensions.worktreeConfig", "true"]);
        world.git(&dir, &["config", "--worktree", "user.name", "Of this tree"]);
        assert_eq!(name(), Ok(Some("Of this tree".to_owned())));
    }

    #[test]
    fn what_is_not_understood_is_left_to_git() {
        for (key, value) in [
            ("extensions.tomorrow", "true"),
            ("core.repositoryFormatVersion", "2"),
            ("include.path", "/dev/zero"),
        ] {
            let world = World::new();
            let dir = world.repository("r");
            let git = world.open(&dir);
            assert!(Settings::read(git.program(), git.place()).is_ok());
            let config = dir.join(".git/config");
            world.git(&world.root, &["config", "--file", config.as_str(), key, value]);
            assert!(Settings::read(git.program(), git.place()).is_err(), "{key}");
        }
        let world = World::new();
        let dir = world.repository("r");
        world.git(&dir, &["config", "--global", "includeIf.onbranch:main.path", "x"]);
        let git = world.open(&dir);
        assert!(Settings::read(git.program(), git.place()).is_err());
    }
}
