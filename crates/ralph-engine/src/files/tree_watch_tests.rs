use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::test_place::Place;

#[test]
fn every_change_is_told_but_for_what_is_ignored() {
    let place = Place::new();
    for path in ["a/deep/file", "a/own/one", "file", "log", "logs/one"] {
        place.write(path, "1");
    }
    let watch =
        TreeWatch::over(&place.root, &["log", "logs", "a/own"]).expect("a local file system");
    let at = |path: &str| place.root.join(path);
    assert!(watch.is_quiet());
    fs::read(at("a/deep/file")).unwrap();
    place.write("log", "2");
    place.write("logs/one", "2");
    place.write("logs/two", "2");
    place.write("a/own/two", "2");
    fs::remove_dir_all(at("a/own")).unwrap();
    place.write("a/own/three", "2");
    assert!(watch.is_quiet(), "reading, and what is ignored");
    let changes: [(&str, &dyn Fn()); 7] = [
        ("written", &|| place.write("a/deep/file", "2")),
        ("made", &|| place.write("a/new", "1")),
        ("moved", &|| fs::rename(at("a/new"), at("a/other")).unwrap()),
        ("removed", &|| fs::remove_file(at("a/other")).unwrap()),
        ("permissions", &|| {
            fs::set_permissions(at("file"), fs::Permissions::from_mode(0o600)).unwrap();
        }),
        ("what has the name of something ignored elsewhere", &|| place.write("a/log", "1")),
        ("directory", &|| fs::create_dir(at("a/deep/new")).unwrap()),
    ];
    for (what, change) in changes {
        change();
        assert!(!watch.is_quiet(), "{what}");
        assert!(watch.is_quiet(), "{what}: told once");
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
