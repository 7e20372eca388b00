//! Other runtimes in the user's Python, timed on the same model.
//!
//! Each peer is a process of its own, so that the threads of one do not get in the way of another, and stays idle until
//! it is asked for samples. The Python files are part of this program.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;
use talweg_tensor::{Tensor, npy};

/// The peers, as they are named on the command line, with the packages they need.
pub const PEERS: [(&str, &str); 5] = [
    ("onnxruntime", "onnxruntime"),
    ("openvino", "openvino"),
    ("torch", "torch onnx"),
    ("torch-compiled", "torch onnx"),
    ("tvm", "apache-tvm onnx"),
];

/// The Python files.
const FILES: [(&str, &str); 4] = [
    ("peer_process.py", include_str!("../python/peer_process.py")),
    ("peer_runners.py", include_str!("../python/peer_runners.py")),
    ("peer_networks.py", include_str!("../python/peer_networks.py")),
    ("peer_tvm_tuning.py", include_str!("../python/peer_tvm_tuning.py")),
];

/// Why a peer is not timed.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// There is no such peer.
    #[error("`{name}` is not a runtime to compare with; give some of {}", PEERS.map(|(name, _)| name).join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// Python cannot be started.
    #[error("cannot start the Python `{python}`: {source}; install Python 3, or give its path with --python")]
    NoPython {
        /// What was started.
        python: String,
        /// What the system said.
        source: io::Error,
    },
    /// A package is missing.
    #[error(
        "{python} has no package `{package}`; install what is needed with `{python} -m pip install numpy {packages}`"
    )]
    Missing {
        /// The Python.
        python: String,
        /// The package.
        package: String,
        /// All packages the peer needs.
        packages: &'static str,
    },
    /// The peer cannot run the model, or died.
    #[error("{text}")]
    Failed {
        /// What it said.
        text: String,
    },
    /// Files for the peers cannot be written or read.
    #[error("cannot exchange files with the peers: {0}; check the space in the folder for temporary files")]
    Files(#[from] io::Error),
}

/// What all peers need: the Python files and the inputs, in a folder that goes away with this value.
pub struct Peers {
    folder: tempfile::TempDir,
    python: String,
    model: PathBuf,
    threads: usize,
}

/// A peer that is ready to run the model.
pub struct Peer {
    /// As on the command line.
    pub name: &'static str,
    /// The package and its version.
    pub version: String,
    /// What it computed.
    pub outputs: Vec<Tensor>,
    /// Seconds of its first run.
    pub first: f64,
    process: Process,
}

struct Process {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// What it writes to standard error.
    log: PathBuf,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be gone already, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Peers {
    /// Puts the inputs of a model where the peers find them.
    pub fn new(
        python: &str,
        model: &Path,
        threads: usize,
        inputs: &[(String, Tensor)],
    ) -> Result<Peers, PeerError> {
        let folder = tempfile::Builder::new().prefix("talweg-peers-").tempdir()?;
        for (name, text) in FILES {
            std::fs::write(folder.path().join(name), text)?;
        }
        let archive = npy::npz_bytes(inputs.iter().map(|(name, tensor)| (name.as_str(), tensor)));
        std::fs::write(folder.path().join("inputs.npz"), archive.map_err(io::Error::other)?)?;
        let model = std::path::absolute(model)?;
        Ok(Peers { folder, python: python.to_string(), model, threads })
    }

    /// Starts a peer and waits until it has run the model once.
    pub fn start(&self, name: &str) -> Result<Peer, PeerError> {
        let known = PEERS.iter().find(|(peer, _)| *peer == name);
        let (name, packages) = *known.ok_or_else(|| PeerError::Unknown { name: name.to_string() })?;
        let path = |file: &str| self.folder.path().join(file);
        let (log, results) = (path(&format!("{name}.log")), path(&format!("{name}.npz")));
        let mut command = Command::new(&self.python);
        command.arg(path("peer_process.py")).arg(name).arg(&self.model).arg(self.threads.to_string());
        command.arg(path("inputs.npz")).arg(&results);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&log)?);
        let mut child =
            command.spawn().map_err(|source| PeerError::NoPython { python: self.python.clone(), source })?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(PeerError::Failed { text: "it has no pipes".into() });
        };
        let mut process = Process { child, requests, answers: BufReader::new(answers), log };
        let answer = process.answer()?;
        let text = |field: &str| answer[field].as_str().map(str::to_string);
        if let Some(package) = text("missing") {
            return Err(PeerError::Missing { python: self.python.clone(), package, packages });
        }
        let Some(version) = text("ready") else {
            let text = text("failed").unwrap_or_else(|| format!("it answers {answer}"));
            return Err(PeerError::Failed { text });
        };
        let read = npy::read_npz(File::open(results)?);
        let outputs = read.map_err(|e| PeerError::Failed { text: format!("its outputs: {e}") })?;
        let outputs = outputs.into_iter().map(|(_, tensor)| tensor).collect();
        let first = answer["first"].as_f64().unwrap_or(0.0);
        Ok(Peer { name, version, outputs, first, process })
    }
}

impl Peer {
    /// Seconds of single runs, taken for about so long.
    pub fn sample(&mut self, seconds: f64) -> Result<Vec<f64>, PeerError> {
        let asked = writeln!(self.process.requests, "{seconds}").and_then(|()| self.process.requests.flush());
        // If it is gone, its answer says why.
        let _ = asked;
        let answer = self.process.answer()?;
        let times: Vec<f64> =
            answer["seconds"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
        if times.is_empty() {
            return Err(PeerError::Failed { text: format!("it answers {answer}") });
        }
        Ok(times)
    }
}

impl Process {
    /// The next answer, or what the process left behind when there is none.
    fn answer(&mut self) -> Result<Value, PeerError> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line)?;
        match serde_json::from_str(&line) {
            Ok(value) if read > 0 => Ok(value),
            _ => {
                let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                let last =
                    log.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("it ended without a word");
                Err(PeerError::Failed { text: last.trim().to_string() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(python: &str) -> Peers {
        Peers::new(python, Path::new("model.onnx"), 1, &[]).expect("a folder")
    }

    #[test]
    fn what_is_wrong_is_said() {
        let said = |python: &str, name: &str| peers(python).start(name).err().map(|e| e.to_string());
        let unknown = said("python3", "tflite").expect("no such peer");
        assert!(unknown.contains("`tflite`") && unknown.contains("onnxruntime"), "{unknown}");
        let missing = said("/nowhere/python3", "openvino").expect("no such Python");
        assert!(missing.contains("/nowhere/python3") && missing.contains("--python"), "{missing}");
        // `false` ends at once and says nothing, like a Python that crashes.
        let silent = said("false", "openvino").expect("no answer");
        assert!(silent.contains("without a word"), "{silent}");
    }

    #[test]
    fn a_missing_package_is_named_as_it_is_installed() {
        let (_, packages) = PEERS.into_iter().find(|(name, _)| *name == "tvm").expect("a peer");
        let missing = PeerError::Missing { python: "python3".into(), package: "tvm".into(), packages };
        let said = missing.to_string();
        assert!(said.contains("python3 has no package `tvm`"), "{said}");
        assert!(said.contains("`python3 -m pip install numpy apache-tvm onnx`"), "{said}");
    }

    #[test]
    fn every_peer_is_known_to_the_process_that_runs_it() {
        let (_, process) = FILES[0];
        for (name, _) in PEERS {
            assert!(process.contains(&format!("    \"{name}\": [")), "{name} is not in peer_process.py");
        }
    }
}
