"""Histograms of the LogLinear10 scheme, and a recorder of durations, over the C library."""

import base64
import ctypes
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from . import hdr
from .library import LIBRARY as C
from .library import Bin, Bucket, Repairs, byref, c_char_p, c_double, c_uint64

ZERO_BIN = Bin(0, 0)
NAN_BIN = Bin(-1, 0)
PLACEMENTS = ("high", "low", "mid", "harmonic_mean")
_COUNT_MAX = 2**64 - 1


class Quantile(NamedTuple):
    """An estimate with what is certain: the sample of its rank lies between `lo` and `hi`."""

    value: float
    lo: float
    hi: float


class FormatError(ValueError):
    """Bytes or a text that are no histogram."""


def bin_of(value: float) -> Bin:
    """The bin of a number."""
    return C.ogive_bin_of(value)


def bin_of_integer(value: int, scale: int) -> Bin:
    """The bin of value * 10**scale, in integers throughout; nanoseconds are (ns, -9). A value of 64 bits."""
    if not -(2**63) <= value < 2**63 or not -(2**31) <= scale < 2**31:
        raise OverflowError("a value of 64 bits and a scale of 32 are needed")
    return C.ogive_bin_of_integer(value, scale)


def bin_bounds(of: Bin) -> tuple[float, float]:
    """The edges on the real axis."""
    lo, hi = c_double(), c_double()
    C.ogive_bin_bounds(of, byref(lo), byref(hi))
    return lo.value, hi.value


def bin_midpoint(of: Bin) -> float:
    """The harmonic mean of the edges; 0 of the zero bin."""
    return C.ogive_bin_midpoint(of)


def bin_label(of: Bin) -> str:
    """The edge nearer zero: 1.2e-3."""
    text = ctypes.create_string_buffer(16)
    C.ogive_bin_label(of, text)
    return text.value.decode()


def bin_parse(label: str) -> Bin:
    """The bin of a label. Raises ValueError for a text that is neither a decimal number below 1e128 nor NaN."""
    found = Bin()
    if not C.ogive_bin_parse(label.encode(), byref(found)):
        raise ValueError(f"{label!r} is no decimal number below 1e128, nor NaN")
    return found


def _count(count: int) -> int:
    if not 0 <= count <= _COUNT_MAX:
        raise OverflowError("a count is an integer from 0 to 2**64-1")
    return count


