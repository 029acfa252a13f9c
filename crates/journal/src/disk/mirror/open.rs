//! Opening a mirror: decides which directories are current and which must be rebuilt.
//!
//! Invariants: only members of the highest epoch are read. A directory that was current in it and is missing prevents
//! the start unless the caller allows leaving it out, because it could have continued alone.
//! Failure: directories of different stores, or that continued without each other, are an [`Error::Mirror`] that says
//! what to do; nothing is written then.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};

use super::label::{Label, MEMBERS_MAX, is_added, member_id};
use super::members::{Counts, MemberState, Shared, Slot, State};
use super::{MIRROR_FILE, MirrorDisk};
use crate::{DirectoryLock, Disk, Error, LOCK_FILE};

/// A directory of a mirror, on the disk that it is reached by.
#[derive(Clone)]
pub struct Member {
    /// The directory.
    pub root: PathBuf,
    /// Where it is.
    pub disk: Arc<dyn Disk>,
}

/// How a mirror is opened.
pub struct MirrorOptions {
    /// Go on without members that were current and are not there. They are stale from then on.
    pub degraded: bool,
    /// Numbers that nobody else draws.
    pub random: Box<dyn FnMut() -> u64 + Send + Sync>,
    /// Hears, in a sentence, what happens to members.
    pub tell: Arc<dyn Fn(&str) + Send + Sync>,
}

/// What a directory holds.
pub(super) enum DirectoryContents {
    /// It cannot be used.
    Lost(Error),
    /// Nothing of a store.
    Empty(DirectoryLock),
    /// A store of the time before mirrors.
    Unlabelled(DirectoryLock),
    Labelled(DirectoryLock, Label),
}

impl MirrorDisk {
    /// Opens `members` as one disk with the root of the first, and gives the directories that are there and must be
    /// rebuilt: see [`MirrorDisk::rebuild`]. Directories that are missing are made.
    ///
    /// # Errors
    /// [`Error::Mirror`], [`Error::Locked`]; the disk's when no member can be used.
    pub fn open(members: Vec<Member>, mut options: MirrorOptions) -> Result<(Self, Vec<PathBuf>), Error> {
        check_members(&members)?;
        let found = members.iter().map(look).collect::<Result<Vec<DirectoryContents>, Error>>()?;
        let label = choose(&members, &found, &mut options)?;
        let root = members[0].root.clone();
        // Beside a store that is there already, a new directory has to be filled.
        let fresh = label.epoch == 0 && !found.iter().any(|found| matches!(found, DirectoryContents::Unlabelled(_)));
        let (mut slots, mut stale) = (Vec::new(), Vec::new());
        for (member, found) in members.into_iter().zip(found) {
            let (lock, id, why) = judge(&label, fresh, found, &mut options);
            if lock.is_some() && !why.is_empty() {
                stale.push(member.root.clone());
            }
            slots.push(Slot {
                id,
                root: member.root,
                disk: member.disk,
                state: if why.is_empty() { MemberState::Live } else { MemberState::Out },
                why,
                gone: false,
                counts: Arc::new(Counts::default()),
                lock,
            });
        }
        let current = slots.iter().filter(|slot| slot.state == MemberState::Live).map(|slot| slot.id);
        let mut ids: Vec<u64> = label.current.iter().map(|(id, _)| *id).collect();
        let mut live: Vec<u64> = current.collect();
        if live.is_empty() {
            let problem = format!("{}: {}; name the directory that is current", slots[0].root.display(), slots[0].why);
            return Err(Error::Mirror { problem });
        }
        ids.sort_unstable();
        live.sort_unstable();
        let mut state = State { slots, label, unsettled: ids != live, random: options.random };
        for slot in state.slots.iter().filter(|slot| slot.state != MemberState::Live) {
            (options.tell)(&format!("{} is not in use: {}", slot.root.display(), slot.why));
        }
        state.settle(&*options.tell)?;
        assert!(state.live().next().is_some(), "{} opens with a live member", root.display());
        let shared = Shared {
            root,
            names: RwLock::default(),
            state: RwLock::new(state),
            writers: Mutex::default(),
            readers: Mutex::default(),
            changed: Mutex::default(),
            held: Mutex::default(),
            healed: Mutex::default(),
            tell: options.tell,
        };
        Ok((Self(Arc::new(shared)), stale))
    }
}

fn check_members(members: &[Member]) -> Result<(), Error> {
    let refuse = |problem: String| Err(Error::Mirror { problem });
    if members.is_empty() || members.len() > MEMBERS_MAX {
        return refuse(format!("a mirror has 1 to {MEMBERS_MAX} directories, not {}", members.len()));
    }
    for (at, member) in members.iter().enumerate() {
        let real = member.disk.real_path(&member.root);
        let others = || members[..at].iter().map(|other| (other, other.disk.real_path(&other.root)));
        if let Some((other, _)) =
            others().find(|(_, other)| *other != real && (other.starts_with(&real) || real.starts_with(other)))
        {
            let (one, other) = (member.root.display(), other.root.display());
            return refuse(format!(
                "{one} and {other} are one inside of the other; name directories beside each other"
            ));
        }
        if members[..at].iter().any(|other| other.root == member.root) {
            return refuse(format!("{} is named twice; name each directory once", member.root.display()));
        }
    }
    Ok(())
}

