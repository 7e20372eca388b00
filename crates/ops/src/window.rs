//! Kernel, stride, dilation and padding along one spatial axis.

use crate::error::OpError;

/// A sliding window along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Taps.
    pub kernel: i64,
    /// Distance between windows.
    pub stride: i64,
    /// Distance between taps.
    pub dilation: i64,
    /// Elements of padding before the first.
    pub before: i64,
    /// Elements of padding after the last.
    pub after: i64,
}

/// Largest kernel, stride, dilation or padding; keeps every extent computed from them far from overflow.
pub const MAX_WINDOW: i64 = 1 << 16;

/// Largest extent of one axis.
pub const MAX_EXTENT: i64 = 1 << 31;

impl Window {
    /// A window of `kernel` taps, stride 1, no padding.
    pub fn new(kernel: i64) -> Window {
        Window { kernel, stride: 1, dilation: 1, before: 0, after: 0 }
    }

    /// The same window with another stride.
    pub fn stride(self, stride: i64) -> Window {
        Window { stride, ..self }
    }

    /// The same window with another dilation.
    pub fn dilation(self, dilation: i64) -> Window {
        Window { dilation, ..self }
    }

    /// The same window with padding on both sides.
    pub fn padding(self, before: i64, after: i64) -> Window {
        Window { before, after, ..self }
    }

    /// How many elements the dilated kernel spans.
    pub fn span(&self) -> i64 {
        self.dilation * (self.kernel - 1) + 1
    }

    pub(crate) fn check(&self, operator: &'static str) -> Result<(), OpError> {
        for (what, found, min) in [
            ("the kernel", self.kernel, 1),
            ("the stride", self.stride, 1),
            ("the dilation", self.dilation, 1),
            ("the padding", self.before, 0),
            ("the padding", self.after, 0),
        ] {
            if !(min..=MAX_WINDOW).contains(&found) {
                return Err(OpError::Range { operator, what: what.to_string(), found, min, max: MAX_WINDOW });
            }
        }
        Ok(())
    }

    /// How many windows fit into an input extent.
    pub fn output(&self, operator: &'static str, axis: usize, input: i64) -> Result<i64, OpError> {
        self.check(operator)?;
        let padded = input + self.before + self.after;
        if self.span() > padded {
            return Err(OpError::KernelTooLarge { operator, axis, kernel: self.span(), padded });
        }
        Ok((padded - self.span()) / self.stride + 1)
    }

    /// The output extent of the transposed convolution with this window.
    pub fn transposed_output(
        &self,
        operator: &'static str,
        axis: usize,
        input: i64,
        output_padding: i64,
    ) -> Result<i64, OpError> {
        self.check(operator)?;
        let max = self.stride.max(self.dilation) - 1;
        if !(0..=max).contains(&output_padding) {
            let what = "the output padding".to_string();
            return Err(OpError::Range { operator, what, found: output_padding, min: 0, max });
        }
        let extent = (input - 1) * self.stride - self.before - self.after + self.span() + output_padding;
        if extent < 1 {
            return Err(OpError::EmptyOutput { operator, axis, extent });
        }
        Ok(extent)
    }
}

/// Names of the spatial axes of a rank, slowest first.
pub(crate) fn spatial_letters(rank: usize) -> &'static [&'static str] {
    match rank {
        1 => &["w"],
        2 => &["h", "w"],
        _ => &["d", "h", "w"],
    }
}

/// Refuses anything but one to three spatial axes.
pub(crate) fn check_rank(operator: &'static str, rank: usize) -> Result<(), OpError> {
    if (1..=3).contains(&rank) {
        return Ok(());
    }
    let what = "the number of spatial axes".to_string();
    Err(OpError::Range { operator, what, found: rank as i64, min: 1, max: 3 })
}
