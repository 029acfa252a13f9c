//! What standard output can show: its size, and whether it has colours and more than ASCII.

use std::io::IsTerminal;

use clap::ValueEnum;

/// When output has colours.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Color {
    /// When standard output is a terminal and NO_COLOR is not set.
    Auto,
    Always,
    Never,
}

/// The capabilities of standard output.
#[derive(Clone, Debug)]
pub(crate) struct Terminal {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) unicode: bool,
    pub(crate) color: bool,
}

impl Terminal {
    pub(crate) fn detect(color: Color) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let stdout = std::io::stdout().is_terminal();
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let size = terminal_size::terminal_size();
        let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse::<usize>().ok());
        Self {
            // 200: bars longer than that show no more.
            width: size.map(|(width, _)| usize::from(width.0)).or(columns).unwrap_or(80).clamp(40, 200),
            height: size.map_or(40, |(_, height)| usize::from(height.0)),
            unicode: unicode(),
            color: match color {
                Color::Always => true,
                Color::Never => false,
                Color::Auto => stdout && !dumb && !set("NO_COLOR"),
            },
        }
    }
}

/// Whether the locale's characters are UTF-8; without any locale set, a pipe is assumed to carry UTF-8.
fn unicode() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        .unwrap_or_default()
        .to_ascii_lowercase();
    locale.is_empty() || locale.contains("utf-8") || locale.contains("utf8")
}
