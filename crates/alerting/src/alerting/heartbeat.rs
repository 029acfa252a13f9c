//! Signs of life: sent while alerts are evaluated on time and delivered, so that whoever misses them knows that no
//! alert would come.

use ogive_notify::{Answer, Heartbeat};

use super::work::Work;

/// Sends signs until the server ends.
pub(super) fn beat_until_end(work: &Work) {
    let targets: Vec<Heartbeat> = work.options().alerting_heartbeat.iter().map(|url| Heartbeat::new(url)).collect();
    let mut problem = None;
    while !work.ends_within(work.options().alerting_heartbeat_interval) {
        let pulse = work.pulse();
        let mut beats = work.beats();
        let mut now = None;
        if pulse.is_alive() {
            for target in &targets {
                match target.send(&pulse, &work.options().alerting_external_url) {
                    Answer::Taken => beats.sent += 1,
                    Answer::Refused(error) | Answer::Failed(error) => {
                        beats.failed += 1;
                        now = Some(error);
                    }
                }
            }
        } else {
            beats.withheld += 1;
            now = Some(pulse.why_not());
        }
        work.note_beats(beats);
        if let Some(now) = now.as_ref().filter(|now| problem.as_ref() != Some(*now)) {
            tracing::warn!("no sign of life was sent: {now}");
        }
        problem = now;
    }
}
