//! A node as the functions that translate it see it: its inputs, attributes and operator set.

use std::collections::BTreeMap;
use std::fmt;

use talweg_graph::ValueId;
use talweg_tensor::{ElementType, Tensor};

use crate::builder::Builder;
use crate::error::Failure;
use crate::file::ExternalFiles;
use crate::proto::{AttributeProto, attribute_type};
use crate::weights::{self, WeightsError};

/// What translating a node gives: its outputs in order, or why there are none.
pub(crate) type Outputs = Result<Vec<ValueId>, Failure>;

/// Attributes by name.
pub(crate) type Attributes<'m> = BTreeMap<&'m str, &'m AttributeProto>;

/// A node that is being translated.
pub(crate) struct Call<'a, 'm> {
    /// Where its operators go.
    pub(crate) builder: &'a mut Builder,
    /// Where external data comes from.
    pub(crate) files: &'a mut ExternalFiles,
    /// Its attributes.
    pub(crate) attributes: Attributes<'m>,
    /// Its inputs; absent optional ones are `None`.
    pub(crate) inputs: Vec<Option<ValueId>>,
    /// For each output, whether anything can read it.
    pub(crate) outputs: Vec<bool>,
    /// The version of the operator set.
    pub(crate) opset: i64,
}

impl Call<'_, '_> {
    /// An input that must be there.
    pub(crate) fn input(&self, index: usize) -> Result<ValueId, Failure> {
        self.optional(index).ok_or_else(|| Failure::invalid(format!("input {index} is missing")))
    }

    /// An input that may be absent.
    pub(crate) fn optional(&self, index: usize) -> Option<ValueId> {
        self.inputs.get(index).copied().flatten()
    }

    /// True when output `index` is used.
    pub(crate) fn wants(&self, index: usize) -> bool {
        self.outputs.get(index).copied().unwrap_or(false)
    }

    pub(crate) fn shape(&self, value: ValueId) -> Vec<usize> {
        self.builder.shape(value)
    }

    pub(crate) fn rank(&self, value: ValueId) -> usize {
        self.builder.rank(value)
    }

    pub(crate) fn element(&self, value: ValueId) -> ElementType {
        self.builder.element(value)
    }

