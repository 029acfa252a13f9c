//! Members that fail, return and are filled, compared with what was acknowledged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::{Faults, RealDisk, SimulatedDisk, read_verified};

fn member(name: &str, disk: &SimulatedDisk) -> Member {
    Member { root: name.into(), disk: Arc::new(disk.clone()) }
}

fn options(seed: u64) -> MirrorOptions {
    let mut random = fastrand::Rng::with_seed(seed);
    MirrorOptions { degraded: false, random: Box::new(move || random.u64(..)), tell: Arc::new(|_| {}) }
}

fn open_two(a: &SimulatedDisk, b: &SimulatedDisk, seed: u64) -> Result<(MirrorDisk, Vec<PathBuf>), Error> {
    MirrorDisk::open(vec![member("/a", a), member("/b", b)], options(seed))
}

fn problem<T>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::Mirror { problem }) => problem,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it should have been refused"),
    }
}

fn put(mirror: &MirrorDisk, path: &str, bytes: &[u8]) -> Result<(), Error> {
    mirror.replace(Path::new(path), bytes)
}

fn states(mirror: &MirrorDisk) -> Vec<MemberState> {
    mirror.members().iter().map(|member| member.state).collect()
}

fn fill(mirror: &MirrorDisk, path: &str, disk: &SimulatedDisk) {
    mirror.rebuild(None, member(path, disk), &mut |_| {}, &mut |_| Ok(())).unwrap();
}

/// Files below a member's directory, without its label.
fn tree(disk: &SimulatedDisk, root: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut out, mut open) = (BTreeMap::new(), vec![PathBuf::from(root)]);
    while let Some(directory) = open.pop() {
        for path in disk.list(&directory).unwrap() {
            if disk.is_directory(&path).unwrap() {
                open.push(path);
            } else if path.file_name().unwrap() != MIRROR_FILE {
                out.insert(path.strip_prefix(root).unwrap().to_owned(), disk.read(&path).unwrap());
            }
        }
    }
    out
}

#[test]
fn a_member_that_fails_goes_and_its_stale_copy_is_never_read() {
    let (a, b) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let (mirror, stale) = open_two(&a, &b, 1).unwrap();
    assert!(stale.is_empty());
    put(&mirror, "/a/x", b"one").unwrap();
    assert_eq!(
        (a.read(Path::new("/a/x")).unwrap(), b.read(Path::new("/b/x")).unwrap()),
        (b"one".into(), b"one".into())
    );
    a.set_faults(Faults { sync_error: 1000, ..Faults::default() });
    put(&mirror, "/a/x", b"two").unwrap();
    assert_eq!(states(&mirror), [MemberState::Out, MemberState::Live]);
    assert!(mirror.members()[0].why.contains("simulated error") && mirror.members()[0].failures > 0);
    assert_eq!(mirror.read(Path::new("/a/x")).unwrap(), b"two");
    drop(mirror);
    a.restart();
    b.restart();
    // Only the stale one: it says who was current with it, and that one may have gone on.
    let alone = problem(MirrorDisk::open(vec![member("/a", &a)], options(2)));
    assert!(alone.contains("/b") && alone.contains("--degraded"), "{alone}");
    let (mirror, stale) = open_two(&a, &b, 3).unwrap();
    assert_eq!(stale, [PathBuf::from("/a")]);
    assert_eq!(mirror.read(Path::new("/a/x")).unwrap(), b"two");
    fill(&mirror, "/a", &a);
    assert_eq!(states(&mirror), [MemberState::Live, MemberState::Live]);
    assert_eq!(tree(&a, "/a"), tree(&b, "/b"));
    drop(mirror);
    assert!(open_two(&a, &b, 4).unwrap().1.is_empty());
}

