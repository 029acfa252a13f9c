//! The live table in a terminal: what is slow, what fails and what is wrong now, sorted as the keys say.
//!
//! Threads: one waits for keys; it ends with the screen.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ogive_hist::Histogram;
use ogive_probe::Clock;
use ogive_wire::{Class, Endpoint};
use ratatui::crossterm::event::{self, Event};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use ratatui::{DefaultTerminal, Frame};
use tokio::sync::mpsc;

use super::measures::Measures;
use super::series::quantile;
use super::{names, table};
use crate::cli::format::{human, thousands};
use crate::cli::keys::Request;

/// The longest single wait for a key: the most that the screen's end is delayed.
const WAIT: Duration = Duration::from_millis(50);

/// Keys that wait to be handled; more are a cat on the keyboard.
const MAX_KEYS: usize = 64;

/// Columns of a histogram.
const BARS: usize = 24;

/// Findings that are shown, the youngest first.
const MAX_FINDINGS: usize = 5;

/// The sort key of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sort {
    #[default]
    Rate,
    Median,
    High,
    Max,
    Errors,
    Service,
}

impl Sort {
    const KEYS: [(char, Self, &'static str); 6] = [
        ('r', Self::Rate, "rate"),
        ('5', Self::Median, "p50"),
        ('9', Self::High, "p99"),
        ('m', Self::Max, "max"),
        ('e', Self::Errors, "errors"),
        ('s', Self::Service, "service"),
    ];
}

/// What a key requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyRequest {
    End,
    /// Redraw: the order or the size changed.
    Draw,
}

