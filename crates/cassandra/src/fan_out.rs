//! Asking several clusters at once: what comes from those that answer, and who did not.
//!
//! Limits: once one of them has answered, the others have [`PATIENCE`] left; a cluster that misses it is away until it
//! answers a probe, and nobody waits for it meanwhile.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;

use crate::Error;
use crate::site::Site;
use crate::waiting::Waiting;

/// 400 ms after the first answer: a lost data centre costs one query at most this much. Two that are well answer within
/// some ten.
const PATIENCE: Duration = Duration::from_millis(400);
/// 1 s between two probes.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// 2 s: a cluster that takes this long for one small row is no help.
const PROBE_MAX: Duration = Duration::from_secs(2);

/// What each answers: in the order of `asked`, and an error for those that were too late.
pub(crate) async fn answers<T>(asked: Vec<impl Future<Output = Result<T, Error>>>) -> Vec<Result<T, Error>> {
    let mut waiting = Waiting::new(asked);
    let mut patience = pin!(None::<tokio::time::Sleep>);
    std::future::poll_fn(|context| {
        if waiting.poll(context).is_ready() {
            return Poll::Ready(());
        }
        let is_answered = waiting.outcomes().iter().any(|outcome| matches!(outcome, Some(Ok(_))));
        if is_answered && patience.is_none() {
            patience.set(Some(tokio::time::sleep(PATIENCE)));
        }
        patience.as_mut().as_pin_mut().map_or(Poll::Pending, |sleep| sleep.poll(context))
    })
    .await;
    let late = || Err(Error::Unavailable(format!("no answer within {PATIENCE:?} of the other cluster's")));
    waiting.into_outcomes().into_iter().map(|outcome| outcome.unwrap_or_else(late)).collect()
}

/// Looks again and again whether a cluster answers, until `ending` is true.
pub(crate) async fn probe(site: Arc<Site>, mut ending: watch::Receiver<bool>) {
    loop {
        if let Some(cluster) = site.cluster.get() {
            let answered = tokio::time::timeout(PROBE_MAX, cluster.days()).await;
            site.set_away(!matches!(answered, Ok(Ok(_))));
        }
        tokio::select! {
            () = tokio::time::sleep(PROBE_EVERY) => {}
            _ = ending.wait_for(|ending| *ending) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn outcome(which: u8) -> Result<u8, Error> {
        match which {
            0 => Err(Error::Unavailable("down".into())),
            1 => std::future::pending().await,
            other => Ok(other),
        }
    }

    #[tokio::test]
    async fn who_answers_is_heard_and_who_does_not_is_not_waited_for() {
        for (asked, expected) in
            [(vec![7], vec![Some(7)]), (vec![0, 7], vec![None, Some(7)]), (vec![7, 1], vec![Some(7), None])]
        {
            let heard = answers(asked.iter().map(|one| outcome(*one)).collect()).await;
            assert_eq!(heard.into_iter().map(Result::ok).collect::<Vec<_>>(), expected, "{asked:?}");
        }
        assert!(answers(vec![outcome(0), outcome(0)]).await.iter().all(Result::is_err));
    }
}
