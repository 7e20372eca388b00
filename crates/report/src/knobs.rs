//! The numbers of a trace as named knobs.
//!
//! The only numbers of a schedule are the factors of its splits, so two traces of one task are compared by these:
//! `split C i [8, 4]` is `C.i 1/2 = 8` and `C.i 2/2 = 4`. No space is needed to read them, and traces of other machines
//! and of older versions can be read as well.

/// The mark before the name of a candidate, in the first line of its trace.
const MARK: &str = "# candidate ";

/// The text of a candidate, such as `2:1,43,6`, if the trace is that of one.
pub fn candidate(trace: &str) -> Option<&str> {
    trace.strip_prefix(MARK)?.lines().next().map(str::trim)
}

/// The sketch of a candidate.
fn sketch(trace: &str) -> Option<f32> {
    candidate(trace)?.split(':').next()?.parse().ok()
}

/// Names and values of a trace's knobs, the sketch first, in the order of the steps.
pub fn knobs(trace: &str) -> Vec<(String, f32)> {
    let mut out: Vec<(String, f32)> = sketch(trace).map(|s| ("sketch".to_string(), s)).into_iter().collect();
    for line in trace.lines() {
        let Some(rest) = line.strip_prefix("split ") else { continue };
        let Some((place, factors)) = rest.split_once('[') else { continue };
        let place = place.trim().replacen(' ', ".", 1);
        let factors: Vec<&str> = factors.trim_end().trim_end_matches(']').split(',').map(str::trim).collect();
        for (at, factor) in factors.iter().enumerate() {
            let Ok(value) = factor.parse::<f32>() else { continue };
            let name = match factors.len() {
                1 => place.clone(),
                n => format!("{place} {}/{n}", at + 1),
            };
            out.push((name, value));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_knobs() {
        let trace =
            "# candidate 2:8,4,3\ncache_write C\nsplit C i [8, 4]\nsplit C.local k [3]\nvectorize C j\n";
        let found = knobs(trace);
        let expected = [("sketch", 2.0), ("C.i 1/2", 8.0), ("C.i 2/2", 4.0), ("C.local.k", 3.0)];
        assert_eq!(found, expected.map(|(name, value)| (name.to_string(), value)));
        assert_eq!(candidate(trace), Some("2:8,4,3"));
    }

    #[test]
    fn other_texts_have_none() {
        assert_eq!(candidate("split C i [8]"), None);
        assert!(knobs("").is_empty());
        assert!(knobs("split\nsplit C\nsplit C i [$x]\nsplit C i [").is_empty());
    }
}