/// A query failed with `0000000000000006.block does not exist`: its block was opened while one disk was out, that disk
/// was filled, the block was merged away, and the other disk died. A file that is open is read to its end, wherever it
/// was opened.
#[test]
fn a_removed_file_is_read_on_a_member_that_joined_after_it_was_opened() {
    let (a, b) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let (mirror, _) = open_two(&a, &b, 1).unwrap();
    put(&mirror, "/a/x", b"one").unwrap();
    a.set_faults(Faults { sync_error: 1000, ..Faults::default() });
    put(&mirror, "/a/y", b"two").unwrap();
    assert_eq!(states(&mirror), [MemberState::Out, MemberState::Live]);
    drop(mirror);
    a.restart();
    b.restart();
    a.set_faults(Faults::default());
    let (mirror, stale) = open_two(&a, &b, 2).unwrap();
    assert_eq!(stale, [PathBuf::from("/a")]);
    let readers = [(); 2].map(|()| mirror.open_read(Path::new("/a/x")).unwrap());
    fill(&mirror, "/a", &a);
    assert_eq!(states(&mirror), [MemberState::Live, MemberState::Live]);
    mirror.remove(Path::new("/a/x")).unwrap();
    b.set_faults(Faults { sync_error: 1000, ..Faults::default() });
    put(&mirror, "/a/z", b"three").unwrap();
    assert_eq!(states(&mirror), [MemberState::Out, MemberState::Live], "/b and /a: {:?}", mirror.members());
    for reader in readers {
        let mut bytes = [0; 8];
        assert_eq!(reader.read_at(0, &mut bytes).unwrap(), 3);
        assert_eq!(&bytes[..3], b"one");
    }
    assert!(matches!(mirror.open_read(Path::new("/a/x")), Err(Error::NotFound { .. })));
}

/// A fresh server's only disk was listed with one failure: it had opened a file that was not there yet.
#[test]
fn a_missing_file_is_no_failure_of_a_disk() {
    let (a, b) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let (mirror, _) = open_two(&a, &b, 1).unwrap();
    assert!(matches!(mirror.open(Path::new("/a/none")), Err(Error::NotFound { .. })));
    assert!(mirror.members().iter().all(|member| member.failures == 0 && member.state == MemberState::Live));
}

#[test]
fn a_change_that_fails_everywhere_is_an_error_and_takes_nobody_out() {
    let (a, b) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let (mirror, _) = open_two(&a, &b, 1).unwrap();
    let mut file = mirror.create(Path::new("/a/x")).unwrap();
    file.write_all(b"abc").unwrap();
    [&a, &b].into_iter().for_each(|disk| disk.set_capacity(Some(disk.used_bytes() + 2)));
    assert!(file.write_all(b"four").unwrap_err().is_full());
    // Nothing of it stays on either.
    assert_eq!((tree(&a, "/a"), file.length().unwrap()), (tree(&b, "/b"), 3));
    assert_eq!(states(&mirror), [MemberState::Live; 2]);
    [&a, &b].into_iter().for_each(|disk| disk.set_capacity(None));
    file.write_all(b"four").unwrap();
    a.set_capacity(Some(0));
    file.write_all(b"five").unwrap();
    assert_eq!(states(&mirror), [MemberState::Out, MemberState::Live]);
    assert_eq!(tree(&b, "/b")[Path::new("x")], b"abcfourfive");
}

#[test]
fn directories_that_do_not_fit_together_are_refused() {
    let new = || (SimulatedDisk::new(1), SimulatedDisk::new(2));
    // Each went on without the other.
    let (a, b) = new();
    drop(open_two(&a, &b, 1).unwrap());
    let alone = |name: &str, disk: &SimulatedDisk, seed: u64| {
        MirrorDisk::open(vec![member(name, disk)], MirrorOptions { degraded: true, ..options(seed) }).unwrap()
    };
    drop(alone("/a", &a, 2));
    drop(alone("/b", &b, 3));
    assert!(problem(open_two(&a, &b, 4)).contains("without each other"));
    put(&alone("/b", &b, 5).0, "/b/x", b"1").unwrap();
    assert!(problem(open_two(&a, &b, 6)).contains("without each other"));
    // Of two stores.
    let (a, b) = new();
    drop((alone("/a", &a, 2), alone("/b", &b, 3)));
    assert!(problem(open_two(&a, &b, 4)).contains("different stores"));
    // A store from before mirrors is taken up, and the other directory filled; two are too many.
    let (a, b) = new();
    a.put(Path::new("/a/MANIFEST"), b"m".into());
    let (mirror, stale) = open_two(&a, &b, 1).unwrap();
    assert_eq!(stale, [PathBuf::from("/b")]);
    fill(&mirror, "/b", &b);
    assert_eq!(tree(&b, "/b")[Path::new("MANIFEST")], b"m");
    let (a, b) = new();
    a.put(Path::new("/a/x"), vec![1]);
    b.put(Path::new("/b/x"), vec![1]);
    assert!(problem(open_two(&a, &b, 1)).contains("both hold a store"));
    assert!(problem(MirrorDisk::open(vec![member("/a", &a), member("/a", &b)], options(1))).contains("twice"));
    // A directory that was never filled is not a store.
    let (a, b) = new();
    let (mirror, _) = MirrorDisk::open(vec![member("/a", &a)], options(1)).unwrap();
    let stopped = || Err(Error::Mirror { problem: "stop".into() });
    put(&mirror, "/a/x", b"1").unwrap();
    assert!(mirror.rebuild(None, member("/b", &b), &mut |_| {}, &mut |_| stopped()).is_err());
    drop(mirror);
    assert!(problem(MirrorDisk::open(vec![member("/b", &b)], options(9))).contains("not yet filled"));
}

