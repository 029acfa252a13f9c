//! The curve of throughput by number of workers as an SVG, with the line of ideal scaling.
//!
//! Pure: points and a law in, text out. The picture has no script and loads nothing.

use std::fmt::Write as _;

use crate::scale::{Law, Point};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 58.0;
const BOTTOM: f64 = 56.0;
/// Places at which a curve is computed.
const STEPS: u32 = 100;
/// Lines of the grid at most.
const TICKS: f64 = 6.0;

const STYLE: &str = "svg{font:12px system-ui,sans-serif;background:#fff;color:#1b1e23}text{fill:currentColor}\
    .grid{stroke:currentColor;stroke-opacity:.14}.ideal{stroke:#8a8f98;stroke-dasharray:6 5;fill:none}\
    .law{stroke:#2563b0;stroke-width:2;fill:none}.point{fill:#c2410c}\
    @media(prefers-color-scheme:dark){svg{background:#15181d;color:#e4e6ea}.law{stroke:#6ea8f0}.point{fill:#fb923c}}";

/// Where numbers stand in the picture.
struct Axes {
    workers: f64,
    throughput: f64,
}

impl Axes {
    fn x(&self, workers: f64) -> f64 {
        LEFT + workers / self.workers * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, throughput: f64) -> f64 {
        HEIGHT - BOTTOM - throughput / self.throughput * (HEIGHT - TOP - BOTTOM)
    }

    fn path(&self, of: impl Fn(f64) -> f64) -> String {
        // Less than one worker has no meaning, and the law is above the line there.
        let at = |step: u32| 1.0 + (self.workers - 1.0) * f64::from(step) / f64::from(STEPS);
        let places =
            (0..=STEPS).map(|step| (at(step), of(at(step)))).filter(|(_, y)| *y <= self.throughput * 1.000_001);
        let texts: Vec<String> = places.map(|(x, y)| format!("{:.1},{:.1}", self.x(x), self.y(y))).collect();
        texts.join(" ")
    }
}

/// 1, 2 or 5 times a power of ten: at most [`TICKS`] of them up to `most`.
fn step_of(most: f64) -> f64 {
    let rough = most / TICKS;
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= rough * 0.999_999).unwrap_or(rough)
}

/// A number with three leading digits.
fn number(value: f64) -> String {
    let digits = if value == 0.0 { 0.0 } else { (2.0 - value.abs().log10().floor()).clamp(0.0, 9.0) };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 9")]
    let text = format!("{value:.*}", digits as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The picture; `unit` is what one unit of work is. `None` when there is no point above zero.
#[must_use]
pub fn svg(title: &str, unit: &str, points: &[Point], law: Option<&Law>) -> Option<String> {
    let most = |field: fn(&Point) -> f64| points.iter().map(field).filter(|x| x.is_finite()).fold(0.0, f64::max);
    let (workers, measured) = (most(|point| point.workers), most(|point| point.throughput));
    if workers <= 0.0 || measured <= 0.0 {
        return None;
    }
    let first = points.iter().min_by(|a, b| a.workers.total_cmp(&b.workers))?;
    let alone = law.map_or(first.throughput / first.workers, |law| law.lambda);
    // The ideal line may leave through the top: a curve that is flat would be a line at the bottom.
    let axes = Axes { workers, throughput: (alone * workers).min(measured * 2.5).max(measured) * 1.04 };
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n\
         <title>{0}</title>\n<style>{STYLE}</style>\n<text x=\"{LEFT}\" y=\"24\" font-size=\"14\">{0}</text>\n",
        escaped(title)
    );
    grid(&mut out, &axes, unit);
    let _ = writeln!(out, "<polyline class=\"ideal\" points=\"{}\"/>", axes.path(|n| alone * n));
    if let Some(law) = law {
        let _ = writeln!(out, "<polyline class=\"law\" points=\"{}\"/>", axes.path(|n| law.throughput(n)));
    }
    for point in points {
        let (x, y) = (axes.x(point.workers), axes.y(point.throughput));
        let says = format!("{} workers: {}/s", number(point.workers), number(point.throughput));
        let _ = writeln!(
            out,
            "<circle class=\"point\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\"><title>{says}</title></circle>"
        );
    }
    let legend =
        law.map_or_else(String::new, |law| format!("law: sigma {}, kappa {}", number(law.sigma), number(law.kappa)));
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"44\" text-anchor=\"end\">dots: measured; dashes: nothing lost; {legend}</text>\n</svg>",
        WIDTH - RIGHT
    );
    Some(out)
}

