//! Rule files on disk.

use std::path::Path;

use ogive_detect::rules::{RuleFile, slo};

use ogive_door::reload::Marks;
use ogive_model::Tenant;
use ogive_notify::Maintenance;
use ogive_outgoing::Files;

use super::options::{AlertingOptions, TenantFiles};

/// 64 MiB: a hundred thousand rules.
const FILE_BYTES_MAX: usize = 64 << 20;

/// A file that was checked.
pub(super) struct LoadedFile {
    pub(super) tenant: Tenant,
    pub(super) path: String,
    pub(super) rules: RuleFile,
}

/// Files that were checked.
pub(super) struct Loaded {
    pub(super) files: Vec<LoadedFile>,
    pub(super) marks: Marks,
    pub(super) maintenance: Vec<Maintenance>,
}

/// Reads every file that the options name.
pub(super) fn load(options: &AlertingOptions, files: Files) -> Result<Loaded, String> {
    let (mut out, mut marks, mut problems) = (Vec::<LoadedFile>::new(), Marks::default(), Vec::new());
    for TenantFiles { tenant, pattern } in options.rule_files() {
        let paths = (files.list)(&pattern).map_err(|error| format!("{}: {error}", pattern.display()))?;
        for path in paths {
            match read(&path, files) {
                Ok((rules, bytes)) => {
                    marks.note(&path, &bytes);
                    let path = path.display().to_string();
                    if !out.iter().any(|other| other.path == path && other.tenant == tenant) {
                        out.push(LoadedFile { tenant: tenant.clone(), path, rules });
                    }
                }
                Err(found) => problems.extend(found),
            }
        }
    }
    let mut windows = Vec::new();
    if let Some(path) = options.alerting_maintenance.as_deref() {
        match windows_of(path, files) {
            Ok((found, bytes)) => {
                marks.note(path, &bytes);
                windows = found;
            }
            Err(problem) => problems.push(problem),
        }
    }
    if !problems.is_empty() {
        return Err(problems.join("\n"));
    }
    let rules: usize = out.iter().map(|file| file.rules.rules_count()).sum();
    marks.count(rules, out.iter().all(|file| file.rules.groups.is_empty()));
    Ok(Loaded { files: out, marks, maintenance: windows })
}

fn windows_of(path: &Path, files: Files) -> Result<(Vec<Maintenance>, Vec<u8>), String> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let bytes = (files.read)(path).map_err(|error| named(&error))?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(named(&"it is longer than a rule file may be"));
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| named(&"the file is not UTF-8"))?;
    Ok((Maintenance::parse(text).map_err(|error| named(&error))?, bytes))
}

fn read(path: &Path, files: Files) -> Result<(RuleFile, Vec<u8>), Vec<String>> {
    let bytes = (files.read)(path).map_err(|error| vec![format!("{}: {error}", path.display())])?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(vec![format!(
            "{}: {} bytes are more than a rule file may have, {FILE_BYTES_MAX}",
            path.display(),
            bytes.len()
        )]);
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| vec![format!("{}: the file is not UTF-8", path.display())])?;
    let made = if slo::is_slo(text) { slo::rules(text).map(std::borrow::Cow::Owned) } else { Ok(text.into()) };
    let rules = made
        .and_then(|text| RuleFile::parse(&text))
        .map_err(|errors| errors.iter().map(|error| format!("{}:{error}", path.display())).collect::<Vec<_>>())?;
    Ok((rules, bytes))
}

/// The mistakes in the rule files that match a pattern, one line each.
pub fn check(pattern: &Path, files: Files) -> Vec<String> {
    match (files.list)(pattern) {
        Ok(paths) => paths.iter().filter_map(|path| read(path, files).err()).flatten().collect(),
        Err(error) => vec![format!("{}: {error}", pattern.display())],
    }
}
