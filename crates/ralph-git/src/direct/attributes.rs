//! Checks whether anything could require a file to be committed other than byte by byte.
//!
//! Attributes are not evaluated here. A line with a filter, an encoding or `ident`, whose pattern is not clearly about
//! other files (`*.png`), is enough to leave the file to git; so is a carriage return in the content, which settings
//! and attributes may remove.

use std::path::Path;

use super::super::call::path_bytes;
use super::super::settings::Unfit;
use super::super::{RepositoryLocation, regular_file};

/// Checks a file; returns where attribute files could be that are missing in the working tree.
pub(super) fn check(
    place: &RepositoryLocation,
    root: &Path,
    path: &Path,
    content: &[u8],
) -> Result<Vec<Vec<u8>>, Unfit> {
    if memchr::memchr(b'\r', content).is_some() {
        return Err(Unfit("its line endings may have to change"));
    }
    let name = path.file_name().map(std::os::unix::ffi::OsStrExt::as_bytes).unwrap_or_default();
    let unreadable = Unfit("its attributes cannot be read");
    let shared = place.common_dir.join("info/attributes");
    if let Some(text) = regular_file::read_regular(shared.as_std_path()).map_err(|_| unreadable)? {
        refuse_if_asked_for_more(&text, name)?;
    }
    let mut absent = Vec::new();
    for dir in path.ancestors().skip(1) {
        let file = dir.join(".gitattributes");
        match regular_file::read_regular(&root.join(&file)).map_err(|_| unreadable)? {
            Some(text) => refuse_if_asked_for_more(&text, name)?,
            None => absent.push(path_bytes(&file).to_vec()),
        }
    }
    Ok(absent)
}

fn refuse_if_asked_for_more(text: &[u8], name: &[u8]) -> Result<(), Unfit> {
    let asks = text.split(|byte| *byte == b'\n').any(|line| {
        let line = line.trim_ascii();
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let pattern = words.next().unwrap_or_default();
        if pattern.starts_with(b"#") || is_about_others(pattern, name) {
            return false;
        }
        words.any(|word| {
            [&b"filter"[..], b"ident", b"working-tree-encoding"]
                .iter()
                .any(|asked| memchr::memmem::find(word, asked).is_some())
        })
    });
    if asks { Err(Unfit("a filter may have to run")) } else { Ok(()) }
}

/// Whether a pattern is `*` plus a suffix that the name does not have.
fn is_about_others(pattern: &[u8], name: &[u8]) -> bool {
    pattern.strip_prefix(b"*").is_some_and(|ending| {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
        ending.iter().all(plain)
            && !name.to_ascii_lowercase().ends_with(&ending.to_ascii_lowercase())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_may_be_about_the_file_and_ask_for_a_change_matter() {
        let asks = |text: &str| refuse_if_asked_for_more(text.as_bytes(), b"plan.jsonl").is_err();
        for text in [
            "* filter=lfs",
            "*.jsonl filter=lfs",
            "*.JSONL\tfilter=lfs",
            "ralph/** text ident",
            "[attr]big filter=lfs -text",
            "\"*.png\" filter=lfs",
            "*.[p]ng filter=x",
            "* working-tree-encoding=UTF-16",
        ] {
            assert!(asks(text), "{text}");
        }
        for text in [
            "",
            "* text=auto eol=lf\n*.jsonl merge=ralph",
            "*.png filter=lfs diff=lfs merge=lfs -text",
            "# * filter=lfs",
        ] {
            assert!(!asks(text), "{text}");
        }
    }
}
