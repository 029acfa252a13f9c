//! Curves over powers of ten as one SVG: a panel for each figure, both axes logarithmic. Pure: numbers in, text out;
//! the picture has no script and loads nothing.

use std::fmt::Write as _;

const COLUMNS: usize = 3;
const PANEL_WIDTH: f64 = 330.0;
const PANEL_HEIGHT: f64 = 250.0;
/// Of a panel, around its axes.
const LEFT: f64 = 52.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 34.0;
/// Above and below all panels.
const HEAD: f64 = 34.0;
const NOTE: f64 = 18.0;
/// Of a letter in the legend, about.
const LETTER: f64 = 6.4;

const STYLE: &str = "svg{font:12px system-ui,sans-serif;background:#fff;color:#1b1e23}text{fill:currentColor}\
    .grid{stroke:currentColor;stroke-opacity:.14}.line{fill:none;stroke-width:2}.l0{color:#2563b0}.l1{color:#c2410c}\
    .l2{color:#15803d}.line,.range{stroke:currentColor}.dot{fill:currentColor}\
    @media(prefers-color-scheme:dark){svg{background:#15181d;color:#e4e6ea}.l0{color:#6ea8f0}.l1{color:#fb923c}\
    .l2{color:#4ade80}}";
/// Lines that the style tells apart.
const COLORS: usize = 3;

/// A figure at a number of series.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) series: f64,
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) greatest: f64,
}

/// One curve.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) points: Vec<Point>,
}

/// One figure, as one curve or a few.
pub(crate) struct Panel {
    pub(crate) title: &'static str,
    pub(crate) lines: Vec<Line>,
}

/// Powers of ten from end to end of an axis.
struct Axis {
    low: i32,
    high: i32,
}

impl Axis {
    /// Around the values above zero; `None` when there are none.
    fn around(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| is_drawn(*value)) {
            low = low.min(value.log10().floor());
            high = high.max(value.log10().ceil());
        }
        let (low, high) = (low as i32, high as i32);
        (low <= high).then_some(Self { low, high: high.max(low.saturating_add(1)) })
    }

    /// The part of the axis below a value.
    fn share(&self, value: f64) -> f64 {
        (value.log10() - f64::from(self.low)) / f64::from(self.high - self.low)
    }
}

/// A logarithmic axis has no place for others.
fn is_drawn(value: f64) -> bool {
    value > 0.0 && value.is_finite()
}

/// A power of ten in few letters.
fn power(exponent: i32) -> String {
    match exponent {
        6.. => format!("{}M", 10_f64.powi(exponent - 6)),
        3..6 => format!("{}k", 10_f64.powi(exponent - 3)),
        0..3 => 10_f64.powi(exponent).to_string(),
        _ => format!("{:.*}", exponent.unsigned_abs() as usize, 10_f64.powi(exponent)),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The picture, with `notes` below the panels. Panels without a value are left out.
pub(crate) fn svg(title: &str, panels: &[Panel], notes: &[String]) -> String {
    let drawn: Vec<String> = panels.iter().filter_map(panel_of).collect();
    let rows = drawn.len().div_ceil(COLUMNS);
    let width = PANEL_WIDTH * COLUMNS as f64;
    let below = HEAD + PANEL_HEIGHT * rows as f64;
    let height = below + NOTE * (notes.len() + 1) as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
         <title>{0}</title>\n<style>{STYLE}</style>\n<text x=\"16\" y=\"22\" font-size=\"15\">{0}</text>\n",
        escaped(title)
    );
    for (at, panel) in drawn.iter().enumerate() {
        let x = PANEL_WIDTH * (at % COLUMNS) as f64;
        let y = HEAD + PANEL_HEIGHT * (at / COLUMNS) as f64;
        let _ = writeln!(out, "<g transform=\"translate({x} {y})\">\n{panel}</g>");
    }
    for (note, at) in notes.iter().zip(1_u32..) {
        let y = below + NOTE * f64::from(at);
        let _ = writeln!(out, "<text x=\"16\" y=\"{y}\">{}</text>", escaped(note));
    }
    out + "</svg>\n"
}

/// What stands in the place of a panel.
fn panel_of(panel: &Panel) -> Option<String> {
    let points = || panel.lines.iter().flat_map(|line| &line.points).filter(|point| is_drawn(point.median));
    let across = Axis::around(points().map(|point| point.series))?;
    let up = Axis::around(points().flat_map(|point| [point.least, point.median, point.greatest]))?;
    let x = |series: f64| LEFT + across.share(series) * (PANEL_WIDTH - LEFT - RIGHT);
    let y = |value: f64| PANEL_HEIGHT - BOTTOM - up.share(value) * (PANEL_HEIGHT - TOP - BOTTOM);
    let mut out = format!("<text x=\"{LEFT}\" y=\"20\">{}</text>\n", escaped(panel.title));
    grid(&mut out, &across, &up, (&x, &y));
    let mut legend = LEFT;
    for (at, line) in panel.lines.iter().enumerate() {
        let drawn: Vec<&Point> = line.points.iter().filter(|point| is_drawn(point.median)).collect();
        let _ = writeln!(out, "<g class=\"l{}\">", at % COLORS);
        let places: Vec<String> =
            drawn.iter().map(|point| format!("{:.1},{:.1}", x(point.series), y(point.median))).collect();
        let _ = writeln!(out, "<polyline class=\"line\" points=\"{}\"/>", places.join(" "));
        for point in drawn {
            let Point { series, least, median, greatest } = *point;
            if is_drawn(least) {
                let (x, low, high) = (x(series), y(least), y(greatest));
                let _ = writeln!(
                    out,
                    "<line class=\"range\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{low:.1}\" y2=\"{high:.1}\"/>"
                );
            }
            let says = format!("{series} series: {median:.3} ({least:.3} to {greatest:.3})");
            let _ = writeln!(
                out,
                "<circle class=\"dot\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"><title>{says}</title></circle>",
                x(series),
                y(median)
            );
        }
        if panel.lines.len() > 1 {
            let _ = writeln!(out, "<text x=\"{legend:.1}\" y=\"38\">{}</text>", escaped(line.name));
            legend += LETTER * (line.name.len() + 3) as f64;
        }
        out += "</g>\n";
    }
    Some(out)
}

/// Where a number stands.
type Scale<'a> = &'a dyn Fn(f64) -> f64;

fn grid(out: &mut String, across: &Axis, up: &Axis, (x, y): (Scale<'_>, Scale<'_>)) {
    let (right, bottom) = (PANEL_WIDTH - RIGHT, PANEL_HEIGHT - BOTTOM);
    for exponent in across.low..=across.high {
        let x = x(10_f64.powi(exponent));
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            power(exponent)
        );
    }
    for exponent in up.low..=up.high {
        let y = y(10_f64.powi(exponent));
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            y + 4.0,
            power(exponent)
        );
    }
}
