//! Pictures of ranges for the terminal: a line chart of numbers, a heat map of distributions.
//!
//! A line chart draws in braille, eight dots a character; in ASCII one mark a character. A heat map has time from left
//! to right and values from bottom to top on a logarithmic axis; darker or brighter is more samples, by the square root
//! of the share.

use super::format::human;
use super::terminal::Terminal;
use ogive_text::calendar::utc;

/// Characters of the labels of the axis of values, with the line after them.
const AXIS: usize = 11;
/// Most rows of a picture: more do not fit beside a prompt.
const ROWS_MAX: usize = 20;
/// And at least.
const ROWS_MIN: usize = 4;
/// ln 1.1: the widest bin of a log-linear histogram.
const BIN_WIDEST: f64 = 0.095_310_179_804_324_86;
/// More moments than a result has points: nearly equal times do not create millions of them.
const MOMENTS_MAX: f64 = 11_000.0;
/// Colours of series that are distinguished; further ones are drawn alike.
const COLORS: [u8; 6] = [39, 208, 76, 197, 141, 220];
const MARKS: [char; 6] = ['*', 'o', 'x', '+', '#', '@'];
/// From few to many.
const HEAT: [u8; 6] = [17, 54, 90, 161, 208, 227];

/// A series of a line chart.
pub(super) struct Line {
    pub(super) name: String,
    /// (seconds, value), ascending in time.
    pub(super) points: Vec<(f64, f64)>,
}

/// The samples of a distribution that lie between two values at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Heat {
    pub(super) time: f64,
    pub(super) lo: f64,
    pub(super) hi: f64,
    pub(super) count: f64,
}

fn rows_of(terminal: &Terminal) -> usize {
    terminal.height.saturating_sub(6).clamp(ROWS_MIN, ROWS_MAX)
}

fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (low, high) = values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    (low <= high).then_some((low, high))
}

/// A line chart with its legend.
pub(super) fn lines(series: &[Line], unit: &str, terminal: &Terminal) -> String {
    let Some((first, last)) = across(series) else { return "nothing to draw\n".into() };
    chart(series, unit, widest_gap(series), &time_axis(first, last, terminal), terminal)
}

/// Curves over an axis other than time, in marks that can be distinguished without colours; `ends` are the texts of the
/// axis.
pub(super) fn curves(series: &[Line], from: &str, to: &str, terminal: &Terminal) -> String {
    let terminal = Terminal { unicode: false, ..terminal.clone() };
    let between = (terminal.width - AXIS).saturating_sub(from.len() + to.len()).max(1);
    // Points of a measurement are not joined; those of a curve are closer to each other than a mark is wide.
    chart(series, "", 0.0, &format!("{:AXIS$}{from}{:between$}{to}\n", "", ""), &terminal)
}

/// The first and the last place of any line.
fn across(series: &[Line]) -> Option<(f64, f64)> {
    ends(series.iter().flat_map(|line| &line.points).map(|point| point.0))
}

/// Lines over an axis; points further apart than `gap` are not joined.
fn chart(series: &[Line], unit: &str, gap: f64, axis: &str, terminal: &Terminal) -> String {
    let values = ends(series.iter().flat_map(|line| &line.points).map(|point| point.1));
    let (Some((first, last)), Some((low, high))) = (across(series), values) else {
        return "nothing to draw\n".into();
    };
    // A flat line is drawn in the middle.
    let (low, high) =
        if low < high { (low, high) } else { (low - low.abs().max(1.0) / 2.0, high + low.abs().max(1.0) / 2.0) };
    let mut canvas = Canvas::new(terminal.width - AXIS, rows_of(terminal), terminal.unicode);
    for (number, line) in series.iter().enumerate() {
        let finite: Vec<(f64, f64)> = line.points.iter().copied().filter(|point| point.1.is_finite()).collect();
        let place = |point: (f64, f64)| {
            let across = share(point.0, first, last) * (canvas.dots_across() - 1) as f64;
            let up = share(point.1, low, high) * (canvas.dots_up() - 1) as f64;
            Dot { across: across.round() as i64, up: up.round() as i64 }
        };
        let places: Vec<Dot> = finite.iter().map(|point| place(*point)).collect();
        for at in 0..places.len() {
            let joined = at > 0 && finite[at].0 - finite[at - 1].0 <= gap;
            canvas.segment(if joined { places[at - 1] } else { places[at] }, places[at], number);
        }
    }
    let mut out = String::new();
    let rows = canvas.rows;
    for row in 0..rows {
        let value = high - (high - low) * row as f64 / (rows - 1) as f64;
        let label = if row % 4 == 0 || row == rows - 1 { human(value, unit) } else { String::new() };
        out += &format!("{label:>9} {}{}\n", bar(terminal), canvas.text(row, terminal.color));
    }
    out += axis;
    for (number, line) in series.iter().enumerate() {
        let last = line.points.last().map_or(f64::NAN, |point| point.1);
        let mark = paint(MARKS[number % MARKS.len()], COLORS[number % COLORS.len()], terminal.color, terminal.unicode);
        out += &format!("{mark} {}  last {}\n", line.name, human(last, unit));
    }
    out
}

