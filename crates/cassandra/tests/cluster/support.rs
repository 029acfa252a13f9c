//! The cluster, stores over it, and batches into them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ogive_cassandra::{Address, Cluster, Node, Options};
use ogive_door::backend::{Backend, Refusal, Stamps, Step};
use ogive_journal::RealDisk;
use ogive_model::{Batch, Ms, Select, Tenant, Verdict, WallMs};
use ogive_probe::Clock;
use ogive_query::{Engine, EngineOptions};
use ogive_store::{Options as StoreOptions, Store};

/// 180 s for a fact: the machine may be busy with three JVMs that start.
const PATIENCE: Duration = Duration::from_secs(180);

/// Waits for a fact.
pub(crate) fn eventually<T>(what: &str, mut fact: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = fact() {
            return found;
        }
        assert!(Instant::now() < until, "{what}: not after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// One node that wants a login, beside the three; its data go with it.
pub(crate) struct WithLogin {
    directory: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl WithLogin {
    /// Where CQL is.
    pub(crate) const HOST: &str = "127.0.0.1:9142";

    pub(crate) fn up() -> Self {
        Self::up_with(&[])
    }

    /// One that takes nobody without TLS and a certificate: `node.pem` and `ca.pem` in `files`.
    pub(crate) fn up_with_tls(files: &Path) -> Self {
        Self::up_with(&[("CASSANDRA_TLS", files.as_os_str().to_owned())])
    }

    fn up_with(more: &[Variable]) -> Self {
        let this = Self { directory: directory().join("login"), _turn: turn() };
        script(&this.directory, &["up", "1"], &[&Self::variables()[..], more].concat());
        this
    }

    fn variables() -> [Variable; 3] {
        let [port, jars] = at_port("9142");
        [port, jars, ("CASSANDRA_LOGIN", "1".into())]
    }
}

impl Drop for WithLogin {
    fn drop(&mut self) {
        script(&self.directory, &["wipe"], &Self::variables());
    }
}

/// Two clusters of one node each that know nothing of each other; their data go with them.
pub(crate) struct Pair {
    _turn: MutexGuard<'static, ()>,
}

impl Pair {
    /// Far from each other: a node also listens 2,042 and some 1,840 below its port.
    const PORTS: [&str; 2] = ["9542", "9642"];

    pub(crate) fn up() -> Self {
        let this = Self { _turn: turn() };
        (0..2).for_each(|which| this.run(which, &["up", "1"]));
        this
    }

    /// Runs a command of `scripts/cassandra` on one of the two.
    pub(crate) fn run(&self, which: usize, arguments: &[&str]) {
        let port = Self::PORTS[which];
        let [port, jars] = at_port(port);
        script(&self.directory(which), arguments, &[port, jars, ("CASSANDRA_SYNC", "1".into())]);
    }

    fn directory(&self, which: usize) -> PathBuf {
        directory().join(format!("pair-{}", Self::PORTS[which]))
    }

    /// A new keyspace in each: its address with `more` parameters.
    pub(crate) fn stores(&self, more: [&str; 2]) -> [String; 2] {
        let name = new_keyspace();
        let of = |which: usize| {
            let (port, more) = (Self::PORTS[which], more[which]);
            format!("cassandra://127.0.0.1:{port}/{name}?replicas=1&collect=50ms{more}")
        };
        let stores = [of(0), of(1)];
        for store in &stores {
            runtime().block_on(Cluster::init(&Address::parse(store).unwrap())).expect("the tables are made");
        }
        stores
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        (0..2).for_each(|which| self.run(which, &["wipe"]));
    }
}

/// Of the environment of `scripts/cassandra`.
type Variable = (&'static str, std::ffi::OsString);

/// For nodes beside the three, with the same jars.
fn at_port(port: &str) -> [Variable; 2] {
    [("CASSANDRA_PORT", port.into()), ("CASSANDRA_LIB", directory().join("lib").into_os_string())]
}

/// One test at a time: some of them kill.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `scripts/cassandra`.
fn script(directory: &Path, arguments: &[&str], variables: &[Variable]) {
    let mut command = Command::new(workspace().join("scripts/cassandra"));
    let command = command.arg(directory).args(arguments).envs(variables.iter().cloned());
    let done = command.output().expect("scripts/cassandra needs python3");
    let said = [done.stdout, done.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(done.status.success(), "scripts/cassandra {arguments:?}: {said}");
}

fn new_keyspace() -> String {
    format!("t{:x}", ogive_export::random_source().0 as u64)
}

/// Where `scripts/cassandra` puts nodes.
fn directory() -> PathBuf {
    let given = std::env::var_os("OGIVE_CASSANDRA_DIR").map(PathBuf::from);
    given.unwrap_or_else(|| workspace().join("target/cassandra"))
}

/// Three nodes of Cassandra.
pub(crate) struct Three {
    directory: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Three {
    /// All three, up.
    pub(crate) fn up() -> Self {
        let this = Self { directory: directory(), _turn: turn() };
        this.run(&["up", "3"]);
        this
    }

    /// Runs a command of `scripts/cassandra`.
    pub(crate) fn run(&self, arguments: &[&str]) {
        script(&self.directory, arguments, &[]);
    }

    /// Where a node's tables are.
    pub(crate) fn tables(&self, node: usize) -> PathBuf {
        self.directory.join(format!("node{node}/data/data"))
    }

    /// Where a node's log is.
    pub(crate) fn log(&self, node: usize) -> PathBuf {
        self.directory.join(format!("node{node}/log/system.log"))
    }

    /// Kills a node and removes what it holds of the tables of a keyspace that begin with `table`; its commit log and
    /// its hints would write them again, and go too.
    pub(crate) fn erase(&self, node: usize, keyspace: &str, table: &str) {
        let number = node.to_string();
        // What it knows of itself and of its peers stays.
        self.run(&["nodetool", &number, "drain"]);
        self.run(&["kill", &number]);
        for name in ["commitlog", "hints"] {
            for file in list(&self.tables(node).with_file_name(name)) {
                std::fs::remove_file(file).expect("the node is dead");
            }
        }
        let is_meant = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(table));
        let tables: Vec<PathBuf> = list(&self.tables(node).join(keyspace)).into_iter().filter(is_meant).collect();
        assert!(!tables.is_empty(), "the node has the keyspace");
        for path in tables {
            std::fs::remove_dir_all(&path).expect("the node is dead");
            std::fs::create_dir(&path).expect("its parent is there");
        }
    }

    /// A new keyspace with our tables.
    pub(crate) fn keyspace(&self) -> Address {
        let name = new_keyspace();
        let text = format!("cassandra://127.0.0.1,127.0.0.2,127.0.0.3/{name}?collect=50ms");
        let address = Address::parse(&text).unwrap();
        runtime().block_on(Cluster::init(&address)).expect("the tables are made");
        address
    }
}

/// What is in a directory; nothing where there is none.
pub(crate) fn list(path: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(path).map_or_else(|_| Vec::new(), |all| all.flatten().map(|one| one.path()).collect())
}

pub(crate) fn runtime() -> &'static tokio::runtime::Runtime {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap())
}

/// A node with its own spool.
pub(crate) fn node(address: &Address, directory: &Path) -> Node {
    node_over(std::slice::from_ref(address), directory)
}

/// A node over several clusters, with its own spool.
pub(crate) fn node_over(addresses: &[Address], directory: &Path) -> Node {
    let addresses = addresses.to_vec();
    Node::open(Options { addresses, directory: directory.to_owned(), clock: Clock::global() }).expect("the node opens")
}

struct Silent;

impl Stamps for Silent {
    fn stamp(&self, _step: Step) {}
}

/// Submits a batch, and waits for the verdict.
pub(crate) fn send(node: &Node, batch: Batch) -> Result<Verdict, Refusal> {
    let (sender, receiver) = channel();
    let reply = Box::new(move |outcome| drop(sender.send(outcome)));
    node.submit(batch, None, Arc::new(Silent), reply)?;
    receiver.recv().expect("each batch is answered")
}

/// Waits until a majority of the cluster has everything.
pub(crate) fn driven(node: &Node) {
    eventually("a majority has everything", || node.is_driven().then_some(()));
}

/// A figure of `/v1/status`.
pub(crate) fn fact(node: &Node, name: &str) -> u64 {
    let facts = node.facts();
    facts.iter().find(|fact| fact.name == name).unwrap_or_else(|| panic!("no figure {name}")).value as u64
}

struct Wall;

impl ogive_store::Clock for Wall {
    fn now(&self) -> ogive_model::MonoNs {
        ogive_model::MonoNs(Clock::global().now())
    }

    fn wall(&self) -> ogive_model::WallNs {
        ogive_model::WallNs(Clock::global().wall())
    }
}

/// The embedded store.
pub(crate) fn embedded(directory: &Path) -> Store {
    let options = StoreOptions { rollups: Vec::new(), ..StoreOptions::default() };
    Store::open(Arc::new(RealDisk), directory, options, Arc::new(Wall)).expect("the embedded store opens")
}

/// Submits a batch to the embedded store, and waits for the verdict.
pub(crate) fn store(store: &Store, batch: Batch) -> Verdict {
    let (sender, receiver) = channel();
    store.submit(batch, Box::new(move |outcome| drop(sender.send(outcome)))).expect("it is taken");
    receiver.recv().expect("each batch is answered").expect("and taken")
}

/// What the engine answers, as text: NaN is equal to itself, and every bit of a number counts.
pub(crate) fn answer(select: &dyn Select, query: &str, times: (i64, i64, i64)) -> String {
    let engine = Engine::new(EngineOptions { delayed_name_removal: true, ..EngineOptions::default() });
    let (start, end, step) = times;
    let result = if step == 0 {
        engine.instant(select, query, WallMs(start))
    } else {
        engine.range(select, query, WallMs(start), WallMs(end), Ms(step))
    };
    match result {
        Ok(result) => format!("{:?}", result.value),
        Err(error) => format!("error: {error}"),
    }
}

pub(crate) fn answer_of(node: &Node, tenant: &Tenant, query: &str, times: (i64, i64, i64)) -> String {
    struct AsSelect<'a>(Box<dyn ogive_model::Reader + 'a>);
    impl Select for AsSelect<'_> {
        fn select(
            &self,
            selection: &ogive_model::Selection,
        ) -> Result<Vec<ogive_model::SeriesData>, ogive_model::SelectError> {
            self.0.select(selection)
        }
        fn open<'a>(
            &'a self,
            selection: &ogive_model::Selection,
            opening: &ogive_model::Opening<'_>,
        ) -> Result<Box<dyn ogive_model::SeriesSet + 'a>, ogive_model::SelectError> {
            self.0.open(selection, opening)
        }
    }
    answer(&AsSelect(node.of(tenant)), query, times)
}

/// Runs a statement as an operator would.
pub(crate) fn statement(address: &Address, text: &str) {
    runtime().block_on(async {
        let session = scylla::client::session_builder::SessionBuilder::new().known_nodes(&address.hosts).build().await;
        let mut statement = scylla::statement::unprepared::Statement::new(text);
        statement.set_request_timeout(Some(Duration::from_secs(30)));
        session.expect("a node answers").query_unpaged(statement, ()).await.expect("the statement is carried out");
    });
}
