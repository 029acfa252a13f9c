"""HdrHistogram's compressed form (docs/formats/hdrhistogram.md), unfolded; the C library reads what is in it."""

import zlib

# 16 MiB: all 835,584 counts that five digits can have, at nine bytes, twice.
_PLAIN_BYTES_MAX = 16 << 20
# The first bytes of version 2, without the word size, which has no meaning there.
_COMPRESSED = 0x1C849304
_COOKIE_MASK = 0xFFFFFF0F


def plain(data: bytes) -> bytes:
    """The plain form of either form; other bytes are returned as they are. Raises ValueError."""
    if int.from_bytes(data[:4], "big") & _COOKIE_MASK != _COMPRESSED or len(data) < 4:
        return data
    length = int.from_bytes(data[4:8], "big")
    if len(data) < 8 or length > len(data) - 8:
        raise ValueError(f"the input of {len(data)} bytes ends inside the compressed form")
    unfolding = zlib.decompressobj()
    try:
        unfolded = unfolding.decompress(data[8 : 8 + length], _PLAIN_BYTES_MAX + 1)
    except zlib.error as error:
        raise ValueError(f"the compressed form is not zlib: {error}") from None
    if len(unfolded) > _PLAIN_BYTES_MAX:
        raise ValueError("the compressed form unfolds to more than 16 MiB")
    if not unfolding.eof:
        raise ValueError("the compressed form is cut")
    return unfolded
