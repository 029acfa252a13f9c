//! `ogive` in a pseudo terminal, which `script` of util-linux makes; what is written to it is read as a terminal shows
//! it.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::PATIENCE;
use super::programs::ended;

/// A screen that is drawn comes in parts, one close behind the other: after such a silence it is whole. Less than
/// between two screens.
const SILENCE: Duration = Duration::from_millis(50);

const ROWS: u16 = 24;
const COLUMNS: u16 = 140;

/// A terminal of 24 lines.
pub struct Terminal {
    script: Child,
    keys: Option<ChildStdin>,
    drawn: Receiver<Vec<u8>>,
    screen: vt100::Parser,
}

impl Terminal {
    /// `ogive` with these arguments, as a shell reads them.
    pub fn start(arguments: &str) -> Self {
        let command = format!("stty rows {ROWS} cols {COLUMNS}; exec {} {arguments}", env!("CARGO_BIN_EXE_ogive"));
        let mut script = Command::new("script")
            .args(["-qfec", &command, "/dev/null"])
            .env("TERM", "xterm-256color")
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("script: {error}: apt-get install bsdutils"));
        let (sender, drawn) = channel();
        let mut out = script.stdout.take().unwrap();
        std::thread::spawn(move || {
            let mut part = [0; 65_536];
            while let Ok(count @ 1..) = out.read(&mut part) {
                let _ = sender.send(part[..count].to_vec());
            }
        });
        let keys = script.stdin.take();
        Self { script, keys, drawn, screen: vt100::Parser::new(ROWS, COLUMNS, 0) }
    }

    pub fn screen(&self) -> &vt100::Screen {
        self.screen.screen()
    }

    /// The screen, once it is as wished and drawn to its end.
    pub fn until(&mut self, what: &str, is_there: impl Fn(&vt100::Screen) -> bool) -> String {
        let start = Instant::now();
        loop {
            let is_found = is_there(self.screen.screen());
            match self.drawn.recv_timeout(SILENCE) {
                Ok(more) => self.screen.process(&more),
                Err(_) if is_found => return self.screen.screen().contents(),
                Err(RecvTimeoutError::Disconnected) => panic!("{}", self.in_vain(what, "it ended")),
                Err(RecvTimeoutError::Timeout) => {}
            }
            assert!(start.elapsed() < PATIENCE, "{}", self.in_vain(what, "time is over"));
        }
    }

    fn in_vain(&self, what: &str, why: &str) -> String {
        format!("waited in vain for {what}, {why}, in\n{}", self.screen.screen().contents())
    }

    pub fn press(&mut self, key: &[u8]) {
        self.keys.as_mut().expect("open").write_all(key).unwrap();
    }

    /// Waits until `ogive` has ended; whether it says that all is well.
    pub fn end(&mut self) -> bool {
        let status = ended(&mut self.script);
        self.drawn.try_iter().for_each(|more| self.screen.process(&more));
        status.unwrap_or_else(|| panic!("{}", self.in_vain("its end", "time is over"))).success()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Ends `ogive` as well: its terminal is gone.
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}
