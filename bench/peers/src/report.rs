//! The table: medians over the rounds with their spread, and ratios between servers of one round.

use std::fmt::{self, Display, Write};
use std::time::Duration;

use crate::requests::Form;
use crate::server::Peer;
use crate::work::Load;

/// What Linux counts processor time in: less was not nothing.
const TICK: Duration = Duration::from_millis(10);

/// What one server took for one workload.
#[derive(Clone, Debug)]
pub struct Figures {
    pub samples: usize,
    pub series: usize,
    /// Processor time until everything was acknowledged.
    pub acked_cpu: Duration,
    /// And until nothing was left to do in the background.
    pub settled_cpu: Duration,
    /// And until everything was written as it stays, as when the server ends.
    pub stored_cpu: Duration,
    pub wall: Duration,
    /// Anonymous resident memory after the last acknowledgement, above that of the idle server.
    pub memory: u64,
    /// All files when everything is in its final form.
    pub bytes: u64,
    /// Processor time of a start on them.
    pub restart: Duration,
}

impl Figures {
    fn rate(&self) -> f64 {
        self.samples as f64 / self.acked_cpu.max(TICK).as_secs_f64()
    }

    fn settled_rate(&self) -> f64 {
        self.samples as f64 / self.settled_cpu.max(TICK).as_secs_f64()
    }

    fn stored_rate(&self) -> f64 {
        self.samples as f64 / self.stored_cpu.max(TICK).as_secs_f64()
    }

    /// Processor time until nothing was left to do.
    pub fn settled_ms(&self) -> f64 {
        self.settled_cpu.max(TICK).as_secs_f64() * 1000.0
    }

    fn bytes_per_sample(&self) -> f64 {
        self.bytes as f64 / self.samples as f64
    }

    fn memory_per_series(&self) -> f64 {
        self.memory as f64 / self.series as f64
    }
}

impl Display for Figures {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{:.0} samples/CPU-s ({:.0} settled, {:.0} in blocks), {:.2} B/sample, {:.0} B of memory a series, {:.1} s, restart {:.2} CPU-s",
            self.rate(),
            self.settled_rate(),
            self.stored_rate(),
            self.bytes_per_sample(),
            self.memory_per_series(),
            self.wall.as_secs_f64(),
            self.restart.as_secs_f64()
        )
    }
}

/// Everything that was measured.
#[derive(Default)]
pub struct Report {
    rows: Vec<(&'static str, Peer, Form, Figures)>,
}

impl Report {
    pub fn add(&mut self, load: &Load, peer: Peer, form: Form, figures: Figures) {
        self.rows.push((load.name(), peer, form, figures));
    }

    /// Figures of a server over the rounds.
    fn figures_of(&self, load: &Load, peer: Peer, form: Form) -> Vec<&Figures> {
        let fits = |row: &&(&str, Peer, Form, Figures)| row.0 == load.name() && row.1 == peer && row.2 == form;
        self.rows.iter().filter(fits).map(|row| &row.3).collect()
    }

    pub fn table(&self, loads: &[Load]) -> String {
        let mut out = String::new();
        for load in loads {
            let _ = writeln!(out, "\n### {}: {}\n", load.name(), load.what());
            out.push_str(
                "| server | samples per CPU-s | settled | in blocks | bytes a sample | memory a series, B | restart, CPU-s |\n",
            );
            out.push_str("|---|---|---|---|---|---|---|\n");
            for (peer, form) in [
                (Peer::Ogive, Form::Batch),
                (Peer::Ogive, Form::RemoteWrite),
                (Peer::Prometheus, Form::RemoteWrite),
                (Peer::Victoria, Form::RemoteWrite),
            ] {
                let rows = self.figures_of(load, peer, form);
                if rows.is_empty() {
                    continue;
                }
                let column =
                    |value: fn(&Figures) -> f64, digits: usize| spread(rows.iter().map(|row| value(row)), digits);
                let _ = writeln!(
                    out,
                    "| {}, {} | {} | {} | {} | {} | {} | {} |",
                    peer.name(),
                    form.name(),
                    column(Figures::rate, 0),
                    column(Figures::settled_rate, 0),
                    column(Figures::stored_rate, 0),
                    column(Figures::bytes_per_sample, 2),
                    column(Figures::memory_per_series, 0),
                    column(|row| row.restart.as_secs_f64(), 2),
                );
            }
            self.ratios(&mut out, load);
        }
        out
    }

    /// Each round's ratios to the peers: both sides met the same machine.
    fn ratios(&self, out: &mut String, load: &Load) {
        for form in [Form::RemoteWrite, Form::Batch] {
            let ours = self.figures_of(load, Peer::Ogive, form);
            for peer in [Peer::Prometheus, Peer::Victoria] {
                let theirs = self.figures_of(load, peer, Form::RemoteWrite);
                if ours.is_empty() || theirs.is_empty() {
                    continue;
                }
                let pairs = || ours.iter().zip(&theirs);
                let _ = writeln!(
                    out,
                    "\nogive, {} : {} = {}x samples per CPU-s, {}x settled, {}x in blocks, {}x bytes, {}x memory",
                    form.name(),
                    peer.name(),
                    spread(pairs().map(|(a, b)| a.rate() / b.rate()), 2),
                    spread(pairs().map(|(a, b)| a.settled_rate() / b.settled_rate()), 2),
                    spread(pairs().map(|(a, b)| a.stored_rate() / b.stored_rate()), 2),
                    spread(pairs().map(|(a, b)| a.bytes_per_sample() / b.bytes_per_sample()), 2),
                    spread(pairs().map(|(a, b)| a.memory_per_series() / b.memory_per_series()), 2),
                );
            }
        }
    }
}

/// The median, and in brackets the least and the greatest.
fn spread(values: impl Iterator<Item = f64>, digits: usize) -> String {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (Some(least), Some(greatest)) = (values.first(), values.last()) else { return "-".into() };
    let median = f64::midpoint(values[values.len() / 2], values[(values.len() - 1) / 2]);
    if values.len() == 1 {
        format!("{median:.digits$}")
    } else {
        format!("{median:.digits$} ({least:.digits$} to {greatest:.digits$})")
    }
}
