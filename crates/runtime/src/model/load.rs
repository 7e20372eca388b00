//! A file to callable kernels and weights in memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::container::{CHUNK, Container, ContainerError, Header, chunk_sum};
use super::cpu;
use super::manifest::Manifest;
use crate::abi::KernelFn;
use crate::aligned_buffer::{AlignedBuffer, AllocError, HugePages};
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

/// A loaded artefact, shared by any number of [`Session`](super::Session)s.
#[derive(Debug)]
pub struct Model {
    manifest: Manifest,
    kernels: Vec<KernelFn>,
    /// Keeps the code mapped.
    _objects: Vec<LoadedObject>,
    weights: AlignedBuffer,
}

impl Model {
    /// Reads and checks an artefact's file. The weights go into huge pages: kernels stream through them on every run,
    /// and small pages cost a network whose weights do not fit the caches a quarter of its time.
    pub fn open(path: impl AsRef<Path>) -> Result<Model, ModelError> {
        let path = path.as_ref();
        let unreadable = |source| ModelError::Unreadable { path: path.to_path_buf(), source };
        let file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(unreadable(io::Error::other("it is not a regular file")));
        }
        let mut head = vec![0; Header::BYTES.min(metadata.len() as usize)];
        file.read_exact_at(&mut head, 0).map_err(unreadable)?;
        let header = Header::parse(&head, metadata.len())?;
        head.resize(header.head_bytes(), 0);
        file.read_exact_at(&mut head, 0).map_err(unreadable)?;
        let container = Container::parse_head(header, &head)?;
        let start = container.weights.start;
        let read = |offset: usize, to: &mut [u8]| file.read_exact_at(to, (start + offset) as u64);
        let weights = gather(container.weights.len(), &read);
        let (weights, sums) = weights.map_err(|e| match e {
            Gather::Memory(e) => ModelError::Memory(e),
            Gather::Read(e) => unreadable(e),
        })?;
        container.check_weights(&sums)?;
        Model::load(container, &head, weights)
    }

    /// Checks an artefact that is in memory already, for example embedded in a program, and copies its weights.
    pub fn from_bytes(bytes: &[u8]) -> Result<Model, ModelError> {
        let header = Header::parse(bytes, bytes.len() as u64)?;
        let container = Container::parse_head(header, bytes)?;
        let source = &bytes[container.weights.clone()];
        let read = |offset: usize, to: &mut [u8]| {
            to.copy_from_slice(&source[offset..offset + to.len()]);
            Ok(())
        };
        let (weights, sums) = gather(source.len(), &read).map_err(|e| match e {
            Gather::Memory(e) => ModelError::Memory(e),
            Gather::Read(source) => ModelError::Unreadable { path: PathBuf::from("memory"), source },
        })?;
        container.check_weights(&sums)?;
        Model::load(container, bytes, weights)
    }

    fn load(container: Container, head: &[u8], weights: AlignedBuffer) -> Result<Model, ModelError> {
        let manifest = container.manifest;
        if manifest.arch != cpu::ARCH {
            return Err(ModelError::OtherArch { wanted: manifest.arch });
        }
        let missing: Vec<String> = manifest.features.iter().filter(|f| !cpu::has(f)).cloned().collect();
        if !missing.is_empty() {
            return Err(ModelError::MissingFeatures(missing));
        }
        let code = &head[container.objects];
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
        self.weights.view()
    }
}

/// Why weights could not be gathered.
enum Gather {
    Memory(AllocError),
    Read(io::Error),
}

/// Fills aligned memory from a source, chunk by chunk on all cores, and sums up each chunk.
fn gather(
    bytes: usize,
    read: &(dyn Fn(usize, &mut [u8]) -> io::Result<()> + Sync),
) -> Result<(AlignedBuffer, Vec<u64>), Gather> {
    let mut memory = AlignedBuffer::zeroed_with(bytes, HugePages::Advise).map_err(Gather::Memory)?;
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(8);
    let chunks: Vec<(usize, &mut [u8])> = memory.view_mut::<u8>().chunks_mut(CHUNK).enumerate().collect();
    let count = chunks.len();
    // Neighbouring chunks go to one thread, so that each huge page is first touched by one.
    let share = count.div_ceil(threads).max(1);
    let mut parts: Vec<Vec<(usize, &mut [u8])>> = Vec::new();
    let mut rest = chunks.into_iter();
    loop {
        let part: Vec<_> = rest.by_ref().take(share).collect();
        if part.is_empty() {
            break;
        }
        parts.push(part);
    }
    let work = |part: Vec<(usize, &mut [u8])>| {
        let one = |(at, chunk): (usize, &mut [u8])| read(at * CHUNK, chunk).map(|()| chunk_sum(chunk));
        part.into_iter().map(one).collect::<io::Result<Vec<u64>>>()
    };
    let sums: io::Result<Vec<Vec<u64>>> = std::thread::scope(|scope| {
        let last = parts.pop();
        let handles: Vec<_> = parts.into_iter().map(|part| scope.spawn(|| work(part))).collect();
        let last = last.map_or(Ok(Vec::new()), work);
        let died = |_| Err(io::Error::other("a reading thread died"));
        let mut sums: io::Result<Vec<Vec<u64>>> =
            handles.into_iter().map(|h| h.join().unwrap_or_else(died)).collect();
        if let Ok(all) = &mut sums {
            all.push(last?);
        }
        sums
    });
    Ok((memory, sums.map_err(Gather::Read)?.concat()))
}
