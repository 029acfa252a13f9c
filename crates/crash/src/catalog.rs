//! The directory of crash reports.
//!
//! *Format*: `crash-NNNNNNNNNN.json`, numbered from 1; `seen` holds the number of the newest report that a start has
//! announced. *Limits*: [`REPORTS_MAX`]; a new report removes the oldest.

use std::path::{Path, PathBuf};

use ogive_journal::Disk;

use crate::Error;
use crate::report::Report;

/// 100 reports of some 50 KiB.
pub const REPORTS_MAX: usize = 100;

/// Reports of one role.
#[derive(Debug)]
pub struct Catalog<'a, D> {
    disk: &'a D,
    directory: PathBuf,
}

impl<'a, D: Disk> Catalog<'a, D> {
    /// Of `directory`, which need not be there.
    pub fn new(disk: &'a D, directory: &Path) -> Self {
        Self { disk, directory: directory.to_owned() }
    }

    fn path(&self, number: u64) -> PathBuf {
        self.directory.join(format!("crash-{number:010}.json"))
    }

    /// Numbers of the reports, the oldest first.
    ///
    /// # Errors
    /// When the directory cannot be read; a missing one has none.
    pub fn numbers(&self) -> Result<Vec<u64>, Error> {
        let paths = match self.disk.list(&self.directory) {
            Ok(paths) => paths,
            Err(ogive_journal::Error::NotFound { .. }) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let number =
            |path: &PathBuf| path.file_name()?.to_str()?.strip_prefix("crash-")?.strip_suffix(".json")?.parse().ok();
        let mut numbers: Vec<u64> = paths.iter().filter_map(number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// One report.
    ///
    /// # Errors
    /// When there is none, or it is not one.
    pub fn read(&self, number: u64) -> Result<Report, Error> {
        let path = self.path(number);
        let bytes = self.disk.read(&path)?;
        serde_json::from_slice(&bytes).map_err(|source| Error::Report { path: path.display().to_string(), source })
    }

    /// Stores `report` under the next number, which it gets, and removes the oldest above [`REPORTS_MAX`].
    ///
    /// # Errors
    /// When the disk does not take it.
    pub fn add(&self, report: &mut Report) -> Result<u64, Error> {
        self.disk.create_dir_all(&self.directory)?;
        let mut numbers = self.numbers()?;
        report.number = numbers.last().map_or(1, |last| last + 1).max(self.seen() + 1);
        let text = serde_json::to_vec_pretty(report).unwrap_or_default();
        self.disk.replace(&self.path(report.number), &text)?;
        numbers.push(report.number);
        let excess = numbers.len().saturating_sub(REPORTS_MAX);
        for number in &numbers[..excess] {
            self.disk.remove(&self.path(*number))?;
        }
        Ok(report.number)
    }

    /// Number of the newest report that a start has announced.
    #[must_use]
    pub fn seen(&self) -> u64 {
        let text = self.disk.read(&self.directory.join("seen")).unwrap_or_default();
        std::str::from_utf8(&text).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    /// Numbers that no start has announced, which from now on one has.
    ///
    /// # Errors
    /// When the directory cannot be read or written.
    pub fn take_unseen(&self) -> Result<Vec<u64>, Error> {
        let seen = self.seen();
        let unseen: Vec<u64> = self.numbers()?.into_iter().filter(|number| *number > seen).collect();
        if let Some(last) = unseen.last() {
            self.disk.replace(&self.directory.join("seen"), format!("{last}\n").as_bytes())?;
        }
        Ok(unseen)
    }
}

#[cfg(test)]
mod tests {
    use ogive_journal::RealDisk;

    use super::*;
    use crate::report::FORMAT;

    fn report() -> Report {
        Report {
            format: FORMAT,
            number: 0,
            time: String::new(),
            kind: "panic".into(),
            signal: None,
            code: None,
            fault_address: None,
            panic: None,
            thread: String::new(),
            activity: String::new(),
            traces: Vec::new(),
            role: "server".into(),
            version: String::new(),
            build_id: String::new(),
            pid: 1,
            uptime_seconds: 0.0,
            configuration: Vec::new(),
            frames: Vec::new(),
            events: Vec::new(),
            signature: String::new(),
        }
    }

    #[test]
    fn numbers_go_on_and_the_oldest_reports_go() {
        let held = tempfile::tempdir().unwrap();
        let directory = held.path().join("crash");
        let catalog = Catalog::new(&RealDisk, &directory);
        assert_eq!(catalog.numbers().unwrap(), [0_u64; 0]);
        assert_eq!(catalog.take_unseen().unwrap(), [0_u64; 0]);
        for number in 1..=REPORTS_MAX as u64 + 2 {
            assert_eq!(catalog.add(&mut report()).unwrap(), number);
        }
        let numbers = catalog.numbers().unwrap();
        assert_eq!((numbers.len(), numbers[0]), (REPORTS_MAX, 3));
        assert_eq!(catalog.take_unseen().unwrap().len(), REPORTS_MAX);
        assert_eq!(catalog.take_unseen().unwrap(), [0_u64; 0]);
        // Somebody removed the files: no number is given out twice.
        numbers.iter().for_each(|number| RealDisk.remove(&catalog.path(*number)).unwrap());
        assert_eq!(catalog.add(&mut report()).unwrap(), REPORTS_MAX as u64 + 3);
        assert_eq!(catalog.take_unseen().unwrap().len(), 1);
        assert_eq!(catalog.read(REPORTS_MAX as u64 + 3).unwrap().role, "server");
        RealDisk.replace(&catalog.path(500), b"{}").unwrap();
        assert!(matches!(catalog.read(500), Err(Error::Report { .. })));
    }
}
