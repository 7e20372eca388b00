//! The conversation between the pool and its workers: frames over pipes.
//!
//! A frame is a prefix of 16 bytes (the mark `tlwg`, the header's length as u32, the payload's length as u64, little
//! endian), a header in JSON and a payload of raw bytes. A worker begins with [`Reply::Hello`] and then sends exactly
//! one reply for each request. The types here are the wire's own, so that the format changes only with
//! [`VERSION`].

use std::io::{self, Read};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::sampling::{Samples, Sampling};

/// Raised whenever a frame's meaning changes; both sides must agree.
pub const VERSION: u32 = 3;

const MARK: [u8; 4] = *b"tlwg";
const PREFIX: usize = 16;
const MAX_HEADER: u32 = 64 << 20;
const MAX_PAYLOAD: u64 = 1 << 30;

/// What the pool asks of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Compile a loop nest.
    Build(BuildRequest),
    /// Make this task the resident one: copy its inputs, map its reference outputs.
    Task(TaskRequest),
    /// Check and time the object in the payload on the resident task.
    Run(RunRequest),
}

/// What to compile, and for what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BuildRequest {
    /// The concrete loop nest in the text format.
    pub nest: String,
    /// The target's description as JSON.
    pub target: String,
    /// The code generator gives up beyond this many instructions.
    pub instruction_limit: usize,
    /// Whether the code generator checks its own output.
    pub verify: bool,
}

/// Where a task's arrays are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskRequest {
    /// Names the task for later requests.
    pub id: u64,
    /// The shared-memory file that holds all arrays.
    pub file: PathBuf,
    /// The arrays in it.
    pub arrays: Vec<ArrayPlace>,
}

/// One array in a task's file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArrayPlace {
    /// The buffer it belongs to.
    pub name: String,
    /// Its element type, by name.
    pub dtype: String,
    /// Its extents.
    pub shape: Vec<usize>,
    /// What it is for.
    pub purpose: Purpose,
    /// Where it begins in the file.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// What a task's array is for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Purpose {
    /// Passed to the kernel, or read by a pack.
    Input,
    /// Compared with what the kernel wrote: the relative error may be at most this.
    Reference {
        /// The largest acceptable relative error.
        #[serde(with = "bits")]
        tolerance: f64,
    },
}

/// What to run, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRequest {
    /// The task it belongs to, which must be resident.
    pub task: u64,
    /// The kernel in the payload.
    pub kernel: Kernel,
    /// Threads of its parallel loops.
    pub threads: usize,
    /// Whether each thread is pinned to a core of its own.
    pub pin: bool,
    /// How to time it.
    pub sampling: Sampling,
    /// Answer with the outputs of one run instead, without checking or timing it.
    pub outputs: bool,
}

/// A compiled kernel, without its code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// Its symbol.
    pub symbol: String,
    /// Workspace shared by all threads.
    pub shared_bytes: usize,
    /// Workspace of each thread.
    pub scratch_bytes: usize,
    /// What it expects behind its argument pointers.
    pub arguments: Vec<Argument>,
    /// The loop nest, for the packs that fill its packed arguments; empty when it has none.
    pub packs: String,
}

/// One argument of a kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Argument {
    /// The buffer's name in nest and task.
    pub name: String,
    /// Its element type, by name.
    pub dtype: String,
    /// Its extents.
    pub shape: Vec<usize>,
    /// Who fills it.
    pub kind: ArgumentKind,
}

/// Who fills an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArgumentKind {
    /// The task, with what another kernel would have just written.
    Given,
    /// The task, with what is the same in every run.
    Constant,
    /// A pack of the nest, from an array of the task.
    Packed,
    /// The kernel.
    Output,
}

/// What a worker answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// First frame of a worker.
    Hello {
        /// The version it speaks.
        version: u32,
    },
    /// The object is in the payload.
    Built {
        /// What it holds.
        kernel: Kernel,
        /// How long compiling took.
        seconds: f64,
    },
    /// The nest cannot be compiled.
    BuildFailed {
        /// Why.
        text: String,
    },
    /// The task is resident.
    TaskReady,
    /// The kernel ran and its outputs are right, as far as there are references.
    Ran {
        /// Its times.
        samples: Samples,
        /// The largest difference to the reference; `None` without one.
        difference: Option<Difference>,
    },
    /// The kernel ran once; its outputs are in the payload, in the order of its arguments.
    Outputs,
    /// The kernel ran and computed something else.
    Wrong {
        /// The largest difference.
        difference: Difference,
        /// What would have been acceptable.
        #[serde(with = "bits")]
        tolerance: f64,
    },
    /// The kernel wrote outside of its arrays.
    Overrun {
        /// What it damaged.
        text: String,
    },
    /// There was no memory for the request.
    OutOfMemory {
        /// What was asked for.
        text: String,
    },
    /// The request makes no sense to the worker.
    Refused {
        /// Why.
        text: String,
    },
}

