//! `ogive kernel calls`: system calls of a command or a process, and calls of functions.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};

use anyhow::Context as _;
use ogive_kernel::calls::{Call, Calls as Counter};
use ogive_kernel::functions::{Function, Functions, Stopped, linked, mapped};
use serde_json::{Value, json};

use super::tasks::{Tasks, durations, quantile, wait};
use crate::cli::exit::EXIT_USAGE;
use crate::cli::format::{human, thousands};

/// Counts system calls, with errors and a histogram of durations for each, and calls of functions.
#[derive(clap::Args, Debug)]
pub(crate) struct Calls {
    #[command(flatten)]
    tasks: Tasks,
    /// Observe for this many seconds.
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Count calls of functions too, each exactly: of the command's program and the libraries with which it is linked,
    /// or of all files of which the process has code. Takes about a microsecond for each call.
    #[arg(long)]
    functions: bool,
    /// Count calls of the functions of this file, such as libc.so.6, or a library that is loaded later. Repeatable.
    #[arg(long = "library", value_name = "FILE")]
    libraries: Vec<String>,
    /// Number of functions shown, most calls first.
    #[arg(long, value_name = "N", default_value = "30")]
    rows: usize,
    /// Print the table as JSON.
    #[arg(long)]
    json: bool,
    /// Command to run; its calls and those of its children are counted.
    #[arg(last = true, value_name = "CMD", conflicts_with_all = ["pid", "comm", "cgroup"])]
    command: Vec<String>,
}

impl Calls {
    fn counts_functions(&self) -> bool {
        self.functions || !self.libraries.is_empty()
    }

    /// Counts functions of a process from now on, with `own` files where all are wanted.
    fn start_functions(
        &self,
        process: u32,
        own: impl FnOnce() -> anyhow::Result<Vec<PathBuf>>,
    ) -> anyhow::Result<Functions> {
        let mut files = if self.functions { own()? } else { Vec::new() };
        for library in &self.libraries {
            let file =
                ogive_kernel::functions::found(library).with_context(|| format!("there is no file {library:?}"))?;
            if !files.contains(&file) {
                files.push(file);
            }
        }
        Ok(Functions::start(process, &files)?)
    }
}

/// A usage error: what is wrong with the arguments.
fn refuse(message: &str) -> anyhow::Result<ExitCode> {
    eprintln!("ogive: {message}");
    Ok(ExitCode::from(EXIT_USAGE))
}

