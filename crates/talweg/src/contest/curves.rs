//! Best so far over time, as a figure.

use talweg_plot::{Axis, Figure, Mark, Panel, Scale, Series, colour};

use super::operators::name_of;
use super::run::{Run, Settings, appearing};
use super::table::{geometric_mean, median};

/// Charts in a row, and the size of each.
const COLUMNS: usize = 4;
const SIZE: (f64, f64) = (310.0, 220.0);
/// Points of a mean curve.
const STEPS: usize = 200;

/// The figure: a panel for each operator with a thin line a run and a thick one for their median, and at the end the mean
/// over all operators. Speeds are relative to the fastest that any run of the operator found.
pub fn figure(runs: &[Run], settings: &Settings) -> Figure {
    let (names, specs) = appearing(runs);
    let scale = if settings.simulated { Scale::Linear } else { Scale::Log };
    let starts = runs.iter().filter_map(|r| r.curve.first()).map(|p| p.0);
    let last = runs.iter().map(Run::end).fold(1.0, f64::max);
    let first = starts.fold(last, f64::min);
    let time = || {
        let first = if settings.simulated { 0.0 } else { (first * 0.9).max(0.05) };
        Axis::new(settings.unit(), scale, first, last)
    };
    let chart = Chart { runs, names: &names, time: time(), last };
    let mut panels: Vec<Panel> = specs.iter().map(|spec| chart.operator(spec)).collect();
    if specs.len() > 1 {
        panels.push(chart.all(&specs));
    }
    let limit = match settings.budget {
        Some(seconds) => format!("{seconds} s from process start"),
        None => format!("{} trials on the simulated device", settings.trials.unwrap_or(0)),
    };
    Figure {
        title: "Speed of the best program found so far".into(),
        subtitle: format!(
            "share of the fastest any run found; {limit}, {} threads; thin: single runs, thick: their median",
            settings.threads
        ),
        legend: names.iter().enumerate().map(|(at, name)| (name.to_string(), colour(at))).collect(),
        columns: COLUMNS.min(panels.len().max(1)),
        panels,
        panel_size: SIZE,
    }
}

struct Chart<'a> {
    runs: &'a [Run],
    names: &'a [&'a str],
    time: Axis,
    last: f64,
}

