//! When the unread bytes of a stream were captured, by runs of one time.

use crate::rare::LazyBox;
use crate::span::Nanos;

/// Bytes up to an offset with the same time; `None` when they were never seen.
type Run = (u64, Option<Nanos>);

/// Runs in order. Usually there is none or one, which needs no allocation.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    first: Option<Run>,
    /// Empty unless there is a first.
    more: LazyBox<Vec<Run>>,
}

impl Runs {
    /// The bytes up to `end` were captured at `at`.
    pub(crate) fn extend(&mut self, end: u64, at: Option<Nanos>) {
        let Some(first) = &mut self.first else {
            self.first = Some((end, at));
            return;
        };
        if self.more.get().is_none_or(Vec::is_empty) {
            if first.1 == at {
                first.0 = end;
                return;
            }
            self.more.make().push((end, at));
            return;
        }
        let more = self.more.make();
        match more.last_mut() {
            Some(last) if last.1 == at => last.0 = end,
            _ => more.push((end, at)),
        }
    }

    /// When the byte at `offset` was captured.
    pub(crate) fn time_of(&self, offset: u64) -> Option<Nanos> {
        match self.first {
            Some((end, at)) if offset < end => at,
            _ => {
                let more = self.more.get()?;
                more.get(more.partition_point(|(end, _)| *end <= offset)).and_then(|(_, at)| *at)
            }
        }
    }

    /// Drops the bytes before `offset`, at least one; returns the time of the last of them.
    pub(crate) fn consume(&mut self, offset: u64) -> Option<Nanos> {
        match self.first {
            Some((end, at)) if offset < end => return at,
            Some((end, at)) if offset == end && self.more.get().is_none() => {
                self.first = None;
                return at;
            }
            _ => {}
        }
        let last = self.time_of(offset - 1);
        let more = self.more.make();
        let past = more.partition_point(|(end, _)| *end <= offset);
        self.first = more.get(past).copied();
        more.drain(..(past + 1).min(more.len()));
        if more.is_empty() {
            self.more = LazyBox::default();
        }
        last
    }

    /// Time of the first and of the last byte.
    pub(crate) fn ends(&self) -> (Option<Nanos>, Option<Nanos>) {
        let last = self.more.get().and_then(|more| more.last()).or(self.first.as_ref());
        (self.first.and_then(|(_, at)| at), last.and_then(|(_, at)| *at))
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Byte by byte.
    #[derive(Default)]
    struct Model {
        times: Vec<Option<Nanos>>,
    }

    #[test]
    fn runs_say_what_a_list_of_bytes_says() {
        let (mut state, mut model, mut runs) = (9_u64, Model::default(), Runs::default());
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut start = 0;
        for _ in 0..20_000 {
            let received = model.times.len() as u64;
            if random(2) == 0 {
                let at = Some(i64::try_from(random(3)).unwrap()).filter(|at| *at < 2);
                let count = 1 + random(5);
                model.times.extend((0..count).map(|_| at));
                runs.extend(received + count, at);
            } else if received > start {
                start += 1 + random(received - start);
                assert_eq!(runs.consume(start), model.times[usize::try_from(start).unwrap() - 1]);
            }
            for offset in start..model.times.len() as u64 {
                assert_eq!(runs.time_of(offset), model.times[usize::try_from(offset).unwrap()], "byte {offset}");
            }
            if start < model.times.len() as u64 {
                let first = model.times[usize::try_from(start).unwrap()];
                assert_eq!(runs.ends(), (first, *model.times.last().unwrap()));
            }
        }
    }
}
