//! `/v1/cluster`: the clusters of a node and their nodes, as people look at them when something is wrong.

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::shared::Shared;
use crate::site::Site;

/// What a node of ours sees: its spool, and each cluster with its nodes and what is not in order.
pub(crate) fn document(shared: &Shared, node: &str) -> Value {
    let Shared { sites, spooling, .. } = shared;
    let board = &spooling.board;
    json!({
        "node": node,
        "spool_bytes": board.bytes(),
        "spool_records": board.end().saturating_sub(spooling.done_end()),
        "clusters": sites.iter().map(|site| cluster(site, board.end())).collect::<Vec<_>>(),
    })
}

fn cluster(site: &Site, end: u64) -> Value {
    let (last, minutes_open) = site.audited.last();
    let figures = &site.figures;
    json!({
        "name": site.name(),
        "away": site.present().is_none(),
        "behind_records": end.saturating_sub(site.done_end()),
        "copies": site.cluster.get().and_then(Cluster::replication).unwrap_or_default(),
        "nodes": site.cluster.get().map_or_else(Vec::new, Cluster::ring),
        "conflicts_total": figures.conflicts.get(),
        "corrupt_rows_total": figures.corrupt.get(),
        "audit": {
            "minutes_open": minutes_open,
            "rows_lost": last.lost,
            "copies_missing": last.copies_missing,
            "copies_unknown": last.copies_unknown,
        },
    })
}
