//! A report as one HTML file: style, scripts and data together, so that it needs nothing else.

use crate::report::Report;

const PAGE: &str = include_str!("../page/page.html");
const STYLE: &str = include_str!("../page/style.css");

/// The scripts, in their order.
const SCRIPTS: [&str; 12] = [
    include_str!("../page/state.js"),
    include_str!("../page/format.js"),
    include_str!("../page/chart.js"),
    include_str!("../page/summary.js"),
    include_str!("../page/latency.js"),
    include_str!("../page/tasks.js"),
    include_str!("../page/scatter.js"),
    include_str!("../page/importance.js"),
    include_str!("../page/roofline.js"),
    include_str!("../page/errors.js"),
    include_str!("../page/environment.js"),
    include_str!("../page/main.js"),
];

/// What goes into the places of the page's text.
enum Part {
    Title,
    Style,
    Script,
    Data,
}

const PLACES: [(&str, Part); 4] = [
    ("<!--title-->", Part::Title),
    ("/*style*/", Part::Style),
    ("/*script*/", Part::Script),
    ("<!--data-->", Part::Data),
];

/// The page of a report.
pub fn page(report: &Report) -> String {
    let mut out = String::with_capacity(200_000);
    let mut rest = PAGE;
    // From left to right, so that nothing that is put in is taken for a place.
    while let Some((at, place, part)) =
        PLACES.iter().filter_map(|(place, part)| Some((rest.find(place)?, place, part))).min_by_key(|p| p.0)
    {
        out += &rest[..at];
        rest = &rest[at + place.len()..];
        match part {
            Part::Title => out += &escape_html(&report.title),
            Part::Style => out += STYLE,
            Part::Script => SCRIPTS.iter().for_each(|script| out += script),
            Part::Data => out += &embedded(report),
        }
    }
    out + rest
}

/// JSON that may stand inside of a script element: no `<` can end it.
pub fn embedded(report: &Report) -> String {
    serde_json::to_string(report).unwrap_or_else(|_| "null".into()).replace('<', "\\u003c")
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_cannot_break_out() {
        let report = Report { title: "</script><b>/*style*/<!--data-->".into(), ..Report::default() };
        let page = page(&report);
        assert!(
            page.contains("<title>&lt;/script&gt;&lt;b&gt;/*style*/&lt;!--data--&gt;"),
            "{}",
            &page[..400]
        );
        assert!(page.contains(r#""title":"\u003c/script>\u003cb>"#));
        assert_eq!(page.matches("<script").count(), page.matches("</script>").count());
    }

    #[test]
    fn the_page_asks_nobody_for_anything() {
        let page = page(&Report::default());
        let outside = ["http://", "https://", "src=", "@import", "url("];
        // The only address is the name of the SVG name space, and the only references are to parts of the page.
        let text = page.replace("http://www.w3.org/2000/svg", "").replace("url(#", "");
        assert!(outside.iter().all(|mark| !text.contains(mark)));
        assert!(!page.contains("/*script*/") && !page.contains("/*style*/") && !page.contains("<!--data-->"));
    }

    #[test]
    fn data_is_read_back() {
        let report = Report { title: "a < b".into(), measured: 7, ..Report::default() };
        assert_eq!(serde_json::from_str::<Report>(&embedded(&report)).unwrap(), report);
    }
}
