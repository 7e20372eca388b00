//! The nodes that a graph's outputs need, each after those it reads from.

use std::collections::{BTreeSet, HashMap};

use crate::error::ImportError;
use crate::proto::{GraphProto, NodeProto};

/// A node's name in messages: its own, or made of its operator and position.
pub(crate) fn node_name(node: &NodeProto, index: usize) -> String {
    if node.name.is_empty() { format!("{}_{index}", node.op_type) } else { node.name.clone() }
}

/// Positions of the nodes that `outputs` need, in an order in which values are written before they are read. Models
/// that are in order already keep it.
pub(crate) fn needed_in_order(nodes: &[NodeProto], outputs: &[&str]) -> Result<Vec<usize>, ImportError> {
    let mut producer: HashMap<&str, usize> = HashMap::new();
    for (i, node) in nodes.iter().enumerate() {
        for output in node.output.iter().filter(|name| !name.is_empty()) {
            if producer.insert(output, i).is_some() {
                return Err(ImportError::WrittenTwice { node: node_name(node, i), value: output.clone() });
            }
        }
    }
    let reads: Vec<Vec<usize>> = nodes
        .iter()
        .map(|node| {
            let sources: BTreeSet<usize> =
                reads(node).into_iter().filter_map(|name| producer.get(name).copied()).collect();
            sources.into_iter().collect()
        })
        .collect();

    let mut needed = vec![false; nodes.len()];
    let mut open: Vec<usize> = outputs.iter().filter_map(|name| producer.get(name).copied()).collect();
    while let Some(i) = open.pop() {
        if !std::mem::replace(&mut needed[i], true) {
            open.extend(reads[i].iter().copied());
        }
    }

    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut missing = vec![0usize; nodes.len()];
    for i in (0..nodes.len()).filter(|&i| needed[i]) {
        missing[i] = reads[i].len();
        for &source in &reads[i] {
            readers[source].push(i);
        }
    }
    let mut ready: BTreeSet<usize> = (0..nodes.len()).filter(|&i| needed[i] && missing[i] == 0).collect();
    let mut order = Vec::new();
    while let Some(i) = ready.pop_first() {
        order.push(i);
        for &reader in &readers[i] {
            missing[reader] -= 1;
            if missing[reader] == 0 {
                ready.insert(reader);
            }
        }
    }
    if order.len() < needed.iter().filter(|&&n| n).count() {
        return Err(ImportError::Cycle { nodes: cycle(nodes, &reads, &missing) });
    }
    Ok(order)
}

/// The names of one circle among the nodes that never became ready.
fn cycle(nodes: &[NodeProto], reads: &[Vec<usize>], missing: &[usize]) -> Vec<String> {
    let Some(start) = missing.iter().position(|&m| m > 0) else { return Vec::new() };
    let mut path = vec![start];
    let mut position: HashMap<usize, usize> = HashMap::from([(start, 0)]);
    let mut current = start;
    while let Some(&next) = reads[current].iter().find(|&&source| missing[source] > 0) {
        if let Some(&first) = position.get(&next) {
            let mut names: Vec<String> =
                path[first..].iter().rev().map(|&i| node_name(&nodes[i], i)).collect();
            names.extend(names.first().cloned());
            return names;
        }
        position.insert(next, path.len());
        path.push(next);
        current = next;
    }
    path.iter().map(|&i| node_name(&nodes[i], i)).collect()
}

/// Names of the values a node reads, those of its subgraphs that come from outside included.
pub(crate) fn reads(node: &NodeProto) -> Vec<&str> {
    let mut names: Vec<&str> = node.input.iter().map(String::as_str).filter(|n| !n.is_empty()).collect();
    for graph in node.attribute.iter().filter_map(|attribute| attribute.g.as_ref()) {
        names.extend(free_names(graph));
    }
    names
}

/// Names a subgraph reads and does not define.
fn free_names(graph: &GraphProto) -> Vec<&str> {
    let defined: BTreeSet<&str> = graph
        .node
        .iter()
        .flat_map(|node| node.output.iter().map(String::as_str))
        .chain(graph.initializer.iter().map(|tensor| tensor.name.as_str()))
        .chain(graph.input.iter().map(|input| input.name.as_str()))
        .collect();
    graph
        .node
        .iter()
        .flat_map(reads)
        .chain(graph.output.iter().map(|output| output.name.as_str()))
        .filter(|name| !defined.contains(name))
        .collect()
}
