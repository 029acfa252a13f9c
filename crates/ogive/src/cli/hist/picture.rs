//! A histogram as rows of bars in a terminal, its values on a logarithmic axis.
//!
//! Invariants: every counted sample is in exactly one row; rows of one picture split a decade alike, and are about
//! equally wide on the logarithmic axis ([`UNEVEN_MAX`]); a bar is as long as its row is dense, so that no edge appears
//! where rows or bins change their width; no line is wider than asked. Bins fold into rows by a [`Level`]: the finest
//! that is even and whose rows fit the height.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ogive_hist::{Count, Histogram, Scheme};

use crate::cli::format::{human, thousands};

/// How to draw.
#[derive(Clone, Debug)]
pub(crate) struct Style {
    /// Columns of the terminal.
    pub(crate) width: usize,
    /// Most rows of bars.
    pub(crate) rows_max: usize,
    /// Only ASCII.
    pub(crate) ascii: bool,
    /// With ANSI colours.
    pub(crate) color: bool,
    /// Base unit behind the values.
    pub(crate) unit: String,
}

/// A way to cut the decades: rows start at these mantissas (tenths), or span several decades.
struct Level {
    mantissas: &'static [u8],
    decades: i32,
}

const fn every<const N: usize>(step: u8) -> [u8; N] {
    let mut out = [0; N];
    let mut at = 0;
    while at < N {
        out[at] = 10 + at as u8 * step;
        at += 1;
    }
    out
}

/// The widest row of a picture over its narrowest one. Rows of single bins are 9.5 times wider above a power of ten
/// than below it: one sample would have a bar of nine times that of another. Twenty even rows a decade, as far as bins
/// allow, stay below.
const UNEVEN_MAX: f64 = 1.8;

/// From one row for each bin to one row for 64 decades. Where bins have equal widths, rows may be bins; otherwise they
/// divide a decade into parts of about equal ratio, as preferred numbers do.
const LEVELS: [Level; 12] = [
    Level { mantissas: &every::<90>(1), decades: 1 },
    Level { mantissas: &every::<45>(2), decades: 1 },
    Level { mantissas: &every::<18>(5), decades: 1 },
    Level { mantissas: &[10, 11, 12, 14, 16, 18, 20, 22, 25, 28, 32, 36, 40, 45, 50, 56, 63, 71, 79, 89], decades: 1 },
    Level { mantissas: &[10, 13, 16, 20, 25, 32, 40, 50, 63, 79], decades: 1 },
    Level { mantissas: &[10, 16, 25, 40, 63], decades: 1 },
    Level { mantissas: &[10, 22, 46], decades: 1 },
    Level { mantissas: &[10, 32], decades: 1 },
    Level { mantissas: &[10], decades: 1 },
    Level { mantissas: &[10], decades: 3 },
    Level { mantissas: &[10], decades: 12 },
    Level { mantissas: &[10], decades: 64 },
];

impl Level {
    /// Row of the bin at `mantissa/10 * 10^exponent`, counted away from zero. Exponents run from -128.
    fn row(&self, mantissa: u8, exponent: i32) -> i32 {
        let within = self.mantissas.partition_point(|start| *start <= mantissa) as i32 - 1;
        exponent.div_euclid(self.decades) * self.mantissas.len() as i32 + within
    }

    /// The edge of `row` nearer zero.
    fn edge(&self, row: i32) -> f64 {
        let count = self.mantissas.len() as i32;
        let exponent = row.div_euclid(count) * self.decades;
        let tenths = self.mantissas[row.rem_euclid(count) as usize];
        format!("{tenths}e{}", exponent - 1).parse().expect("a decimal number")
    }

    /// How many decades a row spans.
    fn width(&self, row: i32) -> f64 {
        let count = self.mantissas.len();
        let at = row.rem_euclid(count as i32) as usize;
        let next = self.mantissas.get(at + 1).map_or(10f64.powi(self.decades) * 10.0, |next| f64::from(*next));
        (next / f64::from(self.mantissas[at])).log10()
    }

    /// Whether the rows of these lines are about equally wide.
    fn is_even(&self, lines: &[Line]) -> bool {
        let widths = || lines.iter().filter_map(|line| line.row()).map(|row| self.width(row));
        widths().fold(0.0, f64::max) <= UNEVEN_MAX * widths().fold(f64::INFINITY, f64::min)
    }

