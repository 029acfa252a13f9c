//! The memory of a process over time, as a picture.

use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 240.0;
const MARGIN: f64 = 40.0;

/// The curve of (seconds, MiB), the end of the flood at `ended` seconds, and the bound.
pub(crate) fn svg(curve: &[(f64, u64)], ended: f64, bound_mib: u64) -> String {
    let last = curve.last().map_or(1.0, |(at, _)| *at).max(ended);
    let x = |at: f64| MARGIN + at / last * WIDTH;
    let y = |mib: f64| MARGIN / 2.0 + HEIGHT - mib / (bound_mib as f64 * 1.1) * HEIGHT;
    let (width, height) = (WIDTH + 2.0 * MARGIN, HEIGHT + 1.5 * MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let mut line = |x1: f64, y1: f64, x2: f64, y2: f64, more: &str, text: &str| {
        writeln!(out, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {more}/>").unwrap();
        writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\">{text}</text>", x1 + 3.0, y1 - 3.0).unwrap();
    };
    let bound = y(bound_mib as f64);
    let dashed = "stroke=\"#c33\" stroke-dasharray=\"5 4\"";
    line(x(0.0), bound, x(last), bound, dashed, &format!("bound: {bound_mib} MiB"));
    line(x(0.0), y(0.0), x(last), y(0.0), "stroke=\"#333\"", &format!("{last:.0} s from left to right"));
    line(x(ended), y(0.0), x(ended), bound, "stroke=\"#999\" stroke-dasharray=\"2 3\"", "");
    writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">the flood ends</text>",
        x(ended) - 3.0,
        bound + 14.0
    )
    .unwrap();
    let points: String = curve.iter().map(|(at, mib)| format!("{:.1},{:.1} ", x(*at), y(*mib as f64))).collect();
    writeln!(out, "<polyline points=\"{points}\" fill=\"none\" stroke=\"#06c\" stroke-width=\"1.5\"/>").unwrap();
    let peak = curve.iter().max_by_key(|(_, mib)| *mib).unwrap();
    writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\">{} MiB</text>", x(peak.0), y(peak.1 as f64) - 5.0, peak.1).unwrap();
    out + "</svg>\n"
}