/// The longest time between two points that belong together: half more than the usual one.
fn widest_gap(series: &[Line]) -> f64 {
    let gaps = series.iter().flat_map(|line| line.points.windows(2).map(|pair| pair[1].0 - pair[0].0));
    gaps.fold(f64::INFINITY, f64::min) * 1.5
}

fn share(value: f64, low: f64, high: f64) -> f64 {
    if high > low { (value - low) / (high - low) } else { 0.5 }
}

fn bar(terminal: &Terminal) -> char {
    if terminal.unicode { '│' } else { '|' }
}

fn paint(mark: char, color: u8, colored: bool, unicode: bool) -> String {
    let mark = if unicode && colored { '━' } else { mark };
    if colored { format!("\x1b[38;5;{color}m{mark}\x1b[0m") } else { mark.to_string() }
}

/// The first and the last time under a picture.
fn time_axis(from: f64, to: f64, terminal: &Terminal) -> String {
    let text = |time: f64| utc((time * 1e9) as i64);
    let (from, to) = (text(from), text(to));
    let between = (terminal.width - AXIS).saturating_sub(from.chars().count() + to.chars().count()).max(1);
    format!("{:AXIS$}{from}{:between$}{to}\n", "", "")
}

/// The place of a dot, from the lower left; it may be outside.
#[derive(Clone, Copy)]
struct Dot {
    across: i64,
    up: i64,
}

/// Dots in characters.
struct Canvas {
    columns: usize,
    rows: usize,
    unicode: bool,
    /// The dots of each character cell, and the last series drawn there.
    cells: Vec<(u8, usize)>,
}

impl Canvas {
    fn new(columns: usize, rows: usize, unicode: bool) -> Self {
        Self { columns, rows, unicode, cells: vec![(0, 0); columns * rows] }
    }

    const fn dots_across(&self) -> usize {
        if self.unicode { self.columns * 2 } else { self.columns }
    }

    const fn dots_up(&self) -> usize {
        if self.unicode { self.rows * 4 } else { self.rows }
    }

    fn dot(&mut self, place: Dot, series: usize) {
        let (Ok(across), Ok(up)) = (usize::try_from(place.across), usize::try_from(place.up)) else { return };
        if across >= self.dots_across() || up >= self.dots_up() {
            return;
        }
        let down = self.dots_up() - 1 - up;
        let (wide, tall) = if self.unicode { (2, 4) } else { (1, 1) };
        // The numbering of braille dots: down the left column, down the right one, then the lowest two.
        let bit = [[0, 1, 2, 6], [3, 4, 5, 7]][across % wide][down % tall];
        let cell = &mut self.cells[down / tall * self.columns + across / wide];
        *cell = (cell.0 | 1 << bit, series);
    }

    /// Dots on the straight line from one to another.
    fn segment(&mut self, from: Dot, to: Dot, series: usize) {
        let steps = (to.across - from.across).abs().max((to.up - from.up).abs()).max(1);
        for step in 0..=steps {
            let between = |a: i64, b: i64| a + ((b - a) as f64 * step as f64 / steps as f64).round() as i64;
            self.dot(Dot { across: between(from.across, to.across), up: between(from.up, to.up) }, series);
        }
    }

    fn text(&self, row: usize, color: bool) -> String {
        let mut out = String::new();
        let mut shown = None;
        for (dots, series) in &self.cells[row * self.columns..(row + 1) * self.columns] {
            let wanted = (color && *dots > 0).then_some(COLORS[series % COLORS.len()]);
            if wanted != shown && *dots > 0 {
                out += &wanted.map_or_else(|| "\x1b[0m".to_owned(), |color| format!("\x1b[38;5;{color}m"));
                shown = wanted;
            }
            out.push(match *dots {
                0 => ' ',
                dots if self.unicode => char::from_u32(0x2800 + u32::from(dots)).unwrap_or('?'),
                _ => MARKS[series % MARKS.len()],
            });
        }
        let end = if shown.is_some() { "\x1b[0m" } else { "" };
        format!("{}{end}", out.trim_end())
    }
}

