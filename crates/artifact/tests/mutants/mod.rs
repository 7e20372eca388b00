//! Mutated artefacts whose checksums are right again, so that loading gets past them.

use serde_json::Value;
use talweg_artifact::{BuildOptions, Choice, build};
use talweg_graph::{Graph, Program, Step, Task, Work};
use talweg_ir::Source;
use talweg_ops::Spec;
pub use talweg_schedule::testing::Random;
use talweg_target::Target;
use talweg_tensor::op::Unary;
use talweg_tensor::{ElementType, Op, Tensor, TensorType};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Where the header's fields are, see the format's description in `talweg_runtime::model`.
const SECTIONS: [usize; 3] = [16, 32, 48];
const HEAD_SUM: usize = 64;
const WEIGHTS_SUM: usize = 72;
const HEADER_SUM: usize = 80;
const CHUNK: usize = 1 << 20;

/// Numbers that break careless arithmetic.
const EDGES: [u64; 14] =
    [0, 1, 7, 63, 64, 65, 4096, 1 << 20, 1 << 31, 1 << 32, 1 << 40, 1 << 63, u64::MAX - 63, u64::MAX];

fn edge(random: &mut Random) -> u64 {
    EDGES[random.below(EDGES.len())]
}

/// An artefact in parts.
pub struct Seed {
    manifest: Value,
    objects: Vec<u8>,
    weights: Vec<u8>,
}

/// The file of a dense layer by a kernel and of an operator by plain code.
pub fn artefact() -> Vec<u8> {
    let spec = Spec::parse("matmul:m=4,n=8,k=8,epilogue=bias+relu").expect("a sound text");
    let dag = spec.build().expect("a sound operator");
    let mut graph = Graph::new("seed");
    let ty = TensorType::new(ElementType::F32, [4usize, 8]);
    let x = graph.add_input("x", ty.clone());
    let y = graph.add_value("y", ty.clone());
    let z = graph.add_value("z", ty);
    let mut inputs = Vec::new();
    for tensor in &dag.tensors {
        match tensor.source {
            Source::Input => inputs.push(Some(x)),
            Source::Const => {
                let extents = tensor.const_shape().expect("constant extents");
                let shape: Vec<usize> = extents.iter().map(|e| *e as usize).collect();
                let values = vec![0.5f32; shape.iter().product()];
                inputs.push(Some(graph.add_constant(&tensor.name, Tensor::new(shape, values))));
            }
            Source::Compute(_) => {}
        }
    }
    let dense = Step { work: Work::Kernel(0), inputs, outputs: vec![y], nodes: vec!["dense".into()] };
    let floor = Step {
        work: Work::Plain(Op::Unary(Unary::Floor)),
        inputs: vec![Some(y)],
        outputs: vec![z],
        nodes: vec!["floor".into()],
    };
    graph.outputs = vec![y, z];
    let text = dag.to_string();
    let program = Program::new(graph, vec![Task { dag, text, uses: 1 }], vec![dense, floor], vec![]);
    let options = BuildOptions { target: Target::host(), jobs: 1 };
    let artefact = build(&program, &options, &|_| Choice::Default).expect("the seed builds");
    artefact.to_bytes().expect("the seed is written")
}

impl Seed {
    /// Takes a sound artefact apart.
    pub fn new(bytes: &[u8]) -> Seed {
        let section = |at: usize| {
            let start = number(bytes, at) as usize;
            bytes[start..start + number(bytes, at + 8) as usize].to_vec()
        };
        let [manifest, objects, weights] = SECTIONS.map(section);
        let manifest = serde_json::from_slice(&manifest).expect("a sound manifest is JSON");
        Seed { manifest, objects, weights }
    }

