//! What every handler can reach.

use std::sync::Arc;

use ogive_door::Door;
use ogive_model::{MonoNs, Ns, WallMs, WallNs};
use ogive_protocol::remote_write::KnownSeries;
use ogive_storage::upkeep::Upkeep;

use super::cors::Cors;
use super::influx::Rules;
use super::limits::Limits;
use super::otlp::Otlp;
use super::web::Web;

/// State shared by all handlers; cloning shares it.
pub type App = Arc<Shared>;

/// See [`App`].
pub struct Shared {
    /// The entry point for all samples.
    pub door: Arc<Door>,
    /// Live cells, if enabled.
    pub live: Option<Arc<ogive_storage::live::Live>>,
    /// Evaluates queries.
    pub engine: ogive_query::Engine,
    /// When the server started.
    pub started: MonoNs,
    /// Limits on concurrent work.
    pub limits: Limits,
    /// The series that remote write and OTLP wrote before.
    pub written: KnownSeries,
    /// State shared by OTLP requests.
    pub otlp: Otlp,
    /// How InfluxDB's lines are read.
    pub influx: Rules,
    /// The checks of HTTPTrap.
    pub traps: crate::httptrap::Traps,
    /// Deletion is permitted.
    pub admin: bool,
    /// Maintenance of what is stored on this machine's disks.
    pub upkeep: Option<Upkeep>,
    /// Authentication and authorisation.
    pub web: Arc<Web>,
    /// Which pages of other sites may read responses; None when not configured.
    pub cors: Option<Cors>,
    /// Rules and alerts.
    pub alerting: Arc<ogive_alerting::rules_view::View>,
    /// The state of scraping.
    pub scrape: Arc<ogive_scrape::View>,
    /// The options that it was started with.
    pub flags: Flags,
    /// Which expressions took most time.
    pub slowest: super::slowest::Slowest,
    /// Brokers under this server; none where it cannot have any.
    pub fleet: Option<Arc<ogive_fleet::Fleet>>,
    /// The findings of the detectors.
    pub detection: Arc<ogive_alerting::detection::board::Board>,
}

impl Shared {
    /// The current instant of the wall clock.
    pub(crate) fn wall(&self) -> WallNs {
        WallNs(self.clock.wall())
    }

    /// The current millisecond of the wall clock.
    pub(crate) fn now(&self) -> WallMs {
        self.wall().to_ms()
    }

    /// How long the server has been running.
    pub(crate) fn uptime(&self) -> Ns {
        MonoNs(self.clock.now()).since(self.started)
    }
}

/// The fields of the door are reached as if they were here: `app.backend`.
impl std::ops::Deref for Shared {
    type Target = Arc<Door>;

    fn deref(&self) -> &Arc<Door> {
        &self.door
    }
}

/// The options with which the server was started.
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
    /// As given; several if the option was repeated.
    pub values: Vec<String>,
    /// The option was not given.
    pub is_default: bool,
}
