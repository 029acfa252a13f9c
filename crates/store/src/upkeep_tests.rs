//! Mirrors, scrubs and snapshots of a whole store, on simulated disks.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use ogive_journal::{Disk, Faults, Member, MemberState, MirrorDisk, MirrorOptions, SimulatedDisk};
use ogive_model::{
    Batch, Kind, Labels, Sample, Select, Selection, SeriesDef, SeriesMeta, SourceId, Temporality, TimeRange, Value,
    WallMs, WallNs,
};

use crate::{DeletionScope, Error, ManualClock, Options, Scrubbed, Store, scrub, snapshot};

const WALL_NS: i64 = 1_700_000_000_000_000_000;

fn options() -> Options {
    Options {
        group_interval: Duration::ZERO,
        flush_interval: Duration::from_secs(3600),
        segment_bytes: 2048,
        ..Options::default()
    }
}

pub(crate) fn mirror(disks: &[SimulatedDisk], seed: u64) -> (MirrorDisk, Vec<PathBuf>) {
    let member =
        |(at, disk): (usize, &SimulatedDisk)| Member { root: format!("/{at}").into(), disk: Arc::new(disk.clone()) };
    let mut random = fastrand::Rng::with_seed(seed);
    let random = Box::new(move || random.u64(..u64::MAX));
    let options = MirrorOptions { degraded: false, random, tell: Arc::new(|_| {}) };
    MirrorDisk::open(disks.iter().enumerate().map(member).collect(), options).unwrap()
}

pub(crate) fn open(disk: Arc<dyn Disk>, directory: &str) -> Store {
    Store::open(disk, Path::new(directory), options(), Arc::new(ManualClock::new(WallNs(WALL_NS)))).unwrap()
}