    /// A file with one to four mutations and right checksums.
    pub fn mutant(&self, random: &mut Random) -> Vec<u8> {
        let mut manifest = self.manifest.clone();
        let mut objects = self.objects.clone();
        let mut text = None;
        let mut after = Vec::new();
        for _ in 0..1 + random.below(4) {
            match random.below(10) {
                0..5 => mutate_json(&mut manifest, random),
                5..8 => mutate_bytes(&mut objects, random),
                8 => {
                    let mut bytes = manifest.to_string().into_bytes();
                    mutate_bytes(&mut bytes, random);
                    text = Some(bytes);
                }
                _ => after.push((SECTIONS[random.below(3)] + 8 * random.below(2), edge(random))),
            }
        }
        let text = text.unwrap_or_else(|| manifest.to_string().into_bytes());
        let mut file = join(&text, &objects, &self.weights);
        for (at, value) in after {
            // Sometimes a slightly wrong number, sometimes an absurd one.
            let value =
                if random.below(2) == 0 { value } else { number(&file, at).wrapping_add(value % 128) };
            file[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        if random.below(16) == 0 {
            file.truncate(random.below(file.len()));
        }
        sum_up(&mut file);
        file
    }
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// Lays the sections out as the writer does, without checksums.
fn join(manifest: &[u8], objects: &[u8], weights: &[u8]) -> Vec<u8> {
    let mut file = vec![0; 128];
    file[..8].copy_from_slice(b"talweg\r\n");
    file[8] = 1;
    for (section, (at, align)) in
        [manifest, objects, weights].into_iter().zip(SECTIONS.into_iter().zip([1, 64, 4096]))
    {
        file.resize(file.len().next_multiple_of(align), 0);
        let (start, length) = (file.len() as u64, section.len() as u64);
        file[at..at + 8].copy_from_slice(&start.to_le_bytes());
        file[at + 8..at + 16].copy_from_slice(&length.to_le_bytes());
        file.extend_from_slice(section);
    }
    file
}

/// Makes the checksums right, as far as the sections lie within the file.
fn sum_up(file: &mut [u8]) {
    if file.len() < HEADER_SUM + 8 {
        return;
    }
    let section = |at: usize| {
        let start = number(file, at);
        let end = start.checked_add(number(file, at + 8))?;
        file.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    };
    let mut head = Xxh3::new();
    head.update(section(SECTIONS[0]).unwrap_or_default());
    head.update(section(SECTIONS[1]).unwrap_or_default());
    let chunks = section(SECTIONS[2]).unwrap_or_default().chunks(CHUNK);
    let sums: Vec<u8> = chunks.flat_map(|chunk| xxh3_64(chunk).to_le_bytes()).collect();
    let (head, weights) = (head.digest(), xxh3_64(&sums));
    file[HEAD_SUM..HEAD_SUM + 8].copy_from_slice(&head.to_le_bytes());
    file[WEIGHTS_SUM..WEIGHTS_SUM + 8].copy_from_slice(&weights.to_le_bytes());
    let header = xxh3_64(&file[..HEADER_SUM]);
    file[HEADER_SUM..HEADER_SUM + 8].copy_from_slice(&header.to_le_bytes());
}

fn mutate_bytes(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    // The beginning and the end of an object hold its headers: half of the mutations go there.
    let (len, near) = (bytes.len(), bytes.len().min(64));
    let at = match random.below(4) {
        0 => random.below(near),
        1 => len - 1 - random.below(len.min(1024)),
        _ => random.below(len),
    };
    match random.below(5) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = random.number() as u8,
        2 | 3 => {
            let width = [1, 2, 4, 8][random.below(4)].min(len - at);
            let value = edge(random).to_le_bytes();
            bytes[at..at + width].copy_from_slice(&value[..width]);
        }
        _ => {
            bytes.remove(at);
        }
    }
}

/// Changes one place in a tree, found by a random walk from its root.
fn mutate_json(tree: &mut Value, random: &mut Random) {
    let stop = random.below(6) == 0;
    match tree {
        Value::Array(items) if !items.is_empty() => {
            let at = random.below(items.len());
            match (stop, random.below(3)) {
                (false, _) => mutate_json(&mut items[at], random),
                (true, 0) => {
                    items.remove(at);
                }
                (true, 1) => items.push(items[at].clone()),
                (true, _) => items.clear(),
            }
        }
        Value::Object(fields) if !fields.is_empty() => {
            let at = random.below(fields.len());
            let Some(name) = fields.keys().nth(at).cloned() else { return };
            if stop && random.below(4) == 0 {
                fields.remove(&name);
            } else if let Some(inner) = fields.get_mut(&name) {
                mutate_json(inner, random);
            }
        }
        Value::Number(old) => {
            let near = old.as_u64().unwrap_or(1).wrapping_add(edge(random) % 128);
            *tree = if random.below(2) == 0 { near.into() } else { edge(random).into() };
        }
        Value::String(text) => {
            const TEXTS: [&str; 8] = ["", "F64", "Bool", "BF16", "x86-64", "Weight", "Floor", "\u{0}"];
            *text = TEXTS[random.below(TEXTS.len())].to_string();
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            let at = edge(random);
            *tree = serde_json::json!({ "place": { "Arena": at }, "element": "F32", "shape": [at, 2] });
        }
    }
}
