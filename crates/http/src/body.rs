//! A request's body to memory: bounded, counted against what may be in memory at once, unpacked if it is packed.
//!
//! Limits: [`BODY_BYTES_MAX`] as sent and again as unpacked, and no more than [`RATIO_MAX`] times what was sent; all
//! bodies together hold at most [`Limits::INGEST_KIB`](super::Limits::INGEST_KIB), and all that they unfold to
//! [`Limits::UNFOLDED_KIB`](super::Limits::UNFOLDED_KIB); a body that does not arrive within [`ARRIVAL`], or stands
//! still for [`STALL`], is given up, and one that comes slowly gives way to others where there is no room for both
//! ([`super::room`]).
//! Failure: a body that is too large is read to its end and thrown away, within bounds, so that its sender sees the
//! answer and not a broken connection.

use std::future::poll_fn;
use std::io::Read;
use std::net::IpAddr;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{BodyDataStream, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use futures_core::Stream;
use ogive_door::room::Share;
use ogive_model::wire::FRAME_BYTES_MAX;

use ogive_protocol::snappy;

use super::App;
use super::error::ApiError;
use super::peer::Peer;
use super::room::{ArrivalGuard, RATE_MIN};
use crate::web::Evicted;
use ogive_door::counters::Protocol;

/// The largest frame is the largest body: 32 MiB.
pub(super) const BODY_BYTES_MAX: usize = FRAME_BYTES_MAX;

/// 256 MiB are thrown away at most, within 10 s, before the connection is closed.
const DRAIN_BYTES_MAX: usize = 256 << 20;
const DRAIN: Duration = Duration::from_secs(10);

/// 60 s for 32 MiB is a link of 4.5 Mbit/s; slower clients send smaller batches.
pub(super) const ARRIVAL: Duration = Duration::from_secs(60);

/// 20 s without a byte: longer than retransmission takes on a working link.
const STALL: Duration = Duration::from_secs(20);

/// 256 KiB are allocated at first; more once that has arrived.
const FIRST_BYTES: usize = 256 * 1024;

/// The response to a body that arrived too slowly.
const GAVE_WAY: &str =
    "the body came slower than 16 KiB/s while there was no room for others; send it again, or in smaller parts";
const _: () = assert!(RATE_MIN == 16 << 10);

/// A compressed stream may refer back 8 MiB (zstd's own limit for a decoder is 128): `zstd -19` needs that.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// 400 times is more than measurements compress (20 to 100), and less than gzip can (1,030) or zstd (10,000): a higher
/// ratio indicates an attack. Bodies that stay below [`RATIO_FREE_BYTES`] may have any ratio.
const RATIO_MAX: usize = 400;

/// 1 MiB: such a small body does no harm, whatever its ratio.
const RATIO_FREE_BYTES: usize = 1 << 20;

/// A body, and its share of the memory for bodies.
pub(super) struct ChargedBody {
    pub(super) bytes: Vec<u8>,
    share: Share,
    packing: Packing,
}

/// How a body is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    None,
    Gzip,
    Zstd,
    /// One block, as remote write has it.
    Snappy,
}

impl Packing {
    fn from_headers(headers: &HeaderMap) -> Result<Self, ApiError> {
        let Some(value) = headers.get(header::CONTENT_ENCODING) else { return Ok(Self::None) };
        match value.as_bytes() {
            b"" | b"identity" => Ok(Self::None),
            b"gzip" => Ok(Self::Gzip),
            b"zstd" => Ok(Self::Zstd),
            b"snappy" => Ok(Self::Snappy),
            other => {
                let other = String::from_utf8_lossy(other);
                Err(ApiError::unsupported(format!("content encoding {other:?}; send gzip, zstd, snappy or none")))
            }
        }
    }
}

