//! A flame graph as one SVG with its own script: search, zoom, and the difference of two recordings.
//!
//! Pure: folded stacks in, text out. The file loads nothing. Frames narrower than a third of a pixel are left out, so
//! that the size of the file is bounded by the depth.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::folded::Folded;

/// A third of a pixel on a screen 1,200 wide.
const SHARE_MIN: f64 = 1.0 / 3600.0;
const WIDTH: f64 = 1200.0;
const ROW: f64 = 18.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 30.0;
/// Rows that are drawn; deeper stacks are cut.
const DEPTH_MAX: usize = 512;

const SCRIPT: &str = include_str!("flamegraph.js");

const STYLE: &str = "svg{font:12px system-ui,sans-serif;background:#fff;color:#1b1e23}text{fill:currentColor}\
    .f text{fill:#16181c;pointer-events:none;font:11px ui-monospace,monospace}.f rect{stroke:#fff;stroke-width:.5}\
    .f{cursor:pointer}.f.m rect{stroke:#7c1fd1;stroke-width:2}.f.p{opacity:.55}.b{cursor:pointer;text-decoration:underline}\
    input{font:12px system-ui;width:100%;box-sizing:border-box}\
    @media(prefers-color-scheme:dark){svg{background:#15181d;color:#e4e6ea}.f rect{stroke:#15181d}}";

/// A frame with everything that it calls.
#[derive(Default)]
struct Node<'a> {
    now: u64,
    before: u64,
    children: BTreeMap<&'a str, Node<'a>>,
}

impl<'a> Node<'a> {
    fn add(&mut self, stack: &'a str, count: u64, is_before: bool) {
        let mut node = self;
        let frames = stack.split(';').take(DEPTH_MAX).map(Some);
        for frame in std::iter::once(None).chain(frames) {
            if let Some(frame) = frame {
                node = node.children.entry(frame).or_default();
            }
            let sum = if is_before { &mut node.before } else { &mut node.now };
            *sum = sum.saturating_add(count);
        }
    }
}

/// A frame as it is drawn: places are shares of the whole.
struct Frame<'a> {
    name: &'a str,
    depth: usize,
    x: f64,
    share: f64,
    now: u64,
    /// Of everything before.
    before_share: f64,
}

/// What a picture shows.
#[derive(Clone, Copy, Debug)]
pub struct Picture<'a> {
    /// Above it.
    pub title: &'a str,
    /// What is counted, such as `samples`.
    pub unit: &'a str,
    /// The stacks.
    pub stacks: &'a Folded,
    /// Stacks of an earlier time: red has a larger share now, blue a smaller one.
    pub before: Option<&'a Folded>,
}

/// The picture; `None` when nothing was counted.
#[must_use]
pub fn svg(picture: &Picture<'_>) -> Option<String> {
    let mut root = Node::default();
    picture.stacks.stacks().for_each(|(stack, count)| root.add(stack, count, false));
    let befores = picture.before.into_iter().flat_map(Folded::stacks);
    befores.for_each(|(stack, count)| root.add(stack, count, true));
    if root.now == 0 {
        return None;
    }
    let mut frames = Vec::new();
    let whole = (share_of(1, root.now), share_of(1, root.before));
    layout(&root, "all", 0, 0.0, whole, &mut frames);
    let rows = frames.iter().map(|frame| frame.depth).max().unwrap_or(0) + 1;
    #[allow(clippy::cast_precision_loss, reason = "at most 512 rows")]
    let height = TOP + rows as f64 * ROW + BOTTOM;
    let mut out = head(picture, &root, height);
    for frame in &frames {
        draw(&mut out, frame, height, picture);
    }
    let _ = writeln!(
        out,
        "<text id=\"says\" x=\"10\" y=\"{}\"> </text>\n<script><![CDATA[\n{}]]></script>\n</svg>",
        height - 10.0,
        SCRIPT.replace("]]>", "]] >")
    );
    Some(out)
}

