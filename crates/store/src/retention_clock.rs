//! The clock of retention: the wall clock, as far as something else confirms it.
//!
//! Invariants: it is never ahead of the wall clock. On the wall clock alone it advances faster than real time by no
//! more than [`ALONE_FACTOR`]; it jumps further only when [`WITNESSES`] sources outside this process send data of that
//! time, or an operator confirms it. So a wrong wall clock drops little, however far it jumped, and a downtime is
//! caught up with.
//! Format: docs/formats/retention-clock.md.
//! Threads: any number.
//! Failure: a missing or unreadable file is replaced by the time of the newest stored data.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ogive_journal::{Disk, Error as DiskError, Finding, scrub_piece};

use ogive_model::{MonoNs, Ms, WallMs};

use crate::bytes::put_signed;
use crate::frame::{frame, parse_frame, read_frame};
use crate::ingest::Clock;
use crate::{Error, Manifest};

/// Name of the file in the store's directory.
pub(crate) const RETENTION_CLOCK_FILE: &str = "RETENTION";
const MAGIC: [u8; 8] = *b"OGIVERTN";

/// 2: for each hour that passes the clock may be an hour ahead of it by itself. A downtime of a day is caught up with
/// in a day, and a clock that is set forward by mistake drops an hour more for each hour that nobody sees it.
const ALONE_FACTOR: i64 = 2;

/// Two sources must bring data of a time: one sender alone may have a wrong clock too.
const WITNESSES: usize = 2;

/// 10 minutes: below it nobody needs to hear that the clock is behind the wall's, and this often the file is written.
pub(crate) const NOTABLE: Ms = Ms::from_secs(600);

/// See the module.
pub(crate) struct RetentionClock {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// Held while the file is written, or every copy of it looked at: on a mirror one copy is there before the other.
    file: Mutex<()>,
}

#[derive(Debug)]
struct State {
    at: WallMs,
    /// When that was, on the clock that never jumps.
    looked: MonoNs,
    /// Sources with the newest data, the newest first: the time of their data.
    witnesses: Vec<(u128, WallMs)>,
    saved: Option<WallMs>,
}

