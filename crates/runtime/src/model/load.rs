//! A file to callable kernels and mapped weights.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use memmap2::Mmap;

use super::container::{Container, ContainerError};
use super::cpu;
use super::manifest::Manifest;
use crate::abi::{BUFFER_ALIGNMENT, KernelFn};
use crate::aligned_buffer::{AlignedBuffer, AllocError};
use crate::object_loader::{LoadError, LoadedObject};

/// Why an artefact cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The file cannot be read.
    #[error("cannot read the artefact `{}`: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The bytes are not a sound artefact.
    #[error("{0}")]
    Container(#[from] ContainerError),
    /// The machine code is for another processor family.
    #[error("the artefact holds code for {wanted}, this machine is {here}; compile the model for this machine", here = cpu::ARCH)]
    OtherArch {
        /// The family of the code.
        wanted: String,
    },
    /// This processor lacks features.
    #[error("the artefact needs the CPU features {}, which this machine lacks; compile the model on or for this machine (`--target`)", .0.join(", "))]
    MissingFeatures(Vec<String>),
    /// A kernel's machine code does not load.
    #[error("kernel `{symbol}`: {source}; compile the model again")]
    Kernel {
        /// The kernel.
        symbol: String,
        /// What is wrong with it.
        source: LoadError,
    },
    /// No memory for the weights.
    #[error("{0}")]
    Memory(#[from] AllocError),
}

/// The weights: within the mapped file, or copied where the file's bytes are not aligned.
#[derive(Debug)]
enum Weights {
    Mapped(Bytes),
    Copied(AlignedBuffer),
}

/// A loaded artefact, shared by any number of [`Session`](super::Session)s.
#[derive(Debug)]
pub struct Model {
    manifest: Manifest,
    kernels: Vec<KernelFn>,
    /// Keeps the code mapped.
    _objects: Vec<LoadedObject>,
    weights: Weights,
}

impl Model {
    /// Maps and checks an artefact's file.
    pub fn open(path: impl AsRef<Path>) -> Result<Model, ModelError> {
        let path = path.as_ref();
        let unreadable = |source| ModelError::Unreadable { path: path.to_path_buf(), source };
        let file = File::open(path).map_err(unreadable)?;
        let regular = file.metadata().map_err(unreadable)?.is_file();
        if !regular {
            return Err(unreadable(io::Error::other("it is not a regular file")));
        }
        // SAFETY: the mapping is private and only read; an artefact is replaced by renaming, never written in place.
        let map = unsafe { Mmap::map(&file) }.map_err(unreadable)?;
        Model::from_bytes(Bytes::from_owner(map))
    }

    /// Checks an artefact that is in memory already, for example embedded in a program.
    pub fn from_bytes(bytes: Bytes) -> Result<Model, ModelError> {
        let container = Container::parse(&bytes, true)?;
        let manifest = container.manifest;
        if manifest.arch != cpu::ARCH {
            return Err(ModelError::OtherArch { wanted: manifest.arch });
        }
        let missing: Vec<String> = manifest.features.iter().filter(|f| !cpu::has(f)).cloned().collect();
        if !missing.is_empty() {
            return Err(ModelError::MissingFeatures(missing));
        }
        let code = &bytes[container.objects];
        let mut objects = Vec::with_capacity(manifest.kernels.len());
        let mut kernels = Vec::with_capacity(manifest.kernels.len());
        for kernel in &manifest.kernels {
            let wrong = |source| ModelError::Kernel { symbol: kernel.symbol.clone(), source };
            let start = kernel.object_offset as usize;
            let object =
                LoadedObject::load(&code[start..start + kernel.object_bytes as usize]).map_err(wrong)?;
            // SAFETY: the artefact's writer put a function of this signature under this name; the checksums say that
            // nothing happened to it since.
            kernels.push(unsafe { object.kernel(&kernel.symbol) }.map_err(wrong)?);
            objects.push(object);
        }
        let weights = bytes.slice(container.weights);
        let aligned = weights.as_ptr().addr().is_multiple_of(BUFFER_ALIGNMENT);
        let weights = if aligned {
            Weights::Mapped(weights)
        } else {
            Weights::Copied(AlignedBuffer::from_slice(&weights)?)
        };
        Ok(Model { manifest, kernels, _objects: objects, weights })
    }

    /// What the artefact says about itself.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// A kernel's function, by its position in the manifest.
    pub(crate) fn kernel(&self, at: usize) -> KernelFn {
        self.kernels[at]
    }

    /// The weights.
    pub fn weights(&self) -> &[u8] {
        match &self.weights {
            Weights::Mapped(bytes) => bytes,
            Weights::Copied(buffer) => buffer.view(),
        }
    }
}
