//! Random changes to a model's messages, which keep the file well formed and so reach the operators.

use bytes::Bytes;
use prost::Message;
use talweg_onnx::proto::{AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto};

use crate::mutate::Random;

/// Numbers that break arithmetic.
const EXTREMES: [i64; 14] =
    [0, 1, -1, 2, -2, 3, 7, 64, 1 << 20, 1 << 31, 1 << 40, i64::MAX, i64::MIN, i64::MAX / 2];

/// One to four changes to a model, with material from another; `None` if either is not a model.
pub fn rewrite(bytes: &[u8], other: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let mut model = ModelProto::decode(bytes).ok()?;
    let other = ModelProto::decode(other).ok()?;
    for _ in 0..=random.below(4) {
        if random.below(12) == 0
            && let Some(set) = model.opset_import.first_mut()
        {
            set.version = 1 + random.below(28) as i64;
        }
        if let (Some(graph), Some(donor)) = (model.graph.as_mut(), other.graph.as_ref()) {
            change_graph(graph, donor, random);
        }
    }
    Some(model.encode_to_vec())
}

fn pick<'a, T>(list: &'a [T], random: &mut Random) -> Option<&'a T> {
    if list.is_empty() { None } else { list.get(random.below(list.len())) }
}

fn change_graph(graph: &mut GraphProto, donor: &GraphProto, random: &mut Random) {
    let names: Vec<String> = graph
        .input
        .iter()
        .map(|input| input.name.clone())
        .chain(graph.initializer.iter().map(|tensor| tensor.name.clone()))
        .chain(graph.node.iter().flat_map(|node| node.output.clone()))
        .collect();
    match random.below(4) {
        0 if !graph.initializer.is_empty() => {
            let at = random.below(graph.initializer.len());
            change_tensor(&mut graph.initializer[at], random);
        }
        1 if !graph.input.is_empty() => {
            let at = random.below(graph.input.len());
            let ty = graph.input[at].r#type.as_mut().and_then(|ty| ty.tensor_type.as_mut());
            let Some(ty) = ty else { return };
            if random.below(4) == 0 {
                ty.elem_type = 1 + random.below(16) as i32;
            } else if let Some(shape) = ty.shape.as_mut() {
                match random.below(3) {
                    0 => drop(shape.dim.pop()),
                    _ if shape.dim.is_empty() => {}
                    1 => shape.dim.push(shape.dim[0].clone()),
                    _ => {
                        let at = random.below(shape.dim.len());
                        shape.dim[at].dim_value = Some(EXTREMES[random.below(9)]);
                    }
                }
            }
        }
        _ if !graph.node.is_empty() => {
            let at = random.below(graph.node.len());
            change_node(&mut graph.node[at], donor, &names, random);
        }
        _ => {}
    }
}

fn change_node(node: &mut NodeProto, donor: &GraphProto, names: &[String], random: &mut Random) {
    match random.below(6) {
        0 => {
            if let Some(from) = pick(&donor.node, random) {
                node.op_type = from.op_type.clone();
            }
        }
        1 => {
            if let Some(from) = pick(&donor.node, random) {
                node.op_type = from.op_type.clone();
                node.attribute = from.attribute.clone();
            }
        }
        2 if !node.input.is_empty() => {
            let at = random.below(node.input.len());
            node.input[at] = if random.below(4) == 0 {
                String::new()
            } else {
                pick(names, random).cloned().unwrap_or_default()
            };
        }
        3 => match random.below(2) {
            0 => drop(node.input.pop()),
            _ => node.input.extend(pick(names, random).cloned()),
        },
        4 if !node.attribute.is_empty() => {
            let at = random.below(node.attribute.len());
            drop(node.attribute.remove(at));
        }
        _ if !node.attribute.is_empty() => {
            let at = random.below(node.attribute.len());
            change_attribute(&mut node.attribute[at], donor, names, random);
        }
        _ => {}
    }
}

fn change_attribute(
    attribute: &mut AttributeProto,
    donor: &GraphProto,
    names: &[String],
    random: &mut Random,
) {
    let number = EXTREMES[random.below(EXTREMES.len())];
    if attribute.i.is_some() {
        attribute.i = Some(number);
    }
    if attribute.f.is_some() {
        attribute.f = Some([0.0, -1.0, 1e30, f32::NAN, f32::INFINITY][random.below(5)]);
    }
    match random.below(3) {
        0 => drop(attribute.ints.pop()),
        1 if !attribute.ints.is_empty() => attribute.ints.push(number),
        _ if !attribute.ints.is_empty() => {
            let at = random.below(attribute.ints.len());
            attribute.ints[at] = number;
        }
        _ => {}
    }
    if let Some(tensor) = attribute.t.as_mut() {
        change_tensor(tensor, random);
    }
    if let Some(inner) = attribute.g.as_mut()
        && !inner.node.is_empty()
    {
        let at = random.below(inner.node.len());
        change_node(&mut inner.node[at], donor, names, random);
    }
}

fn change_tensor(tensor: &mut TensorProto, random: &mut Random) {
    let number = EXTREMES[random.below(EXTREMES.len())];
    match random.below(4) {
        0 => drop(tensor.dims.pop()),
        1 => tensor.dims.push(1),
        2 if !tensor.dims.is_empty() => {
            let at = random.below(tensor.dims.len());
            tensor.dims[at] = number;
        }
        _ => {
            if !tensor.int64_data.is_empty() {
                let at = random.below(tensor.int64_data.len());
                tensor.int64_data[at] = number;
            }
            if let Some(raw) = &tensor.raw_data
                && raw.len() >= 8
            {
                let mut raw = raw.to_vec();
                let at = random.below(raw.len() / 8) * 8;
                raw[at..at + 8].copy_from_slice(&number.to_le_bytes());
                tensor.raw_data = Some(Bytes::from(raw));
            }
        }
    }
}
