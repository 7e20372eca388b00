//! The build request: a nest's text to an object.

use talweg_codegen::Options;
use talweg_expr::Expr;
use talweg_ir::{Nest, Role};
use talweg_target::Target;

use crate::wire::{Argument, ArgumentKind, BuildRequest, Kernel};

/// Parses and compiles a nest.
#[doc(hidden)]
pub fn build(request: &BuildRequest) -> Result<(Kernel, Vec<u8>), String> {
    let nest = Nest::parse(&request.nest).map_err(|e| format!("the nest's text: {e}"))?;
    let target: Target = serde_json::from_str(&request.target).map_err(|e| format!("the target: {e}"))?;
    let options = Options { instruction_limit: request.instruction_limit, verify: request.verify };
    let compiled = talweg_codegen::compile(&nest, &target, &options).map_err(|e| e.to_string())?;
    let meta = &compiled.meta;
    let kernel = describe(&nest, &meta.name, meta.shared_bytes, meta.scratch_bytes)?;
    Ok((kernel, compiled.object))
}

/// What a run needs to know of a nest besides its code.
#[doc(hidden)]
pub fn describe(
    nest: &Nest,
    symbol: &str,
    shared_bytes: usize,
    scratch_bytes: usize,
) -> Result<Kernel, String> {
    let mut arguments = Vec::new();
    for id in nest.arguments() {
        let buffer = nest.buffer(id);
        let extent = |e: &Expr| e.as_int().and_then(|n| usize::try_from(n).ok());
        let shape: Option<Vec<usize>> = buffer.shape.iter().map(extent).collect();
        let shape = shape.ok_or_else(|| format!("`{}` has an open or negative extent", buffer.name))?;
        arguments.push(Argument {
            name: buffer.name.clone(),
            dtype: buffer.dtype.name().to_string(),
            shape,
            kind: match buffer.role {
                Role::Output => ArgumentKind::Output,
                Role::Packed => ArgumentKind::Packed,
                // What only a pack reads is not read by the kernel.
                Role::Const if nest.packs.iter().all(|pack| pack.source != id) => ArgumentKind::Constant,
                _ => ArgumentKind::Given,
            },
        });
    }
    let packs = if nest.packs.is_empty() {
        String::new()
    } else {
        // Packing needs only the packs, and candidates that pack alike then share the result.
        Nest { name: "packs".into(), body: Vec::new(), ..nest.clone() }.to_string()
    };
    Ok(Kernel { symbol: symbol.to_string(), shared_bytes, scratch_bytes, arguments, packs })
}
