//! Runs a spec in the reference interpreter on random inputs, and compares with a function of the logical index.

use talweg_ir::interp::eval_dag;
use talweg_ir::{Array, Dag, Source, TensorId};
use talweg_ops::Spec;

/// Numbers with a shape; indices may lie outside.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    pub shape: Vec<i64>,
    pub values: Vec<f64>,
}

impl Grid {
    pub fn zeros(shape: &[i64]) -> Grid {
        Grid { shape: shape.to_vec(), values: vec![0.0; shape.iter().product::<i64>() as usize] }
    }

    fn flat(&self, index: &[i64]) -> Option<usize> {
        assert_eq!(index.len(), self.shape.len());
        let mut at = 0;
        for (i, extent) in index.iter().zip(&self.shape) {
            if !(0..*extent).contains(i) {
                return None;
            }
            at = at * extent + i;
        }
        Some(at as usize)
    }

    /// The element, when the index lies inside.
    pub fn get(&self, index: &[i64]) -> Option<f64> {
        self.flat(index).map(|at| self.values[at])
    }

    /// The element; the index must lie inside.
    pub fn at(&self, index: &[i64]) -> f64 {
        self.get(index).unwrap_or_else(|| panic!("{index:?} lies outside {:?}", self.shape))
    }

    /// The element, zero outside.
    pub fn or_zero(&self, index: &[i64]) -> f64 {
        self.get(index).unwrap_or(0.0)
    }

    /// Adds to an element; nothing outside.
    pub fn add(&mut self, index: &[i64], value: f64) {
        if let Some(at) = self.flat(index) {
            self.values[at] += value;
        }
    }

    fn index(&self, mut at: i64) -> Vec<i64> {
        let mut out = vec![0; self.shape.len()];
        for (i, extent) in out.iter_mut().zip(&self.shape).rev() {
            *i = at % extent;
            at /= extent;
        }
        out
    }
}

/// One evaluation of a spec.
pub struct Run {
    pub text: String,
    dag: Dag,
    given: Vec<(TensorId, Array)>,
    /// The output in its logical shape.
    pub output: Grid,
}

impl Run {
    /// Random inputs.
    pub fn of(text: &str) -> Run {
        Run::with(text, |_, _, value| value)
    }

    /// Random inputs changed by a function of tensor name, index and value.
    pub fn with(text: &str, change: impl Fn(&str, &[i64], f64) -> f64) -> Run {
        let spec = Spec::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let dag = spec.build().unwrap_or_else(|e| panic!("{text}: {e}"));
        let mut given = Vec::new();
        for id in dag.ids() {
            let tensor = dag.tensor(id);
            if matches!(tensor.source, Source::Compute(_)) {
                continue;
            }
            let shape = tensor.const_shape().expect("constant shape");
            let extents: Vec<usize> = shape.iter().map(|e| *e as usize).collect();
            // Seeded by name, so that two forms of one operator see the same data.
            let seed = tensor.name.bytes().fold(7, |h: u64, b| h.wrapping_mul(31) + u64::from(b));
            let mut array = Array::random(tensor.dtype, &extents, seed);
            let grid = Grid::zeros(&shape);
            for at in 0..array.len() {
                let value = change(&tensor.name, &grid.index(at as i64), array.get_f64(at));
                array.set_f64(at, value);
            }
            given.push((id, array));
        }
        let outputs = eval_dag(&dag, &given).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(outputs.len(), 1, "{text}");
        let shape = spec.output_shape();
        let output =
            Grid { shape, values: (0..outputs[0].1.len()).map(|i| outputs[0].1.get_f64(i)).collect() };
        assert_eq!(output.values.len() as i64, output.shape.iter().product::<i64>(), "{text}");
        Run { text: text.to_string(), dag, given, output }
    }

    /// An input or constant by name.
    pub fn tensor(&self, name: &str) -> Grid {
        let id = self.dag.find(name).unwrap_or_else(|| panic!("{}: no tensor `{name}`", self.text));
        let (_, array) = self.given.iter().find(|(t, _)| *t == id).expect("an input or a constant");
        let shape = array.shape().iter().map(|e| *e as i64).collect();
        Grid { shape, values: (0..array.len()).map(|i| array.get_f64(i)).collect() }
    }
}

/// Asserts that the output is exactly a function of its index.
pub fn exact(run: &Run, expected: impl Fn(&[i64]) -> f64) {
    close(run, 0.0, expected);
}

/// Asserts that the output is a function of its index, within a tolerance relative to magnitudes above 1.
pub fn close(run: &Run, tolerance: f64, expected: impl Fn(&[i64]) -> f64) {
    for (at, got) in run.output.values.iter().enumerate() {
        let index = run.output.index(at as i64);
        let want = expected(&index);
        let error = (got - want).abs();
        assert!(error <= tolerance * want.abs().max(1.0), "{}: {index:?} is {got}, not {want}", run.text);
    }
}
