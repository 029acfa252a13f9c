//! Checks that one broker of a group runs: a lost broker's move to the others and come back with it, a restart of the
//! server moves none, and no period has two runs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;

use crate::common::brokers::broker;
use crate::common::{Server, eventually, form};
use crate::fleet::{Site, said};
use serde_json::Value;

const CHECKS: usize = 24;
const BROKERS: [&str; 3] = ["edge-1", "edge-2", "edge-3"];

/// Somebody who accepts every connection: its address.
fn target() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    address
}

/// The configuration of the group: one check of every broker, and many of one each.
fn group(target: &str) -> String {
    let check = |name: &str, more: &str| {
        format!("[[check]]\nname = {name:?}\nkind = \"tcp\"\ntarget = {target:?}\nperiod = \"1s\"\n{more}\n")
    };
    let spread: String = (0..CHECKS).map(|at| check(&format!("spread-{at}"), "")).collect();
    format!("[spread]\nbrokers = 1\nlease = \"10s\"\n{spread}{}", check("everywhere", "brokers = \"all\""))
}

/// Where each check runs, once each has exactly one place.
type Places = BTreeMap<String, String>;

fn places(site: &Site) -> Option<Places> {
    // One answer: between two of them a check may move.
    let list = site.server().get("/v1/fleet/brokers").1;
    let mut out = Places::new();
    for row in list["brokers"].as_array()? {
        let name = row["name"].as_str()?;
        for check in row["spread_checks"].as_array()? {
            let twice = out.insert(check.as_str()?.to_owned(), name.to_owned());
            assert!(twice.is_none(), "{check} is at {twice:?} and {name}");
        }
    }
    (out.len() == CHECKS).then_some(out)
}

/// The checks of a broker.
fn checks_of<'p>(places: &'p Places, broker: &str) -> BTreeSet<&'p str> {
    places.iter().filter(|(_, at)| *at == broker).map(|(check, _)| check.as_str()).collect()
}

/// Waits until `broker` has run `check` again.
fn runs_again(server: &Server, check: &str, broker: &str) {
    let runs =
        format!("sum(sum_over_time(ogive_check_runs_total{{check={check:?},broker={broker:?},result=\"ok\"}}[1h]))");
    let before = server.number(&runs).unwrap_or(0.0);
    eventually(&format!("{broker} runs {check}"), || server.number(&runs).filter(|count| *count > before));
}

/// The periods in which more than one broker ran a check, by check. Periods of a second have a cell each.
fn doubles(server: &Server) -> BTreeMap<String, Vec<i64>> {
    let selector = form("ogive_check_runs_total{check=~\"spread-.*\",result=\"ok\"}");
    let (status, body) = server.get(&format!("/v1/cells?match[]={selector}"));
    assert_eq!(status, 200, "{body}");
    let series = body["data"]["series"].as_array().unwrap();
    let mut runs: BTreeMap<(String, i64), usize> = BTreeMap::new();
    for sample in body["data"]["samples"].as_array().unwrap() {
        let labels: &Value = &series[sample["series"].as_u64().unwrap() as usize]["labels"];
        let check = labels["check"].as_str().unwrap().to_owned();
        *runs.entry((check, sample["time_ms"].as_i64().unwrap())).or_default() += 1;
    }
    assert!(runs.len() > CHECKS, "there are runs");
    let mut out: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for ((check, time_ms), _) in runs.into_iter().filter(|(_, count)| *count > 1) {
        out.entry(check).or_default().push(time_ms);
    }
    out
}

