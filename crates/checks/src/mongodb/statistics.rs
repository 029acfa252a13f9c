//! `serverStatus`: what a server counts and holds.
//!
//! Format: a number is `mongodb_PATH`, its names in snake case: `mongodb_opcounters_insert`. In `locks` the kind of a
//! resource and the mode of a lock are the labels `name` and `mode`, in `metrics.commands` the command is the label
//! `name`. [`is_counter`] is the rule by which a number is a counter. Lists are left out.
//! Limits: those of `readings`.

use serde_json::Value;

use crate::raw::Raw;
use crate::readings::{self, Metric, Readings, numbers, snake};
use crate::run::{Failure, Reason, Run};

/// The parts that are read where a check names none. Of some servers many are missing.
const FIELDS: [&str; 10] = [
    "asserts",
    "connections",
    "extra_info.page_faults",
    "globalLock",
    "mem",
    "network",
    "opLatencies",
    "opcounters",
    "uptime",
    "wiredTiger.cache",
];
/// What the name of a number of WiredTiger's cache has that is a state: its other numbers count.
const STATES: [&str; 14] = [
    "active eviction walks",
    "allocated for updates",
    "belonging to",
    "configured",
    "currently",
    "empty score",
    "eviction state",
    "length",
    "max",
    "on-disk size",
    "percentage",
    "stable number",
    "thread active",
    "tracked",
];

/// What is a state below `metrics`, where everything else counts since the server's start: a path, and what lies below
/// it. By the manual's page on `serverStatus`, and by MongoDB's source where that says nothing: `Atomic64Metric` and
/// `MovingAverageMetric` are states, and so is a `Counter64` that is decremented.
const METRICS_STATES: [&[&str]; 28] = [
    // The longest wait for the cache that was seen, and the limit for it.
    &["cachePressure", "observedCacheWaitTime"],
    &["cachePressure", "waitTimeThreshold"],
    &["cursor", "open"],
    // Moving averages.
    &["network", "averageTimeToCompletedAuthMicros"],
    &["network", "averageTimeToCompletedHelloMicros"],
    &["network", "averageTimeToCompletedTLSHandshakeMicros"],
    // The longest delay that was seen, and operations that wait now.
    &["operation", "interrupt", "overdueInterruptApproxMaxMillisFromSample"],
    &["operation", "writeConflictRetryWaiters"],
    &["query", "aggregation", "nonTicketed", "maxMillis"],
    // The size of the plan cache; the older names are those up to 7.0.
    &["query", "planCache", "totalQueryShapes"],
    &["query", "planCache", "totalSizeEstimateBytes"],
    &["query", "planCacheTotalQueryShapes"],
    &["query", "planCacheTotalSizeEstimateBytes"],
    &["query", "updateDeleteManyDurationMaxMs"],
    &["queryStats", "maxSizeBytes"],
    &["queryStats", "numEntries"],
    &["queryStats", "numPartitions"],
    &["queryStats", "queryStatsStoreSizeEstimateBytes"],
    &["repl", "buffer"],
    // Its `counters` count, in servers that have them.
    &["repl", "executor", "eventWaiters"],
    &["repl", "executor", "pool"],
    &["repl", "executor", "queues"],
    &["repl", "executor", "shuttingDown"],
    &["repl", "executor", "unsignaledEvents"],
    &["repl", "heartBeat"],
    // Of the last transition: both are set to zero before each.
    &["repl", "stateTransition", "userOperationsKilled"],
    &["repl", "stateTransition", "userOperationsRunning"],
    &["repl", "waiters"],
];

/// The key `fields`: the parts that are wanted, none where it is empty.
///
/// # Errors
/// A name that is none, or lies within another.
pub(crate) fn fields(raw: &mut Raw) -> Result<Vec<String>, String> {
    if raw.fields.as_ref().is_some_and(Vec::is_empty) {
        raw.fields = None;
        return Ok(Vec::new());
    }
    let fields = readings::fields(raw, |field| field.split('.').all(|name| !name.is_empty()))?;
    if fields.is_empty() {
        return Ok(FIELDS.map(str::to_owned).into());
    }
    for (at, field) in fields.iter().enumerate() {
        let is_within = |other: &String| {
            let rest = field.strip_prefix(other.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let mut others = fields.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, other)| other);
        if let Some(other) = others.find(|other| is_within(other)) {
            return Err(format!("fields: {field:?} is in {other:?} already"));
        }
    }
    Ok(fields)
}

