//! The filters of a role: those that come with Ogive, those of files, and those of the role's own configuration.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use ogive_door::backend::Backend;
use ogive_door::filtered::FilteredBackend;
use ogive_filter::{FILE_BYTES_MAX, File, Filter, NAMES, Stage};
use ogive_probe::Clock;

use crate::cli::{config_file, read_file};

/// Rules between listeners and the store.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(id = "filtering")]
pub(crate) struct FilterOptions {
    /// Filter lines before they are stored: the name of a built-in filter (`ogive filter list`) or a file with
    /// [[filter]] tables (docs/filters.md). Repeatable, applied in order; [[filter]] tables of the configuration
    /// file come last.
    #[arg(long, value_name = "NAME|FILE", env = "OGIVE_FILTERS", value_delimiter = ',')]
    pub(crate) filters: Vec<String>,
    /// The role's configuration, whose own tables count too.
    #[arg(skip)]
    pub(crate) config: Option<PathBuf>,
}

impl FilterOptions {
    /// The same with the tables of `config`.
    pub(crate) fn with_config(&self, config: Option<&Path>) -> Self {
        Self { config: config.map(Path::to_owned), ..self.clone() }
    }

    /// Reads every filter.
    pub(crate) fn open(&self) -> anyhow::Result<Stage> {
        let mut filters: Vec<Filter> = Vec::new();
        for name in &self.filters {
            filters.extend(file(name)?.filters);
        }
        if let Some(path) = &self.config {
            let text = config_file::text(path).map_err(anyhow::Error::msg)?;
            let own = File::parse_among(&text).map_err(|error| anyhow::anyhow!("{}, {error}", path.display()))?;
            filters.extend(own);
        }
        Stage::new(filters).map_err(anyhow::Error::msg).context("the filters cannot be used")
    }
}

/// The filters and cases of a file, or of the shipped filter of this name.
pub(crate) fn file(name: &str) -> anyhow::Result<File> {
    let text = match ogive_filter::text(name) {
        Some(text) => text.to_owned(),
        None => {
            let read = ogive_text::mistake::file_text(read_file, Path::new(name), FILE_BYTES_MAX);
            let hint = || format!("a filter is a file or one of {}", NAMES.join(", "));
            read.map_err(anyhow::Error::msg).with_context(hint)?
        }
    };
    File::parse(&text).map_err(|error| anyhow::anyhow!("{name}, {error}"))
}

/// `backend` behind `stage`, if that has any filter.
pub(crate) fn before(stage: Stage, backend: Arc<dyn Backend>, clock: Clock) -> Arc<dyn Backend> {
    if stage.is_empty() { backend } else { Arc::new(FilteredBackend::new(stage, backend, clock)) }
}