/// Reads the body of `request`, which arrived by `protocol`, if the store takes batches now.
pub(super) async fn read(app: &App, protocol: Protocol, request: Request) -> Result<ChargedBody, ApiError> {
    let packing = Packing::from_headers(request.headers())?;
    if let Err(refusal) = app.backend.admit() {
        discard(request).await;
        return Err(ApiError::from(&refusal));
    }
    let declared = declared_length(request.headers());
    let waits = request.headers().contains_key(header::EXPECT);
    let arriving = app.limits.ingest_kib.begin(client(&request));
    let mut stream = request.into_body().into_data_stream();
    let mut held = ChargedBody { bytes: Vec::new(), share: Share::new(&app.limits.ingest_kib.free_kib), packing };
    let arrived = match declared {
        Some(length) if length > BODY_BYTES_MAX => Err(too_large(length)),
        _ => fill(&mut held, &mut stream, declared.unwrap_or(0), BODY_BYTES_MAX, &arriving).await,
    };
    drop(arriving);
    if let Err(error) = arrived {
        count_evicted(app, &error);
        // A client that waits for "100 Continue" has sent nothing yet.
        if !waits {
            drop(held);
            let _ = tokio::time::timeout(DRAIN, drain(&mut stream)).await;
        }
        return Err(error);
    }
    app.counters.of(protocol).bytes.add(held.bytes.len() as u64);
    Ok(held)
}

/// Reads a form of at most `bytes_max`. Forms have a memory budget of their own, so that queries and ingest do not
/// obstruct each other.
pub(super) async fn form(app: &App, request: Request, bytes_max: usize) -> Result<ChargedBody, ApiError> {
    let share = Share::new(&app.limits.forms_kib.free_kib);
    let arriving = app.limits.forms_kib.begin(client(&request));
    let mut held = ChargedBody { bytes: Vec::new(), share, packing: Packing::None };
    let filled = fill(&mut held, &mut request.into_body().into_data_stream(), 0, bytes_max, &arriving).await;
    match filled.inspect_err(|error| count_evicted(app, error)) {
        Ok(()) => Ok(held),
        Err(error) if error.status == axum::http::StatusCode::PAYLOAD_TOO_LARGE => {
            Err(ApiError::too_large(format!("the form is longer than {bytes_max} bytes")))
        }
        Err(error) => Err(error),
    }
}

/// Discards the body of `request`, within limits, so that its sender sees the response and not a broken connection.
pub(super) async fn discard(request: Request) {
    // A client that waits for "100 Continue" has sent nothing yet.
    if !request.headers().contains_key(header::EXPECT) {
        let _ = tokio::time::timeout(DRAIN, drain(&mut request.into_body().into_data_stream())).await;
    }
}

fn declared_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn client(request: &Request) -> Option<IpAddr> {
    request.extensions().get::<Peer>().map(Peer::address)
}

fn count_evicted(app: &App, error: &ApiError) {
    if error.message == GAVE_WAY {
        app.web.evicted(Evicted::Body);
    }
}

/// The declared length must be free at the beginning, but only what has arrived is held, so a client that declares much
/// and sends nothing takes nothing from others.
async fn fill(
    held: &mut ChargedBody,
    stream: &mut BodyDataStream,
    declared: usize,
    bytes_max: usize,
    arriving: &ArrivalGuard,
) -> Result<(), ApiError> {
    if let Err(busy) = held.share.has_room_for(declared) {
        let kib = u32::try_from(declared.div_ceil(1024)).unwrap_or(u32::MAX);
        // Released immediately: it is taken as the body arrives.
        drop(arriving.others_give(kib).await.ok_or(busy)?);
    }
    held.bytes.reserve(declared.min(FIRST_BYTES));
    let all = async {
        while let Some(piece) = next_within(stream, arriving).await? {
            let length = held.bytes.len() + piece.len();
            if length > bytes_max {
                return Err(too_large(length));
            }
            cover_among(&mut held.share, length, arriving).await?;
            held.bytes.extend_from_slice(&piece);
            arriving.came(piece.len(), length);
        }
        Ok(())
    };
    let slow = || ApiError {
        status: axum::http::StatusCode::REQUEST_TIMEOUT,
        ..ApiError::bad_data(format!("the body did not arrive within {} s; send smaller batches", ARRIVAL.as_secs()))
    };
    tokio::time::timeout(ARRIVAL, all).await.map_err(|_| slow())?
}

/// Takes as much as `bytes` need in total; bodies that arrive slowly give way.
async fn cover_among(share: &mut Share, bytes: usize, arriving: &ArrivalGuard) -> Result<(), ApiError> {
    let Err(busy) = share.cover(bytes) else { return Ok(()) };
    let permit = arriving.others_give(share.missing_kib(bytes)).await.ok_or(busy)?;
    share.put(permit);
    Ok(())
}

