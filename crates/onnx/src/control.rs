//! `If`, `Loop` and `Scan`: branches are inlined and loops unrolled.

use talweg_graph::ValueId;

use crate::call::{self, Attributes};
use crate::error::Failure;
use crate::importer::{Frame, Importer, Symbol};
use crate::proto::{GraphProto, NodeProto};

/// Iterations that a loop may have.
const ITERATION_LIMIT: usize = 10_000;

impl<'m> Importer<'m> {
    /// `If`: the branch that a constant condition chooses; otherwise both, and a selection between their results.
    pub(crate) fn branch(
        &mut self,
        node: &'m NodeProto,
        name: &str,
        inputs: &[Option<Symbol<'m>>],
        frame: &mut Frame<'m>,
    ) -> Result<Vec<Symbol<'m>>, Failure> {
        let attributes = frame.attributes(node);
        let then = subgraph(&attributes, "then_branch")?;
        let otherwise = subgraph(&attributes, "else_branch")?;
        let condition = match inputs.first().copied().flatten() {
            Some(Symbol::Known(id)) => id,
            Some(_) => return Ok(vec![Symbol::Unknown; node.output.len()]),
            None => return Err(Failure::invalid("the condition is missing")),
        };
        if let Some(chosen) = self.truth(condition)? {
            let graph = if chosen { then } else { otherwise };
            return self.inner(graph, frame, &format!("{name}/"), Vec::new());
        }
        let yes = self.inner(then, frame, &format!("{name}/then/"), Vec::new())?;
        let no = self.inner(otherwise, frame, &format!("{name}/else/"), Vec::new())?;
        if yes.len() != no.len() {
            return Err(Failure::invalid("the branches have different numbers of outputs"));
        }
        let mut outputs = Vec::with_capacity(yes.len());
        for (yes, no) in yes.into_iter().zip(no) {
            outputs.push(match (yes, no) {
                (Symbol::Known(yes), Symbol::Known(no)) => {
                    if self.builder.ty(yes) != self.builder.ty(no) {
                        return Err(Failure::data_dependent("which branch, and so the type of the result,"));
                    }
                    let scalar = self.builder.reshape(condition, vec![])?;
                    Symbol::Known(self.builder.select(scalar, yes, no)?)
                }
                _ => Symbol::Unknown,
            });
        }
        Ok(outputs)
    }

    /// `Loop`: unrolled while the condition is a constant.
    pub(crate) fn unroll_loop(
        &mut self,
        node: &'m NodeProto,
        name: &str,
        inputs: &[Option<Symbol<'m>>],
        frame: &mut Frame<'m>,
    ) -> Result<Vec<Symbol<'m>>, Failure> {
        let attributes = frame.attributes(node);
        let body = subgraph(&attributes, "body")?;
        let unknown = vec![Symbol::Unknown; node.output.len()];
        let input = |i: usize| inputs.get(i).copied().flatten();
        let trips = match input(0) {
            None => None,
            Some(Symbol::Known(id)) => match self.builder.known(id) {
                Some(tensor) => Some(tensor.to_i64().first().copied().unwrap_or(0)),
                None => return Err(Failure::data_dependent("the number of iterations")),
            },
            Some(_) => return Ok(unknown),
        };
        let mut go_on = match input(1) {
            None => true,
            Some(Symbol::Known(id)) => {
                self.truth(id)?.ok_or_else(|| Failure::data_dependent("the condition"))?
            }
            Some(_) => return Ok(unknown),
        };
        let mut carried: Vec<Symbol<'m>> = Vec::new();
        for i in 2..inputs.len() {
            carried.push(input(i).ok_or_else(|| Failure::invalid(format!("input {i} is missing")))?);
        }
        let scans = body
            .output
            .len()
            .checked_sub(1 + carried.len())
            .filter(|_| body.input.len() == 2 + carried.len())
            .ok_or_else(|| Failure::invalid("the body's inputs or outputs do not fit those of the loop"))?;
        let mut collected: Vec<Vec<ValueId>> = vec![Vec::new(); scans];
        let mut iteration = 0usize;
        while go_on && trips.is_none_or(|trips| (iteration as i64) < trips) {
            check_iterations(iteration)?;
            let number = self.builder.constant(talweg_tensor::Tensor::new([], vec![iteration as i64]));
            let condition = self.builder.constant(talweg_tensor::Tensor::from_bools([], [true]));
            let mut bindings = vec![
                (body.input[0].name.as_str(), Symbol::Known(number)),
                (body.input[1].name.as_str(), Symbol::Known(condition)),
            ];
            bindings.extend(body.input[2..].iter().map(|i| i.name.as_str()).zip(carried.iter().copied()));
            let results = self.inner(body, frame, &format!("{name}/{iteration}/"), bindings)?;
            let Symbol::Known(condition) = results[0] else { return Ok(unknown) };
            carried = results[1..1 + carried.len()].to_vec();
            for (list, result) in collected.iter_mut().zip(&results[1 + carried.len()..]) {
                let Symbol::Known(id) = *result else { return Ok(unknown) };
                list.push(id);
            }
            if carried.iter().any(|symbol| !matches!(symbol, Symbol::Known(_))) {
                return Ok(unknown);
            }
            iteration += 1;
            go_on = match self.truth(condition)? {
                Some(go_on) => go_on,
                None if trips == Some(iteration as i64) => false,
                None => return Err(Failure::data_dependent("the number of iterations")),
            };
        }
        for list in collected {
            carried.push(Symbol::Known(self.stack(&list, 0)?));
        }
        Ok(carried)
    }