type OperationKey = (Endpoint, &'static str, String);

/// One operation, with all its responses together.
#[derive(Debug)]
struct Operation {
    times: Histogram,
    count: u64,
    errors: u64,
    rate: f64,
}

/// The terminal while it shows the table.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    sort: Sort,
    before: HashMap<OperationKey, u64>,
    rates: HashMap<OperationKey, f64>,
    /// When it was counted last, in nanoseconds.
    counted: u64,
    keys: mpsc::Receiver<Event>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Screen {
    fn drop(&mut self) {
        // ORDERING: Relaxed; a flag on its own.
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        ratatui::restore();
    }
}

impl Screen {
    /// Takes over the terminal; restores it when dropped or on a panic.
    pub(super) fn open() -> io::Result<Self> {
        let (sender, keys) = mpsc::channel(MAX_KEYS);
        let is_over = Arc::new(AtomicBool::new(false));
        let until = is_over.clone();
        let terminal = ratatui::try_init()?;
        let wait = move || {
            // ORDERING: Relaxed; a flag on its own.
            while !until.load(Ordering::Relaxed) {
                match event::poll(WAIT).and_then(|is_there| is_there.then(event::read).transpose()) {
                    Ok(Some(event)) => drop(sender.try_send(event)),
                    Ok(None) => {}
                    // The terminal is gone; a signal ends the observation.
                    Err(_) => std::thread::sleep(WAIT),
                }
            }
        };
        let thread = Some(std::thread::Builder::new().name("ogive-keys".into()).spawn(wait)?);
        let (before, rates, counted) = (HashMap::new(), HashMap::new(), Clock::global().now());
        Ok(Self { terminal, sort: Sort::default(), before, rates, counted, keys, is_over, thread })
    }

    /// Waits for a key that requests something.
    pub(super) async fn wish(&mut self) -> KeyRequest {
        loop {
            let Some(event) = self.keys.recv().await else { return std::future::pending().await };
            match Request::from_event(&event) {
                Some(Request::End) => return KeyRequest::End,
                Some(Request::Key(pressed)) => {
                    if let Some((_, sort, _)) = Sort::KEYS.iter().find(|(key, ..)| *key == pressed) {
                        self.sort = *sort;
                        return KeyRequest::Draw;
                    }
                }
                Some(Request::Draw) => return KeyRequest::Draw,
                None => {}
            }
        }
    }

    /// Counts what arrived since the last call: once a second.
    pub(super) fn count(&mut self, measures: &Measures) {
        let (now, counts) = (Clock::global().now(), counts(measures));
        let seconds = Duration::from_nanos(now.saturating_sub(self.counted)).as_secs_f64().max(1e-3);
        #[allow(clippy::cast_precision_loss, reason = "a rate that is shown with three digits")]
        let rate = |key: &OperationKey, count: u64| {
            (count - self.before.get(key).copied().unwrap_or(0).min(count)) as f64 / seconds
        };
        self.rates = counts.iter().map(|(key, count)| (key.clone(), rate(key, *count))).collect();
        (self.before, self.counted) = (counts, now);
    }

    /// Draws the measurements under a line of `head`.
    pub(super) fn draw(&mut self, measures: &Measures, head: &str) -> io::Result<()> {
        let mut operations: Vec<(OperationKey, Operation)> = operations(measures, &self.rates).into_iter().collect();
        let sort = self.sort;
        operations.sort_by(|(a, left), (b, right)| order(sort, left, right).then_with(|| a.cmp(b)));
        let findings: Vec<String> = measures.findings.iter().rev().take(MAX_FINDINGS).map(table::sentence).collect();
        let all: u64 = measures.finding_counts.values().sum();
        self.terminal.draw(|frame| paint(frame, head, &operations, sort, &findings, all))?;
        Ok(())
    }
}

fn key_of(key: &super::row::RowKey) -> OperationKey {
    (key.service, key.protocol, key.operation.clone())
}

fn counts(measures: &Measures) -> HashMap<OperationKey, u64> {
    let mut counts = HashMap::new();
    for (key, row) in &measures.rows {
        *counts.entry(key_of(key)).or_default() += row.total.all.total();
    }
    counts
}

fn operations(measures: &Measures, rates: &HashMap<OperationKey, f64>) -> BTreeMap<OperationKey, Operation> {
    let mut operations = BTreeMap::new();
    for (key, row) in &measures.rows {
        let of = key_of(key);
        let rate = rates.get(&of).copied().unwrap_or(0.0);
        let new = || Operation { times: Histogram::log_linear(), count: 0, errors: 0, rate };
        let operation: &mut Operation = operations.entry(of).or_insert_with(new);
        operation.times.merge(&row.service.all).expect("all are of one scheme");
        let count = row.total.all.total();
        operation.count += count;
        operation.errors += if key.class == Class::Ok { 0 } else { count };
    }
    operations
}

fn order(sort: Sort, left: &Operation, right: &Operation) -> std::cmp::Ordering {
    let high = |operation: &Operation, q: f64| quantile(&operation.times, q).unwrap_or(0.0);
    match sort {
        Sort::Rate => right.rate.total_cmp(&left.rate).then_with(|| right.count.cmp(&left.count)),
        Sort::Median => high(right, 0.5).total_cmp(&high(left, 0.5)),
        Sort::High => high(right, 0.99).total_cmp(&high(left, 0.99)),
        Sort::Max => right.times.max.unwrap_or(0.0).total_cmp(&left.times.max.unwrap_or(0.0)),
        Sort::Errors => right.errors.cmp(&left.errors),
        Sort::Service => std::cmp::Ordering::Equal,
    }
}

/// Powers of ten between which all times lie, for the histograms' common scale.
fn scale(operations: &[(OperationKey, Operation)]) -> (f64, f64) {
    let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
    for bucket in operations.iter().flat_map(|(_, operation)| operation.times.buckets()) {
        if bucket.hi > 0.0 {
            low = low.min(bucket.lo.max(1e-9));
            high = high.max(bucket.hi);
        }
    }
    if high == 0.0 { (1e-6, 1.0) } else { (10_f64.powf(low.log10().floor()), 10_f64.powf(high.log10().ceil())) }
}

/// A histogram on a logarithmic scale, the tallest bar full; a bar with any count is visible.
fn bars(times: &Histogram, low: f64, high: f64) -> String {
    const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let mut counts = [0_u64; BARS];
    let width = (high.log10() - low.log10()) / BARS as f64;
    for bucket in times.buckets() {
        let middle = ((bucket.lo + bucket.hi) / 2.0).max(low);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a column of a few")]
        let column = ((middle.log10() - low.log10()) / width).max(0.0) as usize;
        counts[column.min(BARS - 1)] += bucket.count;
    }
    let tallest = counts.iter().max().copied().unwrap_or(0).max(1);
    let bar =
        |count: &u64| EIGHTHS[usize::try_from((u128::from(*count) * 8).div_ceil(u128::from(tallest))).unwrap_or(8)];
    counts.iter().map(bar).collect()
}

fn paint(
    frame: &mut Frame<'_>,
    head: &str,
    operations: &[(OperationKey, Operation)],
    sort: Sort,
    findings: &[String],
    all: u64,
) {
    let finding_lines = u16::try_from(findings.len() + usize::from(!findings.is_empty())).unwrap_or(0);
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(2),
        Constraint::Length(finding_lines),
        Constraint::Length(1),
    ]);
    let [top, middle, below, bottom] = areas.areas(frame.area());
    frame.render_widget(Paragraph::new(head).style(Style::new().add_modifier(Modifier::BOLD)), top);
    let (low, high) = scale(operations);
    let span = format!("{} to {}", human(low, "s"), human(high, "s"));
    let columns = ["service", "protocol", "operation", "rate", "p50", "p99", "max", "errors", &span];
    let sorted = Sort::KEYS.iter().find(|(_, by, _)| *by == sort).map_or("", |(.., name)| *name);
    let header = columns.map(|name| {
        let style = if name == sorted { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        Cell::from(name.to_owned()).style(style.add_modifier(Modifier::BOLD))
    });
    let shown = operations.iter().take(usize::from(middle.height));
    let rows = shown.map(|((service, protocol, operation), measured)| {
        Row::new([
            names::service(*service),
            (*protocol).to_owned(),
            operation.clone(),
            human(measured.rate, "/s"),
            table::quantile_text(&measured.times, 0.5),
            table::quantile_text(&measured.times, 0.99),
            measured.times.max.map_or_else(|| "-".to_owned(), |max| human(max, "s")),
            if measured.errors == 0 { "-".to_owned() } else { thousands(measured.errors) },
            bars(&measured.times, low, high),
        ])
    });
    let widths = [
        Constraint::Max(24),
        Constraint::Length(9),
        Constraint::Fill(1),
        Constraint::Length(10),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(8),
        Constraint::Length(u16::try_from(BARS).unwrap_or(24)),
    ];
    frame.render_widget(Table::new(rows, widths).header(Row::new(header)), middle);
    if !findings.is_empty() {
        let title = format!("findings: {}", thousands(all));
        let lines = std::iter::once(Line::from(title).style(Style::new().add_modifier(Modifier::BOLD)));
        let lines: Vec<Line<'_>> = lines.chain(findings.iter().map(|finding| Line::from(finding.as_str()))).collect();
        frame.render_widget(Paragraph::new(lines), below);
    }
    let keys: Vec<String> = Sort::KEYS.iter().map(|(key, _, name)| format!("{key} {name}")).collect();
    frame.render_widget(Paragraph::new(format!("sort by  {}    q quit", keys.join("  "))), bottom);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn operation(micros: &[i64], errors: u64, rate: f64) -> Operation {
        let mut times = Histogram::log_linear();
        micros.iter().for_each(|micros| times.record_int(*micros, -6));
        Operation { times, count: micros.len() as u64, errors, rate }
    }

    #[test]
    fn a_screen_shows_operations_findings_and_keys() {
        let service = Endpoint { ip: std::net::IpAddr::from([10, 0, 0, 1]), port: 5432 };
        let slow: Vec<i64> = (0..100).map(|at| if at < 90 { 100 } else { 20_000 }).collect();
        let operations = [
            ((service, "pgsql", "SELECT ?".to_owned()), operation(&slow, 3, 50.0)),
            ((service, "pgsql", "COMMIT".to_owned()), operation(&[200; 10], 0, 5.0)),
        ];
        let mut terminal = Terminal::new(TestBackend::new(140, 12)).unwrap();
        let findings = ["connection refused after 1 ms  10.0.0.2:1 > 10.0.0.1:81".to_owned()];
        terminal.draw(|frame| paint(frame, "eth0  12 packets", &operations, Sort::High, &findings, 7)).unwrap();
        let text = terminal.backend().to_string();
        for part in
            ["eth0  12 packets", "10.0.0.1:5432", "SELECT ?", "50", "20", "findings: 7", "connection refused", "q quit"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
        let row = text.lines().find(|line| line.contains("SELECT ?")).unwrap();
        assert_eq!(row.matches('█').count(), 1, "the tallest bar: {row}");
        assert!(row.contains('▁'), "one in ten is seen: {row}");
    }

    #[test]
    fn the_order_is_what_the_key_says() {
        let (fast, slow) = (operation(&[10; 100], 0, 100.0), operation(&[10_000; 3], 2, 1.0));
        for (sort, fast_first) in
            [(Sort::Rate, true), (Sort::Median, false), (Sort::High, false), (Sort::Max, false), (Sort::Errors, false)]
        {
            assert_eq!(order(sort, &fast, &slow).is_lt(), fast_first, "{sort:?}");
        }
    }

    #[test]
    fn bars_stand_where_the_times_are() {
        let times = operation(&[1, 1_000_000], 0, 0.0).times;
        let text: Vec<char> = bars(&times, 1e-6, 10.0).chars().collect();
        assert_eq!(text.len(), BARS);
        assert_eq!((text[0], text[BARS * 6 / 7]), ('█', '█'), "{text:?}");
        assert_eq!(bars(&Histogram::log_linear(), 1e-6, 1.0).trim(), "");
    }
}