pub(super) fn run(options: &Calls) -> anyhow::Result<ExitCode> {
    let Some((program, arguments)) = options.command.split_first() else { return observe(options) };
    let mut command = Command::new(program);
    command.args(arguments);
    if options.counts_functions() {
        Stopped::prepare(&mut command);
    }
    let (mut counter, mut child) = Counter::from_command(&mut command)?;
    let mut functions = None;
    if options.counts_functions() {
        match begin(options, &child) {
            Ok(counted) => functions = Some(counted),
            Err(error) => {
                // It has not begun, and does not.
                let _ = child.kill();
                let _ = child.wait();
                return Err(error);
            }
        }
    }
    let status = child.wait()?;
    print(&counter.drain()?, functions.as_mut(), options)?;
    // As a shell has it: 128 and the signal.
    use std::os::unix::process::ExitStatusExt as _;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Counts the functions of a command that stopped at its beginning, and lets it go on.
fn begin(options: &Calls, child: &Child) -> anyhow::Result<Functions> {
    let _stopped = Stopped::wait(child)?;
    let program = format!("/proc/{}/exe", child.id());
    options.start_functions(child.id(), || Ok(linked(&std::fs::read_link(&program).context(program)?)))
}

/// Counts the calls of what runs already.
fn observe(options: &Calls) -> anyhow::Result<ExitCode> {
    if options.tasks.pid.is_none() && options.tasks.comm.is_none() && options.tasks.cgroup.is_none() {
        return refuse("name a command after --, or a process with -p, --comm or --cgroup");
    }
    let filter = options.tasks.filter()?;
    let mut functions = None;
    if options.counts_functions() {
        let Some(process) = options.tasks.pid else {
            return refuse("functions are counted for a command after --, or for a process with -p");
        };
        let maps = || {
            let path = format!("/proc/{process}/maps");
            Ok(mapped(&std::fs::read_to_string(&path).context(path)?))
        };
        functions = Some(options.start_functions(process, maps)?);
    }
    let mut counter = Counter::start(&filter)?;
    wait(options.seconds);
    print(&counter.drain()?, functions.as_mut(), options)?;
    Ok(ExitCode::SUCCESS)
}

fn print(calls: &[Call], functions: Option<&mut Functions>, options: &Calls) -> anyhow::Result<()> {
    let functions =
        functions.map(|functions| Ok::<_, ogive_kernel::Error>((functions.drain()?, functions.unknown_callers()?)));
    let functions = functions.transpose()?;
    if options.json {
        let mut answer = json!({ "syscalls": calls.iter().map(object).collect::<Vec<_>>() });
        if let Some((functions, unknown)) = &functions {
            answer["libraries"] = counted(functions, |function| function.outside);
            answer["inside"] = counted(functions, |function| function.inside);
            answer["unknown_callers"] = json!(unknown);
        }
        println!("{answer}");
        return Ok(());
    }
    print_calls(calls);
    if let Some((functions, unknown)) = &functions {
        print_functions(functions, *unknown, calls, options.rows);
    }
    Ok(())
}

/// Functions of which `count` is above 0.
fn counted(functions: &[Function], count: impl Fn(&Function) -> u64) -> Value {
    let object = |function: &Function| {
        let count = count(function);
        (count > 0).then(|| json!({ "name": function.name, "file": function.file, "count": count }))
    };
    functions.iter().filter_map(object).collect()
}

/// The last part of a path.
fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn print_functions(functions: &[Function], unknown: u64, calls: &[Call], rows: usize) {
    eprintln!("\n{:<32} {:<24} {:>12} {:>12}", "function", "of", "from outside", "from inside");
    for function in functions.iter().take(rows) {
        let (outside, inside) = (thousands(function.outside), thousands(function.inside));
        eprintln!("{:<32} {:<24} {outside:>12} {inside:>12}", function.name, file_name(&function.file));
    }
    if functions.len() > rows {
        eprintln!("and {} more", thousands((functions.len() - rows) as u64));
    }
    if unknown > 0 {
        eprintln!("from outside or inside, not known: {}", thousands(unknown));
    }
    let sum = |count: fn(&Function) -> u64| thousands(functions.iter().map(count).sum());
    eprintln!(
        "\nsystem calls {}, inter-library calls {}, intra-library calls {}",
        thousands(calls.iter().map(|call| call.count).sum()),
        sum(|function| function.outside),
        sum(|function| function.inside),
    );
}

fn print_calls(calls: &[Call]) {
    // The command's own output is on standard output.
    eprintln!(
        "{:<20} {:>12} {:>8} {:>9} {:>9} {:>9} {:>9}",
        "system call", "calls", "errors", "time", "p50", "p99", "max"
    );
    for call in calls {
        eprintln!(
            "{:<20} {:>12} {:>8} {:>9} {:>9} {:>9} {:>9}",
            call.name,
            thousands(call.count),
            thousands(call.errors),
            human(call.took.sum.unwrap_or(0.0), "s"),
            quantile(&call.took, 0.5),
            quantile(&call.took, 0.99),
            quantile(&call.took, 1.0),
        );
    }
    eprintln!("{:<20} {:>12}", "in all", thousands(calls.iter().map(|call| call.count).sum()));
}

fn object(call: &Call) -> Value {
    json!({
        "name": call.name, "number": call.number, "count": call.count, "errors": call.errors, "took": durations(&call.took),
    })
}
