//! Parts of axes: `Slice`, `Split`.

use talweg_tensor::Op;
use talweg_tensor::op::SliceAxis;

use super::{Entry, entry};
use crate::call::{Call, Outputs, axis, size};
use crate::error::Failure;

pub(super) const ENTRIES: &[Entry] = &[entry("Slice", 1, slice), entry("Split", 2, split)];

fn slice(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let missing = |what: &str| Failure::invalid(format!("{what} is missing"));
    let starts = call.ints_since(10, 1, "starts")?.ok_or_else(|| missing("`starts`"))?;
    let ends = call.ints_since(10, 2, "ends")?.ok_or_else(|| missing("`ends`"))?;
    let axes = call.ints_since(10, 3, "axes")?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = if call.opset < 10 { None } else { call.known_ints(4, "`steps`")? };
    let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
        return Err(Failure::invalid("starts, ends, axes and steps differ in length"));
    }
    let shape = call.shape(x);
    let mut parts: Vec<SliceAxis> =
        shape.iter().map(|&extent| SliceAxis { begin: 0, step: 1, count: extent }).collect();
    for i in 0..starts.len() {
        let axis = axis(axes[i], shape.len())?;
        parts[axis] = part(shape[axis], starts[i], ends[i], steps[i])?;
    }
    if parts
        .iter()
        .zip(&shape)
        .all(|(part, &extent)| part.begin == 0 && part.step == 1 && part.count == extent)
    {
        return Ok(vec![x]);
    }
    Ok(vec![call.builder.one(Op::Slice { axes: parts }, &[x])?])
}

/// The part of an axis from `start` up to `end` by `step`, with numpy's rules for what is out of range.
fn part(extent: usize, start: i64, end: i64, step: i64) -> Result<SliceAxis, Failure> {
    let extent = extent as i64;
    let from_end = |v: i64| if v < 0 { v.saturating_add(extent) } else { v };
    let (begin, count) = match step {
        0 => return Err(Failure::invalid("a step is 0")),
        1.. => {
            let (begin, end) = (from_end(start).clamp(0, extent), from_end(end).clamp(0, extent));
            (begin, (end - begin).max(0) as u64)
        }
        _ => {
            let (begin, end) = (from_end(start).clamp(-1, extent - 1), from_end(end).clamp(-1, extent - 1));
            (begin, (begin - end).max(0) as u64)
        }
    };
    let count = count.div_ceil(step.unsigned_abs()) as usize;
    Ok(SliceAxis { begin: if count == 0 { 0 } else { begin as usize }, step, count })
}

fn split(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let shape = call.shape(x);
    let axis = call.axis(0, shape.len())?;
    let extent = shape[axis];
    let counts: Vec<usize> = match call.ints_since(13, 1, "split")? {
        Some(counts) => {
            counts.into_iter().map(|c| size(c, "a part")).collect::<Result<Vec<usize>, Failure>>()?
        }
        None => {
            let parts = size(call.int_or("num_outputs", call.outputs.len() as i64)?, "`num_outputs`")?;
            if parts == 0 || parts > call.outputs.len() {
                return Err(Failure::invalid(format!("{parts} parts for {} outputs", call.outputs.len())));
            }
            let chunk = extent.div_ceil(parts);
            (0..parts).map(|i| extent.saturating_sub(i * chunk).min(chunk)).collect()
        }
    };
    if counts.iter().try_fold(0usize, |sum, &c| sum.checked_add(c)) != Some(extent) {
        return Err(Failure::invalid(format!("the parts {counts:?} do not add up to {extent}")));
    }
    let mut begin = 0;
    let mut outputs = Vec::with_capacity(counts.len());
    for count in counts {
        outputs.push(call.builder.part(x, axis, begin, count)?);
        begin += count;
    }
    Ok(outputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_numpy() {
        let check = |extent, start, end, step| {
            let part = part(extent, start, end, step).ok().unwrap();
            (0..part.count as i64).map(|i| part.begin as i64 + i * part.step).collect::<Vec<i64>>()
        };
        assert_eq!(check(5, 1, -1, 1), [1, 2, 3]);
        assert_eq!(check(5, 0, i64::MAX, 2), [0, 2, 4]);
        assert_eq!(check(5, -1, i64::MIN, -2), [4, 2, 0]);
        assert_eq!(check(5, 10, 1, -1), [4, 3, 2]);
        assert_eq!(check(5, 3, 3, 1), [0i64; 0]);
        assert_eq!(check(0, 0, 5, 1), [0i64; 0]);
        assert_eq!(check(0, 4, -9, -1), [0i64; 0]);
        assert!(part(5, 0, 1, 0).is_err());
    }
}
