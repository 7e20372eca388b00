//! A trained network as a file: what it is, where it comes from, its numbers, a checksum.
//!
//! Layout, all numbers little-endian: the mark `talwegNN`, the version (u32), the length of the description (u32), the
//! description (JSON), the means, scales and parameters (f32), the checksum of everything before (u64).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::inputs::Inputs;
use super::network::Mlp;
use super::shape::Shape;
use crate::error::CostError;

const MARK: &[u8; 8] = b"talwegNN";
const VERSION: u32 = 1;
/// Numbers a description may ask for; far above any real network.
const MOST: usize = 1 << 26;

/// A trained network, and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The network.
    pub mlp: Mlp,
    /// The command that made it.
    pub command: String,
    /// What else there is to say: the data, the settings, how well it does. Names and texts.
    pub about: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
struct Description {
    width: usize,
    used: Vec<u32>,
    hidden: usize,
    command: String,
    about: BTreeMap<String, String>,
}

/// FNV-1a, 64 bits.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn wrong(text: impl Into<String>) -> CostError {
    CostError::Text { text: text.into() }
}

impl Checkpoint {
    /// The file's content. A context of the network is not part of it.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CostError> {
        let inputs = &self.mlp.inputs;
        let description = Description {
            width: inputs.width,
            used: inputs.used.clone(),
            hidden: self.mlp.shape.hidden,
            command: self.command.clone(),
            about: self.about.clone(),
        };
        let text = serde_json::to_vec(&description).map_err(|e| wrong(e.to_string()))?;
        let length = u32::try_from(text.len()).map_err(|_| wrong("the description is too long"))?;
        let mut out = MARK.to_vec();
        out.extend(VERSION.to_le_bytes());
        out.extend(length.to_le_bytes());
        out.extend(text);
        for x in inputs.mean.iter().chain(&inputs.scale).chain(&self.mlp.parameters) {
            out.extend(x.to_le_bytes());
        }
        out.extend(checksum(&out).to_le_bytes());
        Ok(out)
    }

    /// Reads a file's content.
    pub fn from_bytes(bytes: &[u8]) -> Result<Checkpoint, CostError> {
        let rest = bytes.strip_prefix(MARK).ok_or_else(|| wrong("it does not begin as a checkpoint"))?;
        let (version, rest) = rest.split_first_chunk().ok_or_else(|| wrong("it ends early"))?;
        let version = u32::from_le_bytes(*version);
        if version != VERSION {
            return Err(wrong(format!("it has version {version}, and this program reads {VERSION}")));
        }
        let (content, sum) = bytes.split_last_chunk().ok_or_else(|| wrong("it ends early"))?;
        if checksum(content) != u64::from_le_bytes(*sum) {
            return Err(wrong("its checksum does not match its content"));
        }
        let (length, rest) = rest.split_first_chunk().ok_or_else(|| wrong("it ends early"))?;
        let rest = rest.get(..rest.len().saturating_sub(size_of::<u64>())).unwrap_or_default();
        let length = u32::from_le_bytes(*length) as usize;
        let (text, numbers) =
            rest.split_at_checked(length).ok_or_else(|| wrong("its description ends early"))?;
        let description: Description = serde_json::from_slice(text).map_err(|e| wrong(e.to_string()))?;
        let Description { width, used, hidden, command, about } = description;
        let ascending = used.windows(2).all(|w| w[0] < w[1]);
        if width > MOST || !ascending || used.last().is_some_and(|last| *last as usize >= width) {
            return Err(wrong("its columns are out of range"));
        }
        let shape = Shape::new(used.len(), hidden)?;
        let expected = 2 * used.len() + shape.len;
        if numbers.len() != expected * size_of::<f32>() {
            let found = numbers.len() / size_of::<f32>();
            return Err(CostError::Shape { what: "checkpoint numbers", expected, found });
        }
        let mut numbers =
            numbers.chunks_exact(size_of::<f32>()).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let mean: Vec<f32> = numbers.by_ref().take(used.len()).collect();
        let scale: Vec<f32> = numbers.by_ref().take(used.len()).collect();
        let parameters: Vec<f32> = numbers.collect();
        if !mean.iter().chain(&scale).chain(&parameters).all(|x| x.is_finite()) {
            return Err(wrong("it has numbers that are not finite"));
        }
        let inputs = Inputs { width, used, mean, scale, context: Vec::new() };
        let mlp = Mlp::with_parameters(inputs, shape, parameters)?;
        Ok(Checkpoint { mlp, command, about })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Matrix;

    fn checkpoint() -> Checkpoint {
        let features = Matrix::new(2, 3, vec![0.0, 1.0, 2.0, 3.0, 1.0, 5.0]).unwrap();
        let mlp = Mlp::new(Inputs::of(&features).unwrap(), 32, 7).unwrap();
        let about = BTreeMap::from([("programs".to_string(), "12".to_string())]);
        Checkpoint { mlp, command: "dataset train".into(), about }
    }

    #[test]
    fn files_are_read_back() {
        let checkpoint = checkpoint();
        let bytes = checkpoint.to_bytes().unwrap();
        assert_eq!(Checkpoint::from_bytes(&bytes), Ok(checkpoint));
    }

    #[test]
    fn damaged_files_are_refused() {
        let bytes = checkpoint().to_bytes().unwrap();
        for end in (0..bytes.len()).step_by(997).chain(bytes.len() - 9..bytes.len()) {
            assert!(Checkpoint::from_bytes(&bytes[..end]).is_err(), "cut at {end}");
        }
        for at in (0..200).chain((200..bytes.len()).step_by(1009)).chain([bytes.len() - 1]) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert!(Checkpoint::from_bytes(&damaged).is_err(), "changed at {at}");
        }
    }

    #[test]
    fn a_right_checksum_does_not_excuse_a_wrong_content() {
        let signed = |mut bytes: Vec<u8>| {
            bytes.truncate(bytes.len() - 8);
            let sum = checksum(&bytes);
            bytes.extend(sum.to_le_bytes());
            Checkpoint::from_bytes(&bytes)
        };
        let good = checkpoint().to_bytes().unwrap();
        assert!(signed(good.clone()).is_ok());
        let mut long = good.clone();
        long[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(signed(long).is_err());
        let mut infinite = good.clone();
        let at = good.len() - 12;
        infinite[at..at + 4].copy_from_slice(&f32::INFINITY.to_le_bytes());
        assert!(signed(infinite).is_err());
        let mut short = good.clone();
        short.drain(good.len() - 12..good.len() - 8);
        assert!(signed(short).is_err());
        let newer = {
            let mut bytes = good;
            bytes[8] = 9;
            signed(bytes).unwrap_err().to_string()
        };
        assert!(newer.contains("version 9"), "{newer}");
    }
}