#[test]
fn a_bad_copy_is_healed_by_a_good_one() {
    let (a, b) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let (mirror, _) = open_two(&a, &b, 1).unwrap();
    put(&mirror, "/a/x", b"good bytes").unwrap();
    a.flip_bit(Path::new("/a/x"), 9);
    let check = |bytes: &[u8], path: &Path| match bytes {
        b"good" => Ok(()),
        _ => Err(Error::NotFound { path: path.to_owned() }),
    };
    let file = mirror.open_read(Path::new("/a/x")).unwrap();
    assert_eq!(read_verified(&*file, 0..4, check).unwrap().bytes, b"good");
    assert_eq!(a.read(Path::new("/a/x")).unwrap(), b"good bytes");
    assert_eq!((mirror.members()[0].healed, mirror.members()[0].healed_bytes), (1, 4));
    // Bad in both: the first one's path is named.
    [(&a, "/a/x"), (&b, "/b/x")].into_iter().for_each(|(disk, path)| disk.flip_bit(Path::new(path), 9));
    let refused = read_verified(&*file, 0..4, check);
    assert!(matches!(refused, Err(Error::NotFound { path }) if path == Path::new("/a/x")));
    // A copy that is short, or not there.
    b.put(Path::new("/b/x"), b"good bytes".into());
    a.put(Path::new("/a/x"), b"go".into());
    let file = mirror.open_read(Path::new("/a/x")).unwrap();
    assert!(read_verified(&*file, 0..4, check).is_ok());
    assert_eq!(a.read(Path::new("/a/x")).unwrap(), b"good");
    a.remove(Path::new("/a/x")).unwrap();
    let file = mirror.open_read(Path::new("/a/x")).unwrap();
    assert!(read_verified(&*file, 0..4, check).is_ok());
    mirror.restore(Path::new("/a/x"), 1, 0).unwrap();
    assert_eq!(a.read(Path::new("/a/x")).unwrap(), b"good bytes");
}

/// A copy that is made anew while the file grows has what is written afterwards too.
#[test]
fn a_lost_copy_of_a_file_that_is_being_written_is_made_anew() {
    let (a, b) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let (mirror, _) = open_two(&a, &b, 1).unwrap();
    let path = Path::new("/a/x");
    let mut file = mirror.create(path).unwrap();
    file.write_all(b"one").unwrap();
    b.remove(Path::new("/b/x")).unwrap();
    assert!(mirror.restore(path, 0, 1).unwrap());
    file.write_all(b"two").unwrap();
    file.sync().unwrap();
    assert_eq!((tree(&a, "/a"), b.read(Path::new("/b/x")).unwrap()), (tree(&b, "/b"), b"onetwo".into()));
    // What nobody has any more is not made.
    mirror.remove(path).unwrap();
    assert!(matches!(mirror.restore(path, 0, 1), Err(Error::NotFound { .. })));
    assert!(tree(&a, "/a").is_empty() && tree(&b, "/b").is_empty());
}