/// The largest difference between an output and its reference. Numbers travel as bits: they may be infinite or NaN.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The output.
    pub output: String,
    /// The largest relative error over all outputs.
    #[serde(with = "bits")]
    pub max_rel_error: f64,
    /// Where it is.
    pub at: Vec<usize>,
    /// The reference there.
    #[serde(with = "bits")]
    pub expected: f64,
    /// What the kernel wrote there.
    #[serde(with = "bits")]
    pub got: f64,
}

mod bits {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(value.to_bits())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        u64::deserialize(from).map(f64::from_bits)
    }
}

/// The prefix and header of a frame; the payload follows them.
pub fn encode(header: &impl Serialize, payload_bytes: usize) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(header).map_err(io::Error::other)?;
    let length = u32::try_from(json.len()).ok().filter(|n| *n <= MAX_HEADER);
    let length = length.ok_or_else(|| invalid(format!("a header of {} bytes is too long", json.len())))?;
    if payload_bytes as u64 > MAX_PAYLOAD {
        return Err(invalid(format!("a payload of {payload_bytes} bytes is too long")));
    }
    let mut out = Vec::with_capacity(PREFIX + json.len());
    out.extend_from_slice(&MARK);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&(payload_bytes as u64).to_le_bytes());
    out.extend_from_slice(&json);
    Ok(out)
}

/// Reads one frame. The end of the stream before its first byte is `None`; anywhere else it is an error.
pub fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<(T, Vec<u8>)>> {
    let mut prefix = [0u8; PREFIX];
    let first = loop {
        match from.read(&mut prefix[..1]) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => break other?,
        }
    };
    if first == 0 {
        return Ok(None);
    }
    from.read_exact(&mut prefix[1..])?;
    let [a, b, c, d, e, f, g, h, payload @ ..] = prefix;
    if [a, b, c, d] != MARK {
        return Err(invalid("the stream holds something that is no frame".into()));
    }
    let header_length = u32::from_le_bytes([e, f, g, h]);
    let payload_length = u64::from_le_bytes(payload);
    if header_length > MAX_HEADER || payload_length > MAX_PAYLOAD {
        return Err(invalid(format!("a frame of {header_length} + {payload_length} bytes is too long")));
    }
    let mut json = vec![0; header_length as usize];
    from.read_exact(&mut json)?;
    let mut payload = vec![0; payload_length as usize];
    from.read_exact(&mut payload)?;
    let header = serde_json::from_slice(&json).map_err(|e| invalid(format!("a frame's header: {e}")))?;
    Ok(Some((header, payload)))
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(reply: &Reply, payload: &[u8]) -> Vec<u8> {
        let mut bytes = encode(reply, payload.len()).unwrap();
        bytes.extend_from_slice(payload);
        bytes
    }

    fn wrong(error: f64) -> Reply {
        let difference = Difference {
            output: "C".into(),
            max_rel_error: error,
            at: vec![1, 2],
            expected: f64::NEG_INFINITY,
            got: -0.0,
        };
        Reply::Wrong { difference, tolerance: 1e-5 }
    }

    #[test]
    fn frames_follow_each_other() {
        let mut stream = frame(&Reply::Hello { version: 7 }, b"");
        stream.extend(frame(&wrong(f64::INFINITY), b"payload"));
        let mut from = stream.as_slice();
        let (first, none) = read::<Reply>(&mut from).unwrap().unwrap();
        assert_eq!((first, none.len()), (Reply::Hello { version: 7 }, 0));
        let (second, payload) = read::<Reply>(&mut from).unwrap().unwrap();
        assert_eq!(second, wrong(f64::INFINITY));
        assert_eq!(payload, b"payload");
        assert!(read::<Reply>(&mut from).unwrap().is_none());
    }

    #[test]
    fn nan_survives() {
        let bytes = frame(&wrong(f64::NAN), b"");
        let Some((Reply::Wrong { difference, .. }, _)) = read::<Reply>(&mut bytes.as_slice()).unwrap() else {
            panic!("another reply");
        };
        assert!(difference.max_rel_error.is_nan());
    }

    #[test]
    fn damaged_streams_are_errors() {
        let good = frame(&Reply::TaskReady, b"1234");
        for cut in 1..good.len() {
            assert!(read::<Reply>(&mut &good[..cut]).is_err(), "cut at {cut}");
        }
        let mut other = good.clone();
        other[0] = b'x';
        assert!(read::<Reply>(&mut other.as_slice()).unwrap_err().to_string().contains("no frame"));
        let mut long = good.clone();
        long[15] = 0xff;
        assert!(read::<Reply>(&mut long.as_slice()).unwrap_err().to_string().contains("too long"));
        let mut unknown = encode(&"Nonsense", 0).unwrap();
        unknown.truncate(unknown.len());
        assert!(read::<Reply>(&mut unknown.as_slice()).unwrap_err().to_string().contains("header"));
    }
}
