//! What every handler can reach.

use std::sync::Arc;

use ogive_door::Door;
use ogive_protocol::remote_write::KnownSeries;
use ogive_storage::upkeep::Upkeep;

use super::cors::Cors;
use super::influx::Rules;
use super::limits::Limits;
use super::otlp::Otlp;
use super::web::Web;

/// What every handler can reach; cloning shares it.
pub type App = Arc<Shared>;

/// See [`App`].
pub struct Shared {
    /// The way in for samples.
    pub door: Arc<Door>,
    /// Live cells, where there are any.
    pub live: Option<Arc<ogive_storage::live::Live>>,
    /// Evaluates queries.
    pub engine: ogive_query::Engine,
    /// When the server started, on the clock's line.
    pub started_ns: u64,
    /// What may go on at once.
    pub limits: Limits,
    /// The series that remote write and OTLP wrote before.
    pub written: KnownSeries,
    /// What requests of OTLP have in common.
    pub otlp: Otlp,
    /// How InfluxDB's lines are read.
    pub influx: Rules,
    /// The checks of HTTPTrap.
    pub traps: crate::httptrap::Traps,
    /// Deletion may be asked for.
    pub admin: bool,
    /// The care for what is stored on this machine's disks.
    pub upkeep: Option<Upkeep>,
    /// Who may come in.
    pub web: Arc<Web>,
    /// Which pages of other sites may read answers; none when nobody says.
    pub cors: Option<Cors>,
    /// Rules and alerts.
    pub alerting: Arc<ogive_alerting::rules_view::View>,
    /// What is scraped.
    pub scrape: Arc<ogive_scrape::View>,
    /// The options that it was started with.
    pub flags: Flags,
    /// Which expressions took most time.
    pub slowest: super::slowest::Slowest,
    /// What the detectors found.
    pub detection: Arc<ogive_alerting::detection::board::Board>,
}

/// What is behind the door is reached as if it were here: `app.backend`.
impl std::ops::Deref for Shared {
    type Target = Arc<Door>;

    fn deref(&self) -> &Arc<Door> {
        &self.door
    }
}

/// The options of the server, for whoever asks how it was started.
#[derive(Clone, Debug, Default)]
pub struct Flags(pub Vec<Flag>);

impl Flags {
    /// The values of the option `name`.
    pub fn of(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|flag| flag.name == name).flat_map(|flag| flag.values.clone()).collect()
    }
}

/// One option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Without the dashes before it.
    pub name: String,
    /// As they were given, each of those that may be named several times.
    pub values: Vec<String>,
    /// Nobody gave it.
    pub is_default: bool,
}
