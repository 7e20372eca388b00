//! The tile structure all multi-level tilings share: `S S R S R S`, the innermost space level held in registers.

use talweg_expr::Expr;

use super::PARALLEL_FROM;
use crate::analysis::StageKind;
use crate::domain;
use crate::knob::KnobRole;
use crate::state::{Applied, SketchState};

/// Multiply-adds per basic block, at most: more spill registers.
const MAX_BODY: i64 = 128;
/// Multiply-adds in all copies of the body for tails, at most: more take long to compile.
const MAX_CODE: i64 = 640;
/// Unrolled iterations of a window axis.
const MAX_WINDOW: i64 = 16;

/// Where a reduction accumulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accumulate {
    /// In registers over the whole reduction.
    Registers,
    /// In a local buffer across the outer part of the reduction, in registers over the inner part.
    Memory,
    /// Like `Memory`, in the result itself.
    Direct,
}

/// One axis of the result and its levels.
struct Axis {
    name: String,
    /// Its position among the axes of the result.
    at: usize,
    extent: i64,
    /// Whether it counts columns of the streamed operand, as the last axis does: blocks of channels.
    is_panel: bool,
    /// Extents of levels 1 to 3; none for an axis that stays whole at level 0.
    factors: Option<[Expr; 3]>,
    /// Whether it has a share of the register tile.
    in_registers: bool,
    /// Names of the loops: the axis itself, or its parts.
    loops: Vec<String>,
}

/// Tiles the reduction `local` inside the loops of `outer`; both are one stage when it accumulates in its result.
pub(super) fn tile(state: &SketchState, local: &str, outer: &str, how: Accumulate) -> Applied<SketchState> {
    let mut s = state.clone();
    s.decide(local);
    s.decide(outer);
    let kind = s.stages().kind(local);
    let mut axes = open_axes(&mut s, local, outer, kind);
    let unrolled = open_reduction(&mut s, local, outer, how, kind);
    limit_registers(&mut s, local, outer, &axes, &unrolled.product);

    for a in &mut axes {
        a.loops = match &a.factors {
            Some(f) => s.split(outer, &a.name, f)?,
            None => vec![a.name.clone()],
        };
    }
    let level = |l: usize| axes.iter().filter_map(|a| a.loops.get(l)).cloned().collect::<Vec<String>>();
    // Whole axes (batches) first, then the outermost tiles.
    let mut blocks: Vec<String> =
        axes.iter().filter(|a| a.factors.is_none()).map(|a| a.name.clone()).collect();
    blocks.extend(axes.iter().filter(|a| a.factors.is_some()).map(|a| a.loops[0].clone()));
    let (first, mut second, third) = (level(1), level(2), level(3));
    let reduction = split_reduction(&mut s, local, &unrolled)?;
    let mut order = blocks.clone();
    order.extend(first.iter().cloned());
    if how == Accumulate::Direct {
        order.extend(reduction.outer.iter().cloned());
        columns_first(&mut second, &axes);
        order.extend(second.iter().cloned());
        order.extend(reduction.inner.iter().chain(&reduction.unrolled).cloned());
    } else {
        order.extend(second.iter().cloned());
    }
    order.extend(third.iter().cloned());
    s.reorder(outer, &order)?;
    let parallel = s.fuse(outer, &blocks)?;

    let place = if how == Accumulate::Memory { &first } else { &second };
    if how != Accumulate::Direct
        && let Some(at) = place.last()
    {
        s.compute_at(local, outer, at)?;
        order_local(&mut s, local, &axes, &reduction, how)?;
    }
    s.unroll(local, &reduction.unrolled)?;
    if let Some((vector, rows)) = third.split_last() {
        s.vectorize(outer, vector)?;
        if how == Accumulate::Direct || !s.stages().is_expensive(outer) {
            s.unroll(outer, rows)?;
        }
    }
    if kind == StageKind::Contraction {
        s.pack_constants(local);
    }
    if let Some(p) = parallel {
        for producer in s.stages().producers(local) {
            if !s.is_decided(&producer) {
                s.places.push((producer, outer.to_string(), p.clone()));
            }
        }
        if s.stages().iterations(local) >= PARALLEL_FROM {
            s.parallel(outer, &p)?;
        }
    }
    s.choose(match how {
        Accumulate::Registers => format!("{outer} in registers"),
        Accumulate::Memory => format!("{outer} in local memory"),
        Accumulate::Direct => format!("{outer} in place"),
    });
    Ok(s)
}

