//! Batches to a server, one after the other.

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use ogive_interchange::Numbered;
use ogive_interchange::batches::{PLACES_MAX, RefusedInput};
use ogive_model::{Batch, Value};

use crate::cli::client::{Failure, Server, Session};

/// Consecutive failures to deliver a batch: with waits of 1 s up to 30 s some three minutes.
pub(super) const TRIES: u32 = 10;
const WAIT_MAX: Duration = Duration::from_secs(30);

const FRAME: &str = "application/x-ogive-batch-flatbuffer";

/// The results of batches.
#[derive(Default)]
pub(super) struct Sent {
    pub(super) batches: u64,
    pub(super) accepted: u64,
    pub(super) duplicate: u64,
    pub(super) folded: u64,
    pub(super) rejected: BTreeMap<String, RefusedInput>,
    /// Why no more are sent.
    pub(super) failure: Option<Failure>,
}

/// Sends what is received, or discards it when there is no server.
pub(super) fn send_all(receiver: Receiver<Numbered>, server: Option<&Server>) -> Sent {
    let mut out = Sent::default();
    let session = match server.map(Server::session).transpose() {
        Ok(session) => session,
        Err(failure) => {
            out.failure = Some(failure);
            return out;
        }
    };
    for numbered in receiver {
        if let Some(session) = &session
            && let Err(failure) = send(session, &numbered, &mut out)
        {
            out.failure = Some(failure);
            return out;
        }
        out.batches += 1;
    }
    out
}

fn send(session: &Session<'_>, numbered: &Numbered, out: &mut Sent) -> Result<(), Failure> {
    let frame = numbered.batch.encode().map_err(|error| Failure::Usage(error.to_string()))?;
    let mut wait = Duration::from_secs(1);
    let mut tries = 0;
    let answer = loop {
        tries += 1;
        match session.post("/v1/batch", FRAME, &frame) {
            Ok(answer) => break answer,
            Err(Failure::Unreachable(message) | Failure::Refused { status: 429 | 502 | 503 | 504, message })
                if tries < TRIES =>
            {
                eprintln!("ogive: {message}; trying again in {} s, {tries} of {TRIES}", wait.as_secs());
                std::thread::sleep(wait);
                wait = (2 * wait).min(WAIT_MAX);
            }
            Err(failure) => return Err(failure),
        }
    };
    let answer: serde_json::Value = serde_json::from_str(&answer)
        .map_err(|error| Failure::Unreachable(format!("the answer is none of an Ogive: {error}")))?;
    let number = |name: &str| answer[name].as_u64().unwrap_or_default();
    out.accepted += number("accepted");
    out.duplicate += number("duplicate");
    out.folded += number("folded");
    let places = in_frame(&numbered.batch, &numbered.places);
    for rejected in answer["rejected"].as_array().into_iter().flatten() {
        let reason = rejected["reason"].as_str().unwrap_or("unknown");
        let bad = out.rejected.entry(reason.to_owned()).or_default();
        bad.count += 1;
        let place = rejected["sample"].as_u64().and_then(|at| places.get(at as usize));
        if let Some(place) = place.filter(|_| bad.places.len() < PLACES_MAX) {
            bad.places.push((*place, rejected["detail"].as_str().unwrap_or_default().to_owned()));
        }
    }
    Ok(())
}

/// The positions in the order in which a frame numbers its samples: floats, histograms of integers, those of floats,
/// texts.
fn in_frame(batch: &Batch, places: &[u64]) -> Vec<u64> {
    let column = |at: &usize| match &batch.samples[*at] {
        Ok(sample) => match sample.value {
            Value::Float(_) => 0,
            Value::Histogram(_) => 1,
            Value::FloatHistogram(_) => 2,
            Value::Text(_) => 3,
        },
        Err(_) => 4,
    };
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by_key(column);
    order.into_iter().map(|at| places[at]).collect()
}
