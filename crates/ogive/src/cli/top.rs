//! `ogive top`: what a server does now, each second anew: rates, what takes most time, memory, queues and disks.
//!
//! Everything is a difference of two readings of `/v1/status` and `/v1/queries`: nothing is estimated.
//! Threads: one reads the server, so that keys are answered while it takes long; it ends when nobody waits for it.

mod reading;
mod view;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use anyhow::Context;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use ratatui::{DefaultTerminal, Frame};

use self::reading::Reading;
use self::view::{Sort, View};
use super::client::Server;
use super::format::duration;
use super::keys::Request;
use super::terminal::Terminal;

/// 50 ms: a key takes effect before a person notices a delay.
const KEY_WAIT: Duration = Duration::from_millis(50);

/// Lines that a pipe gets.
const ROWS: usize = 25;

/// Shows live load: rates, the most expensive expressions, memory, queues and disks.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Keys: sort by t current time, a total time, s slowest, n number of runs; q quits.

  ogive top
  ogive top --once            # one reading over a second, for pipes
  ogive top --server https://metrics.example.com --interval 5s")]
pub(crate) struct Top {
    /// Time between two readings.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Print one reading and exit, as when standard output is not a terminal.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    server: Server,
}

fn interval(text: &str) -> Result<Duration, String> {
    let found = duration(text)?;
    let is_right = (Duration::from_millis(100)..=Duration::from_secs(3_600)).contains(&found);
    if is_right { Ok(found) } else { Err("give a duration from 100ms to 1h".into()) }
}

/// Runs the command.
pub(crate) fn run(options: &Top, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let first = match Reading::take(&options.server) {
        Ok(reading) => reading?,
        Err(failure) => return Ok(failure.report()),
    };
    if options.once || !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        std::thread::sleep(options.interval);
        let second = match Reading::take(&options.server) {
            Ok(reading) => reading?,
            Err(failure) => return Ok(failure.report()),
        };
        let view = View::new(&first, &second, Sort::default());
        // The reader of a pipe can cut lines itself.
        let width = if std::io::stdout().is_terminal() { terminal.width } else { usize::MAX };
        view.lines(width, ROWS).iter().for_each(|line| println!("{}", line.text));
        return Ok(ExitCode::SUCCESS);
    }
    let (sender, readings) = sync_channel(1);
    let interval = options.interval;
    std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().name("ogive-top".into());
        reader.spawn_scoped(scope, move || {
            loop {
                std::thread::sleep(interval);
                let taken = match Reading::take(&options.server) {
                    Ok(reading) => reading.map_err(|error| format!("{error:#}")),
                    Err(failure) => Err(failure.to_string()),
                };
                if sender.send(taken).is_err() {
                    return;
                }
            }
        })?;
        let mut screen = ratatui::try_init().context("taking the terminal")?;
        let outcome = watch(&mut screen, first, readings);
        ratatui::restore();
        // The reading thread may wait for the server for long, but this one does not wait for it.
        match outcome {
            Ok(()) => std::process::exit(0),
            Err(error) => Err(error),
        }
    })
}

/// Draws each reading and handles keys until one ends it.
fn watch(
    screen: &mut DefaultTerminal,
    first: Reading,
    readings: Receiver<Result<Reading, String>>,
) -> anyhow::Result<()> {
    let (mut before, mut now, mut sort, mut problem) = (first.clone(), first, Sort::default(), None);
    let mut is_new = true;
    loop {
        if std::mem::take(&mut is_new) {
            let view = View::new(&before, &now, sort);
            screen.draw(|frame| paint(frame, &view, problem.as_deref()))?;
        }
        match readings.recv_timeout(Duration::ZERO) {
            Ok(Ok(reading)) => {
                (before, now, problem, is_new) = (now, reading, None, true);
                continue;
            }
            Ok(Err(why)) => (problem, is_new) = (Some(why), true),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => anyhow::bail!("the reader of the server has ended"),
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

fn paint(frame: &mut Frame<'_>, view: &View, problem: Option<&str>) {
    let [main, bottom] = Layout::vertical([Constraint::Min(2), Constraint::Length(1)]).areas(frame.area());
    let lines = view.lines(usize::from(main.width), usize::from(main.height));
    let lines: Vec<Line<'_>> = lines
        .iter()
        .map(|line| {
            let modifier = if line.is_heading { Modifier::BOLD } else { Modifier::empty() };
            Line::from(line.text.as_str()).style(Style::new().add_modifier(modifier))
        })
        .collect();
    frame.render_widget(Paragraph::new(lines), main);
    let keys = "sort by  t current time  a total time  s slowest  n runs    q quit";
    let foot = problem.map_or_else(|| keys.to_owned(), |why| format!("no answer: {why}"));
    frame.render_widget(Paragraph::new(foot), bottom);
}