/// Opens the knobs of the result's axes; those that count columns come last, whatever their place in memory.
fn open_axes(s: &mut SketchState, local: &str, outer: &str, kind: StageKind) -> Vec<Axis> {
    let lanes = s.lanes(local);
    let axes = s.stages().axes(outer);
    let own = s.stages().axes(local);
    let streamed = s.stages().streamed(local);
    let is_panel = |at: usize| kind == StageKind::Contraction && streamed.panels.contains(&own[at].0);
    let last = axes.len().saturating_sub(1);
    // Rows share the streamed operand's vectors; batches do not. In a window nothing is shared: all are rows.
    let is_row = |at: usize| {
        at != last
            && axes[at].1 > 1
            && (kind != StageKind::Contraction || !streamed.axes.contains(&own[at].0))
    };
    let rows: Vec<usize> = (0..axes.len()).filter(|at| is_row(*at)).collect();
    let in_registers = &rows[rows.len().saturating_sub(2)..];
    let registers = s.machine.registers;
    let mut out = Vec::new();
    for (at, (name, extent)) in axes.iter().enumerate() {
        let (name, extent, vector, is_panel) = (name.clone(), *extent, at == last, is_panel(at));
        let mut axis = Axis {
            name: name.clone(),
            at,
            extent,
            is_panel,
            factors: None,
            in_registers: false,
            loops: Vec::new(),
        };
        if !vector && !is_panel && !rows.contains(&at) {
            out.push(axis);
            continue;
        }
        let held = vector || is_panel || in_registers.contains(&at);
        let mut open = |level: usize, sizes: Vec<i64>, vector: bool| {
            let role = KnobRole::Tile {
                stage: outer.to_string(),
                axis: name.clone(),
                extent,
                level,
                vector,
                reduce: false,
            };
            s.open(&format!("{outer}.{name}.{level}"), sizes, role)
        };
        let tiles = domain::tile_sizes(if vector { (extent + lanes - 1) / lanes } else { extent });
        let factors = [
            open(1, tiles.clone(), false),
            open(2, tiles, false),
            match (vector, held) {
                (true, _) => open(3, domain::vector_sizes(extent, lanes, registers / 2), true),
                _ if is_panel => open(3, domain::register_rows(extent, registers / 2), false),
                (_, true) => open(3, domain::register_rows(extent, registers - 2), false),
                _ => Expr::int(1),
            },
        ];
        let [a, b, c] = &factors;
        s.limit(format!("tiles of {outer}.{name}"), a.clone() * b * c, c.clone() + (extent - 1));
        (axis.factors, axis.in_registers) = (Some(factors), held);
        out.push(axis);
    }
    out.sort_by_key(|a| (a.is_panel || a.at == last, a.at));
    out
}

/// Knobs of the reduction: for each axis the factors of its split.
struct Reduction {
    factors: Vec<(String, Vec<Expr>, bool)>,
    /// Unrolled iterations of all axes together.
    product: Expr,
}

fn open_reduction(
    s: &mut SketchState,
    local: &str,
    outer: &str,
    how: Accumulate,
    kind: StageKind,
) -> Reduction {
    let axes = s.stages().reduce_axes(local);
    let long: Vec<usize> = (0..axes.len()).filter(|at| axes[*at].1 > 1).collect();
    // With all reduction loops together, cutting a single one changes nothing.
    let blocked = kind == StageKind::Contraction && (how != Accumulate::Registers || long.len() > 1);
    let mut out = Reduction { factors: Vec::new(), product: Expr::int(1) };
    for (at, (name, extent)) in axes.into_iter().enumerate() {
        if extent == 1 {
            out.factors.push((name, Vec::new(), false));
            continue;
        }
        let unrolls = kind == StageKind::Window || long.last() == Some(&at);
        let most = if kind == StageKind::Window { MAX_WINDOW } else { domain::MAX_UNROLL };
        let mut factors = Vec::new();
        if blocked {
            let role = KnobRole::Tile {
                stage: outer.to_string(),
                axis: name.clone(),
                extent,
                level: 1,
                vector: false,
                reduce: true,
            };
            factors.push(s.open(&format!("{outer}.{name}.1"), domain::tile_sizes(extent), role));
        }
        if unrolls {
            let role = KnobRole::Unroll { stage: outer.to_string(), axis: name.clone(), extent };
            let u = s.open(&format!("{outer}.{name}.u"), domain::divisors(extent, most), role);
            if let Some(block) = factors.first() {
                s.limit(format!("tiles of {outer}.{name}"), block.clone() * &u, u.clone() + (extent - 1));
            }
            out.product = out.product * &u;
            factors.push(u);
        }
        out.factors.push((name, factors, unrolls));
    }
    out
}