/// Reports the numbers of an answer that stand in `fields`.
pub(crate) fn report(run: &mut Run, answer: &Value, fields: &[String]) -> Result<(), Failure> {
    let mut readings = Readings::new(run);
    for field in fields {
        let mut path: Vec<&str> = field.split('.').collect();
        let found = path.iter().try_fold(answer, |value, name| value.get(*name));
        let Some(found) = found else { continue };
        numbers(found, &mut path, &mut |path: &[&str], number: f64| {
            let (name, labels) = apart(path);
            readings.add(&metric(path, &name), &labels, number)
        })?;
    }
    if readings.count() == 0 {
        return Err(Failure::new(
            Reason::Content,
            format!("there is no number of {} in serverStatus", fields.join(", ")),
        ));
    }
    readings.end()
}

/// A path without the names that are labels, and those.
fn apart<'a>(path: &[&'a str]) -> (Vec<&'a str>, Vec<(&'static str, &'a str)>) {
    match path {
        ["locks", resource, what, mode] => (vec!["locks", *what], vec![("name", *resource), ("mode", *mode)]),
        ["metrics", "commands", command, rest @ ..] if !rest.is_empty() => {
            ([&["metrics", "commands"][..], rest].concat(), vec![("name", *command)])
        }
        _ => (path.to_vec(), Vec::new()),
    }
}

/// The metric of the number at `path`, which is called `name`.
fn metric(path: &[&str], name: &[&str]) -> Metric {
    let last = name.last().copied().unwrap_or_default();
    let words: Vec<String> = name.iter().map(|name| snake(name)).collect();
    let is_of_bytes = last.split(' ').any(|word| word == "bytes");
    let unit = match path {
        ["mem", "resident" | "virtual" | "mapped" | "mappedWithJournal"] => "MiBy",
        ["uptime"] => "s",
        ["globalLock", "totalTime"] | ["opLatencies", .., "latency"] => "us",
        ["network", .., "bytesIn" | "bytesOut" | "physicalBytesIn" | "physicalBytesOut"] => "By",
        _ if is_of_bytes => "By",
        _ if last.ends_with("Micros") => "us",
        _ if last.ends_with("Millis") => "ms",
        _ => "",
    };
    Metric { name: format!("mongodb_{}", words.join("_")), unit: unit.into(), is_counter: is_counter(path) }
}

/// Whether a number counts since the server's start: by the part that it is of.
fn is_counter(path: &[&str]) -> bool {
    match path {
        ["asserts" | "opcounters" | "opcountersRepl" | "opLatencies" | "locks", ..]
        | ["connections", "totalCreated" | "rejected"]
        | ["globalLock", "totalTime"]
        | ["extra_info", "page_faults"] => true,
        ["network", "serviceExecutors", ..] => false,
        ["network", "tcpFastOpen", last] => *last == "accepted",
        ["network", ..] => true,
        ["metrics", rest @ ..] => !METRICS_STATES.iter().any(|state| rest.starts_with(state)),
        ["wiredTiger", "cache", last] => !STATES.iter().any(|state| last.contains(state)),
        [.., last] => is_total(last),
        [] => false,
    }
}