/// One of a number.
#[allow(clippy::cast_precision_loss, reason = "a share")]
fn share_of(count: u64, total: u64) -> f64 {
    if total == 0 { 0.0 } else { count as f64 / total as f64 }
}

#[allow(clippy::cast_precision_loss, reason = "a share")]
fn layout<'a>(node: &Node<'a>, name: &'a str, depth: usize, x: f64, whole: (f64, f64), frames: &mut Vec<Frame<'a>>) {
    let share = node.now as f64 * whole.0;
    if share < SHARE_MIN {
        return;
    }
    frames.push(Frame { name, depth, x, share, now: node.now, before_share: node.before as f64 * whole.1 });
    let mut at = x;
    for (name, child) in &node.children {
        layout(child, name, depth + 1, at, whole, frames);
        at += child.now as f64 * whole.0;
    }
}

fn head(picture: &Picture<'_>, root: &Node<'_>, height: f64) -> String {
    let title = escaped(picture.title);
    let mut words = format!("{} {}", root.now, escaped(picture.unit));
    if picture.before.is_some() {
        let _ = write!(words, "; red: a larger share than before, blue: a smaller one ({} before)", root.before);
        let gone: f64 = root.children.values().filter(|c| c.now == 0).map(|c| share_of(c.before, root.before)).sum();
        if gone > 0.0 {
            let _ = write!(words, "; {:.1} % of before is gone altogether", gone * 100.0);
        }
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"100%\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n<text x=\"10\" y=\"22\" font-size=\"15\">{title}</text>\n\
         <text x=\"10\" y=\"42\">{words}</text>\n\
         <text id=\"whole\" class=\"b\" x=\"10\" y=\"58\" visibility=\"hidden\">show everything</text>\n\
         <foreignObject x=\"{}\" y=\"8\" width=\"230\" height=\"28\">\
         <input xmlns=\"http://www.w3.org/1999/xhtml\" id=\"search\" placeholder=\"search: a part of a name\"/></foreignObject>\n\
         <text id=\"found\" x=\"{}\" y=\"52\" text-anchor=\"end\"> </text>\n",
        WIDTH - 240.0,
        WIDTH - 10.0
    )
}

#[allow(clippy::cast_precision_loss, reason = "at most 512 rows")]
fn draw(out: &mut String, frame: &Frame<'_>, height: f64, picture: &Picture<'_>) {
    let (x, width) = (frame.x * WIDTH, frame.share * WIDTH);
    let y = height - BOTTOM - (frame.depth + 1) as f64 * ROW;
    let name = escaped(frame.name);
    let mut says = format!("{name}: {} {}, {:.2} %", frame.now, escaped(picture.unit), frame.share * 100.0);
    let color = if picture.before.is_some() {
        let _ = write!(says, ", {:+.2} points", (frame.share - frame.before_share) * 100.0);
        color_of_change(frame.share - frame.before_share)
    } else {
        color_of_name(frame.name)
    };
    let shown = fitting(frame.name, width);
    let _ = writeln!(
        out,
        "<g class=\"f\" data-x=\"{:.6}\" data-w=\"{:.6}\" data-d=\"{}\" data-n=\"{name}\"><title>{says}</title>\
         <rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{ROW}\" fill=\"{color}\"/>\
         <text x=\"{:.2}\" y=\"{:.1}\">{}</text></g>",
        frame.x,
        frame.share,
        frame.depth,
        x + 3.0,
        y + 13.0,
        escaped(&shown)
    );
}

/// As much of a name as fits into so many pixels; the script does the same.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "pixels of a picture 1,200 wide")]
fn fitting(name: &str, width: f64) -> String {
    let letters = ((width - 6.0) / 6.7).max(0.0) as usize;
    match name.chars().count() {
        _ if letters < 3 => String::new(),
        count if count <= letters => name.to_owned(),
        _ => name.chars().take(letters - 1).chain(['…']).collect(),
    }
}

