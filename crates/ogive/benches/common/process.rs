//! What the process of a server has used, and how figures of several rounds are printed.

use crate::common::Server;

/// Processor seconds of the server so far, user and system.
pub(crate) fn cpu_seconds(server: &Server) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    // USER_HZ is 100 on every Linux.
    ticks as f64 / 100.0
}

/// Anonymous memory of the server, bytes.
pub(crate) fn memory(server: &Server) -> f64 {
    server.status_word("RssAnon").parse::<f64>().unwrap() * 1024.0
}

/// The median, and the least and the greatest; the smaller, the more decimal places.
pub(crate) fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let show = |value: f64| {
        let places = [1.0, 10.0, 100.0].iter().filter(|limit| value < **limit).count();
        format!("{value:.places$}")
    };
    format!("{} ({}..{})", show(values[values.len() / 2]), show(values[0]), show(values[values.len() - 1]))
}