/// Changes on the mirror and on a map; faults on one member at a time; members that are filled while changes go on.
fn live(seed: u64) -> u64 {
    let disks = [SimulatedDisk::new(seed), SimulatedDisk::new(seed + 1)];
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut mirror, _) = open_two(&disks[0], &disks[1], seed).unwrap();
    let mut model: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut fills = 0;
    for step in 0..80 {
        let path = format!("/a/{}", random.u64(..5));
        match random.u64(..12) {
            // The last one may not fail: what it says then is nobody's to know.
            0 if states(&mirror) == [MemberState::Live; 2] => {
                let at = random.usize(..2);
                let [one, other] = [100, 0].map(|rate| Faults {
                    write_error: rate,
                    short_write: rate,
                    sync_error: rate,
                    name_error: rate,
                    truncate_error: rate,
                });
                disks[at].set_faults(one);
                disks[1 - at].set_faults(other);
            }
            0 | 1 => disks.iter().for_each(|disk| disk.set_faults(Faults::default())),
            2 => {
                drop(mirror);
                disks.iter().for_each(|disk| (disk.cut_power(), disk.restart()).1);
                mirror = open_two(&disks[0], &disks[1], seed ^ step).unwrap().0;
            }
            3 => {
                disks.iter().for_each(|disk| disk.set_faults(Faults::default()));
                let out = mirror.members().iter().position(|member| member.state == MemberState::Out);
                if let Some(out) = out {
                    let name = ["/a", "/b"][mirror.members()[out].path.ends_with("b") as usize];
                    let disk = &disks[usize::from(name == "/b")];
                    let busy = mirror.clone();
                    let mut count = 0;
                    let mut pace = |_| {
                        count += 1;
                        let path = format!("/a/{}", count % 5);
                        put(&busy, &path, &[count as u8; 30])?;
                        model.insert(path, vec![count as u8; 30]);
                        Ok(())
                    };
                    mirror.rebuild(None, member(name, disk), &mut |_| {}, &mut pace).unwrap();
                    fills += 1;
                    assert_eq!(tree(&disks[0], "/a"), tree(&disks[1], "/b"), "seed {seed} step {step}");
                }
            }
            4 | 5 => {
                if model.remove(&path).is_some() {
                    mirror.remove(Path::new(&path)).unwrap();
                    mirror.sync_dir(Path::new("/a")).unwrap();
                }
            }
            _ => {
                let bytes = vec![step as u8; random.usize(..600)];
                put(&mirror, &path, &bytes).unwrap_or_else(|error| panic!("seed {seed} step {step}: {error}"));
                model.insert(path, bytes);
            }
        }
        for (path, bytes) in &model {
            assert_eq!(&mirror.read(Path::new(path)).unwrap(), bytes, "seed {seed} step {step}: {path}");
        }
    }
    fills
}

#[test]
fn what_was_done_is_there_whichever_member_fails() {
    let fills: u64 = (0..120).map(live).sum();
    assert!(fills > 40, "{fills}");
}

#[test]
fn a_directory_that_vanishes_is_missed_and_a_label_that_rots_is_written_again() {
    let (a, b) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let (mirror, _) = open_two(&a, &b, 1).unwrap();
    assert!(mirror.check().is_empty());
    a.flip_bit(&Path::new("/a").join(MIRROR_FILE), 900);
    let found = mirror.check();
    assert!(found.len() == 1 && found[0].healed && found[0].path == Path::new("/a/MIRROR"), "{found:?}");
    assert!(mirror.check().is_empty() && states(&mirror) == [MemberState::Live; 2]);
    a.remove(&Path::new("/a").join(MIRROR_FILE)).unwrap();
    assert_eq!(mirror.check().len(), 1);
    assert_eq!(states(&mirror), [MemberState::Out, MemberState::Live]);
    // The last one stays, whatever is with it.
    b.remove(&Path::new("/b").join(MIRROR_FILE)).unwrap();
    assert!(matches!(&mirror.check()[..], [Finding { healed: false, .. }]));
    assert_eq!(states(&mirror), [MemberState::Out, MemberState::Live]);
}

/// One line for each healed piece filled the log of a server with a bad disk. Now the first ones stand there, and how
/// many more.
#[test]
fn many_healed_pieces_are_reported_in_a_few_sentences() {
    let (a, b) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let reported = Arc::new(std::sync::Mutex::new(Vec::new()));
    let hears = Arc::clone(&reported);
    let tell = Arc::new(move |sentence: &str| hears.lock().unwrap().push(sentence.to_owned()));
    let (mirror, _) =
        MirrorDisk::open(vec![member("/a", &a), member("/b", &b)], MirrorOptions { tell, ..options(1) }).unwrap();
    put(&mirror, "/a/x", &[7; 1000]).unwrap();
    reported.lock().unwrap().clear();
    let file = mirror.open_read(Path::new("/a/x")).unwrap();
    for round in 0..2 {
        (0..100).for_each(|at| file.heal(0, at..at + 1, &[7]).unwrap());
        assert_eq!(reported.lock().unwrap().len(), 5, "round {round}");
        mirror.check();
        let reported = std::mem::take(&mut *reported.lock().unwrap());
        assert!(reported.len() == 6 && reported[5].starts_with("95 more pieces"), "{reported:?}");
    }
    mirror.check();
    assert!(reported.lock().unwrap().is_empty());
}

