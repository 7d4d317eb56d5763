//! SHA-256 of files and of serialisable data.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};

use camino::Utf8Path;
use serde::Serialize;
use sha2::{Digest, Sha256};

const CHUNK: usize = 256 << 10;

/// Hashes a file of any size.
pub(crate) fn of_file(path: &Utf8Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; CHUNK];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hex(&hash.finalize())),
            Ok(count) => hash.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Hashes data in its serialised form.
pub(crate) fn of_data(data: &impl Serialize) -> String {
    hex(&Sha256::digest(serde_json::to_vec(data).expect("plain data can be written")))
}

/// Hashes bytes.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_digest_that_other_programs_compute() {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(dir.path()).unwrap().join("f");
        std::fs::write(&path, "abc").unwrap();
        assert_eq!(
            of_file(&path).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