#[test]
fn a_lost_brokers_checks_move_alone_and_come_back_with_it() {
    let mut site = Site::new();
    let mut brokers = BROKERS.map(|name| site.broker(name, ""));
    BROKERS.iter().for_each(|name| site.comes(name));
    assert!(site.apply(&group(&target()), "one broker each").status.success());
    let first = eventually("each check has a place", || places(&site));
    for name in BROKERS {
        let own = checks_of(&first, name);
        assert!(!own.is_empty(), "{name} has none of {first:?}");
        runs_again(site.server(), own.first().unwrap(), name);
        runs_again(site.server(), "everywhere", name);
    }
    let listed = said(&site.fleet(&["brokers"]));
    assert!(listed.contains(" spread: spread-"), "{listed}");
    assert!(said(&site.fleet(&["list"])).contains("24 spread checks"));
    // One is lost: its checks go to the others, and only its.
    brokers[1].kill();
    let is_moved = |now: &Places| first.iter().all(|(check, at)| (*at == "edge-2") != (now[check] == *at));
    let second = eventually("its checks alone have other places", || places(&site).filter(is_moved));
    let moved = *checks_of(&first, "edge-2").first().unwrap();
    runs_again(site.server(), moved, &second[moved]);
    // It comes back, and so do they.
    brokers[1] = broker(&site.path("edge-2/broker.toml"));
    eventually("all is as before", || places(&site).filter(|now| *now == first));
    runs_again(site.server(), moved, "edge-2");
    let moves = site.server().get("/metrics").1;
    let moves = moves.as_str().unwrap().lines().find(|line| line.starts_with("ogive_fleet_moves_total "));
    let count: usize = moves.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(count >= 2 * checks_of(&first, "edge-2").len(), "there and back: {count}");
    restart(&mut site, &first);
    let doubles = doubles(site.server());
    // Two processes read the wall clock some microseconds apart: where a run is due just then, one period may have two.
    assert!(doubles.values().all(|periods| periods.len() <= 1), "{doubles:?}");
}

/// The server is killed and started: nothing moves, neither while it is away nor after it waited for all leases.
fn restart(site: &mut Site, first: &Places) {
    let address = site.address.clone();
    drop(site.server.take());
    site.server = Some(Server::start_at(&site.path("data"), &address));
    eventually("all is reported again", || places(site).filter(|now| now == first));
    // Longer than a lease and its margin.
    for _ in 0..15 {
        runs_again(site.server(), "everywhere", "edge-1");
    }
    assert_eq!(places(site).as_ref(), Some(first));
    let metrics = site.server().get("/metrics").1;
    let moves = metrics.as_str().unwrap().lines().find(|line| line.starts_with("ogive_fleet_moves_total "));
    assert!(moves.is_none(), "{moves:?}");
    for name in BROKERS {
        runs_again(site.server(), checks_of(first, name).first().unwrap(), name);
    }
}

#[test]
fn a_broker_that_is_cut_off_stops_and_one_whose_server_is_down_goes_on() {
    let mut site = Site::new();
    let brokers = BROKERS.map(|name| site.broker(name, ""));
    BROKERS.iter().for_each(|name| site.comes(name));
    assert!(site.apply(&group(&target()), "one broker each").status.success());
    let first = eventually("each check has a place", || places(&site));
    // One stands still: for the server that is the same as a cut line.
    brokers[2].signal("STOP");
    eventually("its checks have places", || places(&site).filter(|now| checks_of(now, "edge-3").is_empty()));
    brokers[2].signal("CONT");
    eventually("all is as before", || places(&site).filter(|now| *now == first));
    // The server is down for longer than a lease: every broker goes on with what it has.
    let own = checks_of(&first, "edge-1");
    let figure = |name: &str| {
        let metrics = brokers[0].get("/metrics").1;
        let line = metrics.as_str().unwrap().lines().find(|line| line.starts_with(&format!("{name} ")));
        line.map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap())
    };
    assert_eq!(figure("ogive_fleet_spread_checks_run"), Some(own.len()));
    let address = site.address.clone();
    drop(site.server.take());
    let clock = std::time::Instant::now();
    eventually("two leases pass", || (clock.elapsed().as_secs() >= 20).then_some(()));
    assert_eq!(figure("ogive_fleet_link_up"), Some(0));
    assert_eq!(figure("ogive_fleet_spread_checks_run"), Some(own.len()));
    assert_eq!(figure("ogive_fleet_leases_lost_total"), None);
    site.server = Some(Server::start_at(&site.path("data"), &address));
    eventually("all is reported again", || places(&site).filter(|now| *now == first));
}
