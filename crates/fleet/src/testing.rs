//! What tests of this crate share.

use std::path::Path;
use std::sync::Arc;

use ogive_journal::{Disk, SimulatedDisk};

use crate::record::Records;

/// Files in one directory of `disk`.
pub(crate) fn records(disk: &Arc<SimulatedDisk>) -> Records {
    disk.create_dir_all(Path::new("/one")).unwrap();
    Records::new(disk.clone(), vec!["/one/fleet".into()], |_| Ok(()))
}
