//! Removes directories with untrusted contents: by descriptors, without following symlinks, at any depth and with any
//! permissions.
//!
//! No process may be active in them any more. Very deep directories are moved up first, so that neither paths nor
//! recursion grow with the depth.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, chmodat, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

const OPEN: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes anything at a path. A missing path counts as removed.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let found = match statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if !FileType::from_raw_mode(found.st_mode).is_dir() {
        return Ok(unlinkat(CWD, path, AtFlags::empty())?);
    }
    let top = open_directory(CWD, path)?;
    empty(&top)?;
    Ok(unlinkat(CWD, path, AtFlags::REMOVEDIR)?)
}

/// Opens a directory, giving its owner all permissions.
fn open_directory(at: impl AsFd, name: impl rustix::path::Arg + Copy) -> io::Result<OwnedFd> {
    // Not a symlink: it was checked, and no process is left that could have replaced it.
    let _ = chmodat(&at, name, Mode::RWXU, AtFlags::empty());
    Ok(openat(&at, name, OPEN, Mode::empty())?)
}

/// How many directories are open at a time.
const OPEN_AT_ONCE: usize = 50;

/// Removes everything in a directory.
fn empty(top: &OwnedFd) -> io::Result<()> {
    let mut lifted = 0_u64;
    loop {
        let below = clear(top)?;
        if below.is_empty() {
            return Ok(());
        }
        for name in below {
            empty_near(top, &open_directory(top, name.as_c_str())?, 1, &mut lifted)?;
            unlinkat(top, name.as_c_str(), AtFlags::REMOVEDIR)?;
        }
    }
}

/// Removes the content of a directory; what is too deep is moved up to the top.
fn empty_near(
    top: &OwnedFd,
    directory: &OwnedFd,
    depth: usize,
    lifted: &mut u64,
) -> io::Result<()> {
    for name in clear(directory)? {
        if depth < OPEN_AT_ONCE {
            let inner = open_directory(directory, name.as_c_str())?;
            empty_near(top, &inner, depth + 1, lifted)?;
            unlinkat(directory, name.as_c_str(), AtFlags::REMOVEDIR)?;
        } else {
            // Renaming a directory needs write permission on the directory itself.
            let _ = chmodat(directory, name.as_c_str(), Mode::RWXU, AtFlags::empty());
            lift(directory, &name, top, lifted)?;
        }
    }
    Ok(())
}

/// Moves a directory up, to an unused name.
fn lift(from: &OwnedFd, name: &CStr, top: &OwnedFd, lifted: &mut u64) -> io::Result<()> {
    loop {
        *lifted += 1;
        let new = format!("lifted-{lifted}");
        // Created first: a rename would replace an empty directory that is not ours.
        match mkdirat(top, new.as_str(), Mode::RWXU) {
            Ok(()) => return Ok(renameat(from, name, top, new.as_str())?),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Removes all files of a directory; returns the names of the directories in it.
fn clear(directory: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut below = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let is_directory = match entry.file_type() {
            FileType::Unknown => {
                let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(found.st_mode).is_dir()
            }
            kind => kind.is_dir(),
        };
        if is_directory {
            below.push(name.to_owned());
        } else {
            unlinkat(directory, name, AtFlags::empty())?;
        }
    }
    Ok(below)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn what_is_very_deep_closed_or_linked_goes_and_what_links_lead_to_stays() {
        let place = tempfile::tempdir().unwrap();
        let (victim, top) = (place.path().join("victim"), place.path().join("top"));
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join("precious"), "x").unwrap();
        fs::create_dir(&top).unwrap();
        symlink(&victim, top.join("link")).unwrap();
        fs::create_dir(top.join("lifted-1")).unwrap();
        fs::write(top.join("lifted-1/file"), "x").unwrap();
        let mut at = openat(CWD, &top, OPEN, Mode::empty()).unwrap();
        for _ in 0..3000 {
            mkdirat(&at, "deeper", Mode::RWXU).unwrap();
            at = openat(&at, "deeper", OPEN, Mode::empty()).unwrap();
        }
        fs::create_dir_all(top.join("closed/inner")).unwrap();
        symlink(&victim, top.join("closed/inner/link")).unwrap();
        for name in ["closed/inner", "closed"] {
            fs::set_permissions(top.join(name), fs::Permissions::from_mode(0o000)).unwrap();
        }
        drop(at);
        remove_tree(&top).unwrap();
        assert!(!top.exists());
        assert!(victim.join("precious").exists());
        remove_tree(&top).unwrap();
        symlink(&victim, &top).unwrap();
        remove_tree(&top).unwrap();
        assert!(fs::symlink_metadata(&top).is_err() && victim.join("precious").exists());
    }
}
