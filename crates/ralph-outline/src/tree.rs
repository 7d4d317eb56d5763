//! The files of one commit, as checks see them.

/// The regular files of a tree. The provider leaves out symlinks and names that are not UTF-8.
pub trait SourceTree {
    /// Returns all paths, sorted.
    fn paths(&self) -> &[String];

    /// Returns a file as text, or `None` if it does not exist. Invalid UTF-8 is replaced; a file that is too large
    /// reads as empty.
    fn read(&self, path: &str) -> Option<String>;
}

/// Whether a path is below a directory; every path is below the empty one.
pub(crate) fn is_below(path: &str, root: &str) -> bool {
    let root = root.trim_end_matches('/');
    root.is_empty() || path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'))
}

/// Whether a path has one of these extensions.
pub(crate) fn has_extension(path: &str, extensions: &[&str]) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.rsplit_once('.').is_some_and(|(_, found)| extensions.contains(&found))
}

/// The extensions of sources that can contain components.
pub(crate) const SOURCES: [&str; 4] = ["tsx", "jsx", "ts", "js"];

/// A tree in memory, for tests and for texts that are already loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileTree {
    paths: Vec<String>,
    texts: Vec<String>,
}

impl FileTree {
    pub fn new<P: Into<String>, T: Into<String>>(
        files: impl IntoIterator<Item = (P, T)>,
    ) -> FileTree {
        let mut files: Vec<(String, String)> =
            files.into_iter().map(|(path, text)| (path.into(), text.into())).collect();
        files.sort();
        let (paths, texts) = files.into_iter().unzip();
        FileTree { paths, texts }
    }
}

impl SourceTree for FileTree {
    fn paths(&self) -> &[String] {
        &self.paths
    }

    fn read(&self, path: &str) -> Option<String> {
        let at = self.paths.binary_search_by(|known| known.as_str().cmp(path)).ok()?;
        Some(self.texts[at].clone())
    }
}