/// Moments at equal distances, measured or not.
struct Clock {
    first: f64,
    step: f64,
    moments: usize,
    /// Those with a value, ascending.
    measured: Vec<usize>,
}

impl Clock {
    /// The moments between the first and the last of `times`, at least one.
    fn from_times(times: impl Iterator<Item = f64>) -> Self {
        let mut times: Vec<f64> = times.collect();
        times.sort_by(f64::total_cmp);
        times.dedup();
        let (first, last) = (times[0], times[times.len() - 1]);
        let step = times.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
        let step = if step.is_finite() { step.max((last - first) / MOMENTS_MAX) } else { 1.0 };
        let mut clock = Self { first, step, moments: 0, measured: Vec::new() };
        clock.measured = times.iter().map(|time| clock.at(*time)).collect();
        clock.measured.dedup();
        clock.moments = clock.at(last) + 1;
        clock
    }

    fn at(&self, time: f64) -> usize {
        ((time - self.first) / self.step).round() as usize
    }
}

/// A heat map.
pub(super) fn heat_map(name: &str, heat: &[Heat], unit: &str, terminal: &Terminal) -> String {
    let filled = || heat.iter().filter(|one| one.count > 0.0);
    let positive = ends(filled().flat_map(|one| [one.lo, one.hi]).filter(|value| *value > 0.0));
    let (Some((first, last)), Some((low, high))) = (ends(heat.iter().map(|one| one.time)), positive) else {
        return format!("{name}\nnothing to draw\n");
    };
    let axis = (low.ln(), high.ln());
    // A row is at least as high as the widest bin of a log-linear histogram. Otherwise narrow bins would each fill a
    // row while wide ones are spread over several; this way both sides of a power of ten look alike.
    let rows = rows_of(terminal).min(((axis.1 - axis.0) / BIN_WIDEST) as usize).max(ROWS_MIN);
    let width = terminal.width - AXIS;
    let clock = Clock::from_times(heat.iter().map(|one| one.time));
    let columns = clock.moments.min(width);
    let mut cells = vec![0.0; rows * columns];
    for one in filled() {
        let column = clock.at(one.time) * columns / clock.moments;
        // Values that are not above zero are in the lowest row.
        let row = |value: f64| share(value.max(low).min(high).ln(), axis.0, axis.1) * rows as f64;
        let (from, to) = (row(one.lo), row(one.hi));
        for row in from as usize..=(to.ceil() as usize).saturating_sub(1).max(from as usize).min(rows - 1) {
            let part = if to > from { (to.min((row + 1) as f64) - from.max(row as f64)) / (to - from) } else { 1.0 };
            cells[row.min(rows - 1) * columns + column] += one.count * part.max(0.0);
        }
    }
    // A column of two moments is no darker than its neighbours of one: the mean is drawn.
    // A column without a moment is a gap.
    let mut together = vec![0.0_f64; columns];
    clock.measured.iter().for_each(|at| together[at * columns / clock.moments] += 1.0);
    cells.iter_mut().enumerate().for_each(|(at, cell)| *cell /= together[at % columns].max(1.0));
    let most = cells.iter().copied().fold(0.0, f64::max);
    let repeat = (width / columns).max(1);
    let mut out = format!("{name}\n");
    for row in (0..rows).rev() {
        let value = (axis.0 + (axis.1 - axis.0) * (row as f64 + 1.0) / rows as f64).exp();
        let label = if row % 4 == (rows - 1) % 4 { human(value, unit) } else { String::new() };
        let shades = cells[row * columns..(row + 1) * columns].iter();
        let text: String = shades.map(|count| shade((count / most).sqrt(), terminal).repeat(repeat)).collect();
        out += &format!("{label:>9} {}{}\n", bar(terminal), text.trim_end());
    }
    out + &time_axis(first, last, &Terminal { width: AXIS + columns * repeat, ..terminal.clone() })
}

