//! The `tracing` layer as a user sees it: every span is measured once, whatever thread closes it.
//!
//! Run: `cargo test -p ogive-probe --features tracing --test spans`

use ogive_probe::{Clock, SpanCell, SpanLayer};
use tracing::{info_span, subscriber::with_default};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;

fn ns(cell: &SpanCell) -> (u64, u64, u64, u64) {
    let sum = |sum: Option<f64>| (sum.unwrap_or(0.0) * 1e9).round() as u64;
    (cell.total.count, sum(cell.total.sum), cell.busy.count, sum(cell.busy.sum))
}

#[test]
fn a_span_has_its_total_and_its_busy_time() {
    let clock = Clock::manual(1_000, 0);
    let layer = SpanLayer::new(clock);
    with_default(Registry::default().with(layer.clone()), || {
        let outer = info_span!("outer");
        clock.advance(10);
        for _ in 0..2 {
            let _entered = outer.enter();
            clock.advance(100);
            // Entered again in itself: the time counts once.
            outer.in_scope(|| clock.advance(7));
            info_span!("inner").in_scope(|| clock.advance(5));
        }
        clock.advance(1_000);
    });
    let cells = layer.snapshot();
    // A place is known from its first closing on: the inner span's was first.
    let [inner, outer] = &cells[..] else { panic!("two places: {cells:?}") };
    assert_eq!((inner.name, outer.name, outer.target), ("inner", "outer", "spans"));
    assert_eq!((ns(outer), ns(inner)), ((1, 1_234, 1, 224), (2, 10, 2, 10)));
    assert!(layer.snapshot().iter().all(|cell| cell.total.count == 0), "a snapshot takes what it gives");
}

#[test]
fn a_span_across_a_break_of_the_clock_is_counted_alone() {
    let clock = Clock::manual(1_000, 0);
    let layer = SpanLayer::new(clock);
    with_default(Registry::default().with(layer.clone()), || {
        let across = info_span!("across");
        clock.break_line();
        drop(across);
        drop(info_span!("after"));
    });
    let counts: Vec<_> = layer.snapshot().iter().map(|cell| (cell.name, cell.total.count)).collect();
    assert_eq!((counts, layer.straddled()), (vec![("after", 1)], 1));
}

#[test]
fn every_span_of_every_thread_is_in_one_snapshot() {
    const SPANS: u64 = 20_000;
    let layer = SpanLayer::new(Clock::global());
    let dispatch = tracing::Dispatch::new(Registry::default().with(layer.clone()));
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut seen = [0, 0];
    let mut take = |layer: &SpanLayer| {
        for cell in layer.snapshot() {
            assert!(cell.busy.sum <= cell.total.sum.map(|sum| sum * (1.0 + 1e-9)), "{cell:?}");
            seen[0] += cell.total.count;
            seen[1] += cell.busy.count;
        }
    };
    std::thread::scope(|scope| {
        // Made in one thread, entered and closed in another.
        let maker = dispatch.clone();
        scope.spawn(move || {
            tracing::dispatcher::with_default(&maker, || {
                (0..SPANS).for_each(|_| sender.send(info_span!("sent")).expect("the receiver is there"));
            });
        });
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let dispatch = dispatch.clone();
                scope.spawn(move || {
                    tracing::dispatcher::with_default(&dispatch, || {
                        (0..SPANS).for_each(|_| info_span!("own").in_scope(|| ()));
                    });
                })
            })
            .collect();
        for span in receiver {
            span.in_scope(|| ());
        }
        workers.into_iter().for_each(|worker| worker.join().expect("ends well"));
        take(&layer);
    });
    take(&layer);
    assert_eq!((seen, layer.straddled()), ([3 * SPANS, 3 * SPANS], 0));
}
