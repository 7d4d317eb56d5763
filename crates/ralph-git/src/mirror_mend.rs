//! Rebuilds a damaged mirror: none of its content is trusted before it was checked.
//!
//! A cheap check at each opening finds missing files that git needs to work at all, and refs that do not match their
//! names. Objects are checked only when something has failed, because that takes time proportional to the repository.
//! Intact ones are kept: drafts of home and clones of agents borrow them.

use std::fs;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};

use super::call::Call;
use super::home_copy::has_own_config;
use super::mirror::{Mirror, MirrorError, READY, SEEN, TIMEOUT};
use super::objects::is_whole_object;
use super::{Git, Oid};

/// Whether git can work with a mirror, and its refs match their names.
pub(super) fn looks_whole(dir: &Utf8Path) -> bool {
    let kind = |name: &str| dir.join(name).symlink_metadata().ok().map(|found| found.file_type());
    let head = fs::read_to_string(dir.join("HEAD")).unwrap_or_default();
    let files = ["HEAD", "config", READY];
    files.iter().all(|name| kind(name).is_some_and(|kind| kind.is_file()))
        && ["objects", "refs"].iter().all(|name| kind(name).is_some_and(|kind| kind.is_dir()))
        && head.starts_with("ref: refs/heads/")
        && !head.contains('\0')
        && has_own_config(dir, READY)
        && has_sound_refs(dir)
}

/// Each ref of a mirror is named after its target.
fn has_sound_refs(dir: &Utf8Path) -> bool {
    let seen = dir.join(SEEN.trim_end_matches('/'));
    let loose = match seen.read_dir_utf8() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(_) => false,
        Ok(listed) => listed.into_iter().all(|entry| {
            entry.is_ok_and(|entry| {
                let name = entry.file_name();
                // A lock that git is just writing, or was killed over.
                is_lock(entry.path())
                    || fs::read_to_string(entry.path()).is_ok_and(|id| id.trim_end() == name)
            })
        }),
    };
    let packed = match fs::read_to_string(dir.join("packed-refs")) {
        Err(error) => error.kind() == io::ErrorKind::NotFound,
        Ok(text) => text.lines().all(|line| {
            line.starts_with(['#', '^'])
                || line.split_once(' ').is_some_and(|(id, name)| {
                    Oid::parse(id.as_bytes()).is_some() && name.strip_prefix(SEEN) == Some(id)
                })
        }),
    };
    loose && packed && has_ids_below(&dir.join("refs"))
}

fn is_lock(path: &Utf8Path) -> bool {
    path.extension() == Some("lock")
}

/// Every other ref contains some object id.
fn has_ids_below(dir: &Utf8Path) -> bool {
    listed(dir).iter().all(|path| match path.symlink_metadata() {
        Ok(found) if found.is_dir() => has_ids_below(path),
        Ok(found) if found.is_file() => {
            let is_id = |text: String| Oid::parse(text.trim_end().as_bytes()).is_some();
            is_lock(path) || fs::read_to_string(path).is_ok_and(is_id)
        }
        _ => false,
    })
}

/// Removes everything of a mirror except intact objects.
pub(super) fn clear(dir: &Utf8Path) -> io::Result<()> {
    let is_directory = |path: &Utf8Path| path.symlink_metadata().is_ok_and(|found| found.is_dir());
    if !is_directory(dir) {
        remove(dir)?;
        return fs::create_dir_all(dir);
    }
    for entry in dir.read_dir_utf8()? {
        let path = entry?.path().to_owned();
        if path.file_name() == Some("objects") && is_directory(&path) {
            continue;
        }
        remove(&path)?;
    }
    Ok(())
}

fn remove(path: &Utf8Path) -> io::Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn listed(dir: &Utf8Path) -> Vec<Utf8PathBuf> {
    let entries = dir.read_dir_utf8().into_iter().flatten().flatten();
    entries.map(|entry| entry.path().to_owned()).collect()
}

impl Mirror {
    /// Rebuilds and fills the mirror if it is damaged. Returns whether it was. This checks every object.
    pub fn mend(&self, source: &Git) -> Result<bool, MirrorError> {
        if self.is_sound() {
            return Ok(false);
        }
        self.make_anew(source)?;
        self.fill(source, &[])?;
        Ok(true)
    }

    /// Whether everything reachable from its refs exists and is readable.
    pub(super) fn is_sound(&self) -> bool {
        if !looks_whole(&self.git.place.git_dir) {
            return false;
        }
        let args = ["fsck", "--full", "--no-dangling", "--no-reflogs", "--no-progress"];
        // Tolerated flaws of commits and trees are not damage of the mirror.
        let call = Call::new(&args).timeout(TIMEOUT).accept(&[1, 2, 3, 4, 5, 6, 7, 8, 128]);
        let Ok(answer) = self.git.call(call) else { return false };
        let told = [answer.stdout, answer.stderr].concat();
        let told = String::from_utf8_lossy(&told);
        let signs = ["missing ", "broken link", "corrupt", "error: ", "fatal: "];
        !told.lines().any(|line| {
            !line.starts_with("error in ") && signs.iter().any(|sign| line.contains(sign))
        })
    }

    /// Rebuilds the mirror around the intact objects.
    pub(super) fn make_anew(&self, source: &Git) -> Result<(), MirrorError> {
        let dir = &self.git.place.git_dir;
        let write = |source| MirrorError::Write { path: dir.clone(), source };
        clear(dir).map_err(write)?;
        let objects = dir.join("objects");
        for entry in listed(&objects) {
            let is_directory = entry.symlink_metadata().is_ok_and(|found| found.is_dir());
            match entry.file_name() {
                Some("pack") if is_directory => self.keep_packs(&entry).map_err(write)?,
                Some(name) if is_directory && name.len() == 2 => {
                    for object in listed(&entry) {
                        let id = format!("{name}{}", object.file_name().unwrap_or_default());
                        if !is_whole_object(object.as_std_path(), &id, self.format.kind()) {
                            remove(&object).map_err(write)?;
                        }
                    }
                }
                // Lists of other stores and of local objects: recreated when needed.
                _ => remove(&entry).map_err(write)?,
            }
        }
        self.init(source)
    }

    /// Removes damaged packs, and rebuilds the indexes of the others.
    fn keep_packs(&self, dir: &Utf8Path) -> io::Result<()> {
        let files = listed(dir);
        for file in files.iter().filter(|file| file.extension() != Some("pack")) {
            // Objects promised by a remote are known only by such a file.
            if file.extension() != Some("promisor") {
                remove(file)?;
            }
        }
        for pack in files.iter().filter(|file| file.extension() == Some("pack")) {
            let format = format!("--object-format={}", self.format.name());
            let args = ["index-pack", &format, pack.as_str()];
            let is_file = pack.symlink_metadata().is_ok_and(|found| found.is_file());
            if !is_file || Call::new(&args).timeout(TIMEOUT).run(self.git.program()).is_err() {
                remove(pack)?;
            }
        }
        Ok(())
    }
}
