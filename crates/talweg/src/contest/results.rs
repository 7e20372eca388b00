//! Results as good as the reference's, and the least time that a search needs for one.
//!
//! A curve says what a run had in hand; a result is what it left to its user, finals included. A search that runs with several
//! shares of the reference's time has a result for each of them, and the shortest run whose result is as good as the
//! reference's says how much sooner its user can have that.

use serde::Serialize;

use super::run::{Run, appearing};
use super::table::{LEVELS, geometric_mean};

/// The shares of the speed of the reference's result that count as as good: what two runs of one search differ by, and less.
const AS_GOOD: [f64; 2] = [LEVELS[LEVELS.len() - 2], LEVELS[LEVELS.len() - 1]];

/// The shortest run of a search on one operator whose result is as good as the reference's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Soonest {
    /// The operator's SPEC, or the path of a network's file.
    pub spec: String,
    /// What names its random choices.
    pub seed: u64,
    /// Which run it is; the longest where no result is as good.
    pub contestant: String,
    /// Whether its result is as good.
    pub is_as_good: bool,
    /// The reference's microseconds over its own.
    pub ratio: f64,
    /// Its seconds, or trials.
    pub own: f64,
    /// The reference's.
    pub reference: f64,
}

impl Soonest {
    /// The reference's time over its own. Where the result is not as good it is less than this.
    pub fn speed_up(&self) -> f64 {
        self.reference / self.own
    }
}

/// A search on all operators.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Results {
    /// The search, whatever its share of the time.
    pub search: String,
    /// The share of the speed of the reference's result that is as good.
    pub level: f64,
    /// One entry for each operator and seed that both have runs of.
    pub rows: Vec<Soonest>,
    /// The geometric mean of the speed-ups.
    pub speed_up: f64,
    /// The geometric mean of the ratios.
    pub ratio: f64,
    /// Rows whose result is not as good.
    pub missed: usize,
}

/// The results of all searches that had parts of the reference's time, for each share of its speed that is as good.
pub fn results(reference: &str, runs: &[Run]) -> Vec<Results> {
    let mut searches: Vec<&str> = Vec::new();
    for run in runs.iter().filter(|run| run.share > 1) {
        if !searches.contains(&run.search()) {
            searches.push(run.search());
        }
    }
    let leaders = || runs.iter().filter(|run| run.contestant == reference);
    let (_, specs) = appearing(runs);
    let of = |(search, level): (&str, f64)| {
        let pairs = specs.iter().flat_map(|spec| leaders().filter(move |run| run.spec == *spec));
        let rows: Vec<Soonest> = pairs.filter_map(|leader| soonest(search, level, leader, runs)).collect();
        (!rows.is_empty()).then(|| Results {
            search: search.into(),
            level,
            speed_up: geometric_mean(rows.iter().map(Soonest::speed_up)),
            ratio: geometric_mean(rows.iter().map(|row| row.ratio)),
            missed: rows.iter().filter(|row| !row.is_as_good).count(),
            rows,
        })
    };
    searches.into_iter().flat_map(|search| AS_GOOD.map(|level| (search, level))).filter_map(of).collect()
}

/// The shortest run of a search whose result has this share of the speed of one of the reference's, of the same operator and
/// seed.
fn soonest(search: &str, level: f64, leader: &Run, runs: &[Run]) -> Option<Soonest> {
    let is_rival = |run: &&Run| {
        run.search() == search
            && run.contestant != leader.contestant
            && (&run.spec, run.seed) == (&leader.spec, leader.seed)
    };
    let mut rivals: Vec<&Run> = runs.iter().filter(is_rival).collect();
    rivals.sort_by(|a, b| a.end().total_cmp(&b.end()));
    let ratio = |run: &Run| leader.best_us / run.best_us;
    let found = rivals.iter().find(|run| ratio(run) >= level);
    let run = found.or(rivals.last())?;
    Some(Soonest {
        spec: leader.spec.clone(),
        seed: leader.seed,
        contestant: run.contestant.clone(),
        is_as_good: found.is_some(),
        ratio: ratio(run),
        own: run.end(),
        reference: leader.end(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::table::tests::run;

    /// A run that took so many seconds, with so many microseconds as its result.
    fn result(contestant: &str, share: u32, spec: &str, seconds: f64, us: f64) -> Run {
        let run = run(contestant, spec, 0, us, &[(1.0, us)]);
        Run { share, seconds, ..run }
    }

    #[test]
    fn the_shortest_run_with_a_result_as_good_counts() {
        let runs = [
            result("ansor", 1, "a", 60.0, 100.0),
            result("felix-3", 3, "a", 20.0, 99.0),
            result("felix-6", 6, "a", 10.0, 100.2),
            result("felix-12", 12, "a", 5.0, 100.8),
            result("ansor", 1, "b", 60.0, 100.0),
            result("felix-3", 3, "b", 20.0, 110.0),
            result("felix-6", 6, "b", 10.0, 120.0),
            // Without a partner.
            result("felix-3", 3, "c", 20.0, 100.0),
        ];
        let all = results("ansor", &runs);
        let of = |result: &Results| (result.search.clone(), result.level, result.rows.len(), result.missed);
        assert_eq!(all.iter().map(of).collect::<Vec<_>>(), [0.99, 0.997].map(|l| ("felix".into(), l, 2, 1)));
        assert_eq!(all[0].rows[0].contestant, "felix-12");
        let felix = &all[1];
        let (a, b) = (&felix.rows[0], &felix.rows[1]);
        assert!(a.is_as_good && a.contestant == "felix-6" && a.speed_up() == 6.0, "{a:?}");
        assert!(!b.is_as_good && b.contestant == "felix-3" && b.speed_up() == 3.0, "{b:?}");
        assert!((felix.speed_up - 18f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn searches_with_the_same_time_have_no_such_results() {
        let runs = [result("ansor", 1, "a", 60.0, 100.0), result("felix", 1, "a", 20.0, 99.0)];
        assert!(results("ansor", &runs).is_empty());
    }
}
