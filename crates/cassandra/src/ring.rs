//! `/v1/cluster`: the clusters of a node and their nodes, as people look at them when something is wrong.

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::shared::Shared;
use crate::site::Site;

/// What a node of ours sees: its spool, and each cluster with its nodes and what is not in order.
pub(crate) fn document(shared: &Shared, node: &str) -> Value {
    let Shared { sites, spooling, .. } = shared;
    json!({
        "node": node,
        "spool_bytes": spooling.board.bytes(),
        "spool_records": spooling.undriven(),
        "spool_records_doubted": spooling.doubted(),
        "clusters": sites.iter().map(|site| cluster(site, spooling.undriven_to(site))).collect::<Vec<_>>(),
    })
}

fn cluster(site: &Site, behind: u64) -> Value {
    let (last, minutes_open) = site.audited.last();
    let figures = &site.figures;
    json!({
        "name": site.name(),
        "away": site.present().is_none(),
        "behind_records": behind,
        "copies": site.cluster.get().and_then(Cluster::replication).unwrap_or_default(),
        "nodes": site.cluster.get().map_or_else(Vec::new, Cluster::ring),
        "repairs": site.repairs(),
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