    fn attribute(&self, name: &str, kind: i32) -> Result<Option<&AttributeProto>, Failure> {
        match self.attributes.get(name) {
            None => Ok(None),
            Some(attribute) if attribute.r#type == kind || attribute.r#type == 0 => Ok(Some(attribute)),
            Some(_) => Err(Failure::invalid(format!("attribute `{name}` has the wrong type"))),
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.attributes.contains_key(name)
    }

    pub(crate) fn int(&self, name: &str) -> Result<Option<i64>, Failure> {
        Ok(self.attribute(name, attribute_type::INT)?.map(|a| a.i.unwrap_or(0)))
    }

    pub(crate) fn int_or(&self, name: &str, default: i64) -> Result<i64, Failure> {
        Ok(self.int(name)?.unwrap_or(default))
    }

    /// An integer attribute that means yes or no.
    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool, Failure> {
        Ok(self.int_or(name, default.into())? != 0)
    }

    pub(crate) fn float(&self, name: &str) -> Result<Option<f32>, Failure> {
        Ok(self.attribute(name, attribute_type::FLOAT)?.map(|a| a.f.unwrap_or(0.0)))
    }

    pub(crate) fn float_or(&self, name: &str, default: f32) -> Result<f32, Failure> {
        Ok(self.float(name)?.unwrap_or(default))
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<String>, Failure> {
        let bytes = self.attribute(name, attribute_type::STRING)?.map(|a| a.s.clone().unwrap_or_default());
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    pub(crate) fn text_or(&self, name: &str, default: &str) -> Result<String, Failure> {
        Ok(self.text(name)?.unwrap_or_else(|| default.to_string()))
    }

    pub(crate) fn texts(&self, name: &str) -> Result<Option<Vec<String>>, Failure> {
        let strings = self.attribute(name, attribute_type::STRINGS)?.map(|a| &a.strings);
        Ok(strings.map(|all| all.iter().map(|s| String::from_utf8_lossy(s).into_owned()).collect()))
    }

    pub(crate) fn ints(&self, name: &str) -> Result<Option<Vec<i64>>, Failure> {
        Ok(self.attribute(name, attribute_type::INTS)?.map(|a| a.ints.clone()))
    }

    pub(crate) fn floats(&self, name: &str) -> Result<Option<Vec<f32>>, Failure> {
        Ok(self.attribute(name, attribute_type::FLOATS)?.map(|a| a.floats.clone()))
    }

    /// A tensor attribute.
    pub(crate) fn tensor(&mut self, name: &str) -> Result<Option<Tensor>, Failure> {
        let Some(attribute) = self.attribute(name, attribute_type::TENSOR)? else { return Ok(None) };
        let Some(proto) = attribute.t.clone() else {
            return Err(Failure::invalid(format!("attribute `{name}` is empty")));
        };
        weights::tensor(&proto, self.files).map(Some).map_err(weights_failure)
    }

    /// A list of sizes, one for each of `rank` axes, with a default.
    pub(crate) fn sizes(&self, name: &str, rank: usize, default: usize) -> Result<Vec<usize>, Failure> {
        match self.ints(name)? {
            None => Ok(vec![default; rank]),
            Some(values) if values.len() == rank => {
                values.iter().map(|&v| size(v, format_args!("attribute `{name}`"))).collect()
            }
            Some(values) => Err(Failure::invalid(format!(
                "attribute `{name}` has {} entries for {rank} axes",
                values.len()
            ))),
        }
    }

    /// A constant input, or `None` if it is absent.
    pub(crate) fn known(&self, index: usize, what: &str) -> Result<Option<Tensor>, Failure> {
        match self.optional(index) {
            None => Ok(None),
            Some(id) => match self.builder.known(id) {
                Some(tensor) => Ok(Some(tensor.clone())),
                None => Err(Failure::data_dependent(what)),
            },
        }
    }

    /// The integers of a constant input, or `None` if it is absent.
    pub(crate) fn known_ints(&self, index: usize, what: &str) -> Result<Option<Vec<i64>>, Failure> {
        Ok(self.known(index, what)?.map(|tensor| tensor.to_i64()))
    }

    /// The integer of a constant input with one element.
    pub(crate) fn known_int(&self, index: usize, what: &str) -> Result<Option<i64>, Failure> {
        match self.known_ints(index, what)? {
            None => Ok(None),
            Some(values) if values.len() == 1 => Ok(Some(values[0])),
            Some(values) => {
                Err(Failure::invalid(format!("{what} has {} elements instead of one", values.len())))
            }
        }
    }

    /// Integers that are an attribute up to an operator set and a constant input from then on.
    pub(crate) fn ints_since(
        &self,
        opset: i64,
        index: usize,
        name: &str,
    ) -> Result<Option<Vec<i64>>, Failure> {
        if self.opset < opset { self.ints(name) } else { self.known_ints(index, name) }
    }

    /// An attribute `axis`, counted from the end if negative.
    pub(crate) fn axis(&self, default: i64, rank: usize) -> Result<usize, Failure> {
        axis(self.int_or("axis", default)?, rank)
    }

    /// The element type that attribute `name` asks for.
    pub(crate) fn element_attribute(&self, name: &str) -> Result<Option<ElementType>, Failure> {
        match self.int(name)? {
            None => Ok(None),
            Some(code) => element_type(code).map(Some),
        }
    }
}

/// The element type of an ONNX code.
pub(crate) fn element_type(code: i64) -> Result<ElementType, Failure> {
    weights::element_type(i32::try_from(code).unwrap_or(-1)).map_err(unsupported_type)
}

/// An element type that networks here cannot have.
pub(crate) fn unsupported_type(name: String) -> Failure {
    Failure::unsupported(
        format!("the element type {name} is not supported"),
        "convert the model to floats, integers or truth values",
    )
}

/// A constant that could not be read.
pub(crate) fn weights_failure(error: WeightsError) -> Failure {
    match error {
        WeightsError::Type(name) => unsupported_type(name),
        WeightsError::Import(error) => Failure::Fatal(error),
    }
}

/// An axis, counted from the end if negative.
pub(crate) fn axis(value: i64, rank: usize) -> Result<usize, Failure> {
    let resolved = if value < 0 { value.saturating_add(rank as i64) } else { value };
    match usize::try_from(resolved) {
        Ok(axis) if axis < rank => Ok(axis),
        _ => Err(Failure::invalid(format!("axis {value} does not exist in a tensor of rank {rank}"))),
    }
}

/// Distinct axes in ascending order.
pub(crate) fn axes(values: &[i64], rank: usize) -> Result<Vec<usize>, Failure> {
    let mut axes = values.iter().map(|&v| axis(v, rank)).collect::<Result<Vec<usize>, Failure>>()?;
    axes.sort_unstable();
    if axes.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Failure::invalid(format!("the axes {values:?} name one twice")));
    }
    Ok(axes)
}

/// A size that must not be negative.
pub(crate) fn size(value: i64, what: impl fmt::Display) -> Result<usize, Failure> {
    usize::try_from(value).map_err(|_| Failure::invalid(format!("{what} is {value}, which is negative")))
}
