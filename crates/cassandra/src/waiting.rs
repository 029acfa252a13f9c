//! Futures that are waited for together, on one task.

use std::pin::Pin;
use std::task::{Context, Poll};

/// Futures, each with its outcome once it has one.
pub(crate) struct Waiting<F: Future> {
    futures: Vec<Pin<Box<F>>>,
    outcomes: Vec<Option<F::Output>>,
}

impl<F: Future> Waiting<F> {
    pub(crate) fn new(futures: Vec<F>) -> Self {
        let outcomes = futures.iter().map(|_| None).collect();
        Self { futures: futures.into_iter().map(Box::pin).collect(), outcomes }
    }

    /// Goes on with those that have no outcome; ready once all have one.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        for (future, outcome) in self.futures.iter_mut().zip(&mut self.outcomes) {
            if outcome.is_none()
                && let Poll::Ready(value) = future.as_mut().poll(context)
            {
                *outcome = Some(value);
            }
        }
        if self.outcomes.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// What there is by now, in their order.
    pub(crate) fn outcomes(&self) -> &[Option<F::Output>] {
        &self.outcomes
    }

    /// What there is, in their order; those without an outcome are dropped.
    pub(crate) fn into_outcomes(self) -> Vec<Option<F::Output>> {
        self.outcomes
    }
}

/// Waits for all of them at once.
pub(crate) async fn all_of<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut waiting = Waiting::new(futures);
    std::future::poll_fn(|context| waiting.poll(context)).await;
    waiting.into_outcomes().into_iter().flatten().collect()
}