    /// `Scan`: unrolled over the extent of what is scanned.
    pub(crate) fn unroll_scan(
        &mut self,
        node: &'m NodeProto,
        name: &str,
        inputs: &[Option<Symbol<'m>>],
        opset: i64,
        frame: &mut Frame<'m>,
    ) -> Result<Vec<Symbol<'m>>, Failure> {
        if opset < 9 {
            return Err(Failure::unsupported(
                "operator set 8 had a Scan with batches",
                "convert the model to a newer operator set (onnx.version_converter)",
            ));
        }
        let attributes = frame.attributes(node);
        let body = subgraph(&attributes, "body")?;
        let ints = |name: &str| attributes.get(name).map(|a| a.ints.clone()).unwrap_or_default();
        let scanned = attributes.get("num_scan_inputs").and_then(|a| a.i).unwrap_or(0);
        let states = call::size(scanned, "num_scan_inputs")
            .ok()
            .and_then(|scanned| inputs.len().checked_sub(scanned).filter(|_| scanned > 0))
            .ok_or_else(|| Failure::invalid(format!("num_scan_inputs is {scanned}")))?;
        let mut values = Vec::with_capacity(inputs.len());
        for input in inputs {
            match input {
                Some(Symbol::Known(id)) => values.push(*id),
                Some(_) => return Ok(vec![Symbol::Unknown; node.output.len()]),
                None => return Err(Failure::invalid("an input is missing")),
            }
        }
        let (in_axes, in_directions) = (ints("scan_input_axes"), ints("scan_input_directions"));
        let (out_axes, out_directions) = (ints("scan_output_axes"), ints("scan_output_directions"));
        let mut carried: Vec<ValueId> = values[..states].to_vec();
        let mut sources = Vec::new();
        for (i, &value) in values[states..].iter().enumerate() {
            let axis = call::axis(in_axes.get(i).copied().unwrap_or(0), self.builder.rank(value))?;
            sources.push((value, axis, in_directions.get(i).copied().unwrap_or(0) != 0));
        }
        let length = sources.first().map_or(0, |&(value, axis, _)| self.builder.shape(value)[axis]);
        if sources.iter().any(|&(value, axis, _)| self.builder.shape(value)[axis] != length) {
            return Err(Failure::invalid("the scanned inputs have different extents"));
        }
        if body.input.len() != inputs.len() || body.output.len() < states {
            return Err(Failure::invalid("the body's inputs or outputs do not fit those of the scan"));
        }
        let mut collected: Vec<Vec<ValueId>> = vec![Vec::new(); body.output.len() - states];
        for iteration in 0..length {
            check_iterations(iteration)?;
            let mut given = carried.clone();
            for &(value, axis, reversed) in &sources {
                let at = if reversed { length - 1 - iteration } else { iteration };
                let part = self.builder.part(value, axis, at, 1)?;
                let mut shape = self.builder.shape(part);
                shape.remove(axis);
                given.push(self.builder.reshape(part, shape)?);
            }
            let bindings: Vec<(&'m str, Symbol<'m>)> = body
                .input
                .iter()
                .map(|i| i.name.as_str())
                .zip(given.into_iter().map(Symbol::Known))
                .collect();
            let results = self.inner(body, frame, &format!("{name}/{iteration}/"), bindings)?;
            let mut known = Vec::with_capacity(results.len());
            for result in results {
                match result {
                    Symbol::Known(id) => known.push(id),
                    _ => return Ok(vec![Symbol::Unknown; node.output.len()]),
                }
            }
            for (list, &id) in collected.iter_mut().zip(&known[states..]) {
                list.push(id);
            }
            known.truncate(states);
            carried = known;
        }
        let mut outputs: Vec<Symbol<'m>> = carried.into_iter().map(Symbol::Known).collect();
        for (i, mut list) in collected.into_iter().enumerate() {
            if out_directions.get(i).copied().unwrap_or(0) != 0 {
                list.reverse();
            }
            let rank = list.first().map_or(0, |&id| self.builder.rank(id)) + 1;
            let axis = call::axis(out_axes.get(i).copied().unwrap_or(0), rank)?;
            outputs.push(Symbol::Known(self.stack(&list, axis)?));
        }
        Ok(outputs)
    }

