//! All contenders in turn, round after round, by the CPU time of the thread; ratios are taken within a round.

pub(crate) struct Contender<'a> {
    name: &'static str,
    operations: usize,
    run: Box<dyn FnMut() + 'a>,
}

pub(crate) fn contender<'a>(name: &'static str, operations: usize, run: impl FnMut() + 'a) -> Contender<'a> {
    Contender { name, operations, run: Box::new(run) }
}

/// Runs the contenders and prints what each costs, and its ratio to the first.
pub(crate) fn time(group: &str, contenders: &mut [Contender<'_>], rounds: usize) {
    let mut costs = vec![Vec::new(); contenders.len()];
    for round in 0..=rounds {
        for (contender, costs) in contenders.iter_mut().zip(&mut costs) {
            let start = cpu_ns();
            (contender.run)();
            let cost = (cpu_ns() - start) as f64 / contender.operations as f64;
            // The first round warms up.
            if round > 0 {
                costs.push(cost);
            }
        }
    }
    println!(
        "\n{group}: {rounds} rounds\n{:38} {:>9} {:>9} {:>9} {:>8}",
        "", "median ns", "least", "greatest", "ratio"
    );
    for (contender, cost) in contenders.iter().zip(&costs) {
        let mut ratios: Vec<f64> = cost.iter().zip(&costs[0]).map(|(cost, first)| cost / first).collect();
        let mut sorted = cost.clone();
        sorted.sort_by(f64::total_cmp);
        ratios.sort_by(f64::total_cmp);
        let (median, ratio) = (sorted[sorted.len() / 2], ratios[ratios.len() / 2]);
        let (least, greatest) = (sorted[0], sorted[sorted.len() - 1]);
        println!("{:38} {median:9.2} {least:9.2} {greatest:9.2} {ratio:8.2}", contender.name);
    }
}

/// CPU time of this thread, in nanoseconds.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What this ran on.
pub(crate) fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = info.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split(':').nth(1)).unwrap_or("?").trim().to_owned()
    };
    let cpus = info.lines().filter(|line| line.starts_with("processor")).count();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?").to_owned();
    format!(
        "{}, family {} model {}, {cpus} CPUs, load {load}",
        field("model name"),
        field("cpu family"),
        field("model\t")
    )
}
