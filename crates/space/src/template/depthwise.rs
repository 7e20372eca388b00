//! Depthwise convolution and pooling: vectors of channels, a strip of the row in registers, the window unrolled or not.
//!
//! Choices: vectors of channels, the strip (two levels), how many axes of the window are unrolled.

use talweg_expr::Expr;

use super::{
    AnnotatePolicy, Annotation, Config, Contraction, ReorderPolicy, Shape, Sizes, SplitPolicy, Template,
};
use crate::analysis::StageKind;
use crate::error::SpaceError;

/// See the module.
pub struct Depthwise;

impl Template for Depthwise {
    fn name(&self) -> &'static str {
        "depthwise"
    }

    fn matches(&self, shape: &Shape) -> bool {
        shape.kind == StageKind::Window
    }

    fn schedule(&self, config: &mut Config) -> Result<(), SpaceError> {
        let c = Contraction::begin(config)?;
        let (axes, reduce) = (c.axes(config), c.reduce(config));
        let Some(((channel, _), others)) = axes.split_last() else { return Ok(()) };
        let channels =
            config.split(&c.outer, &c.outer, channel, 2, &SplitPolicy::new(Sizes::Vectors).max_factor(64))?;
        let mut outside: Vec<String> = others.iter().map(|(n, _)| n.clone()).collect();
        let (mut middle, mut inside, mut strip) = (vec![channels.loops[0].clone()], Vec::new(), Expr::int(1));
        if let Some((name, extent)) = others.last()
            && *extent > 1
        {
            let parts =
                config.split(&c.outer, &c.outer, name, 3, &SplitPolicy::new(Sizes::All).max_factor(30))?;
            outside.pop();
            outside.push(parts.loops[0].clone());
            middle.push(parts.loops[1].clone());
            inside.push(parts.inner());
            strip = parts.inner_size();
        }
        inside.push(channels.inner());
        let all: Vec<String> = outside.iter().chain(&middle).chain(&inside).cloned().collect();
        config.reorder(&c.outer, &all, &ReorderPolicy::Identity)?;
        let window: Vec<String> = reduce.iter().map(|(n, _)| n.clone()).collect();
        let way = config.annotate(&c.local, &window, &AnnotatePolicy::TryUnroll)?;
        let unrolled: i64 = reduce
            .iter()
            .zip(&way)
            .filter(|(_, a)| **a == Annotation::Unroll)
            .map(|((_, e), _)| *e)
            .product();
        c.limit(config, strip, channels.inner_size(), unrolled);
        let at = middle.last().cloned().unwrap_or_default();
        c.finish(config, &inside, &at, &outside, &window)
    }
}
