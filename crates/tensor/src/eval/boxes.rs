//! Choosing boxes by score and overlap.

use super::Call;
use crate::error::OpError;
use crate::tensor::Tensor;

/// The attributes of the choice.
pub(super) struct Limits {
    pub(super) center_point: bool,
    pub(super) max_per_class: usize,
    pub(super) iou: f64,
    pub(super) score: Option<f64>,
}

/// A box by its lower and upper corner.
#[derive(Clone, Copy)]
struct Corners {
    low: [f64; 2],
    high: [f64; 2],
}

impl Corners {
    fn new(values: &[f64], center_point: bool) -> Corners {
        let (a, b) = if center_point {
            let half = [values[2] / 2.0, values[3] / 2.0];
            ([values[0] - half[0], values[1] - half[1]], [values[0] + half[0], values[1] + half[1]])
        } else {
            ([values[0], values[1]], [values[2], values[3]])
        };
        Corners {
            low: std::array::from_fn(|i| a[i].min(b[i])),
            high: std::array::from_fn(|i| a[i].max(b[i])),
        }
    }

    fn area(&self) -> f64 {
        (self.high[0] - self.low[0]) * (self.high[1] - self.low[1])
    }

    /// The shared area as a part of the area of both; zero for boxes without area.
    fn overlap(&self, other: &Corners) -> f64 {
        let side = |i: usize| (self.high[i].min(other.high[i]) - self.low[i].max(other.low[i])).max(0.0);
        let shared = side(0) * side(1);
        let union = self.area() + other.area() - shared;
        if shared > 0.0 && union > 0.0 { shared / union } else { 0.0 }
    }
}

/// Rows of batch, class and box, best first within each class.
pub(super) fn non_max_suppression(call: &Call, limits: &Limits) -> Result<Tensor, OpError> {
    let (boxes, scores) = (call.get(0)?, call.get(1)?);
    let (batches, count, classes) = (boxes.shape()[0], boxes.shape()[1], scores.shape()[1]);
    let corners: Vec<Corners> =
        boxes.to_f64().chunks_exact(4).map(|values| Corners::new(values, limits.center_point)).collect();
    let scores = scores.to_f64();
    let mut kept: Vec<i64> = Vec::new();
    let pairs = if count == 0 { 0 } else { batches * classes };
    for pair in 0..pairs {
        let (batch, class) = (pair / classes, pair % classes);
        let scores = &scores[pair * count..][..count];
        let corners = &corners[batch * count..][..count];
        let mut order: Vec<usize> =
            (0..count).filter(|&i| limits.score.is_none_or(|limit| scores[i] > limit)).collect();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        let mut chosen: Vec<usize> = Vec::new();
        for candidate in order {
            if chosen.len() >= limits.max_per_class {
                break;
            }
            if chosen.iter().all(|&i| corners[i].overlap(&corners[candidate]) <= limits.iou) {
                chosen.push(candidate);
            }
        }
        kept.extend(chosen.iter().flat_map(|&i| [batch as i64, class as i64, i as i64]));
    }
    Ok(Tensor::new([kept.len() / 3, 3], kept))
}
