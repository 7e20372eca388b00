//! From messages to a graph: scopes of names, nodes one by one, functions inlined, everything unsupported collected.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use bytes::Bytes;
use prost::Message;
use talweg_graph::{Graph, Node, ValueId};
use talweg_tensor::Op;
use talweg_tensor::op::Unary;

use crate::builder::Builder;
use crate::call::{Attributes, Call, weights_failure};
use crate::error::{Failure, ImportError, Report, Unsupported};
use crate::file::{self, ExternalFiles};
use crate::inputs;
use crate::ops;
use crate::options::ImportOptions;
use crate::order::{needed_in_order, node_name};
use crate::proto::{FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto};
use crate::weights::{self, WeightsError};

/// The newest operator set whose operators are known.
pub const NEWEST_OPSET: i64 = 28;
/// Functions that call functions, at most.
const CALL_DEPTH: usize = 32;
/// Bytes that folding may take beside four times the size of the model.
const FOLD_BYTES: usize = 64 << 20;

/// Imports the model in a file, which is mapped; weights are not copied.
pub fn import(path: &Path, options: &ImportOptions) -> Result<Graph, ImportError> {
    let bytes = file::map(path)?;
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    import_bytes(bytes, Some(folder), options)
}

/// Imports a model that is in memory. External data is looked for in `base_dir`, and refused without one.
pub fn import_bytes(
    bytes: impl Into<Bytes>,
    base_dir: Option<&Path>,
    options: &ImportOptions,
) -> Result<Graph, ImportError> {
    let bytes: Bytes = bytes.into();
    if bytes.is_empty() {
        return Err(ImportError::Malformed("there are no bytes at all".into()));
    }
    let size = bytes.len();
    let model = ModelProto::decode(bytes).map_err(|error| ImportError::Malformed(error.to_string()))?;
    import_model(&model, size, base_dir, options)
}

fn import_model(
    model: &ModelProto,
    size: usize,
    base_dir: Option<&Path>,
    options: &ImportOptions,
) -> Result<Graph, ImportError> {
    let graph = model.graph.as_ref().ok_or_else(|| ImportError::Malformed("it has no graph".into()))?;
    if graph.output.is_empty() {
        return Err(ImportError::Malformed("its graph has no outputs".into()));
    }
    let mut importer = Importer::new(model, graph, size, base_dir)?;
    let mut frame = Frame::new(&model.opset_import, String::new(), 0);
    importer.check_opset(&frame)?;
    importer.add_inputs(graph, options, &mut frame)?;
    let outputs = importer.graph(graph, &mut frame, Vec::new())?;
    importer.finish(graph, &outputs)
}

/// What a name stands for.
#[derive(Clone, Copy)]
pub(crate) enum Symbol<'m> {
    /// A value of the graph.
    Known(ValueId),
    /// A constant that nothing has read yet.
    Weights(&'m TensorProto),
    /// The result of something unsupported.
    Unknown,
}

/// Names as a graph or a function sees them.
pub(crate) struct Frame<'m> {
    /// Names by scope, the innermost last.
    pub(crate) scopes: Vec<HashMap<&'m str, Symbol<'m>>>,
    /// The attributes of the function's call.
    attributes: Attributes<'m>,
    /// Operator sets by domain.
    opsets: BTreeMap<&'m str, i64>,
    /// Goes before the names of nodes and values.
    pub(crate) prefix: String,
    /// Functions around this one.
    depth: usize,
}

impl<'m> Frame<'m> {
    fn new(opsets: &'m [OperatorSetIdProto], prefix: String, depth: usize) -> Frame<'m> {
        Frame {
            scopes: vec![HashMap::new()],
            attributes: Attributes::new(),
            opsets: opsets.iter().map(|set| (domain(&set.domain), set.version)).collect(),
            prefix,
            depth,
        }
    }

    fn define(&mut self, name: &'m str, symbol: Symbol<'m>) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, symbol);
        }
    }

    /// The node's attributes; in a function, those that refer to the call's are looked up there.
    pub(crate) fn attributes(&self, node: &'m NodeProto) -> Attributes<'m> {
        let mut attributes = Attributes::new();
        for attribute in &node.attribute {
            if attribute.ref_attr_name.is_empty() {
                attributes.insert(&attribute.name, attribute);
            } else if let Some(given) = self.attributes.get(attribute.ref_attr_name.as_str()) {
                attributes.insert(&attribute.name, given);
            }
        }
        attributes
    }
}

/// The ONNX domain has two names.
fn domain(name: &str) -> &str {
    if name == "ai.onnx" { "" } else { name }
}