impl RetentionClock {
    /// The clock of `directory`, whose newest data is `manifest`'s; and what was wrong with its file.
    pub(crate) fn open(
        disk: &dyn Disk,
        directory: &Path,
        manifest: &Manifest,
        clock: &Arc<dyn Clock>,
    ) -> (Self, Option<String>) {
        let wall = clock.wall().to_ms();
        let newest = manifest.blocks.iter().map(|meta| meta.time_max).max();
        let (saved, finding) =
            match read_frame(disk, &directory.join(RETENTION_CLOCK_FILE), MAGIC, |cursor| cursor.signed()) {
                Ok(saved) => (Some(WallMs(saved)), None),
                Err(Error::Disk(DiskError::NotFound { .. })) => (None, None),
                Err(error) => (None, Some(format!("{error}; retention goes by the newest data instead"))),
            };
        let at = saved.or(newest).unwrap_or(wall).min(wall);
        let state = State { at, looked: clock.now(), witnesses: Vec::new(), saved };
        (Self { clock: Arc::clone(clock), state: Mutex::new(state), file: Mutex::default() }, finding)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Never ahead of the wall clock.
    pub(crate) fn now(&self) -> WallMs {
        self.look().0
    }

    /// How far the wall clock is ahead of it.
    pub(crate) fn lag(&self) -> Ms {
        let (now, wall) = self.look();
        assert!(now <= wall, "{now} is ahead of the wall clock at {wall}");
        wall.since(now)
    }

    /// What it says, and the wall clock.
    fn look(&self) -> (WallMs, WallMs) {
        let (now, wall) = (self.clock.now(), self.clock.wall().to_ms());
        let mut state = self.lock();
        let passed = now.since(state.looked).saturating_mul(ALONE_FACTOR).to_ms();
        let alone = state.at.saturating_add(passed);
        let confirmed = state.witnesses.get(WITNESSES - 1).map_or(WallMs::MIN, |(_, time)| *time);
        let at = alone.max(confirmed).min(wall).max(state.at);
        // What is less than a millisecond counts with the next look.
        if at > state.at || passed > Ms::ZERO {
            (state.at, state.looked) = (at, now);
        }
        (at.min(wall), wall)
    }

    /// A source outside of this process brought data of `time`, on its own clock.
    pub(crate) fn witness(&self, source: u128, time: WallMs) {
        let mut state = self.lock();
        let all = &mut state.witnesses;
        if all.len() == WITNESSES && all.iter().all(|(_, newest)| time <= *newest) {
            return;
        }
        match all.iter_mut().find(|(held, _)| *held == source) {
            Some((_, newest)) => *newest = time.max(*newest),
            None => all.push((source, time)),
        }
        all.sort_by_key(|(source, time)| (std::cmp::Reverse(*time), *source));
        all.truncate(WITNESSES);
        debug_assert!(all.windows(2).all(|two| two[0].0 != two[1].0), "a source is one witness: {all:?}");
        debug_assert!(all.is_sorted_by(|one, next| one.1 >= next.1), "the newest data comes first: {all:?}");
    }

    /// An operator says that the wall clock is right. Gives how far this one was behind it.
    pub(crate) fn believe(&self) -> Ms {
        let lag = self.lag();
        let mut state = self.lock();
        state.at = state.at.max(self.clock.wall().to_ms());
        lag
    }

    /// Writes the file when it is [`NOTABLE`] old, or in any case.
    pub(crate) fn save(&self, disk: &dyn Disk, directory: &Path, in_any_case: bool) -> Result<(), Error> {
        let now = self.now();
        let is_due = |saved: WallMs| now.since(saved).saturating_abs() >= NOTABLE;
        if !in_any_case && !self.lock().saved.is_none_or(is_due) {
            return Ok(());
        }
        let _held = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        disk.replace(&directory.join(RETENTION_CLOCK_FILE), &encode(now))?;
        self.lock().saved = Some(now);
        Ok(())
    }

    /// As [`scrub`], while nobody writes the file.
    pub(crate) fn scrub(&self, disk: &dyn Disk, directory: &Path) -> Result<Vec<Finding>, Error> {
        let _held = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        scrub(disk, directory)
    }
}

fn encode(at: WallMs) -> Vec<u8> {
    let mut body = Vec::new();
    put_signed(&mut body, at.0);
    frame(MAGIC, &body)
}

/// Looks at every copy of the file of `directory`, which nobody writes meanwhile, and heals what is bad in one from
/// another.
pub(crate) fn scrub(disk: &dyn Disk, directory: &Path) -> Result<Vec<Finding>, Error> {
    let file = match disk.open_read(&directory.join(RETENTION_CLOCK_FILE)) {
        Err(DiskError::NotFound { .. }) => return Ok(Vec::new()),
        file => file?,
    };
    let length = (0..file.copies()).filter_map(|copy| file.copy_length(copy).ok()).max().unwrap_or(0);
    let check = |bytes: &[u8], path: &Path| parse_frame(bytes, path, MAGIC, &|cursor| cursor.signed()).map(|_| ());
    let piece = scrub_piece(&*file, 0..length, check);
    Ok(piece.bad.into_iter().map(|bad| Finding::from_bad_copy(bad, "retention clock", &(0..length))).collect())
}

#[cfg(test)]
mod tests {
    use ogive_journal::SimulatedDisk;
    use ogive_model::{Ns, WallNs};

    use super::*;
    use crate::ManualClock;

    const HOUR: i64 = 3_600_000;
    const HOUR_NS: i64 = HOUR * 1_000_000;
    const NOW_MS: i64 = 1_700_000_000_000;

    fn rig() -> (SimulatedDisk, Arc<ManualClock>, Arc<dyn Clock>) {
        let disk = SimulatedDisk::new(1);
        disk.create_dir_all(Path::new("/s")).unwrap();
        let manual = Arc::new(ManualClock::new(WallNs(NOW_MS * 1_000_000)));
        let clock: Arc<dyn Clock> = manual.clone();
        (disk, manual, clock)
    }

    fn open(disk: &SimulatedDisk, clock: &Arc<dyn Clock>) -> RetentionClock {
        let (opened, finding) = RetentionClock::open(disk, Path::new("/s"), &Manifest::default(), clock);
        assert_eq!(finding, None);
        opened
    }

