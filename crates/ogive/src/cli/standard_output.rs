//! Standard output of commands: `print!` and `println!` that end the command quietly once nobody reads any more.
//!
//! Those of the standard library panic then, and `ogive status | head -1` ended with a message about a broken pipe.
//! Limits: for commands. What sends data that must arrive, such as `ogive snapshot send`, handles the error itself.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};

/// As that of the standard library, for commands whose reader may leave.
macro_rules! print {
    ($($part:tt)*) => {
        $crate::cli::standard_output::write(format_args!($($part)*))
    };
}

/// As that of the standard library, for commands whose reader may leave.
macro_rules! println {
    () => {
        $crate::cli::standard_output::write(format_args!("\n"))
    };
    ($($part:tt)*) => {
        $crate::cli::standard_output::write(format_args!("{}\n", format_args!($($part)*)))
    };
}

/// Standard output; the command ends when the reader has gone.
pub(crate) struct StandardOutput;

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        end_without_reader(io::stdout().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        end_without_reader(io::stdout().flush())
    }
}

/// Writes `text`; ends the command when the reader is gone, or when writing fails.
pub(crate) fn write(text: Arguments<'_>) {
    if let Err(error) = StandardOutput.write_fmt(text) {
        // A full disk behind a redirection: the output is incomplete.
        eprintln!("ogive: cannot write to standard output: {error}");
        std::process::exit(1);
    }
}

fn end_without_reader<T>(written: io::Result<T>) -> io::Result<T> {
    match written {
        // They had enough, as `head` does: nothing is wrong.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        written => written,
    }
}