/// The state of an import.
pub(crate) struct Importer<'m> {
    pub(crate) builder: Builder,
    pub(crate) files: ExternalFiles,
    functions: HashMap<(&'m str, &'m str, &'m str), &'m FunctionProto>,
    report: Report,
}

impl<'m> Importer<'m> {
    fn new(
        model: &'m ModelProto,
        graph: &GraphProto,
        size: usize,
        base_dir: Option<&Path>,
    ) -> Result<Importer<'m>, ImportError> {
        let mut functions = HashMap::new();
        for function in &model.functions {
            let key = (domain(&function.domain), function.name.as_str(), function.overload.as_str());
            if functions.insert(key, function).is_some() {
                return Err(ImportError::Malformed(format!("function `{}` is defined twice", function.name)));
            }
        }
        let external: usize = graph
            .initializer
            .iter()
            .filter(|tensor| tensor.data_location == 1)
            .flat_map(|tensor| tensor.external_data.iter().filter(|entry| entry.key == "length"))
            .filter_map(|entry| entry.value.parse::<usize>().ok())
            .fold(0, usize::saturating_add)
            .min(1 << 36);
        let fold_bytes = FOLD_BYTES.saturating_add(size.saturating_add(external).saturating_mul(4));
        Ok(Importer {
            builder: Builder::new(&graph.name, fold_bytes),
            files: ExternalFiles::new(base_dir),
            functions,
            report: Report::default(),
        })
    }

    fn check_opset(&mut self, frame: &Frame<'m>) -> Result<(), ImportError> {
        match frame.opsets.get("") {
            Some(&version) if version > NEWEST_OPSET => {
                self.report.items.push(Unsupported {
                    op: "model".into(),
                    node: self.builder.graph.name.clone(),
                    reason: format!("operator set {version} is newer than {NEWEST_OPSET}, the newest known"),
                    remedy: format!("export or convert the model for operator set {NEWEST_OPSET} or older"),
                    data_dependent: false,
                });
                Ok(())
            }
            Some(&version) if version < 1 => {
                Err(ImportError::Malformed(format!("operator set {version} does not exist")))
            }
            _ => Ok(()),
        }
    }

    fn add_inputs(
        &mut self,
        graph: &'m GraphProto,
        options: &ImportOptions,
        frame: &mut Frame<'m>,
    ) -> Result<(), ImportError> {
        let types = inputs::bind(graph, options, &mut self.report)?;
        let mut types: BTreeMap<String, _> = types.into_iter().collect();
        for input in &graph.input {
            if let Some(tensor) = options.fixed.get(&input.name) {
                let declared = input.r#type.as_ref().and_then(|ty| ty.tensor_type.as_ref());
                let element = declared.map(|ty| weights::element_type(ty.elem_type));
                if element.is_some_and(|element| element != Ok(tensor.element())) {
                    return Err(ImportError::Options(format!(
                        "the fixed value of input `{}` is {}, which is not the model's element type",
                        input.name,
                        tensor.ty()
                    )));
                }
                let id = self.builder.graph.add_constant(&input.name, tensor.clone());
                frame.define(&input.name, Symbol::Known(id));
            } else if let Some(ty) = types.remove(&input.name) {
                let id = self.builder.graph.add_input(&input.name, ty);
                frame.define(&input.name, Symbol::Known(id));
            } else {
                frame.define(&input.name, Symbol::Unknown);
            }
        }
        Ok(())
    }

    /// Runs a graph's nodes in a scope of their own, in which `bindings` are defined, and gives its outputs.
    pub(crate) fn graph(
        &mut self,
        graph: &'m GraphProto,
        frame: &mut Frame<'m>,
        bindings: Vec<(&'m str, Symbol<'m>)>,
    ) -> Result<Vec<Symbol<'m>>, ImportError> {
        frame.scopes.push(bindings.into_iter().collect());
        for tensor in &graph.initializer {
            let overridden = frame.scopes.len() == 2
                && matches!(frame.scopes[0].get(tensor.name.as_str()), Some(Symbol::Known(_)));
            if !overridden {
                frame.define(&tensor.name, Symbol::Weights(tensor));
            }
        }
        for sparse in &graph.sparse_initializer {
            if let Some(values) = &sparse.values {
                let tensor = weights::sparse(sparse, &mut self.files);
                let symbol = self.weights_symbol(&values.name, tensor)?;
                frame.define(&values.name, symbol);
            }
        }
        let outputs: Vec<&str> = graph.output.iter().map(|output| output.name.as_str()).collect();
        self.nodes(&graph.node, &outputs, frame)?;
        let reader = if graph.name.is_empty() {
            "the graph's output".into()
        } else {
            format!("graph `{}`", graph.name)
        };
        let symbols = graph.output.iter().map(|output| self.lookup(&output.name, &reader, frame)).collect();
        frame.scopes.pop();
        symbols
    }

    fn nodes(
        &mut self,
        nodes: &'m [NodeProto],
        outputs: &[&str],
        frame: &mut Frame<'m>,
    ) -> Result<(), ImportError> {
        for index in needed_in_order(nodes, outputs)? {
            self.node(&nodes[index], index, frame)?;
        }
        Ok(())
    }

    fn node(&mut self, node: &'m NodeProto, index: usize, frame: &mut Frame<'m>) -> Result<(), ImportError> {
        let name = format!("{}{}", frame.prefix, node_name(node, index));
        self.builder.start_node(&name)?;
        let first_new = self.builder.graph.values.len();
        let symbols = match self.translate(node, &name, frame) {
            Ok(symbols) => symbols,
            Err(Failure::Unsupported { reason, remedy, data_dependent }) => {
                let op = node.op_type.clone();
                self.report.items.push(Unsupported {
                    op,
                    node: name.clone(),
                    reason,
                    remedy,
                    data_dependent,
                });
                vec![Symbol::Unknown; node.output.len()]
            }
            Err(Failure::Invalid(reason)) => {
                return Err(ImportError::Node { node: name, op: node.op_type.clone(), reason });
            }
            Err(Failure::Fatal(error)) => return Err(error),
        };
        for (i, output) in node.output.iter().enumerate().filter(|(_, output)| !output.is_empty()) {
            let Some(&symbol) = symbols.get(i) else {
                return Err(ImportError::Node {
                    node: name,
                    op: node.op_type.clone(),
                    reason: format!("the operator has no output {i}"),
                });
            };
            if let Symbol::Known(id) = symbol
                && id.index() >= first_new
            {
                self.builder.graph.values[id.index()].name = format!("{}{output}", frame.prefix);
            }
            frame.define(output, symbol);
        }
        Ok(())
    }

    /// What a name stands for in the innermost scope that has it; constants are read when they are first asked for.
    pub(crate) fn lookup(
        &mut self,
        name: &'m str,
        reader: &str,
        frame: &mut Frame<'m>,
    ) -> Result<Symbol<'m>, ImportError> {
        let found = frame
            .scopes
            .iter()
            .enumerate()
            .rev()
            .find_map(|(depth, scope)| scope.get(name).map(|&symbol| (depth, symbol)));
        match found {
            None => Err(ImportError::Undefined { reader: reader.into(), value: name.into() }),
            Some((depth, Symbol::Weights(proto))) => {
                let tensor = weights::tensor(proto, &mut self.files);
                let symbol = self.weights_symbol(name, tensor)?;
                frame.scopes[depth].insert(name, symbol);
                Ok(symbol)
            }
            Some((_, symbol)) => Ok(symbol),
        }
    }

    fn weights_symbol(
        &mut self,
        name: &str,
        tensor: Result<talweg_tensor::Tensor, WeightsError>,
    ) -> Result<Symbol<'m>, ImportError> {
        match tensor {
            Ok(tensor) => Ok(Symbol::Known(self.builder.graph.add_constant(name, tensor))),
            Err(error) => match weights_failure(error) {
                Failure::Unsupported { reason, remedy, data_dependent } => {
                    let (op, node) = ("constant".into(), name.into());
                    self.report.items.push(Unsupported { op, node, reason, remedy, data_dependent });
                    Ok(Symbol::Unknown)
                }
                Failure::Invalid(reason) => Err(ImportError::Weights { tensor: name.into(), reason }),
                Failure::Fatal(error) => Err(error),
            },
        }
    }

    /// The outputs of one node.
    fn translate(
        &mut self,
        node: &'m NodeProto,
        name: &str,
        frame: &mut Frame<'m>,
    ) -> Result<Vec<Symbol<'m>>, Failure> {
        let reader = format!("node `{name}`");
        let mut inputs = Vec::with_capacity(node.input.len());
        for input in &node.input {
            inputs.push(match input.as_str() {
                "" => None,
                input => Some(self.lookup(input, &reader, frame)?),
            });
        }
        let node_domain = domain(&node.domain);
        let key = (node_domain, node.op_type.as_str(), node.overload.as_str());
        if let Some(&function) = self.functions.get(&key) {
            return self.call_function(function, node, name, &inputs, frame);
        }
        if !node_domain.is_empty() {
            return Err(Failure::unsupported(
                format!("operators of the domain `{node_domain}` are not part of ONNX"),
                "export the model without vendor operators (for ONNX Runtime: before its optimiser)",
            ));
        }
        let opset = frame.opsets.get("").copied().ok_or_else(|| {
            Failure::Fatal(ImportError::Malformed("it does not say which ONNX operator set it uses".into()))
        })?;
        match node.op_type.as_str() {
            "If" => return self.branch(node, name, &inputs, frame),
            "Loop" => return self.unroll_loop(node, name, &inputs, frame),
            "Scan" => return self.unroll_scan(node, name, &inputs, opset, frame),
            _ => {}
        }
        let entry = ops::find(&node.op_type).ok_or_else(|| {
            Failure::unsupported(
                "the operator is not known",
                "replace it by other operators when exporting, or cut the model before it",
            )
        })?;
        if opset < entry.since {
            return Err(Failure::unsupported(
                format!("operator set {opset} is too old: this operator is known from {} on", entry.since),
                "convert the model to a newer operator set (onnx.version_converter)",
            ));
        }
        let mut known = Vec::with_capacity(inputs.len());
        for input in &inputs {
            known.push(match input {
                None => None,
                Some(Symbol::Known(id)) => Some(*id),
                Some(_) => return Ok(vec![Symbol::Unknown; node.output.len()]),
            });
        }
        let mut call = Call {
            builder: &mut self.builder,
            files: &mut self.files,
            attributes: frame.attributes(node),
            inputs: known,
            outputs: node.output.iter().map(|output| !output.is_empty()).collect(),
            opset,
        };
        Ok((entry.translate)(&mut call)?.into_iter().map(Symbol::Known).collect())
    }

    /// The outputs of a call of one of the model's functions: its nodes in their place.
    fn call_function(
        &mut self,
        function: &'m FunctionProto,
        node: &'m NodeProto,
        name: &str,
        inputs: &[Option<Symbol<'m>>],
        caller: &Frame<'m>,
    ) -> Result<Vec<Symbol<'m>>, Failure> {
        if caller.depth >= CALL_DEPTH {
            return Err(Failure::invalid(format!(
                "functions call each other more than {CALL_DEPTH} deep, or a function calls itself"
            )));
        }
        if inputs.len() > function.input.len() {
            return Err(Failure::invalid(format!(
                "{} inputs are given to a function of {}",
                inputs.len(),
                function.input.len()
            )));
        }
        let mut frame = Frame::new(&function.opset_import, format!("{name}/"), caller.depth + 1);
        for attribute in &function.attribute_proto {
            frame.attributes.insert(&attribute.name, attribute);
        }
        frame.attributes.append(&mut caller.attributes(node));
        let mut absent = Vec::new();
        for (i, parameter) in function.input.iter().enumerate() {
            match inputs.get(i).copied().flatten() {
                Some(symbol) => frame.define(parameter, symbol),
                None => absent.push(parameter.as_str()),
            }
        }
        let outputs: Vec<&str> = function.output.iter().map(String::as_str).collect();
        for index in needed_in_order(&function.node, &outputs)? {
            let inner = &function.node[index];
            if inner.input.iter().any(|input| absent.contains(&input.as_str())) {
                return Err(Failure::unsupported(
                    "a function is called without an optional input that it reads",
                    "inline the model's functions when exporting",
                ));
            }
            self.node(inner, index, &mut frame)?;
        }
        let reader = format!("function `{}`", function.name);
        let mut symbols = Vec::with_capacity(outputs.len());
        for output in &function.output {
            symbols.push(self.lookup(output, &reader, &mut frame)?);
        }
        Ok(symbols)
    }

    /// Names the outputs, checks the graph, and drops what nobody needs.
    fn finish(mut self, graph: &GraphProto, outputs: &[Symbol<'m>]) -> Result<Graph, ImportError> {
        if !self.report.items.is_empty() {
            return Err(ImportError::Unsupported(self.report));
        }
        for (output, symbol) in graph.output.iter().zip(outputs) {
            let Symbol::Known(id) = *symbol else {
                return Err(ImportError::Undefined {
                    reader: "the graph's output".into(),
                    value: output.name.clone(),
                });
            };
            let id = self.named_output(id, &output.name);
            self.builder.graph.outputs.push(id);
        }
        let mut graph = self.builder.graph;
        graph.compact();
        graph.verify()?;
        Ok(graph)
    }

    /// A value with the output's name that is no other output and no input.
    fn named_output(&mut self, id: ValueId, name: &str) -> ValueId {
        let graph = &mut self.builder.graph;
        if let Some(tensor) = graph.constant(id).cloned() {
            return graph.add_constant(name, tensor);
        }
        if graph.inputs.contains(&id) || graph.outputs.contains(&id) {
            let ty = graph.ty(id).clone();
            let copy = graph.add_value(name, ty);
            graph.add_node(Node {
                name: name.into(),
                op: Op::Unary(Unary::Identity),
                inputs: vec![Some(id)],
                outputs: vec![copy],
            });
            return copy;
        }
        graph.values[id.index()].name = name.into();
        id
    }
}
