//! Runs of a model by how far apart its threads were.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use talweg_measure::Distances;

use super::turns;

/// The distance is looked at again after so long.
const INTERVAL: Duration = Duration::from_millis(20);
/// A distance at which less than this share of the runs was is none: something interrupted the probe.
const LEAST: f64 = 0.05;

/// Notes how far apart threads are while a model runs.
#[derive(Default)]
pub struct Watch {
    seen: Distances,
    last: Option<(Instant, Option<usize>)>,
    /// For each run the number of the distance.
    runs: Vec<Option<usize>>,
}

impl Watch {
    /// A run is about to begin; `probe` looks at the distance.
    pub fn before_run(&mut self, probe: impl FnOnce() -> Option<f64>) {
        let is_due = self.last.is_none_or(|(at, _)| at.elapsed() > INTERVAL);
        if is_due {
            let number = probe().map(|seconds| self.seen.number(seconds));
            self.last = Some((Instant::now(), number));
        }
        self.runs.push(self.last.and_then(|(_, number)| number));
    }

    /// What the last runs took at each distance, given their seconds in order: nothing when all were at one.
    pub fn apart(&self, seconds: &[f64]) -> Vec<Apart> {
        let mut found: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        let counted = self.runs.len().saturating_sub(seconds.len());
        for (run, seconds) in self.runs[counted..].iter().zip(seconds) {
            found.entry((*run).unwrap_or(usize::MAX)).or_default().push(*seconds);
        }
        let of = |(number, mut own): (usize, Vec<f64>)| {
            own.sort_by(f64::total_cmp);
            let share = own.len() as f64 / seconds.len() as f64;
            Some(Apart { ns: self.seen.seconds(number)? * 1e9, share, median: turns::median(&own)? })
        };
        let mut out: Vec<Apart> = found.into_iter().filter_map(of).filter(|a| a.share >= LEAST).collect();
        out.sort_by(|a, b| a.ns.total_cmp(&b.ns));
        if out.len() > 1 { out } else { Vec::new() }
    }
}

/// The runs at one distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Apart {
    /// Nanoseconds that a cache line takes from thread to thread.
    pub ns: f64,
    /// Their share of all runs.
    pub share: f64,
    /// Their median in seconds.
    pub median: f64,
}

impl Apart {
    /// As an object.
    pub fn object(&self) -> Value {
        json!({ "core_distance_ns": self.ns, "share": self.share, "median_ms": self.median * 1e3 })
    }

    /// As a line for people.
    pub fn line(&self) -> String {
        let Apart { ns, share, median } = self;
        format!(
            "  {:.3} ms in the {:.0} % of the runs with threads {ns:.0} ns apart\n",
            median * 1e3,
            share * 1e2
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_told_apart_by_the_last_look() {
        let mut watch = Watch::default();
        for distance in [185e-9, 24e-9, 185e-9, 24e-9, 900e-9] {
            watch.last = None;
            (0..if distance > 500e-9 { 1 } else { 12 }).for_each(|_| watch.before_run(|| Some(distance)));
        }
        // The first twelve were warm-up.
        let seconds: Vec<f64> = [1.0, 2.0, 1.0].iter().flat_map(|s| [*s; 12]).chain([9.0]).collect();
        let found = watch.apart(&seconds);
        assert_eq!(found.iter().map(|a| a.median).collect::<Vec<_>>(), [1.0, 2.0]);
        assert!((found[0].ns - 24.0).abs() < 1e-6 && (found[0].share - 24.0 / 37.0).abs() < 1e-9);
        assert!(found[1].line().contains("threads 185 ns apart"), "{}", found[1].line());
        watch.runs.pop();
        assert!(watch.apart(&[1.0; 12]).is_empty(), "one distance is not worth a word");
    }
}