fn grid(out: &mut String, axes: &Axes, unit: &str) {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let ticks = |most: f64, least: f64| {
        let step = step_of(most).max(least);
        (0..=64_u32).map(move |at| f64::from(at) * step).take_while(move |value| *value <= most * 1.000_001)
    };
    for value in ticks(axes.throughput, 0.0) {
        let y = axes.y(value);
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            y + 4.0,
            number(value)
        );
    }
    for value in ticks(axes.workers, 1.0) {
        let x = axes.x(value);
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            number(value)
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">workers</text>\
         <text x=\"16\" y=\"{}\" text-anchor=\"middle\" transform=\"rotate(-90 16 {2})\">{} a second</text>",
        (LEFT + right) / 2.0,
        HEIGHT - 14.0,
        (TOP + bottom) / 2.0,
        escaped(unit)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(law: &Law) -> Vec<Point> {
        [1.0, 2.0, 4.0, 8.0].map(|workers| Point { workers, throughput: law.throughput(workers) }).to_vec()
    }

    /// Places of a polyline of a class.
    fn places(svg: &str, class: &str) -> Vec<(f64, f64)> {
        let (_, rest) = svg.split_once(&format!("class=\"{class}\" points=\"")).unwrap();
        let (text, _) = rest.split_once('"').unwrap();
        text.split(' ')
            .map(|place| place.split_once(',').unwrap())
            .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
            .collect()
    }

    #[test]
    fn the_law_goes_through_the_points_and_stays_below_the_ideal_line() {
        let law = Law { lambda: 100.0, sigma: 0.1, kappa: 0.01, explained: 1.0 };
        let text = svg("work", "runs", &points(&law), Some(&law)).unwrap();
        let (ideal, curve) = (places(&text, "ideal"), places(&text, "law"));
        assert_eq!(curve.len(), 101);
        for (x, y) in &ideal {
            let below = curve.iter().find(|(other, _)| other == x).unwrap();
            assert!(below.1 >= *y, "the picture's y grows downwards: {below:?} {x} {y}");
        }
        for (at, circle) in [1.0, 2.0, 4.0, 8.0].iter().zip(text.split("<circle ").skip(1)) {
            let attribute = |name: &str| -> f64 {
                circle.split_once(&format!("{name}=\"")).unwrap().1.split_once('"').unwrap().0.parse().unwrap()
            };
            let (cx, cy) = (attribute("cx"), attribute("cy"));
            let near = curve.iter().min_by(|a, b| (a.0 - cx).abs().total_cmp(&(b.0 - cx).abs())).unwrap();
            assert!((near.0 - cx).abs() < 4.0 && (near.1 - cy).abs() < 4.0, "{at}: {cx} {cy} {near:?}");
        }
    }

    #[test]
    fn texts_are_escaped_and_nothing_to_draw_is_no_picture() {
        let law = Law { lambda: 1.0, sigma: 0.0, kappa: 0.0, explained: 1.0 };
        let text = svg("<a & \"b\">", "x<y", &points(&law), None).unwrap();
        assert!(
            text.contains("&lt;a &amp; &quot;b&quot;&gt;")
                && text.contains("x&lt;y")
                && !text.contains("class=\"law\"")
        );
        assert_eq!(svg("", "", &[], None), None);
        assert_eq!(svg("", "", &[Point { workers: 1.0, throughput: 0.0 }], None), None);
        assert_eq!(svg("", "", &[Point { workers: 1.0, throughput: f64::NAN }], None), None);
    }

    #[test]
    fn steps_of_a_grid_are_round() {
        for (most, step) in [(6.0, 1.0), (8.0, 2.0), (100.0, 20.0), (0.06, 0.01), (3.1e6, 1e6)] {
            assert!((step_of(most) / step - 1.0).abs() < 1e-9, "{most}: {}", step_of(most));
        }
        for (value, text) in [(0.0, "0"), (1.0, "1"), (0.125, "0.125"), (1234.5, "1234"), (12.34, "12.3")] {
            assert_eq!(number(value), text);
        }
    }
}
