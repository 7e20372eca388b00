//! The artefact's file: a header, then three sections.
//!
//! ```text
//!   0  magic           8 bytes, "talweg\r\n"
//!   8  version         u32
//!  12  zero            u32
//!  16  manifest        offset u64, length u64     JSON, see `manifest`
//!  32  objects         offset u64, length u64     ELF objects, one for each kernel
//!  48  weights         offset u64, length u64     laid out as kernels read them; starts on a page
//!  64  checksum        u64 of manifest and objects
//!  72  checksum        u64 of weights: of the checksums of their chunks of 1 MiB, so that chunks are read in parallel
//!  80  checksum        u64 of the 80 bytes above
//! 128  sections, in this order
//! ```
//! Numbers are little endian, checksums are XXH3. Offsets count from the beginning of the file.

use std::io::{self, Seek, SeekFrom, Write};
use std::ops::Range;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::manifest::Manifest;

/// The version this code reads and writes.
pub const VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"talweg\r\n";
const HEADER: usize = 128;
const SUMMED: usize = 80;
/// Weights begin on a page, so that a mapped file has them aligned.
const PAGE: u64 = 4096;
/// Weights are summed up in pieces of this size.
pub const CHUNK: usize = 1 << 20;

/// Why bytes are not an artefact.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContainerError {
    /// Another kind of file.
    #[error("this is not a talweg artefact; make one with `talweg compile model.onnx -o model.talweg`")]
    NotAnArtefact,
    /// A version this code does not know.
    #[error(
        "the artefact has format version {found}, this talweg reads version {VERSION}; compile the model again"
    )]
    Version {
        /// The file's version.
        found: u32,
    },
    /// The file ends too early.
    #[error(
        "the artefact is cut short: {what} should end at byte {end}, the file has {have}; copy or compile it again"
    )]
    Truncated {
        /// What is missing.
        what: &'static str,
        /// Where it should end.
        end: u64,
        /// The file's length.
        have: u64,
    },
    /// A checksum does not match.
    #[error("the artefact is damaged: the checksum of its {what} does not match; copy or compile it again")]
    Damaged {
        /// The damaged part.
        what: &'static str,
    },
    /// Sections lie in each other, or in the header.
    #[error("the artefact is damaged: its sections overlap; copy or compile it again")]
    Overlap,
    /// The manifest does not parse or contradicts itself.
    #[error("the artefact's manifest is broken: {0}; compile the model again")]
    Manifest(String),
}

/// An artefact's parts, within the bytes of its file.
#[derive(Debug, Clone)]
pub struct Container {
    /// What it says about itself.
    pub manifest: Manifest,
    /// Where the objects are.
    pub objects: Range<usize>,
    /// Where the weights are.
    pub weights: Range<usize>,
    /// The checksum the weights must have.
    weights_sum: u64,
}

/// The beginning of a file: where its sections are.
#[derive(Debug, Clone)]
pub struct Header {
    manifest: Range<usize>,
    objects: Range<usize>,
    weights: Range<usize>,
    head_sum: u64,
    weights_sum: u64,
}

impl Header {
    /// The size of the header.
    pub const BYTES: usize = HEADER;

    /// Reads the header of a file of `length` bytes.
    pub fn parse(bytes: &[u8], length: u64) -> Result<Header, ContainerError> {
        if bytes.len() < HEADER {
            let cut = ContainerError::Truncated { what: "the header", end: HEADER as u64, have: length };
            return Err(if bytes.starts_with(MAGIC) { cut } else { ContainerError::NotAnArtefact });
        }
        if !bytes.starts_with(MAGIC) {
            return Err(ContainerError::NotAnArtefact);
        }
        let version = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        if version != VERSION {
            return Err(ContainerError::Version { found: version });
        }
        let number = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        if xxh3_64(&bytes[..SUMMED]) != number(SUMMED) {
            return Err(ContainerError::Damaged { what: "header" });
        }
        let section = |at: usize, what: &'static str| {
            let (offset, bytes) = (number(at), number(at + 8));
            let end = offset.saturating_add(bytes);
            if end > length {
                return Err(ContainerError::Truncated { what, end, have: length });
            }
            Ok(offset as usize..end as usize)
        };
        let header = Header {
            manifest: section(16, "the manifest")?,
            objects: section(32, "the section of kernels")?,
            weights: section(48, "the section of weights")?,
            head_sum: number(64),
            weights_sum: number(72),
        };
        if header.manifest.start < HEADER || header.objects.end > header.weights.start {
            return Err(ContainerError::Overlap);
        }
        Ok(header)
    }

    /// The bytes before the weights: header, manifest and objects.
    pub fn head_bytes(&self) -> usize {
        self.objects.end.max(self.manifest.end)
    }
}

