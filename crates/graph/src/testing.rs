//! Building small graphs by hand, and random inputs for them.

use talweg_tensor::{ElementType, Op, Tensor, TensorType, infer};

use crate::graph::{Graph, Node, ValueId};

/// A graph under construction: every operator gets a name, and the types that inference gives it.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    /// The graph so far.
    pub graph: Graph,
}

impl Builder {
    /// An empty graph.
    pub fn new(name: &str) -> Builder {
        Builder { graph: Graph::new(name) }
    }

    /// A new f32 input.
    pub fn input(&mut self, shape: &[usize]) -> ValueId {
        let name = format!("x{}", self.graph.inputs.len());
        self.graph.add_input(name, TensorType::new(ElementType::F32, shape))
    }

    /// A new f32 constant of small values that do not repeat, by a seed.
    pub fn weights(&mut self, shape: &[usize], seed: u64) -> ValueId {
        let tensor = random(&TensorType::new(ElementType::F32, shape), seed);
        let name = format!("w{}", self.graph.values.len());
        self.graph.add_constant(name, tensor)
    }

    /// A new f32 scalar.
    pub fn scalar(&mut self, value: f32) -> ValueId {
        let name = format!("c{}", self.graph.values.len());
        self.graph.add_constant(name, Tensor::new([], vec![value]))
    }

    /// An operator of values; the first of its results.
    ///
    /// # Panics
    /// If the operator does not take these values: a mistake of the test.
    pub fn op(&mut self, op: Op, inputs: &[ValueId]) -> ValueId {
        let types: Vec<Option<&TensorType>> = inputs.iter().map(|i| Some(self.graph.ty(*i))).collect();
        let ty = infer(&op, &types).unwrap_or_else(|e| panic!("{e}")).remove(0);
        let at = self.graph.nodes.len();
        let output = self.graph.add_value(format!("v{at}"), ty);
        let inputs = inputs.iter().map(|i| Some(*i)).collect();
        self.graph.add_node(Node { name: format!("n{at}"), op, inputs, outputs: vec![output] });
        output
    }

    /// The finished graph with these outputs.
    pub fn finish(mut self, outputs: &[ValueId]) -> Graph {
        self.graph.outputs = outputs.to_vec();
        self.graph
    }
}

/// Values of a type, the same for the same seed: floats around zero, integers between -4 and 4, truth values.
pub fn random(ty: &TensorType, seed: u64) -> Tensor {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let values: Vec<f64> = (0..ty.len())
        .map(|_| match ty.element {
            ElementType::Bool => f64::from(u8::from(next() < 0.5)),
            element if element.is_float() => 2.0 * next() - 1.0,
            ElementType::U8 | ElementType::U16 | ElementType::U32 | ElementType::U64 => {
                (8.0 * next()).floor()
            }
            _ => (9.0 * next()).floor() - 4.0,
        })
        .collect();
    Tensor::from_f64(ty.element, ty.shape.clone(), values)
}

/// Random inputs of a graph.
pub fn random_inputs(graph: &Graph, seed: u64) -> Vec<Tensor> {
    let inputs = graph.inputs.iter().enumerate();
    inputs.map(|(at, id)| random(graph.ty(*id), seed + at as u64)).collect()
}
