//! Which of the paths that the person grants a run gets. Some lie where runs can put a link in the place of a directory: it
//! would lead the grant elsewhere.

use camino::{Utf8Path, Utf8PathBuf};

use super::real;

/// Returns the granted paths, except those that lead through a link in the workspace or in another granted path.
pub(crate) fn granted(paths: &[Utf8PathBuf], workspace: &Utf8Path) -> Vec<Utf8PathBuf> {
    let roots: Vec<Utf8PathBuf> =
        paths.iter().map(Utf8PathBuf::as_path).chain([workspace]).map(real).collect();
    let is_in_reach = |link: &Utf8Path| {
        let directory = link.parent().map(real);
        directory.is_some_and(|directory| roots.iter().any(|root| directory.starts_with(root)))
    };
    let is_led = |path: &Utf8Path| {
        path.ancestors().any(|above| above.as_std_path().is_symlink() && is_in_reach(above))
    };
    paths.iter().filter(|path| !is_led(path)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_where_runs_may_write_leads_no_grant_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let top = Utf8Path::from_path(dir.path()).unwrap().canonicalize_utf8().unwrap();
        for path in ["work/kept/out", "victim/out/inner", "data/cache", "disk/more"] {
            fs::create_dir_all(top.join(path)).unwrap();
        }
        for (link, target) in [
            ("work/a", "victim"),
            ("work/last", "victim/out"),
            ("by-link", "work"),
            ("mine", "disk"),
        ] {
            symlink(top.join(target), top.join(link)).unwrap();
        }
        symlink(top.join("victim"), top.join("data/cache/a")).unwrap();
        let paths = |names: &[&str]| names.iter().map(|name| top.join(name)).collect::<Vec<_>>();
        let all = [
            "work/kept/out",
            "work/a/out",
            "work/a/out/inner",
            "work/last",
            "by-link/a/out",
            "by-link/kept/out",
            "data/cache",
            "data/cache/a/out",
            "mine/more",
            "work/none",
        ];
        let kept = ["work/kept/out", "by-link/kept/out", "data/cache", "mine/more", "work/none"];
        assert_eq!(granted(&paths(&all), &top.join("work")), paths(&kept));
    }
}
