//! Why an exporter does not start, or does not take something to measure.

/// The message says what the caller can do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address cannot be sent to: correct it.
    #[error("{address:?} is not an address to send to: {what}; write it as http://host:6448")]
    Address {
        /// The address as given.
        address: String,
        /// What is wrong with it.
        what: String,
    },
    /// A name, label or width breaks the rules of series: correct it.
    #[error("the series {name:?} cannot be exported: {source}")]
    Series {
        /// The metric's name.
        name: String,
        /// The rule.
        source: ogive_model::Error,
    },
    /// A setting is outside its range: correct it.
    #[error("{what} is {found}; it must be {wanted}")]
    Setting {
        /// The setting.
        what: &'static str,
        /// The given value.
        found: String,
        /// Its range.
        wanted: &'static str,
    },
    /// More series than one process may have: measure with less detail, or forget series that have ended.
    #[error("this process exports {limit} series already; use fewer label values, or forget series that have ended")]
    TooManySeries {
        /// The limit.
        limit: usize,
    },
    /// The system could not create a thread: try again.
    #[error("cannot start the thread {name}: {source}")]
    Spawn {
        /// Its name.
        name: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// This process is a child of fork, and the exporter's threads stayed with the parent: start an exporter here.
    #[error("the exporter was started by process {parent} and does not run in its children; start one here")]
    Forked {
        /// The process that started it.
        parent: u32,
    },
}