/// A directory that was refused kept a stray `LOCK`, and one inside of a live data directory was taken.
#[test]
fn a_directory_that_cannot_be_filled_is_refused_and_left_as_it_was() {
    let top = tempfile::tempdir().unwrap();
    let real = |name: &str| Member { root: top.path().join(name), disk: Arc::new(RealDisk) };
    let open = |name: &str, seed| MirrorDisk::open(vec![real(name)], options(seed)).unwrap().0;
    let (live, other) = (open("live", 3), open("other", 7));
    std::fs::create_dir(top.path().join("full")).unwrap();
    std::fs::write(top.path().join("full/file"), b"mine").unwrap();
    std::os::unix::fs::symlink(top.path().join("live"), top.path().join("link")).unwrap();
    let all = || {
        let mut found = Vec::new();
        let mut open = vec![top.path().to_owned()];
        while let Some(directory) = open.pop() {
            for path in RealDisk.list(&directory).unwrap() {
                open.extend(path.symlink_metadata().unwrap().is_dir().then(|| path.clone()));
                found.push(path);
            }
        }
        found
    };
    let before = all();
    let check = |target: &str, why: &str| {
        let cloned = fill_new(&real(target), 9, || Ok::<_, Error>(())).unwrap_err().to_string();
        assert!(cloned.contains(why), "{target}: {cloned}");
        let filled = live.rebuild(None, real(target), &mut |_| {}, &mut |_| Ok(())).unwrap_err().to_string();
        assert!(live.check_target(None, &real(target)).is_err(), "{target}");
        assert_eq!(all(), before, "{target} {filled}");
    };
    for inside in ["live/new", "live/new/deep", "link/new", "other/new"] {
        check(inside, "inside of the data directory");
    }
    check("other", "in use");
    check("link", "in use");
    check("full", "not empty");
    check("full/file", "no directory");
    assert!(live.check_target(None, &real("live/..")).is_err(), "it holds the data directory");
    drop(other);
    // Nobody uses it, and it is a store all the same.
    check("other", "not empty");
    let nested = MirrorDisk::open(vec![real("new"), real("new/inside")], options(4)).err().unwrap().to_string();
    assert!(nested.contains("inside of the other"), "{nested}");
    assert_eq!(all(), before);
}

/// A directory that is added while the mirror is in use is found again at the next start, wherever it is; those that
/// were named are not.
#[test]
fn a_directory_that_was_added_is_known_to_the_others() {
    let (a, b, c) = (SimulatedDisk::new(1), SimulatedDisk::new(2), SimulatedDisk::new(3));
    let (mirror, _) = open_two(&a, &b, 1).unwrap();
    put(&mirror, "/a/x", b"one").unwrap();
    fill(&mirror, "/c", &c);
    put(&mirror, "/a/y", b"two").unwrap();
    drop(mirror);
    assert_eq!(tree(&c, "/c"), tree(&a, "/a"));
    let named = |all: &[(&str, &SimulatedDisk)]| all.iter().map(|(path, disk)| member(path, disk)).collect::<Vec<_>>();
    assert_eq!(added_members(&named(&[("/a", &a)])), [PathBuf::from("/c")]);
    assert!(added_members(&named(&[("/b", &b), ("/c", &c)])).is_empty());
    let all = named(&[("/a", &a), ("/b", &b), ("/c", &c)]);
    let (mirror, stale) = MirrorDisk::open(all, options(5)).unwrap();
    assert_eq!((states(&mirror), stale), (vec![MemberState::Live; 3], vec![]));
}

/// Else the others make files that it cannot take when it comes back.
#[test]
fn the_room_is_that_of_the_smallest_member_also_while_it_is_out() {
    let (a, b) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let (mirror, _) = open_two(&a, &b, 1).unwrap();
    mirror.create_dir_all(Path::new("/a/d")).unwrap();
    put(&mirror, "/a/d/x", &[1; 1000]).unwrap();
    a.set_capacity(Some(a.used_bytes()));
    put(&mirror, "/a/d/y", &[1; 1000]).unwrap();
    assert_eq!(states(&mirror), [MemberState::Out, MemberState::Live]);
    let size = a.used_bytes() + 5000;
    a.set_capacity(Some(size));
    let space = mirror.space(Path::new("/a/d")).unwrap();
    assert_eq!((space.size_bytes, space.free_bytes), (size, size - a.used_bytes()));
    mirror.create_dir_all(Path::new("/a/e")).unwrap();
    assert_eq!(mirror.space(Path::new("/a/e")).unwrap().size_bytes, size, "a directory that it has not yet");
}
