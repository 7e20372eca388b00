//! Times to reach a level, speed-ups, final ratios, first batches.
//!
//! A *level* is a share of the speed that the reference has at the end of its run. What a contestant needs to get there is
//! compared with what the reference itself needed, run by run with the same seed; runs are alternated, so whatever
//! disturbs the machine disturbs both. Means of ratios are geometric: over the seeds of an operator, then over operators.

use serde::Serialize;

use super::run::{Run, appearing};

/// The shares of the reference's final speed that are asked for; the last is the reference's result itself, as far as turns of
/// the same programs agree.
pub const LEVELS: [f64; 4] = [0.9, 0.95, 0.99, 0.997];

/// What a contestant needs to reach a level on one operator.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Reached {
    /// The share of the reference's final speed.
    pub level: f64,
    /// Seconds, or trials, of the contestant: the geometric mean of its runs. Runs that did not get there count with their
    /// whole length.
    pub own: f64,
    /// The reference's.
    pub reference: f64,
    /// The reference's over the contestant's. Where runs did not get there it is at most this.
    pub speed_up: f64,
    /// The reference's over the moment of the contestant's first sample: what no better choice of programs can exceed.
    pub most: f64,
    /// The reference's whole run over the contestant's time: what the contestant saves of a run of the reference.
    pub against_whole: f64,
    /// Runs that did not get there.
    pub missed: usize,
}

/// A contestant on one operator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The operator's SPEC.
    pub spec: String,
    /// Seeds.
    pub runs: usize,
    /// Microseconds of the winners, the geometric mean.
    pub best_us: f64,
    /// The reference's.
    pub reference_us: f64,
    /// The reference's microseconds over the contestant's: above 1 the contestant ends up faster.
    pub final_ratio: f64,
    /// The lowest of single runs.
    pub lowest_ratio: f64,
    /// Each of [`LEVELS`].
    pub levels: Vec<Reached>,
    /// Microseconds of the best of the first batch over those of the run's own final best; the median of the runs.
    pub first_batch: Option<f64>,
}

/// A contestant on all operators.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The contestant.
    pub contestant: String,
    /// One entry an operator that both have runs of.
    pub rows: Vec<Row>,
    /// For each level, the geometric mean of the speed-ups.
    pub speed_ups: Vec<f64>,
    /// For each level, the geometric mean of what no better choice of programs can exceed.
    pub most: Vec<f64>,
    /// For each level, the geometric mean of the reference's whole runs over the contestant's times.
    pub against_whole: Vec<f64>,
    /// For each level, the runs that did not get there.
    pub missed: Vec<usize>,
    /// The geometric mean of the final ratios.
    pub final_ratio: f64,
    /// The lowest final ratio of an operator.
    pub lowest_ratio: f64,
    /// The operator that has it.
    pub lowest_operator: String,
    /// The median over operators of the first batch's best over the final best.
    pub first_batch: Option<f64>,
}

/// All contestants against the reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// What the others are compared with.
    pub reference: String,
    /// The median over operators of the reference's own first batch over its final best.
    pub reference_first_batch: Option<f64>,
    /// One entry for each other contestant that has runs.
    pub contestants: Vec<Summary>,
}

/// When a curve first has a time as good as this; none if it never has.
pub fn time_to(curve: &[(f64, f64)], us: f64) -> Option<f64> {
    // A hair's breadth, so that a share of a number taken back is that number.
    curve.iter().find(|(_, best)| *best <= us * (1.0 + 1e-12)).map(|(at, _)| *at)
}

/// The geometric mean; NaN of nothing.
pub fn geometric_mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0usize);
    for value in values {
        sum += value.ln();
        count += 1;
    }
    (sum / count as f64).exp()
}

/// The median; none of nothing.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some((sorted[last / 2] + sorted[sorted.len() / 2]) / 2.0)
}

/// The best of a run's curve, in microseconds.
pub fn final_us(run: &Run) -> f64 {
    run.curve.last().map_or(f64::NAN, |(_, us)| *us)
}

/// A moment as a ratio can have it: the default schedule is known before the first trial.
fn positive(time: f64, run: &Run) -> f64 {
    time.max(if run.settings.simulated { 1.0 } else { 1e-3 })
}

impl Table {
    /// Compares all contestants with a reference. Contestants, operators and seeds appear in the order of the runs.
    pub fn new(reference: &str, runs: &[Run]) -> Table {
        let (names, specs) = appearing(runs);
        let contest = Contest { runs, reference };
        let others = names.into_iter().filter(|name| *name != reference);
        let contestants = others.filter_map(|name| contest.summary(name, &specs)).collect();
        let own = specs.iter().filter_map(|spec| contest.first_batch(reference, spec));
        Table { reference: reference.into(), reference_first_batch: median(own), contestants }
    }
}

