//! What a run sees of the machine where it has a view of its own: the second layer of the boundary.
//!
//! Of the person's home directory there is the agent's own state, toolchains, the settings of git, what is on PATH, and what
//! the person names: as a program, as an argument, or in `[sandbox] show`. Of private state there is the run's clone and
//! the objects it is made of. Daemons' sockets in `/run` are not there.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_proc::namespace::View;

use super::Layers;
use crate::config::without_parents;

/// What is to be seen by one run.
pub(crate) struct ViewRequest<'a> {
    /// The environment that the run gets.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// The person's own environment.
    pub person: &'a dyn Fn(&str) -> Option<String>,
    /// Where Ralph keeps private state of all workspaces.
    pub state_base: &'a Utf8Path,
    /// The run's directory for temporary files.
    pub temporary: &'a Utf8Path,
    /// Where the run works: other paths are relative to it.
    pub cwd: &'a Utf8Path,
    /// What the run needs in addition to its writable paths: its tree, its program, the objects of its repository.
    pub needed: Vec<Utf8PathBuf>,
    /// The words of its command line, in which paths are named.
    pub words: Vec<&'a str>,
    /// What the person's settings show.
    pub show: &'a [Utf8PathBuf],
    /// Whether it must not reach the network.
    pub offline: bool,
}

/// Toolchains, and what they fetched, below a person's home directory.
const TOOLCHAINS: &[&str] = &[
    ".android",
    ".asdf",
    ".bun",
    ".bundle",
    ".cabal",
    ".cache/bazel",
    ".cache/coursier",
    ".cache/deno",
    ".cache/go-build",
    ".cache/ms-playwright",
    ".cache/pip",
    ".cache/pnpm",
    ".cache/puppeteer",
    ".cache/uv",
    ".cache/yarn",
    ".cargo",
    ".composer",
    ".conda",
    ".config/mise",
    ".deno",
    ".dotnet",
    ".elan",
    ".fnm",
    ".gem",
    ".ghcup",
    ".goenv",
    ".gradle",
    ".hex",
    ".ivy2",
    ".jenv",
    ".julia",
    ".juliaup",
    ".local/bin",
    ".local/lib",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/uv",
    ".local/share/virtualenv",
    ".local/state/nix",
    ".m2",
    ".mix",
    ".nix-profile",
    ".npm",
    ".npm-global",
    ".nuget",
    ".nvm",
    ".opam",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rvm",
    ".sbt",
    ".sdkman",
    ".stack",
    ".tool-versions",
    ".volta",
    ".yarn",
    "anaconda3",
    "go",
    "miniconda3",
    "miniforge3",
];

/// Files with credentials of toolchains (tokens, signing keys), relative to a person's home directory.
const CREDENTIALS: &[&str] = &[
    ".android/adbkey",
    ".android/debug.keystore",
    ".bundle/config",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".composer/auth.json",
    ".config/git/credentials",
    ".dotnet/corefx/cryptography",
    ".gem/credentials",
    ".gradle/gradle.properties",
    ".hex/hex.config",
    ".ivy2/.credentials",
    ".julia/servers",
    ".local/share/uv/credentials",
    ".m2/settings-security.xml",
    ".m2/settings.xml",
    ".nuget/NuGet/NuGet.Config",
    ".opam/plugins/opam-publish",
    ".sbt/.credentials",
    ".sbt/1.0/credentials.sbt",
    ".sbt/sonatype_credential",
    ".stack/upload",
    ".yarn/berry/credentials",
];

/// The same below a directory of a toolchain that a variable of the person's names.
const NAMED_CREDENTIALS: &[(&str, &[&str])] = &[
    ("CARGO_HOME", &["credentials", "credentials.toml"]),
    ("COMPOSER_HOME", &["auth.json"]),
    ("GEM_HOME", &["credentials"]),
    ("GRADLE_USER_HOME", &["gradle.properties"]),
    ("HEX_HOME", &["hex.config"]),
    ("STACK_ROOT", &["upload"]),
];

/// The settings of git below a person's home directory.
const GIT_SETTINGS: &[&str] = &[".gitconfig", ".config/git"];

/// Variables that say where toolchains and certificates are.
const PLACES: &[&str] = &[
    "ANDROID_HOME",
    "CARGO_HOME",
    "COREPACK_HOME",
    "CURL_CA_BUNDLE",
    "DENO_DIR",
    "DOTNET_ROOT",
    "GIT_CONFIG_GLOBAL",
    "GIT_SSL_CAINFO",
    "GOCACHE",
    "GOMODCACHE",
    "GOPATH",
    "GOROOT",
    "GRADLE_USER_HOME",
    "JAVA_HOME",
    "NODE_EXTRA_CA_CERTS",
    "NVM_DIR",
    "PNPM_HOME",
    "PYENV_ROOT",
    "REQUESTS_CA_BUNDLE",
    "RUSTUP_HOME",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "VIRTUAL_ENV",
    "VOLTA_HOME",
    "npm_config_cache",
    "npm_config_prefix",
];