    /// Runs a subgraph whose nodes and values get names that begin with `prefix`.
    fn inner(
        &mut self,
        graph: &'m GraphProto,
        frame: &mut Frame<'m>,
        prefix: &str,
        bindings: Vec<(&'m str, Symbol<'m>)>,
    ) -> Result<Vec<Symbol<'m>>, Failure> {
        let outer = std::mem::replace(&mut frame.prefix, prefix.to_string());
        let scopes = frame.scopes.len();
        let result = self.graph(graph, frame, bindings);
        frame.scopes.truncate(scopes);
        frame.prefix = outer;
        Ok(result?)
    }

    /// The truth value of a constant with one element.
    fn truth(&self, id: ValueId) -> Result<Option<bool>, Failure> {
        match self.builder.known(id) {
            None => Ok(None),
            Some(tensor) if tensor.len() == 1 => Ok(Some(tensor.to_f64()[0] != 0.0)),
            Some(tensor) => Err(Failure::invalid(format!("the condition is {}, not one value", tensor.ty()))),
        }
    }

    /// Values of one type along a new axis.
    fn stack(&mut self, values: &[ValueId], axis: usize) -> Result<ValueId, Failure> {
        if values.is_empty() {
            return Err(Failure::unsupported(
                "a loop without iterations collects outputs of unknown shape",
                "remove the loop from the model",
            ));
        }
        let mut parts = Vec::with_capacity(values.len());
        for &value in values {
            let mut shape = self.builder.shape(value);
            if axis > shape.len() {
                return Err(Failure::invalid("iterations give results of different ranks"));
            }
            shape.insert(axis, 1);
            parts.push(self.builder.reshape(value, shape)?);
        }
        self.builder.concat(&parts, axis)
    }
}

fn check_iterations(iteration: usize) -> Result<(), Failure> {
    if iteration < ITERATION_LIMIT {
        return Ok(());
    }
    Err(Failure::unsupported(
        format!("a loop has more than {ITERATION_LIMIT} iterations, too many to unroll"),
        "split the model at the loop",
    ))
}

fn subgraph<'m>(attributes: &Attributes<'m>, name: &str) -> Result<&'m GraphProto, Failure> {
    attributes
        .get(name)
        .and_then(|attribute| attribute.g.as_ref())
        .ok_or_else(|| Failure::invalid(format!("attribute `{name}` is missing")))
}
