//! One chart: lines, points and bars between two axes.

use crate::axis::{Axis, label};
use crate::picture::{Anchor, Picture, Point, Stroke};

/// What a series is drawn as.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mark {
    /// A line of so much width and opacity.
    Line(f64, f64),
    /// A dot for each point, of such a radius and opacity.
    Dots(f64, f64),
    /// A bar from the axis on the left for each point; those of several series share the height of a row.
    Bars,
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Their colour.
    pub colour: &'static str,
    /// How they are drawn.
    pub mark: Mark,
    /// The points, in the units of the axes.
    pub points: Vec<(f64, f64)>,
}

/// One chart of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// What it shows.
    pub title: String,
    /// From left to right.
    pub x: Axis,
    /// From the bottom to the top; of a panel with rows, from the top.
    pub y: Axis,
    /// What is drawn, the first below the others.
    pub series: Vec<Series>,
    /// Names of rows in place of numbers on the vertical axis; the n-th row is at height n.
    pub rows: Vec<String>,
    /// Dashed lines at these heights.
    pub levels: Vec<f64>,
}

const GREY: &str = "#e3e3e3";
const DARK: &str = "#333333";
const TEXT: f64 = 10.5;
/// Room around the chart itself: left, top, right, bottom.
const ROOM: [f64; 4] = [46.0, 24.0, 12.0, 34.0];
/// Room for the names of rows.
const NAMES: f64 = 128.0;
/// The share of a row that its bars fill.
const FILLED: f64 = 0.8;

impl Panel {
    /// A panel without anything in it.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Panel {
        Panel { title: title.into(), x, y, series: Vec::new(), rows: Vec::new(), levels: Vec::new() }
    }

    /// A panel with named rows, the first at the top.
    pub fn with_rows(title: impl Into<String>, x: Axis, rows: Vec<String>) -> Panel {
        let y = Axis::new("", crate::Scale::Linear, -0.5, rows.len() as f64 - 0.5);
        Panel { rows, ..Panel::new(title, x, y) }
    }

    /// Draws the panel into a part of a picture.
    pub(crate) fn draw(&self, picture: &mut Picture, (left, top): Point, width: f64, height: f64) {
        let names = if self.rows.is_empty() { ROOM[0] } else { NAMES };
        let (x0, y0) = (left + names, top + ROOM[1]);
        let (w, h) = ((width - names - ROOM[2]).max(1.0), (height - ROOM[1] - ROOM[3]).max(1.0));
        let frame = Frame { panel: self, x0, y0, w, h };
        picture.bold((x0, y0 - 8.0), 12.0, Anchor::Start, DARK, &self.title);
        frame.grid(picture);
        for level in &self.levels {
            let y = frame.at((self.x.lo, *level)).1;
            let stroke = Stroke { dashed: true, ..Stroke::solid("#888888", 1.0) };
            picture.line(&[(x0, y), (x0 + w, y)], stroke);
        }
        frame.bars(picture);
        for series in &self.series {
            let seen = series.points.iter().filter(|p| p.0.is_finite() && p.1.is_finite());
            let places: Vec<Point> = seen.map(|p| frame.at(*p)).collect();
            match series.mark {
                Mark::Line(width, opacity) => {
                    picture.line(&places, Stroke { opacity, ..Stroke::solid(series.colour, width) });
                }
                Mark::Dots(radius, opacity) => {
                    places.iter().for_each(|p| picture.circle(*p, radius, series.colour, opacity));
                }
                Mark::Bars => {}
            }
        }
    }
}

/// A panel and the place of its axes.
struct Frame<'a> {
    panel: &'a Panel,
    x0: f64,
    y0: f64,
    w: f64,
    h: f64,
}

impl Frame<'_> {
    /// Where a point is in the picture.
    fn at(&self, (x, y): (f64, f64)) -> Point {
        let up = self.panel.y.place(y);
        let down = if self.panel.rows.is_empty() { 1.0 - up } else { up };
        (self.x0 + self.panel.x.place(x) * self.w, self.y0 + down * self.h)
    }

    /// Lines at the ticks, their labels, and the names of axes and rows.
    fn grid(&self, picture: &mut Picture) {
        let Frame { panel, x0, y0, w, h } = self;
        let (right, bottom) = (x0 + w, y0 + h);
        for tick in panel.x.ticks((w / 45.0) as usize) {
            let x = self.at((tick, panel.y.lo)).0;
            picture.line(&[(x, *y0), (x, bottom)], Stroke::solid(GREY, 1.0));
            picture.text((x, bottom + 14.0), TEXT, Anchor::Middle, DARK, &label(tick));
        }
        if panel.rows.is_empty() {
            for tick in panel.y.ticks((h / 30.0) as usize) {
                let y = self.at((panel.x.lo, tick)).1;
                picture.line(&[(*x0, y), (right, y)], Stroke::solid(GREY, 1.0));
                picture.text((x0 - 6.0, y + 3.5), TEXT, Anchor::End, DARK, &label(tick));
            }
        }
        for (at, name) in panel.rows.iter().enumerate() {
            let y = self.at((panel.x.lo, at as f64)).1;
            picture.text((x0 - 6.0, y + 3.5), TEXT, Anchor::End, DARK, name);
        }
        picture.line(&[(*x0, *y0), (*x0, bottom), (right, bottom)], Stroke::solid("#777777", 1.0));
        picture.text((x0 + w / 2.0, bottom + 28.0), TEXT, Anchor::Middle, DARK, &panel.x.label);
        if !panel.y.label.is_empty() {
            picture.upwards((x0 - 34.0, y0 + h / 2.0), TEXT, DARK, &panel.y.label);
        }
    }

    /// The bars of all series, beside one another in their rows.
    fn bars(&self, picture: &mut Picture) {
        let of_bars: Vec<&Series> = self.panel.series.iter().filter(|s| s.mark == Mark::Bars).collect();
        let row = self.h / (self.panel.rows.len().max(1) as f64);
        let thick = row * FILLED / of_bars.len().max(1) as f64;
        for (at, series) in of_bars.iter().enumerate() {
            for point in series.points.iter().filter(|p| p.0.is_finite()) {
                let (x, y) = self.at(*point);
                let top = y + (at as f64 - of_bars.len() as f64 / 2.0) * thick;
                picture.rectangle((self.x0, top), x - self.x0, (thick - 1.0).max(1.0), series.colour);
            }
        }
    }
}