fn batch(n: u64) -> Batch {
    let meta = |kind| SeriesMeta { kind, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    let labels = |name: &str| Labels::new([("__name__", name.to_owned()), ("l", (n % 7).to_string())]).unwrap();
    let series = vec![
        Ok(SeriesDef { labels: labels("f"), meta: meta(Kind::Float) }),
        Ok(SeriesDef { labels: labels("t"), meta: meta(Kind::Text) }),
    ];
    let sample =
        |series, value| Ok(Sample { series, time_ns: WALL_NS + n as i64 * 1_000_000_000, start_ns: None, value });
    let samples = vec![sample(0, Value::Float(n as f64)), sample(1, Value::Text(format!("text {n}")))];
    Batch { source: SourceId(1), sequence: n, series, samples, ..Batch::default() }
}

/// Sends a batch and waits for its acknowledgement.
pub(crate) fn send(store: &Store, n: u64) -> bool {
    let (reply, answer) = mpsc::channel();
    let taken = store.submit(batch(n), Box::new(move |result| reply.send(result).unwrap_or(())));
    taken.is_ok() && answer.recv_timeout(Duration::from_secs(120)).is_ok_and(|verdict| verdict.is_ok())
}

/// The batches that are there, each of them whole.
pub(crate) fn held(store: &dyn Select) -> BTreeSet<u64> {
    let all = Selection::new(Vec::new(), TimeRange::ALL);
    let (mut floats, mut texts) = (BTreeSet::new(), BTreeSet::new());
    for series in store.select(&all).unwrap() {
        series.floats.values.iter().for_each(|value| assert!(floats.insert(*value as u64), "{value} is there twice"));
        let number = |text: &String| text.strip_prefix("text ").unwrap().parse::<u64>().unwrap();
        series.texts.values.iter().for_each(|text| assert!(texts.insert(number(text)), "{text} is there twice"));
    }
    assert_eq!(floats, texts);
    floats
}

fn stored_files(disk: &SimulatedDisk, root: &str) -> Vec<PathBuf> {
    let mut files = disk.list(&Path::new(root).join("journal")).unwrap();
    files.extend(disk.list(Path::new(root)).unwrap().into_iter().filter(|path| disk.length(path).is_ok()));
    files
}

fn quick(_: u64, _: u64) -> Result<(), ogive_journal::Error> {
    Ok(())
}

/// Two bits of different places are flipped at once, one in each copy, in any file of the store.
fn two_faults(seed: u64) -> (u64, Scrubbed) {
    let disks = [SimulatedDisk::new(seed), SimulatedDisk::new(seed + 1)];
    let mut random = fastrand::Rng::with_seed(seed);
    let store = open(Arc::new(mirror(&disks, seed).0), "/0");
    let sent = 40 + random.u64(..60);
    for n in 0..sent {
        assert!(send(&store, n), "seed {seed}: {n}");
        if random.u64(..25) == 0 {
            store.flush().unwrap();
        }
    }
    // The last records would be carried to a new segment by the next start, which voids them.
    drop(store);
    drop(open(Arc::new(mirror(&disks, seed).0), "/0"));
    let files = stored_files(&disks[0], "/0");
    let (mut flips, mut scrubbed) = (0, Scrubbed::default());
    for round in 0..6 {
        let of = |random: &mut fastrand::Rng| {
            let path = files[random.u64(..files.len() as u64) as usize].strip_prefix("/0").unwrap().to_owned();
            let length = disks[0].length(&Path::new("/0").join(&path)).unwrap_or(0);
            (length > 0).then(|| (path, random.u64(..length)))
        };
        let faults = [of(&mut random), of(&mut random)];
        if let [Some((one, at)), Some((other, beside))] = &faults
            && one == other
            && at.abs_diff(*beside) < 4200
            && !one.to_string_lossy().ends_with(".block")
        {
            // One record, or the label, in both copies: that is not two faults but the same twice.
            continue;
        }
        if let [Some((one, at)), Some((other, beside))] = &faults
            && one == other
            && at.abs_diff(*beside) < 600
        {
            continue;
        }
        for (disk, (root, fault)) in disks.iter().zip(["/0", "/1"].iter().zip(&faults)) {
            if let Some((path, at)) = fault
                && let path = Path::new(root).join(path)
                && disk.length(&path).is_ok()
            {
                disk.flip_bit(&path, (at * 8 + random.u64(..8)) as usize);
                flips += 1;
            }
        }
        if round < 5 {
            let found = scrub(&mirror(&disks, seed).0, Path::new("/0"), &mut quick).unwrap();
            assert_eq!(found.found, found.healed, "seed {seed}: {:?}", found.findings);
            scrubbed.found += found.found;
            scrubbed.healed += found.healed;
            let again = scrub(&mirror(&disks, seed).0, Path::new("/0"), &mut quick).unwrap();
            assert_eq!(again.found, 0, "seed {seed}: {:?}", again.findings);
        }
    }
    let store = open(Arc::new(mirror(&disks, seed).0), "/0");
    assert_eq!(store.status().recovered.findings, [""; 0], "seed {seed}");
    assert_eq!(held(&store), (0..sent).collect(), "seed {seed}");
    (flips, scrubbed)
}

/// A trailer has no checksum of its own. The flipped one of the first copy was believed, so the footers of both looked
/// bad, and the second copy's good trailer was not asked. Now a trailer is believed with a footer that fits it, of the
/// same copy.
#[test]
fn a_store_that_once_was_not_healed() {
    two_faults(77);
}

#[test]
fn two_faults_at_once_in_different_places_lose_nothing() {
    let seeds = std::env::var("OGIVE_FAULT_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(25);
    let (mut flips, mut found, mut healed) = (0, 0, 0);
    for seed in 0..seeds {
        let (more, scrubbed) = two_faults(seed);
        flips += more;
        found += scrubbed.found;
        healed += scrubbed.healed;
    }
    println!("{seeds} stores, {flips} bits flipped, {found} found and {healed} healed by scrubs, the rest by reads");
    assert!(flips > 4 * seeds && healed > seeds, "{flips} {healed}");
}

#[test]
fn a_disk_dies_and_comes_back_while_a_store_lives() {
    let number = |name: &str| std::env::var(name).ok().and_then(|number| number.parse().ok());
    let first: u64 = number("OGIVE_MIRROR_FIRST").unwrap_or(0);
    for seed in first..first + number("OGIVE_MIRROR_SEEDS").unwrap_or(12) {
        // Shown when it fails.
        println!("a disk dies: seed {seed}");
        let disks = [SimulatedDisk::new(seed), SimulatedDisk::new(seed + 100_000)];
        let mut random = fastrand::Rng::with_seed(seed);
        let mut acknowledged = BTreeSet::new();
        let mut next = 0;
        for life in 0..4 {
            let (mirror, stale) = mirror(&disks, seed * 10 + life);
            let shared = Arc::new(mirror.clone());
            let store = open(shared, "/0");
            let victim = random.u64(..2) as usize;
            for step in 0..30 {
                if step == 10 {
                    for path in &stale {
                        let disk = &disks[usize::from(path == Path::new("/1"))];
                        let member = Member { root: path.clone(), disk: Arc::new(disk.clone()) };
                        let mut pace = |_| {
                            send(&store, next);
                            acknowledged.insert(next);
                            next += 1;
                            Ok(())
                        };
                        mirror.rebuild(None, member, &mut |_| {}, &mut pace).unwrap();
                    }
                }
                if step == 15 {
                    let any = 50 + random.u64(..300) as u32;
                    match random.u64(..4) {
                        0 | 1 => disks[victim].cut_power_after(1 + random.u64(..20)),
                        2 => disks[victim].set_capacity(Some(disks[victim].used_bytes() + random.u64(..2000))),
                        _ => disks[victim].set_faults(Faults {
                            write_error: any,
                            short_write: any,
                            sync_error: any,
                            name_error: any,
                            truncate_error: any,
                        }),
                    }
                }
                assert!(send(&store, next), "seed {seed} life {life} step {step}: batch {next}");
                acknowledged.insert(next);
                next += 1;
                if random.u64(..8) == 0 {
                    let _ = store.flush();
                }
            }
            assert_eq!(held(&store), acknowledged, "seed {seed} life {life}");
            let out = mirror.members().iter().filter(|member| member.state == MemberState::Out).count();
            assert!(out <= 1, "seed {seed}");
            // The other one dies too, with the process.
            disks[1 - victim].cut_power();
            if random.u64(..2) == 0 {
                disks[victim].cut_power();
            }
            drop(store);
            disks.iter().for_each(|disk| disk.set_capacity(None));
            disks.iter().for_each(SimulatedDisk::restart);
        }
        let store = open(Arc::new(mirror(&disks, seed).0), "/0");
        assert_eq!(held(&store), acknowledged, "seed {seed}");
    }
}

#[test]
fn a_snapshot_holds_what_was_acknowledged_and_nothing_later() {
    let disk = SimulatedDisk::new(3);
    let store = open(Arc::new(disk.clone()), "/s");
    (0..30).for_each(|n| assert!(send(&store, n)));
    store.flush().unwrap();
    (30..50).for_each(|n| assert!(send(&store, n)));
    let info = store.snapshot("monday", WallMs(7)).unwrap();
    assert_eq!((info.created, info.blocks, info.name.as_str()), (WallMs(7), 1, "monday"));
    (50..80).for_each(|n| assert!(send(&store, n)));
    store.flush().unwrap();
    let again = store.snapshot("monday", WallMs(8));
    assert!(matches!(&again, Err(Error::Refused { problem }) if problem.contains("already")), "{again:?}");
    for wrong in ["", ".x", "a/b", "ä", &"x".repeat(101)] {
        assert!(matches!(store.snapshot(wrong, WallMs(8)), Err(Error::Refused { .. })), "{wrong:?}");
    }
    store.snapshot("tuesday", WallMs(9)).unwrap();
    assert_eq!(store.snapshots().unwrap().iter().map(|one| one.created).collect::<Vec<_>>(), [WallMs(7), WallMs(9)]);
    let target = |name: &str| Member { root: name.into(), disk: Arc::new(disk.clone()) };
    let clone = |name: &str, to: &str| snapshot::clone_to(&disk, Path::new("/s"), name, &["/s".into()], &target(to), 5);
    clone("monday", "/c").unwrap();
    // Links, not copies.
    let block = &disk.list(Path::new("/c")).unwrap()[0];
    assert!(disk.same_file(block, &Path::new("/s/snapshots/monday").join(block.file_name().unwrap())).unwrap());
    assert!(clone("monday", "/c").is_err_and(|error| error.to_string().contains("not empty")));
    assert!(clone("friday", "/d").is_err_and(|error| error.to_string().contains("no snapshot")));
    // Both go on, each on its own.
    let other = open(Arc::new(disk.clone()), "/c");
    assert_eq!(held(&other), (0..50).collect());
    (100..130).for_each(|n| assert!(send(&other, n)));
    other.flush().unwrap();
    drop(other);
    assert_eq!(held(&store), (0..80).collect());
    assert_eq!(held(&open(Arc::new(disk.clone()), "/c")), (0..50).chain(100..130).collect());
    clone("monday", "/e").unwrap();
    assert_eq!(held(&open(Arc::new(disk.clone()), "/e")), (0..50).collect());
    snapshot::delete(&disk, Path::new("/s"), "monday").unwrap();
    assert_eq!(store.snapshots().unwrap().len(), 1);
    assert_eq!(store.scrub(WallMs(WALL_NS / 1_000_000), &mut quick).unwrap().found, 0);
    drop(store);
    assert_eq!(held(&open(Arc::new(disk.clone()), "/s")), (0..80).collect());
}

/// What was deleted "from the disk" came back with a snapshot, of which nobody heard.
#[test]
fn snapshots_that_hold_what_is_deleted_are_named() {
    let disk = SimulatedDisk::new(4);
    let store = open(Arc::new(disk.clone()), "/s");
    (0..20).for_each(|n| assert!(send(&store, n)));
    store.flush_whole().unwrap();
    store.snapshot("blocks", WallMs(1)).unwrap();
    let all =
        |name: &str| vec![vec![ogive_model::Matcher::new("__name__", ogive_model::MatchOp::Equal, name).unwrap()]];
    let tenant = ogive_model::Tenant::default();
    let holding = |name: &str, range| store.snapshots_holding(&tenant, &all(name), range).unwrap();
    let at = |n: i64| TimeRange::from_ms(WALL_NS / 1_000_000 + n * 1000 - 1, WALL_NS / 1_000_000 + n * 1000);
    assert_eq!(holding("f", TimeRange::ALL), ["blocks"]);
    assert_eq!((holding("f", at(7)), holding("f", at(90))), (vec!["blocks".to_owned()], vec![]));
    assert_eq!(holding("none", TimeRange::ALL), [""; 0]);
    assert_eq!(
        store.snapshots_holding(&ogive_model::Tenant::new("other").unwrap(), &all("f"), TimeRange::ALL).unwrap(),
        [""; 0]
    );
    (20..25).for_each(|n| assert!(send(&store, n)));
    store.snapshot("journal", WallMs(2)).unwrap();
    assert_eq!(holding("f", TimeRange::ALL), ["blocks", "journal"], "nobody looks through a journal");
    store.delete(&tenant, &all("f"), TimeRange::ALL).unwrap();
    let note = |name: &str| {
        store
            .note_deletion(
                &["blocks".into()],
                name,
                DeletionScope { tenant: &tenant, selectors: &all(name), range: TimeRange::ALL },
            )
            .unwrap();
    };
    note("f");
    note("g");
    let noted = |name| {
        let found = snapshot::deletions(&disk, Path::new("/s"), name).unwrap();
        (found.count, found.named)
    };
    assert_eq!((noted("blocks"), noted("journal").0), ((2, vec!["f".into(), "g".into()]), 0));
    store.delete_snapshots(&["blocks".into()]).unwrap();
    assert_eq!(holding("f", TimeRange::ALL), ["journal"]);
    store.snapshot("after", WallMs(3)).unwrap();
    store.settle();
    store.flush_whole().unwrap();
    store.snapshot("clean", WallMs(4)).unwrap();
    assert!(!holding("f", TimeRange::ALL).contains(&"clean".to_owned()));
}

/// A snapshot was removed while a scrub looked at it, and the scrub counted an error, or ended with one, at whatever
/// file it stood.
#[test]
fn a_snapshot_that_goes_under_a_scrub_is_no_finding() {
    let mut ended = 0;
    for at in 0..200 {
        let disk = SimulatedDisk::new(4);
        let store = open(Arc::new(disk.clone()), "/s");
        (0..20).for_each(|n| assert!(send(&store, n)));
        store.flush().unwrap();
        (20..40).for_each(|n| assert!(send(&store, n)));
        store.snapshot("going", WallMs(1)).unwrap();
        store.snapshot("staying", WallMs(2)).unwrap();
        // So that the store has none of the snapshot's files itself.
        let all = || vec![ogive_model::Matcher::new("__name__", ogive_model::MatchOp::NotEqual, "").unwrap()];
        store.delete(&ogive_model::Tenant::default(), &[all()], TimeRange::ALL).unwrap();
        store.settle();
        let mut looks = 0;
        let mut pace = |_, _| {
            looks += 1;
            if looks == at {
                snapshot::delete(&disk, Path::new("/s"), "going").unwrap();
            }
            Ok(())
        };
        let found = store.scrub(WallMs(WALL_NS / 1_000_000), &mut pace).unwrap();
        assert_eq!(found.findings, [], "removed at look {at}");
        if looks < at {
            ended = at;
            break;
        }
    }
    assert!(ended > 20, "{ended} looks");
}

#[test]
fn a_scrub_looks_at_what_was_acknowledged_since_the_start() {
    let disk = SimulatedDisk::new(1);
    let store = open(Arc::new(disk.clone()), "/s");
    (0..20).for_each(|n| assert!(send(&store, n)));
    assert_eq!(store.scrub(WallMs(WALL_NS / 1_000_000), &mut quick).unwrap().found, 0);
    let segment = disk.list(Path::new("/s/journal")).unwrap().pop().unwrap();
    disk.flip_bit(&segment, disk.length(&segment).unwrap() as usize * 4);
    // What the bad record held is in memory, and becomes blocks: nothing is lost, and nothing is noted.
    let scrubbed = store.scrub(WallMs(WALL_NS / 1_000_000), &mut quick).unwrap();
    assert_eq!((scrubbed.found, scrubbed.healed), (1, 1), "{:?}", scrubbed.findings);
    assert!(scrubbed.findings[0].problem.contains("is in blocks now"), "{:?}", scrubbed.findings);
    drop(store);
    let store = open(Arc::new(disk.clone()), "/s");
    assert_eq!((held(&store), store.findings()), ((0..20).collect(), Vec::new()));
}

/// A byte of the manifest went bad while the store ran: the scrub did not see it, and no start was possible, although
/// the store had the truth in memory. Now both files are compared with it.
#[test]
fn a_scrub_writes_the_manifest_that_the_store_has_in_memory() {
    let disk = SimulatedDisk::new(1);
    let store = open(Arc::new(disk.clone()), "/s");
    (0..20).for_each(|n| assert!(send(&store, n)));
    store.flush().unwrap();
    for name in ["MANIFEST", "MANIFEST.2"] {
        let path = Path::new("/s").join(name);
        for bit in (0..disk.length(&path).unwrap() as usize * 8).step_by(37) {
            disk.flip_bit(&path, bit);
            let scrubbed = store.scrub(WallMs(WALL_NS / 1_000_000), &mut quick).unwrap();
            assert_eq!((scrubbed.found, scrubbed.healed), (1, 1), "{name} {bit}: {:?}", scrubbed.findings);
        }
    }
    ["/s/MANIFEST", "/s/MANIFEST.2"].into_iter().for_each(|path| disk.flip_bit(Path::new(path), 300));
    assert_eq!(store.scrub(WallMs(WALL_NS / 1_000_000), &mut quick).unwrap().healed, 2, "both at once");
    disk.flip_bit(Path::new("/s/MANIFEST"), 300);
    drop(store);
    let store = open(Arc::new(disk.clone()), "/s");
    assert_eq!(held(&store), (0..20).collect());
    let reported = &store.status().recovered.findings;
    assert!(
        reported.len() == 1 && reported[0].contains("MANIFEST is corrupt") && reported[0].contains("MANIFEST.2"),
        "{reported:?}"
    );
    assert_eq!(store.scrub(WallMs(WALL_NS / 1_000_000), &mut quick).unwrap().found, 0);
}

fn warnings(store: &Store, start_s: i64, end_s: i64) -> Vec<String> {
    let at = |seconds: i64| WALL_NS / 1_000_000 + seconds * 1000;
    let range = TimeRange::from_ms(at(start_s), at(end_s));
    let selection = Selection::new(Vec::new(), range);
    let reported = store.select_partial(&selection).unwrap().warnings;
    let opened = store.open(&selection, &ogive_model::Opening::UNBOUNDED).unwrap();
    (0..opened.count()).for_each(|at| drop(opened.take(at).unwrap()));
    assert_eq!(opened.warnings(), reported);
    reported
}

/// Of thirty acknowledged records one was lost to a bad byte: 29 samples were the answer, without a word, and after the
/// next restart nobody knew of it. Now it is known until somebody acknowledges it, and answers say so.
#[test]
fn a_lost_record_is_reported_by_answers_until_somebody_acknowledges_it() {
    for (lost, from_end) in [(15, None), (29, Some(20))] {
        let disk = SimulatedDisk::new(1);
        let store = open(Arc::new(disk.clone()), "/s");
        (0..30).for_each(|n| assert!(send(&store, n)));
        assert_eq!(warnings(&store, 0, 30), [""; 0]);
        disk.kill_process();
        drop(store);
        let segments = disk.list(Path::new("/s/journal")).unwrap();
        let segments: Vec<_> = segments.into_iter().filter(|path| disk.length(path).unwrap() > 64).collect();
        let (segment, byte) = match from_end {
            Some(from_end) => {
                let last = segments.last().unwrap();
                (last, disk.length(last).unwrap() - from_end)
            }
            None => (&segments[segments.len() / 2], disk.length(&segments[segments.len() / 2]).unwrap() / 2),
        };
        disk.flip_bit(segment, byte as usize * 8);
        let store = open(Arc::new(disk.clone()), "/s");
        assert_eq!(held(&store).len(), 29, "{lost}");
        assert_eq!((store.findings().len(), store.status().findings), (1, 1), "{:?}", store.findings());
        let reported = warnings(&store, 0, 30);
        assert!(reported.len() == 1 && reported[0].contains(&segment.display().to_string()), "{reported:?}");
        assert!(reported[0].contains("ogive scrub --acknowledge"), "{reported:?}");
        assert_eq!(warnings(&store, -90_000, -80_000), [""; 0], "it cannot have been then");
        // A scrub meets the same and notes nothing twice; a clean restart replays nothing and knows of it all the same.
        let scrubbed = store.scrub(WallMs(WALL_NS / 1_000_000), &mut quick).unwrap();
        assert_eq!((scrubbed.found - scrubbed.healed, store.findings().len()), (scrubbed.found, 1));
        store.flush_whole().unwrap();
        drop(store);
        let store = open(Arc::new(disk.clone()), "/s");
        assert_eq!(store.status().recovered.findings, [""; 0]);
        assert_eq!((warnings(&store, 0, 30).len(), store.status().findings), (1, 1));
        assert_eq!(store.acknowledge(store.findings()[0].id).unwrap(), 1);
        assert_eq!(warnings(&store, 0, 30), [""; 0]);
        drop(store);
        assert_eq!(open(Arc::new(disk), "/s").findings(), []);
    }
}

/// A part of a block that no copy has: whoever reads it gets a warning, and it stays known when the block has gone.
#[test]
fn what_a_scrub_cannot_heal_is_known_until_somebody_acknowledges_it() {
    let disk = SimulatedDisk::new(1);
    let store = open(Arc::new(disk.clone()), "/s");
    (0..30).for_each(|n| assert!(send(&store, n)));
    store.flush().unwrap();
    let block = disk.list(Path::new("/s")).unwrap().into_iter().find(|path| path.to_string_lossy().ends_with(".block"));
    disk.flip_bit(&block.unwrap(), 17 * 8);
    let scrubbed = store.scrub(WallMs(WALL_NS / 1_000_000), &mut quick).unwrap();
    assert_eq!((scrubbed.found, scrubbed.healed), (1, 0), "{:?}", scrubbed.findings);
    let found = store.findings();
    assert!(found.len() == 1 && found[0].problem.contains("chunk") && !found[0].silent, "{found:?}");
    assert_eq!(warnings(&store, 0, 30).len(), 1, "who reads it meets it");
    drop(store);
    assert_eq!(open(Arc::new(disk), "/s").findings(), found);
}

/// A rollback brought back what had been deleted on purpose since its snapshot, from blocks and from the snapshot's
/// journal.
#[test]
fn a_rollback_keeps_deletions_wherever_the_power_goes() {
    let tenant = ogive_model::Tenant::default();
    let selectors = [vec![ogive_model::Matcher::new("__name__", ogive_model::MatchOp::Regex, "f|t").unwrap()]];
    let at = |n: i64| WALL_NS / 1_000_000 + n * 1000;
    let range = TimeRange::from_ms(at(15) - 1, at(24));
    let left = || (0..15).chain(25..30).collect::<BTreeSet<_>>();
    let mut rolled = 0;
    for cut in 1.. {
        let disk = SimulatedDisk::new(cut);
        let store = open(Arc::new(disk.clone()), "/s");
        (0..20).for_each(|n| assert!(send(&store, n)));
        store.flush().unwrap();
        (20..30).for_each(|n| assert!(send(&store, n)));
        store.snapshot("then", WallMs(1)).unwrap();
        store.delete(&tenant, &selectors, range).unwrap();
        let scope = DeletionScope { tenant: &tenant, selectors: &selectors, range };
        store.note_deletion(&["then".into()], "f", scope).unwrap();
        (30..40).for_each(|n| assert!(send(&store, n)));
        drop(store);
        disk.cut_power_after(cut);
        let done = snapshot::rollback(&disk, Path::new("/s"), "then", "kept", WallMs(2), true);
        let powered = disk.is_powered();
        let early = powered.then(|| snapshot::create_stopped(&disk, Path::new("/s"), "early", WallMs(3)));
        assert!(early.is_none_or(|early| matches!(early, Err(Error::Refused { .. }))), "it would hold what is deleted");
        disk.cut_power();
        disk.restart();
        // The power goes again in the start that makes the deletions.
        disk.cut_power_after(1 + cut % 13);
        let store = Store::open(
            Arc::new(disk.clone()),
            Path::new("/s"),
            options(),
            Arc::new(ManualClock::new(WallNs(WALL_NS))),
        );
        drop(store);
        disk.cut_power();
        disk.restart();
        let store = open(Arc::new(disk.clone()), "/s");
        let found = held(&store);
        let before: BTreeSet<_> = left().into_iter().chain(30..40).collect();
        assert!(found == left() || (done.is_err() && found == before), "cut {cut}: {found:?}");
        rolled += u32::from(found == left());
        // They are made once, and the store goes on.
        assert!(send(&store, 50));
        drop(store);
        let later = held(&open(Arc::new(disk.clone()), "/s"));
        assert_eq!(later, found.into_iter().chain([50]).collect(), "cut {cut}");
        if powered {
            assert!(rolled > 1 && cut > 20, "{rolled} of {cut}");
            break;
        }
    }
}

#[test]
fn a_rollback_wherever_deletions_are_not_all_known_is_refused() {
    let disk = SimulatedDisk::new(1);
    let store = open(Arc::new(disk.clone()), "/s");
    (0..20).for_each(|n| assert!(send(&store, n)));
    store.snapshot("then", WallMs(1)).unwrap();
    let tenant = ogive_model::Tenant::default();
    let long = "x".repeat(3 << 20);
    let selectors = [vec![ogive_model::Matcher::new("host", ogive_model::MatchOp::Equal, long).unwrap()]];
    let scope = DeletionScope { tenant: &tenant, selectors: &selectors, range: TimeRange::ALL };
    store.note_deletion(&["then".into()], "host", scope).unwrap();
    (20..25).for_each(|n| assert!(send(&store, n)));
    drop(store);
    let rollback = |kept, keep| snapshot::rollback(&disk, Path::new("/s"), "then", kept, WallMs(2), keep);
    let refused = rollback("kept", true);
    assert!(matches!(&refused, Err(Error::Refused { problem }) if problem.contains("cannot be kept")), "{refused:?}");
    assert_eq!(held(&open(Arc::new(disk.clone()), "/s")), (0..25).collect(), "nothing was done");
    rollback("kept", false).unwrap();
    assert_eq!(held(&open(Arc::new(disk.clone()), "/s")), (0..20).collect());
}

#[test]
fn a_rollback_is_whole_wherever_the_power_goes_and_can_be_undone() {
    for cut in 1.. {
        let disk = SimulatedDisk::new(cut);
        let store = open(Arc::new(disk.clone()), "/s");
        (0..20).for_each(|n| assert!(send(&store, n)));
        store.flush().unwrap();
        (20..30).for_each(|n| assert!(send(&store, n)));
        store.snapshot("then", WallMs(1)).unwrap();
        (30..50).for_each(|n| assert!(send(&store, n)));
        store.flush().unwrap();
        drop(store);
        disk.cut_power_after(cut);
        let done = snapshot::rollback(&disk, Path::new("/s"), "then", "kept", WallMs(2), false);
        let powered = disk.is_powered();
        disk.cut_power();
        disk.restart();
        let store = open(Arc::new(disk.clone()), "/s");
        let found = held(&store);
        let whole = found == (0..30).collect() || (done.is_err() && found == (0..50).collect());
        assert!(whole, "cut {cut}: {found:?}");
        // It can be written, and what is written beside an older life's files stays apart from them.
        let rolled = found.len() == 30;
        assert!(send(&store, 60));
        store.flush().unwrap();
        drop(store);
        if rolled {
            snapshot::rollback(&disk, Path::new("/s"), "kept", "after", WallMs(3), false).unwrap();
            assert_eq!(held(&open(Arc::new(disk.clone()), "/s")), (0..50).collect(), "cut {cut}");
            snapshot::rollback(&disk, Path::new("/s"), "after", "later", WallMs(4), false).unwrap();
            assert_eq!(held(&open(Arc::new(disk), "/s")), (0..30).chain([60]).collect(), "cut {cut}");
        }
        if powered {
            assert!(cut > 20, "{cut} changes are too few for a rollback");
            break;
        }
    }
}

/// The wall clock falls back by a day, over a restart and while records wait in the journal: what was accepted stays, a
/// snapshot is made, and samples of the clock's own time are taken.
#[test]
fn a_clock_that_falls_back_loses_nothing() {
    let disk = SimulatedDisk::new(8);
    let open_at = |wall_ns| {
        let clock = Arc::new(ManualClock::new(WallNs(wall_ns)));
        Store::open(Arc::new(disk.clone()), Path::new("/s"), options(), clock).unwrap()
    };
    let store = open_at(WALL_NS);
    (0..20).for_each(|n| assert!(send(&store, n)));
    store.flush().unwrap();
    (20..40).for_each(|n| assert!(send(&store, n)));
    drop(store);
    let store = open_at(WALL_NS - 86_400_000_000_000);
    assert_eq!((held(&store), store.status().recovered.findings.len()), ((0..40).collect(), 0));
    store.flush().unwrap();
    assert_eq!(store.snapshot("back", WallMs(-5)).unwrap().created, WallMs(-5));
    drop(store);
    let store = open_at(WALL_NS);
    assert!(send(&store, 40));
    assert_eq!(held(&store), (0..41).collect());
}

/// What fuzz/fuzz_targets/directory.rs does for hours, for a moment: mangled labels, snapshots and rollbacks.
#[test]
fn any_bytes_as_the_small_files_of_a_directory_are_good_or_an_error() {
    let root = Path::new("/s");
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors");
    let good = ["mirror/MIRROR", "snapshot/SNAPSHOT", "snapshot/ROLLBACK"];
    let good = good.map(|name| std::fs::read(vectors.join(name)).unwrap());
    let mut random = fastrand::Rng::with_seed(9);
    let (mut taken, mut refused) = (0, 0);
    for round in 0..600 {
        let mut bytes = good[round % 3].clone();
        for _ in 0..random.u64(..4) {
            let at = random.u64(..bytes.len().min(140) as u64) as usize;
            bytes[at] = random.u64(..256) as u8;
        }
        bytes.truncate(bytes.len() - random.u64(..3) as usize * random.u64(..bytes.len() as u64) as usize / 2);
        let disk = SimulatedDisk::new(1);
        disk.put(&root.join("MIRROR"), bytes.clone());
        disk.put(&root.join("kept"), b"kept".to_vec());
        let mut drawn = fastrand::Rng::with_seed(1);
        let random = Box::new(move || drawn.u64(..u64::MAX));
        let options = MirrorOptions { degraded: true, random, tell: Arc::new(|_| {}) };
        let opened = MirrorDisk::open(vec![Member { root: root.into(), disk: Arc::new(disk.clone()) }], options);
        disk.put(&snapshot::path_of(root, "x").join("SNAPSHOT"), bytes.clone());
        let listed = snapshot::list(&disk, root);
        disk.put(&root.join("ROLLBACK"), bytes);
        let made = snapshot::create_stopped(&disk, root, "y", WallMs(1));
        for good in [opened.is_ok(), listed.is_ok(), made.is_ok()] {
            if good { taken += 1 } else { refused += 1 }
        }
        assert_eq!(disk.read(&root.join("kept")).unwrap(), b"kept");
    }
    assert!(taken > 20 && refused > 600, "{taken} {refused}");
}

/// A full disk refused the very request that makes room. The reserve's space is for it, and for what it needs before.
#[test]
fn a_full_disk_takes_a_deletion() {
    let disk = SimulatedDisk::new(1);
    let options = Options { reserve_bytes: 64 << 10, flush_retry: Duration::from_secs(3600), ..options() };
    let open = || {
        let clock = Arc::new(ManualClock::new(WallNs(WALL_NS)));
        Store::open(Arc::new(disk.clone()), Path::new("/s"), options.clone(), clock).unwrap()
    };
    let store = open();
    (0..20).for_each(|n| assert!(send(&store, n)));
    store.flush().unwrap();
    (20..40).for_each(|n| assert!(send(&store, n)));
    disk.set_capacity(Some(disk.used_bytes()));
    assert!(!send(&store, 40), "the disk is full");
    let matcher = ogive_model::Matcher::new("l", ogive_model::MatchOp::NotEqual, "3").unwrap();
    store.delete(&ogive_model::Tenant::default(), &[vec![matcher]], TimeRange::ALL).unwrap();
    let left = held(&store);
    assert_eq!(left, (0..40).filter(|n| n % 7 == 3).collect());
    drop(store);
    assert_eq!(held(&open()), left);
    disk.set_capacity(None);
    assert!(send(&open(), 41));
}

/// A batch of one text of 100 KiB that does not compress, of the series `l`.
fn large(n: u64, l: &str) -> Batch {
    let meta = SeriesMeta { kind: Kind::Text, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    let series = SeriesDef::new([("__name__", "large"), ("l", l)], meta).unwrap();
    let mut random = fastrand::Rng::with_seed(n);
    let text: String = (0..100 << 10).map(|_| char::from(b' ' + random.u64(..95) as u8)).collect();
    let time_ns = WALL_NS - n as i64 * 1_000_000;
    let sample = Sample { series: 0, time_ns, start_ns: None, value: Value::Text(text) };
    Batch { source: SourceId(5), sequence: n, series: vec![Ok(series)], samples: vec![Ok(sample)], ..Batch::default() }
}

/// A full disk took the deletion, but its samples stayed in the blocks: to write a block without them needs room before
/// it gives any.
#[test]
fn a_full_disk_carries_a_deletion_out() {
    let disk = SimulatedDisk::new(1);
    let options = Options { reserve_bytes: 2 << 20, flush_retry: Duration::from_secs(3600), ..options() };
    let clock = Arc::new(ManualClock::new(WallNs(WALL_NS)));
    let store = Store::open(Arc::new(disk.clone()), Path::new("/s"), options, clock).unwrap();
    for n in 1..=12 {
        let (reply, answer) = mpsc::channel();
        let batch = large(n, if n % 2 == 0 { "kept" } else { "gone" });
        store.submit(batch, Box::new(move |result| reply.send(result).unwrap_or(()))).unwrap();
        answer.recv_timeout(Duration::from_secs(120)).unwrap().unwrap();
    }
    store.flush_whole().unwrap();
    store.settle();
    disk.set_capacity(Some(disk.used_bytes()));
    let matcher = ogive_model::Matcher::new("l", ogive_model::MatchOp::Equal, "gone").unwrap();
    store.delete(&ogive_model::Tenant::default(), &[vec![matcher]], TimeRange::ALL).unwrap();
    store.settle();
    let status = store.status();
    assert_eq!((status.erasure_failures, status.erasures > 0), (0, true), "{status:?}");
    let all = Selection::new(Vec::new(), TimeRange::ALL);
    let left: Vec<_> =
        store.select(&all).unwrap().iter().map(|one| (one.labels.get("l").to_owned(), one.texts.times.len())).collect();
    assert_eq!(left, [("kept".to_owned(), 6)]);
}

/// Stores so many samples of so many series in one block, and gives what is there after a reopening.
fn stored_in_a_block(kind: Kind, series: usize, samples: usize) -> (usize, usize) {
    let disk = SimulatedDisk::new(1);
    let open = || {
        let clock = Arc::new(ManualClock::new(WallNs(WALL_NS)));
        Store::open(Arc::new(disk.clone()), Path::new("/s"), options(), clock).unwrap()
    };
    let store = open();
    let meta = SeriesMeta { kind, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    let def = |at: usize| SeriesDef::new([("__name__", "m"), ("all", "same"), ("at", &at.to_string())], meta.clone());
    let value = |at: usize| match kind {
        Kind::Float => Value::Float(at as f64),
        Kind::Text => Value::Text(at.to_string()),
        Kind::Histogram => {
            let mut one = ogive_hist::Histogram::log_linear();
            one.record(1.0 + at as f64);
            Value::Histogram(Box::new(one))
        }
    };
    let sample = |of: usize, at: usize| Sample {
        series: of as u32,
        time_ns: WALL_NS - 3_600_000_000_000 + at as i64 * 1_000_000,
        start_ns: None,
        value: value(at),
    };
    let all = (0..series).flat_map(|of| (0..samples).map(move |at| (of, at)));
    let batch = Batch {
        source: SourceId(3),
        sequence: 1,
        series: (0..series).map(def).collect(),
        samples: all.map(|(of, at)| Ok(sample(of, at))).collect(),
        ..Batch::default()
    };
    let (reply, answer) = mpsc::channel();
    store.submit(batch, Box::new(move |result| reply.send(result).unwrap_or(()))).unwrap();
    let verdict = answer.recv_timeout(Duration::from_secs(120)).unwrap().unwrap();
    assert_eq!(verdict.accepted as usize, series * samples);
    store.flush_whole().unwrap();
    drop(store);
    let store = open();
    let matcher = ogive_model::Matcher::new("all", ogive_model::MatchOp::Equal, "same").unwrap();
    let all = Selection::new(vec![matcher], TimeRange::ALL);
    let found = store.select(&all).unwrap();
    (found.len(), found.iter().map(|one| crate::codec::chunk::sample_times(one).len()).sum())
}

/// A limit that only the reader of the bytes knew kept a store from starting: each is met and passed by one, and
/// reopened.
#[test]
fn chunks_and_postings_are_read_again_at_their_limits_and_one_above() {
    use crate::codec::{chunk, histograms};
    for (kind, limit) in [
        (Kind::Float, chunk::FLOATS_MAX),
        (Kind::Text, chunk::TEXTS_MAX),
        (Kind::Histogram, histograms::CHUNK_CELLS_MAX),
    ] {
        for samples in [limit, limit + 1] {
            assert_eq!(stored_in_a_block(kind, 1, samples), (1, samples), "{kind:?}");
        }
    }
    // The postings of a label are a list up to this many series, and a bitmap above.
    let limit = crate::block::POSTINGS_LIST_MAX;
    for series in [1, limit, limit + 1] {
        assert_eq!(stored_in_a_block(Kind::Float, series, 1), (series, series));
    }
}