/// The loops of a split reduction.
struct ReductionLoops {
    outer: Vec<String>,
    inner: Vec<String>,
    unrolled: Vec<String>,
}

fn split_reduction(s: &mut SketchState, local: &str, reduction: &Reduction) -> Applied<ReductionLoops> {
    let mut out = ReductionLoops { outer: Vec::new(), inner: Vec::new(), unrolled: Vec::new() };
    for (name, factors, unrolls) in &reduction.factors {
        if factors.is_empty() {
            out.outer.push(name.clone());
            continue;
        }
        let mut parts = s.split(local, name, factors)?;
        if *unrolls {
            out.unrolled.extend(parts.pop());
        }
        out.inner.extend(parts.drain(1..));
        out.outer.extend(parts);
    }
    Ok(out)
}

/// Loop order and annotations of an accumulating stage with a buffer of its own.
fn order_local(
    s: &mut SketchState,
    local: &str,
    axes: &[Axis],
    reduction: &ReductionLoops,
    how: Accumulate,
) -> Applied<()> {
    let own = s.stages().axes(local);
    let (mut between, mut tile) = (Vec::new(), Vec::new());
    for axis in axes {
        let (name, _) = &own[axis.at];
        match &axis.factors {
            Some([_, _, c]) if how == Accumulate::Memory && axis.in_registers => {
                let parts = s.split(local, name, std::slice::from_ref(c))?;
                between.push(parts[0].clone());
                tile.push(parts[1].clone());
            }
            Some(_) if how == Accumulate::Memory => between.push(name.clone()),
            _ => tile.push(name.clone()),
        }
    }
    let mut order = reduction.outer.clone();
    columns_first(&mut between, axes);
    order.extend(between);
    order.extend(reduction.inner.iter().chain(&reduction.unrolled).chain(&tile).cloned());
    s.reorder(local, &order)?;
    if let Some((vector, rows)) = tile.split_last() {
        s.unroll(local, rows)?;
        s.vectorize(local, vector)?;
    }
    Ok(())
}

/// Inside a block of the reduction, panels of the streamed operand pass over all rows of the block one after the other:
/// a panel is then fetched once, and the next one meanwhile.
fn columns_first(loops: &mut [String], axes: &[Axis]) {
    let columns = 1 + axes.iter().filter(|a| a.is_panel).count();
    loops.rotate_right(loops.len().min(columns));
}

/// The register tile fits the registers, and its unrolled body and the copies for tails stay small.
fn limit_registers(s: &mut SketchState, local: &str, outer: &str, axes: &[Axis], unrolled: &Expr) {
    let lanes = s.lanes(local);
    let mut rows = Expr::int(1);
    let (mut vector, mut panels) = (Expr::int(1), Expr::int(1));
    let mut copies = Expr::int(1);
    for (at, a) in axes.iter().enumerate() {
        let (Some([_, _, size]), true) = (&a.factors, a.in_registers) else { continue };
        if at + 1 == axes.len() {
            vector = vector * size;
        } else if a.is_panel {
            panels = panels * size;
        } else {
            rows = rows * size;
        }
        // One more copy of the body where the last tile is smaller.
        copies = copies * (Expr::int(a.extent).rem(size).min(1) + 1);
    }
    limit_body(s, outer, lanes, (rows, vector * panels), unrolled, copies);
}

/// The same for a tile of so many rows and columns, whose body is repeated for so many tails.
pub(crate) fn limit_body(
    s: &mut SketchState,
    outer: &str,
    lanes: i64,
    (rows, columns): (Expr, Expr),
    unrolled: &Expr,
    copies: Expr,
) {
    // In elements: accumulators, one vector of each column, one broadcast value.
    let needed = rows.clone() * &columns + &columns + lanes;
    s.limit(format!("registers of {outer}"), needed, s.machine.registers * lanes);
    let body = rows * columns * unrolled;
    s.limit(format!("unrolled body of {outer}"), body.clone(), MAX_BODY * lanes);
    s.limit(format!("code of {outer}"), body, Expr::int(MAX_CODE * lanes).floor_div(copies));
}
