//! `ogive kernel ask`: a question of the user's own, answered by the kernel.

mod answer;
mod keep;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use ogive_kernel::ask::{Compiled, Observer, Options, Verb, compile_here, parse};
use ogive_probe::Clock;

use super::export::check_name;
use super::tasks::{Tasks, ticking_cpus};
use crate::cli::advise::Files;
use crate::cli::exit::EXIT_USAGE;
use crate::cli::format::duration;
use crate::cli::observed::{Signals, start_export};

/// Groups of a histogram have 16 KiB of the kernel's memory each: 64 MiB.
const HISTOGRAMS_MAX: u32 = 4096;

/// Answers a question with programs in the kernel: every event counts, without sampling.
#[derive(clap::Args, Debug)]
#[command(after_help = "PROBE [/FILTER/] count|sum|hist [VALUE] [by KEY, ...]

Probes:
  tp_btf:NAME                      a tracepoint of the kernel, its arguments by their names
  uprobe:FILE:FUNCTION             calls of a function: arg0 to arg5
  uretprobe:FILE:FUNCTION          their returns: retval, latency, arg0 to arg5
  usdt:FILE:PROVIDER:NAME          a place that a program's author marked: its arguments
  syscall:NAME or syscall:*        system calls at their return: retval, latency, call, arg0 to arg5
  tracepoint:CATEGORY:NAME         the same by its record in tracefs, which must be mounted
  profile:HZ                       ticks of a clock on each CPU while it works
  interval:DURATION                ticks of a clock on one CPU, whatever it runs

Examples:
  ogive kernel ask 'syscall:read hist latency by comm'
  ogive kernel ask 'tp_btf:sched_switch /prev_state == 0/ count by prev->comm, next->comm'
  ogive kernel ask 'uprobe:libc.so.6:malloc hist arg0' -p 1234 --for 5s
  ogive kernel ask 'uretprobe:./server:handle /retval != 0/ hist latency by retval'
  ogive kernel ask 'syscall:* count by call' --keep calls --to http://127.0.0.1:6448 --for 1h")]
pub(crate) struct Ask {
    /// The question.
    question: String,
    #[command(flatten)]
    tasks: Tasks,
    /// Observe for so long; Ctrl-C ends it earlier.
    #[arg(long = "for", value_name = "DURATION", default_value = "10s", value_parser = duration)]
    length: Duration,
    /// Number of keys that are counted separately; the rest are merged into `other`.
    #[arg(long, value_name = "N", default_value = "256", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    groups: u32,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
    /// Send the answer as series of this name each second, each event exactly once.
    #[arg(long, value_name = "NAME", requires = "to")]
    keep: Option<String>,
    /// URL of the server or broker to which it is sent.
    #[arg(long, value_name = "URL", requires = "keep")]
    to: Option<String>,
    /// Label for the series, such as host=web-1. Repeatable.
    #[arg(long = "label", value_name = "NAME=VALUE", requires = "to", value_parser = super::export::label)]
    labels: Vec<(String, String)>,
}

/// A usage error: what is wrong with the arguments.
fn refuse(message: &str) -> anyhow::Result<ExitCode> {
    eprintln!("ogive: {message}");
    Ok(ExitCode::from(EXIT_USAGE))
}

pub(super) fn run(options: &Ask) -> anyhow::Result<ExitCode> {
    let text = &options.question;
    let question = match parse(text) {
        Ok(question) => question,
        Err(mistake) => return refuse(&mistake.shown_in(text)),
    };
    let compiled = match compile_here(&question, &Files)? {
        Ok(compiled) => compiled,
        Err(mistake) => return refuse(&mistake.shown_in(text)),
    };
    if compiled.verb == Verb::Histogram && options.groups > HISTOGRAMS_MAX {
        return refuse(&format!("a histogram has at most {HISTOGRAMS_MAX} groups"));
    }
    if let Some(name) = &options.keep
        && let Err(message) = check_name(name, compiled.verb)
    {
        return refuse(&message);
    }
    let (runtime, mut signals) = Signals::new()?;
    let mut observer = start(compiled, options)?;
    let (clock, began_ns) = (Clock::global(), Clock::global().now());
    eprintln!("counting");
    let end = signals.end(Some(options.length));
    if let (Some(name), Some(url)) = (&options.keep, &options.to) {
        return keep::run(&mut observer, name, start_export(url, &options.labels)?, &runtime, end);
    }
    runtime.block_on(end);
    let seconds = (clock.now() - began_ns) as f64 / 1e9;
    observer.stop();
    let (groups, losses) = (observer.drain()?, observer.losses()?);
    if options.json {
        println!("{}", answer::json(text, observer.question(), seconds, &groups, &losses));
    } else {
        answer::print(observer.question(), &groups, &losses);
    }
    Ok(ExitCode::SUCCESS)
}

fn start(compiled: Compiled, options: &Ask) -> anyhow::Result<Observer> {
    let cpus = ticking_cpus(&compiled.probe)?;
    let options = Options { filter: options.tasks.filter()?, groups: options.groups, cpus };
    Observer::start(compiled, &options).context("the kernel does not answer this question")
}
