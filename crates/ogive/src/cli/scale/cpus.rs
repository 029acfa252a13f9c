//! Lists of CPUs and of numbers of workers.

/// The largest number of workers, and of different numbers of them: each is a run of the command, and copies are a
/// process each.
const WORKERS_MAX: u32 = 1024;

/// Numbers such as `0-3,8`, each up to `most`, in the order in which they are written.
pub(super) fn list(text: &str, most: usize) -> anyhow::Result<Vec<usize>> {
    let number = |text: &str| {
        let number = text.trim().parse::<usize>();
        number.map_err(|_| anyhow::anyhow!("{text:?} is no number: a list is such as 0-3,8"))
    };
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (from, to) = match part.split_once('-') {
            Some((from, to)) => (number(from)?, number(to)?),
            None => (number(part)?, number(part)?),
        };
        anyhow::ensure!(from <= to, "{part}: the second number is below the first");
        anyhow::ensure!(to <= most, "{to} is too many: {most} at most");
        anyhow::ensure!(to - from < WORKERS_MAX as usize, "{part}: {WORKERS_MAX} numbers at most");
        numbers.extend(from..=to);
        anyhow::ensure!(numbers.len() <= WORKERS_MAX as usize, "{WORKERS_MAX} numbers at most");
    }
    Ok(numbers)
}

/// The CPUs of a list, which this process must be allowed to use.
pub(super) fn allowed(wanted: &[usize]) -> anyhow::Result<Vec<usize>> {
    let allowed = ogive_probe::allowed_cpus();
    for (at, cpu) in wanted.iter().enumerate() {
        anyhow::ensure!(allowed.contains(cpu), "this process may not use CPU {cpu}");
        anyhow::ensure!(!wanted[..at].contains(cpu), "--cpus: CPU {cpu} stands there twice");
    }
    Ok(wanted.to_vec())
}

/// Numbers of workers, ascending, each once.
pub(super) fn workers(text: &str) -> anyhow::Result<Vec<u32>> {
    let mut counts = list(text, WORKERS_MAX as usize)?;
    anyhow::ensure!(!counts.contains(&0), "0 workers do nothing");
    counts.sort_unstable();
    counts.dedup();
    Ok(counts.into_iter().filter_map(|count| u32::try_from(count).ok()).collect())
}

/// Every number up to 8, and two in each doubling above that.
pub(super) fn up_to(cpus: usize) -> Vec<u32> {
    let cpus = u32::try_from(cpus).unwrap_or(WORKERS_MAX).clamp(1, WORKERS_MAX);
    let mut counts: Vec<u32> = (1..=cpus.min(8)).collect();
    let mut step = 8;
    while step < cpus {
        counts.extend([step * 3 / 2, step * 2].into_iter().filter(|count| *count <= cpus));
        step *= 2;
    }
    if counts.last() != Some(&cpus) {
        counts.push(cpus);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_or_refused() {
        assert_eq!(list("0-2,8", 9).unwrap(), [0, 1, 2, 8]);
        assert_eq!(workers("8,1-3,2").unwrap(), [1, 2, 3, 8]);
        for (bad, says) in [
            ("", "no number"),
            ("a", "no number"),
            ("3-1", "below the first"),
            ("1-", "no number"),
            ("-1", "no number"),
            ("1025", "1024 at most"),
            ("0", "0 workers"),
            ("1,99999999999999999999", "no number"),
        ] {
            let error = workers(bad).unwrap_err().to_string();
            assert!(error.contains(says), "{bad:?}: {error}");
        }
        assert!(list("0-18446744073709551615", usize::MAX).unwrap_err().to_string().contains("1024 numbers"));
    }

    #[test]
    fn numbers_of_workers_reach_every_size_of_machine() {
        for (cpus, expected) in [
            (1, vec![1]),
            (2, vec![1, 2]),
            (8, vec![1, 2, 3, 4, 5, 6, 7, 8]),
            (20, vec![1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20]),
            (32, vec![1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32]),
        ] {
            assert_eq!(up_to(cpus), expected, "{cpus}");
        }
    }
}
