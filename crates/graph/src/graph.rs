//! Values, nodes, and how to edit them.

use std::fmt;

use talweg_tensor::{Op, Tensor, TensorType};

/// A value of a [`Graph`]: the position in its table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// A node of a [`Graph`]: the position in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl ValueId {
    /// The position in the graph's table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl NodeId {
    /// The position in the graph's order.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A tensor that flows through the network: an input, a constant, or a node's output.
#[derive(Clone, Debug)]
pub struct Value {
    /// Its name, as the model has it or derived from it.
    pub name: String,
    /// Its type; every extent is known.
    pub ty: TensorType,
    /// Its elements, if they are known.
    pub constant: Option<Tensor>,
}

/// An operator applied to values.
#[derive(Clone, Debug)]
pub struct Node {
    /// The name of the model's node it comes from; for one that a rule made, of those it replaces, joined by `+`.
    pub name: String,
    /// What it computes.
    pub op: Op,
    /// What it reads; optional inputs that are absent are `None`.
    pub inputs: Vec<Option<ValueId>>,
    /// What it writes.
    pub outputs: Vec<ValueId>,
}

impl Node {
    /// The inputs that are present.
    pub fn reads(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.inputs.iter().flatten().copied()
    }
}

/// A network: nodes in an order in which every value is written before it is read.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The model's name.
    pub name: String,
    /// All values; those that nothing uses are left until [`Graph::compact`].
    pub values: Vec<Value>,
    /// The nodes in order of execution.
    pub nodes: Vec<Node>,
    /// What the caller gives, in order.
    pub inputs: Vec<ValueId>,
    /// What the caller gets, in order; the names are those of the values, and a value may appear as an output and be
    /// an input or a constant too.
    pub outputs: Vec<ValueId>,
}

/// What is wrong with a graph: a defect of whoever made it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// A node reads a value that nothing has written.
    #[error(
        "node `{node}` reads `{value}`, which is not an input, a constant, or written by an earlier node"
    )]
    Undefined {
        /// The node.
        node: String,
        /// The value.
        value: String,
    },
    /// A value has two writers.
    #[error("`{value}` is written twice, the second time by node `{node}`")]
    WrittenTwice {
        /// The node.
        node: String,
        /// The value.
        value: String,
    },
    /// An output of the network is never written.
    #[error("the output `{value}` is never written")]
    MissingOutput {
        /// The value.
        value: String,
    },
}

impl Graph {
    /// An empty graph.
    pub fn new(name: impl Into<String>) -> Graph {
        Graph { name: name.into(), ..Graph::default() }
    }

    /// A value of the graph.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// The type of a value.
    pub fn ty(&self, id: ValueId) -> &TensorType {
        &self.value(id).ty
    }

    /// The elements of a constant.
    pub fn constant(&self, id: ValueId) -> Option<&Tensor> {
        self.value(id).constant.as_ref()
    }

    /// A new value that nothing writes yet.
    pub fn add_value(&mut self, name: impl Into<String>, ty: TensorType) -> ValueId {
        self.values.push(Value { name: name.into(), ty, constant: None });
        ValueId(self.values.len() as u32 - 1)
    }

    /// A new constant.
    pub fn add_constant(&mut self, name: impl Into<String>, tensor: Tensor) -> ValueId {
        let id = self.add_value(name, tensor.ty().clone());
        self.values[id.index()].constant = Some(tensor);
        id
    }

    /// A new input of the network.
    pub fn add_input(&mut self, name: impl Into<String>, ty: TensorType) -> ValueId {
        let id = self.add_value(name, ty);
        self.inputs.push(id);
        id
    }

