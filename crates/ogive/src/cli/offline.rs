//! Commands that change data directories while no server runs: each is noted there, for the audit of the next server.
//!
//! Failure: a note that cannot be written is a line on standard error. It keeps no command from its work: what makes
//! room on a full disk is such a command.

use std::io;

use nix::unistd::{Uid, User, getuid};
use ogive_export::random_source;
use ogive_journal::MirrorDisk;
use ogive_model::WallNs;
use ogive_probe::Clock;
use ogive_store::offline_audit::OfflineAudit;

/// Runs `work`, and records who ran it, in which directories, and how it ended.
pub(super) fn noted<T>(
    mirror: &MirrorDisk,
    action: &str,
    what: &str,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let directories: Vec<String> = mirror.members().iter().map(|member| member.path.display().to_string()).collect();
    let text = format!("{}\n{action} {what}\nin {}", who(), directories.join(" and "));
    let mut audit = match OfflineAudit::read(mirror, mirror.root()) {
        Ok(found) => found.unwrap_or_else(|| OfflineAudit::new(random_source())),
        Err(error) => {
            eprintln!("ogive: what earlier commands noted for the audit cannot be read, and is begun anew: {error}");
            OfflineAudit::new(random_source())
        }
    };
    let is_listed = audit.begin(WallNs(Clock::global().wall()), action, &text);
    write(&audit, mirror);
    let done = work();
    if is_listed {
        audit.end(&done.as_ref().map_or_else(|error| format!("failed: {error:#}"), |_| "done".to_owned()));
        write(&audit, mirror);
    }
    done
}

fn write(audit: &OfflineAudit, mirror: &MirrorDisk) {
    if let Err(error) = audit.write(mirror, mirror.root()) {
        eprintln!("ogive: this command is not in the audit: {error}");
    }
}

/// The user who runs this: the effective user, the login user, and who used sudo. The login user is from the kernel,
/// the last from sudo.
fn who() -> String {
    let mut out = format!("user {}", named(getuid()));
    if let Some(login) = login_uid(&std::fs::read_to_string("/proc/self/loginuid")) {
        out.push_str(&format!(", logged in as {}", named(login)));
    }
    if let Some(name) = std::env::var_os("SUDO_USER").filter(|name| !name.is_empty()) {
        out.push_str(&format!(", by sudo of {:?}", name.to_string_lossy()));
    }
    out
}

/// The kernel reports the largest number for a process without a login.
fn login_uid(read: &io::Result<String>) -> Option<Uid> {
    let uid: u32 = read.as_ref().ok()?.trim().parse().ok()?;
    (uid != u32::MAX).then(|| Uid::from_raw(uid))
}

fn named(uid: Uid) -> String {
    match User::from_uid(uid) {
        Ok(Some(user)) => format!("{} ({uid})", user.name),
        _ => uid.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_a_number_below_the_largest() {
        let of = |text: &str| login_uid(&Ok(text.to_owned())).map(Uid::as_raw);
        assert_eq!([of("1000\n"), of("0"), of("4294967295"), of(""), of("x")], [Some(1000), Some(0), None, None, None]);
        assert_eq!(login_uid(&Err(io::ErrorKind::NotFound.into())), None);
    }
}
