//! Files that are whole or not there.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::NamedTempFile;

/// Writes a file under another name beside it first, so that a file of its own name is always whole, whatever happens
/// meanwhile. What is no regular file, a device or a pipe, is written to as it is: renaming would put a file in its place.
pub fn write_whole(path: &Path, fill: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    if path.metadata().is_ok_and(|known| !known.is_file() && !known.is_dir()) {
        return fill(&OpenOptions::new().write(true).open(path)?);
    }
    let file = beside(path)?;
    fill(file.as_file())?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

/// Whether [`write_whole`] could write a file, as far as that is known beforehand: a result that takes long should not be lost
/// at its end. Leaves everything as it is.
pub fn check_writable(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(known) if known.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(known) if !known.is_file() => Ok(()),
        _ => beside(path).map(drop),
    }
}

/// A temporary file where another is to be.
fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A temporary file is its owner's alone; a result is for whom the user's mask allows.
    let permissions = Permissions::from_mode(0o666);
    tempfile::Builder::new().prefix(".talweg-").permissions(permissions).tempfile_in(folder)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::FileTypeExt;

    use super::*;

    #[test]
    fn what_cannot_be_written_is_known_beforehand() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        check_writable(&path).unwrap();
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
        std::fs::write(&path, b"one").unwrap();
        check_writable(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        check_writable(Path::new("/dev/null")).unwrap();
        for place in [folder.path(), &folder.path().join("none/a"), Path::new("/proc/a")] {
            assert!(check_writable(place).is_err(), "{}", place.display());
        }
    }

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