    /// The wall clock jumped thirty days ahead, and all data was dropped within seconds.
    #[test]
    fn a_jump_counts_for_no_more_than_time_passes_until_it_is_confirmed() {
        let (disk, manual, clock) = rig();
        let trusted = open(&disk, &clock);
        manual.advance(Ns(HOUR_NS));
        assert_eq!((trusted.now(), trusted.lag()), (WallMs(NOW_MS + HOUR), Ms::ZERO));
        manual.set(Ns(30 * 24 * HOUR_NS));
        assert_eq!((trusted.now(), trusted.lag()), (WallMs(NOW_MS + HOUR), Ms(30 * 24 * HOUR)));
        manual.advance(Ns(HOUR_NS));
        assert_eq!(trusted.now(), WallMs(NOW_MS + 3 * HOUR), "twice as fast as time, by itself");
        // One source is not enough, however often it says so; one with the old time is none.
        let wall_ms = clock.wall().to_ms().0;
        (0..3).for_each(|n| trusted.witness(7, WallMs(wall_ms - n)));
        trusted.witness(8, WallMs(NOW_MS));
        assert_eq!(trusted.now(), WallMs(NOW_MS + 3 * HOUR));
        trusted.witness(8, WallMs(wall_ms + HOUR));
        assert_eq!((trusted.now(), trusted.lag()), (WallMs(wall_ms), Ms::ZERO));
        // Set back it is not ahead of the wall clock.
        manual.set(Ns(-40 * 24 * HOUR_NS));
        assert_eq!(trusted.now(), WallMs(wall_ms - 40 * 24 * HOUR));
    }

    #[test]
    fn it_is_kept_over_a_restart_and_an_operator_may_confirm() {
        let (disk, manual, clock) = rig();
        open(&disk, &clock).save(&disk, Path::new("/s"), true).unwrap();
        manual.set(Ns(30 * 24 * HOUR_NS));
        let trusted = open(&disk, &clock);
        assert_eq!(trusted.now(), WallMs(NOW_MS));
        assert_eq!((trusted.believe(), trusted.lag()), (Ms(30 * 24 * HOUR), Ms::ZERO));
        disk.flip_bit(&Path::new("/s").join(RETENTION_CLOCK_FILE), 170);
        let manifest = Manifest {
            blocks: vec![crate::BlockMeta { time_max: WallMs(NOW_MS + 5), ..crate::testing::meta(0) }],
            ..Manifest::default()
        };
        let (trusted, finding) = RetentionClock::open(&disk, Path::new("/s"), &manifest, &clock);
        assert_eq!(trusted.now(), WallMs(NOW_MS + 5));
        assert!(finding.unwrap().contains("newest data"));
    }

    /// A scrub reported that a copy "does not exist": it looked between the writes to one disk and to the other.
    #[test]
    fn a_file_that_is_written_meanwhile_is_no_finding() {
        let (_, _, clock) = rig();
        for round in 0..300 {
            let disks = [SimulatedDisk::new(round), SimulatedDisk::new(round + 1)];
            let (mirror, _) = crate::upkeep_tests::mirror(&disks, round);
            let directory = Path::new("/0");
            let (trusted, _) = RetentionClock::open(&mirror, directory, &Manifest::default(), &clock);
            std::thread::scope(|scope| {
                let writes = scope.spawn(|| trusted.save(&mirror, directory, true).unwrap());
                while !writes.is_finished() {
                    let found = trusted.scrub(&mirror, directory).unwrap();
                    assert!(found.is_empty(), "{found:?}");
                }
            });
            assert!(mirror.open_read(&directory.join(RETENTION_CLOCK_FILE)).is_ok());
        }
    }

    /// The bytes that docs/formats/retention-clock.md shows.
    #[test]
    fn the_example_of_the_format_page_is_what_is_written_and_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let page = std::fs::read_to_string(root.join("docs/formats/retention-clock.md")).unwrap();
        let kept = std::fs::read(root.join("vectors/retention/RETENTION")).unwrap();
        assert_eq!(encode(WallMs(NOW_MS)), kept, "the format changed: its version must rise");
        crate::testing::check_page(&page, &kept);
    }
}