    /// The values of the bars of `lines`: samples per decade. Zero has no width, and gets the usual one.
    fn densities(&self, lines: &[Line]) -> Vec<f64> {
        let widths: Vec<f64> = lines.iter().filter_map(|line| line.row()).map(|row| self.width(row)).collect();
        let usual = if widths.is_empty() { 1.0 } else { widths.iter().sum::<f64>() / widths.len() as f64 };
        lines.iter().map(|line| line.count() / line.row().map_or(usual, |row| self.width(row))).collect()
    }
}

/// Where a row lies on the real axis.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum RowPosition {
    /// Below zero; the key is the row away from zero, negated so that places ascend.
    Negative(i32),
    Zero,
    Positive(i32),
}

/// One line of the picture: a row with its count, or rows left out because they are empty.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Line {
    Row(RowPosition, f64),
    Gap,
}

/// Draws `histogram`, with a mark beside the row that contains each of `marks` (name, value).
pub(crate) fn draw<C: Count>(histogram: &Histogram<C>, marks: &[(String, f64)], style: &Style) -> String {
    let Some((level, lines)) = LEVELS.iter().map(|level| (level, lines(histogram, level))).find(|(level, lines)| {
        let fits = lines.len() <= style.rows_max && level.is_even(lines);
        fits || std::ptr::eq(*level, LEVELS.last().expect("there are levels"))
    }) else {
        return String::new();
    };
    let total = histogram.count.to_f64().max(f64::MIN_POSITIVE);
    let texts: Vec<Texts> = lines.iter().map(|line| Texts::new(*line, level, marks, total, style)).collect();
    let widest = |of: fn(&Texts) -> &str| texts.iter().map(|text| of(text).chars().count()).max().unwrap_or(0);
    let (label, count, mark) = (widest(|text| &text.label), widest(|text| &text.count), widest(|text| &text.mark));
    // Spaces, axis and the share of seven columns.
    let bar = style.width.saturating_sub(label + count + mark + 13).max(8);
    let densities = level.densities(&lines);
    let top = densities.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let mut out = String::new();
    for (density, text) in densities.iter().zip(&texts) {
        let drawn = text.line(*density, top, [label, bar, count], style);
        out.push_str(drawn.trim_end());
        out.push('\n');
    }
    out
}

impl Line {
    const fn count(self) -> f64 {
        match self {
            Self::Row(_, count) => count,
            Self::Gap => 0.0,
        }
    }

    /// The row away from zero.
    const fn row(self) -> Option<i32> {
        match self {
            Self::Row(RowPosition::Positive(row), _) => Some(row),
            Self::Row(RowPosition::Negative(row), _) => Some(-row),
            _ => None,
        }
    }
}

/// Counts by place at `level`, with the empty rows between them.
fn lines<C: Count>(histogram: &Histogram<C>, level: &Level) -> Vec<Line> {
    assert_eq!(histogram.scheme, Scheme::LogLinear10, "only decimal log-linear bins fold into these rows");
    let row = |index: i32| level.row((index % 90 + 10) as u8, index / 90 - 128);
    let mut places: BTreeMap<RowPosition, f64> = BTreeMap::new();
    let mut add = |place, count: C| {
        if count > C::ZERO {
            *places.entry(place).or_default() += count.to_f64();
        }
    };
    histogram.negative.iter().for_each(|(index, count)| add(RowPosition::Negative(-row(index)), count));
    histogram.positive.iter().for_each(|(index, count)| add(RowPosition::Positive(row(index)), count));
    add(RowPosition::Zero, histogram.zero);
    let mut out = Vec::new();
    let mut before: Option<RowPosition> = None;
    for (place, count) in places {
        let empty = match (before, place) {
            (Some(RowPosition::Negative(from)), RowPosition::Negative(to)) => Some(from + 1..to).map(|r| (r, true)),
            (Some(RowPosition::Positive(from)), RowPosition::Positive(to)) => Some(from + 1..to).map(|r| (r, false)),
            _ => None,
        };
        match empty {
            Some((rows, _)) if rows.len() > 3 => out.push(Line::Gap),
            Some((rows, true)) => out.extend(rows.map(|row| Line::Row(RowPosition::Negative(row), 0.0))),
            Some((rows, false)) => out.extend(rows.map(|row| Line::Row(RowPosition::Positive(row), 0.0))),
            None => {}
        }
        out.push(Line::Row(place, count));
        before = Some(place);
    }
    out
}