/// Puts together what a run sees, if it has a view of its own.
pub(crate) fn view(layers: Layers, request: &ViewRequest<'_>) -> Option<View> {
    if !layers.namespaces.mount {
        return None;
    }
    let home = directory(request, "HOME");
    let emptied = emptied(request, home.as_deref());
    let mut shown: BTreeSet<Utf8PathBuf> = request.needed.iter().cloned().collect();
    shown.extend(request.show.iter().cloned());
    shown.extend(PLACES.iter().filter_map(|name| directory(request, name)));
    shown.extend(on_path(request, home.as_deref()));
    if let Some(resolver) = resolver() {
        shown.insert(resolver);
    }
    if let Some(home) = &home {
        let known = TOOLCHAINS.iter().chain(GIT_SETTINGS);
        shown.extend(known.map(|name| home.join(name)));
    }
    for word in &request.words {
        shown.extend(named_in(word, request.cwd, home.as_deref()));
    }
    // To show what holds the home directory would be to show all of it.
    let replaced = || emptied.iter().map(Utf8PathBuf::as_path).chain([Utf8Path::new("/tmp")]);
    shown.retain(|path| !replaced().any(|top| top.starts_with(path)));
    let text = |paths: Vec<Utf8PathBuf>| paths.into_iter().map(Utf8PathBuf::into_string).collect();
    let hidden = home.iter().flat_map(|home| CREDENTIALS.iter().map(|name| home.join(name)));
    let hidden = hidden.chain(NAMED_CREDENTIALS.iter().flat_map(|(variable, names)| {
        let directory = (request.person)(variable).map(Utf8PathBuf::from);
        let directory = directory.filter(|directory| directory.is_absolute());
        directory
            .into_iter()
            .flat_map(|directory| names.iter().map(move |name| directory.join(name)))
    }));
    Some(View {
        tmp: real(request.temporary).into_string(),
        hidden: text(hidden.collect()),
        shown: shown
            .into_iter()
            .filter(|path| exists(path))
            .map(Utf8PathBuf::into_string)
            .collect(),
        emptied: text(emptied),
        layered: Vec::new(),
        pid: layers.namespaces.pid,
        net: request.offline && layers.namespaces.net,
    })
}

/// The directories of which only what is shown is there.
fn emptied(request: &ViewRequest<'_>, home: Option<&Utf8Path>) -> Vec<Utf8PathBuf> {
    // The run itself is not told of it.
    let sockets = (request.person)("XDG_RUNTIME_DIR").map(Utf8PathBuf::from);
    let sockets = sockets.filter(|path| path.is_absolute());
    let candidates = [home.map(ToOwned::to_owned), sockets, Some("/run".into())];
    let candidates = candidates.into_iter().flatten().chain([request.state_base.to_owned()]);
    let mut emptied: Vec<Utf8PathBuf> = candidates.map(|path| real(&path)).collect();
    // Without a home directory of their own, some accounts have the root or `/usr` in its place.
    emptied.retain(|path| path.components().count() > 2 || path == "/root" || path == "/run");
    emptied
}

fn directory(request: &ViewRequest<'_>, name: &str) -> Option<Utf8PathBuf> {
    let value = (request.env)(name)?;
    Some(Utf8PathBuf::from(value)).filter(|path| path.is_absolute())
}

/// The directories on PATH, each with what its programs are part of.
fn on_path(request: &ViewRequest<'_>, home: Option<&Utf8Path>) -> Vec<Utf8PathBuf> {
    let mut found = Vec::new();
    let path = (request.env)("PATH").unwrap_or_default();
    for directory in path.split(':').map(Utf8Path::new).filter(|path| path.is_absolute()) {
        found.push(directory.to_owned());
        let holds_programs =
            directory.file_name().is_some_and(|name| ["bin", "sbin", "shims"].contains(&name));
        let whole = directory.parent().filter(|_| holds_programs);
        // Ralph's own program is in private state, which must stay hidden.
        let is_general = |whole: &&Utf8Path| {
            home.is_some_and(|home| *whole == home || *whole == home.join(".local"))
                || whole.starts_with(request.state_base)
        };
        found.extend(whole.filter(|whole| !is_general(whole)).map(ToOwned::to_owned));
    }
    found
}