/// Whether a name is like `totalStarted`. `total` alone is the sum of the states beside it, and `totalTickets` are
/// those that there are.
fn is_total(name: &str) -> bool {
    let what = name.strip_prefix("total").filter(|what| *what != "Tickets");
    what.is_some_and(|what| what.starts_with(|letter: char| letter.is_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use ogive_probe::Clock;
    use serde_json::json;

    use super::*;

    fn found(answer: &Value, fields: &[&str]) -> (Result<(), Failure>, Vec<String>) {
        let mut run = Run::begin(Clock::manual(1_000, 1_700_000_000_000_000_000));
        let fields: Vec<String> = fields.iter().map(|field| (*field).to_owned()).collect();
        let end = report(&mut run, answer, &fields);
        let numbers = run.numbers(&Ok(()));
        (end, numbers.into_iter().filter(|number| number.starts_with("mongodb_")).collect())
    }

    #[test]
    fn what_a_server_counts_and_holds_are_series() {
        let answer = json!({
            "host": "h", "uptime": 5.0, "localTime": 1_700_000_000,
            "asserts": {"regular": 0, "user": 3},
            "connections": {"current": 4, "available": 816, "totalCreated": 9, "rejected": 1},
            "extra_info": {"note": "x", "page_faults": 2},
            "globalLock": {"totalTime": 7_000, "currentQueue": {"total": 1, "readers": 1}},
            "mem": {"bits": 64, "resident": 120, "supported": true},
            "network": {"bytesIn": 10, "numRequests": 6, "tcpFastOpen": {"kernelSetting": 1, "accepted": 8},
                "serviceExecutors": {"fixed": {"threadsRunning": 2}}},
            "opLatencies": {"reads": {"latency": 99, "ops": 3, "histogram": [{"micros": 1, "count": 2}]}},
            "opcounters": {"insert": 1, "getmore": 0},
            "wiredTiger": {"uri": "x", "cache": {"bytes currently in the cache": 512, "bytes read into cache": 64,
                "maximum bytes configured": 1024, "modified pages evicted": 5, "eviction worker thread active": 4,
                "files with active eviction walks": 0,
                "pages selected for eviction unable to be evicted because of active children on an internal page": 6}},
        });
        let (end, lines) = found(&answer, &FIELDS);
        assert_eq!(end, Ok(()));
        let expected = [
            "mongodb_asserts_regular 0 cumulative",
            "mongodb_asserts_user 3 cumulative",
            "mongodb_connections_available 816 gauge",
            "mongodb_connections_current 4 gauge",
            "mongodb_connections_rejected 1 cumulative",
            "mongodb_connections_total_created 9 cumulative",
            "mongodb_extra_info_page_faults 2 cumulative",
            "mongodb_global_lock_current_queue_readers 1 gauge",
            "mongodb_global_lock_current_queue_total 1 gauge",
            "mongodb_global_lock_total_time 7000 cumulative us",
            "mongodb_mem_bits 64 gauge",
            "mongodb_mem_resident 120 gauge MiBy",
            "mongodb_mem_supported 1 gauge",
            "mongodb_network_bytes_in 10 cumulative By",
            "mongodb_network_num_requests 6 cumulative",
            "mongodb_network_service_executors_fixed_threads_running 2 gauge",
            "mongodb_network_tcp_fast_open_accepted 8 cumulative",
            "mongodb_network_tcp_fast_open_kernel_setting 1 gauge",
            "mongodb_op_latencies_reads_latency 99 cumulative us",
            "mongodb_op_latencies_reads_ops 3 cumulative",
            "mongodb_opcounters_getmore 0 cumulative",
            "mongodb_opcounters_insert 1 cumulative",
            "mongodb_uptime 5 gauge s",
            "mongodb_wired_tiger_cache_bytes_currently_in_the_cache 512 gauge By",
            "mongodb_wired_tiger_cache_bytes_read_into_cache 64 cumulative By",
            "mongodb_wired_tiger_cache_eviction_worker_thread_active 4 gauge",
            "mongodb_wired_tiger_cache_files_with_active_eviction_walks 0 gauge",
            "mongodb_wired_tiger_cache_maximum_bytes_configured 1024 gauge By",
            "mongodb_wired_tiger_cache_modified_pages_evicted 5 cumulative",
            "mongodb_wired_tiger_cache_pages_selected_for_eviction_unable_to_be_evicted_because_of_active_children_on_an_\
             internal_page 6 cumulative",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn locks_and_commands_have_labels() {
        let answer = json!({
            "locks": {"Global": {"acquireCount": {"r": 3, "R": 1}, "timeAcquiringMicros": {"w": 5}}},
            "metrics": {
                "commands": {"find": {"total": 7, "failed": 1}},
                "cursor": {"open": {"total": 2}, "timedOut": 1},
            },
        });
        let (end, lines) = found(&answer, &["locks", "metrics"]);
        assert_eq!(end, Ok(()));
        let expected = [
            "mongodb_locks_acquire_count{mode=\"R\", name=\"Global\"} 1 cumulative",
            "mongodb_locks_acquire_count{mode=\"r\", name=\"Global\"} 3 cumulative",
            "mongodb_locks_time_acquiring_micros{mode=\"w\", name=\"Global\"} 5 cumulative us",
            "mongodb_metrics_commands_failed{name=\"find\"} 1 cumulative",
            "mongodb_metrics_commands_total{name=\"find\"} 7 cumulative",
            "mongodb_metrics_cursor_open_total 2 gauge",
            "mongodb_metrics_cursor_timed_out 1 cumulative",
        ];
        assert_eq!(lines, expected);
        assert_eq!(found(&answer, &["mem", "metrics.none"]).0.unwrap_err().reason, Reason::Content);
    }

    #[test]
    fn totals_are_counters_where_they_say_of_what() {
        for (name, is_it) in [
            ("totalStarted", true),
            ("totalTickets", false),
            ("total", false),
            ("total_free_bytes", false),
            ("started", false),
        ] {
            assert_eq!(is_counter(&["transactions", name]), is_it, "{name}");
        }
    }

    /// All but open cursors and the buffer were counters: a rate of what waits is nothing, and each time it shrank
    /// looked like a restart.
    #[test]
    fn metrics_are_states_where_the_table_says_so() {
        assert!(METRICS_STATES.is_sorted(), "the table is in order");
        for (path, is_it) in [
            ("cursor.open.pinned", false),
            ("cursor.timedOut", true),
            ("cursor.totalOpened", true),
            ("document.returned", true),
            ("mongos.cursor.totalOpened", true),
            ("network.averageTimeToCompletedHelloMicros", false),
            ("network.totalEgressConnectionEstablishmentTimeMillis", true),
            ("operation.writeConflicts", true),
            ("operation.writeConflictRetryWaiters", false),
            ("operatorCounters.expressions.$max", true),
            ("query.planCache.classic.hits", true),
            ("query.planCache.totalSizeEstimateBytes", false),
            ("query.planCacheTotalSizeEstimateBytes", false),
            ("queryExecutor.collectionScans.total", true),
            ("queryExecutor.scannedObjects", true),
            ("queryStats.numEvicted", true),
            ("queryStats.queryStatsStoreSizeEstimateBytes", false),
            ("repl.apply.batchSize", true),
            ("repl.apply.ops", true),
            ("repl.buffer.apply.sizeBytes", false),
            ("repl.buffer.count", false),
            ("repl.executor.counters.waits", true),
            ("repl.executor.queues.sleepers", false),
            ("repl.network.bytes", true),
            ("repl.network.getmores.num", true),
            ("repl.stateTransition.totalOperationsKilledByIntentRegistry", true),
            ("repl.stateTransition.userOperationsKilled", false),
            ("repl.waiters.opTime", false),
            ("ttl.passes", true),
        ] {
            let path: Vec<&str> = ["metrics"].into_iter().chain(path.split('.')).collect();
            assert_eq!(is_counter(&path), is_it, "{path:?}");
        }
    }

    #[test]
    fn fields_do_not_overlap() {
        let of = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            fields(&mut Raw { fields: Some(names), ..Raw::default() })
        };
        assert_eq!(of(&[]), Ok(Vec::new()));
        assert_eq!(of(&["mem", "memory"]).unwrap().len(), 2);
        assert_eq!(fields(&mut Raw::default()).unwrap(), FIELDS);
        for (names, sentence) in [
            (&["wiredTiger.cache", "wiredTiger"][..], "\"wiredTiger.cache\" is in \"wiredTiger\" already"),
            (&["mem", "mem"], "\"mem\" is in \"mem\" already"),
            (&["a..b"], "\"a..b\" is no part of the statistics"),
        ] {
            let found = of(names).unwrap_err();
            assert!(found.contains(sentence), "{found}");
        }
    }
}
