//! Convolution: channels by vectors, a strip of the result's row in registers, input channels in blocks.
//!
//! Choices: `tile_oc` (vectors of output channels), `tile_ow` (the strip, two levels), `tile_ic` (input channels per
//! block), `unroll_kw`, and whether the blocks of channels or the rows run outermost.

use talweg_expr::Expr;

use super::{Config, Contraction, ReorderPolicy, Shape, Sizes, SplitPolicy, Template};
use crate::analysis::StageKind;
use crate::error::SpaceError;

/// See the module.
pub struct Conv2d;

impl Template for Conv2d {
    fn name(&self) -> &'static str {
        "conv2d"
    }

    fn matches(&self, shape: &Shape) -> bool {
        shape.kind == StageKind::Contraction && matches!(shape.reduce.len(), 2 | 3)
    }

    fn schedule(&self, config: &mut Config) -> Result<(), SpaceError> {
        strip(config, &Strip { tile_rows: false, unroll_window: true })
    }
}

/// What the convolution templates differ in.
pub(super) struct Strip {
    /// Whether the register tile also spans rows of the image.
    pub tile_rows: bool,
    /// Whether unrolling the window's last axis is on offer.
    pub unroll_window: bool,
}

/// Output channels by vectors, neighbours along the row in registers.
pub(super) fn strip(config: &mut Config, options: &Strip) -> Result<(), SpaceError> {
    let c = Contraction::begin(config)?;
    let batch_names = config.shape.batch.clone();
    let own = config.state.stages().axes(&c.local);
    let axes = c.axes(config);
    let Some(((channel, _), others)) = axes.split_last() else { return Ok(()) };
    let is_row = |at: usize| !batch_names.contains(&own[at].0) && others[at].1 > 1;
    let mut rows: Vec<String> =
        (0..others.len()).filter(|at| is_row(*at)).map(|at| others[at].0.clone()).collect();
    let column = rows.pop();
    let row = if options.tile_rows { rows.pop() } else { None };

    let channels =
        config.split(&c.outer, &c.outer, channel, 2, &SplitPolicy::new(Sizes::Vectors).max_factor(128))?;
    let (mut inside, mut middle, mut registers) = (Vec::new(), Vec::new(), Expr::int(1));
    let mut outside: Vec<String> = Vec::new();
    for (name, _) in others {
        if column.as_ref() == Some(name) || row.as_ref() == Some(name) {
            let parts =
                config.split(&c.outer, &c.outer, name, 3, &SplitPolicy::new(Sizes::All).max_factor(30))?;
            outside.push(parts.loops[0].clone());
            middle.push(parts.loops[1].clone());
            inside.push(parts.inner());
            registers = registers * parts.inner_size();
        } else {
            outside.push(name.clone());
        }
    }
    inside.push(channels.inner());
    let all: Vec<String> =
        outside.iter().chain([&channels.loops[0]]).chain(&middle).chain(&inside).cloned().collect();
    config.reorder(&c.outer, &all, &ReorderPolicy::Identity)?;
    // Blocks of channels outermost keep weights in the cache, rows outermost keep the image.
    let count = outside.len();
    let together: Vec<String> = outside.iter().chain([&channels.loops[0]]).cloned().collect();
    let weights_first: Vec<usize> = std::iter::once(count).chain(0..count).collect();
    let orders = vec![(0..=count).collect(), weights_first];
    let blocks = config.reorder(&c.outer, &together, &ReorderPolicy::Candidates(orders))?;

    let (reduction, unrolled) = window(config, &c, options.unroll_window)?;
    c.limit(config, registers, channels.inner_size(), unrolled);
    let at = middle.last().or(blocks.last()).cloned().unwrap_or_default();
    c.finish(config, &inside, &at, &blocks, &reduction)
}

/// The reduction: blocks of input channels, then the window, then the channels of a block, some of them unrolled.
/// Gives the loops in order and how many iterations are unrolled.
fn window(
    config: &mut Config,
    c: &Contraction,
    unroll_window: bool,
) -> Result<(Vec<String>, Expr), SpaceError> {
    let reduce = c.reduce(config);
    let Some(((channel, _), kernel)) = reduce.split_last() else { return Ok((Vec::new(), Expr::int(1))) };
    let channels =
        config.split(&c.local, &c.outer, channel, 3, &SplitPolicy::new(Sizes::Divisors).max_factor(8))?;
    let kernel_names: Vec<String> = kernel.iter().map(|(n, _)| n.clone()).collect();
    let last = kernel.last().map_or(1, |(_, e)| *e);
    let unrolls = unroll_window && last > 1 && config.knob("unroll_kw", &[0, 1]) == 1;
    let mut order = vec![channels.loops[0].clone()];
    let mut unrolled = channels.inner_size();
    if unrolls && let Some((kw, rest)) = kernel_names.split_last() {
        order.extend(rest.iter().cloned());
        order.extend([channels.loops[1].clone(), kw.clone(), channels.inner()]);
        unrolled = unrolled * last;
        config.annotate(&c.local, &[kw.clone(), channels.inner()], &super::dense::unrolled(2))?;
    } else {
        order.extend(kernel_names);
        order.extend([channels.loops[1].clone(), channels.inner()]);
        config.annotate(&c.local, &[channels.inner()], &super::dense::unrolled(1))?;
    }
    Ok((order, unrolled))
}
