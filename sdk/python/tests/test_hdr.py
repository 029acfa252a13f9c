"""What hdrhistogram for Python writes, and what is broken of it."""

import base64
import random
import zlib

from hdrh.histogram import HdrHistogram

from ogive import FormatError, Histogram


def written(least, digits, values):
    """A histogram of theirs, encoded, and what is to be read of it."""
    theirs, expected, source = HdrHistogram(least, 3_600_000_000_000, digits), Histogram(), random.Random(7)
    for at in range(values):
        assert theirs.record_value(least + (source.randrange(3_000_000_000_000) >> at % 40), 3)
    for step in theirs.get_recorded_iterator():
        lowest = theirs.get_lowest_equivalent_value(step.value_iterated_to)
        width = theirs.get_highest_equivalent_value(lowest) - lowest + 1
        expected.record((lowest + width // 2) / 1e9, step.count_at_value_iterated_to)
    return theirs.encode(), expected


def outcome(form):
    try:
        return Histogram.from_hdr(form, 1e-9).count
    except FormatError:
        return None


def main():
    for digits in range(1, 6):
        for least in (1, 1000):
            text, expected = written(least, digits, 2000)
            read = Histogram.from_hdr_base64(text.decode(), 1e-9)
            assert (read.count, read.to_base64()) == (6000, expected.to_base64()), f"{digits} digits from {least}"
    compressed = base64.b64decode(written(1, 2, 30)[0])
    for form in (zlib.decompress(compressed[8:]), compressed):
        assert outcome(form) == 90
        for length in range(len(form)):
            assert outcome(form[:length]) is None, f"read, with {length} bytes of {len(form)}"
        for bit in range(8 * len(form)):
            broken = bytearray(form)
            broken[bit // 8] ^= 1 << bit % 8
            outcome(bytes(broken))
    print("hdrhistogram of Python: fine")


main()