/// The resolver configuration, if it is among the sockets.
fn resolver() -> Option<Utf8PathBuf> {
    Utf8Path::new("/etc/resolv.conf").canonicalize_utf8().ok()
}

/// What a program is part of: the directory of a script and of what it loads.
pub(crate) fn around_program(program: &Utf8Path) -> Vec<Utf8PathBuf> {
    let found = real(program);
    let mut around = vec![program.to_owned(), found.clone()];
    let modules = found.ancestors().filter(|path| path.file_name() == Some("node_modules")).last();
    match modules {
        Some(modules) => around.push(modules.to_owned()),
        None => around.extend(found.parent().map(ToOwned::to_owned)),
    }
    around
}

/// The paths that a word of a command line names, and that are there.
fn named_in(word: &str, cwd: &Utf8Path, home: Option<&Utf8Path>) -> Vec<Utf8PathBuf> {
    const BETWEEN: &[char] =
        &[' ', '\t', '\n', '\'', '"', '=', ':', ',', ';', '&', '|', '(', ')', '<', '>', '`'];
    let pieces = word.split(BETWEEN).chain([word]);
    let named = pieces.filter(|piece| piece.contains('/')).filter_map(|piece| {
        match (piece.strip_prefix("~/").or(piece.strip_prefix("$HOME/")), home) {
            (Some(rest), home) => Some(home?.join(rest)),
            (None, _) => Some(cwd.join(piece)),
        }
    });
    named.map(|path| without_parents(&path)).filter(|path| exists(path)).collect()
}

fn exists(path: &Utf8Path) -> bool {
    path.as_std_path().symlink_metadata().is_ok()
}

/// The path without links, if it is there.
pub(crate) fn real(path: &Utf8Path) -> Utf8PathBuf {
    path.canonicalize_utf8().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use ralph_proc::namespace::NamespaceSupport;

    use super::*;

    const BOTH: Layers = Layers { landlock: true, namespaces: NamespaceSupport::ALL };

    #[test]
    fn of_home_there_is_what_a_run_needs_and_what_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let top = Utf8Path::from_path(dir.path()).unwrap().canonicalize_utf8().unwrap();
        let home = top.join("home");
        for name in
            [".ssh", ".cargo/bin", ".pyenv/shims", ".local/bin", "bin", "tools", "state/w/bin"]
        {
            fs::create_dir_all(home.join(name)).unwrap();
        }
        for name in ["tools/run.sh", "notes", ".gitconfig", ".cargo/credentials.toml"] {
            fs::write(home.join(name), "").unwrap();
        }
        let path =
            format!("/usr/bin:{home}/bin:{home}/.pyenv/shims:{home}/.local/bin:{home}/state/w/bin");
        let env = |name: &str| match name {
            "HOME" => Some(home.to_string()),
            "PATH" => Some(path.clone()),
            _ => None,
        };
        let request = ViewRequest {
            env: &env,
            person: &|name| (name == "CARGO_HOME").then(|| "/opt/cargo".to_owned()),
            state_base: &home.join("state"),
            temporary: &top.join("tmp"),
            cwd: &home.join("bin"),
            needed: vec![home.clone()],
            words: vec!["-c", "sh ../tools/run.sh --to=~/notes ~/absent /tmp"],
            show: &[],
            offline: false,
        };
        let view = view(BOTH, &request).unwrap();
        let shows = |name: &str| view.shown.contains(&home.join(name).into_string());
        for name in [
            ".cargo",
            ".pyenv",
            ".local/bin",
            "bin",
            "tools/run.sh",
            "notes",
            ".gitconfig",
            "state/w/bin",
        ] {
            assert!(shows(name), "{name}: {:?}", view.shown);
        }
        for name in [".ssh", ".local", "state", "state/w", "absent", ""] {
            assert!(!shows(name), "{name}: {:?}", view.shown);
        }
        assert!(view.emptied.contains(&home.to_string()), "{:?}", view.emptied);
        assert!(view.emptied.contains(&home.join("state").into_string()));
        assert!(view.hidden.contains(&home.join(".cargo/credentials.toml").into_string()));
        assert!(view.hidden.contains(&"/opt/cargo/credentials.toml".to_owned()));
        assert!(!view.shown.iter().any(|path| path == "/tmp"), "{:?}", view.shown);
        assert!(view.pid && !view.net);
        let landlock = Layers { namespaces: NamespaceSupport::default(), ..BOTH };
        assert_eq!(super::view(landlock, &request), None);
    }
}
