//! What can be wrong with data, parameters or a stored model.

/// Why a model could not be fitted, loaded or asked. No input makes this crate panic.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CostError {
    /// There is nothing to learn from.
    #[error("no {what} to fit a cost model on; measure some candidates first")]
    Empty {
        /// What is missing: rows, columns or programs.
        what: &'static str,
    },
    /// Two lengths that must agree do not.
    #[error("{what}: expected {expected}, found {found}; pass arrays that describe the same programs")]
    Shape {
        /// The array at fault.
        what: &'static str,
        /// The length it must have.
        expected: usize,
        /// The length it has.
        found: usize,
    },
    /// Program boundaries do not partition the rows.
    #[error(
        "offsets[{index}] = {value} does not partition {rows} rows; offsets start at 0, never decrease and end at the number of rows"
    )]
    Offsets {
        /// The first wrong entry.
        index: usize,
        /// Its value.
        value: usize,
        /// The rows to be partitioned.
        rows: usize,
    },
    /// A label or margin the objective cannot use.
    #[error("{what}[{index}] = {value} is not usable by the {objective} objective; {remedy}")]
    Value {
        /// The array at fault.
        what: &'static str,
        /// The first wrong entry.
        index: usize,
        /// Its value.
        value: f32,
        /// The objective that refused it.
        objective: &'static str,
        /// What to pass instead.
        remedy: &'static str,
    },
    /// A parameter outside its range.
    #[error("parameter {name} = {value} is out of range; choose {range}")]
    Param {
        /// The field of [`crate::Params`].
        name: &'static str,
        /// Its value.
        value: f64,
        /// The values that work.
        range: &'static str,
    },
    /// More columns than a tree node can name.
    #[error("{cols} feature columns are more than a tree can address ({limit}); drop or merge some")]
    TooManyColumns {
        /// Columns of the matrix.
        cols: usize,
        /// The largest number supported.
        limit: usize,
    },
    /// A model asked about data of another width.
    #[error(
        "the model was fitted on {model} feature columns, the data has {data}; use the same feature version for both, or refit"
    )]
    Columns {
        /// Columns the model knows.
        model: usize,
        /// Columns of the data.
        data: usize,
    },
    /// A stored model that is not one.
    #[error(
        "tree {tree} of the stored model is damaged at node {node}: {problem}; discard the file and refit"
    )]
    Damaged {
        /// Index of the tree.
        tree: usize,
        /// Index of the node within it.
        node: usize,
        /// What is wrong there.
        problem: &'static str,
    },
    /// Text that is not a model.
    #[error("the stored model cannot be read: {text}; discard the file and refit")]
    Text {
        /// What the parser said, with its position.
        text: String,
    },
}
