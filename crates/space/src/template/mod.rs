//! Templates: schedules written by hand against a configuration space, as AutoTVM has them.
//!
//! A template is run once to collect what it leaves open. Numeric choices (`split`) become knobs of one sketch;
//! structural ones (`reorder`, `annotate`, `knob`) are enumerated by running the template again for each combination,
//! one sketch each, so that a template's space is the same data as a derived one.
//!
//! | template | operators |
//! |---|---|
//! | [`dense`] | matmul |
//! | [`batch_matmul`] | batched matmul |
//! | [`conv2d_pointwise`] | convolutions with a window of one element |
//! | [`conv2d`] | other convolutions of one or two dimensions, grouped too |
//! | [`depthwise`] | depthwise convolutions, pooling |
//! | [`conv3d`] | convolutions of three dimensions |
//! | [`conv_transpose`] | transposed convolutions |

pub mod batch_matmul;
mod config;
mod contraction;
pub mod conv2d;
pub mod conv2d_pointwise;
pub mod conv3d;
pub mod conv_transpose;
pub mod dense;
pub mod depthwise;

use talweg_ir::Dag;
use talweg_target::Target;

pub use config::{AnnotatePolicy, Annotation, Config, ReorderPolicy, Sizes, Split, SplitPolicy};
pub use contraction::Contraction;

use crate::analysis::{StageKind, Stages};
use crate::error::SpaceError;
use crate::sketch::Sketch;
use crate::space::Space;
use crate::state::SketchState;

/// Structural combinations of one template, at most.
const MAX_SKETCHES: usize = 256;

/// A schedule with open choices, for a family of operators.
pub trait Template: Send + Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Whether it is written for what the DAG computes.
    fn matches(&self, shape: &Shape) -> bool;

    /// Schedules the DAG; every choice is asked of the configuration.
    fn schedule(&self, config: &mut Config) -> Result<(), SpaceError>;
}

/// What a DAG computes, as far as templates tell DAGs apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// The one reduction that needs tiling.
    pub stage: String,
    /// What kind of reduction.
    pub kind: StageKind,
    /// Axes of the result.
    pub axes: Vec<(String, i64)>,
    /// Axes of the reduction, the channels last.
    pub reduce: Vec<(String, i64)>,
    /// Axes besides the last that the streamed operand depends on.
    pub batch: Vec<String>,
    /// Whether elements are read under a guard inside the reduction.
    pub guarded: bool,
}

impl Shape {
    /// Finds the reduction; `None` unless there is exactly one that needs tiling.
    pub fn of(dag: &Dag) -> Option<Shape> {
        let schedule = talweg_schedule::Schedule::new(dag.clone());
        let stages = Stages(&schedule);
        let mut tiled = schedule.stage_names();
        tiled.retain(|s| stages.is_reduction(s) && stages.needs_tiling(s));
        let [stage]: [String; 1] = tiled.try_into().ok()?;
        Some(Shape {
            kind: stages.kind(&stage),
            axes: stages.axes(&stage),
            reduce: stages.reduce_axes(&stage),
            batch: stages.streamed(&stage).axes,
            guarded: stages.is_guarded(&stage),
            stage,
        })
    }

    /// Whether the axes of the reduction before the channels have one element each.
    pub fn is_pointwise(&self) -> bool {
        self.reduce.len() > 1 && self.reduce[..self.reduce.len() - 1].iter().all(|(_, e)| *e == 1)
    }

    /// Whether the result has phases (one axis more for each axis of the window), or guards stand for them.
    pub fn is_transposed(&self) -> bool {
        self.reduce.len() > 1 && (self.guarded || self.axes.len() >= 2 * self.reduce.len())
    }
}

/// The shipped templates, most special first.
pub fn templates() -> Vec<Box<dyn Template>> {
    vec![
        Box::new(dense::Dense),
        Box::new(batch_matmul::BatchMatmul),
        Box::new(conv_transpose::ConvTranspose),
        Box::new(conv3d::Conv3d),
        Box::new(conv2d_pointwise::Conv2dPointwise),
        Box::new(conv2d::Conv2d),
        Box::new(depthwise::Depthwise),
    ]
}

impl Space {
    /// The space of a template: one sketch for each combination of its structural choices.
    pub fn from_template(dag: &Dag, target: &Target, template: &dyn Template) -> Result<Space, SpaceError> {
        let fail = |message: String| SpaceError::Template { template: template.name().to_string(), message };
        let shape = Shape::of(dag)
            .filter(|s| template.matches(s))
            .ok_or_else(|| fail(format!("it is not written for `{}`; use sketch rules", dag.name)))?;
        let mut sketches: Vec<Sketch> = Vec::new();
        let mut next = Some(Vec::new());
        while let Some(choices) = next {
            let mut config = Config::new(SketchState::new(dag, target), shape.clone(), choices);
            template.schedule(&mut config)?;
            config.finish_other_stages();
            next = config.next_choices();
            if let Some(sketch) = config.into_state().finish()
                && !sketches.iter().any(|s| s.trace == sketch.trace)
            {
                sketches.push(sketch);
            }
            if sketches.len() >= MAX_SKETCHES {
                return Err(fail(format!(
                    "more than {MAX_SKETCHES} structural choices; give fewer candidates"
                )));
            }
        }
        if sketches.is_empty() {
            return Err(fail("none of its choices can be lowered".into()));
        }
        Ok(Space { dag: dag.clone(), sketches })
    }

    /// The space of the first shipped template written for the DAG; `None` when there is none.
    pub fn templated(dag: &Dag, target: &Target) -> Option<Space> {
        let shape = Shape::of(dag)?;
        let template = templates().into_iter().find(|t| t.matches(&shape))?;
        Space::from_template(dag, target, template.as_ref()).ok()
    }
}
