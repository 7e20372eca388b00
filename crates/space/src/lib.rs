//! Schedule spaces: sketches with knobs, their constraints as formulas, and the ways to produce them.
//!
//! | module | holds |
//! |---|---|
//! | [`space`] | a space and its candidates made concrete |
//! | [`sketch`] | one sketch: trace, symbolic nest, knobs, constraints |
//! | [`knob`] | knobs and constraints as data |
//! | [`domain`] | which values a knob may take |
//! | [`index`] | candidates as mixed-radix numbers |
//! | [`candidate`] | sketch and knob values, as text too |
//! | [`sample`] | random candidates, repair, the size of a space |
//! | [`perfect`] | the part of a space whose tiles divide their loops |
//! | [`vary`] | mutation and crossover |
//! | [`relax`] | knobs as real variables, and rounding back |
//! | `formula` | constraints compiled for fast checks |
//! | [`rng`] | the one random stream |
//! | [`analysis`] | what rules ask about the stages of a DAG |
//! | [`state`] | a sketch under construction |
//! | [`rules`] | sketch rules, one a file, and their derivation (Ansor) |
//! | `scheme` | Strassen's scheme with its sizes open |
//! | [`template`] | templates written against a configuration space, one a file (AutoTVM) |
//! | [`text`] | printing a space |

pub mod analysis;
pub mod candidate;
pub mod domain;
pub mod error;
mod formula;
pub mod index;
pub mod knob;
pub mod perfect;
pub mod relax;
pub mod rng;
pub mod rules;
pub mod sample;
mod scheme;
pub mod sketch;
pub mod space;
pub mod state;
pub mod template;
pub mod text;
pub mod vary;

pub use candidate::Candidate;
pub use error::SpaceError;
pub use knob::{Constraint, Knob, KnobRole};
pub use relax::{Relaxation, Rounding};
pub use rng::Rng;
pub use rules::{Decision, SketchRule, cpu_rules};
pub use sketch::{Node, Sketch};
pub use space::Space;
pub use state::SketchState;