class Histogram:
    """Counted bins. Of one thread at a time."""

    __slots__ = ("_hist",)

    def __init__(self, values: Iterable[float] = ()) -> None:
        self._hist = _some(C.ogive_hist_new())
        for value in values:
            self.record(value)

    @classmethod
    def _own(cls, hist: int | None) -> "Histogram":
        self = cls.__new__(cls)
        self._hist = _some(hist)
        return self

    def __del__(self) -> None:
        if hasattr(self, "_hist"):
            C.ogive_hist_free(self._hist)

    def record(self, value: float, count: int = 1) -> None:
        """Counts a sample, once or `count` times."""
        _held(C.ogive_hist_record(self._hist, value, _count(count)))

    def record_bin(self, of: Bin, count: int) -> None:
        """Counts samples of a bin. Sum and extremes are then not known. Raises ValueError for an invalid bin."""
        if not C.ogive_hist_record_bin(self._hist, of, _count(count)):
            raise ValueError(f"{of} is no bin")

    def copy(self) -> "Histogram":
        """An independent copy."""
        return Histogram._own(C.ogive_hist_clone(self._hist))

    def merge(self, other: "Histogram") -> None:
        """Adds the samples of another histogram. Bins merge exactly."""
        added = other.copy() if other is self else other
        _held(C.ogive_hist_merge(self._hist, added._hist))

    def subtract(self, other: "Histogram") -> int:
        """Takes samples away; returns how many bins held fewer than were to be taken, and are left empty."""
        taken = other.copy() if other is self else other
        return C.ogive_hist_subtract(self._hist, taken._hist)

    def remove(self, value: float, count: int) -> int:
        """Takes up to `count` samples of the bin of `value` away; returns how many."""
        return C.ogive_hist_remove(self._hist, value, _count(count))

    def clamp(self, lower: float, upper: float) -> None:
        """Keeps the bins that touch [lower, upper]."""
        C.ogive_hist_clamp(self._hist, lower, upper)

    def compress_below(self, exponent: int) -> None:
        """Bins with a smaller decimal exponent go to the zero bin, those with it to the whole digit below."""
        C.ogive_hist_compress_below(self._hist, exponent)

    @property
    def count(self) -> int:
        """All samples, those that are not numbers included. Saturates at 2**64-1."""
        return C.ogive_hist_count(self._hist)

    @property
    def nan(self) -> int:
        """Samples that are not numbers, infinite, or not below 1e128."""
        return C.ogive_hist_nan(self._hist)

    def bins(self) -> Iterator[tuple[Bin, int]]:
        """Filled bins with their counts: NaN, then ascending on the real axis."""
        for at in range(C.ogive_hist_bins(self._hist)):
            found, count = Bin(), c_uint64()
            C.ogive_hist_bin_at(self._hist, at, byref(found), byref(count))
            yield found, count.value

    @property
    def exact_sum(self) -> float | None:
        """The sum of the samples, where it is known exactly."""
        total = c_double()
        return total.value if C.ogive_hist_exact_sum(self._hist, byref(total)) else None

    @property
    def extremes(self) -> tuple[float, float] | None:
        """The least and the greatest sample, where they are known."""
        least, greatest = c_double(), c_double()
        return (least.value, greatest.value) if C.ogive_hist_extremes(self._hist, byref(least), byref(greatest)) else None

    def quantile(self, q: float) -> Quantile | None:
        """The q quantile and the edges between which its sample lies. None without samples, or when q is not 0 to 1."""
        value, lo, hi = c_double(), c_double(), c_double()
        found = C.ogive_hist_quantile(self._hist, q, byref(value), byref(lo), byref(hi))
        return Quantile(value.value, lo.value, hi.value) if found else None

    def quantile_type1(self, q: float) -> float:
        """OpenHistogram's default quantile."""
        return C.ogive_hist_quantile_type1(self._hist, q)

    def quantile_type7(self, q: float) -> float:
        """OpenHistogram's type 7."""
        return C.ogive_hist_quantile_type7(self._hist, q)

    def fraction_below(self, x: float) -> float:
        """The share of samples below x."""
        return C.ogive_hist_fraction_below(self._hist, x)

    def count_below(self, x: float, inclusive: bool = True) -> int:
        """Samples in the bins below that of x, with it or without."""
        return C.ogive_hist_count_below(self._hist, x, inclusive)

    def count_above(self, x: float, inclusive: bool = True) -> int:
        """Samples in the bins above that of x, with it or without."""
        return C.ogive_hist_count_above(self._hist, x, inclusive)

    def count_nearby(self, x: float) -> int:
        """Samples in the bin of x."""
        return C.ogive_hist_count_nearby(self._hist, x)

    @property
    def sum(self) -> float:
        """The exact sum where it is known, else that of the midpoints."""
        return C.ogive_hist_sum(self._hist)

    @property
    def mean(self) -> float:
        """The mean: exact where the sum is known. NaN without samples."""
        return C.ogive_hist_mean(self._hist)

    @property
    def stddev(self) -> float:
        """The standard deviation of the midpoints. NaN without samples."""
        return C.ogive_hist_stddev(self._hist)

    def openhistogram_moment(self, k: int) -> float:
        """The k-th raw moment as OpenHistogram has it, divided by n**k."""
        return C.ogive_hist_moment(self._hist, k)

    def to_bytes(self) -> bytes:
        """The OpenHistogram byte form."""
        length = C.ogive_hist_encode(self._hist, None, 0)
        buffer = ctypes.create_string_buffer(length)
        C.ogive_hist_encode(self._hist, buffer, length)
        return buffer.raw

    def to_base64(self) -> str:
        """The byte form in base64."""
        length = C.ogive_hist_encode_base64(self._hist, None, 0)
        buffer = ctypes.create_string_buffer(length + 1)
        C.ogive_hist_encode_base64(self._hist, buffer, length + 1)
        return buffer.value.decode()

    @classmethod
    def from_bytes(cls, data: bytes) -> tuple["Histogram", Repairs]:
        """Reads the byte form, and says what had to be mended. Raises FormatError."""
        return cls._read(C.ogive_hist_decode, data)

    @classmethod
    def from_base64(cls, text: str) -> tuple["Histogram", Repairs]:
        """Reads the base64 form, and says what had to be mended. Raises FormatError."""
        return cls._read(C.ogive_hist_decode_base64, text.encode("utf-8", "surrogatepass"))

    @classmethod
    def _read(cls, read, data: bytes) -> tuple["Histogram", Repairs]:  # noqa: ANN001
        repairs, error = Repairs(), c_char_p()
        hist = read(data, len(data), byref(repairs), byref(error))
        if hist is None:
            raise FormatError((error.value or b"").decode())
        return cls._own(hist), repairs

    @classmethod
    def from_hdr(cls, data: bytes, unit: float) -> "Histogram":
        """Reads HdrHistogram's encoding of version 2, plain or compressed, as its libraries in all languages write it.

        `unit` is the value of one recorded unit: 1e-9 makes nanoseconds seconds. Each count goes to the bin that holds the middle of
        its own; sum and extremes are not known. Raises FormatError for another form, one that is cut, or a compressed one that unfolds
        to more than 16 MiB.
        """
        error = c_char_p()
        try:
            plain = hdr.plain(data)
        except ValueError as refused:
            raise FormatError(str(refused)) from None
        hist = C.ogive_hist_decode_hdr(plain, len(plain), unit, byref(error))
        if hist is None:
            raise FormatError((error.value or b"").decode())
        return cls._own(hist)

    @classmethod
    def from_hdr_base64(cls, text: str, unit: float) -> "Histogram":
        """As from_hdr, of a text in base64: a line of an interval log has it."""
        try:
            data = base64.b64decode(text.strip(), validate=True)
        except ValueError as refused:
            raise FormatError(str(refused)) from None
        return cls.from_hdr(data, unit)

    @classmethod
    def from_buckets(cls, placement: str, buckets: Iterable[tuple[int, float, float]]) -> "Histogram":
        """Places ascending buckets (count, lower, upper) of another scheme: "high", "low", "mid" or "harmonic_mean"."""
        given = [Bucket(_count(count), lower, upper) for count, lower, upper in buckets]
        return cls._own(C.ogive_hist_from_buckets(PLACEMENTS.index(placement), (Bucket * len(given))(*given), len(given)))


class Recorder:
    """Counts durations of any number of threads. What is taken is each sample once."""

    __slots__ = ("_recorder",)

    def __init__(self) -> None:
        self._recorder = _some(C.ogive_recorder_new())

    def __del__(self) -> None:
        if hasattr(self, "_recorder"):
            C.ogive_recorder_free(self._recorder)

    def record_nanoseconds(self, nanoseconds: int) -> None:
        """Counts a duration; one below zero counts as zero, one beyond 64 bits as the greatest."""
        C.ogive_recorder_record_shared(self._recorder, min(max(nanoseconds, 0), _COUNT_MAX))

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Counts how long a `with` block takes, also when it raises."""
        start = time.perf_counter_ns()
        try:
            yield
        finally:
            self.record_nanoseconds(time.perf_counter_ns() - start)

    def take(self) -> Histogram:
        """What was counted since the last call, in seconds. Of one thread."""
        return Histogram._own(C.ogive_recorder_take(self._recorder))


def _some(pointer: int | None) -> int:
    if pointer is None:
        raise MemoryError
    return pointer


def _held(done: bool) -> None:
    if not done:
        raise MemoryError