/// Does `work`, which fills `target`, with the directory locked and labelled as not yet filled: who opens it before the
/// work is done is refused.
///
/// # Errors
/// [`Error::Mirror`] when the directory is not empty; the work's, and then the label stays.
pub fn fill_new<T, E: From<Error>>(target: &Member, drawn: u64, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let (disk, root) = (&*target.disk, &target.root);
    refuse_used(target, None)?;
    let _lock = match look(target)? {
        DirectoryContents::Lost(error) => return Err(error.into()),
        DirectoryContents::Empty(lock) => lock,
        DirectoryContents::Labelled(..) | DirectoryContents::Unlabelled(_) => {
            let problem = format!("{} is not empty; empty it or name another directory", root.display());
            return Err(Error::Mirror { problem }.into());
        }
    };
    let (current, history) = (Vec::new(), Vec::new());
    Label { store: u128::from(drawn), member: drawn, epoch: 0, current, history }.write(disk, root)?;
    let done = work()?;
    disk.remove(&root.join(MIRROR_FILE))?;
    disk.sync_dir(root)?;
    Ok(done)
}

/// The directories that were added to the mirror of `members` while it was in use, and that are not among them.
#[must_use]
pub fn added_members(members: &[Member]) -> Vec<PathBuf> {
    let labels: Vec<Label> = members.iter().filter_map(|member| Label::peek(&*member.disk, &member.root)).collect();
    let Some(best) = labels.iter().max_by_key(|label| label.epoch) else { return Vec::new() };
    let is_here = |id: u64| labels.iter().any(|label| label.member == id);
    let is_named = |path: &PathBuf| members.iter().any(|member| member.root == *path);
    let added = best.current.iter().filter(|(id, path)| is_added(*id) && !is_here(*id) && !is_named(path));
    added.map(|(_, path)| path.clone()).collect()
}

/// Refuses, before anything is written, a directory that cannot be filled: one that somebody uses, one inside of a data
/// directory, and one that is not empty. That of the mirror `store` may hold what it held.
pub(super) fn refuse_used(target: &Member, store: Option<u128>) -> Result<(), Error> {
    let (disk, root) = (&*target.disk, &target.root);
    let refuse = |problem: String| Err(Error::Mirror { problem });
    let real = disk.real_path(root);
    let is_data = |path: &&Path| [MIRROR_FILE, LOCK_FILE].iter().any(|name| disk.length(&path.join(name)).is_ok());
    if let Some(above) = real.ancestors().skip(1).find(is_data) {
        let (root, above) = (root.display(), above.display());
        return refuse(format!("{root} is inside of the data directory {above}; name one that is outside of it"));
    }
    let empty = match disk.is_directory(root) {
        Ok(true) => is_empty(disk, root)?,
        Ok(false) if disk.length(root).is_ok() => return refuse(format!("{} is no directory", root.display())),
        _ => return Ok(()),
    };
    // Without the file nobody has the lock.
    if disk.length(&root.join(LOCK_FILE)).is_ok() {
        match disk.lock(root) {
            Err(Error::Locked { .. }) => {
                return refuse(format!("{} is in use by a server; name a directory that nobody uses", root.display()));
            }
            locked => drop(locked?),
        }
    }
    let label = Label::peek(disk, root);
    if store.is_some() && label.as_ref().map(|label| label.store) == store {
        return Ok(());
    }
    let is_labelled = disk.length(&root.join(MIRROR_FILE)).is_ok() && label.is_none_or(|label| label.epoch > 0);
    if !empty || is_labelled {
        return refuse(format!("{} is not empty; empty it or name another directory", root.display()));
    }
    Ok(())
}

/// Locks a directory and reads its label.
pub(super) fn look(member: &Member) -> Result<DirectoryContents, Error> {
    let (disk, root) = (&*member.disk, &member.root);
    let locked = disk.create_dir_all(root).and_then(|()| disk.lock(root));
    let lock = match locked {
        Ok(lock) => lock,
        Err(error @ Error::Locked { .. }) => return Err(error),
        Err(error) => return Ok(DirectoryContents::Lost(error)),
    };
    Ok(match Label::read(disk, root) {
        Ok(Some(label)) => DirectoryContents::Labelled(lock, label),
        Ok(None) => match is_empty(disk, root) {
            Ok(true) => DirectoryContents::Empty(lock),
            Ok(false) => DirectoryContents::Unlabelled(lock),
            Err(error) => DirectoryContents::Lost(error),
        },
        Err(error @ Error::Mirror { .. }) => return Err(error),
        Err(error) => DirectoryContents::Lost(error),
    })
}

/// Whether nothing but locks and halves of a label is there.
fn is_empty(disk: &dyn Disk, root: &Path) -> Result<bool, Error> {
    let ignored = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name == LOCK_FILE || name == "lost+found" || name.starts_with(MIRROR_FILE)
    };
    Ok(disk.list(root)?.iter().all(ignored))
}

