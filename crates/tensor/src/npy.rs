//! numpy's files: `.npy` for one tensor, `.npz` for several by name.

use std::io::{Cursor, Read, Seek, Write};

use bytes::Bytes;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::element::ElementType;
use crate::tensor::{Tensor, TensorError};
use crate::walk::{copy_strided, strides};

const MAGIC: &[u8] = b"\x93NUMPY";

/// Why a file of numpy cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum NpyError {
    /// The file is something else.
    #[error("this is not an .npy file: it does not begin with numpy's signature")]
    NotNpy,
    /// The file ends too early.
    #[error("the .npy file is truncated: {wanted} bytes expected, {found} there")]
    Truncated {
        /// Bytes the header promises.
        wanted: usize,
        /// Bytes there are.
        found: usize,
    },
    /// The header does not say what it must.
    #[error("the .npy header is malformed: {0}")]
    Header(String),
    /// numpy has the element type, but networks do not.
    #[error(
        "elements of numpy's type `{0}` are not supported; save the array after `.astype` to a plain number type"
    )]
    Type(String),
    /// The data does not fill the shape.
    #[error("the .npy file does not hold what its header says: {0}")]
    Tensor(#[from] TensorError),
    /// The archive is damaged, or cannot be written.
    #[error("the .npz archive cannot be used: {0}")]
    Archive(#[from] zip::result::ZipError),
    /// A member of an archive is not a tensor.
    #[error("member `{name}` of the .npz archive: {error}")]
    Member {
        /// The member.
        name: String,
        /// What is wrong with it.
        error: Box<NpyError>,
    },
    /// Reading or writing failed.
    #[error("reading or writing failed: {0}")]
    Io(#[from] std::io::Error),
}

/// numpy's name of an element type, without the byte order. numpy itself has no bfloat16: the package `ml_dtypes`,
/// which adds it, stores it as two raw bytes, to be read with `.view(bfloat16)`.
fn numpy_name(element: ElementType) -> &'static str {
    match element {
        ElementType::F32 => "f4",
        ElementType::F64 => "f8",
        ElementType::F16 => "f2",
        ElementType::BF16 => "V2",
        ElementType::I8 => "i1",
        ElementType::I16 => "i2",
        ElementType::I32 => "i4",
        ElementType::I64 => "i8",
        ElementType::U8 => "u1",
        ElementType::U16 => "u2",
        ElementType::U32 => "u4",
        ElementType::U64 => "u8",
        ElementType::Bool => "b1",
    }
}

/// What the header of a file says.
#[derive(Debug, PartialEq)]
struct Header {
    element: ElementType,
    big_endian: bool,
    fortran: bool,
    shape: Vec<usize>,
}

/// Reads an `.npy` file that is in memory. Elements in Fortran order or big endian are rearranged.
pub fn read_npy(file: &[u8]) -> Result<Tensor, NpyError> {
    let (header, data) = split(file)?;
    let header = parse(header)?;
    let size = header.element.bytes();
    let count = header.shape.iter().try_fold(size, |count, &extent| count.checked_mul(extent.max(1)));
    let Some(_) = count else {
        return Err(TensorError::TooLarge(header.shape).into());
    };
    let wanted = header.shape.iter().product::<usize>() * size;
    if data.len() < wanted {
        return Err(NpyError::Truncated { wanted, found: data.len() });
    }
    let mut data = data[..wanted].to_vec();
    if header.big_endian {
        data.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    if header.element == ElementType::Bool {
        data.iter_mut().for_each(|value| *value = u8::from(*value != 0));
    }
    if header.fortran && header.shape.len() > 1 {
        data = from_fortran(&data, &header.shape, size);
    }
    Ok(Tensor::from_bytes(header.element, header.shape, Bytes::from(data))?)
}

/// The header's text and the data behind it.
fn split(file: &[u8]) -> Result<(&[u8], &[u8]), NpyError> {
    if !file.starts_with(MAGIC) {
        return Err(NpyError::NotNpy);
    }
    let truncated = |wanted| NpyError::Truncated { wanted, found: file.len() };
    let version = *file.get(6).ok_or_else(|| truncated(10))?;
    let (length, begin) = match version {
        1 => {
            let field = file.get(8..10).ok_or_else(|| truncated(10))?;
            (usize::from(u16::from_le_bytes([field[0], field[1]])), 10)
        }
        2 | 3 => {
            let field = file.get(8..12).ok_or_else(|| truncated(12))?;
            (u32::from_le_bytes([field[0], field[1], field[2], field[3]]) as usize, 12)
        }
        _ => return Err(NpyError::Header(format!("version {version} is not known"))),
    };
    let end = begin + length;
    let header = file.get(begin..end).ok_or_else(|| truncated(end))?;
    Ok((header, &file[end..]))
}

/// Reads the header, a Python dictionary with three known keys.
fn parse(header: &[u8]) -> Result<Header, NpyError> {
    let malformed = |what: &str| NpyError::Header(what.to_string());
    let text = std::str::from_utf8(header).map_err(|_| malformed("it is not text"))?;
    let value = |key: &str| {
        let (_, rest) = [format!("'{key}'"), format!("\"{key}\"")]
            .iter()
            .find_map(|quoted| text.split_once(quoted.as_str()))
            .ok_or_else(|| NpyError::Header(format!("it has no `{key}`")))?;
        let rest = rest.trim_start().strip_prefix(':').ok_or_else(|| malformed("a colon is missing"))?;
        Ok::<&str, NpyError>(rest.trim_start())
    };
    let descr = value("descr")?;
    let quote = descr.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let name = quote.and_then(|quote| descr[1..].split(quote).next());
    let name = name.ok_or_else(|| NpyError::Type(descr.chars().take(40).collect()))?;
    let (order, plain) = match name.as_bytes().first() {
        Some(b'<' | b'>' | b'|' | b'=') => name.split_at(1),
        _ => ("<", name),
    };
    let plain = if plain == "?" { "b1" } else { plain };
    let known = ElementType::ALL.iter().find(|element| numpy_name(**element) == plain);
    let element = known.ok_or_else(|| NpyError::Type(name.to_string()))?;
    let fortran = match value("fortran_order")? {
        order if order.starts_with("True") => true,
        order if order.starts_with("False") => false,
        _ => return Err(malformed("`fortran_order` is neither True nor False")),
    };
    let shape = value("shape")?;
    let inner = shape.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let (inner, _) = inner.ok_or_else(|| malformed("`shape` is not a tuple"))?;
    let extents = inner.split(',').map(str::trim).filter(|extent| !extent.is_empty());
    let shape = extents.map(|extent| extent.trim_end_matches('L').parse::<usize>()).collect::<Result<_, _>>();
    let shape = shape.map_err(|_| malformed("`shape` holds something other than extents"))?;
    Ok(Header { element: *element, big_endian: order == ">", fortran, shape })
}

/// Elements whose first axis runs fastest, in row-major order.
fn from_fortran(data: &[u8], shape: &[usize], size: usize) -> Vec<u8> {
    let reversed: Vec<usize> = shape.iter().rev().copied().collect();
    let mut steps: Vec<isize> =
        strides(&reversed).into_iter().rev().map(|stride| stride * size as isize).collect();
    steps.push(1);
    copy_strided(data, 0, &[shape, &[size]].concat(), &steps)
}

/// The bytes of an `.npy` file with the tensor, in C order.
pub fn write_npy(tensor: &Tensor) -> Vec<u8> {
    let element = tensor.element();
    let name = numpy_name(element);
    let order = if element.bytes() == 1 || element == ElementType::BF16 { '|' } else { '<' };
    let mut extents = String::new();
    for extent in tensor.shape() {
        extents += &format!("{extent}, ");
    }
    let extents = if tensor.shape().len() == 1 { extents.trim_end() } else { extents.trim_end_matches(", ") };
    let mut header = format!("{{'descr': '{order}{name}', 'fortran_order': False, 'shape': ({extents}), }}");
    let long = header.len() + 64 > usize::from(u16::MAX);
    let prefix = if long { 12 } else { 10 };
    while (prefix + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut file = Vec::with_capacity(prefix + header.len() + tensor.bytes().len());
    file.extend_from_slice(MAGIC);
    if long {
        file.extend_from_slice(&[2, 0]);
        file.extend_from_slice(&(header.len() as u32).to_le_bytes());
    } else {
        file.extend_from_slice(&[1, 0]);
        file.extend_from_slice(&(header.len() as u16).to_le_bytes());
    }
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(tensor.bytes());
    file
}

/// Reads all tensors of an `.npz` archive, in its order, by the name numpy gives them.
pub fn read_npz(archive: impl Read + Seek) -> Result<Vec<(String, Tensor)>, NpyError> {
    let mut archive = ZipArchive::new(archive)?;
    let mut out = Vec::with_capacity(archive.len());
    for i in 0..archive.len() {
        let mut member = archive.by_index(i)?;
        let name = member.name().strip_suffix(".npy").unwrap_or(member.name()).to_string();
        let mut file = Vec::new();
        let read = member.read_to_end(&mut file).map_err(NpyError::from).and_then(|_| read_npy(&file));
        let tensor = read.map_err(|error| NpyError::Member { name: name.clone(), error: Box::new(error) })?;
        out.push((name, tensor));
    }
    Ok(out)
}

/// Writes tensors by name as an `.npz` archive, not compressed.
pub fn write_npz<'a>(
    target: impl Write + Seek,
    tensors: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
) -> Result<(), NpyError> {
    let mut archive = ZipWriter::new(target);
    for (name, tensor) in tensors {
        let file = write_npy(tensor);
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(file.len() >= u32::MAX as usize);
        archive.start_file(format!("{name}.npy"), options)?;
        archive.write_all(&file)?;
    }
    archive.finish()?;
    Ok(())
}

/// The bytes of an `.npz` archive with the tensors.
pub fn npz_bytes<'a>(tensors: impl IntoIterator<Item = (&'a str, &'a Tensor)>) -> Result<Vec<u8>, NpyError> {
    let mut archive = Cursor::new(Vec::new());
    write_npz(&mut archive, tensors)?;
    Ok(archive.into_inner())
}
