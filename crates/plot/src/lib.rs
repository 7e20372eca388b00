//! Charts as SVG text and PNG pictures, for reports that people read.
//!
//! A [`Figure`] is a grid of [`Panel`]s, each with its [`Axis`] and its lines, points or bars. [`Figure::svg`] draws it as
//! SVG; [`png`](fn@png) turns any SVG of this crate into a picture with the same letters on every machine, because the font
//! comes along.
//!
//! | module | holds |
//! |---|---|
//! | [`picture`] | shapes and text as SVG |
//! | [`axis`] | scales, their ends, ticks and labels |
//! | [`panel`] | one chart: lines, points and bars between two axes |
//! | [`figure`] | a title, a legend and a grid of panels |
//! | [`png`](mod@png) | SVG to PNG |
//! | [`error`] | why a picture cannot be made |

pub mod axis;
pub mod error;
pub mod figure;
pub mod panel;
pub mod picture;
pub mod png;

pub use axis::{Axis, Scale};
pub use error::PlotError;
pub use figure::Figure;
pub use panel::{Mark, Panel, Series};
pub use png::png;

/// Colours that people who do not tell red from green can tell apart, too.
pub const COLOURS: [&str; 7] = ["#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444"];

/// The colour of the n-th thing in a legend.
pub fn colour(at: usize) -> &'static str {
    COLOURS[at % COLOURS.len()]
}
