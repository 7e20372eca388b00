//! Shapes and text as SVG.

use std::fmt::Write;

/// Where a text stands in relation to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// It is centred there.
    Middle,
    /// It ends there.
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stroke<'a> {
    /// Its colour.
    pub colour: &'a str,
    /// Its width.
    pub width: f64,
    /// Its opacity, 1 for solid.
    pub opacity: f64,
    /// Whether it is dashed.
    pub dashed: bool,
}

impl<'a> Stroke<'a> {
    /// A solid line.
    pub fn solid(colour: &'a str, width: f64) -> Stroke<'a> {
        Stroke { colour, width, opacity: 1.0, dashed: false }
    }
}

/// A point of a picture: right and down from its upper left corner.
pub type Point = (f64, f64);

/// A picture under construction, white at first.
#[derive(Clone, Debug)]
pub struct Picture {
    text: String,
}

impl Picture {
    /// An empty picture.
    pub fn new(width: f64, height: f64) -> Picture {
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" font-family=\"{}, Verdana, sans-serif\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n",
            crate::png::FONT
        );
        Picture { text }
    }

    /// A filled rectangle.
    pub fn rectangle(&mut self, (x, y): Point, width: f64, height: f64, colour: &str) {
        self.add(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
        ));
    }

    /// A filled circle.
    pub fn circle(&mut self, (x, y): Point, radius: f64, colour: &str, opacity: f64) {
        self.add(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{colour}\" fill-opacity=\"{opacity}\"/>"
        ));
    }

    /// A line through all points; nothing for fewer than two.
    pub fn line(&mut self, points: &[Point], stroke: Stroke<'_>) {
        if points.len() < 2 {
            return;
        }
        let mut path = String::new();
        for (x, y) in points {
            let _ = write!(path, "{x:.1},{y:.1} ");
        }
        let dashes = if stroke.dashed { " stroke-dasharray=\"4 3\"" } else { "" };
        self.add(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-opacity=\"{}\" stroke-linejoin=\"round\"{dashes}/>",
            path.trim_end(),
            stroke.colour,
            stroke.width,
            stroke.opacity
        ));
    }

    /// A line of text.
    pub fn text(&mut self, at: Point, size: f64, anchor: Anchor, colour: &str, text: &str) {
        self.lettering(at, size, anchor, colour, text, "");
    }

    /// A line of bold text.
    pub fn bold(&mut self, at: Point, size: f64, anchor: Anchor, colour: &str, text: &str) {
        self.lettering(at, size, anchor, colour, text, " font-weight=\"bold\"");
    }

    /// A line of text that is read upwards, centred at its point.
    pub fn upwards(&mut self, at: Point, size: f64, colour: &str, text: &str) {
        let turn = format!(" transform=\"rotate(-90 {:.1} {:.1})\"", at.0, at.1);
        self.lettering(at, size, Anchor::Middle, colour, text, &turn);
    }

    fn lettering(&mut self, (x, y): Point, size: f64, anchor: Anchor, colour: &str, text: &str, more: &str) {
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{}\" fill=\"{colour}\"{more}>{}</text>",
            anchor.name(),
            escape(text)
        ));
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.text, "{element}");
    }

    /// The picture as SVG.
    pub fn finish(self) -> String {
        self.text + "</svg>\n"
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_short_lines_are_left_out() {
        let mut picture = Picture::new(10.0, 20.0);
        picture.text((1.0, 2.0), 9.0, Anchor::End, "#000000", "a<b & c");
        picture.line(&[(1.0, 1.0)], Stroke::solid("#000000", 1.0));
        let text = picture.finish();
        assert!(text.contains(">a&lt;b &amp; c</text>") && text.contains("text-anchor=\"end\""), "{text}");
        assert!(!text.contains("polyline") && text.ends_with("</svg>\n"), "{text}");
    }
}