    /// Appends a node whose outputs are values of the graph.
    pub fn add_node(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// For every value, the node that writes it.
    pub fn producers(&self) -> Vec<Option<NodeId>> {
        let mut producers = vec![None; self.values.len()];
        for (i, node) in self.nodes.iter().enumerate() {
            for output in &node.outputs {
                producers[output.index()] = Some(NodeId(i as u32));
            }
        }
        producers
    }

    /// For every value, the nodes that read it, in order; a node that reads it twice is there twice. Outputs of the
    /// network are not counted.
    pub fn consumers(&self) -> Vec<Vec<NodeId>> {
        let mut consumers = vec![Vec::new(); self.values.len()];
        for (i, node) in self.nodes.iter().enumerate() {
            for read in node.reads() {
                consumers[read.index()].push(NodeId(i as u32));
            }
        }
        consumers
    }

    /// Lets every reader of `old`, and the network's outputs, read `new` instead. If `old` is an output of the
    /// network, `new` takes its name.
    pub fn replace_uses(&mut self, old: ValueId, new: ValueId) {
        for node in &mut self.nodes {
            for input in node.inputs.iter_mut().flatten() {
                if *input == old {
                    *input = new;
                }
            }
        }
        for i in 0..self.outputs.len() {
            if self.outputs[i] == old {
                self.outputs[i] = new;
                self.values[new.index()].name = self.values[old.index()].name.clone();
            }
        }
    }

    /// Removes nodes whose outputs nobody needs, and then values nobody mentions; ids change.
    pub fn compact(&mut self) {
        let mut needed = vec![false; self.values.len()];
        for output in &self.outputs {
            needed[output.index()] = true;
        }
        let mut kept = Vec::with_capacity(self.nodes.len());
        for node in std::mem::take(&mut self.nodes).into_iter().rev() {
            if node.outputs.iter().any(|output| needed[output.index()]) {
                for read in node.reads() {
                    needed[read.index()] = true;
                }
                for output in &node.outputs {
                    needed[output.index()] = true;
                }
                kept.push(node);
            }
        }
        kept.reverse();
        self.nodes = kept;
        for input in &self.inputs {
            needed[input.index()] = true;
        }
        let mut renumbered = vec![ValueId(0); self.values.len()];
        let mut values = Vec::new();
        for (i, value) in std::mem::take(&mut self.values).into_iter().enumerate() {
            if needed[i] {
                renumbered[i] = ValueId(values.len() as u32);
                values.push(value);
            }
        }
        self.values = values;
        let renumber = |id: &mut ValueId| *id = renumbered[id.index()];
        for node in &mut self.nodes {
            node.inputs.iter_mut().flatten().for_each(renumber);
            node.outputs.iter_mut().for_each(renumber);
        }
        self.inputs.iter_mut().for_each(renumber);
        self.outputs.iter_mut().for_each(renumber);
    }

    /// Checks that values are written once and before they are read.
    pub fn verify(&self) -> Result<(), GraphError> {
        let mut written: Vec<bool> = self.values.iter().map(|value| value.constant.is_some()).collect();
        for input in &self.inputs {
            written[input.index()] = true;
        }
        let name = |id: ValueId| self.value(id).name.clone();
        for node in &self.nodes {
            for read in node.reads() {
                if !written[read.index()] {
                    return Err(GraphError::Undefined { node: node.name.clone(), value: name(read) });
                }
            }
            for &output in &node.outputs {
                if std::mem::replace(&mut written[output.index()], true) {
                    return Err(GraphError::WrittenTwice { node: node.name.clone(), value: name(output) });
                }
            }
        }
        match self.outputs.iter().find(|output| !written[output.index()]) {
            Some(&output) => Err(GraphError::MissingOutput { value: name(output) }),
            None => Ok(()),
        }
    }
}

/// One line for each input, node and output, for people and tests.
impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "graph {}", self.name)?;
        for &input in &self.inputs {
            writeln!(f, "input {}: {}", self.value(input).name, self.ty(input))?;
        }
        for node in &self.nodes {
            let outputs: Vec<String> =
                node.outputs.iter().map(|&o| format!("{}: {}", self.value(o).name, self.ty(o))).collect();
            let inputs: Vec<&str> =
                node.inputs.iter().map(|i| i.map_or("-", |i| self.value(i).name.as_str())).collect();
            writeln!(f, "{} = {:?}({})", outputs.join(", "), node.op, inputs.join(", "))?;
        }
        for &output in &self.outputs {
            writeln!(f, "output {}: {}", self.value(output).name, self.ty(output))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use talweg_tensor::ElementType;
    use talweg_tensor::op::{Binary, Unary};

    use super::*;

    fn small() -> Graph {
        let mut graph = Graph::new("small");
        let ty = TensorType::new(ElementType::F32, [2]);
        let x = graph.add_input("x", ty.clone());
        let one = graph.add_constant("one", Tensor::new([2], vec![1.0f32, 1.0]));
        let unused = graph.add_value("unused", ty.clone());
        let sum = graph.add_value("sum", ty.clone());
        let y = graph.add_value("y", ty);
        let node = |name: &str, op, inputs: &[ValueId], output| Node {
            name: name.into(),
            op,
            inputs: inputs.iter().map(|&i| Some(i)).collect(),
            outputs: vec![output],
        };
        graph.add_node(node("n0", Op::Unary(Unary::Abs), &[x], unused));
        graph.add_node(node("n1", Op::Binary(Binary::Add), &[x, one], sum));
        graph.add_node(node("n2", Op::Unary(Unary::Relu), &[sum], y));
        graph.outputs.push(y);
        graph
    }

    #[test]
    fn compact_drops_what_nobody_needs() {
        let mut graph = small();
        graph.verify().unwrap();
        graph.compact();
        graph.verify().unwrap();
        assert_eq!(graph.nodes.len(), 2);
        assert!(graph.values.iter().all(|value| value.name != "unused"));
    }

    #[test]
    fn replaced_outputs_keep_their_name() {
        let mut graph = small();
        let (sum, y) = (graph.nodes[1].outputs[0], graph.outputs[0]);
        graph.replace_uses(y, sum);
        graph.compact();
        graph.verify().unwrap();
        assert_eq!(graph.value(graph.outputs[0]).name, "y");
        assert_eq!(graph.nodes.len(), 1);
    }

    #[test]
    fn reading_before_writing_is_found() {
        let mut graph = small();
        graph.nodes.swap(1, 2);
        let error = graph.verify().unwrap_err();
        assert!(error.to_string().contains("node `n2` reads `sum`"), "{error}");
    }
}
