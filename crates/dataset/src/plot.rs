//! The report of [`crate::evaluate`](mod@crate::evaluate) as a figure.

use talweg_plot::{Axis, Figure, Mark, Panel, Scale, Series, colour};

use crate::evaluate::{Prediction, Quality, Row};

/// Names in the legend, in the order of their colours.
const MODELS: [&str; 3] = ["network", "trees", "random"];
const COLOURS: [&str; 3] = ["#0072b2", "#e69f00", "#b5b5b5"];
/// Programs that are drawn as dots, at most: evenly many of all.
const DOTS: usize = 1500;
/// Slower programs are drawn at this share of their task's best speed.
const SLOWEST: f64 = 0.02;

/// What is drawn of a quality: its title, its axis, its value.
type Bars = (&'static str, &'static str, fn(&Quality) -> f64);

const BARS: [Bars; 3] = [
    ("pairs in the right order", "share of clear pairs", |q| q.clear_pairs),
    ("top-1 regret (less is better)", "share of speed lost", |q| q.top_1),
    ("top-5 regret (less is better)", "share of speed lost", |q| q.top_5),
];

/// Predicted against measured speeds, then bars for every family: the network, trees and chance beside one another.
pub fn figure(rows: &[Row], predictions: &[Prediction]) -> Figure {
    let names: Vec<String> = rows.iter().map(|row| format!("{} ({})", row.name, row.tasks)).collect();
    let mut panels = vec![scatter(predictions)];
    for (title, label, value) in BARS {
        let most = rows.iter().flat_map(|r| [&r.network, &r.trees, &r.random]).map(value).fold(0.1, f64::max);
        let x = Axis::new(label, Scale::Linear, 0.0, ((most * 10.0).ceil() / 10.0).min(1.0));
        let mut panel = Panel::with_rows(title, x, names.clone());
        for (at, colour) in COLOURS.into_iter().enumerate() {
            let quality = |row: &Row| value([&row.network, &row.trees, &row.random][at]);
            let points = rows.iter().enumerate().map(|(place, row)| (quality(row), place as f64)).collect();
            panel.series.push(Series { colour, mark: Mark::Bars, points });
        }
        panels.push(panel);
    }
    Figure {
        title: "The cost model on operators it has not seen".into(),
        subtitle: "families with their numbers of tasks; dots are programs, speeds relative to the best of their task".into(),
        legend: MODELS.iter().map(|name| name.to_string()).zip(COLOURS).collect(),
        panels,
        columns: 2,
        panel_size: (470.0, 420.0),
    }
}

/// A dot for each program; on the diagonal the network is right.
fn scatter(predictions: &[Prediction]) -> Panel {
    let axis = |label| Axis::new(label, Scale::Log, SLOWEST, 1.5);
    let mut panel = Panel::new("predicted against measured speed", axis("measured"), axis("predicted"));
    let every = predictions.len().div_ceil(DOTS).max(1);
    let dots = predictions.iter().step_by(every).map(|p| (p.measured, p.predicted)).collect();
    panel.series.push(Series { colour: COLOURS[0], mark: Mark::Dots(1.6, 0.35), points: dots });
    let diagonal = vec![(SLOWEST, SLOWEST), (1.5, 1.5)];
    panel.series.push(Series { colour: colour(6), mark: Mark::Line(1.0, 0.8), points: diagonal });
    panel
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_its_bars_and_every_program_its_dot() {
        let quality = Quality { pairs: 0.7, clear_pairs: 0.75, top_1: 0.2, top_5: 0.1 };
        let row = Row {
            name: "a<b".into(),
            programs: 3,
            tasks: 1,
            network: quality,
            trees: quality,
            random: quality,
        };
        let prediction = Prediction { measured: 0.5, predicted: 0.4 };
        let figure = figure(&[row.clone(), row], &[prediction; 7]);
        assert_eq!(figure.panels[0].series[0].points, [(0.5, 0.4); 7]);
        let bars: usize = figure.panels[1..].iter().flat_map(|p| &p.series).map(|s| s.points.len()).sum();
        assert_eq!(bars, 3 * 3 * 2);
        assert!(figure.svg().contains("a&lt;b (1)"));
        let many = super::figure(&[], &vec![prediction; 4000]);
        assert!((1000..=DOTS).contains(&many.panels[0].series[0].points.len()));
    }
}