impl Container {
    /// Reads and checks everything before the weights; `head` holds at least [`Header::head_bytes`] bytes.
    pub fn parse_head(header: Header, head: &[u8]) -> Result<Container, ContainerError> {
        let mut sum = Xxh3::new();
        sum.update(&head[header.manifest.clone()]);
        sum.update(&head[header.objects.clone()]);
        if sum.digest() != header.head_sum {
            return Err(ContainerError::Damaged { what: "manifest and kernels" });
        }
        let manifest: Manifest = serde_json::from_slice(&head[header.manifest])
            .map_err(|error| ContainerError::Manifest(error.to_string()))?;
        manifest
            .check(header.objects.len() as u64, header.weights.len() as u64)
            .map_err(ContainerError::Manifest)?;
        let Header { objects, weights, weights_sum, .. } = header;
        Ok(Container { manifest, objects, weights, weights_sum })
    }

    /// Reads and checks an artefact's bytes, weights included.
    pub fn parse(bytes: &[u8]) -> Result<Container, ContainerError> {
        let header = Header::parse(bytes, bytes.len() as u64)?;
        let container = Container::parse_head(header, bytes)?;
        let sums: Vec<u64> = bytes[container.weights.clone()].chunks(CHUNK).map(xxh3_64).collect();
        container.check_weights(&sums)?;
        Ok(container)
    }

    /// Compares the checksums of the weights' chunks with what the file says.
    pub fn check_weights(&self, chunks: &[u64]) -> Result<(), ContainerError> {
        if combine(chunks) == self.weights_sum {
            return Ok(());
        }
        Err(ContainerError::Damaged { what: "weights" })
    }

    /// Writes an artefact. `weights` is called once and writes exactly `weights_bytes` bytes.
    pub fn write<W: Write + Seek>(
        mut to: W,
        manifest: &Manifest,
        objects: &[u8],
        weights_bytes: u64,
        weights: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let manifest = serde_json::to_vec(manifest).map_err(io::Error::other)?;
        let manifest_at = HEADER as u64;
        let objects_at = (manifest_at + manifest.len() as u64).next_multiple_of(64);
        let weights_at = (objects_at + objects.len() as u64).next_multiple_of(PAGE);
        to.write_all(&[0; HEADER])?;
        to.write_all(&manifest)?;
        pad(&mut to, objects_at - manifest_at - manifest.len() as u64)?;
        to.write_all(objects)?;
        pad(&mut to, weights_at - objects_at - objects.len() as u64)?;
        let mut summing = Summing { to: &mut to, sum: Xxh3::new(), sums: Vec::new(), written: 0 };
        weights(&mut summing)?;
        let (weights_sum, written) = (summing.finish(), summing.written);
        if written != weights_bytes {
            return Err(io::Error::other(format!(
                "{written} bytes of weights written, {weights_bytes} expected"
            )));
        }
        let mut sum = Xxh3::new();
        sum.update(&manifest);
        sum.update(objects);
        let mut header = Vec::with_capacity(HEADER);
        header.extend(MAGIC);
        header.extend(VERSION.to_le_bytes());
        header.extend(0u32.to_le_bytes());
        let sections = [
            (manifest_at, manifest.len() as u64),
            (objects_at, objects.len() as u64),
            (weights_at, weights_bytes),
        ];
        for (offset, length) in sections {
            header.extend(offset.to_le_bytes());
            header.extend(length.to_le_bytes());
        }
        header.extend(sum.digest().to_le_bytes());
        header.extend(weights_sum.to_le_bytes());
        header.extend(xxh3_64(&header).to_le_bytes());
        to.seek(SeekFrom::Start(0))?;
        to.write_all(&header)?;
        to.flush()
    }
}

