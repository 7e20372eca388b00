//! SVG to PNG.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

use crate::error::PlotError;

/// The family of the font that comes along.
pub const FONT: &str = "DejaVu Sans";

/// Draws SVG as PNG, so many pixels for each unit. Text is drawn in [`FONT`], whatever the machine has installed.
pub fn png(svg: &str, scale: f32) -> Result<Vec<u8>, PlotError> {
    let mut options = Options { font_family: FONT.into(), ..Options::default() };
    options.fontdb_mut().load_font_data(dejavu::sans::regular().to_vec());
    options.fontdb_mut().load_font_data(dejavu::sans::bold().to_vec());
    let tree = Tree::from_str(svg, &options).map_err(|e| PlotError::Svg(e.to_string()))?;
    let (width, height) = (tree.size().width() * scale, tree.size().height() * scale);
    let wrong = || PlotError::Size { width, height };
    if !(1.0..20_000.0).contains(&width) || !(1.0..20_000.0).contains(&height) {
        return Err(wrong());
    }
    let mut pixels = Pixmap::new(width.ceil() as u32, height.ceil() as u32).ok_or_else(wrong)?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(|e| PlotError::Encode(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::{Anchor, Picture};

    fn picture(text: &str) -> String {
        let mut picture = Picture::new(40.0, 20.0);
        picture.text((20.0, 14.0), 12.0, Anchor::Middle, "#000000", text);
        picture.finish()
    }

    #[test]
    fn pictures_have_the_size_asked_for_and_letters() {
        let empty = png(&picture(""), 2.0).expect("a picture");
        let word = png(&picture("abc"), 2.0).expect("a picture");
        // The header of a PNG holds width and height after sixteen bytes.
        assert_eq!(&word[16..24], &[0, 0, 0, 80, 0, 0, 0, 40]);
        assert!(word.len() > empty.len() + 50, "no letters were drawn");
    }

    #[test]
    fn bad_pictures_are_errors() {
        assert!(matches!(png("no picture", 1.0), Err(PlotError::Svg(_))));
        assert!(matches!(png(&picture(""), 1e6), Err(PlotError::Size { .. })));
        assert!(matches!(png(&picture(""), 0.0), Err(PlotError::Size { .. })));
    }
}
