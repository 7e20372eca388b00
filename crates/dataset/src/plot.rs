//! The report of [`crate::evaluate`](mod@crate::evaluate) as a picture.

use crate::evaluate::{Quality, Row};

const BAR: usize = 9;
const GAP: usize = 10;
const WIDTH: usize = 300;
const LABELS: usize = 150;
const TOP: usize = 58;
const COLOURS: [(&str, &str); 3] = [("network", "#2563a8"), ("trees", "#e08a2c"), ("random", "#b5b5b5")];

/// What is drawn of a quality: its title, its value.
type Panel = (&'static str, fn(&Quality) -> f64);

const PANELS: [Panel; 3] = [
    ("clear pairs in the right order", |q| q.clear_pairs),
    ("top-1 regret (less is better)", |q| q.top_1),
    ("top-5 regret (less is better)", |q| q.top_5),
];

/// Bars for every family: the network, trees and chance beside one another. SVG.
pub fn svg(rows: &[Row]) -> String {
    let group = COLOURS.len() * BAR + GAP;
    let (width, height) = (LABELS + PANELS.len() * (WIDTH + 30) + 20, TOP + rows.len() * group + 40);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for (at, (name, colour)) in COLOURS.iter().enumerate() {
        let x = LABELS + at * 100;
        out += &format!(
            "<rect x=\"{x}\" y=\"10\" width=\"12\" height=\"12\" fill=\"{colour}\"/><text x=\"{}\" y=\"20\">{name}</text>\n",
            x + 18
        );
    }
    let bottom = TOP + rows.len() * group;
    for (at, row) in rows.iter().enumerate() {
        let y = TOP + at * group + group / 2 + 2;
        out += &format!(
            "<text x=\"{}\" y=\"{y}\" text-anchor=\"end\">{} ({})</text>\n",
            LABELS - 8,
            escape(&row.name),
            row.tasks
        );
    }
    for (panel, (title, value)) in PANELS.iter().enumerate() {
        let left = LABELS + panel * (WIDTH + 30);
        out += &format!("<text x=\"{left}\" y=\"{}\" font-weight=\"bold\">{title}</text>\n", TOP - 12);
        for tick in 0..=4 {
            let x = left + tick * WIDTH / 4;
            out += &format!(
                "<line x1=\"{x}\" x2=\"{x}\" y1=\"{TOP}\" y2=\"{bottom}\" stroke=\"#dddddd\"/><text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                bottom + 16,
                tick as f64 / 4.0
            );
        }
        for (at, row) in rows.iter().enumerate() {
            for (bar, quality) in [&row.network, &row.trees, &row.random].into_iter().enumerate() {
                let y = TOP + at * group + bar * BAR + GAP / 2;
                let length = value(quality).clamp(0.0, 1.0) * WIDTH as f64;
                out += &format!(
                    "<rect x=\"{left}\" y=\"{y}\" width=\"{length:.1}\" height=\"{}\" fill=\"{}\"/>\n",
                    BAR - 1,
                    COLOURS[bar].1
                );
            }
        }
    }
    out + "</svg>\n"
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_its_bars() {
        let quality = Quality { pairs: 0.7, clear_pairs: 0.75, top_1: 0.2, top_5: 0.1 };
        let row = Row {
            name: "a<b".into(),
            programs: 3,
            tasks: 1,
            network: quality,
            trees: quality,
            random: quality,
        };
        let text = svg(&[row.clone(), row]);
        assert!(text.starts_with("<svg") && text.ends_with("</svg>\n"));
        assert_eq!(text.matches("width=\"225.0\"").count(), 6);
        assert!(text.contains("a&lt;b (1)"));
    }
}
