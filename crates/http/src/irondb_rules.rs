//! What each route of IRONdb's API asks of whoever calls it.

use super::web::Need::{self, Admin, Open, Read, Write};

/// Every route, and what it needs.
pub(super) const RULES: &[(&str, Need, Need)] = &[
    ("/state", Read, Read),
    ("/stats.json", Read, Read),
    ("/gossip/json", Read, Read),
    ("/topology/xml/{hash}", Read, Read),
    ("/topology/{hash}", Read, Admin),
    ("/activate/{hash}", Admin, Admin),
    ("/locate/xml/{*stream}", Read, Read),
    ("/raw", Write, Write),
    ("/raw/{*stream}", Read, Read),
    ("/write/text", Write, Write),
    ("/write/numeric", Write, Write),
    ("/write/nnt", Write, Write),
    ("/histogram/write", Write, Write),
    ("/nntbs", Write, Write),
    ("/rollup/{*stream}", Read, Read),
    ("/histogram/{*stream}", Read, Read),
    ("/read/{*stream}", Read, Read),
    ("/find/{account}/tags", Read, Read),
    ("/find/{account}/tag_cats", Read, Read),
    ("/find/{account}/tag_vals", Read, Read),
    ("/meta/check/tag/{check}", Read, Write),
    ("/surrogate/activity_rebuild", Read, Write),
    ("/fetch", Read, Read),
    ("/extension/lua", Read, Read),
    ("/extension/lua/public/caql_v1", Read, Read),
    ("/-/irondb/healthy", Open, Open),
];