/// The next piece, unless it takes too long or others need the memory.
async fn next_within(stream: &mut BodyDataStream, arriving: &ArrivalGuard) -> Result<Option<Bytes>, ApiError> {
    tokio::select! {
        piece = next(stream) => piece,
        () = arriving.requested() => Err(ApiError::busy(GAVE_WAY)),
        () = tokio::time::sleep(STALL) => Err(stalled()),
    }
}

fn stalled() -> ApiError {
    let sentence = format!("no byte of the body arrived for {} s; send it again", STALL.as_secs());
    ApiError { status: axum::http::StatusCode::REQUEST_TIMEOUT, ..ApiError::bad_data(sentence) }
}

/// The next piece of a body that is taken as it comes, and may be of any length; none at its end.
pub(super) async fn piece(stream: &mut BodyDataStream) -> Result<Option<Bytes>, ApiError> {
    tokio::time::timeout(STALL, next(stream)).await.map_err(|_| stalled())?
}

async fn next(stream: &mut BodyDataStream) -> Result<Option<Bytes>, ApiError> {
    match poll_fn(|context| Pin::new(&mut *stream).poll_next(context)).await {
        None => Ok(None),
        Some(Ok(piece)) => Ok(Some(piece)),
        Some(Err(error)) => Err(ApiError::bad_data(format!("the body broke off: {error}"))),
    }
}

async fn drain(stream: &mut BodyDataStream) {
    let mut dropped = 0;
    while dropped < DRAIN_BYTES_MAX
        && let Ok(Some(piece)) = next(stream).await
    {
        dropped += piece.len();
    }
}

fn broken(error: ogive_protocol::Error) -> ApiError {
    ApiError::bad_data(error.to_string())
}

fn too_large(found: usize) -> ApiError {
    ApiError::too_large(format!(
        "the body has {found} bytes or more, above the limit of {BODY_BYTES_MAX}; split it into several batches"
    ))
}

impl ChargedBody {
    pub(super) fn is_packed(&self) -> bool {
        self.packing != Packing::None
    }

    /// A body of `bytes` that were made from this one, while this one stays.
    pub(super) fn beside(&self, bytes: Vec<u8>) -> Result<Self, ApiError> {
        let mut share = self.share.another();
        share.cover(bytes.len())?;
        Ok(Self { bytes, share, packing: Packing::None })
    }

    /// Treats a body whose sender did not state its encoding as a snappy block.
    pub(super) fn assume_snappy(&mut self) {
        if self.packing == Packing::None {
            self.packing = Packing::Snappy;
        }
    }

    /// Treats it as compressed with gzip, whatever its header says.
    pub(super) fn assume_gzip(&mut self) {
        self.packing = Packing::Gzip;
    }

    /// Replaces the body by `bytes` that were made from it.
    pub(super) fn replace(&mut self, bytes: Vec<u8>) -> Result<(), ApiError> {
        self.share.cover(self.bytes.len() + bytes.len())?;
        self.bytes = bytes;
        Ok(())
    }

    /// Decompresses the body, if it is compressed. Takes processor time: not for the async threads when it is large.
    pub(super) fn unpack(&mut self) -> Result<(), ApiError> {
        let packing = std::mem::replace(&mut self.packing, Packing::None);
        let packed = match packing {
            Packing::None => return Ok(()),
            _ => std::mem::take(&mut self.bytes),
        };
        match packing {
            Packing::None => Ok(()),
            Packing::Snappy => {
                let length = usize::try_from(snappy::declared(&packed).map_err(broken)?).unwrap_or(usize::MAX);
                if length > BODY_BYTES_MAX {
                    return Err(too_large(length));
                }
                self.share.cover(packed.len() + length)?;
                self.bytes = snappy::unpack(&packed, BODY_BYTES_MAX).map_err(broken)?;
                Ok(())
            }
            Packing::Gzip => self.unpack_from(flate2::read::MultiGzDecoder::new(&packed[..]), packed.len()),
            Packing::Zstd => {
                let broken = |error: std::io::Error| ApiError::bad_data(format!("the body is not zstd: {error}"));
                let mut decoder = zstd::stream::read::Decoder::with_buffer(&packed[..]).map_err(broken)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(broken)?;
                self.unpack_from(decoder, packed.len())
            }
        }
    }

