//! Tracepoints as tracefs describes them, where it is mounted and may be read.

use ogive_text::near::suggestion;

use super::record::fields;
use super::types::RecordField;
use crate::machine::Source;

/// Where the descriptions are: in its own place, and in the one before Linux 4.1.
const EVENTS: [&str; 2] = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"];

/// The fields of a tracepoint's record, or why they are not known.
pub(super) fn record(files: &dyn Source, category: &str, name: &str) -> Result<Vec<RecordField>, String> {
    let Some((events, categories)) =
        EVENTS.iter().map(|events| (events, files.list(events))).find(|(_, found)| !found.is_empty())
    else {
        let same = match (category, name.strip_prefix("sys_enter_").or_else(|| name.strip_prefix("sys_exit_"))) {
            ("syscalls", Some(call)) => format!("syscall:{call}"),
            _ => format!("tp_btf:{name}"),
        };
        return Err(format!(
            "tracefs, which describes tracepoints, cannot be read here (as root: mount -t tracefs none \
             /sys/kernel/tracing); {same} needs no tracefs"
        ));
    };
    if !categories.iter().any(|known| known == category) {
        let meant = suggestion(categories.iter().map(String::as_str), category);
        return Err(format!("there is no category {category:?} of tracepoints{meant}"));
    }
    let of_category = format!("{events}/{category}");
    match files.read(&format!("{of_category}/{name}/format")) {
        Some(description) => Ok(fields(&description)),
        None => {
            let known = files.list(&of_category);
            let meant = suggestion(known.iter().map(String::as_str), name);
            Err(format!("{category} has no tracepoint {name:?}{meant}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Files(&'static str);

    impl Source for Files {
        fn read(&self, path: &str) -> Option<String> {
            let is_there = path == format!("{}/sched/sched_switch/format", self.0);
            is_there.then(|| "field:int next_pid;offset:56;size:4;signed:1;".to_owned())
        }

        fn list(&self, path: &str) -> Vec<String> {
            let names: &[&str] = match path.strip_prefix(self.0) {
                Some("") => &["sched", "irq"],
                Some("/sched") => &["sched_switch", "sched_wakeup"],
                _ => &[],
            };
            names.iter().map(|name| (*name).to_owned()).collect()
        }
    }

    #[test]
    fn a_tracepoint_is_found_where_tracefs_is_and_otherwise_it_is_said_what_may_be_meant() {
        for events in EVENTS {
            let found = record(&Files(events), "sched", "sched_switch").unwrap();
            assert_eq!((found[0].name.as_str(), found[0].offset), ("next_pid", 56));
        }
        for (events, category, name, said) in [
            (EVENTS[0], "shed", "sched_switch", "did you mean \"sched\"?"),
            (EVENTS[0], "sched", "sched_swich", "did you mean \"sched_switch\"?"),
            ("/nowhere", "sched", "sched_switch", "tp_btf:sched_switch needs no tracefs"),
            ("/nowhere", "syscalls", "sys_enter_read", "syscall:read needs no tracefs"),
        ] {
            let error = record(&Files(events), category, name).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
