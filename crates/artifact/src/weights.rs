//! Constants as kernels read them, each stored once.

use std::collections::BTreeMap;
use std::io::{self, Write};

use talweg_expr::Expr;
use talweg_graph::ValueId;
use talweg_ir::{Array, InterpError, Nest, Pack, run_pack};
use talweg_runtime::BUFFER_ALIGNMENT;
use talweg_tensor::Tensor;

/// One stored constant.
enum Blob {
    /// As the model has it.
    Raw(Tensor),
    /// Laid out anew.
    Packed(Array),
}

impl Blob {
    fn bytes(&self) -> &[u8] {
        match self {
            Blob::Raw(tensor) => tensor.bytes(),
            Blob::Packed(array) => array.bytes(),
        }
    }
}

/// The section of weights while it is put together.
#[derive(Default)]
pub struct Weights {
    blobs: Vec<Blob>,
    offsets: Vec<u64>,
    bytes: u64,
    known: BTreeMap<(ValueId, String), u64>,
}

impl Weights {
    /// The offset of a constant as it is.
    pub fn raw(&mut self, value: ValueId, tensor: &Tensor) -> u64 {
        let key = (value, String::new());
        if let Some(offset) = self.known.get(&key) {
            return *offset;
        }
        self.push(key, Blob::Raw(tensor.clone()))
    }

    /// The offset of a constant laid out as a kernel's pack asks.
    pub fn packed(
        &mut self,
        value: ValueId,
        tensor: &Tensor,
        nest: &Nest,
        pack: &Pack,
    ) -> Result<u64, InterpError> {
        let key = (value, pack_text(nest, pack));
        if let Some(offset) = self.known.get(&key) {
            return Ok(*offset);
        }
        let source = nest.buffer(pack.source);
        let shape: Vec<usize> = source
            .shape
            .iter()
            .map(|e| e.as_int().and_then(|n| usize::try_from(n).ok()).unwrap_or(0))
            .collect();
        let name = source.name.clone();
        let mut array =
            Array::try_zeros(source.dtype, &shape).map_err(|source| InterpError::Storage { name, source })?;
        array.bytes_mut().copy_from_slice(tensor.bytes());
        let packed = run_pack(nest, pack, &array)?;
        Ok(self.push(key, Blob::Packed(packed)))
    }

    fn push(&mut self, key: (ValueId, String), blob: Blob) -> u64 {
        let offset = self.bytes;
        self.bytes = (offset + blob.bytes().len() as u64).next_multiple_of(BUFFER_ALIGNMENT as u64);
        self.offsets.push(offset);
        self.blobs.push(blob);
        self.known.insert(key, offset);
        offset
    }

    /// The section's size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes the section.
    pub fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        let mut at = 0;
        for (blob, offset) in self.blobs.iter().zip(&self.offsets) {
            to.write_all(&[0; BUFFER_ALIGNMENT][..(offset - at) as usize])?;
            to.write_all(blob.bytes())?;
            at = offset + blob.bytes().len() as u64;
        }
        to.write_all(&[0; BUFFER_ALIGNMENT][..(self.bytes - at) as usize])
    }
}

/// What a pack does, as a key.
fn pack_text(nest: &Nest, pack: &Pack) -> String {
    let packed = nest.buffer(pack.packed);
    let mut text = String::new();
    for (axis, extent) in pack.axes.iter().zip(&packed.shape) {
        text += &format!("{}={extent} ", Expr::sym(axis));
    }
    for index in &pack.indices {
        text += &format!("[{index}]");
    }
    text
}
