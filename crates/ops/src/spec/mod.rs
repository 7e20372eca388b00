//! One line of text that names an operator: `conv2d:n=1,h=56,w=56,c=64,f=64,k=3,s=1,p=1,epilogue=bias+relu`.
//!
//! | module | holds |
//! |---|---|
//! | [`table`] | the operators: parameters, defaults, ranges, help |
//! | [`parse`] | text to [`Spec`] |
//! | [`build`] | [`Spec`] to DAG |
//! | [`error`] | what can be wrong with the text |

pub mod build;
pub mod error;
pub mod parse;
pub mod table;

use std::fmt;

use talweg_ir::{DType, Dag};

use crate::chain::ChainOp;
pub use error::SpecError;
use table::{Fallback, ParamKind};
pub use table::{OperatorInfo, ParamInfo, operators};

/// An operator with all its parameters. A parsed spec always builds.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    operator: &'static OperatorInfo,
    /// One entry for each parameter of the operator; `None` where the text left it out or named the default.
    values: Vec<Option<Value>>,
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Int(i64),
    /// A real number.
    Real(f64),
    /// One of a list of words.
    Word(&'static str),
    /// An element type.
    Type(DType),
    /// A chain of elementwise operations.
    Chain(Vec<ChainOp>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(v) => write!(f, "{v}"),
            Value::Real(v) => write!(f, "{v}"),
            Value::Word(v) => f.write_str(v),
            Value::Type(v) => write!(f, "{v}"),
            Value::Chain(ops) => {
                for (at, op) in ops.iter().enumerate() {
                    if at > 0 {
                        f.write_str("+")?;
                    }
                    write!(f, "{op}")?;
                }
                Ok(())
            }
        }
    }
}

/// The canonical text: parameters in the table's order, defaults left out.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.operator.name)?;
        let mut mark = ':';
        for (param, value) in self.operator.params.iter().zip(&self.values) {
            if let Some(value) = value {
                write!(f, "{mark}{}={value}", param.name)?;
                mark = ',';
            }
        }
        Ok(())
    }
}

impl std::str::FromStr for Spec {
    type Err = SpecError;
    fn from_str(text: &str) -> Result<Spec, SpecError> {
        Spec::parse(text)
    }
}

impl Spec {
    /// The operator's entry in the table.
    pub fn operator(&self) -> &'static OperatorInfo {
        self.operator
    }

    /// The value of a parameter, defaults resolved; `None` when the operator has no such parameter.
    pub fn get(&self, name: &str) -> Option<Value> {
        let at = self.operator.params.iter().position(|p| p.name == name)?;
        if let Some(given) = &self.values[at] {
            return Some(given.clone());
        }
        match &self.operator.params[at].fallback {
            Fallback::Required => None,
            Fallback::Value(v) => Some(v.clone()),
            Fallback::Same(other) => self.get(other),
        }
    }

    /// The element type of the operator's inputs.
    pub fn dtype(&self) -> DType {
        match self.get("dtype") {
            Some(Value::Type(d)) => d,
            _ => DType::F32,
        }
    }

    /// The tensor expression.
    pub fn build(&self) -> Result<Dag, SpecError> {
        Ok(self.built()?.dag)
    }

    /// The shape of the output as callers see it; the computed tensor holds the same bytes, possibly with an axis split.
    pub fn output_shape(&self) -> Vec<i64> {
        self.built().map(|b| b.output.shape).unwrap_or_default()
    }

    /// Useful arithmetic of one run.
    ///
    /// Matrix products and convolutions count two for each multiply-accumulate of the definition (padding included,
    /// epilogue not); transposed convolutions count each input element once for each tap and filter. All other
    /// operators count, at every point of every stage, one for each function, arithmetic operator and reduction step;
    /// conversions, selections and index arithmetic are free.
    pub fn flops(&self) -> f64 {
        let Ok(built) = self.built() else {
            return 0.0;
        };
        match built.macs {
            Some(macs) => 2.0 * macs,
            None => built.dag.arithmetic(),
        }
    }

    /// Bytes that must move between memory and the operator: every input, constant and output once.
    pub fn bytes(&self) -> f64 {
        let Ok(dag) = self.build() else {
            return 0.0;
        };
        dag.moved_bytes()
    }
}

/// Finds the parameter kind for error texts.
pub(crate) fn describe(kind: &ParamKind) -> String {
    match kind {
        ParamKind::Int { min, max } => format!("a whole number from {min} to {max}"),
        ParamKind::Real { min, max } => format!("a number from {min} to {max}"),
        ParamKind::Word(words) => format!("one of {}", words.join(", ")),
        ParamKind::Type(types) => {
            let names: Vec<&str> = types.iter().map(|t| t.name()).collect();
            format!("one of {}", names.join(", "))
        }
        ParamKind::Chain => {
            format!("operations joined by `+`, each one of {}", ChainOp::names().join(", "))
        }
    }
}
