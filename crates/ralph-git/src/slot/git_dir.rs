//! A new git directory for a slot, written file by file: nothing of an earlier one survives, and no template is used.
//!
//! Objects are borrowed from the mirror. Refs are written as one packed file, so that thousands of tags cost one write.
//! Durability does not matter here: a slot without its stamp is created again.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use camino::{Utf8Path, Utf8PathBuf};

use super::super::call::path_from;
use super::super::clearing::{FileError, make_dirs};
use super::super::{ObjectFormat, Oid};
use super::config_text::ConfigText;

/// The `HEAD` of a new git directory.
pub(super) enum NewHead<'a> {
    /// A branch, named in full.
    Branch(&'a [u8]),
    Detached(&'a Oid),
}

/// The name of a symbolic ref, and of its target.
pub(super) type SymbolicRef = (Vec<u8>, Vec<u8>);

/// The content of a new git directory.
pub(super) struct GitDir<'a> {
    pub(super) path: Utf8PathBuf,
    pub(super) format: ObjectFormat,
    /// The mirror's objects.
    pub(super) objects: Utf8PathBuf,
    pub(super) shallow: Option<Vec<u8>>,
    pub(super) head: NewHead<'a>,
    /// Full names, and their targets.
    pub(super) refs: Vec<(Vec<u8>, Oid)>,
    /// Refs that name other refs.
    pub(super) symbolic: Vec<SymbolicRef>,
    pub(super) config: ConfigText,
    pub(super) exclude: Vec<u8>,
    pub(super) attributes: Option<Vec<u8>>,
    pub(super) sparse: Option<Vec<u8>>,
    pub(super) hooks: Vec<(OsString, Vec<u8>)>,
}

impl GitDir<'_> {
    /// Writes it to an empty location.
    pub(super) fn write(&self) -> Result<(), FileError> {
        for directory in
            ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info", "hooks"]
        {
            make_dirs(&self.path.join(directory))?;
        }
        let head = match &self.head {
            NewHead::Branch(name) => [b"ref: ", *name, b"\n"].concat(),
            NewHead::Detached(id) => format!("{id}\n").into_bytes(),
        };
        self.file("HEAD", &head)?;
        self.file("config", self.config_text().as_bytes())?;
        self.file("objects/info/alternates", &alternates(&self.objects))?;
        self.file("packed-refs", &self.packed_refs())?;
        self.file("info/exclude", &self.exclude)?;
        for (name, content) in [
            ("shallow", &self.shallow),
            ("info/attributes", &self.attributes),
            ("info/sparse-checkout", &self.sparse),
        ] {
            if let Some(content) = content {
                self.file(name, content)?;
            }
        }
        for (name, target) in &self.symbolic {
            let path = self.path.as_std_path().join(path_from(name));
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)
                    .map_err(|error| FileError::new("make", parent, error))?;
            }
            write(&path, &[b"ref: ", target.as_slice(), b"\n"].concat())?;
        }
        for (name, content) in &self.hooks {
            let path = self.path.as_std_path().join("hooks").join(name);
            write(&path, content)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
                .map_err(|error| FileError::new("write", &path, error))?;
        }
        Ok(())
    }

    fn file(&self, name: &str, content: &[u8]) -> Result<(), FileError> {
        write(self.path.join(name).as_std_path(), content)
    }

    fn config_text(&self) -> String {
        let mut base = ConfigText::default();
        let is_sha1 = self.format == ObjectFormat::Sha1;
        base.set("core.repositoryformatversion", if is_sha1 { "0" } else { "1" });
        if !is_sha1 {
            base.set("extensions.objectformat", self.format.name());
        }
        for (key, value) in [
            ("core.bare", "false"),
            ("core.filemode", "true"),
            ("core.logallrefupdates", "true"),
            // The harness writes and compares files without the person's own configuration.
            ("core.autocrlf", "false"),
            ("gc.auto", "0"),
            ("maintenance.auto", "false"),
            ("commit.gpgsign", "false"),
            ("tag.gpgsign", "false"),
            ("push.default", "nothing"),
        ] {
            base.set(key, value);
        }
        [base.as_str(), self.config.as_str()].concat()
    }

    fn packed_refs(&self) -> Vec<u8> {
        let mut refs: Vec<&(Vec<u8>, Oid)> = self.refs.iter().collect();
        refs.sort();
        refs.dedup_by(|one, other| one.0 == other.0);
        let mut text = b"# pack-refs with: sorted \n".to_vec();
        for (name, id) in refs {
            text.extend(id.as_str().bytes().chain([b' ']).chain(name.iter().copied()));
            text.push(b'\n');
        }
        text
    }
}

/// Returns the file that makes a repository borrow the mirror's objects.
pub(super) fn alternates(objects: &Utf8Path) -> Vec<u8> {
    format!("{objects}\n").into_bytes()
}

/// Writes a whole file.
pub(super) fn write(path: &Path, content: &[u8]) -> Result<(), FileError> {
    fs::write(path, content).map_err(|source| FileError::new("write", path, source))
}
