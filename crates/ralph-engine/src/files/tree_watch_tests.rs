use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::*;
use crate::test_place::Place;

#[test]
fn every_change_is_reported_by_name_except_for_what_is_ignored() {
    let place = Place::new();
    for path in ["a/deep/file", "a/own/one", "file", "log", "logs/one"] {
        place.write(path, "1");
    }
    let watch =
        TreeWatch::over(&place.root, &["log", "logs", "a/own"]).expect("a local file system");
    let at = |path: &str| place.root.join(path);
    let quiet = Some(BTreeSet::new());
    assert_eq!(watch.changes(), quiet);
    fs::read(at("a/deep/file")).unwrap();
    place.write("log", "2");
    place.write("logs/one", "2");
    place.write("logs/two", "2");
    place.write("a/own/two", "2");
    fs::remove_dir_all(at("a/own")).unwrap();
    place.write("a/own/three", "2");
    assert_eq!(watch.changes(), quiet, "reading, and what is ignored");
    let odd = PathBuf::from(OsStr::from_bytes(b"a/caf\xe9\n"));
    let changes: [(&[&Path], &dyn Fn()); 8] = [
        (&["a/deep/file".as_ref()], &|| place.write("a/deep/file", "2")),
        (&["a/new".as_ref()], &|| place.write("a/new", "1")),
        (&["a/new".as_ref(), "a/other".as_ref()], &|| {
            fs::rename(at("a/new"), at("a/other")).unwrap();
        }),
        (&["a/other".as_ref()], &|| fs::remove_file(at("a/other")).unwrap()),
        (&["file".as_ref()], &|| {
            fs::set_permissions(at("file"), fs::Permissions::from_mode(0o600)).unwrap();
        }),
        (&["a/log".as_ref()], &|| place.write("a/log", "1")),
        (&[&odd], &|| fs::write(place.root.as_std_path().join(&odd), "1").unwrap()),
        (&["a/link".as_ref()], &|| std::os::unix::fs::symlink("deep", at("a/link")).unwrap()),
    ];
    for (paths, change) in changes {
        change();
        let expected = paths.iter().map(|path| path.to_path_buf()).collect();
        assert_eq!(watch.changes(), Some(expected));
        assert_eq!(watch.changes(), quiet, "{paths:?}: reported once");
    }
    let outside = tempfile::tempdir().unwrap();
    // A directory is looked through as a whole, with whatever was put into it.
    let wholes: [(&str, &dyn Fn()); 4] = [
        ("made", &|| fs::create_dir(at("a/deep/new")).unwrap()),
        ("moved", &|| fs::rename(at("a/deep/new"), at("a/moved")).unwrap()),
        ("removed", &|| fs::remove_dir(at("a/moved")).unwrap()),
        ("replaced by a link", &|| {
            fs::rename(at("a/deep"), outside.path().join("deep")).unwrap();
            std::os::unix::fs::symlink(outside.path().join("deep"), at("a/deep")).unwrap();
        }),
    ];
    for (what, change) in wholes {
        change();
        assert_eq!(watch.changes(), None, "{what}");
        assert_eq!(watch.changes(), quiet, "{what}: reported once");
    }
}

#[test]
fn a_tree_of_too_many_directories_is_not_watched() {
    let place = Place::new();
    for number in 0..600 {
        fs::create_dir(place.root.join(number.to_string())).unwrap();
    }
    assert!(TreeWatch::over(&place.root, &[]).is_none());
}