impl Chart<'_> {
    fn of(&self, name: &str, spec: &str) -> Vec<&Run> {
        self.runs.iter().filter(|r| r.contestant == name && r.spec == spec).collect()
    }

    /// The fastest of all runs of an operator at any moment, in microseconds.
    fn fastest(&self, spec: &str) -> f64 {
        let own = self.runs.iter().filter(|r| r.spec == spec);
        own.flat_map(|r| &r.curve).map(|point| point.1).fold(f64::INFINITY, f64::min)
    }

    /// Moments at which mean curves are drawn.
    fn moments(&self) -> Vec<f64> {
        let (lo, hi) = (self.time.lo, self.time.hi);
        let at = |share: f64| match self.time.scale {
            Scale::Linear => lo + share * (hi - lo),
            Scale::Log => lo * (hi / lo).powf(share),
        };
        (0..=STEPS).map(|step| at(step as f64 / STEPS as f64)).collect()
    }

    /// The median of a contestant's runs on an operator at each moment; none before one of them has a result.
    fn median_curve(&self, name: &str, spec: &str) -> Vec<(f64, Option<f64>)> {
        let (runs, fastest) = (self.of(name, spec), self.fastest(spec));
        let share = |run: &Run, at: f64| {
            let known = run.curve.iter().take_while(|p| p.0 <= at).last();
            known.map(|(_, us)| fastest / us)
        };
        let value = |at: f64| {
            let shares: Vec<f64> = runs.iter().filter_map(|run| share(run, at)).collect();
            if shares.len() == runs.len() { median(shares) } else { None }
        };
        self.moments().into_iter().map(|at| (at, value(at))).collect()
    }

    fn operator(&self, spec: &str) -> Panel {
        let fastest = self.fastest(spec);
        let mut series = Vec::new();
        for (at, name) in self.names.iter().enumerate() {
            for run in self.of(name, spec) {
                let points =
                    steps(&run.curve, self.last).into_iter().map(|(t, us)| (t, fastest / us)).collect();
                series.push(Series { colour: colour(at), mark: Mark::Line(0.8, 0.45), points });
            }
        }
        for (at, name) in self.names.iter().enumerate() {
            let known = self.median_curve(name, spec).into_iter().filter_map(|(t, share)| Some((t, share?)));
            series.push(Series { colour: colour(at), mark: Mark::Line(2.2, 1.0), points: known.collect() });
        }
        self.panel(name_of(spec), series)
    }

    fn all(&self, specs: &[&str]) -> Panel {
        let mut series = Vec::new();
        for (at, name) in self.names.iter().enumerate() {
            let curves: Vec<_> = specs
                .iter()
                .filter(|spec| !self.of(name, spec).is_empty())
                .map(|spec| self.median_curve(name, spec))
                .collect();
            let mut points = Vec::new();
            for (step, moment) in self.moments().into_iter().enumerate() {
                let shares: Option<Vec<f64>> = curves.iter().map(|c| c[step].1).collect();
                if let Some(shares) = shares.filter(|s| !s.is_empty()) {
                    points.push((moment, geometric_mean(shares)));
                }
            }
            series.push(Series { colour: colour(at), mark: Mark::Line(2.6, 1.0), points });
        }
        self.panel("all operators (geometric mean)", series)
    }

    fn panel(&self, title: &str, series: Vec<Series>) -> Panel {
        let lowest = series.iter().flat_map(|s| &s.points).map(|p| p.1).fold(0.9, f64::min);
        let y = Axis::new("share of the fastest", Scale::Linear, (lowest * 20.0).floor() / 20.0, 1.01);
        Panel { series, levels: vec![1.0], ..Panel::new(title, self.time.clone(), y) }
    }
}

/// A curve as the line it stands for: level until the next point, and to the end.
fn steps(curve: &[(f64, f64)], end: f64) -> Vec<(f64, f64)> {
    let mut out: Vec<(f64, f64)> = Vec::new();
    for (at, us) in curve {
        if let Some((_, before)) = out.last() {
            out.push((*at, *before));
        }
        out.push((*at, *us));
    }
    if let Some((at, us)) = out.last().copied()
        && at < end
    {
        out.push((end, us));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::table::tests::run;

    #[test]
    fn curves_are_level_between_their_points() {
        let line = steps(&[(1.0, 9.0), (3.0, 5.0)], 10.0);
        assert_eq!(line, [(1.0, 9.0), (3.0, 9.0), (3.0, 5.0), (10.0, 5.0)]);
        assert!(steps(&[], 10.0).is_empty());
    }

    #[test]
    fn every_operator_has_a_panel_and_all_have_one_together() {
        let runs = [
            run("ansor", "a", 0, 80.0, &[(1.0, 100.0), (8.0, 50.0)]),
            run("felix", "a", 0, 52.0, &[(1.0, 100.0), (2.0, 40.0)]),
            run("ansor", "b", 0, 80.0, &[(1.0, 100.0)]),
            run("felix", "b", 0, 52.0, &[(1.0, 100.0)]),
        ];
        let figure = figure(&runs, &runs[0].settings);
        let titles: Vec<&str> = figure.panels.iter().map(|p| p.title.as_str()).collect();
        assert_eq!(titles, ["a", "b", "all operators (geometric mean)"]);
        assert_eq!(figure.panels[0].series.len(), 4);
        // Felix has the fastest of `a`, ansor ends at 40 / 50 of it; on `b` both are the same.
        let last = |series: &Series| series.points.last().expect("a point").1;
        let all: Vec<f64> = figure.panels[2].series.iter().map(last).collect();
        assert!((all[0] - 0.8f64.sqrt()).abs() < 1e-9 && (all[1] - 1.0).abs() < 1e-9, "{all:?}");
        assert!(talweg_plot::png(&figure.svg(), 1.0).is_ok());
    }
}