    fn unpack_from(&mut self, mut source: impl Read, packed: usize) -> Result<(), ApiError> {
        let mut piece = [0; 16 * 1024];
        loop {
            let read = source
                .read(&mut piece)
                .map_err(|error| ApiError::bad_data(format!("the body cannot be unpacked: {error}")))?;
            if read == 0 {
                return Ok(());
            }
            let length = self.bytes.len() + read;
            if length > BODY_BYTES_MAX {
                return Err(too_large(length));
            }
            if length > RATIO_FREE_BYTES.max(packed.saturating_mul(RATIO_MAX)) {
                return Err(ApiError::too_large(format!(
                    "the body unpacks to more than {RATIO_MAX} times its {packed} bytes; send it less packed"
                )));
            }
            self.share.cover(packed + length)?;
            self.bytes.extend_from_slice(&piece[..read]);
        }
    }

    #[cfg(test)]
    fn packed(bytes: Vec<u8>, packing: Packing, kib: usize) -> Self {
        let share = Share::new(&std::sync::Arc::new(tokio::sync::Semaphore::new(kib)));
        Self { bytes, share, packing }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    const ROOM_KIB: usize = 65_536;

    #[test]
    fn packed_bodies_come_back() {
        let bytes = b"hello ".repeat(10_000);
        for (packed, packing) in [
            (bytes.clone(), Packing::None),
            (gzip(&bytes), Packing::Gzip),
            (zstd::encode_all(&bytes[..], 3).unwrap(), Packing::Zstd),
        ] {
            let mut held = ChargedBody::packed(packed, packing, ROOM_KIB);
            held.unpack().unwrap();
            assert_eq!(held.bytes, bytes, "{packing:?}");
        }
    }

    #[test]
    fn bombs_stop_at_the_limit() {
        // Bytes that pack to a quarter or so.
        let mut state = 1_u32;
        let next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 30) as u8
        };
        let above: Vec<u8> = std::iter::repeat_with(next).take(BODY_BYTES_MAX + 1).collect();
        let exact = &above[..BODY_BYTES_MAX];
        for packing in [Packing::Gzip, Packing::Zstd] {
            let pack = |bytes: &[u8]| {
                if packing == Packing::Gzip { gzip(bytes) } else { zstd::encode_all(bytes, 3).unwrap() }
            };
            ChargedBody::packed(pack(exact), packing, ROOM_KIB).unpack().unwrap();
            let error = ChargedBody::packed(pack(&above), packing, ROOM_KIB).unpack().unwrap_err();
            assert_eq!(error.status, axum::http::StatusCode::PAYLOAD_TOO_LARGE, "{packing:?}");
        }
    }

    #[test]
    fn what_unpacks_to_far_too_much_is_refused_before_it_is_large() {
        let zeros = vec![0; RATIO_FREE_BYTES * 2];
        let (free, more) = (&zeros[..RATIO_FREE_BYTES], &zeros[..RATIO_FREE_BYTES + 1]);
        let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 3).unwrap();
        ChargedBody::packed(zstd(free), Packing::Zstd, ROOM_KIB).unpack().unwrap();
        let error = ChargedBody::packed(zstd(more), Packing::Zstd, ROOM_KIB).unpack().unwrap_err();
        assert!(error.status == axum::http::StatusCode::PAYLOAD_TOO_LARGE && error.message.contains("400 times"));
    }

    #[test]
    fn unpacking_counts_against_the_memory_for_bodies() {
        let error = ChargedBody::packed(gzip(&vec![0; RATIO_FREE_BYTES]), Packing::Gzip, 512).unpack().unwrap_err();
        assert_eq!(error.status, axum::http::StatusCode::TOO_MANY_REQUESTS);
    }

    #[test]
    fn broken_packings_say_so() {
        for packing in [Packing::Gzip, Packing::Zstd] {
            let error = ChargedBody::packed(b"not packed at all".to_vec(), packing, ROOM_KIB).unpack().unwrap_err();
            assert_eq!(error.status, axum::http::StatusCode::BAD_REQUEST, "{packing:?}");
        }
        let mut cut = gzip(&b"hello ".repeat(1000));
        cut.truncate(cut.len() - 3);
        assert!(ChargedBody::packed(cut, Packing::Gzip, ROOM_KIB).unpack().is_err());
    }
}
