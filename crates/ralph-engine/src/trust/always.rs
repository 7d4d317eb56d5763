//! Checkouts that the person's own configuration trusts, whatever their armed keys say: `trust.always`.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use toml::de::{DeTable, DeValue};

use crate::config::{render_string, user_config_path};
use crate::files::{PathError, create_directory, read_optional, replace_atomically};

/// Whether a list of checkouts contains this one. An entry that ends in `/*` matches every checkout below it.
pub(super) fn covers(trusted: &[Utf8PathBuf], root: &Utf8Path) -> bool {
    let real = |path: &Utf8Path| path.canonicalize_utf8().unwrap_or_else(|_| path.to_owned());
    trusted.iter().any(|entry| match entry.as_str().strip_suffix("/*") {
        Some(above) => {
            let above = real(above.into());
            root != above && root.starts_with(&above)
        }
        None => real(entry) == root,
    })
}

/// Adds a checkout to the person's own configuration, preserving its other lines. Returns the file.
pub fn note_always(
    env: &dyn Fn(&str) -> Option<String>,
    root: &Utf8Path,
) -> Result<Utf8PathBuf, PathError> {
    let nowhere = || {
        let reason = io::Error::other("neither XDG_CONFIG_HOME nor HOME is an absolute path");
        PathError::new("find", "your own configuration".into(), reason)
    };
    let path = user_config_path(env).ok_or_else(nowhere)?;
    // If the file is a symlink (into a dotfiles directory), its target is changed.
    let real = path.canonicalize_utf8().unwrap_or_else(|_| path.clone());
    let unfit = |reason: String| PathError::new("change", &path, io::Error::other(reason));
    let bytes = read_optional(&real)?.unwrap_or_default();
    let text = String::from_utf8(bytes).map_err(|_| unfit("it is not UTF-8".to_owned()))?;
    let changed = with_checkout(&text, root).map_err(unfit)?;
    let directory = real
        .parent()
        .ok_or_else(|| PathError::new("find the directory of", &real, io::ErrorKind::NotFound))?;
    create_directory(directory)?;
    replace_atomically(&real, changed.as_bytes())?;
    Ok(path)
}

/// Returns the text of a configuration with a checkout added to `trust.always`.
fn with_checkout(text: &str, root: &Utf8Path) -> Result<String, String> {
    let entry = render_string(root.as_str());
    let table = DeTable::parse(text).map_err(|error| error.message().to_owned())?;
    let Some(trust) = table.get_ref().get("trust") else {
        let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        let space = if text.is_empty() { "" } else { "\n" };
        return Ok(format!("{text}{gap}{space}[trust]\nalways = [{entry}]\n"));
    };
    let always = match trust.get_ref() {
        DeValue::Table(trust) => trust.get("always"),
        _ => None,
    };
    let by_hand = || format!("add {entry} to `always` in its `[trust]` by hand");
    let always = always.ok_or_else(by_hand)?;
    let DeValue::Array(items) = always.get_ref() else { return Err(by_hand()) };
    if items.iter().any(|item| item.get_ref().as_str() == Some(root.as_str())) {
        return Ok(text.to_owned());
    }
    let after = always.span().start + 1;
    let (before, rest) = text.split_at_checked(after).ok_or_else(by_hand)?;
    let comma = if items.is_empty() { "" } else { ", " };
    let changed = format!("{before}{entry}{comma}{rest}");
    DeTable::parse(&changed).map_err(|_| by_hand())?;
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn always(text: &str) -> Vec<String> {
        let table: toml::Table = text.parse().unwrap();
        let list = table["trust"]["always"].as_array().unwrap();
        list.iter().map(|item| item.as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_checkout_is_added_and_every_other_line_stays() {
        let root = Utf8Path::new("/work/a \"b\"");
        let first = with_checkout("# mine\nmodel = \"x\"", root).unwrap();
        assert!(first.starts_with("# mine\nmodel = \"x\"\n"), "{first}");
        assert_eq!(always(&first), ["/work/a \"b\""]);
        let second = with_checkout(&first, Utf8Path::new("/work/c")).unwrap();
        assert_eq!(always(&second), ["/work/c", "/work/a \"b\""]);
        assert_eq!(with_checkout(&second, root).unwrap(), second);
        for text in ["", "[trust]\nalways = [] # none\n", "trust.always = [\n  # c\n  \"/x\",\n]\n"]
        {
            let changed = with_checkout(text, root).unwrap();
            assert_eq!(always(&changed)[0], root.as_str(), "{text}");
        }
        assert!(with_checkout("[trust]\n", root).is_err());
        assert!(with_checkout("not toml", root).is_err());
    }

    #[test]
    fn an_entry_names_a_checkout_or_all_below_a_directory() {
        let covers = |entry: &str, root: &str| super::covers(&[entry.into()], root.into());
        assert!(covers("/no/such/a", "/no/such/a"));
        assert!(!covers("/no/such/a", "/no/such/a/b"));
        assert!(!covers("/no/such/a", "/no/such/ab"));
        assert!(covers("/no/such/*", "/no/such/a/b"));
        assert!(!covers("/no/such/*", "/no/such"));
        assert!(!covers("/no/such/*", "/no/suchother/a"));
    }
}
