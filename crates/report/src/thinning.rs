//! Fewer samples, and shorter numbers: what keeps a page small.

/// Samples a page holds at most.
pub const MOST_SAMPLES: usize = 6000;

/// Points of one curve at most.
pub const MOST_POINTS: usize = 400;

/// A number with five significant digits, which is more than any measurement here has.
pub fn short(x: f64) -> f64 {
    format!("{x:.4e}").parse().unwrap_or(x)
}

/// Seconds since a start, to the hundredth.
pub fn moment(seconds: f64) -> f64 {
    (seconds * 100.0).round() / 100.0
}

/// Which of `n` things to keep so that at most `most` remain: evenly spread, the first and the last among them, and those
/// in any case that `must` names, as far as they fit.
pub fn keep(n: usize, most: usize, must: impl Fn(usize) -> bool) -> Vec<usize> {
    if n <= most {
        return (0..n).collect();
    }
    let named = (0..n).filter(|at| must(*at)).count().min(most);
    let rest = most - named;
    let others = n - named;
    let (mut out, mut left_named, mut seen) = (Vec::with_capacity(most), named, 0);
    for at in 0..n {
        if must(at) && left_named > 0 {
            left_named -= 1;
            out.push(at);
            continue;
        }
        // The others are kept wherever their share of the places reaches the next whole number.
        let before = seen * rest / others.max(1);
        seen += 1;
        if (seen * rest / others.max(1)) > before {
            out.push(at);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_short() {
        assert_eq!(short(1234.56789), 1234.6);
        assert_eq!(short(0.000123456789), 0.00012346);
        assert_eq!(short(0.0), 0.0);
        assert_eq!(moment(1.23456), 1.23);
        assert_eq!(serde_json::to_string(&short(0.1 + 0.2)).unwrap(), "0.3");
    }

    #[test]
    fn few_things_are_all_kept() {
        assert_eq!(keep(3, 5, |_| false), [0, 1, 2]);
        assert!(keep(0, 5, |_| true).is_empty());
    }

    #[test]
    fn many_are_thinned_evenly_and_the_named_ones_stay() {
        let kept = keep(1000, 100, |at| at % 333 == 7);
        assert_eq!(kept.len(), 100);
        assert!([7, 340, 673].iter().all(|at| kept.contains(at)));
        assert!(kept.windows(2).all(|w| w[0] < w[1] && w[1] - w[0] <= 12), "{kept:?}");
        assert_eq!(keep(100, 10, |_| true).len(), 10);
    }
}
