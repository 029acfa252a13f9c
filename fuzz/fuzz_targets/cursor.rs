//! Any fields of a broker's cursor behind a right checksum: decoding does not panic, and what it reads is written the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_broker::Cursor;

fuzz_target!(|fields: &[u8]| {
    let _ = Cursor::decode(fields);
    if let Ok(cursor) = Cursor::decode(&Cursor::sealed(fields)) {
        assert_eq!(Cursor::decode(&cursor.encode()), Ok(cursor));
    }
});