/// The label that counts.
fn choose(members: &[Member], found: &[DirectoryContents], options: &mut MirrorOptions) -> Result<Label, Error> {
    let refuse = |problem: String| Err(Error::Mirror { problem });
    let labelled: Vec<(&Path, &Label)> = members
        .iter()
        .zip(found)
        .filter_map(|(member, found)| match found {
            DirectoryContents::Labelled(_, label) => Some((member.root.as_path(), label)),
            _ => None,
        })
        .collect();
    let Some((root, best)) = labelled.iter().max_by_key(|(_, label)| label.epoch).filter(|best| best.1.epoch > 0)
    else {
        return begin(members, found, options);
    };
    for (other, label) in &labelled {
        if label.store != best.store {
            let (root, other) = (root.display(), other.display());
            return refuse(format!("{root} and {other} belong to different stores; start each on its own"));
        }
        let same = label.epoch == best.epoch && label.history == best.history && label.current == best.current;
        if !same && (label.epoch == best.epoch || !best.follows(label)) {
            let (root, other) = (root.display(), other.display());
            return refuse(format!(
                "{root} and {other} went on without each other, and each may hold samples that the other does not; \
                 choose the one to keep, empty the other directory, and start again: it is rebuilt"
            ));
        }
    }
    for (member, found) in members.iter().zip(found) {
        if matches!(found, DirectoryContents::Unlabelled(_)) {
            let (root, other) = (root.display(), member.root.display());
            return refuse(format!(
                "{other} holds files that are not of the mirror of {root}; empty it: it is rebuilt"
            ));
        }
    }
    let is_here = |id: u64| labelled.iter().any(|(_, label)| label.member == id);
    let missing: Vec<&(u64, PathBuf)> = best.current.iter().filter(|(id, _)| !is_here(*id)).collect();
    if let (Some((_, path)), false) = (missing.first(), options.degraded) {
        return refuse(format!(
            "the copy in {} was current and is not here; name it with --data, or, if it is lost, start with --degraded \
             to go on without it",
            path.display()
        ));
    }
    Ok((*best).clone())
}

/// The label of a mirror that begins: with new directories, or with the one that holds a store already.
fn begin(members: &[Member], found: &[DirectoryContents], options: &mut MirrorOptions) -> Result<Label, Error> {
    let used: Vec<usize> =
        (0..found.len()).filter(|at| matches!(found[*at], DirectoryContents::Unlabelled(_))).collect();
    if let [one, other, ..] = used[..] {
        let (one, other) = (members[one].root.display(), members[other].root.display());
        return Err(Error::Mirror {
            problem: format!("{one} and {other} both hold a store; start with one of them and an empty directory"),
        });
    }
    if found.iter().all(|found| matches!(found, DirectoryContents::Lost(_))) {
        let Some(DirectoryContents::Lost(error)) = found.first() else { unreachable!("a mirror has a member") };
        return Err(Error::Mirror { problem: error.to_string() });
    }
    // A directory that cannot be looked at may hold the store.
    if let Some(lost) = found.iter().position(|found| matches!(found, DirectoryContents::Lost(_)))
        && !options.degraded
    {
        let DirectoryContents::Lost(error) = &found[lost] else { unreachable!("it was one") };
        let path = members[lost].root.display();
        return Err(Error::Mirror {
            problem: format!("{path} cannot be used ({error}); mend it, or start with --degraded to go on without it"),
        });
    }
    let mut random = || (options.random)();
    let store = u128::from(random()) << 64 | u128::from(random());
    // Epoch 0 and nobody current: who is, is settled next.
    let member = random();
    Ok(Label { store, member, epoch: 0, current: Vec::new(), history: Vec::new() })
}

/// An id for a member that was named.
fn drawn(options: &mut MirrorOptions) -> u64 {
    member_id((options.random)(), false)
}

/// The lock, the id, and why a member is not live.
fn judge(
    label: &Label,
    fresh: bool,
    found: DirectoryContents,
    options: &mut MirrorOptions,
) -> (Option<DirectoryLock>, u64, String) {
    match found {
        DirectoryContents::Lost(error) => (None, drawn(options), error.to_string()),
        DirectoryContents::Empty(lock) if fresh => (Some(lock), drawn(options), String::new()),
        DirectoryContents::Empty(lock) => (Some(lock), drawn(options), "it is new and not yet filled".into()),
        DirectoryContents::Unlabelled(lock) => (Some(lock), drawn(options), String::new()),
        DirectoryContents::Labelled(lock, own) => {
            let is_current = own.epoch == label.epoch && label.current.iter().any(|(id, _)| *id == own.member);
            let why = match is_current {
                true => String::new(),
                false if own.epoch == 0 => "it is not yet filled".into(),
                false => format!("it is stale: it stopped in epoch {}, and {} is current", own.epoch, label.epoch),
            };
            (Some(lock), own.member, why)
        }
    }
}
