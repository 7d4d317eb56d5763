use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};

use super::*;
use crate::test_place::Place;

/// Marks of a directory `in`, with a file in it and one further down.
fn marked(place: &Place) -> Marks {
    place.write("in/a", "1");
    place.write("in/deep/b", "1");
    place.write("out/c", "1");
    let root = place.root.join("in");
    let below = ["a", "deep", "deep/b"].map(|name| root.join(name).into());
    let mut marks = Marks::default();
    marks.put(root.as_std_path(), &below);
    assert!(!marks.is_quiet(root.as_std_path()), "nobody has looked yet");
    marks.found_unchanged(root.as_std_path());
    marks
}

#[test]
fn whatever_happens_to_a_marked_file_is_told_under_whichever_name() {
    type Act<'a> = (&'a str, &'a dyn Fn(&Place));
    let at = |place: &Place, path: &str| place.root.join(path);
    let acts: [Act<'_>; 9] = [
        ("written", &|place| place.write("in/a", "2")),
        ("made", &|place| place.write("in/deep/new", "1")),
        ("removed", &|place| fs::remove_file(at(place, "in/deep/b")).unwrap()),
        ("replaced", &|place| fs::rename(at(place, "out/c"), at(place, "in/a")).unwrap()),
        ("moved away", &|place| fs::rename(at(place, "in/deep"), at(place, "out/deep")).unwrap()),
        ("another in its place", &|place| {
            fs::rename(at(place, "in"), at(place, "was")).unwrap();
            fs::create_dir(at(place, "in")).unwrap();
        }),
        ("permissions", &|place| {
            fs::set_permissions(at(place, "in/a"), fs::Permissions::from_mode(0o600)).unwrap();
        }),
        ("a link", &|place| fs::hard_link(at(place, "in/a"), at(place, "out/link")).unwrap()),
        ("cut short by name", &|place| {
            rustix::fs::ftruncate(
                fs::OpenOptions::new().write(true).open(at(place, "in/a")).unwrap(),
                0,
            )
            .unwrap();
        }),
    ];
    for (what, act) in acts {
        let place = Place::new();
        let mut marks = marked(&place);
        let root = place.root.join("in");
        fs::read(root.join("a")).unwrap();
        assert!(marks.is_quiet(root.as_std_path()), "{what}: nothing but a read so far");
        act(&place);
        assert!(!marks.is_quiet(root.as_std_path()), "{what}");
        assert!(!marks.is_quiet(root.as_std_path()), "{what}: it stays told until someone looks");
    }
}

#[test]
fn a_write_through_another_name_is_told() {
    let place = Place::new();
    let mut marks = marked(&place);
    let root = place.root.join("in");
    fs::hard_link(root.join("a"), place.root.join("out/link")).unwrap();
    // As if the link had been there when the baseline was taken.
    marks.listen();
    marks.found_unchanged(root.as_std_path());
    assert!(marks.is_quiet(root.as_std_path()));
    let other = fs::OpenOptions::new().write(true).open(place.root.join("out/link")).unwrap();
    other.write_all_at(b"2", 0).unwrap();
    assert!(!marks.is_quiet(root.as_std_path()));
}

#[test]
fn a_file_in_two_directories_and_too_many_files_are_not_marked() {
    let place = Place::new();
    let mut marks = marked(&place);
    let (first, second) = (place.root.join("in"), place.root.join("out"));
    fs::hard_link(first.join("a"), second.join("link")).unwrap();
    marks.put(second.as_std_path(), &[second.join("link").into()]);
    marks.found_unchanged(first.as_std_path());
    assert!(!marks.is_quiet(first.as_std_path()) && !marks.are_worthwhile(WORTHWHILE));
    assert!(Marks::default().are_worthwhile(WORTHWHILE));
    assert!(!Marks::default().are_worthwhile(WORTHWHILE - 1));
}
