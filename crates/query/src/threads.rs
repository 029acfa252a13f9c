//! Numbered work on several threads.

use std::ops::Range;

/// The results of `share` for each part of `numbers`, in order: one part for each of at most `threads` threads, the
/// caller's included. All have ended when this returns; a panic in one continues here.
pub fn on_threads<T: Send>(
    numbers: Range<usize>,
    threads: usize,
    share: &(dyn Fn(Range<usize>) -> T + Sync),
) -> Vec<T> {
    let length = numbers.len().div_ceil(threads.max(1)).max(1);
    let parts: Vec<Range<usize>> =
        numbers.clone().step_by(length).map(|from| from..numbers.end.min(from + length)).collect();
    let Some((own, others)) = parts.split_first() else { return Vec::new() };
    std::thread::scope(|scope| {
        let others: Vec<_> = others.iter().map(|part| scope.spawn(|| share(part.clone()))).collect();
        let mut out = vec![share(own.clone())];
        for other in others {
            out.push(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        out
    })
}
