//! Mapped files: the model itself and its external data.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use memmap2::Mmap;

use crate::error::ImportError;

/// The file's bytes, mapped; nothing is read until it is used.
pub(crate) fn map(path: &Path) -> Result<Bytes, ImportError> {
    let failed = |source| ImportError::Io { path: path.to_path_buf(), source };
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(failed(std::io::Error::other("not a regular file")));
    }
    if metadata.len() == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: the mapping is private and read-only; models are not modified while they are in use, as for any program
    // that maps its data, and the bytes are only ever read as plain integers and floats, for which every pattern is
    // valid.
    let mapping = unsafe { Mmap::map(&file) }.map_err(failed)?;
    Ok(Bytes::from_owner(mapping))
}

/// The files beside a model that hold its weights, each mapped once.
pub(crate) struct ExternalFiles {
    folder: Option<PathBuf>,
    mapped: BTreeMap<PathBuf, Bytes>,
}

impl ExternalFiles {
    /// Files in `folder`; none at all without one.
    pub(crate) fn new(folder: Option<&Path>) -> ExternalFiles {
        ExternalFiles { folder: folder.map(Path::to_path_buf), mapped: BTreeMap::new() }
    }

    /// A part of a file in the folder. The reason of a refusal is text for [`ImportError::ExternalData`].
    pub(crate) fn part(
        &mut self,
        location: &str,
        offset: usize,
        length: Option<usize>,
    ) -> Result<Bytes, String> {
        let path = self.resolve(location)?;
        if !self.mapped.contains_key(&path) {
            let bytes = map(&path).map_err(|error| error.to_string())?;
            self.mapped.insert(path.clone(), bytes);
        }
        let bytes = &self.mapped[&path];
        let length = length.unwrap_or(bytes.len().saturating_sub(offset));
        match offset.checked_add(length) {
            Some(end) if end <= bytes.len() => Ok(bytes.slice(offset..end)),
            _ => Err(format!(
                "bytes {offset} to {} were asked for, but the file has only {}",
                offset.saturating_add(length),
                bytes.len()
            )),
        }
    }

    /// The path of `location`, which must lie in the folder even when symbolic links are followed.
    fn resolve(&self, location: &str) -> Result<PathBuf, String> {
        let outside = "external data must lie in the model's folder";
        let folder = self.folder.as_ref().ok_or("the model was given as bytes, without a folder")?;
        let relative = Path::new(location);
        if relative.components().any(|c| !matches!(c, Component::Normal(_) | Component::CurDir)) {
            return Err(outside.into());
        }
        let folder = folder.canonicalize().map_err(|error| error.to_string())?;
        let path = folder.join(relative).canonicalize().map_err(|error| error.to_string())?;
        if !path.starts_with(&folder) {
            return Err(format!("{outside}, and this is a link that leads out of it"));
        }
        Ok(path)
    }
}
