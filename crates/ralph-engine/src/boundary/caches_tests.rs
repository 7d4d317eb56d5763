use super::*;
use crate::test_place::Place;

fn env(place: &Place) -> impl Fn(&str) -> Option<String> {
    let home = place.root.join("home").to_string();
    move |name| (name == "HOME").then(|| home.clone())
}

fn place() -> Place {
    let place = Place::new();
    for (path, text) in [
        (".cargo/config.toml", "[net]"),
        (".cargo/credentials.toml", "secret"),
        (".cargo/registry/cache/i/a-1.crate", "packed"),
        (".cargo/registry/src/i/a-1/src/lib.rs", "pub fn a() {}"),
        (".cargo/registry/index/i/.cache/a", "versions"),
        (".npm/_cacache/content-v2/sha512/aa/bb", "tarball"),
        (".npm/_cacache/index-v5/aa/bb", "index"),
        (".npm/_npx/x/bin", "program"),
        ("go/pkg/mod/cache/download/m/@v/v1.zip", "zip"),
        ("go/pkg/mod/cache/download/m/@v/v1.lock", ""),
        ("go/pkg/mod/m@v1/m.go", "package m"),
    ] {
        place.write(&format!("home/{path}"), text);
    }
    place
}

#[test]
fn a_set_begins_as_a_view_of_the_persons_and_takes_what_is_new() {
    let place = place();
    let (set, env) = (place.root.join("caches/agents"), env(&place));
    prepare_set(&set, &env).unwrap();
    let read = |path: &str| fs::read_to_string(set.join(path)).unwrap_or_default();
    assert_eq!(read("cargo/registry/src/i/a-1/src/lib.rs"), "pub fn a() {}");
    assert_eq!(read("cargo/config.toml"), "[net]");
    assert_eq!(read("npm/_cacache/content-v2/sha512/aa/bb"), "tarball");
    assert_eq!(read("go-mod/cache/download/m/@v/v1.zip"), "zip");
    assert_eq!(read("go-mod/m@v1/m.go"), "package m");
    for absent in
        ["cargo/credentials.toml", "npm/_npx", "go-mod/cache/download/m/@v/v1.lock", "yarn/v6"]
    {
        assert!(!set.join(absent).exists(), "{absent}");
    }
    // What a toolchain writes over in place is its own.
    for copied in ["cargo/registry/index/i/.cache/a", "npm/_cacache/index-v5/aa/bb"] {
        assert!(fs::symlink_metadata(set.join(copied)).unwrap().is_file(), "{copied}");
    }
    // A crate of the run's own stays, and one that the person fetched comes, when it is looked again.
    fs::create_dir_all(set.join("cargo/registry/src/i/own-1")).unwrap();
    place.write("home/.cargo/registry/cache/i/b-1.crate", "more");
    fs::remove_file(set.join("begun")).unwrap();
    prepare_set(&set, &env).unwrap();
    assert_eq!(read("cargo/registry/cache/i/b-1.crate"), "more");
    assert!(set.join("cargo/registry/src/i/own-1").is_dir());
}

#[test]
fn a_layer_takes_every_change_and_goes() {
    let place = place();
    let (set, layer) = (place.root.join("caches/gates"), place.root.join("layer"));
    prepare_set(&set, &env(&place)).unwrap();
    prepare_layer(&layer, &set).unwrap();
    let source = "cargo/registry/src/i/a-1/src/lib.rs";
    assert_eq!(fs::read_to_string(layer.join(source)).unwrap(), "pub fn a() {}");
    fs::write(layer.join("cargo/registry/index/i/.cache/a"), "changed").unwrap();
    fs::remove_file(layer.join("cargo/registry/src/i/a-1")).unwrap();
    assert_eq!(
        fs::read_to_string(set.join("cargo/registry/index/i/.cache/a")).unwrap(),
        "versions"
    );
    assert_eq!(fs::read_to_string(set.join(source)).unwrap(), "pub fn a() {}");
    prepare_layer(&layer, &set).unwrap();
    assert_eq!(fs::read_to_string(layer.join(source)).unwrap(), "pub fn a() {}");
}

#[test]
fn toolchains_are_told_and_those_that_the_person_has_not_are_not() {
    let place = place();
    let told = cache_variables(Utf8Path::new("/set"), &env(&place));
    for (name, value) in [
        ("CARGO_HOME", Some("/set/cargo")),
        ("npm_config_cache", Some("/set/npm")),
        ("GOCACHE", Some("/set/go-build")),
        ("YARN_CACHE_FOLDER", None),
        ("GRADLE_USER_HOME", None),
    ] {
        let found = told.iter().find(|(told, _)| *told == name).map(|(_, value)| value.as_str());
        assert_eq!(found, value, "{name}");
    }
}