fn pad(to: &mut impl Write, bytes: u64) -> io::Result<()> {
    to.write_all(&vec![0; bytes as usize])
}

/// The checksum of a chunk of weights.
pub fn chunk_sum(chunk: &[u8]) -> u64 {
    xxh3_64(chunk)
}

fn combine(chunks: &[u64]) -> u64 {
    let bytes: Vec<u8> = chunks.iter().flat_map(|sum| sum.to_le_bytes()).collect();
    xxh3_64(&bytes)
}

/// Passes bytes on and sums them up, chunk by chunk.
struct Summing<'a, W> {
    to: &'a mut W,
    sum: Xxh3,
    sums: Vec<u64>,
    written: u64,
}

impl<W> Summing<'_, W> {
    fn finish(&mut self) -> u64 {
        if !self.written.is_multiple_of(CHUNK as u64) {
            self.sums.push(self.sum.digest());
        }
        combine(&self.sums)
    }
}

impl<W: Write> Write for Summing<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = CHUNK - (self.written % CHUNK as u64) as usize;
        let count = self.to.write(&bytes[..bytes.len().min(room)])?;
        self.sum.update(&bytes[..count]);
        self.written += count as u64;
        if self.written.is_multiple_of(CHUNK as u64) && count > 0 {
            self.sums.push(self.sum.digest());
            self.sum.reset();
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn empty() -> Manifest {
        Manifest {
            model: "m".into(),
            tool: "t".into(),
            arch: "x86-64".into(),
            features: Vec::new(),
            arena_bytes: 0,
            inputs: Vec::new(),
            outputs: Vec::new(),
            kernels: Vec::new(),
            steps: Vec::new(),
        }
    }

    fn file() -> Vec<u8> {
        let mut file = Cursor::new(Vec::new());
        Container::write(&mut file, &empty(), b"code", 64, |to| to.write_all(&[7; 64])).unwrap();
        file.into_inner()
    }

    #[test]
    fn weights_of_several_chunks_are_summed_alike() {
        for bytes in [0, CHUNK - 64, CHUNK, CHUNK + 64, 2 * CHUNK, 2 * CHUNK + 1] {
            let weights: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
            let mut file = Cursor::new(Vec::new());
            let write = |to: &mut dyn Write| {
                let (a, b) = weights.split_at(bytes / 3);
                to.write_all(a)?;
                to.write_all(b)
            };
            Container::write(&mut file, &empty(), b"code", bytes as u64, write).unwrap();
            let file = file.into_inner();
            let container = Container::parse(&file).unwrap();
            assert_eq!(&file[container.weights], weights);
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = file();
        let container = Container::parse(&bytes).unwrap();
        assert_eq!(container.manifest, empty());
        assert_eq!(&bytes[container.objects], b"code");
        assert_eq!(container.weights.start % PAGE as usize, 0);
        assert_eq!(&bytes[container.weights], [7; 64]);
    }

    #[test]
    fn every_damaged_byte_is_noticed() {
        let bytes = file();
        let container = Container::parse(&bytes).unwrap();
        let mut summed: Vec<usize> = (0..88).collect();
        summed.extend(HEADER..HEADER + 20);
        summed.extend(container.objects);
        summed.extend(container.weights);
        for at in summed {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(Container::parse(&damaged).is_err(), "byte {at}");
        }
    }

    #[test]
    fn every_cut_is_noticed() {
        let bytes = file();
        for length in 0..bytes.len() {
            assert!(Container::parse(&bytes[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn other_versions_are_named() {
        let mut bytes = file();
        bytes[8] = 9;
        let error = Container::parse(&bytes).unwrap_err();
        assert_eq!(error, ContainerError::Version { found: 9 });
    }
}
