//! A title, a legend and a grid of panels.

use crate::panel::Panel;
use crate::picture::{Anchor, Picture};

/// A page of charts.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it shows.
    pub title: String,
    /// A line below the title; nothing if empty.
    pub subtitle: String,
    /// Names and their colours.
    pub legend: Vec<(String, &'static str)>,
    /// The charts, row by row.
    pub panels: Vec<Panel>,
    /// Charts in a row.
    pub columns: usize,
    /// The size of a chart, its labels included.
    pub panel_size: (f64, f64),
}

const MARGIN: f64 = 16.0;
/// About the width of a letter in the legend.
const LETTER: f64 = 7.6;

impl Figure {
    /// The figure as SVG.
    pub fn svg(&self) -> String {
        let columns = self.columns.clamp(1, self.panels.len().max(1));
        let rows = self.panels.len().div_ceil(columns);
        let (width, height) = self.panel_size;
        let header = if self.subtitle.is_empty() { 62.0 } else { 80.0 };
        let whole =
            (2.0 * MARGIN + (columns as f64 * width).max(480.0), header + rows as f64 * height + MARGIN);
        let mut picture = Picture::new(whole.0, whole.1);
        picture.bold((MARGIN, 26.0), 16.0, Anchor::Start, "#111111", &self.title);
        if !self.subtitle.is_empty() {
            picture.text((MARGIN, 45.0), 11.5, Anchor::Start, "#555555", &self.subtitle);
        }
        let mut x = MARGIN;
        for (name, colour) in &self.legend {
            picture.rectangle((x, header - 25.0), 18.0, 5.0, colour);
            picture.text((x + 24.0, header - 19.0), 12.0, Anchor::Start, "#111111", name);
            x += 24.0 + name.chars().count() as f64 * LETTER + 18.0;
        }
        for (at, panel) in self.panels.iter().enumerate() {
            let left = MARGIN + (at % columns) as f64 * width;
            let top = header + (at / columns) as f64 * height;
            panel.draw(&mut picture, (left, top), width, height);
        }
        picture.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Mark, Scale, Series, colour};

    #[test]
    fn every_series_and_name_is_drawn() {
        let mut lines = Panel::new(
            "curves",
            Axis::new("seconds", Scale::Log, 1.0, 100.0),
            Axis::new("speed", Scale::Linear, 0.0, 1.0),
        );
        lines.series.push(Series {
            colour: colour(0),
            mark: Mark::Line(2.0, 1.0),
            points: vec![(1.0, 0.0), (10.0, f64::NAN), (100.0, 1.0)],
        });
        lines.levels.push(0.5);
        let rows = vec!["matmul".to_string(), "conv2d".to_string()];
        let mut bars = Panel::with_rows("families", Axis::new("pairs", Scale::Linear, 0.0, 1.0), rows);
        for at in 0..2 {
            let points = vec![(0.5, 0.0), (1.0, 1.0)];
            bars.series.push(Series { colour: colour(at), mark: Mark::Bars, points });
        }
        let figure = Figure {
            title: "a < b".into(),
            subtitle: String::new(),
            legend: vec![("felix".into(), colour(0))],
            panels: vec![lines, bars],
            columns: 2,
            panel_size: (300.0, 200.0),
        };
        let svg = figure.svg();
        assert_eq!(svg.matches("stroke-dasharray").count(), 1);
        // The page, a key of the legend and four bars.
        assert_eq!(svg.matches("<rect").count(), 6);
        for word in ["a &lt; b", "felix", "matmul", "conv2d", "seconds", "families"] {
            assert!(svg.contains(word), "{word} is missing");
        }
        assert!(!svg.contains("NaN"), "{svg}");
        assert!(crate::png(&svg, 1.0).is_ok());
    }
}
