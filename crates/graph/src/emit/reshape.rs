//! Indices of one shape as indices of another with the same elements.

use talweg_expr::{Expr, Ranges};

/// Groups of neighbouring dimensions with the same number of elements in both shapes, as ranges of dimensions.
///
/// ```text
/// [1, 128, 768], [1, 128, 12, 64] -> (0..1, 0..1), (1..2, 1..2), (2..3, 2..4)
/// ```
pub(crate) fn matching(
    from: &[usize],
    to: &[usize],
) -> Option<Vec<(std::ops::Range<usize>, std::ops::Range<usize>)>> {
    let mut groups = Vec::new();
    let (mut f, mut t) = (0, 0);
    while f < from.len() || t < to.len() {
        let (first_f, first_t) = (f, t);
        let (mut left, mut right) = (1usize, 1usize);
        if f < from.len() {
            left = from[f];
            f += 1;
        }
        if t < to.len() && (left != 1 || to[t] == 1 || f == first_f) {
            right = to[t];
            t += 1;
        }
        while left != right {
            if left < right {
                left = left.checked_mul(*from.get(f)?)?;
                f += 1;
            } else {
                right = right.checked_mul(*to.get(t)?)?;
                t += 1;
            }
        }
        groups.push((first_f..f, first_t..t));
    }
    Some(groups)
}

/// The indices into `to` of the element at `index` of `from`. Affine when dimensions are merged, or when an index
/// that is split is itself made of parts (`(h * 64 + d) / 64` is `h`).
pub(crate) fn reindex(index: &[Expr], from: &[usize], to: &[usize], ranges: &Ranges) -> Option<Vec<Expr>> {
    let mut out = vec![Expr::int(0); to.len()];
    for (f, t) in matching(from, to)? {
        let wide: Vec<usize> = t.clone().filter(|d| to[*d] != 1).collect();
        let mut linear = Expr::int(0);
        for d in f {
            linear = linear * from[d] as i64 + index[d].clone();
        }
        let mut linear = linear.simplify(ranges);
        for (at, d) in wide.iter().enumerate().rev() {
            let extent = to[*d] as i64;
            if at == 0 {
                out[*d] = linear.clone();
            } else {
                out[*d] = linear.rem(extent).simplify(ranges);
                linear = linear.floor_div(extent).simplify(ranges);
            }
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use talweg_expr::Symbol;

    use super::*;

    fn ranges(axes: &[(&str, i64)]) -> Ranges {
        let mut ranges = Ranges::new();
        axes.iter().for_each(|(n, e)| ranges.set(&Symbol::var(n), 0, e - 1));
        ranges
    }

    fn text(index: &[Expr]) -> String {
        index.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn heads_are_merged_and_split_without_divisions() {
        let r = ranges(&[("i", 128), ("h", 12), ("d", 64)]);
        let [i, h, d] = ["i", "h", "d"].map(Expr::var);
        let merged = reindex(&[Expr::int(0), i, h, d], &[1, 128, 12, 64], &[1, 128, 768], &r).unwrap();
        assert_eq!(text(&merged), "0, i, d + h * 64");
        let split = reindex(&merged, &[1, 128, 768], &[128, 12, 1, 64], &r).unwrap();
        assert_eq!(text(&split), "i, h, 0, d");
    }

    #[test]
    fn other_splits_divide() {
        let r = ranges(&[("i", 6)]);
        let split = reindex(&[Expr::var("i")], &[6], &[2, 3], &r).unwrap();
        assert_eq!(text(&split), "i // 3, i % 3");
        assert_eq!(matching(&[2, 3], &[4]), None);
    }
}
