//! Binding the extents of a model's inputs.

use std::collections::{BTreeMap, BTreeSet};

use talweg_tensor::TensorType;

use crate::error::{ImportError, Report, UnboundInput, Unsupported};
use crate::options::ImportOptions;
use crate::proto::{DimensionProto, GraphProto, ValueInfoProto};
use crate::weights;

/// The types of the inputs that are not constants, by name in the model's order. Inputs of unsupported types are
/// reported and left out; extents that nothing binds are all named in one error.
pub(crate) fn bind(
    graph: &GraphProto,
    options: &ImportOptions,
    report: &mut Report,
) -> Result<Vec<(String, TensorType)>, ImportError> {
    let constants: BTreeSet<&str> = graph
        .initializer
        .iter()
        .map(|tensor| tensor.name.as_str())
        .chain(graph.sparse_initializer.iter().filter_map(|s| s.values.as_ref()).map(|t| t.name.as_str()))
        .collect();
    let inputs: Vec<&ValueInfoProto> = graph
        .input
        .iter()
        .filter(|input| !constants.contains(input.name.as_str()) && !options.fixed.contains_key(&input.name))
        .collect();
    check_names(graph, &inputs, options)?;
    let dims = named_dims(&inputs, options)?;

    let mut types = Vec::new();
    let mut unbound = Vec::new();
    for input in inputs {
        let tensor_type = input.r#type.as_ref().and_then(|ty| ty.tensor_type.as_ref());
        let element = match tensor_type {
            None => Err("that is not a dense tensor".to_string()),
            Some(ty) => weights::element_type(ty.elem_type),
        };
        let element = match element {
            Ok(element) => element,
            Err(name) => {
                report.items.push(Unsupported {
                    op: "input".into(),
                    node: input.name.clone(),
                    reason: format!("the type {name} is not supported"),
                    remedy: "convert the model to dense tensors of floats, integers or truth values".into(),
                    data_dependent: false,
                });
                continue;
            }
        };
        if let Some(shape) = options.shapes.get(&input.name) {
            types.push((input.name.clone(), checked(&input.name, TensorType::new(element, shape.clone()))?));
            continue;
        }
        let Some(shape) = tensor_type.and_then(|ty| ty.shape.as_ref()) else {
            unbound.push(UnboundInput {
                name: input.name.clone(),
                shape: None,
                dims: vec![],
                needs_shape: true,
            });
            continue;
        };
        let extents: Vec<Extent> = shape.dim.iter().map(Extent::of).collect();
        let bound: Option<Vec<usize>> = extents.iter().map(|extent| extent.bound(&dims)).collect();
        match bound {
            Some(shape) => {
                types.push((input.name.clone(), checked(&input.name, TensorType::new(element, shape))?));
            }
            None => {
                let mut open: Vec<String> = Vec::new();
                for extent in &extents {
                    if let Extent::Named(name) = extent
                        && !dims.contains_key(*name)
                        && !open.iter().any(|known| known == name)
                    {
                        open.push((*name).to_string());
                    }
                }
                unbound.push(UnboundInput {
                    name: input.name.clone(),
                    shape: Some(extents.iter().map(Extent::text).collect()),
                    dims: open,
                    needs_shape: extents.iter().any(|extent| matches!(extent, Extent::Open)),
                });
            }
        }
    }
    if unbound.is_empty() { Ok(types) } else { Err(ImportError::UnboundDimensions(unbound)) }
}

/// An extent as the model gives it.
enum Extent<'m> {
    Known(usize),
    Named(&'m str),
    Open,
}

impl<'m> Extent<'m> {
    fn of(dim: &'m DimensionProto) -> Extent<'m> {
        match (dim.dim_value.and_then(|v| usize::try_from(v).ok()), dim.dim_param.as_deref()) {
            (Some(value), _) => Extent::Known(value),
            (None, Some(name)) if !name.is_empty() => Extent::Named(name),
            _ => Extent::Open,
        }
    }

    fn bound(&self, dims: &BTreeMap<String, usize>) -> Option<usize> {
        match self {
            Extent::Known(value) => Some(*value),
            Extent::Named(name) => dims.get(*name).copied(),
            Extent::Open => None,
        }
    }

    fn text(&self) -> String {
        match self {
            Extent::Known(value) => value.to_string(),
            Extent::Named(name) => (*name).to_string(),
            Extent::Open => "?".into(),
        }
    }
}

/// A type whose size can be counted.
fn checked(name: &str, ty: TensorType) -> Result<TensorType, ImportError> {
    let len = ty.shape.iter().try_fold(1usize, |len, &extent| len.checked_mul(extent));
    match len {
        Some(len) if len <= 1 << 40 => Ok(ty),
        _ => Err(ImportError::Limit(format!("input `{name}` has the shape {:?}", ty.shape))),
    }
}

/// Every name in the options must be an input's, or a dimension's.
fn check_names(
    graph: &GraphProto,
    inputs: &[&ValueInfoProto],
    options: &ImportOptions,
) -> Result<(), ImportError> {
    let known: Vec<&str> = graph.input.iter().map(|input| input.name.as_str()).collect();
    if let Some(name) = options.fixed.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(no_input(name, &known));
    }
    let open: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
    if let Some(name) = options.shapes.keys().find(|name| !open.contains(&name.as_str())) {
        return Err(no_input(name, &open));
    }
    let dims: BTreeSet<&str> = graph
        .input
        .iter()
        .filter_map(|input| input.r#type.as_ref()?.tensor_type.as_ref()?.shape.as_ref())
        .flat_map(|shape| shape.dim.iter().filter_map(|dim| dim.dim_param.as_deref()))
        .collect();
    if let Some(name) = options.dims.keys().find(|name| !dims.contains(name.as_str())) {
        let dims: Vec<&str> = dims.into_iter().collect();
        return Err(ImportError::Options(format!(
            "no input has a dimension `{name}`; the model's dimensions are: {}",
            list(&dims)
        )));
    }
    Ok(())
}

fn no_input(name: &str, known: &[&str]) -> ImportError {
    ImportError::Options(format!("the model has no input `{name}`; its inputs are: {}", list(known)))
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// Named dimensions: those given, and those that given shapes determine.
fn named_dims(
    inputs: &[&ValueInfoProto],
    options: &ImportOptions,
) -> Result<BTreeMap<String, usize>, ImportError> {
    let mut dims = options.dims.clone();
    for input in inputs {
        let Some(given) = options.shapes.get(&input.name) else { continue };
        let tensor_type = input.r#type.as_ref().and_then(|ty| ty.tensor_type.as_ref());
        let Some(shape) = tensor_type.and_then(|ty| ty.shape.as_ref()) else { continue };
        let extents: Vec<Extent> = shape.dim.iter().map(Extent::of).collect();
        let declared = || extents.iter().map(Extent::text).collect::<Vec<_>>().join(", ");
        let conflict = || {
            ImportError::Options(format!(
                "input `{}` has shape [{}] in the model, which {given:?} does not fit",
                input.name,
                declared()
            ))
        };
        if given.len() != extents.len() {
            return Err(conflict());
        }
        for (&value, extent) in given.iter().zip(&extents) {
            match extent {
                Extent::Known(known) if *known != value => return Err(conflict()),
                Extent::Named(name) => match dims.insert((*name).to_string(), value) {
                    Some(before) if before != value => {
                        return Err(ImportError::Options(format!(
                            "dimension `{name}` is bound to both {before} and {value}"
                        )));
                    }
                    _ => {}
                },
                _ => {}
            }
        }
    }
    Ok(dims)
}
