//! The table of microstates on a terminal, drawn each second, until a key ends it.

use std::time::Duration;

use anyhow::Context as _;
use ogive_kernel::micro::{Faults, Microstates, Thread};
use ogive_probe::Clock;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use ratatui::{DefaultTerminal, Frame};

use super::difference::since;
use super::table::{HEAD, SORTS, Sort, row};
use crate::cli::kernel::tasks::online_cpus;
use crate::cli::keys::Request;

/// 50 ms: a key takes effect before a person notices a delay.
const KEY_WAIT: Duration = Duration::from_millis(50);

/// 1 s.
const INTERVAL_NS: u64 = 1_000_000_000;

/// Shows what happens in each second. Returns when a key ends it.
pub(super) fn run(observed: &Microstates) -> anyhow::Result<()> {
    let mut screen = ratatui::try_init().context("taking the terminal")?;
    let outcome = watch(&mut screen, observed);
    ratatui::restore();
    outcome
}

fn watch(screen: &mut DefaultTerminal, observed: &Microstates) -> anyhow::Result<()> {
    let (mut before, mut sort) = (observed.read()?, Sort::default());
    let (mut threads, mut read_at) = (Vec::new(), Clock::global().now());
    let mut is_new = true;
    loop {
        if Clock::global().now().saturating_sub(read_at) >= INTERVAL_NS {
            observed.follow_cpus(&online_cpus()?)?;
            let now = observed.read()?;
            read_at = Clock::global().now();
            (threads, before, is_new) = (since(&before, &now), now, true);
        }
        if std::mem::take(&mut is_new) {
            sort.sort(&mut threads);
            screen.draw(|frame| paint(frame, &threads, sort, observed.faults()))?;
        }
        match Request::within(KEY_WAIT)? {
            Some(Request::End) => return Ok(()),
            Some(Request::Key(pressed)) => {
                if let Some(found) = Sort::from_key(pressed) {
                    (sort, is_new) = (found, true);
                }
            }
            Some(Request::Draw) => is_new = true,
            None => {}
        }
    }
}

fn paint(frame: &mut Frame<'_>, threads: &[Thread], sort: Sort, faults: Faults) {
    let [main, bottom] = Layout::vertical([Constraint::Min(2), Constraint::Length(1)]).areas(frame.area());
    let head = Line::from(HEAD).style(Style::new().add_modifier(Modifier::BOLD));
    let shown = threads.iter().take(usize::from(main.height).saturating_sub(1));
    let rows = shown.map(|thread| Line::from(row(thread, faults)));
    frame.render_widget(Paragraph::new(std::iter::once(head).chain(rows).collect::<Vec<_>>()), main);
    let keys: Vec<String> = SORTS.iter().map(|(key, name, _)| format!("{key} {name}")).collect();
    let foot = format!("{} threads by {}; sort by  {}    q quit", threads.len(), sort.name(), keys.join("  "));
    frame.render_widget(Paragraph::new(foot), bottom);
}