/// The texts around a bar.
struct Texts {
    label: String,
    count: String,
    share: String,
    mark: String,
}

impl Texts {
    fn new(line: Line, level: &Level, marks: &[(String, f64)], total: f64, style: &Style) -> Self {
        let Line::Row(place, count) = line else {
            let label = if style.ascii { "..." } else { "⋮" }.to_string();
            return Self { label, count: String::new(), share: String::new(), mark: String::new() };
        };
        // The left edge and the right one, so that a mark finds the row it lies in.
        let (lo, hi) = match place {
            RowPosition::Negative(row) => (-level.edge(-row + 1), -level.edge(-row)),
            RowPosition::Zero => (0.0, 0.0),
            RowPosition::Positive(row) => (level.edge(row), level.edge(row + 1)),
        };
        let inside = |value: f64| match place {
            RowPosition::Negative(_) => lo < value && value <= hi,
            RowPosition::Zero => value.abs() < 1e-128,
            RowPosition::Positive(_) => lo <= value && value < hi,
        };
        let names: Vec<&str> = marks.iter().filter(|mark| inside(mark.1)).map(|mark| &*mark.0).collect();
        let arrow = if style.ascii { "<" } else { "◂" };
        let mark = if names.is_empty() { String::new() } else { format!(" {arrow} {}", names.join(" ")) };
        let share = format!("{:.2}%", count / total * 100.0);
        // A row is called by its edge nearer zero, as a bin is.
        let label = human(if matches!(place, RowPosition::Negative(_)) { hi } else { lo }, &style.unit);
        let label = if style.ascii { label.replace('µ', "u") } else { label };
        // Rates count in fractions.
        let whole = count.fract() == 0.0 && count < 9e15;
        let count = if whole { thousands(count as u64) } else { human(count, "") };
        Self { label, count, share, mark }
    }

    fn line(&self, density: f64, top: f64, [label, bar, counts]: [usize; 3], style: &Style) -> String {
        let (dim, blue, gold, reset) =
            if style.color { ("\x1b[2m", "\x1b[36m", "\x1b[33m", "\x1b[0m") } else { ("", "", "", "") };
        let axis = if style.ascii { "|" } else { "┤" };
        let drawn = bar_text(density / top, bar, density > 0.0, style.ascii);
        let mut out = String::new();
        write!(out, "{:>label$} {dim}{axis}{reset}{blue}{drawn:<bar$}{reset} ", self.label).expect("writes to memory");
        write!(out, "{:>counts$} {dim}{:>7}{reset}{gold}{}{reset}", self.count, self.share, self.mark)
            .expect("writes to memory");
        out
    }
}