/// Warm colours for user code, greens for the kernel's, always the same for the same name.
fn color_of_name(name: &str) -> String {
    let hash = name.bytes().fold(2_166_136_261_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619));
    let (hue, light) = (hash % 30, 62 + (hash >> 8) % 14);
    let base = if name.ends_with("_[k]") { 95 } else { 18 };
    format!("hsl({},72%,{light}%)", base + hue)
}

/// Grey for none, full red or blue from a change of 10 points on.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 80")]
fn color_of_change(change: f64) -> String {
    let strength = (change.abs() / 0.1).min(1.0).sqrt();
    let hue = if change > 0.0 { 4 } else { 214 };
    format!("hsl({hue},{}%,{}%)", (strength * 80.0) as u32, 86 - (strength * 26.0) as u32)
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // No XML at all with these.
            letter if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => out.push('?'),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(text: &str) -> Folded {
        Folded::parse(text).unwrap()
    }

    /// Names with their places and shares.
    fn frames(svg: &str) -> Vec<(String, f64, f64)> {
        let part = |g: &str, name: &str| {
            g.split_once(&format!("data-{name}=\"")).unwrap().1.split_once('"').unwrap().0.to_owned()
        };
        let groups = svg.split("<g class=\"f\"").skip(1);
        groups.map(|g| (part(g, "n"), part(g, "x").parse().unwrap(), part(g, "w").parse().unwrap())).collect()
    }

    #[test]
    fn widths_are_shares_and_children_stand_within_their_parents() {
        let stacks = folded("main;a 30\nmain;a;b 10\nmain;c 60\n");
        let picture = Picture { title: "t", unit: "samples", stacks: &stacks, before: None };
        let drawn = frames(&svg(&picture).unwrap());
        let expected = [("all", 0.0, 1.0), ("main", 0.0, 1.0), ("a", 0.0, 0.4), ("b", 0.0, 0.1), ("c", 0.4, 0.6)];
        assert_eq!(drawn, expected.map(|(name, x, w)| (name.to_owned(), x, w)));
    }

    #[test]
    fn a_difference_is_of_shares_not_of_counts() {
        let (before, now) = (folded("main;a 50\nmain;b 50\n"), folded("main;a 750\nmain;b 250\n"));
        let picture = Picture { title: "t", unit: "samples", stacks: &now, before: Some(&before) };
        let text = svg(&picture).unwrap();
        assert!(text.contains("a: 750 samples, 75.00 %, +25.00 points"), "{text}");
        assert!(text.contains("b: 250 samples, 25.00 %, -25.00 points"), "{text}");
        assert!(text.contains("main: 1000 samples, 100.00 %, +0.00 points"), "{text}");
        assert!(color_of_change(0.2).starts_with("hsl(4,80%") && color_of_change(-0.2).starts_with("hsl(214,80%"));
        assert!(color_of_change(0.0).contains(",0%,86%"));
    }

    #[test]
    fn hostile_names_stay_text_and_narrow_frames_are_left_out() {
        let mut many: String = (0..100_000).map(|at| format!("main;f{at} 1\n")).collect();
        many += "main;</script><a href=\"x\">&\u{1} 100000\n";
        let stacks = folded(&many);
        let text = svg(&Picture { title: "<t>", unit: "s", stacks: &stacks, before: None }).unwrap();
        assert_eq!(frames(&text).len(), 3);
        assert!(text.contains("&lt;/script&gt;&lt;a href=&quot;x&quot;&gt;&amp;?") && !text.contains("<a "), "{text}");
        assert!(text.len() < 20_000, "{}", text.len());
        assert_eq!(svg(&Picture { title: "", unit: "", stacks: &Folded::default(), before: None }), None);
    }

    #[test]
    fn deep_stacks_are_cut() {
        let stacks = folded(&format!("{} 1", vec!["f"; 1000].join(";")));
        let text = svg(&Picture { title: "", unit: "", stacks: &stacks, before: None }).unwrap();
        assert_eq!(frames(&text).len(), DEPTH_MAX + 1);
    }
}
