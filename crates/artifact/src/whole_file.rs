//! Files that are whole or not there.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes a file under another name beside it first, so that a file of its own name is always whole, whatever happens
/// meanwhile. What is no regular file, a device or a pipe, is written to as it is: renaming would put a file in its place.
pub fn write_whole(path: &Path, fill: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    if path.metadata().is_ok_and(|known| !known.is_file() && !known.is_dir()) {
        return fill(&OpenOptions::new().write(true).open(path)?);
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A temporary file is its owner's alone; a result is for whom the user's mask allows.
    let permissions = Permissions::from_mode(0o666);
    let file = tempfile::Builder::new().prefix(".talweg-").permissions(permissions).tempfile_in(folder)?;
    fill(file.as_file())?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::FileTypeExt;

    use super::*;

    #[test]
    fn a_file_is_whole_or_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write_whole(&path, |mut to| to.write_all(b"one")).unwrap();
        let failed = write_whole(&path, |mut to| {
            to.write_all(b"tw")?;
            Err(io::Error::other("the disk is full"))
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o400, 0o400);
        assert!(write_whole(folder.path(), |_| Ok(())).is_err());
    }

    #[test]
    fn devices_stay_devices() {
        let null = Path::new("/dev/null");
        write_whole(null, |mut to| to.write_all(b"gone")).unwrap();
        assert!(null.metadata().unwrap().file_type().is_char_device());
    }
}
