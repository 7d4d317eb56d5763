use std::process::Command;

use tempfile::TempDir;

use super::*;

fn temp() -> (TempDir, Utf8PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = Utf8PathBuf::from_path_buf(directory.path().canonicalize().unwrap()).unwrap();
    (directory, path)
}

fn git(directory: &Utf8Path, args: &[&str]) {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always"])
        .args(args)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn repository(path: &Utf8Path) {
    fs::create_dir_all(path).unwrap();
    git(path, &["init", "--quiet"]);
    git(path, &["commit", "--quiet", "--allow-empty", "-m", "first"]);
}

fn touch(path: &Utf8Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "").unwrap();
}

fn found(start: &Utf8Path) -> Workspace {
    find_workspace(None, start).unwrap()
}

#[test]
fn a_subdirectory_belongs_to_its_repository() {
    let (_guard, top) = temp();
    repository(&top);
    let deep = top.join("src/deep");
    fs::create_dir_all(&deep).unwrap();
    let workspace = found(&deep);
    let git_dir = top.join(".git");
    let kind = WorkspaceKind::Repository(Repository { toplevel: top.clone(), git_dir });
    assert_eq!(workspace, Workspace { root: top.clone(), kind });
    assert_eq!(workspace.home(None), Home { path: top.join("ralph"), exists: false });
    workspace.require_repository().unwrap();
}

#[test]
fn a_linked_worktree_is_a_workspace_of_its_own() {
    let (_guard, top) = temp();
    let (main, linked) = (top.join("main"), top.join("linked"));
    repository(&main);
    git(&main, &["worktree", "add", "--quiet", linked.as_str()]);
    let workspace = found(&linked);
    assert_eq!(workspace.root, linked);
    assert_eq!(workspace.git_dir().unwrap(), main.join(".git/worktrees/linked"));
}

#[test]
fn a_submodule_is_a_workspace_of_its_own_unless_the_outer_one_is_configured() {
    let (_guard, top) = temp();
    let (outer, inner) = (top.join("outer"), top.join("inner"));
    repository(&outer);
    repository(&inner);
    git(&outer, &["submodule", "--quiet", "add", inner.as_str(), "lib/inner"]);
    let submodule = outer.join("lib/inner");
    let workspace = found(&submodule);
    assert_eq!(workspace.root, submodule);
    assert_eq!(workspace.git_dir().unwrap(), outer.join(".git/modules/lib/inner"));
    touch(&outer.join("ralph.toml"));
    assert_eq!(found(&submodule).root, outer);
}

#[test]
fn a_configuration_wins_over_a_nearer_home_and_a_home_over_the_repository() {
    let (_guard, top) = temp();
    repository(&top);
    let package = top.join("packages/web");
    touch(&package.join("ralph/prd.json"));
    let workspace = found(&package.join("ralph"));
    assert_eq!(workspace.root, package);
    assert_eq!(workspace.git_dir().unwrap(), top.join(".git"));
    assert_eq!(workspace.home(None), Home { path: package.join("ralph"), exists: true });
    touch(&top.join("ralph.toml"));
    assert_eq!(found(&package).root, top);
}

#[test]
fn a_directory_of_repositories_works_once_it_is_configured() {
    let (_guard, top) = temp();
    let child = top.join("api");
    repository(&child);
    assert_eq!(found(&child).root, child);
    touch(&top.join("ralph/specs/0001-a.md"));
    let workspace = found(&child.join(".git/objects"));
    assert_eq!((workspace.root, workspace.kind), (top, WorkspaceKind::RepositoryCollection));
}

#[test]
fn outside_a_repository_the_error_names_the_command_to_run() {
    let (_guard, top) = temp();
    let start = top.join("it's here");
    fs::create_dir(&start).unwrap();
    let workspace = found(&start);
    assert_eq!(workspace, Workspace { root: start.clone(), kind: WorkspaceKind::Plain });
    let error = workspace.require_repository().unwrap_err();
    assert_eq!(error.to_string(), format!("`{start}` is not a git repository"));
    let quoted = format!(r"`git init '{top}/it'\''s here'`");
    assert!(error.hint().unwrap().contains(&quoted), "{:?}", error.hint());
}

#[test]
fn the_root_can_be_named_relative_to_where_one_stands() {
    let (_guard, top) = temp();
    repository(&top.join("a"));
    fs::create_dir(top.join("b")).unwrap();
    let workspace = find_workspace(Some("../a".into()), &top.join("b")).unwrap();
    assert_eq!(workspace.root, top.join("a"));
    let missing = find_workspace(Some("nowhere".into()), &top).unwrap_err();
    assert_eq!(missing.to_string(), format!("cannot find `{top}/nowhere`"));
    touch(&top.join("file"));
    find_workspace(Some("file".into()), &top).unwrap_err();
}

#[test]
fn a_directory_is_home_only_if_it_holds_something_of_ralph() {
    let (_guard, top) = temp();
    fs::create_dir_all(top.join("ralph/src")).unwrap();
    touch(&top.join("scripts/ralph/prompt.md"));
    let workspace = found(&top);
    assert_eq!(workspace.home(None), Home { path: top.join("scripts/ralph"), exists: true });
    touch(&top.join("ralph/plan.jsonl"));
    assert_eq!(workspace.home(None), Home { path: top.join("ralph"), exists: true });
    let named = workspace.home(Some("elsewhere".into()));
    assert_eq!(named, Home { path: top.join("elsewhere"), exists: false });
}

#[test]
fn a_configuration_left_in_a_shared_directory_is_not_taken() {
    let (_guard, top) = temp();
    let mine = top.join("mine");
    repository(&mine);
    touch(&top.join("ralph.toml"));
    fs::set_permissions(&top, fs::Permissions::from_mode(0o1777)).unwrap();
    assert_eq!(found(&mine).root, mine);
    assert_eq!(found(&top).root, top);
    fs::set_permissions(&top, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(found(&mine).root, top);
}

#[test]
fn something_that_only_looks_like_a_repository_is_none() {
    let (_guard, top) = temp();
    fs::create_dir(top.join(".git")).unwrap();
    assert_eq!(found(&top).kind, WorkspaceKind::Plain);
    fs::remove_dir(top.join(".git")).unwrap();
    fs::write(top.join(".git"), "gitdir: nowhere\n").unwrap();
    assert_eq!(found(&top).kind, WorkspaceKind::Plain);
}

#[test]
fn a_root_named_by_a_dot_is_the_directory_itself() {
    let dir = tempfile::tempdir().unwrap();
    let here = Utf8Path::from_path(dir.path()).unwrap().canonicalize_utf8().unwrap();
    for named in [".", "./", "././."] {
        let found = find_workspace(Some(named.into()), &here).unwrap();
        assert_eq!(found.root.as_str(), here.as_str(), "{named}");
    }
}
