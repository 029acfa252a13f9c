//! Bins to bytes and back.

use ogive_hist::Histogram;
use ogive_hist::openhistogram::{Repairs, decode, decode_base64, encode, encode_base64};
use serde_json::Value;

use crate::support::{Outcome, bins, bins_of, canonical, expect, hex, histogram};

/// Bins to the bytes that a right encoder writes, and back.
pub(crate) fn serialize(_: &str, record: &Value) -> Outcome {
    let counted = bins(&record["bins"]);
    let defect = record.get("upstream_defect").is_some();
    let text = |correct: &str, library: &str| {
        let field = if defect { correct } else { library };
        record[field].as_str().unwrap_or_else(|| panic!("a record has {field}")).to_owned()
    };
    let histogram = histogram(&counted);
    let bytes = encode(&histogram).map_err(|error| error.to_string())?;
    expect("bytes", &bytes, &hex(&text("correct_hex", "hex")))?;
    expect("base64", encode_base64(&histogram), Ok(text("correct_b64", "b64")))?;
    if !defect {
        expect("length", Some(bytes.len() as u64), record["bytes"].as_u64())?;
    }
    let (back, repairs) = decode(&bytes).map_err(|error| error.to_string())?;
    expect("bins read back", bins_of(&back), canonical(&counted))?;
    expect("repairs of canonical bytes", repairs, Repairs::default())?;
    Ok(defect)
}

/// Bytes or base64 to bins, canonical or not.
pub(crate) fn deserialize(list: &str, record: &Value) -> Outcome {
    let library = record["rc"].as_i64().expect("a return code");
    let expected = bins(&record["bins"]);
    let base64 = list == "records_b64";
    let text = record[if base64 { "b64" } else { "hex" }].as_str().expect("an input");
    let (found, length) = if base64 {
        (decode_base64(text), None)
    } else {
        let bytes = hex(text);
        (decode(&bytes), Some(bytes.len()))
    };
    match found {
        Err(_) if library < 0 => Ok(false),
        Err(error) => Err(format!("refused ({error}), the library reads {library} bytes")),
        // Missing padding is the one thing that the library refuses and Ogive forgives.
        Ok(read) if library < 0 && base64 => unpadded(text, &read),
        Ok(_) if library < 0 => Err("read, the library refuses".to_owned()),
        Ok((histogram, repairs)) => {
            expect("bins", bins_of(&histogram), canonical(&expected))?;
            if let Some(length) = length {
                expect("bytes consumed", (length - repairs.trailing_bytes) as i64, library)?;
            }
            let repaired = expected != canonical(&expected);
            if repaired {
                expect("a repair is reported", repairs.is_none(), false)?;
            }
            Ok(repaired)
        }
    }
}

/// Text that only lacks its padding reads as the padded one does.
fn unpadded(text: &str, read: &(Histogram, Repairs)) -> Outcome {
    let dense: String = text.split_ascii_whitespace().collect();
    let padding = (4 - dense.len() % 4) % 4;
    let padded = dense + &"=".repeat(padding);
    let (expected, _) = decode_base64(&padded).map_err(|error| error.to_string())?;
    expect("padding was missing, and reported", (padding > 0, read.1.loose_base64), (true, true))?;
    expect("bins", &read.0, &expected)?;
    Ok(true)
}
