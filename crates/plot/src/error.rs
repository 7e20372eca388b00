//! Why a picture cannot be made.

/// A failure to turn SVG into pixels.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// The text is not SVG that can be drawn.
    #[error("the picture cannot be read: {0}")]
    Svg(String),
    /// The picture has no pixels, or too many.
    #[error("a picture of {width} x {height} pixels cannot be drawn; choose another scale")]
    Size {
        /// Pixels across.
        width: f32,
        /// Pixels down.
        height: f32,
    },
    /// The pixels cannot be encoded.
    #[error("the picture cannot be written as PNG: {0}")]
    Encode(String),
}