fn shade(share: f64, terminal: &Terminal) -> String {
    if share <= 0.0 || share.is_nan() {
        return " ".into();
    }
    if terminal.color {
        let color = HEAT[((share * HEAT.len() as f64) as usize).min(HEAT.len() - 1)];
        return format!("\x1b[48;5;{color}m \x1b[0m");
    }
    let shades = if terminal.unicode { ['░', '▒', '▓', '█'] } else { ['.', ':', '+', '#'] };
    shades[((share * 4.0) as usize).min(3)].to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terminal(unicode: bool, color: bool) -> Terminal {
        Terminal { width: 51, height: 14, unicode, color }
    }

    fn line(points: &[(f64, f64)]) -> Line {
        Line { name: "m".into(), points: points.to_vec() }
    }

    #[test]
    fn a_rising_line_goes_from_the_lower_left_to_the_upper_right() {
        let points: Vec<(f64, f64)> = (0..100).map(|at| (f64::from(at), f64::from(at))).collect();
        let text = lines(&[line(&points)], "", &terminal(false, false));
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows.len(), 8 + 1 + 1, "{text}");
        assert!(rows[0].trim_start().starts_with("99 |") && rows[0].ends_with('*'), "{text}");
        assert!(rows[7].trim_start().starts_with("0 |*"), "{text}");
        assert!(rows[9].starts_with("* m  last 99"), "{text}");
        let braille = lines(&[line(&points)], "", &terminal(true, false));
        assert!(
            braille.lines().next().unwrap().ends_with(|c: char| ('\u{2801}'..='\u{28ff}').contains(&c)),
            "{braille}"
        );
        assert!(
            !braille.contains('\u{1b}') && lines(&[line(&points)], "", &terminal(true, true)).contains("\u{1b}[38;5;")
        );
    }

    #[test]
    fn gaps_stay_open_and_flat_lines_are_drawn() {
        let gap = lines(&[line(&[(0.0, 1.0), (1.0, 1.0), (20.0, 1.0), (21.0, 1.0)])], "", &terminal(false, false));
        let drawn = gap.chars().filter(|c| *c == '*').count();
        assert!((4..12).contains(&drawn), "{gap}");
        assert_eq!(lines(&[line(&[(0.0, f64::NAN)])], "", &terminal(false, false)), "nothing to draw\n");
    }

    /// Between 8 and 12, bins are 1 % wide and then 10 %: single samples look alike on both sides.
    #[test]
    fn single_samples_are_as_dark_below_a_power_of_ten_as_above() {
        let one = |time: f64, lo: f64, hi: f64| Heat { time, lo, hi, count: 1.0 };
        let heat: Vec<Heat> = (0..40)
            .map(f64::from)
            .flat_map(|at| [one(at, 8.0, 8.1), one(at, 9.5, 9.6), one(at, 10.0, 11.0), one(at, 12.0, 13.0)])
            .collect();
        let text = heat_map("m", &heat, "", &Terminal { height: 26, ..terminal(false, false) });
        let marks: Vec<char> = text.lines().filter_map(|line| line.split_once('|')?.1.chars().next()).collect();
        assert!(!marks.contains(&'.') && !marks.contains(&':') && marks.contains(&'#'), "{text}");
    }

    #[test]
    fn heat_is_where_the_samples_are() {
        let one = |time: f64, lo: f64, count: f64| Heat { time, lo, hi: lo * 1.1, count };
        let heat: Vec<Heat> = (0..40)
            .flat_map(|at| [one(f64::from(at), 0.001, 100.0), one(f64::from(at), if at < 20 { 0.1 } else { 1.0 }, 5.0)])
            .collect();
        let text = heat_map("m", &heat, "s", &terminal(false, false));
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!((rows.len(), rows[0]), (1 + 8 + 1, "m"), "{text}");
        let body = |row: usize| rows[row].split_once('|').unwrap().1;
        assert_eq!(body(8), "#".repeat(40), "{text}");
        // The slow ones are higher up in the second half.
        assert!(body(1).starts_with(' ') && body(1).trim_start().len() == 20, "{text}");
        // 60 moments in 40 columns, which have one or two each, are as dark everywhere.
        let even: Vec<Heat> = (0..60).map(|at| one(f64::from(at), 0.001, 100.0)).collect();
        let text = heat_map("m", &even, "s", &terminal(false, false));
        assert!(text.lines().nth(1).unwrap().ends_with(&"#".repeat(40)), "{text}");
        assert!(heat_map("m", &heat, "s", &terminal(true, true)).contains("\u{1b}[48;5;"));
        // Ten moments without anything are ten empty columns.
        let gap: Vec<Heat> =
            (0..40).filter(|at| !(10..20).contains(at)).map(|at| one(f64::from(at), 0.001, 9.0)).collect();
        let text = heat_map("m", &gap, "s", &terminal(false, false));
        assert!(
            text.lines().nth(1).unwrap().ends_with(&format!("{}{}{}", "#".repeat(10), " ".repeat(10), "#".repeat(20))),
            "{text}"
        );
        assert_eq!(heat_map("m", &[], "s", &terminal(false, false)), "m\nnothing to draw\n");
    }
}
