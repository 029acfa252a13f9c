//! `replSetGetStatus`: the states of the members of a replica set, and how far each is behind the primary.
//!
//! Format: `mongodb_replica_set_state` and `mongodb_replica_set_lag_seconds` are of the server that is asked;
//! `mongodb_replica_set_member_state`, `mongodb_replica_set_member_health` and
//! `mongodb_replica_set_member_lag_seconds` of each member that it sees, by the label `member`. All have the label
//! `replica_set`. States are MongoDB's: 1 primary, 2 secondary, 7 arbiter, 8 down and so on. The lag is the difference
//! of the last writes that are applied; there is none without a primary, nor of members that are down or hold no data.
//! Limits: those of `readings`.

use serde_json::Value;

use crate::readings::{Metric, Readings, text_of};
use crate::run::{Failure, Reason, Run};

const PRIMARY: f64 = 1.0;
const ARBITER: f64 = 7.0;

/// A member, as the server that is asked sees it.
struct Member<'a> {
    name: &'a str,
    state: f64,
    is_healthy: bool,
    /// When the last write was made that it has applied, in seconds since 1970.
    applied: Option<f64>,
    is_self: bool,
}

impl<'a> Member<'a> {
    fn parse(value: &'a Value) -> Option<Self> {
        let number = |name: &str| value.get(name).and_then(Value::as_f64);
        let (state, is_healthy) = (number("state")?, number("health")? > 0.0);
        // Members that are down have the one of 1970.
        let applied = number("optimeDate").filter(|applied| is_healthy && state != ARBITER && *applied > 0.0);
        let is_self = value.get("self").and_then(Value::as_bool).unwrap_or_default();
        Some(Self { name: text_of(value, "name"), state, is_healthy, applied, is_self })
    }
}

/// Reports what an answer says.
pub(crate) fn report(run: &mut Run, answer: &Value) -> Result<(), Failure> {
    let strange = || Failure::new(Reason::Protocol, "what the server says is no status of a replica set");
    let members = answer.get("members").and_then(Value::as_array).ok_or_else(strange)?;
    let members: Option<Vec<Member<'_>>> = members.iter().map(Member::parse).collect();
    let (members, own) = (members.ok_or_else(strange)?, answer.get("myState").and_then(Value::as_f64));
    let (own, set) = (own.ok_or_else(strange)?, text_of(answer, "set"));
    let newest = members.iter().filter(|member| member.state == PRIMARY).filter_map(|member| member.applied);
    let newest = newest.reduce(f64::max);
    let mut readings = Readings::new(run);
    let mut add = |name: &str, member: &str, value: f64| {
        let unit = if name.ends_with("_seconds") { "s" } else { "" };
        let metric = Metric { name: format!("mongodb_replica_set_{name}"), unit: unit.into(), is_counter: false };
        readings.add(&metric, &[("replica_set", set), ("member", member)], value)
    };
    add("state", "", own)?;
    for Member { name, state, is_healthy, applied, is_self } in members {
        add("member_state", name, state)?;
        add("member_health", name, f64::from(u8::from(is_healthy)))?;
        if let (Some(newest), Some(applied)) = (newest, applied) {
            // What is known of the primary may be older than what is known of a secondary.
            let lag = (newest - applied).max(0.0);
            add("member_lag_seconds", name, lag)?;
            if is_self {
                add("lag_seconds", "", lag)?;
            }
        }
    }
    readings.end()
}

#[cfg(test)]
mod tests {
    use ogive_probe::Clock;
    use serde_json::json;

    use super::*;

    fn found(answer: &Value) -> (Result<(), Failure>, Vec<String>) {
        let mut run = Run::begin(Clock::manual(1_000, 1_700_000_000_000_000_000));
        let end = report(&mut run, answer);
        let numbers = run.numbers(&Ok(()));
        (end, numbers.into_iter().filter(|number| number.starts_with("mongodb_")).collect())
    }

    #[test]
    fn states_and_lags_are_reported() {
        let mut answer = json!({"set": "rs0", "myState": 2, "ok": 1.0, "members": [
            {"name": "a:1", "health": 1.0, "state": 1, "optimeDate": 1_700_000_007.0},
            {"name": "b:1", "health": 1.0, "state": 2, "optimeDate": 1_700_000_004.5, "self": true},
            {"name": "c:1", "health": 1.0, "state": 7},
            {"name": "d:1", "health": 0.0, "state": 8, "optimeDate": 0},
            {"name": "e:1", "health": 1.0, "state": 2, "optimeDate": 1_700_000_008},
        ]});
        let (end, lines) = found(&answer);
        assert_eq!(end, Ok(()));
        let expected = [
            "mongodb_replica_set_state{replica_set=\"rs0\"} 2 gauge",
            "mongodb_replica_set_member_state{member=\"a:1\", replica_set=\"rs0\"} 1 gauge",
            "mongodb_replica_set_member_health{member=\"a:1\", replica_set=\"rs0\"} 1 gauge",
            "mongodb_replica_set_member_lag_seconds{member=\"a:1\", replica_set=\"rs0\"} 0 gauge s",
            "mongodb_replica_set_member_state{member=\"b:1\", replica_set=\"rs0\"} 2 gauge",
            "mongodb_replica_set_member_health{member=\"b:1\", replica_set=\"rs0\"} 1 gauge",
            "mongodb_replica_set_member_lag_seconds{member=\"b:1\", replica_set=\"rs0\"} 2.5 gauge s",
            "mongodb_replica_set_lag_seconds{replica_set=\"rs0\"} 2.5 gauge s",
            "mongodb_replica_set_member_state{member=\"c:1\", replica_set=\"rs0\"} 7 gauge",
            "mongodb_replica_set_member_health{member=\"c:1\", replica_set=\"rs0\"} 1 gauge",
            "mongodb_replica_set_member_state{member=\"d:1\", replica_set=\"rs0\"} 8 gauge",
            "mongodb_replica_set_member_health{member=\"d:1\", replica_set=\"rs0\"} 0 gauge",
            "mongodb_replica_set_member_state{member=\"e:1\", replica_set=\"rs0\"} 2 gauge",
            "mongodb_replica_set_member_health{member=\"e:1\", replica_set=\"rs0\"} 1 gauge",
            "mongodb_replica_set_member_lag_seconds{member=\"e:1\", replica_set=\"rs0\"} 0 gauge s",
        ];
        assert_eq!(lines, expected);
        // While there is no primary, nobody is behind it.
        answer["members"][0]["state"] = json!(2);
        let (end, lines) = found(&answer);
        assert_eq!((end, lines.iter().any(|line| line.contains("lag"))), (Ok(()), false));
    }

    #[test]
    fn what_is_no_status_is_refused() {
        for answer in [
            json!({}),
            json!({"myState": 1}),
            json!({"members": []}),
            json!({"myState": 1, "members": [{"name": "a:1", "state": 1}]}),
        ] {
            assert_eq!(found(&answer).0.unwrap_err().reason, Reason::Protocol, "{answer}");
        }
        let twice = json!({"myState": 1, "members": [{"state": 1, "health": 1}, {"state": 2, "health": 1}]});
        assert_eq!(found(&twice).0.unwrap_err().reason, Reason::Content);
    }
}