/// A bar of `share` times `width` columns, in eighths of a column where the characters allow it. A non-zero count
/// is always visible.
fn bar_text(share: f64, width: usize, some: bool, ascii: bool) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if ascii {
        let full = (share * width as f64).round() as usize;
        return if full == 0 && some { ".".into() } else { "#".repeat(full) };
    }
    let eighths = ((share * width as f64 * 8.0).round() as usize).max(usize::from(some));
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn style(width: usize, rows_max: usize) -> Style {
        Style { width, rows_max, ascii: false, color: false, unit: "s".into() }
    }

    fn histogram_of(values: impl IntoIterator<Item = f64>) -> Histogram {
        let mut histogram = Histogram::log_linear();
        values.into_iter().for_each(|value| histogram.record(value));
        histogram
    }

    #[test]
    fn a_small_picture_is_as_drawn() {
        let histogram = histogram_of([0.010, 0.011, 0.011, 0.0115, 0.0111, 0.012, -0.011, 0.0]);
        let marks = [("p50".to_string(), 0.0111)];
        let expected = "\
-11ms ┤███████▊                        1  12.50%
   0s ┤███████▊                        1  12.50%
 10ms ┤███████▏                        1  12.50%
 11ms ┤███████████████████████████████ 4  50.00% ◂ p50
 12ms ┤████████▍                       1  12.50%
";
        assert_eq!(draw(&histogram, &marks, &style(56, 20)), expected);
    }

    /// Counts of the bars' eighths, from top to bottom.
    fn bars(drawn: &str) -> Vec<usize> {
        let of = |line: &str| {
            line.chars().filter(|c| ('█'..='▏').contains(c)).map(|c| 8 - (c as usize - '█' as usize)).sum()
        };
        drawn.lines().map(of).collect()
    }

    /// Once, a row was one bin or ten, whatever its width: a smooth distribution jumped to almost five times at 10 ms.
    #[test]
    fn a_smooth_distribution_has_no_edge_at_a_power_of_ten() {
        for (decades, rows) in [(3.0, 12), (3.0, 24), (3.0, 32), (1.2, 24), (0.4, 30)] {
            for center in [-2.0_f64, -1.9, -2.1] {
                // As many samples in each part of the logarithmic axis.
                let count = 200_000;
                let low = center - decades / 2.0;
                let values = (0..count).map(|at| 10f64.powf(low + decades * f64::from(at) / f64::from(count)));
                let drawn = draw(&histogram_of(values), &[], &style(100, rows));
                let bars = bars(&drawn);
                // The first and the last row may be filled in part.
                let inner = &bars[1..bars.len() - 1];
                let (low, high) = (inner.iter().min().unwrap(), inner.iter().max().unwrap());
                assert!(inner.len() >= 2 && *high as f64 <= 1.1 * *low as f64, "{decades} {center}\n{drawn}");
            }
        }
    }

    /// One sample has about the bar of any other: few samples make no second mode.
    #[test]
    fn single_samples_have_bars_of_one_length() {
        let drawn = draw(&histogram_of([0.0085, 0.0091, 0.0099, 0.0125, 0.021, 0.035]), &[], &style(80, 24));
        let filled: Vec<usize> = bars(&drawn).into_iter().filter(|bar| *bar > 0).collect();
        let single = *filled.iter().min().unwrap() as f64;
        assert!(filled.iter().all(|bar| *bar as f64 <= 3.3 * single), "{drawn}");
    }

    #[test]
    fn long_gaps_fold_into_one_line() {
        let drawn = draw(&histogram_of([1e-9, 1e9]), &[], &style(60, 4));
        assert_eq!(drawn.lines().count(), 3, "{drawn}");
        assert!(drawn.contains('⋮'));
    }

    #[test]
    fn ascii_has_only_ascii() {
        let drawn =
            draw(&histogram_of([1e-6, 2e-6, 0.5]), &[("p50".into(), 2e-6)], &Style { ascii: true, ..style(60, 20) });
        assert!(drawn.is_ascii(), "{drawn}");
        assert!(drawn.contains("1us"), "{drawn}");
    }

    #[test]
    fn bars_show_eighths_and_never_hide_a_count() {
        assert_eq!(bar_text(1.0, 3, true, false), "███");
        assert_eq!(bar_text(0.5, 3, true, false), "█▌");
        assert_eq!(bar_text(0.0, 3, true, false), "▏");
        assert_eq!(bar_text(0.0, 3, false, false), "");
        assert_eq!(bar_text(0.0, 3, true, true), ".");
    }

    proptest! {
        #[test]
        fn counts_are_conserved_and_lines_fit(
            values in proptest::collection::vec((-1.0f64..1.0, -40i32..40), 1..200),
            width in 50usize..200,
            rows_max in 5usize..60,
        ) {
            let histogram = histogram_of(values.iter().map(|(mantissa, exponent)| mantissa * 10f64.powi(*exponent)));
            for level in &LEVELS {
                let sum: f64 = lines(&histogram, level).iter().map(|line| line.count()).sum();
                prop_assert_eq!(sum, values.len() as f64);
            }
            let drawn = draw(&histogram, &[], &style(width, rows_max));
            prop_assert!(drawn.lines().count() <= rows_max.max(9), "{}", drawn);
            prop_assert!(drawn.lines().all(|line| line.chars().count() <= width), "{}", drawn);
        }
    }
}
