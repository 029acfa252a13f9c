//! Signature Version 4 of requests to AWS, as documented in "Create a signed AWS API request", for requests without a
//! query.
//!
//! Why not a library: it is two hashes over a few lines; AWS's library brings 25 crates.

use ring::{digest, hmac};

use ogive_model::WallNs;
use ogive_text::calendar::rfc3339;
use ogive_text::hex;

/// Who signs, for what.
pub(super) struct Signer<'a> {
    pub(super) access_key_id: &'a str,
    pub(super) secret_access_key: &'a str,
    pub(super) region: &'a str,
    pub(super) service: &'a str,
}

/// A request as the signature sees it.
pub(super) struct SignedRequest<'a> {
    pub(super) method: &'a str,
    /// Without a query.
    pub(super) path: &'a str,
    /// In lower case and in the order of their names, `host` and `x-amz-date` among them.
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: &'a [u8],
}

/// `20150830T123600Z`.
pub(super) fn date(wall: WallNs) -> String {
    rfc3339(wall.to_ms().0).replace(['-', ':'], "")
}

impl Signer<'_> {
    /// The value of the header `authorization` of a request at `date`.
    pub(super) fn authorization(&self, requested: &SignedRequest<'_>, date: &str) -> String {
        let day = &date[..8];
        let scope = format!("{day}/{}/{}/aws4_request", self.region, self.service);
        let signed: Vec<&str> = requested.headers.iter().map(|(name, _)| *name).collect();
        let signed = signed.join(";");
        let headers: String =
            requested.headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
        let SignedRequest { method, path, body, .. } = requested;
        let canonical = format!("{method}\n{path}\n\n{headers}\n{signed}\n{}", hash(body));
        let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hash(canonical.as_bytes()));
        let first = format!("AWS4{}", self.secret_access_key).into_bytes();
        let parts = [day, self.region, self.service, "aws4_request"];
        let key = parts.iter().fold(first, |key, part| sign(&key, part.as_bytes()));
        let signature = hex::write(&sign(&key, text.as_bytes()));
        format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={signed}, Signature={signature}",
            self.access_key_id
        )
    }
}

fn sign(key: &[u8], words: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), words).as_ref().to_vec()
}

fn hash(bytes: &[u8]) -> String {
    hex::write(digest::digest(&digest::SHA256, bytes).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &str = "20150830T123600Z";

    /// The signature of a request of AWS's published test suite (aws-sig-v4-test-suite).
    fn signature(method: &str, headers: &[(&str, &str)], body: &[u8]) -> String {
        let signer = Signer {
            access_key_id: "AKIDEXAMPLE",
            secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
            region: "us-east-1",
            service: "service",
        };
        let header = signer.authorization(&SignedRequest { method, path: "/", headers, body }, DATE);
        let start = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=";
        assert!(header.starts_with(start), "{header}");
        header.rsplit_once("Signature=").unwrap().1.to_owned()
    }

    #[test]
    fn signatures_are_those_of_the_published_suite() {
        let usual = [("host", "example.amazonaws.com"), ("x-amz-date", DATE)];
        // get-vanilla
        assert_eq!(signature("GET", &usual, b""), "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
        // post-vanilla
        assert_eq!(signature("POST", &usual, b""), "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b");
        // post-x-www-form-urlencoded
        let form = [&[("content-type", "application/x-www-form-urlencoded")][..], &usual].concat();
        assert_eq!(
            signature("POST", &form, b"Param1=value1"),
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"
        );
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "19700101T000000Z"),
            (1_440_938_160, DATE),
            (951_782_400, "20000229T000000Z"),
            (1_709_251_199, "20240229T235959Z"),
            (1_709_251_200, "20240301T000000Z"),
            (-1, "19691231T235959Z"),
        ] {
            assert_eq!(date(WallNs(seconds * 1_000_000_000)), text);
        }
    }
}