struct Contest<'a> {
    runs: &'a [Run],
    reference: &'a str,
}

impl Contest<'_> {
    fn of(&self, contestant: &str, spec: &str) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |r| r.contestant == contestant && r.spec == spec)
    }

    /// How much slower the best of the first batch is than the final best: the median of a contestant's runs.
    fn first_batch(&self, contestant: &str, spec: &str) -> Option<f64> {
        median(self.of(contestant, spec).filter_map(|run| Some(run.first_batch_us? / final_us(run))))
    }

    fn row(&self, contestant: &str, spec: &str) -> Option<Row> {
        let pairs: Vec<(&Run, &Run)> = self
            .of(contestant, spec)
            .filter_map(|own| Some((own, self.of(self.reference, spec).find(|r| r.seed == own.seed)?)))
            .collect();
        if pairs.is_empty() {
            return None;
        }
        let winners: Vec<(f64, f64)> = pairs.iter().map(|(own, r)| (own.best_us, r.best_us)).collect();
        let ratios = || winners.iter().map(|(own, reference)| reference / own);
        let levels = LEVELS.map(|level| {
            let mut missed = 0;
            let mut times = Vec::new();
            for (own, reference) in &pairs {
                let goal = final_us(reference) / level;
                let found = time_to(&own.curve, goal);
                missed += usize::from(found.is_none());
                // A run that has a part of the reference's time counts with that, others with the budget.
                let budget = own.settings.budget.filter(|_| own.share == 1);
                let whole = own.end().max(budget.unwrap_or(0.0));
                let theirs = time_to(&reference.curve, goal).unwrap_or_else(|| reference.end());
                let first = own.curve.first().map_or(whole, |point| point.0);
                let all = [found.unwrap_or(whole), theirs, first, reference.end()];
                times.push(all.map(|time| positive(time, own)));
            }
            let [own, reference, first, end] =
                [0, 1, 2, 3].map(|at| geometric_mean(times.iter().map(|t| t[at])));
            let (speed_up, most, against_whole) = (reference / own, reference / first, end / own);
            Reached { level, own, reference, speed_up, most, against_whole, missed }
        });
        Some(Row {
            spec: spec.into(),
            runs: pairs.len(),
            best_us: geometric_mean(winners.iter().map(|w| w.0)),
            reference_us: geometric_mean(winners.iter().map(|w| w.1)),
            final_ratio: geometric_mean(ratios()),
            lowest_ratio: ratios().fold(f64::INFINITY, f64::min),
            levels: levels.to_vec(),
            first_batch: self.first_batch(contestant, spec),
        })
    }

    fn summary(&self, contestant: &str, specs: &[&str]) -> Option<Summary> {
        let rows: Vec<Row> = specs.iter().filter_map(|spec| self.row(contestant, spec)).collect();
        let lowest = rows.iter().min_by(|a, b| a.final_ratio.total_cmp(&b.final_ratio))?;
        let (lowest_ratio, lowest_operator) = (lowest.final_ratio, lowest.spec.clone());
        let levels = 0..LEVELS.len();
        let means = |of: fn(&Reached) -> f64| {
            levels.clone().map(|at| geometric_mean(rows.iter().map(|r| of(&r.levels[at])))).collect()
        };
        Some(Summary {
            contestant: contestant.into(),
            speed_ups: means(|reached| reached.speed_up),
            most: means(|reached| reached.most),
            against_whole: means(|reached| reached.against_whole),
            missed: levels.clone().map(|at| rows.iter().map(|r| r.levels[at].missed).sum()).collect(),
            final_ratio: geometric_mean(rows.iter().map(|r| r.final_ratio)),
            lowest_ratio,
            lowest_operator,
            first_batch: median(rows.iter().filter_map(|r| r.first_batch)),
            rows,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::contest::run::Settings;

    /// A run of ten seconds with a given curve; the finals find what the curve ends with.
    pub fn run(contestant: &str, spec: &str, seed: u64, first_us: f64, curve: &[(f64, f64)]) -> Run {
        let best_us = curve.last().expect("a point").1;
        Run {
            spec: spec.into(),
            contestant: contestant.into(),
            seed,
            settings: Settings {
                budget: Some(10.0),
                trials: None,
                threads: 2,
                simulated: false,
                from_default: false,
                to_the_end: true,
            },
            share: 1,
            best_us,
            default_us: curve[0].1,
            first_batch_us: Some(first_us),
            trials: 100,
            seconds: 9.5,
            stopped_by: "budget".into(),
            curve: curve.to_vec(),
            curve_schedules: vec![String::new(); curve.len()],
            schedule: String::new(),
            phases: serde_json::Value::Null,
        }
    }

    #[test]
    fn a_level_is_reached_when_the_curve_is_as_good() {
        let curve = [(1.0, 100.0), (2.0, 60.0), (4.0, 50.0)];
        assert_eq!(time_to(&curve, 100.0), Some(1.0));
        assert_eq!(time_to(&curve, 99.0), Some(2.0));
        assert_eq!(time_to(&curve, 50.0 / 0.99), Some(4.0));
        assert_eq!(time_to(&curve, 49.9), None);
    }

    #[test]
    fn speed_ups_are_ratios_of_times_with_geometric_means() {
        let runs = [
            // Reaches 90 % (55.6) at 4 s, 95 % (52.6) at 8 s, 99 % (50.5) at 8 s.
            run("ansor", "a", 0, 80.0, &[(1.0, 100.0), (4.0, 55.0), (8.0, 50.0)]),
            // Reaches 90 % and 95 % at 2 s; never 99 %.
            run("felix", "a", 0, 52.0, &[(1.0, 100.0), (2.0, 52.0)]),
            run("ansor", "b", 0, 20.0, &[(1.0, 20.0), (9.0, 10.0)]),
            run("felix", "b", 0, 12.5, &[(1.0, 20.0), (3.0, 10.0), (6.0, 8.0)]),
            // Without a partner.
            run("felix", "c", 0, 1.0, &[(1.0, 1.0)]),
        ];
        let table = Table::new("ansor", &runs);
        let felix = &table.contestants[0];
        assert_eq!((table.contestants.len(), felix.contestant.as_str(), felix.rows.len()), (1, "felix", 2));
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9 * b.abs(), "{a} is not {b}");
        let a = &felix.rows[0];
        close(a.levels[0].speed_up, 4.0 / 2.0);
        close(a.levels[1].speed_up, 8.0 / 2.0);
        // Not reached within the budget of 10 s.
        close(a.levels[2].speed_up, 8.0 / 10.0);
        assert_eq!(a.levels.iter().map(|l| l.missed).collect::<Vec<_>>(), [0, 0, 1, 1]);
        close(felix.speed_ups[0], (2.0 * 3.0f64).sqrt());
        close(felix.speed_ups[2], (0.8 * 3.0f64).sqrt());
        assert_eq!(felix.missed, [0, 0, 1, 1]);
        // Both have their first sample after a second.
        close(a.levels[0].most, 4.0);
        close(felix.most[1], (8.0 * 9.0f64).sqrt());
        // Ansor's runs took 9.5 s.
        close(felix.against_whole[0], (9.5 / 2.0 * 9.5 / 3.0f64).sqrt());
        close(a.final_ratio, 50.0 / 52.0);
        close(felix.final_ratio, (50.0 / 52.0 * 10.0 / 8.0f64).sqrt());
        assert_eq!((felix.lowest_operator.as_str(), felix.lowest_ratio), ("a", a.final_ratio));
        // 52 / 52 and 12.5 / 8; ansor's are 80 / 50 and 20 / 10.
        close(felix.first_batch.expect("two operators"), (1.0 + 12.5 / 8.0) / 2.0);
        close(table.reference_first_batch.expect("two operators"), (1.6 + 2.0) / 2.0);
    }

    #[test]
    fn seeds_are_paired() {
        let runs = [
            run("ansor", "a", 0, 9.0, &[(1.0, 20.0), (2.0, 10.0)]),
            run("felix", "a", 1, 9.0, &[(1.0, 20.0), (2.0, 10.0)]),
            run("ansor", "a", 1, 9.0, &[(1.0, 20.0), (8.0, 10.0)]),
            run("felix", "a", 0, 9.0, &[(1.0, 10.0)]),
        ];
        let mut runs = runs;
        (runs[1].best_us, runs[2].best_us) = (8.0, 12.0);
        let table = Table::new("ansor", &runs);
        let row = &table.contestants[0].rows[0];
        assert_eq!(row.runs, 2);
        assert!((row.levels[2].speed_up - (4.0 * 2.0f64).sqrt()).abs() < 1e-9);
        assert!((row.final_ratio - 1.5f64.sqrt()).abs() < 1e-9 && (row.lowest_ratio - 1.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_to_compare_is_an_empty_table() {
        let runs = [run("ansor", "a", 0, 9.0, &[(1.0, 20.0)])];
        assert!(Table::new("ansor", &runs).contestants.is_empty());
        assert!(Table::new("ansor", &[]).contestants.is_empty());
        assert!(median([]).is_none() && geometric_mean([]).is_nan());
    }
}
